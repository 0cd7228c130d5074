// qcodegen log: prints the candidates of each kernel, the winner, and why each other candidate lost.
#include "cli/log.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cli/cli.h"
#include "cli/report.h"
#include "codegen/program/program_io.h"
#include "codegen/program/staging.h"
#include "codegen/tune/tune.h"

namespace qcg {

namespace {

struct LogFlags {
  std::string path, other, kernel, status, target, format = "text";
  int64_t m = 0;
};

std::string check_status(const std::string& word) {
  std::string known = "extern";
  for (int i = 0; i <= static_cast<int>(TrialStatus::separate); ++i)
    known += fmt::format(", {}", trial_status_name(static_cast<TrialStatus>(i)));
  return (", " + known + ",").find(", " + word + ",") != std::string::npos ? "" : word + " is not one of " + known;
}

bool selected(const TuneRecord& r, const LogFlags& flags) {
  if (flags.m > 0 && r.m != flags.m && !(flags.m >= r.m_min && flags.m <= r.m_max)) return false;
  if (!flags.status.empty() && status_of(r) != flags.status) return false;
  if (!flags.target.empty() && !r.is_of(flags.target)) return false;
  if (flags.kernel.empty()) return true;
  if (fnmatch(flags.kernel.c_str(), r.kernel.c_str(), 0) == 0 || fnmatch(flags.kernel.c_str(), r.step.c_str(), 0) == 0)
    return true;
  return std::any_of(r.nodes.begin(), r.nodes.end(),
                     [&](const std::string& node) { return fnmatch(flags.kernel.c_str(), node.c_str(), 0) == 0; });
}

// Groups records by target, problem and range of m. In a group the winner comes first, then the timed records by time,
// the untimed ones, and last the records that were timed in other rounds.
std::vector<Group> group_records(const std::vector<TuneRecord>& records) {
  std::map<std::tuple<std::string, std::string, int64_t, int64_t>, size_t> index;
  std::vector<Group> groups;
  for (const TuneRecord& r : records) {
    const auto [it, is_new] = index.try_emplace({r.compiled_for, r.problem, r.m_min, r.m_max}, groups.size());
    if (is_new) groups.emplace_back();
    groups[it->second].push_back(&r);
  }
  for (Group& group : groups)
    std::stable_sort(group.begin(), group.end(), [](const TuneRecord* a, const TuneRecord* b) {
      auto rank = [](const TuneRecord* r) {
        return r->status == TrialStatus::separate ? 2e30
               : r->status == TrialStatus::won    ? 0.0
               : r->median_s > 0                  ? r->median_s
                                                  : 1e30;
      };
      return rank(a) < rank(b);
    });
  return groups;
}

std::string describe_status(const TuneRecord& r) {
  std::string text(status_of(r));
  if (r.reason.starts_with("lost by")) return r.reason;
  if (!r.reason.empty()) text += ": " + r.reason;
  return r.resources.empty() ? text : text + " (" + r.resources + ")";
}

std::string built_in(const TuneRecord& r) {
  if (r.status == TrialStatus::reference || is_extern(r)) return "-";
  return r.cache_hit ? "cached" : fmt::format("{:.2f} s", r.compile_s);
}

// The table of the candidates and references that were timed in the same rounds.
void print_contest(const Group& group, MarkNotes& marks) {
  Table table({"#", "candidate", "time", "spread", "GB/s", "GF/s", "roofline", "built", "status"});
  int place = 0;
  for (const TuneRecord* r : group) {
    if (r->status == TrialStatus::separate) continue;
    const bool timed = r->median_s > 0;
    marks.see(*r);
    table.add({fmt::format("{}", ++place), r->candidate.empty() ? r->kernel : r->candidate, format_time(*r),
               format_spread(*r), timed ? fmt::format("{:.1f}", r->gbps) : "",
               timed ? fmt::format("{:.0f}", r->gflops) : "", r->share > 0 ? format_share(r->share) : "", built_in(*r),
               describe_status(*r)});
  }
  if (place > 0) put(table.str());
}

// The table of fusions against the same work apart. Both were timed in separate rounds, so their times cannot be
// compared with those of print_contest().
void print_apart(const Group& group, MarkNotes& marks) {
  Table table({"in separate rounds", "apart", "fused", "spread", "verdict"});
  bool any = false;
  for (const TuneRecord* r : group) {
    if (r->status != TrialStatus::separate) continue;
    any = true;
    marks.see(*r);
    table.add({r->candidate, format_time(*r), r->merged_s > 0 ? format_time(r->merged_s) : "-", format_spread(*r),
               r->reason});
  }
  if (any) put(table.str());
}

void print_text(const std::vector<Group>& groups) {
  MarkNotes marks;
  std::vector<const TuneRecord*> winners;
  std::set<std::string> targets;
  for (const Group& group : groups) targets.insert(group[0]->compiled_for);
  for (const Group& group : groups) {
    const TuneRecord& first = *group[0];
    if (first.status == TrialStatus::won) winners.push_back(&first);
    show("{}{} {}{} {}{} · m={} (serves {}) · {}\n", targets.size() > 1 ? printable(first.compiled_for) + " " : "",
         printable(first.step), first.n, first.k ? fmt::format("x{}", first.k) : "", kind_of(first),
         first.group ? fmt::format(" g{}", first.group) : "", first.m, format_range(first.m_min, first.m_max),
         count_of(first.threads, "thread"));
    print_contest(group, marks);
    print_apart(group, marks);
    show("\n");
  }
  const TuneRecord& r = *groups[0][0];
  const std::string here = this_machine().fingerprint;
  show("{}{}tuned {} on {}\nthis machine: {}\n", marks.str(), describe_winners(winners), format_date(r.date),
       printable(r.machine), r.machine == here ? "same" : here);
}

Error nothing_matches(const std::string& path, const std::vector<TuneRecord>& all) {
  std::set<int64_t> ms;
  std::set<std::string> steps;
  for (const TuneRecord& r : all) ms.insert(r.m), steps.insert(r.step);
  return Error::bad_input(path, "no record matches",
                          fmt::format("this log has m = {}; steps {}", fmt::join(ms, ", "), fmt::join(steps, ", ")));
}

// The records that the flags select. Error BadInput: the log has records, but none of them matches.
Result<std::vector<TuneRecord>> read_selected(const std::string& path, LogFlags flags) {
  if (!flags.target.empty() && is_program(path)) {  // which may be a device alone
    QCG_TRY(manifest, read_manifest_of(path, flags.target));
    flags.target = manifest.target;
  }
  QCG_TRY(records, read_tune_log(tune_log_of(path)));
  std::vector<TuneRecord> out;
  for (const TuneRecord& r : records)
    if (selected(r, flags)) out.push_back(r);
  if (out.empty() && !records.empty()) return nothing_matches(path, records);
  return out;
}

int compare(const Session& session, const LogFlags& flags, const std::vector<TuneRecord>& records) {
  auto others = read_selected(flags.other, flags);
  if (!others.ok()) return fail(session, others.error());
  for (const auto* log : {&records, &std::as_const(*others)})
    for (const TuneRecord& r : *log)
      if (r.compiled_for != log->front().compiled_for)
        return fail(session, {ErrorCode::Usage, "--compare", "the log has records of several targets",
                              "choose one with --target"});
  const LogComparison comparison = compare_logs(records, *others);
  if (comparison.pairs.empty())
    return fail(session, Error::bad_input(flags.other, "no kernel was tuned in both logs",
                                          "compare programs of the same graph, tuned at the same m"));
  if (session.json || flags.format == "json") print_json("log_compare", comparison_json(comparison));
  else put(describe_comparison(comparison));
  return 0;
}

int run_log(const Session& session, const LogFlags& flags) {
  auto records = read_selected(flags.path, flags);
  if (!records.ok()) return fail(session, records.error());
  if (!flags.other.empty()) return compare(session, flags, *records);
  const std::string format = session.json ? "json" : flags.format;
  const std::vector<Group> groups = group_records(*records);
  if (format == "json") {
    nlohmann::json out = nlohmann::json::array();
    for (const TuneRecord& r : *records) out.push_back(nlohmann::json::parse(to_json_line(r)));
    print_json("log", {{"records", std::move(out)}});
  } else if (format == "csv") {
    put(log_csv(groups));
  } else if (format == "inductor") {
    put(log_inductor(groups));
  } else if (groups.empty()) {
    show("no records: this program has no kernels to choose between\n");
  } else {
    print_text(groups);
  }
  return 0;
}

}  // namespace

void add_log_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("log", "print what the tuner tried, what won, and why the others lost");
  auto flags = std::make_shared<LogFlags>();
  sub->add_option("path", flags->path, "a program directory or a tune.jsonl")->required();
  sub->add_option("--kernel", flags->kernel, "only steps, kernels or source nodes that match this glob");
  sub->add_option("--m", flags->m, "only kernels whose range contains this m")->check(whole_number<int64_t>(1));
  sub->add_option("--status", flags->status,
                  "only records with this status: won, extern, lost, wrong, 'failed to build', 'too slow', crashed, "
                  "reference, separate")
      ->check(check_status);
  sub->add_option("--target", flags->target, "only records of this target, of a program that was compiled for several");
  sub->add_option("--compare", flags->other, "another program or log; print its winners next to these");
  add_choice<std::string>(*sub, "--format", flags->format,
                          {{"text", "text"}, {"json", "json"}, {"csv", "csv"}, {"inductor", "inductor"}},
                          "text (default), or a format for other programs");
  sub->footer("Examples:\n  qcodegen log mlp.qcg --kernel 'gate*' --m 16\n  qcodegen log old.qcg --compare new.qcg");
  sub->callback([&session, flags] { session.status = run_log(session, *flags); });
}

}  // namespace qcg

// qcodegen log: what was tried for each kernel, what won, and why each loser lost.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "cli/cli.h"
#include "cli/report.h"
#include "codegen/tune.h"

namespace qcg {

namespace {

struct LogFlags {
  std::string path, kernel, status, format = "text";
  int64_t m = 0;
};

std::string check_status(const std::string& word) {
  std::string known = "extern";
  for (int i = 0; i <= static_cast<int>(TrialStatus::separate); ++i)
    known += fmt::format(", {}", trial_status_name(static_cast<TrialStatus>(i)));
  return (", " + known + ",").find(", " + word + ",") != std::string::npos ? "" : word + " is none of " + known;
}

bool selected(const TuneRecord& r, const LogFlags& flags) {
  if (flags.m > 0 && r.m != flags.m && !(flags.m >= r.m_min && flags.m <= r.m_max)) return false;
  if (!flags.status.empty() && status_of(r) != flags.status) return false;
  if (flags.kernel.empty()) return true;
  if (fnmatch(flags.kernel.c_str(), r.kernel.c_str(), 0) == 0 || fnmatch(flags.kernel.c_str(), r.step.c_str(), 0) == 0)
    return true;
  return std::any_of(r.nodes.begin(), r.nodes.end(),
                     [&](const std::string& node) { return fnmatch(flags.kernel.c_str(), node.c_str(), 0) == 0; });
}

// Records of one problem in one M range, winner first, then by time, then the untimed.
using Group = std::vector<const TuneRecord*>;

std::vector<Group> group_records(const std::vector<TuneRecord>& records) {
  std::map<std::tuple<std::string, int64_t, int64_t>, size_t> index;
  std::vector<Group> groups;
  for (const TuneRecord& r : records) {
    const auto [it, is_new] = index.try_emplace({r.problem, r.m_min, r.m_max}, groups.size());
    if (is_new) groups.emplace_back();
    groups[it->second].push_back(&r);
  }
  for (Group& group : groups)
    std::stable_sort(group.begin(), group.end(), [](const TuneRecord* a, const TuneRecord* b) {
      auto rank = [](const TuneRecord* r) {
        return r->status == TrialStatus::won ? 0.0 : r->median_s > 0 ? r->median_s : 1e30;
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

void print_text(const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    const TuneRecord& first = *group[0];
    show("{} {}x{} {}{} · m={} (serves {}) · {} threads\n", printable(first.step), first.n, first.k, first.scheme,
         first.group ? fmt::format(" g{}", first.group) : "", first.m, format_range(first.m_min, first.m_max),
         first.threads);
    Table table({"#", "candidate", "time", "spread", "GB/s", "GF/s", "roofline", "built", "status"});
    for (size_t i = 0; i < group.size(); ++i) {
      const TuneRecord& r = *group[i];
      const bool timed = r.median_s > 0;
      const double spread = timed ? (r.p90_s - r.p10_s) / 2 / r.median_s * 100 : 0;
      const bool not_built = r.status == TrialStatus::reference || r.status == TrialStatus::separate || is_extern(r);
      table.add({fmt::format("{}", i + 1), r.candidate.empty() ? r.kernel : r.candidate,
                 timed ? format_time(r.median_s) : "-", timed ? fmt::format("±{:.1f} %", spread) : "",
                 timed ? fmt::format("{:.1f}", r.gbps) : "", timed ? fmt::format("{:.0f}", r.gflops) : "",
                 r.share > 0 ? format_percent(r.share) : "",
                 not_built     ? "-"
                 : r.cache_hit ? "cached"
                               : fmt::format("{:.2f} s", r.compile_s),
                 describe_status(r)});
    }
    show("{}\n", table.str());
  }
  if (groups.empty()) return;
  const TuneRecord& r = *groups[0][0];
  show("tuned on {}, {}; this machine: {}\n", r.machine, r.date,
       r.machine == this_machine().fingerprint ? "same" : this_machine().fingerprint);
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

void print_csv(const std::vector<Group>& groups) {
  show(
      "kernel,candidate,scheme,m,n,k,group,threads,median_us,p10_us,p90_us,gbps,gflops,share,compile_s,status,"
      "reason\n");
  for (const Group& group : groups)
    for (const TuneRecord* r : group)
      show("{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.4f},{:.3f},{},{}\n", csv_field(r->kernel),
           csv_field(r->candidate), r->scheme, r->m, r->n, r->k, r->group, r->threads, r->median_s * 1e6,
           r->p10_s * 1e6, r->p90_s * 1e6, r->gbps, r->gflops, r->share, r->compile_s, status_of(*r),
           csv_field(r->reason));
}

// The layout of TORCHINDUCTOR max-autotune's own log, for people who compare the two.
void print_inductor(const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    const TuneRecord& first = *group[0];
    show("AUTOTUNE linear_{}({}x{}, {}x{})\n", first.scheme, first.m, first.k, first.k, first.n);
    double best = 0, tuning = 0;
    for (const TuneRecord* r : group) {
      if (best == 0 && r->median_s > 0) best = r->median_s;
      tuning += r->median_s * r->samples;
      if (r->median_s > 0)
        show("  {} {:.4f} ms {:.1f}% {}\n", r->kernel, r->median_s * 1e3, best / r->median_s * 100, r->candidate);
    }
    show("SingleProcess AUTOTUNE benchmarking takes {:.4f} seconds\n", tuning);
  }
}

int run_log(const Session& session, const LogFlags& flags) {
  std::string path = flags.path;
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) path += "/tune.jsonl";
  auto records = read_tune_log(path);
  if (!records.ok()) return fail(session, records.error());
  std::erase_if(*records, [&](const TuneRecord& r) { return !selected(r, flags); });
  const std::string format = session.json ? "json" : flags.format;
  const std::vector<Group> groups = group_records(*records);
  if (format == "json") {
    nlohmann::json out = nlohmann::json::array();
    for (const TuneRecord& r : *records) out.push_back(nlohmann::json::parse(to_json_line(r)));
    print_json(out);
  } else if (format == "csv") {
    print_csv(groups);
  } else if (format == "inductor") {
    print_inductor(groups);
  } else if (groups.empty()) {
    show("no records{}\n",
         flags.kernel.empty() && flags.status.empty() && flags.m == 0 ? ": compiled without tuning" : " match");
  } else {
    print_text(groups);
  }
  return 0;
}

}  // namespace

void add_log_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("log", "what the tuner tried, what won and why the others lost");
  auto flags = std::make_shared<LogFlags>();
  sub->add_option("path", flags->path, "a program directory or a tune.jsonl")->required();
  sub->add_option("--kernel", flags->kernel, "only steps, kernels or source nodes that match this glob");
  sub->add_option("--m", flags->m, "only the range that serves this m")->check(whole_number<int64_t>(1));
  sub->add_option("--status", flags->status,
                  "won, extern, lost, wrong, 'failed to build', 'too slow', crashed, reference, separate")
      ->check(check_status);
  add_choice<std::string>(*sub, "--format", flags->format,
                          {{"text", "text"}, {"json", "json"}, {"csv", "csv"}, {"inductor", "inductor"}},
                          "text (default), or for other programs");
  sub->footer("Example:\n  qcodegen log mlp.qcg --kernel 'gate*' --m 16");
  sub->callback([&session, flags] { session.status = run_log(session, *flags); });
}

}  // namespace qcg

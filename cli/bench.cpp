// qcodegen bench PROGRAM: times a program's kernels one by one, with cold weights, interleaved with a vendor's kernels
// and with ceilings.
#include "cli/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "cli/report.h"
#include "codegen/compile.h"
#include "codegen/devices/gemm_device.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/launch.h"
#include "codegen/kernel/target.h"
#include "codegen/program/origin.h"
#include "codegen/program/program_io.h"
#include "codegen/tune/step_trial.h"
#include "codegen/vendor/cublaslt.h"
#include "codegen/vendor/vendor_module.h"
#include "runtime/memory.h"

namespace qcg {

namespace {

constexpr int64_t kProgramMs[] = {1, 4, 16, 64, 256, 1024};
constexpr double kProgramBudget_s = 1.0;
constexpr int64_t kMostLinearSize = 1 << 18;

// Checks a comma-separated list. It accepts both vendors everywhere, so that one script serves several machines.
std::string check_against(const std::string& list) {
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');)
    if (word != "onednn" && word != "cublas" && word != "none") return word + " is not one of onednn, cublas, none";
  return "";
}

std::string check_budget(const std::string& text) {
  const double seconds = std::strtod(text.c_str(), nullptr);
  return seconds >= 0.05 && seconds <= 600 ? "" : text + " is not between 0.05 and 600 seconds";
}

struct BenchRow {
  std::string step;
  TuneRecord record;
};

struct BenchReport {
  std::vector<Ceilings> ceilings;  // per thread count
  std::vector<BenchRow> rows;
  std::vector<std::string> warnings;
};

// The weights and params of a vendor's kernel: the last argument and the params after m (docs/program_format.md).
VendorCall vendor_call(const Program& program, const ProgramManifest::Step& step) {
  const auto& buffer = program.manifest().buffers[static_cast<size_t>(step.args.back().buffer)];
  VendorCall out{{}, {program.weights() + buffer.offset, static_cast<size_t>(buffer.bytes)}};
  for (size_t i = 1; i < step.params.size(); ++i) out.params.push_back(step.params[i].evaluate({}).value_or(0));
  return out;
}

Result<BuiltKernel> kernel_for(const std::string& program, const Program& loaded, const ProgramManifest::Step& step,
                               int64_t m) {
  for (const auto& choice : step.kernels) {
    if (choice.m_max >= 0 && m > choice.m_max) continue;
    QCG_TRY(bytes, read_program_file(program + "/" + choice.module));
    BuiltKernel out;
    out.source.name = step.name;
    out.source.symbol = choice.symbol;
    out.bytes = std::move(bytes);
    out.hit = true;
    if (!choice.library.empty()) out.vendor = vendor_call(loaded, step);
    return out;
  }
  return Error::bad_input(program, fmt::format("step {} has no kernel for m={}", step.name, m), "compile it again");
}

// Times one kernel, without rivals, at those of `ms` that its step's number of rows can take. A constant number of rows
// is timed in their place.
StepTrial trial_at(const Plan& plan, int problem, const BuiltKernel& kernel, const std::vector<int64_t>& ms) {
  StepTrial out = step_trial(plan, problem, kernel, {}, TuneMode::full);
  const bool is_fixed = out.timed.size() == 1 && out.timed[0].bucket.m_min == out.timed[0].m;
  if (is_fixed) return out;
  out.timed.clear();
  for (const int64_t m : ms)
    for (const StepTrial::At& at : step_trial(plan, problem, kernel, {&m, 1}, TuneMode::full).timed)
      if (at.m == m) out.timed.push_back(at);
  return out;
}

// Loops, reductions and the other kernels that are not linears.
Status bench_lone_kernels(const BenchFlags& flags, const Plan& plan, const Program& program,
                          const std::vector<int64_t>& ms, const TuneOptions& options, BenchReport& report) {
  std::vector<BuiltKernel> kernels;
  std::vector<int> problems;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const int problem = plan.steps[s].problem;
    if (plan.problems[static_cast<size_t>(problem)].family().has_candidates() ||
        std::find(problems.begin(), problems.end(), problem) != problems.end() ||
        plan.steps[s].name.find(flags.kernel) == std::string::npos)
      continue;
    QCG_TRY(kernel, kernel_for(flags.program(), program, program.manifest().steps[s], 1));
    kernels.push_back(std::move(kernel));
    problems.push_back(problem);
  }
  std::vector<StepTrial> trials;
  for (size_t i = 0; i < kernels.size(); ++i) trials.push_back(trial_at(plan, problems[i], kernels[i], ms));
  QCG_TRY(results, try_steps(trials, options));
  for (size_t i = 0; i < trials.size(); ++i)
    for (const TuneRecord& record : results[i].records) report.rows.push_back({trials[i].step, record});
  return {};
}

// Whether the program was made of this plan, as far as what is read of both goes.
bool is_program_of(const Plan& plan, const ProgramManifest& manifest) {
  return std::ranges::equal(plan.steps, manifest.steps, {}, &PlanStep::name, &ProgramManifest::Step::name) &&
         std::ranges::all_of(plan.constants, [&](const PlanConstant& constant) {
           const auto buffer = static_cast<size_t>(constant.buffer);
           return buffer < manifest.buffers.size() &&
                  manifest.buffers[buffer].kind == ProgramManifest::BufferKind::weights &&
                  manifest.buffers[buffer].bytes == plan.buffers[buffer].bytes.constant();  // of all groups
         });
}

Result<BenchReport> bench_program(const Session& session, const BenchFlags& flags) {
  ProgressLine progress(session);
  QCG_TRY(read, read_manifest_of(flags.program(), flags.target));
  QCG_TRY(options, read_origin(flags.program(), flags.graph, flags.weights, read.target, flags.method));
  QCG_TRY(loaded, load_program(flags.program(), 0, read.target));
  QCG_CHECK(choose_method(loaded, flags.method));
  QCG_TRY(explanation, explain_graph(options));
  const Plan& plan = explanation.plan;
  const ProgramManifest& manifest = loaded.program->manifest();
  if (!is_program_of(plan, manifest))
    return Error::bad_input(flags.program(), "the program was compiled by another version of qcodegen",
                            "compile it again");
  std::vector<int> thread_counts = flags.threads.empty() ? std::vector<int>{this_machine().cores} : flags.threads;
  const std::vector<int64_t> ms =
      flags.m_list.empty() ? std::vector<int64_t>(std::begin(kProgramMs), std::end(kProgramMs)) : flags.m_list;
  BenchReport report;
  if (const std::string missing = why_no_vendor(flags, plan.target.device); !missing.empty()) {
    progress.clear();
    say("warning: " + missing + "\n");
    report.warnings.push_back(missing);
  }
  for (int threads : thread_counts) {
    progress.show("measure this machine");
    report.ceilings.push_back(measure_ceilings(plan.target.isa, threads));
    TuneOptions tune_options{TuneMode::full, threads, flags.budget_s > 0 ? flags.budget_s : kProgramBudget_s,
                             is_timed_against_vendor(flags, plan.target.device), report.ceilings.back()};
    tune_options.cancel = &interrupted();
    std::set<int> seen;
    for (const PlanConstant& constant : plan.constants) {
      if (constant.problem < 0 || !seen.insert(constant.problem).second) continue;
      const Problem& problem = plan.problems[constant.problem].get<Problem>();
      size_t s = 0;
      while (plan.steps[s].problem != constant.problem) ++s;
      if (!flags.kernel.empty() && plan.steps[s].name.find(flags.kernel) == std::string::npos) continue;
      const auto& buffer = manifest.buffers[static_cast<size_t>(constant.buffer)];
      const std::span<const std::byte> packed(loaded.program->weights() + buffer.offset,
                                              static_cast<size_t>(constant.bytes));
      for (int64_t m : ms) {
        if (m < problem.m_min || m > problem.m_max) continue;
        progress.show(fmt::format("{} m={} on {} threads", plan.steps[s].name, m, threads));
        QCG_TRY(kernel, kernel_for(flags.program(), *loaded.program, manifest.steps[s], m));
        Candidate candidate;
        if (!kernel.vendor) {
          const auto candidates = gemm_device(plan.target.device).candidates(problem, plan.target, m, m);
          if (candidates.empty()) return Error::internal(plan.steps[s].name, fmt::format("has no kernel for m={}", m));
          candidate = candidates[0];
        }
        QCG_TRY(result, tune(problem, constant.segments, packed, {m, m, m}, {candidate}, {kernel}, tune_options));
        if (result.winner < 0)
          return Error::internal(plan.steps[s].name, "the kernel is wrong: " + result.records[0].reason);
        for (const TuneRecord& record : result.records) report.rows.push_back({plan.steps[s].name, record});
      }
    }
    progress.show(fmt::format("other kernels than linears on {} threads", threads));
    QCG_CHECK(bench_lone_kernels(flags, plan, *loaded.program, ms, tune_options, report));
  }
  if (report.rows.empty() && (!flags.kernel.empty() || !flags.m_list.empty()))
    return Error{ErrorCode::Usage, "bench", "no kernel of this program matches --kernel and --m",
                 "`qcodegen explain PROGRAM` shows the names, `qcodegen log PROGRAM` the m"};
  return report;
}

std::vector<const TuneRecord*> winners_of(const std::vector<BenchRow>& rows) {
  std::vector<const TuneRecord*> out;
  for (const BenchRow& row : rows)
    if (row.record.status != TrialStatus::reference) out.push_back(&row.record);
  return out;
}

int run_bench(const Session& session, const BenchFlags& flags) {
  auto report = bench_program(session, flags);
  if (!report.ok()) return fail(session, report.error());
  if (session.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const BenchRow& row : report->rows) rows.push_back(bench_row_json(row.step, row.record));
    print_json("bench", {{"ceilings", ceilings_json(report->ceilings[0])},
                         {"rows", rows},
                         {"summary", winners_json(winners_of(report->rows))},
                         {"warnings", report->warnings}});
    return 0;
  }
  for (const Ceilings& c : report->ceilings) show("{}\n", describe_ceilings(c));
  Table table({"kernel", "scheme", "n", "k", "m", "who", "time", "spread", "GB/s", "GF/s", "roofline"});
  ReferenceNotes notes;
  MarkNotes marks;
  for (const BenchRow& row : report->rows) {
    const TuneRecord& r = row.record;
    const bool ours = r.status != TrialStatus::reference;
    table.add({row.step, kind_of(r), fmt::format("{}", r.n), r.k > 0 ? fmt::format("{}", r.k) : "",
               fmt::format("{}", r.m), ours ? who_of(r) + (is_extern(r) ? " (extern)" : "") : notes.mark(r.kernel),
               format_time(r), format_spread(r), fmt::format("{:.1f}", r.gbps), fmt::format("{:.0f}", r.gflops),
               format_share(r.share)});
    marks.see(r);
  }
  show("{}{}{}\n{}", table.str(), notes.str(), marks.str(), describe_winners(winners_of(report->rows)));
  return 0;
}

// `bench` times one program, two with --compare, or linears without a program, which have options of their own.
Status check_form(const BenchFlags& flags, const std::vector<const CLI::Option*>& of_linears) {
  const bool is_linears = flags.all || flags.n > 0;
  const size_t wanted = is_linears ? 0 : flags.compare ? 2 : 1, given = flags.programs.size();
  if (!is_linears) QCG_CHECK(refuse_options(of_linears, "this option is for --all, or for --n and --k"));
  if (given == wanted) return {};
  const std::string wrong = is_linears      ? "linears without a program are timed, and a program is named"
                            : flags.compare ? fmt::format("--compare takes two programs, not {}", given)
                            : given == 0    ? "there is nothing to time"
                                            : "one program is timed at a time";
  return Error{ErrorCode::Usage, "bench", wrong,
               "name a program directory, two with --compare, or none with --all or with --n and --k"};
}

int run_any(const Session& session, const BenchFlags& flags, const std::vector<const CLI::Option*>& of_linears) {
  if (const Status form = check_form(flags, of_linears); !form.ok()) return fail(session, form.error());
  if (flags.all || flags.n > 0) return run_bench_all(session, flags);
  if (flags.compare) return run_bench_compare(session, flags);
  return flags.is_whole() ? run_bench_model(session, flags) : run_bench(session, flags);
}

// "s0=8" as a name and a number; the name is empty if the text has another form.
std::pair<std::string, int64_t> parse_symbol(const std::string& text) {
  const size_t equal = std::min(text.find('='), text.size());
  const std::string number = text.substr(std::min(equal + 1, text.size()));
  if (!whole_number<int64_t>(0)(number).empty()) return {};
  return {text.substr(0, equal), std::strtoll(number.c_str(), nullptr, 10)};
}

// Of a whole program, or of two; `others` are about kernels one by one.
void add_model_options(CLI::App& sub, BenchFlags& flags, std::initializer_list<CLI::Option*> others) {
  auto* whole = sub.add_flag("--whole", flags.whole,
                             "time the whole program instead of its kernels one by one; the five options below imply "
                             "it");
  auto* prompt = sub.add_option("--prompt", flags.prompt, "tokens that the program takes at once, as far as it can");
  auto* decode = sub.add_option("--decode", flags.decode, "tokens that it takes one by one after that");
  for (auto* tokens : {prompt, decode}) tokens->check(whole_number<int64_t>(1));
  const auto take_sizes = [&flags](const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
      if (!flags.sizes.insert(parse_symbol(text)).second)
        throw CLI::ValidationError("--sizes", text + " is the second size of its symbol");
  };
  const auto check_size = [](const std::string& text) {
    return parse_symbol(text).first.empty() ? text + " is not NAME=NUMBER" : "";
  };
  auto* sizes = sub.add_option_function<std::vector<std::string>>(
                       "--sizes", take_sizes, "values of symbols, NAME=NUMBER, comma separated (default: 1 each)")
                    ->delimiter(',')
                    ->check(check_size);
  auto* positions = sub.add_option("--positions", flags.positions,
                                   "the inputs that are places of the tokens in caches (default: those where the graph "
                                   "writes into a state)")
                        ->delimiter(',');
  auto* trace = sub.add_option("--trace", flags.trace,
                               "the JSON file to write a trace of every step on every thread to; "
                               "https://ui.perfetto.dev opens it");
  auto* compare = sub.add_flag("--compare", flags.compare,
                               "time two programs in turn on the same inputs, and print the ratio of their times");
  for (auto* option : {whole, prompt, decode, sizes, positions, trace, compare})
    for (auto* other : others) option->excludes(other);
  for (auto* option : {prompt, decode, positions, trace}) option->excludes(compare);
}

// Of linears without a program.
std::vector<const CLI::Option*> add_linear_options(CLI::App& sub, BenchFlags& flags) {
  auto* all =
      sub.add_flag("--all", flags.all, "time every scheme on the linears of a Llama-3.1-8B layer, with random weights");
  auto* n = sub.add_option("--n", flags.n, "time one linear with random weights: its outputs (columns of y)");
  auto* k = sub.add_option("--k", flags.k, "its inputs (columns of x)");
  for (auto* size : {n, k}) size->check(CLI::Range(int64_t{1}, kMostLinearSize))->excludes(all);
  n->needs(k), k->needs(n);
  auto* schemes = sub.add_option("--schemes,--scheme", flags.schemes,
                                 "only these schemes of `qcodegen list schemes`, comma separated")
                      ->delimiter(',');
  auto* shapes = sub.add_option("--shapes", flags.shapes, "only these shapes of qkv, o, gate_up, down, comma separated")
                     ->delimiter(',')
                     ->excludes(n);
  sub.add_option("--target", flags.target,
                 "a target of `qcodegen list targets` (default cpu), or one that the program was compiled for");
  auto* tune = add_choice<TuneMode>(sub, "--tune", flags.tune, {{"fast", TuneMode::fast}, {"full", TuneMode::full}},
                                    "fast (default): a few candidates per m; full: all candidates");
  auto* dequant = add_choice<bool>(sub, "--dequant", flags.rounded, {{"exact", false}, {"rounded", true}},
                                   "exact (default) or rounded, as for `compile`");
  for (const char* option : {"--kernel", "--method", "--graph", "--weights"})
    for (auto* linears : {all, n}) sub.get_option(option)->excludes(linears);
  return {schemes, shapes, tune, dequant};
}

}  // namespace

bool is_timed_against_vendor(const BenchFlags& flags, Device device) {
  if (flags.against.empty()) return flags.all || flags.n > 0;
  return flags.against.find(device == Device::cpu ? "onednn" : "cublas") != std::string::npos;
}

std::string why_no_vendor(const BenchFlags& flags, Device device) {
  if (!is_timed_against_vendor(flags, device)) return "";
  const VendorStatus vendor = device == Device::cpu ? onednn_status() : cublaslt_status();
  return vendor.found ? ""
                      : fmt::format("{} is not timed: {}; {}", device == Device::cpu ? "oneDNN" : "cuBLASLt",
                                    vendor.detail, vendor.remedy);
}

Status run_on_state(const LoadedProgram& loaded, State& state, ProgramIo& io) {
  const Status status = loaded.context->run(state, io.inputs(), io.outputs());
  if (status.ok() || status.error().code != ErrorCode::BadInput) return status;
  QCG_CHECK(state.reset());
  return loaded.context->run(state, io.inputs(), io.outputs());
}

std::string who_of(const TuneRecord& r) { return r.status == TrialStatus::reference ? r.kernel : "qcodegen"; }

nlohmann::json bench_row_json(const std::string& step, const TuneRecord& r) {
  return {{"kernel", step},
          {"n", r.n},
          {"k", r.k},
          {"m", r.m},
          {"scheme", r.scheme},
          {"family", r.family},
          {"group", r.group},
          {"who", who_of(r)},
          {"median_us", r.median_s * 1e6},
          {"p10_us", r.p10_s * 1e6},
          {"p90_us", r.p90_s * 1e6},
          {"gbps", r.gbps},
          {"gflops", r.gflops},
          {"share", r.share},
          {"threads", r.threads},
          {"candidate", r.candidate},
          {"status", status_of(r)},
          {"samples", r.samples},
          {"disturbed", is_disturbed(r)},
          {"share_doubtful", is_doubtful_share(r.share)}};
}

nlohmann::json ceilings_json(const Ceilings& c) {
  return {{"read_gbps", c.read_gbps},
          {"threads", c.threads},
          {"peak_gflops", {{"f32", c.peak_gflops_f32}, {"bf16", c.peak_gflops_bf16}, {"int8", c.peak_gops_int8}}}};
}

std::string describe_ceilings(const Ceilings& c) {
  return fmt::format("ceilings {}: read {} · f32 {} · bf16 {} · int8 {}",
                     isa_info(c.isa).device == Device::cpu ? "on " + count_of(c.threads, "thread") : "of the device",
                     format_rate(c.read_gbps), format_flops(c.peak_gflops_f32), format_flops(c.peak_gflops_bf16),
                     format_flops(c.peak_gops_int8));
}

void add_bench_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand(
      "bench",
      "time a program's kernels with cold weights, next to the machine's ceilings and a vendor's kernels; or whole "
      "programs, or linears without one");
  auto flags = std::make_shared<BenchFlags>();
  sub->add_option("program", flags->programs, "a program directory; two with --compare")->expected(0, 2);
  auto* m =
      sub->add_option("--m", flags->m_list,
                      "row counts, comma separated (default 1,4,16,64,256,1024; --all: 1,2,4,8,16,32,64,128,256,1024)")
          ->delimiter(',')
          ->check(whole_number<int64_t>(1));
  auto* against = sub->add_option("--against", flags->against,
                                  "also time a vendor's kernels, comma separated: onednn on a CPU, cublas (cuBLASLt) "
                                  "on a device; none: do not "
                                  "(default none; of linears onednn,cublas)")
                      ->check(check_against);
  sub->add_option("--threads", flags->threads,
                  "thread counts, comma separated (default: all that this process may use)")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  auto* kernel = sub->add_option("--kernel", flags->kernel, "only steps whose names contain this");
  sub->add_option("--budget", flags->budget_s,
                  "seconds of timing per kernel and m (default 1; --all: 0.5), or of a whole program (default 3)")
      ->check(check_budget);
  sub->add_option("--method", flags->method, "the method to time, of a program that has several");
  sub->add_option("--graph", flags->graph,
                  "the graph that the program was compiled from (default: its path at that time)");
  sub->add_option("--weights", flags->weights, "the weights of that graph (default: their paths at that time)");
  add_model_options(*sub, *flags, {m, against, kernel});
  const std::vector<const CLI::Option*> of_linears = add_linear_options(*sub, *flags);
  sub->footer(
      "Examples:\n  qcodegen bench mlp.qcg --m 1,16,256 --against onednn\n"
      "  qcodegen bench llama.qcg --prompt 512 --decode 64 --trace trace.json\n"
      "  qcodegen bench --compare old.qcg new.qcg\n"
      "  qcodegen bench --scheme w4 --n 4096 --k 11008 --m 1,16\n"
      "  qcodegen bench --all --schemes w4,da8w8 --shapes gate_up --m 1,16,256");
  sub->callback([&session, flags, of_linears] { session.status = run_any(session, *flags, of_linears); });
}

}  // namespace qcg

#include "codegen/compile.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include "base/cancel.h"
#include "cache/remote/remote_cache.h"
#include "cache/toolchain/compile_cache.h"
#include "codegen/batch.h"
#include "codegen/choose.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/target.h"
#include "codegen/merge_choice.h"
#include "codegen/pin_report.h"
#include "codegen/program/file_model.h"
#include "codegen/program/origin.h"
#include "codegen/program/packed_before.h"
#include "codegen/program/program_cache.h"
#include "codegen/program/program_writer.h"
#include "codegen/program/staging.h"
#include "codegen/progress.h"
#include "graph/ir/dependence.h"
#include "graph/read/files/mapped_file.h"
#include "graph/read/read_graph.h"

namespace qcg {

namespace {

// "2026-11-24T07:31:02.417Z"
std::string utc_now() {
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     now.time_since_epoch().count() % 1000);
}

Status require_weights(const Graph& graph, const Plan& plan) {
  for (const PlanConstant& constant : plan.constants) {
    bool bound = constant.problem >= 0 || constant.plain.bound();
    for (const SegmentTensors& segment : constant.segments) bound = bound && segment.weight.bound();
    if (bound) continue;
    std::string first;
    const std::vector<uint32_t> uses = graph.count_uses();
    for (ValueId id = 0; id < graph.values.size() && first.empty(); ++id) {
      const Value& value = graph.value(id);
      if (uses[id] > 0 && value.kind == ValueKind::parameter && !value.data.bound()) first = value.name;
    }
    for (size_t i = 0; i < graph.states.size() && first.empty(); ++i)
      if (!graph.value(graph.state_input(i)).data.bound()) first = graph.states[i];
    return Error::bad_input(first, "this weight has no data: the graph came without weights",
                            "pass --weights model.safetensors, or --weights random:1 to work with shapes only");
  }
  return {};
}

// Adds the functions that a node, after the passes, computes in f32 because kernels have no others; each once.
void add_functions_in_f32(const Graph& graph, const Node& node, std::vector<std::string>& out) {
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(out, name) == out.end()) out.emplace_back(name);
  };
  const std::function<void(const Expr&)> add_calls = [&](const Expr& e) {
    if (e.kind == ExprKind::call && !Expr::call(e.function, {}).has_f64()) add(e.function);
    for (const Expr& arg : e.args) add_calls(arg);
  };
  if (node.op->name == "qcg.loop")
    for (const Expr& e : *node.arg("exprs").get<std::vector<Expr>>()) add_calls(e);
  const bool sums_narrow = node.op->role == OpRole::reduction && node.op->arg_index("self") >= 0 &&
                           !has_number_type(graph.value(node.tensor("self")).dtype);
  if (sums_narrow || node.op->name == "aten.logcumsumexp.default") add(node.op->name);
}

// Where f64 is computed in f32; empty: nowhere.
std::string describe_f64(const Graph& graph) {
  const std::vector<bool> varies = vary_with_inputs(graph);
  const auto is_f64 = [&](ValueId id) { return varies[id] && graph.value(id).dtype == DType::f64; };
  std::string first;
  std::vector<std::string> functions;
  for (const Node& node : graph.nodes) {
    if (std::ranges::any_of(node.outputs, is_f64)) add_functions_in_f32(graph, node, functions);
    if (first.empty() && !functions.empty()) first = node.source.empty() ? node.where : node.source;
  }
  if (functions.empty()) return "";
  return fmt::format("{}: {} of f64 {} computed in f32, with 7 digits instead of 16", first, fmt::join(functions, ", "),
                     functions.size() == 1 ? "is" : "are");
}

class Compiler {
 public:
  Compiler(ModelSource& model, const CompileOptions& options)
      : source_(model),
        options_(options),
        progress_(options.on_step),
        threads_(options.threads > 0 ? options.threads : this_machine().cores),
        chooser_(options_, threads_, report_, progress_) {
    while (options_.output.size() > 1 && options_.output.ends_with('/')) options_.output.pop_back();
    options_.pin = tune_log_of(options.pin);
  }

  Result<CompileReport> run() {
    const double start = now_s();
    QCG_TRY(target, parse_target(options_.target));
    QCG_CHECK(check_tunable(target));
    QCG_TRY(cxx, find_compiler(target, options_.toolchain));
    QCG_TRY(remote, open_remote());
    Store store = open_store();
    if (remote) store.back_with(remote);
    report_.target = target.str();
    report_.threads = threads_;
    report_.program = options_.output;
    QCG_TRY(parts, source_.identify());
    Result<CompileReport> report = compile(cxx, store, parts, start);
    if (report.ok()) report_cache(store, remote.get(), *report);
    // Of files that were changed under it nothing is known, least of all that they are bad.
    if (!report.ok() && report.error().code != ErrorCode::Interrupted) QCG_CHECK(source_.check_unchanged({}));
    return report;
  }

 private:
  Result<CompileReport> compile(const Toolchain& cxx, Store& store, const std::vector<ModelPart>& parts, double start) {
    QCG_TRY(memory, ProgramCache::open(options_, parts, threads_, cxx, store));
    report_.key = memory.key();
    if (memory.try_restore(options_, source_.place(), report_)) {
      report_.wall_s = now_s() - start;
      return std::move(report_);
    }
    const std::vector<std::string> changed = options_.explain_misses ? memory.why_missed() : std::vector<std::string>();
    CompileLimits limits{.timeout_s = options_.compiler_s, .jobs = options_.jobs, .cancel = options_.cancel};
    limits.on_done = [this](size_t done, size_t of) { progress_.show_builds(done, of); };
    KernelBuilder builder(cxx, store, limits, options_.explain_misses);
    QCG_TRY(pins, Pins::read(options_.pin, report_.target));
    QCG_TRY(model, source_.read());
    model_ = std::move(model);
    std::optional<Attempt> attempt;
    QCG_CHECK(build_and_tune(builder, pins, attempt, nullptr));
    QCG_CHECK(judge_merges(builder, pins, attempt));
    if (!chooser_.missing_library().empty())
      report_.warnings.push_back(
          fmt::format("--extern=auto: {}; every kernel is qcodegen's own", chooser_.missing_library()));
    describe_input(attempt->explanation);
    report_.pins = report_pins(attempt->batch, pins, report_.warnings);
    report_.compiler_runs = builder.counters().compiler_runs;
    report_.cache_hits = builder.counters().cache_hits;
    report_.misses = builder.counters().misses;
    const int late = builder.counters().late;
    if (late > 0)
      report_.warnings.push_back(fmt::format("{} kernel{} left out: {}; {}", late, late == 1 ? " was" : "s were",
                                             builder.counters().late_why, kLateHelp));
    ProgramWriter& writer = attempt->writer;
    QCG_CHECK(chooser_.link_kernels(attempt->explanation.plan, attempt->batch, writer));
    QCG_TRY(origin, origin_json(source_, options_));
    if (is_cancelled(options_.cancel)) return Error::interrupted();  // nothing is published yet
    report_.tuned = utc_now();
    QCG_CHECK(writer.finish(attempt->explanation.plan, {chooser_.log(), origin}));
    Status verified = verify(attempt->explanation, writer);
    report_.wall_s = now_s() - start;
    QCG_CHECK(source_.check_unchanged(attempt->explanation.read));
    QCG_CHECK(check_mapped_files());
    QCG_CHECK(std::move(verified));  // last: of a graph that changed meanwhile the program must be wrong
    QCG_CHECK(write_record(writer.directory(), kReportFile, report_text(report_)));
    report_.program_bytes = bytes_of_program(writer.directory());
    // Else the next compile tries again.
    if (merges_timed_ && report_.is_final() && late == 0) memory.remember(writer.directory(), report_);
    QCG_CHECK(writer.publish());
    for (const std::string& what : changed) report_.notes.push_back("compiled anew: " + what);
    report_.wall_s = now_s() - start;
    return std::move(report_);
  }

  // Everything up to the program's directory, which is not published yet.
  struct Attempt {
    Explanation explanation;
    Batch batch;
    ProgramWriter writer;
  };

  // `before`: the attempt that lost; what it has packed of the same weights is taken over.
  Status build_and_tune(KernelBuilder& builder, const Pins& pins, std::optional<Attempt>& out, const Attempt* before) {
    QCG_TRY(explanation, explain_model(model_, options_, checkpoint_));
    const Plan& plan = explanation.plan;
    QCG_CHECK(require_weights(explanation.graph, plan));
    QCG_CHECK(check_destination(options_.output));  // before kernels are built and tuned for nothing
    if (options_.tune != TuneMode::off) {           // check_tunable: it runs here
      progress_.show("measure this machine");
      report_.ceilings = ceilings_of(plan.target, threads_);
    }
    QCG_TRY(batch, render_all(plan, options_, pins, report_.ceilings));
    if (!chooser_.has_tuned()) QCG_CHECK(require_pins(batch, pins));
    const double build_start = now_s();
    progress_.show("build {} kernels", batch.sources.size());
    progress_.begin();
    QCG_TRY(built, builder.build(batch.sources));
    batch.kernels = std::move(built);
    report_.build_s += now_s() - build_start;
    QCG_TRY(writer, ProgramWriter::create(options_.output, plan));
    int64_t bytes = 0;
    for (const PlanConstant& constant : plan.constants) bytes += constant.bytes;
    progress_.show("pack {:.1f} MB of weights", static_cast<double>(bytes) / 1e6);
    std::optional<PackedBefore> packed_before;
    if (before) packed_before.emplace(before->explanation.plan, before->writer);
    QCG_TRY(packed, writer.pack_constants(plan, threads_, packed_before ? &*packed_before : nullptr));
    report_.packed += packed.packed, report_.kept += packed.copied;
    if (is_cancelled(options_.cancel)) return Error::interrupted();
    const double tune_start = now_s();
    QCG_CHECK(chooser_.choose_all(plan, batch, writer, pins));
    report_.tune_s += now_s() - tune_start;
    out.emplace(Attempt{std::move(explanation), std::move(batch), std::move(writer)});
    return {};
  }

  // Merged siblings that this machine runs faster one by one are planned again as such, and so are linears that it runs
  // faster over a concatenation. What is tuned already is not tuned again; the records of what lost stay in the log.
  Status judge_merges(KernelBuilder& builder, const Pins& pins, std::optional<Attempt>& attempt) {
    const Plan& plan = attempt->explanation.plan;
    if (options_.tune == TuneMode::off || plan.target.device != Device::cpu || !why_untried(plan.target).empty())
      return {};
    const double start = now_s();
    progress_.show("time fused linears apart");
    QCG_TRY(merges, choose_merges(plan, attempt->batch, attempt->writer, builder, pins, chooser_.tune_options()));
    report_.tune_s += now_s() - start;
    merges_timed_ = merges.warnings.empty();
    report_.merges = merges.reports;
    report_.warnings.insert(report_.warnings.end(), merges.warnings.begin(), merges.warnings.end());
    chooser_.add_records(merges.records);
    report_.noise.close += merges.close;
    if (!merges.any_lost()) return {};
    options_.passes.keep_apart.insert(merges.keep_apart.begin(), merges.keep_apart.end());
    options_.passes.keep_cats.insert(merges.keep_cats.begin(), merges.keep_cats.end());
    chooser_.forget_plan();
    const Attempt before = std::move(*attempt);  // both lie on disk until the second is tuned
    return build_and_tune(builder, pins, attempt, &before);
  }

  // What is published is what was run: the directory as it lies there.
  Status verify(const Explanation& explanation, const ProgramWriter& writer) {
    ProgramVerdict& out = report_.verdict;
    out.why = why_untried(explanation.plan.target);
    if (!out.why.empty()) return {};
    out.scope = "kernels";
    out.why = "one by one; the program was not run as a whole (--verify=kernels)";
    if (options_.verify != Verify::program) return {};
    progress_.show("verify the program");
    QCG_TRY(verdict, verify_program(writer.directory(), model_.graph,
                                    {.emulate_casts = options_.passes.emulate_precision_casts,
                                     .threads = threads_,
                                     .cancel = options_.cancel}));
    out = std::move(verdict);
    return {};
  }

  // Null: no shared cache was asked for.
  Result<std::shared_ptr<RemoteCache>> open_remote() const {
    if (options_.cache_dir.empty() || options_.remote_cache.empty()) return std::shared_ptr<RemoteCache>();
    return RemoteCache::open(options_.remote_cache, options_.remote_key_file);
  }

  static void report_cache(Store& store, const RemoteCache* remote, CompileReport& out) {
    for (std::string& warning : store.take_warnings()) out.warnings.push_back(std::move(warning));
    out.lookups = store.lookups();
    if (!remote) return;
    for (std::string& warning : remote->warnings()) out.warnings.push_back(std::move(warning));
    out.remote = {remote->name(), remote->stats()};
  }

  Store open_store() {
    if (options_.cache_dir.empty()) return Store::none();
    auto store = Store::open({.dir = options_.cache_dir, .max_bytes = options_.cache_max_bytes});
    if (store.ok()) return std::move(*store);
    report_.warnings.push_back("working without a cache: " + store.error().to_string());
    return Store::none();
  }

  void describe_input(Explanation& explanation) {
    report_.format = explanation.read.format;
    report_.torch_version = explanation.read.torch_version;
    report_.notes = explanation.read.notes;
    report_.warnings.insert(report_.warnings.begin(), explanation.read.warnings.begin(),
                            explanation.read.warnings.end());
    report_.nodes_read = explanation.nodes_read;
    report_.nodes_lowered = static_cast<int>(explanation.plan.steps.size());
    report_.passes = explanation.passes;
    for (const Symbol& symbol : explanation.graph.symbols)
      report_.symbols +=
          fmt::format("{}{} in [{}, {}]", report_.symbols.empty() ? "" : ", ", symbol.name, symbol.min, symbol.max);
    for (const PlanConstant& constant : explanation.plan.constants) report_.weight_bytes += constant.bytes;
    for (const PassReport& pass : explanation.passes) {
      if (pass.name == "merge_sibling_linears")
        report_.merged.insert(report_.merged.end(), pass.groups.begin(), pass.groups.end());
      if (pass.name == "split_cat_linear")
        for (const auto& group : pass.groups)
          report_.cat_split.insert(report_.cat_split.end(), group.begin(), group.end());
    }
  }

  // Said before anything is read or built.
  Status check_tunable(const Target& target) const {
    const std::string missing = why_untried(target);
    if (missing.empty() || options_.tune == TuneMode::off) return {};
    return Error::unsupported(target.str(), missing + ", so it cannot be tuned",
                              "add --tune=off to build it without timing, or choose another --target");
  }

  ModelSource& source_;
  Model model_;  // as it was read, once: what loses a trial is planned again from here
  PassCheckpoint checkpoint_;
  CompileOptions options_;  // keep_apart and keep_cats grow when fusions lose
  Progress progress_;
  int threads_;
  CompileReport report_;
  Chooser chooser_;
  bool merges_timed_ = true;  // all of them, or there was none to time
};

}  // namespace

Result<Explanation> explain_model(const Model& model, const CompileOptions& options, PassCheckpoint& checkpoint) {
  Explanation out;
  QCG_TRY(target, parse_target(options.target));
  out.graph = model.graph;
  out.read = model.read;
  out.nodes_read = static_cast<int>(out.graph.nodes.size());
  out.source = SourceGraph(out.graph, std::move(out.read.modules));
  QCG_TRY(passes, run_passes(out.graph, options.passes, checkpoint));
  out.passes = std::move(passes);
  for (PassReport& pass : out.passes)
    out.read.warnings.insert(out.read.warnings.end(), pass.warnings.begin(), pass.warnings.end());
  if (std::string what = describe_f64(out.graph); !what.empty()) out.read.warnings.push_back(std::move(what));
  QCG_TRY(plan, plan_kernels(out.graph, target, out.source));
  out.plan = std::move(plan);
  for (KernelProblem& problem : out.plan.problems)
    if (auto* gemm = problem.get_if<Problem>()) gemm->may_round = options.rounded && can_round(*gemm);
  return out;
}

Result<Explanation> explain_graph(const CompileOptions& options) {
  QCG_TRY(model, FileModel(options).read());
  PassCheckpoint none;
  return explain_model(model, options, none);
}

Status emit_text(const CompileOptions& options) {
  QCG_TRY(explanation, explain_graph(options));
  if (options.emit == Emit::graph) return options.on_emit(print_graph(explanation.graph)), Status();
  if (options.emit == Emit::plan) return options.on_emit(print_plan(explanation.plan)), Status();
  CompileOptions first = options;
  first.tune = TuneMode::off;
  QCG_TRY(batch, render_all(explanation.plan, first, Pins(), {}));
  if (options.emit == Emit::source) {
    for (const KernelSource& source : batch.sources) options.on_emit(source.source + "\n");
    return {};
  }
  QCG_TRY(cxx, find_compiler(explanation.plan.target, options.toolchain));
  QCG_TRY(listings, assemble(cxx, batch.sources, {.jobs = options.jobs, .cancel = options.cancel}));
  for (const std::string& listing : listings) options.on_emit(listing);
  return {};
}

Result<CompileReport> compile_model(ModelSource& model, const CompileOptions& options) {
  return Compiler(model, options).run();
}

Result<CompileReport> compile_program(const CompileOptions& options) {
  FileModel model(options);
  return compile_model(model, options);
}

}  // namespace qcg

// qcodegen bench --all: times every scheme on the linears of a Llama-3.1-8B layer at every M, as `compile` would build
// them. qcodegen bench --scheme S --n N --k K: the same of one linear of any shape.
//
// It needs no graph and no program: Problems with random weights go through candidates, compiler and tuner. A row is
// printed as soon as it is measured. Each m chooses among the candidates of its range of M.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/bench.h"
#include "cli/report.h"
#include "codegen/batch.h"
#include "codegen/devices/gemm_device.h"
#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"
#include "codegen/gemm/sample_problem.h"
#include "codegen/kernel/target.h"
#include "codegen/tune/device_trial.h"

namespace qcg {

namespace {

constexpr int64_t kTableMs[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024};
constexpr double kTableBudget_s = 0.5;

Error unknown_word(std::string_view flag, std::string_view word, const std::vector<std::string>& known) {
  return {ErrorCode::Usage, std::string(flag), fmt::format("there is no '{}'{}", word, did_you_mean(word, known)),
          fmt::format("choose from: {}", fmt::join(known, ", "))};
}

// The rows of `table` with these names, in the table's order; all rows if `names` is empty.
template <class Table>
Result<std::vector<typename Table::value_type>> select_rows(const Table& table, const std::vector<std::string>& names,
                                                            std::string_view flag) {
  std::vector<std::string> known;
  for (const auto& row : table) known.emplace_back(row.name);
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end()) return unknown_word(flag, name, known);
  std::vector<typename Table::value_type> out;
  for (const auto& row : table)
    if (names.empty() || std::find(names.begin(), names.end(), row.name) != names.end()) out.push_back(row);
  return out;
}

const Bucket& range_of(int64_t m) {
  return *std::find_if(std::begin(kBuckets), std::end(kBuckets), [m](const Bucket& b) { return m <= b.m_max; });
}

class TableBench {
 public:
  TableBench(const Session& session, const BenchFlags& flags)
      : session_(session), flags_(flags), progress_(session), store_(Store::none()) {}

  Status run() {
    QCG_TRY(schemes, select_rows(kSchemes, flags_.schemes, "--schemes"));
    QCG_TRY(shapes, shapes_of_flags());
    QCG_TRY(target, parse_target(flags_.target.empty() ? "cpu" : flags_.target));
    QCG_CHECK(require_runnable(target));
    target_ = target;
    const std::string missing = why_no_vendor(flags_, target.device);
    if (!missing.empty()) say("warning: " + missing + "\n");
    if (auto store = Store::open({.dir = session_.cache_dir}); store.ok()) store_ = std::move(*store);
    QCG_TRY(cxx, find_compiler(target, toolchain_options(session_)));
    cxx_ = std::move(cxx);
    for (int threads : flags_.threads.empty() ? std::vector<int>{this_machine().cores} : flags_.threads)
      for (const SchemeInfo& info : schemes)
        for (const SampleScheme& scheme : sample_schemes(info)) {
          begin_table(threads);
          for (const LayerShape& shape : shapes) QCG_CHECK(bench_shape(scheme, shape, threads));
          end_table();
        }
    const std::vector<std::string> warnings(missing.empty() ? 0 : 1, missing);
    if (session_.json) print_json("bench", {{"ceilings", ceilings_}, {"rows", rows_}, {"warnings", warnings}});
    return {};
  }

  const std::string& wrong() const { return wrong_; }

 private:
  Result<std::vector<LayerShape>> shapes_of_flags() const {
    if (flags_.n == 0) return select_rows(std::to_array(kLlamaShapes), flags_.shapes, "--shapes");
    return std::vector<LayerShape>{{.name = "linear", .k = flags_.k, .n = {flags_.n, 0, 0}, .plain = true}};
  }

  static Status require_runnable(const Target& target) {
    const std::string missing = why_not_here(target);
    if (missing.empty()) return {};
    return Error::unsupported(target.str(), "cannot be timed: " + missing, "choose another --target");
  }

  void begin_table(int threads) {
    progress_.show("measure this machine");
    tuning_ = {flags_.tune, threads, flags_.budget_s > 0 ? flags_.budget_s : kTableBudget_s,
               is_timed_against_vendor(flags_, target_.device), ceilings_of(target_, threads)};
    tuning_.cancel = &interrupted();
    if (ceilings_.is_null()) ceilings_ = ceilings_json(tuning_.ceilings);
    progress_.clear();
    if (session_.json) return;
    const std::string machine = target_.device == Device::cpu ? this_machine().cpu : device_facts(target_.isa).name;
    show("{} · {} · {}\n", target_.str(), machine, describe_ceilings(tuning_.ceilings));
    print_row({"scheme", "shape", "m", "time", "spread", "GB/s", "GF/s", "roofline", "kernel", "against"});
  }

  void end_table() {
    std::vector<const TuneRecord*> winners;
    for (const TuneRecord& r : won_) winners.push_back(&r);
    if (!session_.json) show("{}{}\n{}\n", notes_.str(), marks_.str(), describe_winners(winners));
    notes_ = {}, marks_ = {}, won_.clear();
  }

  static void print_row(const std::array<std::string, 10>& c) {
    std::string line = fmt::format("{:<10} {:<7} {:>4} {:>9} {:>6} {:>5} {:>5} {:>8}  {:<22} {}", c[0], c[1], c[2],
                                   c[3], c[4], c[5], c[6], c[7], c[8], c[9]);
    while (line.back() == ' ') line.pop_back();
    show("{}\n", line);
    std::fflush(stdout);  // the next row may take minutes
  }

  Status bench_shape(const SampleScheme& scheme, const LayerShape& shape, int threads) {
    if (scheme.group > 0 && shape.k % scheme.group != 0)
      return Error{ErrorCode::Usage, "--k",
                   fmt::format("{} is no multiple of {}, the group of {}", shape.k, scheme.group, scheme.label()),
                   "choose a multiple of it"};
    Problem problem = sample_problem(scheme, shape);
    problem.may_round = flags_.rounded && can_round(problem);
    Batch batch;
    for (int64_t m :
         flags_.m_list.empty() ? std::vector<int64_t>(std::begin(kTableMs), std::end(kTableMs)) : flags_.m_list) {
      std::vector<Candidate> some =
          gemm_device(target_.device).candidates(problem, target_, range_of(m).m_min, range_of(m).m_max);
      if (some.empty()) return skip(scheme, shape, "no microkernel serves it on " + target_.str()), Status();
      limit_candidates(problem, m, some, flags_.tune, tuning_.ceilings);
      QCG_CHECK(add_gemm(batch, 0, problem, target_, {m, m, m}, std::move(some)));
    }
    progress_.show(
        fmt::format("{} {}: build {}", scheme.label(), shape.name, count_of(std::ssize(batch.sources), "kernel")));
    KernelBuilder builder(cxx_, store_, {.jobs = 0, .cancel = &interrupted()});
    QCG_TRY(built, builder.build(batch.sources));
    progress_.show(fmt::format("{} {}: pack weights", scheme.label(), shape.name));
    const std::vector<SegmentTensors> tensors = sample_tensors(problem, static_cast<uint64_t>(threads));
    const GemmDevice& device = gemm_device(target_.device);
    const PackedLayout layout = device.layout(problem, target_);
    const int64_t size = device.packed_bytes(problem, layout);
    QCG_TRY(packed, AlignedBuffer::allocate(size));
    const std::span<std::byte> bytes(packed.data(), static_cast<size_t>(size));
    QCG_CHECK(device.pack(problem, layout, tensors, bytes));
    for (const Choice& choice : batch.choices) {
      std::vector<BuiltKernel> kernels;
      for (size_t i : choice.builds) kernels.push_back(built[i]);
      progress_.show(fmt::format("{} {}: m={}", scheme.label(), shape.name, choice.bucket.m_probe));
      QCG_TRY(result, tune(problem, tensors, bytes, choice.bucket, choice.candidates, kernels, tuning_));
      add_cell(scheme, shape, result);
    }
    return {};
  }

  void skip(const SampleScheme& scheme, const LayerShape& shape, const std::string& why) {
    progress_.clear();
    if (!session_.json) show("{:<10} {:<7} {}\n", scheme.label(), shape.name, why);
  }

  void add_cell(const SampleScheme& scheme, const LayerShape& shape, const TuneResult& result) {
    const TuneRecord *best = nullptr, *none = nullptr;  // the fastest reference; one that has no kernel for this
    for (const TuneRecord& r : result.records) {
      if (r.status == TrialStatus::wrong || r.status == TrialStatus::crashed ||
          r.status == TrialStatus::failed_to_build)
        wrong_ = fmt::format("{} {}: {}", scheme.label(), r.candidate, r.reason);
      if (r.status == TrialStatus::reference && r.median_s > 0 && (!best || r.median_s < best->median_s)) best = &r;
      if (r.status == TrialStatus::reference && r.median_s <= 0) none = &r;
      if (r.status == TrialStatus::won || (r.status == TrialStatus::reference && r.median_s > 0))
        rows_.push_back(bench_row_json(std::string(shape.name), r));
    }
    if (result.winner < 0) return skip(scheme, shape, "every kernel is wrong: " + wrong_);
    const TuneRecord& r = result.records[static_cast<size_t>(result.winner)];
    progress_.clear();
    if (session_.json) return;
    const std::string kernel = r.candidate.substr(0, r.candidate.find(' ', r.candidate.find(' ') + 1));
    marks_.see(r);
    won_.push_back(r), won_.back().step = shape.name;
    if (best) marks_.see(*best);
    print_row({scheme.label(), std::string(shape.name), fmt::format("{}", r.m), format_time(r), format_spread(r),
               fmt::format("{:.1f}", r.gbps), fmt::format("{:.0f}", r.gflops), format_share(r.share), kernel,
               best   ? notes_.mark(best->kernel) + " " + format_ratio(*best, r)
               : none ? notes_.mark(none->kernel) + " not timed: " + none->reason
                      : ""});
  }

  const Session& session_;
  const BenchFlags& flags_;
  ProgressLine progress_;
  Store store_;
  Toolchain cxx_;
  Target target_;
  TuneOptions tuning_;
  ReferenceNotes notes_;
  MarkNotes marks_;
  std::vector<TuneRecord> won_;  // winners of this table
  nlohmann::json ceilings_, rows_ = nlohmann::json::array();
  std::string wrong_;
};

}  // namespace

int run_bench_all(const Session& session, const BenchFlags& flags) {
  TableBench bench(session, flags);
  if (const Status status = bench.run(); !status.ok()) return fail(session, status.error());
  return bench.wrong().empty() ? 0 : complain(Error::internal("bench", bench.wrong()));
}

}  // namespace qcg

// Kernels without rivals: right ones pass and are timed, one of each family that was made wrong is found, whatever it
// does.
#include "codegen/tune/step_trial.h"

#include <algorithm>

#include "codegen/batch.h"
#include "codegen/families.h"
#include "graph/ops/verify.h"
#include "graph/read/text.h"
#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// Broadcasts, codes, integers, booleans, steps, moves, views with gaps, rows, reductions along both axes, products,
// look-ups of rows and of elements, windows, writes, row programs.
constexpr std::string_view kGraph = R"(symbol s0 in [1, 4096]
graph(%x: bf16[s0, 37], %experts: bf16[5, 21, 37], %ends: i32[5], %row: f32[37], %column: f32[s0, 1], %i: i64[s0, 37], %b: i8[37, s0], %ids: i64[2, s0], %at: i32[s0, 5], %offsets: i64[s0], %bagged: i32[67], %by: f32[67], %taps: f32[5, 37], %to: i64[s0], %query: bf16[2, 6, s0, 40], %cache: f32[1, 2, 300, 40], %seen: i64[s0, 1]) {
  %a = qcg.loop([%x, %row, %column], exprs = [mul(silu(in0), add(in1, in2))]) : bf16[s0, 37]
  %q, %s, %z = qcg.quantize_rows(%a, mapping = "ASYMMETRIC", quant_min = -128, quant_max = 127, eps = 1e-05) : i8[s0, 37], f32[s0, 1], i32[s0, 1]
  %d = qcg.loop([%q, %z, %s], exprs = [mul(sub(in0, in1), in2)]) : f32[s0, 37]
  %e = qcg.loop([%d, %s], exprs = [cast_i8(clamp(round_even(div(in0, in1)), -128, 127))]) : i8[s0, 37]
  %m = aten.mean.dim(%d, dim = [1], keepdim = true) : f32[s0, 1]
  %h = aten.amax.default(%a, dim = [0], keepdim = false) : bf16[37]
  %n = qcg.loop([%i, %i], exprs = [add(mul(in0, 3), in1)], integers = true) : i64[s0, 37]
  %t = aten.transpose.int(%b, dim0 = 0, dim1 = 1) : i8[s0, 37]
  %c = qcg.loop([%t, %e], exprs = [gt(in0, in1)]) : bool[s0, 37]
  %w = aten.transpose.int(%d, dim0 = 0, dim1 = 1) : f32[37, s0]
  %p = aten.mm.default(%d, %w) : f32[s0, s0]
  %matrices = aten.transpose.int(%experts, dim0 = 1, dim1 = 2) : bf16[5, 37, 21]
  %grouped = aten._grouped_mm.default(%x, %matrices, %ends) : bf16[s0, 21]
  %l = qcg.loop([%i], exprs = [ge(add(pos1, size0), mul(in0, pos0))], integers = true, sizes = [s0]) : bool[s0, 37]
  %u = qcg.loop([%d], exprs = [where(ge(pos1, pos0), in0, size0)], sizes = [s0]) : f32[s0, 37]
  %r = aten.cumsum.default(%i, dim = 0) : i64[s0, 37]
  %f = aten.cumsum.default(%a, dim = 1) : bf16[s0, 37]
  %v, %o = aten.topk.default(%d, k = 3) : f32[s0, 3], i64[s0, 3]
  %g, %j = aten.sort.default(%b, dim = 0, descending = false) : i8[37, s0], i64[37, s0]
  %r2 = aten.index.Tensor(%x, [%ids]) : bf16[2, s0, 37]
  %f2 = aten.gather.default(%d, dim = 1, index = %at) : f32[s0, 5]
  %g0, %g1, %g2, %g3 = aten._embedding_bag.default(%d, %bagged, %offsets, mode = 0, per_sample_weights = %by, padding_idx = 1) : f32[s0, 37], i64[0], i64[s0], i64[s0]
  %k, %k1, %k2, %k3 = aten._embedding_bag.default(%x, %bagged, %offsets, mode = 1) : bf16[s0, 37], i64[0], i64[s0], i64[s0]
  %w1 = qcg.windows(%x, none, op = "max", kernel = [3], stride = [1], dilation = [2], before = [2], places = [s0]) : bf16[s0, 37]
  %w2 = qcg.windows(%d, %taps, op = "product", kernel = [5], stride = [1], dilation = [1], before = [2], places = [s0]) : f32[s0, 37]
  %y1 = aten.expand.default(%d, size = [64, s0, 37]) : f32[64, s0, 37]
  %y2 = aten.reshape.default(%y1, shape = [64*s0, 37]) : f32[64*s0, 37]
  %y3 = aten.index_copy.default(%y2, dim = 0, index = %to, source = %d) : f32[64*s0, 37]
  %at1 = qcg.attention(%query, %cache, %cache, [%seen], mask = [ge(in0, pos3)], score = [mul(acc0, 0.25)]) : bf16[2, 6, s0, 40]
  %z1, %z2 = qcg.rows([%x, %row, %column], steps = [mul(in0, in2), mul(acc0, acc0), exp(sub(acc0, acc1)), acc2, mul(in1, div(acc2, acc3))], reduce = "- mean - sum -", stores = [4, 3], shape = [s0, 37]) : bf16[s0, 37], f32[s0, 1]
  return %grouped, %e, %m, %h, %n, %c, %p, %l, %u, %r, %f, %v, %o, %g, %j, %r2, %f2, %g0, %k, %w1, %w2, %y3, %at1, %z1, %z2
}
)";

Plan plan_of(std::string_view text) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const Status verified = verify_graph(*graph);
  REQUIRE_MESSAGE(verified.ok(), verified.error().to_string());
  auto plan = plan_kernels(*graph, {Device::cpu, Isa::portable});
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  return std::move(*plan);
}

std::vector<KernelSource> sources_of(const Plan& plan) {
  Batch batch;
  for (const KernelProblem& problem : plan.problems) REQUIRE(add_other(batch, problem, plan.target).ok());
  REQUIRE(batch.sources.size() == plan.problems.size());
  return batch.sources;
}

std::vector<StepTrial> trials_of(const Plan& plan, const std::vector<BuiltKernel>& built,
                                 TuneMode mode = TuneMode::fast) {
  std::vector<StepTrial> out;
  for (size_t p = 0; p < built.size(); ++p) {
    REQUIRE_MESSAGE(built[p].ok(), built[p].failure);
    out.push_back(step_trial(plan, static_cast<int>(p), built[p], {}, mode));
  }
  return out;
}

// Replaces the first `from` behind `after`; the test is wrong where there is none.
std::string altered(std::string source, const std::string& after, const std::string& from, const std::string& to) {
  const size_t at = source.find(from, source.find(after));
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return source.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("every family has a row, and every kernel of a graph is right and timed") {
  const Plan plan = plan_of(kGraph);
  for (const KernelFamily* family : kernel_families()) {
    CAPTURE(family->name);
    const bool met = std::any_of(plan.problems.begin(), plan.problems.end(),
                                 [&](const KernelProblem& p) { return &p.family() == family; });
    CHECK(met == !family->has_candidates());
  }
  const std::vector<BuiltKernel> built = build_kernels(sources_of(plan));
  const std::vector<StepTrial> trials = trials_of(plan, built);
  const auto results = try_steps(trials, quick_options());
  REQUIRE_MESSAGE(results.ok(), results.error().to_string());
  for (size_t i = 0; i < trials.size(); ++i) {
    CAPTURE(trials[i].step);
    CHECK(trials[i].checks.size() >= 3);
    CHECK((*results)[i].winner == 0);
    CHECK((*results)[i].records.size() == trials[i].timed.size());
    for (const TuneRecord& r : (*results)[i].records) {
      CHECK(r.status == TrialStatus::won);
      CHECK(r.family == trials[i].problem->family().name);
      CHECK(r.m > 0);
      CHECK(r.n > 0);
      CHECK((r.median_s > 0 && r.gbps > 0 && r.share > 0));
      const auto again = from_json_line(to_json_line(r), "here");
      REQUIRE(again.ok());
      CHECK(again->family == r.family);
    }
  }
  const auto checked = try_steps(trials, quick_options(TuneMode::off));
  REQUIRE(checked.ok());
  for (const TuneResult& result : *checked) {
    CHECK(result.winner == 0);
    for (const TuneRecord& r : result.records) CHECK((r.status == TrialStatus::untimed && r.median_s == 0));
  }
}

TEST_CASE("a kernel that was made wrong is refused, with its step's name") {
  struct Seeded {
    std::string_view formula;  // of the problem whose kernel is altered
    std::string after, from, to;
    std::string message;
  };
  constexpr std::string_view kRows =
      "mul(in0, in2); mean(mul(acc0, acc0)); exp(sub(acc0, acc1)); sum(acc2); mul(in1, div(acc2, acc3))";
  const Seeded cases[] = {
      {"mul(silu(in0), add(in1, in2))", "void run_row", "v_add(in1, in2)", "v_sub(in1, in2)", "is wrong: error"},
      {"mul(silu(in0), add(in1, in2))", "void run_row", "(int)(end - i)", "(int)(end - i) - 1",
       " is right, at output 0"},  // what is not written is a NaN
      {"mul(silu(in0), add(in1, in2))", "void run(", "run_row(call, row, from, to)", "run_row(call, row, from, to + 1)",
       "is wrong: wrote outside output 0"},
      {"mul(silu(in0), add(in1, in2))", "void run(", "run_row(call, row, from, to)", "run_row(nullptr, row, from, to)",
       "kernel crashed: SIGSEGV"},
      {"mul(sub(in0, in1), in2)", "void run_row", "params[", "0 * params[", "is wrong: "},
      {"cast_i8(clamp(round_even(div(in0, in1)), -128, 127))", "void run_row", "v_round_even(", "v_floor(",
       "is wrong: error"},
      {"add(mul(in0, 3), in1)", "void run_row", "INT64_C(3)", "INT64_C(2)", "is wrong: error"},
      {"gt(in0, in1)", "void run_row", "v_gt(in0, in1)", "v_gt(in1, in0)", "is wrong: error"},
      {"mean(in0)", "finish(", "v_set1((float)s.reduce)", "v_set1((float)(s.reduce + 1))", "is wrong: error"},
      {"amax(in0)", "void reduce_row", "i < s.reduce", "i + 1 < s.reduce", "is wrong: "},
      {"mean(in0)", "void reduce_contiguous", "if (i < s.reduce)", "if (i > s.reduce)", "is wrong: "},
      {"max of 1x3(in0)", "Taps taps_of", "from >= 0 ? 0", "from >= 0 ? 1", "is wrong: "},
      {"product of 1x5(in0, in1)", "void slide(", "j < columns.last", "j + 1 < columns.last", "is wrong: error"},
      {"bf16 rows of 37 to i8 [-128, 127]", "quantize_row(", "v_add(v_round_even(", "v_sub(v_round_even(",
       "is wrong: error"},
      {"bf16 rows of 37 to i8 [-128, 127]", "quantize_row(", "v_store_f32_n(scale_out, scale, 1)",
       "v_store_f32_n(scale_out, v_add(scale, v_set1(1e-8f)), 1)", "is wrong: error"},
      {"in0[in1]", "bool is_in_range", "id += size", "id += size - 1", "is wrong: "},
      {"in0[in1]", "bool is_in_range", "id < 0", "id < -1", "is wrong: number "},
      {"in0[in1]", "void run_row", "from += ", "from += 1 + ", "is wrong: "},
      {"sum of in0[in2]·in3 by in1", "bool read_bag", "end = b + 1", "end = b + 2", "is wrong: "},
      {"sum of in0[in2]·in3 by in1", "void reduce_columns", "== bag.padding", "== bag.padding + 1", "is wrong: "},
      {"mean of in0[in2] by in1", "finish(", "(float)bag.count", "(float)(bag.count + 1)", "is wrong: "},
      {"matmul(in0, in1)", "void multiply", "k < s.k", "k + 1 < s.k", "is wrong: error"},
      {"ge(add(pos0, size0), mul(in0, pos1))", "void run_row", "i_add(", "i_sub(", "is wrong: error"},
      {"where(ge(pos0, pos1), in0, size0)", "void run_row", "(float)(lane)", "(float)(lane + 1)", "is wrong: error"},
      {"grouped_matmul(in0, in1, in2)", "Rows rows_of", "i < b", "i + 1 < b", "is wrong: "},
      {"attention of [mul(acc0, 0.25)] where [ge(in0, pos3)]", "float* partial_at", "+ block)", "+ 0)", "is wrong: "},
      {"attention of [mul(acc0, 0.25)] where [ge(in0, pos3)]", "Part see(", "i * HEADS / G", "0", "is wrong: "},
      {"attention of [mul(acc0, 0.25)] where [ge(in0, pos3)]", "void weigh_row(", "t.sum[i] *= factor", "t.sum[i] *= 1",
       "is wrong: error"},
      {"cumsum(in0)", "void scan_", "i < axis", "i + 1 < axis", "is wrong: "},
      {"descending(in0)", "void take_few", "out[at - 1].key >", "out[at - 1].key <", "is wrong: "},
      {"ascending(in0)", "Entry* sort_row", "run < n", "2 * run < n", "is wrong: error"},
      {"out[in1] = in0", "void write", "+ begin, (size_t)(end - begin)", "+ begin, (size_t)(end - begin - 1)",
       "is wrong: error"},
      {"out[in1] = in0", "void write", "Item* const to = y + place", "Item* const to = y", "is wrong: error"},
      {kRows, "void run_row", "v_set1((float)width)", "v_set1((float)(width + 1))", "is wrong: error"},
      {kRows, "void run_row", "v_load_f32(kept2 + i)", "v_load_f32(kept2)", "is wrong: error"},
      {kRows, "void run_row", "if (i < width)", "if (i > width)", "is wrong: "},
      {kRows, "int64_t items(", "+ r.per_item - 1", "", "is wrong: "},
      {"out[in1] = in0", "void write", "number < positions", "number + 1 < positions", "is wrong: error"},
  };
  const Plan plan = plan_of(kGraph);
  const std::vector<KernelSource> sources = sources_of(plan);
  std::vector<KernelSource> all = sources;
  std::vector<size_t> altered_problem;
  for (const Seeded& seeded : cases) {
    size_t p = 0;
    while (p < plan.problems.size() && plan.problems[p].family().formula(plan.problems[p]) != seeded.formula) ++p;
    REQUIRE_MESSAGE(p < plan.problems.size(), seeded.formula);
    altered_problem.push_back(p);
    all.push_back(sources[p]);
    all.back().source = altered(all.back().source, seeded.after, seeded.from, seeded.to);
  }
  const std::vector<BuiltKernel> built = build_kernels(std::move(all));
  for (size_t c = 0; c < std::size(cases); ++c) {
    CAPTURE(cases[c].formula);
    CAPTURE(cases[c].to);
    std::vector<BuiltKernel> kernels(built.begin(), built.begin() + static_cast<ptrdiff_t>(sources.size()));
    kernels[altered_problem[c]] = built[sources.size() + c];
    const std::vector<StepTrial> trials = trials_of(plan, kernels, TuneMode::off);
    const auto results = try_steps(trials, quick_options(TuneMode::off));
    REQUIRE_FALSE(results.ok());
    CHECK(results.error().where == trials[altered_problem[c]].step);
    CHECK_MESSAGE(results.error().message.find(cases[c].message) != std::string::npos, results.error().message);
  }
}

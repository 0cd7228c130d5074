// Kernels without rivals: right ones pass and are timed, one of each family that was made wrong is found, whatever it
// does.
#include "codegen/tune/step_trial.h"

#include <algorithm>

#include "codegen/batch.h"
#include "codegen/check/call_memory.h"
#include "codegen/families.h"
#include "family_graph.h"
#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

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
  const Plan plan = plan_families({Device::cpu, Isa::portable});
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

TEST_CASE("why a kernel cannot be tried is said") {
  const Plan plan = plan_families({Device::cpu, Isa::portable});
  const std::vector<KernelSource> sources = sources_of(plan);
  std::vector<BuiltKernel> built = build_kernels({sources[0], sources[1]});
  built[1].bytes = "no module";
  const auto results = try_steps(trials_of(plan, built), quick_options());
  REQUIRE(!results.ok());
  INFO(results.error().to_string());
  CHECK(results.error().where == trials_of(plan, built)[1].step);
  CHECK(results.error().message.find("cannot be tried: ") != std::string::npos);
}

TEST_CASE("kernels are not tried at sizes that leave an axis negative") {
  auto graph = parse_graph(R"(symbol s0 in [0, 4096]
graph(%x: f32[s0-5]) {
  %b = aten.unsqueeze.default(%x, dim = 1) : f32[s0-5, 1]
  %y = qcg.loop([%x, %b], exprs = [mul(in0, in1)]) : f32[s0-5, s0-5]
  return %y
})");
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const auto plan = plan_kernels(*graph, {Device::cpu, Isa::portable});
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  const std::vector<BuiltKernel> built = build_kernels(sources_of(*plan));
  const std::vector<StepTrial> trials = trials_of(*plan, built);
  CHECK(!trials[0].checks.empty());
  for (const CallSizes& sizes : trials[0].checks)
    for (const int64_t param : sizes.params) CHECK(param >= 0);
  const auto results = try_steps(trials, quick_options(TuneMode::off));
  CHECK_MESSAGE(results.ok(), results.error().to_string());
  // No elements, however many axes are negative.
  const Reach reach{4, {{{Reach::Number::param, 0}, {}}, {{Reach::Number::param, 1}, {}}}, true};
  const auto layout = CallLayout::of({&reach, 1}, {{DType::f32}}, {{-4, -4}, {0}}, true);
  REQUIRE(layout.ok());
  CHECK(layout->elements(0) == 0);
  CHECK(layout->span_of(0) == 0);
}

TEST_CASE("a large call has as long as slow code needs for it") {
  const std::string text = R"(symbol s0 in [1, 8192]
graph(%a: f32[s0, 8192], %b: f32[8192, 8192]) {
  %y = aten.mm.default(%a, %b) : f32[s0, 8192]
  return %y
})";
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const auto plan = plan_kernels(*graph, {Device::cpu, Isa::portable});
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  const int64_t ms[] = {8192};
  const BuiltKernel unbuilt;
  const std::vector<StepTrial> trials = {step_trial(*plan, 0, unbuilt, ms, TuneMode::fast)};
  CHECK(step_timeout_s(trials, TuneMode::fast) > 60 + 2.0 * 8192 * 8192 * 8192 / 1e9);
  CHECK(step_timeout_s(trials, TuneMode::off) < step_timeout_s(trials, TuneMode::fast));
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
      {"amax(in0)", "vf reduce_run", "i < rows", "i + 1 < rows", "is wrong: "},
      {"mean(in0)", "void reduce_contiguous", "if (i < s.reduce)", "if (i > s.reduce)", "is wrong: "},
      {"max of 1x3(x)", "Taps taps_of", "from >= 0 ? 0", "from >= 0 ? 1", "is wrong: "},
      {"product of 1x5(x, weight)", "void slide(", "j < columns.last", "j + 1 < columns.last", "is wrong: error"},
      {"relu(add(mul(acc0, in1), add(in0, in2))) of acc0 = product of 1x5(x, weight)", "Operands operands_at(",
       "o.in2_w + channel", "o.in2_w", "is wrong: error"},
      {"relu(add(mul(acc0, in1), add(in0, in2))) of acc0 = product of 1x5(x, weight)", "Operands operands_at(",
       "o.in1 += place_w", "o.in1 += channel", "is wrong: error"},
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
      {"matmul(in0, in1)", "void multiply", "k < end", "k + 1 < end", "is wrong: error"},
      {"ge(add(pos0, size0), mul(in0, pos1))", "void run_row", "i_add(", "i_sub(", "is wrong: error"},
      {"where(ge(pos0, pos1), in0, size0)", "void run_row", "(float)(lane)", "(float)(lane + 1)", "is wrong: error"},
      {"grouped_matmul(in0, in1, in2)", "Rows rows_of", "i < b", "i + 1 < b", "is wrong: "},
      {"attention of [mul(acc0, 0.25)] where [ge(in0, pos3)]", "float* partial_at", "+ block)", "+ 0)", "is wrong: "},
      {"attention of [mul(acc0, 0.25)] where [ge(in0, pos3)]", "Part see(", "i * HEADS / G", "0", "is wrong: "},
      {"attention of [mul(acc0, 0.25)] where [ge(in0, pos3)]", "void weigh_row(", "v_set1(t.sum[i]), factor",
       "v_set1(t.sum[i]), v_set1(1)", "is wrong: error"},
      {"cumsum(in0)", "void scan_block", "i < axis", "i + 1 < axis", "is wrong: "},
      {"cummax(in0)", "struct Column", "place = i", "place = i - 1", "is wrong: error"},
      {"cummax(in0)", "struct Column", "x >= best", "x <= best", "is wrong: error"},
      {"cumlogsumexp(in0)", "struct Column", "others += exp_of", "others += 0.5f * exp_of", "is wrong: error"},
      {"prod(in0)", "void reduce_columns", "i < rows", "i + 1 < rows", "is wrong: error"},
      {"descending(in0)", "void take_few", "out[at - 1].key >", "out[at - 1].key <", "is wrong: "},
      {"ascending(in0)", "Entry* sort_row", "run < n", "2 * run < n", "is wrong: error"},
      {"out[in1] = in0", "void write", "+ begin, (size_t)(end - begin)", "+ begin, (size_t)(end - begin - 1)",
       "is wrong: error"},
      {"out[in1] = in0", "void write", "Item* const to = y + place", "Item* const to = y", "is wrong: error"},
      {"out[in1] amax= in0", "Item combined(", "b > a", "b < a", "is wrong: error"},
      {kRows, "void run_row", "v_set1((float)width)", "v_set1((float)(width + 1))", "is wrong: error"},
      {kRows, "void run_row", "v_load_f32(kept2 + i)", "v_load_f32(kept2)", "is wrong: error"},
      {kRows, "void run_row", "if (i < width)", "if (i > width)", "is wrong: "},
      {kRows, "int64_t items(", "+ r.per_item - 1", "", "is wrong: "},
      {"out[in1] = in0", "void write", "number < positions", "number + 1 < positions", "is wrong: error"},
  };
  const Plan plan = plan_families({Device::cpu, Isa::portable});
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

TEST_CASE("a kernel that gives a number where none is right is refused") {
  auto graph = parse_graph(R"(symbol s0 in [1, 4096]
graph(%x: f32[s0]) {
  %y = qcg.loop([%x], exprs = [mul(sqrt(in0), 2)]) : f32[s0]
  return %y
})");
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const auto plan = plan_kernels(*graph, {Device::cpu, Isa::portable});
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  std::vector<KernelSource> sources = sources_of(*plan);
  sources.push_back(sources[0]);
  sources[1].source = altered(sources[1].source, "void run_row", "v_sqrt(in0)", "v_sqrt(v_abs(in0))");
  const std::vector<BuiltKernel> built = build_kernels(std::move(sources));
  CHECK(try_steps(trials_of(*plan, {built[0]}, TuneMode::off), quick_options(TuneMode::off)).ok());
  const auto results = try_steps(trials_of(*plan, {built[1]}, TuneMode::off), quick_options(TuneMode::off));
  REQUIRE(!results.ok());
  CHECK_MESSAGE(results.error().message.find(" where nan is right") != std::string::npos, results.error().message);
}

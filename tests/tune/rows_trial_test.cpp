// Row programs drawn at random, on every ISA of this host: right to their bounds, and the same for any number of threads.
#include <algorithm>
#include <random>
#include <set>

#include "codegen/batch.h"
#include "codegen/check/call_memory.h"
#include "codegen/rows/row_passes.h"
#include "codegen/tune/step_trial.h"
#include "graph/ops/verify.h"
#include "graph/read/text.h"
#include "runtime/module.h"
#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// A graph of one qcg.rows. Operands are whole, of one row, of one value per row, repeated along leading axes, or lie
// transposed in memory.
std::string random_program(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto draw = [&](int below) { return static_cast<int>(rng() % static_cast<uint64_t>(below)); };
  static constexpr int kWidths[] = {2, 7, 16, 37, 64, 129, 515, 4099};
  static constexpr const char* kTypes[] = {"f32", "bf16", "f16", "f32", "i8", "bool"};
  const int width = kWidths[draw(8)];
  std::string inputs, views, operands;
  const int count = 2 + draw(3);
  for (int i = 0; i < count; ++i) {
    const std::string shapes[] = {fmt::format("[s0, 3, {}]", width), fmt::format("[{}]", width), "[s0, 3, 1]",
                                  fmt::format("[3, {}]", width), "[s0, 1, 1]"};
    const char* type = kTypes[i == 0 ? draw(4) : draw(6)];
    const bool turned = i > 0 && draw(5) == 0;
    const std::string shape = turned ? fmt::format("[s0, {}, 3]", width) : shapes[i == 0 ? 0 : draw(5)];
    inputs += fmt::format("{}%i{}: {}{}", i ? ", " : "", i, type, shape);
    if (turned)
      views += fmt::format("  %t{} = aten.transpose.int(%i{}, dim0 = 1, dim1 = 2) : {}{}\n", i, i, type, shapes[0]);
    operands += fmt::format("{}%{}{}", i ? ", " : "", turned ? "t" : "i", i);
  }
  // Steps of elements and of rows; the first is of elements.
  std::vector<int> elements = {0}, per_row;
  std::string steps = "mul(in0, 0.75)", reduce = "-";
  const int length = 4 + draw(7);
  for (int j = 1; j < length; ++j) {
    const auto element = [&] {
      return draw(2) ? fmt::format("in{}", draw(count))
                     : fmt::format("acc{}", elements[static_cast<size_t>(draw(static_cast<int>(elements.size())))]);
    };
    const std::string whole =
        fmt::format("acc{}", elements[static_cast<size_t>(draw(static_cast<int>(elements.size())))]);
    const std::string row =
        per_row.empty() ? "0.5"
                        : fmt::format("acc{}", per_row[static_cast<size_t>(draw(static_cast<int>(per_row.size())))]);
    std::string text, word = "-";
    switch (draw(7)) {
      case 0:
      case 6: text = fmt::format("exp(min(sub({}, {}), 1))", whole, row), elements.push_back(j); break;
      case 1: text = fmt::format("add(mul({}, {}), {})", whole, row, element()), elements.push_back(j); break;
      case 2:
        if (per_row.empty()) text = fmt::format("where(gt({}, 0), {}, 0.25)", element(), whole), elements.push_back(j);
        else text = fmt::format("div({}, add(abs({}), 1))", row, row), per_row.push_back(j);
        break;
      default: {
        static constexpr const char* kWords[] = {"sum", "mean", "amax", "amin"};
        word = kWords[draw(4)];
        text = draw(2) ? whole : fmt::format("mul({}, {})", whole, element());
        per_row.push_back(j);
      }
    }
    steps += ", " + text, reduce += " " + word;
  }
  std::set<int> stores = {elements.back()};
  if (!per_row.empty()) stores.insert(per_row.back());
  if (draw(2)) stores.insert(elements[0]);
  std::string stored, outputs, types;
  for (const int j : stores) {
    const bool row = std::ranges::find(per_row, j) != per_row.end();
    const std::string comma = stored.empty() ? "" : ", ";
    stored += comma + std::to_string(j), outputs += fmt::format("{}%o{}", comma, j);
    types += fmt::format("{}{}[s0, 3, {}]", comma, kTypes[draw(4)], row ? 1 : width);
  }
  return fmt::format(
      "symbol s0 in [1, 64]\ngraph({}) {{\n{}  {} = qcg.rows([{}], steps = [{}], reduce = \"{}\", stores = "
      "[{}], shape = [s0, 3, {}]) : {}\n  return {}\n}}\n",
      inputs, views, outputs, operands, steps, reduce, stored, width, types, outputs);
}

Plan plan_for(const std::string& text, Isa isa) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const Status verified = verify_graph(*graph);
  REQUIRE_MESSAGE(verified.ok(), verified.error().to_string());
  auto plan = plan_kernels(*graph, {Device::cpu, isa});
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  return std::move(*plan);
}

// All bytes that a call leaves, outputs included.
std::vector<double> results_with(int threads, const qcg_kernel& kernel, const KernelProblem& problem,
                                 const CallSizes& sizes) {
  const size_t args = sizes.strides.size();
  auto call = CallMemory::create(problem.family().reaches(problem, args, 0), problem.family().arguments(problem, args),
                                 sizes, 7);
  REQUIRE(call.ok());
  ThreadPool pool({.threads = threads});
  Workspace workspace;
  REQUIRE(run_kernel(pool, kernel, call->call(), workspace).ok());
  std::vector<double> out;
  for (size_t arg = call->first_output(); arg < call->args(); ++arg)
    for (int64_t i = 0; i < call->elements(arg); ++i)
      out.push_back(call->number(arg, call->offset_of(arg, call->index_of(arg, i))));
  return out;
}

}  // namespace

TEST_CASE("random row programs are right on every ISA, with any number of threads") {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16})
    if (why_isa_unavailable(isa).empty()) isas.push_back(isa);
  constexpr uint64_t kPrograms = 40;
  std::vector<Plan> plans;
  std::vector<KernelSource> sources;
  std::vector<size_t> first;
  size_t keeping = 0;
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    const std::string text = random_program(seed);
    INFO(text);
    plans.push_back(plan_for(text, isas[seed % isas.size()]));
    Batch batch;
    for (const KernelProblem& problem : plans.back().problems)
      REQUIRE(add_other(batch, problem, plans.back().target).ok());
    first.push_back(sources.size());
    sources.insert(sources.end(), batch.sources.begin(), batch.sources.end());
    for (const KernelProblem& problem : plans.back().problems)
      if (const auto* rows = problem.get_if<RowsProblem>())
        for (const RowPass& pass : plan_row_passes(*rows).passes) keeping += !pass.kept.empty();
  }
  CHECK(keeping > kPrograms / 8);
  const std::vector<BuiltKernel> built = build_kernels(std::move(sources));
  for (size_t i = 0; i < plans.size(); ++i) {
    INFO(random_program(i));
    std::vector<StepTrial> trials;
    for (size_t p = 0; p < plans[i].problems.size(); ++p) {
      REQUIRE_MESSAGE(built[first[i] + p].ok(), built[first[i] + p].failure);
      trials.push_back(step_trial(plans[i], static_cast<int>(p), built[first[i] + p], {}, TuneMode::off));
    }
    const auto results = try_steps(trials, quick_options(TuneMode::off));
    CHECK_MESSAGE(results.ok(), results.error().to_string());
    auto module = Module::load_bytes(trials[0].kernel->bytes, trials[0].kernel->source.name);
    REQUIRE(module.ok());
    auto kernel = module->find_kernel(trials[0].kernel->source.symbol);
    REQUIRE(kernel.ok());
    const auto alone = results_with(1, **kernel, *trials[0].problem, trials[0].checks.back());
    const auto many = results_with(5, **kernel, *trials[0].problem, trials[0].checks.back());
    CHECK(std::ranges::equal(alone, many, [](double a, double b) { return a == b || (a != a && b != b); }));
  }
}

// Each step reads the one before twice.
TEST_CASE("passes over rows of long chains are planned at once") {
  constexpr int kChain = 60;
  RowProgram program;
  program.steps.push_back({Expr::call("exp", {Expr::in(0)})});
  for (int i = 0; i < kChain; ++i) program.steps.push_back({Expr::call("mul", {Expr::acc(i), Expr::acc(i)})});
  program.steps.push_back({Expr::acc(kChain), RowReduction::sum});
  program.steps.push_back({Expr::call("mul", {Expr::acc(kChain), Expr::acc(kChain + 1)})});
  program.stores = {kChain + 2};
  find_per_row(program, {false});
  const RowPasses planned = plan_row_passes({2, {DType::f32}, {1}, {DType::f32}, program, ""});
  REQUIRE(planned.passes.size() == 2);
  CHECK(planned.passes[0].kept == std::vector<size_t>{kChain});
  CHECK(planned.passes[1].loaded == std::vector<size_t>{kChain});
}

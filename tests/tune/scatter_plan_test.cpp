// Writes at positions known only at run time: a step moves what it writes and no more, and explain says where it cannot.
#include <algorithm>

#include "codegen/check/call_memory.h"
#include "codegen/plan/plan.h"
#include "graph/ops/verify.h"
#include "graph/read/text.h"
#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Plan plan_of_writes(const std::string& text) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const Status verified = verify_graph(*graph);
  REQUIRE_MESSAGE(verified.ok(), verified.error().to_string());
  auto plan = plan_kernels(*graph, {Device::cpu, Isa::portable});
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  return std::move(*plan);
}

// What one step reads and writes at this many positions.
double bytes_of_step(const Plan& plan, const PlanStep& step, int64_t positions) {
  const KernelProblem& problem = plan.problems[static_cast<size_t>(step.problem)];
  CallSizes sizes;
  for (const Dim& param : step.params) sizes.params.push_back(*param.evaluate({{"s", positions}}));
  for (const PlanArg& arg : step.args) sizes.strides.push_back(arg.stride->evaluate({{"s", positions}}).value());
  return bytes_moved(problem.family().reaches(problem, step.args.size(), 0), sizes);
}

// A cache of 4096 rows per head, written at s positions.
std::string cache_graph(const std::string& write, const std::string& more, const std::string& outputs) {
  return "symbol s in [1, 64]\nstate %cache: bf16[1, 8, 4096, 64]\n"
         "graph(%k: bf16[1, s, 8, 64], %at: i64[s]) {\n"
         "  %t = aten.transpose.int(%k, dim0 = 1, dim1 = 2) : bf16[1, 8, s, 64]\n" +
         write + more + "  return " + outputs + "\n  next %cache = %next\n}\n";
}

const std::string kCopy =
    "  %next = aten.index_copy.default(%cache, dim = 2, index = %at, source = %t) : bf16[1, 8, 4096, 64]\n";
const std::string kPut = "  %next = aten.index_put.default(%cache, [none, none, %at], %t) : bf16[1, 8, 4096, 64]\n";
const std::string kRead = "  %y = aten.slice.Tensor(%next, dim = 2, start = 0, end = 1) : bf16[1, 8, 1, 64]\n";

int copies(const Plan& plan) {
  return static_cast<int>(
      std::ranges::count_if(plan.steps, [](const PlanStep& s) { return s.name.starts_with("copy"); }));
}

}  // namespace

TEST_CASE("a decode step moves one row of each head of a cache, and not the cache") {
  for (const std::string& write : {kCopy, kPut}) {
    const Plan plan = plan_of_writes(cache_graph(write, kRead, "%y"));
    CHECK(copies(plan) == 1);  // of %y, to the output
    const auto step =
        std::ranges::find_if(plan.steps, [](const PlanStep& s) { return s.name.starts_with("write into"); });
    REQUIRE(step != plan.steps.end());
    const double rows = 8 * 64 * 2;
    CHECK(bytes_of_step(plan, *step, 1) == 2 * rows + 8);
    const PlanArg& written = step->args.back();
    CHECK(plan.buffers[static_cast<size_t>(written.buffer)].kind == BufferKind::state);
  }
}

TEST_CASE("where the old value of a cache is read later it is copied, and the step says so") {
  const Plan plan = plan_of_writes(
      cache_graph(kCopy, "  %y = aten.slice.Tensor(%cache, dim = 2, start = 0, end = 1) : bf16[1, 8, 1, 64]\n", "%y"));
  const bool named = std::ranges::any_of(plan.steps, [](const PlanStep& s) {
    return s.name.find("of cache (the old value is returned)") != std::string::npos;
  });
  CHECK(named);
}

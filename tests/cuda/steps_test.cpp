// Kernels that are no GEMMs on a device: each family against its oracle, executed from its PTX; ones that were made wrong;
// what they ask of memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "codegen/scatter/scatter.h"
#include "codegen/select/select.h"
#include "codegen/tune/step_trial.h"
#include "cuda_compiler.h"
#include "step_graphs.h"
#include "step_run.h"
#include "tests/tune/family_graph.h"

using namespace qcg;
using namespace qcg::test;

namespace {

constexpr uint64_t kSeed = 7;

// The first problem of the plan whose kernel is wrong, or what is wrong with it; empty: all sizes are right.
std::string what_is_wrong(const Plan& plan, int problem, const KernelSource& source, const ptx::LoadedKernel& kernel) {
  BuiltKernel built;
  built.source = source;
  const StepTrial trial = step_trial(plan, problem, built, {}, TuneMode::off);
  bool shift = true;
  for (const CallSizes& sizes : trial.checks) {
    const auto run = [&](CallMemory& call) { return execute_call(kernel, source.launch, call, shift, nullptr); };
    const OracleReport report = check_call_at(run, *trial.problem, sizes, kSeed);
    if (!report.ok) return report.reason;
    shift = !shift;
  }
  return "";
}

std::string altered(std::string source, std::string_view from, std::string_view to) {
  const size_t at = source.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from, " in\n", source);
  return source.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("ptx: kernels of every family on a device are right at awkward sizes") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  const Plan plan = plan_families({Device::cuda, Isa::sm_80});
  const std::vector<int> problems = problems_on_device(plan);
  const std::vector<KernelSource> sources = sources_of(plan, problems);
  const std::vector<ptx::LoadedKernel> kernels = load_sources(*tool, sources);
  for (size_t i = 0; i < problems.size(); ++i) {
    const KernelProblem& problem = plan.problems[static_cast<size_t>(problems[i])];
    INFO(problem.family().name, " ", problem.family().formula(problem));
    CHECK(what_is_wrong(plan, problems[i], sources[i], kernels[i]) == "");
  }
}

TEST_CASE("ptx: rows longer than a block are put in order") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  auto graph = parse_graph(kSortedRows);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const auto plan = plan_kernels(*graph, {Device::cuda, Isa::sm_80});
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  const std::vector<int> problems = problems_on_device(*plan);
  REQUIRE(problems.size() == plan->problems.size());
  const std::vector<KernelSource> sources = sources_of(*plan, problems);
  const std::vector<ptx::LoadedKernel> kernels = load_sources(*tool, sources);
  for (size_t i = 0; i < problems.size(); ++i) {
    INFO(problem_signature(plan->problems[i]));
    CHECK(what_is_wrong(*plan, problems[i], sources[i], kernels[i]) == "");
  }
  // The search for the first 40, made wrong.
  size_t many = 0;
  while (plan->problems[static_cast<size_t>(problems[many])].get<SelectProblem>().dtype != DType::bf16) ++many;
  std::vector<KernelSource> wrong;
  const std::pair<const char*, const char*> changes[] = {{"i > place)", "i >= place)"},
                                                         {"rank -= smaller", "rank -= 0"},
                                                         {"__syncthreads();\n  for (int c", "for (int c"}};
  for (const auto& [from, to] : changes) {
    wrong.push_back(sources[many]);
    wrong.back().source = altered(sources[many].source, from, to);
  }
  const std::vector<ptx::LoadedKernel> wrong_kernels = load_sources(*tool, wrong);
  for (size_t i = 0; i < wrong.size(); ++i) {
    INFO("number ", i);
    CHECK(what_is_wrong(*plan, problems[many], wrong[i], wrong_kernels[i]) != "");
  }
}

TEST_CASE("ptx: writes at positions, many of them equal, come in their order or not at all") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  auto graph = parse_graph(kWrites);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const auto plan = plan_kernels(*graph, {Device::cuda, Isa::sm_80});
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  std::vector<int> problems;
  for (const int p : problems_on_device(*plan))
    if (plan->problems[static_cast<size_t>(p)].family().name == "scatter") problems.push_back(p);
  REQUIRE(problems.size() == 9);
  const std::vector<KernelSource> sources = sources_of(*plan, problems);
  std::vector<KernelSource> serial = sources;  // what is done with more positions than blocks compare
  for (KernelSource& source : serial) source.source = altered(source.source, "MANY = 65536", "MANY = 2");
  std::vector<KernelSource> wrong = sources;
  for (size_t i = 0; i < problems.size(); ++i) {
    const bool combines = !plan->problems[static_cast<size_t>(problems[i])].get<ScatterProblem>().combine.empty();
    wrong[i].source = combines ? altered(sources[i].source, "from + k < number", "from + k > number")
                               : altered(sources[i].source, "from + i > number", "from + i < number");
  }
  const std::vector<ptx::LoadedKernel> kernels = load_sources(*tool, sources),
                                       serial_kernels = load_sources(*tool, serial),
                                       wrong_kernels = load_sources(*tool, wrong);
  for (size_t i = 0; i < problems.size(); ++i) {
    const KernelProblem& problem = plan->problems[static_cast<size_t>(problems[i])];
    INFO(problem_signature(problem));
    CHECK(what_is_wrong(*plan, problems[i], sources[i], kernels[i]) == "");
    CHECK(what_is_wrong(*plan, problems[i], serial[i], serial_kernels[i]) == "");
    CHECK(what_is_wrong(*plan, problems[i], wrong[i], wrong_kernels[i]) != "");
    // One position that is out of range.
    BuiltKernel built;
    built.source = sources[i];
    const StepTrial trial = step_trial(*plan, problems[i], built, {}, TuneMode::off);
    for (const CallSizes& sizes : trial.checks) {
      const auto run = [&](CallMemory& call) {
        const auto y =
            static_cast<uint8_t*>(call.call().args[call.first_output()].data) - call.before(call.first_output());
        const std::vector<uint8_t> before(y, y + call.span_of(call.first_output()));
        const int64_t last = call.elements(1) - 1;
        const auto at = static_cast<uint8_t*>(call.call().args[1].data) +
                        call.offset_of(1, call.index_of(1, last)) * static_cast<int64_t>(dtype_bytes(call.dtype(1)));
        std::memset(at, 0x7f, dtype_bytes(call.dtype(1)));
        Status status;
        for (const ptx::LoadedKernel* kernel : {&kernels[i], &serial_kernels[i]}) {
          status = execute_call(*kernel, sources[i].launch, call, false, nullptr);
          CHECK(std::equal(before.begin(), before.end(), y));
        }
        return status;
      };
      CHECK(check_call_at(run, problem, sizes, kSeed).reason.find("refuses position ") != std::string::npos);
    }
  }
}

// A state whose next value is a plain copy is written in place, where the other outputs read the old value.
TEST_CASE("a loop on a device makes plain copies last") {
  auto graph = parse_graph(R"(
graph(%s: f32[6, 4], %x: f32[6, 4]) {
  %c, %y = qcg.loop([%s, %x], exprs = [in1, add(in0, in1)]) : f32[6, 4], f32[6, 4]
  return %c, %y
})");
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  for (const Target target : {Target{Device::cuda, Isa::sm_80}, Target{Device::hip, Isa::gfx90a}}) {
    const auto plan = plan_kernels(*graph, target);
    REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
    const std::string source = sources_of(*plan, problems_on_device(*plan)).at(0).source;
    const size_t copy = source.find("move<WIDTH>(("), store = source.rfind("store<Stored_");
    REQUIRE(copy != std::string::npos);
    REQUIRE(store != std::string::npos);
    CHECK(store < copy);
  }
}

TEST_CASE("ptx: attention on tensor cores is right at ragged sizes") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  auto graph = parse_graph(kAttention);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const auto plan = plan_kernels(*graph, {Device::cuda, Isa::sm_80});
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  std::vector<int> problems;
  for (const int p : problems_on_device(*plan))
    if (plan->problems[static_cast<size_t>(p)].family().name == "attention") problems.push_back(p);
  REQUIRE(problems.size() == 5);
  const std::vector<KernelSource> sources = sources_of(*plan, problems);
  for (const CompileResult& cubin : compile_sources(*tool, sources, OutputKind::cubin)) {
    REQUIRE(cubin.cuda.size() == 1);
    CHECK(cubin.cuda[0].spill_store_bytes + cubin.cuda[0].spill_load_bytes == 0);
  }
  const std::vector<ptx::LoadedKernel> kernels = load_sources(*tool, sources);
  for (size_t i = 0; i < problems.size(); ++i) {
    CHECK(sources[i].source.find("return compute_tile(args)") != std::string::npos);
    INFO(problem_signature(plan->problems[static_cast<size_t>(problems[i])]));
    CHECK(what_is_wrong(*plan, problems[i], sources[i], kernels[i]) == "");
  }
  struct Seeded {
    size_t problem;
    const char *from, *to;
  };
  const Seeded cases[] = {
      {0, "sums[n][half * 2] *= factor", "sums[n][half * 2] *= 1"},
      {0, "__syncthreads();  // the tiles before are read, too", ""},
      {0, "__syncthreads();  // both tiles are there", ""},
      {0, "most = s_max(most, shuffle_xor(most, 2));", ""},
      {2, "b, head, row, column)) visible", "b, head, row, column + 1)) visible"},
      {2, "& 5) != 0", "& 1) != 0"},
  };
  std::vector<KernelSource> wrong;
  for (const Seeded& seeded : cases) {
    wrong.push_back(sources[seeded.problem]);
    wrong.back().source = altered(sources[seeded.problem].source, seeded.from, seeded.to);
  }
  const std::vector<ptx::LoadedKernel> wrong_kernels = load_sources(*tool, wrong);
  for (size_t i = 0; i < wrong.size(); ++i) {
    INFO(std::string(cases[i].from));
    CHECK(what_is_wrong(*plan, problems[cases[i].problem], wrong[i], wrong_kernels[i]) != "");
  }
}

TEST_CASE("ptx: a kernel of a device that was made wrong is found") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  struct Seeded {
    std::string_view kernel, from, to;  // its family, and how its formula begins
  };
  const Seeded cases[] = {
      {"loop", "const int count = inner - i < WIDTH ? (int)(inner - i) : WIDTH", "const int count = WIDTH"},
      {"loop", "* WIDTH;\n", "* WIDTH + 1;\n"},
      {"rows", "/ (float)width", "/ (float)(width + 1)"},
      {"rows", "if (e < count)", "if (e + 1 < count)"},
      {"rows", "run_row<32>(args, row, partial)", "run_row<32>(args, row + 1, partial)"},
      {"quantize_rows", "s_round_even(s_cast_", "s_floor(s_cast_"},
      {"reduce mean", "i = threadIdx.x;", "i = threadIdx.x + 1;"},
      {"reduce amax", "i += WARPS", "i += WARPS + 1"},
      {"reduce amax", "__syncthreads()", ""},
      {"matmul", "__syncthreads()", ""},
      {"matmul", "left < 4 ? (int)left : 4", "4"},
      {"gather", "id += size", "id += size - 1"},
      {"windows", "row >= height", "row + 1 >= height"},
      {"bags sum", "id == p[PADDING]", "id == p[PADDING] + 1"},
      {"scatter", "__syncthreads();\n    if (in_order)", "if (in_order)"},
      {"scatter", "elements) y[e", "elements && number > 0) y[e"},
      {"scan", "+= ", "-= "},
      {"select descending", "other == key && i > position", "other == key"},
      {"select ascending", "from + i < own", "from + i <= own"},
      {"select ascending", "__syncthreads();\n    const int count", "const int count"},
      {"attention", "total * factor", "total"},
      {"attention", "__syncthreads()", ""},
  };
  const Plan plan = plan_families({Device::cuda, Isa::sm_80});
  const std::vector<int> problems = problems_on_device(plan);
  const std::vector<KernelSource> right = sources_of(plan, problems);
  std::vector<KernelSource> sources;
  std::vector<int> of;
  for (const Seeded& seeded : cases) {
    const auto fits = [&](size_t i) {
      const KernelProblem& problem = plan.problems[static_cast<size_t>(problems[i])];
      const std::string kernel = std::string(problem.family().name) + " " + problem.family().formula(problem);
      return kernel.starts_with(seeded.kernel) && right[i].source.find(seeded.from) != std::string::npos;
    };
    size_t i = 0;
    while (i < problems.size() && !fits(i)) ++i;
    REQUIRE_MESSAGE(i < problems.size(), seeded.kernel, ": ", seeded.from);
    sources.push_back(right[i]);
    sources.back().source = altered(right[i].source, seeded.from, seeded.to);
    of.push_back(problems[i]);
  }
  const std::vector<ptx::LoadedKernel> kernels = load_sources(*tool, sources);
  for (size_t c = 0; c < sources.size(); ++c) {
    INFO(cases[c].kernel, ": ", cases[c].to);
    CHECK(what_is_wrong(plan, of[c], sources[c], kernels[c]) != "");
  }
}

TEST_CASE("ptx: what kernels of full rows ask of memory, and that they spill nothing") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  auto graph = parse_graph(kFullRows);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const auto plan = plan_kernels(*graph, {Device::cuda, Isa::sm_90a});
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  const std::vector<int> problems = problems_on_device(*plan);
  REQUIRE(problems.size() == plan->problems.size());
  const std::vector<KernelSource> sources = sources_of(*plan, problems);
  for (const CompileResult& cubin : compile_sources(*tool, sources, OutputKind::cubin)) {
    REQUIRE(cubin.cuda.size() == 1);
    CHECK(cubin.cuda[0].spill_store_bytes + cubin.cuda[0].spill_load_bytes == 0);
  }
  const std::vector<ptx::LoadedKernel> kernels = load_sources(*tool, sources);
  for (const PlanStep& step : plan->steps) {
    const auto p = static_cast<size_t>(step.problem);
    const KernelProblem& problem = plan->problems[p];
    CallSizes sizes;
    for (const Dim& param : step.params) sizes.params.push_back(param.constant());
    for (const PlanArg& arg : step.args) sizes.strides.push_back(arg.stride ? arg.stride->constant() : 2048);
    ptx::Counters counters;
    const auto run = [&](CallMemory& call) {
      return execute_call(kernels[p], sources[p].launch, call, false, &counters);
    };
    const OracleReport report = check_call_at(run, problem, sizes, kSeed);
    INFO(problem.family().name, ": ", counters.total(), " instructions, ", counters.all_global.cost, " sectors for ",
         counters.all_global.ideal, ", ", counters.all_shared.cost, " wavefronts for ", counters.all_shared.ideal);
    CHECK_MESSAGE(report.ok, report.reason);
    CHECK(counters.all_global.ratio() <= 1.1);
    CHECK(counters.all_shared.ratio() <= 1.05);
  }
}

// Whole CUDA programs, from a graph through the runtime to outputs, with kernels executed from their PTX.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "codegen/program/combine.h"
#include "tests/cuda_program/executed_device.h"

using namespace qcg;
using namespace qcg::test;

namespace {

void check_program(const std::string& folder, const Toolchain& tool, std::initializer_list<int> ms,
                   Isa isa = Isa::sm_80) {
  INFO(folder);
  TempDir dir;
  compile_graph(folder, isa, dir / "p.qcg");
  ExecutedDevice device(tool, isa);
  device.add_program(dir / "p.qcg");
  const FakeLibrary library(device);
  for (const int m : ms) {
    const std::string stem = fmt::format("{}/m{}", folder, m);
    if (!fs::exists(stem + ".inputs.safetensors")) continue;
    INFO("m = ", m);
    auto inputs = read_safetensors(stem + ".inputs.safetensors"),
         expected = read_safetensors(stem + ".expected.safetensors");
    REQUIRE(inputs.ok());
    REQUIRE(expected.ok());
    std::vector<std::pair<std::string, Tensor>> outputs;
    const Status status = run(dir / "p.qcg", *inputs, *expected, outputs);
    REQUIRE_MESSAGE(status.ok(), status.error().to_string(), device.fault);
    for (const auto& [name, got] : outputs) compare(got, expected->tensors.at(name), bounds_of(got.dtype));
  }
  CHECK(device.launches > 0);
}

}  // namespace

TEST_CASE("a program of the repository's examples runs on the device, and says which call of the driver failed") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  const std::string folder = source_dir() + "/examples/llama_mlp_int8";
  check_program(folder, *tool, {1});

  TempDir dir;
  compile_graph(folder, Isa::sm_80, dir / "p.qcg");
  std::string stem;
  for (const auto& file : fs::directory_iterator(folder))
    if (const std::string path = file.path(); path.ends_with(".inputs.safetensors"))
      stem = path.substr(0, path.size() - 19);
  auto inputs = read_safetensors(stem + ".inputs.safetensors"),
       expected = read_safetensors(stem + ".expected.safetensors");
  REQUIRE(inputs.ok());
  REQUIRE(expected.ok());
  std::map<std::string, int> entry_points;
  {
    ExecutedDevice device(*tool);
    device.add_program(dir / "p.qcg");
    const FakeLibrary library(device);
    std::vector<std::pair<std::string, Tensor>> outputs;
    auto sequence = begin_sequence(dir / "p.qcg");
    REQUIRE(sequence.ok());
    for (int run_number = 0; run_number < 2; ++run_number)  // the second makes a graph
      REQUIRE(run(*sequence, *inputs, *expected, outputs).ok());
    entry_points = device.seen;
  }
  CHECK(entry_points.size() >= 18);
  CHECK(entry_points.contains("cuGraphLaunch"));
  for (const char* name : kRecording) CHECK(entry_points.erase(name) == 1);  // without them, steps are launched
  ExecutedDevice device(*tool);
  device.add_program(dir / "p.qcg");
  const FakeLibrary library(device);
  for (const auto& [name, calls] : entry_points) {
    INFO(name);
    device.fails = name;
    std::vector<std::pair<std::string, Tensor>> outputs;
    Status status;
    if (auto sequence = begin_sequence(dir / "p.qcg"); !sequence.ok()) status = sequence.error();
    else
      for (int run_number = 0; run_number < 2 && status.ok(); ++run_number)
        status = run(*sequence, *inputs, *expected, outputs);
    REQUIRE(!status.ok());
    const std::string text = status.error().to_string();
    INFO(text);
    CHECK((text.find("the executor's error") != std::string::npos || text.find("no such kernel") != std::string::npos));
  }
}

TEST_CASE("a device whose blocks have less shared memory than a kernel needs refuses the program when it is loaded") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  ExecutedProgram program(*tool, source_dir() + "/examples/llama_mlp_int8");
  int most = 0;
  {
    const auto loaded = Program::load(program.path);
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().to_string());
    for (const auto& step : (*loaded)->manifest().steps)
      for (const auto& kernel : step.kernels) most = std::max(most, kernel.launch.shared_bytes);
  }
  REQUIRE(most > 0);
  program.device.shared_bytes_of_a_block = most;
  CHECK(Program::load(program.path).ok());
  program.device.shared_bytes_of_a_block = most - 1;
  const auto refused = Program::load(program.path);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::Unsupported);
  CHECK(refused.error().message.find("bytes of shared memory") != std::string::npos);
}

TEST_CASE("a run waits once; the same calls again are replayed as a graph, others are launched") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  const std::string folder = source_dir() + "/examples/llama_mlp_int8";
  ExecutedProgram program(*tool, folder);
  ExecutedDevice& device = program.device;
  const auto [inputs, expected] = read_example(folder + "/m1");
  auto sequence = begin_sequence(program.path);
  REQUIRE_MESSAGE(sequence.ok(), sequence.error().to_string());
  const int steps = static_cast<int>(sequence->program->manifest().steps.size());
  REQUIRE(steps >= 2);
  const auto run_rows = [&](int64_t rows) {
    device.seen.clear(), device.launches = 0;
    Safetensors in = inputs, want = expected;
    for (Safetensors* tensors : {&in, &want})
      for (auto& [name, t] : tensors->tensors) {
        std::vector<std::byte> bytes;
        for (int64_t r = 0; r < rows; ++r) bytes.insert(bytes.end(), t.bytes().begin(), t.bytes().end());
        std::vector<int64_t> shape = t.shape;
        shape[0] *= rows;
        t = Tensor::from_bytes(t.dtype, shape, std::move(bytes));
      }
    std::vector<std::pair<std::string, Tensor>> outputs;
    const Status status = run(*sequence, in, want, outputs);
    REQUIRE_MESSAGE(status.ok(), status.error().to_string(), device.fault);
    for (const auto& [name, got] : outputs) compare(got, want.tensors.at(name), bounds_of(got.dtype));
    CHECK(device.launches == steps);
    CHECK(device.seen["cuStreamSynchronize"] == 1);
  };
  const auto check_launched = [&] {
    CHECK(device.seen["cuLaunchKernel"] == steps);
    CHECK(device.seen["cuGraphLaunch"] == 0);
  };
  const auto check_replayed = [&](bool is_new) {
    CHECK(device.seen["cuGraphLaunch"] == 1);
    CHECK(device.seen["cuGraphInstantiateWithFlags"] == (is_new ? 1 : 0));
    CHECK(device.seen["cuLaunchKernel"] == (is_new ? steps : 0));  // those that are recorded
  };
  run_rows(1), check_launched();
  run_rows(1), check_replayed(true);
  run_rows(1), check_replayed(false);
  run_rows(3), check_launched();  // memory grows, too
  run_rows(3), check_replayed(true);
  run_rows(1), check_launched();  // at other addresses
  run_rows(1), check_replayed(true);
  run_rows(3), check_replayed(false);  // that of these sizes is kept

  sequence->context->set_profile(true);
  device.seen.clear();
  std::vector<std::pair<std::string, Tensor>> outputs;
  REQUIRE(run(*sequence, inputs, expected, outputs).ok());
  CHECK(device.seen["cuLaunchKernel"] == steps);
  CHECK(device.seen["cuStreamSynchronize"] == steps);
  CHECK(sequence->context->last_profile().steps.size() == static_cast<size_t>(steps));
}

TEST_CASE("a program for CPUs and devices runs on the device where there is one that can run it") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  const std::string folder = source_dir() + "/examples/llama_mlp_int8";
  TempDir dir;
  std::vector<std::string> parts;
  size_t on_device = 0;  // bytes of weights
  for (const char* target : {"cpu:portable", "cuda:sm_80"}) {
    parts.push_back(dir / target);
    CompileOptions o{.input = folder + "/graph.pt2", .output = parts.back(), .target = target};
    o.tune = TuneMode::off;
    o.verify = Verify::kernels;
    o.cache_dir = shared_kernel_cache();
    auto report = compile_program(o);
    REQUIRE_MESSAGE(report.ok(), report.error().to_string());
    on_device = static_cast<size_t>(report->weight_bytes);
  }
  const std::string fat = dir / "fat.qcg";
  auto combined = combine_targets(parts, fat);
  REQUIRE_MESSAGE(combined.ok(), combined.error().to_string());
  auto inputs = read_safetensors(folder + "/m1.inputs.safetensors"),
       expected = read_safetensors(folder + "/m1.expected.safetensors");
  REQUIRE(inputs.ok());
  REQUIRE(expected.ok());
  const auto check_run = [&](const std::string& wish, const std::string& chosen) {
    INFO(wish);
    auto program = Program::load(fat, {.target = wish});
    REQUIRE_MESSAGE(program.ok(), program.error().to_string());
    CHECK((*program)->manifest().target == chosen);
    auto context = Context::create(*program, {.threads = 1});
    REQUIRE(context.ok());
    Sequence sequence{*program, std::move(*context), State::create(*program).value()};
    std::vector<std::pair<std::string, Tensor>> outputs;
    REQUIRE(run(sequence, *inputs, *expected, outputs).ok());
    for (const auto& [name, got] : outputs) compare(got, expected->tensors.at(name), bounds_of(got.dtype));
  };
  check_run("", "cpu:portable");
  {
    ExecutedDevice device(*tool);
    device.add_program(fat);
    const FakeLibrary library(device);
    check_run("", "cuda:sm_80");
    CHECK(device.launches == 2);
    // The packed weights of the CPU stay in the file.
    REQUIRE(!device.allocated.empty());
    CHECK(device.allocated[0] >= on_device);
    CHECK(device.allocated[0] < on_device + 5 * 4096);
    CHECK(static_cast<size_t>(combined->weight_bytes) > on_device + on_device / 2);
    check_run("cpu", "cpu:portable");
    CHECK(device.launches == 2);
  }
  ExecutedDevice hopper(*tool, Isa::sm_90a);  // which has no kernels for sm_80
  const FakeLibrary library(hopper);
  check_run("", "cpu:portable");
  const auto refused = Program::load(fat, {.target = "cuda"});
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::Unsupported);
  CHECK(refused.error().message.find("compute capability 9.0, which does not run sm_80") != std::string::npos);
}

TEST_CASE("real graphs on a device that is executed") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  for (const char* name :
       {"cat_linear_pos_axis_bf16", "int4pack_cpu_g32", "int8pack_siblings_bf16", "llama_mlp_int4wo_g32"})
    if (const std::string folder = shared_graph(name); !folder.empty()) check_program(folder, *tool, {1, 33});
}

// Int4 weights with offsets, and 8-bit floats under scales of rows.
TEST_CASE("real graphs whose linears sm_90a multiplies by wgmma, on a device that is executed") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  for (const char* name : {"llama_mlp_int4wo_g32", "scaled_mm_rowwise"})
    if (const std::string folder = shared_graph(name); !folder.empty())
      check_program(folder, *tool, {1, 33}, Isa::sm_90a);
}

TEST_CASE("graphs that quantize activations run on a device: row quantization and integer linears") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  for (const char* name : {"llama_mlp_da8w8", "llama_mlp_da8w4_g32"})
    for (const Isa isa : {Isa::sm_80, Isa::sm_90a})
      if (const std::string folder = shared_graph(name); !folder.empty()) check_program(folder, *tool, {1, 5}, isa);
}

namespace {

// All graphs with a file of inputs that depend on no state, the smallest files first.
std::vector<std::string> runnable_graphs() {
  std::vector<std::string> out;
  const std::string root = shared_graph("");
  if (root.empty()) return out;
  for (const std::string& parent : {root, root + "/models"})
    for (const auto& folder : fs::directory_iterator(parent))
      if (fs::exists(folder.path() / "graph.pt2")) out.push_back(folder.path());
  std::ranges::sort(out, {}, [](const std::string& f) { return fs::file_size(f + "/graph.pt2"); });
  return out;
}

// The runs of a graph: two steps of a sequence, or the least m that there are inputs for.
std::vector<std::string> stems_of(const std::string& folder) {
  if (fs::exists(folder + "/t1.inputs.safetensors")) return {folder + "/t0", folder + "/t1"};
  int least = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename();
    int m = 0;
    if (!name.ends_with(".inputs.safetensors") || std::sscanf(name.c_str(), "m%d.", &m) != 1) continue;
    if (least == 0 || m < least) least = m;
  }
  if (least == 0) return {};
  return {fmt::format("{}/m{}", folder, least)};
}

// A rounded activation may become another code.
bool rounds(const std::string& program) {
  for (const auto& file : fs::directory_iterator(program + "/sources"))
    if (slurp(file.path()).find("s_round_even(") != std::string::npos) return true;
  return false;
}

void run_stem(Sequence& sequence, const std::string& stem, const ExecutedDevice& device, Closeness closeness) {
  INFO(stem);
  auto inputs = read_safetensors(stem + ".inputs.safetensors"),
       expected = read_safetensors(stem + ".expected.safetensors");
  REQUIRE(inputs.ok());
  REQUIRE(expected.ok());
  if (const std::string changed = stem + ".mutated.safetensors"; fs::exists(changed)) {  // inputs, in place
    auto more = read_safetensors(changed);
    REQUIRE(more.ok());
    for (const auto& [name, tensor] : more->tensors) expected->tensors.insert_or_assign(name, tensor);
  }
  std::vector<std::pair<std::string, Tensor>> outputs;
  const Status status = run(sequence, *inputs, *expected, outputs);
  CHECK_MESSAGE(status.ok(), stem, ": ", status.error().to_string(), device.fault);
  for (const auto& [name, got] : outputs) compare(got, expected->tensors.at(name), bounds_at(got.dtype, closeness));
}

struct Tally {
  int run = 0, refused = 0, left = 0;
  std::string reasons;
};

// Runs what there are inputs for, and compares outputs.
void run_stems(const std::string& program, const std::vector<std::string>& stems, const Toolchain& tool, Isa isa) {
  ExecutedDevice device(tool, isa);
  device.add_program(program);
  const FakeLibrary library(device);
  const Closeness closeness = rounds(program) ? quantized : deep;
  auto sequence = begin_sequence(program);
  REQUIRE_MESSAGE(sequence.ok(), sequence.error().to_string());
  for (const std::string& stem : stems) run_stem(*sequence, stem, device, closeness);
}

// Compiles every graph and runs what is not refused with its smallest inputs, until the time is up.
Tally run_graphs(const Toolchain& tool, Isa isa, double budget_s) {
  Tally tally;
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& folder : runnable_graphs()) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (taken.count() > budget_s) {
      ++tally.left;
      continue;
    }
    INFO(folder);
    TempDir dir;
    const auto report = try_compile(folder, isa, dir / "p.qcg");
    const std::vector<std::string> stems = stems_of(folder);
    if (!report.ok()) {
      CHECK_MESSAGE(report.error().code == ErrorCode::Unsupported, report.error().to_string());
      tally.reasons += "\n" + fs::path(folder).filename().string() + ": " + report.error().to_string();
    }
    if (!report.ok() || stems.empty()) {
      ++tally.refused;
      continue;
    }
    run_stems(dir / "p.qcg", stems, tool, isa);
    ++tally.run;
  }
  return tally;
}

}  // namespace

TEST_CASE("graphs whose linears store integers, and graphs that choose the largest, run on a device") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  for (const char* name : {"pt2e_static_a8w8_mlp", "models/mixtral_lm.y"}) {
    const std::string folder = shared_graph(name);
    if (folder.empty()) continue;
    INFO(folder);
    TempDir dir;
    compile_graph(folder, Isa::sm_80, dir / "p.qcg");
    run_stems(dir / "p.qcg", stems_of(folder), *tool, Isa::sm_80);
  }
}

TEST_CASE("the smallest graphs are right on a device, or refused with a reason") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  constexpr double kBudget_s = 20;
  run_graphs(*tool, Isa::sm_80, kBudget_s);
}

TEST_CASE("stress: every graph is right on a device, or refused with a reason" * doctest::skip()) {
  const auto tool = cuda_compiler();
  if (!tool) return;
  for (const Isa isa : {Isa::sm_80, Isa::sm_90a}) {
    const Tally tally = run_graphs(*tool, isa, HUGE_VAL);
    MESSAGE(isa_info(isa).name, ": ", tally.run, " run, ", tally.refused, " refused", tally.reasons);
  }
}

// States and methods of CUDA programs: what lies on the device, and what is copied.
#include <fmt/format.h>

#include <fstream>

#include "codegen/program/combine.h"
#include "codegen/program/state_io.h"
#include "runtime/qcodegen.hpp"
#include "tests/cuda_program/executed_device.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// Two methods, both of the graph that writes rows of buffers at positions.
void compile_methods(const TempDir& dir, const std::string& output) {
  compile_graph(kPositions, Isa::sm_80, dir / "one.qcg");
  const std::vector<MethodProgram> methods = {{"first", dir / "one.qcg"}, {"second", dir / "one.qcg"}};
  const auto report = combine_methods(methods, output);
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
}

qcodegen::Tensor tensor_of(const qcg_tensor_info& info, const Tensor& from) {
  qcodegen::Tensor out(info.dtype, from.shape);
  const Tensor dense = from.contiguous();
  std::memcpy(out.data<std::byte>(), dense.bytes().data(), dense.bytes().size());
  return out;
}

// Runs step `t` of the sequence with a method, and compares outputs with what eager torch gave.
void run_step(qcodegen::Context& context, const qcodegen::Program& method, qcodegen::State& state, int t) {
  INFO("step ", t);
  const std::string stem = fmt::format("{}/t{}", kPositions, t);
  const auto inputs = read_safetensors(stem + ".inputs.safetensors"),
             expected = read_safetensors(stem + ".expected.safetensors");
  REQUIRE(inputs.ok());
  REQUIRE(expected.ok());
  std::vector<qcodegen::Tensor> in;
  for (int i = 0; i < method.n_inputs(); ++i)
    in.push_back(tensor_of(method.input(i), inputs->tensors.at(method.input(i).name)));
  std::vector<qcodegen::Tensor> out = context.run(method, state, in);
  for (int i = 0; i < method.n_outputs(); ++i) {
    const Tensor& want = expected->tensors.at(method.output(i).name);
    const auto* bytes = out[static_cast<size_t>(i)].data<std::byte>();
    compare(Tensor::from_bytes(want.dtype, want.shape, {bytes, bytes + want.bytes().size()}), want,
            bounds_of(want.dtype));
  }
}

void check_state(const qcodegen::Program& program, const qcodegen::State& state, const std::string& file) {
  const auto expected = read_safetensors(file);
  REQUIRE(expected.ok());
  for (int i = 0; i < program.n_states(); ++i) {
    const char* const name = program.state(i).name;
    const Tensor& want = expected->tensors.at(name);
    std::vector<std::byte> bytes(want.bytes().size());
    state.read(name, bytes.data(), static_cast<int64_t>(bytes.size()));
    compare(Tensor::from_bytes(want.dtype, want.shape, std::move(bytes)), want, bounds_of(want.dtype));
  }
}

}  // namespace

TEST_CASE("methods of a program share a state that stays on the device") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  TempDir dir;
  compile_methods(dir, dir / "m.qcg");
  ExecutedDevice device(*tool);
  device.add_program(dir / "m.qcg");
  const FakeLibrary library(device);
  const qcodegen::Program program(dir / "m.qcg");
  const qcodegen::Program first = program.method("first"), second = program.method("second");
  qcodegen::Context context(program, 1);
  qcodegen::State state(program);

  run_step(context, first, state, 0);
  const qcodegen::State prefix = state.clone();
  qcodegen::State other = prefix.clone();
  run_step(context, second, state, 1);
  run_step(context, first, state, 2);
  check_state(program, state, kPositions + "/state.expected.safetensors");
  // What the run of one sequence writes is not in the other.
  run_step(context, first, other, 1);
  run_step(context, second, other, 2);
  check_state(program, other, kPositions + "/state.expected.safetensors");
  // The initial values again, which are not all zeros.
  state.reset();
  run_step(context, second, state, 0);

  const qcg_dltensor view = state.tensor("table");
  CHECK(view.device.device_type == 2);
  std::vector<float> table(15);
  REQUIRE(device.copy_out(table.data(), reinterpret_cast<uint64_t>(view.data), 60) == 0);
  std::vector<float> read(15);
  state.read("table", read.data(), 60);
  CHECK(table == read);
  table[3] = 1234;
  state.write("table", table.data(), 60);
  state.read("table", read.data(), 60);
  CHECK(table == read);
}

TEST_CASE("a run copies inputs, outputs and faults, but no state; a state file has what the device has") {
  const auto tool = cuda_compiler();
  const std::string folder = shared_graph("models/llama_kv.s");
  if (!tool || folder.empty()) return;
  ExecutedProgram program(*tool, folder);
  ExecutedDevice& device = program.device;
  auto sequence = begin_sequence(program.path);
  REQUIRE_MESSAGE(sequence.ok(), sequence.error().to_string());
  const ProgramManifest& manifest = sequence->program->manifest();
  REQUIRE(manifest.state_bytes > 16384);
  for (const char* step : {"t0", "t1"}) {
    INFO(step);
    const auto inputs = read_safetensors(folder + "/" + step + ".inputs.safetensors"),
               expected = read_safetensors(folder + "/" + step + ".expected.safetensors");
    REQUIRE(inputs.ok());
    REQUIRE(expected.ok());
    size_t in = 0, out = 0;
    for (const auto& value : manifest.inputs) in += inputs->tensors.at(value.name).bytes().size();
    for (const auto& value : manifest.outputs) out += expected->tensors.at(value.name).bytes().size();
    device.copied_in = device.copied_out = 0;
    std::vector<std::pair<std::string, Tensor>> outputs;
    const Status status = run(*sequence, *inputs, *expected, outputs);
    REQUIRE_MESSAGE(status.ok(), status.error().to_string(), device.fault);
    for (const auto& [name, got] : outputs) compare(got, expected->tensors.at(name), bounds_at(got.dtype, deep));
    const size_t faults = device.copied_out - out;  // 8 bytes of each step that reads positions
    CHECK(faults > 0);
    CHECK(faults <= 8 * manifest.steps.size());
    CHECK(device.copied_in == in + (step == std::string("t0") ? faults : 0));
  }
  REQUIRE(write_state_file(program.dir / "s", *sequence->program, *sequence->state).ok());
  auto again = begin_sequence(program.path);
  REQUIRE(again.ok());
  REQUIRE(read_state_file(program.dir / "s", *again->program, *again->state).ok());
  REQUIRE(write_state_file(program.dir / "s2", *again->program, *again->state).ok());
  CHECK(slurp(program.dir / "s") == slurp(program.dir / "s2"));
}

TEST_CASE("a position that a kernel refuses is an error that names step, tensor and number, launched or replayed") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  ExecutedProgram program(*tool, kPositions);
  ExecutedDevice& device = program.device;
  auto sequence = begin_sequence(program.path);
  REQUIRE_MESSAGE(sequence.ok(), sequence.error().to_string());
  const auto [good, expected] = read_example(kPositions + "/t0");
  const auto run_with = [&](const char* name, std::vector<int64_t> numbers) {
    Safetensors inputs = good;
    if (name != nullptr) {
      std::vector<std::byte> bytes(numbers.size() * sizeof(int64_t));
      std::memcpy(bytes.data(), numbers.data(), bytes.size());
      inputs.tensors.at(name) = Tensor::from_bytes(DType::i64, {std::ssize(numbers)}, std::move(bytes));
    }
    REQUIRE(sequence->state->reset().ok());
    std::vector<std::pair<std::string, Tensor>> outputs;
    const Status status = run(*sequence, inputs, expected, outputs);
    for (const auto& [output, got] : outputs) compare(got, expected.tensors.at(output), bounds_of(got.dtype));
    return status.ok() ? std::string() : status.error().to_string();
  };
  for (int run_number = 0; run_number < 3; ++run_number) {
    CHECK(run_with(nullptr, {}) == "");
    const std::string at = run_with("at", {1, 8});
    CHECK(at.find("input 'at' is 8 at [1], which is out of range") != std::string::npos);
    CHECK(at.find("step '") != std::string::npos);
    CHECK(run_with("ids", {-77, 0}).find("input 'ids' is -77 at [0], which is out of range") != std::string::npos);
  }
  CHECK(device.seen["cuGraphLaunch"] > 0);
}

TEST_CASE("a refused position that a step has computed is named, although its memory would have been used again") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  TempDir dir;
  spit(dir / "g.txt", R"(graph(%ids: i64[3], %more: i64[3], %w: f32[5, 8], %v: f32[8, 8]) {
  %n = aten.add.Tensor(%ids, %more) : i64[3]
  %e = aten.embedding.default(%w, %n) : f32[3, 8]
  %s = aten.softmax.int(%e, dim = 1) : f32[3, 8]
  %p = aten.mm.default(%s, %v) : f32[3, 8]
  %q = aten.softmax.int(%p, dim = 1) : f32[3, 8]
  %r = aten.mm.default(%q, %v) : f32[3, 8]
  return %r
}
)");
  const ExecutedProgram program(*tool, dir / "g.txt");
  auto sequence = begin_sequence(program.path);
  REQUIRE_MESSAGE(sequence.ok(), sequence.error().to_string());
  std::vector<int64_t> ids = {1, 2, 3}, more = {0, 40, 1};
  std::vector<float> w(40, 1), v(64, 1), out(24);
  const std::vector<int64_t> three = {3}, five = {5, 8}, eight = {8, 8}, result = {3, 8};
  const std::vector<TensorView> inputs = {{ids.data(), DType::i64, three, {}},
                                          {more.data(), DType::i64, three, {}},
                                          {w.data(), DType::f32, five, {}},
                                          {v.data(), DType::f32, eight, {}}},
                                outputs = {{out.data(), DType::f32, result, {}}};
  const Status refused = sequence->context->run(inputs, outputs);
  REQUIRE(!refused.ok());
  INFO(refused.error().to_string());
  CHECK(refused.error().message.find(" is 42 at element 1, which is out of range") != std::string::npos);
  more[1] = 0;
  CHECK(sequence->context->run(inputs, outputs).ok());
}

TEST_CASE("calls of the driver that fail leave a state as it was, or undefined until it is reset") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  ExecutedProgram program(*tool, kPositions);
  ExecutedDevice& device = program.device;
  auto sequence = begin_sequence(program.path);
  REQUIRE_MESSAGE(sequence.ok(), sequence.error().to_string());
  State& state = *sequence->state;
  const auto before = state_tensors(*sequence->program, state);
  REQUIRE(before.ok());
  const auto [inputs, expected] = read_example(kPositions + "/t0");
  std::vector<std::pair<std::string, Tensor>> outputs;
  for (const char* name : {"cuMemsetD8_v2", "cuMemcpyDtoD_v2", "cuMemAlloc_v2"}) {
    INFO(name);
    device.fails = name;
    CHECK(!State::create(sequence->program).ok());
  }
  device.fails = "cuMemcpyDtoD_v2";
  CHECK(!state.clone().ok());
  device.fails = "cuMemcpyDtoH_v2";
  CHECK(!state_tensors(*sequence->program, state).ok());
  device.fails = "";
  const auto after = state_tensors(*sequence->program, state);
  REQUIRE(after.ok());
  for (size_t i = 0; i < after->size(); ++i) compare((*after)[i], (*before)[i], kEqual);

  device.fails = "cuLaunchKernel";
  const Status launched = run(*sequence, inputs, expected, outputs);
  REQUIRE(!launched.ok());
  CHECK(launched.error().message.find("step '") == 0);
  device.fails = "cuMemsetD8_v2";
  CHECK(!state.reset().ok());
  device.fails = "";
  const Status status = run(*sequence, inputs, expected, outputs);
  REQUIRE(!status.ok());
  CHECK(status.error().message.find("is undefined") != std::string::npos);
  REQUIRE(state.reset().ok());
  CHECK(run(*sequence, inputs, expected, outputs).ok());
}

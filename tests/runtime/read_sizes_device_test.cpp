// Sizes that a run reads on a device: what is launched before them, what is waited for and what is copied. The kernels
// are functions of this file.
#include <cstring>
#include <map>
#include <set>

#include "runtime/state.h"
#include "tests/cuda_program/fake_library.h"
#include "tests/cuda_program/host_memory.h"
#include "tests/runtime/counted_program.h"

using namespace qcg;
using namespace qcg::test;
using nlohmann::json;

namespace {

// What a kernel of a step of two arguments and two params is given.
struct Parameter {
  qcg_arg args[2];
  int64_t params[2];
  int64_t* fault;
  float* row(int arg, int64_t i) const { return static_cast<float*>(args[arg].data) + i * args[arg].stride; }
};

void count_rows(const Parameter& p) {
  int64_t count = 0;
  for (int64_t i = 0; i < p.params[0]; ++i) count += p.row(0, i)[0] > 0;
  std::memcpy(p.args[1].data, &count, sizeof count);
}
void double_rows(const Parameter& p, float extra) {
  for (int64_t i = 0; i < p.params[0]; ++i)
    for (int64_t j = 0; j < p.params[1]; ++j) p.row(1, i)[j] = 2 * p.row(0, i)[j] + extra;
}

class CountingDevice : public HostMemory {
 public:
  std::map<std::string, int> seen;  // calls by entry point
  std::string launched;             // "c": a count, "d" and "s": the kernels that double
  std::vector<uint32_t> blocks;     // of the launches
  std::set<void*> queues;

  int begin(const char* entry_point) override { return ++seen[entry_point], 0; }
  void* function(void*, const char* name) override {
    return const_cast<char*>(std::strcmp(name, "test_count") == 0    ? "c"
                             : std::strcmp(name, "test_double") == 0 ? "d"
                                                                     : "s");
  }
  bool is_queue(void* stream) override { return queues.contains(stream); }
  size_t parameter_bytes(void*) override { return sizeof(Parameter); }
  int launch(void* function, const uint32_t (&grid)[3], uint32_t, uint32_t, const void* parameter) override {
    const char kernel = *static_cast<const char*>(function);
    Parameter p;
    std::memcpy(&p, parameter, sizeof p);
    if (kernel == 'c') count_rows(p);
    else double_rows(p, kernel == 's' ? 0.5f : 0);
    launched += kernel;
    blocks.push_back(grid[0]);
    return 0;
  }
};

struct CountedOnDevice : CountedProgram {
  CountingDevice device;
  FakeLibrary library{device};

  CountedOnDevice() {
    sample.put_on_device();
    manifest["target"] = "cuda:sm_80", manifest["isa"] = "sm_80";
  }
  std::unique_ptr<Context> context() { return Context::create(load(), {.threads = 1}).value(); }
};

// A tensor's bytes as those of the device, which this file lets the host share.
std::vector<TensorView> on_device(std::vector<TensorView> views) {
  for (TensorView& view : views) view.on_device = true;
  return views;
}

}  // namespace

TEST_CASE("a run on a device waits for a size, launches what needs it, and never replays a graph") {
  CountedOnDevice program;
  CountingDevice& device = program.device;
  auto context = program.context();
  for (const int64_t count : {20, 20, 20, 40, 1, 20}) {
    CAPTURE(count);
    device.seen.clear(), device.launched.clear(), device.blocks.clear();
    CountedRun run(50, count);
    const Status status = run.run(*context);
    REQUIRE_MESSAGE(status.ok(), status.error().to_string());
    CHECK(run.has_rows());
    CHECK(device.launched == (count <= 2 ? "cs" : "cd"));
    CHECK(device.blocks == std::vector<uint32_t>{4, static_cast<uint32_t>((count + 15) / 16)});
    CHECK(device.seen["cuStreamSynchronize"] == 2);
    CHECK(device.seen["cuGraphLaunch"] + device.seen["cuStreamBeginCapture_v2"] == 0);
  }
  context->set_profile(true);
  for (const int64_t count : {3, 9}) {
    CountedRun run(50, count);
    REQUIRE(run.run(*context).ok());
    CHECK(run.has_rows());
    CHECK(context->last_profile().steps[1].bytes == 64.0 * static_cast<double>(count));
  }
}

TEST_CASE("a run that reads sizes waits on a caller's stream, and leaves nothing to wait for") {
  CountedOnDevice program;
  CountingDevice& device = program.device;
  auto context = program.context();
  int stream = 0;
  device.queues.insert(&stream);
  for (const int64_t count : {5, 5, 7}) {
    device.launched.clear();
    CountedRun run(50, count);
    const Status status = context->run(on_device(run.inputs()), on_device(run.outputs()), &stream);
    REQUIRE_MESSAGE(status.ok(), status.error().to_string());
    CHECK(device.launched == "cd");
    CHECK(run.is_right());
    CHECK(context->wait().ok());
  }
  context->set_profile(true);
  CountedRun run(50, 5);
  REQUIRE(run.run(*context, &stream).ok());
  CHECK(run.has_rows());
}

TEST_CASE("a size that a device reads before its first step, from an input here or there; one out of range") {
  CountedOnDevice program;
  program.read_input();
  // A step that reads positions has a fault, which no launch has made when the size is read.
  program.manifest["steps"][0]["args"][0]["reach"]["positions"] = {{"size", "p1"}};
  program.manifest["states"] = {{{"name", "a"}, {"dtype", "f32"}, {"shape", {4}}, {"init", "zero"}}};
  const auto loaded = program.load();
  auto context = Context::create(loaded, {.threads = 1}).value();
  auto state = State::create(loaded).value();
  CountedRun run(10, 5);
  run.has_n = true;
  const auto run_with = [&](int64_t n, bool there) {
    run.n = n;
    std::vector<TensorView> inputs = run.inputs();
    inputs[1].on_device = there;
    return context->run(*state, inputs, run.outputs());
  };
  for (const bool there : {false, true}) {
    program.device.launched.clear();
    const Status refused = run_with(11, there);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::BadInput);
    CHECK(refused.error().to_string().find("size u0: is 11") != std::string::npos);
    CHECK(program.device.launched == "");
    CHECK(!state->tensor("a").ok());
    REQUIRE(state->reset().ok());
    const Status status = run_with(5, there);
    REQUIRE_MESSAGE(status.ok(), status.error().to_string());
    CHECK(run.has_rows());
  }
}

// Whole HIP programs: compiled by hipcc, loaded through a stand-in for AMD's driver, their kernels executed by 64 lanes on a CPU.
#include "runtime/program.h"

#include <cstring>
#include <deque>
#include <set>

#include "cache/toolchain/toolchain.h"
#include "codegen/compile.h"
#include "codegen/program/compile_options.h"
#include "graph/read/safetensors.h"
#include "runtime/cuda.h"
#include "runtime/state.h"
#include "tests/cuda_program/fake_library.h"
#include "tests/hip/emulator.h"
#include "tests/paths.h"
#include "tests/real_graphs/outputs.h"
#include "tests/temp_dir.h"

using namespace qcg;
using namespace qcg::test;

namespace {

constexpr const char* kLibrary = "libamdhip64.so.7";

struct Module {
  std::string code, source;
  std::string symbol;
  std::vector<EmulatedKernel> kernel;  // one, once it was asked for
};

// Its addresses are the host's.
class EmulatedDevice : public FakeDriver {
 public:
  explicit EmulatedDevice(const std::string& program) {
    for (const auto& file : fs::directory_iterator(program + "/kernels"))
      if (file.path().extension() == ".hsaco")
        modules_.push_back(
            {slurp(file.path()), slurp(program + "/sources/" + file.path().stem().string() + ".hip"), "", {}});
  }

  std::string fails;  // the entry point that does
  std::string is = "gfx90a:sramecc+:xnack-";
  std::set<std::string> seen;
  int launches = 0;

  int begin(const char* entry_point) override {
    seen.insert(entry_point);
    return fails == entry_point ? 999 : 0;
  }
  const char* architecture() override { return is.c_str(); }
  void* load(const void* image) override {
    for (Module& m : modules_)
      if (std::memcmp(image, m.code.data(), m.code.size()) == 0) return &m;
    return nullptr;
  }
  void* function(void* module, const char* name) override {
    auto* const m = static_cast<Module*>(module);
    if (m->source.find(name) == std::string::npos) return nullptr;
    m->symbol = name;
    return m;
  }
  uint64_t allocate(size_t bytes) override {
    return reinterpret_cast<uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  }
  void free(uint64_t address) override { std::free(reinterpret_cast<void*>(address)); }
  int copy_in(uint64_t to, const void* from, size_t bytes) override {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return 0;
  }
  int copy_out(void* to, uint64_t from, size_t bytes) override {
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return 0;
  }
  int launch(void* function, const uint32_t (&grid)[3], uint32_t threads, uint32_t shared,
             const void* parameter) override {
    auto* const m = static_cast<Module*>(function);
    if (m->kernel.empty()) m->kernel = emulate({{m->symbol, m->symbol, m->source, Isa::gfx90a, {}}});
    CudaLaunch launch;
    launch.threads = static_cast<int>(threads), launch.rows = 1;
    launch.column_tiles = static_cast<int>(grid[1]), launch.shared_bytes = static_cast<int>(shared);
    const auto* const bytes = static_cast<const std::byte*>(parameter);
    ++launches;
    return m->kernel[0].run_once(grid[0], launch, {bytes, m->kernel[0].parameter_bytes()}).ok() ? 0 : 700;
  }

 private:
  std::deque<Module> modules_;
};

Status run_program(const std::string& dir, const Safetensors& inputs, const Safetensors& expected, bool compared) {
  QCG_TRY(program, Program::load(dir));
  QCG_TRY(context, Context::create(program, {.threads = 1}));
  QCG_TRY(state, State::create(program));
  std::vector<TensorView> in, out;
  for (const auto& value : program->manifest().inputs) {
    const Tensor& t = inputs.tensors.at(value.name);
    in.push_back({.data = const_cast<std::byte*>(t.bytes().data()), .dtype = t.dtype, .shape = t.shape, .strides = {}});
  }
  std::vector<Tensor> got;
  for (const auto& value : program->manifest().outputs) {
    const Tensor& t = expected.tensors.at(value.name);
    got.push_back(Tensor::from_bytes(t.dtype, t.shape, std::vector<std::byte>(t.bytes().size())));
    out.push_back(
        {.data = const_cast<std::byte*>(got.back().bytes().data()), .dtype = t.dtype, .shape = t.shape, .strides = {}});
  }
  QCG_CHECK(context->run(*state, in, out));
  for (size_t i = 0; compared && i < got.size(); ++i)
    compare(got[i], expected.tensors.at(program->manifest().outputs[i].name), bounds_of(got[i].dtype));
  return {};
}

}  // namespace

TEST_CASE("a HIP program gives what eager torch gave, and says which call of the driver failed") {
  if (const auto tool = find_hipcc(); !tool.ok()) {
    MESSAGE("skipped: ", tool.error().message);
    return;
  }
  const std::string folder = source_dir() + "/examples/llama_mlp_int8";
  TempDir dir;
  CompileOptions o{.input = folder + "/graph.pt2", .output = dir / "p.qcg", .target = "hip:gfx90a"};
  o.tune = TuneMode::off;
  o.cache_dir = dir / "cache";
  auto report = compile_program(o);
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
  auto inputs = read_safetensors(folder + "/m1.inputs.safetensors"),
       expected = read_safetensors(folder + "/m1.expected.safetensors");
  REQUIRE(inputs.ok());
  REQUIRE(expected.ok());
  std::set<std::string> entry_points;
  {
    EmulatedDevice device(o.output);
    const FakeLibrary library(device, kLibrary);
    const Status status = run_program(o.output, *inputs, *expected, true);
    REQUIRE_MESSAGE(status.ok(), status.error().to_string());
    CHECK(device.launches == 2);
    entry_points = device.seen;
  }
  CHECK(entry_points.size() >= 13);
  EmulatedDevice device(o.output);
  const FakeLibrary library(device, kLibrary);
  for (const std::string& name : entry_points) {
    INFO(name);
    device.fails = name;
    const Status status = run_program(o.output, *inputs, *expected, false);
    REQUIRE(!status.ok());
    const std::string text = status.error().to_string();
    INFO(text);
    CHECK((text.find("the executor's error") != std::string::npos || text.find("no such kernel") != std::string::npos));
  }
  device.fails = "";
  device.is = "gfx942:sramecc+:xnack-";
  const Status refused = run_program(o.output, *inputs, *expected, false);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::Unsupported);
  CHECK(refused.error().message.find("(gfx942), which does not run gfx90a") != std::string::npos);
}

TEST_CASE("a machine without AMD's driver or device says so") {
  const auto driver = CudaDriver::load(DeviceApi::hip);
  if (driver.ok()) {
    MESSAGE("skipped: there is a device, ", (*driver)->device_name());
    return;
  }
  CHECK(driver.error().code == ErrorCode::Unsupported);
  CHECK(driver.error().message.find("AMD") != std::string::npos);
  CHECK(driver.error().help.find("--target=cpu") != std::string::npos);
}

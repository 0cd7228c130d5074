// Whole CUDA programs, from a graph through the runtime to outputs, with kernels executed from their PTX.
#include "runtime/program.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <set>

#include "cache/toolchain/compile.h"
#include "codegen/build/build.h"
#include "codegen/compile.h"
#include "codegen/kernel/support_headers.h"
#include "codegen/program/combine.h"
#include "codegen/program/compile_options.h"
#include "runtime/cuda.h"
#include "runtime/state.h"
#include "tests/cuda/cuda_compiler.h"
#include "tests/cuda/ptx/executor.h"
#include "tests/cuda_program/fake_driver.h"
#include "tests/real_graphs/outputs.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// One kernel of a program: its module's bytes, and its PTX, which is translated when it is first launched.
struct Module {
  std::string cubin, source, ptx;
  std::optional<ptx::LoadedKernel> kernel;
};

constexpr size_t kVariables = 256;  // of a module come before all allocations

class ExecutedDevice : public FakeDriver {
 public:
  explicit ExecutedDevice(Toolchain tool, Isa isa = Isa::sm_80) : tool_(std::move(tool)), isa_(isa) {
    for (size_t i = 0; i < kVariables; ++i) memory_.add("variable", {}, ptx::Access::input);
  }

  std::string fails;           // the entry point that does
  std::string fault;           // of the last launch
  std::set<std::string> seen;  // entry points
  int launches = 0;
  std::vector<size_t> allocated;  // bytes of each block

  // Before the stand-in is opened: NVRTC, too, looks for a driver.
  void add_program(const std::string& dir) {
    std::vector<CompileJob> jobs;
    for (const auto& file : fs::directory_iterator(dir + "/kernels")) {
      if (file.path().extension() != ".cubin") continue;
      modules_.push_back({slurp(file.path()), slurp(dir + "/sources/" + file.path().stem().string() + ".cu"), "", {}});
      CompileJob& job = jobs.emplace_back();
      job.language = Language::cuda;
      job.output = OutputKind::assembly;
      job.sources = {{"kernel.cu", modules_.back().source}};
      for (const SourceFile& header : support_headers(isa_)) job.headers.push_back({header.name, header.text});
      job.flags = compiler_flags(tool_, isa_);
    }
    auto results = compile_all(tool_, jobs, {.timeout_s = 300, .memory_mb = 0});
    REQUIRE_MESSAGE(results.ok(), results.error().to_string());
    for (size_t i = 0; i < jobs.size(); ++i) {
      REQUIRE_MESSAGE((*results)[i].ok(), (*results)[i].log);
      modules_[i].ptx = (*results)[i].bytes;
    }
  }

  int begin(const char* entry_point) override {
    seen.insert(entry_point);
    return fails == entry_point ? 999 : 0;
  }
  int capability() override { return isa_ == Isa::sm_90a ? 90 : 80; }
  void* load(const void* image) override {
    for (Module& m : modules_)
      if (std::memcmp(image, m.cubin.data(), m.cubin.size()) == 0) return &m;
    return nullptr;
  }
  void* function(void* module, const char* name) override {
    return static_cast<Module*>(module)->source.find(name) == std::string::npos ? nullptr : module;
  }
  uint64_t allocate(size_t bytes) override {
    allocated.push_back(bytes);
    return memory_.add("allocation", std::vector<uint8_t>(bytes), ptx::Access::output).address;
  }
  void free(uint64_t address) override {
    memory_.find(address)->bytes.clear();
  }  // whoever uses it now is out of bounds
  int copy_in(uint64_t to, const void* from, size_t bytes) override {
    std::memcpy(memory_.write(to, bytes), from, bytes);
    return 0;
  }
  int copy_out(void* to, uint64_t from, size_t bytes) override {
    std::memcpy(to, memory_.read(from, bytes), bytes);
    return 0;
  }
  int launch(void* function, const uint32_t (&grid)[3], uint32_t threads, uint32_t shared,
             const void* parameter) override {
    auto* m = static_cast<Module*>(function);
    if (!m->kernel) m->kernel.emplace(translate(*m));
    ptx::GlobalMemory variables = m->kernel->memory();
    std::copy(variables.buffers().begin(), variables.buffers().end(), memory_.buffers().begin());
    const auto* bytes = static_cast<const uint8_t*>(parameter);
    const ptx::Outcome out =
        m->kernel->run({.grid = {grid[0], grid[1], grid[2]}, .block = {threads, 1, 1}, .dynamic_shared = shared},
                       memory_, {ptx::Argument(bytes, bytes + m->kernel->parameter_bytes())});
    fault = out.text();
    ++launches;
    return out.ok() ? 0 : 700;
  }

 private:
  static ptx::LoadedKernel translate(const Module& m) {
    auto kernel = ptx::load_kernel(m.ptx);
    REQUIRE_MESSAGE(kernel.ok(), kernel.error().to_string());
    REQUIRE(kernel->memory().buffers().size() <= kVariables);
    return std::move(*kernel);
  }

  Toolchain tool_;
  Isa isa_;
  std::deque<Module> modules_;
  ptx::GlobalMemory memory_;
};

// The stand-in in place of libcuda.so.1 as long as this lives.
class FakeLibrary {
 public:
  explicit FakeLibrary(ExecutedDevice& device)
      : library_(dlopen((binary_dir() + "/tests/fake/libcuda.so.1").c_str(), RTLD_NOW)) {
    REQUIRE_MESSAGE(library_, dlerror());
    reinterpret_cast<void (*)(FakeDriver*)>(dlsym(library_, "qcg_use_fake_driver"))(&device);
  }
  ~FakeLibrary() { dlclose(library_); }
  FakeLibrary(const FakeLibrary&) = delete;

 private:
  void* library_;
};

Result<CompileReport> try_compile(const std::string& folder, Isa isa, const std::string& output,
                                  const std::string& cache) {
  CompileOptions o;
  o.input = folder + "/graph.pt2";
  o.output = output;
  o.target = Target{Device::cuda, isa}.str();
  o.tune = TuneMode::off;
  o.jobs = 2;
  o.cache_dir = cache;
  return compile_program(o);
}

void compile_graph(const std::string& folder, Isa isa, const std::string& output, const std::string& cache) {
  auto report = try_compile(folder, isa, output, cache);
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
}

// What several runs of one sequence share.
struct Sequence {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Context> context;
  std::unique_ptr<State> state;
};

Result<Sequence> begin_sequence(const std::string& dir) {
  QCG_TRY(program, Program::load(dir));
  QCG_TRY(context, Context::create(program, {.threads = 1}));
  QCG_TRY(state, State::create(program));
  return Sequence{std::move(program), std::move(context), std::move(state)};
}

Status run(Sequence& sequence, const Safetensors& inputs, const Safetensors& expected,
           std::vector<std::pair<std::string, Tensor>>& outputs) {
  const auto& [program, context, state] = sequence;
  std::vector<TensorView> in, out;
  for (const auto& value : program->manifest().inputs) {
    const Tensor& t = inputs.tensors.at(value.name);
    in.push_back({.data = const_cast<std::byte*>(t.bytes().data()), .dtype = t.dtype, .shape = t.shape, .strides = {}});
  }
  std::vector<std::vector<std::byte>> bytes;
  for (const auto& value : program->manifest().outputs) {
    const Tensor& t = expected.tensors.at(value.name);
    bytes.emplace_back(t.bytes().size());
    out.push_back({.data = bytes.back().data(), .dtype = t.dtype, .shape = t.shape, .strides = {}});
  }
  QCG_CHECK(context->run(*state, in, out));
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string& name = program->manifest().outputs[i].name;
    const Tensor& like = expected.tensors.at(name);
    outputs.emplace_back(name, Tensor::from_bytes(like.dtype, like.shape, std::move(bytes[i])));
  }
  return {};
}

Status run(const std::string& dir, const Safetensors& inputs, const Safetensors& expected,
           std::vector<std::pair<std::string, Tensor>>& outputs) {
  QCG_TRY(sequence, begin_sequence(dir));
  return run(sequence, inputs, expected, outputs);
}

void check_program(const std::string& folder, const Toolchain& tool, std::initializer_list<int> ms,
                   Isa isa = Isa::sm_80) {
  INFO(folder);
  TempDir dir;
  compile_graph(folder, isa, dir / "p.qcg", dir / "cache");
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
  compile_graph(folder, Isa::sm_80, dir / "p.qcg", dir / "cache");
  std::string stem;
  for (const auto& file : fs::directory_iterator(folder))
    if (const std::string path = file.path(); path.ends_with(".inputs.safetensors"))
      stem = path.substr(0, path.size() - 19);
  auto inputs = read_safetensors(stem + ".inputs.safetensors"),
       expected = read_safetensors(stem + ".expected.safetensors");
  REQUIRE(inputs.ok());
  REQUIRE(expected.ok());
  std::set<std::string> entry_points;
  {
    ExecutedDevice device(*tool);
    device.add_program(dir / "p.qcg");
    const FakeLibrary library(device);
    std::vector<std::pair<std::string, Tensor>> outputs;
    REQUIRE(run(dir / "p.qcg", *inputs, *expected, outputs).ok());
    entry_points = device.seen;
  }
  CHECK(entry_points.size() >= 13);
  ExecutedDevice device(*tool);
  device.add_program(dir / "p.qcg");
  const FakeLibrary library(device);
  for (const std::string& name : entry_points) {
    INFO(name);
    device.fails = name;
    std::vector<std::pair<std::string, Tensor>> outputs;
    const Status status = run(dir / "p.qcg", *inputs, *expected, outputs);
    REQUIRE(!status.ok());
    const std::string text = status.error().to_string();
    INFO(text);
    CHECK((text.find("the executor's error") != std::string::npos || text.find("no such kernel") != std::string::npos));
  }
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
    o.cache_dir = dir / "cache";
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
  std::vector<std::pair<std::string, Tensor>> outputs;
  const Status status = run(sequence, *inputs, *expected, outputs);
  CHECK_MESSAGE(status.ok(), stem, ": ", status.error().to_string(), device.fault);
  for (const auto& [name, got] : outputs) compare(got, expected->tensors.at(name), bounds_at(got.dtype, closeness));
}

struct Tally {
  int run = 0, refused = 0, left = 0;
  std::string reasons;
};

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
    const auto report = try_compile(folder, isa, dir / "p.qcg", dir / "cache");
    const std::vector<std::string> stems = stems_of(folder);
    if (!report.ok()) {
      CHECK_MESSAGE(report.error().code == ErrorCode::Unsupported, report.error().to_string());
      tally.reasons += "\n" + fs::path(folder).filename().string() + ": " + report.error().to_string();
    }
    if (!report.ok() || stems.empty()) {
      ++tally.refused;
      continue;
    }
    ExecutedDevice device(tool, isa);
    device.add_program(dir / "p.qcg");
    const FakeLibrary library(device);
    const Closeness closeness = rounds(dir / "p.qcg") ? quantized : deep;
    auto sequence = begin_sequence(dir / "p.qcg");
    REQUIRE_MESSAGE(sequence.ok(), sequence.error().to_string());
    for (const std::string& stem : stems) run_stem(*sequence, stem, device, closeness);
    ++tally.run;
  }
  return tally;
}

}  // namespace

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

TEST_CASE("a state is what the run before left, on a device as on the host") {
  const auto tool = cuda_compiler();
  const std::string folder = shared_graph("models/llama_kv.s");
  if (!tool || folder.empty()) return;
  TempDir dir;
  compile_graph(folder, Isa::sm_80, dir / "p.qcg", dir / "cache");
  ExecutedDevice device(*tool);
  device.add_program(dir / "p.qcg");
  const FakeLibrary library(device);
  auto sequence = begin_sequence(dir / "p.qcg");
  REQUIRE_MESSAGE(sequence.ok(), sequence.error().to_string());
  for (const std::string& stem : stems_of(folder)) run_stem(*sequence, stem, device, deep);
}

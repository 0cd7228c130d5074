// Whole CUDA programs in the executor of PTX: a device behind the stand-in for the driver, and calls of a program on it.
//
//   ExecutedProgram program(*cuda_compiler(), folder);
//   const auto [inputs, expected] = read_example(folder + "/t0");
//   auto sequence = begin_sequence(program.path);  … run(*sequence, inputs, expected, outputs) …
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <deque>
#include <map>
#include <set>

#include "cache/toolchain/compile.h"
#include "codegen/build/build.h"
#include "codegen/compile.h"
#include "codegen/kernel/support_headers.h"
#include "codegen/program/compile_options.h"
#include "runtime/cuda.h"
#include "runtime/program.h"
#include "runtime/state.h"
#include "tests/cuda/cuda_compiler.h"
#include "tests/cuda/ptx/executor.h"
#include "tests/cuda_program/fake_library.h"
#include "tests/real_graphs/outputs.h"

namespace qcg::test {

// One kernel of a program: its module's bytes, and its PTX, which is translated when it is first launched.
struct Module {
  std::string cubin, source, ptx;
  const ptx::LoadedKernel* kernel = nullptr;
};

// The kernel cache of all programs of the process, whose kernels are often the same.
inline const std::string& shared_kernel_cache() {
  static const TempDir dir;
  static const std::string path = dir / "cache";
  return path;
}

inline const std::string kMlp = source_dir() + "/examples/llama_mlp_int8",
                         kPositions = source_dir() + "/tests/cli/state_models/positions";

constexpr size_t kVariables = 256;  // of a module come before all allocations

class ExecutedDevice : public FakeDriver {
 public:
  explicit ExecutedDevice(Toolchain tool, Isa isa = Isa::sm_80) : tool_(std::move(tool)), isa_(isa) {
    for (size_t i = 0; i < kVariables; ++i) memory_.add("variable", {}, ptx::Access::input);
  }

  std::string fails;                // the entry point that does
  int failures = -1;                // how many of its next calls; negative: all
  std::string fault;                // of the last launch
  std::map<std::string, int> seen;  // calls by entry point
  int launches = 0;
  int shared_bytes_of_a_block = 227 << 10;
  std::vector<size_t> allocated;         // bytes of each block
  size_t copied_in = 0, copied_out = 0;  // bytes between host and device
  std::set<void*> queues;                // the streams that work waits in

  // Before the stand-in is opened: NVRTC, too, looks for a driver.
  void add_program(const std::string& dir) {
    const size_t first = modules_.size();
    std::vector<std::string*> missing;  // a text of each kernel that no program before had
    std::vector<CompileJob> jobs;
    for (const auto& file : fs::directory_iterator(dir + "/kernels")) {
      if (file.path().extension() != ".cubin") continue;
      modules_.push_back({slurp(file.path()), slurp(dir + "/sources/" + file.path().stem().string() + ".cu"), ""});
      const auto [text, is_new] = texts().try_emplace({isa_, modules_.back().source});
      if (!is_new) continue;
      missing.push_back(&text->second);
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
      *missing[i] = (*results)[i].bytes;
    }
    for (size_t i = first; i < modules_.size(); ++i) modules_[i].ptx = texts().at({isa_, modules_[i].source});
  }

  // A kernel that is in no program.
  void add_module(const std::string& cubin, const std::string& source, const std::string& ptx) {
    modules_.push_back({cubin, source, ptx});
  }

  // Where the host finds what is at an address. It may write it.
  std::byte* host(void* address) {
    ptx::Buffer& buffer = *memory_.find(reinterpret_cast<uint64_t>(address));
    std::ranges::fill(buffer.written, uint8_t{1});
    return reinterpret_cast<std::byte*>(buffer.bytes.data()) + (reinterpret_cast<uint64_t>(address) - buffer.address);
  }

  int begin(const char* entry_point) override {
    ++seen[entry_point];
    if (fails != entry_point || failures == 0) return 0;
    --failures;
    return 999;
  }
  bool is_queue(void* stream) override { return queues.contains(stream); }
  int capability() override { return isa_ == Isa::sm_90a ? 90 : 80; }
  int most_shared_bytes() override { return shared_bytes_of_a_block; }
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
    copied_in += bytes;
    return 0;
  }
  int copy_out(void* to, uint64_t from, size_t bytes) override {
    std::memcpy(to, memory_.read(from, bytes), bytes);
    copied_out += bytes;
    return 0;
  }
  int copy_within(uint64_t to, uint64_t from, size_t bytes) override {
    const std::vector<uint8_t> copy(memory_.read(from, bytes), memory_.read(from, bytes) + bytes);
    std::memcpy(memory_.write(to, bytes), copy.data(), bytes);
    return 0;
  }
  int set(uint64_t to, uint8_t value, size_t bytes) override {
    std::memset(memory_.write(to, bytes), value, bytes);
    return 0;
  }
  size_t parameter_bytes(void* function) override {
    auto* m = static_cast<Module*>(function);
    if (!m->kernel) m->kernel = &translated(m->ptx);
    return static_cast<size_t>(m->kernel->parameter_bytes());
  }
  int launch(void* function, const uint32_t (&grid)[3], uint32_t threads, uint32_t shared,
             const void* parameter) override {
    auto* m = static_cast<Module*>(function);
    if (!m->kernel) m->kernel = &translated(m->ptx);
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
  // PTX by the source that it was compiled from.
  static std::map<std::pair<Isa, std::string>, std::string>& texts() {
    static std::map<std::pair<Isa, std::string>, std::string> all;
    return all;
  }
  static const ptx::LoadedKernel& translated(const std::string& ptx) {
    static std::map<std::string, ptx::LoadedKernel> all;
    if (const auto known = all.find(ptx); known != all.end()) return known->second;
    auto kernel = ptx::load_kernel(ptx);
    REQUIRE_MESSAGE(kernel.ok(), kernel.error().to_string());
    REQUIRE(kernel->memory().buffers().size() <= kVariables);
    return all.emplace(ptx, std::move(*kernel)).first->second;
  }

  Toolchain tool_;
  Isa isa_;
  std::deque<Module> modules_;
  ptx::GlobalMemory memory_;
};

// The entry points without which a run launches its steps one by one.
constexpr std::initializer_list<const char*> kRecording = {"cuStreamCreate", "cuStreamBeginCapture_v2",
                                                           "cuStreamEndCapture", "cuGraphInstantiateWithFlags"};

// `graph` is a folder with graph.pt2, or a file.
inline Result<CompileReport> try_compile(const std::string& graph, Isa isa, const std::string& output) {
  CompileOptions o;
  o.input = fs::is_directory(graph) ? graph + "/graph.pt2" : graph;
  o.output = output;
  o.target = Target{Device::cuda, isa}.str();
  o.tune = TuneMode::off;
  o.jobs = 2;
  o.cache_dir = shared_kernel_cache();
  return compile_program(o);
}

inline void compile_graph(const std::string& graph, Isa isa, const std::string& output) {
  auto report = try_compile(graph, isa, output);
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
}

// A program, and the device that executes it.
struct ExecutedProgram {
  TempDir dir;
  std::string path = dir / "p.qcg";
  ExecutedDevice device;
  std::optional<FakeLibrary> library;

  // Compiles `graph`, a folder with graph.pt2 or a file.
  ExecutedProgram(const Toolchain& tool, const std::string& graph, Isa isa = Isa::sm_80) : device(tool, isa) {
    compile_graph(graph, isa, path);
    device.add_program(path);
    library.emplace(device);
  }
};

// The inputs of a run, and the outputs of eager torch: STEM.{inputs,expected}.safetensors.
struct Example {
  Safetensors inputs, expected;
};

inline Example read_example(const std::string& stem) {
  auto inputs = read_safetensors(stem + ".inputs.safetensors"),
       expected = read_safetensors(stem + ".expected.safetensors");
  REQUIRE_MESSAGE(inputs.ok(), inputs.error().to_string());
  REQUIRE_MESSAGE(expected.ok(), expected.error().to_string());
  return {std::move(*inputs), std::move(*expected)};
}

// What several runs of one sequence share.
struct Sequence {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Context> context;
  std::unique_ptr<State> state;
};

inline Result<Sequence> begin_sequence(const std::string& dir) {
  QCG_TRY(program, Program::load(dir));
  QCG_TRY(context, Context::create(program, {.threads = 1}));
  QCG_TRY(state, State::create(program));
  return Sequence{std::move(program), std::move(context), std::move(state)};
}

inline Status run(Sequence& sequence, const Safetensors& inputs, const Safetensors& expected,
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

inline Status run(const std::string& dir, const Safetensors& inputs, const Safetensors& expected,
                  std::vector<std::pair<std::string, Tensor>>& outputs) {
  QCG_TRY(sequence, begin_sequence(dir));
  return run(sequence, inputs, expected, outputs);
}

}  // namespace qcg::test

// The executor: PTX text in, results, faults and counts out; no GPU.
//
// Why here: what NVRTC or nvcc writes for a kernel runs in tests on every machine, with more checks than a device makes
// (memory.h) and at the earliest and the latest moment that is legal for asynchronous work (cta.h). What it does not
// see: ptxas, the driver's encoding of tensor maps, how the hardware rounds approximations.
//
//   auto kernels = load_kernels({ptx});
//   GlobalMemory memory = (*kernels)[0].memory();
//   const Buffer& x = memory.add("x", bytes, Access::input);
//   Buffer& y = memory.add("y", std::vector<uint8_t>(n), Access::output);
//   Outcome out = (*kernels)[0].run({.grid = {4, 1, 1}}, memory, {argument(x.address), argument(7)});
//   REQUIRE_MESSAGE(out.ok(), out.text());
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/cuda/ptx/cta.h"
#include "tests/cuda/ptx/parser.h"
#include "tests/cuda/ptx/translate.h"

namespace qcg::ptx {

struct Launch {
  Index grid{1, 1, 1}, block{32, 1, 1};
  uint32_t dynamic_shared = 0;
};

using Argument = std::vector<uint8_t>;
template <class T>
Argument argument(const T& value) {
  Argument bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

struct Outcome {
  std::optional<Fault> fault;
  Counters counters;  // of the early run
  bool ok() const { return !fault; }
  std::string text() const { return fault ? fault->text() : ""; }
};

// One kernel, translated, compiled and loaded.
class LoadedKernel {
 public:
  LoadedKernel(LoadedKernel&&) = default;
  const std::string& name() const { return kernel().name; }
  int64_t parameter_bytes() const { return kernel().parameter_bytes; }
  // Holds the variables of the module; the test adds its buffers.
  GlobalMemory memory() const;
  // One argument per parameter, of its size. Runs twice, early and late; `memory` has the results.
  Outcome run(const Launch& launch, GlobalMemory& memory, const std::vector<Argument>& arguments) const;

 private:
  friend Result<std::vector<LoadedKernel>> load_kernels(std::span<const std::string> texts);
  LoadedKernel() = default;
  const Kernel& kernel() const { return module_->kernels[0]; }
  std::string describe(int line) const;
  std::optional<Fault> run_once(const Launch& launch, GlobalMemory& memory, const CtaOptions& options,
                                Counters& counters) const;
  void count_instructions(Counters& counters) const;

  std::shared_ptr<Module> module_;
  Translation translation_;
  std::shared_ptr<void> library_;
  void (*thread_)() = nullptr;
  void (*bind_)(Machine*) = nullptr;
  uint64_t* counts_ = nullptr;
};

// The only kernel of each text. Errors: BadInput of the parser; Unsupported with the compiler's words, which name the
// opcode and its line of PTX; Toolchain where there is no C++ compiler.
Result<std::vector<LoadedKernel>> load_kernels(std::span<const std::string> texts);
Result<LoadedKernel> load_kernel(const std::string& text);

}  // namespace qcg::ptx

// CudaProgram: a program's kernels and weights on an NVIDIA device. CudaRun: the device memory of one Context.
//
// Why here: Program and Context decide which kernel runs on which buffers; only these classes know device addresses.
//
//   QCG_TRY(device, CudaProgram::load(driver, "mlp.qcg", manifest, weights));
//   CudaRun run(device, manifest);
//   QCG_CHECK(run.copy_in(0, x, bytes)); … QCG_CHECK(run.launch(step, choice, args, params)); … run.copy_out(0, y, bytes)
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/abi.h"
#include "runtime/cuda.h"
#include "runtime/program_directory.h"
#include "runtime/program_manifest.h"
#include "runtime/program_target.h"

namespace qcg {

class CudaProgram {
 public:
  // Verifies and loads every cubin, and copies these ranges of the weights to the device.
  static Result<std::shared_ptr<const CudaProgram>> load(std::shared_ptr<CudaDriver> driver,
                                                         const ProgramDirectory& directory,
                                                         const ProgramManifest& manifest, const std::byte* weights,
                                                         const std::vector<WeightRange>& ranges);

 private:
  friend class CudaRun;
  // What is on the device from `offset` of weights.bin on.
  std::byte* weights_at(int64_t offset) const;

  std::shared_ptr<CudaDriver> driver_;
  std::vector<std::vector<CudaKernel>> kernels_;  // [step][choice]
  CudaBuffer weights_;                            // the ranges one after the other
  std::map<int64_t, int64_t> places_;             // of each range in it, by offset in weights.bin
};

class CudaRun {
 public:
  // `manifest` is the program's and must outlive this object.
  CudaRun(std::shared_ptr<const CudaProgram> program, const ProgramManifest& manifest);

  Status reserve_arena(int64_t bytes) { return reserve(arena_, bytes); }
  Status reserve_output(size_t output, int64_t bytes) { return reserve(outputs_[output], bytes); }
  // Copies dense host memory to the device and back.
  Status copy_in(size_t input, const void* from, int64_t bytes);
  Status copy_out(size_t output, void* to, int64_t bytes);
  // The block of all states, before and after a run: a caller may use it between runs.
  Status copy_state_in(const void* from);
  Status copy_state_out(void* to);
  // The device address of a buffer; the host never dereferences it.
  std::byte* address(const ProgramManifest::Buffer& buffer, int64_t arena_offset) const;
  Status copy_out_at(void* to, const void* address, int64_t bytes) const;
  // Launches a kernel and waits for it. The kernel's one parameter is the args followed by the params and the address of
  // the fault. Returns the position that the kernel refused (qcg_refuse), INT64_MAX if none.
  Result<int64_t> launch(size_t step, size_t choice, std::span<const qcg_arg> args, std::span<const int64_t> params);

 private:
  Status reserve(CudaBuffer& buffer, int64_t bytes);

  std::shared_ptr<const CudaProgram> program_;
  const ProgramManifest& manifest_;
  CudaBuffer arena_, fault_, state_;
  std::vector<CudaBuffer> inputs_, outputs_;
  std::vector<std::byte> parameters_;
};

}  // namespace qcg

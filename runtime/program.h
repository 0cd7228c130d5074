// Program: a compiled program directory, loaded. Context: what one thread needs to run it.
//
// Why here: this is what ships. A Program is immutable and shared; a Context owns temporaries and threads.
//
//   QCG_TRY(program, Program::load("mlp.qcg"));
//   QCG_TRY(context, Context::create(program, {.threads = 4}));
//   QCG_CHECK(context->run(inputs, outputs));          // outputs are the caller's, of program->output_shapes(inputs)
//
// A program for cuda:* keeps its weights on the device; run() copies the caller's host tensors there and back.
//
// A program directory is code: load only what you would also execute. Checksums find damage, not malice.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/abi.h"
#include "runtime/arena.h"
#include "runtime/kernel_runner.h"
#include "runtime/memory.h"
#include "runtime/module.h"
#include "runtime/program_directory.h"
#include "runtime/program_manifest.h"
#include "runtime/tensor_view.h"
#include "runtime/threads.h"

namespace qcg {

class CudaProgram;
class CudaRun;
class State;

enum class WeightsMode : uint8_t {
  map,         // weights.bin is memory-mapped: no copy, shared between processes; the file must not change while loaded
  huge_pages,  // copied to anonymous huge pages: 10–20 % more bandwidth, and the file is not needed afterwards
};

struct LoadOptions {
  WeightsMode weights = WeightsMode::map;
  bool verify_weights = false;  // check weights.bin's sha256 too (about 1 s per GB)
};

// Bytes of the block that holds the temporaries of a run with these symbol values.
Result<int64_t> arena_bytes(const ProgramManifest& manifest, std::span<const int64_t> symbol_values);

class Program {
 public:
  static Result<std::shared_ptr<const Program>> load(const std::string& directory, const LoadOptions& options = {});

  const ProgramManifest& manifest() const { return manifest_; }
  // Extents of an input or output; -1 where the extent is symbolic.
  static std::vector<int64_t> static_shape(const ProgramManifest::Tensor& tensor);

  // Checks count, dtypes, shapes and symbol ranges; messages name the tensor and the axis.
  Result<std::vector<int64_t>> bind_symbols(std::span<const TensorView> inputs) const;
  // Looks at shapes and dtypes only, never at data.
  Result<std::vector<std::vector<int64_t>>> output_shapes(std::span<const TensorView> inputs) const;

  const std::byte* weights() const { return weights_; }
  int64_t weights_bytes() const { return weights_bytes_; }

 private:
  friend class Context;
  struct LoadedStep {
    std::vector<const qcg_kernel*> kernels;  // parallel to ProgramManifest::Step::kernels
  };

  Program() = default;
  Status load_directory(const ProgramDirectory& directory, const LoadOptions& options);
  Status load_on_device(const ProgramDirectory& directory, const LoadOptions& options);
  Status check_files(const ProgramDirectory& directory) const;
  Status load_modules(const ProgramDirectory& directory);
  Status load_weights(const ProgramDirectory& directory, const LoadOptions& options);
  Status check_input(size_t index, const TensorView& view, std::span<const int64_t> symbol_values) const;

  ProgramManifest manifest_;
  std::vector<Module> modules_;
  std::vector<LoadedStep> steps_;
  std::shared_ptr<const CudaProgram> device_;  // targets cuda:* only; then modules_ and steps_ are empty
  MappedWeights weights_file_;
  AlignedBuffer weights_copy_;
  const std::byte* weights_ = nullptr;
  int64_t weights_bytes_ = 0;
};

struct ContextOptions {
  int threads = 0;                   // 0 = the CPUs this process may use
  int spin_us = 80;                  // see PoolOptions
  std::shared_ptr<ThreadPool> pool;  // shared with other contexts; then threads and spin_us are ignored
};

class Context {
 public:
  static Result<std::unique_ptr<Context>> create(std::shared_ptr<const Program> program,
                                                 const ContextOptions& options = {});

  // Any strides and any alignment are accepted; what a kernel cannot read in place is copied first. Inputs may overlap
  // each other. Outputs must not overlap each other or an input. One run at a time per context.
  Status run(std::span<const TensorView> inputs, std::span<const TensorView> outputs);
  // The same of a program that has state, which is read and written; `state` is of the same program. Neither inputs nor
  // outputs may overlap it. Errors before the first step leave it as it was, later ones undefined (state.h).
  Status run(State& state, std::span<const TensorView> inputs, std::span<const TensorView> outputs);

  int threads() const { return pool_->threads(); }
  int64_t arena_bytes() const { return arena_bytes_; }  // of temporaries, with the shapes of the last run

  // Measures every step of the following runs; costs two clock reads per step.
  void set_profile(bool on) { profile_ = on; }
  std::span<const double> last_step_us() const { return step_us_; }  // one per step of the last profiled run

 private:
  // What depends on symbol values alone; kept while they stay the same.
  struct BoundStep {
    size_t choice = 0;                   // into ProgramManifest::Step::kernels
    const qcg_kernel* kernel = nullptr;  // on the CPU
    std::vector<int64_t> offsets;  // per argument, bytes into its buffer
    std::vector<qcg_arg> args;     // data and the caller's strides are filled in per run
    std::vector<int64_t> params;
    // A step of a few microseconds may be faster without the other threads: tried in its first runs, then decided.
    double best_us[2] = {1e30, 1e30};  // with the pool, alone
    int trials = 0;
    bool alone = false;
  };
  // A caller's tensor, and the dense block that stands in for it when kernels cannot use it in place.
  struct Slot {
    std::byte* data = nullptr;
    int64_t row_stride = 0;
    bool staged = false;
    AlignedBuffer staging;
  };

  Context() = default;
  Status run_guarded(std::span<const TensorView> inputs, std::span<const TensorView> outputs);
  Status run_checked(std::span<const TensorView> inputs, std::span<const TensorView> outputs);
  Status bind(std::span<const int64_t> symbol_values);
  Status bind_buffers(std::span<const int64_t> symbol_values);
  Status bind_steps(std::span<const int64_t> symbol_values);
  Status check_output(size_t index, const TensorView& view) const;
  Status check_apart(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const;
  Status place(const TensorView& view, bool needs_dense, Slot& slot);
  std::byte* buffer_data(int buffer) const;
  Status run_steps();
  Status copy_to_device();
  Status copy_from_device();
  Status run_step(size_t index, double& elapsed_us);
  Status run_on_pool(BoundStep& step, double& elapsed_us);

  std::shared_ptr<const Program> program_;
  std::shared_ptr<ThreadPool> pool_;
  ThreadPool alone_{{.threads = 1}};
  Workspace workspace_;
  std::shared_ptr<CudaRun> device_;  // targets cuda:* only: the arena and the copies of inputs and outputs are there
  AlignedBuffer arena_;
  int64_t arena_bytes_ = 0;
  bool bound_ = false;
  std::vector<int64_t> symbol_values_;
  std::vector<std::vector<int64_t>> output_shapes_;
  std::vector<int64_t> buffer_bytes_;
  std::vector<int64_t> arena_offsets_;  // per buffer; temporaries only
  std::vector<BoundStep> steps_;
  std::vector<Slot> inputs_, outputs_;
  State* state_ = nullptr;  // of the run at hand
  bool profile_ = false;
  std::vector<double> step_us_;
};

}  // namespace qcg

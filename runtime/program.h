// Program: a loaded program directory. Context: the threads and temporaries that one thread needs to run it.
//
// Why here: applications ship these two classes, behind the C API. A Program is immutable and shared by threads.
//
//   QCG_TRY(program, Program::load("mlp.qcg"));
//   QCG_TRY(context, Context::create(program, {.threads = 4}));
//   QCG_CHECK(context->run(inputs, outputs));          // outputs are the caller's, of program->output_shapes(inputs)
//
// A program may have several methods, such as encode and decode. Each of them is a Program, too; all share weights,
// kernels and states. The program itself is its first method.
//
//   QCG_TRY(decode, Program::method(program, "decode"));
//
// A program for cuda:* or hip:* keeps its weights and states on the device; run() uses the caller's tensors there in
// place, and copies those of the host to the device and back.
// Of a program for several targets one is loaded, the best that this machine can run.
//
// A program directory is code: load only what you would also execute. Checksums detect damage, not malice.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/abi.h"
#include "runtime/arena.h"
#include "runtime/kernel_runner.h"
#include "runtime/memory.h"
#include "runtime/module.h"
#include "runtime/profile/run_profile.h"
#include "runtime/program_directory.h"
#include "runtime/program_manifest.h"
#include "runtime/program_target.h"
#include "runtime/tensor_view.h"
#include "runtime/threads.h"

namespace qcg {

class CudaImage;
class CudaProgram;
class CudaRun;
struct CudaCalls;
class State;

enum class WeightsMode : uint8_t {
  map,         // weights.bin is memory-mapped: no copy; processes share it; the file must not change while it is mapped
  huge_pages,  // weights.bin is copied to anonymous huge pages: 10–20 % more bandwidth; the file may change then
};

struct LoadOptions {
  WeightsMode weights = WeightsMode::map;
  bool verify_weights = false;  // also verify the SHA-256 of weights.bin (about 1 s per GB)
  std::string target;           // of the program's targets; empty: the best that this machine can run (choose_target)
};

// The bytes of the block for the temporaries of a run with these symbol values.
Result<int64_t> arena_bytes(const ProgramManifest& manifest, std::span<const int64_t> symbol_values);

class Program {
 public:
  static Result<std::shared_ptr<const Program>> load(const std::string& directory, const LoadOptions& options = {});

  // The method of this name of a program that load() returned. Error BadInput lists the names.
  static Result<std::shared_ptr<const Program>> method(const std::shared_ptr<const Program>& program,
                                                       std::string_view name);
  // All methods in the manifest's order, the first of which is the program; that alone where it has no names.
  static std::vector<std::shared_ptr<const Program>> methods(const std::shared_ptr<const Program>& program);
  // Whether both are methods of one program, so that a state of one serves the other.
  bool shares_state_with(const Program& other) const { return image_ == other.image_; }

  const ProgramManifest& manifest() const { return manifest_; }
  // DLPack's number of the memory that its kernels use.
  DeviceType device_type() const;
  // The extents of an input or output; -1 for a symbolic extent.
  static std::vector<int64_t> static_shape(const ProgramManifest::Tensor& tensor);

  // Returns the symbol values; of a symbol that a run reads, the most that it may be. Error BadInput: count, a dtype, a
  // shape or a symbol is wrong; it names tensor and axis. Reads the data of inputs that are values of symbols
  // (ProgramManifest::Tensor::symbol), of others shapes and dtypes.
  Result<std::vector<int64_t>> bind_symbols(std::span<const TensorView> inputs) const;
  // Returns the shapes of the outputs for these inputs. Reads what bind_symbols reads.
  Result<std::vector<std::vector<int64_t>>> output_shapes(std::span<const TensorView> inputs) const;

  const std::byte* weights() const { return image_->weights; }
  int64_t weights_bytes() const { return image_->weights_bytes; }

 private:
  friend class Context;
  friend class State;
  struct LoadedStep {
    std::vector<const qcg_kernel*> kernels;  // parallel to ProgramManifest::Step::kernels
  };

  // What all methods share.
  struct Image {
    std::map<std::string, Module> modules;  // by path
    MappedWeights weights_file;
    AlignedBuffer weights_copy;
    std::vector<WeightRange> ranges;  // of weights.bin: what copies of it have
    const std::byte* weights = nullptr;
    int64_t weights_bytes = 0;
    std::shared_ptr<CudaImage> device;  // targets cuda:* and hip:* only
  };

  Program() = default;
  Status load_directory(const ProgramDirectory& directory, const LoadOptions& options);
  Status load_on_device(const ProgramDirectory& directory, const LoadOptions& options,
                        std::shared_ptr<CudaDriver> driver);
  void part_methods();
  Status check_files(const ProgramDirectory& directory) const;
  Status load_modules(const ProgramDirectory& directory);
  Status load_weights(const ProgramDirectory& directory, const LoadOptions& options);
  Result<int64_t> symbol_value(size_t index, const TensorView& view) const;  // of an input that is a symbol's value
  Status check_input(size_t index, const TensorView& view, std::span<const int64_t> symbol_values) const;

  ProgramManifest manifest_;
  std::shared_ptr<Image> image_ = std::make_shared<Image>();  // not changed once it is loaded
  std::vector<LoadedStep> steps_;
  std::shared_ptr<const CudaProgram> device_;     // cuda:* and hip:* only; then there are no modules and no steps_
  std::vector<std::shared_ptr<Program>> others_;  // methods, of the first one only
};

struct ContextOptions {
  int threads = 0;                   // 0: as many as the CPUs that this process may use
  int spin_us = 80;                  // see PoolOptions
  std::shared_ptr<ThreadPool> pool;  // a pool shared with other contexts; if set, threads and spin_us are ignored
  bool profile = false;              // see Context::set_profile
};

class Context {
 public:
  static Result<std::unique_ptr<Context>> create(std::shared_ptr<const Program> program,
                                                 const ContextOptions& options = {});

  // Accepts any strides and alignment; tensors that a kernel cannot use in place are copied. Those on a device are
  // never copied: they are dense, or matrices of dense rows that only row kernels use, and aligned to their elements,
  // else the run is an Error Unsupported. Inputs may overlap each other. Outputs must not overlap each other or an
  // input. A context serves one run at a time.
  //
  // `stream` of a program on a device: the caller's, null for the default stream. On a stream that is not null the run
  // does not wait if all outputs are on the device, it is not profiled and reads no sizes: it is queued behind what the
  // stream has, and behind the context's and the state's earlier runs on whatever stream. See wait().
  Status run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, void* stream = nullptr);
  // The same for a program with state. `state` is of the same program, and updated in place. Inputs and outputs must
  // not overlap it. An error before the first step does not change it; a later error leaves it undefined (state.h).
  Status run(State& state, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
             void* stream = nullptr);
  // Waits for the runs that were queued, as does the next run that is not queued. Error: one of them failed; their
  // states are undefined.
  Status wait();
  ~Context();

  int threads() const { return pool_->threads(); }
  const std::shared_ptr<ThreadPool>& pool() const { return pool_; }
  // Bytes for temporaries, with the shapes of the last run.
  int64_t arena_bytes() const { return bindings_.empty() ? 0 : bound().arena_bytes; }

  // Times the steps and the threads of the following runs (profile/run_profile.h).
  void set_profile(bool on) { profile_ = on; }
  bool profiles() const { return profile_; }
  const RunProfile& last_profile() const { return run_profile_; }  // of the last run; no steps if it was not profiled

 private:
  // The part of a step that depends only on symbol values.
  struct BoundStep {
    size_t choice = 0;                   // into ProgramManifest::Step::kernels
    const qcg_kernel* kernel = nullptr;  // on the CPU
    std::vector<int64_t> offsets;        // per argument, bytes into its buffer
    std::vector<qcg_arg> args;           // data and the caller's strides are filled in per run
    std::vector<int64_t> params;
    // A step of a few microseconds may be faster without the other threads. Its first runs decide this.
    double best_us[2] = {1e30, 1e30};  // with the pool; on the calling thread alone
    int trials = 0;
    bool alone = false;
    std::optional<double> bytes;         // moved by a run; computed once a run is profiled
    std::vector<int64_t> symbol_values;  // that it was bound for, if the run reads some of them; empty: it was not
  };
  // All that depends only on symbol values. The last few are kept: a decoder alternates between prompts and one token.
  struct Binding {
    std::vector<int64_t> symbol_values;
    std::vector<std::vector<int64_t>> output_shapes;
    std::vector<int64_t> buffer_bytes;
    std::vector<int64_t> arena_offsets;  // per buffer; temporaries only
    int64_t arena_bytes = 0;
    std::vector<BoundStep> steps;
    std::shared_ptr<CudaCalls> calls;  // of the last run on a device
  };
  static constexpr size_t kBindings = 4;
  // A caller's tensor, and a dense copy of it for kernels that cannot use it in place.
  struct Slot {
    std::byte* data = nullptr;
    int64_t row_stride = 0;
    bool staged = false;
    bool on_device = false;
    AlignedBuffer staging;
  };

  Context() = default;
  Status run_guarded(std::span<const TensorView> inputs, std::span<const TensorView> outputs, void* stream);
  Status run_checked(std::span<const TensorView> inputs, std::span<const TensorView> outputs, void* stream);
  Status run_and_wait(void* stream);
  Status queue_run(void* stream);
  Status bind(std::span<const TensorView> inputs);
  const Binding& bound() const { return *bindings_[0]; }
  Status bind_buffers(Binding& binding) const;
  Status bind_steps(Binding& binding) const;
  Status bind_step(const Binding& binding, size_t index, std::span<const int64_t> symbol_values,
                   BoundStep& bound) const;
  Status bind_to_run(size_t index);
  Status read_symbols(size_t step);
  std::span<const int64_t> run_values() const;
  Status check_output(size_t index, const TensorView& view) const;
  Status check_apart(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const;
  Status place(const TensorView& view, const char* kind, const std::string& name, bool needs_dense, Slot& slot);
  std::byte* buffer_data(int buffer) const;
  std::byte* device_data(int buffer) const;
  Status run_steps(bool waits);
  Status copy_to_device();
  Status copy_from_device();
  Status run_on_device(CudaCalls* last);
  Status run_on_cpu(size_t index);
  Status describe_device_fault(size_t index, int64_t position) const;
  Status run_on_pool(BoundStep& step);
  Status run_groups(size_t index);
  double bytes_of(size_t index, const BoundStep& step) const;

  std::shared_ptr<const Program> program_;
  std::shared_ptr<ThreadPool> pool_;
  ThreadPool alone_{{.threads = 1}};
  Workspace workspace_;
  std::shared_ptr<CudaRun> device_;  // cuda:* and hip:* only: the arena and the copies of inputs and outputs are there
  AlignedBuffer arena_;
  std::vector<std::unique_ptr<Binding>> bindings_;  // that of the run at hand first, then by last use
  std::vector<int64_t> run_values_;                 // of the symbols in the run at hand, if it reads some
  std::vector<Slot> inputs_, outputs_;
  State* state_ = nullptr;                                         // of the run at hand
  std::vector<std::shared_ptr<std::atomic<bool>>> queued_states_;  // what says that they are defined
  bool profile_ = false;
  SpanRecorder recorder_;
  RunProfile run_profile_;
};

}  // namespace qcg

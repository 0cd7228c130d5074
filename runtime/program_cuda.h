// CudaImage: the weights and modules of a program on a device of NVIDIA or AMD. CudaProgram: the kernels of one of its
// methods. CudaRun: the device memory of one Context.
//
// Why here: Program and Context decide which kernel runs on which buffers; only these classes know device addresses.
//
//   QCG_TRY(image, CudaImage::load(driver, weights, ranges));
//   QCG_TRY(device, CudaProgram::load(image, directory, manifest));
//   CudaRun run(device, manifest);
//   QCG_CHECK(run.use(nullptr, {}));                       // the default stream
//   QCG_CHECK(run.copy_in(0, x, bytes));
//   run.begin();
//   QCG_CHECK(run.add(step, choice, args, params)); …      // of every step
//   QCG_TRY(refusal, run.start(&calls));                   // waits for them
//   QCG_CHECK(run.copy_out(0, y, bytes));
//
//   … QCG_CHECK(run.use(stream, state)); … QCG_CHECK(run.queue(&calls));   // does not wait
//   QCG_CHECK(run.mark_queued());
//   QCG_TRY(refusal, run.wait());
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/abi.h"
#include "runtime/cuda.h"
#include "runtime/program_directory.h"
#include "runtime/program_manifest.h"
#include "runtime/program_target.h"

namespace qcg {

// What all methods of a program and their states share.
class CudaImage {
 public:
  // Copies these ranges of the weights to the device.
  static Result<std::shared_ptr<CudaImage>> load(std::shared_ptr<CudaDriver> driver, const std::byte* weights,
                                                 const std::vector<WeightRange>& ranges);
  CudaDriver& driver() const { return *driver_; }
  // What is on the device from `offset` of weights.bin on.
  std::byte* weights_at(int64_t offset) const;
  // Whether runs may record graphs of their launches. A driver that fails to record one is not asked again: the first
  // failure is a line on stderr, and all runs of the program launch their steps one by one from then on.
  bool records_graphs() const { return records_graphs_; }
  void give_up_graphs(const Error& reason) const;

 private:
  friend class CudaProgram;
  // Loads each kernel once. The file is verified first.
  Result<CudaKernel> kernel(const ProgramDirectory& directory, const ProgramManifest& manifest,
                            const ProgramManifest::KernelChoice& choice);

  std::shared_ptr<CudaDriver> driver_;
  CudaBuffer weights_;                                                 // the ranges one after the other
  std::map<int64_t, int64_t> places_;                                  // of each range in it, by offset in weights.bin
  std::map<std::pair<std::string, std::string>, CudaKernel> kernels_;  // by module and symbol
  mutable std::atomic<bool> records_graphs_ = true;
};

class CudaProgram {
 public:
  static Result<std::shared_ptr<const CudaProgram>> load(std::shared_ptr<CudaImage> image,
                                                         const ProgramDirectory& directory,
                                                         const ProgramManifest& manifest);

 private:
  friend class CudaRun;
  std::shared_ptr<const CudaImage> image_;
  std::vector<std::vector<CudaKernel>> kernels_;  // [step][choice]
};

// The launches of a run, and a graph of them once a run has repeated them.
struct CudaCalls {
  struct Call {
    size_t step = 0;
    const CudaKernel* kernel = nullptr;
    CudaGrid grid;
    size_t bytes = 0;  // of its parameter
    friend bool operator==(const Call&, const Call&) = default;
  };
  std::vector<Call> calls;
  std::vector<std::byte> parameters;  // one after the other
  CudaGraph graph;
};

class CudaRun {
 public:
  // `manifest` is the program's and must outlive this object.
  CudaRun(std::shared_ptr<const CudaProgram> program, const ProgramManifest& manifest);

  // The run at hand uses this stream; null: the default stream. Its work waits for the runs that were queued before,
  // and for the event, if that is not null.
  Status use(void* stream, const CudaEvent& after);
  Status reserve_arena(int64_t bytes) { return reserve(arena_, bytes); }
  Status reserve_output(size_t output, int64_t bytes) { return reserve(outputs_[output], bytes); }
  // Copies dense host memory to the device and back.
  Status copy_in(size_t input, const void* from, int64_t bytes);
  Status copy_out(size_t output, void* to, int64_t bytes);
  // The device address of a buffer that is no state; the host never dereferences it.
  std::byte* address(const ProgramManifest::Buffer& buffer, int64_t arena_offset) const;
  Status copy_out_at(void* to, const void* address, int64_t bytes) const;
  void begin() { added_.calls.clear(), added_.parameters.clear(); }
  // The next call of a run. The kernel's one parameter is the args followed by the params and the address of the step's
  // fault.
  Status add(size_t step, size_t choice, std::span<const qcg_arg> args, std::span<const int64_t> params);
  // A position that the kernel of a step refused (qcg_refuse).
  struct Refusal {
    size_t step = 0;
    int64_t position = 0;
  };
  // Launches what was added, and waits for it. Calls that are those of `last`, to the byte, are replayed as a graph,
  // else they become `last`; null: neither. The first refusal counts, because what follows it may be wrong.
  Result<std::optional<Refusal>> start(CudaCalls* last);
  // The same without waiting; mark_queued() must follow.
  Status queue(CudaCalls* last);
  // Ends a run that was queued, or failed while it was queued.
  Status mark_queued();
  const CudaEvent& queued() const { return queued_; }  // behind the last run that was queued; null: there was none
  // Waits for all runs that were queued. A refusal is that of one of them, whichever.
  Result<std::optional<Refusal>> wait();

 private:
  Status reserve(CudaBuffer& buffer, int64_t bytes);
  CudaDriver& driver() const { return program_->image_->driver(); }
  Status clear_faults();
  Result<std::optional<Refusal>> take_refusal();
  Status launch_all(const CudaCalls& calls, void* stream);
  Status launch_or_replay(CudaCalls* last);
  Status copy_to(const CudaBuffer& to, const void* from, int64_t bytes);
  Status record(CudaCalls& calls);

  std::shared_ptr<const CudaProgram> program_;
  const ProgramManifest& manifest_;
  CudaBuffer arena_, faults_;
  std::vector<CudaBuffer> inputs_, outputs_;
  std::vector<size_t> refusing_;  // steps that read positions: each has a fault
  CudaCalls added_;
  CudaStream recording_;
  void* stream_ = nullptr;  // of the run at hand
  CudaEvent queued_;
  bool is_pending_ = false;  // runs were queued and not waited for
};

}  // namespace qcg

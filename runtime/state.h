// State: the tensors that a program keeps between the runs of one sequence, such as KV caches and running sums.
//
// Why here: all threads share a Program, and a Context has threads. A State is separate from both, so that one Context
// can serve many sequences.
//
//   QCG_TRY(state, State::create(program));             // the initial values
//   QCG_CHECK(context->run(*state, inputs, outputs));   // reads and writes the state in place
//   QCG_TRY(other, state->clone());                     // two sequences with one prefix
//
// Any thread may use a state, but only one call at a time, except that clones and reads may run at the same time. A run
// that fails after its first step has begun leaves the state undefined: then all calls except reset() fail. Calls wait for
// runs that were queued on a stream of the caller, except tensor(), whose caller orders what it does with the address.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "runtime/cuda.h"
#include "runtime/memory.h"
#include "runtime/program.h"
#include "runtime/tensor_view.h"

namespace qcg {

class State {
 public:
  // A state with the initial values. A program without state gets an empty one, so that callers treat all alike.
  static Result<std::unique_ptr<State>> create(std::shared_ptr<const Program> program);
  ~State();

  // Restores the initial values in the same memory.
  Status reset();
  Result<std::unique_ptr<State>> clone() const;
  // A dense view of the state's own memory, whose address is fixed. Callers may read and write it between runs. On a
  // device it is a device address, not for the host.
  Result<TensorView> tensor(std::string_view name) const;
  bool on_device() const;
  const Program& program() const { return *program_; }
  // Copies the tensor to and from dense host memory of `bytes` bytes. Error BadInput: it has another number of bytes.
  Status read(std::string_view name, void* to, int64_t bytes) const;
  Status write(std::string_view name, const void* from, int64_t bytes);

 private:
  friend class Context;

  // Locks the state for the duration of one call. Several readers or one writer may hold a state.
  class Hold {
   public:
    static Result<Hold> take(const State& state, bool to_write, const char* what);
    Hold(Hold&& other) noexcept : state_(std::exchange(other.state_, nullptr)), to_write_(other.to_write_) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold();

   private:
    Hold(const State* state, bool to_write) : state_(state), to_write_(to_write) {}
    const State* state_;
    bool to_write_;
  };

  explicit State(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  Status allocate(int64_t bytes);
  Status check_defined() const;
  Status wait() const;  // for the runs that were queued on a stream
  Status finish_copies() const;
  Status fill();
  // What is at `offset` of weights.bin, where the state is: on the host or on the device.
  const std::byte* initial_data(int64_t offset) const;
  // Between two places that are where the state is.
  Status copy(std::byte* to, const std::byte* from, int64_t bytes) const;
  Result<int> find(std::string_view name, int64_t bytes) const;
  std::byte* base() const;  // of the block of all tensors
  std::byte* data(int index) const;

  std::shared_ptr<const Program> program_;
  AlignedBuffer block_;      // all tensors, as ProgramManifest::State::place says
  CudaBuffer device_block_;  // the same on a device; then block_ is empty
  // False: a run has changed it and did not finish. Contexts whose queued runs have changed it share this with it, until
  // it gets its initial values again.
  std::shared_ptr<std::atomic<bool>> defined_ = std::make_shared<std::atomic<bool>>(true);
  CudaEvent queued_;                    // behind the last run that was queued; null: there was none
  mutable std::atomic<int> users_ = 0;  // the number of readers; -1: a writer
};

}  // namespace qcg

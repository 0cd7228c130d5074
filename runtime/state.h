// State: the tensors that a program keeps between runs, of one sequence: its KV caches, its running sums.
//
// Why here: a Program is shared by all, a Context has the threads; what a sequence remembers belongs to neither, so that one
// Context serves many sequences.
//
//   QCG_TRY(state, State::create(program));             // the initial values
//   QCG_CHECK(context->run(*state, inputs, outputs));   // reads and writes the state in place
//   QCG_TRY(other, state->clone());                     // two sequences with one prefix
//
// Any thread may use a state, one call at a time: a second one gets an error, but clones and reads may happen side by side.
// A run that fails between its first and its last step leaves the state undefined: all calls but reset() fail then.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "runtime/memory.h"
#include "runtime/program.h"
#include "runtime/tensor_view.h"

namespace qcg {

class State {
 public:
  // For a program without state it is empty, and of use nevertheless: callers need not tell programs apart.
  static Result<std::unique_ptr<State>> create(std::shared_ptr<const Program> program);

  // The initial values again, in the same memory.
  Status reset();
  Result<std::unique_ptr<State>> clone() const;
  // Dense, and the state's own memory: to be read and written while no run uses it. Its address stays until the state ends.
  Result<TensorView> tensor(std::string_view name) const;

 private:
  friend class Context;

  // Keeps others away for the time of one call. Several readers may hold a state, or one writer.
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
  Status check_defined() const;
  void fill();
  std::byte* data(int index) const;

  std::shared_ptr<const Program> program_;
  AlignedBuffer block_;                 // all tensors, as ProgramManifest::State::place says
  bool defined_ = true;                 // false: a run began to change it and did not end
  mutable std::atomic<int> users_ = 0;  // that read it; -1: one writes
};

}  // namespace qcg

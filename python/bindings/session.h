// LoadedProgram: a program and what Python asks of it. Session: the threads and the state of one sequence that runs it.
//
// Why here: the classes of Python (bind_program.cpp) are thin over these two.
//
//   auto program = LoadedProgram::load("mlp.qcg", {});
//   Session session(program, 4, Session::Threads::own);
//   nb::object y = session.call(program->methods[0], args, kwargs);        // numpy or torch, as the inputs are
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/program.h"
#include "runtime/state.h"

namespace qcg::python {

struct LoadedProgram {
  std::vector<std::shared_ptr<const Program>> methods;  // the first one is the program
  std::string path;
  std::string report;  // report.json; empty: the program has none

  // Throws qcodegen.Error. Releases the GIL while it reads.
  static std::shared_ptr<const LoadedProgram> load(const std::string& path, const LoadOptions& options);
  const ProgramManifest& manifest() const { return methods[0]->manifest(); }
};

// Raises UsageError unless it is from 0 to 4096.
int checked_threads(int threads);

class Session {
 public:
  // The number of threads as in ContextOptions. Sessions with common threads of one number share them and take turns: a
  // model that was cut into many programs needs no more threads than one.
  enum class Threads { own, common };
  Session(std::shared_ptr<const LoadedProgram> program, int threads, Threads whose);
  // Another sequence that begins where this one is: its state is a copy, its threads are the same.
  std::shared_ptr<Session> clone() const;

  // Runs a method. `named` are inputs by name and `out`, the outputs to write to. Calls from several threads, also of
  // clones, run one after the other.
  nanobind::object call(const std::shared_ptr<const Program>& method, const nanobind::args& inputs,
                        const nanobind::kwargs& named);

  // Waits for calls that were queued on a stream of the framework whose tensors they took (Context::wait).
  void wait();
  void reset();
  TensorView state_tensor(std::string_view name) const;
  const LoadedProgram& program() const { return *program_; }
  int threads() const { return shared_->pool->threads(); }

 private:
  // What clones share.
  struct Shared {
    std::shared_ptr<ThreadPool> pool;
    std::mutex turn;
  };
  static std::shared_ptr<Shared> make_threads(int threads);
  static std::shared_ptr<Shared> common_threads(int threads);
  Session() = default;
  Status run(const std::shared_ptr<const Program>& method, std::span<const TensorView> inputs,
             std::span<const TensorView> outputs, void* stream);

  std::shared_ptr<const LoadedProgram> program_;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<State> state_;
  std::map<const Program*, std::unique_ptr<Context>> contexts_;
};

}  // namespace qcg::python

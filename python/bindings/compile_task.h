// CompileTask: a compile on a thread of its own, while Python's thread shows progress and hears Ctrl-C.
//
// Why here: Python runs signal handlers and callbacks only on threads of its own that hold the GIL.
//
//   CompileTask task;
//   options.on_step = task.on_step(), options.cancel = task.cancel();
//   auto report = task.run([&] { return compile_model(model, options); }, callback);     // throws what Python threw
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace qcg::python {

class CompileTask {
 public:
  // For CompileOptions: what the compile says, and whether it is to stop.
  std::function<void(std::string_view)> on_step() {
    return [this](std::string_view text) { say(text); };
  }
  const std::atomic<bool>* cancel() const { return &cancelled_; }

  // Calls `work` on a thread and returns its result. `show` gets each step's text and may be None. An exception of
  // `show` or of a signal handler cancels the work and is thrown once it has ended. What `work` throws, such as
  // std::bad_alloc, is thrown too.
  template <class Work>
  auto run(Work work, nanobind::handle show) {
    std::optional<decltype(work())> result;
    std::exception_ptr thrown;
    std::thread thread([&] {
      try {
        result.emplace(work());
      } catch (...) {
        thrown = std::current_exception();
      }
      finish();
    });
    wait(show);
    thread.join();
    if (raised_) std::rethrow_exception(raised_);
    if (thrown) std::rethrow_exception(thrown);
    return std::move(*result);
  }

 private:
  void say(std::string_view text);
  void finish();
  void wait(nanobind::handle show);
  void show_steps(const std::vector<std::string>& steps, nanobind::handle show);

  std::atomic<bool> cancelled_ = false;
  std::exception_ptr raised_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> steps_;
  bool done_ = false;
};

}  // namespace qcg::python

#include "python/bindings/compile_task.h"

#include <chrono>
#include <utility>

namespace nb = nanobind;

namespace qcg::python {

namespace {

constexpr auto kPoll = std::chrono::milliseconds(100);  // how soon a Ctrl-C is heard

}  // namespace

void CompileTask::say(std::string_view text) {
  const std::lock_guard lock(mutex_);
  steps_.emplace_back(text);
  changed_.notify_one();
}

void CompileTask::finish() {
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_one();
}

void CompileTask::wait(nb::handle show) {
  for (bool done = false; !done;) {
    std::vector<std::string> steps;
    {
      const nb::gil_scoped_release released;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kPoll, [&] { return done_ || !steps_.empty(); });
      steps.swap(steps_);
      done = done_;
    }
    if (!raised_) show_steps(steps, show);
  }
}

void CompileTask::show_steps(const std::vector<std::string>& steps, nb::handle show) {
  try {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (show.is_none()) return;
    for (const std::string& step : steps) show(step.c_str());
  } catch (...) {
    raised_ = std::current_exception();
    cancelled_ = true;
  }
}

}  // namespace qcg::python

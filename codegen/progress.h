// Progress: what a compile is doing, how much of it is done and what is left.
//
// Why here: the pipeline says it, whoever called the pipeline shows it.
//
//   Progress progress(options.on_step);
//   progress.show("build {} kernels", n);
//   progress.begin();
//   progress.show_part(3, 2, 12, "tune gate_proj m=16");     // "[3/12] tune gate_proj m=16 · 4 s left"
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "codegen/trial/timing.h"

namespace qcg {

class Progress {
 public:
  explicit Progress(std::function<void(std::string_view)> on_step) : on_step_(std::move(on_step)) {}

  template <class... Args>
  void show(fmt::format_string<Args...> format, Args&&... args) {
    if (on_step_) on_step_(fmt::format(format, std::forward<Args>(args)...));
  }

  void begin() { begin_s_ = now_s(); }  // what is counted from now on

  // Part `number` of `of`, when `done` are done: they are the best guess of what the rest takes.
  void show_part(size_t number, size_t done, size_t of, const std::string& what) {
    const double spent = now_s() - begin_s_;
    const double left = done > 0 ? spent / static_cast<double>(done) * static_cast<double>(of - done) : 0;
    show("[{}/{}] {}{}", number, of, what, left >= 1 ? fmt::format(" · {:.0f} s left", left) : "");
  }

  // Kernels come in fast: a few of the lines are enough.
  void show_builds(size_t done, size_t of) {
    if (done < of && now_s() - shown_s_ < kEvery_s) return;
    shown_s_ = now_s();
    show_part(done, done, of, "build");
  }

 private:
  static constexpr double kEvery_s = 0.5;
  std::function<void(std::string_view)> on_step_;
  double begin_s_ = 0, shown_s_ = 0;
};

}  // namespace qcg

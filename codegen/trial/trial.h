// run_in_child: a piece of work in a forked process, so that a crash, a trap or a hang costs the work and not the
// compile.
//
// Why here: candidates are code nobody has run before; the tuner verifies and times them only in here.
//
//   ChildResult r = run_in_child(10.0, [&](ChildReport& report) {
//     for (size_t i = 0; i < n; ++i) { report.begin(i); report.send(json_of(work(i))); }
//   });
//   if (!r.failure.empty()) blame(r.current, r.failure);     // "SIGILL (illegal instruction)", "no answer in 10 s"
//
// The child shares the parent's memory copy-on-write (packed weights are not copied), has no threads of the parent,
// leaves no core file and dies with the parent. What it starts is killed when it ends. Ctrl-C is the parent's to
// answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace qcg {

class ChildReport {
 public:
  ChildReport(int fd, volatile int64_t* current) : fd_(fd), current_(current) {}
  void begin(size_t item) { *current_ = static_cast<int64_t>(item); }  // survives a crash: names the culprit
  void send(const std::string& message);                               // any bytes
  // The work cannot go on, for this reason, and no item is to blame.
  [[noreturn]] void fail(const std::string& why);

 private:
  int fd_;
  volatile int64_t* current_;
};

struct ChildResult {
  std::vector<std::string> messages;  // in order, whole ones only
  int64_t current = -1;               // the last item begun
  std::string failure;                // why it ended badly; empty if it did not
};

// The child is killed when it has sent nothing for `timeout_s`: an empty message is a sign of life and not kept. Time in
// which it was ready and had no processor, or was stopped, does not count, up to nine times `timeout_s`. It is killed,
// too, when a message has more than 16 MiB, or all of them have more than 64 MiB.
// Error Io: no process or pipe can be had. Error Interrupted: `cancel` was set, and the child is gone.
Result<ChildResult> run_in_child(double timeout_s, const std::function<void(ChildReport&)>& work,
                                 const std::atomic<bool>* cancel = nullptr);

}  // namespace qcg

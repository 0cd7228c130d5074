#include "codegen/trial/wait_meter.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace qcg {

namespace {

double clock_s(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

long involuntary_switches() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

// "12345 678 9": nanoseconds on a processor, nanoseconds ready and waiting for one, turns. A thread that has ended: 0.
double read_waited_s(int file) {
  char text[96];
  const ssize_t bytes = ::pread(file, text, sizeof text, 0);
  if (bytes <= 0) return 0;
  const char* const end = text + bytes;
  const char* at = std::find<const char*>(text, end, ' ');
  unsigned long long nanoseconds = 0;
  if (at != end) std::from_chars(at + 1, end, nanoseconds);
  return static_cast<double>(nanoseconds) * 1e-9;
}

}  // namespace

WaitMeter::WaitMeter() {
  std::error_code failed;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    const int file = ::open((task.path() / "schedstat").c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0) threads_.push_back({file, 0});
  }
  start();
}

WaitMeter::~WaitMeter() {
  for (const Thread& thread : threads_) ::close(thread.file);
}

void WaitMeter::start() {
  for (Thread& thread : threads_) thread.waited_before = read_waited_s(thread.file);
  switches_before_ = involuntary_switches();
  cpu_before_ = clock_s(CLOCK_THREAD_CPUTIME_ID);
  clock_before_ = clock_s(CLOCK_MONOTONIC);
}

double WaitMeter::waited_s() const {
  if (threads_.empty()) {
    const double clock = clock_s(CLOCK_MONOTONIC) - clock_before_;
    const double cpu = clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu_before_;
    return involuntary_switches() > switches_before_ ? clock - cpu : 0;
  }
  double longest = 0;
  for (const Thread& thread : threads_) longest = std::max(longest, read_waited_s(thread.file) - thread.waited_before);
  return longest;
}

}  // namespace qcg

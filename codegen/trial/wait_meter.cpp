#include "codegen/trial/wait_meter.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>

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

// The schedstat of every thread of a process, opened.
std::vector<int> open_schedstats(const std::string& process) {
  std::vector<int> files;
  std::error_code failed;
  std::filesystem::directory_iterator task("/proc/" + process + "/task", failed);
  for (; !failed && task != std::filesystem::directory_iterator(); task.increment(failed))
    if (const int file = ::open((task->path() / "schedstat").c_str(), O_RDONLY | O_CLOEXEC); file >= 0)
      files.push_back(file);
  return files;
}

}  // namespace

double longest_wait_s(pid_t process) {
  double longest = 0;
  for (const int file : open_schedstats(std::to_string(process))) {
    longest = std::max(longest, read_waited_s(file));
    ::close(file);
  }
  return longest;
}

WaitMeter::WaitMeter() {
  for (const int file : open_schedstats("self")) threads_.push_back({file, 0});
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

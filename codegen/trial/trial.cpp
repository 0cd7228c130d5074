#include "codegen/trial/trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/cancel.h"
#include "codegen/trial/timing.h"
#include "codegen/trial/wait_meter.h"
#include "graph/read/files/mapped_file.h"

namespace qcg {

namespace {

constexpr char kFailed = '\x15';  // begins the last message of work that cannot go on
constexpr uint32_t kMaxMessage = 16u << 20;
constexpr uint64_t kMaxBytes = 64u << 20;  // of all messages of a child
constexpr double kPoll_ms = 100;           // how long a cancellation may go unseen

bool write_all(int fd, const void* data, size_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

[[noreturn]] void run_child(int fd, volatile int64_t* current, pid_t parent,
                            const std::function<void(ChildReport&)>& work) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  for (int sig : {SIGSEGV, SIGILL, SIGFPE, SIGABRT}) ::signal(sig, SIG_DFL);
  if (!are_mapped_files_guarded()) ::signal(SIGBUS, SIG_DFL);
  // Who ends us may signal our children too; one that died of it would look like a crash of what it tried.
  for (int sig : {SIGTERM, SIGINT, SIGHUP}) ::signal(sig, SIG_IGN);
  ChildReport report(fd, current);
  work(report);
  ::_exit(0);  // no destructors, no atexit: they belong to the parent
}

// Takes whole messages off the front of `buffer`. Returns false where the next size is larger than any message.
bool take_messages(std::string& buffer, std::vector<std::string>& out) {
  size_t at = 0;
  while (buffer.size() - at >= sizeof(uint32_t)) {
    uint32_t size;
    std::memcpy(&size, buffer.data() + at, sizeof size);
    if (size > kMaxMessage) return false;
    if (buffer.size() - at - sizeof size < size) break;
    if (size > 0) out.emplace_back(buffer.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  buffer.erase(0, at);
  return true;
}

bool is_stopped(pid_t child) {
  std::ifstream in(fmt::format("/proc/{}/stat", child));
  std::string text;
  std::getline(in, text);
  const size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] == 'T';
}

// How long a child may send nothing before it counts as hung. Time in which it could not run does not count: other
// processes had the processors, or it was stopped. That time is limited, so that a hang is found on a busy machine, too.
class Patience {
 public:
  Patience(pid_t child, double seconds) : child_(child), seconds_(seconds) { start(); }

  void start() {
    begin_ = last_ = now_s();
    waited_before_ = longest_wait_s(child_);
    stopped_s_ = 0;
  }
  // Seconds until it ends as things are. To be called at least every kPoll_ms: it looks whether the child is stopped.
  double left_s() {
    const double now = now_s();
    if (is_stopped(child_)) stopped_s_ += now - last_;
    last_ = now;
    const double left = begin_ + seconds_ - now;
    if (left > 0) return left;
    const double delay = longest_wait_s(child_) - waited_before_ + stopped_s_;
    return left + std::min(delay, kMostDelay * seconds_);
  }

 private:
  static constexpr double kMostDelay = 9;
  pid_t child_;
  double seconds_, begin_ = 0, last_ = 0, waited_before_ = 0, stopped_s_ = 0;
};

enum class Reading { ended, silent, too_long };

// Reads until the child closes the pipe. Silent: its patience is over, or `cancel` is set. Too long: a kernel may write
// whatever it likes into the pipe, and never stop.
Reading read_messages(int fd, Patience patience, const std::atomic<bool>* cancel, std::vector<std::string>& out) {
  std::string buffer;
  uint64_t total = 0;
  char chunk[65536];
  for (;;) {
    const double left_ms = patience.left_s() * 1e3;
    if (is_cancelled(cancel)) return Reading::silent;
    pollfd poll_fd{fd, POLLIN, 0};
    const int ready = ::poll(&poll_fd, 1, static_cast<int>(std::clamp<double>(left_ms, 0, kPoll_ms)));
    if (ready <= 0 && left_ms <= 0)
      return Reading::silent;  // what is there in time counts, also where nobody looked in time
    if (ready <= 0) continue;
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Reading::ended;
    patience.start();
    buffer.append(chunk, static_cast<size_t>(n));
    total += static_cast<uint64_t>(n);
    if (!take_messages(buffer, out) || total > kMaxBytes) return Reading::too_long;
  }
}

std::string describe_end(int status) {
  if (WIFEXITED(status))
    return WEXITSTATUS(status) == 0 ? "" : fmt::format("exited with status {}", WEXITSTATUS(status));
  const int sig = WTERMSIG(status);
  const char* name = ::sigabbrev_np(sig);
  return fmt::format("SIG{} ({})", name ? name : "?", ::strsignal(sig));
}

}  // namespace

void ChildReport::send(const std::string& message) {
  const uint32_t size = static_cast<uint32_t>(message.size());
  if (!write_all(fd_, &size, sizeof size) || !write_all(fd_, message.data(), message.size())) ::_exit(1);
}

void ChildReport::fail(const std::string& why) {
  *current_ = -1;
  send(kFailed + why);
  ::_exit(0);
}

Result<ChildResult> run_in_child(double timeout_s, const std::function<void(ChildReport&)>& work,
                                 const std::atomic<bool>* cancel) {
  if (is_cancelled(cancel)) return Error::interrupted();
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0)
    return Error::io("trial", fmt::format("cannot create a pipe: {}", std::strerror(errno)),
                     "close some files or raise `ulimit -n`");
  void* page = ::mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    ::close(fds[0]), ::close(fds[1]);
    return Error::io("trial", "cannot map shared memory", "free some memory");
  }
  auto* current = static_cast<volatile int64_t*>(page);
  *current = -1;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(fds[0]);
    run_child(fds[1], current, parent, work);
  }
  ::close(fds[1]);
  ChildResult result;
  if (child > 0) {
    ::setpgid(child, child);  // also here, so that the kill below finds the group
    const Reading reading = read_messages(fds[0], Patience(child, timeout_s), cancel, result.messages);
    if (reading != Reading::ended) ::kill(child, SIGKILL);
    siginfo_t end{};
    while (::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    ::kill(-child, SIGKILL);  // what it started; until it is reaped, no other group has its number
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    result.failure = reading == Reading::ended    ? describe_end(status)
                     : reading == Reading::silent ? fmt::format("no answer in {:.3g} s", timeout_s)
                                                  : "wrote more than an answer has";
    result.current = *current;
    if (!result.messages.empty() && result.messages.back().starts_with(kFailed)) {
      result.failure = result.messages.back().substr(1);
      result.messages.pop_back();
    }
  }
  ::close(fds[0]);
  ::munmap(page, sizeof(int64_t));
  if (child < 0)
    return Error::io("trial", fmt::format("cannot start a process: {}", std::strerror(errno)),
                     "raise `ulimit -u` or free some memory");
  // Whatever it said: it was killed before it was done.
  if (is_cancelled(cancel)) return Error::interrupted();
  return result;
}

}  // namespace qcg

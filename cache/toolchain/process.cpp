#include "cache/toolchain/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/cancel.h"
#include "cache/store/file_system.h"
#include "cache/toolchain/group_watch.h"

namespace qcg {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const auto& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

struct Pipe {
  OwnedFd read, write;
};

Result<Pipe> open_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC)) return io_error("pipe", "cannot be made", errno);
  return Pipe{OwnedFd(fds[0]), OwnedFd(fds[1])};
}

// Everything that the child needs. It is prepared before the fork, because only async-signal-safe calls are allowed
// after it.
struct ChildSetup {
  char* const* argv;
  char* const* environment;
  const char* directory;
  int output_fd;
  int error_fd;
  rlim_t memory_bytes;
  pid_t parent;
  int watcher;
};

void prepare_child(const ChildSetup& setup) {
  setpgid(0, 0);
  GroupWatch::announce(setup.watcher);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != setup.parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int sig : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) signal(sig, SIG_DFL);
  rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (setup.memory_bytes) {
    rlimit memory{setup.memory_bytes, setup.memory_bytes};
    setrlimit(RLIMIT_AS, &memory);
  }
  int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, 0);
  dup2(setup.output_fd, 1);
  dup2(setup.output_fd, 2);
  if (setup.directory && chdir(setup.directory)) {
    int error = errno;
    [[maybe_unused]] ssize_t n = write(setup.error_fd, &error, sizeof error);
    _exit(127);
  }
}

[[noreturn]] void exec_child(const ChildSetup& setup) {
  prepare_child(setup);
#ifdef SYS_close_range
  // Closes descriptors that were opened without O_CLOEXEC. Linux kernels without this call leave them open.
  constexpr unsigned kSetCloseOnExec = 4;
  syscall(SYS_close_range, 3u, ~0u, kSetCloseOnExec);
#endif
  execve(setup.argv[0], setup.argv, setup.environment);
  int error = errno;
  [[maybe_unused]] ssize_t n = write(setup.error_fd, &error, sizeof error);
  _exit(127);
}

// Reads the available output without waiting. Returns false at the end of the stream.
bool drain(int fd, std::string& output, size_t limit) {
  char buffer[1 << 14];
  for (;;) {
    ssize_t n = read(fd, buffer, sizeof buffer);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (output.size() < limit) output.append(buffer, std::min(static_cast<size_t>(n), limit - output.size()));
  }
}

// Collects output until the child ends, runs out of time or is cancelled.
void wait_for_child(pid_t pid, int output_fd, const ProcessSpec& spec, Clock::time_point start,
                    std::optional<GroupWatch>& watch, ProcessResult& result) {
  OwnedFd pid_fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  bool open = true;
  for (;;) {
    // The child is not reaped yet, so that its number is not reused before the group is killed below.
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) || ended.si_pid == pid) break;
    if (!result.timed_out && !result.cancelled) {
      result.timed_out = seconds_since(start) > spec.timeout_s;
      result.cancelled = is_cancelled(spec.cancel);
      if (result.timed_out || result.cancelled) kill(-pid, SIGKILL), kill(pid, SIGKILL);
    }
    pollfd fds[2] = {{output_fd, POLLIN, 0}, {pid_fd.get(), POLLIN, 0}};
    if (!open) fds[0].fd = -1;
    // Old Linux kernels have no pidfd; then a short wait takes its place.
    int wait_ms = pid_fd ? 50 : 2;
    double left_ms = (spec.timeout_s - seconds_since(start)) * 1000;
    if (!result.timed_out) wait_ms = static_cast<int>(std::clamp(left_ms + 1, 1.0, static_cast<double>(wait_ms)));
    poll(fds, 2, wait_ms);
    if (open && (fds[0].revents & (POLLIN | POLLHUP))) open = drain(output_fd, result.output, spec.output_limit);
  }
  kill(-pid, SIGKILL);  // grandchildren that outlive the driver would write to a directory that is being removed
  watch.reset();        // before the number of the group may be reused
  rusage usage{};
  int status = 0;
  while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  if (open) drain(output_fd, result.output, spec.output_limit);
  if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
    result.exit_status = 128 + result.signal;
  } else {
    result.exit_status = WEXITSTATUS(status);
  }
  result.max_rss_kb = usage.ru_maxrss;
  result.seconds = seconds_since(start);
}

#pragma GCC diagnostic push
#ifndef __clang__  // it has no such warning
#pragma GCC diagnostic ignored "-Wclobbered"
#endif
// Uses vfork, because fork would copy the page tables of a process that may have mapped many gigabytes of weights.
[[gnu::noinline]] pid_t start_program(const ChildSetup& setup) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // a handler must not run on the shared stack
  pid_t pid = vfork();
  if (pid == 0) exec_child(setup);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return pid;
}
#pragma GCC diagnostic pop

pid_t start_body(const ChildSetup& setup, const std::function<int()>& body) {
  std::fflush(nullptr);  // otherwise the child might write our buffered output a second time
  pid_t pid = fork();
  if (pid == 0) {
    prepare_child(setup);
    _exit(body());
  }
  return pid;
}

}  // namespace

Result<ProcessResult> run_process(const ProcessSpec& spec) {
  if (spec.argv.empty() && !spec.body) return Error::internal("run_process", "no program given");
  const std::string name = spec.body ? "child" : spec.argv[0];
  auto output = open_pipe();
  if (!output.ok()) return output.error();
  auto failure = open_pipe();
  if (!failure.ok()) return failure.error();
  fcntl(output->read.get(), F_SETFL, O_NONBLOCK);

  auto argv = pointers(spec.argv);
  auto environment = pointers(spec.environment);
  ChildSetup setup{argv.data(),
                   environment.data(),
                   spec.directory.empty() ? nullptr : spec.directory.c_str(),
                   output->write.get(),
                   failure->write.get(),
                   static_cast<rlim_t>(spec.memory_mb) << 20,
                   getpid(),
                   GroupWatch::open()};
  auto start = Clock::now();
  pid_t pid = spec.body ? start_body(setup, spec.body) : start_program(setup);
  if (pid < 0) return io_error(name, "cannot be started", errno);
  std::optional<GroupWatch> watch(std::in_place, pid);
  setpgid(pid, pid);  // also in the parent, so that a kill right after the start finds the group
  output->write.reset();
  failure->write.reset();

  ProcessResult result;
  if (!spec.body) {
    int error = 0;
    if (read(failure->read.get(), &error, sizeof error) == sizeof error) {
      watch.reset();
      waitpid(pid, nullptr, 0);
      return io_error(name, "cannot be started", error);
    }
  }
  wait_for_child(pid, output->read.get(), spec, start, watch, result);
  return result;
}

std::string search_path() {
  const char* path = std::getenv("PATH");
  return path && *path ? path : "/usr/local/bin:/usr/bin:/bin";
}

std::vector<std::string> tool_environment(const std::string& temp_dir) {
  // If the compiler is ccache, it must call the real compiler: its own cache would hide what was run.
  std::vector<std::string> environment = {"PATH=" + search_path(), "LANG=C", "LC_ALL=C", "CCACHE_DISABLE=1"};
  if (!temp_dir.empty()) environment.push_back("TMPDIR=" + temp_dir);
  return environment;
}

std::string find_program(const std::string& name, const std::string& path) {
  auto is_program = [](const std::string& p) {
    struct stat info;
    return ::stat(p.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(p.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    if (!is_program(name)) return {};
    std::error_code ignored;
    return std::filesystem::absolute(name, ignored).string();
  }
  size_t begin = 0;
  while (begin <= path.size()) {
    size_t end = std::min(path.find(':', begin), path.size());
    std::string folder = path.substr(begin, end - begin);
    begin = end + 1;
    // With a relative folder, the compiler would depend on the working directory.
    if (folder.empty() || folder[0] != '/') continue;
    if (is_program(folder + "/" + name)) return folder + "/" + name;
  }
  return {};
}

}  // namespace qcg

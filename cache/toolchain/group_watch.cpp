#include "cache/toolchain/group_watch.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <mutex>

namespace qcg {
namespace {

constexpr size_t kMostGroups = 4096;

// The watcher process. It makes only async-signal-safe calls, because it is forked from a process that may have
// threads. A message is the number of a group to watch, or its negative for a group to forget.
[[noreturn]] void watch_groups(int socket) {
  setsid();  // so that signals to our process group do not reach it
  for (int sig : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) signal(sig, SIG_IGN);
  prctl(PR_SET_NAME, "qcg-watcher");
  // A process that waits for the end of our output must not wait for the watcher.
  dup2(socket, 0);
#ifdef SYS_close_range
  if (syscall(SYS_close_range, 1u, ~0u, 0u) != 0)
#endif
    for (int fd = 1; fd < 1024; ++fd) close(fd);
  pid_t groups[kMostGroups];
  size_t count = 0;
  for (;;) {
    int32_t message;
    const ssize_t n = recv(0, &message, sizeof message, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof message) break;
    if (message > 0 && count < kMostGroups) groups[count++] = message;
    if (message < 0) count = static_cast<size_t>(std::remove(groups, groups + count, -message) - groups);
  }
  for (size_t i = 0; i < count; ++i) kill(-groups[i], SIGKILL);
  _exit(0);
}

void tell(int channel, int32_t message) {
  if (channel >= 0) (void)send(channel, &message, sizeof message, MSG_NOSIGNAL);
}

class Watcher {
 public:
  // A forked child has a copy of the parent's watcher in its memory, and needs its own watcher.
  ~Watcher() {
    if (owner_ != getpid() || pid_ <= 0) return;
    close(socket_);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  int socket() {
    std::lock_guard lock(mutex_);
    if (owner_ != getpid()) start();
    return pid_ > 0 ? socket_ : -1;
  }

 private:
  void start() {
    owner_ = getpid();
    pid_ = -1;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) return;
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      watch_groups(ends[1]);
    }
    close(ends[1]);
    if (pid_ > 0) socket_ = ends[0];
    else close(ends[0]);
  }

  std::mutex mutex_;
  pid_t owner_ = 0, pid_ = -1;
  int socket_ = -1;
};

Watcher& watcher() {
  static Watcher one;
  return one;
}

}  // namespace

int GroupWatch::open() { return watcher().socket(); }
void GroupWatch::announce(int channel) { tell(channel, getpid()); }
GroupWatch::~GroupWatch() { tell(watcher().socket(), -group_); }

}  // namespace qcg

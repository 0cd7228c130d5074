// GroupWatch: makes sure that a process group does not outlive this process, however this process ends.
//
// Why here: a compiler's driver dies with us (PR_SET_PDEATHSIG), but its children do not: cc1plus would go on for
// minutes in a directory that the next compile removes. A forked process, the watcher, knows the groups. When its
// socket to us closes, it kills the groups that are left.
//
//   const int channel = GroupWatch::open();
//   pid = fork();
//   if (pid == 0) GroupWatch::announce(channel), …   // before it starts a program: this process may end at any moment
//   GroupWatch watch(pid);                           // the group of `pid` is watched until this object is destroyed
//
// The first open() starts the watcher, which ends with this process. If it cannot be started, nothing is watched.
#pragma once

#include <sys/types.h>

namespace qcg {

class GroupWatch {
 public:
  static int open();                  // where to announce groups; -1: nowhere
  static void announce(int channel);  // the group that the caller leads; async-signal-safe
  explicit GroupWatch(pid_t group) : group_(group) {}
  ~GroupWatch();
  GroupWatch(const GroupWatch&) = delete;
  GroupWatch& operator=(const GroupWatch&) = delete;

 private:
  pid_t group_;
};

}  // namespace qcg

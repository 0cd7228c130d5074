// GroupWatch: a group of processes that does not outlive this process, however this process ends.
//
// Why here: a compiler's driver dies with us (PR_SET_PDEATHSIG), but not what it started: cc1plus would work on for minutes
// in a directory that the next compile removes. One forked process, the watcher, knows the groups; when the socket that
// leads to it closes, it kills those that are left.
//
//   GroupWatch watch(pid);   // the group of `pid` is watched until this is destroyed
//
// The watcher is started by the first watch and ends with this process. Where no process can be had, nothing is watched.
#pragma once

#include <sys/types.h>

namespace qcg {

class GroupWatch {
 public:
  explicit GroupWatch(pid_t group);
  ~GroupWatch();
  GroupWatch(const GroupWatch&) = delete;
  GroupWatch& operator=(const GroupWatch&) = delete;

 private:
  pid_t group_;
};

}  // namespace qcg

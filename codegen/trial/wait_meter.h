// WaitMeter: how long threads of this process were ready to run and had no processor, while something was timed.
//
// Why here: a time alone does not say that other processes had the processors meanwhile, and the tuner judges by times.
// Linux counts the waits of every thread (schedstat). Where it does not, a calling thread that was switched away
// against its will (getrusage) has waited for as long as its CPU time falls short of the clock.
//
//   WaitMeter meter;                 // when all threads have been started
//   meter.start();
//   run();
//   if (meter.waited_s() > 0.05 * seconds) …   // disturbed
#pragma once

#include <sys/types.h>

#include <vector>

namespace qcg {

class WaitMeter {
 public:
  WaitMeter();
  ~WaitMeter();
  WaitMeter(const WaitMeter&) = delete;
  WaitMeter& operator=(const WaitMeter&) = delete;

  void start();
  // The longest that one thread has waited since start(). A wait is counted when it ends: it may have begun earlier.
  double waited_s() const;

 private:
  struct Thread {
    int file = -1;  // schedstat
    double waited_before = 0;
  };
  std::vector<Thread> threads_;  // empty where the system does not count
  double clock_before_ = 0, cpu_before_ = 0;
  long switches_before_ = 0;
};

// The longest that one thread of a process has waited for a processor since it began; 0 where the system does not count.
double longest_wait_s(pid_t process);

}  // namespace qcg

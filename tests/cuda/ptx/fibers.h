// Fibers: the threads of a CTA as coroutines of one thread of the host, in an order that is always the same.
//
// Why here: a kernel's threads wait for one another in the middle of a function, ten thousand times; a switch costs
// some nanoseconds and needs no lock. A fiber that throws ends with what it threw; the rest can be unwound with
// cancel().
//
//   Fibers fibers;
//   fibers.run(256, Order::ascending, [&](int thread) { … fibers.block(); … }, [&] { return wake_somebody(); });
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

namespace qcg::ptx {

enum class Order { ascending, descending };

class Fibers {
 public:
  Fibers();
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // Runs body(0 … count - 1) to their ends. `idle` is called when all that are left are blocked: it makes somebody
  // ready or throws. What a body or idle throws is thrown on, after all other fibers were unwound.
  void run(int count, Order order, std::function<void(int)> body, const std::function<void()>& idle);

  // Of the running fiber: waits for ready(); goes to the end of the queue.
  void block();
  void yield();
  void ready(int fiber) { queue_.push_back(fiber); }
  int current() const { return current_; }
  std::function<void(int)> on_switch;  // before a fiber goes on

 private:
  struct Fiber;
  struct Cancelled {};
  static void enter();
  void switch_to(int fiber);  // from the scheduler
  void leave();               // to the scheduler
  void cancel_all();

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::deque<int> queue_;
  std::function<void(int)> body_;
  std::exception_ptr thrown_;
  int current_ = -1, left_ = 0;
  bool cancelled_ = false;
  struct Context;
  std::unique_ptr<Context> scheduler_;
};

}  // namespace qcg::ptx

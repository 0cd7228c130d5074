#include "tests/cuda/ptx/fibers.h"

#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(QCG_SANITIZED)
#include <sanitizer/common_interface_defs.h>
#endif

#include <cstdlib>
#include <new>

namespace qcg::ptx {
namespace {

#if defined(QCG_SANITIZED)
constexpr size_t kStackBytes = 1 << 20;  // frames are larger with sanitizers
#else
constexpr size_t kStackBytes = 256 << 10;
#endif

Fibers* running = nullptr;  // whose fibers run: one executor at a time

}  // namespace

#if defined(__x86_64__)
// swapcontext makes a system call per switch; this saves what the ABI wants saved.
extern "C" void qcg_ptx_switch(void** save, void* load);
asm(R"(
.text
.globl qcg_ptx_switch
.type qcg_ptx_switch, @function
qcg_ptx_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size qcg_ptx_switch, .-qcg_ptx_switch
)");
struct Fibers::Context {
  void* stack_pointer = nullptr;
  void start(char* stack, void (*function)()) {
    void** top = reinterpret_cast<void**>(stack + kStackBytes - 64);
    *--top = nullptr;  // the return address of `function`, which never returns
    *--top = reinterpret_cast<void*>(function);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    stack_pointer = top;
  }
  void go(Context& to) { qcg_ptx_switch(&stack_pointer, to.stack_pointer); }
};
#else
struct Fibers::Context {
  ucontext_t context;
  void start(char* stack, void (*function)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, function, 0);
  }
  void go(Context& to) { swapcontext(&context, &to.context); }
};
#endif

struct Fibers::Fiber {
  Context context;
  char* stack = nullptr;
  bool started = false, done = false;
#if defined(QCG_SANITIZED)
  void* fake_stack = nullptr;
#endif
  Fiber() {
    void* memory =
        mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    stack = static_cast<char*>(memory);
  }
  ~Fiber() { munmap(stack, kStackBytes); }
};

Fibers::Fibers() : scheduler_(std::make_unique<Context>()) {}
Fibers::~Fibers() = default;

#if defined(QCG_SANITIZED)
namespace {
const void* scheduler_stack;
size_t scheduler_bytes;
}  // namespace
#endif

void Fibers::enter() {
#if defined(QCG_SANITIZED)
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_bytes);
#endif
  Fibers& self = *running;
  const int me = self.current_;
  try {
    self.body_(me);
  } catch (const Cancelled&) {
  } catch (...) {
    if (!self.thrown_) self.thrown_ = std::current_exception();
  }
  self.fibers_[static_cast<size_t>(me)]->done = true;
  --self.left_;
  self.leave();
  std::abort();  // nobody resumes it
}

void Fibers::switch_to(int fiber) {
  Fiber& f = *fibers_[static_cast<size_t>(fiber)];
  current_ = fiber;
  if (on_switch) on_switch(fiber);
  if (!f.started) f.context.start(f.stack, &Fibers::enter);
  f.started = true;
#if defined(QCG_SANITIZED)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, f.stack, kStackBytes);
  scheduler_->go(f.context);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#else
  scheduler_->go(f.context);
#endif
  current_ = -1;
}

void Fibers::leave() {
  Fiber& f = *fibers_[static_cast<size_t>(current_)];
#if defined(QCG_SANITIZED)
  __sanitizer_start_switch_fiber(f.done ? nullptr : &f.fake_stack, scheduler_stack, scheduler_bytes);
  f.context.go(*scheduler_);
  __sanitizer_finish_switch_fiber(f.fake_stack, &scheduler_stack, &scheduler_bytes);
#else
  f.context.go(*scheduler_);
#endif
}

void Fibers::block() {
  leave();
  if (cancelled_) throw Cancelled();
}

void Fibers::yield() {
  ready(current_);
  block();
}

void Fibers::cancel_all() {
  cancelled_ = true;
  queue_.clear();
  for (size_t i = 0; i < fibers_.size(); ++i)
    if (fibers_[i]->started && !fibers_[i]->done) switch_to(static_cast<int>(i));
}

void Fibers::run(int count, Order order, std::function<void(int)> body, const std::function<void()>& idle) {
  running = this;
  body_ = std::move(body);
  thrown_ = nullptr;
  cancelled_ = false;
  queue_.clear();
  fibers_.resize(static_cast<size_t>(count));
  for (auto& f : fibers_) {
    if (!f) f = std::make_unique<Fiber>();
    f->started = f->done = false;
  }
  left_ = count;
  for (int i = 0; i < count; ++i) ready(order == Order::ascending ? i : count - 1 - i);
  while (left_ > 0 && !thrown_) {
    if (queue_.empty()) {
      try {
        idle();
      } catch (...) {
        thrown_ = std::current_exception();
      }
      continue;
    }
    const int next = queue_.front();
    queue_.pop_front();
    switch_to(next);
  }
  if (!thrown_) return;
  const std::exception_ptr first = thrown_;
  cancel_all();
  std::rethrow_exception(first);
}

}  // namespace qcg::ptx

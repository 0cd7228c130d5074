#include "runtime/kernel_runner.h"

namespace qcg {
namespace {

// The scratch areas of threads are whole pages apart, so that threads share neither cache lines nor prefetched
// neighbours.
constexpr int64_t kScratchSpacing = 4096;

}  // namespace

Status Workspace::reserve(int64_t shared_bytes, int64_t scratch_bytes, int threads) {
  int64_t stride = 0, total = 0;
  if (shared_bytes < 0 || scratch_bytes < 0 || __builtin_add_overflow(scratch_bytes, kScratchSpacing - 1, &stride) ||
      __builtin_mul_overflow(stride &= -kScratchSpacing, int64_t{threads}, &total))
    return Error::internal("kernel", "asks for an impossible amount of memory");
  QCG_CHECK(shared_.reserve(shared_bytes));
  QCG_CHECK(scratch_.reserve(total));
  scratch_stride_ = stride;
  return {};
}

Status run_kernel(ThreadPool& pool, const qcg_kernel& kernel, const qcg_call& call, Workspace& workspace,
                  SpanRecorder* recorder) {
  int64_t fault = INT64_MAX;
  qcg_call full = {call.args, call.params, nullptr, &fault};
  workspace.refused.reset();
  const int64_t shared_bytes = kernel.shared_bytes(&full);
  if (shared_bytes < 0)
    return Error::unsupported("kernel",
                              "the library that it calls refuses this shape on this machine, or memory is short",
                              "free memory, or compile the program with --extern=never");
  QCG_CHECK(workspace.reserve(shared_bytes, kernel.scratch_bytes(&full), pool.threads()));
  full.shared = workspace.shared();
  for (uint32_t phase = 0; phase < kernel.phases; ++phase) {
    const int64_t items = kernel.items(&full, phase);
    const auto run = [&](int64_t begin, int64_t end, int thread) {
      kernel.run(&full, phase, begin, end, workspace.scratch(thread));
    };
    if (recorder == nullptr) {
      pool.parallel_items(items, run);
    } else {
      recorder->begin_phase(phase, pool.threads());
      pool.parallel_items(items, [&](int64_t begin, int64_t end, int thread) {
        const auto start = SpanRecorder::Clock::now();
        run(begin, end, thread);
        recorder->add(thread, start, SpanRecorder::Clock::now(), end - begin);
      });
      recorder->end_phase();
    }
    if (fault == INT64_MAX) continue;
    workspace.refused = fault;
    return Error::bad_input("kernel", "number " + std::to_string(fault) + " of what it reads is out of range",
                            "pass positions that exist");
  }
  return {};
}

Status check_kernel(const qcg_kernel& kernel, const std::string& where) {
  if (kernel.abi < QCG_OLDEST_KERNEL_ABI || kernel.abi > QCG_KERNEL_ABI)
    return Error::unsupported(where,
                              "has kernel ABI " + std::to_string(kernel.abi) + ", this runtime runs " +
                                  std::to_string(QCG_OLDEST_KERNEL_ABI) + " to " + std::to_string(QCG_KERNEL_ABI),
                              "compile the program with the qcodegen version of this runtime");
  if (kernel.phases == 0 || kernel.items == nullptr || kernel.shared_bytes == nullptr ||
      kernel.scratch_bytes == nullptr || kernel.run == nullptr)
    return Error::bad_input(where, "exports an incomplete kernel", "compile the program again");
  return {};
}

}  // namespace qcg

// is_cancelled: whether a long task was asked to stop, by another thread or a signal handler.
//
// Why here: cache/ waits for compilers and codegen/ for trials, and both must not know who asks.
//
//   if (is_cancelled(options.cancel)) return Error::interrupted();
#pragma once

#include <atomic>

namespace qcg {

// False without a flag.
inline bool is_cancelled(const std::atomic<bool>* cancel) { return cancel && cancel->load(std::memory_order_relaxed); }

}  // namespace qcg

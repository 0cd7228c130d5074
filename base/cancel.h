// is_cancelled: whether another thread or a signal handler has asked a long task to stop.
//
// Why here: cache/ waits for compilers and codegen/ waits for trials; neither needs to know who cancels.
//
//   if (is_cancelled(options.cancel)) return Error::interrupted();
#pragma once

#include <atomic>

namespace qcg {

// False if `cancel` is null.
inline bool is_cancelled(const std::atomic<bool>* cancel) { return cancel && cancel->load(std::memory_order_relaxed); }

}  // namespace qcg

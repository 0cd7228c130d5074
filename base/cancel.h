#pragma once
#include <atomic>

namespace qcg {

// Whether a long task was asked to stop, by another thread or a signal handler; it then returns Error::interrupted().
inline bool is_cancelled(const std::atomic<bool>* cancel) { return cancel && cancel->load(std::memory_order_relaxed); }

}  // namespace qcg

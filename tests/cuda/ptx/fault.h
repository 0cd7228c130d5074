// Fault: what a kernel did wrong, and where.
//
//   race: kernel gemm, PTX line 208 (gemm.cu:41), CTA (0, 0, 0), thread 37: warp 1 reads shared 1024 that warp 3 …
#pragma once

#include <string>

namespace qcg::ptx {

enum class FaultKind {
  out_of_bounds,  // outside of every buffer, of shared or of local memory
  read_only,      // a store to an input
  misaligned,     // an address that is no multiple of the access
  uninitialized,  // a read of what nobody wrote
  race,           // two accesses of which nothing orders one before the other
  proxy,          // shared memory passed to asynchronous hardware without fence.proxy.async
  deadlock,       // every thread waits
  divergence,     // lanes of a warp meet at different instructions, or not all of them come
  protocol,       // a barrier, descriptor or copy used against its rules
  unsupported,    // what the executor lacks
  timing,         // earliest and latest moment of asynchronous copies give two results
};

constexpr const char* fault_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::out_of_bounds: return "out of bounds";
    case FaultKind::read_only: return "read only";
    case FaultKind::misaligned: return "misaligned";
    case FaultKind::uninitialized: return "uninitialized";
    case FaultKind::race: return "race";
    case FaultKind::proxy: return "proxy";
    case FaultKind::deadlock: return "deadlock";
    case FaultKind::divergence: return "divergence";
    case FaultKind::protocol: return "protocol";
    case FaultKind::unsupported: return "unsupported";
    case FaultKind::timing: return "timing";
  }
  return "";
}

struct Fault {
  FaultKind kind;
  std::string message;
  int line = 0;       // of the PTX text
  std::string where;  // kernel, lines, CTA and thread

  std::string text() const { return std::string(fault_name(kind)) + ": " + where + ": " + message; }
};

}  // namespace qcg::ptx

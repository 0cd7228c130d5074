// Runs one kernel: its phases in order, each phase's items spread over the pool, with the memory the kernel asks for.
//
// Why here: the Context runs a program's steps with it and the tuner times candidates with it, so what is timed is what
// runs.
//
//   Workspace workspace;
//   qcg_call call = {args, params, nullptr};
//   QCG_CHECK(run_kernel(pool, kernel, call, workspace));
#pragma once

#include <cstdint>

#include "base/result.h"
#include "runtime/abi.h"
#include "runtime/memory.h"
#include "runtime/threads.h"

namespace qcg {

// Shared and per-thread scratch memory; grows to what kernels ask for and is kept between calls.
class Workspace {
 public:
  Status reserve(int64_t shared_bytes, int64_t scratch_bytes, int threads);
  void* shared() const { return shared_.data(); }
  void* scratch(int thread) const { return scratch_.data() + thread * scratch_stride_; }

 private:
  AlignedBuffer shared_, scratch_;
  int64_t scratch_stride_ = 0;
};

// call.shared is filled in here. Errors: memory the kernel asks for cannot be had; a kernel that calls a vendor's library
// asks for less than none, since the library refuses. Not for one workspace on two threads.
Status run_kernel(ThreadPool& pool, const qcg_kernel& kernel, const qcg_call& call, Workspace& workspace);

// Says what is wrong with a table a module exported; ok when it can be run.
Status check_kernel(const qcg_kernel& kernel, const std::string& where);

}  // namespace qcg

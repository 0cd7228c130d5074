// run_kernel: runs one kernel's phases in order, with the items of each phase divided among the pool's threads.
//
// Why here: Context runs the steps of a program with it, and the tuner times candidates with it. So the tuner times
// exactly what programs run.
//
//   Workspace workspace;
//   qcg_call call = {args, params, nullptr};
//   QCG_CHECK(run_kernel(pool, kernel, call, workspace));
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "runtime/abi.h"
#include "runtime/memory.h"
#include "runtime/profile/run_profile.h"
#include "runtime/threads.h"

namespace qcg {

// Shared and per-thread scratch memory. It grows as kernels request more, and stays allocated between calls.
class Workspace {
 public:
  Status reserve(int64_t shared_bytes, int64_t scratch_bytes, int threads);
  void* shared() const { return shared_.data(); }
  void* scratch(int thread) const { return scratch_.data() + thread * scratch_stride_; }

  // What the last kernel refused (qcg_refuse in abi.h): the position of a number; nullopt: nothing.
  std::optional<int64_t> refused;

 private:
  AlignedBuffer shared_, scratch_;
  int64_t scratch_stride_ = 0;
};

// Fills in call.shared and call.fault. Errors: Io or Internal if the kernel's memory cannot be allocated; Unsupported if
// the vendor's library refuses the shape (negative shared_bytes); BadInput if the kernel refuses a number that it reads
// (then workspace.refused is set). Two threads must not share a workspace. `recorder`, if any, gets the times of threads.
Status run_kernel(ThreadPool& pool, const qcg_kernel& kernel, const qcg_call& call, Workspace& workspace,
                  SpanRecorder* recorder = nullptr);

// Checks the table that a module exports. Errors: another ABI version, or a missing function.
Status check_kernel(const qcg_kernel& kernel, const std::string& where);

}  // namespace qcg

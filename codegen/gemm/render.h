// render_gemm: a problem and a schedule as the source of a kernel for the CPU.
//
// Why here: every number is computed behind this call; templates/cpu/gemm*.j2 print them.
//
//   QCG_TRY(text, render_gemm(problem, schedule, "qcg_kernel_3"));
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/gemm/problem.h"
#include "codegen/gemm/schedules.h"

namespace qcg {

// qgemm_<act>_<wgt>[_g<group>]_<out>_n<N>_k<K>_<mr>x<nr>x<kr>_<microkernel>[_<epilogue>]
std::string kernel_name(const Problem& problem, const GemmSchedule& schedule);
// The same of any device: `tile` is "8x32x1".
std::string kernel_name(const Problem& problem, std::string_view tile, std::string_view microkernel);

// Pure function of its arguments: a whole translation unit that defines `extern "C" const qcg_kernel <symbol>`.
// Includes only headers returned by support_headers().
Result<std::string> render_gemm(const Problem& problem, const GemmSchedule& schedule, std::string_view symbol);

}  // namespace qcg

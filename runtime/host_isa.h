// why_host_lacks: whether the CPU, the operating system and this process support an instruction set.
//
// Why here: the loader refuses a program whose kernels would trap, and codegen/ detects the targets of this machine.
//
//   why_host_lacks("avx512bf16") == "the CPU has no AVX512_BF16"      // or "" if its kernels may run
#pragma once

#include <string>
#include <string_view>

namespace qcg {

// Returns "" if kernels for `isa` (portable, avx2, avx2vnni, avx512, avx512bf16, amx) may run, otherwise what is
// missing. For amx, the first call requests the process's permission to use tiles from Linux, before threads use them.
std::string why_host_lacks(std::string_view isa);

bool is_known_isa(std::string_view isa);

}  // namespace qcg

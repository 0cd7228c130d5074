// Which instruction sets this machine, its operating system and this process may use, by name.
//
// Why here: the loader refuses a program whose kernels would trap; codegen's targets ask the same question.
//
//   why_host_lacks("avx512bf16") == "the CPU has no AVX512_BF16"      // or "" when kernels for it may run
#pragma once

#include <string>
#include <string_view>

namespace qcg {

// Empty: kernels for `isa` (portable, avx2, avx2vnni, avx512, avx512bf16, amx) may run. Otherwise what is missing, in words.
// For amx this asks the kernel for the process's permission to use the tiles (once, before threads use them).
std::string why_host_lacks(std::string_view isa);

bool is_known_isa(std::string_view isa);

}  // namespace qcg

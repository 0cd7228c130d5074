// why_host_lacks: whether the CPU, the operating system and this process support an instruction set.
//
// Why here: the loader refuses a program whose kernels would trap, and codegen/ detects the targets of this machine.
//
//   why_host_lacks("avx512bf16") == "the CPU has no AVX512_BF16"      // or "" if its kernels may run
//   why_lacks(host_cpu().without("AVX512F"), "avx512")                 // of a CPU that has less than this one
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qcg {

// What a CPU and its operating system have of what the instruction sets need.
struct HostCpu {
  bool x86_64 = false;
  uint32_t features = 0;     // a bit per CPUID bit that some instruction set needs
  uint64_t saved_state = 0;  // XCR0: the register state that the operating system saves

  // The same CPU without a feature, under its name in Intel's manual, such as "AVX512_BF16".
  HostCpu without(std::string_view feature) const;
};
const HostCpu& host_cpu();  // of this machine

// Returns "" if `cpu` has all that kernels for `isa` (portable, avx2, avx2vnni, avx512, avx512bf16, amx) need, otherwise
// what it lacks.
std::string why_lacks(const HostCpu& cpu, std::string_view isa);
// The same of this machine and process. For amx, the first call requests the process's permission to use tiles from
// Linux, before threads use them.
std::string why_host_lacks(std::string_view isa);

bool is_known_isa(std::string_view isa);

}  // namespace qcg

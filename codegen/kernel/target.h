// Target: the device and instruction set a kernel is written for; the ISA table, detection, and compiler flags.
//
// Why here: candidates, rendering, cache keys and `doctor` all need the same answer to "what may this kernel use?".
//
//   QCG_TRY(target, parse_target("cpu:avx512"));
//   isa_info(target.isa).flags;      // "-mavx512f …": resolved, never -march=native
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace qcg {

enum class Device : uint8_t { cpu, cuda, hip };
enum class Isa : uint8_t { portable, avx2, avx2vnni, avx512, avx512bf16, amx, sm_80, sm_90a, gfx90a };
std::string_view device_name(Device device);  // "cpu", "cuda", "hip"
// What users of its kernels should know; empty: nothing.
std::string_view device_caution(Device device);

struct IsaInfo {
  Isa isa;
  std::string_view name;  // as in --target=cpu:NAME, kernel names and logs
  Device device;
  Isa base;          // the next smaller ISA whose kernels run on it and read the same packed weights; itself if none
  int vector_bytes;  // width of a vector in its header
  int registers;     // vector registers
  std::string_view flags;   // compiler flags, space separated
  std::string_view header;  // templates/cpu/<header>: the ISA's primitives
  std::string_view summary;
};
std::span<const IsaInfo> isa_table();  // best CPU ISA first, then devices
const IsaInfo& isa_info(Isa isa);
inline bool on_device(Isa isa) { return isa_info(isa).device != Device::cpu; }

// CPUID, OS state (XGETBV) and, for AMX, the kernel's permission. Empty string: the host has it; otherwise the reason
// it has not.
std::string why_isa_unavailable(Isa isa);
// The first of the table that is available.
Isa best_host_isa();

struct Target {
  Device device = Device::cpu;
  Isa isa = Isa::portable;
  std::string str() const;  // "cpu:avx512"
};
// "cpu" (best of the host), "cpu:portable|avx2|avx2vnni|avx512|avx512vnni|avx512bf16|amx", "cuda:sm_80|sm_90a",
// "hip:gfx90a".
Result<Target> parse_target(std::string_view text);

// CPU model, core count, cache sizes, ISA flags: in every tune record and in the key of whole compiles.
struct Machine {
  std::string cpu;
  int cores = 1;  // usable by this process (affinity, quota of its control group)
  int64_t l2_bytes = 0, l3_bytes = 0;
  std::string fingerprint;  // "<model>/<family.model.stepping>/<isa list>/<cores>"
};
const Machine& this_machine();
// Of all level 3 caches that the CPUs of a directory such as /sys/devices/system/cpu have; 0 where it does not say.
int64_t l3_bytes_of(const std::string& cpus);

}  // namespace qcg

#include "runtime/host/host_isa.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace qcg {
namespace {

enum class Level { portable, avx2, avx2vnni, avx512, avx512bf16, amx };

// Whether `level` includes the instructions of `other`. Each level includes the earlier ones, except that AVX-512 does
// not include AVX-VNNI, the VNNI instructions on AVX2 vectors.
bool contains(Level level, Level other) { return other == level || (other < level && other != Level::avx2vnni); }

struct IsaRow {
  std::string_view name;
  Level level;
};
// clang-format off
constexpr IsaRow kIsas[] = {{"portable", Level::portable},     {"avx2", Level::avx2}, {"avx2vnni", Level::avx2vnni},
                            {"avx512", Level::avx512},
                            {"avx512vnni", Level::avx512},  // another name of avx512, which includes VNNI
                            {"avx512bf16", Level::avx512bf16}, {"amx", Level::amx}};
// clang-format on

const IsaRow* find_isa(std::string_view name) {
  for (const IsaRow& row : kIsas)
    if (row.name == name) return &row;
  return nullptr;
}

enum Register { kEax, kEbx, kEcx, kEdx };

// One CPUID bit that an instruction set needs (Intel SDM volume 2A, CPUID).
struct Feature {
  Level level;
  unsigned leaf, subleaf;
  Register reg;
  int bit;
  std::string_view name;
};
// clang-format off
constexpr Feature kFeatures[] = {
    {Level::avx2, 1, 0, kEcx, 28, "AVX"},           {Level::avx2, 1, 0, kEcx, 12, "FMA"},
    {Level::avx2, 1, 0, kEcx, 29, "F16C"},          {Level::avx2, 7, 0, kEbx, 5, "AVX2"},
    {Level::avx2vnni, 7, 1, kEax, 4, "AVX_VNNI"},
    {Level::avx512, 7, 0, kEbx, 16, "AVX512F"},     {Level::avx512, 7, 0, kEbx, 17, "AVX512DQ"},
    {Level::avx512, 7, 0, kEbx, 30, "AVX512BW"},    {Level::avx512, 7, 0, kEbx, 31, "AVX512VL"},
    {Level::avx512, 7, 0, kEcx, 11, "AVX512_VNNI"}, {Level::avx512bf16, 7, 1, kEax, 5, "AVX512_BF16"},
    {Level::avx512bf16, 7, 0, kEcx, 1, "AVX512_VBMI"},
    {Level::amx, 7, 0, kEdx, 24, "AMX_TILE"},       {Level::amx, 7, 0, kEdx, 25, "AMX_INT8"},
    {Level::amx, 7, 0, kEdx, 22, "AMX_BF16"},
};
// clang-format on

// The register state that the operating system must save, as bits of XCR0.
struct SavedState {
  Level level;
  uint64_t mask;
  std::string_view name;
};
constexpr SavedState kSavedStates[] = {
    {Level::avx2, 0x6, "YMM registers"}, {Level::avx512, 0xe6, "ZMM registers"}, {Level::amx, 0x60000, "AMX tiles"}};

constexpr uint32_t bit_of(const Feature& f) { return uint32_t{1} << (&f - kFeatures); }

std::string why_lacks(const HostCpu& cpu, Level level) {
  if (level == Level::portable) return {};
  if (!cpu.x86_64) return "the CPU is not x86-64";
  for (const Feature& f : kFeatures)
    if (contains(level, f.level) && (cpu.features & bit_of(f)) == 0) return "the CPU has no " + std::string(f.name);
  for (const SavedState& s : kSavedStates)
    if (contains(level, s.level) && (cpu.saved_state & s.mask) != s.mask)
      return "the operating system does not save the " + std::string(s.name);
  return {};
}

#if defined(__x86_64__)

bool has_bit(const Feature& f) {
  unsigned r[4] = {};
  return __get_cpuid_count(f.leaf, f.subleaf, &r[kEax], &r[kEbx], &r[kEcx], &r[kEdx]) != 0 &&
         (r[f.reg] >> f.bit & 1) != 0;
}

uint64_t read_xcr0() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

HostCpu detect_cpu() {
  constexpr Feature kOsXsave = {Level::avx2, 1, 0, kEcx, 27, "OSXSAVE"};
  HostCpu cpu{.x86_64 = true};
  for (const Feature& f : kFeatures)
    if (has_bit(f)) cpu.features |= bit_of(f);
  if (has_bit(kOsXsave)) cpu.saved_state = read_xcr0();
  return cpu;
}

bool get_tile_permission() {
  constexpr int kArchReqXcompPerm = 0x1023, kTileData = 18;  // linux asm/prctl.h, since 5.16
  static const bool granted = syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
  return granted;
}

#else

HostCpu detect_cpu() { return {}; }
bool get_tile_permission() { return false; }

#endif

}  // namespace

HostCpu HostCpu::without(std::string_view feature) const {
  HostCpu out = *this;
  for (const Feature& f : kFeatures)
    if (f.name == feature) out.features &= ~bit_of(f);
  return out;
}

const HostCpu& host_cpu() {
  static const HostCpu cpu = detect_cpu();
  return cpu;
}

bool is_known_isa(std::string_view isa) { return find_isa(isa) != nullptr; }

std::string why_lacks(const HostCpu& cpu, std::string_view isa) {
  const IsaRow* row = find_isa(isa);
  return row == nullptr ? "instruction set '" + std::string(isa) + "' is not known to this version"
                        : why_lacks(cpu, row->level);
}

std::string why_host_lacks(std::string_view isa) {
  const std::string missing = why_lacks(host_cpu(), isa);
  if (!missing.empty() || find_isa(isa)->level != Level::amx || get_tile_permission()) return missing;
  return "the kernel refuses this process the AMX tiles (arch_prctl)";
}

}  // namespace qcg

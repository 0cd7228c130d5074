#include "codegen/kernel/target.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/affinity.h"
#include "runtime/host/host_isa.h"

namespace qcg {
namespace {

constexpr std::string_view kAvx2Flags = "-mavx2 -mfma -mf16c";
constexpr std::string_view kAvx2VnniFlags = "-mavx2 -mfma -mf16c -mavxvnni";
constexpr std::string_view kAvx512Flags =
    "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mprefer-vector-width=512";
constexpr std::string_view kAvx512Bf16Flags =
    "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16 -mavx512vbmi "
    "-mprefer-vector-width=512";
constexpr std::string_view kAmxFlags =
    "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16 -mavx512vbmi "
    "-mamx-tile -mamx-int8 -mamx-bf16 -mprefer-vector-width=512";

constexpr IsaInfo kIsas[] = {
    {Isa::amx, "amx", Device::cpu, Isa::avx512bf16, 64, 32, kAmxFlags, "amx.h",
     "AMX int8 and bf16 tiles on top of avx512bf16"},
    {Isa::avx512bf16, "avx512bf16", Device::cpu, Isa::avx512, 64, 32, kAvx512Bf16Flags, "avx512bf16.h",
     "avx512, bf16 dot products and VBMI"},
    {Isa::avx512, "avx512", Device::cpu, Isa::avx512, 64, 32, kAvx512Flags, "avx512.h",
     "AVX-512 F, BW, VL, DQ and VNNI"},
    {Isa::avx2vnni, "avx2vnni", Device::cpu, Isa::avx2, 32, 16, kAvx2VnniFlags, "avx2.h",
     "AVX2, FMA, F16C and AVX-VNNI"},
    {Isa::avx2, "avx2", Device::cpu, Isa::avx2, 32, 16, kAvx2Flags, "avx2.h", "AVX2, FMA and F16C"},
    {Isa::portable, "portable", Device::cpu, Isa::portable, 32, 16, "", "portable.h", "GCC vector extensions, any CPU"},
    {Isa::sm_90a, "sm_90a", Device::cuda, Isa::sm_90a, 0, 0, "", "", "NVIDIA Hopper"},
    {Isa::sm_80, "sm_80", Device::cuda, Isa::sm_80, 0, 0, "", "", "NVIDIA Ampere and later"},
    {Isa::gfx90a, "gfx90a", Device::hip, Isa::gfx90a, 0, 0, "", "", "AMD Instinct MI200"},
};

#if defined(__x86_64__)
struct Cpuid {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};
Cpuid cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Cpuid r;
  if (!__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d)) return {};
  return r;
}

std::string cpu_model() {
  std::array<uint32_t, 12> words{};
  if (cpuid(0x80000000).a < 0x80000004) return "unknown x86-64";
  for (uint32_t i = 0; i < 3; ++i) {
    const Cpuid r = cpuid(0x80000002 + i);
    words[4 * i] = r.a, words[4 * i + 1] = r.b, words[4 * i + 2] = r.c, words[4 * i + 3] = r.d;
  }
  std::string text(reinterpret_cast<const char*>(words.data()), sizeof words);
  text.resize(std::strlen(text.c_str()));
  text.erase(0, text.find_first_not_of(' '));
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// family.model.stepping, extended fields folded in as the manuals say.
std::string cpu_version() {
  const uint32_t a = cpuid(1).a;
  uint32_t family = a >> 8 & 15, model = a >> 4 & 15;
  if (family == 6 || family == 15) model += (a >> 16 & 15) << 4;
  if (family == 15) family += a >> 20 & 255;
  return std::to_string(family) + "." + std::to_string(model) + "." + std::to_string(a & 15);
}
#else
std::string cpu_model() { return "unknown"; }
std::string cpu_version() { return "0.0.0"; }
#endif

int64_t cache_bytes(int name, int64_t fallback) {
  const long v = sysconf(name);
  return v > 0 ? v : fallback;
}

Machine detect_machine() {
  Machine m;
  m.cpu = cpu_model();
  m.cores = usable_cpus();
  m.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20);
  // sysconf counts all of a socket's, of which a virtual machine may have a part.
  m.l3_bytes = l3_bytes_of("/sys/devices/system/cpu");
  if (m.l3_bytes == 0) m.l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 8 << 20);
  std::string isas;
  for (const auto& row : kIsas)
    if (row.device == Device::cpu && why_isa_unavailable(row.isa).empty())
      isas += (isas.empty() ? "" : "+") + std::string(row.name);
  m.fingerprint = m.cpu + "/" + cpu_version() + "/" + isas + "/" + std::to_string(m.cores);
  return m;
}

}  // namespace

int64_t l3_bytes_of(const std::string& cpus) {
  int64_t bytes = 0;
  std::set<std::string> seen;  // lists of the CPUs that share one
  std::error_code none;
  for (auto cpu = std::filesystem::directory_iterator(cpus, none); !none && cpu != end(cpu); cpu.increment(none)) {
    const std::string cache = cpu->path().string() + "/cache/index3/";
    std::string sharers;
    int level = 0;
    int64_t kib = 0;
    std::ifstream(cache + "level") >> level;
    std::ifstream(cache + "size") >> kib;  // "32768K"
    std::ifstream(cache + "shared_cpu_list") >> sharers;
    if (level == 3 && seen.insert(sharers).second) bytes += kib << 10;
  }
  return bytes;
}

std::span<const IsaInfo> isa_table() { return kIsas; }

const IsaInfo& isa_info(Isa isa) {
  return *std::find_if(std::begin(kIsas), std::end(kIsas), [&](const IsaInfo& row) { return row.isa == isa; });
}

std::string why_isa_unavailable(Isa isa) {
  if (isa_info(isa).device != Device::cpu) return "targets of devices are checked when the driver is loaded";
  return why_host_lacks(isa_info(isa).name);  // the loader's own answer: what is compiled here is what it accepts
}

Isa best_host_isa() {
  static const Isa best = [] {
    for (const auto& row : kIsas)
      if (row.device == Device::cpu && why_isa_unavailable(row.isa).empty()) return row.isa;
    return Isa::portable;
  }();
  return best;
}

std::string_view device_name(Device device) {
  switch (device) {
    case Device::cpu: return "cpu";
    case Device::cuda: return "cuda";
    case Device::hip: return "hip";
  }
  return "unknown";
}

std::string_view device_caution(Device device) {
  return device == Device::hip ? "no kernel of hip targets has run on a device" : "";
}

std::string Target::str() const { return std::string(device_name(device)) + ":" + std::string(isa_info(isa).name); }

Result<Target> parse_target(std::string_view text) {
  if (text == "cpu") return Target{Device::cpu, best_host_isa()};
  std::string known = "cpu";
  for (const auto& row : kIsas) {
    const Target target{row.device, row.isa};
    if (text == target.str() || (row.isa == Isa::avx512 && text == "cpu:avx512vnni")) return target;
    known += ", " + target.str();
  }
  if (text.find(',') != text.npos)
    return Error{ErrorCode::Usage, "--target", "several targets are named, and one is needed here",
                 "name one target; `qcodegen compile` takes several"};
  return Error{ErrorCode::Usage, "--target", "unknown target '" + std::string(text.substr(0, 80)) + "'",
               "use one of: " + known};
}

const Machine& this_machine() {
  static const Machine machine = detect_machine();
  return machine;
}

}  // namespace qcg

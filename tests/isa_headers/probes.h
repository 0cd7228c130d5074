// The probes that this host can run, and numbers to feed them.
//
// Why here: tests of functions and of storage loop over the same ISAs and find functions by name.
//
//   for_each_probe([&](const IsaProbe& probe) { find(probe, "exp").map(x, x, x, y, n); });
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "probe.h"
#include "reference.h"
#include "runtime/host/host_isa.h"

namespace qcg_test {

inline const IsaProbe* const kProbes[] = {
    &kPortableProbe,
#if defined(__x86_64__)
    &kAvx2Probe,
    &kAvx512Probe,
    &kAvx512Bf16Probe,
#endif
};

template <class Check>
void for_each_probe(Check check) {
  for (const IsaProbe* probe : kProbes) {
    if (const std::string why = qcg::why_host_lacks(probe->isa); !why.empty()) {
      MESSAGE("skipped: ", probe->isa, ": ", why);
      continue;
    }
    CAPTURE(probe->isa);
    check(*probe);
  }
}

inline const ProbeFunction& find(const IsaProbe& probe, std::string_view name) {
  return *std::find_if(probe.functions, probe.functions + probe.function_count,
                       [&](const ProbeFunction& f) { return f.name == name; });
}
inline const ProbeStorage& find_storage(const IsaProbe& probe, std::string_view name) {
  return *std::find_if(probe.storages, probe.storages + probe.storage_count,
                       [&](const ProbeStorage& s) { return s.name == name; });
}

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline const float kSpecial[] = {
    0.0f,       -0.0f,      1.0f,      -1.0f,           kInf,          -kInf,          std::nanf(""), 1e-45f,
    -1e-45f,    1.1e-38f,   -1.1e-38f, 1.17549435e-38f, 3.4028235e38f, -3.4028235e38f, 0.5f,          -0.5f,
    1.5f,       -1.5f,      2.5f,      -2.5f,           2.0f,          -2.0f,          3.0f,          -3.0f,
    8388607.5f, 8388608.0f, 1e10f,     -1e10f,          88.7f,         -88.7f,         -103.9f,       104.0f};

// Specials, every 30011th bit pattern, and a dense stretch where the functions bend; a multiple of 16 long.
inline const std::vector<float>& sample() {
  static const std::vector<float> values = [] {
    std::vector<float> v(std::begin(kSpecial), std::end(kSpecial));
    for (uint64_t bits = 0; bits < (1ull << 32); bits += 30011) {
      const uint32_t b = static_cast<uint32_t>(bits);
      float x;
      std::memcpy(&x, &b, 4);
      v.push_back(x);
    }
    std::mt19937 random(1);
    for (int i = 0; i < 100000; ++i) v.push_back(std::uniform_real_distribution<float>(-20, 20)(random));
    v.resize(v.size() / 16 * 16);
    return v;
  }();
  return values;
}

}  // namespace qcg_test

// The quantization scheme table: what the bytes of a weight mean, one row each.
//
// Why here: recognition names a scheme, the oracle defines it, codegen has one template per row.
//
// For every scheme a linear computes, per segment j:   acc_j[m, n] = sum_k x^[m, k] * w^_j[n, k]  (+ bias_j[n])
//   dense   x^ = x                       w^ = w
//   w8      x^ = x                       w^ = (w - zero[n]) * scale[n]           weight-only int8 per channel
//   w4      x^ = x                       w^ = (w - zero[n, g]) * scale[n, g]     weight-only int4, g = k / group
//   da8w8   x^ = (q - zx[m]) * sx[m]     w^ = (w - zero[n]) * scale[n]           dynamic int8 activation, int8 weight
//   s8s8    x^ = x (s8 or u8)            w^ = w (s8); acc is an exact int32      aten._int_mm
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace qcg {

enum class Scheme : uint8_t { dense, w8, w4, da8w8, s8s8 };

struct SchemeInfo {
  Scheme scheme;
  std::string_view name;
  int weight_bits;          // 0: the weight's own dtype (dense)
  bool has_scales;          // per segment scales [N, G], G = ceil(K / group), or [N, 1] when group = 0
  bool grouped;             // group > 0 allowed
  bool quantized_activation;  // x is int8 with per-row scale (and zero point)
  std::string_view summary;
};

inline constexpr std::array<SchemeInfo, 5> kSchemes = {{
    {Scheme::dense, "dense", 0, false, false, false, "f32, bf16 or f16 weight"},
    {Scheme::w8, "w8", 8, true, false, false, "int8 weight, scale per output channel, float activation"},
    {Scheme::w4, "w4", 4, true, true, false, "int4 weight, scale per group along K, float activation"},
    {Scheme::da8w8, "da8w8", 8, true, false, true, "int8 activation quantized per row at run time, int8 weight per channel"},
    {Scheme::s8s8, "s8s8", 8, false, false, false, "int8 activation and weight, exact int32 result"},
}};

constexpr const SchemeInfo& scheme_info(Scheme s) { return kSchemes[static_cast<size_t>(s)]; }
constexpr std::string_view scheme_name(Scheme s) { return scheme_info(s).name; }
constexpr std::optional<Scheme> scheme_from_name(std::string_view name) {
  for (const auto& row : kSchemes)
    if (row.name == name) return row.scheme;
  return std::nullopt;
}

}  // namespace qcg

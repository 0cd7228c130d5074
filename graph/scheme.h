// The quantization scheme table: what the bytes of a weight mean, one row each.
//
// Why here: recognition names a scheme, the oracle defines it, codegen has one template per row.
//
// For every scheme a linear computes, per segment j:   acc_j[m, n] = sum_k x^[m, k] * w^_j[n, k]  (+ bias_j[n])
//
//   x^ = (x - zx[m]) * sx[m]                                   zx, sx: quantized activations only
//   w^ = (value(w) - zero[n, g]) * scale[n, g] + offset[n, g]  g = k / group, or one g for all of K when group = 0
//
//   dense  value = the number itself, no scales                s8s8   the same in int8; acc is an exact int32
//   w8     value = w, int8                                     da8w8  w8 under an int8 activation
//   w4     value = w, int8 in [-8, 7]; alone may have offsets  da8w4  w4 under an int8 activation
//   f8     value = the e4m3 or e5m2 number                     (x float, or e4m3 / e5m2 itself)
//   f4     value = w, TWICE an e2m1 number, see kE2m1Twice     da8f4  f4 under an int8 activation
//   nf4    value = kNf4Values[w]
//
// mxfp4 is f4 with group 32 and nvfp4 is f4 with group 16: whoever reads them halves the scales and evaluates them to f32.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace qcg {

enum class Scheme : uint8_t { dense, w8, w4, f8, f4, nf4, da8w8, da8w4, da8f4, s8s8 };

struct SchemeInfo {
  Scheme scheme;
  std::string_view name;
  int weight_bits;          // 0: the weight's own dtype (dense)
  bool has_scales;          // per segment scales [N, G], G = ceil(K / group), or [N, 1] when group = 0
  bool grouped;             // group > 0 allowed
  bool quantized_activation;  // x is int8 with a scale (and zero point) per row, or one for all rows
  bool float_weight;        // the weight tensor is f32, bf16, f16 or an 8-bit float; else int8
  std::string_view summary;
};

inline constexpr std::array<SchemeInfo, 10> kSchemes = {{
    {Scheme::dense, "dense", 0, false, false, false, true, "f32, bf16 or f16 weight"},
    {Scheme::w8, "w8", 8, true, true, false, false, "int8 weight, scale per output channel or group, float activation"},
    {Scheme::w4, "w4", 4, true, true, false, false, "int4 weight, scale per group along K, float activation"},
    {Scheme::f8, "f8", 8, true, true, false, true, "e4m3 or e5m2 weight, scale per channel or group, float or fp8 activation"},
    {Scheme::f4, "f4", 4, true, true, false, false, "e2m1 weight (mxfp4, nvfp4), scale per group along K, float activation"},
    {Scheme::nf4, "nf4", 4, true, true, false, false, "4-bit NormalFloat weight, scale per group along K, float activation"},
    {Scheme::da8w8, "da8w8", 8, true, true, true, false, "int8 activation, int8 weight per channel or group"},
    {Scheme::da8w4, "da8w4", 4, true, true, true, false, "int8 activation, int4 weight per group along K"},
    {Scheme::da8f4, "da8f4", 4, true, true, true, false, "int8 activation, e2m1 weight per group along K"},
    {Scheme::s8s8, "s8s8", 8, false, false, false, false, "int8 activation and weight, exact int32 result"},
}};

// Twice the e2m1 numbers, by code: integers, so that they multiply exactly in int8 and bf16 alike.
inline constexpr std::array<int8_t, 16> kE2m1Twice = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// NormalFloat4 by code (QLoRA, Dettmers et al. 2023, appendix E).
inline constexpr std::array<float, 16> kNf4Values = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f,
    -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};

constexpr const SchemeInfo& scheme_info(Scheme s) { return kSchemes[static_cast<size_t>(s)]; }
constexpr std::string_view scheme_name(Scheme s) { return scheme_info(s).name; }
constexpr std::optional<Scheme> scheme_from_name(std::string_view name) {
  for (const auto& row : kSchemes)
    if (row.name == name) return row.scheme;
  return std::nullopt;
}

}  // namespace qcg

// The quantization scheme table: what the bytes of a weight mean, one row each.
//
// Why here: recognition names a scheme, the oracle defines it, codegen packs and unpacks its weights, all from one row.
//
// For every scheme a linear computes, per segment j:   acc_j[m, n] = sum_k x^[m, k] * w^_j[n, k]  (+ bias_j[n])
//
//   x^ = (x - zx[m]) * sx[m]                                   zx, sx: quantized activations only
//   w^ = (value(w) - zero[n, g]) * scale[n, g] + offset[n, g]  g = k / group, or one g for all of K when group = 0
//
//   dense  value = the number itself, no scales                s8s8   the same in int8; acc is an exact int32
//   w8     value = w, int8; may have offsets                   da8w8  w8 under an int8 activation
//   w4     value = w, int8 in [-8, 7]; may have offsets        da8w4  w4 under an int8 activation
//   f8     value = the e4m3 or e5m2 number                     (x float, or e4m3 / e5m2 itself)
//   f4     value = w, TWICE an e2m1 number, see kE2m1Twice     da8f4  f4 under an int8 activation
//   nf4    value = kNf4Values[w]
//
// mxfp4 is f4 with group 32 and nvfp4 is f4 with group 16: whoever reads them evaluates the scales to f32, and halves
// them or what sums are multiplied by.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace qcg {

// Twice the e2m1 numbers, by code: integers, so that they multiply exactly in int8 and bf16 alike.
inline constexpr std::array<int8_t, 16> kE2m1Twice = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// NormalFloat4 by code (QLoRA, Dettmers et al. 2023, appendix E).
// clang-format off
inline constexpr std::array<float, 16> kNf4Values = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f,
    -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};
// clang-format on

// What a weight may be. Graphs hold floats, or int8 in [low, high], whatever they are packed to.
struct WeightInfo {
  int bits = 0;           // of a packed weight; 0: the tensor's own dtype (dense)
  bool is_float = false;  // the tensor is f32, bf16, f16 or an 8-bit float; else int8
  int low = 0, high = 0;
  const std::array<int8_t, 16>* numbers = nullptr;  // the only int8 it may be, by packed code; null: all in [low, high]
  const std::array<float, 16>* values = nullptr;    // value(w) by w; null: w itself
  bool has_zeros = false;                           // integer zero points
  bool has_offsets = false;                         // real ones, under float activations
  int64_t usual_group = 0;                          // of models that use it; 0: a scale per output channel
  DType usual_scale = DType::f32;
};

// clang-format off
inline constexpr WeightInfo kFloats{.is_float = true};
inline constexpr WeightInfo kFloat8{.bits = 8, .is_float = true};
inline constexpr WeightInfo kInt8{.bits = 8, .low = -128, .high = 127, .has_zeros = true, .has_offsets = true};
inline constexpr WeightInfo kInt4{.bits = 4, .low = -8, .high = 7, .has_zeros = true, .has_offsets = true, .usual_group = 128, .usual_scale = DType::bf16};
inline constexpr WeightInfo kE2m1{.bits = 4, .low = -12, .high = 12, .numbers = &kE2m1Twice, .has_zeros = true, .usual_group = 32, .usual_scale = DType::f8e8m0};
inline constexpr WeightInfo kNormal4{.bits = 4, .low = 0, .high = 15, .values = &kNf4Values, .usual_group = 64};

enum class Scheme : uint8_t { dense, w8, w4, f8, f4, nf4, da8w8, da8w4, da8f4, s8s8 };

struct SchemeInfo {
  Scheme scheme;
  std::string_view name;
  WeightInfo weight;
  bool has_scales;            // per segment scales [N, G], G = ceil(K / group), or [N, 1] when group = 0; without: no groups
  bool quantized_activation;  // x is int8 with a scale (and zero point) per row, or one for all rows
  std::optional<Scheme> under_int8;  // the same weight under an int8 activation
  std::string_view summary;
};

inline constexpr auto kSchemes = std::to_array<SchemeInfo>({
    {Scheme::dense, "dense", kFloats, false, false, {}, "f32, bf16 or f16 weight"},
    {Scheme::w8, "w8", kInt8, true, false, Scheme::da8w8, "int8 weight, scale per output channel or group, float activation"},
    {Scheme::w4, "w4", kInt4, true, false, Scheme::da8w4, "int4 weight, scale per group along K, float activation"},
    {Scheme::f8, "f8", kFloat8, true, false, {}, "e4m3 or e5m2 weight, scale per channel or group, float or fp8 activation"},
    {Scheme::f4, "f4", kE2m1, true, false, Scheme::da8f4, "e2m1 weight (mxfp4, nvfp4), scale per group along K, float activation"},
    {Scheme::nf4, "nf4", kNormal4, true, false, {}, "4-bit NormalFloat weight, scale per group along K, float activation"},
    {Scheme::da8w8, "da8w8", kInt8, true, true, {}, "int8 activation, int8 weight per channel or group"},
    {Scheme::da8w4, "da8w4", kInt4, true, true, {}, "int8 activation, int4 weight per group along K"},
    {Scheme::da8f4, "da8f4", kE2m1, true, true, {}, "int8 activation, e2m1 weight per group along K"},
    {Scheme::s8s8, "s8s8", kInt8, false, false, {}, "int8 activation and weight, exact int32 result"},
});
// clang-format on

constexpr bool may_have_zeros(const SchemeInfo& s) { return s.has_scales && s.weight.has_zeros; }
constexpr bool may_have_offsets(const SchemeInfo& s) {
  return s.has_scales && s.weight.has_offsets && !s.quantized_activation;
}
// The integer zero points that packed weights hold. Those of groups are bytes beside the codes, and sums of integers
// need bytes, too; one for all of K, under a float activation, is as large as a difference of two bytes.
struct ZeroRange {
  int64_t low, high;
};
constexpr ZeroRange zero_range(bool in_groups, bool integer_sums) {
  return in_groups || integer_sums ? ZeroRange{-128, 127} : ZeroRange{-255, 255};
}
// Whether an int8 is a weight, and the number it stands for.
constexpr bool holds(const WeightInfo& w, int q) {
  return w.numbers ? std::find(w.numbers->begin(), w.numbers->end(), q) != w.numbers->end() : w.low <= q && q <= w.high;
}
constexpr float value_of(const WeightInfo& w, int q) {
  return w.values ? (*w.values)[static_cast<size_t>(q & 15)] : static_cast<float>(q);
}

constexpr const SchemeInfo& scheme_info(Scheme s) { return kSchemes[static_cast<size_t>(s)]; }
constexpr std::string_view scheme_name(Scheme s) { return scheme_info(s).name; }
constexpr std::optional<Scheme> scheme_from_name(std::string_view name) {
  for (const auto& row : kSchemes)
    if (row.name == name) return row.scheme;
  return std::nullopt;
}

}  // namespace qcg

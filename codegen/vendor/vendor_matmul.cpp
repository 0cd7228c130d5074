// What a vendor is asked for, scheme by scheme, and its weights: dequantized or as they are, [N, K] row-major.
#include "codegen/vendor/vendor_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "graph/oracle/reference.h"

namespace qcg {

namespace {

constexpr VendorEltwise kEltwise[] = {{"relu", kOneDnnRelu, " + relu"},
                                      {"silu", kOneDnnSwish, " + swish"},
                                      {"gelu", kOneDnnGeluErf, " + gelu"},
                                      {"gelu_tanh", kOneDnnGeluTanh, " + gelu_tanh"}};

const Expr& strip_casts(const Expr& e) { return e.kind == ExprKind::cast ? strip_casts(e.args[0]) : e; }

uint16_t bf16_of(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void store(DType dtype, const std::vector<float>& row, std::byte* out) {
  if (dtype == DType::f32) std::memcpy(out, row.data(), row.size() * sizeof(float));
  else if (dtype == DType::bf16)
    for (size_t i = 0; i < row.size(); ++i) reinterpret_cast<uint16_t*>(out)[i] = bf16_of(row[i]);
  else
    for (size_t i = 0; i < row.size(); ++i) double_to_element(dtype, row[i], out + i * dtype_bytes(dtype));
}

float number_at(const Tensor& t, size_t i) {
  if (t.dtype == DType::f32) return reinterpret_cast<const float*>(t.bytes().data())[i];
  return static_cast<float>(element_to_double(t.dtype, t.bytes().data() + i * dtype_bytes(t.dtype)));
}

// Row n of (weight - zero) * scale + offset, as `dtype`. Tensors are contiguous.
void dequantize_row(const Problem& problem, const SegmentTensors& t, size_t n, DType dtype, std::vector<float>& row,
                    std::byte* out) {
  const size_t k = static_cast<size_t>(problem.k), groups = static_cast<size_t>(problem.groups());
  const size_t group = problem.group > 0 ? static_cast<size_t>(problem.group) : k;
  const WeightInfo& weight = scheme_info(problem.scheme).weight;
  row.resize(k);
  for (size_t g = 0; g < groups; ++g) {
    const float scale = t.scales.bound() ? number_at(t.scales, n * groups + g) : 1,
                zero = t.zeros.bound() ? number_at(t.zeros, n * groups + g) : 0;
    const float offset = t.offsets.bound() ? number_at(t.offsets, n * groups + g) : 0;
    const size_t end = std::min(k, (g + 1) * group);
    const auto* bytes = reinterpret_cast<const int8_t*>(t.weight.bytes().data());
    if (t.weight.dtype == DType::i8)
      for (size_t i = g * group; i < end; ++i) row[i] = (value_of(weight, bytes[n * k + i]) - zero) * scale + offset;
    else
      for (size_t i = g * group; i < end; ++i) row[i] = (number_at(t.weight, n * k + i) - zero) * scale + offset;
  }
  store(dtype, row, out);
}

}  // namespace

const VendorEltwise* find_vendor_eltwise(const Expr& expr, bool& covered) {
  const Expr& e = strip_casts(expr);
  covered = e.kind == ExprKind::acc;
  if (e.kind != ExprKind::call || e.args.empty() || strip_casts(e.args[0]).kind != ExprKind::acc) return nullptr;
  const auto row = std::find_if(std::begin(kEltwise), std::end(kEltwise),
                                [&](const VendorEltwise& v) { return v.function == e.function; });
  covered = row != std::end(kEltwise);
  return covered ? row : nullptr;
}

void write_vendor_weights(const Problem& problem, const VendorMatmul& way, const std::vector<SegmentTensors>& tensors,
                          ThreadPool& pool, std::span<std::byte> out) {
  const size_t row_bytes = static_cast<size_t>(problem.k) * dtype_bytes(way.weight);
  std::byte* at = out.data();
  for (const SegmentTensors& t : tensors) {
    SegmentTensors s{t.weight.contiguous(), {}, {}, {}, {}};
    if (way.dequantize && t.scales.bound()) s.scales = t.scales.contiguous();
    if (way.dequantize && t.zeros.bound()) s.zeros = t.zeros.contiguous();
    if (way.dequantize && t.offsets.bound()) s.offsets = t.offsets.contiguous();
    pool.parallel_items(s.weight.shape[0], [&](int64_t begin, int64_t end, int) {
      std::vector<float> row;
      for (size_t n = static_cast<size_t>(begin); n < static_cast<size_t>(end); ++n) {
        if (!way.dequantize && s.weight.dtype == way.weight)
          std::memcpy(at + n * row_bytes, s.weight.bytes().data() + n * row_bytes, row_bytes);
        else dequantize_row(problem, s, n, way.weight, row, at + n * row_bytes);
      }
    });
    at += static_cast<size_t>(s.weight.shape[0]) * row_bytes;
  }
}

std::vector<float> vendor_numbers(const std::vector<SegmentTensors>& tensors, Tensor SegmentTensors::*member) {
  std::vector<float> out;
  for (const SegmentTensors& t : tensors) {
    const Tensor values = (t.*member).bound() ? (t.*member).contiguous() : Tensor();
    for (size_t n = 0; n < static_cast<size_t>(t.weight.shape[0]); ++n)
      out.push_back(values.bound() ? number_at(values, n) : 0);
  }
  return out;
}

std::vector<VendorMatmul> vendor_matmuls(const Problem& problem) {
  const DType x = problem.activation;
  const DType y = is_floating(x) && problem.outputs[0].dtype == x ? x : DType::f32;
  const std::string act(dtype_name(x));
  const SchemeInfo& scheme = scheme_info(problem.scheme);
  const bool zeros = has_zeros(problem),
             plain = problem.group == 0 && scheme.weight.bits == 8 && !scheme.weight.is_float;
  if (problem.scheme == Scheme::dense)
    return {{x, y, false, false, act + " matmul" + (problem.weight == x ? "" : fmt::format(" on {} weight", act))}};
  if (!scheme.has_scales) return {{DType::i8, DType::i32, false, false, act + " x s8 matmul to s32"}};
  if (scheme.quantized_activation && !plain)
    return {{DType::i8, DType::i32, false, false, act + " x s8 matmul to s32, unscaled"}};
  if (scheme.quantized_activation)
    return {{DType::i8, DType::f32, false, true,
             fmt::format("{} x s8 matmul with channel scales, without quantization, row scales{}", act,
                         zeros || problem.x_has_zero ? " and zero points" : "")}};
  std::vector<VendorMatmul> out;
  if (plain && !zeros) out.push_back({DType::i8, y, false, true, act + " x s8 matmul with weights decompression"});
  out.push_back({x, y, true, false, act + " matmul on dequantized weight"});
  return out;
}

}  // namespace qcg

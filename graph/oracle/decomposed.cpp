// The oracle's rules for quantized_decomposed.*. Operation by operation as torch/ao/quantization/fx/_decomposed.py
// computes them on a CPU, because one flipped rounding moves a result by a whole step.
#include <algorithm>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

std::vector<double> read_rounded(const RefValue& v, DType dtype) {
  std::vector<double> values = read_doubles(v.data);
  if (is_floating(dtype))
    for (double& x : values) x = round_as_eager(dtype, x);
  return values;
}

// The parameters of a node, whichever spelling it has, and which of them element i uses.
struct Parameters {
  std::vector<double> scales, zeros;  // zeros: empty when absent
  DType scale_dtype = DType::f64;     // f64 also stands for a Python number
  DType zero_dtype = DType::i64;
  double low = 0, high = 0;
  int64_t inner = 1, count = 1;  // element i belongs to parameter i / inner % count

  double zero(size_t at) const { return zeros.empty() ? 0 : zeros[at]; }
  size_t at(int64_t i) const { return static_cast<size_t>(i / inner % count); }
};

// choose_qparams_per_token computes in the input's dtype (f16 in f32) whatever its meta function declares.
DType held_dtype(const RefContext& c, std::string_view name) {
  const Value& v = c.graph.value(c.node.tensor(name));
  if (v.kind == ValueKind::node) {
    const Node& producer = c.graph.nodes[v.producer];
    if (is_op(producer, "quantized_decomposed.choose_qparams_per_token.default")) {
      const DType x = c.graph.value(producer.tensor("input")).dtype;
      return x == DType::f16 ? DType::f32 : x;
    }
  }
  return v.dtype;
}

double limit(const RefContext& c, std::string_view name) {
  return c.node.arg(name).get<ValueId>() ? read_doubles(c.tensor(name).data)[0] : c.number(name);
}

Parameters read_parameters(const RefContext& c) {
  Parameters p;
  const bool many = c.node.op->arg_index("scales") >= 0;
  const std::string_view scale = many ? "scales" : "scale", zero = many ? "zero_points" : "zero_point";
  if (c.node.arg(scale).get<ValueId>()) {
    p.scale_dtype = held_dtype(c, scale);
    p.scales = read_rounded(c.tensor(scale), p.scale_dtype);
  } else {
    p.scales = {c.number(scale)};
  }
  if (!c.node.arg(zero).get<ValueId>()) {
    p.zeros = {c.number(zero)};
  } else if (const RefValue* v = c.optional_tensor(zero)) {
    p.zero_dtype = held_dtype(c, zero);
    p.zeros = read_rounded(*v, p.zero_dtype);
  }
  p.low = limit(c, "quant_min");
  p.high = limit(c, "quant_max");
  p.count = static_cast<int64_t>(p.scales.size());
  const std::vector<int64_t>& shape = c.tensor("input").data.shape;
  int64_t total = 1;
  for (int64_t size : shape) total *= size;
  if (c.node.op->arg_index("axis") >= 0) {
    for (size_t i = c.axis("axis", shape.size()) + 1; i < shape.size(); ++i) p.inner *= shape[i];
  } else {
    p.inner = std::max<int64_t>(1, p.count > 0 ? total / p.count : 1);
  }
  p.inner = std::max<int64_t>(p.inner, 1);
  p.count = std::max<int64_t>(p.count, 1);
  return p;
}

// Per tensor and per channel: clamp(round(x * (1 / s)) + z), in f32 at least.
// Per token and per group:    clamp(round(x * (1 / s) + z)).
Result<Tensors> run_quantize(const RefContext& c) {
  const RefValue& x = c.tensor("input");
  const Parameters p = read_parameters(c);
  const bool per_tensor = c.node.op->arg_index("scale") >= 0, per_channel = c.node.op->arg_index("axis") >= 0;
  const bool zero_after = per_tensor || per_channel;
  const DType input = zero_after ? DType::f32 : x.dtype;
  const DType product = per_tensor ? DType::f32 : promote(input, p.scale_dtype), sum = promote(product, p.zero_dtype);
  std::vector<double> values = read_rounded(x, x.dtype);
  std::vector<int64_t> out(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t at = p.at(static_cast<int64_t>(i));
    double inverse = round_as_eager(p.scale_dtype, 1 / p.scales[at]);
    if (per_tensor) inverse = round_as_eager(DType::f32, inverse);  // a Python number meets an f32 tensor
    const double scaled = round_as_eager(product, values[i] * inverse);
    const double q = zero_after ? round_as_eager(sum, std::nearbyint(scaled) + p.zero(at))
                                : std::nearbyint(round_as_eager(sum, scaled + p.zero(at)));
    out[i] = to_integer(c.dtype(0), min_nan(max_nan(q, p.low), p.high));
  }
  return Tensors{make_ints(x.data.shape, std::move(out))};
}

// (q - z) * s. Per tensor every step is rounded to the output's dtype; elsewhere q - z is an integer.
Result<Tensors> run_dequantize(const RefContext& c) {
  const RefValue& x = c.tensor("input");
  const Parameters p = read_parameters(c);
  const bool per_tensor = c.node.op->arg_index("scale") >= 0;
  const DType out = c.dtype(0), product = per_tensor ? out : is_floating(p.scale_dtype) ? p.scale_dtype : DType::f32;
  auto step = [&](DType dtype, double v) { return c.emulate_casts ? round_as_eager(dtype, v) : v; };
  std::vector<double> values = read_doubles(x.data);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t at = p.at(static_cast<int64_t>(i));
    const double shifted = per_tensor ? step(out, step(out, values[i]) - p.zero(at)) : values[i] - p.zero(at);
    const double scale =
        per_tensor ? round_as_eager(out == DType::f64 ? DType::f64 : DType::f32, p.scales[at]) : p.scales[at];
    values[i] = step(out, step(product, shifted * scale));
  }
  return Tensors{make_doubles(x.data.shape, std::move(values))};
}

struct Extremes {
  double low = 0, high = 0, magnitude = 0;  // with 0 among the values
};
Extremes find_extremes(std::span<const double> values) {
  Extremes e;
  for (double v : values) {
    e.low = min_nan(v, e.low);
    e.high = max_nan(v, e.high);
    e.magnitude = max_nan(std::abs(v), e.magnitude);
  }
  return e;
}

// determine_qparams: the scale in the input's dtype, the least scale and everything after it in f32 at least.
Result<Tensors> run_choose_tensor(const RefContext& c) {
  const RefValue& x = c.tensor("input");
  const std::vector<double> values = read_rounded(x, x.dtype);
  if (values.empty()) return Tensors{make_doubles({1}, {1.0}), make_ints({1}, {0})};
  const Extremes e = find_extremes(values);
  auto round = [&](double v) { return round_as_eager(x.dtype, v); };
  auto round_wide = [&](double v) { return round_as_eager(DType::f32, v); };
  const double low = c.number("quant_min"), high = c.number("quant_max"), eps = round_wide(c.number("eps"));
  if (is_op(c.node, "quantized_decomposed.choose_qparams_symmetric.tensor")) {
    const double scale = max_nan(round(max_nan(-e.low, e.high) / ((high - low) / 2)), eps);
    return Tensors{make_doubles({1}, {scale}),
                   make_ints({1}, {*c.node.arg("dtype").get<DType>() == DType::u8 ? 128 : 0})};
  }
  const double scale = max_nan(round(round(e.high - e.low) / (high - low)), eps);
  const double zero = low - std::nearbyint(round_wide(e.low / scale));
  return Tensors{make_doubles({1}, {scale}), make_ints({1}, {to_integer(DType::i64, std::clamp(zero, low, high))})};
}

RowParameters choose_symmetric(DType dtype, const Extremes& e) {
  const DType wide = dtype == DType::f16 ? DType::f32 : dtype;
  return {round_as_eager(wide, max_nan(e.magnitude, round_as_eager(wide, 1e-5)) / 127), 0};
}

// XNNPACK's rule: the zero point is taken from the end of the range that it represents with the smaller error.
RowParameters choose_asymmetric(DType dtype, const Extremes& e) {
  auto round = [&](double v) { return round_as_eager(dtype, v); };
  const double scale = max_nan(round(round(e.high - e.low) / 255), 0x1p-23);
  const double low = round(e.low / scale), high = round(e.high / scale);
  const double zero = round(round(-128 + low) + round(127 + high)) > 0 ? round(-128 - low) : round(127 - high);
  return {scale, std::nearbyint(std::clamp(zero, -128.0, 127.0))};
}

Result<Tensors> run_choose_rows(const RefContext& c) {
  const RefValue& x = c.tensor("input");
  const bool symmetric = is_op(c.node, "quantized_decomposed.choose_qparams_per_token.default");
  const std::vector<double> values = read_rounded(x, x.dtype);
  const std::vector<int64_t> rows = c.sizes(0);
  const size_t k = static_cast<size_t>(x.data.shape.back());
  int64_t count = 1;
  for (int64_t size : rows) count *= size;
  std::vector<double> scales;
  std::vector<int64_t> zeros;
  for (size_t r = 0; r < static_cast<size_t>(count); ++r) {
    const RowParameters p = choose_row_parameters(x.dtype, symmetric, std::span(values).subspan(r * k, k));
    scales.push_back(p.scale);
    zeros.push_back(to_integer(DType::i64, p.zero));
  }
  return Tensors{make_doubles(rows, std::move(scales)), make_ints(rows, std::move(zeros))};
}

constexpr RefRow kDecomposedRules[] = {
    {"quantized_decomposed.quantize_per_tensor.default", run_quantize},
    {"quantized_decomposed.quantize_per_tensor.tensor", run_quantize},
    {"quantized_decomposed.quantize_per_tensor.tensor2", run_quantize},
    {"quantized_decomposed.quantize_per_channel.default", run_quantize},
    {"quantized_decomposed.quantize_per_token.default", run_quantize},
    {"quantized_decomposed.quantize_per_channel_group.default", run_quantize},
    {"quantized_decomposed.dequantize_per_tensor.default", run_dequantize},
    {"quantized_decomposed.dequantize_per_tensor.tensor", run_dequantize},
    {"quantized_decomposed.dequantize_per_tensor.tensor2", run_dequantize},
    {"quantized_decomposed.dequantize_per_channel.default", run_dequantize},
    {"quantized_decomposed.dequantize_per_token.default", run_dequantize},
    {"quantized_decomposed.dequantize_per_channel_group.default", run_dequantize},
    {"quantized_decomposed.choose_qparams.tensor", run_choose_tensor},
    {"quantized_decomposed.choose_qparams_symmetric.tensor", run_choose_tensor},
    {"quantized_decomposed.choose_qparams_per_token.default", run_choose_rows},
    {"quantized_decomposed.choose_qparams_per_token_asymmetric.default", run_choose_rows},
    {"quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default", run_choose_rows},
};

}  // namespace

RowParameters choose_row_parameters(DType dtype, bool symmetric, std::span<const double> row) {
  const Extremes e = find_extremes(row);
  return symmetric ? choose_symmetric(dtype, e) : choose_asymmetric(dtype, e);
}

// Chosen zero points are whole; their dtype is wide enough for any sum here, and never wider than the product's.
int64_t quantize_per_token(DType dtype, DType scale_dtype, double x, RowParameters p, double low, double high) {
  const DType product = promote(dtype, scale_dtype);
  const double scaled = round_as_eager(product, x * round_as_eager(scale_dtype, 1 / p.scale));
  const double q = std::nearbyint(round_as_eager(product, scaled + p.zero));
  return to_integer(DType::i8, min_nan(max_nan(q, low), high));
}

std::span<const RefRow> reference_decomposed() { return kDecomposedRules; }

}  // namespace qcg

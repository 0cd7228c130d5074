// The oracle's quantization rules. One flipped rounding moves a result by a whole step, so these follow torchao 0.18
// (quantization/quant_primitives.py) operation by operation: each is computed in the dtype torch would compute it in.
#include <algorithm>
#include <cmath>

#include "graph/ir/float_format.h"
#include "graph/ops/infer.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

struct QuantRange {
  double lo, hi;
};
QuantRange quant_range(const RefContext& c, DType dtype) {
  const IntegerRange all = integer_range(dtype);
  QuantRange r{static_cast<double>(all.low), static_cast<double>(all.high)};
  if (c.has("quant_min")) r.lo = c.number("quant_min");
  if (c.has("quant_max")) r.hi = c.number("quant_max");
  return r;
}

// Calls f(first element, count, block) for every run of neighbours that share a block, in some rows of the last axis.
template <class F>
void for_each_run_of_rows(const std::vector<int64_t>& shape, const std::vector<int64_t>& block, int64_t first_row,
                          int64_t last_row, F&& f) {
  const int64_t width = shape.empty() ? 1 : shape.back(), step = shape.empty() ? 1 : block.back();
  for (int64_t row = first_row; row < last_row; ++row) {
    int64_t runs = width / step;
    int64_t index = row, id = 0, scale = runs;
    for (size_t axis = shape.size() < 2 ? 0 : shape.size() - 1; axis-- > 0;) {
      id += index % shape[axis] / block[axis] * scale;
      scale *= shape[axis] / block[axis];
      index /= shape[axis];
    }
    for (int64_t run = 0; run < runs; ++run) f(row * width + run * step, step, id + run);
  }
}

int64_t count_rows(const std::vector<int64_t>& shape) {
  const int64_t total = count_of(shape);
  return total == 0 ? 0 : total / (shape.empty() ? 1 : shape.back());
}
template <class F>
void for_each_run(const std::vector<int64_t>& shape, const std::vector<int64_t>& block, F&& f) {
  for_each_run_of_rows(shape, block, 0, count_rows(shape), f);
}
// On all processors: f writes only the elements of its run.
template <class F>
void for_each_run_in_parallel(const std::vector<int64_t>& shape, const std::vector<int64_t>& block, F&& f) {
  const int64_t rows = count_rows(shape);
  for_each_part(rows, rows == 0 ? 0 : count_of(shape) / rows,
                [&](int64_t first, int64_t last) { for_each_run_of_rows(shape, block, first, last, f); });
}

std::vector<int64_t> block_sizes(const RefContext& c) {
  std::vector<int64_t> block;
  for (const Dim& d : *c.node.arg("block_size").get<std::vector<Dim>>()) block.push_back(c.evaluate(d));
  return block;
}

// The operand as eager execution would see it: rounded to its dtype.
std::vector<double> read_as_stored(const RefValue& v) {
  std::vector<double> values = read_doubles(v.data);
  if (is_floating(v.dtype) && v.data.dtype != v.dtype)
    for (double& x : values) x = round_as_eager(v.dtype, x);
  return values;
}

double smallest_normal(DType d) { return std::ldexp(1.0, d == DType::f16 ? -14 : d == DType::f64 ? -1022 : -126); }

struct QParams {
  double scale, zero;
};

// choose_qparams_affine for one block whose extremes are known; every step rounds to the input's dtype.
QParams choose_qparams(DType dtype, const std::string& mapping, QuantRange q, double eps, double lowest,
                       double highest) {
  auto round = [&](double v) { return round_as_eager(dtype, v); };
  double low = min_nan(lowest, 0), high = max_nan(highest, 0);
  double scale;
  if (mapping == "ASYMMETRIC") {
    scale = max_nan(round(round(high - low) / (q.hi - q.lo)), round(eps));
    double zero = round(q.lo - std::nearbyint(round(low / scale)));
    return {scale, min_nan(max_nan(zero, q.lo), q.hi)};
  }
  if (mapping == "SYMMETRIC") {
    scale = round(max_nan(-low, high) / ((q.hi - q.lo) / 2));
  } else {
    double from_low = round(low / q.lo), from_high = round(high / q.hi);
    scale = from_low > from_high ? from_low : from_high;
  }
  return {max_nan(scale, round(eps)), round(std::trunc((q.hi + q.lo + 1) / 2))};
}

struct BlockExtremes {
  std::vector<double> low, high;
};
BlockExtremes find_block_extremes(const std::vector<double>& x, const std::vector<int64_t>& shape,
                                  const std::vector<int64_t>& block, int64_t blocks) {
  BlockExtremes e{std::vector<double>(blocks, INFINITY), std::vector<double>(blocks, -INFINITY)};
  for_each_run(shape, block, [&](int64_t first, int64_t count, int64_t b) {
    for (int64_t i = first; i < first + count; ++i) {
      e.low[b] = std::isnan(x[i]) ? x[i] : min_nan(e.low[b], x[i]);
      e.high[b] = std::isnan(x[i]) ? x[i] : max_nan(e.high[b], x[i]);
    }
  });
  return e;
}

// The largest of a block over the largest fp8 number, rounded to the input's dtype before it is a f32.
Result<Tensors> run_choose_scale_float8(const RefContext& c) {
  const RefValue& x = c.tensor("tensor");
  const std::vector<int64_t> out_shape = c.sizes(0);
  int64_t blocks = 1;
  for (int64_t size : out_shape) blocks *= size;
  const BlockExtremes e = find_block_extremes(read_as_stored(x), x.data.shape, block_sizes(c), blocks);
  const double largest = float_format(*c.node.arg("float8_dtype").get<DType>())->max_finite();
  std::vector<double> scales(blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    double widest = max_nan(-e.low[b], e.high[b]);
    if (c.has("hp_value_lb")) widest = max_nan(widest, round_as_eager(x.dtype, c.number("hp_value_lb")));
    if (c.has("hp_value_ub")) widest = min_nan(widest, round_as_eager(x.dtype, c.number("hp_value_ub")));
    scales[b] = round_as_eager(DType::f32, round_as_eager(x.dtype, widest / largest));
  }
  return Tensors{make_doubles(out_shape, std::move(scales))};
}

Result<Tensors> run_choose_qparams(const RefContext& c) {
  const RefValue& x = c.tensor("input");
  std::vector<int64_t> shape = x.data.shape;
  std::vector<int64_t> out_shape = c.sizes(0);
  int64_t blocks = 1;
  for (int64_t size : out_shape) blocks *= size;
  BlockExtremes e = find_block_extremes(read_as_stored(x), shape, block_sizes(c), blocks);
  QuantRange q = quant_range(c, *c.node.arg("target_dtype").get<DType>());
  double eps = c.has("eps") ? c.number("eps") : smallest_normal(x.dtype);
  std::vector<double> scales(blocks), zeros(blocks);
  std::vector<int64_t> integer_zeros(blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    QParams p = choose_qparams(x.dtype, *c.node.arg("mapping_type").get<std::string>(), q, eps, e.low[b], e.high[b]);
    scales[b] = round_as_eager(c.dtype(0), p.scale);
    zeros[b] = p.zero;
    if (!is_floating(c.dtype(1))) integer_zeros[b] = to_integer(c.dtype(1), p.zero);
  }
  Tensor zero = is_floating(c.dtype(1)) ? make_doubles(out_shape, std::move(zeros))
                                        : make_ints(out_shape, std::move(integer_zeros));
  return Tensors{make_doubles(out_shape, std::move(scales)), zero};
}

// quantize_affine for one run of elements that share scale and zero point.
struct Quantizer {
  DType input, scale_dtype, product, sum;
  QuantRange range;
  DType output;

  Quantizer(DType input, DType scale, DType zero, QuantRange range, DType output)
      : input(input),
        scale_dtype(scale),
        product(promote(input, scale)),
        sum(promote(product, zero)),
        range(range),
        output(output) {}

  double inverse(double scale) const { return round_as_eager(scale_dtype, 1 / scale); }
  int64_t operator()(double x, double inverse, double zero) const {
    double q = std::nearbyint(round_as_eager(product, x * inverse));
    return to_integer(output, min_nan(max_nan(round_as_eager(sum, q + zero), range.lo), range.hi));
  }
};

Result<Tensors> run_quantize_affine(const RefContext& c) {
  const RefValue& x = c.tensor("input");
  const RefValue& scale = c.tensor("scale");
  const RefValue* zero = c.optional_tensor("zero_point");
  Quantizer quantize(x.dtype, scale.dtype, zero ? zero->dtype : DType::i8, quant_range(c, c.dtype(0)), c.dtype(0));
  std::vector<double> values = read_as_stored(x), scales = read_as_stored(scale);
  std::vector<double> zeros = zero ? read_as_stored(*zero) : std::vector<double>(scales.size());
  std::vector<int64_t> out(values.size());
  for_each_run(x.data.shape, block_sizes(c), [&](int64_t first, int64_t count, int64_t b) {
    double inverse = quantize.inverse(scales[b]);
    for (int64_t i = first; i < first + count; ++i) out[i] = quantize(values[i], inverse, zeros[b]);
  });
  return Tensors{make_ints(x.data.shape, std::move(out))};
}

// A difference of two bytes has 9 bits, and their product with a bf16 or f16 scale at most 20: f32 holds it exactly.
bool fits_f32(const RefValue& x, const RefValue& scale, const RefValue* zero, const std::vector<double>& scales) {
  const auto is_moderate = [](double s) { return std::abs(s) < 0x1p100; };
  return is_byte(x.dtype) && is_half(scale.dtype) && (!zero || is_byte(zero->dtype)) &&
         std::ranges::all_of(scales, is_moderate);
}

template <class T>
std::vector<T> dequantize_affine(const RefContext& c, const std::vector<double>& scales,
                                 const std::vector<double>& zeros) {
  const RefValue& x = c.tensor("input");
  // Eager execution rounds after every step; without emulation (q - zero) * scale is exact.
  const DType out = c.dtype(0), product = promote(out, c.tensor("scale").dtype);
  auto step = [&](DType dtype, double v) { return c.emulate_casts ? round_as_eager(dtype, v) : v; };
  const Tensor codes = x.data.contiguous();
  std::vector<T> values(static_cast<size_t>(codes.numel()));
  for_each_run_in_parallel(x.data.shape, block_sizes(c), [&](int64_t first, int64_t count, int64_t b) {
    const double z = step(out, zeros[b]);
    double q[256];
    for (int64_t i = 0, n; i < count; i += n) {
      n = std::min<int64_t>(count - i, std::size(q));
      read_run(codes, codes.offset + first + i, 1, n, q);
      for (int64_t j = 0; j < n; ++j)
        values[first + i + j] = static_cast<T>(step(out, step(product, step(out, step(out, q[j]) - z) * scales[b])));
    }
  });
  return values;
}

Result<Tensors> run_dequantize_affine(const RefContext& c) {
  const RefValue& x = c.tensor("input");
  const RefValue& scale = c.tensor("scale");
  const RefValue* zero = c.optional_tensor("zero_point");
  const std::vector<double> scales = read_as_stored(scale);
  const std::vector<double> zeros = zero ? read_as_stored(*zero) : std::vector<double>(scales.size());
  // A weight of a large model in f64 would be gigabytes.
  if (fits_f32(x, scale, zero, scales))
    return Tensors{make_floats(x.data.shape, dequantize_affine<float>(c, scales, zeros))};
  return Tensors{make_doubles(x.data.shape, dequantize_affine<double>(c, scales, zeros))};
}

// choose_qparams_affine and quantize_affine over whole rows. The scales come out in f32; scale_dtype is what they,
// their inverses and the products with them are rounded to on the way.
Result<Tensors> run_quantize_rows(const RefContext& c) {
  const RefValue& x = c.tensor("x");
  const std::vector<int64_t>& shape = x.data.shape;
  std::vector<int64_t> row_shape = c.sizes(1);
  int64_t rows = 1;
  for (int64_t size : row_shape) rows *= size;
  int64_t k = shape.back();
  std::vector<double> values = read_as_stored(x);
  QuantRange q{c.number("quant_min"), c.number("quant_max")};
  double eps = c.has("eps") ? c.number("eps") : smallest_normal(x.dtype);
  const DType scale_dtype = *c.node.arg("scale_dtype").get<DType>();
  Quantizer quantize(x.dtype, scale_dtype, DType::i32, q, c.dtype(0));
  std::vector<double> scales(rows);
  std::vector<int64_t> zeros(rows), out(values.size());
  const std::string& mapping = *c.node.arg("mapping").get<std::string>();
  const bool per_token = mapping.starts_with("PER_TOKEN");
  for (int64_t r = 0; r < rows; ++r) {
    if (per_token) {
      const RowParameters p =
          choose_row_parameters(x.dtype, mapping == "PER_TOKEN",
                                std::span(values).subspan(static_cast<size_t>(r * k), static_cast<size_t>(k)));
      scales[r] = p.scale;
      zeros[r] = to_integer(DType::i32, p.zero);
      for (int64_t i = r * k; i < (r + 1) * k; ++i)
        out[i] = quantize_per_token(x.dtype, scale_dtype, values[i], p, q.lo, q.hi);
      continue;
    }
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = r * k; i < (r + 1) * k; ++i) {
      low = std::isnan(values[i]) ? values[i] : min_nan(low, values[i]);
      high = std::isnan(values[i]) ? values[i] : max_nan(high, values[i]);
    }
    QParams p = choose_qparams(x.dtype, mapping, q, eps, low, high);
    scales[r] = round_as_eager(scale_dtype, p.scale);
    zeros[r] = to_integer(DType::i32, p.zero);
    double inverse = quantize.inverse(scales[r]);
    for (int64_t i = r * k; i < (r + 1) * k; ++i) out[i] = quantize(values[i], inverse, static_cast<double>(zeros[r]));
  }
  return Tensors{make_ints(shape, std::move(out)), make_doubles(row_shape, std::move(scales)),
                 make_ints(row_shape, std::move(zeros))};
}

// In f32, as composed_ops.cpp writes it.
Result<Tensors> run_quantize_by(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0);
  const std::vector<double> x = read_doubles(c.tensor("x").data),
                            scales = read_doubles(broadcast_to(c.tensor("scale").data, shape));
  const RefValue* offset = c.optional_tensor("offset");
  const std::vector<double> offsets =
      offset ? read_doubles(broadcast_to(offset->data, shape)) : std::vector<double>(x.size(), 0);
  const IntegerRange codes = integer_range(c.dtype(0));
  std::vector<int64_t> q(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float steps = std::nearbyint(static_cast<float>(x[i]) / static_cast<float>(scales[i]));
    const double code = steps + static_cast<float>(offsets[i]);
    q[i] = to_integer(c.dtype(0), std::clamp(code, static_cast<double>(codes.low), static_cast<double>(codes.high)));
  }
  return Tensors{make_ints(shape, std::move(q))};
}

constexpr RefRow kQuantizeRules[] = {
    {"torchao.choose_qparams_affine.default", run_choose_qparams},
    {"torchao.choose_scale_float8.default", run_choose_scale_float8},
    {"torchao.quantize_affine.default", run_quantize_affine},
    {"torchao.dequantize_affine.default", run_dequantize_affine},
    {"tensor_cast.quantize.default", run_quantize_by},
    {"qcg.quantize_rows", run_quantize_rows},
};

}  // namespace

std::span<const RefRow> reference_quantize() { return kQuantizeRules; }

}  // namespace qcg

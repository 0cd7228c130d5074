// The oracle's rules for operands that are codes with scales. Every element is decoded to a double, zero point and
// scale applied, and the products are summed in double.
#include "graph/ir/scheme.h"
#include "graph/ops/four_bit.h"
#include "graph/ops/scaled_product.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

// Scales, zero points: integers in the place of a scale are exponents.
std::vector<double> read_numbers(const RefValue& v, bool exponents) {
  if (!exponents || v.dtype != DType::u8) return read_doubles(v.data);
  std::vector<double> out;
  for (int64_t bits : read_ints(v.data)) out.push_back(exponent_scale(bits));
  return out;
}

// The numbers of one operand, by row and column.
struct Numbers {
  BlockNumbers blocks;
  std::vector<double> values;
  int64_t across = 1, along = 1;

  Numbers(const RefContext& c, const BlockNumbers& b, int64_t rows, int64_t k, bool exponents) : blocks(b) {
    if (b.value == kNoValue) return;
    values = read_numbers(c.values[b.value], exponents);
    across = count_blocks(rows, b.outer), along = count_blocks(k, b.group);
  }
  double at(int64_t row, int64_t column, double otherwise) const {
    if (values.empty()) return otherwise;
    const int64_t o = blocks.outer ? row / blocks.outer : 0, g = blocks.group ? column / blocks.group : 0;
    return values[blocks.k_first ? g * across + o : o * along + g];
  }
};

double decode(Coding coding, double stored) {
  const int code = static_cast<int>(stored) & 15;
  if (coding == Coding::plain) return stored;
  return coding == Coding::int4_packed ? code - 8 : kE2m1Twice[code] * 0.5;
}

// `stored` is [rows, K], or [rows, K / 2] where two share a byte.
std::vector<double> dequantize(const RefContext& c, const ScaledOperand& operand, const Tensor& stored, int64_t k) {
  const int64_t rows = stored.shape[0];
  const NibbleOrder order = operand.coding == Coding::int4_packed ? NibbleOrder::high_first : NibbleOrder::low_first;
  std::vector<double> out = read_doubles(is_packed(operand.coding) ? unpack_nibbles(stored, order) : stored);
  const Numbers scale(c, operand.scale, rows, k, true), zero(c, operand.zero, rows, k, false);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) {
      double& v = out[r * k + i];
      v = (decode(operand.coding, v) - zero.at(r, i, 0)) * scale.at(r, i, 1);
    }
  return out;
}

Result<Tensors> run_scaled_product(const RefContext& c) {
  QCG_TRY(p, read_scaled_product(c.graph, c.node));
  const Tensor& x = c.values[p.x.value].data;
  const std::vector<int64_t> shape = c.sizes(0);
  int64_t m = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) m *= shape[i];
  const int64_t n = shape.back();
  const std::vector<double> rows = dequantize(c, p.x, x.reshape({m, x.shape.back()}), p.k);
  std::vector<double> columns = dequantize(c, p.w, c.values[p.w.value].data.transpose(0, 1), p.k);
  std::vector<double> y = multiply_rows(rows, m, make_doubles({n, p.k}, std::move(columns)));
  const std::vector<double> bias = p.bias == kNoValue ? std::vector<double>(n) : read_doubles(c.values[p.bias].data);
  const double divisor = p.result_scale == kNoValue ? 1 : read_doubles(c.values[p.result_scale].data)[0];
  for (int64_t i = 0; i < m * n; ++i) y[i] = (y[i] + bias[i % n]) / divisor;
  return Tensors{make_doubles(shape, std::move(y))};
}

Result<Tensors> run_dequantize_4bit(const RefContext& c) {
  QCG_TRY(w, read_four_bit(c.graph, c.node));
  const std::vector<double> codes =
      read_doubles(unpack_nibbles(c.tensor("packed").data.reshape({w.n, w.k / 2}), w.order));
  const std::vector<double> scales = read_numbers(c.tensor("scales"), true);
  const double global = w.global_scale == kNoValue ? 1 : read_doubles(c.values[w.global_scale].data)[0];
  const int64_t groups = count_blocks(w.k, w.group);
  const WeightInfo& info = scheme_info(w.scheme).weight;
  const auto weights = weights_by_code(w.scheme);
  std::vector<double> out(codes.size());
  for (int64_t i = 0; i < w.n * w.k; ++i) {
    const auto code = static_cast<size_t>(codes[i]);
    const double value = value_of(info, weights[code]) * w.unit;
    out[i] = value * (scales[i / w.k * groups + i % w.k / w.group] * global);
  }
  return Tensors{make_doubles({w.n, w.k}, std::move(out))};
}

constexpr RefRow kCodedRules[] = {
    {"aten._scaled_mm.default", run_scaled_product},
    {"aten._scaled_mm_v2.default", run_scaled_product},
    {"tensor_cast.static_quant_linear.default", run_scaled_product},
    {"tensor_cast.static_quant_linear_int4.default", run_scaled_product},
    {"tensor_cast.fp8_linear.default", run_scaled_product},
    {"tensor_cast.mxfp4_linear.default", run_scaled_product},
    {"qcg.dequantize_4bit", run_dequantize_4bit},
};

}  // namespace

std::span<const RefRow> reference_coded() { return kCodedRules; }

}  // namespace qcg

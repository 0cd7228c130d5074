// The oracle's rule for attention: row by row, in double, from its definition and not from what attention.cpp of the
// passes makes of it.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "graph/oracle/ops.h"

namespace qcg {
namespace {

// [batches of all leading axes, rows, size], dense.
struct Matrices {
  std::vector<double> values;
  int64_t rows = 0, size = 0;
  const double* row(int64_t batch, int64_t i) const { return values.data() + (batch * rows + i) * size; }
};

// Heads that several heads of the query share are repeated.
Matrices read_matrices(const Tensor& t, std::vector<int64_t> lead) {
  const int64_t rows = t.shape[t.shape.size() - 2], size = t.shape.back();
  int64_t group = 1;
  if (!lead.empty()) {
    int64_t& heads = lead.back();
    if (const int64_t own = t.shape[t.shape.size() - 3]; own != heads && own != 1) group = heads / own, heads = own;
  }
  std::vector<int64_t> shape = lead;
  shape.insert(shape.end(), {rows, size});
  const std::vector<double> own = read_doubles(broadcast_to(t, shape));
  Matrices out{{}, rows, size};
  for (auto at = own.begin(); at != own.end(); at += rows * size)
    for (int64_t i = 0; i < group; ++i) out.values.insert(out.values.end(), at, at + rows * size);
  return out;
}

// What is added to the scores; a mask of truth values adds nothing where it is true.
std::vector<double> read_mask(const RefContext& c, const std::vector<int64_t>& shape) {
  const RefValue* mask = c.optional_tensor("attn_mask");
  if (!mask) return {};
  std::vector<double> out = read_doubles(broadcast_to(mask->data, shape));
  if (mask->dtype == DType::boolean)
    for (double& v : out) v = v != 0 ? 0.0 : -INFINITY;
  return out;
}

Result<Tensors> run_attention(const RefContext& c) {
  const std::vector<int64_t> out_shape = c.sizes(0), lead(out_shape.begin(), out_shape.end() - 2);
  const Matrices q = read_matrices(c.tensor("query").data, lead), k = read_matrices(c.tensor("key").data, lead),
                 v = read_matrices(c.tensor("value").data, lead);
  std::vector<int64_t> weights_shape = lead;
  weights_shape.insert(weights_shape.end(), {q.rows, k.rows});
  const std::vector<double> mask = read_mask(c, weights_shape);
  const bool causal = *c.node.arg("is_causal").get<bool>();
  const double scale = c.has("scale") ? c.number("scale") : 1 / std::sqrt(static_cast<double>(q.size));
  const int64_t batches = std::accumulate(lead.begin(), lead.end(), int64_t{1}, std::multiplies<>());
  std::vector<double> out, weights, logarithms;
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t i = 0; i < q.rows; ++i) {
      std::vector<double> row;
      for (int64_t j = 0; j < k.rows; ++j) {
        const double product = std::inner_product(q.row(b, i), q.row(b, i) + q.size, k.row(b, j), 0.0);
        const size_t at = static_cast<size_t>((b * q.rows + i) * k.rows + j);
        row.push_back(causal && j > i ? -INFINITY : product * scale + (mask.empty() ? 0 : mask[at]));
      }
      double largest = -INFINITY, sum = 0;
      for (const double s : row) largest = max_nan(s, largest);
      for (double& s : row) s = largest == -INFINITY ? 0 : std::exp(s - largest), sum += s;
      for (double& s : row) s = sum == 0 ? 0 : s / sum;
      for (int64_t e = 0; e < v.size; ++e) {
        double y = 0;
        for (int64_t j = 0; j < k.rows; ++j) y += row[static_cast<size_t>(j)] * v.row(b, j)[e];
        out.push_back(y);
      }
      weights.insert(weights.end(), row.begin(), row.end());
      logarithms.push_back(sum == 0 ? 0 : largest + std::log(sum));
    }
  Tensors results{make_doubles(out_shape, std::move(out))};
  if (c.node.outputs.size() == 1) return results;
  const bool gives_weights = c.node.op->arg_index("enable_gqa") >= 0;
  results.push_back(make_doubles(c.sizes(1), gives_weights ? std::move(weights) : std::move(logarithms)));
  return results;
}

// An expression of qcg.attention for all scores of a batch and head.
std::vector<double> evaluate_scores(const RefContext& c, const Expr& e, const std::vector<double>& products,
                                    std::array<int64_t, 4> at, int64_t columns) {
  const auto operands = c.tensors("operands");
  const auto& sizes = *c.node.arg("sizes").get<std::vector<Dim>>();
  const int first_pos = static_cast<int>(operands.size()), first_size = first_pos + 4,
            acc = first_size + static_cast<int>(sizes.size());
  const Expr over_inputs = e.as_inputs(first_pos, first_size).map_leaves([&](const Expr& leaf) {
    return leaf.kind == ExprKind::acc ? Expr::in(acc) : leaf;
  });
  std::vector<std::vector<double>> ins;
  const auto batch = static_cast<size_t>(at[0]), head = static_cast<size_t>(at[1]);
  const std::vector<int64_t> out = c.sizes(0);
  for (const RefValue* operand : operands) {
    Tensor part = broadcast_to(operand->data, {out[0], out[1], out[2], columns});
    part.offset += static_cast<int64_t>(batch) * part.strides[0] + static_cast<int64_t>(head) * part.strides[1] +
                   at[2] * part.strides[2];
    part.shape = {columns}, part.strides = {part.strides[3]};
    ins.push_back(read_doubles(part));
  }
  for (size_t axis = 0; axis < 4; ++axis) {
    auto& position = ins.emplace_back(static_cast<size_t>(columns), static_cast<double>(at[axis]));
    if (axis == 3) std::iota(position.begin(), position.end(), 0.0);
  }
  for (const Dim& size : sizes) ins.emplace_back(static_cast<size_t>(columns), static_cast<double>(c.evaluate(size)));
  ins.push_back(products);
  return over_inputs.evaluate_all(ins, static_cast<size_t>(columns));
}

// From its definition, row by row.
Result<Tensors> run_own_attention(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0), lead = {shape[0], shape[1]};
  const Matrices q = read_matrices(c.tensor("query").data, lead), k = read_matrices(c.tensor("key").data, lead),
                 v = read_matrices(c.tensor("value").data, lead);
  const Expr& score = c.node.arg("score").get<std::vector<Expr>>()->front();
  const auto& mask = *c.node.arg("mask").get<std::vector<Expr>>();
  const std::string& empty = *c.node.arg("empty").get<std::string>();
  std::vector<double> out;
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t i = 0; i < shape[2]; ++i) {
        const int64_t batch = b * shape[1] + h;
        std::vector<double> row;
        for (int64_t j = 0; j < k.rows; ++j)
          row.push_back(std::inner_product(q.row(batch, i), q.row(batch, i) + q.size, k.row(batch, j), 0.0));
        row = evaluate_scores(c, score, row, {b, h, i, 0}, k.rows);
        if (!mask.empty()) {
          const std::vector<double> seen = evaluate_scores(c, mask[0], row, {b, h, i, 0}, k.rows);
          for (size_t j = 0; j < row.size(); ++j) row[j] = seen[j] != 0 ? row[j] : -INFINITY;
        }
        // Sums and products of masks are infinite in f32.
        for (double& s : row)
          if (std::abs(s) > std::numeric_limits<float>::max()) s = std::copysign(INFINITY, s);
        double largest = -INFINITY, sum = 0;
        for (const double s : row) largest = max_nan(s, largest);
        const bool sees = largest != -INFINITY;
        const double otherwise = empty == "zero" ? 0 : empty == "nan" ? NAN : 1;
        for (double& s : row) s = sees ? std::exp(s - largest) : otherwise, sum += s;
        for (int64_t e = 0; e < v.size; ++e) {
          double y = 0;
          for (int64_t j = 0; j < k.rows; ++j) y += row[static_cast<size_t>(j)] * v.row(batch, j)[e];
          out.push_back(sum == 0 ? 0 : y / sum);
        }
      }
  return Tensors{make_doubles(shape, std::move(out))};
}

constexpr RefRow kAttentionRules[] = {
    {"qcg.attention", run_own_attention},
    {"aten.scaled_dot_product_attention.default", run_attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", run_attention},
    {"aten._scaled_dot_product_attention_math.default", run_attention},
};

}  // namespace

std::span<const RefRow> reference_attention() { return kAttentionRules; }

}  // namespace qcg

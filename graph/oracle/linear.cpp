// The oracle's products: aten's and qcg.linear. Rows of the weight are converted once, a few at a time, and every
// accumulator is a double; products of bytes stay exact integers in it for any K below 2^37.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/oracle/ops.h"

namespace qcg {
namespace {

constexpr int64_t kRowsAtOnce = 8;

// Eight chains, because one would wait for its own addition at every step.
template <class T>
T dot(const T* a, const T* b, int64_t k) {
  using Sum = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>;  // unsigned: integers wrap
  Sum sum[8] = {};
  int64_t i = 0;
  for (; i + 8 <= k; i += 8)
    for (int j = 0; j < 8; ++j) sum[j] += static_cast<Sum>(a[i + j]) * static_cast<Sum>(b[i + j]);
  for (; i < k; ++i) sum[0] += static_cast<Sum>(a[i]) * static_cast<Sum>(b[i]);
  return static_cast<T>(((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7])));
}

double dot_abs(const double* a, const double* b, int64_t k) {
  double sum[4] = {};
  int64_t i = 0;
  for (; i + 4 <= k; i += 4)
    for (int j = 0; j < 4; ++j) sum[j] += std::abs(a[i + j] * b[i + j]);
  for (; i < k; ++i) sum[0] += std::abs(a[i] * b[i]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Rows n, n+1, … of a [N, K] view into dense rows of `out`. A transposed view is read along its unit stride.
template <class T>
void read_rows(const Tensor& w, int64_t n, int64_t count, std::vector<T>& out) {
  int64_t k = w.shape[1];
  out.resize(count * k);
  if (w.strides[1] <= w.strides[0] || count == 1) {
    for (int64_t r = 0; r < count; ++r)
      read_run(w, w.offset + (n + r) * w.strides[0], w.strides[1], k, out.data() + r * k);
    return;
  }
  std::vector<T> column(count);
  for (int64_t i = 0; i < k; ++i) {
    read_run(w, w.offset + n * w.strides[0] + i * w.strides[1], w.strides[0], count, column.data());
    for (int64_t r = 0; r < count; ++r) out[r * k + i] = column[r];
  }
}

// y[m, n] = sum_k x[m, k] w[n, k]; x dense.
template <class T>
std::vector<T> multiply(const std::vector<T>& x, int64_t m, const Tensor& w) {
  int64_t n = w.shape[0], k = w.shape[1];
  std::vector<T> y(m * n);
  if (k == 0) return y;
  for_each_part(n, m * k, [&](int64_t first, int64_t last) {
    std::vector<T> rows;
    for (int64_t j = first; j < last; j += kRowsAtOnce) {
      int64_t count = std::min(kRowsAtOnce, last - j);
      read_rows(w, j, count, rows);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t r = 0; r < count; ++r) y[i * n + j + r] = dot(x.data() + i * k, rows.data() + r * k, k);
    }
  });
  return y;
}

template <class T>
std::vector<T> read_all(const Tensor& t) {
  if constexpr (std::is_same_v<T, double>) return read_doubles(t);
  else return read_ints(t);
}

int64_t rows_of(const Tensor& x) { return count_of(std::span(x.shape).first(x.shape.size() - 1)); }

// ---- aten -----------------------------------------------------------------------------------------------------------

// The result of `products` (row-major, the output's shape) plus what the op adds to it.
template <class F>
Tensor finish_doubles(const RefContext& c, std::vector<double> y, F&& f) {
  for (size_t i = 0; i < y.size(); ++i) y[i] = f(i, y[i]);
  return make_doubles(c.sizes(0), std::move(y));
}

// Integers other than bytes in a plain product: exact modulo 2^64, as torch computes them.
Tensor wrap_all(const RefContext& c, std::vector<int64_t> y) {
  for (int64_t& v : y) v = wrap_to_dtype(c.dtype(0), v);
  return make_ints(c.sizes(0), std::move(y));
}

Result<Tensors> run_linear(const RefContext& c) {
  const Tensor& x = c.tensor("input").data;
  Tensor w = c.tensor("weight").data;
  if (w.shape.size() == 1) w = w.reshape({1, w.shape[0]});
  const RefValue* bias = c.optional_tensor("bias");
  if (!is_floating(c.dtype(0))) {
    std::vector<int64_t> y = multiply(read_ints(x), rows_of(x), w);
    std::vector<int64_t> b = bias ? read_ints(broadcast_to(bias->data, c.sizes(0))) : std::vector<int64_t>();
    for (size_t i = 0; i < b.size(); ++i) y[i] = add_wrap(y[i], b[i]);
    return Tensors{wrap_all(c, std::move(y))};
  }
  std::vector<double> b = bias ? read_doubles(broadcast_to(bias->data, c.sizes(0))) : std::vector<double>();
  return Tensors{finish_doubles(c, multiply(read_doubles(x), rows_of(x), w),
                                [&](size_t i, double v) { return b.empty() ? v : v + b[i]; })};
}

Result<Tensors> run_mm(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  Tensor w = c.tensor("mat2").data.transpose(0, 1);
  if (is_floating(c.dtype(0))) return Tensors{make_doubles(c.sizes(0), multiply(read_doubles(x), x.shape[0], w))};
  return Tensors{wrap_all(c, multiply(read_ints(x), x.shape[0], w))};  // _int_mm too
}

Result<Tensors> run_addmm(const RefContext& c) {
  const Tensor& x = c.tensor("mat1").data;
  Tensor w = c.tensor("mat2").data.transpose(0, 1);
  double beta = c.number("beta"), alpha = c.number("alpha");
  if (!is_floating(c.dtype(0))) {
    std::vector<int64_t> y = multiply(read_ints(x), x.shape[0], w);
    std::vector<int64_t> self = read_ints(broadcast_to(c.tensor("self").data, c.sizes(0)));
    for (size_t i = 0; i < y.size(); ++i)
      y[i] = add_wrap(mul_wrap(y[i], static_cast<int64_t>(alpha)), mul_wrap(self[i], static_cast<int64_t>(beta)));
    return Tensors{wrap_all(c, std::move(y))};
  }
  std::vector<double> self = read_doubles(broadcast_to(c.tensor("self").data, c.sizes(0)));
  // beta 0 ignores self, NaN included.
  auto f = [&](size_t i, double v) { return alpha * v + (beta == 0 ? 0 : beta * self[i]); };
  return Tensors{finish_doubles(c, multiply(read_doubles(x), x.shape[0], w), f)};
}

template <class T>
std::vector<T> multiply_batches(const Tensor& x, const Tensor& w) {  // [B, M, K], [B, N, K]
  std::vector<T> y;
  for (int64_t b = 0; b < x.shape[0]; ++b) {
    std::vector<T> part = multiply(read_all<T>(x.select(0, b)), x.shape[1], w.select(0, b));
    y.insert(y.end(), part.begin(), part.end());
  }
  return y;
}

Tensor batched(const RefContext& c, const Tensor& x, const Tensor& w) {
  if (is_floating(c.dtype(0))) return make_doubles(c.sizes(0), multiply_batches<double>(x, w));
  return wrap_all(c, multiply_batches<int64_t>(x, w));
}

Result<Tensors> run_bmm(const RefContext& c) {
  return Tensors{batched(c, c.tensor("self").data, c.tensor("mat2").data.transpose(1, 2))};
}

// Vectors become matrices, batches broadcast, and everything is one batched product.
Result<Tensors> run_matmul(const RefContext& c) {
  Tensor x = c.tensor("self").data, w = c.tensor("other").data;
  if (x.shape.size() == 1) x = x.reshape({1, x.shape[0]});
  if (w.shape.size() == 1) w = w.reshape({w.shape[0], 1});
  std::vector<int64_t> batch(std::max(x.shape.size(), w.shape.size()) - 2, 1);
  for (const Tensor* t : {&x, &w})
    for (size_t i = 0; i + 2 < t->shape.size(); ++i) {
      int64_t& size = batch[batch.size() - (t->shape.size() - 2) + i];
      if (size == 1) size = t->shape[i];
    }
  int64_t count = count_of(batch);
  auto flatten = [&](const Tensor& t) {
    std::vector<int64_t> shape = batch;
    shape.insert(shape.end(), t.shape.end() - 2, t.shape.end());
    return broadcast_to(t, shape).reshape({count, shape[shape.size() - 2], shape.back()});
  };
  return Tensors{batched(c, flatten(x), flatten(w).transpose(1, 2))};
}

Result<Tensors> run_weight_int8pack_mm(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  const Tensor& w = c.tensor("mat2").data;
  std::vector<double> scales = read_doubles(c.tensor("scales").data);
  size_t n = scales.size();
  return Tensors{finish_doubles(c, multiply(read_doubles(x), x.shape[0], w),
                                [&](size_t i, double v) { return v * scales[i % n]; })};
}

// ---- qcg.linear -----------------------------------------------------------------------------------------------------

std::vector<int64_t> all_or(std::span<const int64_t> some, int64_t count) {
  std::vector<int64_t> all(some.begin(), some.end());
  if (all.empty()) {
    all.resize(count);
    std::iota(all.begin(), all.end(), 0);
  }
  return all;
}

// x of the chosen rows: [rows, K], without scales and zero points.
std::vector<double> gather_rows(const LinearOperands& p, const std::vector<int64_t>& rows, int64_t k) {
  std::vector<double> x(rows.size() * k);
  int64_t at = 0;
  for (const Tensor& source : p.xs) {
    int64_t width = source.shape.back();
    Tensor flat = source.reshape({rows_of(source), width});
    for (size_t i = 0; i < rows.size() && width > 0; ++i)
      read_run(flat, flat.offset + rows[i] * flat.strides[0], flat.strides[1], width, x.data() + i * k + at);
    at += width;
  }
  return x;
}

// The zero point of each chosen row; empty: all 0.
std::vector<double> gather_zeros(const LinearOperands& p, const std::vector<int64_t>& rows) {
  if (!p.x_zero.bound()) return {};
  const std::vector<double> all = read_doubles(p.x_zero);
  std::vector<double> out;
  for (int64_t row : rows) out.push_back(all[all.size() == 1 ? 0 : row]);
  return out;
}

// w^ of one row. With one scale per row the scale stays out, so that integers are multiplied exactly and scaled once.
struct WeightRows {
  const LinearOperands& p;
  const LinearSegment& segment;
  int64_t k;
  int64_t group;  // elements that share a scale
  int64_t groups;
  std::vector<double> scales, zeros, offsets, bias;

  WeightRows(const LinearOperands& operands, const LinearSegment& s)
      : p(operands),
        segment(s),
        k(s.weight.shape[1]),
        group(operands.group > 0 ? operands.group : std::max<int64_t>(k, 1)),
        groups(operands.group > 0 ? (k + group - 1) / group : 1) {
    if (s.scales.bound()) scales = read_doubles(s.scales);
    if (s.zeros.bound()) zeros = read_doubles(s.zeros);
    if (s.offsets.bound()) offsets = read_doubles(s.offsets);
    if (s.bias.bound()) bias = read_doubles(s.bias);
  }
  void read(int64_t n, std::vector<double>& row) const {
    row.resize(k);
    const Tensor& w = segment.weight;
    const WeightInfo& info = scheme_info(p.scheme).weight;
    read_run(w, w.offset + n * w.strides[0], w.strides[1], k, row.data());
    if (info.values)
      for (double& v : row) v = value_of(info, static_cast<int>(v));
    for (int64_t g = 0; g < groups; ++g) {
      const double zero = zeros.empty() ? 0 : zeros[n * groups + g];
      const double scale = !scales.empty() && scale_inside() ? scales[n * groups + g] : 1;
      const double offset = offsets.empty() ? 0 : offsets[n * groups + g];
      for (int64_t i = g * group; i < std::min(k, (g + 1) * group); ++i) row[i] = (row[i] - zero) * scale + offset;
    }
  }
  // The magnitudes of a row that rounding errors follow: kernels sum codes times scales and offsets apart, and the two
  // sums may cancel.
  const std::vector<double>& magnitudes(int64_t n, const std::vector<double>& row, std::vector<double>& room) const {
    if (offsets.empty()) return row;
    room.resize(k);
    for (int64_t i = 0; i < k; ++i) {
      const double offset = offsets[n * groups + i / group];
      room[i] = std::abs(row[i] - offset) + std::abs(offset);
    }
    return room;
  }
  bool scale_inside() const { return groups > 1 || !offsets.empty(); }
  double row_scale(int64_t n) const { return !scales.empty() && !scale_inside() ? scales[n] : 1; }
  double row_bias(int64_t n) const { return bias.empty() ? 0 : bias[n]; }
};

Status check_operands(const LinearOperands& p, size_t segment, const std::vector<int64_t>& rows,
                      const std::vector<int64_t>& columns) {
  auto fail = [](std::string message) {
    return Error::bad_input("reference_linear", std::move(message), "give the tensors that the scheme needs");
  };
  if (segment >= p.segments.size() || p.xs.empty()) return fail("no such segment, or no activation");
  const LinearSegment& s = p.segments[segment];
  const SchemeInfo& scheme = scheme_info(p.scheme);
  if (!s.weight.in_bounds() || s.weight.shape.size() != 2) return fail("the weight is no [N, K] tensor with data");
  int64_t n = s.weight.shape[0], k = s.weight.shape[1], width = 0, m = -1;
  for (const Tensor& x : p.xs) {
    if (!x.in_bounds() || x.shape.empty() || (m >= 0 && rows_of(x) != m))
      return fail("an activation has no data or other rows");
    m = rows_of(x);
    width += x.shape.back();
  }
  if (width != k) return fail(fmt::format("activations of width {} for a weight of width {}", width, k));
  int64_t groups = p.group > 0 ? (k + p.group - 1) / p.group : 1;
  auto fits = [](const Tensor& t, int64_t count) { return !t.bound() || (t.in_bounds() && t.numel() == count); };
  if (!fits(s.scales, n * groups) || !fits(s.zeros, n * groups) || !fits(s.offsets, n * groups) || !fits(s.bias, n))
    return fail("scales, zeros, offsets or bias of another size");
  if (scheme.has_scales && !s.scales.bound()) return fail("no scales");
  if (scheme.quantized_activation && !p.x_scale.bound()) return fail("no x_scale");
  auto fits_rows = [&](const Tensor& t) { return fits(t, m) || fits(t, 1); };
  if (!fits_rows(p.x_scale) || !fits_rows(p.x_zero)) return fail("x_scale or x_zero of another size");
  for (int64_t r : rows)
    if (r < 0 || r >= m) return fail("a row out of range");
  for (int64_t column : columns)
    if (column < 0 || column >= n) return fail("a column out of range");
  return {};
}

}  // namespace

std::vector<double> apply_epilogue(const RefContext& c, const Expr& e, const std::vector<int64_t>& shape,
                                   std::span<const std::span<const double>> sums) {
  int64_t count = count_of(shape);
  std::vector<std::vector<double>> operands;
  auto tensors = c.tensors("operands");
  std::vector<bool> read(tensors.size());
  for (int i : e.leaves(ExprKind::in)) read[i] = true;
  for (size_t k = 0; k < tensors.size(); ++k)  // operands of other outputs need not fit this one
    operands.push_back(read[k] ? read_doubles(broadcast_to(tensors[k]->data, shape)) : std::vector<double>());
  std::vector<double> accs(sums.size()), ins(operands.size()), out(count);
  for (int64_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < accs.size(); ++j) accs[j] = static_cast<size_t>(i) < sums[j].size() ? sums[j][i] : 0;
    for (size_t k = 0; k < operands.size(); ++k) ins[k] = read[k] ? operands[k][i] : 0;
    out[i] = e.evaluate(accs, ins);
  }
  return out;
}

namespace {

Result<Tensors> run_qcg_linear(const RefContext& c) {
  LinearOperands p = linear_operands(c.graph, c.node);
  for (const RefValue* x : c.tensors("xs")) p.xs.push_back(x->data);
  if (const RefValue* v = c.optional_tensor("x_scale")) p.x_scale = v->data;
  if (const RefValue* v = c.optional_tensor("x_zero")) p.x_zero = v->data;
  std::vector<LinearReference> segments;
  for (size_t j = 0; j < p.segments.size(); ++j) {
    QCG_TRY(segment, reference_linear(p, j));
    segments.push_back(std::move(segment));
  }
  std::vector<std::span<const double>> sums;
  for (const LinearReference& segment : segments) sums.emplace_back(segment.y);
  const auto& epilogue = *c.node.arg("epilogue").get<std::vector<Expr>>();
  Tensors results;
  for (size_t i = 0; i < epilogue.size(); ++i)
    results.push_back(store_results(c.dtype(i), c.sizes(i), apply_epilogue(c, epilogue[i], c.sizes(i), sums)));
  return results;
}

constexpr RefRow kLinearRules[] = {
    {"aten.linear.default", run_linear}, {"aten.mm.default", run_mm},
    {"aten._int_mm.default", run_mm},    {"aten.addmm.default", run_addmm},
    {"aten.bmm.default", run_bmm},       {"aten.matmul.default", run_matmul},
    {"qcg.matmul", run_matmul},          {"aten._weight_int8pack_mm.default", run_weight_int8pack_mm},
    {"qcg.linear", run_qcg_linear},
};

}  // namespace

LinearOperands linear_operands(const Graph& graph, const Node& node) {
  LinearOperands p;
  p.scheme = scheme_from_name(*node.arg("scheme").get<std::string>()).value_or(Scheme::dense);
  p.group = node.arg("group").get<Dim>()->constant();
  auto list = [&](std::string_view name) -> const std::vector<ValueId>& {
    return *node.arg(name).get<std::vector<ValueId>>();
  };
  auto data = [&](ValueId id) { return id == kNoValue ? Tensor() : graph.value(id).data; };
  for (size_t j = 0; j < list("weights").size(); ++j)
    p.segments.push_back({data(list("weights")[j]), data(list("scales")[j]), data(list("zeros")[j]),
                          data(list("biases")[j]), data(list("offsets")[j])});
  return p;
}

Result<LinearReference> reference_linear(const LinearOperands& p, size_t segment, std::span<const int64_t> rows,
                                         std::span<const int64_t> columns) {
  bool usable = segment < p.segments.size() && p.segments[segment].weight.shape.size() == 2 && !p.xs.empty() &&
                !p.xs[0].shape.empty();
  if (!usable) return check_operands(p, segment, {}, {}).error();
  std::vector<int64_t> m = all_or(rows, rows_of(p.xs[0]));
  std::vector<int64_t> n = all_or(columns, p.segments[segment].weight.shape[0]);
  QCG_CHECK(check_operands(p, segment, m, n));
  WeightRows weights(p, p.segments[segment]);
  std::vector<double> x = gather_rows(p, m, weights.k), apart;  // apart: |x| + |zero point|
  const std::vector<double> zeros = gather_zeros(p, m);
  if (p.zeros_apart) apart = x;
  for (size_t i = 0; i < zeros.size(); ++i)
    for (int64_t at = i * weights.k; at < static_cast<int64_t>(i + 1) * weights.k; ++at) {
      x[at] -= zeros[i];
      if (p.zeros_apart) apart[at] = std::abs(apart[at]) + std::abs(zeros[i]);
    }
  const std::vector<double>& magnitudes = p.zeros_apart ? apart : x;
  std::vector<double> x_scale = p.x_scale.bound() ? read_doubles(p.x_scale) : std::vector<double>();
  LinearReference out{std::vector<double>(m.size() * n.size()), std::vector<double>(m.size() * n.size())};
  const auto count = static_cast<int64_t>(n.size());
  for_each_part(count, static_cast<int64_t>(m.size()) * weights.k, [&](int64_t first, int64_t last) {
    std::vector<double> row, room;
    for (int64_t j = first; j < last; ++j) {
      if (weights.k > 0) weights.read(n[j], row);
      const std::vector<double>& terms = weights.magnitudes(n[j], row, room);
      for (size_t i = 0; i < m.size(); ++i) {
        double scale = weights.row_scale(n[j]) * (x_scale.empty() ? 1 : x_scale[x_scale.size() == 1 ? 0 : m[i]]);
        const int64_t at = i * weights.k;
        out.y[i * count + j] = dot(x.data() + at, row.data(), weights.k) * scale + weights.row_bias(n[j]);
        out.abs_sum[i * count + j] = dot_abs(magnitudes.data() + at, terms.data(), weights.k) * std::abs(scale) +
                                     std::abs(weights.row_bias(n[j]));
      }
    }
  });
  return out;
}

std::vector<double> multiply_rows(const std::vector<double>& x, int64_t m, const Tensor& w) {
  return multiply(x, m, w);
}

std::span<const RefRow> reference_linears() { return kLinearRules; }

}  // namespace qcg

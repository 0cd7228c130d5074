// What the oracle's rules share: access to the values of a node's arguments, dense reads, making results.
//
// Why here: the rules are one small function per op, spread over the files of this folder; reference.cpp runs them.
//
//   Result<Tensors> run_neg(const RefContext& c) { … read_doubles(c.tensor("self").data) … make_doubles(c.sizes(0), v) … }
//
// A value is held as f64 or i64 whatever its dtype, in its own dtype as parameters and inputs are, or in one that holds
// it exactly: reads convert.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "base/affinity.h"
#include "base/parallel.h"
#include "graph/ir/graph.h"
#include "graph/ops/op_table.h"
#include "graph/oracle/reference.h"

namespace qcg {

using Tensors = std::vector<Tensor>;

struct RefValue {
  Tensor data;               // unbound until computed
  DType dtype = DType::f32;  // the graph's
  bool constant = false;     // depends on parameters only
};

struct RefContext {
  const Graph& graph;
  const Node& node;
  const SymbolValues& symbols;
  const std::vector<RefValue>& values;
  bool emulate_casts;

  const RefValue& tensor(std::string_view name) const { return values[node.tensor(name)]; }
  const RefValue* optional_tensor(std::string_view name) const;
  std::vector<const RefValue*> tensors(std::string_view name) const;  // nullptr where absent
  int64_t integer(std::string_view name) const { return evaluate(*node.arg(name).get<Dim>()); }
  int64_t integer_or(std::string_view name, int64_t otherwise) const;
  double number(std::string_view name) const;  // any scalar
  bool has(std::string_view name) const { return !node.arg(name).is_none(); }
  size_t axis(std::string_view name, size_t rank) const;
  int64_t evaluate(const Dim& d) const { return d.evaluate(symbols).value_or(0); }
  std::vector<int64_t> evaluate(const Shape& shape) const;
  std::vector<int64_t> sizes(size_t output) const { return evaluate(graph.value(node.outputs[output]).shape); }
  std::vector<int64_t> broadcast_sizes(std::string_view a, std::string_view b) const;  // of two tensors together
  DType dtype(size_t output) const { return graph.value(node.outputs[output]).dtype; }
};

inline int64_t count_of(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Calls f(first, last) for parts of n rows, columns or elements, each of about a million operations; the processors share
// what takes longer than threads take to start. A part is a multiple of 8, except the last.
template <class F>
void for_each_part(int64_t n, int64_t operations_each, F&& f) {
  constexpr int64_t kOperations = int64_t{1} << 20, kMultiple = 8;
  const int64_t each = kOperations / std::max<int64_t>(operations_each, 1) / kMultiple * kMultiple;
  const int64_t step = std::clamp(each, kMultiple, n + kMultiple), parts = (n + step - 1) / step;
  const int threads = parts >= 4 ? usable_cpus() : 1;
  in_parallel(static_cast<size_t>(parts), static_cast<size_t>(threads), [&](size_t part) {
    const int64_t first = static_cast<int64_t>(part) * step;
    f(first, std::min(n, first + step));
  });
}

// Dense, row-major.
std::vector<double> read_doubles(const Tensor& t);
std::vector<int64_t> read_ints(const Tensor& t);
// `count` elements from element `from` on, `stride` apart, of the tensor's storage.
void read_run(const Tensor& t, int64_t from, int64_t stride, int64_t count, double* out);
void read_run(const Tensor& t, int64_t from, int64_t stride, int64_t count, int64_t* out);

Tensor make_doubles(std::vector<int64_t> shape, std::vector<double> values);
Tensor make_floats(std::vector<int64_t> shape, std::vector<float> values);  // exact ones
Tensor make_ints(std::vector<int64_t> shape, std::vector<int64_t> values);

// Results of an expression: doubles, or integers (truncated, wrapped) when that is what the graph stores.
Tensor store_results(DType dtype, std::vector<int64_t> shape, std::vector<double> values);

// What an epilogue of the node gives for each element of `shape`, from sums and the node's operands.
std::vector<double> apply_epilogue(const RefContext& c, const Expr& e, const std::vector<int64_t>& shape,
                                   std::span<const std::span<const double>> sums);

// Dense, held as `dtype` itself: floats are rounded, integers wrap.
Tensor held_as(DType dtype, const Tensor& t);

// The elements of each group that a reduction over `reduced` axes folds, in the order of the result.
std::vector<std::vector<double>> groups_of(const Tensor& t, const std::vector<bool>& reduced);

// (sum |x|^p)^(1/p); the largest or smallest |x| for p = inf and -inf, and how many are not 0 for p = 0.
double norm_of(const std::vector<double>& x, double p);

// Element `k` of output `number` is element from(its index) of x; -1: 0.
template <class F>
Tensor arranged(const RefContext& c, size_t number, const Tensor& x, F&& from) {
  const std::vector<int64_t> shape = c.sizes(number);
  const std::vector<double> values = read_doubles(x);
  std::vector<double> out;
  std::vector<int64_t> index(shape.size());
  for (int64_t k = 0; k < count_of(shape); ++k) {
    int64_t rest = k;
    for (size_t i = shape.size(); i-- > 0; rest /= shape[i]) index[i] = rest % shape[i];
    const int64_t at = from(index);
    out.push_back(at < 0 ? 0 : values[static_cast<size_t>(at)]);
  }
  return store_results(c.dtype(number), shape, std::move(out));
}

inline int64_t element_of(std::span<const int64_t> shape, std::span<const int64_t> index) {
  int64_t at = 0;
  for (size_t i = 0; i < shape.size(); ++i) at = at * shape[i] + index[i];
  return at;
}

// A view under numpy's broadcasting: missing and size-1 axes get stride 0.
Tensor broadcast_to(const Tensor& t, const std::vector<int64_t>& shape);

// As eager torch does it on a CPU: half types compute in f32 and round once more.
double round_as_eager(DType dtype, double v);
int64_t wrap_to_dtype(DType dtype, int64_t v);

// What the rules of quantization share. The dtype of an operation on two tensors with axes, the larger and the smaller
// of two numbers as torch takes them (NaN if the first is), and a whole number, or NaN, as an integer of the dtype.
DType promote(DType a, DType b);
inline double max_nan(double a, double b) { return std::isnan(a) || a > b ? a : b; }
inline double min_nan(double a, double b) { return std::isnan(a) || a < b ? a : b; }
int64_t to_integer(DType dtype, double v);

// Two's complement arithmetic modulo 2^64; the caller wraps to the dtype.
inline int64_t add_wrap(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t sub_wrap(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t mul_wrap(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline int64_t power_wrap(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2) result = mul_wrap(result, base);
    base = mul_wrap(base, base);
  }
  return result;
}

// quantized_decomposed's rows, choose_qparams_per_token and quantize_per_token: the parameters of one row of `dtype`,
// and a function that quantizes with them. scale_dtype is what the scale, its inverse and the products are held in.
struct RowParameters {
  double scale, zero;
};
RowParameters choose_row_parameters(DType dtype, bool symmetric, std::span<const double> row);
int64_t quantize_per_token(DType dtype, DType scale_dtype, double x, RowParameters p, double low, double high);

using RefRule = Result<Tensors> (*)(const RefContext&);
struct RefRow {
  Op op;
  RefRule rule;
};
// The rules of those that have no row here: what a pointwise op's formula says (ops/formula.h), and a view's strides
// (ops/strides.h).
Result<Tensors> run_formula(const RefContext& c);
Result<Tensors> run_strides(const RefContext& c);
std::span<const RefRow> reference_views();
std::span<const RefRow> reference_pointwise();
std::span<const RefRow> reference_composed();
std::span<const RefRow> reference_layers();
std::span<const RefRow> reference_interpolation();
std::span<const RefRow> reference_spelled();
std::span<const RefRow> reference_linears();
std::span<const RefRow> reference_packed();
std::span<const RefRow> reference_quantize();
std::span<const RefRow> reference_decomposed();
std::span<const RefRow> reference_coded();
std::span<const RefRow> reference_constant();
std::span<const RefRow> reference_attention();
std::span<const RefRow> reference_along_axis();
std::span<const RefRow> reference_library();
std::span<const RefRow> reference_groups();
std::span<const RefRow> reference_writes();
std::span<const RefRow> reference_rows();
std::span<const RefRow> reference_fourier();
std::span<const RefRow> reference_losses();
std::span<const RefRow> reference_functions();
std::span<const RefRow> reference_sums();
std::span<const RefRow> reference_arrangements();

// y[m, n] = sum_k x[m, k] * w[n, k]; x dense, w [N, K].
std::vector<double> multiply_rows(const std::vector<double>& x, int64_t m, const Tensor& w);

}  // namespace qcg

// Fourier transforms as products with matrices of cosines and sines, an axis at a time.
//
//   _fft_r2c(x [b, n], [1])   ->   reshape(linear(x, W [2k, n]), [b, k, 2])        W: rows cos, -sin of each frequency
//
// A pair is two elements of a row, so that one product does all of it. Where the size is known the matrix is a
// parameter, computed in double; else it is computed at run time.
#include <cmath>
#include <numbers>

#include "graph/ir/elements.h"
#include "graph/ops/infer.h"
#include "graph/passes/library/library.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

struct Transform {
  bool from_real = false, to_real = false, forward = true;
  Dim size;      // of what the transform is of
  Dim from, to;  // elements, or pairs, of a row before and after
  int64_t normalization = 0;
};

double scale_of(const Transform& t, double size) {
  return t.normalization == 0 ? 1 : t.normalization == 1 ? 1 / std::sqrt(size) : 1 / size;
}

// [to, from] with the parts of each pair behind it. In a transform from half of the frequencies to real numbers, each
// frequency but the first and the middle one stands for two, and those behind the middle for none.
Tensor matrix_of(const Transform& t, DType dtype) {
  const int64_t n = t.size.constant(), from = t.from.constant(), to = t.to.constant();
  const int64_t in = t.from_real ? 1 : 2, out = t.to_real ? 1 : 2;
  const double scale = scale_of(t, static_cast<double>(n)), sign = t.forward ? -1 : 1;
  std::vector<double> w(static_cast<size_t>(from * in * to * out));
  for (int64_t k = 0; k < to; ++k)
    for (int64_t j = 0; j < from; ++j) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
      const double times = !t.to_real || j == 0 || 2 * j == n ? scale : 2 * j > n ? 0 : 2 * scale;
      const double parts[2][2] = {{times * std::cos(angle), -times * sign * std::sin(angle)},
                                  {times * sign * std::sin(angle), times * std::cos(angle)}};  // [out][in]
      for (int64_t o = 0; o < out; ++o)
        for (int64_t i = 0; i < in; ++i) w[static_cast<size_t>(((k * out + o) * from + j) * in + i)] = parts[o][i];
    }
  std::vector<int64_t> shape = {to * out, from * in};
  if (dtype == DType::f64) return make_tensor(dtype, std::move(shape), Elements<double>(std::move(w)));
  return make_tensor(DType::f32, std::move(shape), Elements<float>(std::vector<float>(w.begin(), w.end())));
}

// The same of a size that is known at run time, [from, in, to, 2]: cosines and sines of whole parts of a turn.
ValueId matrix_at_run_time(OpEmitter& e, const Transform& t) {
  const auto steps = [&](const Dim& count, const Shape& shape) {
    return e.reshape(e.op("aten.arange.default", {{"end", count}}), shape);
  };
  const ValueId products = e.binary("aten.mul.Tensor", steps(t.from, {t.from, Dim(1)}), steps(t.to, {Dim(1), t.to}));
  // A tensor, because a size may be 0.
  const ValueId size = e.op("aten.full.default", {{"size", Shape()}, {"fill_value", t.size}, {"dtype", DType::i64}});
  const ValueId rest = e.to(e.binary("aten.remainder.Tensor", products, size), DType::f32);
  const ValueId angle = e.binary("aten.mul.Tensor", e.binary("aten.div.Tensor", rest, t.size), 2 * std::numbers::pi);
  const ValueId cos = e.unary("aten.cos.default", angle), sin = e.unary("aten.sin.default", angle);
  const ValueId minus = e.unary("aten.neg.default", sin);
  const auto stack = [&](const Values& parts, int64_t axis) {
    return e.op("aten.stack.default", {{"tensors", parts}, {"dim", Dim(axis)}});
  };
  const ValueId of_real = stack({cos, t.forward ? minus : sin}, -1);
  if (t.from_real) return e.reshape(of_real, {t.from, t.to * Dim(2)});
  return e.reshape(stack({of_real, stack({t.forward ? sin : minus, cos}, -1)}, 1), {t.from * Dim(2), t.to * Dim(2)});
}

ValueId scaled_at_run_time(OpEmitter& e, ValueId y, const Transform& t) {
  if (t.normalization == 0) return y;
  if (t.normalization == 2) return e.binary("aten.div.Tensor", y, t.size);
  const ValueId size = e.op("aten.full.default", {{"size", Shape()}, {"fill_value", t.size}, {"dtype", DType::f32}});
  return e.binary("aten.mul.Tensor", y, e.unary("aten.rsqrt.default", size));
}

ValueId transformed(OpEmitter& e, const Graph& graph, ValueId x, size_t axis, const Transform& t) {
  if (!e.status().ok()) return x;
  const DType dtype = graph.value(x).dtype;
  const size_t rank = graph.value(x).shape.size() - (t.from_real ? 0 : 1);
  std::vector<Dim> order, back;
  for (size_t i = 0; i < rank; ++i)
    if (i != axis) order.push_back(axis_number(i));
  order.push_back(axis_number(axis));
  for (size_t i = 0; i < rank; ++i) back.push_back(axis_number(i < axis ? i : i == axis ? rank - 1 : i - 1));
  const auto permuted = [&](ValueId v, std::vector<Dim> dims, bool pairs) {
    if (axis + 1 == rank) return v;
    if (pairs) dims.push_back(axis_number(rank));
    return e.op("aten.permute.default", {{"self", v}, {"dims", dims}});
  };
  x = permuted(x, order, !t.from_real);
  Shape rows = graph.value(x).shape;
  if (!t.from_real) rows.pop_back();
  rows.back() = t.from_real ? t.from : t.from * Dim(2);
  x = e.reshape(x, rows);
  ValueId y = 0;
  if (t.size.is_constant()) {
    y = e.op("aten.linear.default", {{"input", x}, {"weight", e.parameter("fourier", matrix_of(t, dtype))}});
  } else {
    y = scaled_at_run_time(
        e, e.op("aten.matmul.default", {{"self", x}, {"other", e.to(matrix_at_run_time(e, t), dtype)}}), t);
  }
  rows.back() = t.to;
  if (!t.to_real) rows.emplace_back(2);
  return permuted(e.reshape(y, rows), back, !t.to_real);
}

// From real numbers the last axis comes first, to real numbers it comes last: that halves the work of the other axes.
Values write_fourier(OpEmitter& e, const Graph& graph, const Node& node) {
  const bool from_real = node.op->arg_index("onesided") >= 0, to_real = node.op->arg_index("last_dim_size") >= 0;
  ValueId x = e.widened(node.tensor("self"));
  const Shape given = graph.value(node.tensor("self")).shape;
  const size_t rank = given.size() - (from_real ? 0 : 1);
  Transform t;
  t.normalization = node.arg("normalization").get<Dim>()->constant();
  t.forward = from_real || (!to_real && *node.arg("forward").get<bool>());
  std::vector<size_t> axes;
  for (const Dim& d : OpArgs{graph, node}.dims("dim")) axes.push_back(*as_axis(Arg(d), rank));
  const auto last = [&] {
    Transform of = t;
    of.from_real = from_real, of.to_real = to_real;
    of.size = to_real ? *node.arg("last_dim_size").get<Dim>() : given[axes.back()];
    of.from = given[axes.back()];
    of.to = to_real ? of.size : graph.value(node.outputs[0]).shape[axes.back()];
    x = transformed(e, graph, x, axes.back(), of);
  };
  if (from_real) last();
  for (size_t i = 0; i + 1 < axes.size() || (i < axes.size() && !from_real && !to_real); ++i) {
    t.size = t.from = t.to = given[axes[i]];
    x = transformed(e, graph, x, axes[i], t);
  }
  if (to_real) last();
  return {x};
}

constexpr LibraryOp kFourierOps[] = {
    {"aten._fft_r2c.default", write_fourier},
    {"aten._fft_c2r.default", write_fourier},
    {"aten._fft_c2c.default", write_fourier},
};

}  // namespace

std::span<const LibraryOp> library_fourier() { return kFourierOps; }

}  // namespace qcg

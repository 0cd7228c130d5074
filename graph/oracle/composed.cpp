// The oracle's rules for softmax, the norms, extremes of an axis, glu, prelu and baddbmm: in double, rounded once, from
// their formulas and not from what decompose.cpp makes of them.
#include <algorithm>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

// An axis of a dense tensor: `outer` times `size` elements, `inner` apart.
struct Axis {
  int64_t outer = 1, size = 1, inner = 1;
};
Axis split_at(const std::vector<int64_t>& shape, size_t axis) {
  Axis a;
  for (size_t i = 0; i < shape.size(); ++i) (i < axis ? a.outer : i == axis ? a.size : a.inner) *= shape[i];
  return a;
}

// The tensor seen as rows of the axes that normalized_shape lists.
struct Rows {
  int64_t count = 1, size = 1;
};
Rows normalized_rows(const RefContext& c) {
  const std::vector<int64_t>& shape = c.tensor("input").data.shape;
  const size_t lead = shape.size() - c.node.arg("normalized_shape").get<std::vector<Dim>>()->size();
  Rows r;
  for (size_t i = 0; i < shape.size(); ++i) (i < lead ? r.count : r.size) *= shape[i];
  return r;
}

std::vector<double> parameter(const RefContext& c, std::string_view name) {
  const RefValue* v = c.optional_tensor(name);
  return v ? read_doubles(v->data) : std::vector<double>();
}

Result<Tensors> run_softmax(const RefContext& c) {
  const bool logarithm = c.node.op->name.find("log") != std::string::npos;
  std::vector<double> y = read_doubles(c.tensor("self").data);
  const Axis a = split_at(c.sizes(0), c.axis("dim", c.sizes(0).size()));
  for (int64_t row = 0; row < a.outer * a.inner; ++row) {
    double* first = y.data() + row / a.inner * a.size * a.inner + row % a.inner;
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < a.size; ++i) largest = std::max(largest, first[i * a.inner]);
    for (int64_t i = 0; i < a.size; ++i) sum += std::exp(first[i * a.inner] - largest);
    for (int64_t i = 0; i < a.size; ++i) {
      double& v = first[i * a.inner];
      v = logarithm ? v - largest - std::log(sum) : std::exp(v - largest) / sum;
    }
  }
  return Tensors{make_doubles(c.sizes(0), std::move(y))};
}

// layer_norm has the result alone, native_layer_norm also mean and 1 / deviation.
Result<Tensors> run_layer_norm(const RefContext& c) {
  const Rows rows = normalized_rows(c);
  std::vector<double> y = read_doubles(c.tensor("input").data), means, inverses;
  const std::vector<double> weight = parameter(c, "weight"), bias = parameter(c, "bias");
  for (int64_t row = 0; row < rows.count; ++row) {
    double* x = y.data() + row * rows.size;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < rows.size; ++i) mean += x[i] / static_cast<double>(rows.size);
    for (int64_t i = 0; i < rows.size; ++i) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(rows.size);
    const double inverse = 1 / std::sqrt(variance + c.number("eps"));
    for (int64_t i = 0; i < rows.size; ++i)
      x[i] = (x[i] - mean) * inverse * (weight.empty() ? 1 : weight[i]) + (bias.empty() ? 0 : bias[i]);
    means.push_back(mean);
    inverses.push_back(inverse);
  }
  Tensors out{make_doubles(c.sizes(0), std::move(y))};
  if (c.node.outputs.size() == 1) return out;
  out.push_back(make_doubles(c.sizes(1), std::move(means)));
  out.push_back(make_doubles(c.sizes(2), std::move(inverses)));
  return out;
}

Result<Tensors> run_rms_norm(const RefContext& c) {
  const Rows rows = normalized_rows(c);
  std::vector<double> y = read_doubles(c.tensor("input").data);
  const std::vector<double> weight = parameter(c, "weight");
  const double eps = c.has("eps") ? c.number("eps") : rms_norm_eps(c.tensor("input").dtype);
  for (int64_t row = 0; row < rows.count; ++row) {
    double* x = y.data() + row * rows.size;
    double mean = 0;
    for (int64_t i = 0; i < rows.size; ++i) mean += x[i] * x[i] / static_cast<double>(rows.size);
    for (int64_t i = 0; i < rows.size; ++i) x[i] *= (weight.empty() ? 1 : weight[i]) / std::sqrt(mean + eps);
  }
  return Tensors{make_doubles(c.sizes(0), std::move(y))};
}

Result<Tensors> run_batch_norm(const RefContext& c) {
  std::vector<double> y = read_doubles(c.tensor("input").data);
  std::vector<double> mean = parameter(c, "running_mean"), variance = parameter(c, "running_var");
  const std::vector<double> weight = parameter(c, "weight"), bias = parameter(c, "bias");
  const Axis a = split_at(c.sizes(0), 1);
  if (is_of_batch(c.node)) {
    const auto each = static_cast<double>(a.outer * a.inner);
    const auto over_channels = [&](auto element) {
      std::vector<double> out(static_cast<size_t>(a.size), 0.0);
      for (size_t i = 0; i < y.size(); ++i) {
        const size_t channel = i / static_cast<size_t>(a.inner) % static_cast<size_t>(a.size);
        out[channel] += element(y[i], channel) / each;
      }
      return out;
    };
    mean = over_channels([](double v, size_t) { return v; });
    variance = over_channels([&](double v, size_t channel) { return (v - mean[channel]) * (v - mean[channel]); });
  }
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t channel = i / static_cast<size_t>(a.inner) % static_cast<size_t>(a.size);
    y[i] = (y[i] - mean[channel]) / std::sqrt(variance[channel] + c.number("eps")) *
               (weight.empty() ? 1 : weight[channel]) +
           (bias.empty() ? 0 : bias[channel]);
  }
  Tensors out{make_doubles(c.sizes(0), std::move(y))};
  for (size_t i = 1; i < c.node.outputs.size(); ++i) out.push_back(make_doubles(c.sizes(i), {}));
  return out;
}

// A NaN is the extreme of its line; of equal elements the first counts.
Result<Tensors> run_extreme_of_axis(const RefContext& c) {
  const Tensor& self = c.tensor("self").data;
  const bool largest = is_op(c.node, "aten.max.dim");
  const Axis a = split_at(self.shape, self.shape.empty() ? 0 : c.axis("dim", self.shape.size()));
  std::vector<int64_t> positions;
  const auto pick = [&]<class T>(const std::vector<T>& x) {
    std::vector<T> out;
    for (int64_t row = 0; row < a.outer * a.inner; ++row) {
      const T* first = x.data() + row / a.inner * a.size * a.inner + row % a.inner;
      int64_t best = 0;
      for (int64_t i = 1; i < a.size; ++i) {
        const T v = first[i * a.inner], b = first[best * a.inner];
        if (b == b && (v != v || (largest ? v > b : v < b))) best = i;
      }
      out.push_back(first[best * a.inner]);
      positions.push_back(best);
    }
    return out;
  };
  const auto sizes = c.sizes(0);
  Tensor values =
      is_floating(c.dtype(0)) ? make_doubles(sizes, pick(read_doubles(self))) : make_ints(sizes, pick(read_ints(self)));
  return Tensors{std::move(values), make_ints(c.sizes(1), std::move(positions))};
}

Result<Tensors> run_glu(const RefContext& c) {
  const std::vector<double> x = read_doubles(c.tensor("self").data);
  const std::vector<int64_t> shape = c.sizes(0);
  const Axis a = split_at(shape, c.axis("dim", shape.size()));
  std::vector<double> y;
  for (int64_t i = 0; i < a.outer * a.size * a.inner; ++i) {
    const int64_t half = a.size * a.inner, at = i / half * 2 * half + i % half;
    y.push_back(x[at] / (1 + std::exp(-x[at + half])));
  }
  return Tensors{make_doubles(shape, std::move(y))};
}

Result<Tensors> run_prelu(const RefContext& c) {
  std::vector<double> y = read_doubles(c.tensor("self").data);
  const std::vector<double> slopes = read_doubles(c.tensor("weight").data);
  const std::vector<int64_t> shape = c.sizes(0);
  const Axis a = split_at(shape, shape.size() > 1 ? 1 : shape.size());
  for (size_t i = 0; i < y.size(); ++i)
    if (!(y[i] > 0)) y[i] *= slopes[slopes.size() == 1 ? 0 : static_cast<int64_t>(i) / a.inner % a.size];
  return Tensors{make_doubles(shape, std::move(y))};
}

Result<Tensors> run_baddbmm(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0);
  const std::vector<double> x = read_doubles(c.tensor("batch1").data), w = read_doubles(c.tensor("batch2").data);
  std::vector<double> y = read_doubles(broadcast_to(c.tensor("self").data, shape));
  const int64_t m = shape[1], n = shape[2], k = c.tensor("batch1").data.shape[2];
  const double alpha = c.number("alpha"), beta = c.number("beta");
  for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
    const int64_t batch = i / n / m;
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) sum += x[i / n * k + j] * w[(batch * k + j) * n + i % n];
    y[i] = alpha * sum + (beta == 0 ? 0 : beta * y[i]);  // of beta = 0 torch reads no self, NaN or not
  }
  return Tensors{make_doubles(shape, std::move(y))};
}

Result<Tensors> run_any(const RefContext& c) {
  const bool all = Op(c.node.op).row().name.starts_with("aten.all");
  const Tensor& self = c.tensor("self").data;
  const size_t rank = self.shape.size();
  std::vector<bool> reduced(rank, true);
  if (c.node.op->arg_index("dim") >= 0) {
    const Dim* single = c.node.arg("dim").get<Dim>();
    const auto* some = c.node.arg("dim").get<std::vector<Dim>>();
    std::vector<Dim> axes = some ? *some : std::vector<Dim>();
    if (single) axes.push_back(*single);
    if (!axes.empty()) reduced.assign(rank, false);
    for (const Dim& d : axes)
      if (const auto n = static_cast<int64_t>(rank); n > 0)
        reduced[static_cast<size_t>((c.evaluate(d) + n) % n)] = true;
  }
  int64_t count = 1;
  for (size_t i = 0; i < rank; ++i) count *= reduced[i] ? 1 : self.shape[i];
  std::vector<int64_t> out(static_cast<size_t>(count), all);
  const std::vector<double> x = read_doubles(self);
  for (size_t k = 0; k < x.size(); ++k) {
    int64_t rest = static_cast<int64_t>(k), at = 0, stride = 1;
    for (size_t i = rank; i-- > 0; rest /= self.shape[i]) {
      if (reduced[i]) continue;
      at += rest % self.shape[i] * stride;
      stride *= self.shape[i];
    }
    int64_t& y = out[static_cast<size_t>(at)];
    y = all ? y && x[k] != 0 : y || x[k] != 0;
  }
  return Tensors{make_ints(c.sizes(0), std::move(out))};
}

template <class T>
std::vector<T> differences(std::vector<T> row, int64_t n) {
  for (; n > 0; --n) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      if constexpr (std::is_same_v<T, double>) row[i] = row[i + 1] - row[i];
      else row[i] = sub_wrap(row[i + 1], row[i]);
    }
    row.pop_back();
  }
  return row;
}

Result<Tensors> run_diff(const RefContext& c) {
  const auto run = [&]<class T>(auto&& read, T) {
    const std::vector<int64_t> shape = c.sizes(0);
    const size_t axis = c.axis("dim", shape.size());
    const Axis out = split_at(shape, axis);
    std::vector<T> y(static_cast<size_t>(out.outer * out.size * out.inner));
    for (int64_t row = 0; row < out.outer * out.inner; ++row) {
      std::vector<T> elements;
      for (const char* name : {"prepend", "self", "append"}) {
        const RefValue* part = c.optional_tensor(name);
        if (!part) continue;
        const Axis in = split_at(part->data.shape, axis);
        const std::vector<T> x = read(part->data);
        for (int64_t i = 0; i < in.size; ++i)
          elements.push_back(x[static_cast<size_t>((row / in.inner * in.size + i) * in.inner + row % in.inner)]);
      }
      const std::vector<T> row_out = differences(std::move(elements), c.integer("n"));
      const int64_t first = row / out.inner * out.size * out.inner + row % out.inner;
      for (int64_t i = 0; i < out.size; ++i)
        y[static_cast<size_t>(first + i * out.inner)] = row_out[static_cast<size_t>(i)];
    }
    return y;
  };
  if (is_floating(c.dtype(0))) return Tensors{make_doubles(c.sizes(0), run(read_doubles, 0.0))};
  std::vector<int64_t> y = run(read_ints, int64_t{0});
  for (int64_t& v : y) v = wrap_to_dtype(c.dtype(0), v);
  return Tensors{make_ints(c.sizes(0), std::move(y))};
}

// Where an element beside an axis of `size` comes from; -1: from nowhere.
int64_t continued(std::string_view mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  if (mode == "reflect") return at < 0 ? -at : 2 * (size - 1) - at;
  if (mode == "replicate") return at < 0 ? 0 : size - 1;
  return mode == "circular" ? (at + size) % size : -1;
}

// Element by element.
Result<Tensors> run_pad(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0);
  const Tensor& self = c.tensor("self").data;
  const bool constant = pad_mode(c.node) == "constant";
  const auto& pad = *c.node.arg(c.node.op->arg_index("pad") >= 0 ? "pad" : "padding").get<std::vector<Dim>>();
  const std::vector<double> x = read_doubles(self);
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<double> y;
  for (int64_t k = 0; k < count; ++k) {
    int64_t rest = k, from = 0, stride = 1;
    bool inside = true;
    for (size_t i = shape.size(); i-- > 0; rest /= shape[i], stride *= self.shape[i]) {
      const size_t pair = 2 * (shape.size() - 1 - i);
      const int64_t at =
          continued(pad_mode(c.node), rest % shape[i] - (pair < pad.size() ? c.evaluate(pad[pair]) : 0), self.shape[i]);
      inside = inside && at >= 0;
      from += at * stride;
    }
    y.push_back(inside ? x[static_cast<size_t>(from)] : constant && c.has("value") ? c.number("value") : 0);
  }
  return Tensors{store_results(c.dtype(0), shape, std::move(y))};
}

// clang-format off
constexpr RefRow kComposedRules[] = {
    {"aten.softmax.int", run_softmax},           {"aten.log_softmax.int", run_softmax},
    {"aten._softmax.default", run_softmax},      {"aten._log_softmax.default", run_softmax},
    {"aten.layer_norm.default", run_layer_norm}, {"aten.native_layer_norm.default", run_layer_norm},
    {"aten.any.default", run_any},               {"aten.any.dim", run_any},
    {"aten.any.dims", run_any},                  {"aten.all.default", run_any},
    {"aten.all.dim", run_any},                   {"aten.all.dims", run_any},
    {"aten.diff.default", run_diff},             {"aten.constant_pad_nd.default", run_pad},
    {"aten.pad.default", run_pad},
    {"aten.reflection_pad1d.default", run_pad},  {"aten.reflection_pad2d.default", run_pad},
    {"aten.reflection_pad3d.default", run_pad},  {"aten.replication_pad1d.default", run_pad},
    {"aten.replication_pad2d.default", run_pad}, {"aten.replication_pad3d.default", run_pad},
    {"aten.rms_norm.default", run_rms_norm},     {"aten.glu.default", run_glu},
    {"aten.prelu.default", run_prelu},           {"aten.baddbmm.default", run_baddbmm},
    {"aten.max.dim", run_extreme_of_axis},       {"aten.min.dim", run_extreme_of_axis},
    {"aten.batch_norm.default", run_batch_norm}, {"aten._native_batch_norm_legit_no_training.default", run_batch_norm},
};
// clang-format on

}  // namespace

std::span<const RefRow> reference_composed() { return kComposedRules; }

}  // namespace qcg

// The oracle's rules for what spelled_ops.cpp writes out: einsum, outer, roll, …, element by element.
#include <algorithm>
#include <cmath>

#include "graph/ops/einsum.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

// All labels are counted through: each combination adds one product to one element.
Result<Tensors> run_einsum(const RefContext& c) {
  QCG_TRY(einsum, read_einsum({c.graph, c.node}));
  std::vector<std::vector<double>> x;
  for (const RefValue* v : c.tensors("tensors")) x.push_back(read_doubles(v->data));
  const auto steps_of = [&](const std::string& labels) {  // by label, elements from one to the next
    std::map<char, int64_t> steps;
    int64_t step = 1;
    for (size_t i = labels.size(); i-- > 0; step *= c.evaluate(einsum.sizes.at(labels[i]))) steps[labels[i]] += step;
    return steps;
  };
  std::vector<std::map<char, int64_t>> steps;
  for (const std::string& labels : einsum.inputs) steps.push_back(steps_of(labels));
  steps.push_back(steps_of(einsum.output));
  int64_t all = 1, outputs = 1;
  for (const auto& [label, size] : einsum.sizes) all *= c.evaluate(size);
  for (char label : einsum.output) outputs *= c.evaluate(einsum.sizes.at(label));
  std::vector<double> y(static_cast<size_t>(outputs));
  for (int64_t k = 0; k < all; ++k) {
    std::vector<int64_t> at(steps.size());
    int64_t rest = k;
    for (const auto& [label, size] : einsum.sizes) {
      const int64_t place = rest % c.evaluate(size);
      rest /= c.evaluate(size);
      for (size_t i = 0; i < steps.size(); ++i)
        if (const auto it = steps[i].find(label); it != steps[i].end()) at[i] += place * it->second;
    }
    double product = 1;
    for (size_t i = 0; i < x.size(); ++i) product *= x[i][static_cast<size_t>(at[i])];
    y[static_cast<size_t>(at.back())] += product;
  }
  return Tensors{make_doubles(c.sizes(0), std::move(y))};
}

Result<Tensors> run_outer(const RefContext& c) {
  const std::vector<double> rows = read_doubles(c.tensor("self").data), columns = read_doubles(c.tensor("vec2").data);
  std::vector<double> y;
  for (double row : rows)
    for (double column : columns) y.push_back(row * column);
  return Tensors{store_results(c.dtype(0), c.sizes(0), std::move(y))};
}

Result<Tensors> run_product_of_vector(const RefContext& c) {
  const std::vector<double> x = read_doubles(c.tensor("self").data),
                            v = read_doubles(c.tensor(c.node.op->arg_index("vec") >= 0 ? "vec" : "tensor").data);
  std::vector<double> y(static_cast<size_t>(c.sizes(0).empty() ? 1 : c.sizes(0)[0]));
  for (size_t i = 0; i < y.size(); ++i)
    for (size_t k = 0; k < v.size(); ++k) y[i] += x[i * v.size() + k] * v[k];
  return Tensors{make_doubles(c.sizes(0), std::move(y))};
}

Result<Tensors> run_weight_norm(const RefContext& c) {
  const Tensor& v = c.tensor("v").data;
  std::vector<double> y = read_doubles(v);
  const std::vector<double> g = read_doubles(c.tensor("g").data);
  size_t inner = 1;  // elements from one slice to the next
  for (size_t i = c.axis("dim", v.shape.size()) + 1; i < v.shape.size(); ++i) inner *= static_cast<size_t>(v.shape[i]);
  std::vector<double> squares(g.size());
  for (size_t k = 0; k < y.size(); ++k) squares[k / inner % g.size()] += y[k] * y[k];
  for (size_t k = 0; k < y.size(); ++k) y[k] *= g[k / inner % g.size()] / std::sqrt(squares[k / inner % g.size()]);
  return Tensors{make_doubles(v.shape, std::move(y))};
}

// Element `k` of the result is element from(k) of x, whatever its dtype.
template <class F>
Tensor moved(const RefContext& c, const Tensor& x, F&& from) {
  const std::vector<int64_t> shape = c.sizes(0);
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  const auto pick = [&]<class T>(const std::vector<T>& values) {
    std::vector<T> out;
    for (int64_t k = 0; k < count; ++k) out.push_back(values[static_cast<size_t>(from(k))]);
    return out;
  };
  return is_floating(c.dtype(0)) ? make_doubles(shape, pick(read_doubles(x))) : make_ints(shape, pick(read_ints(x)));
}

Result<Tensors> run_roll(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  const auto& shifts = *c.node.arg("shifts").get<std::vector<Dim>>();
  const auto* dims = c.node.arg("dims").get<std::vector<Dim>>();
  const auto rank = static_cast<int64_t>(x.shape.size());
  const bool flat = !dims || dims->empty();
  const auto back = [](int64_t at, int64_t shift, int64_t size) { return ((at - shift) % size + size) % size; };
  return Tensors{moved(c, x, [&](int64_t k) {
    if (flat) return back(k, c.evaluate(shifts[0]), x.numel());
    int64_t rest = k, from = 0, stride = 1;
    for (int64_t i = rank - 1; i >= 0; --i) {
      const int64_t size = x.shape[static_cast<size_t>(i)];
      int64_t at = rest % size;
      for (size_t s = 0; s < shifts.size(); ++s)
        if ((c.evaluate((*dims)[s]) + rank) % rank == i) at = back(at, c.evaluate(shifts[s]), size);
      from += at * stride;
      rest /= size, stride *= size;
    }
    return from;
  })};
}

Result<Tensors> run_meshgrid(const RefContext& c) {
  const bool swapped = c.node.op->arg_index("indexing") >= 0 && *c.node.arg("indexing").get<std::string>() == "xy";
  Tensors out;
  const std::vector<const RefValue*> tensors = c.tensors("tensors");
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<int64_t> thin(tensors.size(), 1);
    thin[swapped && tensors.size() > 1 && i < 2 ? 1 - i : i] = tensors[i]->data.numel();
    out.push_back(broadcast_to(tensors[i]->data.reshape(thin), c.sizes(i)));
  }
  return out;
}

Result<Tensors> run_broadcast_tensors(const RefContext& c) {
  Tensors out;
  for (const RefValue* v : c.tensors("tensors")) out.push_back(broadcast_to(v->data, c.sizes(0)));
  return out;
}

Result<Tensors> run_masked_scatter(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0);
  const std::vector<int64_t> mask = read_ints(broadcast_to(c.tensor("mask").data, shape));
  const auto run = [&]<class T>(std::vector<T> y, const std::vector<T>& source) -> Result<std::vector<T>> {
    size_t taken = 0;
    for (size_t k = 0; k < y.size(); ++k) {
      if (!mask[k]) continue;
      if (taken == source.size())
        return Error::bad_input(c.node.where, "the mask is true more often than source has elements", "give more");
      y[k] = source[taken++];
    }
    return y;
  };
  const Tensor self = broadcast_to(c.tensor("self").data, shape), &source = c.tensor("source").data;
  if (is_floating(c.dtype(0))) {
    QCG_TRY(y, run(read_doubles(self), read_doubles(source)));
    return Tensors{make_doubles(shape, std::move(y))};
  }
  QCG_TRY(y, run(read_ints(self), read_ints(source)));
  return Tensors{make_ints(shape, std::move(y))};
}

constexpr RefRow kSpelledRules[] = {
    {"aten.einsum.default", run_einsum},
    {"aten.outer.default", run_outer},
    {"aten.mv.default", run_product_of_vector},
    {"aten.dot.default", run_product_of_vector},
    {"aten._weight_norm.default", run_weight_norm},
    {"aten.roll.default", run_roll},
    {"aten.broadcast_tensors.default", run_broadcast_tensors},
    {"aten.meshgrid.default", run_meshgrid},
    {"aten.meshgrid.indexing", run_meshgrid},
    {"aten.masked_scatter.default", run_masked_scatter},
};

}  // namespace

std::span<const RefRow> reference_spelled() { return kSpelledRules; }

}  // namespace qcg

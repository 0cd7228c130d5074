// The oracle's rules for products in other spellings, and sums that weigh or leave out elements, from their definitions.
#include <algorithm>
#include <cmath>
#include <map>

#include "graph/ops/infer.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

using Doubles = std::vector<double>;

// The elements along some axes of a tensor, for each place along the others.
std::vector<Doubles> lines_of(const Tensor& t, const std::vector<size_t>& axes) {
  std::vector<size_t> order;
  size_t each = 1;
  for (size_t i = 0; i < t.shape.size(); ++i)
    if (!std::ranges::count(axes, i)) order.push_back(i);
  for (const size_t axis : axes) order.push_back(axis), each *= static_cast<size_t>(t.shape[axis]);
  const Doubles all = read_doubles(t.permute(order));
  std::vector<Doubles> out;
  for (size_t i = 0; each > 0 && i < all.size(); i += each)
    out.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i), all.begin() + static_cast<std::ptrdiff_t>(i + each));
  return out;
}

// A dot product of each line of one and each of the other.
Result<Tensors> dots(const RefContext& c, const std::vector<Doubles>& x, const std::vector<Doubles>& y) {
  Doubles out;
  for (const Doubles& a : x)
    for (const Doubles& b : y) out.push_back(std::inner_product(a.begin(), a.end(), b.begin(), 0.0));
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_tensordot(const RefContext& c) {
  const auto side = [&](std::string_view name, std::string_view dims) {
    const Tensor& t = c.tensor(name).data;
    std::vector<size_t> axes;
    if (const auto* given = c.node.arg(dims).get<std::vector<Dim>>())
      for (const Dim& d : *given) axes.push_back(axis_at(d, t.shape.size()));
    return lines_of(t, axes);
  };
  return dots(c, side("self", "dims_self"), side("other", "dims_other"));
}

Result<Tensors> run_inner(const RefContext& c) {
  const Tensor &x = c.tensor("self").data, &y = c.tensor("other").data;
  if (x.shape.empty() || y.shape.empty()) return dots(c, lines_of(x, {}), lines_of(y, {}));
  return dots(c, lines_of(x, {x.shape.size() - 1}), lines_of(y, {y.shape.size() - 1}));
}

Result<Tensors> run_dot_of_rows(const RefContext& c) {
  const std::vector<int64_t> both = c.broadcast_sizes("x", "y");
  const size_t axis = c.axis("dim", both.size());
  const auto x = lines_of(broadcast_to(c.tensor("x").data, both), {axis}),
             y = lines_of(broadcast_to(c.tensor("y").data, both), {axis});
  Doubles out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(std::inner_product(x[i].begin(), x[i].end(), y[i].begin(), 0.0));
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_scaled_sum(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0);
  const double alpha = c.number("alpha"), beta = c.number("beta");
  const bool batches = c.node.op->arg_index("batch1") >= 0, matrix = c.node.op->arg_index("mat") >= 0;
  const Doubles self = read_doubles(broadcast_to(c.tensor("self").data, shape));
  const Tensor &left = c.tensor(batches  ? "batch1"
                                : matrix ? "mat"
                                         : "vec1")
                           .data,
               &right = c.tensor(batches  ? "batch2"
                                 : matrix ? "vec"
                                          : "vec2")
                            .data;
  const auto x = batches  ? lines_of(left, {0, 2})
                 : matrix ? lines_of(left, {1})
                          : lines_of(left, {}),
             y = batches  ? lines_of(right, {0, 1})
                 : matrix ? lines_of(right, {0})
                          : lines_of(right, {});
  QCG_TRY(product, dots(c, x, y));
  Doubles out = read_doubles(product[0]);
  for (size_t i = 0; i < out.size(); ++i) out[i] = alpha * out[i] + (beta == 0 ? 0 : beta * self[i]);
  return Tensors{make_doubles(shape, std::move(out))};
}

// x [rows, k] times y [k, columns].
Doubles multiplied(const Doubles& x, const Doubles& y, size_t k) {
  const size_t rows = k == 0 ? 0 : x.size() / k, columns = k == 0 ? 0 : y.size() / k;
  Doubles out(rows * columns);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j)
      for (size_t l = 0; l < k; ++l) out[i * columns + j] += x[i * k + l] * y[l * columns + j];
  return out;
}

Result<Tensors> run_chain(const RefContext& c) {
  const auto matrices = c.tensors("tensors");
  Doubles y = read_doubles(matrices[0]->data);
  for (size_t i = 1; i < matrices.size(); ++i) {
    const Tensor& next = matrices[i]->data;
    y = multiplied(y, read_doubles(next), static_cast<size_t>(next.shape[0]));
  }
  return Tensors{make_doubles(c.sizes(0), std::move(y))};
}

Result<Tensors> run_matrix_power(const RefContext& c) {
  const Tensor& t = c.tensor("self").data;
  const auto size = static_cast<size_t>(t.shape.back());
  Doubles out;
  for (const Doubles& x : lines_of(t, {t.shape.size() - 2, t.shape.size() - 1})) {
    Doubles y(size * size);
    for (size_t i = 0; i < size; ++i) y[i * size + i] = 1;
    for (int64_t n = c.integer("n"); n > 0; --n) y = multiplied(y, x, size);
    out.insert(out.end(), y.begin(), y.end());
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_cross(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0);
  const size_t axis = axis_of_cross({c.graph, c.node});
  const Doubles a = read_doubles(broadcast_to(c.tensor("self").data, shape)),
                b = read_doubles(broadcast_to(c.tensor("other").data, shape));
  const auto step = static_cast<size_t>(count_of(std::span(shape).subspan(axis + 1)));
  Doubles out(a.size());
  for (size_t k = 0; k < out.size(); ++k) {
    const size_t place = k / step % 3, base = k - place * step;
    const size_t next = base + (place + 1) % 3 * step, last = base + (place + 2) % 3 * step;
    out[k] = a[next] * b[last] - a[last] * b[next];
  }
  return Tensors{store_results(c.dtype(0), shape, std::move(out))};
}

Result<Tensors> run_bilinear(const RefContext& c) {
  const Tensor &w = c.tensor("weight").data, &first = c.tensor("input1").data, &second = c.tensor("input2").data;
  const auto x = lines_of(first, {first.shape.size() - 1}), y = lines_of(second, {second.shape.size() - 1});
  const Doubles weight = read_doubles(w);
  const RefValue* bias = c.optional_tensor("bias");
  const Doubles added = bias ? read_doubles(bias->data) : Doubles(static_cast<size_t>(w.shape[0]));
  Doubles out;
  for (size_t row = 0; row < x.size(); ++row)
    for (size_t o = 0; o < added.size(); ++o) {
      double sum = added[o];
      for (size_t i = 0; i < x[row].size(); ++i)
        for (size_t j = 0; j < y[row].size(); ++j)
          sum += x[row][i] * y[row][j] * weight[(o * x[row].size() + i) * y[row].size() + j];
      out.push_back(sum);
    }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_trilinear(const RefContext& c) {
  std::vector<Tensor> operands;
  Shape all;
  for (const auto& [name, expand] : {std::pair{"i1", "expand1"}, {"i2", "expand2"}, {"i3", "expand3"}}) {
    const Shape shape = *expanded_shape(c.graph, c.node, name, expand);
    operands.push_back(c.tensor(name).data.contiguous().reshape(c.evaluate(shape)));
    all = *broadcast(all, shape);
  }
  const std::vector<int64_t> sizes = c.evaluate(all);
  std::vector<size_t> axes;
  if (const auto* given = c.node.arg("sumdim").get<std::vector<Dim>>())
    for (const Dim& d : *given) axes.push_back(axis_at(d, sizes.size()));
  std::vector<std::vector<Doubles>> lines;
  for (const Tensor& t : operands) lines.push_back(lines_of(broadcast_to(t, sizes), axes));
  Doubles out;
  for (size_t i = 0; i < lines[0].size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < lines[0][i].size(); ++k) sum += lines[0][i][k] * lines[1][i][k] * lines[2][i][k];
    out.push_back(sum);
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_powers(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0);
  const bool ascending = c.node.op->arg_index("increasing") < 0 || *c.node.arg("increasing").get<bool>();
  Doubles out;
  for (const double x : read_doubles(c.tensor("x").data))
    for (int64_t i = 0; i < shape.back(); ++i)
      out.push_back(std::pow(x, static_cast<double>(ascending ? i : shape.back() - 1 - i)));
  return Tensors{store_results(c.dtype(0), shape, std::move(out))};
}

Result<Tensors> run_trapezoid(const RefContext& c) {
  const Tensor& y = c.tensor("y").data;
  const size_t axis = c.axis("dim", y.shape.size());
  const bool spaced = c.node.op->arg_index("x") >= 0, running = c.node.op->name.starts_with("aten.cumulative");
  const auto ys = lines_of(y, {axis});
  std::vector<Doubles> xs, areas;
  if (spaced) {
    const Tensor& x = c.tensor("x").data;
    xs = lines_of(x, {x.shape == y.shape ? axis : 0});
  }
  Doubles out;
  for (size_t line = 0; line < ys.size(); ++line) {
    double area = 0;
    Doubles so_far;
    for (size_t i = 1; i < ys[line].size(); ++i) {
      const Doubles* x = spaced ? &xs[xs.size() == 1 ? 0 : line] : nullptr;
      area += (ys[line][i] + ys[line][i - 1]) / 2 * (x ? (*x)[i] - (*x)[i - 1] : c.number("dx"));
      so_far.push_back(area);
    }
    if (!running) out.push_back(area);
    areas.push_back(std::move(so_far));
  }
  if (running) {  // back from lines to the axis where it was
    const std::vector<int64_t> shape = c.sizes(0);
    const auto inner = static_cast<size_t>(count_of(std::span(shape).subspan(axis + 1)));
    const auto size = static_cast<size_t>(shape[axis]);
    for (size_t k = 0; k < static_cast<size_t>(count_of(shape)); ++k)
      out.push_back(areas[k / (inner * size) * inner + k % inner][k / inner % size]);
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_nan_sum(const RefContext& c) {
  const Tensor& t = c.tensor("self").data;
  const auto* dims = c.node.arg("dim").get<std::vector<Dim>>();
  std::vector<bool> reduced(t.shape.size(), !dims || dims->empty());
  for (size_t i = 0; dims && !t.shape.empty() && i < dims->size(); ++i)
    reduced[axis_at((*dims)[i], t.shape.size())] = true;
  Doubles out;
  for (const Doubles& group : groups_of(t, reduced)) {
    double sum = 0, count = 0;
    for (const double v : group)
      if (!std::isnan(v)) sum += v, ++count;
    out.push_back(c.node.op->name == "aten.nanmean.default" ? sum / count : sum);
  }
  return Tensors{store_results(c.dtype(0), c.sizes(0), std::move(out))};
}

Result<Tensors> run_distance(const RefContext& c) {
  const std::vector<int64_t> both = c.broadcast_sizes("self", "other");
  Doubles x = read_doubles(broadcast_to(c.tensor("self").data, both));
  const Doubles y = read_doubles(broadcast_to(c.tensor("other").data, both));
  for (size_t i = 0; i < x.size(); ++i) x[i] -= y[i];
  return Tensors{make_doubles({}, {norm_of(x, c.number("p"))})};
}

Result<Tensors> run_distances_of_pairs(const RefContext& c) {
  const auto rows = lines_of(c.tensor("self").data, {1});
  Doubles out;
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = i + 1; j < rows.size(); ++j) {
      Doubles apart;
      for (size_t k = 0; k < rows[i].size(); ++k) apart.push_back(rows[i][k] - rows[j][k]);
      out.push_back(norm_of(apart, c.number("p")));
    }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_renorm(const RefContext& c) {
  const Tensor& t = c.tensor("self").data;
  const size_t axis = c.axis("dim", t.shape.size());
  std::vector<bool> reduced(t.shape.size(), true);
  reduced[axis] = false;
  const auto slices = groups_of(t, reduced);
  const auto inner = static_cast<size_t>(count_of(std::span(t.shape).subspan(axis + 1)));
  Doubles out = read_doubles(t);
  for (size_t k = 0; k < out.size(); ++k) {
    const double norm = norm_of(slices[k / inner % slices.size()], c.number("p"));
    if (norm > c.number("maxnorm")) out[k] *= c.number("maxnorm") / (norm + 1e-7);
  }
  return Tensors{make_doubles(t.shape, std::move(out))};
}

std::vector<Doubles> lines_along(const RefContext& c) {
  const Tensor& t = c.tensor("self").data;
  const bool whole = c.node.op->arg_index("dim") < 0;
  std::vector<bool> reduced(t.shape.size(), whole);
  if (!whole && !t.shape.empty()) reduced[c.axis("dim", t.shape.size())] = true;
  return groups_of(t, reduced);
}

// f gives which element of a line is the result.
template <class F>
Result<Tensors> elements_of_lines(const RefContext& c, F&& f) {
  Doubles values;
  std::vector<int64_t> positions;
  for (const Doubles& line : lines_along(c)) {
    positions.push_back(static_cast<int64_t>(f(line)));
    values.push_back(line[static_cast<size_t>(positions.back())]);
  }
  Tensors out{store_results(c.dtype(0), c.sizes(0), std::move(values))};
  if (c.node.outputs.size() > 1) out.push_back(make_ints(c.sizes(1), std::move(positions)));
  return out;
}

Result<Tensors> run_nan_median(const RefContext& c) {
  return elements_of_lines(c, [](const Doubles& line) {
    std::vector<size_t> numbers;
    for (size_t i = 0; i < line.size(); ++i)
      if (!std::isnan(line[i])) numbers.push_back(i);
    std::ranges::stable_sort(numbers, {}, [&](size_t i) { return line[i]; });
    return numbers.empty() ? size_t{0} : numbers[(numbers.size() - 1) / 2];
  });
}

Result<Tensors> run_mode(const RefContext& c) {
  return elements_of_lines(c, [](const Doubles& line) {
    std::map<double, std::pair<size_t, size_t>> times;  // how often, and where last
    for (size_t i = 0; i < line.size(); ++i) ++times[line[i]].first, times[line[i]].second = i;
    auto best = times.begin();
    for (auto it = times.begin(); it != times.end(); ++it)
      if (it->second.first > best->second.first) best = it;
    return best->second.second;
  });
}

constexpr RefRow kSumRules[] = {
    {"aten.tensordot.default", run_tensordot},
    {"aten.inner.default", run_inner},
    {"aten.vdot.default", run_inner},
    {"aten.linalg_vecdot.default", run_dot_of_rows},
    {"aten.addr.default", run_scaled_sum},
    {"aten.addmv.default", run_scaled_sum},
    {"aten.addbmm.default", run_scaled_sum},
    {"aten.linalg_multi_dot.default", run_chain},
    {"aten.matrix_power.default", run_matrix_power},
    {"aten.cross.default", run_cross},
    {"aten.linalg_cross.default", run_cross},
    {"aten.bilinear.default", run_bilinear},
    {"aten._trilinear.default", run_trilinear},
    {"aten.vander.default", run_powers},
    {"aten.linalg_vander.default", run_powers},
    {"aten.trapezoid.dx", run_trapezoid},
    {"aten.trapezoid.x", run_trapezoid},
    {"aten.cumulative_trapezoid.dx", run_trapezoid},
    {"aten.cumulative_trapezoid.x", run_trapezoid},
    {"aten.nansum.default", run_nan_sum},
    {"aten.nanmean.default", run_nan_sum},
    {"aten.dist.default", run_distance},
    {"aten.pdist.default", run_distances_of_pairs},
    {"aten._pdist_forward.default", run_distances_of_pairs},
    {"aten.renorm.default", run_renorm},
    {"aten.nanmedian.default", run_nan_median},
    {"aten.nanmedian.dim", run_nan_median},
    {"aten.mode.default", run_mode},
};

}  // namespace

std::span<const RefRow> reference_sums() { return kSumRules; }

}  // namespace qcg

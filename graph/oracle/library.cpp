// The oracle's rules for ops of torch's library: norms, distances, patches, orders, from their definitions.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/ops/infer.h"
#include "graph/oracle/ops.h"

namespace qcg {

double norm_of(const std::vector<double>& x, double p) {
  double sum = p == -INFINITY ? INFINITY : 0;
  for (const double v : x) {
    const double size = std::abs(v);
    if (p == 0) sum += v != 0;
    else if (std::isinf(p)) sum = p > 0 ? max_nan(size, sum) : min_nan(size, sum);
    else sum += std::pow(size, p);
    if (std::isnan(v) && std::isinf(p)) return NAN;
  }
  return p == 0 || std::isinf(p) ? sum : std::pow(sum, 1 / p);
}

std::vector<std::vector<double>> groups_of(const Tensor& t, const std::vector<bool>& reduced) {
  std::vector<size_t> order;
  size_t groups = 1;
  for (bool wanted : {false, true})
    for (size_t i = 0; i < t.shape.size(); ++i)
      if (reduced[i] == wanted) {
        order.push_back(i);
        if (!wanted) groups *= static_cast<size_t>(t.shape[i]);
      }
  const std::vector<double> all = read_doubles(t.permute(order));
  std::vector<std::vector<double>> out(groups);
  for (size_t i = 0; i < all.size(); ++i) out[i / (all.size() / groups)].push_back(all[i]);
  return out;
}

namespace {

using Sizes = std::vector<int64_t>;

Result<Tensors> run_norm(const RefContext& c) {
  const Tensor& self = c.tensor("self").data;
  const auto* dims = c.node.op->arg_index("dim") < 0 ? nullptr : c.node.arg("dim").get<std::vector<Dim>>();
  const size_t rank = self.shape.size();
  std::vector<bool> reduced(rank, !dims || dims->empty());
  for (size_t i = 0; dims && rank > 0 && i < dims->size(); ++i)
    reduced[(static_cast<size_t>(c.evaluate((*dims)[i])) + rank) % rank] = true;
  std::vector<double> out;
  for (const auto& group : groups_of(self, reduced)) out.push_back(norm_of(group, *order_of_norm(c.node)));
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

// Both sides in the shape that they broadcast to.
std::pair<Tensor, Tensor> sides_of(const RefContext& c) {
  const Value &a = c.graph.value(c.node.tensor("x1")), &b = c.graph.value(c.node.tensor("x2"));
  const Shape shape = *broadcast(a.shape, b.shape);
  Sizes both;
  for (const Dim& d : shape) both.push_back(c.evaluate(d));
  return {broadcast_to(c.tensor("x1").data, both), broadcast_to(c.tensor("x2").data, both)};
}

Result<Tensors> run_cosine_similarity(const RefContext& c) {
  const auto [a, b] = sides_of(c);
  std::vector<bool> reduced(a.shape.size());
  reduced[c.axis("dim", a.shape.size())] = true;
  const auto as = groups_of(a, reduced), bs = groups_of(b, reduced);
  std::vector<double> out;
  for (size_t i = 0; i < as.size(); ++i)
    out.push_back(std::inner_product(as[i].begin(), as[i].end(), bs[i].begin(), 0.0) /
                  std::max(norm_of(as[i], 2), c.number("eps")) / std::max(norm_of(bs[i], 2), c.number("eps")));
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_pairwise_distance(const RefContext& c) {
  const auto [a, b] = sides_of(c);
  std::vector<bool> reduced(a.shape.size());
  reduced.back() = true;
  auto as = groups_of(a, reduced), bs = groups_of(b, reduced);
  std::vector<double> out;
  for (size_t i = 0; i < as.size(); ++i) {
    for (size_t k = 0; k < as[i].size(); ++k) as[i][k] += c.number("eps") - bs[i][k];
    out.push_back(norm_of(as[i], c.number("p")));
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_distances(const RefContext& c) {
  const Sizes shape = c.sizes(0);
  const auto rows_of = [&](std::string_view name) {
    const Tensor& t = c.tensor(name).data;
    Sizes to(shape.begin(), shape.end() - 2);
    to.insert(to.end(), t.shape.end() - 2, t.shape.end());
    return read_doubles(broadcast_to(t, to));
  };
  const std::vector<double> a = rows_of("x1"), b = rows_of("x2");
  const int64_t rows = shape[shape.size() - 2], columns = shape.back(), k = c.tensor("x1").data.shape.back();
  const double p = c.node.op->arg_index("p") < 0 ? 2 : c.number("p");
  std::vector<double> out;
  for (int64_t i = 0; i < count_of(shape); ++i) {
    const int64_t row = i / columns, other = row / rows * columns + i % columns;
    std::vector<double> difference;
    for (int64_t j = 0; j < k; ++j) difference.push_back(a[row * k + j] - b[other * k + j]);
    out.push_back(norm_of(difference, p));
  }
  return Tensors{make_doubles(shape, std::move(out))};
}

// f(element of the patches, element of the image) for each that lies in the image.
template <class F>
Status for_each_patch_element(const RefContext& c, int64_t images, F&& f) {
  QCG_TRY(axes, patch_axes({c.graph, c.node}));
  const PatchAxis &y = axes[0], &x = axes[1];
  const int64_t height = c.evaluate(y.size), width = c.evaluate(x.size), rows = c.evaluate(y.count),
                columns = c.evaluate(x.count);
  int64_t element = 0;
  for (int64_t image = 0; image < images; ++image)
    for (int64_t ky = 0; ky < y.kernel; ++ky)
      for (int64_t kx = 0; kx < x.kernel; ++kx)
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t column = 0; column < columns; ++column, ++element) {
            const int64_t at = row * y.stride + ky * y.dilation - y.padding,
                          beside = column * x.stride + kx * x.dilation - x.padding;
            if (at >= 0 && at < height && beside >= 0 && beside < width)
              f(static_cast<size_t>(element), static_cast<size_t>((image * height + at) * width + beside));
          }
  return {};
}

Result<Tensors> run_patches(const RefContext& c) {
  const Tensor& self = c.tensor("self").data;
  const std::vector<double> image = read_doubles(self);
  std::vector<double> out(static_cast<size_t>(count_of(c.sizes(0))));
  const int64_t images = count_of(std::span(self.shape).first(self.shape.size() - 2));
  QCG_CHECK(for_each_patch_element(c, images, [&](size_t to, size_t from) { out[to] = image[from]; }));
  return Tensors{store_results(c.dtype(0), c.sizes(0), std::move(out))};
}

Result<Tensors> run_patch_sums(const RefContext& c) {
  const Sizes shape = c.sizes(0);
  const std::vector<double> patches = read_doubles(c.tensor("self").data);
  std::vector<double> out(static_cast<size_t>(count_of(shape)));
  const int64_t images = count_of(std::span(shape).first(shape.size() - 2));
  QCG_CHECK(for_each_patch_element(c, images, [&](size_t from, size_t to) { out[to] += patches[from]; }));
  return Tensors{make_doubles(shape, std::move(out))};
}

Result<Tensors> run_unpool(const RefContext& c) {
  const std::vector<double> x = read_doubles(c.tensor("self").data);
  const std::vector<int64_t> positions = read_ints(c.tensor("indices").data);
  const Sizes shape = c.sizes(0);
  const auto spatial = c.node.arg("output_size").get<std::vector<Dim>>()->size();
  const size_t plane = static_cast<size_t>(count_of(std::span(shape).last(spatial)));
  std::vector<double> out(static_cast<size_t>(count_of(shape)));
  const size_t each = plane == 0 ? 1 : std::max<size_t>(x.size() / std::max<size_t>(out.size() / plane, 1), 1);
  for (size_t i = 0; i < x.size(); ++i) {
    if (positions[i] < 0 || positions[i] >= static_cast<int64_t>(plane))
      return Error::bad_input(c.node.where, "a position outside of the axes", "unpool the indices that a pool found");
    out[i / each * plane + static_cast<size_t>(positions[i])] = x[i];
  }
  return Tensors{store_results(c.dtype(0), shape, std::move(out))};
}

// The elements of each line along `dim`, or of all of self, with their order: NaN is the greatest.
struct OrderedLine {
  std::vector<double> elements;
  std::vector<size_t> order;
};
std::vector<OrderedLine> ordered_lines(const RefContext& c) {
  const Tensor& self = c.tensor("self").data;
  const bool whole = c.node.op->arg_index("dim") < 0 || !c.has("dim");
  std::vector<bool> reduced(self.shape.size(), whole);
  if (!whole && !self.shape.empty()) reduced[c.axis("dim", self.shape.size())] = true;
  std::vector<OrderedLine> out;
  for (auto& elements : groups_of(self, reduced)) {
    std::vector<size_t> order(elements.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
      return std::isnan(elements[b]) ? !std::isnan(elements[a]) : elements[a] < elements[b];
    });
    out.push_back({std::move(elements), std::move(order)});
  }
  return out;
}

Result<Tensors> run_element_at(const RefContext& c) {
  const bool median = c.node.op->arg_index("k") < 0;
  std::vector<double> values;
  std::vector<int64_t> positions;
  for (const OrderedLine& line : ordered_lines(c)) {
    size_t at = line.order[median ? (line.order.size() - 1) / 2 : static_cast<size_t>(c.integer("k") - 1)];
    const auto nan = std::ranges::find_if(line.elements, [](double v) { return std::isnan(v); });
    if (median && nan != line.elements.end()) at = static_cast<size_t>(nan - line.elements.begin());
    values.push_back(line.elements[at]);
    positions.push_back(static_cast<int64_t>(at));
  }
  Tensors out{store_results(c.dtype(0), c.sizes(0), std::move(values))};
  if (c.node.outputs.size() > 1) out.push_back(make_ints(c.sizes(1), std::move(positions)));
  return out;
}

Result<Tensors> run_quantile(const RefContext& c) {
  const bool list = c.node.arg("q").get<ValueId>() != nullptr;
  const bool leaves_out = c.node.op->name.starts_with("aten.nanquantile");
  const std::vector<OrderedLine> lines = ordered_lines(c);
  std::vector<double> out;
  for (const double q : list ? read_doubles(c.tensor("q").data) : std::vector<double>{c.number("q")})
    for (const OrderedLine& line : lines) {
      // The place is rounded as torch rounds it, which decides between neighbours.
      const auto is_counted = [&](double x) { return !leaves_out || !std::isnan(x); };
      const auto count = std::max<std::ptrdiff_t>(1, std::ranges::count_if(line.elements, is_counted));
      const double place = round_to_dtype(c.dtype(0), round_to_dtype(c.dtype(0), q) * double(count - 1));
      const auto at = [&](double i) { return line.elements[line.order[static_cast<size_t>(i)]]; };
      const double low = at(std::floor(place)), high = at(std::ceil(place)), last = line.elements[line.order.back()];
      out.push_back(std::isnan(last) && !leaves_out ? NAN : low + (place - std::floor(place)) * (high - low));
    }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

// How many of its sequence come before each element; NaN comes after all.
Result<Tensors> run_searchsorted(const RefContext& c) {
  const bool own = c.node.op->arg_index("boundaries") < 0;
  const Tensor& sequences = c.tensor(own ? "sorted_sequence" : "boundaries").data;
  const std::vector<double> sequence = read_doubles(sequences), x = read_doubles(c.tensor("self").data);
  const bool right = *c.node.arg("right").get<bool>() || (own && c.node.arg("side") == Arg(std::string("right")));
  const auto size = static_cast<size_t>(sequences.shape.back());
  const size_t each = size == 0 ? x.size() : x.size() / std::max<size_t>(sequence.size() / size, 1);
  std::vector<int64_t> out;
  for (size_t i = 0; i < x.size(); ++i) {
    const double* first = sequence.data() + i / each * size;
    out.push_back(std::count_if(first, first + size, [&](double s) { return right ? !(s > x[i]) : !(s >= x[i]); }));
  }
  return Tensors{make_ints(c.sizes(0), std::move(out))};
}

Result<Tensors> run_parts(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  const size_t axis = axis_of_parts(c.graph, c.node);
  int64_t begin = 0;
  Tensors out;
  for (size_t i = 0; i < c.node.outputs.size(); ++i) {
    out.push_back(arranged(c, i, x, [&](Sizes index) {
      index[axis] += begin;
      return element_of(x.shape, index);
    }));
    begin += c.sizes(i)[axis];
  }
  return out;
}

// Every element of the result is in the part whose turn it is along the axis.
Result<Tensors> run_joined(const RefContext& c) {
  const size_t axis = parts_of_stack(c.graph, c.node).second;
  std::vector<std::vector<double>> parts;
  std::vector<int64_t> counts;
  const Sizes shape = c.sizes(0);
  const int64_t before = count_of({shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)});
  for (const RefValue* v : c.tensors("tensors")) parts.push_back(read_doubles(v->data));
  std::vector<double> out;
  for (int64_t row = 0; row < before; ++row)
    for (const auto& part : parts) {
      const auto each = static_cast<std::ptrdiff_t>(part.size()) / before;
      out.insert(out.end(), part.begin() + row * each, part.begin() + (row + 1) * each);
    }
  return Tensors{store_results(c.dtype(0), shape, std::move(out))};
}

Result<Tensors> run_moved(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  if (x.shape.empty()) return Tensors{x};
  const size_t from = c.axis("source", x.shape.size()), to = c.axis("destination", x.shape.size());
  return Tensors{arranged(c, 0, x, [&](Sizes index) {
    const int64_t moved = index[to];
    index.erase(index.begin() + static_cast<std::ptrdiff_t>(to));
    index.insert(index.begin() + static_cast<std::ptrdiff_t>(from), moved);
    return element_of(x.shape, index);
  })};
}

Result<Tensors> run_ravel(const RefContext& c) {
  return Tensors{c.tensor("self").data.contiguous().reshape(c.sizes(0))};
}

Result<Tensors> run_trace(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  const std::vector<double> values = read_doubles(x);
  double sum = 0;
  for (int64_t i = 0; i < std::min(x.shape[0], x.shape[1]); ++i) sum += values[i * x.shape[1] + i];
  return Tensors{store_results(c.dtype(0), {}, {sum})};
}

Result<Tensors> run_diag(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  const bool embeds = c.sizes(0).size() > x.shape.size(), named = c.node.op->arg_index("dim1") >= 0;
  const int64_t offset = c.integer(c.node.op->arg_index("offset") >= 0 ? "offset" : "diagonal");
  const int64_t right = std::max<int64_t>(offset, 0), below = std::max<int64_t>(-offset, 0);
  return Tensors{arranged(c, 0, x, [&](Sizes index) {
    if (!embeds) return (index[0] + below) * x.shape[1] + index[0] + right;
    const size_t row_axis = named ? c.axis("dim1", index.size()) : 0,
                 column_axis = named ? c.axis("dim2", index.size()) : 1;
    const int64_t row = index[row_axis];
    if (index[column_axis] - row != offset) return int64_t{-1};
    for (const size_t axis : {std::max(row_axis, column_axis), std::min(row_axis, column_axis)})
      index.erase(index.begin() + static_cast<std::ptrdiff_t>(axis));
    index.push_back(row - below);
    return element_of(x.shape, index);
  })};
}

Result<Tensors> run_kron(const RefContext& c) {
  Tensor a = c.tensor("self").data, b = c.tensor("other").data;
  const Sizes shape = c.sizes(0);
  Sizes left = a.shape, right = b.shape;
  left.insert(left.begin(), shape.size() - left.size(), 1);
  right.insert(right.begin(), shape.size() - right.size(), 1);
  const std::vector<double> as = read_doubles(a), bs = read_doubles(b);
  std::vector<double> out;
  for (int64_t k = 0; k < count_of(shape); ++k) {
    int64_t rest = k, from_a = 0, from_b = 0, step_a = 1, step_b = 1;
    for (size_t i = shape.size(); i-- > 0; rest /= shape[i]) {
      const int64_t at = rest % shape[i];
      from_a += at / right[i] * step_a, from_b += at % right[i] * step_b;
      step_a *= left[i], step_b *= right[i];
    }
    out.push_back(as[static_cast<size_t>(from_a)] * bs[static_cast<size_t>(from_b)]);
  }
  return Tensors{store_results(c.dtype(0), shape, std::move(out))};
}

Result<Tensors> run_channel_shuffle(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  const int64_t groups = c.integer("groups"), each = x.shape[1] / groups;
  return Tensors{arranged(c, 0, x, [&](Sizes index) {
    index[1] = index[1] % groups * each + index[1] / groups;
    return element_of(x.shape, index);
  })};
}

// What reduces the groups of elements along `dim`, all of them without one, to a number.
template <class F>
std::vector<double> reduced_groups(const RefContext& c, F&& f) {
  const Tensor& x = c.tensor("self").data;
  std::vector<Dim> dims = named_axes(c.graph, c.node);
  const auto rank = static_cast<int64_t>(x.shape.size());
  std::vector<bool> reduced(x.shape.size(), dims.empty());
  for (const Dim& d : dims)
    if (rank > 0) reduced[static_cast<size_t>((c.evaluate(d) + rank) % rank)] = true;
  std::vector<double> out;
  for (const auto& group : groups_of(x, reduced)) out.push_back(f(group));
  return out;
}

Result<Tensors> run_moments(const RefContext& c) {
  const auto mean = [](const std::vector<double>& x) {
    return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  };
  const bool root = c.node.op->name.starts_with("aten.std");
  auto spread = reduced_groups(c, [&](const std::vector<double>& x) {
    double sum = 0;
    for (const double v : x) sum += (v - mean(x)) * (v - mean(x));
    const double variance = sum / std::max(static_cast<double>(x.size()) - correction_of(c.node), 0.0);
    return root ? std::sqrt(variance) : variance;
  });
  return Tensors{make_doubles(c.sizes(0), std::move(spread)), make_doubles(c.sizes(1), reduced_groups(c, mean))};
}

Result<Tensors> run_both_extremes(const RefContext& c) {
  Tensors out;
  for (const bool most : {false, true})
    out.push_back(store_results(c.dtype(0), c.sizes(0), reduced_groups(c, [&](const std::vector<double>& x) {
                                  return std::accumulate(x.begin() + 1, x.end(), x[0], [&](double a, double b) {
                                    return std::isnan(b) || (most ? b > a : b < a) ? b : a;
                                  });
                                })));
  return out;
}

Result<Tensors> run_count_nonzero(const RefContext& c) {
  return Tensors{store_results(DType::i64, c.sizes(0), reduced_groups(c, [](const std::vector<double>& x) {
                                 return static_cast<double>(x.size()) - static_cast<double>(std::ranges::count(x, 0.0));
                               }))};
}

Result<Tensors> run_logit(const RefContext& c) {
  std::vector<double> x = read_doubles(c.tensor("self").data);
  for (double& v : x) {
    if (c.has("eps")) v = std::clamp(v, c.number("eps"), 1 - c.number("eps"));
    v = std::log(v / (1 - v));
  }
  return Tensors{make_doubles(c.sizes(0), std::move(x))};
}

constexpr RefRow kLibraryRules[] = {
    {"aten.unsafe_chunk.default", run_parts},
    {"aten.tensor_split.sections", run_parts},
    {"aten.tensor_split.indices", run_parts},
    {"aten.hsplit.int", run_parts},
    {"aten.hsplit.array", run_parts},
    {"aten.vsplit.int", run_parts},
    {"aten.vsplit.array", run_parts},
    {"aten.dsplit.int", run_parts},
    {"aten.dsplit.array", run_parts},
    {"aten.dstack.default", run_joined},
    {"aten.hstack.default", run_joined},
    {"aten.vstack.default", run_joined},
    {"aten.column_stack.default", run_joined},
    {"aten.movedim.int", run_moved},
    {"aten.moveaxis.int", run_moved},
    {"aten.ravel.default", run_ravel},
    {"aten.atleast_1d.default", run_ravel},
    {"aten.atleast_2d.default", run_ravel},
    {"aten.atleast_3d.default", run_ravel},
    {"aten.trace.default", run_trace},
    {"aten.diag.default", run_diag},
    {"aten.diag_embed.default", run_diag},
    {"aten.kron.default", run_kron},
    {"aten.channel_shuffle.default", run_channel_shuffle},
    {"aten.var_mean.correction", run_moments},
    {"aten.var_mean.dim", run_moments},
    {"aten.std_mean.correction", run_moments},
    {"aten.std_mean.dim", run_moments},
    {"aten.var_mean.default", run_moments},
    {"aten.std_mean.default", run_moments},
    {"aten.aminmax.default", run_both_extremes},
    {"aten.count_nonzero.default", run_count_nonzero},
    {"aten.count_nonzero.dim_IntList", run_count_nonzero},
    {"aten.logit.default", run_logit},
    {"aten.linalg_vector_norm.default", run_norm},
    {"aten.linalg_norm.default", run_norm},
    {"aten.linalg_norm.ord_str", run_norm},
    {"aten.linalg_matrix_norm.str_ord", run_norm},
    {"aten.norm.Scalar", run_norm},
    {"aten.norm.ScalarOpt_dim", run_norm},
    {"aten.norm.ScalarOpt_dim_dtype", run_norm},
    {"aten.norm.ScalarOpt_dtype", run_norm},
    {"aten.frobenius_norm.dim", run_norm},
    {"aten.cosine_similarity.default", run_cosine_similarity},
    {"aten.pairwise_distance.default", run_pairwise_distance},
    {"aten.cdist.default", run_distances},
    {"aten._cdist_forward.default", run_distances},
    {"aten._euclidean_dist.default", run_distances},
    {"aten.im2col.default", run_patches},
    {"aten.col2im.default", run_patch_sums},
    {"aten.max_unpool2d.default", run_unpool},
    {"aten.max_unpool3d.default", run_unpool},
    {"aten.median.default", run_element_at},
    {"aten.median.dim", run_element_at},
    {"aten.kthvalue.default", run_element_at},
    {"aten.quantile.scalar", run_quantile},
    {"aten.quantile.default", run_quantile},
    {"aten.nanquantile.scalar", run_quantile},
    {"aten.nanquantile.default", run_quantile},
    {"aten.searchsorted.Tensor", run_searchsorted},
    {"aten.bucketize.Tensor", run_searchsorted},
};

}  // namespace

std::span<const RefRow> reference_library() { return kLibraryRules; }

}  // namespace qcg

// The oracle's rules for what runs along one axis: running sums, elements in order, the place of an extreme; and for how
// often elements occur.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/oracle/ops.h"

namespace qcg {
namespace {

size_t elements_of(const std::vector<int64_t>& shape) { return static_cast<size_t>(count_of(shape)); }

// f(first element, elements, distance between them) for every line along the axis of a dense tensor.
template <class F>
void for_each_line(const std::vector<int64_t>& shape, size_t axis, F&& f) {
  int64_t outer = 1, size = 1, inner = 1;
  for (size_t i = 0; i < shape.size(); ++i) (i < axis ? outer : i == axis ? size : inner) *= shape[i];
  for (int64_t line = 0; line < outer * inner; ++line)
    f(static_cast<size_t>(line / inner * size * inner + line % inner), size, inner);
}

// values[i] = f(values[i - 1], values[i]) along the axis, from the second on.
template <class T, class F>
std::vector<T> scan(const RefContext& c, std::vector<T> values, F&& f) {
  const auto sizes = c.sizes(0);
  for_each_line(sizes, c.axis("dim", sizes.size()), [&](size_t first, int64_t size, int64_t inner) {
    for (int64_t i = 1; i < size; ++i)
      values[first + i * inner] = f(values[first + (i - 1) * inner], values[first + i * inner]);
  });
  return values;
}

Result<Tensors> run_running(const RefContext& c) {
  const bool sum = is_op(c.node, "aten.cumsum.default");
  const Tensor& self = c.tensor("self").data;
  if (is_floating(c.dtype(0)))
    return Tensors{
        make_doubles(c.sizes(0), scan(c, read_doubles(self), [&](double a, double b) { return sum ? a + b : a * b; }))};
  std::vector<int64_t> out = scan(c, read_ints(self), sum ? add_wrap : mul_wrap);
  for (int64_t& v : out) v = wrap_to_dtype(c.dtype(0), v);
  return Tensors{make_ints(c.sizes(0), std::move(out))};
}

Result<Tensors> run_running_log_sum(const RefContext& c) {
  const auto log_of_sum = [](double a, double b) {
    const double most = max_nan(a, b);
    return std::isfinite(most) ? most + std::log1p(std::exp(min_nan(a, b) - most)) : most;
  };
  return Tensors{make_doubles(c.sizes(0), scan(c, read_doubles(c.tensor("self").data), log_of_sum))};
}

// A NaN is the extreme of its line; of equal elements the last counts.
Result<Tensors> run_running_extreme(const RefContext& c) {
  const bool largest = is_op(c.node, "aten.cummax.default");
  const auto sizes = c.sizes(0);
  std::vector<int64_t> places(elements_of(sizes));
  const auto find = [&](auto values) {
    for_each_line(sizes, c.axis("dim", sizes.size()), [&](size_t first, int64_t size, int64_t inner) {
      for (int64_t i = 1; i < size; ++i) {
        const auto best = values[first + (i - 1) * inner], v = values[first + i * inner];
        const bool replaces = v != v || (best == best && (largest ? v >= best : v <= best));
        places[first + i * inner] = replaces ? i : places[first + (i - 1) * inner];
        values[first + i * inner] = replaces ? v : best;
      }
    });
    return values;
  };
  const Tensor& self = c.tensor("self").data;
  const Tensor values =
      is_floating(c.dtype(0)) ? make_doubles(sizes, find(read_doubles(self))) : make_ints(sizes, find(read_ints(self)));
  return Tensors{values, make_ints(sizes, std::move(places))};
}

// The first k elements of each line in order; of equal elements the first is first, and NaN is the greatest.
template <class T>
Tensors order_lines(const RefContext& c, const std::vector<T>& x, bool descending,
                    Tensor (*make)(std::vector<int64_t>, std::vector<T>)) {
  const std::vector<int64_t>&shape = c.tensor("self").data.shape, sizes = c.sizes(0);
  const size_t axis = c.axis("dim", shape.size());
  const int64_t k = sizes.empty() ? 1 : sizes[axis];
  const auto is_less = [](T a, T b) { return b != b ? a == a : a < b; };
  std::vector<T> values(elements_of(sizes));
  std::vector<int64_t> positions(values.size()), order;
  int64_t line = 0;
  for_each_line(shape, axis, [&](size_t first, int64_t size, int64_t inner) {
    const auto at = [&](int64_t i) { return x[first + static_cast<size_t>(i * inner)]; };
    order.resize(static_cast<size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, [&](int64_t a, int64_t b) { return descending ? is_less(at(b), at(a)) : is_less(at(a), at(b)); });
    for (int64_t i = 0; i < k; ++i) {
      const auto to = static_cast<size_t>((line / inner * k + i) * inner + line % inner);
      values[to] = at(order[static_cast<size_t>(i)]);
      positions[to] = order[static_cast<size_t>(i)];
    }
    ++line;
  });
  return {make(sizes, std::move(values)), make_ints(sizes, std::move(positions))};
}

Result<Tensors> run_order(const RefContext& c) {
  const Tensor& self = c.tensor("self").data;
  const bool descending = *c.node.arg(c.node.op->arg_index("k") >= 0 ? "largest" : "descending").get<bool>();
  return is_floating(c.dtype(0)) ? order_lines(c, read_doubles(self), descending, make_doubles)
                                 : order_lines(c, read_ints(self), descending, make_ints);
}

Result<Tensors> run_argsort(const RefContext& c) {
  const Tensor& self = c.tensor("self").data;
  const bool descending = *c.node.arg("descending").get<bool>();
  return Tensors{is_floating(c.tensor("self").dtype) ? order_lines(c, read_doubles(self), descending, make_doubles)[1]
                                                     : order_lines(c, read_ints(self), descending, make_ints)[1]};
}

// A NaN is the extreme of its line; of equal elements the first counts.
Result<Tensors> run_arg_extreme(const RefContext& c) {
  const Tensor& self = c.tensor("self").data;
  const bool largest = is_op(c.node, "aten.argmax.default"), whole = !c.has("dim");
  const std::vector<int64_t> flat = {self.numel()}, &shape = whole ? flat : self.shape;
  std::vector<int64_t> positions;
  const auto find = [&](const auto& x) {
    for_each_line(shape, whole ? 0 : c.axis("dim", shape.size()), [&](size_t first, int64_t size, int64_t inner) {
      int64_t best = 0;
      for (int64_t i = 1; i < size; ++i) {
        const auto v = x[first + i * inner], b = x[first + best * inner];
        if (b == b && (v != v || (largest ? v > b : v < b))) best = i;
      }
      positions.push_back(best);
    });
  };
  if (is_floating(c.tensor("self").dtype)) find(read_doubles(self));
  else find(read_ints(self));
  return Tensors{make_ints(c.sizes(0), std::move(positions))};
}

Result<Tensors> run_one_hot(const RefContext& c) {
  const int64_t classes = c.integer("num_classes");
  std::vector<int64_t> out;
  for (const int64_t v : read_ints(c.tensor("self").data))
    for (int64_t i = 0; i < classes; ++i) out.push_back(i == v);
  return Tensors{make_ints(c.sizes(0), std::move(out))};
}

// The greatest is in the last bin; what is outside is in none.
Result<Tensors> run_histogram(const RefContext& c) {
  const double low = c.number("min"), high = c.number("max");
  std::vector<double> counts(static_cast<size_t>(c.integer("bins")));
  for (const double x : read_doubles(c.tensor("self").data)) {
    if (!(x >= low && x <= high)) continue;
    const auto bin = static_cast<size_t>((x - low) * static_cast<double>(counts.size()) / (high - low));
    ++counts[std::min(bin, counts.size() - 1)];
  }
  return Tensors{make_doubles(c.sizes(0), std::move(counts))};
}

constexpr RefRow kAlongAxisRules[] = {{"aten.cumsum.default", run_running},
                                      {"aten.cumprod.default", run_running},
                                      {"aten.cummax.default", run_running_extreme},
                                      {"aten.cummin.default", run_running_extreme},
                                      {"aten.logcumsumexp.default", run_running_log_sum},
                                      {"aten.sort.default", run_order},
                                      {"aten.sort.stable", run_order},
                                      {"aten.topk.default", run_order},
                                      {"aten.argmax.default", run_arg_extreme},
                                      {"aten.argmin.default", run_arg_extreme},
                                      {"aten.histc.default", run_histogram},
                                      {"aten.one_hot.default", run_one_hot},
                                      {"aten.argsort.default", run_argsort},
                                      {"aten.argsort.stable", run_argsort}};

}  // namespace

std::span<const RefRow> reference_along_axis() { return kAlongAxisRules; }

}  // namespace qcg

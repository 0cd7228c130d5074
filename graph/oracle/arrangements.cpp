// The oracle's rules for ops that put elements in other places, choose some, or write at positions: element by element.
#include <algorithm>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

using Places = std::vector<int64_t>;

// A quarter takes element (i, j) of the result from (j, n - 1 - i).
Result<Tensors> run_turned(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  if (c.node.op->arg_index("k") < 0)
    return Tensors{arranged(c, 0, x, [&](Places at) {
      const size_t axis = c.node.op->name == "aten.fliplr.default" ? 1 : 0;
      at[axis] = x.shape[axis] - 1 - at[axis];
      return element_of(x.shape, at);
    })};
  const auto& dims = *c.node.arg("dims").get<std::vector<Dim>>();
  const size_t rank = x.shape.size(), a = axis_at(dims[0], rank), b = axis_at(dims[1], rank);
  const int64_t quarters = (c.integer("k") % 4 + 4) % 4;
  return Tensors{arranged(c, 0, x, [&](Places at) {
    Places size = c.sizes(0);
    for (int64_t i = 0; i < quarters; ++i) {
      const int64_t row = at[a];
      std::swap(size[a], size[b]);
      at[a] = at[b], at[b] = size[b] - 1 - row;
    }
    return element_of(x.shape, at);
  })};
}

Result<Tensors> run_moved_axes(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  const std::vector<size_t> order = order_of_moved_axes(c.node, x.shape.size());
  return Tensors{arranged(c, 0, x, [&](const Places& at) {
    Places from(at.size());
    for (size_t i = 0; i < at.size(); ++i) from[order[i]] = at[i];
    return element_of(x.shape, from);
  })};
}

Result<Tensors> run_block_diag(const RefContext& c) {
  const Places shape = c.sizes(0);
  std::vector<double> out(static_cast<size_t>(count_of(shape)));
  int64_t row = 0, column = 0;
  for (const RefValue* block : c.tensors("tensors")) {
    const std::vector<double> x = read_doubles(block->data);
    const int64_t columns = block->data.shape.empty() ? 1 : block->data.shape.back();
    const int64_t rows = block->data.shape.size() == 2 ? block->data.shape[0] : 1;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto k = static_cast<int64_t>(i);
      out[static_cast<size_t>((row + k / columns) * shape[1] + column + k % columns)] = x[i];
    }
    row += rows, column += columns;
  }
  return Tensors{store_results(c.dtype(0), shape, std::move(out))};
}

Result<Tensors> run_cartesian_product(const RefContext& c) {
  std::vector<std::vector<double>> lists;
  size_t rows = 1;
  for (const RefValue* v : c.tensors("tensors")) lists.push_back(read_doubles(v->data)), rows *= lists.back().size();
  std::vector<double> out(rows * lists.size());
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = lists.size(), rest = row; i-- > 0; rest /= lists[i].size())
      out[row * lists.size() + i] = lists[i][rest % lists[i].size()];
  return Tensors{store_results(c.dtype(0), c.sizes(0), std::move(out))};
}

// By counting through all tuples.
Result<Tensors> run_combinations(const RefContext& c) {
  const std::vector<double> x = read_doubles(c.tensor("self").data);
  const bool repeated = *c.node.arg("with_replacement").get<bool>();
  std::vector<size_t> at(static_cast<size_t>(c.integer("r")));
  std::vector<double> out;
  for (bool more = !x.empty(); more;) {
    const auto ascends = [&](size_t a, size_t b) { return repeated ? a > b : a >= b; };
    if (std::ranges::adjacent_find(at, ascends) == at.end())
      for (const size_t i : at) out.push_back(x[i]);
    more = false;
    for (size_t i = at.size(); i-- > 0 && !more;) {
      more = ++at[i] < x.size();
      if (!more) at[i] = 0;
    }
  }
  return Tensors{store_results(c.dtype(0), c.sizes(0), std::move(out))};
}

Result<Tensors> run_diagonal_scatter(const RefContext& c) {
  const Tensor &x = c.tensor("self").data, &src = c.tensor("src").data;
  const size_t rank = x.shape.size(), rows = c.axis("dim1", rank), columns = c.axis("dim2", rank);
  std::vector<double> out = read_doubles(x);
  const std::vector<double> written = read_doubles(src);
  const int64_t offset = c.integer("offset");
  for (size_t k = 0; k < written.size(); ++k) {
    Places at(src.shape.size()), to;
    for (size_t i = src.shape.size(), rest = k; i-- > 0; rest /= static_cast<size_t>(src.shape[i]))
      at[i] = static_cast<int64_t>(rest) % src.shape[i];
    for (size_t axis = 0, next = 0; axis < rank; ++axis)
      to.push_back(axis == rows      ? at.back() + std::max<int64_t>(-offset, 0)
                   : axis == columns ? at.back() + std::max<int64_t>(offset, 0)
                                     : at[next++]);
    out[static_cast<size_t>(element_of(x.shape, to))] = written[k];
  }
  return Tensors{store_results(c.dtype(0), x.shape, std::move(out))};
}

Result<Tensors> run_sum_to_size(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  const Places shape = c.sizes(0);
  const std::vector<double> values = read_doubles(x);
  std::vector<double> out(static_cast<size_t>(count_of(shape)));
  for (size_t k = 0; k < values.size(); ++k) {
    int64_t to = 0, step = 1;
    auto rest = static_cast<int64_t>(k);
    for (size_t i = 1; i <= shape.size(); ++i) {
      const int64_t size = x.shape[x.shape.size() - i], kept = shape[shape.size() - i];
      if (kept != 1) to += rest % size * step;
      rest /= size, step *= kept;
    }
    out[static_cast<size_t>(to)] += values[k];
  }
  return Tensors{store_results(c.dtype(0), shape, std::move(out))};
}

Result<Tensors> run_sorted_rows(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  std::vector<double> out = read_doubles(x);
  if (x.shape.empty() || out.empty()) return Tensors{x};
  const size_t rows = static_cast<size_t>(x.shape[0]), columns = out.size() / rows;
  for (size_t column = 0; column < columns; ++column) {
    std::vector<double> line;
    for (size_t row = 0; row < rows; ++row) line.push_back(out[row * columns + column]);
    std::ranges::sort(line, [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; });
    for (size_t row = 0; row < rows; ++row) out[row * columns + column] = line[row];
  }
  return Tensors{store_results(c.dtype(0), x.shape, std::move(out))};
}

Result<Tensors> run_isin(const RefContext& c) {
  const auto given = [&](std::string_view tensor, std::string_view number) {
    if (c.node.op->arg_index(tensor) >= 0) return read_doubles(c.tensor(tensor).data);
    return std::vector<double>{c.number(number)};
  };
  const std::vector<double> list = given("test_elements", "test_element");
  const bool inverted = *c.node.arg("invert").get<bool>();
  std::vector<int64_t> out;
  for (const double x : given("elements", "element"))
    out.push_back((std::ranges::find(list, x) != list.end()) != inverted);
  return Tensors{make_ints(c.sizes(0), std::move(out))};
}

Result<Tensors> run_index_fill(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  std::vector<double> out = read_doubles(x);
  const size_t axis = c.axis("dim", x.shape.size());
  const int64_t size = x.shape[axis], inner = count_of(std::span(x.shape).subspan(axis + 1));
  const double value = c.node.arg("value").get<ValueId>() ? read_doubles(c.tensor("value").data)[0] : c.number("value");
  for (const int64_t at : read_ints(c.tensor("index").data)) {
    if (at < -size || at >= size)
      return Error::bad_input(c.node.where, "a position outside of the axis", "give positions of the axis");
    for (size_t k = 0; k < out.size(); ++k)
      if (static_cast<int64_t>(k) / inner % size == (at + size) % size) out[k] = value;
  }
  return Tensors{store_results(c.dtype(0), x.shape, std::move(out))};
}

Result<Tensors> run_put(const RefContext& c) {
  const Tensor& x = c.tensor("self").data;
  std::vector<double> out = read_doubles(x);
  const std::vector<double> source = read_doubles(c.tensor("source").data);
  const std::vector<int64_t> index = read_ints(c.tensor("index").data);
  const auto size = static_cast<int64_t>(out.size());
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] < -size || index[i] >= size)
      return Error::bad_input(c.node.where, "a position outside of the tensor", "give positions of its elements");
    double& to = out[static_cast<size_t>(index[i] < 0 ? index[i] + size : index[i])];
    to = *c.node.arg("accumulate").get<bool>() ? to + source[i] : source[i];
  }
  return Tensors{store_results(c.dtype(0), x.shape, std::move(out))};
}

constexpr RefRow kArrangementRules[] = {
    {"aten.rot90.default", run_turned},
    {"aten.fliplr.default", run_turned},
    {"aten.flipud.default", run_turned},
    {"aten.movedim.intlist", run_moved_axes},
    {"aten.moveaxis.intlist", run_moved_axes},
    {"aten.block_diag.default", run_block_diag},
    {"aten.cartesian_prod.default", run_cartesian_product},
    {"aten.combinations.default", run_combinations},
    {"aten.diagonal_scatter.default", run_diagonal_scatter},
    {"aten.sum_to_size.default", run_sum_to_size},
    {"aten.msort.default", run_sorted_rows},
    {"aten.isin.Tensor_Tensor", run_isin},
    {"aten.isin.Tensor_Scalar", run_isin},
    {"aten.isin.Scalar_Tensor", run_isin},
    {"aten.index_fill.int_Scalar", run_index_fill},
    {"aten.index_fill.int_Tensor", run_index_fill},
    {"aten.put.default", run_put},
};

}  // namespace

std::span<const RefRow> reference_arrangements() { return kArrangementRules; }

}  // namespace qcg

#include "graph/patterns/seen_constant.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "graph/patterns/recognizer.h"
#include "graph/rewrite/parameter_views.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

int64_t count(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

// Where in `axes` each axis of `shape` begins, and where the last one ends.
std::optional<std::vector<size_t>> SeenConstant::cut_axes() {
  Tensor cut = axes;
  cut.shape.clear();
  cut.strides.clear();
  std::vector<size_t> begins;
  size_t from = 0;
  int64_t size = 1, stride = 0;  // what is left of the axis before `from`
  for (int64_t need : shape) {
    begins.push_back(cut.shape.size());
    while (need > 1) {
      if (size == 1) {
        if (from == axes.shape.size()) return std::nullopt;
        size = axes.shape[from], stride = axes.strides[from++];
        continue;
      }
      const int64_t taken = std::min(size, need);
      if (size % taken != 0 || need % taken != 0) return std::nullopt;
      size /= taken, need /= taken;
      cut.shape.push_back(taken);
      cut.strides.push_back(stride * size);
    }
  }
  begins.push_back(cut.shape.size());
  axes = std::move(cut);
  return begins;
}

bool SeenConstant::reshape(std::vector<int64_t> to) {
  if (count(to) != count(shape)) return false;
  shape = std::move(to);
  return true;
}

bool SeenConstant::permute(const std::vector<size_t>& order) {
  const auto begins = cut_axes();
  if (!begins || order.size() != shape.size()) return false;
  const SeenConstant old = *this;
  axes.shape.clear();
  axes.strides.clear();
  for (size_t i = 0; i < order.size(); ++i) {
    shape[i] = old.shape[order[i]];
    for (size_t a = (*begins)[order[i]]; a < (*begins)[order[i] + 1]; ++a) {
      axes.shape.push_back(old.axes.shape[a]);
      axes.strides.push_back(old.axes.strides[a]);
    }
  }
  return true;
}

bool SeenConstant::expand(const std::vector<int64_t>& to) {
  if (to.size() < shape.size()) return false;
  shape.insert(shape.begin(), to.size() - shape.size(), 1);
  const auto begins = cut_axes();
  if (!begins) return false;
  for (size_t i = to.size(); i-- > 0;) {
    if (shape[i] == to[i]) continue;
    if (shape[i] != 1) return false;
    const auto at = static_cast<ptrdiff_t>((*begins)[i]);
    axes.shape.insert(axes.shape.begin() + at, to[i]);
    axes.strides.insert(axes.strides.begin() + at, 0);
  }
  shape = to;
  return true;
}

int64_t SeenConstant::different() const {
  int64_t n = 1;
  for (size_t i = 0; i < axes.shape.size(); ++i)
    if (axes.strides[i] != 0) n *= axes.shape[i];
  return n;
}

bool apply_view(const Graph& graph, const Node& node, SeenConstant& seen) {
  const auto to = constant_shape(graph.value(node.outputs[0]).shape);
  if (!to || std::find(to->begin(), to->end(), 0) != to->end()) return false;
  if (is_op(node, "aten.reshape.default")) return seen.reshape(*to);
  if (is_op(node, "aten.expand.default")) return seen.expand(*to);
  if (!is_op(node, "aten.permute.default")) return false;
  std::vector<size_t> order;
  for (const Dim& dim : *node.arg("dims").get<std::vector<Dim>>()) {
    const auto axis = as_axis(Arg(dim), seen.shape.size());
    if (!axis) return false;
    order.push_back(*axis);
  }
  return seen.permute(order);
}

std::optional<SeenConstant> see_constant(const Graph& graph, ValueId id) {
  std::vector<const Node*> nodes;
  for (; !is_parameter(graph, id); id = nodes.back()->tensor("self")) {
    const Node* node = producer_of(graph, id);
    if (!node || (!is_op(*node, "aten.to.dtype") && !is_op(*node, "aten.reshape.default") &&
                  !is_op(*node, "aten.permute.default") && !is_op(*node, "aten.expand.default")))
      return std::nullopt;
    nodes.push_back(node);
  }
  const Tensor& data = graph.value(id).data;
  if (data.numel() == 0) return std::nullopt;
  SeenConstant seen{.parameter = id, .casts = {}, .axes = data, .shape = data.shape};
  DType dtype = data.dtype;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (!is_op(**node, "aten.to.dtype")) {
      if (!apply_view(graph, **node, seen)) return std::nullopt;
      continue;
    }
    const DType to = graph.value((*node)->outputs[0]).dtype;
    if (!is_floating(dtype) && keeps_numbers(dtype, to)) continue;
    if (!is_floating(dtype) && !is_floating(to)) return std::nullopt;  // it would wrap
    seen.casts.push_back(to);
    dtype = to;
  }
  return seen;
}

int64_t longest_block(const SeenConstant& seen) {
  SeenConstant matrix = seen;
  int64_t block = 1;
  const int64_t columns = matrix.shape.back();
  if (!matrix.reshape({count(matrix.shape) / columns, columns}) || !matrix.permute({0, 1})) return 1;
  for (size_t a = matrix.axes.shape.size(); a-- > 0 && matrix.axes.strides[a] == 0 && block < columns;)
    block *= matrix.axes.shape[a];
  return std::min(block, columns);
}

ValueId add_block_numbers(Graph& graph, SeenConstant seen, int64_t block) {
  const std::vector<int64_t> shape = {seen.shape[0], seen.shape[1] / block};
  if (!seen.reshape({shape[0], shape[1], block}) || !seen.permute({2, 0, 1})) return kNoValue;
  // The first axes are those of a block now.
  while (block > 1 && !seen.axes.shape.empty() && seen.axes.strides[0] == 0) {
    block /= seen.axes.shape[0];
    seen.axes.shape.erase(seen.axes.shape.begin());
    seen.axes.strides.erase(seen.axes.strides.begin());
  }
  if (block > 1) return kNoValue;
  auto view = view_as_shape(seen.axes, shape);
  ValueId made = kNoValue;
  if (view) {
    made = add_parameter_view(graph, seen.parameter, std::move(*view));
  } else {
    Tensor dense = seen.axes;
    if (dense.bound()) dense = dense.contiguous();
    dense.strides = Tensor::row_major_strides(shape);
    dense.shape = shape;
    made = add_constant(graph, seen.parameter, std::move(dense));
  }
  for (DType dtype : seen.casts) made = cast_parameter(graph, made, dtype);
  return made;
}

}  // namespace qcg

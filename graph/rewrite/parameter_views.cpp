#include "graph/rewrite/parameter_views.h"

#include <algorithm>
#include <numeric>

#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

using Sizes = std::vector<int64_t>;

std::optional<Tensor> transpose_view(const Node& node, const Tensor& input) {
  const size_t rank = input.shape.size();
  if (is_op(node, "aten.t.default")) return rank == 2 ? input.transpose(0, 1) : input;
  if (is_op(node, "aten.transpose.int")) {
    auto a = as_axis(node.arg("dim0"), rank), b = as_axis(node.arg("dim1"), rank);
    if (a && b) return input.transpose(*a, *b);
    return std::nullopt;
  }
  const auto* dims = node.arg("dims").get<std::vector<Dim>>();  // aten.permute
  if (!dims || dims->size() != rank) return std::nullopt;
  std::vector<size_t> order;
  for (const Dim& dim : *dims) {
    auto axis = as_axis(Arg(dim), rank);
    if (!axis || std::find(order.begin(), order.end(), *axis) != order.end()) return std::nullopt;
    order.push_back(*axis);
  }
  return input.permute(order);
}

std::optional<Tensor> slice_view(const Node& node, const Tensor& input) {
  auto axis = as_axis(node.arg("dim"), input.shape.size());
  auto step = as_integer(node.arg("step"));
  if (!axis || !step || *step < 1) return std::nullopt;
  const int64_t size = input.shape[*axis];
  auto clamp_index = [&](const Arg& arg, int64_t absent) -> std::optional<int64_t> {
    if (arg.is_none()) return absent;
    auto at = as_integer(arg);
    if (!at) return std::nullopt;
    return std::clamp<int64_t>(*at < 0 ? *at + size : *at, 0, size);
  };
  auto begin = clamp_index(node.arg("start"), 0), end = clamp_index(node.arg("end"), size);
  if (!begin || !end) return std::nullopt;
  return input.slice(*axis, *begin, std::max(*begin, *end), *step);
}

std::optional<Tensor> select_view(const Node& node, const Tensor& input) {
  auto axis = as_axis(node.arg("dim"), input.shape.size());
  auto index = as_integer(node.arg("index"));
  if (!axis || !index) return std::nullopt;
  const int64_t size = input.shape[*axis], at = *index < 0 ? *index + size : *index;
  if (at < 0 || at >= size) return std::nullopt;
  Tensor view = input.slice(*axis, at, at + 1);
  view.shape.erase(view.shape.begin() + static_cast<std::ptrdiff_t>(*axis));
  view.strides.erase(view.strides.begin() + static_cast<std::ptrdiff_t>(*axis));
  return view;
}

// expand: axes of size 1 (or new leading ones) repeat by stride 0.
std::optional<Tensor> expand_view(const Tensor& input, const Sizes& shape) {
  if (shape.size() < input.shape.size()) return std::nullopt;
  Tensor view = input;
  view.shape = shape;
  view.strides.assign(shape.size(), 0);
  const size_t lead = shape.size() - input.shape.size();
  for (size_t i = 0; i < input.shape.size(); ++i) {
    if (input.shape[i] == shape[lead + i]) view.strides[lead + i] = input.strides[i];
    else if (input.shape[i] != 1) return std::nullopt;
  }
  return view;
}

}  // namespace

// Walks both shapes from the left, matching the smallest groups of axes of equal product; a group of the old shape must be
// contiguous within itself (size 1 axes aside) to be cut differently.
std::optional<Tensor> view_as_shape(const Tensor& input, const Sizes& shape) {
  Sizes old_shape, old_strides;
  for (size_t i = 0; i < input.shape.size(); ++i) {
    if (input.shape[i] == 1) continue;
    old_shape.push_back(input.shape[i]);
    old_strides.push_back(input.strides[i]);
  }
  Tensor view = input;
  view.shape = shape;
  view.strides.assign(shape.size(), 1);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return view;
  size_t from = 0, to = 0;
  while (from < old_shape.size()) {
    size_t from_end = from + 1, to_end = to;
    int64_t old_product = old_shape[from], new_product = 1;
    while (old_product != new_product) {
      if (new_product < old_product) {
        if (to_end == shape.size()) return std::nullopt;
        new_product *= shape[to_end++];
      } else {
        if (from_end == old_shape.size()) return std::nullopt;
        if (old_strides[from_end - 1] != old_strides[from_end] * old_shape[from_end]) return std::nullopt;
        old_product *= old_shape[from_end++];
      }
    }
    for (size_t i = from + 1; i < from_end; ++i)
      if (old_strides[i - 1] != old_strides[i] * old_shape[i]) return std::nullopt;
    int64_t stride = old_strides[from_end - 1];
    for (size_t i = to_end; i-- > to;) {
      view.strides[i] = stride;
      stride *= shape[i];
    }
    from = from_end;
    to = to_end;
  }
  for (; to < shape.size(); ++to)
    if (shape[to] != 1) return std::nullopt;
  return view;
}

std::optional<Tensor> view_of_tensor(const Graph& graph, const Node& node, const Tensor& input) {
  if (is_op(node, "aten.t.default") || is_op(node, "aten.transpose.int") || is_op(node, "aten.permute.default"))
    return transpose_view(node, input);
  if (is_op(node, "aten.slice.Tensor")) return slice_view(node, input);
  if (is_op(node, "aten.select.int")) return select_view(node, input);
  auto shape = constant_shape(graph.value(node.outputs[0]).shape);
  if (!shape) return std::nullopt;
  if (is_op(node, "aten.expand.default")) return expand_view(input, *shape);
  static constexpr Op kReshapes[] = {
      "aten.reshape.default",   "aten.view.default",       "aten._unsafe_view.default", "aten.flatten.using_ints",
      "aten.unsqueeze.default", "aten.unflatten.int",      "aten.squeeze.default",      "aten.squeeze.dim",
      "aten.squeeze.dims"};
  return is_any_op(node, kReshapes) ? view_as_shape(input, *shape) : std::nullopt;
}

}  // namespace qcg

#include "graph/rewrite/parameter_views.h"

#include <algorithm>

#include "graph/ops/strides.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

using Sizes = std::vector<int64_t>;

std::optional<Sizes> constants(const std::vector<Dim>& dims) {
  Sizes out;
  for (const Dim& d : dims) {
    if (!d.is_constant()) return std::nullopt;
    out.push_back(d.constant());
  }
  return out;
}

// Nobody who reads a weight's bytes walks backwards.
std::optional<Tensor> strided_view(const Graph& graph, const Node& node, StrideRule* rule, const Tensor& input) {
  const Strided in{Shape(input.shape.begin(), input.shape.end()),
                   std::vector<Dim>(input.strides.begin(), input.strides.end()), input.offset};
  const auto out = rule({graph, node}, in);
  if (!out.ok()) return std::nullopt;
  auto shape = constants(out->shape), strides = constants(out->strides);
  if (!shape || !strides || !out->offset.is_constant()) return std::nullopt;
  if (std::ranges::any_of(*strides, [](int64_t stride) { return stride < 0; })) return std::nullopt;
  Tensor view = input;
  view.shape = std::move(*shape);
  view.strides = std::move(*strides);
  view.offset = out->offset.constant();
  return view;
}

}  // namespace

// Walks both shapes from the left, matching the smallest groups of axes of equal product; a group of the old shape must
// be contiguous within itself (size 1 axes aside) to be cut differently.
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
  if (StrideRule* rule = Op(node.op).row().strides) return strided_view(graph, node, rule, input);
  auto shape = constant_shape(graph.value(node.outputs[0]).shape);
  if (!shape) return std::nullopt;
  static constexpr Op kReshapes[] = {"aten.reshape.default",    "aten.view.default",      "aten._unsafe_view.default",
                                     "aten.flatten.using_ints", "aten.unsqueeze.default", "aten.unflatten.int",
                                     "aten.squeeze.default",    "aten.squeeze.dim",       "aten.squeeze.dims"};
  return is_any_op(node, kReshapes) ? view_as_shape(input, *shape) : std::nullopt;
}

}  // namespace qcg

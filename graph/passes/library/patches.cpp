// Patches of images as columns, and back; elements at the positions that a pool found.
#include "graph/ops/infer.h"
#include "graph/passes/library/library.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

// [batch, C, H, W] padded, seen as [batch, C, rows, columns, kernel, kernel], the kernel's axes in front of the places.
Values write_patches(OpEmitter& e, const Graph& graph, const Node& node) {
  const std::vector<PatchAxis> axes = *patch_axes({graph, node});
  ValueId x = node.tensor("self");
  Shape shape = graph.value(x).shape;
  if (shape.size() == 3) shape.insert(shape.begin(), Dim(1));
  x = e.reshape(x, shape);
  const Dim rows(axes[0].padding), columns(axes[1].padding);
  if (axes[0].padding > 0 || axes[1].padding > 0)
    x = e.op("aten.constant_pad_nd.default",
             {{"self", x}, {"pad", std::vector<Dim>{columns, columns, rows, rows}}, {"value", Dim(0)}});
  for (size_t i = 0; i < axes.size(); ++i)
    x = e.op("aten.unfold.default", {{"self", x},
                                     {"dimension", axis_number(2 + i)},
                                     {"size", Dim(axes[i].reach())},
                                     {"step", Dim(axes[i].stride)}});
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].dilation > 1)
      x = e.op("aten.slice.Tensor", {{"self", x}, {"dim", axis_number(4 + i)}, {"step", Dim(axes[i].dilation)}});
  return {e.op("aten.permute.default",
               {{"self", x}, {"dims", std::vector<Dim>{Dim(0), Dim(1), Dim(4), Dim(5), Dim(2), Dim(3)}}})};
}

// Where element k of the kernel lies at each place along an axis: k * dilation + place * stride, [kernel, places].
ValueId positions_along(OpEmitter& e, const PatchAxis& axis) {
  const auto steps = [&](const Dim& count, int64_t apart, const Shape& shape) {
    const ValueId all = e.op("aten.arange.default", {{"end", count}});
    return e.reshape(apart == 1 ? all : e.binary("aten.mul.Tensor", all, Dim(apart)), shape);
  };
  const Dim kernel(axis.kernel);
  return e.binary("aten.add.Tensor", steps(kernel, axis.dilation, {kernel, Dim(1)}),
                  steps(axis.count, axis.stride, {Dim(1), axis.count}));
}

// A sum at positions of the padded image; where patches lie side by side, a permute.
Values write_patch_sums(OpEmitter& e, const Graph& graph, const Node& node) {
  const std::vector<PatchAxis> axes = *patch_axes({graph, node});
  const Shape given = graph.value(node.tensor("self")).shape;
  const Dim batch = given.size() == 3 ? given[0] : Dim(1), kh(axes[0].kernel), kw(axes[1].kernel);
  const Dim channels = *given[given.size() - 2].divide_exactly(kh * kw);
  const auto is_tiled = [](const PatchAxis& a) {
    return a.stride == a.kernel && a.dilation == 1 && a.padding == 0 && a.count * Dim(a.kernel) == a.size;
  };
  if (is_tiled(axes[0]) && is_tiled(axes[1])) {
    const ValueId x = e.reshape(node.tensor("self"), {batch, channels, kh, kw, axes[0].count, axes[1].count});
    return {e.op("aten.permute.default",
                 {{"self", x}, {"dims", std::vector<Dim>{Dim(0), Dim(1), Dim(4), Dim(2), Dim(5), Dim(3)}}})};
  }
  const auto padded = [](const PatchAxis& a) { return a.size + Dim(2 * a.padding); };
  const Dim height = padded(axes[0]), width = padded(axes[1]), each = kh * kw * axes[0].count * axes[1].count;
  const ValueId rows = e.reshape(e.binary("aten.mul.Tensor", positions_along(e, axes[0]), width),
                                 {kh, Dim(1), axes[0].count, Dim(1)}),
                columns = e.reshape(positions_along(e, axes[1]), {Dim(1), kw, Dim(1), axes[1].count}),
                positions = e.reshape(e.binary("aten.add.Tensor", rows, columns), {each});
  const ValueId nothing = e.op("aten.full.default", {{"size", Shape{batch, channels, height * width}},
                                                     {"fill_value", Dim(0)},
                                                     {"dtype", graph.value(node.tensor("self")).dtype}});
  ValueId y = e.op("aten.index_add.default", {{"self", nothing},
                                              {"dim", Dim(2)},
                                              {"index", positions},
                                              {"source", e.reshape(node.tensor("self"), {batch, channels, each})}});
  y = e.reshape(y, {batch, channels, height, width});
  for (size_t i = 0; i < axes.size(); ++i)
    if (const Dim begin(axes[i].padding); axes[i].padding > 0)
      y = e.op("aten.slice.Tensor",
               {{"self", y}, {"dim", axis_number(2 + i)}, {"start", begin}, {"end", begin + axes[i].size}});
  return {y};
}

// Zeros, but for what stands at the positions.
Values write_unpool(OpEmitter& e, const Graph& graph, const Node& node) {
  const auto sizes = *node.arg("output_size").get<std::vector<Dim>>();
  const Shape shape = graph.value(node.tensor("self")).shape;
  const auto lead = shape.end() - static_cast<std::ptrdiff_t>(sizes.size());
  const Dim planes = product(Shape(shape.begin(), lead)), each = product(Shape(lead, shape.end()));
  const ValueId nothing = e.op("aten.full.default", {{"size", Shape{planes, product(sizes)}},
                                                     {"fill_value", Dim(0)},
                                                     {"dtype", graph.value(node.tensor("self")).dtype}});
  return {e.op("aten.scatter.src", {{"self", nothing},
                                    {"dim", Dim(1)},
                                    {"index", e.reshape(node.tensor("indices"), {planes, each})},
                                    {"src", e.reshape(node.tensor("self"), {planes, each})}})};
}

constexpr LibraryOp kPatchOps[] = {
    {"aten.max_unpool2d.default", write_unpool},
    {"aten.max_unpool3d.default", write_unpool},
    {"aten.im2col.default", write_patches},
    {"aten.col2im.default", write_patch_sums},
};

}  // namespace

std::span<const LibraryOp> library_patches() { return kPatchOps; }

}  // namespace qcg

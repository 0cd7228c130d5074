// Convolutions and pools with their channels last.
//
// A convolution is one product. Its windows are a view of the padded x, [batch, places…, channels, kernel…]; rows of
// them would be a copy of as many elements as the kernel has for each of x: kernels of CPUs find their parts where they
// lie. Convolutions of groups of channels or of very few, and pools, of up to two axes have a kernel of their own,
// qcg.windows.
#include <algorithm>
#include <cmath>

#include "graph/ir/elements.h"
#include "graph/ops/infer.h"
#include "graph/passes/layers/layers.h"
#include "graph/patterns/constant_numbers.h"

namespace qcg {
namespace {

using Axes = std::vector<WindowAxis>;

// x [lead, axes…, C] with `value` around it.
ValueId padded(OpEmitter& e, ValueId x, const Axes& axes, double value) {
  const bool none = std::ranges::all_of(axes, [](const WindowAxis& a) { return a.before == 0 && a.behind == 0; });
  if (none) return x;
  std::vector<Dim> pad = {Dim(0), Dim(0)};  // from the last axis on
  for (size_t i = axes.size(); i-- > 0;) pad.push_back(Dim(axes[i].before)), pad.push_back(Dim(axes[i].behind));
  return e.op("aten.constant_pad_nd.default", {{"self", x}, {"pad", pad}, {"value", value}});
}

// [lead, places…, C, kernel…]: a view.
ValueId windows(OpEmitter& e, const Graph& graph, ValueId x, const Axes& axes) {
  const size_t lead = graph.value(x).shape.size() - axes.size() - 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    x = e.op("aten.unfold.default", {{"self", x},
                                     {"dimension", axis_number(lead + i)},
                                     {"size", Dim(axes[i].reach())},
                                     {"step", Dim(axes[i].stride)}});
    if (axes[i].dilation > 1)
      x = e.op("aten.slice.Tensor", {{"self", x}, {"dim", Dim(-1)}, {"step", Dim(axes[i].dilation)}});
  }
  return x;
}

ValueId permuted(OpEmitter& e, ValueId x, const std::vector<size_t>& order) {
  std::vector<Dim> dims;
  bool moves = false;
  for (size_t i = 0; i < order.size(); ++i) dims.push_back(axis_number(order[i])), moves = moves || order[i] != i;
  return moves ? e.op("aten.permute.default", {{"self", x}, {"dims", dims}}) : x;
}

std::vector<size_t> count_from(size_t first, size_t last) {
  std::vector<size_t> out;
  for (size_t i = first; i < last; ++i) out.push_back(i);
  return out;
}
std::vector<size_t> operator+(std::vector<size_t> a, const std::vector<size_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

bool slides(const WindowAxis& a) { return a.kernel > 1 || a.stride > 1 || a.before > 0 || a.behind > 0; }

// A product of windows of `groups` groups of channels: [lead, places…, groups, outputs of each].
ValueId product_of_groups(OpEmitter& e, const Graph& graph, ValueId x, ValueId weight, int64_t groups, size_t spatial) {
  const Shape shape = graph.value(x).shape, of_weight = graph.value(weight).shape;  // [lead, places…, C, kernel…]
  const size_t channels = shape.size() - spatial - 1;                               // axes before them
  const Dim inputs = of_weight[1], each = *of_weight[0].divide_exactly(Dim(groups));
  const Shape places(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(channels));
  Shape split = places;
  split.push_back(Dim(groups)), split.push_back(inputs);
  split.insert(split.end(), shape.end() - static_cast<std::ptrdiff_t>(spatial), shape.end());
  const size_t rank = split.size();
  x = permuted(
      e, e.reshape(x, split),
      std::vector{channels} + count_from(0, channels) + count_from(channels + 2, rank) + std::vector{channels + 1});
  Dim k = inputs;
  for (size_t i = 0; i < spatial; ++i) k = k * of_weight[2 + i];
  x = e.reshape(x, {Dim(groups), product(places), k});
  Shape of_groups = {Dim(groups), each};
  of_groups.insert(of_groups.end(), of_weight.begin() + 1, of_weight.end());
  weight = permuted(e, e.reshape(weight, of_groups),
                    std::vector<size_t>{0} + count_from(3, 3 + spatial) + std::vector<size_t>{2, 1});
  weight = e.reshape(weight, {Dim(groups), k, each});
  Shape by_group = {Dim(groups)};
  by_group.insert(by_group.end(), places.begin(), places.end());
  by_group.push_back(each);
  const ValueId y = e.op("aten.matmul.default", {{"self", x}, {"other", weight}});
  return permuted(e, e.reshape(y, by_group), count_from(1, channels + 1) + std::vector<size_t>{0, channels + 1});
}

// qcg.windows.
ValueId slide(OpEmitter& e, ValueId x, ValueId weight, std::string_view op, const Axes& axes, DType dtype) {
  const auto numbers = [&](int64_t WindowAxis::*member) {
    std::vector<Dim> out;
    for (const WindowAxis& a : axes) out.push_back(Dim(a.*member));
    return out;
  };
  std::vector<Dim> places;
  for (const WindowAxis& a : axes) places.push_back(a.count);
  return e.op("qcg.windows", {{"x", x},
                              {"weight", weight},
                              {"op", std::string(op)},
                              {"kernel", numbers(&WindowAxis::kernel)},
                              {"stride", numbers(&WindowAxis::stride)},
                              {"dilation", numbers(&WindowAxis::dilation)},
                              {"before", numbers(&WindowAxis::before)},
                              {"places", places},
                              {"dtype", dtype}});
}
constexpr size_t kMostAxes = 2;  // of qcg.windows

// A weight [N, channels of a group, kernel…] and where it slides.
struct Convolution {
  ValueId weight, bias;
  Axes axes;
  int64_t groups;
};

// Kernels of groups: their weight [N, C of a group, kernel…] as [kernel…, C of a group, N].
ValueId of_groups(OpEmitter& e, const Graph& graph, const Convolution& c, ValueId x) {
  const ValueId weight =
      permuted(e, c.weight, count_from(2, graph.value(c.weight).shape.size()) + std::vector<size_t>{1, 0});
  const DType dtype = graph.value(x).dtype;
  if (c.bias == kNoValue) return slide(e, x, weight, "product", c.axes, dtype);
  const ValueId y = slide(e, x, weight, "product", c.axes, is_half(dtype) ? DType::f32 : dtype);  // rounded once
  return e.to(e.binary("aten.add.Tensor", y, c.bias), dtype);
}

std::vector<size_t> channels_innermost(size_t spatial) {  // of a weight [N, C, kernel…]
  return std::vector<size_t>{0} + count_from(2, 2 + spatial) + std::vector<size_t>{1};
}

// The codes of a weight that is dequantized by output channel, as a matrix, which is then dequantized; kNoValue where
// it is something else.
ValueId dequantized_matrix(OpEmitter& e, Graph& graph, ValueId weight, size_t spatial) {
  const Value& value = graph.value(weight);
  if (value.kind != ValueKind::node) return kNoValue;
  Node node = graph.nodes[value.producer];  // a copy: new nodes move the old
  const bool affine = is_op(node, "torchao.dequantize_affine.default");
  if (!affine && !is_op(node, "quantized_decomposed.dequantize_per_channel.default")) return kNoValue;
  const ValueId codes = node.tensor("input");
  const auto shape = constant_shape(value.shape);
  if (!is_parameter(graph, codes) || !shape) return kNoValue;
  int64_t k = 1;
  for (size_t i = 1; i < shape->size(); ++i) k *= (*shape)[i];
  if (affine) {
    Shape block = *node.arg("block_size").get<std::vector<Dim>>(), by_channel = value.shape;
    by_channel[0] = Dim(1);
    if (block != by_channel) return kNoValue;
    node.arg("block_size") = Shape{Dim(1), Dim(k)};
  } else if (as_integer(node.arg("axis")) != 0) {
    return kNoValue;
  }
  const ValueId matrix = add_computed(graph, {codes}, "rows", graph.value(codes).dtype, {(*shape)[0], k}, [&] {
    Tensor t = graph.value(codes).data;
    const Tensor was = t;
    const std::vector<size_t> order = channels_innermost(spatial);
    for (size_t i = 0; i < order.size(); ++i) t.shape[i] = was.shape[order[i]], t.strides[i] = was.strides[order[i]];
    return t.contiguous().reshape({(*shape)[0], k});
  });
  std::vector<NamedArg> args;
  for (size_t i = 0; i < node.args.size(); ++i) args.push_back({node.op->args[i].name, node.args[i]});
  args[0].value = matrix;
  return e.op(node.op, std::move(args));
}

ValueId convolve(OpEmitter& e, Graph& graph, const Convolution& c, ValueId x);

// Each group a convolution of its own: long sums are better blocked as products of matrices.
ValueId group_by_group(OpEmitter& e, Graph& graph, const Convolution& c, ValueId x) {
  const Shape of_weight = graph.value(c.weight).shape;
  const int64_t inputs = of_weight[1].constant(), outputs = of_weight[0].constant() / c.groups;
  const auto part = [&](ValueId id, int64_t axis, int64_t group, int64_t each) {
    return e.op("aten.slice.Tensor",
                {{"self", id}, {"dim", Dim(axis)}, {"start", Dim(group * each)}, {"end", Dim((group + 1) * each)}});
  };
  x = padded(e, x, c.axes, 0);
  std::vector<ValueId> parts;
  for (int64_t group = 0; group < c.groups && e.status().ok(); ++group) {
    Convolution own{part(c.weight, 0, group, outputs), c.bias, c.axes, 1};
    if (c.bias != kNoValue) own.bias = part(c.bias, 0, group, outputs);
    for (WindowAxis& axis : own.axes)
      axis.size = axis.size + Dim(axis.before + axis.behind), axis.before = axis.behind = 0;
    parts.push_back(convolve(e, graph, own, part(x, -1, group, inputs)));
  }
  return e.op("aten.cat.default", {{"tensors", parts}, {"dim", Dim(-1)}});
}

constexpr int64_t kLongSum = 512;

// Windows that overlap and have so few channels that gathering their short parts costs more than multiplying them: the
// first convolution of a model of images, which reads them channels first, or of sound.
bool has_short_parts(const Graph& graph, const Convolution& c, ValueId x, int64_t channels, int64_t terms) {
  constexpr int64_t kFewChannels = 4;
  return channels <= kFewChannels && terms <= kLongSum && graph.value(x).dtype == DType::f32 &&
         is_parameter(graph, c.weight) &&
         std::ranges::any_of(c.axes, [](const WindowAxis& a) { return a.kernel > a.stride; });
}

ValueId convolve(OpEmitter& e, Graph& graph, const Convolution& c, ValueId x) {
  const auto& [weight, bias, axes, groups] = c;
  const size_t spatial = axes.size();
  const Shape of_weight = graph.value(weight).shape;
  if (spatial <= kMostAxes && constant_shape(of_weight)) {
    const int64_t terms = product(of_weight).divide_exactly(of_weight[0])->constant(), inputs = of_weight[1].constant();
    if (groups > 1)
      return terms <= kLongSum || inputs == 1 ? of_groups(e, graph, c, x) : group_by_group(e, graph, c, x);
    if (has_short_parts(graph, c, x, inputs, terms)) return of_groups(e, graph, c, x);
  }
  const bool slid = std::ranges::any_of(axes, slides);
  Shape out(graph.value(x).shape.begin(), graph.value(x).shape.end() - static_cast<std::ptrdiff_t>(spatial + 1));
  for (const WindowAxis& a : axes) out.push_back(a.count);
  out.push_back(of_weight[0]);
  if (slid) x = windows(e, graph, padded(e, x, axes, 0), axes);
  if (!e.status().ok()) return x;
  if (groups > 1) {
    if (!slid) {
      Shape taps = graph.value(x).shape;
      taps.insert(taps.end(), spatial, Dim(1));
      x = e.reshape(x, taps);
    }
    const ValueId y = e.reshape(product_of_groups(e, graph, x, weight, groups, spatial), out);
    return bias == kNoValue ? y : e.binary("aten.add.Tensor", y, bias);
  }
  const Dim k = *product(of_weight).divide_exactly(of_weight[0]);
  if (slid) {  // a window as it lies: channels innermost
    const size_t rank = graph.value(x).shape.size(), channels = rank - spatial - 1;
    x = permuted(e, x, count_from(0, channels) + count_from(channels + 1, rank) + std::vector{channels});
    Shape rows = out;
    rows.back() = k;
    x = e.reshape(x, rows);
  }
  ValueId matrix = dequantized_matrix(e, graph, weight, spatial);
  if (matrix == kNoValue) matrix = e.reshape(permuted(e, weight, channels_innermost(spatial)), {of_weight[0], k});
  return e.op("aten.linear.default", {{"input", x}, {"weight", matrix}, {"bias", bias}});
}

// x [lead, axes…, C] with stretch - 1 zeros between the elements of each axis.
ValueId stretched(OpEmitter& e, const Graph& graph, ValueId x, const std::vector<TransposedAxis>& axes) {
  const size_t lead = graph.value(x).shape.size() - axes.size() - 1;
  for (size_t i = 0; i < axes.size() && e.status().ok(); ++i) {
    if (axes[i].stretch == 1) continue;
    Shape shape = graph.value(x).shape;
    const size_t axis = lead + i;
    const Dim size = shape[axis];
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis + 1), Dim(1));
    std::vector<Dim> pad(2 * (shape.size() - axis - 1), Dim(0));  // from the last axis on
    pad.back() = Dim(axes[i].stretch - 1);
    x = e.op("aten.constant_pad_nd.default", {{"self", e.reshape(x, shape)}, {"pad", pad}, {"value", 0.0}});
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis + 1));
    shape[axis] = size * Dim(axes[i].stretch);
    x = e.op(
        "aten.slice.Tensor",
        {{"self", e.reshape(x, shape)}, {"dim", axis_number(axis)}, {"start", Dim(0)}, {"end", axes[i].window.size}});
  }
  return x;
}

// A kernel as large as its stride: every element gives a block, so it is a linear and a permute of the blocks.
ValueId blocks(OpEmitter& e, const Graph& graph, ValueId x, ValueId weight, ValueId bias, size_t spatial) {
  const Shape of_weight = graph.value(weight).shape, shape = graph.value(x).shape;  // [C, N, kernel…]
  const size_t lead = shape.size() - spatial - 1;
  const Dim n = of_weight[1], c = of_weight[0];
  const ValueId matrix = e.reshape(permuted(e, weight, count_from(2, 2 + spatial) + std::vector<size_t>{1, 0}),
                                   {*product(of_weight).divide_exactly(c), c});
  Shape split(shape.begin(), shape.end() - 1), out(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(lead));
  std::vector<size_t> order = count_from(0, lead);
  for (size_t i = 0; i < spatial; ++i) {
    split.push_back(of_weight[2 + i]);
    out.push_back(shape[lead + i] * of_weight[2 + i]);
    order.push_back(lead + i), order.push_back(lead + spatial + i);
  }
  split.push_back(n), out.push_back(n), order.push_back(lead + 2 * spatial);
  if (bias != kNoValue) {  // of each column of the linear: [kernel…, N]
    const Shape columns(split.begin() + static_cast<std::ptrdiff_t>(lead + spatial), split.end());
    bias = e.reshape(e.op("aten.expand.default", {{"self", bias}, {"size", columns}}), {product(columns)});
  }
  const ValueId y = e.op("aten.linear.default", {{"input", x}, {"weight", matrix}, {"bias", bias}});
  return e.reshape(permuted(e, e.reshape(y, split), order), out);
}

// A convolution of the stretched x with the kernel turned round.
ValueId transposed(OpEmitter& e, Graph& graph, const Node& node, ValueId x) {
  auto axes = transposed_axes({graph, node});
  if (!axes.ok()) return e.fail(axes.error()), x;
  const size_t spatial = axes->size();
  const int64_t groups = node.arg("groups").get<Dim>()->constant();
  ValueId weight = node.tensor("weight");
  const Shape shape = graph.value(weight).shape;
  const bool whole = std::ranges::all_of(*axes, [](const TransposedAxis& a) {
    return a.window.kernel == a.stretch && a.window.dilation == 1 && a.window.before == a.window.kernel - 1 &&
           a.window.behind == a.window.before;
  });
  if (whole && groups == 1) return blocks(e, graph, x, weight, node.tensor("bias"), spatial);
  Axes windows;
  std::vector<Dim> turned;
  for (size_t i = 0; i < spatial; ++i) windows.push_back((*axes)[i].window), turned.push_back(axis_number(2 + i));
  weight = e.op("aten.flip.default", {{"self", weight}, {"dims", turned}});
  Shape split = shape, joined = shape;  // [groups * C, N, kernel…] as [groups * N, C, kernel…]
  const Dim each = *shape[0].divide_exactly(Dim(groups));
  split[0] = each;
  split.insert(split.begin(), Dim(groups));
  joined[0] = shape[1] * Dim(groups), joined[1] = each;
  weight = e.reshape(permuted(e, e.reshape(weight, split), std::vector<size_t>{0, 2, 1} + count_from(3, 3 + spatial)),
                     joined);
  if (!e.status().ok()) return x;
  return convolve(e, graph, {weight, node.tensor("bias"), windows, groups}, stretched(e, graph, x, *axes));
}

ValueId convolution(OpEmitter& e, Graph& graph, const Node& node, ValueId x) {
  if (is_transposed({graph, node})) return transposed(e, graph, node, x);
  auto axes = window_axes({graph, node});
  if (!axes.ok()) return e.fail(axes.error()), x;
  const int64_t groups = node.arg("groups").get<Dim>()->constant();
  return convolve(e, graph, {node.tensor("weight"), node.tensor("bias"), std::move(*axes), groups}, x);
}

std::vector<Dim> last_axes(size_t count) {
  std::vector<Dim> axes;
  for (size_t i = count; i > 0; --i) axes.push_back(Dim(-static_cast<int64_t>(i)));
  return axes;
}

ValueId max_pool(OpEmitter& e, Graph& graph, const Node& node, ValueId x) {
  auto axes = window_axes({graph, node});
  if (!axes.ok()) return e.fail(axes.error()), x;
  if (axes->size() <= kMostAxes) return slide(e, x, kNoValue, "max", *axes, graph.value(x).dtype);
  x = windows(e, graph, padded(e, x, *axes, -INFINITY), *axes);
  return e.op("aten.amax.default", {{"self", x}, {"dim", last_axes(axes->size())}});
}

// By place, how many elements a mean counts along one axis of a constant size.
std::vector<double> counted(const WindowAxis& a, bool with_padding) {
  std::vector<double> out;
  for (int64_t place = 0, size = a.size.constant(); place < a.count.constant(); ++place) {
    const int64_t begin = place * a.stride - a.before, end = begin + a.kernel;
    out.push_back(static_cast<double>(with_padding ? std::min(end, size + a.padding) - begin
                                                   : std::min(end, size) - std::max<int64_t>(begin, 0)));
  }
  return out;
}

// The same for axes of any size, multiplied: [places…, 1].
ValueId counted_at_run_time(OpEmitter& e, const Axes& axes, bool with_padding) {
  ValueId all = kNoValue;
  for (size_t i = 0; i < axes.size() && e.status().ok(); ++i) {
    const WindowAxis& a = axes[i];
    const ValueId place = e.op("aten.arange.default", {{"end", a.count}}),
                  begin = e.binary("aten.sub.Tensor", e.binary("aten.mul.Tensor", place, Dim(a.stride)), Dim(a.before)),
                  end = e.binary("aten.minimum.default", e.binary("aten.add.Tensor", begin, Dim(a.kernel)),
                                 with_padding ? a.size + Dim(a.padding) : a.size),
                  first = with_padding ? begin : e.binary("aten.maximum.default", begin, Dim(0));
    Shape shape(axes.size() + 1, Dim(1));
    shape[i] = a.count;
    const ValueId own = e.reshape(e.to(e.binary("aten.sub.Tensor", end, first), DType::f32), shape);
    all = i == 0 ? own : e.binary("aten.mul.Tensor", all, own);
  }
  return all;
}

// What the sums of an average pool are divided by: a number, or one for each place, [places…, 1].
Arg divisors(OpEmitter& e, Graph& graph, const Node& node, const Axes& axes) {
  const bool given = node.op->arg_index("divisor_override") >= 0 && !node.arg("divisor_override").is_none();
  if (given) return *as_number(node.arg("divisor_override"));
  const bool with_padding = *node.arg("count_include_pad").get<bool>();
  double all = 1;
  for (const WindowAxis& a : axes) all *= static_cast<double>(a.kernel);
  const bool same = std::ranges::all_of(
      axes, [&](const WindowAxis& a) { return with_padding ? a.behind == a.padding : a.before == 0 && a.behind == 0; });
  if (same) return all;
  if (!std::ranges::all_of(axes, [](const WindowAxis& a) { return a.size.is_constant(); }))
    return counted_at_run_time(e, axes, with_padding);
  std::vector<double> by_place = {1};
  std::vector<int64_t> shape;
  for (const WindowAxis& a : axes) {
    const std::vector<double> counts = counted(a, with_padding);
    std::vector<double> next;
    for (double before : by_place)
      for (double count : counts) next.push_back(before * count);
    by_place = std::move(next);
    shape.push_back(static_cast<int64_t>(counts.size()));
  }
  shape.push_back(1);
  std::vector<std::byte> bytes(by_place.size() * sizeof(float));
  for (size_t i = 0; i < by_place.size(); ++i)
    double_to_element(DType::f32, by_place[i], bytes.data() + i * sizeof(float));
  return graph.add_parameter(graph.unique_name(graph.value(node.outputs[0]).name + ".divisors"),
                             Tensor::from_bytes(DType::f32, shape, std::move(bytes)));
}

ValueId average_pool(OpEmitter& e, Graph& graph, const Node& node, ValueId x) {
  auto axes = window_axes({graph, node});
  if (!axes.ok()) return e.fail(axes.error()), x;
  const Arg divisor = divisors(e, graph, node, *axes);
  const DType dtype = is_half(graph.value(x).dtype) ? DType::f32 : graph.value(x).dtype;
  if (axes->size() <= kMostAxes)
    return e.binary("aten.div.Tensor", slide(e, x, kNoValue, "sum", *axes, dtype), divisor);
  x = windows(e, graph, padded(e, e.to(x, dtype), *axes, 0), *axes);
  const ValueId sum = e.op("aten.sum.dim_IntList", {{"self", x}, {"dim", last_axes(axes->size())}});
  return e.binary("aten.div.Tensor", sum, divisor);
}

// Parts of one axis after the other: of equal size as a view, or else one by one.
ValueId adaptive_pool(OpEmitter& e, Graph& graph, const Node& node, ValueId x) {
  const size_t spatial = count_spatial({graph, node}), lead = graph.value(x).shape.size() - spatial - 1;
  const bool largest = node.op->name.find("max_pool") != std::string::npos;
  const Op over = largest ? Op("aten.amax.default") : Op("aten.mean.dim");
  const Shape out = graph.value(node.outputs[0]).shape;
  if (!largest) x = e.widened(x);
  Shape split(graph.value(x).shape.begin(), graph.value(x).shape.begin() + static_cast<std::ptrdiff_t>(lead)),
      pooled = split;
  std::vector<Dim> parts;
  for (size_t i = 0; i < spatial; ++i) {
    const Dim count = out[out.size() - spatial + i], size = graph.value(x).shape[lead + i];
    pooled.push_back(count);
    const auto each = size.divide_exactly(count);
    if (each && !count.is_constant(1)) split.push_back(count);
    parts.push_back(axis_number(split.size()));
    split.push_back(each ? *each : size);
    if (each) continue;
    std::vector<ValueId> pieces;
    for (int64_t at = 0; at < count.constant() && e.status().ok(); ++at) {
      const auto [first, last] = adaptive_window(at, size, count.constant());
      const ValueId part =
          e.op("aten.slice.Tensor", {{"self", x}, {"dim", axis_number(lead + i)}, {"start", first}, {"end", last}});
      pieces.push_back(
          e.op(over, {{"self", part}, {"dim", std::vector<Dim>{axis_number(lead + i)}}, {"keepdim", true}}));
    }
    x = e.op("aten.cat.default", {{"tensors", pieces}, {"dim", axis_number(lead + i)}});
    split.back() = count, parts.pop_back();
  }
  pooled.push_back(graph.value(x).shape.back());
  split.push_back(pooled.back());
  if (!e.status().ok() || parts.empty()) return x;
  return e.reshape(e.op(over, {{"self", e.reshape(x, split)}, {"dim", parts}}), pooled);
}

constexpr ChannelLayer kChannelLayers[] = {
    {"aten.conv_transpose1d.default", convolution},
    {"aten.conv_transpose2d.input", convolution},
    {"aten.conv_transpose3d.input", convolution},
    {"aten.conv1d.default", convolution},
    {"aten.conv1d.padding", convolution},
    {"aten.conv2d.default", convolution},
    {"aten.conv2d.padding", convolution},
    {"aten.conv3d.default", convolution},
    {"aten.conv3d.padding", convolution},
    {"aten.convolution.default", convolution},
    {"aten.max_pool1d.default", max_pool},
    {"aten.max_pool2d.default", max_pool},
    {"aten.max_pool3d.default", max_pool},
    {"aten.max_pool1d_with_indices.default", max_pool, write_pool_positions},
    {"aten.max_pool2d_with_indices.default", max_pool, write_pool_positions},
    {"aten.max_pool3d_with_indices.default", max_pool, write_pool_positions},
    {"aten.avg_pool1d.default", average_pool},
    {"aten.avg_pool2d.default", average_pool},
    {"aten.avg_pool3d.default", average_pool},
    {"aten.adaptive_avg_pool1d.default", adaptive_pool},
    {"aten.adaptive_avg_pool2d.default", adaptive_pool},
    {"aten._adaptive_avg_pool2d.default", adaptive_pool},
    {"aten.adaptive_avg_pool3d.default", adaptive_pool},
    {"aten._adaptive_avg_pool3d.default", adaptive_pool},
    {"aten.adaptive_max_pool1d.default", adaptive_pool, write_pool_positions},
    {"aten.adaptive_max_pool2d.default", adaptive_pool, write_pool_positions},
    {"aten.adaptive_max_pool3d.default", adaptive_pool, write_pool_positions},
    {"aten.upsample_nearest1d.vec", write_interpolation},
    {"aten.upsample_nearest2d.vec", write_interpolation},
    {"aten.upsample_nearest2d.default", write_interpolation},
    {"aten._upsample_nearest_exact1d.vec", write_interpolation},
    {"aten._upsample_nearest_exact2d.vec", write_interpolation},
    {"aten._upsample_nearest_exact2d.default", write_interpolation},
    {"aten.upsample_nearest1d.default", write_interpolation},
    {"aten._upsample_nearest_exact1d.default", write_interpolation},
    {"aten.upsample_linear1d.default", write_interpolation},
    {"aten.upsample_nearest3d.vec", write_interpolation},
    {"aten.upsample_nearest3d.default", write_interpolation},
    {"aten._upsample_nearest_exact3d.vec", write_interpolation},
    {"aten._upsample_nearest_exact3d.default", write_interpolation},
    {"aten.upsample_trilinear3d.vec", write_interpolation},
    {"aten.upsample_trilinear3d.default", write_interpolation},
    {"aten.upsample_linear1d.vec", write_interpolation},
    {"aten.upsample_bilinear2d.vec", write_interpolation},
    {"aten.upsample_bilinear2d.default", write_interpolation},
    {"aten._upsample_bilinear2d_aa.vec", write_interpolation},
    {"aten._upsample_bilinear2d_aa.default", write_interpolation},
    {"aten.upsample_bicubic2d.vec", write_interpolation},
    {"aten.upsample_bicubic2d.default", write_interpolation},
    {"aten._upsample_bicubic2d_aa.vec", write_interpolation},
    {"aten._upsample_bicubic2d_aa.default", write_interpolation},
};

}  // namespace

const ChannelLayer* find_channel_layer(Op op) {
  const auto* row = std::ranges::find(kChannelLayers, op, &ChannelLayer::op);
  return row == std::end(kChannelLayers) ? nullptr : row;
}

}  // namespace qcg

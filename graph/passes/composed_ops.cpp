#include "graph/passes/composed_ops.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/passes/layers/layers.h"
#include "graph/passes/spelled_ops.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

ValueId over(OpEmitter& e, Op reduction, ValueId x, const std::vector<Dim>& axes) {
  return e.op(reduction, {{"self", x}, {"dim", axes}, {"keepdim", true}});
}
ValueId sum(OpEmitter& e, ValueId a, Arg b) { return e.binary("aten.add.Tensor", a, std::move(b)); }
ValueId difference(OpEmitter& e, ValueId a, ValueId b) { return e.binary("aten.sub.Tensor", a, b); }
ValueId times(OpEmitter& e, ValueId a, Arg b) { return e.binary("aten.mul.Tensor", a, std::move(b)); }

Values softmax_of(OpEmitter& e, const Graph& graph, const Node& node, bool logarithm) {
  ValueId x = node.tensor("self");
  if (node.op->arg_index("dtype") >= 0) x = e.to(x, graph.value(node.outputs[0]).dtype);
  x = e.widened(x);
  std::vector<Dim> axis;
  if (!graph.value(x).shape.empty()) axis.push_back(*node.arg("dim").get<Dim>());
  const ValueId shifted = difference(e, x, over(e, "aten.amax.default", x, axis));
  const ValueId exponential = e.unary("aten.exp.default", shifted);
  const ValueId total = over(e, "aten.sum.dim_IntList", exponential, axis);
  return {logarithm ? difference(e, shifted, e.unary("aten.log.default", total))
                    : e.binary("aten.div.Tensor", exponential, total)};
}
Values softmax(OpEmitter& e, const Graph& graph, const Node& node) { return softmax_of(e, graph, node, false); }
Values log_softmax(OpEmitter& e, const Graph& graph, const Node& node) { return softmax_of(e, graph, node, true); }

std::vector<Dim> normalized_axes(const Graph& graph, const Node& node) {
  const auto rank = static_cast<int64_t>(graph.value(node.tensor("input")).shape.size());
  std::vector<Dim> axes;
  for (auto n = static_cast<int64_t>(node.arg("normalized_shape").get<std::vector<Dim>>()->size()); n > 0; --n)
    axes.push_back(Dim(rank - n));
  return axes;
}

// The result, the mean and 1 / deviation.
Values native_layer_norm(OpEmitter& e, const Graph& graph, const Node& node) {
  const std::vector<Dim> axes = normalized_axes(graph, node);
  const ValueId x = e.widened(node.tensor("input")), weight = node.tensor("weight"), bias = node.tensor("bias");
  const ValueId mean = over(e, "aten.mean.dim", x, axes), centred = difference(e, x, mean);
  const ValueId variance = over(e, "aten.mean.dim", times(e, centred, centred), axes);
  const ValueId inverse = e.unary("aten.rsqrt.default", sum(e, variance, node.arg("eps")));
  ValueId y = times(e, centred, inverse);
  if (weight != kNoValue) y = times(e, y, e.widened(weight));
  if (bias != kNoValue) y = sum(e, y, e.widened(bias));
  return {y, mean, inverse};
}
Values layer_norm(OpEmitter& e, const Graph& graph, const Node& node) { return {native_layer_norm(e, graph, node)[0]}; }

Values rms_norm(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = e.widened(node.tensor("input")), weight = node.tensor("weight");
  const double eps = as_number(node.arg("eps")).value_or(rms_norm_eps(graph.value(x).dtype));
  const ValueId mean = over(e, "aten.mean.dim", times(e, x, x), normalized_axes(graph, node));
  const ValueId y = times(e, x, e.unary("aten.rsqrt.default", sum(e, mean, eps)));
  return {weight == kNoValue ? y : times(e, y, e.widened(weight))};
}

// [N, groups, all that one has] is normalized along the last axis.
Values group_norm(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = e.widened(node.tensor("input")), weight = node.tensor("weight"), bias = node.tensor("bias");
  const Shape shape = graph.value(x).shape;
  const bool by_channel = is_op(node, "aten.instance_norm.default");
  const Dim groups = by_channel ? shape[1] : *node.arg(node.op->outputs == 1 ? "num_groups" : "group").get<Dim>();
  Dim each = *shape[1].divide_exactly(groups);
  Shape channels(shape.size(), Dim(1));
  channels[1] = shape[1];
  if (by_channel && !*node.arg("use_input_stats").get<bool>()) return {normalize_channels(e, node, x, channels)};
  for (size_t i = 2; i < shape.size(); ++i) each = each * shape[i];
  const ValueId rows = e.reshape(x, {shape[0], groups, each});
  const std::vector<Dim> last = {Dim(2)};
  const ValueId mean = over(e, "aten.mean.dim", rows, last), centred = difference(e, rows, mean);
  const ValueId variance = over(e, "aten.mean.dim", times(e, centred, centred), last);
  const ValueId inverse = e.unary("aten.rsqrt.default", sum(e, variance, node.arg("eps")));
  ValueId y = e.reshape(times(e, centred, inverse), shape);
  if (weight != kNoValue) y = times(e, y, e.reshape(e.widened(weight), channels));
  if (bias != kNoValue) y = sum(e, y, e.reshape(e.widened(bias), channels));
  if (node.op->outputs == 1) return {y};
  return {y, mean, inverse};
}

// Along all axes but the channels'.
Values batch_statistics(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = e.widened(node.tensor("input")), weight = node.tensor("weight"), bias = node.tensor("bias");
  const Shape shape = graph.value(x).shape;
  Shape channels(shape.size(), Dim(1));
  channels[1] = shape[1];
  std::vector<Dim> axes;
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != 1) axes.push_back(axis_number(i));
  const ValueId mean = over(e, "aten.mean.dim", x, axes), centred = difference(e, x, mean);
  const ValueId variance = over(e, "aten.mean.dim", times(e, centred, centred), axes);
  const ValueId inverse = e.unary("aten.rsqrt.default", sum(e, variance, node.arg("eps")));
  ValueId y = times(e, centred, inverse);
  if (weight != kNoValue) y = times(e, y, e.reshape(e.widened(weight), channels));
  if (bias != kNoValue) y = sum(e, y, e.reshape(e.widened(bias), channels));
  return {y, mean, inverse};
}

Values batch_norm(OpEmitter& e, const Graph& graph, const Node& node) {
  if (is_of_batch(node)) return {batch_statistics(e, graph, node)[0]};
  const ValueId x = node.tensor("input");
  Shape channels(graph.value(x).shape.size(), Dim(1));
  channels[1] = graph.value(x).shape[1];
  return {normalize_channels(e, node, x, channels)};
}

// [lead, C, r, r, H, W] as [lead, C, H, r, W, r], and back.
Values pixel_shuffle(OpEmitter& e, const Graph& graph, const Node& node) {
  const bool back = is_op(node, "aten.pixel_unshuffle.default");
  const Dim r = *node.arg(back ? "downscale_factor" : "upscale_factor").get<Dim>();
  const Shape from = graph.value(node.tensor("self")).shape, to = graph.value(node.outputs[0]).shape;
  const Shape &few = back ? to : from, &many = back ? from : to;  // pixels
  const size_t lead = from.size() - 3;
  Shape split(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(lead));
  const Dim c = many[lead], h = few[lead + 1], w = few[lead + 2];
  for (const Dim& d : back ? Shape{c, h, r, w, r} : Shape{c, r, r, h, w}) split.push_back(d);
  std::vector<Dim> order;
  for (size_t i = 0; i <= lead; ++i) order.push_back(Dim(static_cast<int64_t>(i)));
  for (const int64_t i : back ? std::array<int64_t, 4>{2, 4, 1, 3} : std::array<int64_t, 4>{3, 1, 4, 2})
    order.push_back(Dim(static_cast<int64_t>(lead) + i));
  const ValueId x = e.reshape(node.tensor("self"), split);
  return {e.reshape(e.op("aten.permute.default", {{"self", x}, {"dims", order}}), to)};
}

// No axes for a tensor without axes, whatever is given.
std::vector<Dim> axes_or_all(const Graph& graph, const Node& node) {
  const size_t rank = graph.value(node.tensor("self")).shape.size();
  const auto* given = node.op->arg_index("dim") < 0 ? nullptr : node.arg("dim").get<std::vector<Dim>>();
  if (given && !given->empty() && rank > 0) return *given;
  std::vector<Dim> axes;
  for (size_t i = 0; i < rank; ++i) axes.push_back(Dim(static_cast<int64_t>(i)));
  return axes;
}

// sum((x - mean)^2) / (n - correction).
Values variance(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = e.widened(node.tensor("self"));
  const std::vector<Dim> axes = axes_or_all(graph, node);
  Dim count(1);
  for (const Dim& axis : axes) count = count * graph.value(x).shape[*as_axis(Arg(axis), graph.value(x).shape.size())];
  const ValueId centred = difference(e, x, over(e, "aten.mean.dim", x, axes));
  const bool keepdim = node.op->arg_index("keepdim") >= 0 && *node.arg("keepdim").get<bool>();
  const ValueId squares =
      e.op("aten.sum.dim_IntList", {{"self", times(e, centred, centred)}, {"dim", axes}, {"keepdim", keepdim}});
  const double correction = correction_of(node);
  const Arg divisor = count.is_constant() ? Arg(std::max(static_cast<double>(count.constant()) - correction, 0.0))
                                          : Arg(Dim::larger(count - Dim(static_cast<int64_t>(correction)), Dim(0)));
  const ValueId y = e.binary("aten.div.Tensor", squares, divisor);
  return {node.op->name.starts_with("aten.std") ? e.unary("aten.sqrt.default", y) : y};
}

Values extreme_of_axis(OpEmitter& e, const Graph& graph, const Node& node) {
  const bool largest = is_op(node, "aten.max.dim");
  const ValueId x = node.tensor("self");
  std::vector<Dim> axis;
  if (!graph.value(x).shape.empty()) axis.push_back(*node.arg("dim").get<Dim>());
  const ValueId position = e.op(largest ? Op("aten.argmax.default") : Op("aten.argmin.default"),
                                {{"self", x}, {"dim", node.arg("dim")}, {"keepdim", node.arg("keepdim")}});
  return {e.op(largest ? Op("aten.amax.default") : Op("aten.amin.default"),
               {{"self", x}, {"dim", axis}, {"keepdim", node.arg("keepdim")}}),
          position};
}

Values glu(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = node.tensor("self");
  const size_t axis = *as_axis(node.arg("dim"), graph.value(x).shape.size());
  const Dim half = graph.value(node.outputs[0]).shape[axis], dim(static_cast<int64_t>(axis));
  auto part = [&](const Dim& from) {
    return e.widened(e.op("aten.slice.Tensor", {{"self", x}, {"dim", dim}, {"start", from}, {"end", from + half}}));
  };
  const ValueId gated = part(Dim(0));
  return {times(e, gated, e.unary("aten.sigmoid.default", part(half)))};
}

// max(x, 0) + slope * min(x, 0): one of them is 0.
Values prelu(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = node.tensor("self");
  ValueId slope = node.tensor("weight");
  Shape shape(graph.value(x).shape.size(), Dim(1));
  if (graph.value(slope).shape.size() == 1 && shape.size() > 1) shape[1] = graph.value(slope).shape[0];
  slope = e.reshape(slope, shape);
  const ValueId positive = e.unary("aten.relu.default", x);
  const ValueId negative = e.op("aten.clamp_max.default", {{"self", x}, {"max", 0.0}});
  return {sum(e, positive, times(e, negative, slope))};
}

// The sum is rounded once.
Values baddbmm(OpEmitter& e, const Graph& graph, const Node& node) {
  const double alpha = *as_number(node.arg("alpha")), beta = *as_number(node.arg("beta"));
  const ValueId self = e.widened(node.tensor("self"));
  ValueId y = e.wide_product(node.tensor("batch1"), node.tensor("batch2"));
  if (alpha != 1) y = times(e, y, alpha);
  if (beta != 0) y = sum(e, y, beta == 1 ? self : times(e, self, beta));  // torch does not read self if it is 0
  return {e.to(y, graph.value(node.outputs[0]).dtype)};
}

Values stack(OpEmitter& e, const Graph& graph, const Node& node) {
  Shape part = graph.value(node.outputs[0]).shape;
  const size_t axis = *as_axis(node.arg("dim"), part.size());
  part[axis] = Dim(1);
  Values parts;
  for (ValueId id : *node.arg("tensors").get<Values>())
    parts.push_back(e.to(e.reshape(id, part), graph.value(node.outputs[0]).dtype));
  return {e.op("aten.cat.default", {{"tensors", parts}, {"dim", Dim(static_cast<int64_t>(axis))}})};
}

// clamp(round(x / scale) + offset), in f32. A number is written as one, so that an epilogue sees whether it is whole.
Values quantize(OpEmitter& e, const Graph& graph, const Node& node) {
  const IntegerRange codes = integer_range(graph.value(node.outputs[0]).dtype);
  const ValueId x = e.to(node.tensor("x"), DType::f32), offset = node.tensor("offset");
  ValueId q = e.unary("aten.round.default", e.binary("aten.div.Tensor", x, node.tensor("scale")));
  const auto number = offset == kNoValue ? std::optional(0.0) : constant_number(graph, offset);
  if (number != 0) q = sum(e, q, number ? Arg(*number) : Arg(e.to(offset, DType::f32)));
  return {e.op("aten.clamp.default",
               {{"self", q}, {"min", static_cast<double>(codes.low)}, {"max", static_cast<double>(codes.high)}})};
}

// Counts the elements that are not 0 (any) or that are 0 (all), and compares the count with 0.
Values any_or_all(OpEmitter& e, const Graph& graph, const Node& node) {
  constexpr Op kAll[] = {"aten.all.default", "aten.all.dim", "aten.all.dims"};
  const bool all = is_any_op(node, kAll), has_axes = node.op->arg_index("dim") >= 0;
  const ValueId x = node.tensor("self");
  std::vector<Dim> axes;
  if (const Dim* one = has_axes ? node.arg("dim").get<Dim>() : nullptr; one && !graph.value(x).shape.empty())
    axes.push_back(*one);
  else if (const auto* some = has_axes ? node.arg("dim").get<std::vector<Dim>>() : nullptr) axes = *some;
  const auto compare = [&](bool equal, ValueId v) {
    return e.binary(equal ? Op("aten.eq.Scalar") : Op("aten.ne.Scalar"), v, Dim(0));
  };
  const ValueId counted = !all && graph.value(x).dtype == DType::boolean ? x : compare(all, x);
  const bool keepdim = has_axes && *node.arg("keepdim").get<bool>();
  const ValueId found =
      compare(all, e.op("aten.sum.dim_IntList", {{"self", counted}, {"dim", axes}, {"keepdim", keepdim}}));
  return {e.to(found, graph.value(node.outputs[0]).dtype)};
}

Values diff(OpEmitter& e, const Graph& graph, const Node& node) {
  ValueId x = node.tensor("self");
  const Arg dim = Dim(static_cast<int64_t>(*as_axis(node.arg("dim"), graph.value(x).shape.size())));
  Values parts;
  for (ValueId part : {node.tensor("prepend"), x, node.tensor("append")})
    if (part != kNoValue) parts.push_back(part);
  if (parts.size() > 1) x = e.op("aten.cat.default", {{"tensors", parts}, {"dim", dim}});
  const size_t axis = static_cast<size_t>(dim.get<Dim>()->constant());
  for (int64_t n = *as_integer(node.arg("n")); n > 0 && e.status().ok(); --n) {
    const Dim size = graph.value(x).shape[axis];
    const ValueId after = e.op("aten.slice.Tensor", {{"self", x}, {"dim", dim}, {"start", Dim(1)}, {"end", size}}),
                  before = e.op("aten.slice.Tensor", {{"self", x}, {"dim", dim}, {"end", size - Dim(1)}});
    x = difference(e, after, before);
  }
  return {x};
}

// An axis at a time: a slice where it shrinks, a cat with constants where it grows.
Values pad(OpEmitter& e, const Graph& graph, const Node& node) {
  if (pad_mode(node) != "constant") return write_continuation(e, graph, node);
  ValueId x = node.tensor("self");
  const std::vector<Dim> sizes = *node.arg("pad").get<std::vector<Dim>>();
  const Arg value = node.arg("value").is_none() ? Arg(0.0) : node.arg("value");
  const DType dtype = graph.value(x).dtype;
  for (size_t i = 0; i < sizes.size() && e.status().ok(); i += 2) {
    const size_t axis = graph.value(x).shape.size() - 1 - i / 2;
    const Arg dim = Dim(static_cast<int64_t>(axis));
    const Dim &before = sizes[i], &behind = sizes[i + 1];  // those of symbols are not negative
    const bool cuts_before = before.is_constant() && before.constant() < 0,
               cuts_behind = behind.is_constant() && behind.constant() < 0;
    if (cuts_before || cuts_behind) {
      const Dim end = graph.value(x).shape[axis] + (cuts_behind ? behind : Dim(0));
      x = e.op("aten.slice.Tensor",
               {{"self", x}, {"dim", dim}, {"start", cuts_before ? Dim(0) - before : Dim(0)}, {"end", end}});
    }
    const auto constants = [&](const Dim& size) {
      Shape shape = graph.value(x).shape;
      shape[axis] = size;
      return e.op("aten.full.default", {{"size", shape}, {"fill_value", value}, {"dtype", dtype}});
    };
    Values parts;
    if (!cuts_before && !before.is_constant(0)) parts.push_back(constants(before));
    parts.push_back(x);
    if (!cuts_behind && !behind.is_constant(0)) parts.push_back(constants(behind));
    if (parts.size() > 1) x = e.op("aten.cat.default", {{"tensors", parts}, {"dim", dim}});
  }
  return {x};
}

// Finds the bin of each element, compares it with all bins, and counts the matches of each bin.
Values histogram(OpEmitter& e, const Graph& graph, const Node& node) {
  const Dim bins = *node.arg("bins").get<Dim>();
  const double low = *as_number(node.arg("min")), high = *as_number(node.arg("max"));
  ValueId x = e.widened(node.tensor("self"));
  x = e.reshape(x, {product(graph.value(x).shape), Dim(1)});
  ValueId bin = times(e, e.binary("aten.sub.Tensor", x, low), static_cast<double>(bins.constant()));
  bin = e.unary("aten.floor.default", e.binary("aten.div.Tensor", bin, high - low));
  bin = e.op("aten.clamp_max.default", {{"self", bin}, {"max", static_cast<double>(bins.constant() - 1)}});
  const ValueId all = e.op("aten.arange.default", {{"end", bins}, {"dtype", DType::f32}});
  const ValueId within =
      e.binary("aten.logical_and.default", e.binary("aten.ge.Scalar", x, low), e.binary("aten.le.Scalar", x, high));
  const ValueId counted = e.binary("aten.logical_and.default", e.binary("aten.eq.Tensor", bin, all), within);
  return {e.op("aten.sum.dim_IntList", {{"self", counted}, {"dim", std::vector<Dim>{Dim(0)}}})};
}

Values one_hot(OpEmitter& e, const Graph& graph, const Node& node) {
  Shape rows = graph.value(node.tensor("self")).shape;
  rows.emplace_back(1);
  const ValueId classes = e.op("aten.arange.default", {{"end", node.arg("num_classes")}});
  return {e.to(e.binary("aten.eq.Tensor", e.reshape(node.tensor("self"), rows), classes), DType::i64)};
}
constexpr ComposedOp kRows[] = {
    {"aten.softmax.int", softmax},
    {"aten._softmax.default", softmax},
    {"aten.log_softmax.int", log_softmax},
    {"aten._log_softmax.default", log_softmax},
    {"aten.layer_norm.default", layer_norm},
    {"aten.native_layer_norm.default", native_layer_norm},
    {"aten.rms_norm.default", rms_norm},
    {"aten.batch_norm.default", batch_norm},
    {"aten._native_batch_norm_legit_no_training.default", batch_norm},
    {"aten.group_norm.default", group_norm},
    {"aten.native_group_norm.default", group_norm},
    {"aten.instance_norm.default", group_norm},
    {"aten._native_batch_norm_legit.no_stats", batch_statistics},
    {"aten.pixel_shuffle.default", pixel_shuffle},
    {"aten.pixel_unshuffle.default", pixel_shuffle},
    {"aten.var.correction", variance},
    {"aten.std.correction", variance},
    {"aten.var.dim", variance},
    {"aten.std.dim", variance},
    {"aten.var.default", variance},
    {"aten.std.default", variance},
    {"aten.max.dim", extreme_of_axis},
    {"aten.min.dim", extreme_of_axis},
    {"aten.any.default", any_or_all},
    {"aten.any.dim", any_or_all},
    {"aten.any.dims", any_or_all},
    {"aten.all.default", any_or_all},
    {"aten.all.dim", any_or_all},
    {"aten.all.dims", any_or_all},
    {"aten.diff.default", diff},
    {"aten.constant_pad_nd.default", pad},
    {"aten.pad.default", pad},
    {"aten.reflection_pad1d.default", write_continuation},
    {"aten.reflection_pad2d.default", write_continuation},
    {"aten.reflection_pad3d.default", write_continuation},
    {"aten.replication_pad1d.default", write_continuation},
    {"aten.replication_pad2d.default", write_continuation},
    {"aten.replication_pad3d.default", write_continuation},
    {"aten.outer.default", write_outer},
    {"aten.mv.default", write_product_of_vector},
    {"aten.dot.default", write_product_of_vector},
    {"aten.logsumexp.default", write_log_sum},
    {"aten._weight_norm.default", write_weight_norm},
    {"aten.roll.default", write_roll},
    {"aten.broadcast_tensors.default", write_broadcast_tensors},
    {"aten.meshgrid.default", write_meshgrid},
    {"aten.meshgrid.indexing", write_meshgrid},
    {"aten.masked_scatter.default", write_masked_scatter},
    {"aten.grid_sampler.default", write_grid_sample},
    {"aten.grid_sampler_2d.default", write_grid_sample},
    {"aten.grid_sampler_3d.default", write_grid_sample},
    {"aten.affine_grid_generator.default", write_affine_grid},
    {"aten.histc.default", histogram},
    {"aten.one_hot.default", one_hot},
    {"aten.glu.default", glu},
    {"aten.prelu.default", prelu},
    {"aten.baddbmm.default", baddbmm},
    {"aten.stack.default", stack},
    {"tensor_cast.quantize.default", quantize},
};

}  // namespace

// x * scale + shift, of channels: constants, unless what they are made from is no constant.
ValueId normalize_channels(OpEmitter& e, const Node& node, ValueId x, const Shape& channels) {
  const ValueId weight = node.tensor("weight"), bias = node.tensor("bias");
  const auto of_channels = [&](ValueId id) { return e.reshape(e.widened(id), channels); };
  const ValueId variance = of_channels(node.tensor("running_var"));
  ValueId scale = e.unary("aten.rsqrt.default", sum(e, variance, node.arg("eps")));
  if (weight != kNoValue) scale = times(e, scale, of_channels(weight));
  ValueId shift = e.unary("aten.neg.default", times(e, of_channels(node.tensor("running_mean")), scale));
  if (bias != kNoValue) shift = sum(e, shift, of_channels(bias));
  return sum(e, times(e, e.widened(x), scale), shift);
}

const ComposedOp* find_composed(Op op) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const ComposedOp& r) { return r.op == op; });
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace qcg

// Upsampling and downsampling, an axis after the other: a look-up per tap, times the tap's shares, added up.
#include "graph/ir/elements.h"
#include "graph/ops/infer.h"
#include "graph/passes/layers/layers.h"

namespace qcg {
namespace {

// Each element several times along each axis: expanded axes, in a copy.
ValueId repeated(OpEmitter& e, const Graph& graph, ValueId x, const std::vector<int64_t>& repeats) {
  const Shape shape = graph.value(x).shape;
  const size_t lead = shape.size() - repeats.size() - 1;
  Shape thin, wide, out;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool is_repeated = i >= lead && i + 1 < shape.size();
    const Dim times(is_repeated ? repeats[i - lead] : 1);
    thin.push_back(shape[i]), wide.push_back(shape[i]), out.push_back(shape[i] * times);
    if (is_repeated) thin.push_back(Dim(1)), wide.push_back(times);
  }
  return e.reshape(e.op("aten.expand.default", {{"self", e.reshape(x, thin)}, {"size", wide}}), out);
}

class Interpolator {
 public:
  Interpolator(OpEmitter& e, Graph& graph, const Node& node)
      : e_(e), graph_(graph), name_(graph.value(node.outputs[0]).name) {}

  // x along one of its axes.
  ValueId along(ValueId x, size_t dim, const Interpolation& axis) {
    ValueId sum = kNoValue;
    for (size_t tap = 0; tap < axis.positions.size() && e_.status().ok(); ++tap) {
      ValueId part = e_.op("aten.index_select.default",
                           {{"self", x}, {"dim", axis_number(dim)}, {"index", positions(axis.positions[tap])}});
      if (!axis.shares.empty())
        part = e_.binary("aten.mul.Tensor", part, shares(axis.shares[tap], graph_.value(x).shape.size() - dim));
      sum = sum == kNoValue ? part : e_.binary("aten.add.Tensor", sum, part);
    }
    return sum;
  }

  // The same where sizes are known only at run time: nearest, linear and cubic.
  ValueId along(ValueId x, size_t dim, const ResizedAxis& axis, bool nearest, bool exact, bool cubic) {
    const ValueId at = e_.op("aten.arange.default", {{"end", axis.count}, {"dtype", DType::f32}});
    const auto look_up = [&](ValueId positions) {
      return e_.op("aten.index_select.default",
                   {{"self", x}, {"dim", axis_number(dim)}, {"index", e_.to(positions, DType::i64)}});
    };
    const auto at_most = [&](ValueId v, const Arg& limit) { return e_.binary("aten.minimum.default", v, limit); };
    const Dim last = axis.size - Dim(1);
    if (nearest) {
      const ValueId place = times(exact ? plus(at, 0.5) : at, step(axis));
      return look_up(at_most(e_.unary("aten.floor.default", place), last));
    }
    ValueId place = axis.corners ? times(at, step(axis)) : plus(times(plus(at, 0.5), step(axis)), -0.5);
    Shape beside(graph_.value(x).shape.size() - dim, Dim(1));
    beside[0] = axis.count;
    if (cubic) {
      const ValueId low = e_.unary("aten.floor.default", place);
      const ValueId share = e_.reshape(e_.binary("aten.sub.Tensor", place, low), beside);
      ValueId sum = kNoValue;
      for (int tap = -1; tap <= 2 && e_.status().ok(); ++tap) {
        const ValueId element = e_.unary("aten.relu.default", plus(low, static_cast<double>(tap)));
        const ValueId part = times(look_up(at_most(element, last)), cubic_share(e_, share, tap));
        sum = sum == kNoValue ? part : plus(sum, part);
      }
      return sum;
    }
    place = e_.unary("aten.relu.default", place);
    const ValueId low = at_most(e_.unary("aten.floor.default", place), last);
    const ValueId share = e_.reshape(at_most(e_.binary("aten.sub.Tensor", place, low), 1.0), beside);
    const ValueId of_low = plus(times(share, -1.0), 1.0);
    return plus(times(look_up(low), of_low), times(look_up(at_most(plus(low, 1.0), last)), share));
  }

 private:
  ValueId plus(ValueId a, Arg b) { return e_.binary("aten.add.Tensor", a, std::move(b)); }
  ValueId times(ValueId a, Arg b) { return e_.binary("aten.mul.Tensor", a, std::move(b)); }

  // Elements per place, as f32.
  Arg step(const ResizedAxis& axis) {
    if (axis.factor && !axis.corners) return static_cast<double>(static_cast<float>(1 / *axis.factor));
    const Dim one(1), from = axis.corners ? axis.size - one : axis.size,
                      to = axis.corners ? Dim::larger(axis.count - one, one) : axis.count;
    const ValueId one_place =
        e_.op("aten.full.default", {{"size", Shape{one}}, {"fill_value", 1.0}, {"dtype", DType::f32}});
    return e_.binary("aten.div.Tensor", times(one_place, from), to);
  }

  ValueId positions(const std::vector<int64_t>& of_tap) {
    const auto count = static_cast<int64_t>(of_tap.size());
    return graph_.add_parameter(
        graph_.unique_name(name_ + ".positions"),
        make_tensor(DType::i64, {count}, Elements<int64_t>(std::in_place, of_tap.begin(), of_tap.end())));
  }
  // Beside the first of the last `rank` axes.
  ValueId shares(const std::vector<double>& of_tap, size_t rank) {
    std::vector<std::byte> bytes(of_tap.size() * sizeof(float));
    for (size_t k = 0; k < of_tap.size(); ++k)
      double_to_element(DType::f32, of_tap[k], bytes.data() + k * sizeof(float));
    std::vector<int64_t> shape(rank, 1);
    shape[0] = static_cast<int64_t>(of_tap.size());
    return graph_.add_parameter(graph_.unique_name(name_ + ".shares"),
                                Tensor::from_bytes(DType::f32, shape, std::move(bytes)));
  }

  OpEmitter& e_;
  Graph& graph_;
  std::string name_;
};

}  // namespace

ValueId cubic_share(OpEmitter& e, ValueId share, int tap) {
  constexpr double a = -0.75;
  const auto plus = [&](ValueId x, double y) { return e.binary("aten.add.Tensor", x, y); };
  const auto times = [&](ValueId x, Arg y) { return e.binary("aten.mul.Tensor", x, std::move(y)); };
  const bool before = tap <= 0;
  const ValueId x = before ? plus(share, static_cast<double>(-tap))
                           : plus(times(share, -1.0), static_cast<double>(tap));  // the distance
  const ValueId square = times(x, x);
  if (tap == 0 || tap == 1) return plus(times(square, plus(times(x, a + 2), -(a + 3))), 1.0);
  return plus(times(x, plus(times(plus(times(x, a), -5 * a), x), 8 * a)), -4 * a);
}

ValueId write_interpolation(OpEmitter& e, Graph& graph, const Node& node, ValueId x) {
  const auto is_named = [&](std::string_view part) { return node.op->name.find(part) < node.op->name.size(); };
  const bool nearest = is_named("nearest");
  auto axes = resized_axes({graph, node});
  if (!axes.ok()) return e.fail(axes.error()), x;
  if (const auto repeats = repeats_of(*axes); nearest && !repeats.empty()) return repeated(e, graph, x, repeats);
  if (!nearest) x = e.widened(x);
  const size_t lead = graph.value(x).shape.size() - axes->size() - 1;
  Interpolator interpolator(e, graph, node);
  for (size_t i = 0; i < axes->size() && e.status().ok(); ++i) {
    const ResizedAxis& axis = (*axes)[i];
    const bool constant = axis.size.is_constant() && axis.count.is_constant();
    x = constant ? interpolator.along(x, lead + i, interpolate(node, axis, axis.size.constant(), axis.count.constant()))
                 : interpolator.along(x, lead + i, axis, nearest, is_named("exact"), is_named("cubic"));
  }
  return x;
}

}  // namespace qcg

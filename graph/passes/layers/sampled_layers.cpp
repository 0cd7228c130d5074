// grid_sampler: of every place the elements beside it, looked up in the image laid out as a row, times their shares.
// affine_grid_generator: products with the coordinates of places, which are constants.
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/passes/layers/layers.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

// Elements along an axis of the image that a place takes, and their shares; kNoValue: the one element itself.
struct Tap {
  ValueId at, share = kNoValue;
};

class Sampler {
 public:
  Sampler(OpEmitter& e, const Graph& graph, const Node& node)
      : e_(e),
        shape_(graph.value(node.tensor("input")).shape),
        out_(graph.value(node.outputs[0]).shape),
        mode_(node.arg("interpolation_mode").get<Dim>()->constant()),
        padding_(node.arg("padding_mode").get<Dim>()->constant()),
        corners_(*node.arg("align_corners").get<bool>()),
        count_(product({out_.begin() + 2, out_.end()})),
        grid_(e.widened(node.tensor("grid"))),
        image_(e.reshape(node.tensor("input"), {shape_[0], shape_[1], product({shape_.begin() + 2, shape_.end()})})) {}

  // [N, C, places]
  ValueId sample() {
    std::vector<std::vector<Tap>> taps;  // by axis of the image
    for (size_t axis = 2; axis < shape_.size(); ++axis) taps.push_back(taps_along(axis));
    std::vector<Tap> chosen;
    ValueId sum = kNoValue;
    add(taps, chosen, sum);
    return sum;
  }

 private:
  ValueId plus(ValueId a, Arg b) { return e_.binary("aten.add.Tensor", a, std::move(b)); }
  ValueId minus(ValueId a, Arg b) { return e_.binary("aten.sub.Tensor", a, std::move(b)); }
  ValueId times(ValueId a, Arg b) { return e_.binary("aten.mul.Tensor", a, std::move(b)); }
  ValueId over(ValueId a, Arg b) { return e_.binary("aten.div.Tensor", a, std::move(b)); }
  Dim last(size_t axis) const { return shape_[axis] - Dim(1); }
  ValueId clamped(ValueId x, size_t axis) {
    return e_.binary("aten.minimum.default", e_.unary("aten.relu.default", x), last(axis));
  }

  // One product of taps after the other.
  void add(const std::vector<std::vector<Tap>>& taps, std::vector<Tap>& chosen, ValueId& sum) {
    if (!e_.status().ok()) return;
    if (chosen.size() < taps.size()) {
      for (const Tap& tap : taps[chosen.size()]) {
        chosen.push_back(tap);
        add(taps, chosen, sum);
        chosen.pop_back();
      }
      return;
    }
    ValueId share = padding_ == kZeros ? inside(chosen) : kNoValue;
    for (const Tap& tap : chosen)
      if (tap.share != kNoValue) share = share == kNoValue ? tap.share : times(tap.share, share);
    ValueId part = element(chosen);
    if (mode_ != kNearest) part = e_.widened(part);
    if (share != kNoValue) part = times(part, share);
    sum = sum == kNoValue ? part : plus(sum, part);
  }

  std::vector<Tap> taps_along(size_t axis) {
    const ValueId at = places(axis);
    if (mode_ == kNearest) return {{e_.unary("aten.round.default", bounded(at, axis))}};
    const ValueId place = mode_ == kBicubic ? at : bounded(at, axis);
    const ValueId low = e_.unary("aten.floor.default", place), share = minus(place, low);
    if (mode_ != kBicubic) return {{low, plus(times(share, -1.0), 1.0)}, {plus(low, 1.0), share}};
    std::vector<Tap> taps;
    for (int tap = -1; tap <= 2; ++tap)
      taps.push_back({bounded(plus(low, static_cast<double>(tap)), axis), cubic_share(e_, share, tap)});
    return taps;
  }

  // [N, 1, places], in elements along an axis of the image.
  ValueId places(size_t axis) {
    const auto rank = static_cast<int64_t>(shape_.size());
    const Dim coordinate(rank - 1 - static_cast<int64_t>(axis));  // x comes first
    ValueId at = e_.op("aten.slice.Tensor",
                       {{"self", grid_}, {"dim", Dim(rank - 1)}, {"start", coordinate}, {"end", coordinate + Dim(1)}});
    at = plus(e_.reshape(at, {shape_[0], Dim(1), count_}), 1.0);
    return corners_ ? times(over(at, 2.0), last(axis)) : over(minus(times(at, shape_[axis]), 1.0), 2.0);
  }

  // Brought back into the image as the padding says.
  ValueId bounded(ValueId at, size_t axis) {
    if (padding_ == kZeros) return at;
    return clamped(padding_ == kReflected ? reflected(at, axis) : at, axis);
  }

  // Turned back at both ends, as often as it takes.
  ValueId reflected(ValueId at, size_t axis) {
    const double low = corners_ ? 0 : -0.5;
    const Dim span = corners_ ? last(axis) : shape_[axis];
    const ValueId way = e_.unary("aten.abs.default", minus(at, low));
    const ValueId turns = e_.unary("aten.floor.default", over(way, Dim::larger(span, Dim(1))));
    const ValueId left = minus(way, times(turns, span));
    const ValueId odd = minus(turns, times(e_.unary("aten.floor.default", over(turns, 2.0)), 2.0));
    return plus(plus(left, times(odd, plus(times(left, -2.0), span))), low);
  }

  // 1, or 0 beside the image.
  ValueId inside(const std::vector<Tap>& taps) {
    ValueId all = kNoValue;
    for (size_t i = 0; i < taps.size(); ++i) {
      const ValueId both = e_.binary("aten.logical_and.default", e_.binary("aten.ge.Scalar", taps[i].at, 0.0),
                                     e_.binary("aten.le.Scalar", taps[i].at, last(2 + i)));
      all = all == kNoValue ? both : e_.binary("aten.logical_and.default", all, both);
    }
    return all;
  }

  // [N, C, places]
  ValueId element(const std::vector<Tap>& taps) {
    ValueId index = kNoValue;
    for (size_t i = 0; i < taps.size(); ++i) {
      const ValueId at = e_.to(clamped(taps[i].at, 2 + i), DType::i64);
      index = index == kNoValue ? at : plus(times(index, shape_[2 + i]), at);
    }
    const ValueId of_channels =
        e_.op("aten.expand.default", {{"self", index}, {"size", Shape{shape_[0], shape_[1], count_}}});
    return e_.op("aten.gather.default", {{"self", image_}, {"dim", Dim(2)}, {"index", of_channels}});
  }

  OpEmitter& e_;
  Shape shape_, out_;
  int64_t mode_, padding_;
  bool corners_;
  Dim count_;  // of places
  ValueId grid_, image_;
};

// From -1 to 1, of the corner elements or of the image's edges, along the last axis of [1, count].
ValueId coordinates(OpEmitter& e, const Dim& count, bool corners) {
  const ValueId at = e.op("aten.arange.default", {{"end", count}, {"dtype", DType::f32}});
  const Dim last = count - Dim(1);
  return e.binary("aten.div.Tensor", e.binary("aten.sub.Tensor", e.binary("aten.mul.Tensor", at, 2.0), last),
                  corners ? Dim::larger(last, Dim(1)) : count);
}

}  // namespace

Values write_grid_sample(OpEmitter& e, const Graph& graph, const Node& node) {
  Sampler sampler(e, graph, node);
  if (!e.status().ok()) return {};
  return {sampler.sample()};
}

Values write_affine_grid(OpEmitter& e, const Graph& graph, const Node& node) {
  const Shape out = graph.value(node.outputs[0]).shape;  // [N, H, W, 2], or with a depth [N, D, H, W, 3]
  const size_t axes = out.size() - 2;
  const ValueId theta = e.widened(node.tensor("theta"));
  const bool corners = *node.arg("align_corners").get<bool>();
  const auto factors = [&](size_t column) {
    const Dim at(static_cast<int64_t>(column));
    const ValueId part =
        e.op("aten.slice.Tensor", {{"self", theta}, {"dim", Dim(2)}, {"start", at}, {"end", at + Dim(1)}});
    Shape shape(out.size(), Dim(1));
    shape.front() = out.front(), shape.back() = out.back();
    return e.reshape(part, shape);
  };
  ValueId sum = factors(axes);
  for (size_t i = 0; i < axes && e.status().ok(); ++i) {  // x is the last axis
    const size_t axis = axes - i;
    Shape shape(out.size(), Dim(1));
    shape[axis] = out[axis];
    const ValueId along = e.reshape(coordinates(e, out[axis], corners), shape);
    sum = e.binary("aten.add.Tensor", sum, e.binary("aten.mul.Tensor", factors(i), along));
  }
  return {sum};
}

}  // namespace qcg

// grid_sampler: of every place the elements beside it, looked up in the image laid out as a row, times their shares.
// affine_grid_generator: products with the coordinates of places, which are constants.
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/passes/layers/layers.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

class Sampler {
 public:
  Sampler(OpEmitter& e, const Graph& graph, const Node& node)
      : e_(e),
        shape_(graph.value(node.tensor("input")).shape),
        out_(graph.value(node.outputs[0]).shape),
        padding_(node.arg("padding_mode").get<Dim>()->constant()),
        corners_(*node.arg("align_corners").get<bool>()),
        grid_(e.widened(node.tensor("grid"))),
        image_(e.reshape(node.tensor("input"), {shape_[0], shape_[1], shape_[2] * shape_[3]})) {}

  ValueId nearest() {
    const ValueId row = e_.unary("aten.round.default", places(2)), column = e_.unary("aten.round.default", places(3));
    return times(element(row, column), inside(row, column));
  }

  ValueId bilinear() {
    const ValueId row = places(2), column = places(3);
    const ValueId top = e_.unary("aten.floor.default", row), left = e_.unary("aten.floor.default", column);
    const ValueId below = minus(row, top), behind = minus(column, left);
    const ValueId bottom = plus(top, 1.0), right = plus(left, 1.0);
    ValueId sum = kNoValue;
    for (const auto& [h, of_row] : {std::pair{top, rest(below)}, std::pair{bottom, below}})
      for (const auto& [w, of_column] : {std::pair{left, rest(behind)}, std::pair{right, behind}}) {
        const ValueId share = times(times(of_row, of_column), inside(h, w));
        const ValueId part = times(e_.widened(element(h, w)), share);
        sum = sum == kNoValue ? part : plus(sum, part);
      }
    return sum;
  }

 private:
  double size(size_t axis) const { return static_cast<double>(shape_[axis].constant()); }
  ValueId plus(ValueId a, Arg b) { return e_.binary("aten.add.Tensor", a, std::move(b)); }
  ValueId minus(ValueId a, Arg b) { return e_.binary("aten.sub.Tensor", a, std::move(b)); }
  ValueId times(ValueId a, Arg b) { return e_.binary("aten.mul.Tensor", a, std::move(b)); }
  ValueId over(ValueId a, double b) { return e_.binary("aten.div.Tensor", a, b); }
  ValueId rest(ValueId share) { return plus(times(share, -1.0), 1.0); }
  ValueId clamped(ValueId x, double last) {
    return e_.op("aten.clamp.default", {{"self", x}, {"min", 0.0}, {"max", last}});
  }

  // [N, 1, places], in elements along an axis of the image.
  ValueId places(size_t axis) {
    const Dim coordinate(axis == 3 ? 0 : 1);
    ValueId at = e_.op("aten.slice.Tensor",
                       {{"self", grid_}, {"dim", Dim(3)}, {"start", coordinate}, {"end", coordinate + Dim(1)}});
    at = plus(e_.reshape(at, {shape_[0], Dim(1), out_[2] * out_[3]}), 1.0);
    at = corners_ ? times(over(at, 2.0), size(axis) - 1) : over(minus(times(at, size(axis)), 1.0), 2.0);
    if (padding_ == kReflected) at = reflected(at, axis);
    return padding_ == kZeros ? at : clamped(at, size(axis) - 1);
  }

  // Turned back at both ends, as often as it takes.
  ValueId reflected(ValueId at, size_t axis) {
    const double low = corners_ ? 0 : -0.5, span = corners_ ? size(axis) - 1 : size(axis);
    if (span == 0) return times(at, 0.0);
    const ValueId way = e_.unary("aten.abs.default", minus(at, low));
    const ValueId turns = e_.unary("aten.floor.default", over(way, span));
    const ValueId left = minus(way, times(turns, span));
    const ValueId odd = minus(turns, times(e_.unary("aten.floor.default", over(turns, 2.0)), 2.0));
    return plus(plus(left, times(odd, rest_of_span(left, span))), low);
  }
  ValueId rest_of_span(ValueId left, double span) { return plus(times(left, -2.0), span); }

  // 1, or 0 beside the image.
  ValueId inside(ValueId row, ValueId column) {
    ValueId all = kNoValue;
    for (const auto& [at, axis] : {std::pair{row, size_t{2}}, std::pair{column, size_t{3}}}) {
      const ValueId both = e_.binary("aten.logical_and.default", e_.binary("aten.ge.Scalar", at, 0.0),
                                     e_.binary("aten.le.Scalar", at, size(axis) - 1));
      all = all == kNoValue ? both : e_.binary("aten.logical_and.default", all, both);
    }
    return all;
  }

  // [N, C, places]
  ValueId element(ValueId row, ValueId column) {
    const ValueId h = e_.to(clamped(row, size(2) - 1), DType::i64), w = e_.to(clamped(column, size(3) - 1), DType::i64);
    const ValueId index = plus(times(h, shape_[3]), w);
    const ValueId of_channels =
        e_.op("aten.expand.default", {{"self", index}, {"size", Shape{shape_[0], shape_[1], out_[2] * out_[3]}}});
    return e_.op("aten.gather.default", {{"self", image_}, {"dim", Dim(2)}, {"index", of_channels}});
  }

  OpEmitter& e_;
  Shape shape_, out_;
  int64_t padding_;
  bool corners_;
  ValueId grid_, image_;
};

// From -1 to 1, of the corner elements or of the image's edges, along the last axis of [1, count].
ValueId coordinates(OpEmitter& e, int64_t count, bool corners) {
  const ValueId at = e.op("aten.arange.default", {{"end", Dim(count)}, {"dtype", DType::f32}});
  const auto n = static_cast<double>(count);
  const double step = count > 1 ? 2 / (corners ? n - 1 : n) : 0;
  return e.binary("aten.mul.Tensor", e.binary("aten.sub.Tensor", at, (n - 1) / 2), step);
}

}  // namespace

Values write_grid_sample(OpEmitter& e, const Graph& graph, const Node& node) {
  Sampler sampler(e, graph, node);
  if (!e.status().ok()) return {};
  return {*node.arg("interpolation_mode").get<Dim>() == Dim(kNearest) ? sampler.nearest() : sampler.bilinear()};
}

Values write_affine_grid(OpEmitter& e, const Graph& graph, const Node& node) {
  const Shape out = graph.value(node.outputs[0]).shape;  // [N, H, W, 2]
  const ValueId theta = e.widened(node.tensor("theta"));
  const bool corners = *node.arg("align_corners").get<bool>();
  const auto factors = [&](int64_t column) {  // [N, 1, 1, 2]
    const ValueId part =
        e.op("aten.slice.Tensor", {{"self", theta}, {"dim", Dim(2)}, {"start", Dim(column)}, {"end", Dim(column + 1)}});
    return e.reshape(part, {out[0], Dim(1), Dim(1), Dim(2)});
  };
  const ValueId x = e.reshape(coordinates(e, out[2].constant(), corners), {Dim(1), Dim(1), out[2], Dim(1)}),
                y = e.reshape(coordinates(e, out[1].constant(), corners), {Dim(1), out[1], Dim(1), Dim(1)});
  const ValueId by_x = e.binary("aten.mul.Tensor", factors(0), x), by_y = e.binary("aten.mul.Tensor", factors(1), y);
  return {e.binary("aten.add.Tensor", e.binary("aten.add.Tensor", by_x, by_y), factors(2))};
}

}  // namespace qcg

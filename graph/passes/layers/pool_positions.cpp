// Where the largest elements of a pool's windows are, as positions in the axes laid out as one.
//
//   x [lead, axes…, C]     what every window covers, by position: [lead, places, taps, C]
//                          which of the taps is the largest: [lead, places, C]; the position of that one
//
// A tap in the padding counts as the nearest of its window that is in x, so that it is never the first of the largest.
#include "graph/ir/elements.h"
#include "graph/ops/infer.h"
#include "graph/passes/layers/layers.h"

namespace qcg {
namespace {

class PositionWriter {
 public:
  PositionWriter(OpEmitter& e, Graph& graph, const Node& node, ValueId x)
      : e_(e), graph_(graph), node_(node), x_(x), shape_(graph.value(x).shape) {}

  ValueId write() {
    const size_t spatial = count_spatial({graph_, node_}), lead = shape_.size() - spatial - 1;
    if (node_.op->arg_index("output_size") >= 0) cut_parts(lead, spatial);
    else cut_windows();
    if (!e_.status().ok()) return x_;
    Shape rows(shape_.begin(), shape_.begin() + static_cast<std::ptrdiff_t>(lead)), places;
    Dim all(1), count(1), taps(1);
    for (size_t i = 0; i < spatial; ++i) {
      all = all * shape_[lead + i], count = count * axes_[i].count, taps = taps * axes_[i].taps;
      places.push_back(axes_[i].count);
    }
    const Dim batch = product(rows), channels = shape_.back();
    const ValueId positions = e_.reshape(positions_of_all(lead), {count * taps});
    const ValueId covered =
        e_.op("aten.index_select.default",
              {{"self", e_.reshape(x_, {batch, all, channels})}, {"dim", Dim(1)}, {"index", positions}});
    const ValueId largest =
        e_.op("aten.argmax.default",
              {{"self", e_.reshape(covered, {batch, count, taps, channels})}, {"dim", Dim(2)}, {"keepdim", true}});
    const ValueId table = e_.op("aten.expand.default", {{"self", e_.reshape(positions, {Dim(1), count, taps, Dim(1)})},
                                                        {"size", Shape{batch, count, taps, channels}}});
    rows.insert(rows.end(), places.begin(), places.end());
    rows.push_back(channels);
    return e_.reshape(e_.op("aten.gather.default", {{"self", table}, {"dim", Dim(2)}, {"index", largest}}), rows);
  }

 private:
  struct Axis {
    Dim count, taps;
    ValueId positions;  // [count, taps]
  };

  void cut_windows() {
    auto axes = window_axes({graph_, node_});
    if (!axes.ok()) return e_.fail(axes.error());
    for (const WindowAxis& a : *axes) axes_.push_back({a.count, Dim(a.kernel), positions_of(a)});
  }

  // Parts of equal size, or of different sizes.
  void cut_parts(size_t lead, size_t spatial) {
    const Shape out = graph_.value(node_.outputs[0]).shape;
    for (size_t i = 0; i < spatial; ++i) {
      const Dim size = shape_[lead + i], count = out[out.size() - spatial + i];
      if (const auto each = size.divide_exactly(count)) {
        const ValueId all = e_.op("aten.arange.default", {{"end", size}});
        axes_.push_back({count, *each, e_.reshape(all, {count, *each})});
        continue;
      }
      axes_.push_back(size.is_constant() ? unequal_parts(size.constant(), count.constant())
                                         : unequal_parts(size, count));
    }
  }

  // The last element of a part fills it up to the largest.
  Axis unequal_parts(int64_t size, int64_t count) {
    std::vector<std::pair<int64_t, int64_t>> parts;
    int64_t taps = 0;
    for (int64_t at = 0; at < count; ++at) {
      const auto [first, last] = adaptive_window(at, Dim(size), count);
      parts.emplace_back(first.constant(), last.constant());
      taps = std::max(taps, last.constant() - first.constant());
    }
    std::vector<int64_t> positions;
    for (const auto& [first, last] : parts)
      for (int64_t tap = 0; tap < taps; ++tap) positions.push_back(std::min(first + tap, last - 1));
    const Elements<int64_t> elements(std::in_place, positions.begin(), positions.end());
    return {Dim(count), Dim(taps), e_.parameter("positions", make_tensor(DType::i64, {count, taps}, elements))};
  }
  // No part has more than `taps`.
  Axis unequal_parts(const Dim& size, const Dim& count) {
    const Dim taps = Dim::floor_divide(size + count - Dim(1), count) + Dim(1);
    const auto divided = [&](ValueId x) { return e_.binary("aten.floor_divide.default", x, count); };
    const ValueId at = times(e_.op("aten.arange.default", {{"end", count}}), size), first = divided(at),
                  last = e_.binary("aten.sub.Tensor", divided(e_.binary("aten.add.Tensor", at, size + count - Dim(1))),
                                   Dim(1)),
                  tap = e_.op("aten.arange.default", {{"end", taps}}),
                  positions =
                      e_.binary("aten.add.Tensor", e_.reshape(first, {count, Dim(1)}), e_.reshape(tap, {Dim(1), taps}));
    return {count, taps, e_.binary("aten.minimum.default", positions, e_.reshape(last, {count, Dim(1)}))};
  }

  ValueId steps(const Dim& count, int64_t apart, const Shape& shape) {
    return e_.reshape(times(e_.op("aten.arange.default", {{"end", count}}), Dim(apart)), shape);
  }
  ValueId times(ValueId x, const Dim& d) { return d.is_constant(1) ? x : e_.binary("aten.mul.Tensor", x, d); }

  // place * stride + tap * dilation - before.
  ValueId positions_of(const WindowAxis& a) {
    ValueId at = e_.binary("aten.add.Tensor", steps(a.count, a.stride, {a.count, Dim(1)}),
                           steps(Dim(a.kernel), a.dilation, {Dim(1), Dim(a.kernel)}));
    if (a.before > 0) at = nearest(e_.binary("aten.sub.Tensor", at, Dim(a.before)), a, Dim(0), false);
    if (a.behind > 0) at = nearest(at, a, a.size - Dim(1), true);
    return at;
  }
  // Moves a tap that lies beyond `limit` back by a whole number of dilations.
  ValueId nearest(ValueId at, const WindowAxis& a, const Dim& limit, bool above) {
    if (a.dilation == 1)
      return above ? e_.binary("aten.minimum.default", at, limit) : e_.binary("aten.maximum.default", at, limit);
    const Dim step(a.dilation);
    const auto rest = [&](ValueId x) { return e_.op("aten.remainder.Scalar", {{"self", x}, {"other", step}}); };
    const ValueId beyond = above ? e_.op("aten.rsub.Scalar", {{"self", at}, {"other", limit}}) : at;
    const ValueId inside = above ? e_.op("aten.rsub.Scalar", {{"self", rest(beyond)}, {"other", limit}}) : rest(beyond);
    return e_.op("aten.where.self",
                 {{"condition", e_.binary("aten.lt.Scalar", beyond, Dim(0))}, {"self", inside}, {"other", at}});
  }

  // [count…, taps…], of the axes laid out as one.
  ValueId positions_of_all(size_t lead) {
    ValueId sum = kNoValue;
    const size_t spatial = axes_.size();
    for (size_t i = 0; i < spatial; ++i) {
      Shape thin(2 * spatial, Dim(1));
      thin[i] = axes_[i].count, thin[spatial + i] = axes_[i].taps;
      const ValueId own = e_.reshape(axes_[i].positions, thin);
      sum = sum == kNoValue ? own : e_.binary("aten.add.Tensor", times(sum, shape_[lead + i]), own);
    }
    return sum;
  }

  OpEmitter& e_;
  Graph& graph_;
  const Node& node_;
  const ValueId x_;
  const Shape shape_;  // of x
  std::vector<Axis> axes_;
};

}  // namespace

ValueId write_pool_positions(OpEmitter& e, Graph& graph, const Node& node, ValueId x) {
  return PositionWriter(e, graph, node, x).write();
}

}  // namespace qcg

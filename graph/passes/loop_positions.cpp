#include "graph/passes/loop_positions.h"

#include <algorithm>

#include "graph/ops/op_table.h"
#include "graph/ops/strides.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

const Node* one_tensor_view(const Graph& graph, ValueId id) {
  const Node* node = producer_of(graph, id);
  const bool fits = node && node->op->role == OpRole::view && node->outputs.size() == 1 && !node->args.empty() &&
                    node->args[0].get<ValueId>();
  return fits ? node : nullptr;
}

// The shape with axes of size 1 put in or left out.
std::optional<Strided> reshaped(const Strided& in, const Shape& shape) {
  Strided out{shape, std::vector<Dim>(shape.size(), Dim(0)), in.offset};
  size_t from = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis].is_constant(1)) continue;
    while (from < in.shape.size() && in.shape[from].is_constant(1)) ++from;
    if (from == in.shape.size() || in.shape[from] != shape[axis]) return std::nullopt;
    out.strides[axis] = in.strides[from++];
  }
  const auto rest = in.shape.begin() + static_cast<std::ptrdiff_t>(from);
  const bool complete = std::all_of(rest, in.shape.end(), [](const Dim& d) { return d.is_constant(1); });
  return complete ? std::optional(out) : std::nullopt;
}

std::optional<Strided> seen_through(const Graph& graph, const Node& view, const Strided& in) {
  StrideRule* rule = Op(view.op).row().strides;
  if (!rule) return reshaped(in, graph.value(view.outputs[0]).shape);
  auto out = rule({graph, view}, in);
  return out.ok() ? std::optional(std::move(*out)) : std::nullopt;
}

class Writer {
 public:
  explicit Writer(std::vector<Dim>& sizes) : sizes_(sizes) {}

  Expr number(const Dim& d) {
    if (d.is_constant()) return Expr::number(static_cast<double>(d.constant()));
    const auto it = std::ranges::find(sizes_, d);
    const auto index = it - sizes_.begin();
    if (it == sizes_.end()) sizes_.push_back(d);
    return Expr::size(static_cast<int>(index));
  }

  // A position along an axis of the loop, as the reader's: offset + sum of stride * position.
  Expr position(const Strided& at, const Shape& shape) {
    Expr sum = number(at.offset);
    const size_t lead = shape.size() - at.shape.size();
    for (size_t axis = 0; axis < at.shape.size(); ++axis) {
      if (at.strides[axis].is_constant(0) || at.shape[axis].is_constant(1)) continue;
      Expr term = Expr::pos(static_cast<int>(lead + axis));
      if (!at.strides[axis].is_constant(1)) term = Expr::call("mul", {number(at.strides[axis]), std::move(term)});
      sum = sum == Expr::number(0) ? std::move(term) : Expr::call("add", {std::move(sum), std::move(term)});
    }
    return sum;
  }

 private:
  std::vector<Dim>& sizes_;
};

}  // namespace

std::optional<SeenPositions> see_positions(const Graph& graph, ValueId id, const Shape& shape) {
  std::vector<const Node*> views;
  while (const Node* view = one_tensor_view(graph, id)) {
    views.push_back(view);
    id = *view->args[0].get<ValueId>();
  }
  const Node* loop = producer_if(graph, id, "qcg.loop");
  if (!loop || loop->outputs.size() != 1 || !loop->arg("operands").get<std::vector<ValueId>>()->empty())
    return std::nullopt;
  SeenPositions out{loop, loop->arg("exprs").get<std::vector<Expr>>()->front(), {}};
  const auto& sizes = *loop->arg("sizes").get<std::vector<Dim>>();
  const Shape& own = graph.value(loop->outputs[0]).shape;
  Writer writer(out.sizes);
  std::vector<Expr> positions(own.size());
  for (const int axis : out.expr.leaves(ExprKind::pos)) {
    std::optional<Strided> at = Strided{own, std::vector<Dim>(own.size(), Dim(0)), Dim(0)};
    at->strides[static_cast<size_t>(axis)] = Dim(1);
    for (auto view = views.rbegin(); at && view != views.rend(); ++view) at = seen_through(graph, **view, *at);
    if (!at || at->shape.size() > shape.size()) return std::nullopt;
    positions[static_cast<size_t>(axis)] = writer.position(*at, shape);
  }
  out.expr = out.expr.map_leaves([&](const Expr& leaf) {
    const auto index = static_cast<size_t>(leaf.index);
    return leaf.kind == ExprKind::pos ? positions[index] : writer.number(sizes[index]);
  });
  return out;
}

}  // namespace qcg

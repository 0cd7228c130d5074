// fuse_rows: reductions along the last axis become one qcg.rows with the loops before, between and behind them that walk
// the same rows, and with the quantization of these rows.
//
//   %s = aten.mean.dim(%q = qcg.loop([%x], [mul(in0, in0)]), dim = [-1])        %y = qcg.rows([%x, %w],
//   %r = qcg.loop([%s], [rsqrt(add(in0, 1e-06))])                        ->         steps = [mul(in0, in0), rsqrt(add(acc0, 1e-06)),
//   %y = qcg.loop([%x, %r, %w], [mul(in2, mul(in0, in1))])                                   mul(in1, mul(in0, acc1))],
//                                                                                   reduce = "mean - -", stores = [2])
//
// Rows are the same where they are as many, in the same order: reshapes of the leading axes between the nodes are looked
// through. A value that somebody else reads too becomes an output. Nothing between the nodes may depend on them.
// Values of 16 bits and codes are rounded as they were where they were stored. Integers take part where f32 is exact
// (exact_integers.h): masks, and how often they hold.
// Gates: kMostNodes, kMostOperands, kMostOutputs below.
//
// Why here: after fuse_loops, which leaves one loop where several only feed each other. Attention was recognized before.
#include <algorithm>
#include <unordered_set>

#include "graph/ops/op_table.h"
#include "graph/passes/pass_list.h"
#include "graph/passes/row_builder.h"
#include "graph/rewrite/exact_integers.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

constexpr size_t kMostNodes = 24, kMostOperands = 12, kMostOutputs = 8;

using Ids = std::vector<ValueId>;

RowReduction row_reduction_of(Op op) {
  return op == "aten.mean.dim"          ? RowReduction::mean
         : op == "aten.sum.dim_IntList" ? RowReduction::sum
         : op == "aten.amax.default"    ? RowReduction::amax
         : op == "aten.amin.default"    ? RowReduction::amin
                                        : RowReduction::none;
}

bool has_row_dtype(DType d) {
  return d == DType::f32 || d == DType::bf16 || d == DType::f16 || d == DType::boolean || d == DType::i8 ||
         d == DType::u8 || d == DType::i32 || d == DType::i64 || d == DType::f8e4m3 || d == DType::f8e5m2;
}

// Leading axes of size 1 say nothing.
Shape without_leading_ones(const Shape& shape) {
  const auto first = std::ranges::find_if(shape, [](const Dim& d) { return !d.is_constant(1); });
  return {first, shape.end()};
}
bool same_elements(const Shape& a, const Shape& b) { return without_leading_ones(a) == without_leading_ones(b); }

Shape lead_of(const Shape& shape) { return {shape.begin(), shape.end() - 1}; }
Shape with_last(Shape lead, const Dim& last) {
  lead.push_back(last);
  return lead;
}

// What a node is to a program: its own shape over rows, and what it reads over them.
struct RowNode {
  Shape shape;           // [..., n]; of values per row [..., 1]
  bool per_row = false;  // its results
  bool no_axis = false;  // values per row whose shape lacks the last axis
  Ids operands;
};

class RowFuser {
 public:
  RowFuser(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        readers_(graph),
        depths_(graph, readers_),
        integers_(graph),
        taken_(graph.nodes.size()) {}

  Status run() {
    const auto count = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = 0; id < count; ++id)
      if (!taken_[id] && begins(id)) {
        grow();
        if (members_.size() > 1) commit();
      }
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  // ---- which nodes ----------------------------------------------------------------------------------------------

  bool reduces_last_axis(const Node& node) const {
    if (row_reduction_of(node.op) == RowReduction::none) return false;
    const Shape& shape = graph_.value(node.tensor("self")).shape;
    const auto* dims = node.arg("dim").get<std::vector<Dim>>();
    if (shape.empty() || !dims || dims->size() != 1) return false;
    const auto axis = as_axis(Arg((*dims)[0]), shape.size());
    return axis == shape.size() - 1 && !is_transposed(node.tensor("self"));
  }

  // Rows of such a value lie apart, element by element: what reduces along another axis of memory reads it better.
  bool is_transposed(ValueId id) const {
    while (const Node* node = producer_of(graph_, id)) {
      if (node->op->role != OpRole::view || node->args.empty() || !node->args[0].get<ValueId>()) return false;
      if (is_op(*node, "aten.permute.default")) {
        const auto& dims = *node->arg("dims").get<std::vector<Dim>>();
        return as_axis(Arg(dims.back()), dims.size()) != dims.size() - 1;
      }
      if (is_op(*node, "aten.transpose.int") || is_op(*node, "aten.t.default")) return true;
      id = *node->args[0].get<ValueId>();
    }
    return false;
  }

  bool begins(NodeId id) {
    const Node& node = graph_.nodes[id];
    const bool quantizes = is_op(node, "qcg.quantize_rows") && RowBuilder::can_quantize(node);
    if (!quantizes && !reduces_last_axis(node)) return false;
    const Shape& shape = graph_.value(node.tensor(quantizes ? "x" : "self")).shape;
    if (shape.back().is_constant(1) || shape.back().is_constant(0)) return false;
    shape_ = shape, rows_ = product(lead_of(shape));
    members_ = {}, inside_ = {};
    if (!describe(node)) return false;
    members_ = {id}, inside_ = {id};
    return true;
  }

  std::optional<RowNode> describe(const Node& node) const {
    RowNode out;
    if (is_op(node, "qcg.loop")) {
      if (*node.arg("arithmetic").get<DType>() == DType::f64) return std::nullopt;
      if (node.outputs.size() != 1 || !node.arg("sizes").get<std::vector<Dim>>()->empty()) return std::nullopt;
      const Expr& e = node.arg("exprs").get<std::vector<Expr>>()->front();
      out.operands = *node.arg("operands").get<Ids>();
      if (!e.leaves(ExprKind::pos).empty() || out.operands.empty() || !e.has_f32()) return std::nullopt;
      out.shape = graph_.value(node.outputs[0]).shape;
      const bool elements =
          !out.shape.empty() && out.shape.back() == shape_.back() && product(lead_of(out.shape)) == rows_;
      if (!elements) {
        out.per_row = true;
        out.no_axis = out.shape.empty() || !out.shape.back().is_constant(1) || product(out.shape) != rows_;
        if (out.no_axis) out.shape.emplace_back(1);
      } else if (std::ranges::all_of(out.operands, [&](ValueId o) { return is_per_row(graph_.value(o).shape); })) {
        return std::nullopt;  // the same for all elements: it is a repetition
      }
    } else if (is_op(node, "qcg.quantize_rows")) {
      if (!RowBuilder::can_quantize(node)) return std::nullopt;
      out.operands = {node.tensor("x")};
      out.shape = graph_.value(node.tensor("x")).shape;
    } else if (reduces_last_axis(node)) {
      out.operands = {node.tensor("self")};
      out.shape = graph_.value(node.tensor("self")).shape;
      if (is_op(node, "aten.mean.dim") && !is_floating(graph_.value(out.operands[0]).dtype)) return std::nullopt;
    } else {
      return std::nullopt;
    }
    if (!out.per_row && out.shape.back() != shape_.back()) return std::nullopt;
    if (product(lead_of(out.shape)) != rows_) return std::nullopt;
    if (needs_integers(node) && !is_exact(node, out)) return std::nullopt;
    for (ValueId id : out.operands)
      if (const DType d = graph_.value(id).dtype; !has_row_dtype(d)) return std::nullopt;
    for (ValueId id : node.outputs)
      if (!has_row_dtype(graph_.value(id).dtype)) return std::nullopt;
    return out;
  }

  // What is computed from integers alone is exact, in f32 as well.
  bool needs_integers(const Node& node) const {
    if (is_op(node, "qcg.loop")) return *node.arg("arithmetic").get<DType>() == DType::i64;
    return !is_op(node, "qcg.quantize_rows") && !is_floating(graph_.value(node.outputs[0]).dtype);
  }
  bool is_exact(const Node& node, const RowNode& as) const {
    return integers_.is_exact(node.outputs[0]) &&
           std::ranges::all_of(as.operands, [&](ValueId id) { return integers_.is_exact(id); });
  }

  // Whether a member's result is one value per row.
  bool is_row_value(ValueId id) const {
    const Node& node = graph_.nodes[graph_.value(id).producer];
    if (is_op(node, "qcg.quantize_rows")) return graph_.value(id).output > 0;
    return !is_op(node, "qcg.loop") || describe(node)->per_row;
  }

  // ---- what a member reads --------------------------------------------------------------------------------------

  bool is_inside(ValueId id) const {
    return graph_.value(id).kind == ValueKind::node && inside_.contains(graph_.value(id).producer);
  }

  // Through reshapes to a member's result, if that is where they begin; else the operand itself.
  ValueId source_of(ValueId operand) const {
    for (ValueId id = operand;;) {
      if (is_inside(id)) return id;
      const Node* view = producer_of(graph_, id);
      if (!view || !is_op(*view, "aten.reshape.default")) return operand;
      id = view->tensor("self");
    }
  }

  // A member's result is read row by row, each element by the one at its place.
  bool reads_in_place(const RowNode& reader, ValueId operand, ValueId source) const {
    const Shape& seen = graph_.value(operand).shape;
    const Shape lead = lead_of(reader.shape);
    if (!is_row_value(source)) return !reader.per_row && same_elements(seen, reader.shape);
    if (reader.no_axis) return same_elements(seen, lead);
    return !seen.empty() && seen.back().is_constant(1) && same_elements(seen, with_last(lead, Dim(1)));
  }

  // The shape under which an operand from outside broadcasts over the program's rows.
  std::optional<Shape> shape_over_rows(const RowNode& reader, ValueId operand) const {
    Shape seen = graph_.value(operand).shape;
    if (reader.no_axis && !seen.empty()) seen.emplace_back(1);
    if (seen.empty()) return seen;
    if (reader.per_row && !seen.back().is_constant(1)) return std::nullopt;
    const Shape lead = without_leading_ones(lead_of(seen)), own = lead_of(reader.shape);
    if (same_elements(own, lead_of(shape_)) || lead.empty()) {
      if (seen.size() <= shape_.size()) return seen;
      return without_leading_ones(lead_of(seen)).size() + 1 <= shape_.size()
                 ? std::optional(with_last(without_leading_ones(lead_of(seen)), seen.back()))
                 : std::nullopt;
    }
    if (!same_elements(lead, own)) return std::nullopt;
    return with_last(lead_of(shape_), seen.back());
  }

  // ---- which nodes together -------------------------------------------------------------------------------------

  bool fits_together() const {
    std::unordered_set<ValueId> operands;
    size_t outputs = 0;
    for (const NodeId member : members_) {
      const auto node = describe(graph_.nodes[member]);
      for (ValueId operand : node->operands) {
        const ValueId source = source_of(operand);
        if (is_inside(source)) {
          if (!reads_in_place(*node, operand, source)) return false;
          continue;
        }
        if (!shape_over_rows(*node, operand)) return false;
        if (operands.insert(operand).second && depends_on_members(operand)) return false;
      }
      for (ValueId out : graph_.nodes[member].outputs) outputs += is_read_outside(out);
    }
    return operands.size() <= kMostOperands && outputs <= kMostOutputs;
  }

  bool depends_on_members(ValueId operand) const {
    return std::ranges::any_of(members_, [&](NodeId member) { return depths_.depends_on(operand, member); });
  }

  bool is_read_outside(ValueId id) const {
    if (readers_.is_returned(id)) return true;
    return std::ranges::any_of(readers_.of(id), [&](NodeId reader) {
      if (inside_.contains(reader)) return false;
      return !is_op(graph_.nodes[reader], "aten.reshape.default") || is_read_outside(graph_.nodes[reader].outputs[0]);
    });
  }

  bool add(NodeId id) {
    if (id >= taken_.size() || taken_[id] || inside_.contains(id) || members_.size() >= kMostNodes) return false;
    if (!describe(graph_.nodes[id])) return false;
    members_.push_back(id), inside_.insert(id);
    if (fits_together()) return true;
    members_.pop_back(), inside_.erase(id);
    return false;
  }

  // Nodes that a member reads or that read it, reshapes between them aside.
  std::vector<NodeId> neighbours(NodeId member) const {
    std::vector<NodeId> out;
    for_each_input(graph_.nodes[member], [&](ValueId id) {
      const Node* node = producer_of(graph_, id);
      while (node && is_op(*node, "aten.reshape.default")) id = node->tensor("self"), node = producer_of(graph_, id);
      if (node) out.push_back(graph_.value(id).producer);
    });
    Ids results = graph_.nodes[member].outputs;
    while (!results.empty()) {
      const ValueId id = results.back();
      results.pop_back();
      for (const NodeId reader : readers_.of(id)) {
        if (is_op(graph_.nodes[reader], "aten.reshape.default")) results.push_back(graph_.nodes[reader].outputs[0]);
        else out.push_back(reader);
      }
    }
    std::ranges::sort(out);
    return out;
  }

  void grow() {
    for (bool grew = true; grew;) {
      grew = false;
      for (size_t i = 0; i < members_.size(); ++i)
        for (const NodeId id : neighbours(members_[i])) grew = add(id) || grew;
    }
  }

  // ---- the program ----------------------------------------------------------------------------------------------

  void commit() {
    std::ranges::sort(members_);
    RowBuilder builder;
    std::unordered_map<ValueId, Expr> steps;
    std::vector<std::string> origins;
    for (const NodeId id : members_) {
      const RowNode node = *describe(graph_.nodes[id]);
      std::vector<Expr> reads;
      for (ValueId operand : node.operands) {
        const ValueId source = source_of(operand);
        reads.push_back(is_inside(source) ? steps.at(source)
                                          : builder.operand(over_rows(id, operand, *shape_over_rows(node, operand))));
      }
      write_steps(builder, graph_.nodes[id], reads, steps);
      origins = join_origins(std::move(origins), graph_.nodes[id].origins);
    }
    Ids stored;
    for (const NodeId id : members_)
      for (ValueId out : graph_.nodes[id].outputs)
        if (is_read_outside(out)) {
          stored.push_back(out);
          builder.store(steps.at(out));
        }
    builder.tidy(graph_);
    write_node(builder, stored, std::move(origins));
    ++context_.report.fired;
  }

  ValueId over_rows(NodeId like, ValueId operand, const Shape& shape) {
    if (graph_.value(operand).shape == shape) return operand;
    const OpSchema* reshape = Op("aten.reshape.default").schema();
    const Node node = graph_.nodes[like];
    return emit(graph_, reshape, make_args(*reshape, {{"self", operand}, {"shape", shape}}),
                {graph_.value(operand).dtype, shape}, node, graph_.value(operand).name + ".rows");
  }

  void write_steps(RowBuilder& builder, const Node& node, const std::vector<Expr>& reads,
                   std::unordered_map<ValueId, Expr>& steps) const {
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    if (is_op(node, "qcg.loop")) {
      Expr e = node.arg("exprs").get<std::vector<Expr>>()->front();
      e = e.map_leaves(
          [&](const Expr& leaf) { return leaf.kind == ExprKind::in ? reads[static_cast<size_t>(leaf.index)] : leaf; });
      steps[node.outputs[0]] = builder.pointwise(std::move(e), dtype);
    } else if (is_op(node, "qcg.quantize_rows")) {
      const auto [codes, scale, zero] = builder.quantize(graph_, node, reads[0]);
      steps[node.outputs[0]] = codes, steps[node.outputs[1]] = scale, steps[node.outputs[2]] = zero;
    } else {
      steps[node.outputs[0]] = builder.reduce(row_reduction_of(node.op), reads[0], dtype);
    }
  }

  // Members die, but for those whose result has another shape than the program gives: they become its view.
  void write_node(const RowBuilder& builder, const Ids& stored, std::vector<std::string> origins) {
    std::vector<Expr> exprs;
    for (const RowStep& step : builder.program().steps) exprs.push_back(step.expr);
    std::vector<Dim> stores;
    for (const size_t step : builder.program().stores) stores.emplace_back(static_cast<int64_t>(step));
    std::vector<Shape> shapes;
    for (ValueId id : stored) shapes.push_back(is_row_value(id) ? with_last(lead_of(shape_), Dim(1)) : shape_);
    const OpSchema* schema = Op("qcg.rows").schema();
    const NodeId made =
        graph_.add_node(schema, {builder.operands(), exprs, builder.program().reductions(), stores, shape_}, {});
    Node& node = graph_.nodes[made];
    node.where = graph_.nodes[members_.back()].where, node.source = graph_.nodes[members_.back()].source;
    node.origins = std::move(origins);
    for (const NodeId id : members_) {
      readers_.remove(id);
      graph_.nodes[id].outputs.clear(), graph_.nodes[id].args.clear();
      taken_[id] = true;
    }
    for (size_t i = 0; i < stored.size(); ++i) {
      const ValueId id = stored[i];
      ValueId out = id;
      if (graph_.value(id).shape != shapes[i]) {
        Value value;
        value.name = graph_.unique_name(graph_.value(id).name + ".rows");
        value.dtype = graph_.value(id).dtype, value.shape = shapes[i];
        out = static_cast<ValueId>(graph_.values.size());
        graph_.values.push_back(std::move(value));
        view_as(id, out);
      }
      graph_.value(out).producer = made, graph_.value(out).output = static_cast<uint32_t>(i);
      graph_.nodes[made].outputs.push_back(out);
    }
    readers_.catch_up();
    depths_.update(made);
    for (ValueId id : graph_.nodes[made].outputs)
      for (const NodeId reader : readers_.of(id)) depths_.update(reader);
  }

  void view_as(ValueId id, ValueId of) {
    const OpSchema* reshape = Op("aten.reshape.default").schema();
    const NodeId view =
        graph_.add_node(reshape, make_args(*reshape, {{"self", of}, {"shape", graph_.value(id).shape}}), {});
    graph_.nodes[view].where = graph_.nodes[members_.back()].where;
    graph_.nodes[view].outputs = {id};
    graph_.value(id).producer = view, graph_.value(id).output = 0;
  }

  Graph& graph_;
  PassContext& context_;
  Readers readers_;
  Depths depths_;
  mutable ExactIntegers integers_;
  std::vector<bool> taken_;  // by node: in a program, or a part of one before
  // The program at hand.
  Shape shape_;  // of its elements
  Dim rows_;
  std::vector<NodeId> members_;
  std::unordered_set<NodeId> inside_;
};

}  // namespace

Status fuse_rows(Graph& graph, PassContext& context) { return RowFuser(graph, context).run(); }

}  // namespace qcg

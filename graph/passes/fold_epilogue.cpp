// fold_epilogue: pointwise work on a linear's result moves into the linear.
//
//   %q = qcg.linear([%x], weights = [@g, @u], epilogue = [acc0, acc1])        (outputs %gate, %up)
//   %s = aten.silu(%gate)                                  ->  %m = qcg.linear([%x], weights = [@g, @u],
//   %m = aten.mul(%s, %up)                                                     epilogue = [mul(silu(acc0), acc1)])
//
// Folds bias and residual additions, scales, casts, activations and products of segments, one user at a time, until
// none fits. A result that somebody else reads too stays an output of its own; what is then computed for reductions alone
// stays with them (fuse_rows). Reshapes of leading axes in between are looked through. Operands of an epilogue must
// broadcast to the output and must not depend on the linear itself.
//
// Rounding: only the output is rounded, once. An intermediate is not rounded to its graph dtype unless that has fewer
// bits than the output, where the rounding shows (bf16 logits as f32). Where the result decides a step
// (graph/ops/steps.h), and everywhere with --emulate-precision-casts, every intermediate keeps its cast: a quantizer
// turns the last bit of its input into a whole step, so it is given what the graph says. A quantization to int8 of
// constant parameters folds as well, in one op or written by hand, so that between two linears only int8 is stored; its
// dequantization is one multiplication more.
//
// Gates: epilogue_max_operands (6), epilogue_max_nodes (64) in one expression, epilogue_max_outputs (16).
//
// Why here: after merge_sibling_linears, so that silu(gate) * up sees both segments; after decompose, so that nothing
// pointwise hides in a larger op; before lower_loops, which takes what is left.
#include <algorithm>
#include <array>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"
#include "graph/ops/steps.h"
#include "graph/passes/linear_node.h"
#include "graph/passes/pass_list.h"
#include "graph/rewrite/parameter_views.h"
#include "graph/rewrite/pointwise.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

// Whole numbers, which every float dtype keeps whole.
bool is_whole(const Expr& expr) {
  if (expr.kind == ExprKind::number) return expr.value == std::nearbyint(expr.value);
  if (expr.kind == ExprKind::cast) return is_compute_float(expr.dtype) && is_whole(expr.args[0]);
  if (is_call(expr, "round_even") || is_call(expr, "floor")) return true;
  constexpr std::array kKeep = {"add", "sub", "clamp", "min", "max"};
  return std::ranges::any_of(kKeep, [&](const char* keep) { return is_call(expr, keep); }) &&
         std::ranges::all_of(expr.args, is_whole);
}

// Whole numbers that this byte holds, clamped to its range or to less: a quantization written by hand.
bool is_code_of(DType dtype, const Expr& expr) {
  if (expr.kind == ExprKind::cast) return is_compute_float(expr.dtype) && is_code_of(dtype, expr.args[0]);
  if (!is_call(expr, "clamp") || !is_whole(expr)) return false;
  const IntegerRange codes = integer_range(dtype);
  const Expr &low = expr.args[1], &high = expr.args[2];
  return low.kind == ExprKind::number && low.value >= static_cast<double>(codes.low) && high.kind == ExprKind::number &&
         high.value <= static_cast<double>(codes.high);
}

class EpilogueFolder {
 public:
  EpilogueFolder(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        decides_step_(find_step_inputs(graph)),
        readers_(graph),
        depths_(graph, readers_) {}

  Status run() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!is_linear(graph_.nodes[id])) continue;
      keep_casts_ = context_.options.emulate_precision_casts || decides_step(graph_.nodes[id]);
      while (absorb_one(id)) {
      }
      all_refused_.insert(all_refused_.end(), refused_.begin(), refused_.end());
    }
    for (const Refused& refused : all_refused_)  // another linear may have taken it meanwhile
      if (!graph_.nodes[refused.user].outputs.empty()) context_.skip(refused.skipped.node, refused.skipped.reason);
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  bool decides_step(const Node& linear) const {
    return std::any_of(linear.outputs.begin(), linear.outputs.end(), [&](ValueId id) { return decides_step_[id]; });
  }

  struct Refused {
    NodeId user;
    Skipped skipped;
  };

  // One user of one output, the earliest that fits.
  bool absorb_one(NodeId id) {
    refused_.clear();
    std::vector<NodeId> candidates;
    for (ValueId out : graph_.nodes[id].outputs) {
      for (NodeId user : readers_.of(out)) {
        candidates.push_back(user);
        if (!is_row_view(graph_, graph_.nodes[user])) continue;
        const auto& behind = readers_.of(graph_.nodes[user].outputs[0]);
        candidates.insert(candidates.end(), behind.begin(), behind.end());
      }
    }
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    return std::any_of(candidates.begin(), candidates.end(), [&](NodeId user) { return absorb(id, user); });
  }

  // What an operand of the user is to the linear.
  struct Operand {
    int output = -1;      // output of the linear; -1: something else
    bool viewed = false;  // … through a row view
    ValueId view = kNoValue;
  };

  Operand classify(const LinearNode& linear, ValueId id) const {
    auto find = [&](ValueId v) {
      auto it = std::find(linear.outputs.begin(), linear.outputs.end(), v);
      return it == linear.outputs.end() ? -1 : static_cast<int>(it - linear.outputs.begin());
    };
    if (int index = find(id); index >= 0) return {index, false, kNoValue};
    const Node* view = producer_of(graph_, id);
    if (view && is_row_view(graph_, *view))
      if (int index = find(view->tensor("self")); index >= 0) return {index, true, id};
    return {};
  }

  bool absorb(NodeId id, NodeId user) {
    const Node node = graph_.nodes[user];
    auto pointwise = as_pointwise(graph_, node);
    if (!pointwise) return false;
    LinearNode linear = read_linear(graph_.nodes[id]);
    std::vector<Operand> operands;
    for (ValueId operand : pointwise->operands) operands.push_back(classify(linear, operand));
    // zeros_like reads no element.
    if (std::ranges::none_of(operands, [](const Operand& o) { return o.output >= 0; })) return false;
    if (auto why = why_not(id, linear, node, *pointwise, operands)) {
      const std::string name = node.origins.empty() ? graph_.value(node.outputs[0]).name : node.origins.back();
      refused_.push_back({user, {name, "not folded into " + linear_name(graph_, graph_.nodes[id]) + ": " + *why}});
      return false;
    }
    const Node before = graph_.nodes[id];
    const Operand& own =
        *std::find_if(operands.begin(), operands.end(), [](const Operand& o) { return o.output >= 0; });
    const Shape shape = graph_.value(linear.outputs[static_cast<size_t>(own.output)]).shape;
    std::vector<Expr> with;
    for (size_t i = 0; i < operands.size(); ++i)
      with.push_back(operands[i].output >= 0
                         ? output_expr(linear, operands[i].output)
                         : Expr::in(linear.add_operand(as_rows(pointwise->operands[i], shape, node))));
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    Expr expr = simplify(substitute_inputs(pointwise->expr, with), dtype, keep_casts_);
    if (expr.kind == ExprKind::cast && expr.dtype == dtype) expr = Expr(expr.args[0]);  // the output rounds anyway
    const ValueId result = own.viewed ? view_result(user, shape) : node.outputs[0];
    replace_outputs(linear, node, operands, std::move(expr), result);
    fold_bias(linear);
    const bool viewed = own.viewed;
    if (!viewed) {
      graph_.nodes[user].outputs.clear();
      graph_.nodes[user].args.clear();
    }
    write_linear(graph_, id, std::move(linear));
    readers_.catch_up();
    readers_.exchange(user, node);
    readers_.exchange(id, before);
    for (NodeId changed : {id, user}) depths_.update(changed);
    graph_.nodes[id].origins = join_origins(std::move(graph_.nodes[id].origins), node.origins);
    ++context_.report.fired;
    ++context_.report.counters[node.op->name];
    return true;
  }

  std::optional<std::string> why_not(NodeId id, const LinearNode& linear, const Node& node, const Pointwise& pointwise,
                                     const std::vector<Operand>& operands) const {
    const Value& out = graph_.value(node.outputs[0]);
    const Operand& own =
        *std::find_if(operands.begin(), operands.end(), [](const Operand& o) { return o.output >= 0; });
    if (!is_compute_float(out.dtype) && !gives_codes(linear, node, own))
      return "its result is " + std::string(dtype_name(out.dtype)) + ", not floating point";
    const Shape& shape = graph_.value(linear.outputs[static_cast<size_t>(own.output)]).shape;
    const Shape& seen = own.viewed ? graph_.value(own.view).shape : shape;
    if (out.shape != seen)
      return "its result " + to_string(out.shape) + " is larger than the linear's " + to_string(seen);
    if (!pointwise.sizes.empty() || !pointwise.expr.leaves(ExprKind::pos).empty())
      return "it computes with positions, or with sizes known only at run time";
    for (size_t i = 0; i < operands.size(); ++i) {
      const ValueId operand = pointwise.operands[i];
      const Value& value = graph_.value(operand);
      if (operands[i].output >= 0) {
        if (operands[i].viewed != own.viewed || value.shape != seen ||
            graph_.value(linear.outputs[static_cast<size_t>(operands[i].output)]).shape != shape)
          return "it combines outputs of different shapes";
        continue;
      }
      if (!is_compute_float(value.dtype))
        return "operand " + value.name + " is " + std::string(dtype_name(value.dtype));
      if (depths_.depends_on(operand, id)) return "operand " + value.name + " depends on the linear itself";
      if (own.viewed ? !fits_viewed(value.shape, seen) : !broadcasts_to(value.shape, shape))
        return "operand " + value.name + " " + to_string(value.shape) + " does not broadcast over the linear's rows";
    }
    if (is_only_reduced(node) && is_read_elsewhere(linear, node, own))
      return "reductions alone read it, and it would be one more output: it is computed where they are";
    return check_gates(linear, pointwise, operands);
  }

  bool is_only_reduced(const Node& node) const {
    const auto& readers = readers_.of(node.outputs[0]);
    return !readers.empty() && !readers_.is_returned(node.outputs[0]) &&
           std::ranges::all_of(readers, [&](NodeId id) { return graph_.nodes[id].op->role == OpRole::reduction; });
  }
  bool is_read_elsewhere(const LinearNode& linear, const Node& node, const Operand& own) const {
    const ValueId seen = own.viewed ? own.view : linear.outputs[static_cast<size_t>(own.output)];
    return readers_.uses()[seen] > count_inputs(node, seen);
  }

  // A quantization clamps before it stores, so that its codes are whole and in range. A cast gives codes only if its
  // input is whole and in range.
  bool gives_codes(const LinearNode& linear, const Node& node, const Operand& own) const {
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    if (!is_byte(dtype) || node.op->role == OpRole::quantize) return is_byte(dtype);
    return is_op(node, "aten.to.dtype") && is_code_of(dtype, linear.epilogue[static_cast<size_t>(own.output)]);
  }

  // Behind a row view: the same for every row, or one per element.
  static bool fits_viewed(const Shape& operand, const Shape& seen) {
    if (operand == seen) return true;
    for (size_t i = 0; i + 1 < operand.size(); ++i)
      if (!operand[i].is_constant(1)) return false;
    return operand.empty() || operand.back().is_constant(1) || operand.back() == seen.back();
  }

  std::optional<std::string> check_gates(const LinearNode& linear, const Pointwise& pointwise,
                                         const std::vector<Operand>& operands) const {
    const PassGates& gates = context_.options.gates;
    int64_t nodes = pointwise.expr.count_nodes(), extra = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].output >= 0) nodes += linear.epilogue[static_cast<size_t>(operands[i].output)].count_nodes();
      else extra += linear.find_operand(pointwise.operands[i]) < 0;
    }
    if (nodes > gates.epilogue_max_nodes)
      return "the epilogue would grow beyond epilogue_max_nodes = " + std::to_string(gates.epilogue_max_nodes);
    if (extra > 0 && static_cast<int64_t>(linear.operands.size()) + extra > gates.epilogue_max_operands)
      return "the linear has epilogue_max_operands = " + std::to_string(gates.epilogue_max_operands) +
             " operands already";
    if (static_cast<int64_t>(linear.outputs.size()) >= gates.epilogue_max_outputs)
      return "the linear has epilogue_max_outputs = " + std::to_string(gates.epilogue_max_outputs) + " outputs already";
    return std::nullopt;
  }

  Expr output_expr(const LinearNode& linear, int output) const {
    const Expr& expr = linear.epilogue[static_cast<size_t>(output)];
    const DType dtype = graph_.value(linear.outputs[static_cast<size_t>(output)]).dtype;
    const bool narrow = is_byte(dtype) || is_float8(dtype) || is_half(dtype);
    return narrow ? Expr::cast(dtype, expr) : expr;
  }

  // An operand written for the viewed rows, as the linear's own rows. Leading ones go: [1, 1, N] is [N].
  ValueId as_rows(ValueId operand, const Shape& shape, const Node& like) {
    if (broadcasts_to(graph_.value(operand).shape, shape)) return operand;
    const Shape from = graph_.value(operand).shape;
    const bool per_row = !from.back().is_constant(1) && product(from) == from.back();
    const Shape to = per_row ? Shape{from.back()} : product(from).is_constant(1) ? Shape{Dim(1)} : shape;
    if (is_parameter(graph_, operand)) {
      const auto sizes = constant_shape(to);
      auto view = sizes ? view_as_shape(graph_.value(operand).data, *sizes) : std::nullopt;
      if (view) return add_parameter_view(graph_, operand, std::move(*view));
    }
    const OpSchema* reshape = Op("aten.reshape.default").schema();
    return emit(graph_, reshape, make_args(*reshape, {{"self", operand}, {"shape", to}}),
                {graph_.value(operand).dtype, to}, like, graph_.value(operand).name + ".rows");
  }

  // The user becomes the row view of a new value, which the linear will make.
  ValueId view_result(NodeId user, const Shape& shape) {
    const ValueId out = graph_.nodes[user].outputs[0];
    Value v;
    v.name = graph_.unique_name(graph_.value(out).name + ".rows");
    v.dtype = graph_.value(out).dtype;
    v.shape = shape;
    const ValueId result = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back(std::move(v));
    const OpSchema* reshape = Op("aten.reshape.default").schema();
    replace_node(graph_, user, reshape, make_args(*reshape, {{"self", result}, {"shape", graph_.value(out).shape}}));
    return result;
  }

  // The result takes the place of the first output that nobody else reads; others that nobody else reads go.
  void replace_outputs(LinearNode& linear, const Node& node, const std::vector<Operand>& operands, Expr expr,
                       ValueId result) const {
    std::vector<uint32_t> taken;  // how many of each output's uses go away
    for (ValueId out : linear.outputs) taken.push_back(count_inputs(node, out));
    for (const Operand& operand : operands)  // a view that only this user reads dies with it
      if (operand.viewed && readers_.uses()[operand.view] == count_inputs(node, operand.view))
        ++taken[static_cast<size_t>(operand.output)];
    std::vector<ValueId> outputs;
    std::vector<Expr> epilogue;
    bool placed = false;
    auto place = [&] {
      outputs.push_back(result);
      epilogue.push_back(expr);
      placed = true;
    };
    for (size_t i = 0; i < linear.outputs.size(); ++i) {
      if (taken[i] > 0 && readers_.uses()[linear.outputs[i]] == taken[i]) {
        if (!placed) place();
        continue;
      }
      outputs.push_back(linear.outputs[i]);
      epilogue.push_back(linear.epilogue[i]);
    }
    if (!placed) place();
    linear.outputs = std::move(outputs);
    linear.epilogue = std::move(epilogue);
  }

  static uint32_t count_inputs(const Node& node, ValueId id) {
    uint32_t count = 0;
    for_each_input(node, [&](ValueId input) { count += input == id; });
    return count;
  }

  // add(accJ, a weight of N elements), and nothing else reads accJ: it is the segment's bias.
  void fold_bias(LinearNode& linear) {
    if (linear.scheme == scheme_name(Scheme::s8s8)) return;
    for (Expr& expr : linear.epilogue) {
      if (expr.kind != ExprKind::call || expr.function != "add") continue;
      const bool swapped = expr.args[1].kind == ExprKind::acc;
      const Expr &acc = expr.args[swapped ? 1 : 0], &in = expr.args[swapped ? 0 : 1];
      if (acc.kind != ExprKind::acc || in.kind != ExprKind::in) continue;
      const size_t j = static_cast<size_t>(acc.index);
      const ValueId bias =
          bias_vector(linear.operands[static_cast<size_t>(in.index)], graph_.value(linear.weights[j]).shape[0]);
      const auto readers = std::count_if(linear.epilogue.begin(), linear.epilogue.end(), [&](const Expr& e) {
        const auto accs = e.leaves(ExprKind::acc);
        return std::find(accs.begin(), accs.end(), acc.index) != accs.end();
      });
      if (bias == kNoValue || linear.biases[j] != kNoValue || readers != 1) continue;
      linear.biases[j] = bias;
      expr = Expr(acc);
      ++context_.report.counters["biases"];
    }
  }

  ValueId bias_vector(ValueId id, const Dim& n) {
    if (!is_parameter(graph_, id) || !n.is_constant()) return kNoValue;
    const Tensor& data = graph_.value(id).data;
    if (data.shape.empty() || data.shape.back() != n.constant() || data.numel() != n.constant()) return kNoValue;
    if (data.shape.size() == 1) return id;
    auto view = view_as_shape(data, {n.constant()});
    return view ? add_parameter_view(graph_, id, std::move(*view)) : kNoValue;
  }

  Graph& graph_;
  PassContext& context_;
  const std::vector<bool> decides_step_;  // by value; those that folding adds are no linear's when it is reached
  bool keep_casts_ = false;               // of the linear at hand
  Readers readers_;
  Depths depths_;
  std::vector<Refused> refused_, all_refused_;
};

}  // namespace

Status fold_epilogue(Graph& graph, PassContext& context) {
  // A result folded behind a row view leaves views of views, and what reads those may fold next.
  while (true) {
    const int64_t before = context.report.fired;
    context.report.skipped.clear();
    QCG_CHECK(EpilogueFolder(graph, context).run());
    if (context.report.fired == before) return {};
    PassReport views;
    PassContext quiet{context.options, views};
    QCG_CHECK(fold_noops(graph, quiet));
  }
}

}  // namespace qcg

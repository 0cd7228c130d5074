// recognize_linear: every spelling of a (quantized) linear becomes one qcg.linear.
//
// Runs the recognizers of graph/patterns/ over the graph, most specific first. What nearly matches is noted with what
// was missing; what matches nothing stays as it is and is decomposed later: slower, never wrong. Weights for which
// there is no kernel and no fallback that anyone would want (int4 under quantized activations) are typed errors
// instead.
//
// Why here: after fold_noops and cse, which make spellings equal and let siblings share one activation quantization;
// before fold_constants, which would otherwise dequantize the weights. A rounding between the two scales of a linear
// is kept where it decides a step (graph/ops/steps.h: most often the result is quantized for the next linear).
#include <algorithm>
#include <map>
#include <set>

#include "graph/ops/op_table.h"
#include "graph/ops/steps.h"
#include "graph/passes/pass_list.h"
#include "graph/patterns/constant_numbers.h"
#include "graph/patterns/decomposed_quantization.h"
#include "graph/patterns/move_quantization.h"
#include "graph/patterns/quantize_rows.h"
#include "graph/patterns/raise_affine.h"
#include "graph/patterns/recognizer.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

class LinearFinder {
 public:
  LinearFinder(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        report_(context.report),
        decides_step_(find_step_inputs(graph)),
        readers_(graph) {}

  Status run() {
    for (const Recognizer& recognizer : recognizers()) QCG_CHECK(try_recognizer(recognizer));
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    report_near_misses();
    return {};
  }

 private:
  Status try_recognizer(const Recognizer& recognizer) {
    const Pattern pattern = recognizer.pattern();
    readers_.catch_up();
    const NodeId count = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = 0; id < count; ++id) {
      auto match = match_pattern(graph_, readers_.uses(), pattern, id);
      if (!match || is_replaced(*match)) continue;
      Outcome outcome = recognizer.build(graph_, *match);
      if (outcome.error) return std::move(*outcome.error);
      if (outcome.linear && !has_size_of(id, *outcome.linear))
        outcome = Outcome::miss("the result " + to_string(graph_.value(graph_.nodes[id].outputs[0]).shape) +
                                " is more than one row of outputs per row of the activation");
      if (outcome.linear && overflows_int32(*outcome.linear))
        outcome = Outcome::miss("K is too large for exact int32 sums");
      if (!outcome.linear) {
        if (!outcome.missing.empty()) misses_[product_of(*match)].push_back({recognizer.name, outcome.missing});
        continue;
      }
      note_fallback(*match, recognizer.name);
      make_linear(id, *match, std::move(*outcome.linear));
      ++report_.fired;
      ++report_.counters[std::string(recognizer.name)];
    }
    return {};
  }

  // The linear's own scale is 1, what it was is multiplied behind the rounding: mul(cast_bf16(acc0), in0). Zero points
  // too are taken off as the graph does it: sub(cast_bf16(acc0), cast_bf16(mul(in0, in1))) is rounded.
  void scale_in_epilogue(NodeId root, LinearSpec& spec) {
    const int64_t n = graph_.value(spec.weight).data.shape[0];
    auto rounded = [&](Expr e) { return Expr::cast(spec.product, std::move(e)); };
    spec.epilogue = rounded(std::move(spec.epilogue));
    if (spec.zero_rows != kNoValue) {
      Expr rows = spec.add_operand(one_per_row(root, spec.zero_rows, spec.x)),
           columns = spec.add_operand(spec.zero_columns);
      Expr zeros = rounded(Expr::call("mul", {std::move(rows), std::move(columns)}));
      spec.epilogue = rounded(Expr::call("sub", {std::move(spec.epilogue), std::move(zeros)}));
      spec.x_zero = kNoValue;
    }
    spec.epilogue =
        Expr::call("mul", {std::move(spec.epilogue), spec.add_operand(constant_as_shape(graph_, spec.scale, {n}))});
    spec.scale = add_computed(graph_, {spec.scale}, "one", DType::f32, {n, 1},
                              [&] { return make_matrix(n, 1, [](int64_t, int64_t) { return 1.0; }); });
  }

  // Whether somebody sees how the product was rounded: a result of more bits that is not cast to so few again.
  bool shows(DType product, ValueId out) const {
    const auto wider = [&](ValueId id) { return dtype_bytes(product) < dtype_bytes(graph_.value(id).dtype); };
    if (!wider(out)) return false;
    return readers_.is_returned(out) || std::ranges::any_of(readers_.of(out), [&](NodeId id) {
             return std::ranges::any_of(graph_.nodes[id].outputs, wider);
           });
  }

  // Broadcasting over batches of the weight would need the rows several times.
  bool has_size_of(NodeId root, const LinearSpec& spec) const {
    const Shape& x = graph_.value(spec.x).shape;
    Shape rows(x.begin(), x.end() - 1);
    rows.push_back(graph_.value(spec.weight).shape[0]);
    return product(rows) == product(graph_.value(graph_.nodes[root].outputs[0]).shape);
  }

  // s8 * s8 can reach 2^31 from K = 131,072. u8 * s8 can from 65,794, and so can (s8 - zero point) * s8.
  bool overflows_int32(const LinearSpec& spec) const {
    if (spec.group > 0 || (spec.scheme != Scheme::da8w8 && spec.scheme != Scheme::s8s8)) return false;
    const int64_t k = graph_.value(spec.weight).data.shape[1];
    return k >= (graph_.value(spec.x).dtype == DType::u8 || spec.x_zero != kNoValue ? 65794 : 131072);
  }

  // A more specific pattern nearly matched: the linear works, but costs more than the user may expect.
  void note_fallback(const Match& m, std::string_view pattern) {
    auto it = misses_.find(product_of(m));
    if (it == misses_.end()) return;
    const std::string name = node_name(graph_, graph_.nodes[m.gemm_node()]);
    for (const NearMiss& miss : it->second) {
      report_.skipped.push_back({name, "not \"" + std::string(miss.pattern) + "\": " + miss.missing});
      report_.notes.push_back(name + " is only \"" + std::string(pattern) + "\", not \"" + std::string(miss.pattern) +
                              "\": " + miss.missing);
    }
  }

  // The product's own value names the linear, whatever op the pattern ends in.
  ValueId product_of(const Match& m) const {
    return m.gemm_node() == UINT32_MAX ? kNoValue : graph_.nodes[m.gemm_node()].outputs[0];
  }

  // The product of a recognized linear is dead but still there, and still looks like a match.
  bool is_replaced(const Match& m) const { return taken_.count(m.gemm_node()) > 0; }

  void make_linear(NodeId root, const Match& m, LinearSpec spec) {
    readers_.catch_up();
    const Node before = graph_.nodes[root];
    const ValueId out = before.outputs[0], product = product_of(m);
    std::vector<std::string> origins = activation_origins(m);
    if (!spec.note.empty()) report_.notes.push_back(node_name(graph_, graph_.nodes[m.gemm_node()]) + ": " + spec.note);
    taken_.insert(m.gemm_node());
    take_row_view_off(root, spec);
    give_operands_rows_of_x(m.gemm_node(), spec);
    const bool rounds_product = is_half(spec.product);
    if (rounds_product && (decides_step_[out] || context_.options.emulate_precision_casts || shows(spec.product, out)))
      scale_in_epilogue(root, spec);
    give_offset_dtype_of_scale(graph_, spec);
    spec.x_scale = one_per_row(root, spec.x_scale, spec.x);
    spec.x_zero = one_per_row(root, spec.x_zero, spec.x);
    Shape shape = graph_.value(spec.x).shape;
    shape.back() = graph_.value(spec.weight).shape[0];
    std::vector<Arg> args = linear_args(spec);
    ValueId result = out;
    if (shape == graph_.value(out).shape) {
      replace_node(graph_, root, "qcg.linear", std::move(args));
    } else {
      const Node like = graph_.nodes[root];
      const ValueType type = {graph_.value(out).dtype, shape};
      result = emit(graph_, "qcg.linear", std::move(args), type, like, graph_.value(product).name);
      const OpSchema* reshape = Op("aten.reshape.default").schema();
      replace_node(graph_, root, reshape, make_args(*reshape, {{"self", result}, {"shape", graph_.value(out).shape}}));
      graph_.nodes[root].origins.clear();
    }
    graph_.nodes[graph_.value(result).producer].origins = std::move(origins);
    if (result != product) graph_.swap_names(result, product);
    readers_.catch_up();
    readers_.exchange(root, before);
  }

  // x reshaped to [M, K] and back is x: the rows are the same. Keeps at least two axes, and does nothing when an
  // epilogue operand was written for the reshaped rows.
  void take_row_view_off(NodeId root, LinearSpec& spec) {
    const Node like = graph_.nodes[root];
    const bool row_operands = std::any_of(spec.operands.begin(), spec.operands.end(),
                                          [&](ValueId id) { return graph_.value(id).shape.size() > 1; });
    while (spec.x_scale == kNoValue && !row_operands) {
      const Node* view = producer_of(graph_, spec.x);
      if (!view || !is_row_view(graph_, *view) || graph_.value(view->tensor("self")).shape.size() < 2) break;
      spec.x = view->tensor("self");
    }
    const Shape shape = graph_.value(spec.x).shape;
    if (shape.size() >= 2) return;
    const Shape row = {Dim(1), shape[0]};
    const OpSchema* reshape = Op("aten.reshape.default").schema();
    spec.x = emit(graph_, reshape, make_args(*reshape, {{"self", spec.x}, {"shape", row}}),
                  {graph_.value(spec.x).dtype, row}, like, graph_.value(spec.x).name + ".row");
  }

  // Operands broadcast to the product as the graph has it, whose rows may be those of x in another shape:
  // what is one per row there is reshaped to the rows of x.
  void give_operands_rows_of_x(NodeId gemm, LinearSpec& spec) {
    const Node like = graph_.nodes[gemm];
    const Shape seen = graph_.value(like.outputs[0]).shape;
    Shape rows = graph_.value(spec.x).shape;
    rows.back() = graph_.value(spec.weight).shape[0];
    if (rows == seen) return;
    for (ValueId& operand : spec.operands) {
      const Shape from = graph_.value(operand).shape;
      if (product(from).is_constant(1) || product(from) == from.back()) continue;
      Shape wide = seen, to = rows;
      wide.back() = to.back() = from.back();
      operand = reshaped("aten.expand.default", "size", operand, wide, like);
      operand = reshaped("aten.reshape.default", "shape", operand, to, like);
    }
  }

  ValueId reshaped(Op op, std::string_view sizes, ValueId id, const Shape& shape, const Node& like) {
    if (graph_.value(id).shape == shape) return id;
    return emit(graph_, op, make_args(*op.schema(), {{"self", id}, {sizes, shape}}), {graph_.value(id).dtype, shape},
                like, graph_.value(id).name + ".rows");
  }

  // [M] for rows [M, K] becomes [M, 1]; siblings get the same value.
  ValueId one_per_row(NodeId root, ValueId id, ValueId x) {
    if (id == kNoValue || product(graph_.value(id).shape).is_constant(1)) return id;
    Shape shape = graph_.value(x).shape;
    shape.back() = Dim(1);
    if (graph_.value(id).shape == shape) return id;
    readers_.catch_up();
    NodeId there = UINT32_MAX;
    for (NodeId reader : readers_.of(id))
      if (const Node& node = graph_.nodes[reader];
          is_op(node, "aten.reshape.default") && graph_.value(node.outputs[0]).shape == shape)
        there = std::min(there, reader);
    if (there != UINT32_MAX) return graph_.nodes[there].outputs[0];
    const Node like = graph_.nodes[root];
    const ValueType type = {graph_.value(id).dtype, shape};
    return emit(graph_, "aten.reshape.default",
                make_args(*Op("aten.reshape.default").schema(), {{"self", id}, {"shape", shape}}), type, like,
                graph_.value(id).name + ".rows");
  }

  static std::vector<Arg> linear_args(const LinearSpec& spec) {
    using Ids = std::vector<ValueId>;
    return make_args(*Op("qcg.linear").schema(), {{"xs", Ids{spec.x}},
                                                  {"x_scale", spec.x_scale},
                                                  {"x_zero", spec.x_zero},
                                                  {"weights", Ids{spec.weight}},
                                                  {"scales", Ids{spec.scale}},
                                                  {"zeros", Ids{spec.zero}},
                                                  {"offsets", Ids{spec.offset}},
                                                  {"biases", Ids{spec.bias}},
                                                  {"operands", spec.operands},
                                                  {"scheme", std::string(scheme_name(spec.scheme))},
                                                  {"group", Dim(spec.group)},
                                                  {"epilogue", std::vector<Expr>{spec.epilogue}}});
  }

  // Does the node see an input of the graph, or only weights?
  bool is_activation(NodeId id) {
    for (auto next = static_cast<NodeId>(activation_.size()); next < graph_.nodes.size(); ++next) {
      bool activation = false;  // what a node reads lies before it, also where it was added
      for_each_input(graph_.nodes[next], [&](ValueId input) {
        const Value& value = graph_.value(input);
        activation = activation || value.kind == ValueKind::input ||
                     (value.kind == ValueKind::node && activation_[value.producer]);
      });
      activation_.push_back(activation);
    }
    return activation_[id];
  }

  std::vector<std::string> activation_origins(const Match& m) {
    std::vector<NodeId> ids = m.nodes();
    std::sort(ids.begin(), ids.end());
    std::vector<std::string> origins;
    for (NodeId id : ids)
      if (is_activation(id)) origins = join_origins(std::move(origins), graph_.nodes[id].origins);
    return origins;
  }

  // Only about products that are still there.
  void report_near_misses() {
    for (const Node& node : graph_.nodes) {
      if (node.op->role != OpRole::matmul) continue;
      std::string why;
      auto it = misses_.find(node.outputs[0]);
      if (it != misses_.end())
        for (const NearMiss& miss : it->second)
          why += (why.empty() ? "" : "; ") + std::string(miss.pattern) + ": " + miss.missing;
      if (why.empty()) why = "no pattern for a quantized linear looks like this";
      report_.skipped.push_back({node_name(graph_, node), why});
      report_.notes.push_back(node_name(graph_, node) + " is not a quantized or dense linear (" + why + ")");
    }
  }

  struct NearMiss {
    std::string_view pattern;
    std::string missing;
  };
  Graph& graph_;
  PassContext& context_;
  PassReport& report_;
  const std::vector<bool> decides_step_;  // by value
  Readers readers_;
  std::vector<bool> activation_;  // by node
  std::set<NodeId> taken_;
  std::map<ValueId, std::vector<NearMiss>> misses_;
};

}  // namespace

Status recognize_linear(Graph& graph, PassContext& context) {
  QCG_CHECK(raise_affine(graph, context));
  QCG_CHECK(lift_decomposed_quantization(graph, context));
  QCG_CHECK(move_quantization(graph, context));
  QCG_CHECK(lift_quantize_rows(graph, context));
  QCG_CHECK(LinearFinder(graph, context).run());
  // Rows taken off in front of a linear leave reshapes of reshapes behind it.
  PassReport again;
  PassContext quiet{context.options, again};
  QCG_CHECK(fold_noops(graph, quiet));
  return cse(graph, quiet);  // siblings whose activation was dequantized in front of each share that work again
}

}  // namespace qcg

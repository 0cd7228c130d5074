//   view(dequantize(%q))                    ->   dequantize(view(%q))
//   cat(dequantize(%a), dequantize(%b))     ->   dequantize(cat(%a, %b))      of equal parameters
//   quantize(cat(%a, %b))                   ->   cat(quantize(%a), quantize(%b))
//   quantize(dequantize(%q))                ->   %q                           of equal parameters
//
// dequantize: torchao.dequantize_affine with one scale for the whole tensor; quantize: quantize_per_tensor. The last
// line holds because (q - z) * s * (1 / s) is off its integer by less than 2^-20 of it.
#include "graph/patterns/move_quantization.h"

#include <cmath>

#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

constexpr Op kQuantize = "quantized_decomposed.quantize_per_tensor.default";
constexpr Op kDequantize = "torchao.dequantize_affine.default";

bool is_tensor_wide(const Graph& graph, const Node& node) {
  const auto* block = node.arg("block_size").get<std::vector<Dim>>();
  const ValueId zero = node.tensor("zero_point");
  return block && *block == graph.value(node.tensor("input")).shape &&
         product(graph.value(node.tensor("scale")).shape).is_constant(1) &&
         (zero == kNoValue || product(graph.value(zero).shape).is_constant(1));
}

class Mover {
 public:
  Mover(Graph& graph, PassReport& report) : graph_(graph), report_(report) {}

  // Moves enable one another; each makes a quantization meet fewer operations, so that this ends.
  Status run() {
    for (bool moved = true; moved;) {
      moved = false;
      readers_.emplace(graph_);
      for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes.size()); ++id) {  // those that moves add, too
        readers_->catch_up();
        moved = move(id) || moved;
      }
      QCG_CHECK(sort_nodes(graph_));
      graph_.remove_dead();
    }
    return {};
  }

 private:
  bool move(NodeId id) {
    const Node node = graph_.nodes[id];
    if (node.outputs.size() != 1 || node.args.empty()) return false;
    const bool moved = is_op(node, kQuantize)            ? cancel(node) || split_cat(id, node)
                       : is_op(node, "aten.cat.default") ? join_cat(id, node)
                       : node.op->role == OpRole::view   ? pass_view(id, node)
                                                         : false;
    if (moved) ++report_.fired, ++report_.counters["quantizations moved"];
    return moved;
  }

  const Node* dequantize_of(ValueId id) const {
    const Node* node = producer_if(graph_, id, kDequantize);
    return node && is_tensor_wide(graph_, *node) ? node : nullptr;
  }

  // node's args with `from` replaced.
  static std::vector<Arg> with_input(Node node, std::string_view name, Arg value) {
    node.arg(name) = std::move(value);
    return node.args;
  }

  void become(NodeId id, Op op, std::vector<Arg> args) {
    readers_->remove(id);
    replace_node(graph_, id, op, std::move(args));
    readers_->add(id);
  }

  // The node becomes dequantize(input), with the parameters of `like`.
  void become_dequantize(NodeId id, const Node& like, ValueId input) {
    Node made = like;
    made.arg("input") = input;
    made.arg("block_size") = graph_.value(input).shape;
    become(id, kDequantize, std::move(made.args));
    graph_.nodes[id].origins = join_origins(like.origins, graph_.nodes[id].origins);
  }

  bool pass_view(NodeId id, const Node& node) {
    const ValueId* self = node.args[0].get<ValueId>();
    const Node* found = self && *self != kNoValue ? dequantize_of(*self) : nullptr;
    if (!found) return false;
    const Node dequantize = *found;
    const ValueId q = dequantize.tensor("input");
    const ValueType type = {graph_.value(q).dtype, graph_.value(node.outputs[0]).shape};
    std::vector<Arg> args = node.args;
    args[0] = q;
    become_dequantize(id, dequantize,
                      emit(graph_, node.op, std::move(args), type, node, graph_.value(q).name + ".view"));
    return true;
  }

  bool join_cat(NodeId id, const Node& node) {
    const auto pieces = *node.arg("tensors").get<std::vector<ValueId>>();
    std::vector<ValueId> codes;
    for (ValueId piece : pieces) {
      const Node* dequantize = dequantize_of(piece);
      const Node* first = dequantize_of(pieces[0]);
      if (!dequantize || dequantize->tensor("scale") != first->tensor("scale") ||
          dequantize->tensor("zero_point") != first->tensor("zero_point") ||
          graph_.value(dequantize->tensor("input")).dtype != graph_.value(first->tensor("input")).dtype ||
          graph_.value(piece).dtype != graph_.value(node.outputs[0]).dtype)
        return false;
      codes.push_back(dequantize->tensor("input"));
    }
    if (pieces.empty()) return false;
    const Node like = *dequantize_of(pieces[0]);
    const ValueType type = {graph_.value(codes[0]).dtype, graph_.value(node.outputs[0]).shape};
    become_dequantize(
        id, like,
        emit(graph_, node.op, with_input(node, "tensors", codes), type, node, graph_.value(codes[0]).name + ".cat"));
    return true;
  }

  bool split_cat(NodeId id, const Node& node) {
    const Node* found = producer_if(graph_, node.tensor("input"), "aten.cat.default");
    if (!found) return false;
    const Node cat = *found;
    std::vector<ValueId> codes;
    for (ValueId piece : *cat.arg("tensors").get<std::vector<ValueId>>()) {
      if (graph_.value(piece).dtype != graph_.value(cat.outputs[0]).dtype) return false;  // cat would convert it first
      const ValueType type = {graph_.value(node.outputs[0]).dtype, graph_.value(piece).shape};
      codes.push_back(
          emit(graph_, kQuantize, with_input(node, "input", piece), type, node, graph_.value(piece).name + ".q"));
      graph_.nodes[graph_.value(codes.back()).producer].origins = node.origins;
    }
    become(id, cat.op, with_input(cat, "tensors", codes));
    graph_.nodes[id].origins = cat.origins;
    return true;
  }

  bool cancel(const Node& node) {
    const Node* dequantize = dequantize_of(node.tensor("input"));
    if (!dequantize || graph_.value(dequantize->outputs[0]).dtype != DType::f32) return false;
    const ValueId q = dequantize->tensor("input"), zero_id = dequantize->tensor("zero_point");
    const auto scale = constant_number(graph_, dequantize->tensor("scale"));
    const auto zero = zero_id == kNoValue ? std::optional(0.0) : constant_number(graph_, zero_id);
    const double wanted = round_to_dtype(DType::f32, *as_number(node.arg("scale")));
    if (!scale || !zero || *scale != wanted || *zero != *as_number(node.arg("zero_point"))) return false;
    if (std::abs(wanted) < 1e-30 || std::abs(wanted) > 1e30) return false;  // 1 / s is no exact inverse at the ends
    if (graph_.value(q).dtype != graph_.value(node.outputs[0]).dtype) return false;
    if (!is_within(q, *as_number(node.arg("quant_min")), *as_number(node.arg("quant_max")))) return false;
    readers_->replace(node.outputs[0], q);
    return true;
  }

  // No code of q lies outside [low, high]: by its dtype, or because it was clamped so.
  bool is_within(ValueId q, double low, double high) const {
    const DType dtype = graph_.value(q).dtype;
    if (is_byte(dtype) && low <= integer_range(dtype).low && high >= integer_range(dtype).high) return true;
    const Node* node = producer_of(graph_, q);
    if (!node) return false;
    if (is_op(*node, kQuantize))
      return *as_number(node->arg("quant_min")) >= low && *as_number(node->arg("quant_max")) <= high;
    return is_op(*node, "aten.reshape.default") && is_within(node->tensor("self"), low, high);
  }

  Graph& graph_;
  PassReport& report_;
  std::optional<Readers> readers_;
};

}  // namespace

Status move_quantization(Graph& graph, PassContext& context) { return Mover(graph, context.report).run(); }

}  // namespace qcg

// fold_constants: what depends on bound parameters alone is evaluated now, by the oracle, if it is small.
//
// Gate: constant_max_elements (default 1,048,576) elements of result. A larger result stays an operation, unless it
// takes no more bytes than what it is computed from. The weight of a product may take kMostGrowth times as many,
// because each run would compute all of it again. A product whose weight became a constant this way is a dense linear.
// A product of two quantized matrices whose weight no scheme took (fractional zero points, say) is written in small
// operations first. So is a batch_norm, whose four parameters become two.
//
// Why here: after recognize_linear, because `@w.to(bf16) * @scale` is the *definition* of a quantized weight and must
// not be turned into a dense one first; before fold_epilogue, which wants biases and scales as plain parameters.
#include <algorithm>
#include <array>
#include <set>

#include "graph/passes/composed_ops.h"
#include "graph/passes/pass_list.h"
#include "graph/rewrite/dequantize_operand.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

// Repeated elements are stored once.
int64_t stored_bytes(const Tensor& data) {
  int64_t elements = 1;
  for (size_t i = 0; i < data.shape.size(); ++i)
    if (data.strides[i] != 0) elements *= data.shape[i];
  return elements * static_cast<int64_t>(dtype_bytes(data.dtype));
}

// Codes of four bits that become f32 take eight times the bytes.
constexpr int64_t kMostGrowth = 8;

// By value: whether it is the weight of a product and computed from parameters with bytes alone.
std::vector<bool> find_weights(const Graph& graph) {
  std::vector<bool> constant(graph.values.size()), weight(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id)
    constant[id] = is_parameter(graph, id) && graph.value(id).data.bound();
  for (const Node& node : graph.nodes) {
    bool all = std::ranges::none_of(node.args, has_symbols);
    for_each_input(node, [&](ValueId id) { all = all && constant[id]; });
    for (ValueId out : node.outputs) constant[out] = all;
  }
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool multiplied =
        node->op->role == OpRole::matmul || std::ranges::any_of(node->outputs, [&](ValueId id) { return weight[id]; });
    if (multiplied) for_each_input(*node, [&](ValueId id) { weight[id] = constant[id]; });
  }
  return weight;
}

// The operands are parameters with bytes and known numbers. The result has a constant shape, and is small or takes
// little more memory than its operands.
bool is_foldable(const Graph& graph, const Node& node, int64_t max_elements, const std::vector<bool>& weights) {
  if (node.outputs.empty() || node.op->role == OpRole::internal) return false;
  if (!reads_constants(graph, node)) return false;
  int64_t read = 0, made = 0;  // bytes
  for_each_input(node, [&](ValueId id) { read += stored_bytes(graph.value(id).data); });
  bool small = true, weight = false;
  for (ValueId out : node.outputs) {
    const Dim elements = product(graph.value(out).shape);
    if (!elements.valid() || !elements.is_constant()) return false;
    small = small && elements.constant() <= max_elements;
    weight = weight || weights[out];
    made += elements.constant() * static_cast<int64_t>(dtype_bytes(graph.value(out).dtype));
  }
  return small || made <= (weight ? kMostGrowth : 1) * read;
}

bool has_constant_weight(const Graph& graph, const Node& node) {
  if (!is_scaled_product(node.op)) return false;
  const auto p = read_scaled_product(graph, node);
  if (!p.ok() || p->w.value == kNoValue) return false;
  return std::ranges::all_of(std::array{p->w.value, p->w.scale.value, p->w.zero.value}, [&](ValueId id) {
    return id == kNoValue || (is_parameter(graph, id) && graph.value(id).data.bound());
  });
}

bool is_batch_norm(const Node& node) { return node.op->name.find("batch_norm") != std::string_view::npos; }

// What cannot be written is left to decompose, which says why.
Status write_half_constant(Graph& graph) {
  bool changed = false;
  Readers readers(graph);
  for (NodeId id = 0, count = static_cast<NodeId>(graph.nodes.size()); id < count; ++id) {
    if (!has_constant_weight(graph, graph.nodes[id]) && !is_batch_norm(graph.nodes[id])) continue;
    const Node node = graph.nodes[id];  // a copy: new nodes move the old
    const ValueId out = node.outputs[0];
    const Value type = graph.value(out);
    OpEmitter e(graph, node);
    const ValueId result =
        is_batch_norm(node) ? find_composed(node.op)->write(e, graph, node)[0] : write_scaled_product(e, graph, node);
    const ValueId y = e.reshape(e.to(result, type.dtype), type.shape);
    if (!e.status().ok()) continue;
    readers.replace(out, y);
    changed = true;
  }
  if (!changed) return {};
  QCG_CHECK(sort_nodes(graph));
  graph.remove_dead();
  return {};
}

bool multiplies_by(const Graph& graph, const std::set<ValueId>& made) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    bool reads = false;
    for_each_input(node, [&](ValueId id) { reads = reads || made.contains(id); });
    return reads && node.op->role == OpRole::matmul;
  });
}

}  // namespace

Status fold_constants(Graph& graph, PassContext& context) {
  std::set<ValueId> made;
  QCG_CHECK(write_half_constant(graph));
  const std::vector<bool> weights = find_weights(graph);
  Readers readers(graph);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (!is_foldable(graph, node, context.options.gates.constant_max_elements, weights)) continue;
    auto results = evaluate_node(graph, node);
    if (!results.ok()) {
      context.skip(node.origins.empty() ? node.op->name : node.origins.back(), results.error().message);
      continue;
    }
    const std::vector<ValueId> outputs = node.outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId value =
          graph.add_parameter(graph.unique_name(graph.value(outputs[i]).name + ".value"), (*results)[i]);
      readers.replace(outputs[i], value);
      made.insert(value);
    }
    ++context.report.fired;
  }
  graph.remove_dead();
  if (!multiplies_by(graph, made) || !runs_pass(context.options, "recognize_linear")) return {};
  PassReport again;
  PassContext quiet{context.options, again};
  return recognize_linear(graph, quiet);
}

}  // namespace qcg

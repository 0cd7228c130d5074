#include "graph/passes/linear_node.h"

#include <algorithm>
#include <set>

#include "graph/ops/op_table.h"
#include "graph/rewrite/pointwise.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

// Keeps list[i] for the kept indices.
void keep_only(std::vector<ValueId>& list, const std::vector<int>& kept) {
  std::vector<ValueId> out;
  for (int index : kept) out.push_back(list[static_cast<size_t>(index)]);
  list = std::move(out);
}

std::vector<int> used_leaves(const std::vector<Expr>& exprs, ExprKind kind) {
  std::set<int> all;
  for (const Expr& expr : exprs)
    for (int index : expr.leaves(kind)) all.insert(index);
  return {all.begin(), all.end()};
}

std::vector<int> inverse(const std::vector<int>& kept, size_t size) {
  std::vector<int> map(size, 0);
  for (size_t i = 0; i < kept.size(); ++i) map[static_cast<size_t>(kept[i])] = static_cast<int>(i);
  return map;
}

}  // namespace

int LinearNode::find_operand(ValueId id) const {
  auto it = std::find(operands.begin(), operands.end(), id);
  return it == operands.end() ? -1 : static_cast<int>(it - operands.begin());
}

int LinearNode::add_operand(ValueId id) {
  if (int index = find_operand(id); index >= 0) return index;
  operands.push_back(id);
  return static_cast<int>(operands.size()) - 1;
}

bool is_linear(const Node& node) { return is_op(node, "qcg.linear"); }

LinearNode read_linear(const Node& node) {
  using Ids = std::vector<ValueId>;
  LinearNode linear;
  linear.xs = *node.arg("xs").get<Ids>();
  linear.x_scale = node.tensor("x_scale");
  linear.x_zero = node.tensor("x_zero");
  linear.weights = *node.arg("weights").get<Ids>();
  auto list = [&](std::string_view name) {  // one entry per segment, whatever was left out
    const Ids* ids = node.arg(name).get<Ids>();
    Ids out = ids ? *ids : Ids{};
    out.resize(linear.weights.size(), kNoValue);
    return out;
  };
  linear.scales = list("scales");
  linear.zeros = list("zeros");
  linear.offsets = list("offsets");
  linear.biases = list("biases");
  if (const Ids* operands = node.arg("operands").get<Ids>()) linear.operands = *operands;
  linear.scheme = *node.arg("scheme").get<std::string>();
  linear.group = as_integer(node.arg("group")).value_or(0);
  linear.epilogue = *node.arg("epilogue").get<std::vector<Expr>>();
  linear.outputs = node.outputs;
  return linear;
}

void write_linear(Graph& graph, NodeId id, LinearNode linear) {
  const std::vector<int> accs = used_leaves(linear.epilogue, ExprKind::acc);
  const std::vector<int> ins = used_leaves(linear.epilogue, ExprKind::in);
  const std::vector<int> acc_map = inverse(accs, linear.weights.size()), in_map = inverse(ins, linear.operands.size());
  for (Expr& expr : linear.epilogue) expr = renumber(expr, acc_map, in_map);
  if (!accs.empty())
    for (auto* list : {&linear.weights, &linear.scales, &linear.zeros, &linear.offsets, &linear.biases})
      keep_only(*list, accs);
  keep_only(linear.operands, ins);
  Node& node = graph.nodes[id];
  node.op = Op("qcg.linear").schema();
  node.args = make_args(*node.op, {{"xs", linear.xs},
                                   {"x_scale", linear.x_scale},
                                   {"x_zero", linear.x_zero},
                                   {"weights", linear.weights},
                                   {"scales", linear.scales},
                                   {"zeros", linear.zeros},
                                   {"offsets", linear.offsets},
                                   {"biases", linear.biases},
                                   {"operands", linear.operands},
                                   {"scheme", linear.scheme},
                                   {"group", Dim(linear.group)},
                                   {"epilogue", linear.epilogue}});
  node.outputs = linear.outputs;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    graph.value(node.outputs[i]).producer = id;
    graph.value(node.outputs[i]).output = static_cast<uint32_t>(i);
  }
}

std::string linear_name(const Graph& graph, const Node& node) { return graph.value(node.outputs[0]).name; }

}  // namespace qcg

// cse: equal operations on equal inputs are computed once; parameters that are the same bytes become one value.
//
// torchao quantizes the activation once per linear: three siblings carry three equal choose_qparams_affine +
// quantize_affine pairs. This pass is what lets siblings share one quantization.
//
// Why here: after fold_noops, because reshapes and casts in between hide that two inputs are equal; before
// recognize_linear and merge_sibling_linears, because siblings are linears of the *same value*.
#include <unordered_map>

#include "graph/passes/pass_list.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

void append(std::string& key, ValueId id) { key += "%" + std::to_string(id); }
void append(std::string& key, const Dim& dim) { key += dim.str(); }
void append(std::string& key, const Expr& expr) { key += expr.str(); }
void append(std::string& key, double x) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%a", x);  // exact
  key += digits;
}

template <class T>
void append(std::string& key, const std::vector<T>& list) {
  key += '[';
  for (const T& item : list) {
    append(key, item);
    key += ',';
  }
  key += ']';
}

struct AppendArg {
  std::string& key;
  void operator()(std::monostate) const { key += "none"; }
  void operator()(bool flag) const { key += flag ? "true" : "false"; }
  void operator()(const std::string& text) const { key += std::to_string(text.size()) + ":" + text; }
  void operator()(DType dtype) const { key += dtype_name(dtype); }
  template <class T>
  void operator()(const T& value) const {
    append(key, value);
  }
};

std::string node_key(const Graph& graph, const Node& node) {
  std::string key = node.op->name;
  for (const Arg& arg : node.args) {
    key += ';' + std::to_string(arg.v.index()) + ':';  // 1 and 1.0 differ, so do axis 1 and flag true
    std::visit(AppendArg{key}, arg.v);
  }
  key += "->";
  for (ValueId out : node.outputs)
    key += std::string(dtype_name(graph.value(out).dtype)) + to_string(graph.value(out).shape);
  return key;
}

std::string parameter_key(const Tensor& tensor) {
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(tensor.storage->bytes.data())) + "+" +
                    std::to_string(tensor.offset) + std::string(dtype_name(tensor.dtype));
  for (int64_t size : tensor.shape) key += "," + std::to_string(size);
  for (int64_t stride : tensor.strides) key += "/" + std::to_string(stride);
  return key;
}

}  // namespace

Status cse(Graph& graph, PassContext& context) {
  std::vector<ValueId> same(graph.values.size());
  for (ValueId id = 0; id < same.size(); ++id) same[id] = id;

  std::unordered_map<std::string, ValueId> parameters;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.value(id);
    if (value.kind != ValueKind::parameter || !value.data.bound()) continue;
    same[id] = parameters.try_emplace(parameter_key(value.data), id).first->second;
  }

  std::unordered_map<std::string, NodeId> nodes;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    Node& node = graph.nodes[id];
    for_each_input(node, [&](ValueId& input) { input = same[input]; });
    if (node.outputs.empty()) continue;
    auto [it, fresh] = nodes.try_emplace(node_key(graph, node), id);
    if (fresh) continue;
    const Node& first = graph.nodes[it->second];
    for (size_t i = 0; i < node.outputs.size(); ++i) same[node.outputs[i]] = first.outputs[i];
    ++context.report.fired;
    ++context.report.counters[node.op->name];
  }
  for (ValueId& out : graph.outputs) out = same[out];
  graph.remove_dead();
  return {};
}

}  // namespace qcg

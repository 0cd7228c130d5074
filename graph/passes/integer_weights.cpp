#include "graph/passes/integer_weights.h"

#include <algorithm>
#include <set>

#include "graph/patterns/gemm.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

int64_t bits(const Value& value) { return 8 * static_cast<int64_t>(dtype_bytes(value.dtype)) * value.data.numel(); }

// By value: the largest parameter of integers or fp8 that a constant is computed from; kNoValue: there is none, or it is
// no constant.
std::vector<ValueId> find_codes(const Graph& graph) {
  std::vector<ValueId> codes(graph.values.size(), kNoValue);
  std::vector<bool> constant(graph.values.size(), false);
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const DType dtype = graph.value(id).dtype;
    constant[id] = is_parameter(graph, id);
    const bool is_code = is_float8(dtype) || (!is_floating(dtype) && dtype != DType::boolean);
    if (constant[id] && is_code) codes[id] = id;
  }
  for (const Node& node : graph.nodes) {
    bool all = true;
    ValueId largest = kNoValue;
    for_each_input(node, [&](ValueId id) {
      all = all && constant[id];
      const ValueId other = codes[id];
      if (other != kNoValue && (largest == kNoValue || bits(graph.value(other)) > bits(graph.value(largest))))
        largest = other;
    });
    for (ValueId out : node.outputs) constant[out] = all, codes[out] = all ? largest : kNoValue;
  }
  return codes;
}

ValueId weight_of(const Graph& graph, const Node& node) {
  if (const auto gemm = as_gemm(graph, node)) return gemm->w;
  for (const char* name : {"w", "mat2", "weight"})
    for (const ArgSpec& arg : node.op->args)
      if (arg.name == name) return node.tensor(name);
  return kNoValue;
}

// A weight has a bit of the codes for every element at least; positions that rows are looked up at have fewer.
bool are_codes_of(const Graph& graph, ValueId codes, ValueId weight) {
  const Dim elements = product(graph.value(weight).shape);
  return elements.valid() && elements.is_constant() && bits(graph.value(codes)) >= elements.constant();
}

bool is_product(const Node& node) { return node.op->role == OpRole::matmul || node.op->name.starts_with("aten.conv"); }

}  // namespace

IntegerWeights::IntegerWeights(Graph graph) {
  graph.remove_dead();
  const std::vector<ValueId> codes = find_codes(graph);
  for (const Node& node : graph.nodes) {
    if (!is_product(node)) continue;
    const ValueId weight = weight_of(graph, node);
    if (weight == kNoValue || codes[weight] == kNoValue || !are_codes_of(graph, codes[weight], weight)) continue;
    const Value& of = graph.value(codes[weight]);
    products_.push_back({node_name(graph, node), (is_float8(of.dtype) ? "fp8 of @" : "integers of @") + of.name});
  }
}

std::vector<std::string> IntegerWeights::find_dense(const Graph& lowered, const PassReport& recognition) const {
  std::set<std::string> quantized;
  for (const Node& node : lowered.nodes)
    if ((is_op(node, "qcg.linear") || is_op(node, "qcg.grouped_linear")) &&
        *node.arg("scheme").get<std::string>() != "dense")
      quantized.insert(node.origins.begin(), node.origins.end());
  std::vector<std::string> out;
  for (const Product& product : products_) {
    if (quantized.contains(product.node)) continue;
    const auto miss = std::ranges::find(recognition.skipped, product.node, &Skipped::node);
    out.push_back(product.node + ": its weight is computed from the " + product.codes + " and is compiled as floats: " +
                  (miss == recognition.skipped.end() ? "no linear was recognized there" : miss->reason));
  }
  return out;
}

}  // namespace qcg

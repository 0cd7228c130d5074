#include "graph/patterns/dequantized_weight.h"

#include "graph/passes/rewrite.h"

namespace qcg {

int dequantized_bits(const Node& dequantize) {
  auto low = as_number(dequantize.arg("quant_min")), high = as_number(dequantize.arg("quant_max"));
  return low && high && *low >= -8 && *high <= 7 ? 4 : 8;
}

bool is_row_block(const Graph& graph, const Node& node) {
  const auto* block = node.arg("block_size").get<std::vector<Dim>>();
  const Shape& shape = graph.value(node.tensor("input")).shape;
  if (!block || block->size() != shape.size() || shape.empty()) return false;
  for (size_t i = 0; i + 1 < block->size(); ++i)
    if (!(*block)[i].is_constant(1)) return false;
  return block->back() == shape.back();
}

std::optional<std::string> take_dequantized_weight(Graph& graph, NodeId dequantize, bool weight_kn, LinearSpec& spec) {
  const Node node = graph.nodes[dequantize];
  const ValueId w = node.tensor("input");
  const Tensor& data = graph.value(w).data;
  if (!is_parameter(graph, w)) return "the quantized weight is computed at run time";
  if (data.dtype != DType::i8)
    return "the quantized weight is stored as " + std::string(dtype_name(data.dtype)) + ", not int8";
  if (weight_kn || data.shape.size() != 2) return "the quantized weight is not an [N, K] matrix";
  const int64_t n = data.shape[0], k = data.shape[1];
  const auto* block = node.arg("block_size").get<std::vector<Dim>>();
  if (!block || block->size() != 2 || !(*block)[0].is_constant(1) || !(*block)[1].is_constant())
    return "the weight's scales are not per output channel or per group along K";
  const int64_t group = (*block)[1].constant();
  if (group < 1 || k % group != 0) return "the group " + std::to_string(group) + " does not divide K";
  const bool int4 = dequantized_bits(node) == 4;
  if (!int4 && group != k)
    return "int8 weight with one scale per group of " + std::to_string(group) + " (per channel is supported)";
  spec.weight = w;
  spec.scheme = int4 ? Scheme::w4 : Scheme::w8;
  spec.group = int4 ? group : 0;
  const std::vector<int64_t> shape = {n, k / group};
  spec.scale = constant_as_shape(graph, node.tensor("scale"), shape);
  if (spec.scale == kNoValue) return "the weight's scales are not a constant of shape [N, K / group]";
  if (!is_floating(graph.value(spec.scale).dtype)) return "the weight's scales are not floating point";
  const ValueId zero = node.tensor("zero_point");
  if (zero == kNoValue) return std::nullopt;
  spec.zero = constant_as_shape(graph, zero, shape);
  if (spec.zero == kNoValue) return "the weight's zero points are not a constant of shape [N, K / group]";
  if (is_all_zero(graph, spec.zero)) spec.zero = kNoValue;
  else if (is_floating(graph.value(spec.zero).dtype)) return "the weight's zero points are not integers";
  return std::nullopt;
}

}  // namespace qcg

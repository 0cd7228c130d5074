#include "graph/patterns/integer_bounds.h"

#include <algorithm>

#include "graph/ir/elements.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

template <class T>
std::optional<IntegerRange> bounds_of_elements(const Tensor& data) {
  const auto values = read_elements<T>(data);
  if (!values || values->empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(values->begin(), values->end());
  return IntegerRange{*low, *high};
}

// Sums of two such bounds are still exact.
std::optional<IntegerRange> small(std::optional<IntegerRange> range) {
  constexpr int64_t kMost = int64_t{1} << 40;
  return range && range->low >= -kMost && range->high <= kMost ? range : std::nullopt;
}

constexpr int kMostNodes = 6;  // on the way to a parameter: codes, a shape, a zero point, a cast

std::optional<IntegerRange> bounds_within(const Graph& graph, ValueId id, int nodes);

std::optional<IntegerRange> bounds_of_operand(const Graph& graph, const Arg& arg, int nodes) {
  if (const ValueId* id = arg.get<ValueId>()) return small(bounds_within(graph, *id, nodes));
  const auto whole = as_integer(arg);
  return whole ? small(IntegerRange{*whole, *whole}) : std::nullopt;
}

// Before it is stored.
std::optional<IntegerRange> bounds_of_result(const Graph& graph, const Node& node, int nodes) {
  if (node.op->role == OpRole::view || node.op->role == OpRole::copy)
    return node.op->args[0].kind == ArgKind::tensor ? bounds_of_operand(graph, node.args[0], nodes) : std::nullopt;
  const bool difference = is_op(node, "aten.sub.Tensor");
  if (!difference && !is_op(node, "aten.add.Tensor")) return std::nullopt;
  const auto a = bounds_of_operand(graph, node.arg("self"), nodes),
             b = bounds_of_operand(graph, node.arg("other"), nodes);
  if (!a || !b || as_number(node.arg("alpha")) != 1.0) return std::nullopt;
  return difference ? IntegerRange{a->low - b->high, a->high - b->low}
                    : IntegerRange{a->low + b->low, a->high + b->high};
}

std::optional<IntegerRange> bounds_within(const Graph& graph, ValueId id, int nodes) {
  const Value& value = graph.value(id);
  const DTypeKind kind = dtype_info(value.dtype).kind;
  if (kind == DTypeKind::floating || kind == DTypeKind::boolean) return std::nullopt;
  if (value.kind == ValueKind::parameter) {
    if (value.dtype == DType::i8) return bounds_of_elements<int8_t>(value.data);  // a weight need not grow eightfold
    if (value.dtype == DType::u8) return bounds_of_elements<uint8_t>(value.data);
    return bounds_of_elements<int64_t>(value.data);
  }
  const Node* node = producer_of(graph, id);
  if (!node || nodes == 0 || node->args.empty()) return std::nullopt;
  const auto range = bounds_of_result(graph, *node, nodes - 1);
  return range && fits(*range, value.dtype) ? range : std::nullopt;
}

}  // namespace

bool fits(const IntegerRange& range, DType dtype) {
  if (dtype == DType::i64) return true;
  if (dtype == DType::u64) return range.low >= 0;
  const IntegerRange all = integer_range(dtype);
  return range.low >= all.low && range.high <= all.high;
}

std::optional<IntegerRange> integer_bounds(const Graph& graph, ValueId id) {
  return bounds_within(graph, id, kMostNodes);
}

}  // namespace qcg

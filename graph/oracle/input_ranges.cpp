#include "graph/oracle/input_ranges.h"

#include <algorithm>
#include <optional>

#include "graph/ops/op_table.h"
#include "graph/oracle/ops.h"

namespace qcg {

namespace {

constexpr Op kPositionedWrites[] = {"aten.index_copy.default", "aten.index_put.default", "aten.scatter.src",
                                    "aten.scatter.value"};

class RangeFinder {
 public:
  RangeFinder(const Graph& graph, const SymbolValues& symbols)
      : graph_(graph), symbols_(symbols), ranges_(graph.values.size()) {}

  std::vector<InputRange> run() {
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node)
      if (node->op && !node->outputs.empty()) visit(*node);
    std::vector<InputRange> out;
    for (const ValueId id : graph_.inputs) out.push_back(ranges_[id]);
    return out;
  }

 private:
  void allow(ValueId id, int64_t low, int64_t high, bool ascending = false) {
    if (id == kNoValue || is_floating(graph_.value(id).dtype)) return;
    InputRange& range = ranges_[id];
    range.low = std::max(range.low, low);
    range.high = std::max(range.low, std::min(range.high, high));
    range.ascending = range.ascending || ascending;
  }

  void visit(const Node& node) {
    if (node.op->role == OpRole::look_up) look_up(node);
    if (is_any_op(node, kPositionedWrites)) write(node);
    if (is_any_op(node, kEmbeddingBags)) {
      allow(node.tensor("indices"), 0, extent(node, "weight", 0) - 1);
      allow(node.tensor("offsets"), 0, extent(node, "indices", 0), /*ascending=*/true);
    }
    const InputRange range = ranges_[node.outputs[0]];
    if (!range.is_known()) return;
    if (is_op(node, "aten.copy.default")) {
      allow(node.tensor("src"), range.low, range.high, range.ascending);
    } else if (node.op->role == OpRole::view || node.op->role == OpRole::copy) {
      for_each_input(node, [&](ValueId id) { allow(id, range.low, range.high, range.ascending); });
    } else if (is_op(node, "aten.where.self")) {
      allow(node.tensor("self"), range.low, range.high);
      allow(node.tensor("other"), range.low, range.high);
    } else if (is_op(node, "aten.add.Tensor") || is_op(node, "aten.sub.Tensor")) {
      shift(node, range);
    } else if (is_op(node, "aten.mul.Tensor")) {
      const std::optional<InputRange> factor = constant_range(node.arg("other"));
      if (factor && factor->low > 0) allow(node.tensor("self"), range.low / factor->low, range.high / factor->high);
    }
  }

  void look_up(const Node& node) {
    const auto positions = [&](ValueId id, int64_t size, bool from_end) { allow(id, from_end ? -size : 0, size - 1); };
    if (is_op(node, "aten.embedding.default"))
      return positions(node.tensor("indices"), extent(node, "weight", 0), false);
    if (is_any_op(node, kIndexes)) {
      const auto& indices = *node.arg("indices").get<std::vector<ValueId>>();
      for (size_t axis = 0; axis < indices.size(); ++axis)
        if (indices[axis] != kNoValue) positions(indices[axis], extent(node, "self", axis), true);
      return;
    }
    const Shape& shape = graph_.value(node.tensor("self")).shape;
    if (is_op(node, "aten.take.default"))
      return positions(node.tensor("index"), product(shape).evaluate(symbols_).value_or(1), true);
    const ValueId index = node.tensor(is_op(node, "aten.take_along_dim.default") ? "indices" : "index");
    if (node.arg("dim").is_none()) return positions(index, product(shape).evaluate(symbols_).value_or(1), false);
    const int64_t rank = std::ssize(shape), dim = as_integer(node.arg("dim")).value_or(0);
    positions(index, rank == 0 ? 1 : extent(node, "self", static_cast<size_t>(dim < 0 ? dim + rank : dim)), false);
  }

  void write(const Node& node) {
    if (is_op(node, "aten.index_put.default")) {
      const auto& indices = *node.arg("indices").get<std::vector<ValueId>>();
      for (size_t axis = 0; axis < indices.size(); ++axis)
        if (indices[axis] != kNoValue)
          allow(indices[axis], -extent(node, "self", axis), extent(node, "self", axis) - 1);
      return;
    }
    const auto axis = as_integer(node.arg("dim"));
    const int64_t rank = std::ssize(graph_.value(node.tensor("self")).shape);
    if (axis && rank > 0)
      allow(node.tensor("index"), 0, extent(node, "self", static_cast<size_t>(*axis < 0 ? *axis + rank : *axis)) - 1);
  }

  int64_t extent(const Node& node, std::string_view arg, size_t axis) const {
    return graph_.value(node.tensor(arg)).shape[axis].evaluate(symbols_).value_or(1);
  }

  // A constant or a range added to positions, or taken off them.
  void shift(const Node& node, const InputRange& range) {
    if (as_integer(node.arg("alpha")).value_or(1) != 1) return;
    const bool add = is_op(node, "aten.add.Tensor");
    const ValueId* other = node.arg("other").get<ValueId>();
    if (const auto by = constant_range(node.arg("self")); add && by && other)
      return allow(*other, range.low - by->low, range.high - by->high);
    const std::optional<InputRange> by = constant_range(node.arg("other"));
    if (!by) return;
    allow(node.tensor("self"), range.low - (add ? by->low : -by->high), range.high - (add ? by->high : -by->low));
  }

  // The least and the largest number of a constant, or of arange(end); none if either is too large to compute with.
  std::optional<InputRange> constant_range(const Arg& arg) const {
    constexpr int64_t kMost = int64_t{1} << 40;
    InputRange out;
    if (const auto number = as_integer(arg)) {
      out = {*number, *number};
    } else if (const ValueId* id = arg.get<ValueId>()) {
      const Value& value = graph_.value(*id);
      const Node* producer = value.kind == ValueKind::node ? &graph_.nodes[value.producer] : nullptr;
      if (producer && producer->op->role == OpRole::view) return constant_range(producer->arg("self"));
      if (producer && is_op(*producer, "aten.arange.default")) {
        const Dim* end = producer->arg("end").get<Dim>();
        const auto size = end ? end->evaluate(symbols_) : std::nullopt;
        return size && *size > 0 ? std::optional(InputRange{0, *size - 1}) : std::nullopt;
      }
      if (value.kind != ValueKind::parameter || !value.data.bound() || is_floating(value.dtype)) return std::nullopt;
      const std::vector<int64_t> numbers = read_ints(value.data);
      if (numbers.empty()) return std::nullopt;
      out = {std::ranges::min(numbers), std::ranges::max(numbers)};
    }
    if (out.low < -kMost || out.high > kMost) return std::nullopt;
    return out;
  }

  const Graph& graph_;
  const SymbolValues& symbols_;
  std::vector<InputRange> ranges_;  // by value
};

}  // namespace

std::vector<InputRange> input_ranges(const Graph& graph, const SymbolValues& symbols) {
  return RangeFinder(graph, symbols).run();
}

}  // namespace qcg

#include "graph/oracle/input_ranges.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/ops/op_table.h"
#include "graph/oracle/ops.h"

namespace qcg {

namespace {

constexpr Op kPositionedWrites[] = {
    "aten.index_copy.default", "aten.index_put.default",    "aten.scatter.src",        "aten.scatter.value",
    "aten.index_add.default",  "aten.scatter_add.default",  "aten.scatter_reduce.two", "aten.index_reduce.default",
    "aten.scatter.reduce",     "aten.scatter.value_reduce", "qcg.combine_at"};

class RangeFinder {
 public:
  RangeFinder(const Graph& graph, const SymbolValues& symbols)
      : graph_(graph), symbols_(symbols), ranges_(graph.values.size()), is_cache_(graph.values.size()) {}

  std::vector<InputRange> run() {
    find_caches();
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node)
      if (node->op && !node->outputs.empty()) visit(*node);
    std::vector<InputRange> out;
    for (const ValueId id : graph_.inputs) out.push_back(ranges_[id]);
    return out;
  }

 private:
  // Inputs and states, their views, and what they are once something was written into them.
  void find_caches() {
    for (const ValueId id : graph_.inputs) is_cache_[id] = true;
    for (const Node& node : graph_.nodes) {
      const bool follows =
          node.op && !node.outputs.empty() &&
          (node.op->role == OpRole::view || node.op->role == OpRole::copy || is_any_op(node, kPositionedWrites));
      if (!follows || node.args.empty()) continue;
      const ValueId* self = node.args[0].get<ValueId>();
      is_cache_[node.outputs[0]] = self && *self != kNoValue && is_cache_[*self];
    }
  }

  void allow(ValueId id, const InputRange& allowed) {
    if (id == kNoValue || is_floating(graph_.value(id).dtype)) return;
    InputRange& range = ranges_[id];
    range.low = std::max(range.low, allowed.low);
    range.high = std::max(range.low, std::min(range.high, allowed.high));
    range.ascending = range.ascending || allowed.ascending;
    range.written = range.written || allowed.written;
  }

  void visit(const Node& node) {
    if (node.op->role == OpRole::look_up) look_up(node);
    if (is_any_op(node, kPositionedWrites)) write(node);
    if (is_op(node, "aten.mul.Tensor")) limit_mask(node);
    if (is_any_op(node, kEmbeddingBags)) {
      allow(node.tensor("indices"), {0, extent(node, "weight", 0) - 1});
      allow(node.tensor("offsets"), {.low = 0, .high = extent(node, "indices", 0), .ascending = true});
    }
    const InputRange range = ranges_[node.outputs[0]];
    if (!range.is_known()) return;
    if (is_op(node, "aten.copy.default")) {
      allow(node.tensor("src"), range);
    } else if (node.op->role == OpRole::view || node.op->role == OpRole::copy) {
      for_each_input(node, [&](ValueId id) { allow(id, range); });
    } else if (is_op(node, "aten.where.self")) {
      const InputRange either = {.low = range.low, .high = range.high, .written = range.written};
      allow(node.tensor("self"), either);
      allow(node.tensor("other"), either);
    } else if (is_op(node, "aten.add.Tensor") || is_op(node, "aten.sub.Tensor")) {
      shift(node, range);
    } else if (is_op(node, "aten.mul.Tensor")) {
      const std::optional<InputRange> factor = constant_range(node.arg("other"));
      if (factor && factor->low > 0)
        allow(node.tensor("self"),
              {.low = range.low / factor->low, .high = range.high / factor->high, .written = range.written});
    }
  }

  // Integers of which (1 - mask) * -3.4e38 is made are 0 and 1: of others it is infinite in f32.
  void limit_mask(const Node& node) {
    constexpr double kHuge = 1e30;
    constexpr Op kShifts[] = {"aten.rsub.Scalar", "aten.sub.Tensor", "aten.add.Tensor"};
    const std::optional<double> factor = as_number(node.arg("other"));
    if (!factor || std::abs(*factor) < kHuge) return;
    ValueId id = node.tensor("self");
    while (is_floating(graph_.value(id).dtype)) {
      if (graph_.value(id).kind != ValueKind::node) return;
      const Node& producer = graph_.nodes[graph_.value(id).producer];
      const bool follows =
          producer.op->role == OpRole::view || producer.op->role == OpRole::copy || is_any_op(producer, kShifts);
      const ValueId* self = follows && !producer.args.empty() ? producer.args[0].get<ValueId>() : nullptr;
      if (!self || *self == kNoValue) return;
      id = *self;
    }
    allow(id, {0, 1});
  }

  void look_up(const Node& node) {
    const auto positions = [&](ValueId id, int64_t size, bool from_end) {
      allow(id, {from_end ? -size : 0, size - 1});
    };
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
    const bool written = is_cache_[node.tensor("self")];
    if (is_op(node, "aten.index_put.default")) {
      const auto& indices = *node.arg("indices").get<std::vector<ValueId>>();
      for (size_t axis = 0; axis < indices.size(); ++axis)
        if (const int64_t size = extent(node, "self", axis); indices[axis] != kNoValue)
          allow(indices[axis], {.low = -size, .high = size - 1, .written = written});
      return;
    }
    const auto axis = as_integer(node.arg("dim"));
    const int64_t rank = std::ssize(graph_.value(node.tensor("self")).shape);
    if (!axis || rank == 0) return;
    const int64_t size = extent(node, "self", static_cast<size_t>(*axis < 0 ? *axis + rank : *axis));
    allow(node.tensor("index"), {.low = 0, .high = size - 1, .written = written});
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
      return allow(*other, {.low = range.low - by->low, .high = range.high - by->high, .written = range.written});
    const std::optional<InputRange> by = constant_range(node.arg("other"));
    if (!by) return;
    allow(node.tensor("self"), {.low = range.low - (add ? by->low : -by->high),
                                .high = range.high - (add ? by->high : -by->low),
                                .written = range.written});
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
  std::vector<bool> is_cache_;      // by value
};

}  // namespace

std::vector<InputRange> input_ranges(const Graph& graph, const SymbolValues& symbols) {
  return RangeFinder(graph, symbols).run();
}

}  // namespace qcg

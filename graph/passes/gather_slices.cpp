#include "graph/passes/gather_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/ir/elements.h"
#include "graph/rewrite/op_emitter.h"

namespace qcg {

namespace {

// Each run is a copy of its own. Many short runs, such as the columns of a GPTQ weight ordered by activation, are one
// step of the look-up kernel instead.
constexpr size_t kFewRuns = 16, kMostRuns = 256, kLeastMeanLength = 4;
constexpr int64_t kMostPositions = 1 << 24;

struct Run {
  int64_t first, step, count;
};

// Positions that rise evenly, as long as they do. Two that are not neighbours are no run yet.
std::vector<Run> runs_of(const std::vector<int64_t>& positions) {
  std::vector<Run> out;
  for (size_t i = 0; i < positions.size();) {
    size_t end = i + 1;
    int64_t step = end < positions.size() ? positions[end] - positions[i] : 1;
    while (step > 0 && end < positions.size() && positions[end] - positions[end - 1] == step) ++end;
    if (step != 1 && end - i < 3) step = 1, end = i + 1;
    out.push_back({positions[i], step, static_cast<int64_t>(end - i)});
    i = end;
  }
  if (out.empty()) out.push_back({0, 1, 0});
  return out;
}

Error refused(const Node& node, const std::string& why) {
  return Error::unsupported(node.where, fmt::format("{} looks up activations, and {}", node.op->name, why),
                            "index weights instead, or write it as slices and cat");
}

// The axes [first, second) that are indexed; none where others lie between them.
std::optional<std::pair<size_t, size_t>> indexed_axes(const Graph& graph, const Node& node) {
  const size_t rank = graph.value(node.tensor("self")).shape.size();
  if (is_op(node, "aten.index_select.default")) {
    const auto axis = as_axis(node.arg("dim"), rank);
    return axis && rank > 0 ? std::optional(std::pair(*axis, *axis + 1)) : std::nullopt;
  }
  const auto& indices = *node.arg("indices").get<std::vector<ValueId>>();
  size_t begin = 0;
  while (begin < indices.size() && indices[begin] == kNoValue) ++begin;
  size_t end = begin;
  while (end < indices.size() && indices[end] != kNoValue) ++end;
  for (size_t i = end; i < indices.size(); ++i)
    if (indices[i] != kNoValue) return std::nullopt;
  return std::pair(begin, end);
}

// The same look-up in the axes' own positions says where each element lies.
Result<std::vector<int64_t>> flat_positions(Graph& graph, OpEmitter& e, const Node& node,
                                            const std::vector<int64_t>& extents, int64_t& elements_left) {
  const Dim count = product(Shape(extents.begin(), extents.end()));
  if (!count.valid() || count.constant() > std::min(kMostPositions, elements_left))
    return refused(node, "has too many to choose from");
  elements_left -= count.constant();
  Elements<int64_t> own(std::in_place, static_cast<size_t>(count.constant()));
  std::iota(own->begin(), own->end(), 0);
  const ValueId all = graph.add_parameter(graph.unique_name("positions"), make_tensor(DType::i64, extents, own));
  std::vector<NamedArg> named = {{"self", all}};
  if (is_op(node, "aten.index_select.default")) {
    named.push_back({"dim", Dim(0)}), named.push_back({"index", node.tensor("index")});
  } else {
    std::vector<ValueId> indices = *node.arg("indices").get<std::vector<ValueId>>();
    std::erase(indices, kNoValue);
    named.push_back({"indices", std::move(indices)});
  }
  const ValueId found = e.op(node.op, std::move(named));
  QCG_CHECK(Status(e.status()));
  const Node look_up = *producer_of(graph, found);
  if (!reads_constants(graph, look_up))
    return refused(node, "its positions are computed from the inputs of the graph, or have no bytes");
  QCG_TRY(positions, evaluate_node(graph, look_up));
  graph.value(all).data.storage.reset();  // as large as the axis, and read by nobody any more
  return *read_elements<int64_t>(positions[0]);
}

}  // namespace

bool is_look_up(const Node& node) { return is_any_op(node, kIndexes) || is_op(node, "aten.index_select.default"); }

Result<ValueId> gather_slices(Graph& graph, const Node& node, int64_t& elements_left) {
  const Node like = node;  // new nodes move the old
  const ValueId self = like.tensor("self");
  const Shape shape = graph.value(self).shape, out_shape = graph.value(like.outputs[0]).shape;
  const auto axes = indexed_axes(graph, like);
  if (!axes) return refused(like, "the axes that are indexed are not neighbours");
  const auto [begin, end] = *axes;
  const auto extents =
      constant_shape(Shape(shape.begin() + static_cast<int64_t>(begin), shape.begin() + static_cast<int64_t>(end)));
  if (!extents) return refused(like, "an axis that is indexed has a size known only at run time");
  OpEmitter e(graph, like);
  QCG_TRY(positions, flat_positions(graph, e, like, *extents, elements_left));
  const std::vector<Run> runs = runs_of(positions);
  const size_t most = std::clamp(positions.size() / kLeastMeanLength, kFewRuns, kMostRuns);
  if (runs.size() > most)
    return refused(like, fmt::format("its {} positions are {} runs (at most {})", positions.size(), runs.size(), most));

  Shape flat(shape.begin(), shape.begin() + static_cast<int64_t>(begin));
  flat.push_back(product(Shape(extents->begin(), extents->end())));
  flat.insert(flat.end(), shape.begin() + static_cast<int64_t>(end), shape.end());
  const ValueId source = e.reshape(self, flat);
  const Dim axis(static_cast<int64_t>(begin));
  std::vector<ValueId> parts;
  for (const Run& run : runs)
    parts.push_back(
        e.op("aten.slice.Tensor", {{"self", source},
                                   {"dim", axis},
                                   {"start", Dim(run.first)},
                                   {"end", Dim(run.count > 0 ? run.first + run.step * (run.count - 1) + 1 : run.first)},
                                   {"step", Dim(run.step)}}));
  const ValueId joined = parts.size() == 1 ? parts[0] : e.op("aten.cat.default", {{"tensors", parts}, {"dim", axis}});
  const ValueId out = e.reshape(joined, out_shape);
  QCG_CHECK(Status(e.status()));
  return out;
}

}  // namespace qcg

// Writes at positions that combine what is written with what is there, as sums and as qcg.combine_at.
//
//   scatter_reduce(x, i, src, "amax")                       qcg.combine_at(x, i, src, "amax")
//   scatter_reduce(x, i, src, "prod", include_self=False)   1 at i, then qcg.combine_at
//   scatter_reduce(x, i, src, "mean")                       scatter_add(x, i, src) / scatter_add(1, i, 1)
#include "graph/ops/infer.h"
#include "graph/passes/library/library.h"

namespace qcg {
namespace {

// What is written, in the dtype of the sums, and where.
struct Write {
  ValueId src, index;
};

// index_reduce has one position for each slice: the same for all elements of it.
Write write_of(OpEmitter& e, const Graph& graph, const Node& node, DType dtype) {
  ValueId index = node.tensor("index");
  if (node.op->arg_index("value") >= 0)
    return {e.op("aten.full.default",
                 {{"size", graph.value(index).shape}, {"fill_value", node.arg("value")}, {"dtype", dtype}}),
            index};
  if (node.op->arg_index("source") < 0) return {e.to(node.tensor("src"), dtype), index};
  const ValueId src = node.tensor("source");
  const Shape shape = graph.value(src).shape;
  Shape thin(shape.size(), Dim(1));
  if (!shape.empty()) thin[*as_axis(node.arg("dim"), shape.size())] = product(graph.value(index).shape);
  index = e.op("aten.expand.default", {{"self", e.reshape(index, thin)}, {"size", shape}});
  return {e.to(src, dtype), index};
}

std::vector<ValueId> write_combined(OpEmitter& e, const Graph& graph, const Node& node) {
  const std::string_view how = combination_at_positions(node);
  const bool sums = how == "sum" || how == "mean";
  const bool include_self = node.op->arg_index("include_self") < 0 || *node.arg("include_self").get<bool>();
  ValueId self = e.widened(node.tensor("self"));
  if (!e.status().ok()) return {};
  const DType dtype = graph.value(self).dtype;
  const Write write = write_of(e, graph, node, dtype);
  if (!e.status().ok()) return {};
  const Shape shape = graph.value(self).shape, written = graph.value(write.index).shape;
  const auto filled = [&](const Shape& size, int64_t number) {
    return e.op("aten.full.default", {{"size", size}, {"fill_value", Dim(number)}, {"dtype", dtype}});
  };
  const auto put = [&](Op op, ValueId into, ValueId src) {
    std::vector<NamedArg> args = {{"self", into}, {"dim", node.arg("dim")}, {"index", write.index}, {"src", src}};
    if (op == "qcg.combine_at") args.push_back({"reduce", std::string(how)});
    return e.op(op, std::move(args));
  };
  // Without the old values, the places first get a neutral number; for extremes, one of the numbers written there.
  if (!include_self)
    self = put("aten.scatter.src", self, sums ? filled(written, 0) : how == "prod" ? filled(written, 1) : write.src);
  const ValueId combined = put(sums ? Op("aten.scatter_add.default") : Op("qcg.combine_at"), self, write.src);
  if (how != "mean") return {combined};
  ValueId count = put("aten.scatter_add.default", filled(shape, include_self ? 1 : 0), filled(written, 1));
  if (!include_self) count = e.op("aten.clamp_min.default", {{"self", count}, {"min", Dim(1)}});
  if (is_floating(dtype)) return {e.binary("aten.div.Tensor", combined, count)};
  return {e.op("aten.floor_divide.default", {{"self", combined}, {"other", count}})};
}

// Positions of which negative ones count from the end.
ValueId from_start(OpEmitter& e, ValueId index, const Dim& size) {
  return e.op("aten.where.self", {{"condition", e.binary("aten.lt.Scalar", index, Dim(0))},
                                  {"self", e.binary("aten.add.Tensor", index, size)},
                                  {"other", index}});
}

// A write of the same number at all positions.
std::vector<ValueId> write_index_fill(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId self = node.tensor("self");
  const DType dtype = graph.value(self).dtype;
  Shape shape = graph.value(self).shape;
  const Dim count = product(graph.value(node.tensor("index")).shape);
  Dim& size = shape[*as_axis(node.arg("dim"), shape.size())];
  const ValueId index = from_start(e, e.reshape(node.tensor("index"), {count}), size);
  size = count;
  const ValueId* given = node.arg("value").get<ValueId>();
  const ValueId number =
      given ? e.to(*given, dtype)
            : e.op("aten.full.default", {{"size", Shape()}, {"fill_value", node.arg("value")}, {"dtype", dtype}});
  const ValueId source = e.op("aten.expand.default", {{"self", number}, {"size", shape}});
  return {e.op("aten.index_copy.default",
               {{"self", self}, {"dim", node.arg("dim")}, {"index", index}, {"source", source}})};
}

// A write into all elements, seen as a list.
std::vector<ValueId> write_put(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId self = node.tensor("self"), index = node.tensor("index");
  const Dim count = product(graph.value(index).shape), all = product(graph.value(self).shape);
  return {
      e.op("aten.index_put.default", {{"self", e.reshape(self, {all})},
                                      {"indices", std::vector<ValueId>{from_start(e, e.reshape(index, {count}), all)}},
                                      {"values", e.reshape(node.tensor("source"), {count})},
                                      {"accumulate", node.arg("accumulate")}})};
}

constexpr LibraryOp kWrites[] = {{"aten.index_fill.int_Scalar", write_index_fill},
                                 {"aten.index_fill.int_Tensor", write_index_fill},
                                 {"aten.put.default", write_put},
                                 {"aten.scatter_reduce.two", write_combined},
                                 {"aten.scatter.reduce", write_combined},
                                 {"aten.scatter.value_reduce", write_combined},
                                 {"aten.index_reduce.default", write_combined}};

}  // namespace

std::span<const LibraryOp> library_writes() { return kWrites; }

}  // namespace qcg

// look_up_rows: rows of a table that is computed row by row from parameters are looked up first, and computed then.
//
//   %t = torchao.dequantize_affine(@codes [V, D], block_size = [1, D], @scale [V, 1], …)
//   %y = aten.embedding(%t, %ids [B, S])
//     ->
//   %i = aten.reshape(%ids, [B * S])
//   %c = aten.index_select(@codes, 0, %i)
//   %s = aten.index_select(@scale, 0, %i)
//   %y = aten.reshape(torchao.dequantize_affine(%c, block_size = [1, D], %s, …), [B, S, D])
//
// So that a quantized embedding dequantizes the rows that are asked for, and not its whole table in every run. Goes
// through dequantizations, casts, reshapes and pointwise operations; embedding, index_select and index along the first
// axis. embedding_bag without padding gets the rows in the order of its ids, and counts through them.
//
// Why here: after fold_constants, which evaluates small tables; before decompose, which writes dequantizations in small
// operations.
#include <algorithm>
#include <unordered_map>

#include "graph/ops/infer.h"
#include "graph/passes/pass_list.h"
#include "graph/rewrite/op_emitter.h"

namespace qcg {

namespace {

constexpr Op kRowCasts[] = {"aten.to.dtype", "aten._to_copy.default", "aten.clone.default", "aten.contiguous.default"};
constexpr Op kRowReshapes[] = {"aten.reshape.default", "aten.view.default", "aten._unsafe_view.default",
                               "aten.unsqueeze.default"};
constexpr Op kPerChannel = "quantized_decomposed.dequantize_per_channel.default";

class RowLookUp : OpEmitter {
 public:
  RowLookUp(Graph& graph, const Node& node) : OpEmitter(graph, node) {}

  // Whether the node, a bag, was given its rows alone.
  Result<bool> write_bag() {
    const bool pads = like_.op->arg_index("padding_idx") >= 0 && !like_.arg("padding_idx").is_none() &&
                      (is_op(like_, "aten.embedding_bag.padding_idx") || as_integer(like_.arg("padding_idx")) != -1);
    table_ = like_.tensor("weight"), ids_ = like_.tensor("indices");
    size_ = graph_.value(table_).shape[0], count_ = graph_.value(ids_).shape[0];
    if (pads || is_parameter(graph_, table_) || !is_row_by_row(table_, 0)) return false;
    const DType ids = graph_.value(ids_).dtype;
    const ValueId rows = rows_of(table_);
    const ValueId all = op("aten.arange.default", {{"end", count_}, {"dtype", ids}});
    QCG_CHECK(std::move(error_));
    Node& written = graph_.nodes[graph_.value(like_.outputs[0]).producer];
    written.arg("weight") = rows, written.arg("indices") = all;
    return true;
  }

  // The rows that the node looks up; kNoValue: they are not computed row by row, or nothing is computed.
  Result<ValueId> write() {
    if (!find_operands() || is_parameter(graph_, table_) || !is_row_by_row(table_, 0)) return kNoValue;
    const Shape shape = graph_.value(like_.outputs[0]).shape;
    count_ = product(graph_.value(ids_).shape);
    ids_ = reshape(ids_, {count_});
    const ValueId y = reshape(rows_of(table_), shape);
    QCG_CHECK(std::move(error_));
    return y;
  }

 private:
  static constexpr int kDeepest = 32;

  bool find_operands() {
    if (is_op(like_, "aten.embedding.default")) {
      table_ = like_.tensor("weight"), ids_ = like_.tensor("indices");
    } else if (is_op(like_, "aten.index_select.default")) {
      table_ = like_.tensor("self"), ids_ = like_.tensor("index");
      if (as_axis(like_.arg("dim"), graph_.value(table_).shape.size()) != size_t{0}) return false;
    } else if (is_any_op(like_, kIndexes)) {
      const auto& indices = *like_.arg("indices").get<std::vector<ValueId>>();
      if (indices.size() != 1) return false;
      table_ = like_.tensor("self"), ids_ = indices[0];
    } else {
      return false;
    }
    if (graph_.value(table_).shape.empty()) return false;
    size_ = graph_.value(table_).shape[0];
    return true;
  }

  bool has_rows(ValueId id) const {
    const Shape& shape = graph_.value(id).shape;
    return !shape.empty() && shape[0] == size_;
  }

  // Whether row i of a value follows from rows i of parameters, and from what all rows share.
  bool is_row_by_row(ValueId id, int depth) const {
    if (!has_rows(id) || depth > kDeepest) return false;
    if (is_parameter(graph_, id)) return true;
    const Node* node = producer_of(graph_, id);
    if (!node || node->outputs.size() != 1 || !(works_on_rows(*node) || is_any_op(*node, kRowReshapes))) return false;
    const size_t rank = graph_.value(id).shape.size();
    bool good = true;
    for_each_input(*node, [&](ValueId in) {
      const bool shared = is_shared(*node, in, rank);
      good = good && (shared || is_row_by_row(in, depth + 1));
    });
    return good;
  }

  // Broadcast over the rows.
  bool is_shared(const Node& node, ValueId in, size_t rank) const {
    const Shape& shape = graph_.value(in).shape;
    if (is_any_op(node, kRowReshapes)) return false;
    if (Op(node.op).row().formula.empty()) return product(shape).is_constant(1) && !has_rows(in);
    return shape.size() < rank || (shape[0].is_constant(1) && !size_.is_constant(1));
  }

  // Nodes that do the same on fewer rows.
  bool works_on_rows(const Node& node) const {
    if (is_any_op(node, kRowCasts)) return true;
    if (!Op(node.op).row().formula.empty()) return as_elementwise(graph_, node).has_value();
    if (is_op(node, kPerChannel)) return as_integer(node.arg("axis")) == 0;
    if (!is_op(node, "torchao.dequantize_affine.default")) return false;
    const auto* block = node.arg("block_size").get<std::vector<Dim>>();
    return block && !block->empty() && (*block)[0].is_constant(1);
  }

  ValueId rows_of(ValueId id) {
    const auto known = rows_.find(id);
    if (known != rows_.end()) return known->second;
    const ValueId rows = is_parameter(graph_, id) ? look_up(id) : compute(*producer_of(graph_, id));
    rows_.emplace(id, rows);
    return rows;
  }

  ValueId look_up(ValueId parameter) {
    if (is_any_op(like_, kIndexes))
      return op("aten.index.Tensor", {{"self", parameter}, {"indices", std::vector<ValueId>{ids_}}});
    return op("aten.index_select.default", {{"self", parameter}, {"dim", Dim(0)}, {"index", ids_}});
  }

  ValueId compute(const Node& of) {
    Node node = of;  // a copy: new nodes move the old
    Shape shape = graph_.value(node.outputs[0]).shape;
    for_each_input(node, [&](ValueId& in) {
      if (!is_shared(node, in, shape.size())) in = rows_of(in);
    });
    if (!error_.ok()) return 0;
    shape[0] = count_;
    if (is_any_op(node, kRowReshapes)) return reshape(*node.args[0].get<ValueId>(), shape);
    auto types = infer_types(graph_, node);
    if (!types.ok()) return fail(types.error()), 0;
    const ValueId out =
        emit(graph_, node.op, std::move(node.args), (*types)[0], node, graph_.value(node.outputs[0]).name);
    graph_.nodes[graph_.value(out).producer].origins = join_origins(node.origins, like_.origins);
    return out;
  }

  ValueId table_ = kNoValue, ids_ = kNoValue;
  Dim size_, count_;  // rows of the table; rows that are looked up
  std::unordered_map<ValueId, ValueId> rows_;
};

}  // namespace

Status look_up_rows(Graph& graph, PassContext& context) {
  Readers readers(graph);
  for (NodeId id = 0, count = static_cast<NodeId>(graph.nodes.size()); id < count; ++id) {
    const bool bags = is_any_op(graph.nodes[id], kEmbeddingBags);
    if (!bags && graph.nodes[id].op->role != OpRole::look_up) continue;
    const Node node = graph.nodes[id];  // a copy: new nodes move the old
    if (bags) {
      QCG_TRY(changed, RowLookUp(graph, node).write_bag());
      if (!changed) continue;
      ++context.report.fired;
      ++context.report.counters[node.op->name];
      continue;
    }
    QCG_TRY(rows, RowLookUp(graph, node).write());
    if (rows == kNoValue) continue;
    readers.replace(node.outputs[0], rows);
    ++context.report.fired;
    ++context.report.counters[node.op->name];
  }
  if (context.report.fired == 0) return {};
  QCG_CHECK(sort_nodes(graph));
  graph.remove_dead();
  return {};
}

}  // namespace qcg

// group_linears: products of rows that are sorted by group, as mixtures of experts have them, with matrices of weights.
//
//   %y = aten._grouped_mm(%x [M, K], @w [E, K, N], %ends [E])
//     ->
//   %y = qcg.grouped_linear(%x, %ends, @w [E, N, K])
//
// and with quantized ones, all groups of which are one matrix in front of the dequantization:
//
//   %t = qcg.dequantize_4bit(@packed, @scales, …) [E * N, K]
//   %y = aten._grouped_mm(%x, permute(reshape(%t, [E, N, K])), %ends)
//
// So that the matrix of a group is packed and multiplied as a linear's is.
//
// Why here: after recognize_linear, whose recognizers it borrows; before fold_constants, which would otherwise
// dequantize the weights.
#include "graph/ops/op_table.h"
#include "graph/passes/pass_list.h"
#include "graph/patterns/dequantized_weight.h"
#include "graph/patterns/gemm.h"
#include "graph/rewrite/parameter_views.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

// The matrices of all groups as one of [E * N, K], which their dequantization has or is given.
ValueId rows_of_groups(Graph& graph, ValueId weight, bool weight_kn) {
  const Node like = graph.nodes[graph.value(weight).producer];  // a copy: new nodes move the old
  const auto add = [&](Op name, std::vector<NamedArg> args, const Shape& shape) {
    const OpSchema* op = name.schema();
    weight = emit(graph, op, make_args(*op, std::move(args)), {graph.value(weight).dtype, shape}, like,
                  graph.value(weight).name + ".rows");
  };
  if (weight_kn) {
    const Shape shape = graph.value(weight).shape;
    add("aten.permute.default", {{"self", weight}, {"dims", std::vector<Dim>{Dim(0), Dim(2), Dim(1)}}},
        {shape[0], shape[2], shape[1]});
  }
  const Shape shape = graph.value(weight).shape, all = {shape[0] * shape[1], shape[2]};
  if (!weight_kn && is_op(like, "aten.reshape.default")) weight = like.tensor("self");
  if (graph.value(weight).shape != all) add("aten.reshape.default", {{"self", weight}, {"shape", all}}, all);
  return weight;
}

// A constant of a matrix with the rows of all groups, group by group; kNoValue if there is none.
ValueId in_groups(Graph& graph, ValueId id, int64_t groups) {
  if (id == kNoValue) return id;
  const Tensor data = graph.value(id).data;
  return add_parameter_view(graph, id, *view_as_shape(data, {groups, data.shape[0] / groups, data.shape[1]}));
}

// Fills weight [E, N, K] and what belongs to it; says what is missing.
std::optional<std::string> take_grouped_weight(Graph& graph, ValueId weight, bool weight_kn, LinearSpec& spec) {
  if (graph.value(weight).shape[0].is_constant(0)) return "it has no groups";
  if (const ValueId constant = constant_of(graph, weight); constant != kNoValue) {
    const Tensor data = graph.value(constant).data;
    spec.weight = weight_kn ? add_parameter_view(graph, constant, data.transpose(1, 2)) : constant;
    return std::nullopt;
  }
  const Shape shape = graph.value(weight).shape;
  if (graph.value(weight).kind != ValueKind::node || !shape[0].is_constant())
    return "its matrices" + how_computed(graph, weight);
  if (auto missing = take_weight(graph, rows_of_groups(graph, weight, weight_kn), false, spec))
    return missing->empty() ? "its matrices" + how_computed(graph, weight) : missing;
  if (!(spec.epilogue == Expr::acc(0))) return "a scale of all groups has no kernel";
  give_offset_dtype_of_scale(graph, spec);
  const int64_t groups = shape[0].constant();
  for (ValueId* id : {&spec.weight, &spec.scale, &spec.zero, &spec.offset}) *id = in_groups(graph, *id, groups);
  return std::nullopt;
}

}  // namespace

Status group_linears(Graph& graph, PassContext& context) {
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node node = graph.nodes[id];
    if (!is_any_op(node, kGroupedProducts)) continue;
    const bool own = node.op->arg_index("mat2") >= 0;
    const auto [weight, weight_kn] = under_transposes(graph, node.tensor(own ? "mat2" : "weight"), true);
    LinearSpec spec{.x = node.tensor(own ? "self" : "input")};
    if (auto missing = take_grouped_weight(graph, weight, weight_kn, spec)) {
      context.skip(node_name(graph, node), *missing);
      continue;
    }
    if (graph.value(spec.weight).data.numel() == 0) continue;
    replace_node(graph, id, "qcg.grouped_linear",
                 make_args(*Op("qcg.grouped_linear").schema(), {{"x", spec.x},
                                                                {"ends", node.tensor("offs")},
                                                                {"weight", spec.weight},
                                                                {"scale", spec.scale},
                                                                {"zero", spec.zero},
                                                                {"offset", spec.offset},
                                                                {"scheme", std::string(scheme_name(spec.scheme))},
                                                                {"group", Dim(spec.group)}}));
    ++context.report.fired;
    ++context.report.counters[std::string(scheme_name(spec.scheme))];
  }
  QCG_CHECK(sort_nodes(graph));
  graph.remove_dead();
  return {};
}

}  // namespace qcg

//   %s, %z = torchao.choose_qparams_affine(%x, "SYMMETRIC", [1, K], i8, -128, 127, eps, f32, i8, keepdim)
//   %q     = torchao.quantize_affine(%x, [1, K], %s, %z, i8, -128, 127)
// becomes
//   %q, %s, %z = qcg.quantize_rows(%x, "SYMMETRIC", -128, 127, eps)
// The scale keeps the shape the graph gave it by a reshape, the zero point its dtype by a cast.
#include "graph/patterns/quantize_rows.h"

#include "graph/ops/op_table.h"
#include "graph/patterns/dequantized_weight.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

std::optional<IntegerRange> quantized_range(const Node& node, DType dtype) {
  if (!is_byte(dtype)) return std::nullopt;
  IntegerRange range = integer_range(dtype);
  if (!node.arg("quant_min").is_none()) {
    auto low = as_number(node.arg("quant_min"));
    if (!low) return std::nullopt;
    range.low = static_cast<int64_t>(*low);
  }
  if (!node.arg("quant_max").is_none()) {
    auto high = as_number(node.arg("quant_max"));
    if (!high) return std::nullopt;
    range.high = static_cast<int64_t>(*high);
  }
  return range;
}

// torchao: eps when given, else the smallest normal number of the input's dtype.
double least_scale(DType input, const Node& choose) {
  return as_number(choose.arg("eps")).value_or(input == DType::f16 ? 0x1p-14 : 0x1p-126);
}

// Why this pair cannot be one qcg.quantize_rows; nullopt when it can.
std::optional<std::string> check_pair(const Graph& graph, const Node& choose, const Node& quantize) {
  const ValueId x = quantize.tensor("input");
  if (choose.tensor("input") != x) return "the scale was chosen from another tensor";
  if (!is_row_block(graph, choose) || !is_row_block(graph, quantize)) return "the block is not a whole row";
  const std::string* mapping = choose.arg("mapping_type").get<std::string>();
  if (!mapping || (*mapping != "SYMMETRIC" && *mapping != "ASYMMETRIC"))
    return "mapping " + (mapping ? *mapping : std::string("?")) + " (SYMMETRIC and ASYMMETRIC are supported)";
  const DType out = graph.value(quantize.outputs[0]).dtype;
  auto range = quantized_range(quantize, out);
  if (!range) return "the quantized dtype is " + std::string(dtype_name(out)) + ", not an 8-bit integer";
  if (quantized_range(choose, out) != range) return "the scale was chosen for another range";
  const IntegerRange codes = integer_range(out);
  if (range->low < codes.low || range->high > codes.high) return "the range is wider than the codes";
  const DType scale = graph.value(quantize.tensor("scale")).dtype;
  if (scale != DType::f32 && scale != graph.value(x).dtype)
    return "the scale is " + std::string(dtype_name(scale)) + ", not f32 or " +
           std::string(dtype_name(graph.value(x).dtype));
  return std::nullopt;
}

class RowsLifter {
 public:
  RowsLifter(Graph& graph, PassContext& context) : graph_(graph), report_(context.report), readers_(graph) {}

  Status run() {
    const NodeId count = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = 0; id < count; ++id)
      if (is_op(graph_.nodes[id], "torchao.quantize_affine.default")) lift(id);
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  void lift(NodeId quantize_id) {
    const Node quantize = graph_.nodes[quantize_id];
    const ValueId scale = quantize.tensor("scale"), zero = quantize.tensor("zero_point");
    const Node* choose_node = producer_if(graph_, scale, "torchao.choose_qparams_affine.default");
    if (!choose_node || scale != choose_node->outputs[0] || zero != choose_node->outputs[1]) {
      note(quantize, "scale and zero point do not come from one choose_qparams_affine");
      return;
    }
    const Node choose = *choose_node;
    if (auto missing = check_pair(graph_, choose, quantize)) {
      note(quantize, *missing);
      return;
    }
    replace(choose, quantize);
    ++report_.counters["activation quantizations"];
    ++report_.fired;
  }

  void note(const Node& quantize, const std::string& missing) {
    const std::string node =
        quantize.origins.empty() ? graph_.value(quantize.outputs[0]).name : quantize.origins.back();
    report_.notes.push_back(node + ": not quantize_rows: " + missing);
    report_.skipped.push_back({node, "not quantize_rows: " + missing});
  }

  void replace(const Node& choose, const Node& quantize) {
    const ValueId x = quantize.tensor("input"), q = quantize.outputs[0];
    const IntegerRange range = *quantized_range(quantize, graph_.value(q).dtype);
    Shape rows = graph_.value(x).shape;
    rows.back() = Dim(1);
    const OpSchema* op = Op("qcg.quantize_rows").schema();
    std::vector<Arg> args = make_args(*op, {{"x", x},
                                            {"mapping", choose.arg("mapping_type")},
                                            {"quant_min", Dim(range.low)},
                                            {"quant_max", Dim(range.high)},
                                            {"eps", least_scale(graph_.value(x).dtype, choose)},
                                            {"scale_dtype", graph_.value(choose.outputs[0]).dtype}});
    auto value = [&](ValueId like, DType dtype, Shape shape) {
      Value v;
      v.name = graph_.unique_name(graph_.value(like).name + ".rows");
      v.dtype = dtype;
      v.shape = std::move(shape);
      return v;
    };
    const DType q_dtype = graph_.value(q).dtype;
    const Shape q_shape = graph_.value(q).shape;
    const NodeId id = graph_.add_node(op, std::move(args),
                                      {value(q, q_dtype, q_shape), value(choose.outputs[0], DType::f32, rows),
                                       value(choose.outputs[1], DType::i32, rows)});
    graph_.nodes[id].where = quantize.where;
    graph_.nodes[id].source = quantize.source;
    graph_.nodes[id].origins = join_origins(choose.origins, quantize.origins);
    const std::vector<ValueId> outputs = graph_.nodes[id].outputs;
    readers_.replace(q, outputs[0]);
    readers_.replace(choose.outputs[0], in_form_of(outputs[1], choose.outputs[0], choose));
    readers_.replace(choose.outputs[1], in_form_of(outputs[2], choose.outputs[1], choose));
  }

  // `value` with the shape and dtype of `like`.
  ValueId in_form_of(ValueId value, ValueId like, const Node& node) {
    const ValueType type = {graph_.value(like).dtype, graph_.value(like).shape};
    const std::string name = graph_.value(like).name;
    if (graph_.value(value).shape != type.shape) {
      const OpSchema* reshape = Op("aten.reshape.default").schema();
      std::vector<Arg> args = make_args(*reshape, {{"self", value}, {"shape", type.shape}});
      value = emit(graph_, reshape, std::move(args), {graph_.value(value).dtype, type.shape}, node, name + ".shape");
    }
    if (graph_.value(value).dtype != type.dtype) {
      const OpSchema* cast = Op("aten.to.dtype").schema();
      std::vector<Arg> args = make_args(*cast, {{"self", value}, {"dtype", type.dtype}});
      value = emit(graph_, cast, std::move(args), type, node, name + ".dtype");
    }
    return value;
  }

  Graph& graph_;
  PassReport& report_;
  Readers readers_;
};

}  // namespace

Status lift_quantize_rows(Graph& graph, PassContext& context) { return RowsLifter(graph, context).run(); }

}  // namespace qcg

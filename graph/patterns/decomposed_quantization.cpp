//   %d = quantized_decomposed.dequantize_per_tensor(%q, s, z, …)    torchao.dequantize_affine(%q, block = all of %q, @s, @z)
//        …_per_channel(%q, @s, @z, axis)                            … block = 1 along the axis, all of the others
//        …_per_token(%q, %s, %z)                                    … block = one row
//        …_per_channel_group(%q, @s, @z, group)                     … block = [1, group]
//   %q = …quantize_per_tensor.tensor(%x, @s, @z)                    …quantize_per_tensor(%x, s, z) with the constants' values
//        …quantize_per_tensor.tensor(%x, %s, %z), _per_channel      torchao.quantize_affine: the same steps in the same order
//        …choose_qparams_per_token + quantize_per_token             torchao.choose_qparams_affine + quantize_affine, of f32
//        …quantize_per_*(@w)                                        a constant
//
// quantize_per_tensor keeps its name: its 1 / s is computed in double, and an epilogue takes it as it is.
#include "graph/patterns/decomposed_quantization.h"

#include <bit>
#include <cmath>
#include <map>

#include "graph/passes/rewrite.h"

namespace qcg {

namespace {

// "quantized_decomposed.<name>.<overload>" -> name; empty for other ops.
std::string_view decomposed_name(const Node& node) {
  constexpr std::string_view kNamespace = "quantized_decomposed.";
  std::string_view name = node.op->name;
  if (!name.starts_with(kNamespace)) return {};
  name.remove_prefix(kNamespace.size());
  return name.substr(0, name.find('.'));
}

class Lifter {
 public:
  Lifter(Graph& graph, PassReport& report) : graph_(graph), report_(report) {}

  Status run() {
    const NodeId count = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = 0; id < count; ++id) {
      like_ = graph_.nodes[id];
      if (decomposed_name(like_).empty() || !lift(id)) continue;
      ++report_.fired;
      ++report_.counters[like_.op->name];
    }
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  struct Parameters {
    ValueId scale, zero;
  };

  bool lift(NodeId id) {
    const std::string_view name = decomposed_name(like_);
    if (name.starts_with("quantize_") && fold_constant()) return true;
    if (name == "choose_qparams_per_token") return lift_choose();
    if (name == "quantize_per_tensor") return lift_quantize_tensor(id);
    if (name == "quantize_per_channel")
      return quantize_by(id, channel_block(), {tensor_as(DType::f32, "scales"), like_.tensor("zero_points")}, as_f32());
    if (name == "quantize_per_token") return lift_quantize_rows(id);
    if (name == "dequantize_per_tensor") return dequantize_by(id, whole_block(), parameters_of_tensor());
    if (name == "dequantize_per_channel") return lift_dequantize_channel(id);
    if (name == "dequantize_per_token") return dequantize_by(id, row_block(), parameters_of_rows());
    if (name == "dequantize_per_channel_group") return lift_dequantize_group(id);
    return false;
  }

  // ---- blocks: what shares one scale ----

  const Shape& input_shape() const { return graph_.value(like_.tensor("input")).shape; }
  Shape whole_block() const { return input_shape(); }
  Shape row_block() const {
    Shape block(input_shape().size(), Dim(1));
    block.back() = input_shape().back();
    return block;
  }
  Shape channel_block() const {
    Shape block = input_shape();
    block[*as_axis(like_.arg("axis"), block.size())] = Dim(1);
    return block;
  }

  // ---- parameters ----

  ValueId constant(DType dtype, double value) {
    auto [it, fresh] = constants_.try_emplace({dtype, std::bit_cast<uint64_t>(value)}, kNoValue);
    if (!fresh) return it->second;
    const std::string name = graph_.value(like_.tensor("input")).name + (is_floating(dtype) ? ".scale" : ".zero");
    return it->second = add_number(graph_, dtype, value, {1}, name);
  }

  // The argument as a number: given as one, or a constant tensor of one element.
  std::optional<double> number(std::string_view name) const {
    const Arg& arg = like_.arg(name);
    const ValueId* id = arg.get<ValueId>();
    const auto value = id ? constant_number(graph_, *id) : as_number(arg);
    return value && std::abs(*value) < 0x1p31 ? value : std::nullopt;
  }

  ValueId cast(ValueId id, DType dtype) {
    if (id == kNoValue || graph_.value(id).dtype == dtype) return id;
    if (is_parameter(graph_, id)) return cast_parameter(graph_, id, dtype);
    auto [it, fresh] = casts_.try_emplace({id, dtype}, kNoValue);  // one cast, so that siblings see one scale
    if (!fresh) return it->second;
    const OpSchema* op = find_op("aten.to.dtype");
    const ValueType type = {dtype, graph_.value(id).shape};
    return it->second = emit(graph_, op->name, make_args(*op, {{"self", id}, {"dtype", dtype}}), type, like_, graph_.value(id).name);
  }
  ValueId tensor_as(DType dtype, std::string_view name) { return cast(like_.tensor(name), dtype); }
  ValueId as_f32() { return tensor_as(DType::f32, "input"); }

  Parameters parameters_of_tensor() {
    const auto scale = number("scale"), zero = number("zero_point");
    if (scale && zero) return {constant(DType::f32, *scale), *zero == 0 ? kNoValue : constant(DType::i32, *zero)};
    if (!like_.arg("scale").get<ValueId>()) return {kNoValue, kNoValue};
    return {tensor_as(DType::f32, "scale"), tensor_as(DType::i32, "zero_point")};
  }

  Parameters parameters_of_rows() {
    auto it = rows_.find({like_.tensor("scales"), like_.tensor("zero_points")});
    if (it != rows_.end()) return it->second;
    return {tensor_as(DType::f32, "scales"), tensor_as(DType::i32, "zero_points")};
  }

  // ---- the ops ----

  bool fold_constant() {
    if (!reads_constants(graph_, like_)) return false;
    auto results = evaluate_node(graph_, like_);
    if (!results.ok()) return false;
    const std::string name = graph_.unique_name(graph_.value(like_.outputs[0]).name + ".value");
    graph_.replace_uses(like_.outputs[0], graph_.add_parameter(name, (*results)[0]));
    return true;
  }

  bool dequantize_by(NodeId id, Shape block, Parameters p) {
    if (p.scale == kNoValue) return false;
    const auto low = number("quant_min"), high = number("quant_max");
    const OpSchema* op = find_op("torchao.dequantize_affine.default");
    replace_node(graph_, id, op->name,
                 make_args(*op, {{"input", like_.tensor("input")}, {"block_size", std::move(block)}, {"scale", p.scale}, {"zero_point", p.zero},
                                 {"input_dtype", like_.arg("dtype")}, {"quant_min", limit(low)}, {"quant_max", limit(high)},
                                 {"output_dtype", graph_.value(like_.outputs[0]).dtype}}));
    return true;
  }

  // A [K, N] weight with a scale per column is the transpose of an [N, K] weight with a scale per row.
  bool lift_dequantize_channel(NodeId id) {
    const Parameters p = {like_.tensor("scales"), like_.tensor("zero_points")};
    const ValueId w = like_.tensor("input");
    if (!is_parameter(graph_, w) || input_shape().size() != 2 || as_axis(like_.arg("axis"), 2) != size_t{1})
      return dequantize_by(id, channel_block(), p);
    const ValueType type = {graph_.value(like_.outputs[0]).dtype, {input_shape()[1], input_shape()[0]}};
    const OpSchema* same = find_op(like_.op->name);
    const Tensor turned = graph_.value(w).data.transpose(0, 1);
    like_.arg("input") = add_parameter_view(graph_, w, turned);
    like_.arg("axis") = Dim(0);
    const ValueId rows = emit(graph_, same->name, like_.args, type, like_, graph_.value(like_.outputs[0]).name + ".rows");
    const OpSchema* permute = find_op("aten.permute.default");
    replace_node(graph_, id, permute->name, make_args(*permute, {{"self", rows}, {"dims", std::vector<Dim>{Dim(1), Dim(0)}}}));
    return dequantize_by(graph_.value(rows).producer, channel_block(), p);
  }

  static Arg limit(std::optional<double> value) { return value ? Arg(Dim(static_cast<int64_t>(*value))) : Arg(); }

  // The group of one group per row may be any number.
  bool lift_dequantize_group(NodeId id) {
    const Shape shape = input_shape();
    const bool whole_rows = product(graph_.value(like_.tensor("scales")).shape) == shape[0];
    const Dim group = whole_rows ? shape[1] : *like_.arg("group_size").get<Dim>();
    return dequantize_by(id, {Dim(1), group}, {like_.tensor("scales"), like_.tensor("zero_points")});
  }

  bool quantize_by(NodeId id, Shape block, Parameters p, ValueId input) {
    const auto low = number("quant_min"), high = number("quant_max");
    if (p.scale == kNoValue || !low || !high) return false;
    const OpSchema* op = find_op("torchao.quantize_affine.default");
    replace_node(graph_, id, op->name,
                 make_args(*op, {{"input", input}, {"block_size", std::move(block)}, {"scale", p.scale}, {"zero_point", p.zero},
                                 {"output_dtype", like_.arg("dtype")}, {"quant_min", limit(low)}, {"quant_max", limit(high)}}));
    return true;
  }

  bool lift_quantize_tensor(NodeId id) {
    if (!like_.arg("scale").get<ValueId>()) return false;
    const auto scale = number("scale"), zero = number("zero_point"), low = number("quant_min"), high = number("quant_max");
    if (!scale || !zero || !low || !high) return quantize_by(id, whole_block(), parameters_of_tensor(), as_f32());
    const OpSchema* op = find_op("quantized_decomposed.quantize_per_tensor.default");
    replace_node(graph_, id, op->name,
                 make_args(*op, {{"input", like_.tensor("input")}, {"scale", *scale}, {"zero_point", limit(zero)}, {"quant_min", limit(low)},
                                 {"quant_max", limit(high)}, {"dtype", like_.arg("dtype")}}));
    return true;
  }

  // max(amax|x|, 1e-5) / 127 = max(amax|x| / 127, 1e-5 / 127), rounding included, because division is monotonic. In f32
  // that is torchao's symmetric rule for [-127, 127], a range that no quotient leaves; other dtypes round elsewhere.
  bool lift_choose() {
    const ValueId x = like_.tensor("input");
    if (graph_.value(x).dtype != DType::f32) return false;
    const OpSchema* op = find_op("torchao.choose_qparams_affine.default");
    const double eps = static_cast<double>(1e-5f / 127.0f);
    Value scale, zero;
    scale.name = graph_.unique_name(graph_.value(like_.outputs[0]).name + ".f32");
    scale.shape = zero.shape = graph_.value(like_.outputs[0]).shape;
    zero.name = graph_.unique_name(graph_.value(like_.outputs[1]).name + ".i32");
    zero.dtype = DType::i32;
    std::vector<Arg> args = make_args(*op, {{"input", x}, {"mapping_type", std::string("SYMMETRIC")}, {"block_size", row_block()},
                                            {"target_dtype", DType::i8}, {"quant_min", Dim(-127)}, {"quant_max", Dim(127)}, {"eps", eps},
                                            {"scale_dtype", DType::f32}, {"zero_point_dtype", DType::i32}, {"keepdim", true}});
    const NodeId made = graph_.add_node(op, std::move(args), {scale, zero});
    graph_.nodes[made].where = like_.where;
    graph_.nodes[made].source = like_.source;
    graph_.nodes[made].origins = like_.origins;
    const std::vector<ValueId> outputs = graph_.nodes[made].outputs;
    // Readers get the dtypes they were promised; quantize_per_token and dequantize_per_token find the pair behind them.
    const ValueId wide_scale = cast(outputs[0], graph_.value(like_.outputs[0]).dtype);
    const ValueId wide_zero = cast(outputs[1], graph_.value(like_.outputs[1]).dtype);
    graph_.replace_uses(like_.outputs[0], wide_scale);
    graph_.replace_uses(like_.outputs[1], wide_zero);
    rows_[{wide_scale, wide_zero}] = {outputs[0], outputs[1]};
    return true;
  }

  bool lift_quantize_rows(NodeId id) {
    auto it = rows_.find({like_.tensor("scales"), like_.tensor("zero_points")});
    const auto low = as_number(like_.arg("quant_min")), high = as_number(like_.arg("quant_max"));
    if (it == rows_.end() || !low || !high || *low > -127 || *high < 127) return false;
    if (*like_.arg("dtype").get<DType>() != DType::i8) return false;
    like_.arg("quant_min") = Dim(-127);
    like_.arg("quant_max") = Dim(127);
    return quantize_by(id, row_block(), it->second, like_.tensor("input"));
  }

  Graph& graph_;
  PassReport& report_;
  Node like_;
  std::map<std::pair<DType, uint64_t>, ValueId> constants_;  // by dtype and bits
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
  std::map<std::pair<ValueId, ValueId>, Parameters> rows_;  // the promised outputs of choose_qparams_per_token -> what was lifted
};

}  // namespace

Status lift_decomposed_quantization(Graph& graph, PassContext& context) { return Lifter(graph, context.report).run(); }

}  // namespace qcg

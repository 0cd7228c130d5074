//   %d = quantized_decomposed.dequantize_per_tensor(%q, s, z, …)    torchao.dequantize_affine(%q, block = all of %q, @s, @z)
//        …_per_channel(%q, @s, @z, axis)                            … block = 1 along the axis, all of the others
//        …_per_token(%q, %s, %z)                                    … block = one row
//        …_per_channel_group(%q, @s, @z, group)                     … block = [1, group]
//   %q = …quantize_per_tensor.tensor(%x, @s, @z)                    …quantize_per_tensor(%x, s, z) with the constants' values
//        …quantize_per_tensor.tensor(%x, %s, %z), _per_channel      torchao.quantize_affine: the same steps in the same order
//        …choose_qparams_per_token[_asymmetric] + quantize_per_token  qcg.quantize_rows
//        …quantize_per_*(@w)                                        a constant
//
// quantize_per_tensor keeps its name: its 1 / s is computed in double, and an epilogue takes it as it is.
#include "graph/patterns/decomposed_quantization.h"

#include <bit>
#include <cmath>
#include <map>

#include "graph/ops/op_table.h"
#include "graph/rewrite/rewrite.h"

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
  Lifter(Graph& graph, PassReport& report) : graph_(graph), report_(report), readers_(graph) {}

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
    if (name == "quantize_per_tensor") return lift_quantize_tensor(id);
    if (name == "quantize_per_channel")
      return quantize_by(id, channel_block(), {tensor_as(DType::f32, "scales"), like_.tensor("zero_points")}, as_f32());
    if (name == "quantize_per_token") return lift_quantize_rows();
    if (name == "dequantize_per_tensor") return dequantize_by(id, whole_block(), parameters_of_tensor());
    if (name == "dequantize_per_channel") return lift_dequantize_channel(id);
    if (name == "dequantize_per_token") return dequantize_by(id, row_block(), parameters_of_rows());
    if (name == "dequantize_per_channel_group") return lift_dequantize_group(id);
    return false;
  }

  void become(NodeId id, Op op, std::vector<Arg> args) {
    readers_.catch_up();
    readers_.remove(id);
    replace_node(graph_, id, op, std::move(args));
    readers_.add(id);
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
    const OpSchema* op = Op("aten.to.dtype").schema();
    const ValueType type = {dtype, graph_.value(id).shape};
    return it->second =
               emit(graph_, op, make_args(*op, {{"self", id}, {"dtype", dtype}}), type, like_, graph_.value(id).name);
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
    readers_.replace(like_.outputs[0], graph_.add_parameter(name, (*results)[0]));
    return true;
  }

  bool dequantize_by(NodeId id, Shape block, Parameters p) {
    if (p.scale == kNoValue) return false;
    const auto low = number("quant_min"), high = number("quant_max");
    const OpSchema* op = Op("torchao.dequantize_affine.default").schema();
    become(id, op,
           make_args(*op, {{"input", like_.tensor("input")},
                           {"block_size", std::move(block)},
                           {"scale", p.scale},
                           {"zero_point", p.zero},
                           {"input_dtype", like_.arg("dtype")},
                           {"quant_min", limit(low)},
                           {"quant_max", limit(high)},
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
    const OpSchema* same = like_.op;
    const Tensor turned = graph_.value(w).data.transpose(0, 1);
    like_.arg("input") = add_parameter_view(graph_, w, turned);
    like_.arg("axis") = Dim(0);
    const ValueId rows = emit(graph_, same, like_.args, type, like_, graph_.value(like_.outputs[0]).name + ".rows");
    const OpSchema* permute = Op("aten.permute.default").schema();
    become(id, permute, make_args(*permute, {{"self", rows}, {"dims", std::vector<Dim>{Dim(1), Dim(0)}}}));
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
    const OpSchema* op = Op("torchao.quantize_affine.default").schema();
    become(id, op,
           make_args(*op, {{"input", input},
                           {"block_size", std::move(block)},
                           {"scale", p.scale},
                           {"zero_point", p.zero},
                           {"output_dtype", like_.arg("dtype")},
                           {"quant_min", limit(low)},
                           {"quant_max", limit(high)}}));
    return true;
  }

  bool lift_quantize_tensor(NodeId id) {
    if (!like_.arg("scale").get<ValueId>()) return false;
    const auto scale = number("scale"), zero = number("zero_point"), low = number("quant_min"),
               high = number("quant_max");
    if (!scale || !zero || !low || !high) return quantize_by(id, whole_block(), parameters_of_tensor(), as_f32());
    const OpSchema* op = Op("quantized_decomposed.quantize_per_tensor.default").schema();
    become(id, op,
           make_args(*op, {{"input", like_.tensor("input")},
                           {"scale", *scale},
                           {"zero_point", limit(zero)},
                           {"quant_min", limit(low)},
                           {"quant_max", limit(high)},
                           {"dtype", like_.arg("dtype")}}));
    return true;
  }

  // The op that chose both parameters of a quantize_per_token from its input.
  const Node* choice() const {
    const Node* choose = producer_of(graph_, like_.tensor("scales"));
    if (!choose || decomposed_name(*choose).find("choose_qparams_per_token") == std::string_view::npos) return nullptr;
    const bool both = choose->outputs[0] == like_.tensor("scales") && choose->outputs[1] == like_.tensor("zero_points");
    return both && choose->tensor("input") == like_.tensor("input") ? choose : nullptr;
  }

  // Declared are f64 scales and i64 zero points. What torch returns of the symmetric choice has the dtype of the input,
  // f16 widened; its clamp from 1e-5 on before the division is one from 1e-5 / 127 on behind it, rounding included,
  // because division is monotonic.
  bool lift_quantize_rows() {
    const auto low = as_integer(like_.arg("quant_min")), high = as_integer(like_.arg("quant_max"));
    const Node* chosen = choice();
    if (!chosen || !low || !high || *low < -128 || *high > 127 || *low >= 0 || *high <= *low ||
        *like_.arg("dtype").get<DType>() != DType::i8)
      return false;
    const Node choose = *chosen;
    if (!input_shape().back().is_constant()) return false;
    const bool symmetric = decomposed_name(choose) == "choose_qparams_per_token";
    const DType x = graph_.value(like_.tensor("input")).dtype, wide = x == DType::f16 ? DType::f32 : x;
    const double eps = symmetric ? round_to_dtype(wide, 1e-5) / 127 : 0x1p-23;
    const OpSchema* op = Op("qcg.quantize_rows").schema();
    std::vector<Arg> args = make_args(*op, {{"x", like_.tensor("input")},
                                            {"mapping", std::string(symmetric ? "PER_TOKEN" : "PER_TOKEN_ASYMMETRIC")},
                                            {"quant_min", Dim(*low)},
                                            {"quant_max", Dim(*high)},
                                            {"eps", eps},
                                            {"scale_dtype", symmetric ? wide : DType::f64}});
    auto value = [&](ValueId like, DType dtype) {
      Value v;
      v.name = graph_.unique_name(graph_.value(like).name + ".rows");
      v.dtype = dtype;
      v.shape = graph_.value(like).shape;
      return v;
    };
    const NodeId made = graph_.add_node(op, std::move(args),
                                        {value(like_.outputs[0], DType::i8), value(choose.outputs[0], DType::f32),
                                         value(choose.outputs[1], DType::i32)});
    graph_.nodes[made].where = like_.where;
    graph_.nodes[made].source = like_.source;
    graph_.nodes[made].origins = join_origins(choose.origins, like_.origins);
    const std::vector<ValueId> outputs = graph_.nodes[made].outputs;
    readers_.replace(like_.outputs[0], outputs[0]);
    // Readers get the dtypes they were promised; dequantize_per_token finds the pair behind them.
    const ValueId scale = cast(outputs[1], graph_.value(choose.outputs[0]).dtype),
                  zero = cast(outputs[2], graph_.value(choose.outputs[1]).dtype);
    readers_.replace(choose.outputs[0], scale);
    readers_.replace(choose.outputs[1], zero);
    rows_[{scale, zero}] = {outputs[1], outputs[2]};
    return true;
  }

  Graph& graph_;
  PassReport& report_;
  Readers readers_;
  Node like_;
  std::map<std::pair<DType, uint64_t>, ValueId> constants_;  // by dtype and bits
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
  std::map<std::pair<ValueId, ValueId>, Parameters>
      rows_;  // promised scales and zero points of rows -> what was lifted
};

}  // namespace

Status lift_decomposed_quantization(Graph& graph, PassContext& context) { return Lifter(graph, context.report).run(); }

}  // namespace qcg

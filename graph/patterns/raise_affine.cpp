//   %s = clamp(div(maximum(neg(minimum(amin(%x), 0)), maximum(amax(%x), 0)), 127.5), eps)      choose_qparams_affine, or
//   %s = clamp(div(sub(maximum(amax(%x), 0), minimum(amin(%x), 0)), 255), eps)                 … ASYMMETRIC with
//   %z = to(clamp(rsub(round(div(minimum(amin(%x), 0), %s)), -128), -128, 127), i8)            its zero point
//   %q = to(clamp(add(round(mul(%x, mul(reciprocal(%s), 1))), %z), -128, 127), i8)             quantize_affine
//   %d = mul(sub(to(%q), to(%z)), %s)                                                          dequantize_affine
//   %w = reshape(mul(sub(to(@w [N, G, g]), to(@z)), @s), [N, K])                               dequantize_affine, block [1, g]
//
// Casts and reshapes of scale and zero point in between are looked through. Every step is torchao's own, in its order,
// so the ops mean the same to the bit.
#include "graph/patterns/raise_affine.h"

#include <algorithm>
#include <cmath>

#include "graph/ops/op_table.h"
#include "graph/patterns/pattern.h"
#include "graph/rewrite/parameter_views.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern unary(Op name, Pattern x) { return op({name}, {{"self", std::move(x)}}); }
Pattern maximum(Pattern a, Pattern b) {
  return op({"aten.maximum.default"}, {{"self", std::move(a)}, {"other", std::move(b)}});
}
Pattern divided(Pattern a, Pattern b) {
  return op({"aten.div.Tensor"}, {{"self", std::move(a)}, {"other", std::move(b)}});
}
Pattern clamped(Pattern x) {
  return op({"aten.clamp.default"}, {{"self", std::move(x)}, {"min", number("min")}, {"max", number("max")}});
}
Pattern lowest() {
  return op({"aten.minimum.default"},
            {{"self", op({"aten.amin.default"}, {{"self", any("x")}}, "amin")}, {"other", any("no_more")}}, "lowest");
}
Pattern highest() { return maximum(op({"aten.amax.default"}, {{"self", any("x")}}, "amax"), any("no_less")); }

Pattern symmetric_scale() {
  Pattern widest = maximum(unary("aten.neg.default", lowest()), highest());
  return op({"aten.clamp.default"}, {{"self", divided(std::move(widest), number("divisor"))}, {"min", number("eps")}});
}
Pattern asymmetric_scale() {
  return op({"aten.clamp.default"},
            {{"self", divided(sub(highest(), lowest()), number("divisor"))}, {"min", number("eps")}});
}
Pattern asymmetric_zero() {
  Pattern steps = unary("aten.round.default", divided(any("lowest"), any("scale")));
  return clamped(op({"aten.rsub.Scalar"}, {{"self", std::move(steps)}, {"other", number("from")}}));
}
Pattern quantized() {
  Pattern reciprocal = unary("aten.reciprocal.default", any("scale"));
  Pattern inverse = either(mul(reciprocal, number("one")), reciprocal);
  Pattern steps = unary("aten.round.default", mul(any("x"), std::move(inverse)));
  return op({"aten.to.dtype"}, {{"self", clamped(add(std::move(steps), any("zero")))}});
}
Pattern dequantized() { return mul(sub(cast(any("q")), cast(any("zero"))), any("scale")); }
Pattern affine_dequantized_weight() {
  return mul(sub(cast(parameter("w")), maybe_cast(parameter("zero"))), maybe_cast(parameter("scale")));
}
Pattern dequantized_symmetric_weight() { return mul(cast(parameter("w")), maybe_cast(parameter("scale"))); }

class Raiser {
 public:
  Raiser(Graph& graph, PassReport& report) : graph_(graph), report_(report), readers_(graph) {}

  Status run() {
    const NodeId count = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = 0; id < count; ++id)
      if (raise_quantize(id) || raise_weight(id)) counted();
    for (NodeId id = 0; id < count; ++id)
      if (raise_dequantize(id)) counted();
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  void counted() { ++report_.fired, ++report_.counters["quantizations raised"]; }

  std::optional<Match> match(const Pattern& pattern, NodeId id) const { return match_pattern(graph_, {}, pattern, id); }
  std::optional<Match> match_value(const Pattern& pattern, ValueId id) const {
    if (graph_.value(id).kind != ValueKind::node) return std::nullopt;
    return match(pattern, graph_.value(id).producer);
  }

  // Under reshapes, and casts that keep every number: one number per row stays that, whatever its shape.
  ValueId under(ValueId id) const {
    while (const Node* node = producer_of(graph_, id)) {
      const bool cast =
          is_op(*node, "aten.to.dtype") && widens(graph_.value(node->tensor("self")).dtype, graph_.value(id).dtype);
      if (!cast && !is_op(*node, "aten.reshape.default")) break;
      id = node->tensor("self");
    }
    return id;
  }

  // The scale in the dtype it was computed in: torchao rounds it once more, to scale_dtype.
  ValueId under_scale(ValueId id) const {
    id = under(id);
    const Node* cast = producer_if(graph_, id, "aten.to.dtype");
    return cast && is_compute_float(graph_.value(id).dtype) ? under(cast->tensor("self")) : id;
  }

  // A zero point is a code: casts to dtypes that hold low..high keep it.
  ValueId under_zero(ValueId id, double low, double high) const {
    while (const Node* node = producer_if(graph_, id = under(id), "aten.to.dtype")) {
      const DType to = graph_.value(id).dtype;
      const bool holds = is_floating(to) ? !is_float8(to)
                                         : is_byte(to) && low >= static_cast<double>(integer_range(to).low) &&
                                               high <= static_cast<double>(integer_range(to).high);
      if (!holds && !widens(DType::i16, to)) break;
      id = node->tensor("self");
    }
    return id;
  }

  bool is_zero(ValueId id) const {
    id = under_zero(id, 0, 0);  // 0 in any dtype
    const Node* expand = producer_if(graph_, id, "aten.expand.default");
    const auto value = constant_number(graph_, expand ? expand->tensor("self") : id);
    return value && *value == 0;
  }

  bool over_last_axis(ValueId reduced, ValueId x) const {
    const auto* dims = producer_of(graph_, reduced)->arg("dim").get<std::vector<Dim>>();
    const size_t rank = graph_.value(x).shape.size();
    return dims && dims->size() == 1 && as_axis(Arg((*dims)[0]), rank) == rank - 1;
  }

  struct Choice {
    std::string mapping;
    double eps;
  };

  // How %s and %z were chosen from %x for this range; nullopt when they were not.
  std::optional<Choice> find_choice(ValueId x, ValueId scale, ValueId zero, double low, double high) const {
    static const Pattern kSymmetric = symmetric_scale(), kAsymmetric = asymmetric_scale(), kZero = asymmetric_zero();
    const ValueId source = under_scale(scale);
    if (graph_.value(source).dtype != graph_.value(x).dtype) return std::nullopt;  // torchao computes in that of x
    auto m = match_value(kSymmetric, source);
    const bool symmetric = m.has_value();
    if (!m) m = match_value(kAsymmetric, source);
    if (!m || m->value("x") != x || !is_zero(m->value("no_more")) || !is_zero(m->value("no_less"))) return std::nullopt;
    if (!over_last_axis(m->value("amin"), x) || !over_last_axis(m->value("amax"), x)) return std::nullopt;
    if (!producer_of(graph_, source)->arg("max").is_none()) return std::nullopt;
    if (symmetric) {
      const bool fits = m->number("divisor") == (high - low) / 2 && low + high + 1 == 0 && is_zero(zero);
      return fits ? std::optional(Choice{"SYMMETRIC", m->number("eps")}) : std::nullopt;
    }
    auto z = match_value(kZero, under_zero(zero, low, high));
    const bool fits = z && m->number("divisor") == high - low && z->value("lowest") == m->value("lowest") &&
                      under(z->value("scale")) == source && z->number("from") == low && z->number("min") == low &&
                      z->number("max") == high;
    return fits ? std::optional(Choice{"ASYMMETRIC", m->number("eps")}) : std::nullopt;
  }

  bool raise_quantize(NodeId id) {
    static const Pattern kPattern = quantized();
    const ValueId out = graph_.nodes[id].outputs.empty() ? kNoValue : graph_.nodes[id].outputs[0];
    auto m = match(kPattern, id);
    if (!m || graph_.value(out).dtype != DType::i8 || (producer_has_number(*m) && m->number("one") != 1)) return false;
    const ValueId x = m->value("x"), scale = m->value("scale"), zero = m->value("zero");
    const double low = m->number("min"), high = m->number("max");
    if (low != std::floor(low) || high != std::floor(high)) return false;
    Shape rows = graph_.value(x).shape, block(rows.size(), Dim(1));
    if (rows.empty() || graph_.value(x).kind == ValueKind::parameter) return false;
    block.back() = rows.back();
    rows.back() = Dim(1);
    if (graph_.value(scale).shape != rows || graph_.value(zero).shape != rows ||
        graph_.value(out).shape != graph_.value(x).shape)
      return false;
    const auto choice = find_choice(x, scale, zero, low, high);
    if (!choice) return false;
    const Dim least(static_cast<int64_t>(low)), greatest(static_cast<int64_t>(high));
    const auto [new_scale, new_zero] =
        emit_choice(graph_.nodes[id], x, *choice, {scale, zero}, block, {least, greatest});
    const OpSchema* op = Op("torchao.quantize_affine.default").schema();
    become(id, op,
           make_args(*op, {{"input", x},
                           {"block_size", block},
                           {"scale", new_scale},
                           {"zero_point", new_zero},
                           {"output_dtype", DType::i8},
                           {"quant_min", least},
                           {"quant_max", greatest}}));
    return true;
  }

  // "one" is bound only where the reciprocal is multiplied by it.
  bool producer_has_number(const Match& m) const {
    return std::any_of(m.nodes().begin(), m.nodes().end(), [&](NodeId id) {
      const Node& node = graph_.nodes[id];
      return is_op(node, "aten.mul.Tensor") && as_number(node.arg("other"));
    });
  }

  void become(NodeId id, Op op, std::vector<Arg> args) {
    readers_.remove(id);
    replace_node(graph_, id, op, std::move(args));
    readers_.add(id);
  }

  struct Parameters {
    ValueId scale, zero;
  };

  // One choose_qparams_affine for all quantizations that read this scale, in the dtypes they read it in.
  Parameters emit_choice(Node like, ValueId x, const Choice& choice, Parameters old, const Shape& block,
                         std::pair<Dim, Dim> range) {
    const OpSchema* op = Op("torchao.choose_qparams_affine.default").schema();
    Value scale, zero;
    scale.name = graph_.unique_name(graph_.value(old.scale).name + ".raised");
    scale.dtype = graph_.value(old.scale).dtype;
    scale.shape = zero.shape = graph_.value(old.scale).shape;
    zero.name = graph_.unique_name(graph_.value(old.zero).name + ".raised");
    zero.dtype = is_floating(graph_.value(old.zero).dtype) ? DType::i32 : graph_.value(old.zero).dtype;
    std::vector<Arg> args = make_args(*op, {{"input", x},
                                            {"mapping_type", choice.mapping},
                                            {"block_size", block},
                                            {"target_dtype", DType::i8},
                                            {"quant_min", range.first},
                                            {"quant_max", range.second},
                                            {"eps", choice.eps},
                                            {"scale_dtype", scale.dtype},
                                            {"zero_point_dtype", zero.dtype},
                                            {"keepdim", true}});
    const NodeId id = graph_.add_node(op, std::move(args), {scale, zero});
    graph_.nodes[id].where = like.where;
    graph_.nodes[id].source = like.source;
    graph_.nodes[id].origins = like.origins;
    const Parameters made = {graph_.nodes[id].outputs[0], graph_.nodes[id].outputs[1]};
    readers_.replace(old.scale, made.scale);
    // A zero that is 0 everywhere depends on nothing, and others may read it, even to make %x.
    if (choice.mapping == "ASYMMETRIC" && zero.dtype == graph_.value(old.zero).dtype)
      readers_.replace(old.zero, made.zero);
    return made;
  }

  bool raise_dequantize(NodeId id) {
    static const Pattern kPattern = dequantized();
    auto m = match(kPattern, id);
    const Node* quantize = m ? producer_if(graph_, m->value("q"), "torchao.quantize_affine.default") : nullptr;
    if (!quantize || quantize->tensor("scale") != m->value("scale") || !is_zero_point(*quantize, m->value("zero")) ||
        !broadcasts_over_blocks(*quantize, m->value("scale")) || !broadcasts_over_blocks(*quantize, m->value("zero")))
      return false;
    const Node q = *quantize;
    const ValueId out = graph_.nodes[id].outputs[0];
    if (graph_.value(out).shape != graph_.value(m->value("q")).shape || !is_floating(graph_.value(out).dtype))
      return false;
    dequantize(id, m->value("q"), q.arg("block_size"), m->value("scale"), q.tensor("zero_point"), q.arg("quant_min"),
               q.arg("quant_max"));
    return true;
  }

  // Arithmetic gives each block its own number: [M, 1] beside blocks [1, K] of [M, K]; [M] would be one per column.
  bool broadcasts_over_blocks(const Node& quantize, ValueId numbers) const {
    const Shape &shape = graph_.value(quantize.tensor("input")).shape, &have = graph_.value(numbers).shape;
    if (product(have).is_constant(1)) return true;
    const auto& block = *quantize.arg("block_size").get<std::vector<Dim>>();
    Shape want;
    for (size_t i = 0; i < shape.size(); ++i) want.push_back(block[i] == shape[i] ? Dim(1) : shape[i]);
    return have == want;
  }

  // The quantization's own, or the 0 in whose place a symmetric one was given the zero point that it chose.
  bool is_zero_point(const Node& quantize, ValueId zero) const {
    const ValueId own = quantize.tensor("zero_point");
    if (own == zero) return true;
    const Node* choice = producer_if(graph_, own, "torchao.choose_qparams_affine.default");
    const auto low = as_integer(quantize.arg("quant_min")), high = as_integer(quantize.arg("quant_max"));
    return choice && *choice->arg("mapping_type").get<std::string>() == "SYMMETRIC" && low && high &&
           *low + *high + 1 == 0 && is_zero(zero);
  }

  void dequantize(NodeId id, ValueId input, Arg block, ValueId scale, ValueId zero, Arg low, Arg high) {
    const OpSchema* op = Op("torchao.dequantize_affine.default").schema();
    const DType out = graph_.value(graph_.nodes[id].outputs[0]).dtype;
    become(id, op,
           make_args(*op, {{"input", input},
                           {"block_size", std::move(block)},
                           {"scale", scale},
                           {"zero_point", zero},
                           {"input_dtype", graph_.value(input).dtype},
                           {"quant_min", std::move(low)},
                           {"quant_max", std::move(high)},
                           {"output_dtype", out}}));
  }

  // ---- weights ----

  // The parameter seen under another shape; kNoValue if that takes a copy.
  ValueId viewed(ValueId id, std::vector<int64_t> shape) {
    auto view = view_as_shape(graph_.value(id).data, shape);
    return view ? add_parameter_view(graph_, id, std::move(*view)) : kNoValue;
  }

  bool raise_weight(NodeId id) {
    static const Pattern kPattern = affine_dequantized_weight(), kSymmetric = dequantized_symmetric_weight();
    if (!is_op(graph_.nodes[id], "aten.reshape.default")) return false;
    const ValueId inner = graph_.nodes[id].tensor("self");
    auto m = match_value(kPattern, inner);
    const bool has_zero = m.has_value();
    if (!m) m = match_value(kSymmetric, inner);
    if (!m) return false;
    const ValueId w = m->value("w"), scale = m->value("scale"), zero = has_zero ? m->value("zero") : kNoValue;
    const Tensor& data = graph_.value(w).data;
    const Shape shape = graph_.value(graph_.nodes[id].outputs[0]).shape;
    if ((data.dtype != DType::i8 && data.dtype != DType::u8) || data.shape.size() != 3) return false;
    const std::vector<int64_t> matrix = {data.shape[0], data.shape[1] * data.shape[2]},
                               groups = {data.shape[0], data.shape[1]};
    const std::vector<int64_t> per_group = {data.shape[0], data.shape[1], 1};
    if (constant_shape(shape) != matrix || graph_.value(scale).data.shape != per_group) return false;
    if (has_zero && graph_.value(zero).data.shape != per_group) return false;
    const int64_t group = data.shape[2];
    const ValueId flat = viewed(w, matrix), flat_scale = viewed(scale, groups),
                  flat_zero = has_zero ? viewed(zero, groups) : kNoValue;
    if (flat == kNoValue || flat_scale == kNoValue || (has_zero && flat_zero == kNoValue)) return false;
    dequantize(id, flat, Shape{Dim(1), Dim(group)}, flat_scale, flat_zero, Arg(),
               Arg());  // what range, the codes will say
    return true;
  }

  Graph& graph_;
  PassReport& report_;
  Readers readers_;
};

}  // namespace

Status raise_affine(Graph& graph, PassContext& context) { return Raiser(graph, context.report).run(); }

}  // namespace qcg

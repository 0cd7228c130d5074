#include "graph/passes/pointwise.h"

#include <algorithm>
#include <array>
#include <limits>

#include "graph/ops/activations.h"
#include "graph/ops/infer.h"
#include "graph/rewrite/rewrite.h"
#include "graph/ops/steps.h"

namespace qcg {

namespace {

struct Row {
  std::string_view op;
  std::string_view function;
};

// Ops of one or two tensors that are one function.
constexpr Row kFunctions[] = {
    {"aten.mul.Tensor", "mul"},          {"aten.mul.Scalar", "mul"},      {"aten.div.Tensor", "div"},
    {"aten.div.Scalar", "div"},          {"aten.maximum.default", "max"}, {"aten.minimum.default", "min"},
    {"aten.neg.default", "neg"},         {"aten.abs.default", "abs"},     {"aten.reciprocal.default", "reciprocal"},
    {"aten.relu.default", "relu"},       {"aten.silu.default", "silu"},   {"aten.tanh.default", "tanh"},
    {"aten.sigmoid.default", "sigmoid"}, {"aten.exp.default", "exp"},     {"aten.log.default", "log"},
    {"aten.sqrt.default", "sqrt"},       {"aten.rsqrt.default", "rsqrt"}, {"aten.round.default", "round_even"},
    {"aten.floor.default", "floor"},     {"aten.sin.default", "sin"},     {"aten.cos.default", "cos"},
    {"aten.erf.default", "erf"},         {"aten.log1p.default", "log1p"}, {"aten.expm1.default", "expm1"},
};

// Truth values are 1 and 0. Of NaN only `unequal` holds.
Expr greater(const Expr& a, const Expr& b) { return Expr::call("gt", {a, b}); }
Expr at_least(const Expr& a, const Expr& b) { return Expr::call("ge", {a, b}); }
Expr less(const Expr& a, const Expr& b) { return greater(b, a); }
Expr at_most(const Expr& a, const Expr& b) { return at_least(b, a); }
Expr both(const Expr& a, const Expr& b) { return Expr::call("mul", {a, b}); }
Expr either(const Expr& a, const Expr& b) { return Expr::call("max", {a, b}); }
Expr negation(Expr truth) { return Expr::call("sub", {Expr::number(1), std::move(truth)}); }
Expr equal(const Expr& a, const Expr& b) { return both(at_least(a, b), at_most(a, b)); }
Expr unequal(const Expr& a, const Expr& b) { return negation(equal(a, b)); }

struct Relation {
  std::string_view op;  // without its overload
  Expr (*of)(const Expr& a, const Expr& b);
};
constexpr Relation kComparisons[] = {
    {"aten.gt.", greater}, {"aten.ge.", at_least}, {"aten.lt.", less},
    {"aten.le.", at_most}, {"aten.eq.", equal},    {"aten.ne.", unequal},
};
constexpr Relation kConnectives[] = {
    {"aten.logical_and.", both},    {"aten.bitwise_and.", both},    {"aten.__and__.", both},
    {"aten.logical_or.", either},   {"aten.bitwise_or.", either},   {"aten.__or__.", either},
    {"aten.logical_xor.", unequal}, {"aten.bitwise_xor.", unequal}, {"aten.__xor__.", unequal},
};

// Of f32, and of what is computed in it.
constexpr double kLargest = std::numeric_limits<float>::max();
double largest_finite(DType dtype) {
  return dtype == DType::f16 ? 65504 : dtype == DType::bf16 ? 0x1.fep127 : kLargest;
}

class Builder {
 public:
  Builder(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  std::optional<Pointwise> build() {
    auto expr = expression();
    if (expr && peeled_ && !operands_span_output()) {  // the number alone knew how large the result is
      operands_.clear();
      keep_expanded_ = true;
      expr = expression();
    }
    if (!expr || failed_) return std::nullopt;
    return Pointwise{std::move(*expr), std::move(operands_)};
  }

 private:
  bool is(std::string_view op) const { return is_op(node_, op); }

  std::optional<Expr> expression() {
    for (const Row& row : kFunctions)
      if (is(row.op)) return function(row.function);
    for (const Relation& row : kComparisons)
      if (node_.op->name.starts_with(row.op)) return comparison(row);
    for (const Relation& row : kConnectives)
      if (node_.op->name.starts_with(row.op)) return connective(row);
    if (is("aten.logical_not.default") || is("aten.bitwise_not.default")) return negation(truth("self"));
    if (const auto activation = activation_of(node_))
      return substitute_inputs(*activation, std::array{operand("self")});
    if (is("aten.to.dtype")) return Expr::cast(graph_.value(node_.outputs[0]).dtype, operand("self"));
    if (is("aten.add.Tensor") || is("aten.add.Scalar")) return sum("add", "self", "other");
    if (is("aten.sub.Tensor") || is("aten.sub.Scalar")) return sum("sub", "self", "other");
    if (is("aten.rsub.Tensor") || is("aten.rsub.Scalar")) return sum("sub", "other", "self");
    if (is("aten.pow.Tensor_Scalar")) return power();
    if (is("aten.pow.Scalar")) return Expr::call("pow", {operand("self"), operand("exponent")});
    if (is("aten.exp2.default")) return Expr::call("pow", {Expr::number(2), operand("self")});
    if (is("aten.isnan.default")) return unequal(operand("self"), operand("self"));
    if (is("aten.isinf.default")) return greater(Expr::call("abs", {operand("self")}), Expr::number(kLargest));
    if (is("aten.nan_to_num.default")) return finite();
    if (is("aten.gelu.default")) {
      const auto* how = node_.arg("approximate").get<std::string>();
      if (!how || (*how != "none" && *how != "tanh")) return std::nullopt;
      return Expr::call(*how == "tanh" ? "gelu_tanh" : "gelu", {operand("self")});
    }
    if (is("aten.relu6.default")) return Expr::call("clamp", {operand("self"), Expr::number(0), Expr::number(6)});
    if (is("aten.hardtanh.default")) return clamp("min_val", "max_val");
    if (is("aten.clamp.default") || is("aten.clamp.Tensor")) return clamp("min", "max");
    if (is("aten.addcmul.default")) return sum_of_product();
    if (is("aten.clamp_min.default")) return Expr::call("max", {operand("self"), operand("min")});
    if (is("aten.clamp_max.default")) return Expr::call("min", {operand("self"), operand("max")});
    if (node_.op->name.starts_with("aten.where."))
      return Expr::call("where", {operand("condition"), operand("self"), operand("other")});
    if (is("aten.masked_fill.Scalar") || is("aten.masked_fill.Tensor"))
      return Expr::call("where", {operand("mask"), operand("value"), operand("self")});
    if (is("quantized_decomposed.quantize_per_tensor.default")) return quantize();
    if (is("torchao.dequantize_affine.default")) return dequantize();
    return std::nullopt;
  }

  Expr operand(std::string_view name) {
    const Arg& arg = node_.arg(name);
    if (const ValueId* id = arg.get<ValueId>(); id && *id != kNoValue) {
      const Node* expand = keep_expanded_ ? nullptr : producer_if(graph_, *id, "aten.expand.default");
      if (const auto same = expand ? constant_number(graph_, expand->tensor("self")) : std::nullopt) {
        peeled_ = true;
        return Expr::number(*same);
      }
      auto it = std::find(operands_.begin(), operands_.end(), *id);
      const int index = static_cast<int>(it - operands_.begin());
      if (it == operands_.end()) operands_.push_back(*id);
      return Expr::in(index);
    }
    auto number = as_number(arg);
    if (!number) failed_ = true;
    return Expr::number(number.value_or(0));
  }

  // Both sides in their common dtype, as torch compares them: 0.1 of bf16 equals 0.1.
  Expr comparison(const Relation& relation) {
    Promotion promotion;
    for (std::string_view name : {"self", "other"}) {
      if (const ValueId* id = node_.arg(name).get<ValueId>()) promotion.add(graph_.value(*id));
      else promotion.add(node_.arg(name));
    }
    const DType common = promotion.result();
    auto side = [&](std::string_view name) {
      Expr e = operand(name);
      if (!is_floating(common)) return e;
      if (e.kind == ExprKind::number) return Expr::number(round_to_dtype(common, e.value));
      const ValueId* id = node_.arg(name).get<ValueId>();
      return id && graph_.value(*id).dtype == common ? e : Expr::cast(common, std::move(e));
    };
    const Expr left = side("self");
    return relation.of(left, side("other"));
  }

  Expr connective(const Relation& relation) {
    const Expr left = truth("self");
    return relation.of(left, truth("other"));
  }

  Expr truth(std::string_view name) {
    const Expr x = operand(name);
    return graph_.value(node_.tensor(name)).dtype == DType::boolean ? x : unequal(x, Expr::number(0));
  }

  bool operands_span_output() const {
    Shape shape;
    for (ValueId id : operands_) shape = broadcast_shapes(shape, graph_.value(id).shape).value_or(Shape{});
    return shape == graph_.value(node_.outputs[0]).shape;
  }

  Expr function(std::string_view name) {
    std::vector<Expr> args = {operand("self")};
    if (node_.op->arg_index("other") >= 0) args.push_back(operand("other"));
    return Expr::call(name, std::move(args));
  }

  // add, sub, rsub: alpha scales aten's second operand (rsub: its first by our order, its "self").
  Expr sum(std::string_view name, std::string_view left, std::string_view right) {
    Expr a = operand(left), b = operand(right);
    const auto alpha = as_number(node_.arg("alpha"));
    if (!alpha) failed_ = true;
    if (alpha && *alpha != 1) b = Expr::call("mul", {Expr::number(*alpha), std::move(b)});
    return Expr::call(name, {std::move(a), std::move(b)});
  }

  Expr sum_of_product() {
    Expr self = operand("self"), product = operand("tensor1");
    const auto factor = as_number(node_.arg("value"));
    if (!factor) failed_ = true;
    if (factor && *factor != 1) product = Expr::call("mul", {Expr::number(*factor), std::move(product)});
    return Expr::call("add", {std::move(self), Expr::call("mul", {std::move(product), operand("tensor2")})});
  }

  Expr power() {
    Expr x = operand("self"), exponent = operand("exponent");
    if (exponent.kind == ExprKind::number && exponent.value == 2) return Expr::call("mul", {x, x});
    const double times =
        exponent.kind == ExprKind::number && !is_floating(graph_.value(node_.outputs[0]).dtype) ? exponent.value : 0;
    if (times == 3 || times == 4) {  // exact, as integers are to be
      Expr power = Expr::call("mul", {x, x});
      return Expr::call("mul", {power, times == 3 ? x : power});
    }
    return Expr::call("pow", {std::move(x), std::move(exponent)});
  }

  // Numbers in the place of NaN and infinities: 0 and the largest of the dtype unless given.
  Expr finite() {
    const DType dtype = graph_.value(node_.outputs[0]).dtype;
    const double largest = largest_finite(dtype);
    const auto given = [&](std::string_view name, double otherwise) {
      return Expr::number(round_to_dtype(dtype, as_number(node_.arg(name)).value_or(otherwise)));
    };
    const auto where = [](Expr condition, Expr yes, Expr no) {
      return Expr::call("where", {std::move(condition), std::move(yes), std::move(no)});
    };
    const Expr x = operand("self");
    const Expr number = where(equal(x, x), x, given("nan", 0));
    return where(greater(x, Expr::number(kLargest)), given("posinf", largest),
                 where(greater(Expr::number(-kLargest), x), given("neginf", -largest), number));
  }

  Expr clamp(std::string_view low, std::string_view high) {
    const auto given = [&](std::string_view name) {
      const ValueId* id = node_.arg(name).get<ValueId>();
      return id ? *id != kNoValue : !node_.arg(name).is_none();
    };
    const bool has_low = given(low), has_high = given(high);
    Expr x = operand("self");
    if (has_low && has_high) return Expr::call("clamp", {std::move(x), operand(low), operand(high)});
    if (has_low) return Expr::call("max", {std::move(x), operand(low)});
    if (has_high) return Expr::call("min", {std::move(x), operand(high)});
    return x;
  }

  Expr quantize() {
    const double inverse = static_cast<float>(1 / *as_number(node_.arg("scale")));
    Expr q = Expr::call("round_even", {Expr::call("mul", {operand("input"), Expr::number(inverse)})});
    q = shifted("add", std::move(q), *as_number(node_.arg("zero_point")));
    q = Expr::call("clamp", {std::move(q), operand("quant_min"), operand("quant_max")});
    return Expr::cast(graph_.value(node_.outputs[0]).dtype, std::move(q));
  }

  // Of one constant scale for the whole tensor; others need their shape looked at (decompose).
  std::optional<Expr> dequantize() {
    const auto* block = node_.arg("block_size").get<std::vector<Dim>>();
    const ValueId zero = node_.tensor("zero_point");
    const auto scale = constant_number(graph_, node_.tensor("scale"));
    const auto shift = zero == kNoValue ? std::optional(0.0) : constant_number(graph_, zero);
    if (!block || *block != graph_.value(node_.tensor("input")).shape || !scale || !shift) return std::nullopt;
    return Expr::call("mul", {shifted("sub", operand("input"), *shift), Expr::number(*scale)});
  }

  static Expr shifted(std::string_view function, Expr x, double zero) {
    return zero == 0 ? x : Expr::call(function, {std::move(x), Expr::number(zero)});
  }

  const Graph& graph_;
  const Node& node_;
  std::vector<ValueId> operands_;
  bool failed_ = false;
  bool peeled_ = false, keep_expanded_ = false;  // one number everywhere: written as that number
};

}  // namespace

bool is_call(const Expr& expr, std::string_view function) {
  return expr.kind == ExprKind::call && expr.function == function;
}

std::optional<Pointwise> as_pointwise(const Graph& graph, const Node& node) {
  if (node.outputs.size() != 1) return std::nullopt;
  return Builder(graph, node).build();
}

Expr substitute_inputs(const Expr& expr, std::span<const Expr> with) {
  return expr.map_leaves(
      [&](const Expr& leaf) { return leaf.kind == ExprKind::in ? with[static_cast<size_t>(leaf.index)] : leaf; });
}

Expr renumber(const Expr& expr, std::span<const int> acc_map, std::span<const int> in_map) {
  return expr.map_leaves([&](Expr leaf) {
    const auto& map = leaf.kind == ExprKind::acc ? acc_map : in_map;
    leaf.index = map[static_cast<size_t>(leaf.index)];
    return leaf;
  });
}

Expr simplify(Expr out, DType result, bool keep_casts) {
  const bool step = is_step(out);
  for (Expr& arg : out.args) arg = simplify(std::move(arg), result, keep_casts || step);
  if (out.kind == ExprKind::cast) {
    Expr& inner = out.args[0];
    if (inner.kind == ExprKind::cast && inner.dtype == out.dtype) return Expr(std::move(inner));
    const bool shows = is_floating(result) && dtype_bytes(out.dtype) < dtype_bytes(result);
    if (!keep_casts && !shows && is_floating(out.dtype) && !is_float8(out.dtype)) return Expr(std::move(inner));
  }
  if (is_call(out, "mul")) {
    const Expr &a = out.args[0], &b = out.args[1];
    if (is_call(b, "sigmoid") && b.args[0] == a) return Expr::call("silu", {a});
    if (is_call(a, "sigmoid") && a.args[0] == b) return Expr::call("silu", {b});
  }
  return out;
}

}  // namespace qcg

// weight_only_arithmetic: a weight dequantized by hand, as torchao's tinygemm functions and many checkpoints' loaders do.
//
//   %c = aten.sub(aten.reshape(@w, [N, G, g]), 8)             (codes - zero)
//   %s = aten.mul(aten.to(%c, bf16), @scale)                  * scale       [N, G, 1]
//   %o = aten.add(%s, @offset)                                + offset      [N, G, 1]
//   %y = aten.linear(%x, aten.reshape(%o, [N, K]))
//
// Zero and offset may be absent, be numbers, come as add or sub; without the reshapes it is one scale per channel, [N, 1].
// Integer codes of any width whose values fit a byte will do; that they are in [-8, 7] or [0, 15] makes them int4.
#include <algorithm>

#include "graph/elements.h"
#include "graph/passes/parameter_views.h"
#include "graph/passes/rewrite.h"
#include "graph/patterns/dequantized_weight.h"

namespace qcg {

namespace {

Pattern arithmetic_pattern() { return gemm(any("x"), any("w")); }

// A constant operand and what stands before it.
struct Term {
  Arg value;
  double sign = 1;
};

struct Arithmetic {
  ValueId codes = kNoValue;
  Shape shape;                            // of the codes: [N, K] or [N, G, g]
  std::optional<Term> zero, scale, offset;
};

bool is_wide(DType dtype) { return is_floating(dtype) || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64; }

class ArithmeticReader {
 public:
  explicit ArithmeticReader(const Graph& graph) : graph_(graph) {}

  // From the product inwards: what adds outside of the scale is the offset, inside it is the zero point.
  std::optional<Arithmetic> read(ValueId id) {
    Arithmetic out;
    while (!is_parameter(graph_, id)) {
      const Node* node = producer_of(graph_, id);
      if (!node) return std::nullopt;
      if (is_op(*node, "aten.to.dtype") && keeps_numbers(*node)) id = node->tensor("self");
      else if (is_op(*node, "aten.reshape.default") && joins_groups(*node)) id = node->tensor("self");
      else if (!take_operation(*node, out, id)) return std::nullopt;
    }
    out.codes = id;
    out.shape = graph_.value(id).shape;
    return out.scale && !is_floating(graph_.value(id).dtype) ? std::optional(std::move(out)) : std::nullopt;
  }

 private:
  // Rounding to a float is an intermediate like any other; to an integer it is not.
  bool keeps_numbers(const Node& cast) const {
    const DType from = graph_.value(cast.tensor("self")).dtype, to = graph_.value(cast.outputs[0]).dtype;
    return is_float_activation(to) || to == DType::f64 || (!is_floating(from) && dtype_bytes(to) > dtype_bytes(from) && is_wide(to));
  }

  bool joins_groups(const Node& node) const {
    const Shape &from = graph_.value(node.tensor("self")).shape, &to = graph_.value(node.outputs[0]).shape;
    return from.size() == 3 && to.size() == 2 && from[0] == to[0];
  }

  bool is_constant(const Arg& arg) const {
    const ValueId* id = arg.get<ValueId>();
    if (!id) return as_number(arg).has_value();
    const Node* cast = producer_if(graph_, *id, "aten.to.dtype");
    return is_parameter(graph_, cast ? cast->tensor("self") : *id) && is_floating(graph_.value(*id).dtype);
  }

  // The weight has more numbers than what it is scaled and shifted by.
  int64_t elements(const Arg& arg) const {
    const ValueId* id = arg.get<ValueId>();
    if (!id) return 1;
    const Dim count = product(graph_.value(*id).shape);
    return count.valid() && count.is_constant() ? count.constant() : INT64_MAX;
  }

  bool take_operation(const Node& node, Arithmetic& out, ValueId& next) const {
    const bool product = is_op(node, "aten.mul.Tensor"), sum = is_op(node, "aten.add.Tensor"), difference = is_op(node, "aten.sub.Tensor");
    if (!product && !sum && !difference) return false;
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    if (product ? !is_floating(dtype) : as_number(node.arg("alpha")) != 1.0 || !is_wide(dtype)) return false;  // bytes would wrap
    Arg inner = node.arg("self"), outer = node.arg("other");
    if (!difference && !(is_constant(outer) && elements(outer) <= elements(inner))) std::swap(inner, outer);
    // An integer zero point is a constant too, below the cast.
    const ValueId* other = outer.get<ValueId>();
    const bool integer_zero = difference && other && is_parameter(graph_, *other);
    if (!inner.get<ValueId>() || !(is_constant(outer) || integer_zero)) return false;
    std::optional<Term>& slot = product ? out.scale : out.scale ? out.zero : out.offset;
    if (slot || (product && out.zero)) return false;
    const double sign = product || &slot == &out.offset ? (difference ? -1 : 1) : (difference ? 1 : -1);
    slot = Term{outer, sign};
    next = *inner.get<ValueId>();
    return true;
  }

  const Graph& graph_;
};

// A term as one number per row and group: its last axis is 1, or it is one number for all. kNoValue if it is neither.
ValueId constant_of_term(Graph& graph, const Term& term, ValueId codes, const Blocks& b) {
  const std::vector<int64_t> shape = {b.n, b.groups()};
  Elements<float> values;
  const ValueId* id = term.value.get<ValueId>();
  ValueId constant = kNoValue;
  bool single = !id;
  if (id) {
    const Node* cast = producer_if(graph, *id, "aten.to.dtype");  // integers that were cast are still integers
    const bool integers = cast && is_parameter(graph, cast->tensor("self")) && !is_floating(graph.value(cast->tensor("self")).dtype);
    constant = integers ? cast->tensor("self") : constant_of(graph, *id);
    if (constant == kNoValue) return kNoValue;
    const Tensor& data = graph.value(constant).data;
    single = data.numel() == 1;
    if (!single && (data.shape.empty() || data.shape.back() != 1)) return kNoValue;
    if (!single) constant = constant_as_shape(graph, constant, shape);
    if (constant == kNoValue) return kNoValue;
    if (!single && term.sign == 1) return constant;
    values = read_elements<float>(graph.value(constant).data);
    if (!values) return kNoValue;
  } else {
    values.emplace(1, static_cast<float>(*as_number(term.value)));
  }
  if (single) values->resize(static_cast<size_t>(b.n * b.groups()), values->front());
  for (float& v : *values) v *= static_cast<float>(term.sign);
  return add_constant(graph, codes, make_tensor(DType::f32, shape, values));
}

std::optional<CodeForm> form_of(const Tensor& codes) {
  if (!codes.bound() || codes.numel() == 0) return codes.dtype == DType::i8 ? std::optional(CodeForm{false, 0}) : std::nullopt;
  const Tensor dense = codes.contiguous();
  const auto bytes = dense.bytes();
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (size_t at = 0; at < bytes.size(); at += dtype_bytes(codes.dtype)) {
    const int64_t code = element_to_int(codes.dtype, bytes.data() + at);
    low = std::min(low, code), high = std::max(high, code);
  }
  return form_of_range(static_cast<double>(low), static_cast<double>(high));
}

Outcome build_arithmetic(Graph& graph, const Match& m) {
  const Gemm gemm = *as_gemm(graph, graph.nodes[m.gemm_node()]);
  if (gemm.weight_kn || !is_float_activation(graph.value(gemm.x).dtype) || graph.value(gemm.w).shape.size() != 2) return Outcome::miss("");
  const auto read = ArithmeticReader(graph).read(gemm.w);
  if (!read) return Outcome::miss("");
  const auto size = constant_shape(graph.value(gemm.w).shape), stored = constant_shape(read->shape);
  if (!size || !stored) return Outcome::miss("");
  const Blocks b = {(*size)[0], (*size)[1], 1, stored->back()};
  const bool fits = (stored->size() == 2 && *stored == *size) || (stored->size() == 3 && (*stored)[0] == b.n && (*stored)[1] * b.group == b.k);
  if (!fits || b.group < 1) return Outcome::miss("the codes have another shape than the weight");
  const auto matrix = view_as_shape(graph.value(read->codes).data, *size);
  const auto form = form_of(graph.value(read->codes).data);
  if (!matrix || !form) return Outcome::miss("the codes of the weight do not fit a byte");
  auto constant = [&](const std::optional<Term>& term) { return term ? constant_of_term(graph, *term, read->codes, b) : kNoValue; };
  const ValueId scale = constant(read->scale), zero = constant(read->zero), offset = constant(read->offset);
  if (scale == kNoValue || (read->zero && zero == kNoValue) || (read->offset && offset == kNoValue))
    return Outcome::miss("scale, zero point or offset of the weight is not one number per row and group");
  LinearSpec spec{.x = gemm.x};
  if (auto missing = take_affine_weight(graph, add_parameter_view(graph, read->codes, *matrix), *form, b, scale, zero, spec))
    return Outcome::miss(*missing);
  if (offset != kNoValue) {
    if (spec.scheme != Scheme::w4 || spec.offset != kNoValue) return Outcome::miss("the weight has a real offset and is not int4");
    spec.offset = offset;
  }
  if (auto missing = add_gemm_bias(graph, gemm, spec)) return Outcome::miss(*missing);
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kWeightOnlyArithmetic = {"weight dequantized by hand", arithmetic_pattern, build_arithmetic};

}  // namespace qcg

// weight_only_arithmetic: a weight dequantized by hand, as torchao's tinygemm functions and many checkpoints' loaders do.
//
//   %c = aten.sub(aten.reshape(@w, [N, G, g]), 8)             (codes - zero)
//   %s = aten.mul(aten.to(%c, bf16), @scale)                  * scale       [N, G, 1]
//   %o = aten.add(%s, @offset)                                + offset      [N, G, 1]
//   %y = aten.linear(%x, aten.reshape(%o, [N, K]))
//
// Zero and offset may be absent, be numbers, come as add or sub; without the reshapes it is one scale per channel, [N, 1],
// or groups whose scale was repeated: reshape(expand(@scale [N, G, 1], [N, G, g]), [N, K]), also known as repeat_interleave.
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

// The parameter under casts and the reshape that joins groups.
struct Constant {
  ValueId parameter = kNoValue;
  std::optional<DType> cast;  // the last one
  int64_t repeats = 0;        // of each number along K; 0: it is there once
};

bool joins_groups(const Graph& graph, const Node& node) {
  const Shape &from = graph.value(node.tensor("self")).shape, &to = graph.value(node.outputs[0]).shape;
  return from.size() == 3 && to.size() == 2 && from[0] == to[0];
}

std::optional<Constant> find_constant(const Graph& graph, ValueId id) {
  Constant out;
  while (!is_parameter(graph, id)) {
    const Node* node = producer_of(graph, id);
    if (!node) return std::nullopt;
    if (is_op(*node, "aten.reshape.default") && joins_groups(graph, *node)) {
      out.repeats = graph.value(node->tensor("self")).shape[2].is_constant()
                        ? graph.value(node->tensor("self")).shape[2].constant()
                        : 0;
      if (out.repeats == 0) return std::nullopt;
    } else if (is_op(*node, "aten.to.dtype")) {
      if (!out.cast) out.cast = graph.value(id).dtype;
    } else {
      return std::nullopt;
    }
    id = node->tensor("self");
  }
  out.parameter = id;
  const Tensor& data = graph.value(id).data;
  const size_t rank = data.shape.size();
  const bool repeated = rank > 0 && data.strides[rank - 1] == 0 && data.shape[rank - 1] > 1;
  if (out.repeats > 0 && (rank != 3 || !repeated)) return std::nullopt;
  if (rank == 2 && repeated) out.repeats = data.shape[1];  // a whole row is one group
  return out;
}

bool is_wide(DType dtype) {
  return is_floating(dtype) || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
}

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
      else if (is_op(*node, "aten.reshape.default") && joins_groups(graph_, *node)) id = node->tensor("self");
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
    return is_float_activation(to) || to == DType::f64 ||
           (!is_floating(from) && dtype_bytes(to) > dtype_bytes(from) && is_wide(to));
  }

  // An integer is a number too, as long as it is not the codes.
  bool is_constant(const Arg& arg) const {
    const ValueId* id = arg.get<ValueId>();
    return id ? find_constant(graph_, *id).has_value() : as_number(arg).has_value();
  }

  // The weight has more numbers than what it is scaled and shifted by; repeated ones count once.
  int64_t elements(const Arg& arg) const {
    const ValueId* id = arg.get<ValueId>();
    if (!id) return 1;
    const auto constant = find_constant(graph_, *id);
    const Dim count = product(graph_.value(*id).shape);
    if (!count.valid() || !count.is_constant()) return INT64_MAX;
    return constant && constant->repeats > 0 ? count.constant() / constant->repeats : count.constant();
  }

  bool take_operation(const Node& node, Arithmetic& out, ValueId& next) const {
    const bool product = is_op(node, "aten.mul.Tensor"), sum = is_op(node, "aten.add.Tensor"),
               difference = is_op(node, "aten.sub.Tensor");
    if (!product && !sum && !difference) return false;
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    if (product ? !is_floating(dtype) : as_number(node.arg("alpha")) != 1.0 || !is_wide(dtype))
      return false;  // bytes would wrap
    Arg inner = node.arg("self"), outer = node.arg("other");
    if (!difference && !(is_constant(outer) && elements(outer) <= elements(inner))) std::swap(inner, outer);
    if (!inner.get<ValueId>() || !is_constant(outer)) return false;
    std::optional<Term>& slot = product ? out.scale : out.scale ? out.zero : out.offset;
    if (slot || (product && out.zero)) return false;
    const double sign = product || &slot == &out.offset ? (difference ? -1 : 1) : (difference ? 1 : -1);
    slot = Term{outer, sign};
    next = *inner.get<ValueId>();
    return true;
  }

  const Graph& graph_;
};

// What a term has in common with the others: every number is there once per row and group.
std::optional<Tensor> per_group(const Constant& constant, const Tensor& data, const Blocks& b) {
  if (constant.repeats == 0) return !data.shape.empty() && data.shape.back() == 1 ? std::optional(data) : std::nullopt;
  return constant.repeats == b.group ? std::optional(data.slice(data.shape.size() - 1, 0, 1)) : std::nullopt;
}

// A term as one number per row and group, or one for all repeated. kNoValue if it is neither.
ValueId constant_of_term(Graph& graph, const Term& term, ValueId codes, const Blocks& b) {
  const std::vector<int64_t> shape = {b.n, b.groups()};
  Elements<float> values;
  bool single = true;
  if (const ValueId* id = term.value.get<ValueId>()) {
    const Constant found = *find_constant(graph, *id);
    ValueId constant = found.parameter;
    // Integers that were cast are still integers.
    if (found.cast && is_floating(graph.value(constant).dtype)) constant = cast_parameter(graph, constant, *found.cast);
    single = graph.value(constant).data.numel() == 1;
    if (!single) {
      const auto once = per_group(found, graph.value(constant).data, b);
      constant = once ? constant_as_shape(graph, add_parameter_view(graph, constant, *once), shape) : kNoValue;
    }
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

// How many of the codes share a scale: those of a group in the codes' own shape, or what a term was repeated by.
int64_t group_size(const Graph& graph, const Arithmetic& weight, int64_t inner) {
  for (const auto& term : {weight.scale, weight.zero, weight.offset})
    if (const ValueId* id = term ? term->value.get<ValueId>() : nullptr)
      if (const int64_t repeats = find_constant(graph, *id)->repeats) return repeats;
  return inner;
}

}  // namespace

std::optional<std::string> take_arithmetic_weight(Graph& graph, ValueId w, LinearSpec& spec) {
  const auto size = constant_shape(graph.value(w).shape);
  const auto read = size && size->size() == 2 ? ArithmeticReader(graph).read(w) : std::nullopt;
  const auto stored = read ? constant_shape(read->shape) : std::nullopt;
  if (!stored || stored->empty()) return "";
  const Blocks b = {(*size)[0], (*size)[1], 1, group_size(graph, *read, stored->back())};
  const bool fits = *stored == *size || (stored->size() == 3 && (*stored)[0] == b.n && (*stored)[2] == b.group);
  if (!fits || b.group < 1 || b.k % b.group != 0) return "the codes have another shape than the weight";
  const auto matrix = view_as_shape(graph.value(read->codes).data, *size);
  const auto form = scan_codes(graph.value(read->codes).data);
  if (!matrix || !form) return "the codes of the weight do not fit a byte";
  auto constant = [&](const std::optional<Term>& term) {
    return term ? constant_of_term(graph, *term, read->codes, b) : kNoValue;
  };
  const ValueId scale = constant(read->scale), zero = constant(read->zero), offset = constant(read->offset);
  if (scale == kNoValue || (read->zero && zero == kNoValue) || (read->offset && offset == kNoValue))
    return "scale, zero point or offset of the weight is not one number per row and group";
  if (form->scheme == Scheme::w4) spec.note = kScannedNote;
  if (auto missing =
          take_affine_weight(graph, add_parameter_view(graph, read->codes, *matrix), *form, b, scale, zero, spec))
    return missing;
  if (offset == kNoValue) return std::nullopt;
  if (!may_have_offsets(scheme_info(spec.scheme)) || spec.offset != kNoValue)
    return "the weight has a real offset and is not int4";
  spec.offset = offset;
  return std::nullopt;
}

namespace {

Outcome build_arithmetic(Graph& graph, const Match& m) {
  const Gemm gemm = *as_gemm(graph, graph.nodes[m.gemm_node()]);
  if (gemm.weight_kn || !is_float_activation(graph.value(gemm.x).dtype)) return Outcome::miss("");
  LinearSpec spec{.x = gemm.x};
  if (auto missing = take_arithmetic_weight(graph, gemm.w, spec)) return Outcome::miss(*missing);
  if (auto missing = add_gemm_bias(graph, gemm, spec)) return Outcome::miss(*missing);
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kWeightOnlyArithmetic = {"weight dequantized by hand", arithmetic_pattern, build_arithmetic};

}  // namespace qcg

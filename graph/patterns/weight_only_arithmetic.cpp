// weight_only_arithmetic: a weight dequantized by hand, as torchao's tinygemm functions and many checkpoints' loaders
// do.
//
//   %c = aten.sub(aten.reshape(@w, [N, G, g]), 8)             (codes - zero)
//   %s = aten.mul(aten.to(%c, bf16), @scale)                  * scale       [N, G, 1]
//   %o = aten.add(%s, @offset)                                + offset      [N, G, 1]
//   %y = aten.linear(%x, aten.reshape(%o, [N, K]))
//
// Zero and offset may be absent, be numbers, come as add or sub. There may be several scales, and divisors. Where the
// numbers of a row are repeated is a group: in another axis as here, by broadcasting [N, 1], by repeat_interleave,
// along N as well (blocks), or in a weight that is [K, N]. Integer codes of any width whose values fit a byte will do;
// that they are in [-8, 7] or [0, 15] makes them int4. Codes of fp8 have a scale alone, and so have floats that all
// stand in the table of a scheme (mxfp4, nf4: what a look-up gave), or are whole.
#include <algorithm>
#include <cmath>

#include "graph/ir/elements.h"
#include "graph/patterns/constant_numbers.h"
#include "graph/patterns/dequantized_weight.h"
#include "graph/patterns/integer_bounds.h"
#include "graph/patterns/number_codes.h"
#include "graph/patterns/seen_constant.h"
#include "graph/rewrite/parameter_views.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern arithmetic_pattern() { return gemm(any("x"), any("w")); }

// A constant operand: a number, or a matrix seen as the weight is.
struct Term {
  std::optional<SeenConstant> matrix;
  double number = 0;
  double sign = 1;
  bool divides = false;
};

struct Arithmetic {
  SeenConstant codes;
  std::vector<Term> scales;
  std::optional<Term> zero, offset;
};

bool is_wide(DType dtype) {
  return is_floating(dtype) || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
}

class ArithmeticReader {
 public:
  ArithmeticReader(const Graph& graph, bool weight_kn) : graph_(graph), weight_kn_(weight_kn) {}

  // From the product inwards: what adds outside of the scale is the offset, inside it is the zero point.
  std::optional<Arithmetic> read(ValueId id) {
    Arithmetic out;
    while (!is_parameter(graph_, id)) {
      const Node* node = producer_of(graph_, id);
      if (!node) return std::nullopt;
      if (is_op(*node, "aten.to.dtype") && (keeps_numbers(graph_, *node) || keeps_codes(*node)))
        id = node->tensor("self");
      else if (is_op(*node, "aten.reshape.default") || is_op(*node, "aten.permute.default")) id = pass_view(*node);
      else if (!take_operation(*node, out, id)) return std::nullopt;
    }
    auto codes = see_constant(graph_, id);
    if (out.scales.empty() || !codes || !see_as_weight(*codes)) return std::nullopt;
    out.codes = std::move(*codes);
    return out;
  }

 private:
  // Integers that fit a narrower dtype: zero points were taken off in a wider one.
  bool keeps_codes(const Node& cast) const {
    const DType to = graph_.value(cast.outputs[0]).dtype;
    if (is_floating(to) || to == DType::boolean) return false;
    const auto range = integer_bounds(graph_, cast.tensor("self"));
    return range && fits(*range, to);
  }

  ValueId pass_view(const Node& node) {
    views_.push_back(&node);
    return node.tensor("self");
  }

  // What stands inside of the views that were met, as they show it: [N, K].
  bool see_as_weight(SeenConstant& seen) const {
    for (auto view = views_.rbegin(); view != views_.rend(); ++view)
      if (!apply_view(graph_, **view, seen)) return false;
    return seen.shape.size() == 2 && (!weight_kn_ || seen.permute({1, 0}));
  }

  // The weight has more numbers than what it is scaled and shifted by; repeated ones count once.
  int64_t elements(const Arg& arg) const {
    const ValueId* id = arg.get<ValueId>();
    if (!id) return 1;
    if (const auto constant = see_constant(graph_, *id)) return constant->different();
    const Dim count = product(graph_.value(*id).shape);
    return count.valid() && count.is_constant() ? count.constant() : INT64_MAX;
  }

  std::optional<Term> read_term(const Arg& arg, const Node& node) const {
    Term term;
    if (const ValueId* id = arg.get<ValueId>()) {
      const auto shape = constant_shape(graph_.value(node.outputs[0]).shape);
      term.matrix = see_constant(graph_, *id);
      if (!shape || !term.matrix || !term.matrix->expand(*shape) || !see_as_weight(*term.matrix)) return std::nullopt;
    } else if (const auto number = as_number(arg)) {
      term.number = *number;
    } else {
      return std::nullopt;
    }
    return term;
  }

  bool is_constant(const Arg& arg) const {
    const ValueId* id = arg.get<ValueId>();
    return id ? see_constant(graph_, *id).has_value() : as_number(arg).has_value();
  }

  // nullopt: a number that is not whole, or a constant without bounds.
  std::optional<IntegerRange> range(const Arg& arg) const {
    if (const ValueId* id = arg.get<ValueId>()) return integer_bounds(graph_, *id);
    const auto whole = as_integer(arg);
    return whole ? std::optional(IntegerRange{*whole, *whole}) : std::nullopt;
  }

  bool is_declared_only(const Arg& arg) const {
    const ValueId* id = arg.get<ValueId>();
    const auto seen = id ? see_constant(graph_, *id) : std::nullopt;
    return seen && !graph_.value(seen->parameter).data.bound();
  }

  // A sum in bytes may wrap, unless the bounds of both operands show that it does not. Where the data of codes is not
  // given, the sum is taken not to wrap.
  bool fits_byte(const Arg& inner, const Arg& outer, bool difference, DType dtype) const {
    if (!is_byte(dtype)) return false;
    if (is_declared_only(inner) || is_declared_only(outer)) return true;
    const auto a = range(inner), b = range(outer);
    if (!a || !b || std::max(std::abs(b->low), std::abs(b->high)) > 1 << 16) return false;
    return fits(difference ? IntegerRange{a->low - b->high, a->high - b->low}
                           : IntegerRange{a->low + b->low, a->high + b->high},
                dtype);
  }

  bool take_operation(const Node& node, Arithmetic& out, ValueId& next) const {
    const bool quotient = is_op(node, "aten.div.Tensor"), product = quotient || is_op(node, "aten.mul.Tensor"),
               sum = is_op(node, "aten.add.Tensor"), difference = is_op(node, "aten.sub.Tensor");
    if (!product && !sum && !difference) return false;
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    if (product ? !is_floating(dtype) : as_number(node.arg("alpha")) != 1.0) return false;
    Arg inner = node.arg("self"), outer = node.arg("other");
    if (!difference && !quotient && !(is_constant(outer) && elements(outer) <= elements(inner)))
      std::swap(inner, outer);
    if (!inner.get<ValueId>() || (!is_wide(dtype) && !fits_byte(inner, outer, difference, dtype))) return false;
    if (graph_.value(*inner.get<ValueId>()).shape != graph_.value(node.outputs[0]).shape)
      return false;  // repeated codes
    auto term = read_term(outer, node);
    if (!term) return false;
    next = *inner.get<ValueId>();
    if (product) {
      term->divides = quotient;
      out.scales.push_back(std::move(*term));
      return !out.zero;
    }
    std::optional<Term>& slot = out.scales.empty() ? out.offset : out.zero;
    if (slot) return false;
    term->sign = (&slot == &out.offset) == difference ? -1 : 1;
    slot = std::move(*term);
    return true;
  }

  const Graph& graph_;
  const bool weight_kn_;
  std::vector<const Node*> views_;  // outermost first
};

// A term as [N, G], in the parameter's own dtype where nothing was done to it; kNoValue if it changes within a group.
ValueId constant_of_term(Graph& graph, const Term& term, ValueId codes, const Blocks& b) {
  const std::vector<int64_t> shape = {b.n, b.groups()};
  Elements<float> values;
  bool single = true;
  if (term.matrix) {
    const ValueId numbers = add_block_numbers(graph, *term.matrix, b.group);
    single = term.matrix->different() == 1;
    if (numbers == kNoValue || (!single && term.sign == 1)) return numbers;
    values = read_elements<float>(graph.value(numbers).data);
  } else {
    values.emplace(static_cast<size_t>(b.n * b.groups()), static_cast<float>(term.number));
  }
  if (values)
    for (float& v : *values) v *= static_cast<float>(term.sign);
  return add_constant(graph, codes, make_tensor(DType::f32, shape, values));
}

// The product of all scales, in f32 where it is not one of them.
ValueId constant_of_scales(Graph& graph, const std::vector<Term>& scales, ValueId codes, const Blocks& b) {
  if (scales.size() == 1 && !scales[0].divides) return constant_of_term(graph, scales[0], codes, b);
  ValueId like = codes;
  Elements<double> product(std::in_place, static_cast<size_t>(b.n * b.groups()), 1.0);
  for (const Term& term : scales) {
    Elements<double> factors(std::in_place, product ? product->size() : 0, term.number);
    if (term.matrix) {
      like = term.matrix->parameter;
      const ValueId numbers = add_block_numbers(graph, *term.matrix, b.group);
      if (numbers == kNoValue || !is_floating(graph.value(numbers).dtype)) return kNoValue;
      factors = read_elements<double>(graph.value(numbers).data);
    }
    if (!factors) product.reset();
    for (size_t i = 0; product && i < product->size(); ++i) {
      if (term.divides) (*product)[i] /= (*factors)[i];
      else (*product)[i] *= (*factors)[i];
    }
  }
  Elements<float> rounded;
  if (product) {
    rounded.emplace(product->begin(), product->end());
    // 0 / 0 and Inf * 0 depend on the order.
    if (!std::all_of(rounded->begin(), rounded->end(), [](float v) { return std::isfinite(v); })) return kNoValue;
  }
  return add_constant(graph, like, make_tensor(DType::f32, {b.n, b.groups()}, rounded));
}

// How many codes of a row share all numbers. Blocks of terms nest, or the shorter would not divide the longer.
int64_t group_size(const Arithmetic& weight, int64_t k) {
  int64_t group = k;
  auto shorten = [&](const std::optional<Term>& term) {
    if (term && term->matrix) group = std::min(group, longest_block(*term->matrix));
  };
  for (const Term& scale : weight.scales) shorten(scale);
  shorten(weight.zero);
  shorten(weight.offset);
  return group;
}

// Integers as narrow as they are, or fp8.
std::optional<CodeForm> form_of_codes(const Tensor& data) {
  if (is_float8(data.dtype)) {
    const auto scheme = stored_scheme(data.dtype);
    return scheme ? std::optional(CodeForm{*scheme, 0}) : std::nullopt;
  }
  return scan_codes(data);
}

bool is_number(DType dtype) { return is_floating(dtype) && !is_float8(dtype); }

// Floats become the codes they stand for, in the order of the weight. False: they are not codes.
bool take_number_codes(Graph& graph, Arithmetic& weight, std::optional<CodeForm>& form, LinearSpec& spec) {
  Tensor numbers = weight.codes.axes;
  const auto codes = numbers.bound() ? codes_of_numbers(numbers) : std::nullopt;
  if (!codes) return false;
  form = {codes->scheme, codes->shift};
  if (codes->unit != 1) weight.scales.push_back({.number = codes->unit});
  if (scheme_info(form->scheme).weight.numbers || scheme_info(form->scheme).weight.values)
    spec.note = std::string(scheme_name(form->scheme)) + ": the table contains every number of the weight";
  const ValueId like = weight.codes.parameter;
  weight.codes.parameter =
      add_constant(graph, like, make_tensor(DType::i8, numbers.shape, Elements<int8_t>(codes->codes)));
  weight.codes.axes = graph.value(weight.codes.parameter).data;
  return true;
}

// [N, K], copied where they lie in another order: those of a kernel of a convolution, or of [E, K, N] of groups.
ValueId codes_of_matrix(Graph& graph, const SeenConstant& codes) {
  if (const auto matrix = view_as_shape(codes.axes, codes.shape))
    return add_parameter_view(graph, codes.parameter, *matrix);
  return add_computed(graph, {codes.parameter}, "rows", codes.axes.dtype, codes.shape,
                      [&] { return codes.axes.contiguous().reshape(codes.shape); });
}

}  // namespace

std::optional<std::string> take_arithmetic_weight(Graph& graph, ValueId w, bool weight_kn, LinearSpec& spec) {
  auto read = ArithmeticReader(graph, weight_kn).read(w);
  if (!read) return "";
  std::optional<CodeForm> form;
  if (!is_number(graph.value(read->codes.parameter).dtype))
    form = form_of_codes(graph.value(read->codes.parameter).data);
  else if (!take_number_codes(graph, *read, form, spec)) return "";
  const int64_t n = read->codes.shape[0], k = read->codes.shape[1];
  const Blocks b = {n, k, 1, group_size(*read, k)};
  if (b.group == 1 && k > 1) return "the weight's factor is not one scale per output channel or group along K";
  if (!form) return "the codes of the weight do not fit a byte";
  if (form->scheme == Scheme::f8 && (read->zero || read->offset)) return "an fp8 weight has no zero points";
  if (!spec.note.empty() && (read->zero || read->offset)) return "numbers of a table have no zero points";
  const ValueId codes = read->codes.parameter;
  auto constant = [&](const std::optional<Term>& term) {
    return term ? constant_of_term(graph, *term, codes, b) : kNoValue;
  };
  const ValueId scale = constant_of_scales(graph, read->scales, codes, b), zero = constant(read->zero),
                offset = constant(read->offset);
  if (scale == kNoValue || (read->zero && zero == kNoValue) || (read->offset && offset == kNoValue))
    return "scale, zero point or offset of the weight is not one number per row and group";
  if (form->scheme == Scheme::w4) spec.note = kScannedNote;
  if (auto missing = take_affine_weight(graph, codes_of_matrix(graph, read->codes), *form, b, scale, zero, spec))
    return missing;
  if (offset == kNoValue) return std::nullopt;
  if (!may_have_offsets(scheme_info(spec.scheme)) || spec.offset != kNoValue)
    return "the weight has a real offset, and is neither int8 nor int4";
  spec.offset = offset;
  return std::nullopt;
}

namespace {

Outcome build_arithmetic(Graph& graph, const Match& m) {
  const Gemm gemm = *as_gemm(graph, graph.nodes[m.gemm_node()]);
  if (!is_compute_float(graph.value(gemm.x).dtype)) return Outcome::miss("");
  LinearSpec spec{.x = gemm.x};
  if (auto missing = take_arithmetic_weight(graph, gemm.w, gemm.weight_kn, spec)) return Outcome::miss(*missing);
  if (auto missing = add_gemm_bias(graph, gemm, spec)) return Outcome::miss(*missing);
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kWeightOnlyArithmetic = {"weight dequantized by hand", arithmetic_pattern, build_arithmetic};

}  // namespace qcg

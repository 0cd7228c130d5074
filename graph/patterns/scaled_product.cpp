// scaled_product: the ops of scaled_product.h with a constant weight.
//
//   %y = aten._scaled_mm(%x, permute(@w), %sa, @sb, out_dtype = bf16)          x e4m3 [M, K], w e4m3 [N, K]: f8
//   %y = tensor_cast.static_quant_linear(%q, @w, @ws, none, %xs, %xz, @b, f32)  q i8, w i8 [K, N]: da8w8
//   …                                                                           static_quant_linear_int4: da8w4 or w4
//   %y = tensor_cast.mxfp4_linear(%x, @w, %xs, @ws)                             f4, or da8f4 when x is int8
//
// Scales of the weight become [N, G], scales of an integer activation its x_scale; scales of any other activation belong to
// whole rows and go into the epilogue, before the bias:   mul(acc0, in0), add(…, in1), div(…, in2)
// Where the scales of x change along K (block-wise fp8, mxfp4), x is dequantized to f32 in front of the linear.
#include <cmath>

#include "graph/ops/four_bit.h"
#include "graph/ops/infer.h"
#include "graph/patterns/constant_numbers.h"
#include "graph/patterns/recognizer.h"
#include "graph/rewrite/dequantize_operand.h"

namespace qcg {

namespace {

Pattern scaled_product_pattern() {
  return op({"aten._scaled_mm.default", "aten._scaled_mm_v2.default", "tensor_cast.static_quant_linear.default",
             "tensor_cast.static_quant_linear_int4.default", "tensor_cast.fp8_linear.default",
             "tensor_cast.mxfp4_linear.default"},
            {});
}

bool is_fp8(DType d) { return d == DType::f8e4m3 || d == DType::f8e5m2; }

constexpr std::array<int8_t, 16> kBiased = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

class Builder {
 public:
  Builder(Graph& graph, const Node& node, ScaledProduct p)
      : graph_(graph), node_(node), p_(std::move(p)), e_(graph, node) {}

  Outcome build() {
    if (!p_.n.is_constant()) return Outcome::miss("the weight is computed at run time");
    n_ = p_.n.constant();
    for (auto step : {&Builder::take_weight, &Builder::take_scales, &Builder::take_zeros, &Builder::take_activation})
      if (auto missing = (this->*step)()) return Outcome::miss(*missing);
    take_result();
    if (!e_.status().ok()) return Outcome::miss(e_.status().error().message);
    return Outcome::match(std::move(spec_));
  }

 private:
  using Missing = std::optional<std::string>;

  Missing take_weight() {
    ValueId w = p_.w.value;
    bool weight_kn = true;
    if (const Node* permute = producer_if(graph_, w, "aten.permute.default"))
      w = permute->tensor("self"), weight_kn = false;
    if (!is_parameter(graph_, w)) return "the weight" + how_computed(graph_, w);
    w = weight_matrix(graph_, w, weight_kn);
    const Tensor stored = graph_.value(w).data;
    switch (p_.w.coding) {
      case Coding::int4_packed: return take_codes(w, Scheme::w4, kBiased, NibbleOrder::high_first);
      case Coding::e2m1_codes:
      case Coding::e2m1_packed: return take_codes(w, Scheme::f4, kE2m1Twice, NibbleOrder::low_first);
      case Coding::plain: break;
    }
    spec_.weight = w;
    if (stored.dtype == DType::i8) spec_.scheme = p_.four_bits ? Scheme::w4 : Scheme::w8;
    else if (is_fp8(stored.dtype)) spec_.scheme = Scheme::f8;
    else return "the weight is stored as " + std::string(dtype_name(stored.dtype)) + ", which no scheme takes";
    return std::nullopt;
  }

  Missing take_codes(ValueId w, Scheme scheme, const std::array<int8_t, 16>& table, NibbleOrder order) {
    spec_.scheme = scheme;
    spec_.weight = add_computed(graph_, {w}, "unpacked", DType::i8, {n_, p_.k}, [&] {
      const Tensor& stored = graph_.value(w).data;
      return map_codes(is_packed(p_.w.coding) ? unpack_nibbles(stored, order) : stored, table);
    });
    return std::nullopt;
  }

  // f32 [N, G], G from whichever of scale and zero point changes along K.
  Missing take_scales() {
    const BlockNumbers &scale = p_.w.scale, &zero = p_.w.zero;
    if (!is_parameter(graph_, scale.value)) return "the scale of the weight" + how_computed(graph_, scale.value);
    if (zero.value != kNoValue && !is_parameter(graph_, zero.value))
      return "the zero point of the weight" + how_computed(graph_, zero.value);
    if (zero.value != kNoValue && scale.group > 0 && zero.group > 0 && scale.group != zero.group)
      return "the scales and zero points of the weight have other groups";
    spec_.group = std::max(scale.group, zero.value == kNoValue ? 0 : zero.group);
    if (spec_.group >= p_.k) spec_.group = 0;
    const double half = spec_.scheme == Scheme::f4 ? 0.5 : 1;
    spec_.scale = add_computed(graph_, {scale.value}, "scales", DType::f32, {n_, groups()}, [&] {
      const ConstantNumbers numbers(graph_, scale, n_, p_.k, true);
      return make_matrix(n_, groups(), [&](int64_t n, int64_t g) { return half * numbers.at(n, g * spec_.group); });
    });
    return std::nullopt;
  }

  // Whole numbers are zero points. Others are offsets (-zero * scale) of int8 and int4 under float activations.
  Missing take_zeros() {
    const BlockNumbers zero = p_.w.zero;
    if (zero.value == kNoValue || is_all_zero(graph_, zero.value)) return std::nullopt;
    const bool whole = are_whole(zero.value);
    if (!whole && (!may_have_offsets(scheme_info(spec_.scheme)) || is_byte(graph_.value(p_.x.value).dtype)))
      return "the zero points of the weight are not integers";
    const ValueId made = add_computed(graph_, {zero.value, spec_.scale}, "zeros", DType::f32, {n_, groups()}, [&] {
      const ConstantNumbers numbers(graph_, zero, n_, p_.k, false);
      const std::vector<BlockNumbers> scale = {{spec_.scale, 1, spec_.group}};
      const ConstantNumbers scales(graph_, scale[0], n_, p_.k, false);
      return make_matrix(n_, groups(), [&](int64_t n, int64_t g) {
        const double z = numbers.at(n, g * spec_.group);
        return whole ? z : -z * scales.at(n, g * spec_.group);
      });
    });
    if (whole) spec_.zero = cast_parameter(graph_, made, DType::i32);
    else spec_.offset = made;
    return std::nullopt;
  }

  Missing take_activation() {
    const DType dtype = graph_.value(p_.x.value).dtype;
    const bool by_rows =
        p_.x.coding == Coding::plain && p_.x.scale.group == 0 && (p_.x.zero.value == kNoValue || p_.x.zero.group == 0);
    if (by_rows && is_byte(dtype) && scheme_info(spec_.scheme).under_int8 && has_whole_zero())
      return take_integer_rows();
    const bool float_rows = is_compute_float(dtype) || (is_fp8(dtype) && spec_.scheme == Scheme::f8);
    if (by_rows && float_rows && p_.x.zero.value == kNoValue) {
      spec_.x = p_.x.value;
      factor_ = p_.x.scale;
    } else {
      spec_.x = dequantize_x(e_, graph_, p_.x, product(p_.lead), p_.k);
    }
    return std::nullopt;
  }

  bool has_whole_zero() const {
    const ValueId zero = p_.x.zero.value;
    if (zero == kNoValue || !is_floating(graph_.value(zero).dtype)) return true;
    return is_parameter(graph_, zero) && are_whole(zero);
  }

  Missing take_integer_rows() {
    spec_.scheme = *scheme_info(spec_.scheme).under_int8;
    spec_.x = p_.x.value;
    spec_.x_scale = p_.x.scale.value == kNoValue ? add_one() : cast_to(per_row(p_.x.scale), DType::f32);
    if (p_.x.zero.value == kNoValue || (is_parameter(graph_, p_.x.zero.value) && is_all_zero(graph_, p_.x.zero.value)))
      return std::nullopt;
    spec_.x_zero = cast_to(per_row(p_.x.zero), DType::i32);
    return std::nullopt;
  }

  ValueId cast_to(ValueId id, DType dtype) {
    return is_parameter(graph_, id) ? cast_parameter(graph_, id, dtype) : e_.to(id, dtype);
  }

  ValueId add_one() {
    return graph_.add_parameter(graph_.unique_name("one"), make_matrix(1, 1, [](int64_t, int64_t) { return 1; }));
  }

  // One number stays as it is; one per row is [..., 1].
  ValueId per_row(const BlockNumbers& numbers) {
    Shape rows = p_.lead;
    rows.push_back(Dim(1));
    return numbers.outer == 0 ? numbers.value : e_.reshape(numbers.value, rows);
  }

  void take_result() {
    auto operand = [&](ValueId id) {
      spec_.operands.push_back(is_float8(graph_.value(id).dtype) ? e_.to(id, DType::f32) : id);
      return Expr::in(static_cast<int>(spec_.operands.size()) - 1);
    };
    if (factor_.value != kNoValue) spec_.epilogue = Expr::call("mul", {spec_.epilogue, operand(per_row(factor_))});
    if (p_.bias != kNoValue) {
      const ValueId bias = constant_as_shape(graph_, p_.bias, {n_});
      if (bias != kNoValue && factor_.value == kNoValue) spec_.bias = bias;
      else spec_.epilogue = Expr::call("add", {spec_.epilogue, operand(p_.bias)});
    }
    if (p_.result_scale != kNoValue) spec_.epilogue = Expr::call("div", {spec_.epilogue, operand(p_.result_scale)});
  }

  int64_t groups() const { return count_blocks(p_.k, spec_.group); }
  bool are_whole(ValueId id) const {
    if (!is_floating(graph_.value(id).dtype) || !graph_.value(id).data.bound()) return true;
    const ConstantNumbers numbers(graph_, {id, 0, 1}, 1, graph_.value(id).data.numel(), false);
    for (int64_t i = 0; i < graph_.value(id).data.numel(); ++i)
      if (numbers.at(0, i) != std::nearbyint(numbers.at(0, i))) return false;
    return true;
  }

  Graph& graph_;
  const Node node_;
  ScaledProduct p_;
  OpEmitter e_;
  int64_t n_ = 0;
  LinearSpec spec_;
  BlockNumbers factor_;  // of the rows, for the epilogue
};

Outcome build_scaled_product(Graph& graph, const Match& m) {
  const Node node = graph.nodes[m.gemm_node()];
  auto product = read_scaled_product(graph, node);
  if (!product.ok()) return Outcome::fail(product.error());
  return Builder(graph, node, std::move(*product)).build();
}

}  // namespace

const Recognizer kScaledProduct = {"scaled product", scaled_product_pattern, build_scaled_product};

}  // namespace qcg

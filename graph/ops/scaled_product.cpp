#include "graph/ops/scaled_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/infer.h"

namespace qcg {
namespace {

constexpr int64_t kFp8Block = 128;  // _scaled_mm's block-wise recipes
constexpr int64_t kMxBlock = 32;    // OCP microscaling formats

bool is_fp8(DType d) { return d == DType::f8e4m3 || d == DType::f8e5m2; }

class ProductReader {
 public:
  ProductReader(const Graph& graph, const Node& node) : a_{graph, node} {}

  Result<ScaledProduct> scaled_mm() {
    QCG_CHECK(take_fp8("self", "mat2"));
    QCG_TRY(x_scale, numbers("scale_a", rows(), kFp8Block, false));
    QCG_TRY(w_scale, numbers("scale_b", p_.n, kFp8Block, true));
    p_.x.scale = x_scale, p_.w.scale = w_scale;
    QCG_CHECK(take_result_scale());
    return finish("bias", a_.graph.value(p_.x.value).dtype);
  }

  // Recipes: 0 tensor, 1 row, 3 blocks of 32, 4 blocks of 128 along K, 5 blocks of 128 x 128. The shape says it
  // already.
  Result<ScaledProduct> scaled_mm_v2() {
    QCG_CHECK(take_fp8("self", "mat2"));
    QCG_TRY(x_scale, numbers_v2("a", rows(), false));
    QCG_TRY(w_scale, numbers_v2("b", p_.n, true));
    p_.x.scale = x_scale, p_.w.scale = w_scale;
    if (!a_.dims("contraction_dim").empty())
      return a_.unsupported("contraction_dim", "contracted axes other than the usual ones",
                            "leave contraction_dim empty");
    return finish("bias", a_.graph.value(p_.x.value).dtype);
  }

  Result<ScaledProduct> static_quant_linear(bool int4) {
    p_.four_bits = int4;
    QCG_CHECK(take_matrices("x", "w"));
    const Value& w = a_.tensor("w");
    p_.k = last_of_x();
    if (int4 && w.shape[0].is_constant((p_.k + 1) / 2) && p_.k % 2 == 0) p_.w.coding = Coding::int4_packed;
    QCG_CHECK(has_k("w", p_.w, w.shape[0]));
    if (!is_byte(w.dtype)) return a_.fail("w", "expected an 8-bit integer matrix, got " + describe(w));
    QCG_CHECK(take_numbers("w_scale", "w_offset", p_.w, p_.n));
    QCG_CHECK(take_numbers("x_scale", "x_offset", p_.x, rows()));
    return finish("bias", a_.tensor("x").dtype);
  }

  Result<ScaledProduct> fp8_linear() {
    QCG_CHECK(take_fp8("x", "w"));
    QCG_CHECK(take_numbers("x_scale", "", p_.x, rows()));
    QCG_CHECK(take_numbers("w_scale", "", p_.w, p_.n));
    return finish("bias", DType::f16);
  }

  // An element of x or w is a whole byte with one code, half a byte, or a float that is the number itself. What it is
  // follows from the dtype, and from how many groups of 32 the scales of w have.
  Result<ScaledProduct> mxfp4_linear() {
    QCG_CHECK(take_matrices("x", "w"));
    const Value &x = a_.tensor("x"), &w = a_.tensor("w"), &scale = a_.tensor("w_scale");
    const int64_t groups = scale.shape.empty() || !scale.shape.back().is_constant() ? 0 : scale.shape.back().constant();
    const int64_t x_last = last_of_x(), w_rows = w.shape[0].is_constant() ? w.shape[0].constant() : 0;
    if (!(scale.shape == Shape{p_.n, Dim(groups)}))
      return a_.fail("w_scale",
                     fmt::format("{} for {} output channels: expected [N, K / 32]", describe(scale), p_.n.str()));
    // Eight-bit integers with float scales are integers, whatever the weight is.
    const DType x_scale = a_.tensor("x_scale").dtype;
    const bool x_coded = is_byte(x.dtype) && (x_scale == DType::f8e8m0 || x_scale == DType::u8);
    const bool pairs = is_byte(w.dtype) && count_blocks(2 * w_rows, kMxBlock) == groups;
    p_.k = !x_coded ? x_last : pairs ? 2 * w_rows : w_rows;
    if (count_blocks(p_.k, kMxBlock) != groups)
      return a_.fail("w_scale", fmt::format("{} groups of 32 do not cover {}", groups, describe(w)),
                     "one scale per 32 elements along K");
    auto coding = [&](const Value& v, int64_t stored) {
      if (!is_byte(v.dtype)) return Coding::plain;
      return stored == p_.k ? Coding::e2m1_codes : Coding::e2m1_packed;
    };
    p_.w.coding = coding(w, w_rows);
    if (x_coded) p_.x.coding = coding(x, x_last);
    QCG_CHECK(has_k("w", p_.w, w.shape[0]));
    QCG_CHECK(has_k("x", p_.x, x.shape.back()));
    QCG_TRY(w_numbers, numbers("w_scale", p_.n, kMxBlock, false));
    QCG_TRY(x_numbers, numbers("x_scale", rows(), kMxBlock, false));
    p_.w.scale = w_numbers, p_.x.scale = x_numbers;
    return finish("bias", DType::f16);
  }

 private:
  Dim rows() const { return product(p_.lead); }
  int64_t last_of_x() const {
    const Dim& last = a_.graph.value(p_.x.value).shape.back();
    return last.is_constant() ? last.constant() : 0;
  }

  Status take_matrices(std::string_view x_name, std::string_view w_name) {
    const Value &x = a_.tensor(x_name), &w = a_.tensor(w_name);
    if (x.shape.size() < 2) return a_.fail(x_name, "expected [M, K], got " + describe(x));
    if (w.shape.size() != 2) return a_.fail(w_name, "expected [K, N], got " + describe(w));
    if (!x.shape.back().is_constant())
      return a_.unsupported(x_name, "a contracted axis of dynamic size", "export with K fixed");
    p_.x.value = a_.node.tensor(x_name), p_.w.value = a_.node.tensor(w_name);
    p_.lead.assign(x.shape.begin(), x.shape.end() - 1);
    p_.n = w.shape[1];
    return {};
  }

  Status take_fp8(std::string_view x_name, std::string_view w_name) {
    QCG_CHECK(take_matrices(x_name, w_name));
    for (std::string_view name : {x_name, w_name})
      if (!is_fp8(a_.tensor(name).dtype))
        return a_.unsupported(name, "expected f8e4m3 or f8e5m2, got " + describe(a_.tensor(name)),
                              "quantize both matrices to fp8");
    p_.k = last_of_x();
    return has_k(w_name, p_.w, a_.tensor(w_name).shape[0]);
  }

  Status has_k(std::string_view name, const ScaledOperand& operand, const Dim& stored) const {
    const bool packed = is_packed(operand.coding);
    if (stored.is_constant(packed ? p_.k / 2 : p_.k) && (!packed || p_.k % 2 == 0)) return {};
    return a_.fail(name, fmt::format("{} does not contract {} elements", describe(a_.tensor(name)), p_.k),
                   "the contracted axes must have the same size");
  }

  // Where the numbers of `arg` belong: to the whole matrix, to rows, or to blocks of `block` along K (and along the
  // rows).
  Result<BlockNumbers> numbers(std::string_view arg, const Dim& outer, int64_t block, bool k_first) const {
    return locate(arg, a_.node.tensor(arg), outer, block, k_first);
  }

  Result<BlockNumbers> locate(std::string_view arg, ValueId id, const Dim& outer, int64_t block, bool k_first) const {
    const Shape& shape = a_.graph.value(id).shape;
    if (product(shape).is_constant(1)) return BlockNumbers{id, 0, 0, false};
    auto blocks = [&](bool transposed) -> std::optional<BlockNumbers> {
      if (shape.size() != 2 || block == 0) return std::nullopt;
      const Dim &across = shape[transposed ? 1 : 0], &along = shape[transposed ? 0 : 1];
      if (!along.is_constant(count_blocks(p_.k, block))) return std::nullopt;
      if (across == outer) return block < p_.k ? std::optional(BlockNumbers{id, 1, block, transposed}) : std::nullopt;
      const bool square = outer.is_constant() && across.is_constant(count_blocks(outer.constant(), kFp8Block));
      return square ? std::optional(BlockNumbers{id, kFp8Block, block, transposed}) : std::nullopt;
    };
    if (auto usual = blocks(k_first)) return *usual;
    if (product(shape) == outer) return BlockNumbers{id, 1, 0, false};
    if (auto other = blocks(!k_first)) return *other;
    return a_.fail(arg, fmt::format("{} for {} rows of {} elements", describe(a_.graph.value(id)), outer.str(), p_.k),
                   "expected one number, one per row, or one per block");
  }

  // scale_a, recipe_a and swizzle_a are lists of one; longer ones are two-level scales (nvfp4).
  Result<BlockNumbers> numbers_v2(std::string_view side, const Dim& outer, bool k_first) const {
    const std::string scale = fmt::format("scale_{}", side), recipe = fmt::format("recipe_{}", side),
                      swizzle = fmt::format("swizzle_{}", side);
    const auto& scales = a_.tensors(scale);
    const std::vector<Dim> recipes = a_.dims(recipe), swizzles = a_.dims(swizzle);
    if (scales.size() != 1 || recipes.size() != 1)
      return a_.unsupported(scale, "scales of two levels", "use one scale per matrix");
    for (const Dim& s : swizzles)
      if (!s.is_constant(0)) return a_.unsupported(swizzle, "swizzled scales", "pass SwizzleType.NO_SWIZZLE");
    const bool known = recipes[0].is_constant() && recipes[0].constant() >= 0 && recipes[0].constant() <= 5 &&
                       !recipes[0].is_constant(2);
    if (!known)
      return a_.unsupported(recipe, "scaling recipe " + recipes[0].str(),
                            "tensor, row, 1x32, 1x128 and 128x128 are supported");
    return locate(scale, scales[0], outer, recipes[0].is_constant(3) ? kMxBlock : kFp8Block, k_first);
  }

  // tensor_cast: one number, one per row (or output channel); we also take [N, G], groups that divide K.
  Status take_numbers(std::string_view scale, std::string_view zero, ScaledOperand& operand, const Dim& outer) {
    for (std::string_view name : {scale, zero}) {
      if (name.empty() || a_.node.tensor(name) == kNoValue) continue;
      const Shape& shape = a_.tensor(name).shape;
      // [1, N] is one number per output channel, though N may be a number of groups, too.
      const bool by_rows = shape.size() == 2 && shape[0] == outer && shape[1].is_constant();
      const int64_t groups = by_rows ? shape[1].constant() : 0;
      const int64_t block = groups > 1 && p_.k % groups == 0 ? p_.k / groups : 0;
      QCG_TRY(located, locate(name, a_.node.tensor(name), outer, block, false));
      (name == scale ? operand.scale : operand.zero) = located;
    }
    return {};
  }

  Status take_result_scale() {
    const Value* scale = a_.optional_tensor("scale_result");
    if (!scale) return {};
    if (!product(scale->shape).is_constant(1))
      return a_.fail("scale_result", "expected one number, got " + describe(*scale));
    p_.result_scale = a_.node.tensor("scale_result");
    return {};
  }

  Result<ScaledProduct> finish(std::string_view bias, DType otherwise) {
    p_.out = a_.dtype("out_dtype").value_or(otherwise);
    if (!is_floating(p_.out))
      return a_.unsupported("out_dtype", "a result of integers", "ask for a floating dtype and quantize it");
    if (!is_float8(p_.out)) p_.result_scale = kNoValue;  // aten: "only utilized if the output is a float8 type"
    const Value* b = a_.optional_tensor(bias);
    if (!b) return std::move(p_);
    if (!(product(b->shape) == p_.n) || b->shape.empty() || !(b->shape.back() == p_.n))
      return a_.fail(bias, fmt::format("{} for {} output channels", describe(*b), p_.n.str()));
    p_.bias = a_.node.tensor(bias);
    return std::move(p_);
  }

  OpArgs a_;
  ScaledProduct p_;
};

using Read = Result<ScaledProduct> (*)(ProductReader&);
struct Row {
  Op op;
  Read read;
};
constexpr Row kRows[] = {
    {"aten._scaled_mm.default", [](ProductReader& r) { return r.scaled_mm(); }},
    {"aten._scaled_mm_v2.default", [](ProductReader& r) { return r.scaled_mm_v2(); }},
    {"tensor_cast.static_quant_linear.default", [](ProductReader& r) { return r.static_quant_linear(false); }},
    {"tensor_cast.static_quant_linear_int4.default", [](ProductReader& r) { return r.static_quant_linear(true); }},
    {"tensor_cast.fp8_linear.default", [](ProductReader& r) { return r.fp8_linear(); }},
    {"tensor_cast.mxfp4_linear.default", [](ProductReader& r) { return r.mxfp4_linear(); }},
};

}  // namespace

bool is_scaled_product(Op op) {
  return std::any_of(std::begin(kRows), std::end(kRows), [&](const Row& row) { return row.op == op; });
}

Result<ScaledProduct> read_scaled_product(const Graph& graph, const Node& node) {
  ProductReader reader(graph, node);
  for (const Row& row : kRows)
    if (row.op == node.op) return row.read(reader);
  return Error::internal(node.where, node.op->name + " is no scaled product");
}

}  // namespace qcg

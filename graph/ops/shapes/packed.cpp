// Shape and dtype rules of the products whose weight comes packed, two 4-bit codes per byte (int4_packing.h).
#include <fmt/format.h>

#include "graph/ops/infer.h"
#include "graph/ops/rows_products.h"

namespace qcg {

constexpr std::string_view kRepack = "pack the weight again with the torch that exports the graph";

// Far above any weight, and small enough for products of sizes to stay in range.
constexpr int64_t kMaxSize = int64_t{1} << 31;

// An operand of this dtype and shape; sizes of -1 match any constant.
static Status has_type(const OpArgs& a, std::string_view arg, DType dtype, const std::vector<int64_t>& shape) {
  const Value& v = a.tensor(arg);
  bool fits = v.dtype == dtype && v.shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    const bool any = shape[i] < 0 && v.shape[i].is_constant() && v.shape[i].constant() <= kMaxSize;
    fits = any || v.shape[i].is_constant(shape[i]);
  }
  if (fits) return {};
  std::string sizes;
  for (int64_t size : shape)
    sizes += (sizes.empty() ? "" : ", ") + (size < 0 ? std::string("_") : std::to_string(size));
  return a.fail(arg, fmt::format("expected {}[{}], got {}", dtype_name(dtype), sizes, describe(v)),
                std::string(kRepack));
}

static Result<Types> infer_int4pack(const OpArgs& a, int64_t n, int64_t k) {
  const Value& x = a.tensor("self");
  if (x.shape.size() != 2 || !is_floating(x.dtype))
    return a.fail("self", "expected rows of a floating dtype, got " + describe(x));
  if (!x.shape[1].is_constant(k))
    return a.fail("mat2", fmt::format("contracts {} elements with {}", x.shape[1].str(), k),
                  "the contracted axes must have the same size");
  QCG_TRY(group, a.constant("qGroupSize"));
  if (group < 1 || k % group != 0)
    return a.fail("qGroupSize", fmt::format("groups of {} do not divide K = {}", group, k), std::string(kRepack));
  QCG_CHECK(
      has_type(a, "qScaleAndZeros", x.dtype, {k / group, n, 2}));  // torch: "expected scalar type Float but found …"
  return Types{ValueType{x.dtype, {x.shape[0], Dim(n)}}};
}

Result<Types> infer_int4pack_cpu(const OpArgs& a) {
  QCG_CHECK(has_type(a, "mat2", DType::u8, {-1, -1}));
  const Shape& packed = a.tensor("mat2").shape;
  return infer_int4pack(a, packed[0].constant(), packed[1].constant() * 2);
}

Result<Types> infer_int4pack_cuda(const OpArgs& a) {
  QCG_CHECK(has_type(a, "mat2", DType::i32, {-1, -1, 32, -1}));
  const Shape& packed = a.tensor("mat2").shape;
  if (a.tensor("self").dtype != DType::bf16)  // torch: "expect A to be bfloat16 tensor"
    return a.fail("self", "expected bf16, in which CUDA multiplies these bytes, got " + describe(a.tensor("self")),
                  "cast the activation and qScaleAndZeros to bf16, or pack the weight for the CPU");
  const int64_t tiles = packed[3].constant() * 2;
  if (tiles != 2 && tiles != 4 && tiles != 8)
    return a.fail("mat2", fmt::format("{} inner tiles of K, not 2, 4 or 8", tiles), std::string(kRepack));
  return infer_int4pack(a, packed[0].constant() * 8, packed[1].constant() * tiles * 16);
}

Result<Types> infer_da8w4(const OpArgs& a) {
  const Value& x = a.tensor("input");
  if (x.shape.empty() || (x.dtype != DType::i8 && x.dtype != DType::u8))
    return a.fail("input", "expected rows of u8 or i8, got " + describe(x));
  QCG_CHECK(has_type(a, "weight", DType::u8, {-1, -1, -1, 16}));
  const Shape& packed = a.tensor("weight").shape;
  const int64_t panels = packed[0].constant(), blocks = packed[1].constant(), block = packed[2].constant(),
                n = panels * 32;
  if (!x.shape.back().is_constant(blocks * block))
    return a.fail("weight", fmt::format("contracts {} elements with {}", x.shape.back().str(), blocks * block),
                  "the contracted axes must have the same size");
  QCG_CHECK(has_type(a, "weight_scales", DType::f32, {panels, -1, 32}));
  const Dim groups = a.tensor("weight_scales").shape[1];
  if (panels < 1 || groups.constant() < 1 || blocks % groups.constant() != 0 || block < 1 || block % 4 != 0)
    return a.fail("weight_scales", fmt::format("{} groups for {} blocks of {}", groups.str(), blocks, block),
                  std::string(kRepack));
  QCG_CHECK(has_type(a, "weight_qzeros", DType::i8, {panels, groups.constant(), 32}));
  QCG_CHECK(has_type(a, "compensation", DType::i32, {panels, blocks, 32}));
  Shape shape(x.shape.begin(), x.shape.end() - 1);
  for (std::string_view name : {"input_scales", "input_qzeros"})
    if (const Value& v = a.tensor(name); !(product(v.shape) == product(shape)))
      return a.fail(name, fmt::format("{} for rows {}", describe(v), to_string(shape)), "one value per row");
  const bool has_zeros = x.dtype == DType::u8;  // others are not read
  if (a.tensor("input_scales").dtype != DType::f32 || (has_zeros && a.tensor("input_qzeros").dtype != DType::i32))
    return a.fail("input_scales", "expected scales in f32 and zero points in i32");
  if (const Value* bias = a.optional_tensor("bias"); bias && bias->shape != Shape{Dim(n)})
    return a.fail("bias", fmt::format("expected [{}], got {}", n, describe(*bias)));
  if (!is_floating(*a.dtype("output_dtype"))) return a.fail("output_dtype", "expected a floating dtype");
  shape.emplace_back(n);
  return Types{ValueType{*a.dtype("output_dtype"), std::move(shape)}};
}

}  // namespace qcg

// Shape and dtype rules of products: linear, mm, bmm, matmul and their packed relatives.
#include <fmt/format.h>

#include "graph/ops/infer.h"
#include "graph/ops/rows_own.h"
#include "graph/ops/rows_products.h"

namespace qcg {

static Status same_dtype(const OpArgs& a, const Value& x, std::string_view arg, const Value& w) {
  if (x.dtype == w.dtype) return {};
  return a.fail(arg, fmt::format("dtype {} does not match {}", dtype_name(w.dtype), dtype_name(x.dtype)),
                "cast one of them before the product");
}

static Status has_rank(const OpArgs& a, std::string_view arg, size_t rank) {
  const Value& v = a.tensor(arg);
  if (v.shape.size() == rank) return {};
  return a.fail(arg, fmt::format("expected {} axes, got {}", rank, describe(v)));
}

Result<Types> infer_linear(const OpArgs& a) {
  const Value& x = a.tensor("input");
  const Value& w = a.tensor("weight");
  const Value* bias = a.optional_tensor("bias");
  if (x.shape.empty()) return a.fail("input", "a tensor without axes has nothing to contract");
  if (w.shape.size() != 2 && w.shape.size() != 1)
    return a.fail("weight", fmt::format("expected [N, K], got {}", describe(w)));
  QCG_CHECK(same_dtype(a, x, "weight", w));
  QCG_CHECK(same_k(a, "weight", x.shape.back(), w.shape.back()));
  Shape shape(x.shape.begin(), x.shape.end() - 1);
  if (w.shape.size() == 2) shape.push_back(w.shape[0]);
  if (bias) {
    QCG_CHECK(same_dtype(a, x, "bias", *bias));
    auto fitted = broadcast(shape, bias->shape);
    if (!fitted || *fitted != shape)
      return a.fail("bias", fmt::format("{} does not fit a result of shape {}", describe(*bias), to_string(shape)));
  }
  return one(x.dtype, std::move(shape));
}

static Result<Shape> product_2d(const OpArgs& a, std::string_view left, std::string_view right) {
  QCG_CHECK(has_rank(a, left, 2));
  QCG_CHECK(has_rank(a, right, 2));
  QCG_CHECK(same_k(a, right, a.tensor(left).shape[1], a.tensor(right).shape[0]));
  return Shape{a.tensor(left).shape[0], a.tensor(right).shape[1]};
}

Result<Types> infer_mm(const OpArgs& a) {
  QCG_TRY(shape, product_2d(a, "self", "mat2"));
  QCG_CHECK(same_dtype(a, a.tensor("self"), "mat2", a.tensor("mat2")));
  return one(a.tensor("self").dtype, std::move(shape));
}

// Rows [m, k] sorted by group, a matrix [k, n] for each group, and where each group's rows end.
Result<Types> infer_grouped_mm(const OpArgs& a) {
  const bool own = a.node.op->arg_index("mat2") >= 0;
  const std::string_view left = own ? "self" : "input", right = own ? "mat2" : "weight";
  const Value &x = a.tensor(left), &w = a.tensor(right);
  const Value* ends = a.optional_tensor("offs");
  if (!ends || x.shape.size() != 2 || w.shape.size() != 3)
    return a.unsupported(right, fmt::format("{} and {} are not rows and a matrix per group", describe(x), describe(w)),
                         "multiply rows [m, k] by matrices [groups, k, n], with offs");
  QCG_CHECK(same_dtype(a, x, right, w));
  QCG_CHECK(same_k(a, right, x.shape[1], w.shape[1]));
  if (ends->shape != Shape{w.shape[0]} || (ends->dtype != DType::i32 && ends->dtype != DType::i64))
    return a.fail("offs", fmt::format("{} is no i32 or i64 per group of {}", describe(*ends), describe(w)));
  if (own && a.optional_tensor("bias")) return a.unsupported("bias", "a bias per group", "add it to the result");
  if (own && a.dtype("out_dtype").value_or(x.dtype) != x.dtype)
    return a.unsupported("out_dtype", "a result of another dtype", "cast the result");
  return one(x.dtype, {x.shape[0], w.shape[2]});
}

Result<Types> infer_addmm(const OpArgs& a) {
  QCG_TRY(shape, product_2d(a, "mat1", "mat2"));
  QCG_CHECK(same_dtype(a, a.tensor("mat1"), "mat2", a.tensor("mat2")));
  QCG_CHECK(same_dtype(a, a.tensor("mat1"), "self", a.tensor("self")));
  auto fitted = broadcast(shape, a.tensor("self").shape);
  if (!fitted || *fitted != shape)
    return a.fail("self",
                  fmt::format("{} does not fit a result of shape {}", describe(a.tensor("self")), to_string(shape)));
  return one(a.tensor("mat1").dtype, std::move(shape));
}

Result<Types> infer_bmm(const OpArgs& a) {
  QCG_CHECK(has_rank(a, "self", 3));
  QCG_CHECK(has_rank(a, "mat2", 3));
  const Value& x = a.tensor("self");
  const Value& w = a.tensor("mat2");
  QCG_CHECK(same_dtype(a, x, "mat2", w));
  QCG_CHECK(same_k(a, "mat2", x.shape[2], w.shape[1]));
  if (!(x.shape[0] == w.shape[0]))
    return a.fail("mat2", fmt::format("{} batches against {}", w.shape[0].str(), x.shape[0].str()));
  return one(x.dtype, {x.shape[0], x.shape[1], w.shape[2]});
}

static Result<Shape> product_of_batches(const OpArgs& a) {
  const Value& x = a.tensor("self");
  const Value& w = a.tensor("other");
  if (x.shape.empty() || w.shape.empty()) return a.fail("self", "a tensor without axes has nothing to contract");
  size_t k_axis = w.shape.size() == 1 ? 0 : w.shape.size() - 2;
  QCG_CHECK(same_k(a, "other", x.shape.back(), w.shape[k_axis]));
  auto batch_of = [](const Shape& s) { return Shape(s.begin(), s.size() > 2 ? s.end() - 2 : s.begin()); };
  auto batch = broadcast(batch_of(x.shape), batch_of(w.shape));
  if (!batch)
    return a.fail("other", fmt::format("the batches of {} and {} do not broadcast", describe(x), describe(w)));
  Shape shape = *batch;
  if (x.shape.size() > 1) shape.push_back(x.shape[x.shape.size() - 2]);
  if (w.shape.size() > 1) shape.push_back(w.shape.back());
  return shape;
}

Result<Types> infer_matmul(const OpArgs& a) {
  QCG_CHECK(same_dtype(a, a.tensor("self"), "other", a.tensor("other")));
  QCG_TRY(shape, product_of_batches(a));
  return one(a.tensor("self").dtype, std::move(shape));
}

// Operands of any floats, a result of the dtype that was asked for.
Result<Types> infer_qcg_matmul(const OpArgs& a) {
  for (std::string_view name : {"self", "other"}) {
    const Value& v = a.tensor(name);
    if (!is_floating(v.dtype) || v.shape.size() < 2) return a.fail(name, describe(v) + " is no batch of matrices");
  }
  if (!is_floating(*a.dtype("dtype"))) return a.fail("dtype", "expected a floating dtype");
  QCG_TRY(shape, product_of_batches(a));
  return one(*a.dtype("dtype"), std::move(shape));
}

Result<Types> infer_int_mm(const OpArgs& a) {
  QCG_TRY(shape, product_2d(a, "self", "mat2"));
  if (!is_byte(a.tensor("self").dtype)) return a.fail("self", "expected i8 or u8, got " + describe(a.tensor("self")));
  if (a.tensor("mat2").dtype != DType::i8) return a.fail("mat2", "expected i8, got " + describe(a.tensor("mat2")));
  return one(DType::i32, std::move(shape));
}

Result<Types> infer_weight_int8pack_mm(const OpArgs& a) {
  QCG_CHECK(has_rank(a, "self", 2));
  QCG_CHECK(has_rank(a, "mat2", 2));
  const Value& x = a.tensor("self");
  const Value& w = a.tensor("mat2");
  const Value& scales = a.tensor("scales");
  if (!is_floating(x.dtype)) return a.fail("self", "expected a floating dtype, got " + describe(x));
  if (w.dtype != DType::i8) return a.fail("mat2", "expected i8 [N, K], got " + describe(w));
  QCG_CHECK(same_k(a, "mat2", x.shape[1], w.shape[1]));
  if (scales.shape != Shape{w.shape[0]})
    return a.fail("scales", fmt::format("expected [{}], got {}", w.shape[0].str(), describe(scales)));
  QCG_CHECK(same_dtype(a, x, "scales", scales));
  return one(x.dtype, {x.shape[0], w.shape[0]});
}

}  // namespace qcg

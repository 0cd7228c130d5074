#include <fmt/format.h>

#include "codegen/matmul/matmul.h"
#include "codegen/plan/planner.h"
#include "graph/ops/op_table.h"

namespace qcg {

namespace {

Status check_product_dtype(const Node& node, DType dtype) {
  if (is_compute_float(dtype)) return {};
  return Error::unsupported(node.where,
                            fmt::format("{} ({}) multiplies matrices of {}, which has no kernel",
                                        join_names(node.origins), node.op->name, dtype_name(dtype)),
                            "convert the model and its inputs to f32, bf16 or f16 (model.float()) and export it again");
}

// Products of int8 that int32 holds the sum of, whatever they are: 2^31 / 128 / 128 less one.
constexpr int64_t kLongestIntegerSum = 131071;

}  // namespace

// mm, bmm, matmul and linear of two activations: neither side is a constant that could be packed.
Status Planner::lower_matmul(const Node& node) {
  const Op op = node.op;
  const bool linear = op == "aten.linear.default", mm = op == "aten.mm.default", bmm = op == "aten.bmm.default";
  const ValueId a = node.tensor(linear ? "input" : "self");
  const ValueId b = node.tensor(linear ? "weight" : op == "aten.matmul.default" ? "other" : "mat2");
  const size_t rank = graph_.value(a).shape.size();
  if (const Dim& k = graph_.value(a).shape.back();
      op == "aten._int_mm.default" && k.is_constant() && k.constant() > kLongestIntegerSum)
    return Error::unsupported(
        node.where,
        fmt::format("{} ({}): sums of {} products could overflow int32", join_names(node.origins), node.op->name,
                    k.constant()),
        fmt::format("split it along K into products of at most {}, and add those", kLongestIntegerSum));
  if (!(linear || mm || bmm || op == "aten.matmul.default") || graph_.value(b).shape.size() < 2 || rank < 2 ||
      (linear && node.tensor("bias") != kNoValue))
    return Error::unsupported(node.where, node.op->name + " of these operands has no lowering",
                              "make one operand a parameter, or write it as bmm of two rank-3 tensors");
  for (ValueId id : {a, b, node.outputs[0]}) QCG_CHECK(check_product_dtype(node, graph_.value(id).dtype));
  View x = view(a), w = view(b);
  if (walks_back(x)) x = dense(a);
  if (walks_back(w)) w = dense(b);
  if (linear) std::swap(w.shape[0], w.shape[1]), std::swap(w.strides[0], w.strides[1]);
  const Shape& out_shape = graph_.value(node.outputs[0]).shape;
  const View out = output_view(node.outputs[0], is_dense);
  View y = out;
  const bool batched = w.shape.size() > 2;
  if (!batched && rank != 2)
    x = as_matrix(x, graph_.value(a).dtype), y = *reshape_view(y, {leading(out_shape), out_shape.back()});
  if (batched) {
    const Shape lead(out_shape.begin(), out_shape.end() - 2);
    x = as_batches(x, lead, graph_.value(a).dtype), w = as_batches(w, lead, graph_.value(b).dtype);
    y = as_batches(y, lead, graph_.value(node.outputs[0]).dtype);  // dense: no copy
  }
  MatmulProblem problem{graph_.value(a).dtype, graph_.value(b).dtype, graph_.value(node.outputs[0]).dtype,
                        comment_of(node)};
  const size_t r = x.shape.size(), rw = w.shape.size(), ry = y.shape.size();
  auto batch_stride = [](const View& v) { return v.shape.size() > 2 ? v.strides[0] : Dim(0); };
  PlanStep step{node.origins.size() == 1 ? node.origins[0] : "matmul",
                intern({kMatmulFamily, problem}),
                {},
                {},
                node.origins,
                leading(out_shape)};
  // clang-format off
  step.params = {batched ? y.shape[0] : Dim(1), y.shape[ry - 2], y.shape[ry - 1], x.shape[r - 1],
                 batch_stride(x), x.strides[r - 2], x.strides[r - 1],
                 batch_stride(w), w.strides[rw - 1], w.strides[rw - 2],
                 batch_stride(y), y.strides[ry - 2], y.strides[ry - 1]};
  // clang-format on
  for (auto [v, dtype] : {std::pair(&x, problem.input), std::pair(&w, problem.weight), std::pair(&y, problem.output)})
    step.args.push_back({v->buffer, offset_bytes(*v, dtype), Dim(0)});
  plan_.steps.push_back(std::move(step));
  finish_output(node.outputs[0], out);
  return {};
}

// Rank 3, batch axes broadcast to `lead` and made one; a copy where they are not stored together.
View Planner::as_batches(const View& v, const Shape& lead, DType dtype) {
  Shape full = lead;
  full.insert(full.end(), v.shape.end() - 2, v.shape.end());
  const View wide = broadcast_view(v, full);
  const Shape shape = {product(lead), full[full.size() - 2], full.back()};
  if (auto three = reshape_view(wide, shape)) return *three;
  return dense_view(copy_to_temp(wide, dtype), shape);
}

View Planner::as_matrix(const View& v, DType dtype) {
  const Shape shape = {leading(v.shape), v.shape.back()};
  if (auto flat = reshape_view(v, shape)) return *flat;
  return dense_view(copy_to_temp(v, dtype), shape);
}

}  // namespace qcg

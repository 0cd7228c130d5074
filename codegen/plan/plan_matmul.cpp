#include <fmt/format.h>

#include <array>

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

// The axes before a matrix, of all operands alike, as few as strides can say; one of extent 1 where there are none.
std::vector<View> batch_axes(const std::vector<View>& operands) {
  const Shape& whole = operands.back().shape;  // of the result
  const Shape lead(whole.begin(), whole.end() - 2);
  std::vector<View> out;
  for (const View& operand : operands) {
    Shape wide = lead;
    wide.insert(wide.end(), operand.shape.end() - 2, operand.shape.end());
    View batch = broadcast_view(operand, wide);
    batch.shape = lead;
    batch.strides.resize(lead.size());
    out.push_back(std::move(batch));
  }
  out = collapse(std::move(out));
  if (out[0].shape.empty())
    for (View& batch : out) batch.shape = {1}, batch.strides = {0};
  return out;
}

}  // namespace

// mm, bmm, matmul and linear of two activations: neither side is a constant that could be packed.
Status Planner::lower_matmul(const Node& node) {
  const Op op = node.op;
  const bool linear = op == "aten.linear.default", mm = op == "aten.mm.default", bmm = op == "aten.bmm.default",
             batches = op == "aten.matmul.default" || op == "qcg.matmul";
  const ValueId a = node.tensor(linear ? "input" : "self");
  const ValueId b = node.tensor(linear ? "weight" : batches ? "other" : "mat2");
  const size_t rank = graph_.value(a).shape.size();
  if (const Dim& k = graph_.value(a).shape.back();
      op == "aten._int_mm.default" && k.is_constant() && k.constant() > kLongestIntegerSum)
    return Error::unsupported(
        node.where,
        fmt::format("{} ({}): sums of {} products could overflow int32", join_names(node.origins), node.op->name,
                    k.constant()),
        fmt::format("split it along K into products of at most {}, and add those", kLongestIntegerSum));
  if (!(linear || mm || bmm || batches) || graph_.value(b).shape.size() < 2 || rank < 2 ||
      (linear && node.tensor("bias") != kNoValue))
    return Error::unsupported(node.where, node.op->name + " of these operands has no lowering",
                              "make one operand a parameter, or write it as bmm of two rank-3 tensors");
  for (ValueId id : {a, b, node.outputs[0]}) QCG_CHECK(check_product_dtype(node, graph_.value(id).dtype));
  View x = view(a), w = view(b);
  if (walks_back(x)) x = dense(a);
  if (walks_back(w)) w = dense(b);
  if (linear) std::swap(w.shape[0], w.shape[1]), std::swap(w.strides[0], w.strides[1]);
  const View out = output_view(node.outputs[0], is_dense);
  View y = out;
  // Rows of all batches are those of one matrix where they are one distance apart and share w.
  const auto x_rows = reshape_view(x, {leading(x.shape), x.shape.back()}),
             y_rows = reshape_view(y, {leading(y.shape), y.shape.back()});
  if (x_rows && y_rows && w.shape.size() == 2) x = *x_rows, y = *y_rows;
  const std::vector<View> operands = {x, w, y}, lead = batch_axes(operands);
  MatmulProblem problem{graph_.value(a).dtype, graph_.value(b).dtype, graph_.value(node.outputs[0]).dtype,
                        comment_of(node), static_cast<int>(lead[0].shape.size())};
  PlanStep step{node.origins.size() == 1 ? node.origins[0] : "matmul",
                intern({kMatmulFamily, problem}),
                {},
                lead[0].shape,
                node.origins,
                leading(graph_.value(node.outputs[0]).shape)};
  const auto add = [&](const Dim& number) { step.params.push_back(number); };
  add(y.shape[y.shape.size() - 2]), add(y.shape.back()), add(x.shape.back());
  const DType dtypes[] = {problem.input, problem.weight, problem.output};
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::vector<Dim>& strides = operands[i].strides;
    Dim row = strides[strides.size() - 2], column = strides.back();
    if (i == 1) std::swap(row, column);  // [k, n]
    for (const Dim& stride : lead[i].strides) add(stride);
    add(row), add(column);
    step.args.push_back({operands[i].buffer, offset_bytes(operands[i], dtypes[i]), Dim(0)});
  }
  plan_.steps.push_back(std::move(step));
  finish_output(node.outputs[0], out);
  return {};
}

Status Planner::lower_grouped_matmul(const Node& node) {
  const bool own = node.op->arg_index("mat2") >= 0;
  return add_grouped_matmul(node, node.tensor(own ? "self" : "input"), node.tensor(own ? "mat2" : "weight"), true,
                            node.tensor("offs"));
}

// Rows sorted by group, each times its group's matrix.
Status Planner::add_grouped_matmul(const Node& node, ValueId a, ValueId b, bool b_kn, ValueId ends) {
  const ValueId result = node.outputs[0];
  for (ValueId id : {a, b}) QCG_CHECK(check_product_dtype(node, graph_.value(id).dtype));
  View x = view(a), w = view(b);
  if (walks_back(x)) x = dense(a);
  if (walks_back(w)) w = dense(b);
  if (!b_kn) std::swap(w.shape[1], w.shape[2]), std::swap(w.strides[1], w.strides[2]);
  const View where = dense(ends), out = output_view(result, is_dense);
  const MatmulProblem problem{graph_.value(a).dtype, graph_.value(b).dtype, graph_.value(result).dtype,
                              comment_of(node),      /*batch_axes=*/1,      graph_.value(ends).dtype};
  const auto arg = [&](const View& v, DType dtype) { return PlanArg{v.buffer, offset_bytes(v, dtype), Dim(0)}; };
  PlanStep step{name_of(node, "grouped matmul"),
                intern({kMatmulFamily, problem}),
                {arg(x, problem.input), arg(w, problem.weight), arg(where, *problem.ends), arg(out, problem.output)},
                {w.shape[0], x.shape[0], w.shape[2], x.shape[1]},
                node.origins,
                x.shape[0]};
  for (const auto& [group, row, column] : {std::array{Dim(0), x.strides[0], x.strides[1]},
                                           {w.strides[0], w.strides[2], w.strides[1]},
                                           {Dim(0), out.strides[0], out.strides[1]}})
    step.params.insert(step.params.end(), {group, row, column});
  plan_.steps.push_back(std::move(step));
  finish_output(result, out);
  return {};
}

}  // namespace qcg

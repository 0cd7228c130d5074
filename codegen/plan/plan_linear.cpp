#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen/gemm/gemm_family.h"
#include "codegen/plan/planner.h"
#include "graph/ops/infer.h"

namespace qcg {

namespace {

ValueId list_value(const Node& node, std::string_view arg, size_t j) {
  const auto* list = node.arg(arg).get<std::vector<ValueId>>();
  return list && j < list->size() ? (*list)[j] : kNoValue;
}

template <class Predicate>
bool all_elements(const Tensor& t, Predicate holds) {
  if (!t.bound()) return true;
  const Tensor all = t.contiguous();
  const size_t size = dtype_bytes(all.dtype);
  for (size_t at = 0; at < all.bytes().size(); at += size)
    if (!holds(element_to_double(all.dtype, all.bytes().data() + at))) return false;
  return true;
}

// What weights of four bits take without leaving the range of bf16 (templates/quant/e2m1.h).
bool is_power_of_two(double v) {
  int exponent = 0;
  return std::frexp(v, &exponent) == 0.5 && std::abs(exponent - 1) <= kLargestPower;
}

bool is_in(DType dtype, double v) { return round_to_dtype(dtype, v) == v; }

// What group scales and offsets are stored as: half the bytes, or a quarter, where that changes no value (bf16
// checkpoints; mxfp4 and nvfp4, whose are of a byte).
DType scale_dtype(Scheme scheme, const std::vector<SegmentTensors>& tensors) {
  const auto all = [&](auto holds) {
    return std::all_of(tensors.begin(), tensors.end(), [&](const SegmentTensors& t) {
      return t.scales.bound() && all_elements(t.scales, holds) && all_elements(t.offsets, holds);
    });
  };
  if (is_float8(scheme_info(scheme).weight.usual_scale)) {
    if (all(is_power_of_two)) return DType::f8e8m0;
    if (all([](double v) { return is_in(DType::f8e4m3, v) && !std::signbit(v); })) return DType::f8e4m3;
  }
  return all([](double v) { return is_in(DType::bf16, v); }) ? DType::bf16 : DType::f32;
}

}  // namespace

Status Planner::lower_linear(const Node& node) {
  Problem problem;
  QCG_CHECK(describe_linear(node, problem));
  PlanStep step{problem.label(), 0, {}, {}, problem.nodes, {}};
  const auto& xs = *node.arg("xs").get<std::vector<ValueId>>();
  const Dim m = leading(graph_.value(xs[0]).shape);
  step.params = {m};
  step.rows = m;
  const View in = windows_[xs[0]] ? *windows_[xs[0]] : view(xs[0]);
  if (const auto windows = windows_of(xs, in)) {
    problem.windowed = true;
    problem.k_segments.assign(windows->parts.size(), windows->width);
    step.params.insert(step.params.end(), windows->extents.begin(), windows->extents.end());
    step.params.insert(step.params.end(), windows->strides.begin(), windows->strides.end());
    for (const Dim& part : windows->parts)
      step.args.push_back({in.buffer, part * Dim(static_cast<int64_t>(dtype_bytes(problem.activation))), Dim(0)});
  } else {
    for (ValueId x : xs) step.args.push_back(row_arg(x));
  }
  for (const char* name : {"x_scale", "x_zero"})
    if (node.tensor(name) != kNoValue) step.args.push_back(scale_arg(node.tensor(name)));
  const auto& operands = *node.arg("operands").get<std::vector<ValueId>>();
  for (size_t i = 0; i < operands.size(); ++i) step.args.push_back(operand_arg(node, operands[i], problem.operands[i]));
  step.problem = intern({kGemmFamily, std::move(problem)});
  step.args.push_back({packed_weights(step.problem, segment_tensors(node)), 0, Dim(0)});
  add_row_step(std::move(step), node.outputs);
  return {};
}

// How a linear reads an x whose rows are not evenly spaced: kernels of CPUs alone find them where they are.
std::optional<WindowRows> Planner::windows_of(const std::vector<ValueId>& xs, const View& x) const {
  if (plan_.target.device != Device::cpu || xs.size() != 1 || rows_of(x)) return std::nullopt;
  const Dim& k = graph_.value(xs[0]).shape.back();
  return k.is_constant() ? window_rows_of(x, k.constant()) : std::nullopt;
}

// Kernels of a CPU are those of a linear of one group, and the runtime calls them group by group. A device has one kernel
// for all groups, since where their rows end is known there alone; it multiplies floats.
Status Planner::lower_grouped_linear(const Node& node) {
  const ValueId x = node.tensor("x"), ends = node.tensor("ends"), weight = node.tensor("weight");
  const Scheme scheme = *scheme_from_name(*node.arg("scheme").get<std::string>());
  if (plan_.target.device != Device::cpu && scheme == Scheme::dense)
    return add_grouped_matmul(node, x, weight, false, ends);
  if (plan_.target.device != Device::cpu)
    return Error::unsupported(node.where, "quantized matrices of groups have no kernel on devices",
                              "compile for the CPU, or with --disable-pass=group_linears to multiply floats");
  const Tensor& all = graph_.value(weight).data;
  const auto of_group = [&](const char* arg, int64_t g) {
    const ValueId id = node.tensor(arg);
    return id == kNoValue ? Tensor{} : graph_.value(id).data.select(0, g);
  };
  std::vector<SegmentTensors> groups;
  for (int64_t g = 0; g < all.shape[0]; ++g)
    groups.push_back({of_group("weight", g), of_group("scale", g), of_group("zero", g), {}, of_group("offset", g)});
  const auto has = [&](const char* arg) { return node.tensor(arg) != kNoValue; };
  const int64_t n = all.shape[1], k = all.shape[2];
  const DimRange rows = range_of(graph_.value(x).shape[0], graph_.symbols);
  Problem problem;
  problem.scheme = scheme;
  problem.activation = graph_.value(x).dtype;
  problem.weight = all.dtype;
  problem.k = k;
  problem.group = constant_int(node, "group", 0);
  problem.scale = scale_dtype(scheme, groups);
  problem.k_segments = {k};
  problem.segments = {{n, has("zero"), false, source_.weight_path(graph_.value(weight).name), has("offset")}};
  problem.outputs = {{Expr::acc(0), graph_.value(node.outputs[0]).dtype, n, {0}}};
  problem.m_min = rows.min, problem.m_max = rows.max;
  problem.by_group_of_rows = true;
  problem.nodes = node.origins;
  problem.comment = comment_of(node);

  PlanStep step{problem.label(), 0, {row_arg(x)}, {}, problem.nodes, graph_.value(x).shape[0]};
  step.params = {step.rows};
  step.problem = intern({kGemmFamily, std::move(problem)});
  const int packed = add_buffer({BufferKind::weights, 0, {}, -1, -1});
  for (SegmentTensors& group : groups) plan_.constants.push_back({packed, 0, {}, step.problem, {std::move(group)}});
  const View where = dense(ends),
             out = output_view(node.outputs[0], [](const View&v) { return rows_of(v).has_value(); });
  step.args.push_back({packed, 0, Dim(0)});
  step.args.push_back(row_arg(out, graph_.value(node.outputs[0]).dtype));
  step.groups = {std::ssize(groups), 1, graph_.value(ends).dtype};
  step.args.push_back({where.buffer, offset_bytes(where, graph_.value(ends).dtype), Dim(0)});
  plan_.steps.push_back(std::move(step));
  finish_output(node.outputs[0], out);
  return {};
}

// The buffer of these tensors, which equal linears share: the steps of a recurrent layer, a tied weight.
int Planner::packed_weights(int problem, std::vector<SegmentTensors> tensors) {
  for (const PlanConstant& c : plan_.constants)
    if (c.problem == problem && std::ranges::equal(c.segments, tensors, is_same_segment)) return c.buffer;
  const int buffer = add_buffer({BufferKind::weights, 0, {}, -1, -1});
  plan_.constants.push_back({buffer, 0, {}, problem, std::move(tensors)});
  return buffer;
}

Status Planner::describe_linear(const Node& node, Problem& problem) {
  const auto scheme = scheme_from_name(*node.arg("scheme").get<std::string>());
  if (!scheme) return Error::internal(node.where, "unknown scheme " + *node.arg("scheme").get<std::string>());
  problem.scheme = *scheme;
  problem.group = constant_int(node, "group", 0);
  problem.x_has_zero = node.tensor("x_zero") != kNoValue;
  const auto& xs = *node.arg("xs").get<std::vector<ValueId>>();
  problem.activation = graph_.value(xs[0]).dtype;
  for (ValueId x : xs) problem.k_segments.push_back(graph_.value(x).shape.back().constant());
  for (int64_t width : problem.k_segments) problem.k += width;
  const auto tensors = segment_tensors(node);
  const auto& weights = *node.arg("weights").get<std::vector<ValueId>>();
  problem.weight = tensors[0].weight.dtype;
  if (problem.k == 0)
    return Error::unsupported(node.where, fmt::format("{} is a product over no elements", join_names(node.origins)),
                              "its result is its bias, or zero: export that instead");
  for (size_t j = 0; j < tensors.size(); ++j) {
    auto has = [&](const char* list) { return list_value(node, list, j) != kNoValue; };
    problem.segments.push_back({tensors[j].weight.shape[0], has("zeros"), has("biases"),
                                source_.weight_path(graph_.value(weights[j]).name), has("offsets")});
  }
  problem.scale = scale_dtype(problem.scheme, tensors);
  const auto& exprs = *node.arg("epilogue").get<std::vector<Expr>>();
  for (size_t i = 0; i < exprs.size(); ++i) {
    const Value& out = graph_.value(node.outputs[i]);
    problem.outputs.push_back({exprs[i], out.dtype, out.shape.back().constant(), exprs[i].leaves(ExprKind::acc)});
  }
  for (ValueId id : *node.arg("operands").get<std::vector<ValueId>>())
    problem.operands.push_back({graph_.value(id).dtype, classify(graph_.value(id).shape)});
  const DimRange rows = range_of(leading(graph_.value(xs[0]).shape), graph_.symbols);
  problem.m_min = rows.min;
  problem.m_max = rows.max;
  problem.nodes = node.origins;
  problem.comment = comment_of(node);
  return {};
}

// An operand broadcasts to every output that reads it, and those may differ in N. One number per row serves any N, so
// that is decided first: beside an output of N = 1 alone it would look like a matrix.
Broadcast Planner::classify(const Shape& shape) {
  if (product(shape).is_constant(1)) return Broadcast::scalar;
  if (shape.back().is_constant(1)) return Broadcast::column;
  return product(shape) == shape.back() ? Broadcast::row : Broadcast::full;
}

PlanArg Planner::operand_arg(const Node& node, ValueId id, const Operand& operand) {
  if (operand.broadcast == Broadcast::scalar || operand.broadcast == Broadcast::row) {
    const View flat = *reshape_view(dense(id), {product(graph_.value(id).shape)});
    return {flat.buffer, offset_bytes(flat, operand.dtype), Dim(0)};
  }
  Shape full = graph_.value(node.outputs[0]).shape;
  full.back() = graph_.value(id).shape.back();
  const View wide = broadcast_view(view(id), full);
  return row_arg(wide, operand.dtype);
}

std::vector<SegmentTensors> Planner::segment_tensors(const Node& node) const {
  std::vector<SegmentTensors> out;
  const size_t count = node.arg("weights").get<std::vector<ValueId>>()->size();
  for (size_t j = 0; j < count; ++j) {
    auto data = [&](const char* arg) {
      const ValueId id = list_value(node, arg, j);
      return id == kNoValue ? Tensor{} : graph_.value(id).data;
    };
    out.push_back({data("weights"), data("scales"), data("zeros"), data("biases"), data("offsets")});
  }
  return out;
}

}  // namespace qcg

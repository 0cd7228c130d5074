#include "codegen/loops/loops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/reach_of.h"
#include "codegen/loops/expect_expr.h"
#include "graph/ir/tensor.h"
#include "graph/oracle/reference.h"

namespace qcg {
namespace {

using V = TemplateValue;

std::string list_dtypes(const std::vector<DType>& dtypes) {
  std::vector<std::string_view> names;
  for (const DType d : dtypes) names.push_back(dtype_name(d));
  return fmt::format("[{}]", fmt::join(names, ", "));
}

// An output that is an operand unchanged is moved as bytes: exact for integers beyond 2^24, any dtype.
bool is_move(const LoopProblem& p, size_t output) {
  const Expr& e = p.exprs[output];
  return e.kind == ExprKind::in && p.operands[static_cast<size_t>(e.index)] == p.outputs[output];
}

// u64 alone does not fit the 64 bits that loops over integers compute in.
Status need_integer(DType d) {
  if (!is_floating(d) && d != DType::u64) return {};
  return Error::unsupported("loop", fmt::format("a loop over integers cannot compute with {}", dtype_name(d)),
                            "cast to i64 before it");
}

Status check_casts(const Expr& e) {
  if (e.kind == ExprKind::cast) QCG_CHECK(need_lanes("loop", e.dtype));
  for (const Expr& arg : e.args) QCG_CHECK(check_casts(arg));
  return {};
}

Status check_loop(const LoopProblem& p) {
  const bool consistent = p.rank >= 1 && !p.outputs.empty() && p.exprs.size() == p.outputs.size() &&
                          p.operand_inner_stride.size() == p.operands.size();
  if (!consistent) return Error::internal("loop", "a LoopProblem whose lists differ in length");
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    if (is_move(p, i)) continue;
    if (p.arithmetic == DType::i64) {
      QCG_CHECK(need_integer(p.outputs[i]));
      for (DType d : p.operands) QCG_CHECK(need_integer(d));
      continue;
    }
    QCG_CHECK(need_lanes("loop", p.outputs[i]));
    QCG_CHECK(check_casts(p.exprs[i]));
    for (int j : p.exprs[i].leaves(ExprKind::in))
      if (const DType d = p.operands[static_cast<size_t>(j)]; d != DType::f8e8m0)  // loads only
        QCG_CHECK(need_lanes("loop", d));
  }
  return {};
}

}  // namespace

std::string LoopProblem::signature() const {
  std::string more;
  if (!position_inner_stride.empty()) more += fmt::format(" pos={}", position_inner_stride);
  if (sizes > 0) more += fmt::format(" sizes={}", sizes);
  return fmt::format("loop{} rank={} in={} inner={} out={}{} expr=[{}]",
                     arithmetic == DType::i64   ? " integers"
                     : arithmetic == DType::f64 ? " f64"
                                                : "",
                     rank, list_dtypes(operands), operand_inner_stride, list_dtypes(outputs), more, formula());
}

std::string LoopProblem::formula() const {
  std::vector<std::string> texts;
  for (const Expr& e : exprs) texts.push_back(e.str());
  return fmt::format("{}", fmt::join(texts, "; "));
}

namespace {

// Functions in the order they are computed in; casts, which are everywhere, only if `casts`.
void collect_functions(const Expr& e, bool casts, std::vector<std::string>& out) {
  for (const Expr& arg : e.args) collect_functions(arg, casts, out);
  std::string name;
  if (e.kind == ExprKind::call) name = e.function;
  if (e.kind == ExprKind::cast && casts) name = "to_" + std::string(dtype_name(e.dtype));
  if (!name.empty() && (out.empty() || out.back() != name)) out.push_back(std::move(name));
}

}  // namespace

std::string LoopProblem::label() const {
  constexpr size_t kMost = 5;
  std::vector<std::string> functions;
  for (bool casts : {false, true})
    for (size_t i = 0; i < exprs.size() && (!casts || functions.empty()); ++i)
      collect_functions(exprs[i], casts, functions);
  if (functions.empty()) {
    const bool same = exprs.size() == 1 && !operands.empty() && !outputs.empty() && operands[0] == outputs[0];
    return same || outputs.empty() ? "copy" : "to_" + std::string(dtype_name(outputs[0]));
  }
  if (functions.size() > kMost) functions = {functions[0], functions[1], "…", *(functions.end() - 2), functions.back()};
  return fmt::format("{}", fmt::join(functions, "·"));
}

Result<std::string> render_loop(const LoopProblem& p, Isa isa, std::string_view symbol) {
  QCG_CHECK(check_loop(p));
  V v = kernel_context(symbol, isa, "pointwise loop", p.signature(), p.comment);
  v["rank"] = p.rank;
  v["arithmetic"] = dtype_name(p.arithmetic);
  std::vector<bool> used(p.operands.size());
  std::vector<std::string> names;
  std::vector<V> operands, outputs, moves;
  for (size_t i = 0; i < p.outputs.size(); ++i)
    if (!is_move(p, i))
      for (int operand : p.exprs[i].leaves(ExprKind::in)) used[static_cast<size_t>(operand)] = true;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    names.push_back(fmt::format("in{}", i));
    if (!used[i]) continue;
    V o = typed(p.operands[i]);
    o["number_type"] = has_number_type(p.operands[i]);
    o["index"] = i;
    o["inner"] = p.operand_inner_stride[i];
    o["strides"] = p.rank * static_cast<int>(i + 1);
    operands.push_back(o);
  }
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    V o = typed(p.outputs[i]);
    o["arg"] = p.operands.size() + i;
    o["strides"] = p.rank * static_cast<int>(p.operands.size() + i + 1);
    if (is_move(p, i)) {
      o["type"] = bytes_type(p.outputs[i]);
      o["from"] = p.exprs[i].index;
      o["from_strides"] = p.rank * (p.exprs[i].index + 1);
      moves.push_back(o);
      continue;
    }
    o["number_type"] = has_number_type(p.outputs[i]);
    o["store"] = stored_as(p.outputs[i]);
    Expr e = p.exprs[i];
    if (p.outputs[i] == DType::boolean) e = Expr::cast(DType::boolean, std::move(e));
    o["code"] = p.arithmetic == DType::i64   ? print_expr_integers(e, names)
                : p.arithmetic == DType::f64 ? print_expr_f64(e, names)
                : on_device(isa)             ? print_expr_cuda(e, {}, names)
                                             : print_expr(e, {}, names);
    outputs.push_back(o);
  }
  const size_t args = p.operands.size() + p.outputs.size(), positions = p.position_inner_stride.size();
  std::vector<V> found, sizes;
  for (size_t i = 0; i < positions; ++i) {
    V o;
    o["index"] = i;
    o["inner"] = p.position_inner_stride[i];
    o["strides"] = p.rank * static_cast<int>(args + i + 1);
    found.push_back(o);
  }
  for (int i = 0; i < p.sizes; ++i) {
    V o;
    o["index"] = i;
    o["param"] = p.rank * static_cast<int>(args + positions + 1) + i;
    sizes.push_back(o);
  }
  v["positions"] = V::from_items(std::move(found));
  v["sizes"] = V::from_items(std::move(sizes));
  v["operands"] = V::from_items(std::move(operands));
  v["outputs"] = V::from_items(std::move(outputs));
  v["moves"] = V::from_items(std::move(moves));
  if (on_device(isa)) {
    const CudaLaunch launch = loop_launch(p);
    v["width"] = launch.axes.back().piece;
    if (p.arithmetic == DType::i64) v["headers"] = V::from_items({V("integers.h")});
    if (p.arithmetic == DType::f64) v["headers"] = V::from_items({V("doubles.h")});
    add_device_context(v, args, static_cast<size_t>(p.rank) * (args + positions + 1) + static_cast<size_t>(p.sizes),
                       launch.threads);
  }
  return render_kernel("loop", isa, v);
}

// A thread computes a few elements of the last axis.
CudaLaunch loop_launch(const LoopProblem& p) {
  constexpr int kThreads = 256, kWidth = 4;
  CudaLaunch out{.threads = kThreads, .rows = kThreads, .column_tiles = 1, .axes = {}};
  for (int axis = 0; axis < p.rank; ++axis) out.axes.push_back({axis, 1});
  if (p.arithmetic == DType::f32) out.axes.back().piece = kWidth;
  return out;
}

namespace {

std::string formula_of(const KernelProblem& any) { return any.get<LoopProblem>().formula(); }

// params: extents, then the strides of each argument.
std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& problem = any.get<LoopProblem>();
  std::vector<Reach> out;
  const auto rank = static_cast<size_t>(problem.rank);
  for (size_t i = 0; i < problem.operands.size() + problem.outputs.size(); ++i) {
    const bool operand = i < problem.operands.size();
    Reach& reach = out.emplace_back();
    reach.writes = !operand;
    reach.item = bytes_of(operand ? problem.operands[i] : problem.outputs[i - problem.operands.size()]);
    for (size_t axis = 0; axis < rank; ++axis)
      reach.axes.push_back({reach_param(axis), reach_param(rank * (i + 1) + axis)});
  }
  return out;
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<LoopProblem>();
  std::vector<ArgumentKind> out;
  for (const DType d : p.operands)
    out.push_back(d == DType::f8e8m0           ? ArgumentKind{d, 0.25, 4}
                  : is_floating(d)             ? ArgumentKind{d}
                  : p.arithmetic == DType::i64 ? wide_integer_argument(d)
                                               : integer_argument(d));
  for (const DType d : p.outputs) out.push_back({d});
  return out;
}

double operations_of(const KernelProblem& any, const CallSizes& sizes) {
  const auto& p = any.get<LoopProblem>();
  double elements = 1;
  for (int axis = 0; axis < p.rank; ++axis) elements *= static_cast<double>(sizes.params[static_cast<size_t>(axis)]);
  int nodes = 0;
  for (const Expr& e : p.exprs) nodes += e.count_nodes();
  return elements * nodes;
}

Expected expect_number(const Expr& e, DType arithmetic, DType output, std::span<const double> ins) {
  if (overflows(e, {}, ins)) return {0, HUGE_VAL};
  return expect_stored(evaluate_with_tolerance(e, {}, {}, ins, arithmetic), arithmetic, output);
}

Expected expect_integer(const Expr& e, DType output, std::span<const int64_t> ins) {
  return as_element(output, e.evaluate_integers(ins));
}

// The positions of one element, then the sizes.
std::vector<int64_t> numbers_at(const LoopProblem& p, const std::vector<int64_t>& params, std::span<const int64_t> at) {
  std::vector<int64_t> out;
  auto param = params.begin() + p.rank * static_cast<std::ptrdiff_t>(1 + p.operands.size() + p.outputs.size());
  for (size_t i = 0; i < p.position_inner_stride.size(); ++i) {
    int64_t position = 0;
    for (const int64_t index : at) position += index * *param++;
    out.push_back(position);
  }
  out.insert(out.end(), param, params.end());
  return out;
}

Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const auto& p = any.get<LoopProblem>();
  const size_t operands = p.operands.size(), positions = p.position_inner_stride.size();
  const size_t count = operands + positions + static_cast<size_t>(p.sizes);
  std::vector<std::vector<Expected>> out(points.size());
  std::vector<double> ins(count);
  std::vector<int64_t> integers(count);
  for (size_t o = 0; o < points.size(); ++o) {
    const bool moves = is_move(p, o), in_integers = p.arithmetic == DType::i64 && !moves;
    const bool in_lanes = p.arithmetic == DType::f32;
    Expr e = in_lanes ? in_f32(p.exprs[o]) : p.exprs[o];
    if (p.outputs[o] == DType::boolean && !in_integers) e = Expr::cast(DType::boolean, std::move(e));
    e = e.as_inputs(static_cast<int>(operands), static_cast<int>(operands + positions));
    const std::vector<int> leaves = e.leaves(ExprKind::in);
    for (const int64_t point : points[o]) {
      const std::vector<int64_t> at = call.index_of(operands + o, point);
      const std::vector<int64_t> numbers = numbers_at(p, call.sizes().params, at);
      for (const int i : leaves) {
        const auto operand = static_cast<size_t>(i);
        if (operand >= operands) {
          integers[operand] = numbers[operand - operands];
          ins[operand] = in_lanes ? static_cast<float>(integers[operand]) : static_cast<double>(integers[operand]);
          continue;
        }
        const int64_t offset = call.offset_of(operand, at);
        if (in_integers) integers[operand] = call.integer(operand, offset);
        else ins[operand] = call.number(operand, offset);
      }
      out[o].push_back(moves         ? Expected{ins[static_cast<size_t>(leaves[0])], 0}
                       : in_integers ? expect_integer(e, p.outputs[o], integers)
                                     : expect_number(e, p.arithmetic, p.outputs[o], ins));
    }
  }
  return out;
}

}  // namespace

const KernelFamily kLoopFamily{
    .name = "loop",
    .signature = signature_of<LoopProblem>,
    .formula = formula_of,
    .comment = comment_of<LoopProblem>,
    .reaches = reaches_of,
    .render = render_of<LoopProblem, render_loop>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .launch = launch_of<LoopProblem, loop_launch>,
};

}  // namespace qcg

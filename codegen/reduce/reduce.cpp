#include "codegen/reduce/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/reach_of.h"

namespace qcg {

std::string ReduceProblem::signature() const {
  return fmt::format("reduce {} in={} out={}", op, dtype_name(input), dtype_name(output));
}

namespace {

// i64: exact, modulo 2^64.
DType arithmetic_of(const ReduceProblem& p) {
  if (!is_floating(p.input) && !is_floating(p.output) && p.op != "mean") return DType::i64;
  return p.output == DType::f64 && has_number_type(p.input) ? DType::f64 : DType::f32;
}

}  // namespace

Result<std::string> render_reduce(const ReduceProblem& p, Isa isa, std::string_view symbol) {
  QCG_CHECK(need_lanes("reduction", p.input));
  QCG_CHECK(need_lanes("reduction", p.output));
  const bool sum = p.op == "sum" || p.op == "mean";
  if (!sum && p.op != "prod" && p.op != "amax" && p.op != "amin")
    return Error::unsupported("reduction", fmt::format("reduction '{}' is not known", p.op),
                              "use sum, mean, prod, amax or amin");
  TemplateValue v = kernel_context(symbol, isa, "reduction", p.signature(), p.comment);
  v["x"] = typed(p.input);
  v["y"] = typed(p.output);
  v["store"] = stored_as(p.output);
  v["op"] = p.op;
  v["combine"] = sum ? "v_add" : p.op == "amax" ? "v_max" : "v_min";
  v["across"] = sum ? "v_hadd" : p.op == "amax" ? "v_hmax" : "v_hmin";
  const double identity = sum ? 0 : p.op == "prod" ? 1 : p.op == "amax" ? -INFINITY : INFINITY;
  v["identity"] = arithmetic_of(p) == DType::f64 ? print_expr_f64(Expr::number(identity), {})
                  : on_device(isa)               ? print_expr_cuda(Expr::number(identity), {}, {})
                                                 : float_literal(identity);
  v["arithmetic"] = dtype_name(arithmetic_of(p));
  if (on_device(isa)) {
    v["combine"] = sum ? "Sum" : p.op == "prod" ? "Product" : p.op == "amax" ? "Max" : "Min";
    add_device_context(v, 2, 3, reduce_launch(p).threads);
  }
  return render_kernel("reduce", isa, v);
}

// A block has 32 columns of the inner axis of one row.
CudaLaunch reduce_launch(const ReduceProblem&) {
  return {.threads = 256, .rows = 1, .column_tiles = 1, .axes = {{0, 1}, {2, 32}}};
}

namespace {

std::string formula_of(const KernelProblem& any) { return fmt::format("{}(in0)", any.get<ReduceProblem>().op); }

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<ReduceProblem>();
  return {{bytes_of(p.input), {{reach_param(0), {}}, {reach_param(1), {}}, {reach_param(2), {}}}, false},
          {bytes_of(p.output), {{reach_param(0), {}}, {reach_param(2), {}}}, true}};
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<ReduceProblem>();
  return {is_floating(p.input) ? ArgumentKind{p.input} : integer_argument(p.input), {p.output}};
}

double operations_of(const KernelProblem&, const CallSizes& sizes) {
  return static_cast<double>(sizes.params[0]) * static_cast<double>(sizes.params[1]) *
         static_cast<double>(sizes.params[2]);
}

// Sums in f64. The bound is what as many additions round in f32, or in f64 in another order. Largest, least and sums of
// integers are exact.
Expected reduce_exactly(const ReduceProblem& p, const CallMemory& call, const std::vector<int64_t>& at) {
  const int64_t count = call.sizes().params[1];
  double sum = 0, product = 1, magnitude = 0, least = INFINITY, most = -INFINITY;
  uint64_t whole_sum = 0, whole_product = 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t offset = call.offset_of(0, std::array{at[0], i, at[1]});
    const double v = call.number(0, offset);
    if (!is_floating(p.input)) {
      const auto element = static_cast<uint64_t>(call.integer(0, offset));
      whole_sum += element, whole_product *= element;
    }
    sum += v, product *= v, magnitude += std::fabs(v), least = std::min(least, v), most = std::max(most, v);
  }
  const DType arithmetic = arithmetic_of(p), rounded = arithmetic == DType::f64 ? DType::f64 : DType::f32;
  const double n = static_cast<double>(count), f32_unit = arithmetic == DType::i64 ? 0 : sum_unit(n);
  const double unit = arithmetic == DType::f64 ? n * 0x1p-52 : f32_unit;
  if ((p.op == "sum" || p.op == "prod") && arithmetic == DType::i64)
    return as_element(p.output, static_cast<int64_t>(p.op == "sum" ? whole_sum : whole_product));
  if (p.op == "prod") return {product, unit * std::fabs(product) + half_ulp(rounded, product)};
  if (p.op == "amax" || p.op == "amin") return {p.op == "amax" ? most : least, 0};
  return p.op == "mean" ? Expected{sum / n, unit * magnitude / n + half_ulp(rounded, sum / n)}
                        : Expected{sum, unit * magnitude};
}

Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const auto& p = any.get<ReduceProblem>();
  std::vector<std::vector<Expected>> out(1);
  for (const int64_t point : points[0]) {
    const Expected e = reduce_exactly(p, call, call.index_of(1, point));  // outer, inner
    const double rounding = arithmetic_of(p) == DType::i64 ? 0 : half_ulp(p.output, e.want);
    out[0].push_back(within_range(p.output, e.want, e.bound + rounding));
  }
  return out;
}

}  // namespace

const KernelFamily kReduceFamily{
    .name = "reduce",
    .signature = signature_of<ReduceProblem>,
    .formula = formula_of,
    .comment = comment_of<ReduceProblem>,
    .reaches = reaches_of,
    .render = render_of<ReduceProblem, render_reduce>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .launch = launch_of<ReduceProblem, reduce_launch>,
};

}  // namespace qcg

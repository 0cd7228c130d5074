#include "codegen/scan/scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/reach_of.h"
#include "graph/ir/tensor.h"

namespace qcg {

std::string ScanProblem::signature() const {
  return fmt::format("scan {} in={} out={}", op, dtype_name(input), dtype_name(output));
}

namespace {

// Of an f64 output, logsumexp alone is computed in f32.
DType arithmetic_of(const ScanProblem& p) {
  if (!is_floating(p.output)) return DType::i64;
  return p.output == DType::f64 && has_number_type(p.input) && p.op != "logsumexp" ? DType::f64 : DType::f32;
}

}  // namespace

Result<std::string> render_scan(const ScanProblem& p, Isa isa, std::string_view symbol) {
  if (is_floating(p.output)) {
    QCG_CHECK(need_lanes("scan", p.input));
    QCG_CHECK(need_lanes("scan", p.output));
  }
  if (is_floating(p.input) && !is_floating(p.output))
    return Error::unsupported("scan", "a running sum or product of floats cannot be stored in integers",
                              "cast to integers before it");
  TemplateValue v = kernel_context(symbol, isa, "scan", p.signature(), p.comment);
  v["x"] = typed(p.input);
  v["y"] = typed(p.output);
  v["op"] = p.op;
  v["positions"] = p.has_positions();
  v["arithmetic"] = dtype_name(arithmetic_of(p));
  v["minus_infinity"] = on_device(isa) ? print_expr_cuda(Expr::number(-INFINITY), {}, {}) : float_literal(-INFINITY);
  if (on_device(isa)) add_device_context(v, size_t{2} + p.has_positions(), 3, scan_launch(p).threads);
  return render_kernel("scan", isa, v);
}

// A thread has one column.
CudaLaunch scan_launch(const ScanProblem&) {
  constexpr int kThreads = 64;
  return {.threads = kThreads, .rows = kThreads, .column_tiles = 1, .axes = {{0, 1}, {2, 1}}};
}

namespace {

std::string formula_of(const KernelProblem& any) { return fmt::format("cum{}(in0)", any.get<ScanProblem>().op); }

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<ScanProblem>();
  const std::vector<Reach::Axis> axes = {{reach_param(0), {}}, {reach_param(1), {}}, {reach_param(2), {}}};
  std::vector<Reach> out = {{bytes_of(p.input), axes, false}, {bytes_of(p.output), axes, true}};
  if (p.has_positions()) out.push_back({bytes_of(DType::i64), axes, true});
  return out;
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<ScanProblem>();
  std::vector<ArgumentKind> out = {is_floating(p.input)    ? ArgumentKind{p.input}
                                   : is_floating(p.output) ? integer_argument(p.input)
                                                           : wide_integer_argument(p.input),
                                   {p.output}};
  if (p.has_positions()) out.push_back({DType::i64});
  return out;
}

double operations_of(const KernelProblem&, const CallSizes& sizes) {
  return static_cast<double>(sizes.params[0]) * static_cast<double>(sizes.params[1]) *
         static_cast<double>(sizes.params[2]);
}

// Of one column, as far as it was scanned: points come in the order of memory.
struct Column {
  int64_t next = 0, whole = 0, place = 0;
  double value = 0, magnitude = 0;

  void take(std::string_view op, double v, int64_t integer, bool of_integers) {
    const auto a = static_cast<uint64_t>(whole), b = static_cast<uint64_t>(integer);
    magnitude += std::fabs(v);
    if (next == 0) whole = integer, value = v;
    else if (op == "sum") whole = static_cast<int64_t>(a + b), value += v;
    else if (op == "prod") whole = static_cast<int64_t>(a * b), value *= v;
    else if (op == "logsumexp") value = log_of_sum(value, v);
    else if (of_integers ? op == "max" ? integer >= whole : integer <= whole : replaces(op, v))
      whole = integer, value = v, place = next;
    ++next;
  }

 private:
  bool replaces(std::string_view op, double v) const {
    return std::isnan(v) || (!std::isnan(value) && (op == "max" ? v >= value : v <= value));
  }
  static double log_of_sum(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    const double most = std::max(a, b);
    return std::isfinite(most) ? most + std::log1p(std::exp(std::min(a, b) - most)) : most;
  }
};

// Off by what f32 rounds in exp, log1p and the last cast; sums and products are of f64, and extremes exact.
double bound_of(const ScanProblem& p, const Column& c) {
  if (p.has_positions()) return 0;
  const bool f64 = arithmetic_of(p) == DType::f64;
  const double rounding = half_ulp(f64 ? DType::f64 : DType::f32, c.value) + half_ulp(p.output, c.value);
  if (p.op != "logsumexp")
    return (f64 ? 0x1p-52 * static_cast<double>(c.next) : 0x1p-40) *
               (p.op == "sum" ? c.magnitude : std::fabs(c.value)) +
           rounding;
  return 0x1p-22 * static_cast<double>(c.next + 1) + 4 * rounding;
}

Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const auto& p = any.get<ScanProblem>();
  const bool of_integers = !is_floating(p.output);
  std::vector<std::vector<Expected>> out(points.size());
  for (size_t o = 0; o < points.size(); ++o) {
    std::map<std::pair<int64_t, int64_t>, Column> columns;
    for (const int64_t point : points[o]) {
      const std::vector<int64_t> at = call.index_of(1 + o, point);  // outer, axis, inner
      Column& c = columns[{at[0], at[2]}];
      while (c.next <= at[1]) {
        const int64_t offset = call.offset_of(0, std::array{at[0], c.next, at[2]});
        c.take(p.op, call.number(0, offset), is_floating(p.input) ? 0 : call.integer(0, offset), of_integers);
      }
      out[o].push_back(o == 1        ? Expected{static_cast<double>(c.place), 0}
                       : of_integers ? as_element(p.output, c.whole)
                                     : within_range(p.output, c.value, bound_of(p, c)));
    }
  }
  return out;
}

}  // namespace

const KernelFamily kScanFamily{
    .name = "scan",
    .signature = signature_of<ScanProblem>,
    .formula = formula_of,
    .comment = comment_of<ScanProblem>,
    .reaches = reaches_of,
    .render = render_of<ScanProblem, render_scan>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .launch = launch_of<ScanProblem, scan_launch>,
};

}  // namespace qcg

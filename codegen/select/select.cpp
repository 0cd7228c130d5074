#include "codegen/select/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/reach_of.h"

namespace qcg {

std::string SelectProblem::signature() const {
  return fmt::format("select {}{} in={}{}{}", descending ? "descending" : "ascending", nan_first ? " nan_first" : "",
                     dtype_name(dtype), values ? " values" : "", positions ? " positions" : "");
}

Result<std::string> render_select(const SelectProblem& p, Isa isa, std::string_view symbol) {
  if (is_floating(p.dtype)) QCG_CHECK(need_lanes("sort", p.dtype));
  if (p.dtype == DType::u64)
    return Error::unsupported("sort", "u64 has no kernel that sorts it", "cast to i64 before it");
  TemplateValue v = kernel_context(symbol, isa, "rows in order", p.signature(), p.comment);
  v["x"] = typed(p.dtype);
  v["floats"] = is_floating(p.dtype);
  v["descending"] = p.descending;
  v["nan_first"] = p.nan_first;
  v["values"] = p.values;
  v["positions"] = p.positions;
  v["positions_arg"] = p.values ? 2 : 1;
  if (on_device(isa)) add_device_context(v, size_t{1} + p.values + p.positions, 3, select_launch(p).threads);
  return render_kernel("select", isa, v);
}

// A block has as many elements of a row as threads.
CudaLaunch select_launch(const SelectProblem&) {
  constexpr int kThreads = 256;
  return {.threads = kThreads, .rows = 1, .column_tiles = 1, .axes = {{0, 1}, {1, kThreads}}};
}

namespace {

std::string formula_of(const KernelProblem& any) {
  return any.get<SelectProblem>().descending ? "descending(in0)" : "ascending(in0)";
}

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<SelectProblem>();
  std::vector<Reach> out = {{bytes_of(p.dtype), {{reach_param(0), {}}, {reach_param(1), {}}}, false}};
  const std::vector<Reach::Axis> axes = {{reach_param(0), {}}, {reach_param(2), {}}};
  if (p.values) out.push_back({bytes_of(p.dtype), axes, true});
  if (p.positions) out.push_back({bytes_of(DType::i64), axes, true});
  return out;
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<SelectProblem>();
  std::vector<ArgumentKind> out = {is_floating(p.dtype) ? ArgumentKind{p.dtype} : wide_integer_argument(p.dtype)};
  if (p.values) out.push_back({p.dtype});
  if (p.positions) out.push_back({DType::i64});
  return out;
}

double operations_of(const KernelProblem&, const CallSizes& sizes) {
  const double n = static_cast<double>(sizes.params[1]);
  return static_cast<double>(sizes.params[0]) * n * std::max(1.0, std::log2(n));
}

bool comes_before(const SelectProblem& p, double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return p.nan_first || p.descending ? std::isnan(a) && !std::isnan(b) : !std::isnan(a) && std::isnan(b);
  return p.descending ? a > b : a < b;
}

// The positions of one row in order.
std::vector<int64_t> order_of(const SelectProblem& p, const CallMemory& call, int64_t row) {
  std::vector<int64_t> order(static_cast<size_t>(call.sizes().params[1]));
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int64_t i) { return call.offset_of(0, std::array{row, i}); };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (is_floating(p.dtype)) return comes_before(p, call.number(0, at(a)), call.number(0, at(b)));
    const int64_t x = call.integer(0, at(a)), y = call.integer(0, at(b));
    return p.descending ? x > y : x < y;
  });
  return order;
}

Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const auto& p = any.get<SelectProblem>();
  std::map<int64_t, std::vector<int64_t>> orders;
  std::vector<std::vector<Expected>> out(points.size());
  for (size_t o = 0; o < points.size(); ++o)
    for (const int64_t point : points[o]) {
      const std::vector<int64_t> at = call.index_of(1 + o, point);
      if (!orders.contains(at[0])) orders[at[0]] = order_of(p, call, at[0]);
      const int64_t position = orders[at[0]][static_cast<size_t>(at[1])];
      const bool value = p.values && o == 0;
      out[o].push_back(
          {value ? call.number(0, call.offset_of(0, std::array{at[0], position})) : static_cast<double>(position), 0});
    }
  return out;
}

}  // namespace

const KernelFamily kSelectFamily{
    .name = "select",
    .signature = signature_of<SelectProblem>,
    .formula = formula_of,
    .comment = comment_of<SelectProblem>,
    .reaches = reaches_of,
    .render = render_of<SelectProblem, render_select>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .launch = launch_of<SelectProblem, select_launch>,
};

}  // namespace qcg

#include "codegen/scan/scan.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/reach_of.h"
#include "graph/ir/tensor.h"

namespace qcg {

std::string ScanProblem::signature() const {
  return fmt::format("scan sum in={} out={}", dtype_name(input), dtype_name(output));
}

Result<std::string> render_scan(const ScanProblem& p, Isa isa, std::string_view symbol) {
  if (is_floating(p.output)) {
    QCG_CHECK(need_lanes("running sum", p.input));
    QCG_CHECK(need_lanes("running sum", p.output));
  }
  if (is_floating(p.input) && !is_floating(p.output))
    return Error::unsupported("running sum", "a running sum of floats cannot be stored in integers",
                              "cast to integers before it");
  TemplateValue v = kernel_context(symbol, isa, "running sum", p.signature(), p.comment);
  v["x"] = typed(p.input);
  v["y"] = typed(p.output);
  v["integers"] = !is_floating(p.output);
  if (on_device(isa)) add_device_context(v, 2, 3, scan_launch(p).threads);
  return render_kernel("scan", isa, v);
}

// A thread has one column.
CudaLaunch scan_launch(const ScanProblem&) {
  constexpr int kThreads = 64;
  return {.threads = kThreads, .rows = kThreads, .column_tiles = 1, .axes = {{0, 1}, {2, 1}}};
}

namespace {

std::string formula_of(const KernelProblem&) { return "cumsum(in0)"; }

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<ScanProblem>();
  const std::vector<Reach::Axis> axes = {{reach_param(0), {}}, {reach_param(1), {}}, {reach_param(2), {}}};
  return {{bytes_of(p.input), axes, false}, {bytes_of(p.output), axes, true}};
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<ScanProblem>();
  return {is_floating(p.input)    ? ArgumentKind{p.input}
          : is_floating(p.output) ? integer_argument(p.input)
                                  : wide_integer_argument(p.input),
          {p.output}};
}

double operations_of(const KernelProblem&, const CallSizes& sizes) {
  return static_cast<double>(sizes.params[0]) * static_cast<double>(sizes.params[1]) *
         static_cast<double>(sizes.params[2]);
}

// Of one column, as far as it was summed: points come in the order of memory.
struct Column {
  int64_t next = 0, whole = 0;
  double sum = 0, magnitude = 0;
};

Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const auto& p = any.get<ScanProblem>();
  std::map<std::pair<int64_t, int64_t>, Column> columns;
  std::vector<std::vector<Expected>> out(1);
  for (const int64_t point : points[0]) {
    const std::vector<int64_t> at = call.index_of(1, point);  // outer, axis, inner
    Column& c = columns[{at[0], at[2]}];
    for (; c.next <= at[1]; ++c.next) {
      const int64_t offset = call.offset_of(0, std::array{at[0], c.next, at[2]});
      if (!is_floating(p.input))
        c.whole = static_cast<int64_t>(static_cast<uint64_t>(c.whole) + static_cast<uint64_t>(call.integer(0, offset)));
      const double v = call.number(0, offset);
      c.sum += v, c.magnitude += std::fabs(v);
    }
    if (is_floating(p.output)) {
      const double bound = 0x1p-40 * c.magnitude + half_ulp(DType::f32, c.sum) + half_ulp(p.output, c.sum);
      out[0].push_back(within_range(p.output, c.sum, bound));
      continue;
    }
    std::byte element[8];
    int_to_element(p.output, c.whole, element);
    out[0].push_back({static_cast<double>(element_to_int(p.output, element)), 0});
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

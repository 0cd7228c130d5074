#include "codegen/bags/bags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/reach_of.h"

namespace qcg {

namespace {

constexpr std::string_view kModes[] = {"sum", "mean", "max"};
enum BagsParam : size_t { kBags, kWidth, kIds, kOffsets, kEnds, kSize, kTableStride, kOutputStride, kPadding };

std::string_view name_of(BagMode mode) { return kModes[static_cast<size_t>(mode)]; }

}  // namespace

std::string BagsProblem::signature() const {
  return fmt::format("bags {} table={} offsets={} ids={}{}", name_of(mode), dtype_name(table), dtype_name(offsets),
                     dtype_name(ids), weights ? fmt::format(" weights={}", dtype_name(*weights)) : "");
}

Result<std::string> render_bags(const BagsProblem& p, Isa isa, std::string_view symbol) {
  QCG_CHECK(need_float("bag of embeddings", p.table));
  if (p.weights) QCG_CHECK(need_float("bag of embeddings", *p.weights));
  TemplateValue v = kernel_context(symbol, isa, "bags of embeddings", p.signature(), p.comment);
  v["table"] = typed(p.table);
  v["offsets"] = typed(p.offsets);
  v["ids"] = typed(p.ids);
  v["weighted"] = p.weights.has_value();
  v["weights"] = typed(p.weights.value_or(p.table));
  v["y_arg"] = p.weights ? 4 : 3;
  v["mode"] = name_of(p.mode);
  if (on_device(isa)) add_device_context(v, p.weights ? 5 : 4, kPadding + 1, bags_launch(p).threads);
  return render_kernel("bags", isa, v);
}

// A thread has one column of one bag.
CudaLaunch bags_launch(const BagsProblem&) {
  constexpr int kThreads = 128;
  return {.threads = kThreads, .rows = kThreads, .column_tiles = 1, .axes = {{kBags, 1}, {kWidth, 1}}};
}

namespace {

std::string formula_of(const KernelProblem& any) {
  const auto& p = any.get<BagsProblem>();
  return fmt::format("{} of in0[in2]{} by in1", name_of(p.mode), p.weights ? "·in3" : "");
}

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<BagsProblem>();
  const Reach::Axis width = {reach_param(kWidth), reach_constant(1)};
  std::vector<Reach> out;
  // A row of the table for each of the ids, wherever it lies.
  out.push_back({bytes_of(p.table),
                 {{reach_param(kIds), reach_constant(0)}, {reach_param(kSize), reach_param(kTableStride)}, width}});
  out.push_back({bytes_of(p.offsets), {{reach_param(kOffsets), reach_constant(1)}}});
  out.back().positions = {reach_param(kEnds), false, true};
  out.push_back({bytes_of(p.ids), {{reach_param(kIds), reach_constant(1)}}});
  out.back().positions = {reach_param(kSize), false, false};
  if (p.weights) out.push_back({bytes_of(*p.weights), {{reach_param(kIds), reach_constant(1)}}});
  out.push_back({bytes_of(p.table), {{reach_param(kBags), reach_param(kOutputStride)}, width}, true});
  return out;
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<BagsProblem>();
  std::vector<ArgumentKind> out = {{p.table}, {p.offsets}, {p.ids}};
  if (p.weights) out.push_back({*p.weights});
  out.push_back({p.table});
  return out;
}

double operations_of(const KernelProblem& any, const CallSizes& sizes) {
  const double each = any.get<BagsProblem>().weights ? 2 : 1;
  return each * static_cast<double>(sizes.params[kIds]) * static_cast<double>(sizes.params[kWidth]);
}

Expected reduce_bag(const BagsProblem& p, const CallMemory& call, int64_t bag, int64_t column) {
  const std::vector<int64_t>& params = call.sizes().params;
  const int64_t begin = call.integer(1, bag);
  const int64_t end = bag + 1 < params[kOffsets] ? call.integer(1, bag + 1) : params[kIds];
  double sum = 0, magnitude = 0, most = -INFINITY, count = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t id = call.integer(2, i);
    if (id == params[kPadding]) continue;
    const double weight = p.weights ? call.number(3, i) : 1;
    const double v = weight * call.number(0, id * params[kTableStride] + column);
    sum += v, magnitude += std::fabs(v), most = std::max(most, v), ++count;
  }
  if (count == 0) return {0, 0};
  if (p.mode == BagMode::max) return {most, 0};
  const double by = p.mode == BagMode::mean ? count : 1, unit = sum_unit(count);
  return {sum / by, unit * magnitude / by + (by == 1 ? 0 : half_ulp(DType::f32, sum / by))};
}

Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const auto& p = any.get<BagsProblem>();
  std::vector<std::vector<Expected>> out(1);
  for (const int64_t point : points[0]) {
    const std::vector<int64_t> at = call.index_of(p.weights ? 4 : 3, point);  // bag, column
    const Expected e = reduce_bag(p, call, at[0], at[1]);
    out[0].push_back(within_range(p.table, e.want, e.bound + half_ulp(p.table, e.want)));
  }
  return out;
}

}  // namespace

const KernelFamily kBagsFamily{
    .name = "bags",
    .signature = signature_of<BagsProblem>,
    .formula = formula_of,
    .comment = comment_of<BagsProblem>,
    .reaches = reaches_of,
    .render = render_of<BagsProblem, render_bags>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .launch = launch_of<BagsProblem, bags_launch>,
};

}  // namespace qcg

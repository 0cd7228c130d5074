#include "codegen/gather/gather.h"

#include <fmt/format.h>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/reach_of.h"

namespace qcg {

namespace {

PositionParams params_of(const GatherProblem& p) { return {p.rank, p.ids.size()}; }

}  // namespace

std::string GatherProblem::signature() const {
  return fmt::format("gather rank={} table={} ids=[{}]{}", rank, dtype_name(dtype), describe_positions(ids),
                     rows ? " rows" : "");
}

Result<std::string> render_gather(const GatherProblem& p, Isa isa, std::string_view symbol) {
  TemplateValue v = kernel_context(symbol, isa, "look-up", p.signature(), p.comment);
  QCG_CHECK(add_positions(v, "gather", p.rank, p.ids));
  v["rows"] = p.rows;
  v["type"] = bytes_type(p.dtype);
  if (on_device(isa)) {
    const CudaLaunch launch = gather_launch(p);
    v["width"] = launch.axes.back().piece;
    add_device_context(v, p.ids.size() + 2, params_of(p).size(p.ids.size()), launch.threads);
  }
  return render_kernel("gather", isa, v);
}

// A thread moves a few elements of the last axis where they share positions.
CudaLaunch gather_launch(const GatherProblem& p) {
  constexpr int kThreads = 256, kWidth = 4;
  CudaLaunch out{.threads = kThreads, .rows = kThreads, .column_tiles = 1, .axes = {}};
  for (int axis = 0; axis < p.rank; ++axis) out.axes.push_back({axis, 1});
  if (p.rows) out.axes.back().piece = kWidth;
  return out;
}

namespace {

std::string formula_of(const KernelProblem& any) {
  return fmt::format("in0[{}]", names_of_positions(any.get<GatherProblem>().ids));
}

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<GatherProblem>();
  const PositionParams at = params_of(p);
  const auto axes_of = [&](size_t arg, size_t count) {
    std::vector<Reach::Axis> axes;
    for (size_t axis = 0; axis < count; ++axis)
      axes.push_back({reach_param(axis), reach_param(at.strides(arg) + axis)});
    return axes;
  };
  std::vector<Reach> out = {{bytes_of(p.dtype), axes_of(0, at.rank)}};
  for (size_t j = 0; j < p.ids.size(); ++j) {
    out[0].axes.push_back({reach_param(at.size(j)), reach_param(at.step(j))});
    Reach& ids = out.emplace_back(Reach{bytes_of(p.ids[j].dtype), axes_of(j + 1, at.rank - (p.rows ? 1 : 0))});
    ids.positions = {reach_param(at.size(j)), p.ids[j].from_end, false};
  }
  out.push_back({bytes_of(p.dtype), axes_of(at.y(), at.rank), true});
  return out;
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<GatherProblem>();
  return position_arguments(p.dtype, p.ids);
}

double operations_of(const KernelProblem&, const CallSizes&) { return 0; }

Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const auto& p = any.get<GatherProblem>();
  const std::vector<int64_t>& params = call.sizes().params;
  const PositionParams at = params_of(p);
  std::vector<std::vector<Expected>> out(1);
  for (const int64_t point : points[0]) {
    const std::vector<int64_t> index = call.index_of(at.y(), point);
    int64_t from = 0;
    for (size_t axis = 0; axis < at.rank; ++axis) from += index[axis] * params[at.strides(0) + axis];
    for (size_t j = 0; j < p.ids.size(); ++j) from += position_at(call, at, j, index) * params[at.step(j)];
    out[0].push_back({call.number(0, from), 0});
  }
  return out;
}

}  // namespace

const KernelFamily kGatherFamily{
    .name = "gather",
    .signature = signature_of<GatherProblem>,
    .formula = formula_of,
    .comment = comment_of<GatherProblem>,
    .reaches = reaches_of,
    .render = render_of<GatherProblem, render_gather>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .launch = launch_of<GatherProblem, gather_launch>,
};

}  // namespace qcg

#include "codegen/scatter/scatter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/reach_of.h"

namespace qcg {

namespace {

PositionParams params_of(const ScatterProblem& p) { return {p.rank, p.ids.size()}; }

// What a block of a device writes: at so many positions, so many elements of the last axis.
struct Piece {
  int positions, elements;
};
constexpr int kThreads = 256;
Piece piece_of(const ScatterProblem& p) { return p.rows ? Piece{8, 512} : Piece{kThreads, 1}; }

// Blocks compare all positions with their own up to here; the work grows with the square.
constexpr int kMostCompared = 65536;

}  // namespace

std::string ScatterProblem::signature() const {
  return fmt::format("scatter rank={} free={} y={} ids=[{}] moves=[{}]{}", rank, free, dtype_name(dtype),
                     describe_positions(ids), fmt::join(moves, ", "), rows ? " rows" : "") +
         (combine.empty() ? "" : fmt::format(" {}", combine));
}

Result<std::string> render_scatter(const ScatterProblem& p, Isa isa, std::string_view symbol) {
  TemplateValue v = kernel_context(symbol, isa, "write at positions", p.signature(), p.comment);
  QCG_CHECK(add_positions(v, "scatter", p.rank, p.ids));
  v["free"] = p.free;
  v["last"] = p.rank - (p.rows ? 1 : 0);
  v["rows"] = p.rows;
  const bool compares = p.combine == "amax" || p.combine == "amin", floats = is_floating(p.dtype);
  v["combine"] = p.combine;
  v["floats"] = floats;
  v["type"] = compares || (!p.combine.empty() && floats) ? dtype_info(p.dtype).cpp : bytes_type(p.dtype);
  const Piece piece = piece_of(p);
  v["group"] = piece.positions;
  v["piece"] = piece.elements;
  v["many"] = kMostCompared;
  if (on_device(isa))
    add_device_context(v, p.ids.size() + 2, params_of(p).size(p.ids.size()), scatter_launch(p).threads);
  return render_kernel("scatter", isa, v);
}

CudaLaunch scatter_launch(const ScatterProblem& p) {
  CudaLaunch out{.threads = kThreads, .rows = 1, .column_tiles = 1, .axes = {}};
  const Piece piece = piece_of(p);
  const int last = p.rank - (p.rows ? 1 : 0);
  for (int axis = 0; axis < last; ++axis)
    out.axes.push_back({axis, axis >= p.free && axis == last - 1 ? piece.positions : 1});
  if (p.rows) out.axes.push_back({last, piece.elements});
  return out;
}

namespace {

std::string formula_of(const KernelProblem& any) {
  const auto& p = any.get<ScatterProblem>();
  const std::string combine = p.combine == "sum" ? "+" : p.combine == "prod" ? "*" : std::string(p.combine);
  return fmt::format("out[{}] {}= in0", names_of_positions(p.ids), combine);
}

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<ScatterProblem>();
  const PositionParams at = params_of(p);
  const auto axis_of = [&](size_t arg, size_t axis) {
    return Reach::Axis{reach_param(axis), reach_param(at.strides(arg) + axis)};
  };
  std::vector<Reach> out = {{bytes_of(p.dtype), {}}};
  for (size_t axis = 0; axis < at.rank; ++axis) out[0].axes.push_back(axis_of(0, axis));
  Reach y{bytes_of(p.dtype), {}, true};
  for (const int axis : p.moves) y.axes.push_back(axis_of(at.y(), static_cast<size_t>(axis)));
  for (size_t j = 0; j < p.ids.size(); ++j) {
    Reach& ids = out.emplace_back(Reach{bytes_of(p.ids[j].dtype), {}});
    for (size_t axis = static_cast<size_t>(p.free); axis + (p.rows ? 1 : 0) < at.rank; ++axis)
      ids.axes.push_back(axis_of(j + 1, axis));
    ids.positions = {reach_param(at.size(j)), p.ids[j].from_end, false};
    y.axes.push_back({reach_param(at.size(j)), reach_param(at.step(j))});
  }
  out.push_back(std::move(y));
  return out;
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<ScatterProblem>();
  std::vector<ArgumentKind> out = position_arguments(p.dtype, p.ids);
  out.back().updated = true;
  return out;
}

double operations_of(const KernelProblem&, const CallSizes&) { return 0; }

// What a call writes: by index in the axes of y's reach, the elements of x that are written there, in order.
std::map<std::vector<int64_t>, std::vector<int64_t>> find_writes_of(const ScatterProblem& p, const CallMemory& call) {
  const PositionParams at = params_of(p);
  std::map<std::vector<int64_t>, std::vector<int64_t>> out;
  for (int64_t i = 0; i < call.elements(0); ++i) {
    const std::vector<int64_t> index = call.index_of(0, i);
    std::vector<int64_t> place;
    for (const int axis : p.moves) place.push_back(index[static_cast<size_t>(axis)]);
    for (size_t j = 0; j < p.ids.size(); ++j) place.push_back(position_at(call, at, j, index));
    out[std::move(place)].push_back(call.offset_of(0, index));
  }
  return out;
}

// Integers that leave what doubles hold exactly, or wrap, may be anything.
Expected combine(const ScatterProblem& p, double sum, const std::vector<double>& added) {
  double size = std::abs(sum);
  for (const double x : added) {
    if (p.combine == "sum") sum += x, size += std::abs(x);
    else if (p.combine == "prod") sum *= x, size *= std::max(1.0, std::abs(x));
    else sum = std::isnan(x) || (p.combine == "amax" ? x > sum : x < sum) ? x : sum;
  }
  if (p.combine == "amax" || p.combine == "amin") return {sum, 0};
  if (is_floating(p.dtype)) return within_range(p.dtype, sum, (1.0 + added.size()) * half_ulp(p.dtype, size));
  const bool fits = size < std::ldexp(1.0, std::min<int>(53, static_cast<int>(dtype_bytes(p.dtype)) * 8 - 1));
  return {sum, fits ? 0 : HUGE_VAL};
}

Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const auto& p = any.get<ScatterProblem>();
  const size_t y = params_of(p).y();
  const auto writes = find_writes_of(p, call);
  std::vector<std::vector<Expected>> out(1);
  for (const int64_t point : points[0]) {
    const std::vector<int64_t> place = call.index_of(y, point);
    const auto write = writes.find(place);
    const double before = call.number(y, call.offset_of(y, place));
    if (write == writes.end()) {
      out[0].push_back({before, 0});
    } else if (!p.combine.empty()) {
      std::vector<double> added;
      for (const int64_t from : write->second) added.push_back(call.number(0, from));
      out[0].push_back(combine(p, before, added));
    } else {
      out[0].push_back({call.number(0, write->second.back()), 0});
    }
  }
  return out;
}

OutputPoints changed_by(const KernelProblem& any, const CallMemory& call) {
  const auto& p = any.get<ScatterProblem>();
  OutputPoints out(1);
  const std::vector<int64_t>& extents = call.extents(params_of(p).y());
  for (const auto& [place, from] : find_writes_of(p, call)) {
    int64_t element = 0;
    for (size_t axis = 0; axis < place.size(); ++axis) element = element * extents[axis] + place[axis];
    out[0].push_back(element);
  }
  return out;
}

}  // namespace

const KernelFamily kScatterFamily{
    .name = "scatter",
    .signature = signature_of<ScatterProblem>,
    .formula = formula_of,
    .comment = comment_of<ScatterProblem>,
    .reaches = reaches_of,
    .render = render_of<ScatterProblem, render_scatter>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .changes = changed_by,
    .launch = launch_of<ScatterProblem, scatter_launch>,
};

}  // namespace qcg

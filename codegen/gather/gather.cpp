#include "codegen/gather/gather.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/reach_of.h"

namespace qcg {

namespace {

using V = TemplateValue;

// Where params hold what.
struct GatherParams {
  size_t rank, ids;
  explicit GatherParams(const GatherProblem& p) : rank(static_cast<size_t>(p.rank)), ids(p.ids.size()) {}
  size_t strides(size_t arg) const { return rank * (arg + 1); }
  size_t size(size_t j) const { return rank * (ids + 3) + 2 * j; }
  size_t step(size_t j) const { return size(j) + 1; }
};

}  // namespace

std::string GatherProblem::signature() const {
  std::vector<std::string> positions;
  for (const Ids& i : ids) positions.push_back(fmt::format("{}{}", dtype_name(i.dtype), i.from_end ? " from end" : ""));
  return fmt::format("gather rank={} table={} ids=[{}]{}", rank, dtype_name(dtype), fmt::join(positions, ", "),
                     rows ? " rows" : "");
}

Result<std::string> render_gather(const GatherProblem& p, Isa isa, std::string_view symbol) {
  if (p.rank < 1 || p.ids.empty()) return Error::internal("gather", "a GatherProblem without axes or positions");
  for (const GatherProblem::Ids& i : p.ids)
    if (i.dtype != DType::i32 && i.dtype != DType::i64)
      return Error::unsupported("gather", fmt::format("positions of {} have no kernel", dtype_name(i.dtype)),
                                "cast them to i64");
  const GatherParams at(p);
  V v = kernel_context(symbol, isa, "look-up", p.signature(), p.comment);
  v["rank"] = p.rank;
  v["rows"] = p.rows;
  v["type"] = bytes_type(p.dtype);
  std::vector<V> ids;
  for (size_t j = 0; j < p.ids.size(); ++j) {
    V i;
    i["type"] = dtype_info(p.ids[j].dtype).cpp;
    i["arg"] = j + 1;
    i["strides"] = at.strides(j + 1);
    i["size"] = at.size(j);
    i["step"] = at.step(j);
    i["from_end"] = p.ids[j].from_end ? "true" : "false";
    ids.push_back(std::move(i));
  }
  v["ids"] = V::from_items(std::move(ids));
  v["y_arg"] = p.ids.size() + 1;
  v["y_strides"] = at.strides(p.ids.size() + 1);
  return render_template("cpu/gather.cpp.j2", v);
}

namespace {

std::string formula_of(const KernelProblem& any) {
  std::vector<std::string> names;
  for (size_t j = 0; j < any.get<GatherProblem>().ids.size(); ++j) names.push_back(fmt::format("in{}", j + 1));
  return fmt::format("in0[{}]", fmt::join(names, ", "));
}

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<GatherProblem>();
  const GatherParams at(p);
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
  out.push_back({bytes_of(p.dtype), axes_of(p.ids.size() + 1, at.rank), true});
  return out;
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<GatherProblem>();
  std::vector<ArgumentKind> out = {is_floating(p.dtype) ? ArgumentKind{p.dtype} : integer_argument(p.dtype)};
  for (const GatherProblem::Ids& i : p.ids) out.push_back({i.dtype});
  out.push_back({p.dtype});
  return out;
}

double operations_of(const KernelProblem&, const CallSizes&) { return 0; }

Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const auto& p = any.get<GatherProblem>();
  const std::vector<int64_t>& params = call.sizes().params;
  const GatherParams at(p);
  std::vector<std::vector<Expected>> out(1);
  for (const int64_t point : points[0]) {
    const std::vector<int64_t> index = call.index_of(p.ids.size() + 1, point);
    const auto offset = [&](size_t arg) {
      int64_t sum = 0;
      for (size_t axis = 0; axis < at.rank; ++axis) sum += index[axis] * params[at.strides(arg) + axis];
      return sum;
    };
    int64_t from = offset(0);
    for (size_t j = 0; j < p.ids.size(); ++j) {
      const int64_t id = call.integer(j + 1, offset(j + 1));
      from += (id < 0 ? id + params[at.size(j)] : id) * params[at.step(j)];
    }
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
};

}  // namespace qcg

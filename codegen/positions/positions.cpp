#include "codegen/positions/positions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/check/call_memory.h"

namespace qcg {

std::string describe_positions(const std::vector<Positions>& ids) {
  std::vector<std::string> texts;
  for (const Positions& i : ids)
    texts.push_back(fmt::format("{}{}", dtype_name(i.dtype), i.from_end ? " from end" : ""));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string names_of_positions(const std::vector<Positions>& ids) {
  std::vector<std::string> names;
  for (size_t j = 0; j < ids.size(); ++j) names.push_back(fmt::format("in{}", j + 1));
  return fmt::format("{}", fmt::join(names, ", "));
}

Status add_positions(TemplateValue& v, std::string_view kernel, int rank, const std::vector<Positions>& ids) {
  if (rank < 1 || ids.empty()) return Error::internal(std::string(kernel), "a problem without axes or positions");
  const PositionParams at(rank, ids.size());
  std::vector<TemplateValue> out;
  for (size_t j = 0; j < ids.size(); ++j) {
    if (ids[j].dtype != DType::i32 && ids[j].dtype != DType::i64)
      return Error::unsupported(std::string(kernel),
                                fmt::format("positions of {} have no kernel", dtype_name(ids[j].dtype)),
                                "cast them to i64");
    out.push_back(TemplateValue::dict({{"type", dtype_info(ids[j].dtype).cpp},
                                       {"arg", j + 1},
                                       {"strides", at.strides(j + 1)},
                                       {"size", at.size(j)},
                                       {"step", at.step(j)},
                                       {"from_end", ids[j].from_end ? "true" : "false"}}));
  }
  v["rank"] = rank;
  v["ids"] = TemplateValue::from_items(std::move(out));
  v["y_arg"] = at.y();
  v["y_strides"] = at.strides(at.y());
  return {};
}

std::vector<ArgumentKind> position_arguments(DType dtype, const std::vector<Positions>& ids) {
  const ArgumentKind items = is_floating(dtype) ? ArgumentKind{dtype} : integer_argument(dtype);
  std::vector<ArgumentKind> out = {items};
  for (const Positions& i : ids) out.push_back({i.dtype});
  out.push_back(items);
  return out;
}

int64_t position_at(const CallMemory& call, const PositionParams& at, size_t j, const std::vector<int64_t>& index) {
  const std::vector<int64_t>& params = call.sizes().params;
  int64_t offset = 0;
  for (size_t axis = 0; axis < at.rank; ++axis) offset += index[axis] * params[at.strides(j + 1) + axis];
  const int64_t id = call.integer(j + 1, offset);
  return id < 0 ? id + params[at.size(j)] : id;
}

}  // namespace qcg

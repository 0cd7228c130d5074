// as_strided that leaves its tensor as it is: decomposed pooling writes it, to change strides of axes of size 1.
//
// Why no shape rule: what as_strided reads depends on the strides of its tensor, which the IR does not have.
#include "graph/read/torch/export_reader.h"
#include "graph/read/torch/meta.h"
#include "graph/read/torch/operators.h"

namespace qcg {
namespace {

// Precondition: as many sizes as strides of each.
bool is_same_layout(const std::vector<Dim>& sizes, const std::vector<Dim>& a, const std::vector<Dim>& b) {
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (!sizes[axis].is_constant(1) && !(a[axis] == b[axis])) return false;
  return true;
}

}  // namespace

Status TorchExportReader::check_as_strided(const JsonCursor& node) const {
  QCG_TRY(inputs, node.array_at("inputs"));
  std::vector<Dim> sizes, strides, new_sizes, new_strides;
  Dim offset = 0;
  std::optional<Dim> new_offset;
  for (JsonCursor input : inputs) {
    QCG_TRY(name, input.string_at("name"));
    QCG_TRY(argument, input.at("arg"));
    QCG_TRY(value, read_union(argument));
    if (name == "self") {
      QCG_TRY(self, value.string_at("name"));
      QCG_TRY(meta, find_meta(value, self));
      QCG_TRY(size_list, meta.array_at("sizes"));
      QCG_TRY(stride_list, meta.array_at("strides"));
      QCG_TRY(of_self, read_sizes(size_list));
      QCG_TRY(strides_of_self, read_sizes(stride_list));
      sizes = std::move(of_self), strides = std::move(strides_of_self);
      if (auto at = meta.find("storage_offset")) {
        QCG_TRY(offset_of_self, read_sym_int(*at));
        offset = std::move(offset_of_self);
      }
    } else if (name == "size" || name == "stride") {
      QCG_TRY(arg, read_torch_arg(argument, {.name = std::string(name), .kind = ArgKind::integers}, scope_));
      (name == "size" ? new_sizes : new_strides) = *arg.get<std::vector<Dim>>();
    } else if (value.key() != "as_none") {
      QCG_TRY(given, read_torch_arg(argument, {.name = std::string(name), .kind = ArgKind::integer}, scope_));
      new_offset = *given.get<Dim>();
    }
  }
  const bool is_whole = sizes.size() == strides.size() && new_sizes.size() == new_strides.size();
  if (is_whole && sizes == new_sizes && (!new_offset || *new_offset == offset) &&
      is_same_layout(sizes, strides, new_strides))
    return {};
  return node.unsupported("as_strided reads its tensor in another order",
                          "write it with unfold, reshape, transpose or slices: what as_strided reads depends on how "
                          "its tensor lies in memory");
}

}  // namespace qcg

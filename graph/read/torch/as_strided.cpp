// as_strided: elements of a tensor by their places in its memory, as windows that overlap (frames of a waveform, chunks
// of a sequence).
//
// Why no shape rule: what as_strided reads depends on the strides of its tensor, which the IR does not have. It becomes
// the windows that are meant, which are views:
//
//   as_strided(x[400], [3, 200], [100, 1])  ->  unfold(x[0:400], size 200, step 100)
#include <fmt/format.h>

#include "graph/ops/infer.h"
#include "graph/read/torch/export_reader.h"
#include "graph/read/torch/meta.h"
#include "graph/read/torch/operators.h"

namespace qcg {
namespace {

constexpr size_t kMostConditions = 256;  // of a graph: each is compared with every size that a rule asks for

// Where the elements of a tensor are in memory, in elements.
struct Placement {
  std::vector<Dim> sizes, strides;
  Dim offset = 0;
};

// Strides of axes of size 1 are free.
bool is_same_place(const Placement& a, const Placement& b) {
  if (a.sizes != b.sizes || a.offset != b.offset) return false;
  for (size_t axis = 0; axis < a.sizes.size(); ++axis)
    if (!a.sizes[axis].is_constant(1) && a.strides[axis] != b.strides[axis]) return false;
  return true;
}

// The axes of a tensor without gaps, in the order of memory: the last one is contiguous. nullopt: it has gaps.
std::optional<std::vector<Dim>> memory_order_of(const Placement& x) {
  std::vector<Dim> order;
  std::vector<bool> placed(x.sizes.size());
  Dim elements = 1;
  for (size_t done = 0; done < x.sizes.size(); ++done) {
    size_t axis = x.sizes.size();
    while (axis > 0 && (placed[axis - 1] || (!x.sizes[axis - 1].is_constant(1) && x.strides[axis - 1] != elements)))
      --axis;
    if (axis == 0) return std::nullopt;
    placed[axis - 1] = true;
    elements = elements * x.sizes[axis - 1];
    order.insert(order.begin(), Dim(static_cast<int64_t>(axis - 1)));
  }
  return order;
}

// Elements from the first that `x` reads to the last, with both.
Dim extent_of(const Placement& x, size_t first_axis) {
  Dim extent = 1;
  for (size_t axis = first_axis; axis < x.sizes.size(); ++axis)
    extent = extent + (x.sizes[axis] - Dim(1)) * x.strides[axis];
  return extent;
}

}  // namespace

Result<ValueId> TorchExportReader::read_as_strided(const JsonCursor& node, const std::string& where) {
  const auto refused = [&] {
    return node.unsupported("as_strided reads its tensor in another order",
                            "write it with unfold, reshape, transpose or slices: what as_strided reads depends on how "
                            "its tensor lies in memory");
  };
  QCG_TRY(inputs, node.array_at("inputs"));
  Placement self, wanted;
  std::optional<Dim> wanted_offset;
  ValueId x = kNoValue;
  for (JsonCursor input : inputs) {
    QCG_TRY(name, input.string_at("name"));
    QCG_TRY(argument, input.at("arg"));
    QCG_TRY(value, read_union(argument));
    if (name == "self") {
      QCG_TRY(tensor, read_tensor_name(value, scope_));
      x = tensor;
      QCG_TRY(self_name, value.string_at("name"));
      QCG_TRY(meta, find_meta(value, self_name));
      QCG_TRY(size_list, meta.array_at("sizes"));
      QCG_TRY(stride_list, meta.array_at("strides"));
      QCG_TRY(sizes, read_sizes(size_list));
      QCG_TRY(strides, read_sizes(stride_list));
      self.sizes = std::move(sizes), self.strides = std::move(strides);
      if (auto at = meta.find("storage_offset")) {
        QCG_TRY(offset, read_sym_int(*at));
        self.offset = std::move(offset);
      }
    } else if (name == "size" || name == "stride") {
      QCG_TRY(arg, read_torch_arg(argument, {.name = std::string(name), .kind = ArgKind::integers}, scope_));
      (name == "size" ? wanted.sizes : wanted.strides) = *arg.get<std::vector<Dim>>();
    } else if (value.key() != "as_none") {
      QCG_TRY(given, read_torch_arg(argument, {.name = std::string(name), .kind = ArgKind::integer}, scope_));
      wanted_offset = *given.get<Dim>();
    }
  }
  wanted.offset = wanted_offset.value_or(self.offset);
  if (x == kNoValue || self.sizes.size() != self.strides.size() || wanted.sizes.size() != wanted.strides.size())
    return refused();
  if (is_same_place(self, wanted)) return kNoValue;

  const auto order = memory_order_of(self);
  if (!order || complex_values_.contains(x)) return refused();
  // Each run checks what the ranges of its sizes do not say.
  const auto needs = [&](const Dim& difference, std::string_view what) {
    if (is_at_least_0(difference, graph())) return true;
    if (!difference.valid() || difference.is_constant() || graph().conditions.size() >= kMostConditions) return false;
    guards_.push_back({SizeCondition::Says::at_least_0, difference, fmt::format("as_strided {}", what)});
    graph().conditions.push_back(guards_.back());
    return true;
  };
  for (const Dim& size : wanted.sizes)
    if (!needs(size - Dim(1), fmt::format("reads {} elements, at least one", size.str()))) return refused();
  for (const Dim& stride : wanted.strides)
    if (!needs(stride, fmt::format("has a stride of {}, at least 0", stride.str()))) return refused();
  Dim elements = 1;
  for (const Dim& size : self.sizes) elements = elements * size;
  const Dim begin = wanted.offset - self.offset, end = begin + extent_of(wanted, 0);
  if (!needs(begin, "begins inside of its tensor") || !needs(elements - end, "ends inside of its tensor"))
    return refused();

  Node like;
  like.op = find_op("aten.view.default"), like.where = where;
  QCG_TRY(name, node_name(node, {}));
  like.origins = {name};
  const auto apply = [&](std::string_view op, std::vector<Arg> args) -> Status {
    args.insert(args.begin(), x);
    QCG_TRY(made, mutations_.emit(op, std::move(args), like));
    x = made;
    return {};
  };
  QCG_CHECK(apply("aten.permute.default", {*order}));
  QCG_CHECK(apply("aten.reshape.default", {std::vector<Dim>{elements}}));
  QCG_CHECK(apply("aten.slice.Tensor", {Dim(0), begin, end, Dim(1)}));
  // The last axis is what the axes that are left read, without what lies between two of its ends.
  std::vector<Dim> sizes;
  for (size_t axis = 0; axis < wanted.sizes.size(); ++axis) {
    const Dim &size = wanted.sizes[axis], &stride = wanted.strides[axis], inner = extent_of(wanted, axis + 1);
    sizes.push_back(size);
    std::vector<Dim> split = sizes;
    split.push_back(inner);
    if (size.is_constant(1) || stride == inner) {
      QCG_CHECK(apply("aten.reshape.default", {std::move(split)}));
    } else if (stride.is_constant(0)) {
      QCG_CHECK(apply("aten.unsqueeze.default", {Dim(-2)}));
      QCG_CHECK(apply("aten.expand.default", {std::move(split)}));
    } else if (inner.is_constant() && stride.is_constant()) {
      QCG_CHECK(apply("aten.unfold.default", {Dim(-1), inner, stride}));
    } else {
      return refused();
    }
  }
  QCG_CHECK(apply("aten.reshape.default", {std::move(sizes)}));
  return x;
}

}  // namespace qcg

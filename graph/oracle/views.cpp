// The oracle's rules for ops that move or keep elements.
#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/ops/strides.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

const RefValue& first_tensor(const RefContext& c) { return c.values[*c.node.args[0].get<ValueId>()]; }

Result<Tensors> run_same(const RefContext& c) { return Tensors{first_tensor(c).data}; }

// Floats stay unrounded here; whether a narrowing cast rounds is for the evaluator to say. What becomes an integer is
// rounded to its own dtype first, because truncation makes a small difference a whole one.
Result<Tensors> run_cast(const RefContext& c) {
  const RefValue& self = first_tensor(c);
  DType to = c.dtype(0);
  if (is_floating(to)) {
    // Bytes are read as the same floats; a weight in f64 would be eight times as large.
    if (is_floating(self.dtype) || is_byte(self.data.dtype)) return Tensors{self.data};
    return Tensors{make_doubles(c.sizes(0), read_doubles(self.data))};
  }
  if (!is_floating(self.dtype)) return Tensors{held_as(to, self.data)};
  std::vector<int64_t> out;
  for (double v : read_doubles(self.data)) {
    std::byte element[8];
    double_to_element(to, round_as_eager(self.dtype, v), element);
    out.push_back(element_to_int(to, element));
  }
  return Tensors{make_ints(c.sizes(0), std::move(out))};
}

Result<Tensors> run_reshape(const RefContext& c) { return Tensors{first_tensor(c).data.reshape(c.sizes(0))}; }

Result<Tensors> run_reverse(const RefContext& c) {
  Tensor t = first_tensor(c).data;
  std::reverse(t.shape.begin(), t.shape.end());
  std::reverse(t.strides.begin(), t.strides.end());
  return Tensors{t};
}

Result<Tensors> run_last_two(const RefContext& c) {
  const Tensor& t = first_tensor(c).data;
  return Tensors{t.transpose(t.shape.size() - 2, t.shape.size() - 1)};
}

Result<Tensors> run_transpose(const RefContext& c) {
  const Tensor& t = first_tensor(c).data;
  if (t.shape.empty()) return Tensors{t};
  return Tensors{t.transpose(c.axis("dim0", t.shape.size()), c.axis("dim1", t.shape.size()))};
}

Result<Tensors> run_permute(const RefContext& c) {
  const Tensor& t = first_tensor(c).data;
  std::vector<size_t> order;
  for (const Dim& d : *c.node.arg("dims").get<std::vector<Dim>>()) {
    int64_t a = c.evaluate(d);
    order.push_back(static_cast<size_t>(a < 0 ? a + static_cast<int64_t>(t.shape.size()) : a));
  }
  return Tensors{t.permute(order)};
}

Result<Tensors> run_expand(const RefContext& c) { return Tensors{broadcast_to(first_tensor(c).data, c.sizes(0))}; }

// Each axis follows an axis of its repeats.
Result<Tensors> run_repeat(const RefContext& c) {
  const Tensor& t = first_tensor(c).data;
  const std::vector<int64_t> out = c.sizes(0);
  std::vector<int64_t> thin, wide;
  for (size_t i = 0, lead = out.size() - t.shape.size(); i < out.size(); ++i) {
    const int64_t size = i < lead ? 1 : t.shape[i - lead];
    thin.insert(thin.end(), {1, size});
    wide.insert(wide.end(), {size == 0 ? 1 : out[i] / size, size});
  }
  return Tensors{broadcast_to(t.reshape(thin), wide).reshape(out)};
}

Result<Tensors> run_repeat_interleave(const RefContext& c) {
  const bool of_all = c.node.arg("dim").is_none();
  const Tensor t = of_all ? first_tensor(c).data.reshape({first_tensor(c).data.numel()}) : first_tensor(c).data;
  const size_t axis = of_all ? 0 : c.axis("dim", t.shape.size());
  std::vector<int64_t> cut = t.shape;
  cut.insert(cut.begin() + static_cast<int64_t>(axis) + 1, 1);
  const Tensor thin = t.reshape(cut);
  cut[axis + 1] = c.integer("repeats");
  return Tensors{broadcast_to(thin, cut).reshape(c.sizes(0))};
}

int64_t clamp_index(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return std::clamp<int64_t>(index, 0, size);
}

Result<Tensors> run_slice(const RefContext& c) {
  const Tensor& t = first_tensor(c).data;
  size_t axis = c.axis("dim", t.shape.size());
  int64_t size = t.shape[axis];
  int64_t begin = clamp_index(c.integer_or("start", 0), size);
  int64_t end = clamp_index(c.integer_or("end", size), size);
  return Tensors{t.slice(axis, begin, end, c.integer("step"))};
}

Result<Tensors> run_select(const RefContext& c) {
  const Tensor& t = first_tensor(c).data;
  size_t axis = c.axis("dim", t.shape.size());
  int64_t index = clamp_index(c.integer("index"), t.shape[axis]);
  return Tensors{t.slice(axis, index, index + 1).reshape(c.sizes(0))};
}

Result<Tensors> run_narrow(const RefContext& c) {
  const Tensor& t = first_tensor(c).data;
  size_t axis = c.axis("dim", t.shape.size());
  int64_t begin = clamp_index(c.integer("start"), t.shape[axis]);
  return Tensors{t.slice(axis, begin, begin + c.integer("length"))};
}

// split, split_with_sizes and chunk differ in how sizes are found, and those stand in the outputs' shapes.
Result<Tensors> run_split(const RefContext& c) {
  const Tensor& t = first_tensor(c).data;
  size_t axis = c.axis("dim", t.shape.size());
  Tensors parts;
  int64_t begin = 0;
  for (size_t i = 0; i < c.node.outputs.size(); ++i) {
    int64_t size = c.sizes(i)[axis];
    parts.push_back(t.slice(axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

Result<Tensors> run_unbind(const RefContext& c) {
  const Tensor& t = first_tensor(c).data;
  const size_t axis = c.axis("dim", t.shape.size());
  Tensors parts;
  for (size_t i = 0; i < c.node.outputs.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    parts.push_back(t.slice(axis, at, at + 1).reshape(c.sizes(i)));
  }
  return parts;
}

template <class T, class Read>
std::vector<T> concatenate(const RefContext& c, size_t axis, const std::vector<int64_t>& shape, Read&& read) {
  int64_t outer = 1, inner = 1, total = 1;
  for (size_t i = 0; i < shape.size(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : shape[i];
  for (int64_t size : shape) total *= size;
  std::vector<T> out(total);
  int64_t row = shape[axis] * inner;
  int64_t at = 0;
  for (const RefValue* v : c.tensors("tensors")) {
    std::vector<T> part = read(v->data);
    int64_t width = outer == 0 ? 0 : static_cast<int64_t>(part.size()) / outer;
    for (int64_t o = 0; o < outer; ++o) std::copy_n(part.begin() + o * width, width, out.begin() + o * row + at);
    at += width;
  }
  return out;
}

// Parts that are held alike are joined as they are.
std::optional<Tensor> join_bytes(const RefContext& c, size_t axis, const std::vector<int64_t>& shape) {
  std::vector<Tensor> parts;
  for (const RefValue* v : c.tensors("tensors")) {
    if (v->dtype != c.dtype(0) || (!parts.empty() && v->data.dtype != parts[0].dtype)) return std::nullopt;
    parts.push_back(v->data.contiguous());
  }
  int64_t outer = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  std::vector<std::byte> out;
  for (int64_t o = 0; o < outer; ++o)
    for (const Tensor& part : parts) {
      const auto bytes = part.bytes();
      const size_t width = bytes.size() / static_cast<size_t>(outer);
      const auto row = bytes.subspan(static_cast<size_t>(o) * width, width);
      out.insert(out.end(), row.begin(), row.end());
    }
  return Tensor::from_bytes(parts[0].dtype, shape, std::move(out));
}

Result<Tensors> run_cat(const RefContext& c) {
  std::vector<int64_t> shape = c.sizes(0);
  size_t axis = c.axis("dim", shape.size());
  if (auto joined = join_bytes(c, axis, shape)) return Tensors{std::move(*joined)};
  if (is_floating(c.dtype(0))) return Tensors{make_doubles(shape, concatenate<double>(c, axis, shape, read_doubles))};
  return Tensors{make_ints(shape, concatenate<int64_t>(c, axis, shape, read_ints))};
}

Result<Tensors> run_sym_size(const RefContext& c) {
  const Tensor& t = first_tensor(c).data;
  return Tensors{make_ints({}, {t.shape[c.axis("dim", t.shape.size())]})};
}

constexpr RefRow kViewsRules[] = {
    {"aten.to.dtype", run_cast},
    {"aten.to.dtype_layout", run_cast},
    {"aten.to.device", run_cast},
    {"aten._to_copy.default", run_cast},
    {"aten.type_as.default", run_cast},
    {"prims.convert_element_type.default", run_cast},
    {"quantized_decomposed.convert_element_type.no_fuse", run_cast},
    {"aten.contiguous.default", run_same},
    {"aten.clone.default", run_same},
    {"aten.lift_fresh_copy.default", run_same},
    {"aten.dropout.default", run_same},
    {"aten.feature_dropout.default", run_same},
    {"aten.alpha_dropout.default", run_same},
    {"aten.feature_alpha_dropout.default", run_same},
    {"aten.dropout_.default", run_same},
    {"aten.detach.default", run_same},
    {"aten.alias.default", run_same},
    {"aten.reshape.default", run_reshape},
    {"aten.view.default", run_reshape},
    {"aten.view_as.default", run_reshape},
    {"aten.reshape_as.default", run_reshape},
    {"aten._unsafe_view.default", run_reshape},
    {"aten.flatten.using_ints", run_reshape},
    {"aten.unflatten.int", run_reshape},
    {"aten.t.default", run_reverse},
    {"aten.numpy_T.default", run_reverse},
    {"aten.mT.default", run_last_two},
    {"aten.transpose.int", run_transpose},
    {"aten.permute.default", run_permute},
    {"aten.squeeze.default", run_reshape},
    {"aten.squeeze.dim", run_reshape},
    {"aten.squeeze.dims", run_reshape},
    {"aten.unsqueeze.default", run_reshape},
    {"aten.expand.default", run_expand},
    {"aten.expand_as.default", run_expand},
    {"aten.repeat.default", run_repeat},
    {"aten.tile.default", run_repeat},
    {"aten.repeat_interleave.self_int", run_repeat_interleave},
    {"aten.slice.Tensor", run_slice},
    {"aten.select.int", run_select},
    {"aten.narrow.default", run_narrow},
    {"aten.split.Tensor", run_split},
    {"aten.split_with_sizes.default", run_split},
    {"aten.chunk.default", run_split},
    {"aten.unbind.int", run_unbind},
    {"aten.cat.default", run_cat},
    {"aten.concat.default", run_cat},
    {"tensor_cast.cat.default", run_cat},
    {"aten.stack.default", run_cat},  // the parts lie as slices of size 1 would
    {"aten.sym_size.int", run_sym_size},
};

}  // namespace

Result<Tensors> run_strides(const RefContext& c) {
  const Tensor& t = first_tensor(c).data;
  const Shape& shape = c.graph.value(*c.node.args[0].get<ValueId>()).shape;
  QCG_TRY(out, Op(c.node.op).row().strides({c.graph, c.node}, {shape, {t.strides.begin(), t.strides.end()}, t.offset}));
  Tensor view = t;
  view.shape = c.sizes(0);
  view.strides.clear();
  for (const Dim& stride : out.strides) view.strides.push_back(c.evaluate(stride));
  view.offset = c.evaluate(out.offset);
  Tensor dense = view.contiguous();                        // nothing else here walks backwards
  dense.strides = Tensor::row_major_strides(dense.shape);  // also along axes of one element, whose stride is free
  return Tensors{std::move(dense)};
}

std::span<const RefRow> reference_views() { return kViewsRules; }

}  // namespace qcg

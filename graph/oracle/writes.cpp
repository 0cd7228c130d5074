// The oracle's rules for writes into a part of a tensor: copy, slice_scatter, select_scatter, index_copy, index_put,
// scatter, and what combines at positions. Element by element, in the order of the values: of equal positions the last stays.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "graph/ops/infer.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

using Sizes = std::vector<int64_t>;

// A tensor to write into: a dense copy in its own dtype.
class Written {
 public:
  explicit Written(const RefContext& c) : tensor_(held_as(c.dtype(0), c.tensor("self").data)) {
    const auto whole = tensor_.bytes();
    bytes_.assign(whole.begin(), whole.end());
    sums_ = sums_at_positions(c.node);
    if (sums_ && is_floating(tensor_.dtype)) doubles_ = read_doubles(c.tensor("self").data);
    else if (sums_) ints_ = read_ints(c.tensor("self").data);
  }
  const Sizes& shape() const { return tensor_.shape; }
  void multiply_by(double factor) { factor_ = factor; }  // what is added
  void set(const Sizes& index, const Tensor& values, int64_t element) {
    const size_t size = dtype_bytes(tensor_.dtype);
    int64_t to = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) to = to * tensor_.shape[axis] + index[axis];
    if (sums_) return add(static_cast<size_t>(to), values, element);
    std::memcpy(bytes_.data() + static_cast<size_t>(to) * size,
                values.bytes().data() + static_cast<size_t>(element) * size, size);
  }
  Result<Tensors> done() {
    if (!doubles_.empty()) return Tensors{make_doubles(tensor_.shape, std::move(doubles_))};
    if (!ints_.empty()) return Tensors{make_ints(tensor_.shape, std::move(ints_))};
    return Tensors{Tensor::from_bytes(tensor_.dtype, tensor_.shape, std::move(bytes_))};
  }

 private:
  void add(size_t to, const Tensor& values, int64_t element) {
    if (added_.storage != values.storage) {
      added_ = values;
      if (!doubles_.empty()) new_doubles_ = read_doubles(values);
      else new_ints_ = read_ints(values);
    }
    const auto from = static_cast<size_t>(element);
    if (!doubles_.empty()) doubles_[to] += factor_ * new_doubles_[from];
    else
      ints_[to] =
          wrap_to_dtype(tensor_.dtype, add_wrap(ints_[to], mul_wrap(static_cast<int64_t>(factor_), new_ints_[from])));
  }

  Tensor tensor_;
  std::vector<std::byte> bytes_;
  bool sums_ = false;
  double factor_ = 1;
  std::vector<double> doubles_, new_doubles_;
  std::vector<int64_t> ints_, new_ints_;
  Tensor added_;  // whose numbers new_doubles_ or new_ints_ has
};

// f(element, index) of a dense tensor of this shape, in order.
template <class F>
void for_each_index(const Sizes& shape, F&& f) {
  const int64_t count = count_of(shape);
  Sizes index(shape.size());
  for (int64_t element = 0; element < count; ++element) {
    int64_t rest = element;
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
    f(element, index);
  }
}

Tensor values_of(const RefContext& c, std::string_view name, const Sizes& shape) {
  return held_as(c.dtype(0), broadcast_to(c.tensor(name).data, shape));
}

// Positions along an axis, in order; of some ops negative ones count from the end.
Result<Sizes> read_positions(const RefContext& c, const Tensor& index, int64_t size, bool from_end) {
  Sizes out = read_ints(index);
  for (int64_t& at : out) {
    if (at < (from_end ? -size : 0) || at >= size)
      return Error::bad_input(c.node.where,
                              fmt::format("{}: index {} is outside an axis of size {}", c.node.op->name, at, size),
                              "pass positions that exist");
    if (at < 0) at += size;
  }
  return out;
}

Result<Tensors> run_copy(const RefContext& c) { return Tensors{values_of(c, "src", c.sizes(0))}; }

int64_t clamped(int64_t at, int64_t size) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); }

Result<Tensors> run_slice_scatter(const RefContext& c) {
  Written out(c);
  const size_t axis = c.axis("dim", out.shape().size());
  const int64_t start = clamped(c.integer_or("start", 0), out.shape()[axis]);
  const Tensor& src = c.tensor("src").data;
  const Tensor values = values_of(c, "src", src.shape);
  for_each_index(src.shape, [&](int64_t element, Sizes index) {
    index[axis] = start + index[axis] * c.integer("step");
    out.set(index, values, element);
  });
  return out.done();
}

Result<Tensors> run_select_scatter(const RefContext& c) {
  Written out(c);
  const size_t axis = c.axis("dim", out.shape().size());
  const int64_t at = c.integer("index");
  const Tensor& src = c.tensor("src").data;
  const Tensor values = values_of(c, "src", src.shape);
  for_each_index(src.shape, [&](int64_t element, Sizes index) {
    index.insert(index.begin() + static_cast<std::ptrdiff_t>(axis), at < 0 ? at + out.shape()[axis] : at);
    out.set(index, values, element);
  });
  return out.done();
}

Result<Tensors> run_index_copy(const RefContext& c) {
  Written out(c);
  if (c.node.op->arg_index("alpha") >= 0) out.multiply_by(c.number("alpha"));
  const Tensor values = values_of(c, "source", c.tensor("source").data.shape);
  const size_t rank = out.shape().size(), axis = c.axis("dim", rank);
  QCG_TRY(positions, read_positions(c, c.tensor("index").data, rank == 0 ? 1 : out.shape()[axis], false));
  for_each_index(values.shape, [&](int64_t element, Sizes index) {
    if (rank == 0) return out.set({}, values, element);
    index[axis] = positions[static_cast<size_t>(index[axis])];
    out.set(index, values, element);
  });
  return out.done();
}

// Beyond 2^53 as well.
int64_t whole_value(const RefContext& c) {
  return c.node.arg("value").get<Dim>() ? c.integer("value") : static_cast<int64_t>(c.number("value"));
}

Result<Tensors> run_scatter(const RefContext& c) {
  Written out(c);
  const size_t rank = out.shape().size(), axis = c.axis("dim", rank);
  const Tensor& index = c.tensor("index").data;
  Tensor values;
  if (c.node.op->arg_index("src") >= 0) {
    values = c.tensor("src").data;
    for (size_t i = 0; i < index.shape.size() && i < values.shape.size(); ++i)
      values = values.slice(i, 0, index.shape[i]);
  } else {
    values = broadcast_to(
        is_floating(c.dtype(0)) ? make_doubles({}, {c.number("value")}) : make_ints({}, {whole_value(c)}), index.shape);
  }
  values = held_as(c.dtype(0), values);
  QCG_TRY(positions, read_positions(c, index, rank == 0 ? 1 : out.shape()[axis], false));
  for_each_index(index.shape, [&](int64_t element, Sizes at) {
    if (rank == 0) return out.set({}, values, element);
    at[axis] = positions[static_cast<size_t>(element)];
    out.set(at, values, element);
  });
  return out.done();
}

// Where truth values hold, which lie over the first axes.
Result<Tensors> put_at_mask(const RefContext& c) {
  Written out(c);
  const Tensor& mask = c.tensors("indices")[0]->data;
  const Sizes each(out.shape().begin() + static_cast<std::ptrdiff_t>(mask.shape.size()), out.shape().end());
  Tensor given = c.tensor("values").data;
  if (given.shape.size() > each.size()) given = given.reshape({given.shape.begin() + 1, given.shape.end()});
  const Tensor values = held_as(c.dtype(0), broadcast_to(given, each));
  const std::vector<int64_t> holds = read_ints(mask);
  for_each_index(mask.shape, [&](int64_t place, const Sizes& lead) {
    if (!holds[static_cast<size_t>(place)]) return;
    for_each_index(each, [&](int64_t element, const Sizes& index) {
      Sizes at = lead;
      at.insert(at.end(), index.begin(), index.end());
      out.set(at, values, element);
    });
  });
  return out.done();
}

// The values' axes: those of the indices, broadcast, in the place of the axes they index, in front where those are
// apart.
Result<Tensors> run_index_put(const RefContext& c) {
  if (mask_of_index_put(c.graph, c.node) != kNoValue) return put_at_mask(c);
  Written out(c);
  const std::vector<const RefValue*> indices = c.tensors("indices");
  std::vector<size_t> indexed;
  Sizes all;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (!indices[axis]) continue;
    indexed.push_back(axis);
    const Sizes& one = indices[axis]->data.shape;
    if (one.size() > all.size()) all.insert(all.begin(), one.size() - all.size(), 1);
    for (size_t i = 0; i < one.size(); ++i)
      if (int64_t& size = all[all.size() - one.size() + i]; size == 1) size = one[i];
  }
  std::vector<Sizes> positions;
  for (size_t axis : indexed) {
    QCG_TRY(some, read_positions(c, broadcast_to(indices[axis]->data, all), out.shape()[axis], true));
    positions.push_back(std::move(some));
  }
  const bool apart = indexed.back() - indexed.front() + 1 != indexed.size();
  const size_t first = apart ? 0 : indexed.front();  // of the indices' axes among the values'
  Sizes shape;
  std::vector<size_t> kept;
  for (size_t axis = 0; axis < out.shape().size(); ++axis)
    if (std::ranges::find(indexed, axis) == indexed.end()) kept.push_back(axis), shape.push_back(out.shape()[axis]);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(first), all.begin(), all.end());
  const Tensor values = values_of(c, "values", shape);
  for_each_index(shape, [&](int64_t element, const Sizes& index) {
    Sizes at(out.shape().size());
    int64_t number = 0;
    for (size_t i = 0; i < all.size(); ++i) number = number * all[i] + index[first + i];
    for (size_t i = 0; i < kept.size(); ++i) at[kept[i]] = index[i < first ? i : i + all.size()];
    for (size_t i = 0; i < indexed.size(); ++i) at[indexed[i]] = positions[i][static_cast<size_t>(number)];
    out.set(at, values, element);
  });
  return out.done();
}

// What is at each place, together with all that is written there, by the definition of the reduction.
template <class T>
T combine(std::string_view how, const std::vector<T>& all) {
  T out = all.front();
  for (size_t i = 1; i < all.size(); ++i) {
    const T v = all[i];
    if constexpr (std::is_same_v<T, int64_t>) {
      out = how == "prod"   ? mul_wrap(out, v)
            : how == "amax" ? std::max(out, v)
            : how == "amin" ? std::min(out, v)
                            : add_wrap(out, v);
    } else {
      out = how == "prod" ? out * v : how == "amax" ? max_nan(out, v) : how == "amin" ? min_nan(out, v) : out + v;
    }
  }
  if (how != "mean") return out;
  const T count = static_cast<T>(all.size());
  if constexpr (std::is_same_v<T, int64_t>) return out / count - (out % count < 0);
  else return out / count;
}

template <class T>
std::vector<T> combine_at(const RefContext& c, const std::vector<T>& self, const std::vector<T>& src,
                          const std::vector<size_t>& places) {
  const bool include_self = c.node.op->arg_index("include_self") < 0 || *c.node.arg("include_self").get<bool>();
  std::vector<std::vector<T>> met(self.size());
  for (size_t i = 0; i < src.size(); ++i) met[places[i]].push_back(src[i]);
  std::vector<T> out = self;
  for (size_t i = 0; i < out.size(); ++i) {
    if (met[i].empty()) continue;
    if (include_self) met[i].insert(met[i].begin(), self[i]);
    out[i] = combine<T>(combination_at_positions(c.node), met[i]);
  }
  return out;
}

Result<Tensors> run_combined(const RefContext& c) {
  const Sizes shape = c.sizes(0);
  const size_t axis = c.axis("dim", shape.size());
  Tensor index = c.tensor("index").data, src;
  if (c.node.op->arg_index("source") >= 0) {
    src = c.tensor("source").data;
    Sizes thin(src.shape.size(), 1);
    if (!thin.empty()) thin[axis] = index.numel();
    index = broadcast_to(index.reshape(thin), src.shape);
  } else if (c.node.op->arg_index("src") >= 0) {
    src = c.tensor("src").data;
    for (size_t i = 0; i < index.shape.size(); ++i) src = src.slice(i, 0, index.shape[i]);
  } else {
    src = broadcast_to(is_floating(c.dtype(0)) ? make_doubles({}, {c.number("value")})
                                               : make_ints({}, {static_cast<int64_t>(c.number("value"))}),
                       index.shape);
  }
  QCG_TRY(positions, read_positions(c, index, shape.empty() ? 1 : shape[axis], false));
  std::vector<size_t> places;
  for_each_index(index.shape, [&](int64_t element, Sizes at) {
    if (!shape.empty()) at[axis] = positions[static_cast<size_t>(element)];
    int64_t place = 0;
    for (size_t i = 0; i < at.size(); ++i) place = place * shape[i] + at[i];
    places.push_back(static_cast<size_t>(place));
  });
  const Tensor& self = c.tensor("self").data;
  if (is_floating(c.dtype(0)))
    return Tensors{make_doubles(shape, combine_at(c, read_doubles(self), read_doubles(src), places))};
  std::vector<int64_t> out = combine_at(c, read_ints(self), read_ints(src), places);
  for (int64_t& v : out) v = wrap_to_dtype(c.dtype(0), v);
  return Tensors{make_ints(shape, std::move(out))};
}

constexpr RefRow kWriteRules[] = {
    {"aten.copy.default", run_copy},
    {"aten.slice_scatter.default", run_slice_scatter},
    {"aten.select_scatter.default", run_select_scatter},
    {"aten.index_copy.default", run_index_copy},
    {"aten.index_put.default", run_index_put},
    {"aten.index_add.default", run_index_copy},
    {"aten.scatter_add.default", run_scatter},
    {"aten.scatter.src", run_scatter},
    {"aten.scatter.value", run_scatter},
    {"aten.scatter_reduce.two", run_combined},
    {"aten.scatter.reduce", run_combined},
    {"aten.scatter.value_reduce", run_combined},
    {"aten.index_reduce.default", run_combined},
    {"qcg.combine_at", run_combined},
};

}  // namespace

std::span<const RefRow> reference_writes() { return kWriteRules; }

}  // namespace qcg

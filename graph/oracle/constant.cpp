// The oracle's rules for the ops that weights packed by hand are unpacked with.
//
// A whole weight goes through them while a graph is compiled, so that integers stay in their own width here: as i64 the
// codes of one large layer would take gigabytes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "graph/oracle/ops.h"

namespace qcg {
namespace {

using Sizes = std::vector<int64_t>;

// Where the elements of such a view lie, in row-major order.
Sizes offsets_of(const Sizes& shape, const Sizes& strides, int64_t from = 0) {
  Sizes out{from};
  for (size_t i = 0; i < shape.size(); ++i) {
    Sizes next;
    next.reserve(out.size() * static_cast<size_t>(shape[i]));
    for (int64_t base : out)
      for (int64_t k = 0; k < shape[i]; ++k) next.push_back(base + k * strides[i]);
    out = std::move(next);
  }
  return out;
}

// The offset of each row, that is of all axes but the last; a tensor without axes is a row of one.
Sizes row_offsets(const Tensor& t) {
  if (t.shape.empty()) return {t.offset};
  return offsets_of({t.shape.begin(), t.shape.end() - 1}, {t.strides.begin(), t.strides.end() - 1}, t.offset);
}

// ---- integers -------------------------------------------------------------------------------------------------------

template <class F>
auto with_integer(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return f(uint8_t{});
    case DType::i8: return f(int8_t{});
    case DType::i16: return f(int16_t{});
    case DType::u16: return f(uint16_t{});
    case DType::i32: return f(int32_t{});
    case DType::u32: return f(uint32_t{});
    case DType::u64: return f(uint64_t{});
    default: return f(int64_t{});
  }
}

template <class T>
constexpr int kBits = 8 * static_cast<int>(sizeof(T));

struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
// A shift by a negative number, or by at least as many bits as the number has, moves all bits out.
struct ShiftLeft {
  template <class T>
  static T apply(T a, T b) {
    if (b < T{0} || b >= static_cast<T>(kBits<T>)) return 0;
    return static_cast<T>(static_cast<uint64_t>(a) << b);
  }
};
struct ShiftRight {
  template <class T>
  static T apply(T a, T b) {
    constexpr int kLast = kBits<T> - 1;
    if (b < T{0} || b > static_cast<T>(kLast)) return std::is_signed_v<T> ? static_cast<T>(a >> kLast) : T{0};
    return static_cast<T>(a >> b);
  }
};
struct QuotientDown {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      if (b == T{-1}) return static_cast<T>(sub_wrap(0, a));
      return static_cast<T>(a / b - (a % b != 0 && (a < 0) != (b < 0)));
    }
    return static_cast<T>(a / b);
  }
};
struct QuotientToZero {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_signed_v<T>)
      if (b == T{-1}) return static_cast<T>(sub_wrap(0, a));
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      if (b == T{-1}) return 0;
      const T rest = static_cast<T>(a % b);
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    }
    return static_cast<T>(a % b);
  }
};

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

template <class Op, class T>
Tensor map_rows(DType dtype, const Sizes& shape, const Tensor& a, const Tensor& b) {
  const Sizes rows_a = row_offsets(a), rows_b = row_offsets(b);
  const int64_t count = shape.empty() ? 1 : shape.back(), step_a = shape.empty() ? 0 : a.strides.back(),
                step_b = shape.empty() ? 0 : b.strides.back();
  std::vector<std::byte> bytes(static_cast<size_t>(count_of(shape)) * sizeof(T));
  std::byte* out = bytes.data();
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  for (size_t row = 0; row < rows_a.size() && !bytes.empty(); ++row) {
    const std::byte* pa = a.storage->bytes.data() + rows_a[row] * kSize;
    const std::byte* pb = b.storage->bytes.data() + rows_b[row] * kSize;
    for (int64_t i = 0; i < count; ++i, out += kSize) {
      const T v = Op::apply(load<T>(pa + i * step_a * kSize), load<T>(pb + i * step_b * kSize));
      std::memcpy(out, &v, sizeof(T));
    }
  }
  return Tensor::from_bytes(dtype, shape, std::move(bytes));
}

Tensor whole_number(DType dtype, int64_t value) {
  std::vector<std::byte> bytes(dtype_bytes(dtype));
  int_to_element(dtype, value, bytes.data());
  return Tensor::from_bytes(dtype, {}, std::move(bytes));
}

// An operand in the result's dtype, as torch promotes it: a tensor or a number.
Tensor operand(const RefContext& c, std::string_view name, DType dtype) {
  if (c.node.arg(name).get<ValueId>()) {
    const Tensor& t = c.tensor(name).data;
    return t.dtype == dtype ? t : held_as(dtype, t);
  }
  const bool* truth = c.node.arg(name).get<bool>();
  return whole_number(dtype, truth ? *truth : c.integer(name));
}

bool has_zero(const Tensor& t) {
  for (int64_t v : read_ints(t))
    if (v == 0) return true;
  return false;
}

template <class Op>
Result<Tensors> map_integers(const RefContext& c, const Tensor& other) {
  const DType dtype = c.dtype(0);
  const Sizes shape = c.sizes(0);
  const Tensor a = broadcast_to(operand(c, "self", dtype), shape), b = broadcast_to(other, shape);
  return Tensors{with_integer(dtype, [&](auto zero) { return map_rows<Op, decltype(zero)>(dtype, shape, a, b); })};
}

template <class Op>
Result<Tensors> run_bits(const RefContext& c) {
  return map_integers<Op>(c, operand(c, "other", c.dtype(0)));
}

Result<Tensors> run_not(const RefContext& c) {
  return map_integers<Xor>(c, whole_number(c.dtype(0), c.dtype(0) == DType::boolean ? 1 : -1));
}

template <class Op>
Result<Tensors> run_quotient(const RefContext& c) {
  if (is_floating(c.dtype(0))) return run_formula(c);
  const Tensor divisor = operand(c, "other", c.dtype(0));
  if (has_zero(divisor))
    return Error::bad_input(c.node.where, c.node.op->name + " divides by zero", "check the constants of the model");
  return map_integers<Op>(c, divisor);
}

// The floor of a quotient as Python has it: of a / b itself, not of a / b rounded, which may be the next whole number.
double floor_quotient(double a, double b) {
  if (b == 0) return a / b;
  const double rest = std::fmod(a, b);
  const double whole = std::nearbyint((a - rest) / b);
  return rest != 0 && (rest < 0) != (b < 0) ? whole - 1 : whole;
}

Result<Tensors> run_quotient_mode(const RefContext& c) {
  const bool floors =
      c.node.op->arg_index("rounding_mode") < 0 || *c.node.arg("rounding_mode").get<std::string>() == "floor";
  if (!is_floating(c.dtype(0))) return floors ? run_quotient<QuotientDown>(c) : run_quotient<QuotientToZero>(c);
  const Sizes shape = c.sizes(0);
  std::vector<double> values = read_doubles(broadcast_to(c.tensor("self").data, shape));
  const bool by_tensor = c.node.arg("other").get<ValueId>() != nullptr;
  const std::vector<double> divisors = by_tensor ? read_doubles(broadcast_to(c.tensor("other").data, shape))
                                                 : std::vector<double>(values.size(), c.number("other"));
  // Halves are divided in f32.
  const DType wide = c.dtype(0) == DType::f64 ? DType::f64 : DType::f32;
  for (size_t i = 0; i < values.size(); ++i) {
    const double divisor = round_as_eager(wide, divisors[i]);
    values[i] = floors ? floor_quotient(values[i], divisor) : std::trunc(round_as_eager(wide, values[i] / divisor));
  }
  return Tensors{make_doubles(shape, std::move(values))};
}

// ---- powers ---------------------------------------------------------------------------------------------------------

Result<Tensors> run_exp2(const RefContext& c) {
  std::vector<double> values = read_doubles(c.tensor("self").data);
  for (double& v : values) v = std::exp2(v);
  return Tensors{make_doubles(c.sizes(0), std::move(values))};
}

Result<Tensors> run_pow(const RefContext& c) {
  const Tensor& exponent = c.tensor("exponent").data;
  if (is_floating(c.dtype(0))) {
    const double base = round_as_eager(c.dtype(0), c.number("self"));
    std::vector<double> values = read_doubles(exponent);
    for (double& v : values) v = std::pow(base, v);
    return Tensors{make_doubles(c.sizes(0), std::move(values))};
  }
  std::vector<int64_t> values = read_ints(exponent);
  for (int64_t& v : values) v = wrap_to_dtype(c.dtype(0), power_wrap(static_cast<int64_t>(c.number("self")), v));
  return Tensors{make_ints(c.sizes(0), std::move(values))};
}

// ---- look-ups -------------------------------------------------------------------------------------------------------

// The element at before[i] + picked[j] + after[k], for all of them in this order.
Tensor pick(const Tensor& t, Sizes shape, const Sizes& before, const Sizes& picked, const Sizes& after) {
  const size_t size = dtype_bytes(t.dtype);
  bool dense = true;
  for (size_t i = 1; i < after.size(); ++i) dense = dense && after[i] == after[i - 1] + 1;
  std::vector<std::byte> bytes(static_cast<size_t>(count_of(shape)) * size);
  if (bytes.empty()) return Tensor::from_bytes(t.dtype, std::move(shape), {});
  std::byte* out = bytes.data();
  auto copy = [&](int64_t from, size_t count) {
    std::memcpy(out, t.storage->bytes.data() + static_cast<size_t>(from) * size, count * size);
    out += count * size;
  };
  for (int64_t b : before)
    for (int64_t p : picked) {
      if (dense) copy(t.offset + b + p + after.front(), after.size());
      else
        for (int64_t a : after) copy(t.offset + b + p + a, 1);
    }
  return Tensor::from_bytes(t.dtype, std::move(shape), std::move(bytes));
}

// Positions along an axis, times its stride. Only some ops count negative ones from the end.
Result<Sizes> positions(const RefContext& c, const Tensor& index, int64_t size, int64_t stride, bool may_be_negative) {
  Sizes out = read_ints(index);
  for (int64_t& at : out) {
    if (at < (may_be_negative ? -size : 0) || at >= size)
      return Error::bad_input(c.node.where,
                              fmt::format("{}: index {} is outside an axis of size {}", c.node.op->name, at, size),
                              fmt::format("positions go from {} to {}: check the inputs and constants of the model",
                                          may_be_negative ? -size : 0, size - 1));
    at = (at < 0 ? at + size : at) * stride;
  }
  return out;
}

// One index along one axis, whose axes take its place.
Result<Tensors> pick_along(const RefContext& c, const Tensor& t, size_t axis, const Tensor& index, bool negative) {
  QCG_TRY(picked, positions(c, index, t.shape[axis], t.strides[axis], negative));
  const auto at = static_cast<ptrdiff_t>(axis);
  return Tensors{pick(
      t, c.sizes(0), offsets_of({t.shape.begin(), t.shape.begin() + at}, {t.strides.begin(), t.strides.begin() + at}),
      picked, offsets_of({t.shape.begin() + at + 1, t.shape.end()}, {t.strides.begin() + at + 1, t.strides.end()}))};
}

Result<Tensors> run_index(const RefContext& c) {
  const Tensor& t = c.tensor("self").data;
  const std::vector<const RefValue*> indices = c.tensors("indices");
  std::vector<size_t> axes;
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i]) axes.push_back(i);
  if (axes.size() == 1) return pick_along(c, t, axes[0], indices[axes[0]]->data, true);
  Sizes all;
  for (size_t axis : axes) {
    const Sizes& one = indices[axis]->data.shape;
    if (one.size() > all.size()) all.insert(all.begin(), one.size() - all.size(), 1);
    for (size_t i = 0; i < one.size(); ++i)
      if (int64_t& size = all[all.size() - one.size() + i]; size == 1) size = one[i];
  }
  Sizes picked(static_cast<size_t>(count_of(all)));
  for (size_t axis : axes) {
    QCG_TRY(part, positions(c, broadcast_to(indices[axis]->data, all), t.shape[axis], t.strides[axis], true));
    for (size_t i = 0; i < picked.size(); ++i) picked[i] += part[i];
  }
  const bool apart = axes.back() - axes.front() + 1 != axes.size();
  Sizes shapes[2], strides[2];  // in front of the indices, behind them
  for (size_t i = 0; i < t.shape.size(); ++i) {
    if (i < indices.size() && indices[i]) continue;
    const bool behind = apart || i > axes.front();
    shapes[behind].push_back(t.shape[i]);
    strides[behind].push_back(t.strides[i]);
  }
  return Tensors{pick(t, c.sizes(0), offsets_of(shapes[0], strides[0]), picked, offsets_of(shapes[1], strides[1]))};
}

Result<Tensors> run_index_select(const RefContext& c) {
  Tensor t = c.tensor("self").data;
  if (t.shape.empty()) t = t.reshape({1});
  return pick_along(c, t, c.axis("dim", t.shape.size()), c.tensor("index").data, false);
}

Result<Tensors> run_embedding(const RefContext& c) {
  return pick_along(c, c.tensor("weight").data, 0, c.tensor("indices").data, false);
}

// The results beside the first are what torch needs for gradients: nothing that is compiled reads them.
Result<Tensors> run_embedding_bag(const RefContext& c) {
  const Tensor& table = c.tensor("weight").data;
  const int64_t size = table.shape[0], width = table.shape[1], mode = c.integer("mode");
  const std::vector<double> rows = read_doubles(table);
  const Sizes offsets = read_ints(c.tensor("offsets").data), shape = c.sizes(0);
  QCG_TRY(ids, positions(c, c.tensor("indices").data, size, 1, false));
  const RefValue* factors = c.optional_tensor("per_sample_weights");
  const std::vector<double> by = factors ? read_doubles(factors->data) : std::vector<double>(ids.size(), 1);
  const bool padded = c.node.op->arg_index("padding_idx") >= 0 && c.has("padding_idx");
  int64_t padding = padded ? c.integer("padding_idx") : -1;
  if (padded && padding < 0 && is_op(c.node, "aten.embedding_bag.padding_idx")) padding += size;
  std::vector<double> out(static_cast<size_t>(count_of(shape)));
  for (int64_t bag = 0; bag < shape[0]; ++bag) {
    const auto next = static_cast<size_t>(bag) + 1;
    const int64_t begin = offsets[next - 1], end = next < offsets.size() ? offsets[next] : std::ssize(ids);
    if (begin < 0 || begin > end || end > std::ssize(ids) || (bag == 0 && begin != 0))
      return Error::bad_input(c.node.where,
                              fmt::format("{}: a bag from {} to {} of {}", c.node.op->name, begin, end, ids.size()),
                              "offsets begin with 0 and ascend to the number of indices at most");
    double* y = out.data() + bag * width;
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      if (ids[at] == padding) continue;
      for (int64_t k = 0; k < width; ++k) {
        const double v = rows[static_cast<size_t>(ids[at] * width + k)] * by[at];
        y[k] = mode == 2 ? (count == 0 ? v : std::max(y[k], v)) : y[k] + v;
      }
      ++count;
    }
    for (int64_t k = 0; k < width && mode == 1 && count > 0; ++k) y[k] /= static_cast<double>(count);
  }
  Tensors results = {make_doubles(shape, std::move(out))};
  for (size_t i = 1; i < 4; ++i) results.push_back(Tensor::zeros(c.dtype(i), c.sizes(i)));
  return results;
}

Result<Tensors> run_take(const RefContext& c) {
  const Tensor& t = c.tensor("self").data;
  return pick_along(c, t.reshape({t.numel()}), 0, c.tensor("index").data, true);
}

Result<Tensors> gather_along(const RefContext& c, const Tensor& t, size_t axis, const Tensor& index) {
  QCG_TRY(picked, positions(c, index, t.shape[axis], t.strides[axis], false));
  Sizes strides = t.strides;
  strides[axis] = 0;
  const Sizes others = offsets_of(index.shape, strides);
  for (size_t i = 0; i < picked.size(); ++i) picked[i] += others[i];
  return Tensors{pick(t, c.sizes(0), {0}, picked, {0})};
}

Result<Tensors> run_gather(const RefContext& c) {
  const Tensor& t = c.tensor("self").data;
  if (t.shape.empty()) return Tensors{t};
  return gather_along(c, t, c.axis("dim", t.shape.size()), c.tensor("index").data);
}

Result<Tensors> run_take_along(const RefContext& c) {
  const Tensor &t = c.tensor("self").data, &index = c.tensor("indices").data;
  if (!c.has("dim")) return pick_along(c, t.reshape({t.numel()}), 0, index.reshape({index.numel()}), false);
  const size_t axis = c.axis("dim", t.shape.size());
  Sizes shape = c.sizes(0);
  const Tensor every = broadcast_to(index, shape);
  shape[axis] = t.shape[axis];
  return gather_along(c, broadcast_to(t, shape), axis, every);
}

// ---- what is made ---------------------------------------------------------------------------------------------------

Result<Tensors> run_arange(const RefContext& c) {
  auto bound = [&](std::string_view name, double otherwise) {
    return c.node.op->arg_index(name) < 0 ? otherwise : c.number(name);
  };
  const double start = bound("start", 0), step = bound("step", 1);
  const Sizes shape = c.sizes(0);
  if (is_floating(c.dtype(0))) {
    std::vector<double> values;
    for (int64_t i = 0; i < shape[0]; ++i) values.push_back(start + static_cast<double>(i) * step);
    return Tensors{make_doubles(shape, std::move(values))};
  }
  std::vector<int64_t> values;
  for (int64_t i = 0; i < shape[0]; ++i)
    values.push_back(
        wrap_to_dtype(c.dtype(0), add_wrap(static_cast<int64_t>(start), mul_wrap(i, static_cast<int64_t>(step)))));
  return Tensors{make_ints(shape, std::move(values))};
}

Result<Tensors> run_view_dtype(const RefContext& c) {
  const RefValue& self = c.tensor("self");
  const Tensor held = held_as(self.dtype, self.data);
  Tensor out;
  out.dtype = c.dtype(0);
  out.shape = c.sizes(0);
  out.strides = Tensor::row_major_strides(out.shape);
  out.storage = std::make_shared<const Storage>(Storage{held.bytes(), held.storage});
  return Tensors{out};
}

// Whatever it holds is overwritten, or the model's result would be anything.
Result<Tensors> run_empty(const RefContext& c) { return Tensors{Tensor::zeros(c.dtype(0), c.sizes(0))}; }

// From both ends to the middle, as torch does it.
Result<Tensors> run_linspace(const RefContext& c) {
  const int64_t steps = c.integer("steps");
  const double start = c.number("start"), end = c.number("end");
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  std::vector<double> out;
  for (int64_t i = 0; i < steps; ++i)
    out.push_back(i < (steps + 1) / 2 ? start + step * static_cast<double>(i)
                                      : end - step * static_cast<double>(steps - 1 - i));
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_logspace(const RefContext& c) {
  QCG_TRY(exponents, run_linspace(c));
  std::vector<double> out = read_doubles(exponents[0]);
  for (double& v : out) v = std::pow(c.number("base"), v);
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_triangle_indices(const RefContext& c) {
  std::vector<int64_t> out, columns;
  for (int64_t row = 0; row < c.integer("row"); ++row) {
    const auto [first, end] = columns_of_triangle(c.node, row);
    for (int64_t column = first; column < end; ++column) out.push_back(row), columns.push_back(column);
  }
  out.insert(out.end(), columns.begin(), columns.end());
  return Tensors{make_ints(c.sizes(0), std::move(out))};
}

constexpr RefRow kConstantRules[] = {
    {"aten.bitwise_and.Tensor", run_bits<And>},
    {"aten.bitwise_or.Tensor", run_bits<Or>},
    {"aten.bitwise_xor.Tensor", run_bits<Xor>},
    {"aten.bitwise_not.default", run_not},
    {"aten.__and__.Tensor", run_bits<And>},
    {"aten.__or__.Tensor", run_bits<Or>},
    {"aten.__xor__.Tensor", run_bits<Xor>},
    {"aten.bitwise_and.Scalar", run_bits<And>},
    {"aten.bitwise_or.Scalar", run_bits<Or>},
    {"aten.bitwise_xor.Scalar", run_bits<Xor>},
    {"aten.__and__.Scalar", run_bits<And>},
    {"aten.__or__.Scalar", run_bits<Or>},
    {"aten.__xor__.Scalar", run_bits<Xor>},
    {"aten.bitwise_left_shift.Tensor", run_bits<ShiftLeft>},
    {"aten.bitwise_right_shift.Tensor", run_bits<ShiftRight>},
    {"aten.bitwise_left_shift.Tensor_Scalar", run_bits<ShiftLeft>},
    {"aten.bitwise_right_shift.Tensor_Scalar", run_bits<ShiftRight>},
    {"aten.__lshift__.Tensor", run_bits<ShiftLeft>},
    {"aten.__rshift__.Tensor", run_bits<ShiftRight>},
    {"aten.__lshift__.Scalar", run_bits<ShiftLeft>},
    {"aten.__rshift__.Scalar", run_bits<ShiftRight>},
    {"aten.floor_divide.default", run_quotient_mode},
    {"aten.floor_divide.Scalar", run_quotient_mode},
    {"aten.div.Tensor_mode", run_quotient_mode},
    {"aten.div.Scalar_mode", run_quotient_mode},
    {"aten.remainder.Tensor", run_quotient<Remainder>},
    {"aten.remainder.Scalar", run_quotient<Remainder>},
    {"aten.exp2.default", run_exp2},
    {"aten.pow.Scalar", run_pow},
    {"aten.index.Tensor", run_index},
    {"aten._unsafe_index.Tensor", run_index},
    {"aten.index_select.default", run_index_select},
    {"aten.embedding.default", run_embedding},
    {"aten.gather.default", run_gather},
    {"aten.embedding_bag.default", run_embedding_bag},
    {"aten.embedding_bag.padding_idx", run_embedding_bag},
    {"aten._embedding_bag.default", run_embedding_bag},
    {"aten._embedding_bag_forward_only.default", run_embedding_bag},
    {"aten.take.default", run_take},
    {"aten.take_along_dim.default", run_take_along},
    {"aten.linspace.default", run_linspace},
    {"aten.logspace.default", run_logspace},
    {"aten.tril_indices.default", run_triangle_indices},
    {"aten.triu_indices.default", run_triangle_indices},
    {"aten.arange.default", run_arange},
    {"aten.arange.start", run_arange},
    {"aten.arange.start_step", run_arange},
    {"aten.view.dtype", run_view_dtype},
    {"aten.empty.memory_format", run_empty},
};

}  // namespace

std::span<const RefRow> reference_constant() { return kConstantRules; }

}  // namespace qcg

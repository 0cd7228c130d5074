// What random spellings are written with: nodes whose types are inferred, parameters with bytes, operands that
// broadcast, and rewrites that keep a shape.
//
// Why here: random_spelling.h says what a quantized linear may look like, this file how any tensor may come about.
//
//   const ValueId s = operand(DType::f32, {n, Dim(1)});          // [N, 1], [1, 1], [1] …, stored, viewed or expanded
//   return maybe(call("aten.mul.Tensor", {{"self", w}, {"other", s}}));
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

class SpellingWriter {
 protected:
  // Thrown where an op does not take what it was given: whoever tried it tries something else.
  struct Refused {};
  using Args = std::vector<NamedArg>;

  explicit SpellingWriter(uint64_t seed)
      : random_(seed), exact_(one_in(2)), half_(one_in(2) ? DType::bf16 : DType::f16) {}

  bool one_in(uint64_t n) { return random_() % n == 0; }
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[random_() % choices.size()];
  }

  // ---- nodes ----

  std::vector<ValueId> call_all(std::string_view name, Args named) {
    Node node;
    node.op = find_op(name);
    node.args = make_args(*node.op, std::move(named));
    auto types = infer_types(graph_, node);
    if (!types.ok()) throw Refused{};
    std::vector<Value> outputs;
    for (const ValueType& type : *types) {
      if (!product(type.shape).valid()) throw Refused{};
      Value out;
      out.name = "v" + std::to_string(graph_.values.size() + outputs.size());
      out.dtype = type.dtype, out.shape = type.shape;
      outputs.push_back(std::move(out));
    }
    return graph_.nodes[graph_.add_node(node.op, std::move(node.args), std::move(outputs))].outputs;
  }
  ValueId call(std::string_view name, Args named) { return call_all(name, std::move(named))[0]; }
  ValueId unary(std::string_view name, ValueId x) { return call(name, {{"self", x}}); }
  ValueId binary(std::string_view name, ValueId a, Arg b) { return call(name, {{"self", a}, {"other", std::move(b)}}); }
  // Either order, where the op has one.
  ValueId commuted(std::string_view name, ValueId a, ValueId b) {
    return one_in(2) ? binary(name, a, b) : binary(name, b, a);
  }
  ValueId to(ValueId x, DType dtype) {
    if (dtype_of(x) == dtype) return x;
    return one_in(4) ? call("prims.convert_element_type.default", {{"a", x}, {"dtype", dtype}})
                     : call("aten.to.dtype", {{"self", x}, {"dtype", dtype}});
  }
  ValueId view(ValueId x, Shape shape) {
    return one_in(3) ? call("aten.view.default", {{"self", x}, {"size", shape}})
                     : call("aten.reshape.default", {{"self", x}, {"shape", shape}});
  }
  ValueId expand(ValueId x, Shape shape) { return call("aten.expand.default", {{"self", x}, {"size", shape}}); }
  // The last two axes swapped.
  ValueId transpose(ValueId x) {
    const int64_t rank = static_cast<int64_t>(shape_of(x).size());
    if (rank < 2) throw Refused{};
    if (one_in(2)) return call("aten.transpose.int", {{"self", x}, {"dim0", Dim(-1)}, {"dim1", Dim(rank - 2)}});
    std::vector<Dim> dims;
    for (int64_t i = 0; i < rank; ++i) dims.push_back(Dim(i + 2 < rank ? i : 2 * rank - 3 - i));
    return call("aten.permute.default", {{"self", x}, {"dims", dims}});
  }

  const Shape& shape_of(ValueId id) const { return graph_.value(id).shape; }
  DType dtype_of(ValueId id) const { return graph_.value(id).dtype; }
  static Shape with_last(Shape shape, Dim last) {
    shape.back() = std::move(last);
    return shape;
  }

  // ---- leaves ----

  template <class F>
  ValueId parameter(DType dtype, const std::vector<int64_t>& shape, F&& draw) {
    Tensor t = Tensor::zeros(dtype, shape);
    std::vector<std::byte> bytes(static_cast<size_t>(t.numel()) * dtype_bytes(dtype));
    for (size_t at = 0; at < bytes.size(); at += dtype_bytes(dtype)) draw(bytes.data() + at);
    return graph_.add_parameter("p" + std::to_string(graph_.values.size()),
                                Tensor::from_bytes(dtype, shape, std::move(bytes)));
  }
  ValueId integers(DType dtype, const std::vector<int64_t>& shape, int64_t low, int64_t high) {
    if (dtype_info(dtype).kind == DTypeKind::unsigned_int)
      high += -std::min<int64_t>(low, 0), low = std::max<int64_t>(low, 0);
    return parameter(dtype, shape, [&](std::byte* p) {
      const int64_t v = low + below(high - low + 1);
      is_floating(dtype) ? double_to_element(dtype, static_cast<double>(v), p) : int_to_element(dtype, v, p);
    });
  }
  // Between one and two units, of either sign where `negative`: divisors and scales are never nearly 0. Of exact
  // numbers one unit or two or half of one, a unit being a power of two.
  ValueId reals(DType dtype, const std::vector<int64_t>& shape, double unit, bool negative = true) {
    unit = exact_ ? std::exp2(std::round(std::log2(unit))) : unit;
    return parameter(dtype, shape, [&](std::byte* p) {
      const double v =
          unit * (exact_ ? one_of({0.5, 1.0, 1.0, 2.0}) : std::uniform_real_distribution<double>(1, 2)(random_));
      double_to_element(dtype, negative && one_in(2) ? -v : v, p);
    });
  }
  ValueId input(DType dtype, Shape shape) {
    return graph_.add_input("x" + std::to_string(graph_.inputs.size()), dtype, std::move(shape));
  }

  // A tensor of numbers of about this size; a parameter where the shape allows it and `constant` asks for it.
  ValueId leaf(DType dtype, const Shape& shape, double unit, bool constant) {
    const auto fixed = constant_shape(shape);
    if (!fixed && constant) throw Refused{};
    if (!constant && (!fixed || one_in(2))) return input(dtype, shape);
    if (!is_floating(dtype)) return integers(dtype, *fixed, -3, 3);
    return reals(dtype, *fixed, unit, one_in(3));
  }

  // A tensor of exactly this shape, stored like that or made so by views, casts and repetitions.
  ValueId spelled(DType dtype, const Shape& shape, double unit, bool constant) {
    switch (below(9)) {
      case 0: return view(leaf(dtype, {product(shape)}, unit, constant), shape);
      case 1: return expand(leaf(dtype, fewer_axes(shape), unit, constant), shape);
      case 2:
        return shape.size() < 2 ? leaf(dtype, shape, unit, constant)
                                : transpose(leaf(dtype, swapped(shape), unit, constant));
      case 3:
        return shape.size() < 2 ? leaf(dtype, shape, unit, constant)
                                : view(leaf(dtype, swapped(shape), unit, constant), shape);
      case 4: {
        if (!is_floating(dtype)) return to(leaf(DType::f32, shape, unit, constant), dtype);
        const DType other = one_of({DType::f32, DType::f64, DType::i32, DType::i8, DType::u8});
        return to(leaf(unit >= 1 ? other : DType::f32, shape, unit, constant), dtype);
      }
      default: return leaf(dtype, shape, unit, constant);
    }
  }
  static Shape swapped(Shape shape) {
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    return shape;
  }

  // A shape that broadcasts to this one.
  Shape fewer_axes(Shape shape) {
    for (Dim& d : shape)
      if (one_in(3)) d = Dim(1);
    while (!shape.empty() && shape[0].is_constant(1) && one_in(2)) shape.erase(shape.begin());
    return shape;
  }
  ValueId operand(DType dtype, const Shape& shape, double unit, bool constant) {
    return spelled(dtype, fewer_axes(shape), unit, constant);
  }

  // ---- what keeps a shape ----

  // Seldom more than x itself; then something that means the same, or nearly does, or something else altogether.
  ValueId maybe(ValueId x, uint64_t seldom = 6) {
    if (!one_in(seldom)) return x;
    return attempt([&] { return changed(x); }, x);
  }
  // What `write` gives, or this where it was refused something.
  template <class F, class T>
  T attempt(F&& write, T otherwise) {
    const Graph before = graph_;
    try {
      return write();
    } catch (const Refused&) {
      graph_ = before;
      return otherwise;
    }
  }

  ValueId changed(ValueId x) {
    const Shape shape = shape_of(x);
    const DType dtype = dtype_of(x);
    switch (below(16)) {
      case 0:
      case 1: return to(to(x, other_dtype(dtype)), dtype);
      case 2: return transpose(transpose(x));
      case 3: return view(transpose(x), shape);
      case 4: return view(transpose(view(x, swapped_or_refused(shape))), shape);
      case 5:
        if (swapped_or_refused(shape) != shape) throw Refused{};
        return transpose(x);
      case 6:
        return call("aten.squeeze.dim",
                    {{"self", call("aten.unsqueeze.default", {{"self", x}, {"dim", Dim(0)}})}, {"dim", Dim(0)}});
      case 7:
        return unary(one_of<std::string_view>({"aten.clone.default", "aten.contiguous.default", "aten.detach.default"}),
                     x);
      case 8: return binary("aten.mul.Tensor", x, one_of<Arg>({Arg(Dim(1)), Arg(1.0), Arg(Dim(2)), Arg(0.5)}));
      case 9: return binary("aten.add.Tensor", x, one_of<Arg>({Arg(Dim(0)), Arg(0.0), Arg(Dim(1)), Arg(0.5)}));
      case 10: return expand(x, shape);
      case 11:
        return call("aten.slice.Tensor",
                    {{"self", x}, {"dim", Dim(0)}, {"start", Dim(0)}, {"end", shape.empty() ? Dim(0) : shape[0]}});
      case 12:
        return expand(call("aten.slice.Tensor", {{"self", x}, {"dim", Dim(-1)}, {"start", Dim(0)}, {"end", Dim(1)}}),
                      shape);
      case 13:
        return expand(call("aten.slice.Tensor", {{"self", x}, {"dim", Dim(0)}, {"start", Dim(0)}, {"end", Dim(1)}}),
                      shape);
      case 14: return unary("aten.neg.default", unary("aten.neg.default", x));
      default:
        return call("aten.clamp.default",
                    {{"self", x}, {"min", Arg(Dim(-5))}, {"max", Arg(Dim(one_of<int64_t>({5, 7, 127})))}});
    }
  }
  static Shape swapped_or_refused(const Shape& shape) {
    if (shape.size() < 2) throw Refused{};
    return swapped(shape);
  }
  DType other_dtype(DType dtype) {
    if (is_floating(dtype) && one_in(2))
      return exact_ ? one_of({DType::f32, half_, DType::f64}) : one_of({DType::f32, DType::f64});
    return one_of({DType::f32, DType::i32, DType::i64, DType::i8, DType::u8, DType::boolean, DType::i16, DType::f8e4m3,
                   DType::f8e5m2, DType::f64});
  }

  std::mt19937_64 random_;
  Graph graph_;
  // Constants are such that arithmetic with them is exact in bf16 too. Which of its roundings a weight keeps is not
  // defined; other graphs have no roundings but those to f32.
  const bool exact_;
  const DType half_;  // one kind per graph: what one of them loses, the other does not show
};

}  // namespace qcg

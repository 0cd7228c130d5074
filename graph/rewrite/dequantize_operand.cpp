#include "graph/rewrite/dequantize_operand.h"

namespace qcg {

namespace {

class Dequantizer {
 public:
  Dequantizer(OpEmitter& e, const Graph& graph, const Dim& rows, int64_t k)
      : e_(e), graph_(graph), rows_(rows), k_(k) {}

  // stored: [rows, K], or half of that where two share a byte.
  ValueId run(ValueId stored, const ScaledOperand& operand) {
    ValueId v = decode(e_.to(stored, DType::f32), operand.coding);
    if (operand.zero.value != kNoValue) v = apply("aten.sub.Tensor", v, operand.zero);
    if (operand.scale.value != kNoValue) v = apply("aten.mul.Tensor", v, operand.scale);
    return v;
  }

 private:
  ValueId times(ValueId a, double factor) { return e_.binary("aten.mul.Tensor", a, factor); }
  ValueId above(ValueId a, double limit) {  // max(a - limit, 0)
    return e_.op("aten.clamp_min.default", {{"self", e_.binary("aten.sub.Tensor", a, limit)}, {"min", 0.0}});
  }

  ValueId decode(ValueId v, Coding coding) {
    if (coding == Coding::plain) return v;
    if (is_packed(coding)) v = unpack(v, coding == Coding::int4_packed);
    return coding == Coding::int4_packed ? e_.binary("aten.sub.Tensor", v, 8.0) : e2m1(v);
  }

  // Bytes 16 * high + low become neighbours.
  ValueId unpack(ValueId bytes, bool high_first) {
    const ValueId high = e_.unary("aten.floor.default", times(bytes, 1.0 / 16));
    const ValueId low = e_.binary("aten.sub.Tensor", bytes, times(high, 16));
    const Shape pair = {rows_, Dim(k_ / 2), Dim(1)};
    std::vector<ValueId> parts = {e_.reshape(low, pair), e_.reshape(high, pair)};
    if (high_first) std::swap(parts[0], parts[1]);
    return e_.reshape(e_.op("aten.cat.default", {{"tensors", parts}, {"dim", Dim(-1)}}), {rows_, Dim(k_)});
  }

  // Codes 0..7 are 0 1 2 3 4 6 8 12 halves, piecewise linear; 8..15 are their negatives.
  ValueId e2m1(ValueId code) {
    const ValueId negative = e_.op("aten.clamp_max.default", {{"self", above(code, 7)}, {"max", 1.0}});
    const ValueId c = e_.binary("aten.sub.Tensor", code, times(negative, 8));
    // One statement each: compilers evaluate arguments in different orders, and values are numbered as they are made.
    const ValueId beyond_six = times(above(c, 6), 2);
    const ValueId up_to_six = e_.binary("aten.add.Tensor", c, above(c, 4));
    const ValueId twice = e_.binary("aten.add.Tensor", up_to_six, beyond_six);
    return e_.binary("aten.mul.Tensor", twice, e_.binary("aten.rsub.Scalar", negative, 0.5));
  }

  ValueId apply(Op op, ValueId v, const BlockNumbers& numbers) {
    if (graph_.value(numbers.value).dtype == DType::u8 && op == "aten.mul.Tensor") {
      e_.fail(Error::unsupported(graph_.value(numbers.value).name,
                                 "scales stored as u8 exponents and computed at run time",
                                 "view them as torch.float8_e8m0fnu"));
      return v;
    }
    ValueId n = e_.to(numbers.value, DType::f32);
    if (numbers.group == 0) return e_.binary(op, v, numbers.outer == 0 ? n : e_.reshape(n, {rows_, Dim(1)}));
    if (numbers.outer > 1) {
      e_.fail(Error::unsupported(graph_.value(numbers.value).name,
                                 "scales of square blocks of a matrix that is computed at run time",
                                 "use one scale per row, or per row and block along K"));
      return v;
    }
    if (numbers.k_first) n = e_.transpose(n);
    const Dim rows = numbers.outer == 0 ? Dim(1) : rows_, groups(count_blocks(k_, numbers.group)), group(numbers.group);
    n = e_.reshape(n, {rows, groups, Dim(1)});
    if (k_ % numbers.group == 0)
      return e_.reshape(e_.binary(op, e_.reshape(v, {rows_, groups, group}), n), {rows_, Dim(k_)});
    const ValueId wide = e_.op("aten.expand.default", {{"self", n}, {"size", std::vector<Dim>{rows, groups, group}}});
    const ValueId each = e_.reshape(wide, {rows, groups * group});
    return e_.binary(
        op, v, e_.op("aten.slice.Tensor", {{"self", each}, {"dim", Dim(1)}, {"start", Dim(0)}, {"end", Dim(k_)}}));
  }

  OpEmitter& e_;
  const Graph& graph_;
  Dim rows_;
  int64_t k_;
};

}  // namespace

ValueId dequantize_x(OpEmitter& e, const Graph& graph, const ScaledOperand& x, const Dim& rows, int64_t k) {
  const ValueId flat = e.reshape(x.value, {rows, graph.value(x.value).shape.back()});
  return Dequantizer(e, graph, rows, k).run(flat, x);
}

ValueId dequantize_w(OpEmitter& e, const Graph& graph, const ScaledOperand& w, const Dim& rows, int64_t k) {
  return Dequantizer(e, graph, rows, k).run(e.transpose(w.value), w);
}

ValueId write_scaled_product(OpEmitter& e, const Graph& graph, const Node& node) {
  auto p = read_scaled_product(graph, node);
  if (!p.ok()) {
    e.fail(p.error());
    return 0;
  }
  const ValueId x = dequantize_x(e, graph, p->x, product(p->lead), p->k), w = dequantize_w(e, graph, p->w, p->n, p->k);
  ValueId y = e.op("aten.matmul.default", {{"self", x}, {"other", e.transpose(w)}});
  if (p->bias != kNoValue) y = e.binary("aten.add.Tensor", y, e.to(p->bias, DType::f32));
  if (p->result_scale != kNoValue) y = e.binary("aten.div.Tensor", y, p->result_scale);
  return y;
}

}  // namespace qcg

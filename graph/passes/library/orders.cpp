// What stands at places of an order along an axis, and where elements would stand in one.
#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/passes/library/library.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

// A tensor and one of its axes.
struct Line {
  ValueId x;
  Dim axis, size;
};

// The axis `dim`; without one, that of the whole tensor as a list.
Line line_of(OpEmitter& e, const Graph& graph, const Node& node) {
  ValueId x = node.tensor("self");
  const bool whole = node.op->arg_index("dim") < 0 || node.arg("dim").is_none() || graph.value(x).shape.empty();
  if (whole) x = e.reshape(x, {product(graph.value(x).shape)});
  const Shape& shape = graph.value(x).shape;
  const size_t axis = whole ? 0 : *as_axis(node.arg("dim"), shape.size());
  return {x, axis_number(axis), shape[axis]};
}

// The element at place k of the order, and its position. With `nan`, a NaN among the elements is the result.
Values element_at(OpEmitter& e, const Graph& graph, const Line& line, const Dim& k, bool nan) {
  const auto [x, axis, size] = line;
  const ValueId order = e.op("aten.argsort.stable", {{"self", x}, {"stable", true}, {"dim", axis}});
  ValueId position = e.op("aten.slice.Tensor", {{"self", order}, {"dim", axis}, {"start", k}, {"end", k + Dim(1)}});
  ValueId value = e.op("aten.gather.default", {{"self", x}, {"dim", axis}, {"index", position}});
  if (!nan || !e.status().ok() || !is_floating(graph.value(x).dtype)) return {value, position};
  const ValueId most = e.op("aten.amax.default", {{"self", x}, {"dim", std::vector<Dim>{axis}}, {"keepdim", true}}),
                first = e.op("aten.argmax.default", {{"self", x}, {"dim", axis}, {"keepdim", true}}),
                is_nan = e.unary("aten.isnan.default", most);
  const auto chosen = [&](ValueId yes, ValueId no) {
    return e.op("aten.where.self", {{"condition", is_nan}, {"self", yes}, {"other", no}});
  };
  return {chosen(most, value), chosen(first, position)};
}

Values write_median(OpEmitter& e, const Graph& graph, const Node& node) {
  const Line line = line_of(e, graph, node);
  Values out = element_at(e, graph, line, Dim::floor_divide(line.size - Dim(1), Dim(2)), true);
  out.resize(node.outputs.size());
  return out;
}

Values write_kth_value(OpEmitter& e, const Graph& graph, const Node& node) {
  return element_at(e, graph, line_of(e, graph, node), *node.arg("k").get<Dim>() - Dim(1), false);
}

// The median of the elements that are no NaN, which an order has first.
Values write_nan_median(OpEmitter& e, const Graph& graph, const Node& node) {
  const auto [x, axis, size] = line_of(e, graph, node);
  if (!is_floating(graph.value(x).dtype)) return write_median(e, graph, node);
  const ValueId order = e.op("aten.argsort.stable", {{"self", x}, {"stable", true}, {"dim", axis}});
  const ValueId counts = e.unary("aten.logical_not.default", e.unary("aten.isnan.default", x));
  const ValueId count =
      e.op("aten.sum.dim_IntList", {{"self", counts}, {"dim", std::vector<Dim>{axis}}, {"keepdim", true}});
  const ValueId before = e.op("aten.clamp_min.default", {{"self", count}, {"min", Dim(1)}});
  const ValueId place =
      e.op("aten.floor_divide.Scalar", {{"self", e.binary("aten.sub.Tensor", before, Dim(1))}, {"other", Dim(2)}});
  const auto at = [&](ValueId of, ValueId index) {
    return e.op("aten.gather.default", {{"self", of}, {"dim", axis}, {"index", index}});
  };
  const ValueId position = at(order, place);
  Values out = {at(x, position), position};
  out.resize(node.outputs.size());
  return out;
}

// The first of the most frequent elements in the order, where it stands last.
Values write_mode(OpEmitter& e, const Graph& graph, const Node& node) {
  const auto [given, axis, size] = line_of(e, graph, node);
  const auto swapped = [&](ValueId v) {
    return e.op("aten.transpose.int", {{"self", v}, {"dim0", axis}, {"dim1", Dim(-1)}});
  };
  const ValueId x = swapped(given);
  Shape rows = graph.value(x).shape, columns = rows;
  rows.emplace_back(1), columns.insert(columns.end() - 1, Dim(1));
  const ValueId equal = e.binary("aten.eq.Tensor", e.reshape(x, rows), e.reshape(x, columns));
  const ValueId times = e.op("aten.sum.dim_IntList", {{"self", equal}, {"dim", std::vector<Dim>{Dim(-1)}}});
  const ValueId order = e.op("aten.argsort.stable", {{"self", x}, {"stable", true}});
  const auto at = [&](ValueId of, ValueId index) {
    return e.op("aten.gather.default", {{"self", of}, {"dim", Dim(-1)}, {"index", index}});
  };
  const ValueId in_order = at(times, order);
  const ValueId first = e.op("aten.argmax.default", {{"self", in_order}, {"dim", Dim(-1)}, {"keepdim", true}});
  const ValueId last = e.binary("aten.add.Tensor", first, e.binary("aten.sub.Tensor", at(in_order, first), Dim(1)));
  const ValueId position = at(order, last);
  return {swapped(at(x, position)), swapped(position)};
}

// Interpolates between the elements at the places below and above q * (size - 1); a NaN among the elements is the
// result. nanquantile takes the number of elements that are no NaN as the size; NaN comes last in the order.
Values write_quantile(OpEmitter& e, const Graph& graph, const Node& node) {
  auto [x, axis, size] = line_of(e, graph, node);
  const DType dtype = graph.value(x).dtype;
  const size_t rank = graph.value(x).shape.size();
  std::vector<Dim> order;
  for (size_t i = 0; i < rank; ++i) order.push_back(axis_number(i));
  std::rotate(order.begin() + axis.constant(), order.begin() + axis.constant() + 1, order.end());
  x = e.op("aten.permute.default", {{"self", x}, {"dims", order}});
  const Dim last(-1);
  const ValueId sorted =
      e.op("aten.gather.default",
           {{"self", x}, {"dim", last}, {"index", e.op("aten.argsort.stable", {{"self", x}, {"stable", true}})}});
  const ValueId* list = node.arg("q").get<ValueId>();
  const ValueId q =
      list ? e.reshape(*list, {product(graph.value(*list).shape)})
           : e.op("aten.full.default", {{"size", Shape{Dim(1)}}, {"fill_value", node.arg("q")}, {"dtype", dtype}});
  const bool leaves_out = node.op->name.starts_with("aten.nanquantile");
  const auto last_numbers = [&] {  // by row, and 0 where there are none
    const ValueId counted = e.unary("aten.logical_not.default", e.unary("aten.isnan.default", x));
    const ValueId count =
        e.op("aten.sum.dim_IntList", {{"self", counted}, {"dim", std::vector<Dim>{last}}, {"keepdim", true}});
    const ValueId some = e.op("aten.clamp_min.default", {{"self", count}, {"min", Dim(1)}});
    return e.to(e.binary("aten.sub.Tensor", some, Dim(1)), dtype);
  };
  const ValueId rank_of =
      leaves_out ? e.binary("aten.mul.Tensor", q, last_numbers()) : e.binary("aten.mul.Tensor", q, size - Dim(1));
  const ValueId below = e.unary("aten.floor.default", rank_of);
  const auto at = [&](ValueId place) {
    return e.op(leaves_out ? Op("aten.gather.default") : Op("aten.index_select.default"),
                {{"self", sorted}, {"dim", last}, {"index", e.to(place, DType::i64)}});
  };
  const ValueId low = at(below), high = at(e.unary("aten.ceil.default", rank_of));
  const ValueId share = e.binary("aten.sub.Tensor", rank_of, below);
  const ValueId between = e.op("aten.lerp.Tensor", {{"self", low}, {"end", high}, {"weight", share}});
  const ValueId greatest =
      e.op("aten.slice.Tensor", {{"self", sorted}, {"dim", last}, {"start", size - Dim(1)}, {"end", size}});
  const ValueId y =
      leaves_out
          ? between
          : e.op("aten.where.self",
                 {{"condition", e.unary("aten.isnan.default", greatest)}, {"self", greatest}, {"other", between}});
  std::rotate(order.begin(), order.end() - 1, order.end());
  for (size_t i = 0; i < rank; ++i) order[i] = axis_number(i == 0 ? rank - 1 : i - 1);
  return {list ? e.op("aten.permute.default", {{"self", y}, {"dims", order}}) : y};
}

// How many elements of the sequence are <= x (right) or < x (left); all of them if x is NaN.
ValueId places_in(OpEmitter& e, const Graph& graph, ValueId sequence, ValueId x, bool right) {
  Shape columns = graph.value(sequence).shape, rows = graph.value(x).shape;
  if (columns.size() > 1) columns.insert(columns.end() - 1, Dim(1));
  rows.emplace_back(1);
  const ValueId behind =
      e.binary(right ? Op("aten.gt.Tensor") : Op("aten.ge.Tensor"), e.reshape(sequence, columns), e.reshape(x, rows));
  return e.op("aten.sum.dim_IntList",
              {{"self", e.unary("aten.logical_not.default", behind)}, {"dim", std::vector<Dim>{Dim(-1)}}});
}

Values write_searchsorted(OpEmitter& e, const Graph& graph, const Node& node) {
  const auto* side = node.arg("side").get<std::string>();
  const bool right = side ? *side == "right" : *node.arg("right").get<bool>();
  return {places_in(e, graph, node.tensor("sorted_sequence"), node.tensor("self"), right)};
}

Values write_bucketize(OpEmitter& e, const Graph& graph, const Node& node) {
  return {places_in(e, graph, node.tensor("boundaries"), node.tensor("self"), *node.arg("right").get<bool>())};
}

// Each element compared with all of the list.
Values write_isin(OpEmitter& e, const Graph& graph, const Node& node) {
  const auto given = [&](std::string_view tensor, std::string_view number) {
    return node.op->arg_index(tensor) >= 0 ? Arg(node.tensor(tensor)) : node.arg(number);
  };
  const Arg elements = given("elements", "element"), list = given("test_elements", "test_element");
  const ValueId *x = elements.get<ValueId>(), *all = list.get<ValueId>();
  ValueId found = kNoValue;
  if (!all) {
    found = e.binary("aten.eq.Scalar", *x, list);
  } else {
    const ValueId row = e.reshape(*all, {product(graph.value(*all).shape)});
    ValueId equal = kNoValue;
    if (x) {
      Shape rows = graph.value(*x).shape;
      rows.emplace_back(1);
      equal = e.binary("aten.eq.Tensor", e.reshape(*x, rows), row);
    } else {
      equal = e.binary("aten.eq.Scalar", row, elements);
    }
    found = e.op("aten.any.dim", {{"self", equal}, {"dim", Dim(-1)}});
  }
  return {*node.arg("invert").get<bool>() ? e.unary("aten.logical_not.default", found) : found};
}

constexpr LibraryOp kOrderOps[] = {
    {"aten.nanmedian.default", write_nan_median},
    {"aten.nanmedian.dim", write_nan_median},
    {"aten.mode.default", write_mode},
    {"aten.isin.Tensor_Tensor", write_isin},
    {"aten.isin.Tensor_Scalar", write_isin},
    {"aten.isin.Scalar_Tensor", write_isin},
    {"aten.median.default", write_median},
    {"aten.median.dim", write_median},
    {"aten.kthvalue.default", write_kth_value},
    {"aten.quantile.scalar", write_quantile},
    {"aten.quantile.default", write_quantile},
    {"aten.nanquantile.scalar", write_quantile},
    {"aten.nanquantile.default", write_quantile},
    {"aten.searchsorted.Tensor", write_searchsorted},
    {"aten.bucketize.Tensor", write_bucketize},
};

}  // namespace

std::span<const LibraryOp> library_orders() { return kOrderOps; }

}  // namespace qcg

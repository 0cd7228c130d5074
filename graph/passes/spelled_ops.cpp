// Other spellings of products, sums, slices and look-ups, written out.
#include "graph/passes/spelled_ops.h"

#include <algorithm>

#include "graph/ops/einsum.h"
#include "graph/ops/infer.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

bool has(const std::string& labels, char label) { return labels.find(label) != labels.npos; }

// A tensor with a label per axis.
struct Labelled {
  ValueId value;
  std::string labels;
};

ValueId in_order(OpEmitter& e, const Labelled& x, const std::string& to) {
  if (x.labels == to) return x.value;
  std::vector<Dim> dims;
  for (char label : to) dims.push_back(axis_number(x.labels.find(label)));
  return e.op("aten.permute.default", {{"self", x.value}, {"dims", dims}});
}

// Without the axes that nobody else has.
Labelled summed(OpEmitter& e, const Graph& graph, const Labelled& x, const std::string& kept) {
  std::vector<Dim> axes;
  std::string labels;
  Shape shape;
  bool adds = false;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const Dim& size = graph.value(x.value).shape[i];
    if (has(kept, x.labels[i])) labels += x.labels[i], shape.push_back(size);
    else axes.push_back(axis_number(i)), adds = adds || !size.is_constant(1);
  }
  if (axes.empty()) return x;
  if (!adds) return {e.reshape(x.value, shape), labels};
  return {e.op("aten.sum.dim_IntList", {{"self", x.value}, {"dim", axes}}), labels};
}

// One product: axes of both that are kept are its batch, those that are not are contracted.
Labelled product_of(OpEmitter& e, const Graph& graph, const Einsum& einsum, Labelled a, Labelled b,
                    const std::string& kept) {
  a = summed(e, graph, a, kept + b.labels), b = summed(e, graph, b, kept + a.labels);
  std::string batch, rows, columns, sums;
  for (char label : a.labels) (!has(b.labels, label) ? rows : has(kept, label) ? batch : sums) += label;
  for (char label : b.labels)
    if (!has(a.labels, label)) columns += label;
  const auto size = [&](const std::string& labels) {
    Dim all(1);
    for (char label : labels) all = all * einsum.sizes.at(label);
    return all;
  };
  Shape left = {size(rows), size(sums)}, right = {size(sums), size(columns)};
  if (!batch.empty()) left.insert(left.begin(), size(batch)), right.insert(right.begin(), size(batch));
  const ValueId x = e.reshape(in_order(e, a, batch + rows + sums), left);
  const ValueId w = e.reshape(in_order(e, b, batch + sums + columns), right);
  const ValueId y = e.op("aten.matmul.default", {{"self", x}, {"other", w}});
  const std::string labels = batch + rows + columns;
  Shape shape;
  for (char label : labels) shape.push_back(einsum.sizes.at(label));
  return {e.reshape(y, shape), labels};
}

// One axis where a label stands twice.
Labelled with_diagonals(OpEmitter& e, Labelled x) {
  for (size_t i = 0; i < x.labels.size();) {
    const size_t other = x.labels.find(x.labels[i], i + 1);
    if (other == x.labels.npos) {
      ++i;
      continue;
    }
    x.value =
        e.op("aten.diagonal.default", {{"self", x.value}, {"dim1", axis_number(i)}, {"dim2", axis_number(other)}});
    const char label = x.labels[i];
    x.labels.erase(other, 1), x.labels.erase(i, 1);
    x.labels += label;
    i = 0;
  }
  return x;
}

Dim axis_of(const Arg& dim, size_t rank) { return axis_number(*as_axis(dim, rank)); }

// The elements behind `shift` places, then those before: a cat of two slices.
ValueId rolled(OpEmitter& e, const Graph& graph, ValueId x, const Dim& axis, int64_t shift) {
  const Dim size = graph.value(x).shape[static_cast<size_t>(axis.constant())];
  if (size.is_constant()) {
    if (size.constant() == 0) return x;
    shift = (shift % size.constant() + size.constant()) % size.constant();
  }
  if (shift == 0) return x;
  const Dim cut = shift > 0 ? size - Dim(shift) : Dim(-shift);
  const ValueId behind = e.op("aten.slice.Tensor", {{"self", x}, {"dim", axis}, {"start", cut}, {"end", size}}),
                before = e.op("aten.slice.Tensor", {{"self", x}, {"dim", axis}, {"start", Dim(0)}, {"end", cut}});
  return e.op("aten.cat.default", {{"tensors", Values{behind, before}}, {"dim", axis}});
}

}  // namespace

bool is_einsum(Op op) { return op == Op("aten.einsum.default"); }

// From left to right, one product at a time.
Values write_einsum(OpEmitter& e, const Graph& graph, const Node& node) {
  auto einsum = read_einsum({graph, node});
  if (!einsum.ok()) return e.fail(einsum.error()), Values{};
  Values tensors = *node.arg("tensors").get<Values>();
  for (ValueId& tensor : tensors) tensor = e.to(tensor, graph.value(node.outputs[0]).dtype);
  Labelled y = with_diagonals(e, {tensors[0], einsum->inputs[0]});
  for (size_t i = 1; i < tensors.size() && e.status().ok(); ++i) {
    std::string kept = einsum->output;
    for (size_t k = i + 1; k < tensors.size(); ++k) kept += einsum->inputs[k];
    y = product_of(e, graph, *einsum, y, with_diagonals(e, {tensors[i], einsum->inputs[i]}), kept);
  }
  if (!e.status().ok()) return {};
  return {in_order(e, summed(e, graph, y, einsum->output), einsum->output)};
}

Values write_outer(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId column = e.reshape(node.tensor("self"), {graph.value(node.tensor("self")).shape[0], Dim(1)});
  return {e.binary("aten.mul.Tensor", column, node.tensor("vec2"))};
}

// A vector is a column on the right, a row on the left.
Values write_product_of_vector(OpEmitter& e, const Graph& graph, const Node& node) {
  ValueId x = node.tensor("self");
  const ValueId vector = node.tensor(node.op->arg_index("vec") >= 0 ? "vec" : "tensor");
  const Dim k = graph.value(vector).shape[0];
  if (graph.value(x).shape.size() == 1) x = e.reshape(x, {Dim(1), k});
  return {e.op("aten.matmul.default", {{"self", x}, {"other", e.reshape(vector, {k, Dim(1)})}})};
}

// log(sum(exp(x - m))) + m, where m is the maximum, or 0 if that is infinite, as in torch.
Values write_log_sum(OpEmitter& e, const Graph&, const Node& node) {
  const ValueId x = e.widened(node.tensor("self"));
  const auto over = [&](Op reduction, ValueId v) {
    return e.op(reduction, {{"self", v}, {"dim", node.arg("dim")}, {"keepdim", true}});
  };
  const ValueId largest = over("aten.amax.default", x);
  const ValueId m = e.op("aten.where.ScalarOther",
                         {{"condition", e.unary("aten.isfinite.default", largest)}, {"self", largest}, {"other", 0.0}});
  const ValueId sum = over("aten.sum.dim_IntList", e.unary("aten.exp.default", e.binary("aten.sub.Tensor", x, m)));
  return {e.binary("aten.add.Tensor", e.unary("aten.log.default", sum), m)};
}

Values write_weight_norm(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId v = e.widened(node.tensor("v")), g = e.widened(node.tensor("g"));
  const size_t rank = graph.value(v).shape.size(), axis = *as_axis(node.arg("dim"), rank);
  std::vector<Dim> others;
  for (size_t i = 0; i < rank; ++i)
    if (i != axis) others.push_back(axis_number(i));
  const ValueId squares = e.binary("aten.mul.Tensor", v, v);
  // A sum over no axes would be one over all.
  const ValueId sums =
      others.empty() ? squares : e.op("aten.sum.dim_IntList", {{"self", squares}, {"dim", others}, {"keepdim", true}});
  return {e.binary("aten.mul.Tensor", v, e.binary("aten.div.Tensor", g, e.unary("aten.sqrt.default", sums)))};
}

Values write_roll(OpEmitter& e, const Graph& graph, const Node& node) {
  const std::vector<Dim> shifts = *node.arg("shifts").get<std::vector<Dim>>();
  const auto* dims = node.arg("dims").get<std::vector<Dim>>();
  ValueId x = node.tensor("self");
  const size_t rank = graph.value(x).shape.size();
  if (!dims || dims->empty())
    return {rolled(e, graph, e.reshape(x, {product(graph.value(x).shape)}), Dim(0), shifts[0].constant())};
  for (size_t i = 0; i < shifts.size() && rank > 0 && e.status().ok(); ++i)
    x = rolled(e, graph, x, axis_of(Arg((*dims)[i]), rank), shifts[i].constant());
  return {x};
}

// A pad with what is there, an axis at a time.
Values write_continuation(OpEmitter& e, const Graph& graph, const Node& node) {
  ValueId x = node.tensor("self");
  const std::vector<Dim> sizes = *node.arg(node.op->arg_index("pad") >= 0 ? "pad" : "padding").get<std::vector<Dim>>();
  const std::string_view mode = pad_mode(node);
  for (size_t i = 0; i < sizes.size() && e.status().ok(); i += 2) {
    const size_t axis = graph.value(x).shape.size() - 1 - i / 2;
    const Dim dim = axis_number(axis), size = graph.value(x).shape[axis];
    const auto part = [&](const Dim& start, const Dim& count) {
      return e.op("aten.slice.Tensor", {{"self", x}, {"dim", dim}, {"start", start}, {"end", start + count}});
    };
    const auto beside = [&](const Dim& count, bool behind) {
      if (mode == "circular") return part(behind ? Dim(0) : size - count, count);
      if (mode == "reflect") {
        const ValueId forward = part(behind ? size - count - Dim(1) : Dim(1), count);
        return e.op("aten.flip.default", {{"self", forward}, {"dims", std::vector<Dim>{dim}}});
      }
      const ValueId end = part(behind ? size - Dim(1) : Dim(0), Dim(1));
      Shape shape = graph.value(x).shape;
      shape[axis] = count;
      return e.op("aten.expand.default", {{"self", end}, {"size", shape}});
    };
    Values parts = {x};
    if (!sizes[i].is_constant(0)) parts.insert(parts.begin(), beside(sizes[i], false));
    if (!sizes[i + 1].is_constant(0)) parts.push_back(beside(sizes[i + 1], true));
    if (parts.size() > 1) x = e.op("aten.cat.default", {{"tensors", parts}, {"dim", dim}});
  }
  return {x};
}

Values write_meshgrid(OpEmitter& e, const Graph& graph, const Node& node) {
  const Values tensors = *node.arg("tensors").get<Values>();
  const bool swapped =
      tensors.size() > 1 && node.op->arg_index("indexing") >= 0 && *node.arg("indexing").get<std::string>() == "xy";
  Values out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Shape all = graph.value(node.outputs[i]).shape;
    const size_t axis = swapped && i < 2 ? 1 - i : i;
    Shape thin(all.size(), Dim(1));
    thin[axis] = all[axis];
    out.push_back(e.op("aten.expand.default", {{"self", e.reshape(tensors[i], thin)}, {"size", all}}));
  }
  return out;
}

Values write_broadcast_tensors(OpEmitter& e, const Graph& graph, const Node& node) {
  Values out;
  for (ValueId id : *node.arg("tensors").get<Values>())
    out.push_back(e.op("aten.expand.default", {{"self", id}, {"size", graph.value(node.outputs[0]).shape}}));
  return out;
}

// Which element of source is next: how many the mask has taken before.
Values write_masked_scatter(OpEmitter& e, const Graph& graph, const Node& node) {
  const Shape shape = graph.value(node.outputs[0]).shape;
  const auto expanded = [&](ValueId v) { return e.op("aten.expand.default", {{"self", v}, {"size", shape}}); };
  const ValueId mask = expanded(node.tensor("mask")), self = expanded(node.tensor("self"));
  const ValueId flat = e.reshape(mask, {product(shape)});
  const ValueId taken = e.op("aten.cumsum.default", {{"self", flat}, {"dim", Dim(0)}, {"dtype", DType::i64}});
  const ValueId next =
      e.op("aten.clamp_min.default", {{"self", e.binary("aten.sub.Tensor", taken, Dim(1))}, {"min", Dim(0)}});
  const ValueId found = e.op("aten.take.default", {{"self", node.tensor("source")}, {"index", e.reshape(next, shape)}});
  return {e.op("aten.where.self", {{"condition", mask}, {"self", found}, {"other", self}})};
}

}  // namespace qcg

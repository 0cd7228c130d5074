#include "graph/checkpoints/attach.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/ir/elements.h"
#include "graph/ops/op_table.h"
#include "graph/read/json.h"

namespace qcg {

namespace {

Shape shape_of(const std::vector<int64_t>& sizes) { return Shape(sizes.begin(), sizes.end()); }

// "gate_proj.qweight" for the part "qweight" of "gate_proj.weight": steps are called after the module.
std::string part_name(std::string name, std::string_view part) {
  constexpr std::string_view kWeight = ".weight";
  if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
  return name + "." + std::string(part);
}

void number_producers(Graph& graph) {
  for (NodeId n = 0; n < graph.nodes.size(); ++n)
    for (size_t i = 0; i < graph.nodes[n].outputs.size(); ++i) {
      Value& value = graph.value(graph.nodes[n].outputs[i]);
      value.producer = n, value.output = static_cast<uint32_t>(i);
    }
}

// Nodes in front of all others, the last of which takes the place of a parameter.
class NodesInFront {
 public:
  NodesInFront(Graph& graph, ValueId id) : graph_(graph), id_(id), old_nodes_(graph.nodes.size()) {}

  // Parameters that the graph did not have, named after the one that they replace.
  ValueId parameter(std::string_view part, const Tensor& data) {
    return graph_.add_parameter(graph_.unique_name(part_name(graph_.value(id_).name, part)), data);
  }

  ValueId node(Op op, std::vector<Arg> args, DType dtype, Shape shape) {
    Value value;
    value.name = graph_.unique_name(graph_.value(id_).name + ".step");
    value.dtype = dtype, value.shape = std::move(shape);
    const NodeId made = graph_.add_node(op.schema(), std::move(args), {std::move(value)});
    graph_.nodes[made].origins = {graph_.value(id_).name};
    return graph_.nodes[made].outputs[0];
  }

  // The parameter is what the last node gives; whoever reads it reads that.
  void finish() {
    Node& last = graph_.nodes.back();
    Value& value = graph_.value(id_);
    value.kind = ValueKind::node;
    value.data = Tensor();
    last.outputs[0] = id_;
    std::rotate(graph_.nodes.begin(), graph_.nodes.begin() + static_cast<ptrdiff_t>(old_nodes_), graph_.nodes.end());
    number_producers(graph_);
  }

 private:
  Graph& graph_;
  ValueId id_;
  size_t old_nodes_;
};

Dim dim(int64_t size) { return Dim(size); }

void write_dequantize(NodesInFront& nodes, const QuantizedWeight& w, DType to) {
  const auto shape = w.shape();
  const ValueId codes = nodes.parameter("qweight", w.codes), scale = nodes.parameter("scales", w.scale);
  const Arg zero = w.zero.bound() ? Arg(nodes.parameter("qzeros", w.zero)) : Arg();
  nodes.node("torchao.dequantize_affine.default",
             {codes, std::vector<Dim>{dim(1), dim(w.group)}, scale, zero, w.codes.dtype, dim(w.low), dim(w.high), to},
             to, shape_of(shape));
}

// (codes * scale) + offset, over [N, G, group]
void write_arithmetic(NodesInFront& nodes, const QuantizedWeight& w, DType to) {
  const auto shape = w.shape();
  const int64_t n = shape[0], k = shape[1], groups = k / w.group;
  const Shape wide = shape_of({n, groups, w.group}), one_each = shape_of({n, groups, 1});
  const auto dims = [](const Shape& s) { return std::vector<Dim>(s.begin(), s.end()); };
  const auto numbers = [&](std::string_view part, const Tensor& data) {
    const ValueId stored = nodes.parameter(part, data);
    const ValueId reshaped = nodes.node("aten.reshape.default", {stored, dims(one_each)}, data.dtype, one_each);
    if (data.dtype == DType::f32) return reshaped;
    return nodes.node("aten.to.dtype", {reshaped, DType::f32}, DType::f32, one_each);
  };
  const ValueId codes = nodes.parameter("qweight", w.codes), scale = numbers("scales", w.scale);
  ValueId value = nodes.node("aten.reshape.default", {codes, dims(wide)}, w.codes.dtype, wide);
  value = nodes.node("aten.to.dtype", {value, DType::f32}, DType::f32, wide);
  value = nodes.node("aten.mul.Tensor", {value, scale}, DType::f32, wide);
  if (w.offset.bound()) value = nodes.node("aten.add.Tensor", {value, numbers("offsets", w.offset)}, DType::f32, wide);
  value = nodes.node("aten.reshape.default", {value, dims(shape_of(shape))}, DType::f32, shape_of(shape));
  nodes.node("aten.to.dtype", {value, to}, to, shape_of(shape));
}

void write_four_bit(NodesInFront& nodes, const QuantizedWeight& w, DType to) {
  const auto shape = w.shape();
  const ValueId codes = nodes.parameter("qweight", w.codes), scale = nodes.parameter("scales", w.scale);
  const Arg global = w.global.bound() ? Arg(nodes.parameter("global_scale", w.global)) : Arg();
  nodes.node("qcg.dequantize_4bit",
             {codes, scale, w.format, std::vector<Dim>{dim(shape[0]), dim(shape[1])}, global, dim(w.group),
              std::string("auto"), to},
             to, shape_of(shape));
}

// A product x @ w^T: where it has x and the weight, and whether the weight comes turned.
struct Product {
  std::string_view op, x, weight;
  bool turned;
};
constexpr Product kProducts[] = {{"aten.linear.default", "input", "weight", false},
                                 {"aten.mm.default", "self", "mat2", true},
                                 {"aten.addmm.default", "mat1", "mat2", true},
                                 {"aten.matmul.default", "self", "other", true}};

bool turns(const Node& node) {
  return node.op->name == "aten.t.default" || node.op->name == "aten.permute.default" ||
         node.op->name == "aten.transpose.int";
}

// Every product with the weight reads the columns of its activation in the order of the codes. The nodes are moved over
// one by one, so that each look-up stands in front of the first product that reads it.
class ColumnOrder {
 public:
  ColumnOrder(Graph& graph, ValueId id, const std::vector<int64_t>& columns) : graph_(graph), weight_(id) {
    const auto k = static_cast<int64_t>(columns.size());
    order_ = graph.add_parameter(graph.unique_name(part_name(graph.value(id).name, "columns")),
                                 make_tensor(DType::i64, {k}, Elements<int64_t>(columns)));
  }

  // False: something else than a product reads the weight.
  bool apply() {
    std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    for (Node& node : nodes) {
      if (turns(node) && node.tensor("self") == weight_) turned_.insert(node.outputs[0]);
      else if (reads_weight(node) && !reorder(node)) only_products_ = false;
      graph_.nodes.push_back(std::move(node));
    }
    number_producers(graph_);
    for (ValueId output : graph_.outputs)
      only_products_ = only_products_ && output != weight_ && !turned_.contains(output);
    return only_products_;
  }

 private:
  bool reads_weight(const Node& node) const {
    bool reads = false;
    for_each_input(node, [&](ValueId input) { reads = reads || input == weight_ || turned_.contains(input); });
    return reads;
  }

  bool reorder(Node& node) {
    for (const Product& p : kProducts) {
      if (node.op->name != p.op) continue;
      const ValueId w = node.tensor(p.weight), x = node.tensor(p.x);
      if (p.turned ? !turned_.contains(w) : w != weight_) return false;
      if (x == weight_ || turned_.contains(x)) return false;
      node.arg(p.x).v = in_order(x, node);
      return true;
    }
    return false;
  }

  ValueId in_order(ValueId x, const Node& reader) {
    const auto [it, is_new] = reordered_.try_emplace(x, kNoValue);
    if (!is_new) return it->second;
    Value value;
    value.name = graph_.unique_name(graph_.value(x).name + ".columns");
    value.dtype = graph_.value(x).dtype, value.shape = graph_.value(x).shape;
    const NodeId made = graph_.add_node(Op("aten.index_select.default").schema(), {x, dim(-1), order_}, {value});
    graph_.nodes[made].origins = reader.origins, graph_.nodes[made].where = reader.where;
    return it->second = graph_.nodes[made].outputs[0];
  }

  Graph& graph_;
  ValueId weight_, order_ = kNoValue;
  std::set<ValueId> turned_;              // what turns the weight
  std::map<ValueId, ValueId> reordered_;  // activations that were met
  bool only_products_ = true;
};

}  // namespace

Status attach_weight(Graph& graph, ValueId id, const QuantizedWeight& weight, const std::string& where) {
  if (!weight.columns.empty() && !ColumnOrder(graph, id, weight.columns).apply())
    return Error::unsupported(where + ": " + quote(graph.value(id).name),
                              "its columns are in another order, and the graph does more with it than linears",
                              "quantize without activation ordering (desc_act, actorder)");
  const DType to = graph.value(id).dtype;
  NodesInFront nodes(graph, id);
  if (!weight.format.empty()) write_four_bit(nodes, weight, to);
  else if (weight.offset.bound() || is_floating(weight.codes.dtype)) write_arithmetic(nodes, weight, to);
  else write_dequantize(nodes, weight, to);
  nodes.finish();
  return {};
}

void attach_cast(Graph& graph, ValueId id, const Tensor& tensor) {
  NodesInFront nodes(graph, id);
  const DType to = graph.value(id).dtype;
  const ValueId stored = nodes.parameter("stored", tensor);
  nodes.node("aten.to.dtype", {stored, to}, to, shape_of(tensor.shape));
  nodes.finish();
}

}  // namespace qcg

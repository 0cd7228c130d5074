#include "graph/checkpoints/attach.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "graph/ir/elements.h"
#include "graph/ops/op_table.h"
#include "graph/read/files/json.h"

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

// [N, K]: of all matrices, one after the other.
std::vector<int64_t> rows_of(const QuantizedWeight& w) {
  return {w.codes.shape[0], w.codes.shape[1] * (w.format.empty() ? 1 : 2)};
}

void write_dequantize(NodesInFront& nodes, const QuantizedWeight& w, DType to) {
  const auto shape = rows_of(w);
  const ValueId codes = nodes.parameter("qweight", w.codes), scale = nodes.parameter("scales", w.scale);
  const Arg zero = w.zero.bound() ? Arg(nodes.parameter("qzeros", w.zero)) : Arg();
  nodes.node("torchao.dequantize_affine.default",
             {codes, std::vector<Dim>{dim(1), dim(w.group)}, scale, zero, w.codes.dtype, dim(w.low), dim(w.high), to},
             to, shape_of(shape));
}

// (codes * scale) + offset, over [N, G, group]
void write_arithmetic(NodesInFront& nodes, const QuantizedWeight& w, DType to) {
  const auto shape = rows_of(w);
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
  const Shape rows = shape_of(rows_of(w));
  const ValueId codes = nodes.parameter("qweight", w.codes), scale = nodes.parameter("scales", w.scale);
  const Arg global = w.global.bound() ? Arg(nodes.parameter("global_scale", w.global)) : Arg();
  nodes.node("qcg.dequantize_4bit", {codes, scale, w.format, rows, global, dim(w.group), std::string("auto"), to}, to,
             rows);
}

// One matrix after the other becomes one tensor of them.
void write_matrices(NodesInFront& nodes, ValueId rows, const QuantizedWeight& w, DType to) {
  const Shape shape = shape_of(w.shape()), turned = {shape[0], shape[2], shape[1]};
  const Shape matrices = w.turned ? turned : shape;
  const ValueId each = nodes.node("aten.reshape.default", {rows, matrices}, to, matrices);
  if (w.turned) nodes.node("aten.permute.default", {each, Shape{Dim(0), Dim(2), Dim(1)}}, to, shape);
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

// Gives every product with the weight another activation. The nodes are moved over one by one, so that what computes it
// stands in front of the first product that reads it.
class ProductInputs {
 public:
  ProductInputs(Graph& graph, ValueId weight) : graph_(graph), weight_(weight) {}

  // change(x) adds nodes with node(), and returns what takes the place of x. False: something else than a product reads
  // the weight.
  bool replace(const std::function<ValueId(ValueId x)>& change) {
    std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    for (Node& node : nodes) {
      if (turns(node) && node.tensor("self") == weight_) turned_.insert(node.outputs[0]);
      else if (reads_weight(node) && !replace_in(node, change)) only_products_ = false;
      graph_.nodes.push_back(std::move(node));
    }
    number_producers(graph_);
    for (ValueId output : graph_.outputs)
      only_products_ = only_products_ && output != weight_ && !turned_.contains(output);
    return only_products_;
  }

  // The results of an operation on x, named after it.
  std::vector<ValueId> node(Op op, ValueId x, std::string_view suffix, std::vector<Arg> args,
                            const std::vector<ValueType>& types) {
    std::vector<Value> values(types.size());
    for (size_t i = 0; i < types.size(); ++i) {
      values[i].name = graph_.unique_name(fmt::format("{}.{}{}", graph_.value(x).name, suffix, i == 0 ? "" : "2"));
      values[i].dtype = types[i].dtype, values[i].shape = types[i].shape;
    }
    const NodeId made = graph_.add_node(op.schema(), std::move(args), values);
    graph_.nodes[made].origins = reader_->origins, graph_.nodes[made].where = reader_->where;
    return graph_.nodes[made].outputs;
  }

 private:
  bool reads_weight(const Node& node) const {
    bool reads = false;
    for_each_input(node, [&](ValueId input) { reads = reads || input == weight_ || turned_.contains(input); });
    return reads;
  }

  bool replace_in(Node& product, const std::function<ValueId(ValueId x)>& change) {
    for (const Product& p : kProducts) {
      if (product.op->name != p.op) continue;
      const ValueId w = product.tensor(p.weight), x = product.tensor(p.x);
      if (p.turned ? !turned_.contains(w) : w != weight_) return false;
      if (x == weight_ || turned_.contains(x)) return false;
      const auto [it, is_new] = replaced_.try_emplace(x, kNoValue);
      reader_ = &product;
      if (is_new) it->second = change(x);
      product.arg(p.x).v = it->second;
      return true;
    }
    return false;
  }

  Graph& graph_;
  ValueId weight_;
  const Node* reader_ = nullptr;         // the product that is looked at
  std::set<ValueId> turned_;             // what turns the weight
  std::map<ValueId, ValueId> replaced_;  // activations that were met
  bool only_products_ = true;
};

// Products read the columns of their activation in the order of the codes.
bool order_columns(Graph& graph, ValueId id, const std::vector<int64_t>& columns) {
  const auto k = static_cast<int64_t>(columns.size());
  const ValueId order = graph.add_parameter(graph.unique_name(part_name(graph.value(id).name, "columns")),
                                            make_tensor(DType::i64, {k}, Elements<int64_t>(columns)));
  ProductInputs products(graph, id);
  return products.replace([&](ValueId x) {
    const ValueType type = {graph.value(x).dtype, graph.value(x).shape};
    return products.node("aten.index_select.default", x, "columns", {x, dim(-1), order}, {type})[0];
  });
}

// Products read their activation rounded to i8 codes, as compressed-tensors computes it: with the scale in the
// activation's dtype. The scale of a row of zeros is any number but zero.
bool quantize_activation(Graph& graph, ValueId id, const ActivationCodes& codes) {
  constexpr int64_t kLow = -128, kHigh = 127;
  ProductInputs products(graph, id);
  return products.replace([&](ValueId x) {
    const DType dtype = graph.value(x).dtype;
    const Shape shape = graph.value(x).shape;
    const ValueType rounded = {DType::i8, shape}, back = {dtype, shape};
    if (codes.scale) {
      const std::vector<Arg> how = {*codes.scale, dim(codes.zero), dim(kLow), dim(kHigh), DType::i8};
      const auto call = [&](Op op, ValueId in, std::string_view suffix, ValueType type) {
        std::vector<Arg> args = {in};
        args.insert(args.end(), how.begin(), how.end());
        if (in != x) args.push_back(dtype);
        return products.node(op, x, suffix, std::move(args), {std::move(type)})[0];
      };
      const ValueId q = call("quantized_decomposed.quantize_per_tensor.default", x, "codes", rounded);
      return call("quantized_decomposed.dequantize_per_tensor.default", q, "rounded", back);
    }
    std::vector<Dim> block(shape.size(), dim(1));
    block.back() = shape.back();
    const Shape rows(shape.begin(), shape.end() - 1);
    const double eps = dtype == DType::f16 ? 0x1p-24 : 0x1p-126;
    const std::string mapping = codes.symmetric ? "SYMMETRIC" : "ASYMMETRIC";
    const auto chosen =
        products.node("torchao.choose_qparams_affine.default", x, "scale",
                      {x, mapping, block, DType::i8, dim(kLow), dim(kHigh), eps, dtype, DType::i8, false},
                      {{dtype, rows}, {DType::i8, rows}});
    const ValueId q = products.node("torchao.quantize_affine.default", x, "codes",
                                    {x, block, chosen[0], chosen[1], DType::i8, dim(kLow), dim(kHigh)}, {rounded})[0];
    return products.node("torchao.dequantize_affine.default", x, "rounded",
                         {q, block, chosen[0], chosen[1], DType::i8, dim(kLow), dim(kHigh), dtype}, {back})[0];
  });
}

}  // namespace

Status attach_weight(Graph& graph, ValueId id, const QuantizedWeight& weight, const std::string& where) {
  const auto refuse = [&](const std::string& what, const std::string& help) {
    return Error::unsupported(where + ": " + quote(graph.value(id).name),
                              what + ", and the graph does more with it than linears", help);
  };
  if (!weight.columns.empty() && !order_columns(graph, id, weight.columns))
    return refuse("its columns are in another order", "quantize without activation ordering (desc_act, actorder)");
  if (weight.activation && !quantize_activation(graph, id, *weight.activation))
    return refuse("its linears round their activations", "quantize without input_activations");
  const DType to = graph.value(id).dtype;
  NodesInFront nodes(graph, id);
  if (!weight.format.empty()) write_four_bit(nodes, weight, to);
  else if (weight.offset.bound() || is_floating(weight.codes.dtype)) write_arithmetic(nodes, weight, to);
  else write_dequantize(nodes, weight, to);
  if (weight.matrices > 0) write_matrices(nodes, graph.nodes.back().outputs[0], weight, to);
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

#include "graph/rewrite/rewrite.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "graph/ops/op_table.h"
#include "graph/oracle/reference.h"

namespace qcg {

const Node* producer_of(const Graph& graph, ValueId id) {
  if (id == kNoValue || graph.value(id).kind != ValueKind::node) return nullptr;
  return &graph.nodes[graph.value(id).producer];
}

const Node* producer_if(const Graph& graph, ValueId id, Op op) {
  const Node* node = producer_of(graph, id);
  return node && is_op(*node, op) ? node : nullptr;
}

bool is_parameter(const Graph& graph, ValueId id) {
  return id != kNoValue && graph.value(id).kind == ValueKind::parameter;
}

std::string node_name(const Graph& graph, const Node& node) {
  if (!node.origins.empty()) return node.origins.back();
  return node.outputs.empty() ? node.op->name : graph.value(node.outputs[0]).name;
}

std::optional<size_t> as_axis(const Arg& arg, size_t rank) {
  auto axis = as_integer(arg);
  if (!axis) return std::nullopt;
  int64_t signed_rank = static_cast<int64_t>(rank);
  if (*axis < 0) *axis += signed_rank;
  if (*axis < 0 || *axis >= signed_rank) return std::nullopt;
  return static_cast<size_t>(*axis);
}

std::optional<std::vector<int64_t>> constant_shape(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : shape) {
    if (!dim.is_constant()) return std::nullopt;
    sizes.push_back(dim.constant());
  }
  return sizes;
}

bool widens(DType narrow, DType wide) {
  if (narrow == wide) return true;
  if (is_float8(narrow)) return narrow != DType::f8e8m0 && is_compute_float(wide);
  switch (wide) {
    case DType::f32: return is_half(narrow) || is_byte(narrow) || narrow == DType::i16 || narrow == DType::u16;
    case DType::f64: return narrow != DType::i64 && narrow != DType::u64;
    case DType::i64: return !is_floating(narrow) && narrow != DType::u64;
    case DType::i32: return is_byte(narrow) || narrow == DType::i16 || narrow == DType::u16;
    case DType::i16: return is_byte(narrow);
    default: return false;
  }
}

bool keeps_numbers(DType from, DType to) { return is_compute_float(to) || to == DType::f64 || widens(from, to); }

bool keeps_numbers(const Graph& graph, const Node& cast) {
  return keeps_numbers(graph.value(cast.tensor("self")).dtype, graph.value(cast.outputs[0]).dtype);
}

bool has_symbols(const Arg& arg) {
  const Dim* one = arg.get<Dim>();
  const auto* many = arg.get<std::vector<Dim>>();
  return (one && !one->is_constant()) ||
         (many && !std::all_of(many->begin(), many->end(), [](const Dim& d) { return d.is_constant(); }));
}

ValueId emit(Graph& graph, Op op, std::vector<Arg> args, ValueType type, const Node& like, std::string_view name_hint) {
  std::string where = like.where, source = like.source;  // `like` may live in graph.nodes, which is about to grow
  Value out;
  out.name = graph.unique_name(name_hint);
  out.dtype = type.dtype;
  out.shape = std::move(type.shape);
  NodeId id = graph.add_node(op.schema(), std::move(args), {std::move(out)});
  graph.nodes[id].where = std::move(where);
  graph.nodes[id].source = std::move(source);
  return graph.nodes[id].outputs[0];
}

void replace_node(Graph& graph, NodeId id, Op op, std::vector<Arg> args) {
  graph.nodes[id].op = op.schema();
  graph.nodes[id].args = std::move(args);
}

namespace {

std::string derived_name(Graph& graph, ValueId base, std::string_view suffix) {
  return graph.unique_name(std::string(root_name(graph.value(base).name)) + std::string(suffix));
}

}  // namespace

// The view may be there already: w transposed twice is w, and tied weights must stay one value.
ValueId add_parameter_view(Graph& graph, ValueId base, Tensor view) {
  const ValueId there = graph.find_view(view, root_name(graph.value(base).name));
  return there != kNoValue ? there : graph.add_parameter(derived_name(graph, base, ".view"), std::move(view));
}

namespace {

// Visits every index of `shape` in row-major order.
template <class F>
void for_each_index(const std::vector<int64_t>& shape, F&& f) {
  for (int64_t size : shape)
    if (size == 0) return;
  std::vector<int64_t> index(shape.size(), 0);
  while (true) {
    f(index);
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

}  // namespace

ValueId cast_parameter(Graph& graph, ValueId parameter, DType dtype) {
  const Tensor& from = graph.value(parameter).data;
  if (from.dtype == dtype) return parameter;
  Tensor to;
  if (from.bound()) {
    std::vector<std::byte> bytes(static_cast<size_t>(from.numel()) * dtype_bytes(dtype));
    std::byte* p = bytes.data();
    for_each_index(from.shape, [&](const std::vector<int64_t>& index) {
      double_to_element(dtype, element_to_double(from.dtype, from.element(index)), p);
      p += dtype_bytes(dtype);
    });
    to = Tensor::from_bytes(dtype, from.shape, std::move(bytes));
  } else {
    to.dtype = dtype;
    to.shape = from.shape;
    to.strides = Tensor::row_major_strides(from.shape);
  }
  std::string name = derived_name(graph, parameter, "." + std::string(dtype_name(dtype)));
  return graph.add_parameter(std::move(name), std::move(to));
}

ValueId add_number(Graph& graph, DType dtype, double value, std::vector<int64_t> shape, std::string_view name_hint) {
  std::vector<std::byte> bytes(dtype_bytes(dtype));
  double_to_element(dtype, value, bytes.data());
  return graph.add_parameter(graph.unique_name(name_hint),
                             Tensor::from_bytes(dtype, std::move(shape), std::move(bytes)));
}

bool is_beyond_double(const Arg& number) {
  const Dim* whole = number.get<Dim>();
  return whole && whole->is_constant() && !is_exact_double(whole->constant());
}

std::optional<double> constant_number(const Graph& graph, ValueId id) {
  if (!is_parameter(graph, id)) return std::nullopt;
  const Tensor& data = graph.value(id).data;
  if (!data.bound() || data.numel() != 1) return std::nullopt;
  const std::byte* element = data.element(std::vector<int64_t>(data.shape.size()));
  if (!is_floating(data.dtype) && !is_exact_double(element_to_int(data.dtype, element))) return std::nullopt;
  return element_to_double(data.dtype, element);
}

bool reads_constants(const Graph& graph, const Node& node) {
  bool constant = std::none_of(node.args.begin(), node.args.end(), has_symbols), any = false;
  for_each_input(node, [&](ValueId id) {
    any = true;
    constant = constant && is_parameter(graph, id) && graph.value(id).data.bound();
  });
  return constant && any;
}

// By a graph of this node alone, its parameters as they are.
Result<std::vector<Tensor>> evaluate_node(const Graph& graph, const Node& node) {
  Graph alone;
  Node copy = node;
  for_each_input(copy, [&](ValueId& id) {
    std::string name = alone.unique_name(graph.value(id).name);
    id = alone.add_parameter(std::move(name), graph.value(id).data);
  });
  std::vector<Value> outputs;
  for (ValueId out : node.outputs) outputs.push_back(graph.value(out));
  const NodeId id = alone.add_node(copy.op, copy.args, std::move(outputs));
  alone.outputs = alone.nodes[id].outputs;
  for (ValueId out : alone.outputs) alone.output_names.push_back(alone.value(out).name);
  return evaluate_graph(alone, {}, {.emulate_casts = true});
}

bool same_parameter(const Graph& graph, ValueId a, ValueId b) {
  if (a == b) return true;
  if (!is_parameter(graph, a) || !is_parameter(graph, b)) return false;
  const Tensor& x = graph.value(a).data;
  const Tensor& y = graph.value(b).data;
  return x.bound() && y.bound() && x.storage->bytes.data() == y.storage->bytes.data() && x.dtype == y.dtype &&
         x.offset == y.offset && x.shape == y.shape && x.strides == y.strides;
}

Status sort_nodes(Graph& graph) {
  enum : uint8_t { unseen, open, done };
  const size_t count = graph.nodes.size();
  std::vector<uint8_t> state(count, unseen);
  std::vector<NodeId> order, stack;
  order.reserve(count);
  for (NodeId root = 0; root < count; ++root) {
    if (state[root] == done) continue;
    stack.push_back(root);
    while (!stack.empty()) {  // explicit: a chain of a million nodes must not overflow the call stack
      NodeId id = stack.back();
      if (state[id] == done) {
        stack.pop_back();
        continue;
      }
      std::vector<NodeId> waiting;
      Status cycle;
      for_each_input(graph.nodes[id], [&](ValueId input) {
        if (graph.value(input).kind != ValueKind::node) return;
        NodeId from = graph.value(input).producer;
        if (state[from] == done) return;
        if (state[from] == open) cycle = Error::internal(graph.nodes[id].where, "a pass made the graph cyclic");
        waiting.push_back(from);
      });
      QCG_CHECK(std::move(cycle));
      state[id] = waiting.empty() ? done : open;
      if (waiting.empty()) {
        order.push_back(id);
        stack.pop_back();
      } else {
        stack.insert(stack.end(), waiting.rbegin(), waiting.rend());
      }
    }
  }
  std::vector<Node> nodes;
  nodes.reserve(count);
  for (NodeId id : order) nodes.push_back(std::move(graph.nodes[id]));
  graph.nodes = std::move(nodes);
  for (NodeId id = 0; id < count; ++id)
    for (ValueId out : graph.nodes[id].outputs) graph.value(out).producer = id;
  return {};
}

bool depends_on(const Graph& graph, ValueId value, NodeId node) {
  std::vector<ValueId> stack = {value};
  std::unordered_set<NodeId> seen;
  while (!stack.empty()) {
    ValueId id = stack.back();
    stack.pop_back();
    if (id == kNoValue || graph.value(id).kind != ValueKind::node) continue;
    NodeId from = graph.value(id).producer;
    if (from == node) return true;
    if (!seen.insert(from).second) continue;
    for_each_input(graph.nodes[from], [&](ValueId input) { stack.push_back(input); });
  }
  return false;
}

Readers::Readers(Graph& graph) : graph_(graph) {
  for (size_t i = 0; i < graph.outputs.size(); ++i) outputs_[graph.outputs[i]].push_back(i);
  catch_up();
}

void Readers::catch_up() {
  nodes_.resize(graph_.values.size());
  uses_.resize(graph_.values.size());
  if (seen_ == 0)
    for (ValueId id : graph_.outputs) ++uses_[id];
  for (; seen_ < graph_.nodes.size(); ++seen_) add(static_cast<NodeId>(seen_));
}

void Readers::add(NodeId id) {
  nodes_.resize(graph_.values.size());
  uses_.resize(graph_.values.size());
  for_each_input(graph_.nodes[id], [&](ValueId input) {
    nodes_[input].push_back(id);
    ++uses_[input];
  });
}

void Readers::remove(NodeId id, const Node& as) {
  for_each_input(as, [&](ValueId input) {
    auto& readers = nodes_[input];
    readers.erase(std::find(readers.begin(), readers.end(), id));
    --uses_[input];
  });
}

void Readers::replace(ValueId from, ValueId to) {
  catch_up();
  if (from == to) return;
  for (NodeId id : nodes_[from])
    for_each_input(graph_.nodes[id], [&](ValueId& input) {
      if (input == from) input = to;
    });
  nodes_[to].insert(nodes_[to].end(), nodes_[from].begin(), nodes_[from].end());
  uses_[to] += uses_[from];
  nodes_[from].clear();
  uses_[from] = 0;
  const auto returned = outputs_.find(from);
  if (returned == outputs_.end()) return;
  std::vector<size_t> places = std::move(returned->second);
  outputs_.erase(returned);
  for (size_t i : places) graph_.outputs[i] = to;
  auto& merged = outputs_[to];
  merged.insert(merged.end(), places.begin(), places.end());
}

uint32_t Depths::least_depth(NodeId id) const {
  uint32_t depth = 0;
  for_each_input(graph_.nodes[id], [&](ValueId input) {
    const Value& value = graph_.value(input);
    if (value.kind == ValueKind::node && value.producer < depth_.size())
      depth = std::max(depth, depth_[value.producer] + 1);
  });
  return depth;
}

void Depths::catch_up() {
  while (depth_.size() < graph_.nodes.size()) depth_.push_back(least_depth(static_cast<NodeId>(depth_.size())));
}

void Depths::update(NodeId id) {
  catch_up();
  std::vector<NodeId> stack = {id};
  while (!stack.empty()) {
    const NodeId at = stack.back();
    stack.pop_back();
    const uint32_t depth = least_depth(at);
    if (depth <= depth_[at]) continue;
    depth_[at] = depth;
    for (ValueId out : graph_.nodes[at].outputs)
      stack.insert(stack.end(), readers_.of(out).begin(), readers_.of(out).end());
  }
}

bool Depths::depends_on(ValueId value, NodeId node) const {
  std::vector<ValueId> stack = {value};
  std::unordered_set<NodeId> seen;
  while (!stack.empty()) {
    const ValueId id = stack.back();
    stack.pop_back();
    if (id == kNoValue || graph_.value(id).kind != ValueKind::node) continue;
    const NodeId from = graph_.value(id).producer;
    if (from == node) return true;
    if (depth_[from] <= depth_[node] || !seen.insert(from).second) continue;
    for_each_input(graph_.nodes[from], [&](ValueId input) { stack.push_back(input); });
  }
  return false;
}

std::vector<std::string> join_origins(std::vector<std::string> a, const std::vector<std::string>& b) {
  for (const std::string& name : b)
    if (std::find(a.begin(), a.end(), name) == a.end()) a.push_back(name);
  return a;
}

bool is_row_view(const Graph& graph, const Node& node) {
  static constexpr Op kOps[] = {"aten.reshape.default",    "aten.view.default",      "aten._unsafe_view.default",
                                "aten.flatten.using_ints", "aten.unsqueeze.default", "aten.squeeze.dim"};
  if (!is_any_op(node, kOps)) return false;
  ValueId input = kNoValue;
  for_each_input(node, [&](ValueId id) {
    if (input == kNoValue) input = id;
  });
  if (input == kNoValue) return false;
  const Shape& from = graph.value(input).shape;
  const Shape& to = graph.value(node.outputs[0]).shape;
  return !from.empty() && !to.empty() && from.back() == to.back();
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 0; i < from.size(); ++i) {
    const Dim& a = from[from.size() - 1 - i];
    if (!a.is_constant(1) && !(a == to[to.size() - 1 - i])) return false;
  }
  return true;
}

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  for (size_t i = 0; i < shorter.size(); ++i) {
    Dim& to = out[out.size() - 1 - i];
    const Dim& from = shorter[shorter.size() - 1 - i];
    if (to.is_constant(1)) to = from;
    else if (!from.is_constant(1) && !(from == to)) return std::nullopt;
  }
  return out;
}

}  // namespace qcg

#include "graph/graph.h"

#include <cstdlib>
#include <unordered_set>

namespace qcg {
namespace {

// Absent tensors have one spelling, and a list of optional tensors that was left out has one absent entry per segment.
void normalize_args(const OpSchema& op, std::vector<Arg>& args) {
  for (size_t i = args.size(); i < op.args.size(); ++i)
    args.push_back(op.args[i].has_default ? default_arg(op.args[i]) : Arg());
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (op.args[i].kind == ArgKind::optional_tensor && args[i].is_none()) args[i] = kNoValue;
    if (op.args[i].kind == ArgKind::ignored) args[i] = Arg();
  }
  if (op.role != OpRole::internal) return;
  int weights = op.arg_index("weights");
  if (weights < 0) return;
  const auto* segments = args[weights].get<std::vector<ValueId>>();
  if (!segments) return;
  for (const char* name : {"scales", "zeros", "offsets", "biases"}) {
    auto* list = std::get_if<std::vector<ValueId>>(&args[op.arg_index(name)].v);
    if (list && list->empty()) list->resize(segments->size(), kNoValue);
  }
}

const Arg& require_arg(const OpSchema* op, const std::vector<Arg>& args, std::string_view name) {
  int index = op ? op->arg_index(name) : -1;
  if (index < 0 || static_cast<size_t>(index) >= args.size())
    std::abort();  // the caller named an argument the op lacks
  return args[index];
}

}  // namespace

std::optional<double> as_number(const Arg& arg) {
  if (const auto* real = arg.get<double>()) return *real;
  if (const auto* flag = arg.get<bool>()) return *flag ? 1.0 : 0.0;
  if (const auto* dim = arg.get<Dim>(); dim && dim->is_constant()) return static_cast<double>(dim->constant());
  return std::nullopt;
}

std::optional<int64_t> as_integer(const Arg& arg) {
  if (const auto* flag = arg.get<bool>()) return *flag ? 1 : 0;
  if (const auto* dim = arg.get<Dim>(); dim && dim->is_constant()) return dim->constant();
  return std::nullopt;
}

const Arg& Node::arg(std::string_view name) const { return require_arg(op, args, name); }
Arg& Node::arg(std::string_view name) { return const_cast<Arg&>(require_arg(op, args, name)); }

ValueId Node::tensor(std::string_view name) const {
  const ValueId* id = arg(name).get<ValueId>();
  return id ? *id : kNoValue;
}

ValueId Graph::add_input(std::string name, DType dtype, Shape shape) {
  Value v;
  v.name = std::move(name);
  v.kind = ValueKind::input;
  v.dtype = dtype;
  v.shape = std::move(shape);
  values.push_back(std::move(v));
  inputs.push_back(static_cast<ValueId>(values.size() - 1));
  return inputs.back();
}

ValueId Graph::add_parameter(std::string name, Tensor data) {
  Value v;
  v.name = std::move(name);
  v.kind = ValueKind::parameter;
  v.dtype = data.dtype;
  v.shape.assign(data.shape.begin(), data.shape.end());
  v.data = std::move(data);
  values.push_back(std::move(v));
  return static_cast<ValueId>(values.size() - 1);
}

NodeId Graph::add_node(const OpSchema* op, std::vector<Arg> args, std::vector<Value> outputs) {
  NodeId id = static_cast<NodeId>(nodes.size());
  Node node;
  node.op = op;
  normalize_args(*op, args);
  node.args = std::move(args);
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].kind = ValueKind::node;
    outputs[i].producer = id;
    outputs[i].output = static_cast<uint32_t>(i);
    node.outputs.push_back(static_cast<ValueId>(values.size()));
    values.push_back(std::move(outputs[i]));
  }
  nodes.push_back(std::move(node));
  return id;
}

std::vector<uint32_t> Graph::count_uses() const {
  std::vector<uint32_t> uses(values.size());
  for (const Node& node : nodes) for_each_input(node, [&](const ValueId& id) { ++uses[id]; });
  for (ValueId id : outputs) ++uses[id];
  return uses;
}

void Graph::replace_uses(ValueId from, ValueId to) {
  auto replace = [&](ValueId& id) {
    if (id == from) id = to;
  };
  for (Node& node : nodes) for_each_input(node, replace);
  for (ValueId& id : outputs) replace(id);
}

void Graph::remove_dead() {
  std::vector<uint32_t> uses = count_uses();
  std::vector<bool> keep(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    for (ValueId id : nodes[i].outputs) keep[i] = keep[i] || uses[id] > 0;
    if (!keep[i]) for_each_input(nodes[i], [&](ValueId& id) { --uses[id]; });
  }
  std::vector<Node> live;
  for (size_t i = 0; i < nodes.size(); ++i) {
    // A value without a producer is a ghost: nobody uses or prints it, but later ids stay as they are.
    NodeId producer = keep[i] ? static_cast<NodeId>(live.size()) : UINT32_MAX;
    for (ValueId id : nodes[i].outputs) values[id].producer = producer;
    if (keep[i]) live.push_back(std::move(nodes[i]));
  }
  nodes = std::move(live);
}

std::string Graph::unique_name(std::string_view base) const {
  std::unordered_set<std::string_view> taken;
  for (const Value& v : values) taken.insert(v.name);
  std::string name(base);
  for (size_t i = 1; taken.contains(name); ++i) name = std::string(base) + "_" + std::to_string(i);
  return name;
}

}  // namespace qcg

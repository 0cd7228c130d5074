#include "graph/ir/graph.h"

#include <cstdlib>
#include <functional>

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

bool same_geometry(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.offset == b.offset && a.shape == b.shape && a.strides == b.strides;
}

size_t hash_view(const Tensor& view, std::string_view root) {
  size_t hash =
      view.bound() ? std::hash<const void*>()(view.storage->bytes.data()) : std::hash<std::string_view>()(root);
  const auto mix = [&](int64_t v) { hash = (hash ^ std::hash<int64_t>()(v)) * 0x9E3779B97F4A7C15; };
  mix(static_cast<int64_t>(view.dtype));
  mix(view.offset);
  for (int64_t size : view.shape) mix(size);
  for (int64_t stride : view.strides) mix(stride);
  return hash;
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

bool may_be_symbol(const Value& value) {
  return value.kind == ValueKind::input && (value.dtype == DType::i64 || value.dtype == DType::i32) &&
         std::ranges::all_of(value.shape, [](const Dim& size) { return size.is_constant(1); });
}

ValueId Graph::add_input(std::string name, DType dtype, Shape shape) {
  Value v;
  v.name = std::move(name);
  v.kind = ValueKind::input;
  v.dtype = dtype;
  v.shape = std::move(shape);
  values.push_back(std::move(v));
  const auto id = static_cast<ValueId>(values.size() - 1);
  inputs.insert(inputs.end() - static_cast<ptrdiff_t>(states.size()), id);
  return id;
}

// A value of the dtype and shape of its data.
static Value bound_value(std::string name, ValueKind kind, Tensor data) {
  Value v;
  v.name = std::move(name);
  v.kind = kind;
  v.dtype = data.dtype;
  v.shape.assign(data.shape.begin(), data.shape.end());
  v.data = std::move(data);
  return v;
}

ValueId Graph::add_state(std::string state, std::string name, Tensor initial) {
  values.push_back(bound_value(std::move(name), ValueKind::input, std::move(initial)));
  inputs.push_back(static_cast<ValueId>(values.size() - 1));
  states.push_back(std::move(state));
  return inputs.back();
}

ValueId Graph::add_parameter(std::string name, Tensor data) {
  values.push_back(bound_value(std::move(name), ValueKind::parameter, std::move(data)));
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

std::string measured_symbol(const Node& node) {
  if (!node.outputs.empty() || node.op->name != "qcg.measure") return {};
  const std::vector<std::string> symbols = node.arg("size").get<Dim>()->symbols();
  return symbols.empty() ? std::string() : symbols[0];
}

std::vector<std::string> Graph::measured_symbols() const {
  std::vector<std::string> out;
  for (const Node& node : nodes)
    if (std::string symbol = measured_symbol(node); !symbol.empty()) out.push_back(std::move(symbol));
  return out;
}

void Graph::remove_dead() {
  std::vector<uint32_t> uses = count_uses();
  std::vector<bool> keep(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    keep[i] = !measured_symbol(nodes[i]).empty();
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

std::string Graph::unique_name(std::string_view base) {
  index_values();
  std::string name(base);
  if (!index_.names.contains(name)) return name;
  size_t& suffix = index_.suffixes.try_emplace(name, 1).first->second;
  for (;; ++suffix) {
    name.resize(base.size());
    name += "_" + std::to_string(suffix);
    if (!index_.names.contains(name)) return name;
  }
}

ValueId Graph::find_value(std::string_view name) {
  const Index& index = index_values();
  const auto it = index.names.find(std::string(name));
  return it == index.names.end() ? kNoValue : it->second;
}

void Graph::swap_names(ValueId a, ValueId b) {
  index_values();
  std::swap(values[a].name, values[b].name);
  for (ValueId id : {a, b}) index_.names[values[id].name] = id;
}

ValueId Graph::find_view(const Tensor& view, std::string_view root) {
  const Index& index = index_values();
  const auto candidates = index.views.find(hash_view(view, root));
  if (candidates == index.views.end()) return kNoValue;
  for (ValueId id : candidates->second) {
    const Tensor& data = values[id].data;
    if (!same_geometry(data, view) || data.bound() != view.bound()) continue;
    if (view.bound() ? data.storage->bytes.data() == view.storage->bytes.data() : root_name(values[id].name) == root)
      return id;
  }
  return kNoValue;
}

const Graph::Index& Graph::index_values() {
  for (; index_.seen < values.size(); ++index_.seen) {
    const Value& v = values[index_.seen];
    const auto id = static_cast<ValueId>(index_.seen);
    index_.names.try_emplace(v.name, id);
    if (v.kind == ValueKind::parameter) index_.views[hash_view(v.data, root_name(v.name))].push_back(id);
  }
  return index_;
}

std::string_view root_name(std::string_view name) {
  const size_t at = name.rfind(".view");
  return at != std::string_view::npos && name.find('.', at + 1) == std::string_view::npos ? name.substr(0, at) : name;
}

}  // namespace qcg

#include "graph/ops/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "graph/ir/text_form.h"
#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"
#include "graph/ops/size_values.h"

namespace qcg {
namespace {

constexpr const char* kHelp = "the graph is damaged; export it again, or report a bug if a pass made it";

Error broken(int rule, std::string where, std::string message) {
  return Error::bad_input(std::move(where), fmt::format("rule {}: {}", rule, message), kHelp);
}

std::string place_of(const Graph& graph, const Node& node) {
  if (!node.where.empty()) return node.where;
  for (ValueId id : node.outputs)
    if (id < graph.values.size()) return "%" + graph.value(id).name;
  return node.op ? node.op->name : "a node";
}

bool holds_ids(const Arg& arg, size_t values, bool absent_allowed) {
  auto good = [&](ValueId id) { return id < values || (absent_allowed && id == kNoValue); };
  if (const ValueId* id = arg.get<ValueId>()) return good(*id);
  const auto* ids = arg.get<std::vector<ValueId>>();
  return ids && std::all_of(ids->begin(), ids->end(), good);
}

bool is_scalar(const Arg& arg) { return arg.get<Dim>() || arg.get<double>() || arg.get<bool>(); }

bool has_kind(ArgKind kind, const Arg& arg, size_t values) {
  switch (kind) {
    case ArgKind::tensor: return arg.get<ValueId>() && holds_ids(arg, values, false);
    case ArgKind::optional_tensor: return arg.get<ValueId>() && holds_ids(arg, values, true);
    case ArgKind::tensors: return arg.get<std::vector<ValueId>>() && holds_ids(arg, values, false);
    case ArgKind::optional_tensors: return arg.get<std::vector<ValueId>>() && holds_ids(arg, values, true);
    case ArgKind::integer: return arg.get<Dim>();
    case ArgKind::optional_integer: return arg.is_none() || arg.get<Dim>();
    case ArgKind::integers: return arg.get<std::vector<Dim>>();
    case ArgKind::optional_integers: return arg.is_none() || arg.get<std::vector<Dim>>();
    case ArgKind::real: return arg.get<double>();
    case ArgKind::optional_real: return arg.is_none() || arg.get<double>();
    case ArgKind::reals: return arg.get<std::vector<double>>();
    case ArgKind::optional_reals: return arg.is_none() || arg.get<std::vector<double>>();
    case ArgKind::boolean: return arg.get<bool>();
    case ArgKind::optional_boolean: return arg.is_none() || arg.get<bool>();
    case ArgKind::string: return arg.get<std::string>();
    case ArgKind::optional_string: return arg.is_none() || arg.get<std::string>();
    case ArgKind::dtype: return arg.get<DType>();
    case ArgKind::optional_dtype: return arg.is_none() || arg.get<DType>();
    case ArgKind::scalar: return is_scalar(arg);
    case ArgKind::optional_scalar: return arg.is_none() || is_scalar(arg);
    case ArgKind::tensor_or_scalar: return arg.get<ValueId>() ? holds_ids(arg, values, false) : is_scalar(arg);
    case ArgKind::exprs: return arg.get<std::vector<Expr>>();
    case ArgKind::ignored: return arg.is_none();
  }
  return false;
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {
    for (const Symbol& s : graph.symbols) symbols_.insert(s.name);
  }

  Status verify() {
    QCG_CHECK(check_symbols());
    QCG_CHECK(check_names());
    QCG_CHECK(check_signature());
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) QCG_CHECK(check_node_shape(id));
    QCG_CHECK(check_budget());
    for (const Value& v : graph_.values) QCG_CHECK(check_value(v));
    QCG_CHECK(check_order());
    QCG_CHECK(check_measured());
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) QCG_CHECK(check_node_types(id));
    return {};
  }

  Status verify_one(NodeId id) {
    QCG_CHECK(check_node_shape(id));
    for (ValueId out : graph_.nodes[id].outputs) QCG_CHECK(check_value(graph_.value(out)));
    return check_node_types(id);
  }

 private:
  Status check_symbols() {
    std::unordered_set<std::string_view> seen;
    for (const Symbol& s : graph_.symbols) {
      if (s.name.empty() || !seen.insert(s.name).second)
        return broken(1, "symbol " + s.name, "its name is empty or taken");
      if (s.min < 0 || s.max < s.min)
        return broken(1, "symbol " + s.name, fmt::format("its range [{}, {}] is not valid", s.min, s.max));
    }
    for (const SizeCondition& condition : graph_.conditions) {
      const std::string where = "condition " + quote_text(condition.text);
      if (!condition.difference.valid()) return broken(1, where, std::string("its size ") + kInvalidSize);
      for (const std::string& name : condition.difference.symbols())
        if (!symbols_.contains(name)) return broken(1, where, fmt::format("symbol '{}' is not declared", name));
    }
    return {};
  }

  static bool is_ghost(const Value& v) { return v.kind == ValueKind::node && v.producer == UINT32_MAX; }

  Status check_names() {
    std::unordered_set<std::string_view> seen;
    for (const Value& v : graph_.values)
      if (!is_ghost(v) && (v.name.empty() || !seen.insert(v.name).second))
        return broken(2, "%" + v.name, "its name is empty or taken");
    return {};
  }

  Status check_signature() {
    std::unordered_set<ValueId> inputs;
    for (ValueId id : graph_.inputs)
      if (id >= graph_.values.size() || graph_.value(id).kind != ValueKind::input || !inputs.insert(id).second)
        return broken(3, graph_.name, "an input is listed twice or is no input value");
    for (const Value& v : graph_.values)
      if (v.kind == ValueKind::input && !inputs.contains(static_cast<ValueId>(&v - graph_.values.data())))
        return broken(3, "%" + v.name, "it is an input value but not in the signature");
    for (ValueId id : graph_.outputs)
      if (id >= graph_.values.size() || is_ghost(graph_.value(id)))
        return broken(3, graph_.name, "an output is not defined");
    if (graph_.output_names.size() != graph_.outputs.size())
      return broken(3, graph_.name, "expected one name per output");
    for (const Value& v : graph_.values)
      if (!v.symbol.empty() && (!may_be_symbol(v) || !symbols_.contains(v.symbol)))
        return broken(3, "%" + v.name,
                      "it is the value of a symbol, but no i64 or i32 input of one element, or '" + v.symbol +
                          "' is not declared");
    return check_states();
  }

  Status check_states() {
    const size_t count = graph_.states.size();
    if (count > graph_.inputs.size() || count > graph_.outputs.size())
      return broken(12, graph_.name, "a state is no input or has no output");
    std::unordered_set<std::string_view> seen;
    for (size_t i = 0; i < count; ++i) {
      const Value& before = graph_.value(graph_.state_input(i));
      const Value& after = graph_.value(graph_.state_output(i));
      const std::string where = "state " + graph_.states[i];
      if (!before.symbol.empty()) return broken(12, where, "it is the value of a symbol");
      if (graph_.states[i].empty() || !seen.insert(graph_.states[i]).second)
        return broken(12, where, "its name is empty or taken");
      if (before.dtype != after.dtype || before.shape != after.shape)
        return broken(12, where,
                      fmt::format("it is {}{}, but its next value is {}{}", dtype_name(before.dtype),
                                  to_string(before.shape), dtype_name(after.dtype), to_string(after.shape)));
      QCG_CHECK(check_data(before, where));
    }
    return {};
  }

  Status check_budget() {
    SizeBudget budget;
    for (const Node& node : graph_.nodes)
      if (!budget.spend(graph_, node)) return budget.exceeded(graph_, node);
    return {};
  }

  Status check_value(const Value& v) {
    if (is_ghost(v)) return {};
    std::string where = (v.kind == ValueKind::parameter ? "@" : "%") + v.name;
    for (const Dim& d : v.shape) {
      if (!d.valid()) return broken(4, where, std::string("a size ") + kInvalidSize);
      if (d.is_constant() && d.constant() < 0)
        return broken(4, where, fmt::format("the size {} is negative", d.constant()));
      for (const std::string& name : d.symbols())
        if (!symbols_.contains(name)) return broken(4, where, fmt::format("symbol '{}' is not declared", name));
    }
    return v.kind == ValueKind::parameter ? check_data(v, where) : Status();
  }

  // The bytes of a parameter, or of a state before the first run.
  static Status check_data(const Value& v, const std::string& where) {
    bool same = v.shape.size() == v.data.shape.size() && v.dtype == v.data.dtype &&
                v.data.strides.size() == v.data.shape.size();
    for (size_t i = 0; same && i < v.shape.size(); ++i)
      same = v.data.shape[i] >= 0 && v.shape[i].is_constant(v.data.shape[i]);
    if (!same) return broken(5, where, "its data has another dtype or shape");
    if (v.data.bound() && !v.data.in_bounds())
      return broken(5, where, "its data reaches beyond the end of its storage");
    return {};
  }

  Status check_node_shape(NodeId id) {
    const Node& node = graph_.nodes[id];
    QCG_CHECK(check_arguments(graph_, node));
    std::string where = place_of(graph_, node);
    if (node.op->outputs >= 0 && static_cast<size_t>(node.op->outputs) != node.outputs.size())
      return broken(
          8, where,
          fmt::format("{} has {} outputs, the node has {}", node.op->name, node.op->outputs, node.outputs.size()));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] >= graph_.values.size()) return broken(8, where, "an output id is out of range");
      const Value& v = graph_.value(node.outputs[i]);
      if (v.kind != ValueKind::node || v.producer != id || v.output != i)
        return broken(8, where, fmt::format("%{} does not name this node as its producer", v.name));
    }
    return {};
  }

  // Sizes that nodes measure do not occur before these nodes.
  Status check_measured() {
    std::vector<std::string> open = graph_.measured_symbols();
    if (open.empty()) return {};
    for (const std::string& symbol : open)
      if (std::ranges::count(open, symbol) > 1) return broken(9, "symbol " + symbol, "two nodes measure it");
    const auto is_open = [&](const Dim& size) { return has_any(size, open); };
    const auto has_open = [&](ValueId id) { return std::ranges::any_of(graph_.value(id).shape, is_open); };
    if (std::ranges::any_of(graph_.inputs, has_open))
      return broken(9, graph_.name, "a node measures a size of an input");
    for (const Node& node : graph_.nodes) {
      const std::string symbol = measured_symbol(node);
      const Dim* const most = symbol.empty() ? nullptr : node.arg("most").get<Dim>();
      if (most && is_open(*most)) return broken(9, place_of(graph_, node), "its bound is a size that a node measures");
      std::erase(open, symbol);
      bool early = std::ranges::any_of(node.outputs, has_open);
      for (const Arg& arg : node.args) {
        if (const Dim* one = arg.get<Dim>()) early = early || is_open(*one);
        if (const auto* many = arg.get<std::vector<Dim>>()) early = early || std::ranges::any_of(*many, is_open);
      }
      if (early) return broken(9, place_of(graph_, node), "it has a size that is measured after it");
    }
    return {};
  }

  Status check_order() {
    std::vector<bool> defined(graph_.values.size());
    for (ValueId id = 0; id < graph_.values.size(); ++id) defined[id] = graph_.value(id).kind != ValueKind::node;
    for (const Node& node : graph_.nodes) {
      ValueId early = kNoValue;
      for_each_input(node, [&](const ValueId& id) {
        if (!defined[id]) early = id;
      });
      if (early != kNoValue)
        return broken(9, place_of(graph_, node),
                      fmt::format("%{} is used before it is defined", graph_.value(early).name));
      for (ValueId id : node.outputs) defined[id] = true;
    }
    for (ValueId id : graph_.outputs)
      if (!defined[id]) return broken(9, "%" + graph_.value(id).name, "it is returned but no node defines it");
    return {};
  }

  Status check_node_types(NodeId id) {
    const Node& node = graph_.nodes[id];
    QCG_TRY(types, infer_types(graph_, node));
    std::string where = place_of(graph_, node);
    if (types.size() != node.outputs.size())
      return broken(
          10, where,
          fmt::format("{} gives {} results, the node declares {}", node.op->name, types.size(), node.outputs.size()));
    for (size_t i = 0; i < types.size(); ++i) {
      const Value& v = graph_.value(node.outputs[i]);
      if (v.dtype != types[i].dtype || v.shape != types[i].shape)
        return broken(
            10, where,
            fmt::format("%{} is declared {}{} but {} gives {}{}", v.name, dtype_name(v.dtype), to_string(v.shape),
                        node.op->name, dtype_name(types[i].dtype), to_string(types[i].shape)));
    }
    if (is_op(node, "qcg.grouped_linear"))
      for (std::string_view name : {"weight", "scale", "zero", "offset"})
        if (const ValueId value = node.tensor(name);
            value != kNoValue && graph_.value(value).kind != ValueKind::parameter)
          return broken(11, where, fmt::format("%{} in {} is no parameter", graph_.value(value).name, name));
    if (node.op->arg_index("weights") < 0 || node.op->role != OpRole::internal) return {};
    for (std::string_view name : {"weights", "scales", "zeros", "offsets", "biases"})
      for (ValueId value : *node.arg(name).get<std::vector<ValueId>>())
        if (value != kNoValue && graph_.value(value).kind != ValueKind::parameter)
          return broken(11, where, fmt::format("%{} in {} is no parameter", graph_.value(value).name, name));
    return {};
  }

  const Graph& graph_;
  std::unordered_set<std::string> symbols_;
};

}  // namespace

Status check_arguments(const Graph& graph, const Node& node) {
  std::string where = place_of(graph, node);
  if (!node.op || find_op(node.op->name) != node.op) return broken(6, where, "its op is not in the table");
  if (node.args.size() != node.op->args.size())
    return broken(
        6, where,
        fmt::format("{} takes {} arguments, the node has {}", node.op->name, node.op->args.size(), node.args.size()));
  for (size_t i = 0; i < node.args.size(); ++i)
    if (!has_kind(node.op->args[i].kind, node.args[i], graph.values.size()))
      return broken(7, where,
                    fmt::format("argument '{}' of {} is missing or of another kind; the op is {}",
                                node.op->args[i].name, node.op->name, node.op->signature));
  return {};
}

bool SizeBudget::spend(const Graph& graph, const Node& node) {
  left_ += kPerNode;
  const auto read = [&](ValueId id) {
    for (const Dim& d : graph.value(id).shape)
      if (d.count_terms() > 1) left_ -= static_cast<int64_t>(d.count_terms());
  };
  for_each_input(node, read);
  for (ValueId id : node.outputs) read(id);
  return left_ >= 0;
}

Error SizeBudget::exceeded(const Graph& graph, const Node& node) const {
  return broken(
      4, place_of(graph, node),
      fmt::format("the sizes that nodes read are sums of too many symbols: more than {} terms, and {} per node", kFree,
                  kPerNode));
}

Status verify_node(const Graph& graph, NodeId id) { return Verifier(graph).verify_one(id); }

Status verify_graph(const Graph& graph) { return Verifier(graph).verify(); }

}  // namespace qcg

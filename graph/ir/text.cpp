// The printing half of the IR text form; text_parse.cpp reads it.
#include <fmt/format.h>

#include <algorithm>

#include "graph/ir/graph.h"
#include "graph/ir/text_form.h"

namespace qcg {
namespace {

std::string print_name(char sigil, std::string_view name) {
  bool bare = !name.empty() && std::all_of(name.begin(), name.end(), is_bare_name_char);
  return bare ? fmt::format("{}{}", sigil, name) : fmt::format("{}{}", sigil, quote_text(name));
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string print() {
    for (const Symbol& s : graph_.symbols)
      text_ +=
          fmt::format("symbol {} in [{}, {}]\n", s.name, s.min, s.max == INT64_MAX ? "inf" : std::to_string(s.max));
    for (const SizeCondition& condition : graph_.conditions)
      text_ += fmt::format("check {}({}) {}\n", name_of(condition.says), condition.difference.str(),
                           quote_text(condition.text));
    std::vector<uint32_t> uses = graph_.count_uses();
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (graph_.value(id).kind == ValueKind::parameter && uses[id] > 0) print_parameter(graph_.value(id));
    for (size_t i = 0; i < graph_.states.size(); ++i) print_state(i);
    text_ += "graph";
    if (graph_.name != "graph") text_ += " " + quote_text(graph_.name);
    text_ += "(";
    for (size_t i = 0; i < graph_.user_inputs(); ++i) print_input(i);
    text_ += ") {\n";
    for (const Node& node : graph_.nodes) print_node(node);
    print_return();
    for (size_t i = 0; i < graph_.states.size(); ++i)
      text_ += fmt::format("  next {} = {}\n", ref(graph_.state_input(i)), ref(graph_.state_output(i)));
    return text_ + "}\n";
  }

  std::string print_one(const Node& node) {
    print_node(node);
    return text_;
  }

 private:
  // %n: i64[] = s0 where the input is the value of a symbol
  void print_input(size_t i) {
    const Value& v = graph_.value(graph_.inputs[i]);
    text_ += (i ? ", " : "") + ref(graph_.inputs[i]) + ": " + type(v) + (v.symbol.empty() ? "" : " = " + v.symbol);
  }

  void print_parameter(const Value& v) {
    text_ += fmt::format("param {}: {}", print_name('@', v.name), type(v));
    if (!v.data.is_contiguous()) {
      Shape strides(v.data.strides.begin(), v.data.strides.end());
      text_ += " strides " + to_string(strides);
    }
    text_ += "\n";
  }

  // state %cache as "model.cache": f32[1, 8]; without `as` where the value has the same name
  void print_state(size_t state) {
    const Value& v = graph_.value(graph_.state_input(state));
    const std::string& name = graph_.states[state];
    text_ += fmt::format("state {}{}: {}\n", print_name('%', v.name), name == v.name ? "" : " as " + quote_text(name),
                         type(v));
  }

  void print_node(const Node& node) {
    text_ += "  ";
    for (size_t i = 0; i < node.outputs.size(); ++i) text_ += (i ? ", " : "") + ref(node.outputs[i]);
    if (!node.outputs.empty()) text_ += " = ";
    text_ += node.op->name + "(";
    bool positional = true;
    bool first = true;
    for (size_t i = 0; i < node.op->args.size(); ++i) {
      const ArgSpec& spec = node.op->args[i];
      if (is_default(spec, node.args[i])) {
        positional = false;
        continue;
      }
      positional = positional && !spec.keyword_only && holds_tensors(node.args[i]);
      text_ += first ? "" : ", ";
      text_ += (positional ? "" : spec.name + " = ") + print_arg(node.args[i]);
      first = false;
    }
    text_ += ")";
    for (size_t i = 0; i < node.outputs.size(); ++i) text_ += (i ? ", " : " : ") + type(graph_.value(node.outputs[i]));
    text_ += "\n";
  }

  void print_return() {
    text_ += "  return";
    for (size_t i = 0; i < graph_.user_outputs(); ++i) {
      text_ += (i ? ", " : " ") + ref(graph_.outputs[i]);
      bool renamed = i < graph_.output_names.size() && graph_.output_names[i] != graph_.value(graph_.outputs[i]).name;
      if (renamed) text_ += " as " + quote_text(graph_.output_names[i]);
    }
    text_ += "\n";
  }

  static bool is_default(const ArgSpec& spec, const Arg& arg) {
    if (spec.kind == ArgKind::ignored) return true;
    if (!spec.has_default) return false;
    if (spec.kind == ArgKind::optional_tensors) {
      const auto* list = arg.get<std::vector<ValueId>>();
      return list && std::all_of(list->begin(), list->end(), [](ValueId id) { return id == kNoValue; });
    }
    return arg == default_arg(spec);
  }

  static bool holds_tensors(const Arg& arg) { return arg.get<ValueId>() || arg.get<std::vector<ValueId>>(); }

  std::string ref(ValueId id) const {
    if (id == kNoValue) return "none";
    const Value& v = graph_.value(id);
    return print_name(v.kind == ValueKind::parameter ? '@' : '%', v.name);
  }
  static std::string type(const Value& v) { return std::string(dtype_name(v.dtype)) + to_string(v.shape); }

  template <class T, class F>
  static std::string list(const std::vector<T>& items, F&& print) {
    std::string s = "[";
    for (size_t i = 0; i < items.size(); ++i) s += (i ? ", " : "") + print(items[i]);
    return s + "]";
  }

  // A double always looks like one, so that reading it back gives a double.
  static std::string print_double(double v) {
    std::string s = fmt::format("{}", v);
    return s.find_first_of(".en") == std::string::npos ? s + ".0" : s;  // n: inf, nan
  }

  std::string print_arg(const Arg& arg) const {
    struct Visitor {
      const Printer& printer;
      std::string operator()(std::monostate) const { return "none"; }
      std::string operator()(ValueId id) const { return printer.ref(id); }
      std::string operator()(const std::vector<ValueId>& ids) const {
        return list(ids, [&](ValueId id) { return printer.ref(id); });
      }
      std::string operator()(const Dim& d) const { return d.str(); }
      std::string operator()(const std::vector<Dim>& dims) const { return to_string(dims); }
      std::string operator()(double v) const { return print_double(v); }
      std::string operator()(const std::vector<double>& vs) const { return list(vs, print_double); }
      std::string operator()(bool b) const { return b ? "true" : "false"; }
      std::string operator()(const std::string& s) const { return quote_text(s); }
      std::string operator()(DType d) const { return std::string(dtype_name(d)); }
      std::string operator()(const std::vector<Expr>& es) const {
        return list(es, [](const Expr& e) { return e.str(); });
      }
    };
    return std::visit(Visitor{*this}, arg.v);
  }

  const Graph& graph_;
  std::string text_;
};

}  // namespace

std::string quote_text(std::string_view text) {
  std::string s = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') s += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      s += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else s += c;
  }
  return s + "\"";
}

std::string print_graph(const Graph& graph) { return Printer(graph).print(); }
std::string print_node(const Graph& graph, const Node& node) { return Printer(graph).print_one(node); }

}  // namespace qcg

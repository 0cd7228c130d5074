#include "graph/patterns/pattern.h"

#include <algorithm>
#include <cstdlib>

#include "graph/patterns/gemm.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

Pattern any(std::string_view name) { return {.kind = Pattern::Kind::any, .name = name}; }
Pattern parameter(std::string_view name) { return {.kind = Pattern::Kind::parameter, .name = name}; }
Pattern number(std::string_view name) { return {.kind = Pattern::Kind::number, .name = name}; }

Pattern op(std::vector<Op> ops, std::vector<Pattern::NamedPattern> args, std::string_view name) {
  return {.kind = Pattern::Kind::op, .name = name, .ops = std::move(ops), .args = std::move(args)};
}
Pattern mul(Pattern a, Pattern b) {
  Pattern p = op({"aten.mul.Tensor"}, {{"self", std::move(a)}, {"other", std::move(b)}});
  p.commutes = true;
  return p;
}
Pattern add(Pattern a, Pattern b) {
  Pattern p = op({"aten.add.Tensor"}, {{"self", std::move(a)}, {"other", std::move(b)}});
  p.commutes = true;
  return p;
}
Pattern sub(Pattern a, Pattern b) { return op({"aten.sub.Tensor"}, {{"self", std::move(a)}, {"other", std::move(b)}}); }
Pattern gemm(Pattern x, Pattern w) {
  return {.kind = Pattern::Kind::gemm, .args = {{"x", std::move(x)}, {"w", std::move(w)}}};
}
Pattern either(Pattern a, Pattern b) {
  return {.kind = Pattern::Kind::either, .args = {{"", std::move(a)}, {"", std::move(b)}}};
}
Pattern cast(Pattern p) {
  p.required_cast = p.optional_cast = true;
  return p;
}
Pattern maybe_cast(Pattern p) {
  p.optional_cast = true;
  return p;
}
Pattern maybe_rows(Pattern p) {
  p.optional_cast = p.optional_row_view = true;
  return p;
}
Pattern once(Pattern p) {
  p.single_use = true;
  return p;
}

ValueId Match::value(std::string_view name) const {
  for (const auto& [bound, arg] : bound_)
    if (bound == name && arg.get<ValueId>()) return *arg.get<ValueId>();
  std::abort();  // the recognizer asks for a name its own pattern lacks
}

double Match::number(std::string_view name) const {
  for (const auto& [bound, arg] : bound_)
    if (bound == name)
      if (auto n = as_number(arg)) return *n;
  std::abort();
}

class Matcher {
 public:
  Matcher(const Graph& graph, const std::vector<uint32_t>& uses) : graph_(graph), uses_(uses) {}

  bool match_node(const Pattern& p, NodeId id, Match& m) const {
    const Node& node = graph_.nodes[id];
    if (p.kind == Pattern::Kind::gemm) {
      auto gemm = as_gemm(graph_, node);
      if (!gemm) return false;
      if (!match_arg(p.args[0].pattern, gemm->x, m) || !match_arg(p.args[1].pattern, gemm->w, m)) return false;
    } else {
      if (!is_any_op(node, p.ops)) return false;
      if (!match_args(p, node, m)) return false;
    }
    if (node.op->role == OpRole::matmul) m.gemm_ = id;
    m.nodes_.push_back(id);
    return true;
  }

 private:
  // Backtracks over the two orders of a commutative op.
  bool match_args(const Pattern& p, const Node& node, Match& m) const {
    const Match before = m;
    if (match_in_order(p, node, m, false)) return true;
    m = before;
    return p.commutes && match_in_order(p, node, m, true);
  }

  bool match_in_order(const Pattern& p, const Node& node, Match& m, bool swapped) const {
    // add and sub scale their second operand by alpha: no pattern wants that.
    if (node.op->arg_index("alpha") >= 0 && as_number(node.arg("alpha")) != 1.0) return false;
    for (size_t i = 0; i < p.args.size(); ++i) {
      const Pattern& sub = p.args[swapped && i < 2 ? 1 - i : i].pattern;
      if (!match_arg(sub, node.arg(p.args[i].name), m)) return false;
    }
    return true;
  }

  bool match_arg(const Pattern& p, const Arg& arg, Match& m) const {
    if (p.kind == Pattern::Kind::number) return as_number(arg) && bind(p.name, arg, m);
    const ValueId* value = arg.get<ValueId>();
    return value && *value != kNoValue && match_value(p, *value, m);
  }

  // Tries the value itself, then what is under a wrapper that the pattern allows.
  bool match_value(const Pattern& p, ValueId id, Match& m, bool seen_cast = false) const {
    const Match before = m;
    if ((!p.required_cast || seen_cast) && match_bare(p, id, m)) return true;
    m = before;
    const Node* node = producer_of(graph_, id);
    if (!node) return false;
    const bool is_cast = is_op(*node, "aten.to.dtype") && keeps_numbers(graph_, *node);
    if (!(is_cast && p.optional_cast) && !(p.optional_row_view && is_row_view(graph_, *node))) return false;
    if (p.single_use && uses_[id] > 1) return false;
    if (!match_value(p, node->tensor("self"), m, seen_cast || is_cast)) return false;
    m.nodes_.push_back(graph_.value(id).producer);
    return true;
  }

  bool match_bare(const Pattern& p, ValueId id, Match& m) const {
    if (p.kind == Pattern::Kind::either) {
      for (const auto& [unused, choice] : p.args) {
        const Match before = m;
        if (match_value(choice, id, m)) return true;
        m = before;
      }
      return false;
    }
    if (p.kind == Pattern::Kind::any) return bind(p.name, id, m);
    if (p.kind == Pattern::Kind::parameter) return is_parameter(graph_, id) && bind(p.name, id, m);
    const Node* node = producer_of(graph_, id);
    if (!node || (p.single_use && uses_[id] > 1)) return false;
    if (p.output >= 0 && graph_.value(id).output != static_cast<uint32_t>(p.output)) return false;
    return match_node(p, graph_.value(id).producer, m) && (p.name.empty() || bind(p.name, id, m));
  }

  static bool bind(std::string_view name, const Arg& arg, Match& m) {
    for (const auto& [bound, earlier] : m.bound_)
      if (bound == name) return earlier == arg;
    m.bound_.emplace_back(name, arg);
    return true;
  }

  const Graph& graph_;
  const std::vector<uint32_t>& uses_;
};

std::optional<Match> match_pattern(const Graph& graph, const std::vector<uint32_t>& uses, const Pattern& pattern,
                                   NodeId root) {
  Match m;
  if (!Matcher(graph, uses).match_node(pattern, root, m)) return std::nullopt;
  return m;
}

}  // namespace qcg

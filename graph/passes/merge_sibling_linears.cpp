// merge_sibling_linears: linears of the same input become one qcg.linear with one N segment each.
//
//   %q = qcg.linear([%x], weights = [@q], epilogue = [acc0])        %q, %k = qcg.linear([%x], weights = [@q, @k],
//   %k = qcg.linear([%x], weights = [@k], epilogue = [acc0])   ->                       epilogue = [acc0, acc1])
//
// The input is read (and quantized) once, and silu(gate) * up can become one epilogue. Nothing is requantized: every
// segment keeps its scales, zero points and bias; N may differ. Tied weights appear once.
//
// Legal when input, activation treatment, K, scheme, group and weight dtype agree and no member depends on another.
// Gate: at most merge_max_siblings (default 16) segments. Linears of PassOptions::keep_apart stay as they are: the
// tuner measured that this machine runs them faster one by one (codegen/tune/merge_trial.h).
//
// Why here: after recognize_linear, which makes spellings equal; before split_cat_linear, so that siblings over one
// concatenation still have one input; before fold_epilogue, which hangs different things on each sibling.
#include <algorithm>
#include <map>
#include <tuple>

#include "graph/passes/linear_node.h"
#include "graph/passes/pass_list.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

class SiblingMerger {
 public:
  SiblingMerger(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  Status run() {
    std::map<std::vector<ValueId>, std::vector<NodeId>> readers;  // by input
    std::vector<std::vector<ValueId>> order;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!is_linear(graph_.nodes[id])) continue;
      by_source_[source_of(graph_.nodes[id])].push_back(id);
      auto [it, fresh] = readers.try_emplace(read_linear(graph_.nodes[id]).xs);
      if (fresh) order.push_back(it->first);
      it->second.push_back(id);
    }
    for (const auto& xs : order) merge_readers(readers[xs]);
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  void merge_readers(const std::vector<NodeId>& linears) {
    if (linears.size() == 1) return report_single(linears[0]);
    std::vector<Group> groups;
    std::map<Likeness, std::vector<size_t>> open;  // groups that have room
    for (NodeId id : linears) {
      if (is_kept_apart(graph_.nodes[id])) {
        context_.skip(linear_name(graph_, graph_.nodes[id]), "was measured to be faster by itself");
        continue;
      }
      std::vector<size_t>& alike = open[likeness(id)];
      const auto fits =
          std::find_if(alike.begin(), alike.end(), [&](size_t group) { return !why_not(groups[group], id); });
      if (fits == alike.end()) {
        if (!groups.empty())
          context_.skip(linear_name(graph_, graph_.nodes[id]), why_not(groups.back(), id).value_or("stands alone"));
        if (count_segments(id) < max_segments()) alike.push_back(groups.size());
        groups.push_back({{id}, count_segments(id)});
        continue;
      }
      Group& group = groups[*fits];
      group.members.push_back(id);
      group.segments += count_segments(id);
      if (group.segments >= max_segments()) alike.erase(fits);
    }
    for (const Group& group : groups)
      if (group.members.size() > 1) merge(group.members);
  }

  struct Group {
    std::vector<NodeId> members;
    int64_t segments;
  };
  int64_t max_segments() const { return context_.options.gates.merge_max_siblings; }
  int64_t count_segments(NodeId id) const {
    return static_cast<int64_t>(graph_.nodes[id].arg("weights").get<std::vector<ValueId>>()->size());
  }

  // What members of a group agree in: linears with nothing in common are not compared one by one.
  using Likeness = std::tuple<std::string, int64_t, DType, ValueId, ValueId>;
  Likeness likeness(NodeId id) const {
    const LinearNode linear = read_linear(graph_.nodes[id]);
    const auto first_same = [&](ValueId v) {
      const bool bound = is_parameter(graph_, v) && graph_.value(v).data.bound();
      return bound ? graph_.find_view(graph_.value(v).data, {}) : v;
    };
    return {linear.scheme, linear.group, graph_.value(linear.weights[0]).dtype, first_same(linear.x_scale),
            first_same(linear.x_zero)};
  }

  // What is read, before it is quantized.
  ValueId source_of(const Node& linear) const {
    const ValueId x = read_linear(linear).xs[0];
    const Node* quantize = producer_if(graph_, x, "qcg.quantize_rows");
    return quantize ? quantize->tensor("x") : x;
  }

  void report_single(NodeId id) {
    const Node& node = graph_.nodes[id];
    const LinearNode linear = read_linear(node);
    if (linear.weights.size() != 1) return;
    const ValueId source = source_of(node);
    const std::string input = graph_.value(source).name;
    for (NodeId other : by_source_[source]) {
      const LinearNode that = read_linear(graph_.nodes[other]);
      if (that.xs == linear.xs) continue;
      return context_.skip(linear_name(graph_, node), "reads " + input + " as " +
                                                          linear_name(graph_, graph_.nodes[other]) +
                                                          " does, but quantized in another way: its scheme is " +
                                                          linear.scheme + ", beside " + that.scheme);
    }
    context_.skip(linear_name(graph_, node), "only linear that reads " + input);
  }

  bool is_kept_apart(const Node& node) const {
    return std::any_of(node.origins.begin(), node.origins.end(),
                       [&](const std::string& origin) { return context_.options.keep_apart.contains(origin); });
  }

  std::optional<std::string> why_not(const Group& group, NodeId id) const {
    const std::vector<NodeId>& members = group.members;
    const LinearNode a = read_linear(graph_.nodes[members[0]]), b = read_linear(graph_.nodes[id]);
    const std::string other = linear_name(graph_, graph_.nodes[members[0]]);
    auto differs = [&](const std::string& what, const std::string& mine, const std::string& theirs) {
      return "reads the same input as " + other + ", but its " + what + " is " + mine + ", not " + theirs;
    };
    if (a.scheme != b.scheme) return differs("scheme", b.scheme, a.scheme);
    if (a.group != b.group) return differs("group", std::to_string(b.group), std::to_string(a.group));
    const DType wa = graph_.value(a.weights[0]).dtype, wb = graph_.value(b.weights[0]).dtype;
    if (wa != wb) return differs("weight dtype", std::string(dtype_name(wb)), std::string(dtype_name(wa)));
    if (!same_parameter(graph_, a.x_scale, b.x_scale) || !same_parameter(graph_, a.x_zero, b.x_zero))
      return "reads the same input as " + other + ", but quantized with other parameters";
    const int64_t segments = group.segments + static_cast<int64_t>(b.weights.size());
    if (segments > max_segments())
      return "would be segment " + std::to_string(segments) + " of " + other + " (merge_max_siblings is " +
             std::to_string(max_segments()) + ")";
    for (NodeId member : members) {
      // Only operands can lie between two linears of one input.
      const LinearNode m = read_linear(graph_.nodes[member]);
      for (ValueId operand : b.operands)
        if (depends_on(graph_, operand, member)) return "depends on " + linear_name(graph_, graph_.nodes[member]);
      for (ValueId operand : m.operands)
        if (depends_on(graph_, operand, id)) return linear_name(graph_, graph_.nodes[member]) + " depends on it";
    }
    return std::nullopt;
  }

  void merge(const std::vector<NodeId>& members) {
    LinearNode merged = read_linear(graph_.nodes[members[0]]);
    std::vector<std::string> origins = graph_.nodes[members[0]].origins, names;
    for (NodeId id : members) names.push_back(linear_name(graph_, graph_.nodes[id]));
    for (size_t i = 1; i < members.size(); ++i) {
      append(merged, read_linear(graph_.nodes[members[i]]));
      Node& gone = graph_.nodes[members[i]];
      origins = join_origins(std::move(origins), gone.origins);
      gone.outputs.clear();  // its values belong to the merged node now
      gone.args.clear();
    }
    write_linear(graph_, members[0], std::move(merged));
    graph_.nodes[members[0]].origins = std::move(origins);
    ++context_.report.fired;
    context_.report.counters["linears merged"] += static_cast<int64_t>(members.size());
    context_.report.groups.push_back(std::move(names));
  }

  // Each of b's outputs becomes an output of `merged`, over segments and operands of its own or shared ones.
  void append(LinearNode& merged, const LinearNode& b) {
    std::vector<Expr> accs, ins;
    for (ValueId operand : b.operands) ins.push_back(Expr::in(merged.add_operand(operand)));
    for (size_t j = 0; j < b.weights.size(); ++j) accs.push_back(add_segment(merged, b, j));
    for (size_t i = 0; i < b.outputs.size(); ++i) {
      merged.epilogue.push_back(replace_leaves(b.epilogue[i], accs, ins));
      merged.outputs.push_back(b.outputs[i]);
    }
  }

  Expr add_segment(LinearNode& merged, const LinearNode& b, size_t j) {
    for (size_t i = 0; i < merged.weights.size(); ++i) {
      const bool tied = same_parameter(graph_, merged.weights[i], b.weights[j]) &&
                        same_parameter(graph_, merged.scales[i], b.scales[j]) &&
                        same_parameter(graph_, merged.zeros[i], b.zeros[j]) &&
                        same_parameter(graph_, merged.offsets[i], b.offsets[j]);
      if (!tied) continue;
      ++context_.report.counters["tied weights"];
      const int segment = static_cast<int>(i);
      if (same_parameter(graph_, merged.biases[i], b.biases[j])) return Expr::acc(segment);
      move_bias_to_operands(merged, i);
      if (b.biases[j] == kNoValue) return Expr::acc(segment);
      return Expr::call("add", {Expr::acc(segment), Expr::in(merged.add_operand(b.biases[j]))});
    }
    merged.weights.push_back(b.weights[j]);
    merged.scales.push_back(b.scales[j]);
    merged.zeros.push_back(b.zeros[j]);
    merged.offsets.push_back(b.offsets[j]);
    merged.biases.push_back(b.biases[j]);
    return Expr::acc(static_cast<int>(merged.weights.size()) - 1);
  }

  // One weight, two biases: the segment has none and each epilogue adds its own.
  static void move_bias_to_operands(LinearNode& merged, size_t segment) {
    if (merged.biases[segment] == kNoValue) return;
    const Expr bias = Expr::in(merged.add_operand(merged.biases[segment]));
    merged.biases[segment] = kNoValue;
    std::vector<Expr> accs, ins;
    for (size_t i = 0; i < merged.weights.size(); ++i) accs.push_back(Expr::acc(static_cast<int>(i)));
    for (size_t i = 0; i < merged.operands.size(); ++i) ins.push_back(Expr::in(static_cast<int>(i)));
    accs[segment] = Expr::call("add", {accs[segment], bias});
    for (Expr& expr : merged.epilogue) expr = replace_leaves(expr, accs, ins);
  }

  static Expr replace_leaves(const Expr& expr, const std::vector<Expr>& accs, const std::vector<Expr>& ins) {
    return expr.map_leaves(
        [&](const Expr& leaf) { return (leaf.kind == ExprKind::acc ? accs : ins)[static_cast<size_t>(leaf.index)]; });
  }

  Graph& graph_;
  PassContext& context_;
  std::map<ValueId, std::vector<NodeId>> by_source_;  // linears
};

}  // namespace

Status merge_sibling_linears(Graph& graph, PassContext& context) { return SiblingMerger(graph, context).run(); }

}  // namespace qcg

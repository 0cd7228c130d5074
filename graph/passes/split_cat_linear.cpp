// split_cat_linear: a linear over a concatenation on its contracted axis reads the pieces in place.
//
//   %c = aten.cat([%a, %b], dim = -1)
//   %y = qcg.linear([%c], weights = [@w], …)      ->      %y = qcg.linear([%a, %b], weights = [@w], …)
//
// Neither the concatenation nor partial products are materialized: K segments accumulate into one accumulator, in
// source order. A concatenation of concatenations is flattened. A cat with other readers stays for them.
//
// Gates: cat_max_parts (16): each part costs a loop nest; cat_min_piece_width (8): below one vector a copy is cheaper;
// cat_max_total_width (65536). A dynamically quantized linear is left alone: its scale needs the whole row. A
// concatenation of int8 pieces (static quantization) is split like any other. Linears of PassOptions::keep_cats are
// left alone too: the tuner measured that this machine runs them faster over the concatenation
// (codegen/tune/merge_trial.h).
//
// Why here: after merge_sibling_linears, so that siblings over one cat are split together; before decompose, which
// makes the remaining cats copies.
#include <algorithm>

#include "graph/passes/linear_node.h"
#include "graph/passes/pass_list.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

// The most concatenations and pieces of one linear. Concatenations of concatenations double the pieces, and each is a
// level of recursion.
constexpr size_t kMostFlattened = 1024;

// The cat on the last axis that makes `id`, or nullptr.
const Node* last_axis_cat(const Graph& graph, ValueId id) {
  const Node* cat = producer_if(graph, id, "aten.cat.default");
  if (!cat) return nullptr;
  const size_t rank = graph.value(id).shape.size();
  auto axis = as_axis(cat->arg("dim"), rank);
  return axis && *axis + 1 == rank ? cat : nullptr;
}

// The axis of a cat that joins something else than K: rows, say.
std::optional<size_t> other_axis(const Graph& graph, ValueId id) {
  const Node* cat = producer_if(graph, id, "aten.cat.default");
  return cat && !last_axis_cat(graph, id) ? as_axis(cat->arg("dim"), graph.value(id).shape.size()) : std::nullopt;
}

class CatSplitter {
 public:
  CatSplitter(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  Status run() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id)
      if (is_linear(graph_.nodes[id])) split(id);
    graph_.remove_dead();
    count_kept_cats();
    if (!seen_) context_.report.notes.push_back("no linear reads a concatenation");
    return {};
  }

 private:
  void split(NodeId id) {
    LinearNode linear = read_linear(graph_.nodes[id]);
    const std::string name = linear_name(graph_, graph_.nodes[id]);
    if (scheme_info(*scheme_from_name(linear.scheme)).quantized_activation) {
      const Node* quantize = producer_if(graph_, linear.xs[0], "qcg.quantize_rows");
      if (quantize && last_axis_cat(graph_, quantize->tensor("x")))
        refuse(name, "quantized activation",
               "the activation is quantized per row, which needs the whole concatenation");
      if (quantize) return;
    }
    if (const auto axis = other_axis(graph_, linear.xs[0]); axis && linear.xs.size() == 1)
      return refuse(name, "axis",
                    "the concatenation is on axis " + std::to_string(*axis) +
                        ", which joins rows: only one on the last axis has pieces of K to read in place");
    std::vector<ValueId> pieces;
    std::vector<std::string> cats;
    std::string why;
    flattened_ = 0;
    for (ValueId x : linear.xs) flatten(x, pieces, cats, why);
    if (cats.empty() && why.empty()) return;
    if (why.empty()) why = check_gates(linear, pieces);
    if (why.empty() && is_kept(graph_.nodes[id])) gate_ = "measurement", why = "measured faster over the concatenation";
    if (!why.empty()) return refuse(name, gate_, why);
    linear.xs = std::move(pieces);
    const size_t parts = linear.xs.size();
    write_linear(graph_, id, std::move(linear));
    Node& node = graph_.nodes[id];
    node.origins = join_origins(std::move(cats), node.origins);
    seen_ = true;
    ++context_.report.fired;
    context_.report.counters["parts read in place"] += static_cast<int64_t>(parts);
    context_.report.groups.push_back({name});
  }

  // Appends the pieces of x, in order; empty ones contribute nothing.
  void flatten(ValueId x, std::vector<ValueId>& pieces, std::vector<std::string>& cats, std::string& why) {
    const Node* cat = last_axis_cat(graph_, x);
    if (!cat) {
      if (!graph_.value(x).shape.back().is_constant(0)) pieces.push_back(x);
      return;
    }
    if (++flattened_ > kMostFlattened || pieces.size() > kMostFlattened) {
      gate_ = "cat_max_parts";
      why = "more than " + std::to_string(kMostFlattened) + " parts and concatenations of them";
      return;
    }
    cats = join_origins(std::move(cats), cat->origins);
    if (cat->origins.empty()) cats.push_back(graph_.value(x).name);
    const Shape& whole = graph_.value(x).shape;
    for (ValueId piece : *cat->arg("tensors").get<std::vector<ValueId>>()) {
      const Value& value = graph_.value(piece);
      gate_ = "shape of a part";
      if (value.shape.size() != whole.size()) why = "part " + value.name + " has another rank";
      else if (!value.shape.back().is_constant()) why = "the width of part " + value.name + " is symbolic";
      else if (value.dtype != graph_.value(x).dtype) why = "part " + value.name + " has another dtype";
      else if (value.kind == ValueKind::parameter) why = "part " + value.name + " is a weight";
      if (why.empty()) flatten(piece, pieces, cats, why);
      if (!why.empty()) return;
    }
  }

  bool is_kept(const Node& node) const {
    return std::any_of(node.origins.begin(), node.origins.end(),
                       [&](const std::string& origin) { return context_.options.keep_cats.contains(origin); });
  }

  std::string check_gates(const LinearNode& linear, const std::vector<ValueId>& pieces) {
    const PassGates& gates = context_.options.gates;
    if (linear.scheme == scheme_name(Scheme::s8s8)) {
      gate_ = "scheme";
      return "the exact integer product has no K segments";
    }
    gate_ = "cat_max_parts";
    const int64_t parts = static_cast<int64_t>(pieces.size());
    if (parts == 0) return "every part is empty";
    if (parts > gates.cat_max_parts)
      return std::to_string(parts) + " parts (cat_max_parts is " + std::to_string(gates.cat_max_parts) + ")";
    int64_t total = 0;
    gate_ = "cat_min_piece_width";
    for (ValueId piece : pieces) {
      const int64_t width = graph_.value(piece).shape.back().constant();
      if (width < gates.cat_min_piece_width)
        return "part " + graph_.value(piece).name + " is " + std::to_string(width) + " wide (cat_min_piece_width is " +
               std::to_string(gates.cat_min_piece_width) + ")";
      total += width;
    }
    gate_ = "cat_max_total_width";
    if (total > gates.cat_max_total_width)
      return std::to_string(total) + " wide (cat_max_total_width is " + std::to_string(gates.cat_max_total_width) + ")";
    return {};
  }

  void refuse(const std::string& name, const std::string& gate, const std::string& why) {
    seen_ = true;
    ++context_.report.counters["refused: " + gate];
    context_.skip(name, why);
  }

  // Cats that were split but stay for readers that are no linears.
  void count_kept_cats() {
    if (context_.report.fired == 0) return;
    const auto uses = graph_.count_uses();
    for (const Node& node : graph_.nodes)
      if (is_op(node, "aten.cat.default") && uses[node.outputs[0]] > 0)
        ++context_.report.counters["cats kept for other readers"];
  }

  Graph& graph_;
  PassContext& context_;
  std::string gate_;
  size_t flattened_ = 0;  // concatenations
  bool seen_ = false;
};

}  // namespace

Status split_cat_linear(Graph& graph, PassContext& context) { return CatSplitter(graph, context).run(); }

}  // namespace qcg

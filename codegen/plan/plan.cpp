#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/devices/gemm_device.h"
#include "codegen/plan/planner.h"
#include "graph/ops/op_table.h"
#include "graph/ops/size_values.h"

namespace qcg {

int64_t constant_int(const Node& node, std::string_view arg, int64_t otherwise) {
  const Dim* dim = node.arg(arg).get<Dim>();
  return dim && dim->is_constant() ? dim->constant() : otherwise;
}

size_t normalize_axis(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

std::string join_names(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, "+")); }

Dim offset_bytes(const View& v, DType dtype) { return v.offset * Dim(static_cast<int64_t>(dtype_bytes(dtype))); }

Dim leading(const Shape& shape) { return shape.empty() ? Dim(1) : product(Shape(shape.begin(), shape.end() - 1)); }

Planner::Planner(const Graph& graph, const Target& target, const SourceGraph& source) : graph_(graph), source_(source) {
  plan_.target = target;
  plan_.symbols = graph.symbols;
  const std::vector<std::string> measured = graph.measured_symbols();
  for (const SizeCondition& condition : graph.conditions)  // the run checks a size that it computes when it knows it
    if (!has_any(condition.difference, measured)) plan_.conditions.push_back(condition);
  views_.resize(graph.values.size());
  placed_.resize(graph.values.size());
  windows_.resize(graph.values.size());
}

Result<Plan> Planner::run() {
  QCG_CHECK(check_symbols());
  QCG_CHECK(check_outputs());
  add_signature();
  place_outputs();
  find_writes();
  for (const Node& node : graph_.nodes) {
    current_ = &node;
    QCG_CHECK(lower(node));
  }
  for (size_t i = 0; i < graph_.user_outputs(); ++i) {
    const Value& value = graph_.value(graph_.outputs[i]);
    const View target = dense_view(output_buffers_[i], value.shape);
    const View source = view(graph_.outputs[i]);
    current_ = value.kind == ValueKind::node ? &graph_.nodes[value.producer] : nullptr;
    if (source.buffer != target.buffer) add_copy(source, target, value.dtype, "to output " + graph_.output_names[i]);
  }
  finish_states();
  list_other_steps();
  // No step has a size that is measured behind the last one.
  std::erase_if(plan_.measures, [&](const PlanMeasure& m) { return m.step == static_cast<int>(plan_.steps.size()); });
  set_lifetimes();
  QCG_CHECK(bound_temporaries());
  return std::move(plan_);
}

// The caller gives memory for outputs before the run knows the sizes that it computes.
Status Planner::check_outputs() const {
  const std::vector<std::string> measured = graph_.measured_symbols();
  for (size_t i = 0; i < graph_.outputs.size(); ++i)
    for (const Dim& extent : graph_.value(graph_.outputs[i]).shape)
      if (has_any(extent, measured))
        return Error::unsupported("output '" + graph_.output_names[i] + "'",
                                  "its size " + extent.str() + " depends on the data",
                                  "return the elements in a tensor of the largest size, and their number beside it");
  return {};
}

Status Planner::lower_measure(const Node& node) {
  const View value = dense(node.tensor("value"));
  const BufferKind kind = plan_.buffers[value.buffer].kind;
  int buffer = value.buffer;
  // The runtime reads the start of a buffer of the program's own.
  if (kind != BufferKind::temp || !value.offset.is_constant(0)) buffer = copy_to_temp(value, DType::i64);
  plan_.measures.push_back(
      {measured_symbol(node), static_cast<int>(plan_.steps.size()), buffer, *node.arg("most").get<Dim>()});
  return {};
}

namespace {

// At least the size, whatever the measured symbols are. Terms that are added have their bounds, terms that are
// subtracted are left out. nullopt: a term is neither a product of symbols nor a positive multiple of one call.
std::optional<Dim> bound_of(const Dim& size, const std::vector<PlanMeasure>& measures) {
  const auto measured = [&](const std::string& symbol) {
    return std::ranges::find(measures, symbol, &PlanMeasure::symbol);
  };
  const auto is_measured = [&](const std::string& symbol) { return measured(symbol) != measures.end(); };
  const auto has_measured = [&](const Dim& d) { return std::ranges::any_of(d.symbols(), is_measured); };
  if (!has_measured(size)) return size;
  std::vector<Dim> terms;
  for (const auto& [factors, coefficient] : size.terms()) {
    Dim term = coefficient;
    const auto call = factors.size() == 1 ? Dim::as_call(factors[0]) : std::nullopt;
    if (call) {
      const auto a = bound_of(call->a, measures), b = call->function == "min" ? bound_of(call->b, measures) : call->b;
      if (coefficient < 0 || !a || !b || has_measured(*b)) return std::nullopt;
      terms.push_back(term * (call->function == "min" ? Dim::smaller(*a, *b) : Dim::floor_divide(*a, *b)));
      continue;
    }
    const bool is_bounded = std::ranges::any_of(factors, is_measured);
    for (const std::string& factor : factors) {
      if (Dim::as_call(factor)) return std::nullopt;
      term = term * (is_measured(factor) ? measured(factor)->most : Dim::symbol(factor));
    }
    if (!is_bounded || coefficient > 0) terms.push_back(term);
  }
  return Dim::sum(terms);
}

}  // namespace

// Memory is reserved before the run, for the largest sizes that it may compute.
Status Planner::bound_temporaries() {
  if (plan_.measures.empty()) return {};
  for (PlanBuffer& buffer : plan_.buffers) {
    if (buffer.kind != BufferKind::temp) continue;
    const auto bound = bound_of(buffer.bytes, plan_.measures);
    if (!bound || !bound->valid())
      return Error::unsupported("a tensor of " + buffer.bytes.str() + " bytes",
                                "no bound of its size is known, which depends on the data",
                                "compute its size from sizes of inputs");
    buffer.bytes = *bound;
  }
  return {};
}

// An input is the value of a symbol, or an extent of an input determines it. The extent is linear in the symbol, and other
// symbols in it are determined before.
Status Planner::check_symbols() const {
  std::set<std::string> found;
  for (ValueId input : graph_.inputs)
    if (!graph_.value(input).symbol.empty()) found.insert(graph_.value(input).symbol);
  for (size_t before = SIZE_MAX; before != found.size();) {
    before = found.size();
    for (ValueId input : graph_.inputs)
      for (const Dim& extent : graph_.value(input).shape) {
        std::vector<std::string> open = extent.symbols();
        std::erase_if(open, [&](const std::string& name) { return found.contains(name); });
        if (open.size() != 1 || extent.has_calls()) continue;
        const bool linear = std::ranges::all_of(extent.terms(), [&](const auto& term) {
          return term.first.size() <= 1 || std::ranges::find(term.first, open[0]) == term.first.end();
        });
        if (linear) found.insert(open[0]);
      }
  }
  for (std::string& symbol : graph_.measured_symbols()) found.insert(std::move(symbol));
  for (const Symbol& symbol : graph_.symbols)
    if (symbol.min != symbol.max && !found.contains(symbol.name))
      return Error::bad_input("symbol '" + symbol.name + "'", "no extent and no value of an input determines it",
                              "give an input an extent of this symbol alone (m, 2*m+1), or leave the symbol out");
  return {};
}

void Planner::add_signature() {
  for (size_t i = 0; i < graph_.user_inputs(); ++i) {
    const Value& value = graph_.value(graph_.inputs[i]);
    plan_.input_names.push_back(value.name);
    plan_.input_types.push_back({value.dtype, value.shape});
    plan_.input_symbols.push_back(value.symbol);
    views_[graph_.inputs[i]] =
        dense_view(add_buffer({BufferKind::input, static_cast<int>(i), {}, -1, -1}), value.shape);
  }
  for (size_t i = 0; i < graph_.user_outputs(); ++i) {
    const Value& value = graph_.value(graph_.outputs[i]);
    plan_.output_names.push_back(graph_.output_names[i]);
    plan_.output_types.push_back({value.dtype, value.shape});
    output_buffers_.push_back(add_buffer({BufferKind::output, static_cast<int>(i), {}, -1, -1}));
    if (value.kind == ValueKind::node && !placed_[graph_.outputs[i]])
      placed_[graph_.outputs[i]] = dense_view(output_buffers_.back(), value.shape);
  }
  add_states();
}

namespace {

constexpr Op kScans[] = {"aten.cumsum.default", "aten.cumprod.default", "aten.cummax.default", "aten.cummin.default",
                         "aten.logcumsumexp.default"};
constexpr Op kOrders[] = {"aten.sort.default",   "aten.sort.stable",    "aten.topk.default",  "aten.argsort.default",
                          "aten.argsort.stable", "aten.argmax.default", "aten.argmin.default"};

}  // namespace

Status Planner::lower(const Node& node) {
  const Op op = node.op;
  if (op == "qcg.measure") return lower_measure(node);
  if (op == "qcg.linear") return lower_linear(node);
  if (op == "qcg.grouped_linear") return lower_grouped_linear(node);
  if (op == "qcg.loop") return lower_loop(node);
  if (op == "qcg.attention") return lower_attention(node);
  if (op == "qcg.quantize_rows") return lower_quantize_rows(node);
  if (op == "qcg.windows") return lower_windows(node);
  if (op == "qcg.rows") return lower_rows(node);
  if (op == "aten.cat.default") return lower_concat(node);
  if (writes_at_positions(node)) return lower_positioned_write(node);
  if (writes_part(node)) return lower_slice_scatter(node);
  if (is_any_op(node, kScans)) return lower_scan(node);
  if (is_any_op(node, kOrders)) return lower_order(node);
  if (is_any_op(node, kEmbeddingBags)) return lower_bags(node);
  if (node.op->role == OpRole::reduction) return lower_reduction(node);
  if (is_any_op(node, kGroupedProducts)) return lower_grouped_matmul(node);
  if (op == "qcg.matmul" || node.op->role == OpRole::matmul) return lower_matmul(node);
  if (op == "aten.view.dtype") return lower_bits(node), Status{};
  if (node.op->role == OpRole::look_up) return lower_look_up(node);
  if (node.op->role == OpRole::view) return lower_view(node);
  const std::string source = node.source.empty() ? "" : " (" + node.source + ")";
  return Error::unsupported(
      node.where, node.op->name + source + " has no lowering",
      "`qcodegen list ops` shows the supported operators; exported.run_decompositions() may replace this operator by "
      "supported ones; otherwise cut the graph before it");
}

int Planner::intern(const KernelProblem& problem) {
  const std::string key = problem_signature(problem);
  auto [it, inserted] = problem_index_.emplace(key, static_cast<int>(plan_.problems.size()));
  if (inserted) {
    plan_.problems.push_back(problem);
    const Problem* gemm = problem.get_if<Problem>();
    plan_.layouts.push_back(gemm ? gemm_device(plan_.target.device).layout(*gemm, plan_.target) : PackedLayout{});
  }
  return it->second;
}

const std::vector<uint32_t>& Planner::uses() {
  if (uses_.empty()) uses_ = graph_.count_uses();
  return uses_;
}

void Planner::set_lifetimes() {
  for (size_t s = 0; s < plan_.steps.size(); ++s)
    for (const PlanArg& arg : plan_.steps[s].args) {
      PlanBuffer& buffer = plan_.buffers[arg.buffer];
      if (buffer.first < 0) buffer.first = static_cast<int>(s);
      buffer.last = static_cast<int>(s);
    }
  for (const PlanMeasure& measure : plan_.measures) {
    PlanBuffer& buffer = plan_.buffers[measure.buffer];
    buffer.last = std::max(buffer.last, measure.step);
  }
  const GemmDevice& device = gemm_device(plan_.target.device);
  for (PlanConstant& constant : plan_.constants) {
    Dim& whole = plan_.buffers[constant.buffer].bytes;
    if (constant.problem >= 0)
      constant.bytes =
          device.packed_bytes(plan_.problems[constant.problem].get<Problem>(), plan_.layouts[constant.problem]);
    const int64_t before = constant.problem >= 0 ? align_section(whole.constant()) : 0;
    whole = Dim(before + constant.bytes);
  }
}

Result<Plan> plan_kernels(const Graph& graph, const Target& target, const SourceGraph& source) {
  return Planner(graph, target, source).run();
}

}  // namespace qcg

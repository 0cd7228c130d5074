// unpack_constants: what weights packed by hand are unpacked with is evaluated now, by the oracle.
//
//   %s = aten.bitwise_right_shift(@qweight [K/8, 1, N], @shifts [8, 1])
//   %c = aten.bitwise_and(%s, 15)                         ->   @c.value [K/8, 8, N]
//   %z = aten.index(@zeros [G, N], [@g_idx [K]])          ->   %z = aten.repeat_interleave(@zeros, K / G, dim = 0)
//   %w = aten.mul(aten.sub(%c, %z), @scales)              stays: that is what recognize_linear looks for
//
// Bit operations and whole quotients (OpRole::constant) of constants are evaluated with their operands, as are ranges of
// known ends; one that depends on an input and has no kernel is an error. Look-ups (OpRole::look_up) of constants at
// constant positions are evaluated, too; those of activations at constant positions become slices (gather_slices.h)
// where these are few; all others have a kernel. Of what reads the results
//   - is evaluated too: what only moves elements (cat, stack, a reshape that is no view), and arithmetic whose result is
//     repeated over others: that is a scale or a zero point, not a weight;
//   - is left alone: everything else, above all the arithmetic that says how a weight was quantized.
// Parameters that are concatenated are one. A cast of constants to integers that may not hold them (to(sub(@codes :
// i32, 8), i8)) makes codes: it is evaluated with all that it reads, unless that takes zero points off and nothing
// wraps. A choice between constant integers makes codes, too. Arithmetic of constants that is repeated over larger
// constants makes a scale. What a packed weight or its scales are made with (int4pack, da8w4) is evaluated too: linears
// read their bytes. A look-up that repeats every element equally often becomes repeat_interleave, by which
// recognize_linear finds the numbers of a group. ldexp becomes a product, the power of two being a scale. Without bytes
// (explain without weights) results are declared only.
//
// Why first: fold_noops then sees views of what was made here as views of parameters.
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "graph/ir/elements.h"
#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"
#include "graph/passes/gather_slices.h"
#include "graph/passes/pass_list.h"
#include "graph/patterns/integer_bounds.h"
#include "graph/rewrite/parameter_views.h"
#include "graph/rewrite/pointwise.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

// A small file must not ask for all memory there is: all nodes together make at most kFewElements elements, or
// kElementsPerByte for each byte of the parameters.
constexpr int64_t kFewElements = 1 << 24, kElementsPerByte = 256;

constexpr Op kWithKernels[] = {"aten.eye.default",
                               "aten.eye.m",
                               "aten.view.dtype",
                               "aten.select_scatter.default",
                               "aten.index_copy.default",
                               "aten.index_put.default",
                               "aten.scatter.src",
                               "aten.scatter.value",
                               "aten.slice_scatter.default",
                               "aten.copy.default",
                               "aten.arange.default",
                               "aten.arange.start",
                               "aten.arange.start_step",
                               "aten.empty.memory_format",
                               "aten.index_add.default",
                               "aten.scatter_add.default"};

constexpr Op kQuotients[] = {"aten.floor_divide.default", "aten.floor_divide.Scalar", "aten.div.Tensor_mode",
                             "aten.div.Scalar_mode",      "aten.remainder.Tensor",    "aten.remainder.Scalar",
                             "aten.fmod.Tensor",          "aten.fmod.Scalar"};

// Integers may be divided by a number other than 0, by a size that is at least 1, or by a tensor; floats by anything.
bool divides_by_number(const Graph& graph, const Node& node) {
  if (is_floating(graph.value(node.outputs[0]).dtype)) return true;
  const Dim* divisor = node.arg("other").get<Dim>();
  const ValueId* divisors = node.arg("other").get<ValueId>();
  if (divisors) return true;
  if (!divisor) return false;
  return divisor->is_constant() ? !divisor->is_constant(0) : range_of(*divisor, graph.symbols).min > 0;
}

constexpr Op kChoices[] = {"aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar"};

bool is_bit_operation(const Node& node) {
  return node.op->name.starts_with("aten.bitwise_") || node.op->name.starts_with("aten.__");
}

// Whether a node that depends on an input or a size has a kernel. One of constants is evaluated and needs none.
bool has_kernel(const Graph& graph, const Node& node) {
  if (is_any_op(node, kWithKernels)) return true;
  if (is_any_op(node, kQuotients)) return divides_by_number(graph, node);
  if (node.op->role == OpRole::look_up || is_bit_operation(node)) return true;
  return is_floating(graph.value(node.outputs[0]).dtype) && as_pointwise(graph, node);
}

bool needs_constants(const Graph& graph, const Node& node) {
  if (node.op->role == OpRole::constant || node.op->role == OpRole::look_up) return true;
  if (node.op->role != OpRole::pointwise || node.outputs.empty()) return false;
  return is_bit_operation(node) && graph.value(node.outputs[0]).dtype != DType::boolean;
}

constexpr Op kInt4Packed[] = {"aten._weight_int4pack_mm.default", "aten._weight_int4pack_mm_for_cpu.default"};

// What linears that come with packed weights unpack when they are recognized.
bool is_packed(const Node& node, std::string_view arg) {
  if (is_any_op(node, kInt4Packed)) return arg == "mat2" || arg == "qScaleAndZeros";
  return is_op(node, "torchao.da8w4_linear_cpu.default") && (arg == "compensation" || arg.starts_with("weight"));
}

template <class F>
void for_each_packed(const Graph& graph, const Node& node, F&& f) {
  for (size_t i = 0; i < node.args.size(); ++i) {
    const ValueId* id = node.args[i].get<ValueId>();
    if (id && *id != kNoValue && !is_parameter(graph, *id) && is_packed(node, node.op->args[i].name)) f(*id);
  }
}

// Its own part of the storage, which may be a whole file's.
int64_t bytes_of(const Tensor& data) {
  return std::min(data.numel() * static_cast<int64_t>(dtype_bytes(data.dtype)),
                  static_cast<int64_t>(data.storage->bytes.size()));
}

int64_t count_elements(const Shape& shape) {
  const Dim count = product(shape);
  return count.valid() && count.is_constant() ? count.constant() : INT64_MAX;
}

class Unpacker {
 public:
  Unpacker(Graph& graph, PassReport& report) : graph_(graph), report_(report) {}

  Status run() {
    find_constants();
    if (std::none_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& node) {
          bool packed = false;
          for_each_packed(graph_, node, [&](ValueId) { packed = true; });
          return packed || needs_constants(graph_, node) || makes_codes(node) || chooses_codes(node) ||
                 makes_scale(node) || joins_parameters(node);
        }))
      return {};
    graph_.remove_dead();  // assertions read what is of no use any more
    find_constants();
    QCG_CHECK(find_needed());
    repeated_ = find_repeated(std::vector<bool>(graph_.values.size(), true));
    count_ = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = 0; id < count_; ++id) {
      resolve_inputs(graph_.nodes[id]);
      QCG_CHECK(visit(id));
    }
    for (Node& node : graph_.nodes) resolve_inputs(node);  // of chains that were evaluated after the node was visited
    for (ValueId& out : graph_.outputs) out = resolve(out);
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  // What was computed is a parameter now.
  ValueId resolve(ValueId id) const {
    const auto it = values_.find(id);
    return it == values_.end() ? id : it->second;
  }
  void resolve_inputs(Node& node) {
    for_each_input(node, [&](ValueId& id) { id = resolve(id); });
  }

  void find_constants() {
    constant_.assign(graph_.values.size(), false);
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      constant_[id] = is_parameter(graph_, id);
      if (constant_[id] && graph_.value(id).data.bound())
        elements_left_ += kElementsPerByte * bytes_of(graph_.value(id).data);
    }
    for (const Node& node : graph_.nodes) {
      bool constant =
          node.op->role != OpRole::internal && !std::any_of(node.args.begin(), node.args.end(), has_symbols);
      for_each_input(node, [&](ValueId id) { constant = constant && constant_[id]; });
      for (ValueId out : node.outputs)
        constant_[out] = constant && count_elements(graph_.value(out).shape) != INT64_MAX;
    }
    scale_ = find_repeated(constant_);
  }

  // Arithmetic of constants whose result is multiplied with, or added to, more elements: q * (z.float() * s)[..., None].
  bool makes_scale(const Node& node) const {
    if (node.op->role != OpRole::pointwise || node.outputs.size() != 1) return false;
    const ValueId out = node.outputs[0];
    return constant_[out] && scale_[out] && is_floating(graph_.value(out).dtype) &&
           product(graph_.value(out).shape) != Dim(1);
  }

  // Integers, one of two by a condition: where(q > 7, q - 16, q).
  bool chooses_codes(const Node& node) const {
    if (!is_any_op(node, kChoices) || !constant_[node.outputs[0]]) return false;
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    return !is_floating(dtype) && dtype != DType::boolean;
  }

  // Weights and their scales, of which each is stored in parts: as they are, or seen in another shape.
  bool joins_parameters(const Node& node) const {
    const auto* parts = node.args.empty() ? nullptr : node.args[0].get<std::vector<ValueId>>();
    return parts && node.op->role == OpRole::copy && constant_[node.outputs[0]] &&
           std::ranges::all_of(*parts, [&](ValueId part) {
             const Node* view = producer_of(graph_, part);
             return is_parameter(graph_, view && view->op->role == OpRole::view ? *view->args[0].get<ValueId>() : part);
           });
  }

  // A cast of constants to integers that may not hold what they are cast from.
  bool makes_codes(const Node& node) const {
    if (!is_any_cast(node) || !constant_[node.outputs[0]]) return false;
    const DType from = graph_.value(*node.args[0].get<ValueId>()).dtype, to = graph_.value(node.outputs[0]).dtype;
    return from != to && !is_floating(to) && to != DType::boolean &&
           (is_floating(from) || (from != DType::boolean && may_wrap(from, to)));
  }
  static bool is_any_cast(const Node& node) {
    return node.op->role == OpRole::copy && node.outputs.size() == 1 && !node.args.empty() &&
           node.args[0].get<ValueId>();
  }

  // A difference of two tensors in which nothing wraps: zero points, which stay what they are.
  bool takes_zeros_off(const Node& cast) const {
    const ValueId codes = *cast.args[0].get<ValueId>();
    const Node* node = producer_of(graph_, codes);
    if (!node || (!is_op(*node, "aten.sub.Tensor") && !is_op(*node, "aten.add.Tensor"))) return false;
    if (!node->arg("other").get<ValueId>()) return false;
    const auto range = integer_bounds(graph_, codes);
    return range && fits(*range, graph_.value(cast.outputs[0]).dtype);
  }

  // A constant and all that it is computed from. Left alone where that was rewritten on the way.
  Status evaluate_chain(NodeId last) {
    std::vector<NodeId> open = {last}, chain;
    std::unordered_set<NodeId> seen = {last};
    while (!open.empty()) {
      chain.push_back(open.back());
      open.pop_back();
      if (chain.back() >= count_) return {};
      for_each_input(graph_.nodes[chain.back()], [&](ValueId input) {
        const Value& value = graph_.value(input);
        if (value.kind == ValueKind::node && !values_.contains(input) && seen.insert(value.producer).second)
          open.push_back(value.producer);
      });
    }
    std::ranges::sort(chain);
    for (NodeId id : chain) {
      resolve_inputs(graph_.nodes[id]);
      QCG_CHECK(evaluate(id));
    }
    return {};
  }

  // From the last node to the first: what has no kernel, and what is evaluated on the way to it.
  Status find_needed() {
    needed_.assign(graph_.values.size(), false);
    uses_ = graph_.count_uses();
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      bool needed = needs_constants(graph_, *node);
      if (is_look_up(*node) && !constant_[node->tensor("self")] && has_constant_positions(*node)) {
        gathers_.insert(node->outputs[0]);
        for_each_input(*node, [&](ValueId id) { needed_[id] = needed_[id] || constant_[id]; });
        continue;
      }
      if (needed && !constant_[node->outputs[0]] && has_kernel(graph_, *node)) continue;
      if (needed) QCG_CHECK(check_constant(*node));
      for_each_packed(graph_, *node, [&](ValueId id) { needed_[id] = needed_[id] || constant_[id]; });
      for (ValueId out : node->outputs) needed = needed || needed_[out];
      if (needed) for_each_input(*node, [&](ValueId id) { needed_[id] = true; });
    }
    return {};
  }

  bool has_constant_positions(const Node& look_up) const {
    bool constant = true;
    for_each_input(look_up,
                   [&](ValueId id) { constant = constant && (constant_[id] || id == look_up.tensor("self")); });
    return constant;
  }

  Status check_constant(const Node& node) const {
    const ValueId out = node.outputs[0];
    std::string what;
    for_each_input(node, [&](ValueId id) {
      if (!constant_[id]) what = "%" + graph_.value(id).name + " is computed from the inputs of the graph";
    });
    if (what.empty() && !constant_[out]) what = "its size is known only at run time";
    if (what.empty()) return {};
    return Error::unsupported(node.where, title(node) + " is evaluated when the graph is compiled, but " + what,
                              "bit operations, and divisions of integers by tensors, need constants: cut the graph "
                              "there and pass their result as an input");
  }

  std::string title(const Node& node) const {
    return node.op->name + " (" + (node.origins.empty() ? graph_.value(node.outputs[0]).name : node.origins.back()) +
           ")";
  }

  // By value: whether all that reads it, in another shape or dtype perhaps, makes more elements of it, and is one of
  // `readers`.
  std::vector<bool> find_repeated(const std::vector<bool>& readers) const {
    std::vector<bool> repeated(graph_.values.size(), true);
    for (ValueId out : graph_.outputs) repeated[out] = false;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      if (node->outputs.empty()) continue;
      const ValueId out = node->outputs[0];
      const int64_t count = count_elements(graph_.value(out).shape);
      const OpRole role = node->op->role;
      for_each_input(*node, [&](ValueId id) {
        const bool more = count > count_elements(graph_.value(id).shape);
        const bool moves = role == OpRole::copy || (role == OpRole::view && !more);
        repeated[id] = repeated[id] && readers[out] &&
                       (moves ? repeated[out] : more && (role == OpRole::view || role == OpRole::pointwise));
      });
    }
    return repeated;
  }

  Status visit(NodeId id) {
    QCG_CHECK(evaluate_casts(id));
    const Node& node = graph_.nodes[id];
    if (node.outputs.empty()) return {};
    if (const ValueId out = node.outputs[0]; gathers_.contains(out)) {
      auto gathered = gather_slices(graph_, node, elements_left_);
      if (!gathered.ok() && gathered.error().code != ErrorCode::Unsupported) return std::move(gathered.error());
      if (!gathered.ok()) return {};  // a look-up it stays: it has a kernel
      values_[out] = *gathered;
      count_change("look-ups of activations");
      return {};
    }
    if (joins_parameters(node) || chooses_codes(node) || makes_scale(node) ||
        (makes_codes(node) && !takes_zeros_off(node)))
      return evaluate_chain(id);
    bool needed = false;
    for (ValueId out : node.outputs) needed = needed || needed_[out];
    const bool constant = constant_[node.outputs[0]] || !has_kernel(graph_, node);
    if (!needed && !(needs_constants(graph_, node) && constant) && !follows(node)) return {};
    if (!needed && (repeat_instead(id) || multiply_instead(id))) return {};
    return evaluate(id);
  }

  bool reads_made(const Node& node) const {
    bool parameters = std::none_of(node.args.begin(), node.args.end(), has_symbols), made = false;
    for_each_input(node, [&](ValueId id) {
      parameters = parameters && is_parameter(graph_, id);
      made = made || made_.contains(id);
    });
    return parameters && made;
  }

  // The operands of a scale or zero point may be casts that were left alone.
  Status evaluate_casts(NodeId id) {
    const Node& node = graph_.nodes[id];
    if (node.op->role != OpRole::pointwise || !repeated_[node.outputs[0]]) return {};
    bool constant = true;
    std::vector<NodeId> casts;
    for_each_input(node, [&](ValueId input) {
      const Node* cast = producer_of(graph_, input);
      if (cast && cast->op->role == OpRole::copy && reads_made(*cast)) casts.push_back(graph_.value(input).producer);
      else constant = constant && is_parameter(graph_, input);
    });
    if (!constant) return {};
    for (NodeId cast : casts)
      if (!values_.contains(graph_.nodes[cast].outputs[0])) QCG_CHECK(evaluate(cast));
    resolve_inputs(graph_.nodes[id]);
    return {};
  }

  // What else is evaluated because its operands were.
  bool follows(const Node& node) const {
    if (!reads_made(node)) return false;
    const ValueId out = node.outputs[0];
    const ValueId* self = node.args.empty() ? nullptr : node.args[0].get<ValueId>();
    if (self && *self != kNoValue && node.outputs.size() == 1 && graph_.value(out).dtype != graph_.value(*self).dtype &&
        (node.op->role == OpRole::copy || node.op->role == OpRole::view))
      return may_wrap(graph_.value(*self).dtype, graph_.value(out).dtype);
    int64_t most = 0;
    for_each_input(node, [&](ValueId id) { most += count_elements(graph_.value(id).shape); });
    if (node.op->role == OpRole::view || node.op->role == OpRole::copy)
      return count_elements(graph_.value(out).shape) <= most;
    return node.op->role == OpRole::pointwise && repeated_[out];
  }

  static bool may_wrap(DType from, DType to) {
    return !is_floating(from) && !is_floating(to) && dtype_bytes(to) <= dtype_bytes(from);
  }

  // self[i / times for i in 0 …] is self, each element repeated.
  bool repeat_instead(NodeId id) {
    const Node node = graph_.nodes[id];  // a copy: emit() moves the nodes
    size_t axis = 0;
    ValueId index = kNoValue;
    if (is_any_op(node, kIndexes)) {
      const auto& indices = *node.arg("indices").get<std::vector<ValueId>>();
      while (axis < indices.size() && indices[axis] == kNoValue) ++axis;
      if (std::count(indices.begin(), indices.end(), kNoValue) + 1 != static_cast<int64_t>(indices.size()))
        return false;
      index = indices[axis];
    } else if (is_op(node, "aten.index_select.default")) {
      const auto at = as_axis(node.arg("dim"), graph_.value(node.tensor("self")).shape.size());
      if (!at) return false;
      axis = *at;
      index = node.tensor("index");
    } else {
      return false;
    }
    const Tensor &positions = graph_.value(index).data, &self = graph_.value(node.tensor("self")).data;
    if (!positions.bound() || positions.shape.size() != 1 || self.shape.empty()) return false;
    const int64_t size = self.shape[axis], times = size == 0 ? 0 : positions.numel() / size;
    if (times < 1 || positions.numel() != size * times) return false;
    const auto values = read_elements<int64_t>(positions);
    for (int64_t i = 0; i < positions.numel(); ++i)
      if ((*values)[static_cast<size_t>(i)] != i / times) return false;
    const OpSchema* repeat = Op("aten.repeat_interleave.self_int").schema();
    replace_node(
        graph_, id, repeat,
        make_args(*repeat,
                  {{"self", node.tensor("self")}, {"repeats", Dim(times)}, {"dim", Dim(static_cast<int64_t>(axis))}}));
    count_change("look-ups that repeat");
    return true;
  }

  // ldexp(a, e) = to(a * 2^e): where f32 holds the powers.
  bool multiply_instead(NodeId id) {
    const Node node = graph_.nodes[id];  // a copy: emit() moves the nodes
    if (!is_op(node, "aten.ldexp.Tensor")) return false;
    const Tensor exponents = graph_.value(node.tensor("other")).data;
    auto powers = read_elements<double>(exponents);
    if (powers && !std::all_of(powers->begin(), powers->end(), [](double e) { return e >= -126 && e <= 127; }))
      return false;
    Elements<float> rounded;
    if (powers) {
      rounded.emplace();
      for (double e : *powers) rounded->push_back(static_cast<float>(std::exp2(e)));
    }
    const ValueId out = node.outputs[0], self = node.tensor("self"),
                  power = add_made(out, ".power", make_tensor(DType::f32, exponents.shape, rounded));
    const OpSchema *mul = Op("aten.mul.Tensor").schema(), *cast = Op("aten.to.dtype").schema();
    const ValueType type = {graph_.value(self).dtype == DType::f64 ? DType::f64 : DType::f32, graph_.value(out).shape};
    std::vector<Arg> factors = make_args(*mul, {{"self", self}, {"other", power}});
    if (graph_.value(out).dtype == type.dtype) {
      replace_node(graph_, id, mul, std::move(factors));
    } else {
      const ValueId wide = emit(graph_, mul, std::move(factors), type, node, graph_.value(out).name + ".wide");
      replace_node(graph_, id, cast, make_args(*cast, {{"self", wide}, {"dtype", graph_.value(out).dtype}}));
    }
    count_change("powers of two that scale");
    return true;
  }

  Status evaluate(NodeId id) {
    const Node node = graph_.nodes[id];
    std::vector<Tensor> results;
    if (auto view = view_of_parameter(node)) {
      results.push_back(std::move(*view));
    } else if (is_bound(node)) {
      elements_left_ -= std::min(count_elements(graph_.value(node.outputs[0]).shape), elements_left_ + 1);
      if (elements_left_ < 0)
        return Error::unsupported(
            node.where,
            title(node) +
                " makes more elements than packed weights of this size hold, together with earlier nodes of its kind",
            "compute it when the weights are stored");
      auto values = evaluate_node(graph_, node);
      if (!values.ok()) {
        values.error().where = node.where;
        return std::move(values.error());
      }
      results = std::move(*values);
    } else {
      for (ValueId out : node.outputs)
        results.push_back(make_tensor<int8_t>(graph_.value(out).dtype, *constant_shape(graph_.value(out).shape), {}));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (uses_[node.outputs[i]] == 0) continue;
      const ValueId out = node.outputs[i], source = largest_source(node);
      const ValueId made = add_made(source == kNoValue ? out : source, ".unpacked", std::move(results[i]));
      made_[made] = {uses_[out], source};
      values_[out] = made;
    }
    for_each_input(node, [&](ValueId input) { release(input); });
    count_change("constants evaluated");
    return {};
  }

  std::optional<Tensor> view_of_parameter(const Node& node) const {
    const ValueId* self = node.args.empty() ? nullptr : node.args[0].get<ValueId>();
    if (node.op->role != OpRole::view || node.outputs.size() != 1 || !self) return std::nullopt;
    return view_of_tensor(graph_, node, graph_.value(*self).data);
  }

  bool is_bound(const Node& node) const {
    bool bound = true;
    for_each_input(node, [&](ValueId id) { bound = bound && graph_.value(id).data.bound(); });
    return bound;
  }

  ValueId add_made(ValueId like, std::string_view suffix, Tensor data) {
    return graph_.add_parameter(graph_.unique_name(graph_.value(like).name + std::string(suffix)), std::move(data));
  }

  ValueId largest_source(const Node& node) const {
    ValueId largest = kNoValue;
    int64_t most = 0;
    for_each_input(node, [&](ValueId id) {
      const auto made = made_.find(id);
      const ValueId source = made == made_.end() ? id : made->second.source;
      if (source == kNoValue) return;
      const Value& value = graph_.value(source);
      const int64_t bytes = count_elements(value.shape) * static_cast<int64_t>(dtype_bytes(value.dtype));
      if (bytes > most) largest = source, most = bytes;
    });
    return largest;
  }

  // What was made on the way is as large as a weight and read by nobody any more.
  void release(ValueId id) {
    const auto it = made_.find(id);
    if (it != made_.end() && --it->second.uses_left == 0) graph_.value(id).data.storage.reset();
  }

  void count_change(const char* what) {
    ++report_.counters[what];
    ++report_.fired;
  }

  struct Made {
    uint32_t uses_left;
    ValueId source;  // the largest parameter it depends on, whose name it takes: a kernel is named after its weight
  };
  Graph& graph_;
  PassReport& report_;
  int64_t elements_left_ = kFewElements;
  NodeId count_ = 0;                                        // of nodes, as the pass found them
  std::vector<bool> constant_, needed_, repeated_, scale_;  // by value, as the pass found them
  std::vector<uint32_t> uses_;
  std::unordered_set<ValueId> gathers_;          // look-ups of activations
  std::unordered_map<ValueId, ValueId> values_;  // what a node computed
  std::unordered_map<ValueId, Made> made_;
};

}  // namespace

Status unpack_constants(Graph& graph, PassContext& context) { return Unpacker(graph, context.report).run(); }

}  // namespace qcg

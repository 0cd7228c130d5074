// fold_noops: what moves no bytes leaves the graph, and what is left has one spelling.
//
// Exported graphs are noisy: torchao writes `to(reshape(t(w)))` around every weight and an _assert_tensor_metadata
// beside every cast. One forward sweep
//   - drops assertions, casts to the same dtype, views to the same shape, clones, and casts undone by the next cast;
//   - replaces views of parameters by new parameters (the same storage read with other strides; needs no bytes), moving a
//     cast between them out of the way: reshape(to(@w)) = to(reshape(@w));
//   - composes reshape of reshape and permute of permute;
//   - writes full, full_like and their kin, and products over no elements, as an expanded number, and repeats as a
//     reshape of expanded axes;
//   - writes a reduction of the whole tensor as one over all axes;
//   - gives every view, cast and concatenation one name (aten.reshape, aten.permute, aten.slice, aten.to.dtype, aten.cat)
//     and every leftover in-place op its functional twin, with the cast back that writing into a narrower tensor is.
//
// Why first: patterns are written against this form; every later pass may assume it.
#include <algorithm>
#include <bit>
#include <map>

#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"
#include "graph/passes/pass_list.h"
#include "graph/rewrite/parameter_views.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

constexpr Op kReshapes[] = {"aten.reshape.default",    "aten.view.default",      "aten._unsafe_view.default",
                            "aten.flatten.using_ints", "aten.unsqueeze.default", "aten.unflatten.int",
                            "aten.squeeze.default",    "aten.squeeze.dim",       "aten.squeeze.dims"};
constexpr Op kPermutes[] = {"aten.t.default", "aten.numpy_T.default", "aten.mT.default", "aten.transpose.int",
                            "aten.permute.default"};
constexpr Op kCasts[] = {"aten.to.dtype",
                         "aten.to.dtype_layout",
                         "aten.to.device",
                         "aten._to_copy.default",
                         "aten.type_as.default",
                         "quantized_decomposed.convert_element_type.no_fuse",
                         "prims.convert_element_type.default"};
constexpr Op kCopies[] = {"aten.contiguous.default", "aten.clone.default", "aten.detach.default", "aten.alias.default",
                          "aten.lift_fresh_copy.default"};
constexpr Op kFills[] = {"aten.full_like.default",     "aten.zeros_like.default", "aten.ones_like.default",
                         "aten.full.default",          "aten.zeros.default",      "aten.ones.default",
                         "aten.new_full.default",      "aten.new_zeros.default",  "aten.new_ones.default",
                         "aten.scalar_tensor.default", "aten.empty_like.default", "aten.empty_permuted.default",
                         "aten.new_empty.default",     "aten.empty.memory_format"};
constexpr Op kOnes[] = {"aten.ones.default", "aten.ones_like.default", "aten.new_ones.default"};
constexpr Op kProducts[] = {"aten.linear.default", "aten.mm.default", "aten.bmm.default", "aten.matmul.default"};
constexpr Op kSplits[] = {"aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default"};
constexpr Op kRepeats[] = {"aten.repeat.default", "aten.tile.default", "aten.repeat_interleave.self_int"};

struct WholeReduction {
  Op whole, over_axes;
};
constexpr WholeReduction kWholeReductions[] = {{"aten.max.default", "aten.amax.default"},
                                               {"aten.min.default", "aten.amin.default"},
                                               {"aten.sum.default", "aten.sum.dim_IntList"},
                                               {"aten.mean.default", "aten.mean.dim"}};

class NoopFolder {
 public:
  NoopFolder(Graph& graph, PassReport& report) : graph_(graph), report_(report) {}

  Status run() {
    const NodeId count = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = 0; id < count; ++id) {
      resolve_inputs(graph_.nodes[id]);
      fold(id);
    }
    for (NodeId id = count; id < graph_.nodes.size(); ++id) resolve_inputs(graph_.nodes[id]);
    for (ValueId& out : graph_.outputs) out = resolve(out);
    QCG_CHECK(sort_nodes(graph_));
    const size_t before = graph_.nodes.size();
    graph_.remove_dead();
    if (graph_.nodes.size() < before) count_change("nodes dropped", static_cast<int64_t>(before - graph_.nodes.size()));
    return {};
  }

 private:
  // Values that turned out to be another value.
  ValueId resolve(ValueId id) const {
    for (auto it = alias_.find(id); it != alias_.end(); it = alias_.find(id)) id = it->second;
    return id;
  }
  void resolve_inputs(Node& node) {
    for_each_input(node, [&](ValueId& id) { id = resolve(id); });
  }
  void count_change(const char* what, int64_t n = 1) {
    report_.counters[what] += n;
    report_.fired += n;
  }
  ValueType type_of(ValueId id) const { return {graph_.value(id).dtype, graph_.value(id).shape}; }
  bool same_type(ValueId a, ValueId b) const {
    return graph_.value(a).dtype == graph_.value(b).dtype && graph_.value(a).shape == graph_.value(b).shape;
  }

  void fold(NodeId id) {
    fold_in_place(id);
    if (is_any_op(graph_.nodes[id], kSplits)) return fold_split(id);
    if (is_op(graph_.nodes[id], "aten.unbind.int")) return fold_unbind(id);
    if (graph_.nodes[id].outputs.size() != 1 || graph_.nodes[id].args.empty()) return;
    canonicalize_cast(id);
    canonicalize_fill(id);
    canonicalize_empty_product(id);
    canonicalize_dropout_and_cat(id);
    canonicalize_reduction(id);
    canonicalize_shape_of_other(id);
    if (is_any_op(graph_.nodes[id], kRepeats)) unfold_repeat(id);
    const Node& node = graph_.nodes[id];
    const ValueId* input = node.args[0].get<ValueId>();
    if (!input || *input == kNoValue) return;
    if (fold_copy(id, *input)) return;
    if (is_op(node, "aten.to.dtype")) {
      fold_cast(id);
      return;
    }
    if (node.op->role != OpRole::view) return;
    if (fold_parameter_view(id)) return;
    canonicalize_view(id);
    compose_view(id);
  }

  // The IR is functional: sub_ means sub (readers refuse graphs in which that would show).
  void fold_in_place(NodeId id) {
    Node& node = graph_.nodes[id];
    if (!node.op->in_place) return;
    node.op = Op(node.op).schema();
    count_change("in-place ops made functional");
    cast_back(id);
  }

  // sub_(x: bf16, y: f32) is to(sub(x, y): f32): bf16.
  void cast_back(NodeId id) {
    const Node node = graph_.nodes[id];  // a copy: emit() moves the nodes
    const auto types = infer_types(graph_, node);
    const ValueId out = node.outputs[0];
    if (!types.ok() || (*types)[0].dtype == graph_.value(out).dtype) return;
    const ValueId wide = emit(graph_, node.op, node.args, (*types)[0], node, graph_.value(out).name + ".wide");
    const OpSchema* cast = Op("aten.to.dtype").schema();
    graph_.nodes[id].op = cast;
    graph_.nodes[id].args = make_args(*cast, {{"self", wide}, {"dtype", graph_.value(out).dtype}});
  }

  bool fold_copy(NodeId id, ValueId input) {
    const Node& node = graph_.nodes[id];
    const ValueId out = node.outputs[0];
    bool noop = is_any_op(node, kCopies);
    if (is_op(node, "aten.to.dtype")) noop = same_type(input, out);
    if (is_any_op(node, kReshapes) || is_op(node, "aten.expand.default")) noop = same_type(input, out);
    if (is_op(node, "aten.slice.Tensor")) noop = same_type(input, out) && as_integer(node.arg("step")) == 1;
    if (!noop) return false;
    alias_[out] = input;
    count_change("no-op casts, views and copies");
    return true;
  }

  void canonicalize_cast(NodeId id) {
    Node& node = graph_.nodes[id];
    if (!is_any_op(node, kCasts)) return;
    const ValueId x = *node.args[0].get<ValueId>();
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    const OpSchema* cast = Op("aten.to.dtype").schema();
    node.op = cast;
    node.args = make_args(*cast, {{"self", x}, {"dtype", dtype}});
  }

  // One number everywhere is a view of it.
  void canonicalize_fill(NodeId id) {
    if (!is_any_op(graph_.nodes[id], kFills)) return;
    const Node node = graph_.nodes[id];
    std::optional<double> value = is_any_op(node, kOnes) ? 1 : 0;
    for (std::string_view given : {"fill_value", "s"}) {
      if (node.op->arg_index(given) < 0) continue;
      if (is_beyond_double(node.arg(given))) return;
      value = as_number(node.arg(given));
    }
    if (value) expand_number(id, *value);
  }

  // A product over k = 0 is its bias or zero: there is no kernel for sums of nothing.
  void canonicalize_empty_product(NodeId id) {
    Node& node = graph_.nodes[id];
    if (!is_any_op(node, kProducts)) return;
    const Shape& x = graph_.value(*node.args[0].get<ValueId>()).shape;
    if (x.empty() || !x.back().is_constant(0)) return;
    count_change("products over no elements");
    const ValueId bias = is_op(node, "aten.linear.default") ? node.tensor("bias") : kNoValue;
    if (bias == kNoValue) return expand_number(id, 0);
    const OpSchema* expand = Op("aten.expand.default").schema();
    node.op = expand;
    node.args = make_args(*expand, {{"self", bias}, {"size", graph_.value(node.outputs[0]).shape}});
  }

  void expand_number(NodeId id, double value) {
    const Value& out = graph_.value(graph_.nodes[id].outputs[0]);
    const OpSchema* expand = Op("aten.expand.default").schema();
    const Shape shape = out.shape;
    auto [it, fresh] =
        numbers_.try_emplace({out.dtype, std::bit_cast<uint64_t>(value)}, kNoValue);  // one, so that cse sees equals
    if (fresh) it->second = add_number(graph_, out.dtype, value, {}, out.name + ".number");
    const ValueId number = it->second;
    graph_.nodes[id].op = expand;
    graph_.nodes[id].args = make_args(*expand, {{"self", number}, {"size", shape}});
  }

  void canonicalize_reduction(NodeId id) {
    Node& node = graph_.nodes[id];
    for (const WholeReduction& row : kWholeReductions) {
      if (!is_op(node, row.whole)) continue;
      const OpSchema* op = row.over_axes.schema();
      std::vector<NamedArg> named = {{"self", node.tensor("self")}, {"dim", std::vector<Dim>()}};
      if (node.op->arg_index("dtype") >= 0) named.push_back({"dtype", node.arg("dtype")});
      node.args = make_args(*op, std::move(named));
      node.op = op;
      return;
    }
  }

  // Views that take their shape from another tensor.
  void canonicalize_shape_of_other(NodeId id) {
    Node& node = graph_.nodes[id];
    const bool expands = is_op(node, "aten.expand_as.default");
    if (!expands && !is_op(node, "aten.reshape_as.default") && !is_op(node, "aten.view_as.default")) return;
    const OpSchema* op = (expands ? Op("aten.expand.default") : Op("aten.reshape.default")).schema();
    const ValueId x = node.tensor("self");
    node.op = op;
    node.args = make_args(*op, {{"self", x}, {expands ? "size" : "shape", graph_.value(node.outputs[0]).shape}});
  }

  void canonicalize_dropout_and_cat(NodeId id) {
    Node& node = graph_.nodes[id];
    if (is_op(node, "aten.concat.default") || is_op(node, "tensor_cast.cat.default"))
      node.op = Op("aten.cat.default").schema();
    constexpr Op kDropouts[] = {"aten.dropout.default", "aten.feature_dropout.default", "aten.dropout_.default",
                                "aten.alpha_dropout.default", "aten.feature_alpha_dropout.default"};
    if (is_any_op(node, kDropouts)) {
      const bool* train = node.arg("train").get<bool>();
      if (train && !*train) {
        const ValueId x = *node.args[0].get<ValueId>();
        node.op = Op("aten.alias.default").schema();
        node.args = {x};
      }
    }
  }

  // to(to(x: a) : b) : c  =  to(x) : c  when b holds every value of a.
  void fold_cast(NodeId id) {
    Node& node = graph_.nodes[id];
    const Node* inner = producer_if(graph_, node.tensor("self"), "aten.to.dtype");
    if (!inner) return;
    const ValueId source = inner->tensor("self");
    if (!widens(graph_.value(source).dtype, graph_.value(inner->outputs[0]).dtype)) return;
    node.arg("self") = source;
    count_change("casts of casts");
    if (same_type(source, node.outputs[0])) alias_[node.outputs[0]] = source;
  }

  bool fold_parameter_view(NodeId id) {
    const Node& node = graph_.nodes[id];
    ValueId base = *node.args[0].get<ValueId>();
    const Node* cast = producer_if(graph_, base, "aten.to.dtype");
    if (cast) base = cast->tensor("self");
    if (!is_parameter(graph_, base)) return false;
    auto view = view_of_tensor(graph_, node, graph_.value(base).data);
    if (!view) return false;
    const ValueId out = node.outputs[0], viewed = add_parameter_view(graph_, base, std::move(*view));
    count_change("views of parameters");
    if (!cast) {
      alias_[out] = viewed;
    } else {
      const OpSchema* op = Op("aten.to.dtype").schema();
      graph_.nodes[id].op = op;
      graph_.nodes[id].args = make_args(*op, {{"self", viewed}, {"dtype", graph_.value(out).dtype}});
    }
    return true;
  }

  void canonicalize_view(NodeId id) {
    Node& node = graph_.nodes[id];
    const ValueId x = *node.args[0].get<ValueId>();
    const size_t rank = graph_.value(x).shape.size();
    const OpSchema* reshape = Op("aten.reshape.default").schema();
    if (is_any_op(node, kReshapes)) {
      const Shape shape = graph_.value(node.outputs[0]).shape;
      node.op = reshape;
      node.args = make_args(*reshape, {{"self", x}, {"shape", shape}});
    } else if (is_any_op(node, kPermutes)) {
      auto order = permutation(node, rank);
      if (!order) return;
      const OpSchema* permute = Op("aten.permute.default").schema();
      node.op = permute;
      node.args = make_args(*permute, {{"self", x}, {"dims", *order}});
    } else if (is_op(node, "aten.narrow.default")) {
      const Dim* start = node.arg("start").get<Dim>();
      const Dim* length = node.arg("length").get<Dim>();
      if (!start || !length || (start->is_constant() && start->constant() < 0)) return;
      Arg dim = node.arg("dim");
      const OpSchema* slice = Op("aten.slice.Tensor").schema();
      node.args = make_args(*slice, {{"self", x}, {"dim", dim}, {"start", *start}, {"end", *start + *length}});
      node.op = slice;
    }
  }

  static std::optional<std::vector<Dim>> permutation(const Node& node, size_t rank) {
    std::vector<Dim> order;
    for (size_t i = 0; i < rank; ++i) order.push_back(Dim(static_cast<int64_t>(i)));
    if (is_op(node, "aten.t.default") || is_op(node, "aten.numpy_T.default")) {
      std::reverse(order.begin(), order.end());
      return order;
    }
    if (is_op(node, "aten.mT.default")) {
      std::swap(order.back(), order[rank - 2]);
      return order;
    }
    if (is_op(node, "aten.transpose.int")) {
      auto a = as_axis(node.arg("dim0"), rank), b = as_axis(node.arg("dim1"), rank);
      if (!a || !b) return std::nullopt;
      std::swap(order[*a], order[*b]);
      return order;
    }
    const auto* dims = node.arg("dims").get<std::vector<Dim>>();
    if (!dims || dims->size() != rank) return std::nullopt;
    for (size_t i = 0; i < rank; ++i) {
      auto axis = as_axis(Arg((*dims)[i]), rank);
      if (!axis) return std::nullopt;
      order[i] = Dim(static_cast<int64_t>(*axis));
    }
    return order;
  }

  void compose_view(NodeId id) {
    Node& node = graph_.nodes[id];
    const ValueId out = node.outputs[0];
    if (is_op(node, "aten.reshape.default")) {
      const Node* inner = producer_if(graph_, node.tensor("self"), "aten.reshape.default");
      if (!inner) return;
      const ValueId source = inner->tensor("self");
      node.arg("self") = source;
      count_change("reshapes of reshapes");
      if (same_type(source, out)) alias_[out] = source;
    } else if (is_op(node, "aten.permute.default")) {
      compose_permute(node);
    }
  }

  void compose_permute(Node& node) {
    std::vector<Dim> order = *node.arg("dims").get<std::vector<Dim>>();
    ValueId source = node.tensor("self");
    if (const Node* inner = producer_if(graph_, source, "aten.permute.default")) {
      const auto& first = *inner->arg("dims").get<std::vector<Dim>>();
      for (Dim& dim : order) dim = first[static_cast<size_t>(dim.constant())];
      source = inner->tensor("self");
      node.arg("self") = source;
      node.arg("dims") = order;
      count_change("permutes of permutes");
    }
    for (size_t i = 0; i < order.size(); ++i)
      if (!order[i].is_constant(static_cast<int64_t>(i))) return;
    alias_[node.outputs[0]] = source;
    count_change("no-op casts, views and copies");
  }

  // reshape(expand(reshape(x, [.., n, 1, ..]), [.., n, repeats, ..]), [.., n * repeats, ..]); of repeat and tile, whose
  // axes all have repeats, those lie before n.
  void unfold_repeat(NodeId id) {
    const Node node = graph_.nodes[id];  // a copy: emit() moves the nodes
    ValueId x = node.tensor("self");
    const ValueType type = type_of(x);
    Shape thin, wide;
    const auto add = [&](const Dim& size, const Dim& repeats) { thin.push_back(size), wide.push_back(size * repeats); };
    if (is_op(node, "aten.repeat_interleave.self_int")) {
      const bool of_all = node.arg("dim").is_none();
      const Shape sizes = of_all ? Shape{product(type.shape)} : type.shape;
      const auto axis = of_all ? std::optional<size_t>(0) : as_axis(node.arg("dim"), sizes.size());
      if (!axis) return;
      for (size_t i = 0; i < sizes.size(); ++i) {
        add(sizes[i], Dim(1));
        if (i == *axis) add(Dim(1), *node.arg("repeats").get<Dim>());
      }
    } else {
      const Shape repeats = *node.args[1].get<std::vector<Dim>>();
      const size_t rank = std::max(repeats.size(), type.shape.size());
      for (size_t i = 0; i < rank; ++i) {
        const Dim times = i + repeats.size() < rank ? Dim(1) : repeats[i + repeats.size() - rank];
        if (!times.is_constant(1)) add(Dim(1), times);
        if (i + type.shape.size() >= rank) add(type.shape[i + type.shape.size() - rank], Dim(1));
      }
    }
    const OpSchema *reshape = Op("aten.reshape.default").schema(), *expand = Op("aten.expand.default").schema();
    auto view = [&](const OpSchema* op, std::string_view sizes, const Shape& shape) {
      const ValueId out = emit(graph_, op, make_args(*op, {{"self", x}, {sizes, shape}}), {type.dtype, shape}, node,
                               graph_.value(x).name + ".repeated");
      fold_parameter_view(graph_.value(out).producer);
      x = resolve(out);
    };
    if (thin != type.shape) view(reshape, "shape", thin);
    if (wide != thin) view(expand, "size", wide);
    graph_.nodes[id].op = reshape;
    graph_.nodes[id].args = make_args(*reshape, {{"self", x}, {"shape", graph_.value(node.outputs[0]).shape}});
    count_change("repeats into expanded axes");
  }

  // split and chunk with known widths: one slice per piece (views of parameters if it is one); unbind: one select.
  void fold_split(NodeId id) {
    const Node node = graph_.nodes[id];  // a copy: emit() moves the nodes
    const ValueId x = node.tensor("self");
    auto axis = as_axis(node.arg("dim"), graph_.value(x).shape.size());
    if (!axis) return;
    Dim start(0);
    for (ValueId out : node.outputs) {
      const Dim end = start + graph_.value(out).shape[*axis];
      emit_piece(node, out, "aten.slice.Tensor",
                 {{"self", x}, {"dim", Dim(static_cast<int64_t>(*axis))}, {"start", start}, {"end", end}});
      start = end;
    }
    count_change("splits into slices");
  }

  void fold_unbind(NodeId id) {
    const Node node = graph_.nodes[id];  // a copy: emit() moves the nodes
    Dim index(0);
    for (ValueId out : node.outputs) {
      emit_piece(node, out, "aten.select.int",
                 {{"self", node.tensor("self")}, {"dim", node.arg("dim")}, {"index", index}});
      index = index + Dim(1);
    }
    count_change("splits into slices");
  }

  void emit_piece(const Node& whole, ValueId out, Op name, std::vector<NamedArg> args) {
    const ValueId piece =
        emit(graph_, name, make_args(*name.schema(), std::move(args)), type_of(out), whole, graph_.value(out).name);
    const NodeId id = graph_.value(piece).producer;
    graph_.nodes[id].origins = whole.origins;
    alias_[out] = piece;
    fold_parameter_view(id);
  }

  Graph& graph_;
  PassReport& report_;
  std::map<ValueId, ValueId> alias_;
  std::map<std::pair<DType, uint64_t>, ValueId> numbers_;  // what fills became views of, by dtype and bits
};

}  // namespace

Status fold_noops(Graph& graph, PassContext& context) { return NoopFolder(graph, context.report).run(); }

}  // namespace qcg

// expand_layers: convolutions, pools and recurrent layers become linears, reductions and pointwise operations.
//
//   %y [B, N, H', W'] = aten.conv2d(%x [B, C, H, W], @w)      %l = permute(%x)                    [B, H, W, C]
//   %r = aten.relu(%y)                                   ->   %p = reshape(windows of pad(%l))    [B, H', W', 3 * 3 * C]
//                                                             %q = aten.linear(%p, @w as [N, 3 * 3 * C])
//                                                             %s = aten.relu(%q)                  [B, H', W', N]
//                                                             %r = permute(%s)                    [B, N, H', W']
//
// Layers compute with channels last: windows then have long runs, channels fill vectors, and a kernel of size 1 is a
// linear of x as it lies. What follows a layer and reads every element by itself (activations, sums, batch_norm), cats
// and means over the axes are written for channels last too. So the permutes between two layers are never run.
// Rows of windows are copied: as many elements as the kernel has for each of the input.
// Recurrent layers are written out step by step: their number of steps is a constant. einsum becomes products, and ops of
// torch's library become what they are written in (library/library.h).
//
// Why here: after fold_noops and cse; before recognize_linear, which takes the linears from there, whatever their
// weights are. decompose calls it for lists of passes without it.
#include <algorithm>
#include <map>
#include <optional>

#include "graph/ops/infer.h"
#include "graph/passes/composed_ops.h"
#include "graph/passes/layers/layers.h"
#include "graph/passes/library/library.h"
#include "graph/passes/pass_list.h"
#include "graph/passes/spelled_ops.h"
#include "graph/rewrite/pointwise.h"

namespace qcg {

namespace {

constexpr Op kBatchNorms[] = {"aten.batch_norm.default", "aten._native_batch_norm_legit_no_training.default"};
constexpr Op kReductions[] = {"aten.mean.dim", "aten.sum.dim_IntList", "aten.amax.default", "aten.amin.default"};

bool is_layer(const Node& node) {
  return find_channel_layer(node.op) || is_recurrence(node) || is_einsum(node.op) || find_library_op(node.op);
}

class LayerExpander : OpEmitter {
 public:
  LayerExpander(Graph& graph, PassContext& context) : OpEmitter(graph, {}), context_(context), readers_(graph) {}

  Status run() {
    const auto count = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = 0; id < count; ++id) QCG_CHECK(visit(id));
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  // A value seen with its channels last.
  struct Last {
    ValueId value;
    size_t spatial;
  };

  Status visit(NodeId id) {
    like_ = graph_.nodes[id];
    error_ = {};
    if (const ChannelLayer* layer = find_channel_layer(like_.op)) {
      const Last x = channels_last(*like_.args[0].get<ValueId>(), count_spatial({graph_, like_}));
      const bool reads_positions = layer->positions && readers_.uses()[like_.outputs[1]] > 0;
      give_first_axes({layer->write(*this, graph_, like_, x.value), x.spatial}, 0);
      if (reads_positions) give_first_axes({layer->positions(*this, graph_, like_, x.value), x.spatial}, 1);
    } else if (is_recurrence(like_)) {
      give(write_recurrence(*this, graph_, like_));
    } else if (is_einsum(like_.op)) {
      give(write_einsum(*this, graph_, like_));
    } else if (const LibraryOp* library = find_library_op(like_.op)) {
      give(library->write(*this, graph_, like_));
    } else if (!last_.empty()) {
      return follow();
    } else {
      return {};
    }
    ++context_.report.fired;
    ++context_.report.counters[like_.op->name];
    return std::move(error_);
  }

  // Axes [batch, C, axes…] as [batch, axes…, C], and back.
  static std::vector<Dim> order(size_t rank, size_t spatial, bool to_last) {
    std::vector<Dim> dims;
    const size_t channels = rank - spatial - 1;
    for (size_t i = 0; i < rank; ++i) dims.push_back(Dim(static_cast<int64_t>(i)));
    const auto first = dims.begin() + static_cast<std::ptrdiff_t>(channels);
    std::rotate(first, to_last ? first + 1 : dims.end() - 1, dims.end());
    return dims;
  }
  ValueId permute(ValueId x, size_t spatial, bool to_last) {
    return op("aten.permute.default", {{"self", x}, {"dims", order(graph_.value(x).shape.size(), spatial, to_last)}});
  }
  Last channels_last(ValueId x, size_t spatial) {
    const auto it = last_.find(x);
    if (it != last_.end() && it->second.spatial == spatial) return it->second;
    return last_[x] = {permute(x, spatial, true), spatial};
  }

  // The results of like_ are these from now on.
  void give(const std::vector<ValueId>& results) {
    for (size_t i = 0; i < results.size() && error_.ok(); ++i) {
      const Value out = graph_.value(like_.outputs[i]);
      const ValueId result = reshape(to(results[i], out.dtype), out.shape);
      if (error_.ok()) readers_.replace(like_.outputs[i], result);
    }
  }
  void give_first_axes(Last y, size_t output = 0) {
    if (!error_.ok()) return;
    y.value = to(y.value, graph_.value(like_.outputs[output]).dtype);
    const ValueId first = permute(y.value, y.spatial, false);
    if (!error_.ok()) return;
    readers_.replace(like_.outputs[output], first);
    last_[first] = y;
  }

  // What follows a layer, if it can be written for channels last.
  Status follow() {
    if (like_.outputs.empty()) return {};
    const bool pointwise = like_.outputs.size() == 1 && as_elementwise(graph_, like_).has_value();
    std::optional<Last> x;  // an operand that has them last, of an operation by elements one as large as the result
    for_each_input(like_, [&](ValueId id) {
      const auto it = last_.find(id);
      if (it == last_.end()) return;
      if (!pointwise || graph_.value(id).shape == graph_.value(like_.outputs[0]).shape) x = it->second;
    });
    if (!x) return {};
    if (is_any_op(like_, kBatchNorms)) follow_batch_norm(*x);
    else if (is_any_op(like_, kReductions)) follow_reduction(*x);
    else if (is_op(like_, "aten.cat.default")) follow_cat(*x);
    else if (pointwise && is_small_otherwise(*x)) follow_pointwise(*x);
    return std::move(error_);
  }

  void follow_batch_norm(const Last& x) {
    if (graph_.value(like_.tensor("input")).shape.size() != x.spatial + 2 || is_of_batch(like_)) return;
    if (like_.outputs.size() > 1 && (readers_.uses()[like_.outputs[1]] > 0 || readers_.uses()[like_.outputs[2]] > 0))
      return;
    give_first_axes({normalize_channels(*this, like_, x.value, {graph_.value(x.value).shape.back()}), x.spatial});
  }

  // A reduction over all axes but batch and channels.
  void follow_reduction(const Last& x) {
    const size_t rank = graph_.value(x.value).shape.size();
    const auto* dims = like_.arg("dim").get<std::vector<Dim>>();
    if (!dims || dims->size() != x.spatial) return;
    std::vector<Dim> axes;
    for (const Dim& d : *dims) {
      const auto axis = as_axis(Arg(d), rank);
      if (!axis || *axis + x.spatial < rank) return;
      axes.push_back(Dim(static_cast<int64_t>(*axis) - 1));
    }
    Node node = like_;
    node.args[0] = x.value;
    node.arg("dim") = axes;
    const ValueId y = emit_like(node);
    if (*like_.arg("keepdim").get<bool>()) give_first_axes({y, x.spatial});
    else give({y});
  }

  void follow_cat(const Last& x) {
    std::vector<ValueId> parts;
    for (ValueId id : *like_.arg("tensors").get<std::vector<ValueId>>()) {
      const auto it = last_.find(id);
      if (it == last_.end() || it->second.spatial != x.spatial) return;
      parts.push_back(it->second.value);
    }
    const size_t rank = graph_.value(x.value).shape.size();
    const auto axis = as_axis(like_.arg("dim"), rank);
    if (!axis) return;
    const std::vector<Dim> dims = order(rank, x.spatial, true);
    const auto to = std::ranges::find(dims, Dim(static_cast<int64_t>(*axis))) - dims.begin();
    give_first_axes({op("aten.cat.default", {{"tensors", parts}, {"dim", Dim(to)}}), x.spatial});
  }

  // Parameters, and what is one number but along one axis, cost nothing to be seen in another order.
  bool is_small(ValueId id) const {
    const Shape& shape = graph_.value(id).shape;
    return is_parameter(graph_, id) || std::ranges::count_if(shape, [](const Dim& d) { return !d.is_constant(1); }) < 2;
  }
  bool is_small_otherwise(const Last& x) const {
    bool all = true;
    for_each_input(like_, [&](ValueId id) {
      const auto it = last_.find(id);
      all = all && ((it != last_.end() && it->second.spatial == x.spatial) || is_small(id));
    });
    return all;
  }

  void follow_pointwise(const Last& x) {
    const size_t rank = graph_.value(x.value).shape.size();
    Node node = like_;
    for_each_input(node, [&](ValueId& id) {
      Shape shape = graph_.value(id).shape;
      if (shape.empty()) return;
      if (!last_.contains(id) && shape.size() < rank) {
        shape.insert(shape.begin(), rank - shape.size(), Dim(1));
        id = reshape(id, shape);
      }
      id = channels_last(id, x.spatial).value;
    });
    if (!error_.ok()) return;
    fit_block_size(graph_, node);
    give_first_axes({emit_like(node), x.spatial});
  }

  // `node` with the shapes that its operands give it.
  ValueId emit_like(const Node& node) {
    if (!error_.ok()) return 0;
    Node bare = node;
    bare.outputs.clear();
    auto types = infer_types(graph_, bare);
    if (!types.ok()) return fail(types.error()), ValueId{0};
    const ValueId out =
        emit(graph_, node.op, node.args, (*types)[0], like_, graph_.value(like_.outputs[0]).name + ".part");
    graph_.nodes[graph_.value(out).producer].origins = like_.origins;
    return out;
  }

  PassContext& context_;
  Readers readers_;
  std::map<ValueId, Last> last_;
};

}  // namespace

Status expand_layers(Graph& graph, PassContext& context) {
  if (std::ranges::none_of(graph.nodes, is_layer)) return {};
  QCG_CHECK(LayerExpander(graph, context).run());
  // Drops permutes that undo each other between two layers, and makes views of weights weights.
  PassReport again;
  PassContext quiet{context.options, again};
  return fold_noops(graph, quiet);
}

}  // namespace qcg

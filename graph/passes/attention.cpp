#include "graph/passes/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qcg {
namespace {

constexpr Op kAttentions[] = {"aten.scaled_dot_product_attention.default",
                              "aten._scaled_dot_product_flash_attention_for_cpu.default",
                              "aten._scaled_dot_product_attention_math.default"};

class AttentionWriter {
 public:
  AttentionWriter(OpEmitter& e, Graph& graph, const Node& node)
      : e_(e), graph_(graph), node_(node), q_(node.tensor("query")), k_(node.tensor("key")), v_(node.tensor("value")) {
    mask_ = node.tensor("attn_mask");
    if (mask_ == kNoValue && *node.arg("is_causal").get<bool>()) mask_ = causal_mask();
  }

  ValueId write() {
    group_heads();
    const DType dtype = is_half(value(q_).dtype) ? DType::f32 : value(q_).dtype;
    const ValueId scores = masked(times(product(q_, transposed(k_), dtype), scale()));
    // In a row of -inf the maximum becomes the least finite number, so that every exponential is 0.
    const ValueId largest = e_.op("aten.clamp_min.default", {{"self", over_columns("aten.amax.default", scores)},
                                                             {"min", -double{std::numeric_limits<float>::max()}}});
    const ValueId weights = e_.unary("aten.exp.default", e_.binary("aten.sub.Tensor", scores, largest));
    // A row that is not masked everywhere sums up to 1 at least.
    const ValueId sum = e_.op("aten.clamp_min.default", {{"self", over_columns("aten.sum.dim_IntList", weights)},
                                                         {"min", double{std::numeric_limits<float>::min()}}});
    return e_.binary("aten.div.Tensor", product(weights, v_, dtype), sum);
  }

 private:
  const Value& value(ValueId id) const { return graph_.value(id); }

  // [a, b, c, d] -> [a, b / group, group, c, d], of key and value [a, b, 1, c, d].
  void group_heads() {
    const Shape q = value(q_).shape, k = value(k_).shape;  // copies: the graph's values move
    const size_t rank = q.size();
    if (rank < 3) return;
    Dim heads = k[rank - 3];
    const ValueId few_k = repeated_heads(graph_, k_), few_v = repeated_heads(graph_, v_);
    if (few_k != kNoValue && few_v != kNoValue && q[rank - 3] == heads &&
        value(few_k).shape[rank - 3] == value(few_v).shape[rank - 3]) {
      heads = value(few_k).shape[rank - 3];
      k_ = few_k, v_ = few_v;
    } else if (!(q[rank - 3] == heads) && !heads.is_constant(1) && !q[rank - 3].is_constant(1)) {
      k_ = with_group(k_, heads, Dim(1)), v_ = with_group(v_, heads, Dim(1));
    } else {
      return;
    }
    const auto group = q[rank - 3].divide_exactly(heads);
    q_ = with_group(q_, heads, *group);
    if (mask_ == kNoValue || value(mask_).shape.size() < 3) return;
    const bool shared = value(mask_).shape[value(mask_).shape.size() - 3].is_constant(1);
    mask_ = with_group(mask_, shared ? Dim(1) : heads, shared ? Dim(1) : *group);
  }

  ValueId with_group(ValueId id, const Dim& heads, const Dim& group) {
    Shape shape = value(id).shape;
    const auto at = shape.end() - 3;
    *at = heads;
    shape.insert(at + 1, group);
    return e_.reshape(id, shape);
  }

  ValueId product(ValueId a, ValueId b, DType dtype) {
    return e_.op("qcg.matmul", {{"self", a}, {"other", b}, {"dtype", dtype}});
  }
  ValueId times(ValueId x, double factor) { return factor == 1 ? x : e_.binary("aten.mul.Tensor", x, factor); }
  ValueId over_columns(Op reduction, ValueId x) {
    return e_.op(reduction, {{"self", x}, {"dim", std::vector<Dim>{Dim(-1)}}, {"keepdim", true}});
  }
  ValueId transposed(ValueId id) {
    if (!e_.status().ok()) return 0;
    std::vector<Dim> dims;
    for (size_t i = 0; i < value(id).shape.size(); ++i) dims.push_back(Dim(static_cast<int64_t>(i)));
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    return e_.op("aten.permute.default", {{"self", id}, {"dims", dims}});
  }

  double scale() const {
    const auto given = as_number(node_.arg("scale"));
    const Dim size = value(q_).shape.back();  // known: the shape rule says so
    return given ? *given : 1 / std::sqrt(static_cast<double>(size.constant()));
  }

  ValueId masked(ValueId scores) {
    if (mask_ == kNoValue || !e_.status().ok()) return scores;
    if (value(mask_).dtype == DType::boolean)
      return e_.op("aten.where.ScalarOther", {{"condition", mask_}, {"self", scores}, {"other", -INFINITY}});
    return e_.binary("aten.add.Tensor", scores, e_.to(mask_, value(scores).dtype));
  }

  // Row i sees the columns 0 … i.
  ValueId causal_mask() {
    const Shape &q = value(q_).shape, &k = value(k_).shape;
    const Dim rows = q[q.size() - 2], columns = k[k.size() - 2];
    const auto count_up = [&](const Dim& size) { return e_.op("aten.arange.default", {{"end", size}}); };
    const ValueId row = count_up(rows);
    return e_.binary("aten.le.Tensor", count_up(columns), e_.reshape(row, {rows, Dim(1)}));
  }

  OpEmitter& e_;
  Graph& graph_;
  const Node& node_;
  ValueId q_, k_, v_, mask_ = kNoValue;
};

}  // namespace

ValueId repeated_heads(const Graph& graph, ValueId id) {
  const Node* merge = producer_if(graph, id, "aten.reshape.default");
  const Node* expand = merge ? producer_if(graph, merge->tensor("self"), "aten.expand.default") : nullptr;
  if (!expand) return kNoValue;
  const ValueId source = expand->tensor("self");
  const Shape &few = graph.value(source).shape, &many = graph.value(expand->outputs[0]).shape;
  Shape merged = many;
  const size_t group = merged.size() < 4 ? 0 : merged.size() - 3;
  if (group == 0 || few.size() != many.size() || !few[group].is_constant(1)) return kNoValue;
  for (size_t i = 0; i < few.size(); ++i)
    if (i != group && !(few[i] == many[i])) return kNoValue;
  merged[group - 1] = merged[group - 1] * merged[group];
  merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(group));
  return merged == graph.value(id).shape ? source : kNoValue;
}

bool is_attention(Op op) { return std::ranges::find(kAttentions, op) != std::end(kAttentions); }

ValueId write_attention(OpEmitter& e, Graph& graph, const Node& node) {
  return AttentionWriter(e, graph, node).write();
}

}  // namespace qcg

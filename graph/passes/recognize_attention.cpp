// recognize_attention: softmax(query key^T …) value becomes one node, of which nothing but the result is stored.
//
//   %y = aten.scaled_dot_product_attention(%q, %k, %v, %mask, scale = 0.125)
//     ->
//   %y = qcg.attention(%q, %k, %v, operands = [%mask], mask = [in0], score = [mul(acc0, 0.125)])
//
//   %s = bmm(%q * 0.5, (%k * 0.5)^T)              products, scaled before or behind
//   %m = where(%seen, 0, -inf)                    a mask that is added, or chosen by where or masked_fill
//   %p = softmax(%s + %m)                         the safe softmax, too, which is 0 where nothing is seen
//   %y = bmm(%p, %v)
//
// Between product and softmax may stand any pointwise operation: scales, biases, caps by tanh, casts. What is known to
// be -inf, or the least finite number of f32 or bf16, is a mask: columns that no row sees are not read. Heads that
// repeat_kv repeats are read in place. A score that steps, and any with --emulate-precision-casts, keeps its roundings
// to 16 bits and is left alone. Functions of torch's are those of attention.h. Axes before batch and heads, f64,
// and results besides the first are left to decompose.
//
// Why here: after everything that recognizes linears, of which a product of activations is none; before decompose,
// which writes what is left in small operations.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "graph/ir/elements.h"
#include "graph/ops/steps.h"
#include "graph/passes/attention.h"
#include "graph/passes/pass_list.h"
#include "graph/rewrite/op_emitter.h"
#include "graph/rewrite/pointwise.h"

namespace qcg {

namespace {

constexpr Op kSoftmaxes[] = {"aten.softmax.int", "aten._softmax.default"};
constexpr Op kMatrixProducts[] = {"aten.matmul.default", "aten.bmm.default"};
constexpr int kDeepest = 24;               // operations between product and softmax
constexpr double kNever = -1e37;           // scores do not come near: what is less is a mask
constexpr int64_t kMostNumbers = 1 << 22;  // of a constant that is searched for such numbers

// An operand of a product: matrices in the last two axes. `transposed`: the product reads them transposed. `is_shared`:
// it has fewer axes than the product, so that what they lack, such as the batch, shares it.
struct Side {
  ValueId id = kNoValue;
  bool transposed = false, is_shared = false;
};

struct Found {
  Side query, key, value;  // [..., rows, size]
  std::vector<ValueId> operands;
  std::optional<Expr> mask;
  Expr score = Expr::acc(0);
  std::string empty = "zero";
};

bool is_never(const Expr& e) { return e.kind == ExprKind::number && e.value <= kNever; }
bool is_zero(const Expr& e) { return e.kind == ExprKind::number && e.value == 0; }
bool has_huge_number(const Expr& e) {
  return (e.kind == ExprKind::number && !(std::abs(e.value) < -kNever)) || std::ranges::any_of(e.args, has_huge_number);
}

// A mask, taken out of a score: what a row sees. A hidden element had the score `hidden`, plus what the graph adds.
struct Mask {
  Expr seen;
  double hidden = 0;
  bool is_term = false;  // of a sum
};

// where(c, x, -inf) is x where c sees it, where(c, -inf, x) the other way round; among the terms of a sum, too. Casts of
// floats around them change nothing but the score of a hidden element: the lowest finite f32 becomes -inf in bf16.
std::optional<Mask> take_mask(Expr& e) {
  if (e.kind == ExprKind::cast && is_floating(e.dtype)) {
    auto mask = take_mask(e.args[0]);
    if (mask) mask->hidden = round_to_dtype(e.dtype, mask->hidden);
    return mask;
  }
  if (is_call(e, "add")) {
    for (const size_t at : {size_t{0}, size_t{1}}) {
      auto mask = take_mask(e.args[at]);
      if (!mask) continue;
      mask->is_term = true;
      if (is_zero(e.args[at])) e = Expr(e.args[1 - at]);
      return mask;
    }
    return std::nullopt;
  }
  if (!is_call(e, "where") || is_never(e.args[1]) == is_never(e.args[2])) return std::nullopt;
  const bool inverted = is_never(e.args[1]);
  Mask mask{e.args[0], e.args[inverted ? 1 : 2].value};
  if (inverted) mask.seen = Expr::call("where", {std::move(mask.seen), Expr::number(0), Expr::number(1)});
  e = Expr(e.args[inverted ? 2 : 1]);
  return mask;
}

// Whether a small difference of the product is a whole one of the score.
bool makes_step(const Expr& e) {
  return (is_step(e) && !e.leaves(ExprKind::acc).empty()) ||
         std::ranges::any_of(e.args, [](const Expr& arg) { return makes_step(arg); });
}

class AttentionRecognizer : OpEmitter {
 public:
  AttentionRecognizer(Graph& graph, PassContext& context) : OpEmitter(graph, {}), context_(context), readers_(graph) {}

  Status run() {
    const NodeId count = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = 0; id < count; ++id) {
      like_ = graph_.nodes[id];
      if (!is_attention(like_.op) && !is_any_op(like_, kMatrixProducts)) continue;
      const auto found = is_attention(like_.op) ? of_torch() : of_products();
      if (!found) continue;
      const ValueId y = written(*found);
      if (!error_.ok()) {
        context_.skip(node_name(graph_, like_), error_.error().message);
        error_ = {};
        continue;
      }
      readers_.replace(like_.outputs[0], y);
      ++context_.report.fired;
      ++context_.report.counters[like_.op->name];
    }
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  const Shape& shape_of(ValueId id) const { return graph_.value(id).shape; }
  bool is_compute(ValueId id) const { return is_compute_float(graph_.value(id).dtype); }
  bool is_16_bit(ValueId id) const { return is_compute(id) && dtype_bytes(graph_.value(id).dtype) == 2; }

  // ---- a function of torch's

  std::optional<Found> of_torch() {
    Found f{{like_.tensor("query")}, {like_.tensor("key")}, {like_.tensor("value")}, {}, {}, Expr::acc(0), "zero"};
    const Shape query = shape_of(f.query.id);
    rank_ = query.size();
    if (like_.outputs.size() > 1 && readers_.uses()[like_.outputs[1]] > 0) return std::nullopt;
    if (rank_ > 4 || !is_compute(f.query.id) || !query.back().is_constant()) return std::nullopt;
    find_shared_heads(f);
    const auto given = as_number(like_.arg("scale"));
    const double scale = given ? *given : 1 / std::sqrt(static_cast<double>(query.back().constant()));
    if (scale != 1) f.score = Expr::call("mul", {std::move(f.score), Expr::number(scale)});
    if (*like_.arg("is_causal").get<bool>()) f.mask = Expr::call("ge", {Expr::pos(2), Expr::pos(3)});
    const ValueId mask = like_.tensor("attn_mask");
    if (mask == kNoValue) return f;
    if (graph_.value(mask).dtype == DType::boolean) f.mask = operand(f, mask);
    else f.score = Expr::call("add", {std::move(f.score), added(f, mask)});
    take_masks(f);
    return f;
  }

  // Key and value [batch, heads, 1, rows, size] that the graph repeats.
  void find_shared_heads(Found& f) const {
    if (rank_ != 4 || f.key.transposed || f.value.transposed) return;
    const ValueId few_k = few_heads(f.key.id), few_v = few_heads(f.value.id);
    const auto has_batch = [&](ValueId id) { return id != kNoValue && shape_of(id).size() == 5; };
    if (has_batch(few_k) && has_batch(few_v) && shape_of(few_k)[1] == shape_of(few_v)[1])
      f.key.id = few_k, f.value.id = few_v;
  }
  // Also those whose batches and heads are one axis for a product of three axes.
  ValueId few_heads(ValueId id) const {
    const Node* merge = producer_if(graph_, id, "aten.reshape.default");
    const Node* expand = merge ? producer_if(graph_, merge->tensor("self"), "aten.expand.default") : nullptr;
    if (!expand || shape_of(id).size() != 3 || shape_of(expand->outputs[0]).size() != 5 ||
        !has_matrices_of(expand->outputs[0], id))
      return repeated_heads(graph_, id);
    const ValueId few = expand->tensor("self");
    const Shape &from = shape_of(few), &to = shape_of(expand->outputs[0]);
    const bool repeats = from.size() == 5 && from[2].is_constant(1) && from[0] == to[0] && from[1] == to[1] &&
                         from[3] == to[3] && from[4] == to[4];
    return repeats ? few : kNoValue;
  }

  static Expr operand(Found& f, ValueId id) {
    auto it = std::ranges::find(f.operands, id);
    if (it == f.operands.end()) it = f.operands.insert(f.operands.end(), id);
    return Expr::in(static_cast<int>(it - f.operands.begin()));
  }

  // A tensor that is added to the scores: itself, or the choice of a mask that it is.
  Expr added(Found& f, ValueId id) {
    const Node* node = producer_of(graph_, id);
    const auto choice = node ? as_pointwise(graph_, *node) : std::nullopt;
    if (choice && choice->sizes.empty() && choice->expr.leaves(ExprKind::pos).empty()) {
      Found with = f;
      std::vector<Expr> ins;
      for (const ValueId in : choice->operands) {
        const auto number = constant_number(graph_, in);
        ins.push_back(number ? Expr::number(*number) : operand(with, in));
      }
      Expr expr = substitute_inputs(choice->expr, ins);
      if (Expr rest = expr; take_mask(rest)) return f.operands = with.operands, expr;
    }
    return operand(f, id);
  }

  // The masks of the score. Columns hidden by -inf have no weight whatever is added. Those hidden by a finite number
  // have one in a row that sees nothing, the same for all: unless another mask is added, which hides some of them more.
  void take_masks(Found& f) const {
    Expr score = f.score;
    std::vector<Mask> masks;
    while (auto mask = take_mask(score)) masks.push_back(std::move(*mask));
    if (masks.empty()) return;
    if (std::ranges::any_of(masks, [](const Mask& m) { return std::isfinite(m.hidden); })) {
      const bool alike = !f.mask && std::ranges::all_of(masks, [&](const Mask& m) {
        return m.hidden == masks[0].hidden && (!m.is_term || &m == &masks.back());
      });
      const std::vector<int> added = score.leaves(ExprKind::in);
      std::unordered_set<ValueId> visited;
      if (!alike || has_huge_number(score) ||
          std::ranges::any_of(added, [&](int in) { return may_hide(f.operands[in], visited); }))
        return;
      f.empty = "mean";
    }
    for (Mask& m : masks)
      f.mask =
          f.mask ? Expr::call("where", {std::move(*f.mask), std::move(m.seen), Expr::number(0)}) : std::move(m.seen);
    f.score = std::move(score);
  }

  // Whether a tensor may hold numbers that hide columns: one that is made of such numbers, or of what a caller gives.
  bool may_hide(ValueId id, std::unordered_set<ValueId>& visited) const {
    const Value& value = graph_.value(id);
    if (!is_floating(value.dtype) || !visited.insert(id).second) return false;
    if (is_parameter(graph_, id)) {
      if (value.data.numel() > kMostNumbers) return true;
      const Elements<double> numbers = read_elements<double>(value.data);
      return numbers && std::ranges::any_of(*numbers, [](double x) { return !(std::abs(x) < -kNever); });
    }
    const Node* node = producer_of(graph_, id);
    if (!node) return true;
    if (is_any_op(*node, kMatrixProducts) || is_op(*node, "qcg.linear")) return false;
    const auto pointwise = as_pointwise(graph_, *node);
    if (pointwise && has_huge_number(pointwise->expr)) return true;
    bool found = false;
    for_each_input(*node, [&](const ValueId& in) { found = found || (in != kNoValue && may_hide(in, visited)); });
    return found;
  }

  // ---- two products and a softmax

  std::optional<Found> of_products() {
    const ValueId weights = through_views(like_.tensor("self"));
    const Node* softmax = producer_of(graph_, weights);
    const bool safe = softmax && is_op(*softmax, "aten.where.self");
    if (safe) softmax = inside_safe_softmax(*softmax);
    if (!softmax || !is_any_op(*softmax, kSoftmaxes) || readers_.uses()[softmax->outputs[0]] != 1) return std::nullopt;
    const ValueId scores = softmax->tensor("self");
    scores_ = shape_of(scores);
    rank_ = scores_.size();
    if (rank_ < 2 || rank_ > 4 || as_axis(softmax->arg("dim"), rank_) != rank_ - 1) return std::nullopt;
    if (readers_.uses()[scores] != (safe ? 2 : 1)) return std::nullopt;
    Found f;
    f.empty = safe ? "zero" : "nan";
    is_rounded_ = is_16_bit(softmax->outputs[0]) || is_16_bit(like_.tensor("self"));
    auto score = read_score(f, scores, 0);
    if (!score || score->leaves(ExprKind::acc).empty()) return std::nullopt;
    if (is_rounded_ && (context_.options.emulate_precision_casts || makes_step(*score))) return std::nullopt;
    f.score = std::move(*score);
    take_masks(f);
    f.value = side_of(like_, right_side(like_), nullptr);
    find_shared_heads(f);
    return f;
  }

  static ValueId right_side(const Node& product) {
    return product.tensor(is_op(product, "aten.bmm.default") ? "mat2" : "other");
  }

  // The number of a tensor that is one number everywhere.
  std::optional<double> uniform_number(ValueId id) const {
    if (const Node* expand = producer_if(graph_, id, "aten.expand.default")) id = expand->tensor("self");
    const Tensor& data = graph_.value(id).data;
    if (!is_parameter(graph_, id) || !data.bound() || data.numel() == 0) return std::nullopt;
    for (size_t axis = 0; axis < data.shape.size(); ++axis)
      if (data.shape[axis] != 1 && data.strides[axis] != 0) return std::nullopt;
    return element_to_double(data.dtype, data.element(std::vector<int64_t>(data.shape.size())));
  }

  // where(every score is -inf, 0, softmax(scores)).
  const Node* inside_safe_softmax(const Node& where) const {
    const Node* softmax = producer_of(graph_, where.tensor("other"));
    const Node* none = producer_if(graph_, where.tensor("condition"), "aten.logical_not.default");
    const Node* any = none ? producer_if(graph_, none->tensor("self"), "aten.any.dim") : nullptr;
    const Node* some = any ? producer_if(graph_, any->tensor("self"), "aten.logical_not.default") : nullptr;
    const Node* never = some ? producer_if(graph_, some->tensor("self"), "aten.eq.Scalar") : nullptr;
    if (!softmax || !is_any_op(*softmax, kSoftmaxes) || !never || uniform_number(where.tensor("self")) != 0.0)
      return nullptr;
    const size_t rank = shape_of(softmax->outputs[0]).size();
    const bool fits = never->tensor("self") == softmax->tensor("self") && as_number(never->arg("other")) == -INFINITY &&
                      as_axis(any->arg("dim"), rank) == as_axis(softmax->arg("dim"), rank) &&
                      *any->arg("keepdim").get<bool>();
    return fits ? softmax : nullptr;
  }

  bool has_matrices_of(ValueId id, ValueId other) const {
    const Shape &a = shape_of(id), &b = shape_of(other);
    return a.size() >= 2 && b.size() >= 2 && a.back() == b.back() && a[a.size() - 2] == b[b.size() - 2];
  }
  // Reshapes, and permutations that move axes of size 1 alone.
  const Node* reshape_of(ValueId id) const {
    const Node* node = producer_of(graph_, id);
    if (!node || is_op(*node, "aten.reshape.default")) return node;
    if (!is_op(*node, "aten.permute.default")) return nullptr;
    const auto& dims = *node->arg("dims").get<std::vector<Dim>>();
    const Shape& from = shape_of(node->tensor("self"));
    std::optional<size_t> last;
    for (const Dim& dim : dims) {
      const auto axis = as_axis(Arg(dim), dims.size());
      if (!axis || from[*axis].is_constant(1)) continue;
      if (last && *axis < *last) return nullptr;
      last = axis;
    }
    return node;
  }
  // The value below reshapes that leave the matrices as they are; axes before the matrices may be split and merged.
  ValueId through_reshapes(ValueId id, bool once) const {
    ValueId found = id;
    const Node* node = reshape_of(id);
    for (ValueId at = id; node && (!once || readers_.uses()[at] == 1); node = reshape_of(at)) {
      at = node->tensor("self");
      if (has_matrices_of(at, id)) found = at;
    }
    return found;
  }
  // Casts between floats, too.
  ValueId through_views(ValueId id) const {
    for (;;) {
      const ValueId from = through_reshapes(id, /*once=*/true);
      const Node* node = producer_if(graph_, from, "aten.to.dtype");
      const bool casts = node && readers_.uses()[from] == 1 && is_compute(node->tensor("self")) && is_compute(from);
      if (from == id && !casts) return id;
      id = casts ? node->tensor("self") : from;
    }
  }

  // An operand of a value of shape `at`, reshaped to broadcast to the scores; kNoValue if that needs a copy.
  ValueId as_operand_of_scores(ValueId id, const Shape& at) {
    if (at == scores_) return id;
    Shape shape = shape_of(id);
    shape.insert(shape.begin(), at.size() - shape.size(), Dim(1));
    if (rank_ != 4 || at.size() < 3 || at[at.size() - 2] != scores_[2] || at.back() != scores_[3]) return kNoValue;
    if (at.size() == 3 && at[0] == scores_[0] * scores_[1]) {  // [batch * heads, rows, columns]
      const bool all = shape[0] == at[0];
      return reshape(id, {all ? scores_[0] : Dim(1), all ? scores_[1] : Dim(1), shape[1], shape[2]});
    }
    // [images, windows, heads, rows, columns]
    if (at.size() != 5 || at[0] * at[1] != scores_[0] || at[2] != scores_[1]) return kNoValue;
    if (shape[0].is_constant(1) && shape[1].is_constant(1)) return reshape(id, {Dim(1), shape[2], shape[3], shape[4]});
    const Shape wide = {at[0], at[1], shape[2], shape[3], shape[4]};
    const ValueId whole = reshape(id, shape);
    const ValueId all = wide == shape ? whole : op("aten.expand.default", {{"self", whole}, {"size", wide}});
    return reshape(all, {scores_[0], shape[2], shape[3], shape[4]});
  }

  // The scores over acc0 and operands; nullopt where no product lies below. What others read, too, is not followed.
  std::optional<Expr> read_score(Found& f, ValueId id, int depth) {
    const Node* node = producer_of(graph_, id);
    if (!node || depth > kDeepest || (depth > 0 && readers_.uses()[id] != 1) || !is_compute(id)) return std::nullopt;
    is_rounded_ = is_rounded_ || is_16_bit(id);
    if (is_any_op(*node, kMatrixProducts)) return read_product(f, *node);
    // The safe softmax reads the scores twice.
    const ValueId from = depth == 0 ? through_reshapes(id, /*once=*/false) : through_views(id);
    if (from != id) return read_score(f, from, depth + 1);
    if (is_op(*node, "aten.baddbmm.default")) return read_sum(f, *node);
    const auto pointwise = as_pointwise(graph_, *node);
    if (!pointwise || !pointwise->sizes.empty() || !pointwise->expr.leaves(ExprKind::pos).empty()) return std::nullopt;
    const Shape shape = shape_of(id);
    std::vector<Expr> ins;
    bool follows = false;
    for (const ValueId in : pointwise->operands) {
      auto below = follows ? std::nullopt : read_score(f, in, depth + 1);
      const auto number = uniform_number(in);
      follows = follows || below;
      if (below || number) {
        ins.push_back(below ? std::move(*below) : Expr::number(*number));
        continue;
      }
      const ValueId operand = as_operand_of_scores(in, shape);
      if (operand == kNoValue || !error_.ok()) return std::nullopt;
      ins.push_back(added(f, operand));
    }
    return follows ? std::optional(substitute_inputs(pointwise->expr, ins)) : std::nullopt;
  }

  // beta * self + alpha * the product.
  std::optional<Expr> read_sum(Found& f, const Node& node) {
    const auto alpha = as_number(node.arg("alpha")), beta = as_number(node.arg("beta"));
    const ValueId self = node.tensor("self");
    const Shape shape = shape_of(node.outputs[0]);
    auto score = alpha && beta ? read_product(f, node, *alpha) : std::nullopt;
    if (!score || *beta == 0 || uniform_number(self) == 0.0) return score;
    const ValueId operand = *beta == 1 ? as_operand_of_scores(self, shape) : kNoValue;
    if (operand == kNoValue || !error_.ok()) return std::nullopt;
    return Expr::call("add", {std::move(*score), added(f, operand)});
  }

  std::optional<Expr> read_product(Found& f, const Node& node, double scale = 1) const {
    const bool sum = is_op(node, "aten.baddbmm.default");
    f.query = side_of(node, node.tensor(sum ? "batch1" : "self"), &scale);
    f.key = side_of(node, sum ? node.tensor("batch2") : right_side(node), &scale);
    f.key.transposed = !f.key.transposed;
    return scale == 1 ? Expr::acc(0) : Expr::call("mul", {Expr::acc(0), Expr::number(scale)});
  }

  // One side of a product, as far as it can be followed: reshapes, matrices transposed, factors that are numbers.
  Side side_of(const Node& product, ValueId id, double* scale) const {
    Side side{id};
    side.is_shared = shape_of(id).size() < shape_of(product.outputs[0]).size();
    for (int depth = 0; depth < kDeepest; ++depth) {
      const Node* node = producer_of(graph_, side.id);
      if (!node || node->outputs.size() != 1) break;
      const auto factor = scale ? factor_of(*node) : std::nullopt;
      if (factor) {
        *scale *= *factor;
        side.id = as_pointwise(graph_, *node)->operands[0];
        continue;
      }
      const bool swaps = is_op(*node, "aten.permute.default") && swaps_last(*node);
      const ValueId from = swaps ? node->tensor("self") : through_reshapes(side.id, /*once=*/false);
      if (from == side.id || (!swaps && (side.is_shared || shape_of(from).size() != rank_))) break;
      side.transposed = side.transposed != swaps;
      side.id = from;
    }
    return side;
  }
  static bool swaps_last(const Node& permute) {
    const auto& dims = *permute.arg("dims").get<std::vector<Dim>>();
    const size_t rank = dims.size();
    for (size_t i = 0; i < rank; ++i) {
      const size_t from = i + 2 < rank ? i : 2 * rank - 3 - i;
      if (as_axis(Arg(dims[i]), rank) != from) return false;
    }
    return rank >= 2;
  }
  // The factor of a product with a number, or of a quotient by one.
  std::optional<double> factor_of(const Node& node) const {
    const auto pointwise = as_pointwise(graph_, node);
    if (!pointwise || pointwise->operands.size() != 1 || !is_compute(node.outputs[0]) ||
        !is_compute(pointwise->operands[0]) || shape_of(pointwise->operands[0]) != shape_of(node.outputs[0]))
      return std::nullopt;
    const Expr& e = pointwise->expr;
    if (!is_call(e, "mul") && !is_call(e, "div")) return std::nullopt;
    const Expr &a = e.args[0], &b = e.args[1];
    if (a.kind == ExprKind::in && b.kind == ExprKind::number) return is_call(e, "mul") ? b.value : 1 / b.value;
    if (is_call(e, "mul") && b.kind == ExprKind::in && a.kind == ExprKind::number) return a.value;
    return std::nullopt;
  }

  // ---- the node

  // [batch, heads, rows, size]; the heads may be fewer than those of the scores.
  ValueId matrices(const Side& side) {
    Shape shape = shape_of(side.id);
    if (shape.size() == 5) shape.erase(shape.begin() + 2);  // of repeated_heads
    if (shape.size() == 3 && rank_ == 4 && !side.is_shared)
      if (const auto heads = shape[0].divide_exactly(scores_[0])) shape = {scores_[0], *heads, shape[1], shape[2]};
    shape.insert(shape.begin(), 4 - std::min<size_t>(shape.size(), 4), Dim(1));
    const ValueId whole = reshape(side.id, shape);
    const std::vector<Dim> dims = {Dim(0), Dim(1), Dim(3), Dim(2)};
    return side.transposed ? op("aten.permute.default", {{"self", whole}, {"dims", dims}}) : whole;
  }

  ValueId written(const Found& f) {
    constexpr DType kRead[] = {DType::f32, DType::bf16, DType::f16, DType::boolean,
                               DType::i64, DType::i32,  DType::i8,  DType::u8};
    for (const ValueId id : f.operands)
      if (const DType dtype = graph_.value(id).dtype; std::ranges::find(kRead, dtype) == std::end(kRead))
        return fail(Error::unsupported(like_.where, "a mask of " + std::string(dtype_name(dtype)), "")), 0;
    const std::vector<Expr> mask = f.mask ? std::vector{*f.mask} : std::vector<Expr>();
    const ValueId query = matrices(f.query), key = matrices(f.key), value = matrices(f.value);
    ValueId y = op("qcg.attention", {{"query", query},
                                     {"key", key},
                                     {"value", value},
                                     {"operands", f.operands},
                                     {"mask", mask},
                                     {"score", std::vector<Expr>{f.score}},
                                     {"empty", f.empty}});
    const ValueId result = like_.outputs[0];
    if (error_.ok()) y = to(y, graph_.value(result).dtype);
    return error_.ok() ? reshape(y, Shape(shape_of(result))) : 0;
  }

  PassContext& context_;
  Readers readers_;
  size_t rank_ = 4;          // of the scores as the graph has them
  Shape scores_;             // of two products and a softmax
  bool is_rounded_ = false;  // some score or weight, to 16 bits
};

}  // namespace

Status recognize_attention(Graph& graph, PassContext& context) { return AttentionRecognizer(graph, context).run(); }

}  // namespace qcg

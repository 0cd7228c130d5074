// Losses: pointwise operations, sums over rows, look-ups of classes; then their mean or sum.
#include "graph/ops/infer.h"
#include "graph/passes/library/library.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

class LossWriter {
 public:
  LossWriter(OpEmitter& e, const Graph& graph, const Node& node) : e_(e), graph_(graph), node_(node) {}

  Values squares() { return reduced(square(difference())); }
  Values sizes() { return reduced(unary("aten.abs.default", difference())); }
  Values smooth_sizes() {
    const ValueId size = unary("aten.abs.default", difference());
    const double beta = number("beta");
    if (beta == 0) return reduced(size);
    return reduced(
        where(binary("aten.lt.Scalar", size, beta), times(square(size), 0.5 / beta), minus(size, 0.5 * beta)));
  }
  Values huber() {
    const ValueId size = unary("aten.abs.default", difference());
    const double delta = number("delta");
    return reduced(
        where(binary("aten.le.Scalar", size, delta), times(square(size), 0.5), times(minus(size, 0.5 * delta), delta)));
  }
  Values soft_margin() {
    const ValueId product = times(in("target"), in("self"));
    return reduced(unary("aten.log1p.default", exp(negative(product))));
  }
  Values poisson() {
    const ValueId x = in("input"), target = in("target");
    ValueId loss =
        flag("log_input") ? minus(exp(x), times(target, x)) : minus(x, times(target, log(plus(x, number("eps")))));
    if (flag("full")) {  // Stirling's approximation of log(target!)
      const ValueId stirling =
          plus(minus(times(target, log(target)), target), times(log(times(target, 2 * 3.14159265358979323846)), 0.5));
      loss = plus(loss, where(binary("aten.gt.Scalar", target, 1.0), stirling, 0.0));
    }
    return reduced(loss);
  }
  Values divergence() {
    const ValueId x = in("self"), target = in("target");
    if (flag("log_target")) return reduced(times(exp(target), minus(target, x)));
    const ValueId own = op("aten.xlogy.Tensor", {{"self", target}, {"other", target}});
    return reduced(minus(own, times(target, x)));
  }
  // Logarithms are at least -100, as torch has them.
  Values binary_entropy() {
    const ValueId x = in("self"), target = in("target");
    const auto least = [&](ValueId v) { return op("aten.clamp_min.default", {{"self", v}, {"min", -100.0}}); };
    const ValueId loss =
        minus(times(minus(target, 1.0), least(unary("aten.log1p.default", negative(x)))), times(target, least(log(x))));
    return reduced(has("weight") ? times(loss, in("weight")) : loss);
  }
  Values binary_entropy_of_logits() {
    const ValueId x = in("self"), target = in("target");
    ValueId likely = unary("aten.log_sigmoid.default", x);
    if (has("pos_weight")) likely = times(likely, plus(times(minus(in("pos_weight"), 1.0), target), 1.0));
    const ValueId loss = minus(times(from(1.0, target), x), likely);
    return reduced(has("weight") ? times(loss, in("weight")) : loss);
  }
  Values ranking() {
    const ValueId ahead = times(minus(in("input1"), in("input2")), in("target"));
    return reduced(relu(from(number("margin"), ahead)));
  }
  Values hinge() {
    const ValueId x = in("self"), target = node_.tensor("target");
    const ValueId beyond = relu(from(number("margin"), x));
    return reduced(plus(where(binary("aten.ne.Scalar", target, 1.0), beyond, 0.0),
                        where(binary("aten.ne.Scalar", target, -1.0), x, 0.0)));
  }
  Values cosine() {
    constexpr double kSmallest = 1e-12;
    const ValueId a = in("input1"), b = in("input2"), target = node_.tensor("target");
    const auto along = [&](ValueId x) { return sum(x, Dim(-1)); };
    const ValueId lengths = times(plus(along(square(a)), kSmallest), plus(along(square(b)), kSmallest));
    const ValueId angle = binary("aten.div.Tensor", along(times(a, b)), unary("aten.sqrt.default", lengths));
    return reduced(plus(where(binary("aten.eq.Scalar", target, 1.0), from(1.0, angle), 0.0),
                        where(binary("aten.eq.Scalar", target, -1.0), relu(minus(angle, number("margin"))), 0.0)));
  }
  Values triplet() {
    const auto distance = [&](std::string_view x, std::string_view y) {
      return e_.widened(op("aten.pairwise_distance.default",
                           {{"x1", in(x)}, {"x2", in(y)}, {"p", node_.arg("p")}, {"eps", node_.arg("eps")}}));
    };
    const ValueId near = distance("anchor", "positive");
    ValueId far = distance("anchor", "negative");
    if (flag("swap")) far = binary("aten.minimum.default", far, distance("positive", "negative"));
    return reduced(relu(plus(minus(near, far), number("margin"))));
  }
  // By how much every class but the target's violates its margin to the target's.
  Values margins() {
    const ValueId x = rows("self");
    const Shape shape = graph_.value(x).shape;
    const ValueId target = e_.reshape(node_.tensor("target"), {shape[0], Dim(1)});
    ValueId within = relu(plus(minus(x, at_class(x, target, 1)), number("margin")));
    if (number("p") == 2) within = square(within);
    if (has("weight")) within = times(within, class_weight(target));
    const ValueId own = binary("aten.eq.Tensor", target, op("aten.arange.default", {{"end", shape[1]}}));
    return reduced(mean(where(own, 0.0, within), Dim(1)));
  }
  // Targets are classes up to the first negative number.
  Values margins_of_labels() {
    const ValueId x = rows("self");
    const Shape shape = graph_.value(x).shape;
    const Dim batch = shape[0], classes = shape[1];
    const ValueId target = e_.reshape(node_.tensor("target"), {batch, classes});
    const ValueId ends = e_.to(binary("aten.lt.Scalar", target, Dim(0)), DType::i64);
    const ValueId counts =
        binary("aten.eq.Scalar", op("aten.cumsum.default", {{"self", ends}, {"dim", Dim(1)}}), Dim(0));
    const ValueId labels = where(counts, target, Dim(0));
    const ValueId by_label = e_.reshape(counts, {batch, classes, Dim(1)});
    const ValueId names = binary("aten.eq.Tensor", e_.reshape(labels, {batch, classes, Dim(1)}),
                                 op("aten.arange.default", {{"end", classes}}));
    const ValueId is_label =
        op("aten.any.dim",
           {{"self", binary("aten.logical_and.default", names, by_label)}, {"dim", Dim(1)}, {"keepdim", true}});
    const ValueId of_labels = e_.reshape(at_class(x, labels, 1), {batch, classes, Dim(1)});
    const ValueId within = relu(plus(minus(e_.reshape(x, {batch, Dim(1), classes}), of_labels), 1.0));
    const ValueId wanted = binary("aten.logical_and.default", unary("aten.logical_not.default", is_label), by_label);
    return reduced(mean(sum(where(wanted, within, 0.0), Dim(1)), Dim(1)));
  }

  Values likelihood() { return likelihood_of(in("self")); }
  Values cross_entropy() {
    ValueId x = in("self");
    const Dim axis = class_axis(x);
    x = op("aten.log_softmax.int", {{"self", x}, {"dim", axis}});
    if (!is_floating(graph_.value(node_.tensor("target")).dtype)) return likelihood_of(x);
    const Dim classes = graph_.value(x).shape[static_cast<size_t>(axis.constant())];
    ValueId target = in("target");
    if (const double smoothing = number("label_smoothing"); smoothing > 0)
      target = plus(times(target, 1 - smoothing), over(smoothing, classes));
    ValueId each = times(negative(x), target);
    if (has("weight")) each = times(each, weight_of_classes(x, axis));
    const ValueId loss = sum(each, axis);
    return reduced(loss);
  }

 private:
  ValueId op(Op name, std::vector<NamedArg> args) { return e_.op(name, std::move(args)); }
  ValueId unary(Op name, ValueId x) { return e_.unary(name, x); }
  ValueId binary(Op name, ValueId a, Arg b) { return e_.binary(name, a, std::move(b)); }
  ValueId plus(ValueId a, Arg b) { return binary("aten.add.Tensor", a, std::move(b)); }
  ValueId minus(ValueId a, Arg b) { return binary("aten.sub.Tensor", a, std::move(b)); }
  ValueId times(ValueId a, Arg b) { return binary("aten.mul.Tensor", a, std::move(b)); }
  ValueId from(double a, ValueId b) { return op("aten.rsub.Scalar", {{"self", b}, {"other", a}}); }
  ValueId square(ValueId x) { return times(x, x); }
  ValueId negative(ValueId x) { return unary("aten.neg.default", x); }
  ValueId relu(ValueId x) { return unary("aten.relu.default", x); }
  ValueId exp(ValueId x) { return unary("aten.exp.default", x); }
  ValueId log(ValueId x) { return unary("aten.log.default", x); }
  ValueId where(ValueId condition, Arg a, Arg b) {
    const bool numbers[] = {!a.get<ValueId>(), !b.get<ValueId>()};
    return op(numbers[0] && numbers[1] ? Op("aten.where.Scalar")
              : numbers[0]             ? Op("aten.where.ScalarSelf")
              : numbers[1]             ? Op("aten.where.ScalarOther")
                                       : Op("aten.where.self"),
              {{"condition", condition}, {"self", std::move(a)}, {"other", std::move(b)}});
  }
  ValueId sum(ValueId x, const Dim& axis, bool keepdim = false) {
    return op("aten.sum.dim_IntList", {{"self", x}, {"dim", std::vector<Dim>{axis}}, {"keepdim", keepdim}});
  }
  ValueId mean(ValueId x, const Dim& axis) {
    return op("aten.mean.dim", {{"self", x}, {"dim", std::vector<Dim>{axis}}});
  }
  Arg over(double number, const Dim& size) {
    if (size.is_constant()) return number / static_cast<double>(size.constant());
    const ValueId all =
        op("aten.full.default", {{"size", Shape{Dim(1)}}, {"fill_value", number}, {"dtype", DType::f32}});
    return binary("aten.div.Tensor", all, size);
  }

  bool has(std::string_view name) const { return node_.tensor(name) != kNoValue; }
  bool flag(std::string_view name) const { return *node_.arg(name).get<bool>(); }
  double number(std::string_view name) const { return *as_number(node_.arg(name)); }
  int64_t reduction() const { return node_.arg("reduction").get<Dim>()->constant(); }
  ValueId in(std::string_view name) { return e_.widened(node_.tensor(name)); }
  ValueId difference() { return minus(in("self"), in("target")); }
  ValueId rows(std::string_view name) {  // [C] as [1, C]
    const ValueId x = in(name);
    Shape shape = graph_.value(x).shape;
    if (shape.size() > 1) return x;
    shape.insert(shape.begin(), Dim(1));
    return e_.reshape(x, shape);
  }

  Values reduced(ValueId each) {
    if (reduction() == 0) return {each};
    return {unary(reduction() == 1 ? Op("aten.mean.default") : Op("aten.sum.default"), each)};
  }

  Dim class_axis(ValueId x) const { return axis_number(graph_.value(x).shape.size() > 1 ? 1 : 0); }
  ValueId at_class(ValueId x, ValueId target, int64_t axis) {
    return op("aten.gather.default", {{"self", x}, {"dim", Dim(axis)}, {"index", target}});
  }
  ValueId class_weight(ValueId target) { return op("aten.take.default", {{"self", in("weight")}, {"index", target}}); }
  ValueId weight_of_classes(ValueId x, const Dim& axis) {
    Shape beside(graph_.value(x).shape.size(), Dim(1));
    const auto at = static_cast<size_t>(axis.constant());
    beside[at] = graph_.value(x).shape[at];
    return e_.reshape(in("weight"), beside);
  }

  // x are logarithms of probabilities. A mean is one by the weights of the targets that are not ignored.
  Values likelihood_of(ValueId x) {
    const Dim axis = class_axis(x);
    const auto number_of_axis = static_cast<size_t>(axis.constant());
    Shape thin = graph_.value(x).shape;
    thin[number_of_axis] = Dim(1);
    const ValueId given = e_.reshape(e_.to(node_.tensor("target"), DType::i64), thin);
    const ValueId counts = binary("aten.ne.Scalar", given, node_.arg("ignore_index"));
    const ValueId target = where(counts, given, Dim(0));
    const ValueId weight = where(counts, has("weight") ? Arg(class_weight(target)) : Arg(1.0), 0.0);
    ValueId loss = where(counts, times(negative(at_class(x, target, axis.constant())), weight), 0.0);
    const double smoothing = node_.op->arg_index("label_smoothing") >= 0 ? number("label_smoothing") : 0;
    if (smoothing > 0) {
      ValueId all = negative(x);
      if (has("weight")) all = times(all, weight_of_classes(x, axis));
      const ValueId smooth = where(counts, sum(all, axis, true), 0.0);
      loss = plus(times(loss, 1 - smoothing), times(smooth, over(smoothing, graph_.value(x).shape[number_of_axis])));
    }
    if (reduction() != 1) return reduced(loss);
    return {binary("aten.div.Tensor", unary("aten.sum.default", loss), unary("aten.sum.default", weight))};
  }

  OpEmitter& e_;
  const Graph& graph_;
  const Node& node_;
};

template <Values (LossWriter::*write)()>
Values with_writer(OpEmitter& e, const Graph& graph, const Node& node) {
  return (LossWriter(e, graph, node).*write)();
}

constexpr LibraryOp kLossOps[] = {
    {"aten.mse_loss.default", with_writer<&LossWriter::squares>},
    {"aten.l1_loss.default", with_writer<&LossWriter::sizes>},
    {"aten.smooth_l1_loss.default", with_writer<&LossWriter::smooth_sizes>},
    {"aten.huber_loss.default", with_writer<&LossWriter::huber>},
    {"aten.soft_margin_loss.default", with_writer<&LossWriter::soft_margin>},
    {"aten.poisson_nll_loss.default", with_writer<&LossWriter::poisson>},
    {"aten.kl_div.default", with_writer<&LossWriter::divergence>},
    {"aten.binary_cross_entropy.default", with_writer<&LossWriter::binary_entropy>},
    {"aten.binary_cross_entropy_with_logits.default", with_writer<&LossWriter::binary_entropy_of_logits>},
    {"aten.margin_ranking_loss.default", with_writer<&LossWriter::ranking>},
    {"aten.hinge_embedding_loss.default", with_writer<&LossWriter::hinge>},
    {"aten.cosine_embedding_loss.default", with_writer<&LossWriter::cosine>},
    {"aten.triplet_margin_loss.default", with_writer<&LossWriter::triplet>},
    {"aten.multi_margin_loss.default", with_writer<&LossWriter::margins>},
    {"aten.multilabel_margin_loss.default", with_writer<&LossWriter::margins_of_labels>},
    {"aten.nll_loss.default", with_writer<&LossWriter::likelihood>},
    {"aten.nll_loss_nd.default", with_writer<&LossWriter::likelihood>},
    {"aten.nll_loss2d.default", with_writer<&LossWriter::likelihood>},
    {"aten.cross_entropy_loss.default", with_writer<&LossWriter::cross_entropy>},
};

}  // namespace

std::span<const LibraryOp> library_losses() { return kLossOps; }

}  // namespace qcg

// Shape and dtype rules of losses.
#include <fmt/format.h>

#include "graph/ops/infer.h"
#include "graph/ops/rows_losses.h"

namespace qcg {
namespace {

// reduction 0 leaves a loss for each, 1 is their mean, 2 their sum.
Result<Types> reduced_loss(const OpArgs& a, DType dtype, Shape each) {
  QCG_TRY(reduction, a.constant("reduction"));
  if (reduction < 0 || reduction > 2) return a.fail("reduction", "expected 0 (none), 1 (mean) or 2 (sum)");
  return one(dtype, reduction == 0 ? std::move(each) : Shape());
}

// Promotes those of these tensors that the op has.
Result<PromotedOperands> promote_floats(const OpArgs& a, std::initializer_list<std::string_view> names) {
  PromotedOperands out;
  for (std::string_view name : names) {
    if (!has_arg(a, name)) continue;
    const Value* v = a.optional_tensor(name);
    if (!v) continue;
    out.dtype.add(*v);
    const auto both = broadcast(out.shape, v->shape);
    if (!both) return a.fail(name, fmt::format("{} does not broadcast to {}", describe(*v), to_string(out.shape)));
    out.shape = *both;
  }
  if (!is_floating(out.dtype.result())) return a.fail(a.node.op->args[0].name, "expected floats");
  return out;
}

Status check_weight(const OpArgs& a, const Dim& classes) {
  const Value* weight = has_arg(a, "weight") ? a.optional_tensor("weight") : nullptr;
  if (!weight || (is_floating(weight->dtype) && weight->shape == Shape{classes})) return {};
  return a.fail("weight", fmt::format("{} is not one float for each of {} classes", describe(*weight), classes.str()));
}

}  // namespace

Result<Types> infer_loss_of_elements(const OpArgs& a) {
  QCG_TRY(all, promote_floats(a, {"self", "input", "input1", "input2", "target", "weight", "pos_weight"}));
  return reduced_loss(a, all.dtype.result(), all.shape);
}

// Losses of rows along the last axis.
Result<Types> infer_loss_of_rows(const OpArgs& a) {
  QCG_TRY(rows, promote_floats(a, {"input1", "input2", "anchor", "positive", "negative"}));
  if (rows.shape.empty()) return a.fail(a.node.op->args[0].name, "expected rows, got numbers");
  rows.shape.pop_back();
  if (const Value* target = has_arg(a, "target") ? &a.tensor("target") : nullptr) {
    const auto both = broadcast(rows.shape, target->shape);
    if (!both || rows.shape.size() > 1)
      return a.fail("target",
                    fmt::format("{} is not one for each row of {}", describe(*target), describe(a.tensor("input1"))));
    rows.shape = *both;
  }
  return reduced_loss(a, rows.dtype.result(), rows.shape);
}

// Classes lie along the last axis, [C] or [N, C].
Result<Types> infer_loss_of_margins(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  const Value &self = a.tensor("self"), &target = a.tensor("target");
  if (self.shape.empty() || self.shape.size() > 2)
    return a.fail("self", "expected [classes] or [batch, classes], got " + describe(self));
  const Shape each(self.shape.begin(), self.shape.end() - 1);
  const Shape& expected = has_arg(a, "p") ? each : self.shape;
  const bool one_alone = has_arg(a, "p") && each.empty() && target.shape == Shape{Dim(1)};
  if (target.dtype != DType::i64 || (target.shape != expected && !one_alone))
    return a.fail("target", fmt::format("expected i64{}, got {}", to_string(expected), describe(target)));
  if (has_arg(a, "p")) {
    const auto p = as_number(a.node.arg("p"));
    if (p != 1.0 && p != 2.0) return a.fail("p", "expected 1 or 2");
  }
  QCG_CHECK(check_weight(a, self.shape.back()));
  return reduced_loss(a, self.dtype, each);
}

// Classes lie along axis 1, or along the only axis. Targets are numbers of classes; cross_entropy_loss also takes
// probabilities of classes.
Result<Types> infer_loss_of_classes(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  const Value &self = a.tensor("self"), &target = a.tensor("target");
  if (self.shape.empty()) return a.fail("self", "expected classes, got a number");
  Shape each = self.shape;
  const auto axis = each.begin() + (each.size() > 1 ? 1 : 0);
  QCG_CHECK(check_weight(a, *axis));
  each.erase(axis);
  const bool probabilities = has_arg(a, "label_smoothing") && is_floating(target.dtype);
  const bool fits = probabilities ? target.shape == self.shape
                                  : (target.dtype == DType::i64 || target.dtype == DType::u8) && target.shape == each;
  if (!fits)
    return a.fail("target", fmt::format("{} is no class for each of {}", describe(target), describe(self)),
                  "targets are i64 without the axis of classes");
  if (has_arg(a, "label_smoothing")) {
    const auto smoothing = as_number(a.node.arg("label_smoothing"));
    if (!smoothing || !(*smoothing >= 0 && *smoothing <= 1)) return a.fail("label_smoothing", "expected 0 to 1");
  }
  QCG_CHECK(a.constant("ignore_index"));
  return reduced_loss(a, self.dtype, each);
}

}  // namespace qcg

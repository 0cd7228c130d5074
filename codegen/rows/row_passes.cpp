#include "codegen/rows/row_passes.h"

#include <algorithm>
#include <set>

namespace qcg {

namespace {

class RowPassPlanner {
 public:
  RowPassPlanner(const RowsProblem& problem, bool keeps)
      : problem_(problem), steps_(problem.program.steps), keeps_(keeps), pass_(steps_.size()), kept_(steps_.size()) {
    for (size_t j = 0; j < steps_.size(); ++j)
      for (const int acc : steps_[j].expr.leaves(ExprKind::acc)) {
        const auto from = static_cast<size_t>(acc);
        pass_[j] = std::max(pass_[j], pass_[from] + (is_reduced(from) ? 1 : 0));
      }
    for (const RowStep& step : steps_) costs_.push_back(step.per_row ? 0 : cost_of(step.expr));
  }

  RowPasses plan() {
    size_t count = 0;
    for (size_t j = 0; j < steps_.size(); ++j)
      if (is_reduced(j)) count = std::max(count, pass_[j] + 1);
    for (const size_t step : problem_.program.stores)
      if (!steps_[step].per_row) count = std::max(count, pass_[step] + 1);
    out_.passes.resize(count);
    // Backwards: what a pass reads of earlier ones is known when they are planned.
    for (size_t p = count; p-- > 0;) plan_pass(p);
    for (size_t j = 0; j < steps_.size(); ++j)
      if (steps_[j].per_row && !is_reduced(j))
        (pass_[j] < count ? out_.passes[pass_[j]].per_row : out_.per_row).push_back(j);
    return std::move(out_);
  }

 private:
  bool is_reduced(size_t step) const { return steps_[step].reduction != RowReduction::none; }

  void plan_pass(size_t p) {
    RowPass& pass = out_.passes[p];
    needed_.clear(), operands_.clear(), loaded_.clear();
    for (size_t o = 0; o < problem_.program.stores.size(); ++o) {
      const size_t step = problem_.program.stores[o];
      if (steps_[step].per_row || pass_[step] != p) continue;
      pass.stores.push_back(o);
      need(step, p);
    }
    for (size_t j = 0; j < steps_.size(); ++j) {
      if (is_reduced(j) && pass_[j] == p) {
        pass.reduced.push_back(j);
        need_arguments(j, p);
      }
      if (kept_[j] && pass_[j] == p) {
        pass.kept.push_back(j);
        need(j, p);
      }
    }
    pass.computed.assign(needed_.begin(), needed_.end());
    pass.loaded.assign(loaded_.begin(), loaded_.end());
    pass.operands.assign(operands_.begin(), operands_.end());
  }

  void need(size_t step, size_t p) {
    if (steps_[step].per_row || needed_.contains(step) || loaded_.contains(step)) return;
    if (keeps_ && pass_[step] < p && costs_[step] > kMostCost) {
      kept_[step] = true;
      loaded_.insert(step);
      return;
    }
    needed_.insert(step);
    need_arguments(step, p);
  }

  void need_arguments(size_t step, size_t p) {
    for (const int acc : steps_[step].expr.leaves(ExprKind::acc)) need(static_cast<size_t>(acc), p);
    for (const int in : steps_[step].expr.leaves(ExprKind::in)) operands_.insert(static_cast<size_t>(in));
  }

  // Of computing the step's value again: a vector that is stored and loaded costs about so many operations, and
  // rounding to 16 bits is several.
  static constexpr double kMostCost = 8, kGather = 8, kRounding = 4;
  double cost_of(const Expr& e) const {
    if (e.kind == ExprKind::acc) return costs_[static_cast<size_t>(e.index)];
    if (e.kind == ExprKind::in)
      return problem_.operand_inner_stride[static_cast<size_t>(e.index)] == -1  ? kGather
             : problem_.operand_inner_stride[static_cast<size_t>(e.index)] == 0 ? 0
                                                                                : 1;
    double cost = e.kind == ExprKind::call   ? std::max(1.0, e.ulps())
                  : e.kind != ExprKind::cast ? 0
                  : is_half(e.dtype)         ? kRounding
                                             : 1;
    for (const Expr& arg : e.args) cost += cost_of(arg);
    return cost;
  }

  const RowsProblem& problem_;
  const std::vector<RowStep>& steps_;
  bool keeps_;
  std::vector<size_t> pass_;                     // by step: in which its expression can be computed
  std::vector<bool> kept_;                       // by step
  std::vector<double> costs_;                    // by step: of computing it again
  std::set<size_t> needed_, loaded_, operands_;  // in the pass at hand
  RowPasses out_;
};

}  // namespace

RowPasses plan_row_passes(const RowsProblem& problem, bool keeps) { return RowPassPlanner(problem, keeps).plan(); }

}  // namespace qcg

#include "codegen/rows/rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/reach_of.h"
#include "codegen/loops/expect_expr.h"
#include "codegen/rows/row_passes.h"

namespace qcg {

namespace {

using V = TemplateValue;

Status check_cast_lanes(const Expr& e) {
  if (e.kind == ExprKind::cast) QCG_CHECK(need_lanes("rows", e.dtype));
  for (const Expr& arg : e.args) QCG_CHECK(check_cast_lanes(arg));
  return {};
}

Status check_rows(const RowsProblem& p) {
  const bool consistent = p.rank >= 1 && !p.outputs.empty() && p.program.stores.size() == p.outputs.size() &&
                          p.operand_inner_stride.size() == p.operands.size();
  if (!consistent) return Error::internal("rows", "a RowsProblem whose lists differ in length");
  for (const DType d : p.operands) QCG_CHECK(need_lanes("rows", d));
  for (const DType d : p.outputs) QCG_CHECK(need_lanes("rows", d));
  for (const RowStep& step : p.program.steps) QCG_CHECK(check_cast_lanes(step.expr));
  return {};
}

std::vector<std::string> texts_of(const RowProgram& program) {
  std::vector<std::string> out;
  for (const RowStep& step : program.steps)
    out.push_back(step.reduction == RowReduction::none
                      ? step.expr.str()
                      : fmt::format("{}({})", row_reduction_name(step.reduction), step.expr.str()));
  return out;
}

std::vector<std::string_view> names_of(const std::vector<DType>& dtypes) {
  std::vector<std::string_view> out;
  for (const DType d : dtypes) out.push_back(dtype_name(d));
  return out;
}

}  // namespace

std::string RowsProblem::signature() const {
  return fmt::format("rows rank={} in=[{}] inner={} out=[{}] stores={} steps=[{}]", rank,
                     fmt::join(names_of(operands), ", "), operand_inner_stride, fmt::join(names_of(outputs), ", "),
                     program.stores, formula());
}

std::string RowsProblem::formula() const { return fmt::format("{}", fmt::join(texts_of(program), "; ")); }

std::string RowsProblem::label() const {
  std::vector<std::string_view> words;
  for (const RowStep& step : program.steps)
    if (step.reduction != RowReduction::none) words.push_back(row_reduction_name(step.reduction));
  return fmt::format("{}", fmt::join(words, "·"));
}

namespace {

constexpr int64_t kShortRow = 512;  // on a device: what a warp computes alone

// The values that the template prints, from a problem and its passes.
class RowsPrinter {
 public:
  RowsPrinter(const RowsProblem& p, Isa isa)
      : p_(p), on_device_(on_device(isa)), planned_(plan_row_passes(p, !on_device_)) {
    for (size_t j = 0; j < p.program.steps.size(); ++j) accs_.push_back(fmt::format("acc{}", j));
    for (size_t i = 0; i < p.operands.size(); ++i) ins_.push_back(fmt::format("in{}", i));
  }

  void print(V& v) const {
    v["rank"] = p_.rank;
    std::vector<V> operands, outputs, row_outputs, passes, kept;
    bool gathers = false, reduces = false;
    for (size_t i = 0; i < p_.operands.size(); ++i) {
      V o = operand(i);
      o["strides"] = p_.rank * static_cast<int>(i + 1);
      operands.push_back(std::move(o));
      gathers = gathers || p_.operand_inner_stride[i] == -1;
    }
    for (size_t o = 0; o < p_.outputs.size(); ++o) {
      V out = typed(p_.outputs[o]);
      out["arg"] = p_.operands.size() + o;
      out["strides"] = p_.rank * static_cast<int>(p_.operands.size() + o + 1);
      outputs.push_back(std::move(out));
      if (p_.program.steps[p_.program.stores[o]].per_row) row_outputs.push_back(store(o));
    }
    for (const RowPass& pass : planned_.passes) {
      passes.push_back(print_pass(pass));
      for (const size_t step : pass.kept) kept.emplace_back(step);
      reduces = reduces || !pass.reduced.empty();
    }
    v["gathers"] = gathers;
    v["reduces"] = reduces;
    if (!kept.empty()) v["scratch"] = "scratch_bytes";
    v["operands"] = V::from_items(std::move(operands));
    v["outputs"] = V::from_items(std::move(outputs));
    v["row_outputs"] = V::from_items(std::move(row_outputs));
    v["passes"] = V::from_items(std::move(passes));
    v["kept"] = V::from_items(std::move(kept));
    v["per_row"] = steps(planned_.per_row);
    if (!on_device_) return;
    const size_t args = p_.operands.size() + p_.outputs.size();
    v["short_row"] = kShortRow;
    add_device_context(v, args, static_cast<size_t>(p_.rank) * (args + 1), rows_launch(p_).threads);
  }

 private:
  std::string code(size_t step) const {
    const Expr& expr = p_.program.steps[step].expr;
    return on_device_ ? print_expr_cuda(expr, accs_, ins_) : print_expr(expr, accs_, ins_);
  }

  V operand(size_t i) const {
    V o = typed(p_.operands[i]);
    o["index"] = i;
    o["inner"] = p_.operand_inner_stride[i];
    return o;
  }

  V steps(const std::vector<size_t>& list) const {
    std::vector<V> out;
    for (const size_t step : list) {
      V s;
      s["index"] = step;
      s["code"] = code(step);
      out.push_back(std::move(s));
    }
    return V::from_items(std::move(out));
  }

  static V numbers(const std::vector<size_t>& list) {
    std::vector<V> out;
    for (const size_t step : list) out.emplace_back(step);
    return V::from_items(std::move(out));
  }

  V store(size_t output) const {
    V out;
    const std::string& value = accs_[p_.program.stores[output]];
    out["arg"] = p_.operands.size() + output;
    out["dtype"] = dtype_name(p_.outputs[output]);
    out["store"] = stored_as(p_.outputs[output]);
    out["code"] = p_.outputs[output] == DType::boolean && !on_device_ ? "v_cast_bool(" + value + ")" : value;
    return out;
  }

  V reduction(size_t step) const {
    const RowReduction kind = p_.program.steps[step].reduction;
    const bool adds = kind == RowReduction::sum || kind == RowReduction::mean, largest = kind == RowReduction::amax;
    V r;
    r["index"] = step;
    r["code"] = code(step);
    r["combine"] = adds ? "v_add" : largest ? "v_max" : "v_min";
    r["across"] = adds ? "v_hadd" : largest ? "v_hmax" : "v_hmin";
    r["op"] = adds ? "Sum" : largest ? "Max" : "Min";
    const double identity = adds ? 0 : largest ? -INFINITY : INFINITY;
    r["identity"] = on_device_ ? print_expr_cuda(Expr::number(identity), {}, {}) : float_literal(identity);
    r["mean"] = kind == RowReduction::mean;
    return r;
  }

  V print_pass(const RowPass& pass) const {
    V out;
    std::vector<V> operands, reduced, stores;
    for (const size_t i : pass.operands)
      if (p_.operand_inner_stride[i] != 0) operands.push_back(operand(i));
    for (const size_t step : pass.reduced) reduced.push_back(reduction(step));
    for (const size_t o : pass.stores) stores.push_back(store(o));
    out["operands"] = V::from_items(std::move(operands));
    out["reduced"] = V::from_items(std::move(reduced));
    out["stores"] = V::from_items(std::move(stores));
    out["loaded"] = numbers(pass.loaded);
    out["kept"] = numbers(pass.kept);
    out["computed"] = steps(pass.computed);
    out["per_row"] = steps(pass.per_row);
    return out;
  }

  const RowsProblem& p_;
  bool on_device_;
  RowPasses planned_;
  std::vector<std::string> accs_, ins_;
};

}  // namespace

Result<std::string> render_rows(const RowsProblem& p, Isa isa, std::string_view symbol) {
  QCG_CHECK(check_rows(p));
  V v = kernel_context(symbol, isa, "row program", p.signature(), p.comment);
  RowsPrinter(p, isa).print(v);
  return render_kernel("rows", isa, v);
}

// One block per row. Where rows are short, each warp of the first blocks takes one, and the other blocks end at once.
CudaLaunch rows_launch(const RowsProblem& p) {
  CudaLaunch out{.threads = 256, .rows = 1, .column_tiles = 1, .axes = {}};
  for (int axis = 0; axis + 1 < p.rank; ++axis) out.axes.push_back({axis, 1});
  return out;
}

namespace {

std::string formula_of(const KernelProblem& any) { return any.get<RowsProblem>().formula(); }

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<RowsProblem>();
  std::vector<Reach> out;
  const auto rank = static_cast<size_t>(p.rank);
  for (size_t i = 0; i < p.operands.size() + p.outputs.size(); ++i) {
    const bool operand = i < p.operands.size();
    Reach& reach = out.emplace_back();
    reach.writes = !operand;
    reach.item = bytes_of(operand ? p.operands[i] : p.outputs[i - p.operands.size()]);
    const bool per_row = !operand && p.program.steps[p.program.stores[i - p.operands.size()]].per_row;
    for (size_t axis = 0; axis < rank; ++axis)
      if (axis + 1 < rank || !per_row) reach.axes.push_back({reach_param(axis), reach_param(rank * (i + 1) + axis)});
    if (reach.axes.empty()) reach.axes.push_back({reach_constant(1), reach_constant(1)});
  }
  return out;
}

// Powers and exponents of large integers leave the range of f32, but not that of the oracle. Sums of what is infinite say
// nothing about a kernel.
ArgumentKind small_integer_argument(DType dtype) {
  const ArgumentKind any = integer_argument(dtype);
  return {dtype, std::max(any.low, -8.0), std::min(any.high, 8.0)};
}

bool grows_fast(const Expr& e) {
  constexpr std::string_view kFast[] = {"exp", "expm1", "pow"};
  return (e.kind == ExprKind::call && std::ranges::find(kFast, e.function) != std::end(kFast)) ||
         std::ranges::any_of(e.args, grows_fast);
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<RowsProblem>();
  const bool small = std::ranges::any_of(p.program.steps, [](const RowStep& step) { return grows_fast(step.expr); });
  std::vector<ArgumentKind> out;
  for (const DType d : p.operands)
    out.push_back(is_floating(d) ? ArgumentKind{d} : small ? small_integer_argument(d) : integer_argument(d));
  for (const DType d : p.outputs) out.push_back({d});
  return out;
}

double operations_of(const KernelProblem& any, const CallSizes& sizes) {
  const auto& p = any.get<RowsProblem>();
  double elements = 1;
  for (int axis = 0; axis < p.rank; ++axis) elements *= static_cast<double>(sizes.params[static_cast<size_t>(axis)]);
  int nodes = 0;
  for (const RowStep& step : p.program.steps)
    if (!step.per_row || step.reduction != RowReduction::none)
      nodes += step.expr.count_nodes() + (step.reduction != RowReduction::none ? 1 : 0);
  return elements * nodes;
}

// One row of the program in double, and how far a kernel in f32 may be off.
class RowReference {
 public:
  RowReference(const RowsProblem& p, const CallMemory& call) : p_(p), call_(call), steps_(p.program.steps) {
    width_ = call.sizes().params[static_cast<size_t>(p.rank - 1)];
    accs_.resize(steps_.size()), tolerances_.resize(steps_.size()), ins_.resize(p.operands.size());
    row_.resize(steps_.size()), row_tolerances_.resize(steps_.size());
    for (RowStep& step : steps_) step.expr = in_f32(std::move(step.expr));
    // Elements are evaluated everywhere where a reduction reads them, else only where they are looked at.
    whole_.resize(steps_.size());
    for (size_t j = steps_.size(); j-- > 0;) {
      const bool reduced = steps_[j].reduction != RowReduction::none;
      for (const int acc : steps_[j].expr.leaves(ExprKind::acc))
        whole_[static_cast<size_t>(acc)] = whole_[static_cast<size_t>(acc)] || reduced || whole_[j];
    }
  }

  void begin(std::vector<int64_t> at) {
    at_ = std::move(at);
    for (size_t j = 0; j < steps_.size(); ++j) {
      if (steps_[j].reduction != RowReduction::none) reduce(j);
      else if (steps_[j].per_row) load(0, j), set(j, evaluate(j));
      else if (whole_[j]) fill(j);
    }
  }

  Expected stored(size_t output, int64_t column) {
    const size_t step = p_.program.stores[output];
    ToleranceValue v{accs_[step], tolerances_[step]};
    if (!steps_[step].per_row) {
      load(column, step + 1);
      for (size_t j = 0; j <= step; ++j)
        if (!steps_[j].per_row && !whole_[j]) set(j, evaluate(j));
      v = {accs_[step], tolerances_[step]};
    }
    if (overflows(steps_[step].expr, accs_, ins_) && steps_[step].reduction == RowReduction::none) return {0, HUGE_VAL};
    return expect_stored(
        p_.outputs[output] == DType::boolean ? ToleranceValue{v.value != 0 ? 1.0 : 0.0, v.tolerance} : v, DType::f32,
        p_.outputs[output]);
  }

 private:
  // The operands at one column, and the steps before `end` that are known there.
  void load(int64_t column, size_t end) {
    at_.back() = column;
    for (size_t i = 0; i < ins_.size(); ++i) ins_[i] = call_.number(i, call_.offset_of(i, at_));
    for (size_t j = 0; j < end; ++j)
      if (!row_[j].empty())
        accs_[j] = row_[j][static_cast<size_t>(column)],
        tolerances_[j] = row_tolerances_[j][static_cast<size_t>(column)];
  }
  ToleranceValue evaluate(size_t j) const { return evaluate_with_tolerance(steps_[j].expr, accs_, tolerances_, ins_); }
  void set(size_t j, const ToleranceValue& v) { accs_[j] = v.value, tolerances_[j] = v.tolerance; }

  void fill(size_t j) {
    row_[j].resize(static_cast<size_t>(width_)), row_tolerances_[j].resize(static_cast<size_t>(width_));
    for (int64_t i = 0; i < width_; ++i) {
      load(i, j);
      const ToleranceValue v = evaluate(j);
      row_[j][static_cast<size_t>(i)] = v.value, row_tolerances_[j][static_cast<size_t>(i)] = v.tolerance;
    }
  }

  void reduce(size_t j) {
    const RowReduction kind = steps_[j].reduction;
    const bool largest = kind == RowReduction::amax;
    double sum = 0, magnitude = 0, off = 0, most_off = 0, best = largest ? -INFINITY : INFINITY;
    for (int64_t i = 0; i < width_; ++i) {
      load(i, j);
      const ToleranceValue v = evaluate(j);
      sum += v.value, magnitude += std::fabs(v.value), off += v.tolerance;
      most_off = std::max(most_off, v.tolerance);
      best = std::isnan(best) || std::isnan(v.value) ? NAN
             : largest                               ? std::max(best, v.value)
                                                     : std::min(best, v.value);
    }
    const double n = static_cast<double>(width_), error = sum_unit(n) * magnitude + off;
    if (kind == RowReduction::sum) set(j, {sum, error});
    else if (kind == RowReduction::mean) set(j, {sum / n, error / n + half_ulp(DType::f32, sum / n)});
    else set(j, {best, most_off});
  }

  const RowsProblem& p_;
  const CallMemory& call_;
  std::vector<RowStep> steps_;
  int64_t width_ = 0;
  std::vector<bool> whole_;                                // by step
  std::vector<std::vector<double>> row_, row_tolerances_;  // by step, if whole
  std::vector<double> accs_, tolerances_, ins_;
  std::vector<int64_t> at_;
};

Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const auto& p = any.get<RowsProblem>();
  struct Point {
    size_t output, place;
    int64_t column;
  };
  std::map<std::vector<int64_t>, std::vector<Point>> rows;
  std::vector<std::vector<Expected>> out;
  for (size_t o = 0; o < points.size(); ++o) {
    out.emplace_back(points[o].size());
    for (size_t i = 0; i < points[o].size(); ++i) {
      std::vector<int64_t> at = call.index_of(p.operands.size() + o, points[o][i]);
      const bool per_row = p.program.steps[p.program.stores[o]].per_row;
      const int64_t column = per_row ? 0 : at.back();
      at.resize(static_cast<size_t>(p.rank));
      at.back() = 0;
      rows[at].push_back({o, i, column});
    }
  }
  RowReference reference(p, call);
  for (const auto& [at, wanted] : rows) {
    reference.begin(at);
    for (const Point& point : wanted) out[point.output][point.place] = reference.stored(point.output, point.column);
  }
  return out;
}

}  // namespace

const KernelFamily kRowsFamily{
    .name = "rows",
    .signature = signature_of<RowsProblem>,
    .formula = formula_of,
    .comment = comment_of<RowsProblem>,
    .reaches = reaches_of,
    .render = render_of<RowsProblem, render_rows>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .launch = launch_of<RowsProblem, rows_launch>,
};

}  // namespace qcg

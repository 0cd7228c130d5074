#include "codegen/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/reach_of.h"
#include "graph/oracle/reference.h"

namespace qcg {

namespace {

using V = TemplateValue;

constexpr size_t kShapes = 5;               // params: the shape
constexpr size_t kMatrices = 4, kAxes = 3;  // then so many strides of query, key, value, y
constexpr size_t kOperandAxes = 4;          // then of each operand
constexpr size_t kFirstOperand = kShapes + kMatrices * kAxes;
constexpr std::string_view kEmptyRows[] = {"zero", "nan", "mean"};

bool reads(const Expr& e, size_t operand) {
  return std::ranges::count(e.leaves(ExprKind::in), static_cast<int>(operand)) > 0;
}

// A mask of integers is computed in integers, which it may compare beyond 2^24.
bool mask_in_integers(const AttentionProblem& p) {
  if (!p.mask->is_integer()) return false;
  for (size_t i = 0; i < p.operands.size(); ++i)
    if (reads(*p.mask, i) && is_floating(p.operands[i].dtype)) return false;
  return true;
}

bool mask_by_head(const AttentionProblem& p) {
  if (std::ranges::count(p.mask->leaves(ExprKind::pos), 1) > 0) return true;
  for (size_t i = 0; i < p.operands.size(); ++i)
    if (reads(*p.mask, i) && p.operands[i].by_head) return true;
  return false;
}

// What an expression of the scores or of the mask reads.
V reader_of(const AttentionProblem& p, const Expr& e, bool integers, Isa isa) {
  V v;
  std::vector<V> operands, positions, sizes;
  std::vector<std::string> names;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    names.push_back(fmt::format("in{}", i));
    if (!reads(e, i)) continue;
    V o = typed(p.operands[i].dtype);
    o["index"] = i;
    o["arg"] = 3 + i;
    o["inner"] = p.operands[i].inner_stride;
    o["strides"] = kFirstOperand + i * kOperandAxes;
    operands.push_back(o);
  }
  for (const int axis : e.leaves(ExprKind::pos)) positions.emplace_back(axis);
  for (const int size : e.leaves(ExprKind::size)) {
    V o;
    o["index"] = size;
    o["param"] = kFirstOperand + p.operands.size() * kOperandAxes + static_cast<size_t>(size);
    sizes.push_back(o);
  }
  v["code"] = integers         ? print_expr_integers(e, names)
              : on_device(isa) ? print_expr_cuda(e, {"acc0"}, names)
                               : print_expr(e, {"acc0"}, names);
  v["operands"] = V::from_items(std::move(operands));
  v["positions"] = V::from_items(std::move(positions));
  v["sizes"] = V::from_items(std::move(sizes));
  return v;
}

// AMX multiplies bf16, tensor cores of CUDA any 16-bit floats; their sums of a tile of rows fit the registers up to 128
// elements.
bool has_tiles(const AttentionProblem& p, Isa isa) {
  if (p.key != p.query || p.value != p.query) return false;
  if (isa == Isa::amx) return p.query == DType::bf16;
  const auto fits = [](int64_t size) { return size > 0 && size <= 128 && size % 16 == 0; };
  return (isa == Isa::sm_80 || isa == Isa::sm_90a) && (p.query == DType::bf16 || p.query == DType::f16) &&
         fits(p.size) && fits(p.value_size);
}

Status check_casts(const Expr& e) {
  if (e.kind == ExprKind::cast) QCG_CHECK(need_lanes("attention", e.dtype));
  for (const Expr& arg : e.args) QCG_CHECK(check_casts(arg));
  return {};
}

}  // namespace

std::string AttentionProblem::signature() const {
  std::string out = fmt::format("attention q={} k={} v={} out={} d={} dv={} group={} score=[{}] empty={}",
                                dtype_name(query), dtype_name(key), dtype_name(value), dtype_name(output), size,
                                value_size, group, score.str(), kEmptyRows[static_cast<size_t>(empty)]);
  if (mask) out += fmt::format(" mask=[{}]", mask->str());
  for (const Operand& o : operands)
    out += fmt::format(" in={}/{}{}", dtype_name(o.dtype), o.inner_stride, o.by_head ? "/head" : "");
  return out + (sizes > 0 ? fmt::format(" sizes={}", sizes) : "");
}

Result<std::string> render_attention(const AttentionProblem& p, Isa isa, std::string_view symbol) {
  for (const DType d : {p.query, p.key, p.value, p.output}) QCG_CHECK(need_float("attention", d));
  for (const AttentionProblem::Operand& o : p.operands) QCG_CHECK(need_lanes("attention", o.dtype));
  QCG_CHECK(check_casts(p.score));
  if (p.mask) QCG_CHECK(check_casts(*p.mask));
  V v = kernel_context(symbol, isa, "attention", p.signature(), p.comment);
  v["q"] = typed(p.query);
  v["k"] = typed(p.key);
  v["v"] = typed(p.value);
  v["y"] = typed(p.output);
  v["size"] = p.size;
  v["value_size"] = p.value_size;
  v["group"] = p.group;
  v["result"] = 3 + p.operands.size();
  v["score"] = reader_of(p, p.score, false, isa);
  v["masked"] = p.mask.has_value();
  v["integers"] = p.mask && mask_in_integers(p);
  v["by_head"] = p.mask && mask_by_head(p);
  v["mask"] = p.mask ? reader_of(p, *p.mask, mask_in_integers(p), isa) : V();
  v["empty"] = kEmptyRows[static_cast<size_t>(p.empty)];
  v["pairs"] = p.query == DType::bf16 && p.key == DType::bf16 && (isa == Isa::avx512bf16 || isa == Isa::amx);
  // Accumulators fill the registers: 24 zmm, 12 of 16 ymm, 8 of 16 xmm (a portable vector is two).
  v["mr"] = isa == Isa::portable ? 4 : 6;
  v["nv"] = isa == Isa::portable ? 1 : isa_info(isa).vector_bytes == 64 ? 4 : 2;
  const bool tiles = has_tiles(p, isa);
  v["tiles"] = tiles;
  if (tiles && !on_device(isa)) v["header"] = "gemm_amx.h";
  if (on_device(isa)) {
    const size_t params = kFirstOperand + p.operands.size() * kOperandAxes + static_cast<size_t>(p.sizes);
    add_device_context(v, 4 + p.operands.size(), params, attention_launch(p, isa).threads);
  }
  return render_kernel("attention", isa, v);
}

// A block has one row of one head, or a tile of rows.
CudaLaunch attention_launch(const AttentionProblem& p, Isa isa) {
  return {.threads = 128, .rows = 1, .column_tiles = 1, .axes = {{0, 1}, {1, 1}, {3, has_tiles(p, isa) ? 64 : 1}}};
}

namespace {

std::string formula_of(const KernelProblem& any) {
  const auto& p = any.get<AttentionProblem>();
  return fmt::format("attention of [{}]{}", p.score.str(), p.mask ? fmt::format(" where [{}]", p.mask->str()) : "");
}

Reach matrices_reach(DType dtype, size_t heads, size_t rows, int64_t size, size_t matrix, bool writes) {
  const size_t at = kShapes + matrix * kAxes;
  return {bytes_of(dtype),
          {{reach_param(0), reach_param(at)},
           {reach_param(heads), reach_param(at + 1)},
           {reach_param(rows), reach_param(at + 2)},
           {reach_constant(size), reach_constant(1)}},
          writes};
}

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<AttentionProblem>();
  std::vector<Reach> out = {matrices_reach(p.query, 1, 3, p.size, 0, false),
                            matrices_reach(p.key, 2, 4, p.size, 1, false),
                            matrices_reach(p.value, 2, 4, p.value_size, 2, false)};
  for (size_t i = 0; i < p.operands.size(); ++i) {
    constexpr size_t kExtents[] = {0, 1, 3, 4};
    Reach& reach = out.emplace_back(Reach{bytes_of(p.operands[i].dtype), {}, false});
    for (size_t axis = 0; axis < kOperandAxes; ++axis)
      reach.axes.push_back({reach_param(kExtents[axis]), reach_param(kFirstOperand + i * kOperandAxes + axis)});
  }
  out.push_back(matrices_reach(p.output, 1, 3, p.value_size, 3, true));
  return out;
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<AttentionProblem>();
  std::vector<ArgumentKind> out = {{p.query, -1, 1}, {p.key, -1, 1}, {p.value, -1, 1}};
  for (const AttentionProblem::Operand& o : p.operands)
    out.push_back(is_floating(o.dtype)        ? ArgumentKind{o.dtype}
                  : o.dtype == DType::boolean ? integer_argument(o.dtype)
                                              : ArgumentKind{o.dtype, -2, 300});
  out.push_back({p.output});
  return out;
}

double operations_of(const KernelProblem& any, const CallSizes& sizes) {
  const auto& p = any.get<AttentionProblem>();
  double scores = 1;
  for (const size_t i : {0, 1, 3, 4}) scores *= static_cast<double>(sizes.params[i]);
  return scores * static_cast<double>(2 * p.size + 2 * p.value_size + p.score.count_nodes());
}

// One row of scores: weights that are not divided by their sum, and by how much each may be off, relative to itself.
struct Weights {
  std::vector<double> weights, errors;
  double sum = 0;
  bool sees = false;
};

class RowOracle {
 public:
  RowOracle(const AttentionProblem& problem, const CallMemory& call) : p_(problem), call_(call) {
    const int operands = static_cast<int>(p_.operands.size());
    score_ = p_.score.as_inputs(operands, operands + 4);
    if (p_.mask) mask_ = p_.mask->as_inputs(operands, operands + 4);
  }

  // at: batch, head, row.
  Weights weights_of(std::array<int64_t, 3> at) const {
    const int64_t columns = call_.sizes().params[4];
    std::vector<double> scores, errors;
    Weights out;
    for (int64_t j = 0; j < columns; ++j) {
      const auto [score, error] = score_at(at, j);
      scores.push_back(score), errors.push_back(error);
    }
    double largest = -INFINITY;
    for (const double s : scores) largest = std::isnan(s) || s > largest ? s : largest;
    out.sees = largest != -INFINITY;
    for (int64_t j = 0; j < columns; ++j) {
      const auto i = static_cast<size_t>(j);
      const double below = out.sees ? scores[i] - largest : 0;
      const double weight = out.sees || p_.empty == EmptyRow::mean ? std::exp(below) : 0;
      // exp flushes what is below 2^-126 to zero, or not.
      double error = 2 * errors[i] + (24 + std::fabs(below)) * 0x1p-24;
      // What three f16 cannot hold of a weight, or three bf16, which are zero below 2^-126.
      if (p_.value == DType::f16) error += 0x1p-38 / weight;
      if (p_.value == DType::bf16) error += 0x1p-124 / weight;
      out.weights.push_back(weight), out.errors.push_back(weight > 0x1p-120 ? error : 1);
      out.sum += weight;
    }
    return out;
  }

  Expected expect(const Weights& w, std::array<int64_t, 3> at, int64_t element) const {
    const int64_t columns = call_.sizes().params[4];
    if (columns == 0 || (!w.sees && p_.empty == EmptyRow::zero)) return {0, 0};
    if (!w.sees && p_.empty == EmptyRow::nan) return {NAN, 0};
    double sum = 0, magnitude = 0, off = 0, off_sum = 0;
    for (int64_t j = 0; j < columns; ++j) {
      const auto i = static_cast<size_t>(j);
      if (w.weights[i] == 0) continue;
      const double product = w.weights[i] * call_.number(2, call_.offset_of(2, matrix_index(at, j, element)));
      sum += product, magnitude += std::fabs(product);
      off += std::fabs(product) * w.errors[i], off_sum += w.weights[i] * w.errors[i];
    }
    const double unit = sum_unit(static_cast<double>(columns)), want = sum / w.sum;
    const double denormal = p_.value == DType::bf16 ? 0x1p-124 : 0;
    const double bound =
        (off + std::fabs(want) * off_sum + 2 * unit * magnitude) / w.sum + 2 * unit * std::fabs(want) + denormal;
    return within_range(p_.output, want, bound + half_ulp(p_.output, want));
  }

 private:
  std::array<int64_t, 4> matrix_index(std::array<int64_t, 3> at, int64_t row, int64_t element) const {
    return {at[0], at[1] / p_.group, row, element};
  }

  std::pair<double, double> score_at(std::array<int64_t, 3> at, int64_t column) const {
    const std::array<int64_t, 4> index = {at[0], at[1], at[2], column};
    const std::vector<int64_t>& params = call_.sizes().params;
    std::vector<double> ins;
    std::vector<int64_t> integers;
    const auto add = [&](int64_t number) { integers.push_back(number), ins.push_back(static_cast<float>(number)); };
    for (size_t i = 0; i < p_.operands.size(); ++i) {
      const int64_t offset = call_.offset_of(3 + i, index);
      ins.push_back(call_.number(3 + i, offset));
      integers.push_back(is_floating(p_.operands[i].dtype) ? 0 : call_.integer(3 + i, offset));
    }
    for (const int64_t position : index) add(position);
    for (int i = 0; i < p_.sizes; ++i)
      add(params[kFirstOperand + p_.operands.size() * kOperandAxes + static_cast<size_t>(i)]);
    const bool seen =
        !p_.mask || (mask_in_integers(p_) ? mask_.evaluate_integers(integers) != 0 : mask_.evaluate({}, ins) != 0);
    if (!seen) return {-INFINITY, 0};
    double sum = 0, magnitude = 0;
    for (int64_t e = 0; e < p_.size; ++e) {
      const double product = call_.number(0, call_.offset_of(0, std::array{at[0], at[1], at[2], e})) *
                             call_.number(1, call_.offset_of(1, matrix_index(at, column, e)));
      sum += product, magnitude += std::fabs(product);
    }
    const double accs[] = {sum}, tolerances[] = {sum_unit(static_cast<double>(p_.size)) * magnitude};
    const auto [value, tolerance] = evaluate_with_tolerance(score_, accs, tolerances, ins);
    // A kernel computes in f32, where a score that its mask takes out of range is infinite.
    if (std::fabs(value) > std::numeric_limits<float>::max()) return {std::copysign(INFINITY, value), 0};
    return {value, tolerance};
  }

  const AttentionProblem& p_;
  const CallMemory& call_;
  Expr score_, mask_;
};

// Points come in the order of memory: those of a row share its weights.
Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const RowOracle oracle(any.get<AttentionProblem>(), call);
  std::vector<std::vector<Expected>> out(1);
  std::optional<std::array<int64_t, 3>> row;
  Weights weights;
  for (const int64_t point : points[0]) {
    const std::vector<int64_t> at = call.index_of(call.first_output(), point);
    const std::array<int64_t, 3> here = {at[0], at[1], at[2]};
    if (row != here) weights = oracle.weights_of(here), row = here;
    out[0].push_back(oracle.expect(weights, here, at[3]));
  }
  return out;
}

}  // namespace

const KernelFamily kAttentionFamily{
    .name = "attention",
    .signature = signature_of<AttentionProblem>,
    .formula = formula_of,
    .comment = comment_of<AttentionProblem>,
    .reaches = reaches_of,
    .render = render_of<AttentionProblem, render_attention>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .launch = launch_of<AttentionProblem, attention_launch>,
};

}  // namespace qcg

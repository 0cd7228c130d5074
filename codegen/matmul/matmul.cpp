#include "codegen/matmul/matmul.h"

#include <fmt/format.h>

#include <cmath>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/reach_of.h"

namespace qcg {

std::string MatmulProblem::signature() const {
  return fmt::format("matmul x={} w={} out={} batch_axes={}{}", dtype_name(input), dtype_name(weight),
                     dtype_name(output), batch_axes, ends ? fmt::format(" ends={}", dtype_name(*ends)) : "");
}

Result<std::string> render_matmul(const MatmulProblem& p, Isa isa, std::string_view symbol) {
  for (const DType d : {p.input, p.weight, p.output}) QCG_CHECK(need_float("matmul of activations", d));
  TemplateValue v = kernel_context(symbol, isa, "batched matmul of two activations", p.signature(), p.comment);
  v["x"] = typed(p.input);
  v["w"] = typed(p.weight);
  v["y"] = typed(p.output);
  v["batch_axes"] = p.batch_axes;
  v["grouped"] = p.ends.has_value();
  v["ends"] = typed(p.ends.value_or(DType::i64));
  v["result"] = p.ends ? 3 : 2;
  // Accumulators fill the registers: 16 zmm, 8 of 16 ymm, 8 of 16 xmm (a portable vector is two).
  const int bytes = isa_info(isa).vector_bytes;
  v["mr"] = bytes == 64 ? 8 : 4;
  v["nv"] = isa == Isa::portable ? 1 : 2;
  v["rows_per_item"] = 64;
  if (on_device(isa)) {
    const CudaLaunch launch = matmul_launch(p);
    v["tile"] = launch.axes.back().piece;
    add_device_context(v, p.ends ? 4 : 3, static_cast<size_t>(4 * p.batch_axes + 9), launch.threads);
  }
  return render_kernel("matmul", isa, v);
}

CudaLaunch matmul_launch(const MatmulProblem& p) {
  constexpr int kTile = 64;
  CudaLaunch out{.threads = 256, .rows = 1, .column_tiles = 1, .axes = {}};
  for (int axis = 0; axis < p.batch_axes && !p.ends; ++axis) out.axes.push_back({axis, 1});
  for (const int axis : {p.batch_axes, p.batch_axes + 1}) out.axes.push_back({axis, kTile});
  return out;
}

namespace {

std::string formula_of(const KernelProblem& any) {
  return any.get<MatmulProblem>().ends ? "grouped_matmul(in0, in1, in2)" : "matmul(in0, in1)";
}

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<MatmulProblem>();
  const auto batch = static_cast<size_t>(p.batch_axes), m = batch, n = batch + 1, k = batch + 2;
  size_t stride = batch + 3;
  const auto operand = [&](DType dtype, size_t row, size_t column, bool writes, bool batched) {
    Reach out{bytes_of(dtype), {}, writes};
    for (size_t axis = 0; axis < batch; ++axis, ++stride)
      if (batched) out.axes.push_back({reach_param(axis), reach_param(stride)});
    for (const size_t axis : {row, column}) out.axes.push_back({reach_param(axis), reach_param(stride++)});
    return out;
  };
  const bool rows = !p.ends;
  std::vector<Reach> out = {operand(p.input, m, k, false, rows), operand(p.weight, n, k, false, true)};
  const Reach y = operand(p.output, m, n, true, rows);
  if (p.ends) out.push_back({bytes_of(*p.ends), {{reach_param(0), {}}}, false});
  out.push_back(y);
  return out;
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<MatmulProblem>();
  constexpr double kMostRows = 80;
  std::vector<ArgumentKind> out = {{p.input, -1, 1}, {p.weight, -1, 1}};
  if (p.ends) out.push_back({*p.ends, -3, kMostRows});
  out.push_back({p.output});
  return out;
}

double operations_of(const KernelProblem& any, const CallSizes& sizes) {
  double out = 2;
  for (int i = any.get<MatmulProblem>().ends ? 1 : 0; i < any.get<MatmulProblem>().batch_axes + 3; ++i)
    out *= static_cast<double>(sizes.params[static_cast<size_t>(i)]);
  return out;
}

// Of a grouped product, the group of a row; as many as there are groups where it has none.
int64_t group_of(const CallMemory& call, int64_t row) {
  const int64_t groups = call.sizes().params[0];
  int64_t group = 0;
  while (group < groups && call.integer(2, group) <= row) ++group;
  return group;
}

// Sums of products in f64, off by what f32 rounds in a sum of k.
Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const bool grouped = any.get<MatmulProblem>().ends.has_value();
  const DType output = any.get<MatmulProblem>().output;
  const auto batch = static_cast<size_t>(any.get<MatmulProblem>().batch_axes);
  const int64_t terms = call.sizes().params[batch + 2];
  std::vector<std::vector<Expected>> out(1);
  for (const int64_t point : points[0]) {
    std::vector<int64_t> at = call.index_of(call.first_output(), point);  // batch, m, n
    if (grouped) {
      const int64_t group = group_of(call, at[0]);
      if (group == call.sizes().params[0]) {
        out[0].push_back({0, 0});
        continue;
      }
      at.insert(at.begin(), group);
    }
    std::vector<int64_t> x = at, w = at;
    w[batch] = at[batch + 1];
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < terms; ++k) {
      x[batch + 1] = w[batch + 1] = k;
      const double product = call.number(0, call.offset_of(0, std::span(x).subspan(grouped ? 1 : 0))) *
                             call.number(1, call.offset_of(1, w));
      sum += product, magnitude += std::fabs(product);
    }
    const double bound = sum_unit(static_cast<double>(terms)) * magnitude + half_ulp(output, sum);
    out[0].push_back(within_range(output, sum, bound));
  }
  return out;
}

}  // namespace

const KernelFamily kMatmulFamily{
    .name = "matmul",
    .signature = signature_of<MatmulProblem>,
    .formula = formula_of,
    .comment = comment_of<MatmulProblem>,
    .reaches = reaches_of,
    .render = render_of<MatmulProblem, render_matmul>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .launch = launch_of<MatmulProblem, matmul_launch>,
};

}  // namespace qcg

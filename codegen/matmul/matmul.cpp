#include "codegen/matmul/matmul.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/reach_of.h"

namespace qcg {

std::string MatmulProblem::signature() const {
  return fmt::format("matmul x={} w={} out={}", dtype_name(input), dtype_name(weight), dtype_name(output));
}

Result<std::string> render_matmul(const MatmulProblem& p, Isa isa, std::string_view symbol) {
  for (const DType d : {p.input, p.weight, p.output}) QCG_CHECK(need_float("matmul of activations", d));
  TemplateValue v = kernel_context(symbol, isa, "batched matmul of two activations", p.signature(), p.comment);
  v["x"] = typed(p.input);
  v["w"] = typed(p.weight);
  v["y"] = typed(p.output);
  // Accumulators fill the registers: 16 zmm, 8 of 16 ymm, 8 of 16 xmm (a portable vector is two).
  const int bytes = isa_info(isa).vector_bytes;
  v["mr"] = bytes == 64 ? 8 : 4;
  v["nv"] = isa == Isa::portable ? 1 : 2;
  v["rows_per_item"] = 64;
  return render_template("cpu/matmul.cpp.j2", v);
}

namespace {

std::string formula_of(const KernelProblem&) { return "matmul(in0, in1)"; }

// params: batch, m, n, k, and three strides of x, w and y.
std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<MatmulProblem>();
  auto product = [](DType dtype, size_t row, size_t column, size_t strides, bool writes) {
    return Reach{bytes_of(dtype),
                 {{reach_param(0), reach_param(strides)},
                  {reach_param(row), reach_param(strides + 1)},
                  {reach_param(column), reach_param(strides + 2)}},
                 writes};
  };
  return {product(p.input, 1, 3, 4, false), product(p.weight, 2, 3, 7, false), product(p.output, 1, 2, 10, true)};
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<MatmulProblem>();
  return {{p.input, -1, 1}, {p.weight, -1, 1}, {p.output}};
}

double operations_of(const KernelProblem&, const CallSizes& sizes) {
  const std::vector<int64_t>& p = sizes.params;
  return 2.0 * static_cast<double>(p[0]) * static_cast<double>(p[1]) * static_cast<double>(p[2]) *
         static_cast<double>(p[3]);
}

// Sums of products in f64, off by what f32 rounds in a sum of k.
Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const DType output = any.get<MatmulProblem>().output;
  const int64_t terms = call.sizes().params[3];
  std::vector<std::vector<Expected>> out(1);
  for (const int64_t point : points[0]) {
    const std::vector<int64_t> at = call.index_of(2, point);  // batch, m, n
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < terms; ++k) {
      const double product = call.number(0, call.offset_of(0, std::array{at[0], at[1], k})) *
                             call.number(1, call.offset_of(1, std::array{at[0], at[2], k}));
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
};

}  // namespace qcg

// Quantization of rows at run time: the activations of da8* linears. Problem, renderer and family.
//
// Why here: a row is quantized once, however many linears read it.
//
//   QuantizeRowsProblem p{.input = DType::bf16, .k = 4096};   render_quantize_rows(p, isa, "qcg_kernel_3")
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"

namespace qcg {

// How scale and zero point of a row are chosen, and where it is rounded: torchao's two rules, and those of
// quantized_decomposed's per-token ops (graph.h). per_token_asymmetric quantizes in f64.
enum class RowMapping : uint8_t { symmetric, asymmetric, per_token, per_token_asymmetric };

// qcg.quantize_rows. args: x, q, scale, zero (zero only if writes_zero). params: m. Strides from args.
struct QuantizeRowsProblem {
  DType input = DType::bf16;
  int64_t k = 0;
  RowMapping mapping = RowMapping::symmetric;
  int64_t quant_min = -128, quant_max = 127;
  double eps = 0;  // least scale; 0 = torchao's default, the smallest normal of `input`
  DType output = DType::i8;
  DType scale = DType::f32;  // f32, `input` or f64: what 1 / scale and x / scale are rounded to; stored as f32
  bool writes_zero = false;  // zero point i32 [m]
  std::string comment;
  std::string signature() const;
};
std::optional<RowMapping> row_mapping_from_name(std::string_view name);  // as in the graph: "PER_TOKEN"
Result<std::string> render_quantize_rows(const QuantizeRowsProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch quantize_rows_launch(const QuantizeRowsProblem& problem);
extern const KernelFamily kQuantizeRowsFamily;

}  // namespace qcg

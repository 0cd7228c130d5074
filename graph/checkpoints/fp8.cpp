// fp8 in blocks, as DeepSeek and Qwen store it: quant_method fp8 with a weight_block_size.
//
//   weight            e4m3 [N, K]
//   weight_scale_inv  f32 [ceil(N / rows), K / columns]
//
//   w = weight * weight_scale_inv of its block
#include "graph/checkpoints/kinds.h"

namespace qcg {

namespace {

Result<QuantizedWeight> read_fp8(const LinearParts& parts, int64_t rows, int64_t columns) {
  QCG_TRY(weight, parts.tensor("weight", {DType::f8e4m3}, {-1, -1}));
  const int64_t n = weight.shape[0], k = weight.shape[1];
  QCG_TRY(scale, parts.tensor("weight_scale_inv", {DType::f32, DType::bf16, DType::f16}, {(n + rows - 1) / rows, -1}));
  QCG_TRY(group, check_group(parts, columns, k, scale.shape[1]));
  QuantizedWeight out;
  out.codes = weight;
  out.scale = repeat_rows(scale, rows, n);
  out.group = group;
  return out;
}

}  // namespace

Status take_fp8(RawCheckpoint& raw, Checkpoint& out) {
  QCG_TRY(sizes, raw.config.array_at("weight_block_size"));
  std::vector<int64_t> block;
  for (JsonCursor size : sizes) {
    QCG_TRY(value, size.integer());
    if (value < 1 || value > INT32_MAX) return size.bad("is no size of a block", "two positive numbers are read");
    block.push_back(value);
    if (block.size() > 2) break;
  }
  if (block.size() != 2) return sizes.bad("has not two sizes", "two positive numbers are read");
  for (auto& [base, parts] : take_parts(raw, "weight_scale_inv", {"weight", "input_scale", "activation_scale"}))
    out.weights.emplace(base + ".weight", [parts = parts, block] { return read_fp8(parts, block[0], block[1]); });
  out.notes.push_back("activations are not rounded to fp8: only the weights of the checkpoint are");
  return {};
}

}  // namespace qcg

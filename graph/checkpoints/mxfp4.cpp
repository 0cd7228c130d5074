// mxfp4 of mixtures of experts, as gpt-oss stores them: quant_method mxfp4.
//
//   NAME_blocks  u8 [E, N, K / 32, 16]: two e2m1 numbers a byte, the low nibble first
//   NAME_scales  u8 [E, N, K / 32]
//
//   w[e, k, n] = the number of element k of row n of expert e, times 2^(its scale - 127)
#include "graph/checkpoints/kinds.h"

namespace qcg {

namespace {

constexpr int64_t kMxfp4Group = 32;

Result<QuantizedWeight> read_experts(const LinearParts& parts) {
  QCG_TRY(blocks, parts.tensor("_blocks", {DType::u8}, {-1, -1, -1, kMxfp4Group / 2}));
  const int64_t experts = blocks.shape[0], n = blocks.shape[1], groups = blocks.shape[2];
  QCG_TRY(scales, parts.tensor("_scales", {DType::u8}, {experts, n, groups}));
  if (blocks.numel() == 0) return parts.bad("_blocks", "has no elements");
  QuantizedWeight out;
  out.codes = blocks.reshape({experts * n, groups * kMxfp4Group / 2});
  out.scale = scales.reshape({experts * n, groups});
  out.group = kMxfp4Group;
  out.format = "mxfp4";
  out.matrices = experts;
  out.turned = true;
  return out;
}

}  // namespace

Status take_mxfp4(RawCheckpoint& raw, Checkpoint& out) {
  for (auto& [base, parts] : take_parts(raw, "_blocks", {"_scales"}))
    out.weights.emplace(base, [parts = parts] { return read_experts(parts); });
  return {};
}

}  // namespace qcg

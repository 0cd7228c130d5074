// fp8: quant_method fp8, in blocks as DeepSeek and Qwen store it (weight_block_size), or per tensor or row; and
// fbgemm_fp8, per row.
//
//   weight            e4m3 [N, K]
//   weight_scale_inv  with blocks [ceil(N / rows), K / columns]; without them one number, [N] or [N, 1]; or weight_scale,
//                     which means the same
//
//   w = weight * scale
#include <algorithm>

#include "graph/checkpoints/kinds.h"

namespace qcg {

namespace {

struct BlockSize {
  int64_t rows, columns;
};

constexpr const char* kScales[] = {"weight_scale_inv", "weight_scale"};

// nullopt: no blocks.
Result<std::optional<BlockSize>> block_size_of(const JsonCursor& config) {
  const auto stated = config.find("weight_block_size");
  if (!stated || stated->is(JsonKind::null)) return std::optional<BlockSize>();
  QCG_TRY(sizes, config.array_at("weight_block_size"));
  std::vector<int64_t> block;
  for (JsonCursor size : sizes) {
    QCG_TRY(value, size.integer());
    if (value < 1 || value > INT32_MAX) return size.bad("is no size of a block", "two positive numbers are read");
    block.push_back(value);
    if (block.size() > 2) break;
  }
  if (block.size() != 2) return sizes.bad("has not two sizes", "two positive numbers are read");
  return std::optional(BlockSize{block[0], block[1]});
}

// As [N, 1].
Result<Tensor> scale_of_rows(const LinearParts& parts, std::string_view part, const Tensor& scale, int64_t n) {
  if (scale.numel() == 1) return repeat_rows(scale.reshape({1, 1}), n, n);
  const bool is_column = scale.shape.size() == 1 || (scale.shape.size() == 2 && scale.shape[1] == 1);
  if (is_column && scale.shape[0] == n) return scale.reshape({n, 1});
  return parts.bad(part, "has " + std::to_string(scale.numel()) + " numbers, neither one nor one for each of " +
                             std::to_string(n) + " rows, and the configuration has no weight_block_size");
}

Result<QuantizedWeight> read_fp8(const LinearParts& parts, const std::optional<BlockSize>& block) {
  QCG_TRY(weight, parts.tensor("weight", {DType::f8e4m3}, {-1, -1}));
  const int64_t n = weight.shape[0], k = weight.shape[1];
  const std::string_view part = kScales[parts.has(kScales[0]) ? 0 : 1];
  if (parts.has(kScales[0]) && parts.has(kScales[1])) return parts.bad(kScales[0], "and weight_scale are both stored");
  const std::vector<int64_t> shape =
      block ? std::vector{(n + block->rows - 1) / block->rows, int64_t{-1}} : std::vector<int64_t>();
  QCG_TRY(scale, parts.tensor(part, {DType::f32, DType::bf16, DType::f16}, shape));
  QCG_TRY(group, check_group(parts, block ? block->columns : 0, k, block ? scale.shape[1] : 1));
  QuantizedWeight out;
  out.codes = weight;
  out.group = group;
  if (block) {
    out.scale = repeat_rows(scale, block->rows, n);
  } else {
    QCG_TRY(column, scale_of_rows(parts, part, scale, n));
    out.scale = std::move(column);
  }
  return out;
}

void take_linears(RawCheckpoint& raw, const std::optional<BlockSize>& block, Checkpoint& out) {
  for (const char* scale : kScales)
    for (auto& [base, parts] :
         take_parts(raw, scale, {"weight", "weight_scale", "input_scale", "activation_scale", "input_scale_ub"}))
      out.weights.emplace(weight_of(base), [parts = parts, block] { return read_fp8(parts, block); });
  out.notes.push_back("activations are not rounded to fp8: only the weights of the checkpoint are");
}

}  // namespace

Status take_fp8(RawCheckpoint& raw, Checkpoint& out) {
  QCG_TRY(block, block_size_of(raw.config));
  take_linears(raw, block, out);
  return {};
}

Status take_fbgemm_fp8(RawCheckpoint& raw, Checkpoint& out) {
  take_linears(raw, std::nullopt, out);
  return {};
}

}  // namespace qcg

// bitsandbytes: 4-bit NormalFloat, as transformers saves it.
//
//   weight                                u8 [N * K / 2, 1]   two codes to a byte, high nibble first
//   weight.absmax                         f32 [N * K / b], or u8 codes of nested_quant_map with double quantization
//   weight.quant_map                      f32 [16]            the numbers of the codes
//   weight.nested_absmax, nested_quant_map                    absmax = map[code] * nested_absmax[i / B] + nested_offset
//   weight.quant_state.bitsandbytes__nf4  u8, JSON: quant_type, blocksize b, shape, nested_blocksize B, nested_offset
//
//   w = quant_map[code] * absmax of its block
#include <algorithm>

#include "graph/checkpoints/kinds.h"
#include "graph/ir/elements.h"
#include "graph/ir/scheme.h"

namespace qcg {

namespace {

constexpr std::string_view kState = "quant_state.bitsandbytes__nf4";
constexpr int64_t kMostStateBytes = 1 << 16;

struct QuantState {
  int64_t n = 0, k = 0, block = 0, nested_block = 0;
  double nested_offset = 0;
};

Result<QuantState> read_state(const LinearParts& parts) {
  QCG_TRY(bytes, parts.tensor(kState, {DType::u8}, {-1}));
  if (bytes.numel() > kMostStateBytes) return parts.bad(kState, "is too long");
  const Tensor dense = bytes.contiguous();
  const std::string text(reinterpret_cast<const char*>(dense.bytes().data()), dense.bytes().size());
  QCG_TRY(document, JsonDocument::parse(text, std::string(kState)));
  const JsonCursor root = document.root();
  QCG_TRY(type, root.string_at("quant_type"));
  if (type != "nf4") return parts.unsupported("the type " + quote(type) + " of bitsandbytes", "nf4 is read");
  QuantState out;
  QCG_TRY(shape, root.array_at("shape"));
  std::vector<int64_t> sizes;
  for (JsonCursor size : shape) {
    QCG_TRY(value, size.integer());
    sizes.push_back(value);
    if (sizes.size() > 2) break;
  }
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 2 || sizes[0] > INT32_MAX || sizes[1] > INT32_MAX)
    return shape.bad("is not that of a matrix", "the checkpoint is damaged");
  QCG_TRY(block, config_number(root, "blocksize", 64, 2, INT32_MAX));
  QCG_TRY(nested, config_number(root, "nested_blocksize", 0, 0, INT32_MAX));
  out = {sizes[0], sizes[1], block, nested, 0};
  if (const auto offset = root.find("nested_offset"); offset && !offset->is(JsonKind::null)) {
    QCG_TRY(value, offset->real());
    out.nested_offset = value;
  }
  return out;
}

// One f32 for each block.
Result<std::vector<float>> read_absmax(const LinearParts& parts, const QuantState& state, int64_t blocks) {
  if (state.nested_block == 0) {
    QCG_TRY(absmax, parts.tensor("absmax", {DType::f32}, {blocks}));
    return *read_elements<float>(absmax);
  }
  QCG_TRY(codes, parts.tensor("absmax", {DType::u8}, {blocks}));
  QCG_TRY(map, parts.tensor("nested_quant_map", {DType::f32}, {256}));
  QCG_TRY(outer, parts.tensor("nested_absmax", {DType::f32}, {(blocks + state.nested_block - 1) / state.nested_block}));
  const auto code = *read_elements<int64_t>(codes);
  const auto number = *read_elements<float>(map), scale = *read_elements<float>(outer);
  std::vector<float> out(static_cast<size_t>(blocks));
  for (size_t i = 0; i < out.size(); ++i) {
    const float product = number[static_cast<size_t>(code[i])] * scale[i / static_cast<size_t>(state.nested_block)];
    out[i] = product + static_cast<float>(state.nested_offset);
  }
  return out;
}

Result<QuantizedWeight> read_nf4(const LinearParts& parts) {
  QCG_TRY(state, read_state(parts));
  QCG_TRY(packed, parts.tensor("", {DType::u8}, {}));
  if (packed.numel() * 2 != state.n * state.k)
    return parts.bad("the weight", "has " + std::to_string(packed.numel()) + " bytes, its shape needs half of " +
                                       std::to_string(state.n) + " * " + std::to_string(state.k));
  QCG_TRY(group, check_group(parts, state.block, state.k, state.k / state.block));
  QCG_TRY(map, parts.tensor("quant_map", {DType::f32}, {16}));
  if (*read_elements<float>(map) != std::vector<float>(kNf4Values.begin(), kNf4Values.end()))
    return parts.unsupported("quant_map is not that of NormalFloat4", "quantize with quant_type nf4");
  QCG_TRY(absmax, read_absmax(parts, state, state.n * state.k / group));
  QuantizedWeight out;
  out.codes = packed.contiguous().reshape({state.n, state.k / 2});
  out.scale = make_tensor(DType::f32, {state.n, state.k / group}, Elements<float>(std::move(absmax)));
  out.group = group;
  out.format = "nf4";
  return out;
}

}  // namespace

Status take_bitsandbytes(RawCheckpoint& raw, Checkpoint& out) {
  for (auto& [base, parts] : take_parts(raw, kState, {"", "absmax", "quant_map", "nested_absmax", "nested_quant_map"}))
    out.weights.emplace(base, [parts = parts] { return read_nf4(parts); });
  for (const auto& [name, tensor] : raw.file.tensors)
    if (name.ends_with(".SCB") || name.ends_with(".quant_state.bitsandbytes__fp4"))
      return Error::unsupported(raw.path + ": " + quote(name), "a weight of bitsandbytes that is not nf4",
                                "load it in 4 bits with bnb_4bit_quant_type nf4");
  return {};
}

}  // namespace qcg

// GPTQ: what AutoGPTQ, GPTQModel and optimum write.
//
//   qweight i32 [K * bits / 32, N]   codes along K, low bits first; a code of 3 bits may cross from one word to the next
//   qzeros  i32 [G, N * bits / 32]   zero points along N; version 1 of the format stores (zero point - 1) mod 2^bits
//   scales  f16 [G, N]
//   g_idx   i32 [K]                  the group of each column of x; in order unless desc_act
//
//   w = (q - z) * s
#include "graph/checkpoints/kinds.h"

namespace qcg {

namespace {

struct GptqForm {
  int64_t bits, group;
  int32_t stored_less;
};

Result<QuantizedWeight> read_gptq(const LinearParts& parts, const GptqForm& form) {
  QCG_TRY(qweight, parts.tensor("qweight", {DType::i32}, {-1, -1}));
  if (qweight.shape[0] * 32 % form.bits != 0) return parts.bad("qweight", "has words that hold no whole codes");
  const int64_t k = qweight.shape[0] * 32 / form.bits, n = qweight.shape[1];
  QCG_TRY(scales, parts.tensor("scales", {DType::f16, DType::bf16, DType::f32}, {-1, n}));
  QCG_TRY(group, check_group(parts, form.group, k, scales.shape[0]));
  if (n * form.bits % 32 != 0) return parts.bad("qweight", "has columns that fill no word of qzeros");
  QCG_TRY(qzeros, parts.tensor("qzeros", {DType::i32}, {k / group, n * form.bits / 32}));
  const int bits = static_cast<int>(form.bits);
  QuantizedWeight out;
  out.codes = unpack_words(qweight.transpose(0, 1), bits);
  out.scale = scales.transpose(0, 1).contiguous();
  out.zero = to_i32(unpack_words(qzeros, bits).transpose(0, 1), form.stored_less, (1 << bits) - 1);
  out.group = group;
  out.high = (1 << bits) - 1;
  if (parts.has("g_idx")) {
    QCG_TRY(g_idx, parts.tensor("g_idx", {DType::i32, DType::i64}, {k}));
    QCG_CHECK(order_by_group(parts, g_idx, out));
  }
  return out;
}

}  // namespace

Status take_gptq(RawCheckpoint& raw, Checkpoint& out) {
  GptqForm form{};
  QCG_TRY(bits, config_number(raw.config, "bits", 4, 1, 64));
  QCG_TRY(group, config_number(raw.config, "group_size", -1, -1, INT32_MAX));
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    return raw.config.unsupported("GPTQ with " + std::to_string(bits) + " bits", "2, 3, 4 and 8 bits are read");
  form = {bits, group, 1};
  // Versions of the libraries differ in the name of this field.
  auto format = raw.config.find("format");
  if (!format || format->is(JsonKind::null)) format = raw.config.find("checkpoint_format");
  if (format) {
    QCG_TRY(name, format->string());
    if (name != "gptq" && name != "gptq_v2")
      return format->unsupported("the format " + quote(name) + " of a GPTQ checkpoint",
                                 "convert it to gptq or gptq_v2");
    form.stored_less = name == "gptq" ? 1 : 0;
  }
  for (auto& [base, parts] : take_parts(raw, "qweight", {"qzeros", "scales", "g_idx"}))
    out.weights.emplace(weight_of(base), [parts = parts, form] { return read_gptq(parts, form); });
  return {};
}

}  // namespace qcg

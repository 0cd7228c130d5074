// AWQ, version gemm: what AutoAWQ writes.
//
//   qweight i32 [K, N / 8]   eight columns of 4 bits, low bits first, in the order 0 2 4 6 1 3 5 7
//   qzeros  i32 [G, N / 8]   zero points alike
//   scales  f16 [G, N]
//
//   w = (q - z) * s
#include <array>

#include "graph/checkpoints/kinds.h"

namespace qcg {

namespace {

constexpr std::array<int64_t, 8> kColumnOfNibble = {0, 2, 4, 6, 1, 3, 5, 7};

// [R, C] words to u8 [8 C, R]: a row for each column of the matrix.
Tensor columns_of_words(const Tensor& words) {
  const Tensor nibbles = unpack_words(words, 4);
  const int64_t rows = nibbles.shape[0], columns = nibbles.shape[1];
  std::vector<std::byte> out(static_cast<size_t>(rows * columns));
  const auto from = nibbles.bytes();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      out[static_cast<size_t>((c / 8 * 8 + kColumnOfNibble[static_cast<size_t>(c % 8)]) * rows + r)] =
          from[static_cast<size_t>(r * columns + c)];
  return Tensor::from_bytes(DType::u8, {columns, rows}, std::move(out));
}

Result<QuantizedWeight> read_awq(const LinearParts& parts, int64_t group_size) {
  QCG_TRY(qweight, parts.tensor("qweight", {DType::i32}, {-1, -1}));
  const int64_t k = qweight.shape[0], n = qweight.shape[1] * 8;
  QCG_TRY(scales, parts.tensor("scales", {DType::f16, DType::bf16, DType::f32}, {-1, n}));
  QCG_TRY(group, check_group(parts, group_size, k, scales.shape[0]));
  QuantizedWeight out;
  out.codes = columns_of_words(qweight);
  out.scale = scales.transpose(0, 1).contiguous();
  out.group = group;
  out.high = 15;
  if (parts.has("qzeros")) {
    QCG_TRY(qzeros, parts.tensor("qzeros", {DType::i32}, {k / group, n / 8}));
    out.zero = to_i32(columns_of_words(qzeros));
  } else {
    out.zero = to_i32(Tensor::zeros(DType::i32, {n, k / group}), 8);
  }
  return out;
}

}  // namespace

Status take_awq(RawCheckpoint& raw, Checkpoint& out) {
  QCG_TRY(bits, config_number(raw.config, "bits", 4, 1, 64));
  QCG_TRY(group, config_number(raw.config, "group_size", 128, -1, INT32_MAX));
  if (bits != 4) return raw.config.unsupported("AWQ with " + std::to_string(bits) + " bits", "4 bits are read");
  // Versions of the libraries differ in the name of this field.
  for (const char* field : {"version", "format"}) {
    const auto version = raw.config.find(field);
    if (!version || !version->is(JsonKind::string)) continue;
    QCG_TRY(name, version->string());
    if (name != "gemm" && name != "GEMM")
      return version->unsupported("AWQ in the order " + quote(name), "convert it to version gemm");
  }
  for (auto& [base, parts] : take_parts(raw, "qweight", {"qzeros", "scales"}))
    out.weights.emplace(weight_of(base), [parts = parts, group] { return read_awq(parts, group); });
  return {};
}

}  // namespace qcg

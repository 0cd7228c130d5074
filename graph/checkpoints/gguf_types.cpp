#include "graph/checkpoints/gguf_types.h"

#include <cstring>

#include "graph/ir/elements.h"

namespace qcg {

namespace {

float half(const std::byte* p) { return static_cast<float>(element_to_double(DType::f16, p)); }
int byte_at(const std::byte* p, int64_t i) { return std::to_integer<int>(p[i]); }
int8_t signed_byte_at(const std::byte* p, int64_t i) { return static_cast<int8_t>(byte_at(p, i)); }

// 16 bytes of nibbles: the low ones are the first half of a block.
void read_nibbles(const std::byte* bytes, int64_t count, int minus, int8_t* codes) {
  for (int64_t i = 0; i < count; ++i) {
    codes[i] = static_cast<int8_t>((byte_at(bytes, i) & 15) - minus);
    codes[i + count] = static_cast<int8_t>((byte_at(bytes, i) >> 4) - minus);
  }
}

// f16 d, 16 bytes: (q - 8) * d
void read_q4_0(const std::byte* p, const GgufBlock& out) {
  out.scales[0] = half(p);
  read_nibbles(p + 2, 16, 8, out.codes);
}

// f16 d, f16 m, 16 bytes: q * d + m
void read_q4_1(const std::byte* p, const GgufBlock& out) {
  out.scales[0] = half(p), out.offsets[0] = half(p + 2);
  read_nibbles(p + 4, 16, 0, out.codes);
}

// The nibbles, and a fifth bit of each code.
void read_nibbles_and_bits(const std::byte* bytes, const std::byte* bits, int minus, int8_t* codes) {
  read_nibbles(bytes, 16, minus, codes);
  for (int64_t i = 0; i < 32; ++i)
    codes[i] = static_cast<int8_t>(codes[i] + (byte_at(bits, i / 8) >> (i % 8) & 1) * 16);
}

// f16 d, 4 bytes of bits, 16 bytes: (q - 16) * d
void read_q5_0(const std::byte* p, const GgufBlock& out) {
  out.scales[0] = half(p);
  read_nibbles_and_bits(p + 6, p + 2, 16, out.codes);
}

// f16 d, f16 m, 4 bytes of bits, 16 bytes: q * d + m
void read_q5_1(const std::byte* p, const GgufBlock& out) {
  out.scales[0] = half(p), out.offsets[0] = half(p + 2);
  read_nibbles_and_bits(p + 8, p + 4, 0, out.codes);
}

// f16 d, 32 bytes: q * d
void read_q8_0(const std::byte* p, const GgufBlock& out) {
  out.scales[0] = half(p);
  std::memcpy(out.codes, p + 2, 32);
}

// f16 d, f16 dmin, 12 bytes of eight 6-bit scales and minima: (d * scale) * q - dmin * minimum
//
//   byte 0..3   low 6 bits: scales 0..3     high 2 bits: bits 4, 5 of scales 4..7
//   byte 4..7   low 6 bits: minima 0..3     high 2 bits: bits 4, 5 of minima 4..7
//   byte 8..11  low nibble: bits 0..3 of scales 4..7     high nibble: of minima 4..7
void read_k_scales(const std::byte* p, const GgufBlock& out) {
  const float d = half(p), dmin = half(p + 2);
  const std::byte* packed = p + 4;
  for (int64_t i = 0; i < 4; ++i) {
    const int a = byte_at(packed, i), b = byte_at(packed, i + 4), c = byte_at(packed, i + 8);
    out.scales[i] = d * static_cast<float>(a & 63);
    out.offsets[i] = -(dmin * static_cast<float>(b & 63));
    out.scales[i + 4] = d * static_cast<float>((c & 15) | (a >> 6 << 4));
    out.offsets[i + 4] = -(dmin * static_cast<float>((c >> 4) | (b >> 6 << 4)));
  }
}

// The scales, 128 bytes of nibbles.
void read_q4_k(const std::byte* p, const GgufBlock& out) {
  read_k_scales(p, out);
  for (int64_t pair = 0; pair < 4; ++pair) read_nibbles(p + 16 + 32 * pair, 32, 0, out.codes + 64 * pair);
}

// The scales, 32 bytes of bits, 128 bytes of nibbles: bit j of byte i is of element i of the j-th 32.
void read_q5_k(const std::byte* p, const GgufBlock& out) {
  read_k_scales(p, out);
  for (int64_t pair = 0; pair < 4; ++pair) read_nibbles(p + 48 + 32 * pair, 32, 0, out.codes + 64 * pair);
  for (int64_t i = 0; i < 256; ++i)
    out.codes[i] = static_cast<int8_t>(out.codes[i] + (byte_at(p + 16, i % 32) >> (i / 32) & 1) * 16);
}

// Pairs of bits of element i: each byte has those of elements 32 apart.
int pair_of_bits(const std::byte* pairs, int64_t i) {
  return byte_at(pairs, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
}

// 16 bytes of 4-bit scales and minima, 64 bytes of pairs, f16 d, f16 dmin: (d * scale) * q - dmin * minimum
void read_q2_k(const std::byte* p, const GgufBlock& out) {
  const float d = half(p + 80), dmin = half(p + 82);
  for (int64_t i = 0; i < 16; ++i) {
    out.scales[i] = d * static_cast<float>(byte_at(p, i) & 15);
    out.offsets[i] = -(dmin * static_cast<float>(byte_at(p, i) >> 4));
  }
  for (int64_t i = 0; i < 256; ++i) out.codes[i] = static_cast<int8_t>(pair_of_bits(p + 16, i));
}

// 32 bytes of high bits, 64 bytes of pairs, 12 bytes of sixteen 6-bit scales, f16 d: (d * (scale - 32)) * (q - 4)
//
//   byte 0..7   nibbles: bits 0..3 of scales 0..7 and 8..15     byte 8..11  pairs: bits 4, 5 of scales i, i + 4, …
void read_q3_k(const std::byte* p, const GgufBlock& out) {
  const std::byte* packed = p + 96;
  const float d = half(p + 108);
  for (int64_t i = 0; i < 16; ++i) {
    const int low = byte_at(packed, i % 8) >> (i / 8 * 4) & 15, high = byte_at(packed, 8 + i % 4) >> (i / 4 * 2) & 3;
    out.scales[i] = d * static_cast<float>((low | high << 4) - 32);
  }
  for (int64_t i = 0; i < 256; ++i) {
    const int high = byte_at(p, i % 32) >> (i / 32) & 1;
    out.codes[i] = static_cast<int8_t>((pair_of_bits(p + 32, i) | high << 2) - 4);
  }
}

// 128 bytes of low nibbles, 64 bytes of high pairs of bits, 16 signed scales, f16 d: (d * scale) * (q - 32)
void read_q6_k(const std::byte* p, const GgufBlock& out) {
  const float d = half(p + 208);
  for (int64_t i = 0; i < 16; ++i) out.scales[i] = d * static_cast<float>(signed_byte_at(p + 192, i));
  for (int64_t part = 0; part < 2; ++part) {
    const std::byte *low = p + 64 * part, *high = p + 128 + 32 * part;
    for (int64_t i = 0; i < 32; ++i)
      for (int64_t quarter = 0; quarter < 4; ++quarter) {
        const int byte = byte_at(low, i + 32 * (quarter % 2));
        const int code = (quarter < 2 ? byte & 15 : byte >> 4) | ((byte_at(high, i) >> (2 * quarter) & 3) << 4);
        out.codes[128 * part + 32 * quarter + i] = static_cast<int8_t>(code - 32);
      }
  }
}

// Numbers of the 16 codes of IQ4_NL and IQ4_XS.
constexpr int8_t kIq4Numbers[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void read_iq4_numbers(const std::byte* nibbles, int8_t* codes) {
  read_nibbles(nibbles, 16, 0, codes);
  for (int64_t i = 0; i < 32; ++i) codes[i] = kIq4Numbers[codes[i]];
}

// f16 d, 16 bytes: number(q) * d
void read_iq4_nl(const std::byte* p, const GgufBlock& out) {
  out.scales[0] = half(p);
  read_iq4_numbers(p + 2, out.codes);
}

// f16 d, 2 bytes of pairs and 4 bytes of nibbles of eight 6-bit scales, 128 bytes: (d * (scale - 32)) * number(q)
void read_iq4_xs(const std::byte* p, const GgufBlock& out) {
  const float d = half(p);
  for (int64_t i = 0; i < 8; ++i) {
    const int low = byte_at(p + 4, i / 2) >> (i % 2 * 4) & 15, high = byte_at(p + 2, i / 4) >> (i % 4 * 2) & 3;
    out.scales[i] = d * static_cast<float>((low | high << 4) - 32);
    read_iq4_numbers(p + 8 + 16 * i, out.codes + 32 * i);
  }
}

// 48 bytes of five base-3 digits, 4 bytes of four, f16 d: (digit - 1) * d. A byte / 256 is the fraction 0.d0 d1 d2 … in
// base 3, rounded up: its product with 3 has the first digit above the byte, and with 3^i the digit i.
void read_tq1_0(const std::byte* p, const GgufBlock& out) {
  out.scales[0] = half(p + 52);
  int8_t* codes = out.codes;
  const auto read_digits = [&](const std::byte* bytes, int64_t count, int digits) {
    for (int digit = 0, power = 1; digit < digits; ++digit, power *= 3)
      for (int64_t i = 0; i < count; ++i)
        *codes++ = static_cast<int8_t>(((byte_at(bytes, i) * power & 255) * 3 >> 8) - 1);
  };
  read_digits(p, 32, 5);
  read_digits(p + 32, 16, 5);
  read_digits(p + 48, 4, 4);
}

// 64 bytes of pairs, f16 d: (q - 1) * d
void read_tq2_0(const std::byte* p, const GgufBlock& out) {
  out.scales[0] = half(p + 64);
  for (int64_t i = 0; i < 256; ++i) out.codes[i] = static_cast<int8_t>(pair_of_bits(p, i) - 1);
}

// An exponent, 16 bytes of nibbles: e2m1(q) * 2^(exponent - 127)
void read_mxfp4(const std::byte* p, const GgufBlock& out) {
  out.scales[0] = static_cast<float>(element_to_double(DType::f8e8m0, p));
  read_nibbles(p + 1, 16, 0, out.codes);
}

// 4 scales of e4m3 without sign, 32 bytes of nibbles: e2m1(q) * scale. What would be NaN is 0.
void read_nvfp4(const std::byte* p, const GgufBlock& out) {
  for (int64_t i = 0; i < 4; ++i) {
    const std::byte magnitude = p[i] & std::byte{0x7f};
    out.scales[i] = magnitude == std::byte{0x7f} ? 0 : static_cast<float>(element_to_double(DType::f8e4m3, &magnitude));
    read_nibbles(p + 4 + 8 * i, 8, 0, out.codes + 16 * i);
  }
}

// clang-format off
constexpr GgufType kGgufTypes[] = {
    {.id = 0,  .name = "F32",  .elements = 1,   .bytes = 4,   .plain = DType::f32},
    {.id = 1,  .name = "F16",  .elements = 1,   .bytes = 2,   .plain = DType::f16},
    {.id = 30, .name = "BF16", .elements = 1,   .bytes = 2,   .plain = DType::bf16},
    {.id = 2,  .name = "Q4_0", .elements = 32,  .bytes = 18,  .plain = {}, .group = 32, .scale = DType::f16, .low = -8, .high = 7, .read = read_q4_0},
    {.id = 3,  .name = "Q4_1", .elements = 32,  .bytes = 20,  .plain = {}, .group = 32, .scale = DType::f16, .low = 0, .high = 15, .has_offsets = true, .read = read_q4_1},
    {.id = 8,  .name = "Q8_0", .elements = 32,  .bytes = 34,  .plain = {}, .group = 32, .scale = DType::f16, .low = -128, .high = 127, .read = read_q8_0},
    {.id = 12, .name = "Q4_K", .elements = 256, .bytes = 144, .plain = {}, .group = 32, .low = 0, .high = 15, .has_offsets = true, .read = read_q4_k},
    {.id = 14, .name = "Q6_K", .elements = 256, .bytes = 210, .plain = {}, .group = 16, .low = -128, .high = 127, .read = read_q6_k},
    {.id = 6,  .name = "Q5_0", .elements = 32,  .bytes = 22,  .plain = {}, .group = 32, .scale = DType::f16, .low = -128, .high = 127, .read = read_q5_0},
    {.id = 7,  .name = "Q5_1", .elements = 32,  .bytes = 24,  .plain = {}, .group = 32, .scale = DType::f16, .low = -128, .high = 127, .has_offsets = true, .read = read_q5_1},
    {.id = 10, .name = "Q2_K", .elements = 256, .bytes = 84,  .plain = {}, .group = 16, .low = 0, .high = 15, .has_offsets = true, .read = read_q2_k},
    {.id = 11, .name = "Q3_K", .elements = 256, .bytes = 110, .plain = {}, .group = 16, .low = -8, .high = 7, .read = read_q3_k},
    {.id = 13, .name = "Q5_K", .elements = 256, .bytes = 176, .plain = {}, .group = 32, .low = -128, .high = 127, .has_offsets = true, .read = read_q5_k},
    {.id = 20, .name = "IQ4_NL", .elements = 32,  .bytes = 18,  .plain = {}, .group = 32, .scale = DType::f16, .low = -128, .high = 127, .read = read_iq4_nl},
    {.id = 23, .name = "IQ4_XS", .elements = 256, .bytes = 136, .plain = {}, .group = 32, .low = -128, .high = 127, .read = read_iq4_xs},
    {.id = 34, .name = "TQ1_0", .elements = 256, .bytes = 54, .plain = {}, .group = 256, .scale = DType::f16, .low = -8, .high = 7, .read = read_tq1_0},
    {.id = 35, .name = "TQ2_0", .elements = 256, .bytes = 66, .plain = {}, .group = 256, .scale = DType::f16, .low = -8, .high = 7, .read = read_tq2_0},
    {.id = 39, .name = "MXFP4", .elements = 32, .bytes = 17, .plain = {}, .group = 32, .scale = DType::f8e8m0, .format = "mxfp4", .read = read_mxfp4},
    {.id = 40, .name = "NVFP4", .elements = 64, .bytes = 36, .plain = {}, .group = 16, .scale = DType::f8e4m3, .format = "nvfp4", .read = read_nvfp4},
    // Numbers of their tables are in no scheme.
    {.id = 16, .name = "IQ2_XXS", .elements = 256, .bytes = 66, .plain = {}},
    {.id = 18, .name = "IQ3_XXS", .elements = 256, .bytes = 98, .plain = {}},
    {.id = 21, .name = "IQ3_S", .elements = 256, .bytes = 110, .plain = {}},
};
// clang-format on

}  // namespace

const GgufType* find_gguf_type(uint32_t id) {
  for (const GgufType& type : kGgufTypes)
    if (type.id == id) return &type;
  return nullptr;
}

namespace {

// Two codes a byte, that of the even k in the low nibble.
Elements<uint8_t> pack_nibbles(const std::vector<int8_t>& codes) {
  std::vector<uint8_t> out(codes.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
  return out;
}

}  // namespace

QuantizedWeight read_gguf_weight(const GgufType& type, std::span<const std::byte> bytes, int64_t n, int64_t k) {
  const auto blocks = static_cast<size_t>(n * (k / type.elements));
  const auto per_block = static_cast<size_t>(type.elements / type.group);
  std::vector<int8_t> codes(blocks * static_cast<size_t>(type.elements));
  std::vector<float> scales(blocks * per_block), offsets(type.has_offsets ? scales.size() : 0);
  for (size_t b = 0; b < blocks; ++b)
    type.read(bytes.data() + b * static_cast<size_t>(type.bytes),
              {codes.data() + b * static_cast<size_t>(type.elements), scales.data() + b * per_block,
               type.has_offsets ? offsets.data() + b * per_block : nullptr});
  QuantizedWeight out;
  const std::vector<int64_t> groups = {n, k / type.group};
  out.format = type.format;
  out.codes = type.format.empty() ? make_tensor(DType::i8, {n, k}, Elements<int8_t>(std::move(codes)))
                                  : make_tensor(DType::u8, {n, k / 2}, pack_nibbles(codes));
  std::vector<std::byte> stored(scales.size() * dtype_bytes(type.scale));
  for (size_t i = 0; i < scales.size(); ++i)
    double_to_element(type.scale, scales[i], stored.data() + i * dtype_bytes(type.scale));
  out.scale = Tensor::from_bytes(type.scale, groups, std::move(stored));
  if (type.has_offsets) out.offset = make_tensor(DType::f32, groups, Elements<float>(std::move(offsets)));
  out.group = type.group;
  out.low = type.low, out.high = type.high;
  return out;
}

}  // namespace qcg

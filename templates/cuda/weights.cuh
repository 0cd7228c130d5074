// Packed weights as operands of mma: the bytes of a lane (codegen/cuda/layout.h) become four registers of 16-bit floats.
//
// Why here: every kernel unpacks with these functions. All of them are exact, by bits: a code is set into the mantissa
// or exponent of a float, and what it is too large by is taken away in the same float.
//
//   unsigned a[4];  unpack_i4<BF16>(a, &word);     // 16 x 16 weights of a warp, 32 bits of each lane
#pragma once

// What x holds decides the product: mma.m16n8k16 of 16-bit floats with sums in f32, or mma.m16n8k32 of bytes with exact sums
// in int32 (weights signed, x signed or not).
struct S8 {
  using Sum = int;
  using Element = unsigned char;
  static constexpr bool kIntegers = true;
  static constexpr unsigned kOne = 0x01010101;
  QCG_DEVICE void mma(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { mma_s8(d, a, b0, b1); }
};
struct U8 {
  using Sum = int;
  using Element = unsigned char;
  static constexpr bool kIntegers = true;
  static constexpr unsigned kOne = 0x01010101;
  QCG_DEVICE void mma(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { mma_u8(d, a, b0, b1); }
};

// 8-bit floats, first those of the weights: mma.m16n8k32 with sums in f32.
#define QCG_FLOAT8(w, x)                                                                       \
  struct w##_##x {                                                                             \
    using Sum = float;                                                                         \
    using Element = unsigned char;                                                             \
    static constexpr bool kIntegers = false;                                                   \
    static constexpr unsigned kOne = 0; /* no scheme of theirs needs sums of x */              \
    QCG_DEVICE void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {     \
      mma_##w##_##x(d, a, b0, b1);                                                             \
    }                                                                                          \
  };
QCG_FLOAT8(e4m3, e4m3)
QCG_FLOAT8(e4m3, e5m2)
QCG_FLOAT8(e5m2, e4m3)
#undef QCG_FLOAT8

// The two 16-bit floats. kMagic is the power of two whose last bit of mantissa counts 1 (7 and 10 bits of mantissa).
struct BF16 {
  using Sum = float;
  using Element = unsigned short;
  static constexpr bool kIntegers = false;
  static constexpr unsigned kOne = 0x3f803f80, kMagic = 0x43004300, kLessMagic = 0xc300c300;
  static constexpr unsigned kLess8 = 0xc308c308;                                   // -(128 + 8)
  static constexpr int kShift8 = 4, kShift4 = 6, kShift5 = 3;                      // codes of e4m3, e2m1, e5m2
  static constexpr unsigned kMask8 = 0x07f007f0, kMask4 = 0x01c001c0, kMask5 = 0x0fe00fe0;
  static constexpr unsigned kFactor8 = 0x7b807b80, kFactor4 = 0x7f007f00, kFactor5 = 0x77807780;  // 2^120 2^127 2^112
  // a * b + c of two pairs; what is computed here is exact.
  QCG_DEVICE unsigned fma(unsigned a, unsigned b, unsigned c) {
    unsigned d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
  }
  QCG_DEVICE void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { mma_bf16(d, a, b0, b1); }
};
struct F16 {
  using Sum = float;
  using Element = unsigned short;
  static constexpr bool kIntegers = false;
  static constexpr unsigned kOne = 0x3c003c00, kMagic = 0x64006400, kLessMagic = 0xe400e400;
  static constexpr unsigned kLess8 = 0xe408e408;                                   // -(1024 + 8)
  static constexpr int kShift8 = 1, kShift4 = 3, kShift5 = 0;
  static constexpr unsigned kMask8 = 0x3f803f80, kMask4 = 0x0e000e00, kMask5 = 0x7f007f00;
  static constexpr unsigned kFactor8 = 0x5c005c00, kFactor4 = 0x78007800, kFactor5 = 0x3c003c00;  // 2^8 2^15 1
  // a * b + c of two pairs; what is computed here is exact.
  QCG_DEVICE unsigned fma(unsigned a, unsigned b, unsigned c) {
    unsigned d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
  }
  QCG_DEVICE void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { mma_f16(d, a, b0, b1); }
};

// (a & mask) | bits as the one instruction it is; the compiler makes two where both are constants.
QCG_DEVICE unsigned and_or(unsigned a, unsigned mask, unsigned bits) {
  unsigned d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(bits));
  return d;
}

template <class H>
QCG_DEVICE void unpack_whole(unsigned (&a)[4], const unsigned* w) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = w[i];
}

// Two's complement: magic + the lower 7 bits, less magic and 128 times the upper one.
template <class H>
QCG_DEVICE void unpack_i8(unsigned (&a)[4], const unsigned* w) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned t = i % 2 ? w[i / 2] >> 8 : w[i / 2];
    a[i] = H::fma(and_or(t, 0x007f007f, H::kMagic), H::kOne, and_or(t, 0x00800080, H::kLessMagic));
  }
}

template <class H>
QCG_DEVICE void unpack_i4(unsigned (&a)[4], const unsigned* w) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = H::fma(and_or(w[0] >> 4 * i, 0x000f000f, H::kMagic), H::kOne, H::kLess8);
}

// Floats: sign, exponent and mantissa are set to their places; a factor moves the exponent's bias, of subnormals too.
template <class H>
QCG_DEVICE unsigned as_float(unsigned t, int shift, unsigned mask, unsigned factor) {
  return H::fma(and_or(t, 0x80008000, (t >> shift) & mask), factor, 0x80008000);
}
template <class H>
QCG_DEVICE void unpack_e4m3(unsigned (&a)[4], const unsigned* w) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = as_float<H>(i % 2 ? w[i / 2] : w[i / 2] << 8, H::kShift8, H::kMask8, H::kFactor8);
}
template <class H>
QCG_DEVICE void unpack_e5m2(unsigned (&a)[4], const unsigned* w) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = as_float<H>(i % 2 ? w[i / 2] : w[i / 2] << 8, H::kShift5, H::kMask5, H::kFactor5);
}
// Twice the e2m1 number (graph/ir/scheme.h).
template <class H>
QCG_DEVICE void unpack_e2m1(unsigned (&a)[4], const unsigned* w) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = as_float<H>(w[0] << (12 - 4 * i), H::kShift4, H::kMask4, H::kFactor4);
}

// 16 times the number: a nibble in two's complement, in the upper half of a byte.
template <class H>
QCG_DEVICE void unpack_s4(unsigned (&a)[4], const unsigned* w) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = (i % 2 ? w[i / 2] : w[i / 2] << 4) & 0xf0f0f0f0;
}

// Twice the e2m1 numbers as bytes. Four nibbles select bytes of a table of positive and of one of negative numbers, their
// sign bits one of the two.
template <class H>
QCG_DEVICE void unpack_e2m1_bytes(unsigned (&a)[4], const unsigned* w) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned codes = i % 2 ? w[i / 2] >> 16 : w[i / 2], magnitudes = codes & 0x7777;
    const unsigned positive = __byte_perm(0x03020100, 0x0c080604, magnitudes);
    const unsigned negative = __byte_perm(0xfdfeff00, 0xf4f8fafc, magnitudes);
    const unsigned signs = __byte_perm(0x0000ff00, 0, codes >> 3 & 0x1111);
    a[i] = (positive & ~signs) | (negative & signs);
  }
}

// Integers minus a zero point, exactly: `zeros` are those of columns g and g + 8, as a lane reads them.
template <class H>
QCG_DEVICE void subtract_zeros(unsigned (&a)[4], unsigned zeros) {
  const unsigned less[2] = {__byte_perm(zeros, 0, 0x1010) ^ 0x80008000, __byte_perm(zeros, 0, 0x3232) ^ 0x80008000};
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = H::fma(a[i], H::kOne, less[i % 2]);
}

// Scales of columns g and g + 8, as a lane reads them.
QCG_DEVICE float2 pair_of(float2 p) { return p; }
QCG_DEVICE float2 pair_of(unsigned p) {  // bf16
  return make_float2(__int_as_float((int)(p << 16)), __int_as_float((int)(p & 0xffff0000u)));
}

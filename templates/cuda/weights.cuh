// Packed weights as operands of mma: the bytes of a lane (codegen/cuda/layout.h) become four registers of 16-bit floats, or
// the two of them that a lane multiplies where a product has 64 lanes.
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
  QCG_DEVICE void mma(int (&d)[4], const unsigned (&a)[W_REGISTERS], unsigned b0, unsigned b1) { mma_s8(d, a, b0, b1); }
};
struct U8 {
  using Sum = int;
  using Element = unsigned char;
  static constexpr bool kIntegers = true;
  static constexpr unsigned kOne = 0x01010101;
  QCG_DEVICE void mma(int (&d)[4], const unsigned (&a)[W_REGISTERS], unsigned b0, unsigned b1) { mma_u8(d, a, b0, b1); }
};

#ifdef QCG_HAS_FLOAT8_PRODUCTS
// 8-bit floats, first those of the weights: mma.m16n8k32 with sums in f32.
#define QCG_FLOAT8(w, x)                                                                       \
  struct w##_##x {                                                                             \
    using Sum = float;                                                                         \
    using Element = unsigned char;                                                             \
    static constexpr bool kIntegers = false;                                                   \
    static constexpr unsigned kOne = 0; /* no scheme of theirs needs sums of x */              \
    QCG_DEVICE void mma(float (&d)[4], const unsigned (&a)[W_REGISTERS], unsigned b0, unsigned b1) {     \
      mma_##w##_##x(d, a, b0, b1);                                                             \
    }                                                                                          \
  };
QCG_FLOAT8(e4m3, e4m3)
QCG_FLOAT8(e4m3, e5m2)
QCG_FLOAT8(e5m2, e4m3)
#undef QCG_FLOAT8
#endif

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
  QCG_DEVICE unsigned fma(unsigned a, unsigned b, unsigned c) { return fma_bf16x2(a, b, c); }
  QCG_DEVICE void mma(float (&d)[4], const unsigned (&a)[W_REGISTERS], unsigned b0, unsigned b1) { mma_bf16(d, a, b0, b1); }
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
  QCG_DEVICE unsigned fma(unsigned a, unsigned b, unsigned c) { return fma_f16x2(a, b, c); }
  QCG_DEVICE void mma(float (&d)[4], const unsigned (&a)[W_REGISTERS], unsigned b0, unsigned b1) { mma_f16(d, a, b0, b1); }
};

// Of the four registers of a packed fragment, the one that becomes register r of R: all, or those of a lane's column half.
template <int R>
QCG_DEVICE int packed_register(int r) {
  return R == 4 ? r : 2 * r + column_half();
}

template <class H, int R>
QCG_DEVICE void unpack_whole(unsigned (&a)[R], const unsigned* w) {
#pragma unroll
  for (int r = 0; r < R; ++r) a[r] = w[packed_register<R>(r)];
}

// Two's complement: magic + the lower 7 bits, less magic and 128 times the upper one.
template <class H, int R>
QCG_DEVICE void unpack_i8(unsigned (&a)[R], const unsigned* w) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = packed_register<R>(r);
    const unsigned t = i % 2 ? w[i / 2] >> 8 : w[i / 2];
    a[r] = H::fma(and_or(t, 0x007f007f, H::kMagic), H::kOne, and_or(t, 0x00800080, H::kLessMagic));
  }
}

template <class H, int R>
QCG_DEVICE void unpack_i4(unsigned (&a)[R], const unsigned* w) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = packed_register<R>(r);
    a[r] = H::fma(and_or(w[0] >> 4 * i, 0x000f000f, H::kMagic), H::kOne, H::kLess8);
  }
}

// Floats: sign, exponent and mantissa are set to their places; a factor moves the exponent's bias, of subnormals too.
template <class H>
QCG_DEVICE unsigned as_float(unsigned t, int shift, unsigned mask, unsigned factor) {
  return H::fma(and_or(t, 0x80008000, (t >> shift) & mask), factor, 0x80008000);
}
template <class H, int R>
QCG_DEVICE void unpack_e4m3(unsigned (&a)[R], const unsigned* w) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = packed_register<R>(r);
    a[r] = as_float<H>(i % 2 ? w[i / 2] : w[i / 2] << 8, H::kShift8, H::kMask8, H::kFactor8);
  }
}
template <class H, int R>
QCG_DEVICE void unpack_e5m2(unsigned (&a)[R], const unsigned* w) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = packed_register<R>(r);
    a[r] = as_float<H>(i % 2 ? w[i / 2] : w[i / 2] << 8, H::kShift5, H::kMask5, H::kFactor5);
  }
}
// Twice the e2m1 number (graph/ir/scheme.h).
template <class H, int R>
QCG_DEVICE void unpack_e2m1(unsigned (&a)[R], const unsigned* w) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = packed_register<R>(r);
    a[r] = as_float<H>(w[0] << (12 - 4 * i), H::kShift4, H::kMask4, H::kFactor4);
  }
}

// 16 times the number: a nibble in two's complement, in the upper half of a byte.
template <class H, int R>
QCG_DEVICE void unpack_s4(unsigned (&a)[R], const unsigned* w) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = packed_register<R>(r);
    a[r] = (i % 2 ? w[i / 2] : w[i / 2] << 4) & 0xf0f0f0f0;
  }
}

// Twice the e2m1 numbers as bytes. Four nibbles select bytes of a table of positive and of one of negative numbers, their
// sign bits one of the two.
template <class H, int R>
QCG_DEVICE void unpack_e2m1_bytes(unsigned (&a)[R], const unsigned* w) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = packed_register<R>(r);
    const unsigned codes = i % 2 ? w[i / 2] >> 16 : w[i / 2], magnitudes = codes & 0x7777;
    const unsigned positive = __byte_perm(0x03020100, 0x0c080604, magnitudes);
    const unsigned negative = __byte_perm(0xfdfeff00, 0xf4f8fafc, magnitudes);
    const unsigned signs = __byte_perm(0x0000ff00, 0, codes >> 3 & 0x1111);
    a[r] = (positive & ~signs) | (negative & signs);
  }
}

// The 16 numbers of NormalFloat4 (graph/ir/scheme.h), each exactly the sum of three 16-bit floats: [part][byte of the
// float][codes 4 i …]. In f16 they are 1024 times themselves, which their scales take back, for the last bits to be numbers.
QCG_DEVICE unsigned nf4_bytes(BF16, int part, int byte, int i) {
  constexpr unsigned kBytes[3][2][4] = {
      {{0xca063280, 0x00ba3d91, 0xad7c24a2, 0x803910e1}, {0xbebfbfbf, 0x00bdbebe, 0x3e3e3e3d, 0x3f3f3f3e}},
      {{0xcad66600, 0x007054a2, 0xce9b4afa, 0x009df5a4}, {0xb9baba00, 0x00b9b9ba, 0x37373a39, 0x0039383a}},
      {{0x80404400, 0x00627c1a, 0x80a063ff, 0x009840b8}, {0xb5b6b600, 0x00b5b5b6, 0x33333635, 0x00353436}}};
  return kBytes[part][byte][i];
}
QCG_DEVICE unsigned nf4_bytes(F16, int part, int byte, int i) {
  constexpr unsigned kBytes[3][2][4] = {
      {{0x51339100, 0x00d3e98d, 0x68e02617, 0x00c8800d}, {0xdee0e1e4, 0x00d5d9dc, 0x5d5b5955, 0x6461605f}},
      {{0xa8986c00, 0x001c4f9a, 0x74dd71bf, 0x00ecabb8}, {0xb0b1b600, 0x00aaada4, 0x2624292a, 0x00342f28}},
      {{0x00000000, 0x00800000, 0x00000080, 0x00000000}, {0x00008400, 0x00808300, 0x00000101, 0x000a0000}}};
  return kBytes[part][byte][i];
}
// Three parts of each register. Four nibbles select bytes of eight numbers and of the eight others, their upper bits one
// of the two.
template <class H, int R>
QCG_DEVICE void unpack_nf4(unsigned (&a)[3][R], const unsigned* w) {
#pragma unroll
  for (int part = 0; part < 3; ++part) {
    unsigned of[2][2];  // bytes of element e of registers 0 to 3
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const unsigned codes = e ? w[0] >> 16 : w[0], index = codes & 0x7777;
      const unsigned upper = __byte_perm(0x0000ff00, 0, codes >> 3 & 0x1111);
#pragma unroll
      for (int b = 0; b < 2; ++b)
        of[e][b] = (__byte_perm(nf4_bytes(H(), part, b, 0), nf4_bytes(H(), part, b, 1), index) & ~upper) |
                   (__byte_perm(nf4_bytes(H(), part, b, 2), nf4_bytes(H(), part, b, 3), index) & upper);
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int i = packed_register<R>(r);
      const unsigned bytes = i | (i + 4) << 4;  // of register i
      a[part][r] = __byte_perm(__byte_perm(of[0][0], of[0][1], bytes), __byte_perm(of[1][0], of[1][1], bytes), 0x5410);
    }
  }
}

// Integers minus a zero point, exactly: `zeros` are those of columns g and g + 8, as a lane reads them.
template <class H, int R>
QCG_DEVICE void subtract_zeros(unsigned (&a)[R], unsigned zeros) {
  const unsigned less[2] = {__byte_perm(zeros, 0, 0x1010) ^ 0x80008000, __byte_perm(zeros, 0, 0x3232) ^ 0x80008000};
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = packed_register<R>(r);
    a[r] = H::fma(a[r], H::kOne, i % 2 ? less[1] : less[0]);
  }
}

// Scales of columns g and g + 8, as a lane reads them.
QCG_DEVICE float2 pair_of(float2 p) { return p; }
QCG_DEVICE float2 pair_of(unsigned p) {  // bf16
  return make_float2(__int_as_float((int)(p << 16)), __int_as_float((int)(p & 0xffff0000u)));
}

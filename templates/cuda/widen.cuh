// Operands of products in f32: elements of x of any float dtype, and weights that 16-bit floats do not hold.
//
// Why here: fma_tile.cu.j2 alone multiplies so; other weights it unpacks as weights.cuh does, and widens those.
//
//   using H = Widened<Stored_f8e4m3>;   H::value(bits)
#pragma once

template <int BYTES>
struct Bits;
template <>
struct Bits<1> {
  using Type = unsigned char;
};
template <>
struct Bits<2> {
  using Type = unsigned short;
};
template <>
struct Bits<4> {
  using Type = unsigned;
};

// Elements of x as gemm_head.j2 reads them, and as numbers.
template <class S>
struct Widened {
  using Sum = float;
  using Stored = S;
  using Element = typename Bits<sizeof(typename S::Type)>::Type;
  static constexpr bool kIntegers = false;
  QCG_DEVICE float value(unsigned bits) {
    return sizeof(Element) == 4 ? __int_as_float((int)bits) : S::read((typename S::Type)bits);
  }
};

// Value 2 i + e is element e of register i (codegen/cuda/layout.h).
QCG_DEVICE void widen_f32(float (&v)[8], const unsigned* w) {
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = __int_as_float((int)w[i]);
}
// The numbers of graph/ir/scheme.h.
QCG_DEVICE void widen_nf4(float (&v)[8], const unsigned* w) {
  constexpr float kNumbers[16] = {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
                                  -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
                                  0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
                                  0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const unsigned code = w[0] >> 4 * (i / 2 + i % 2 * 4) & 15;
    float x = kNumbers[0];
#pragma unroll
    for (int n = 1; n < 16; ++n) x = code == (unsigned)n ? kNumbers[n] : x;
    v[i] = x;
  }
}

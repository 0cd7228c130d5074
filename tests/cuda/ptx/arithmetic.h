// Opcodes on integers and bits: one function each, types as template arguments.
//
// Why here: the translation of `mul.wide.s32 %rd1, %r2, 8` is `mul_wide<s32>(qRrd1, qRr2, 8)`; what is missing here
// does not compile, and the compiler names it with its line of PTX. Registers are unsigned; a type says what the bits
// mean. Source: PTX ISA 9.0, sections 9.7.1, 9.7.6 to 9.7.9.
#pragma once

#include <cstring>
#include <type_traits>

#include "floats.h"
#include "machine.h"

namespace qcg::ptx {

inline Machine* machine;

// ---- types
#define QCG_TYPE(name, raw, value)          \
  struct name {                             \
    using Raw = raw;                        \
    using Value = value;                    \
    static constexpr bool is_float = false; \
  };
// clang-format off
QCG_TYPE(pred, bool, bool)
QCG_TYPE(u8, uint8_t, uint8_t)
QCG_TYPE(s8, uint8_t, int8_t) QCG_TYPE(b8, uint8_t, uint8_t) QCG_TYPE(u16, uint16_t, uint16_t)
    QCG_TYPE(s16, uint16_t, int16_t) QCG_TYPE(b16, uint16_t, uint16_t) QCG_TYPE(u32, uint32_t, uint32_t)
        QCG_TYPE(s32, uint32_t, int32_t) QCG_TYPE(b32, uint32_t, uint32_t) QCG_TYPE(u64, uint64_t, uint64_t)
            QCG_TYPE(s64, uint64_t, int64_t) QCG_TYPE(b64, uint64_t, uint64_t) QCG_TYPE(s4, uint8_t, int8_t)
                QCG_TYPE(u4, uint8_t, uint8_t) QCG_TYPE(b128, unsigned __int128, unsigned __int128)
#undef QCG_TYPE
    // clang-format on

    template <class T>
    constexpr int kBits = sizeof(typename T::Raw) * 8;
template <class T>
using Value = typename T::Value;
template <class T>
using Raw = typename T::Raw;

// A register may be wider than the type: the low bits are the value.
template <class T, class R>
Value<T> get(R r) {
  if constexpr (T::is_float) return T::decode(static_cast<Raw<T>>(r));
  else return static_cast<Value<T>>(static_cast<Raw<T>>(r));
}
// A result is extended to the register, with its sign where it has one.
template <class T, class R>
void set(R& d, Value<T> v) {
  if constexpr (T::is_float) d = static_cast<R>(T::encode(v, Rounding::even));
  else d = static_cast<R>(v);
}

// ---- integers
#define QCG_BINARY(name, expression)               \
  template <class T, class D, class A, class B>    \
  void name(D& d, A a_, B b_) {                    \
    const Value<T> a = get<T>(a_), b = get<T>(b_); \
    set<T>(d, static_cast<Value<T>>(expression));  \
  }
template <class T>
using Wide = std::conditional_t<std::is_signed_v<Value<T>>, __int128, unsigned __int128>;
template <class T>
constexpr Value<T> clamp(Wide<T> x) {
  constexpr Wide<T> low = std::is_signed_v<Value<T>> ? -(Wide<T>(1) << (kBits<T> - 1)) : 0;
  constexpr Wide<T> high = (Wide<T>(1) << (kBits<T> - std::is_signed_v<Value<T>>)) - 1;
  return static_cast<Value<T>>(x < low ? low : x > high ? high : x);
}
template <class T>
Value<T> divide(Value<T> a, Value<T> b) {
  if (b == 0) return static_cast<Value<T>>(~Raw<T>(0));  // unspecified; what the hardware's sequence leaves
  return std::is_signed_v<Value<T>> && b == Value<T>(-1) ? static_cast<Value<T>>(Raw<T>(0) - Raw<T>(a))
                                                         : Value<T>(a / b);
}
// clang-format off
QCG_BINARY(add_int, Raw<T>(a) + Raw<T>(b))
QCG_BINARY(sub_int, Raw<T>(a) - Raw<T>(b))
QCG_BINARY(mul_lo, Wide<T>(a) * b)
QCG_BINARY(mul_hi, Wide<T>(a) * b >> kBits<T>)
QCG_BINARY(min_int, a < b ? a : b)
QCG_BINARY(max_int, a > b ? a : b)
QCG_BINARY(div_int, divide<T>(a, b))
QCG_BINARY(rem, b == 0 ? a : Raw<T>(a) - Raw<T>(divide<T>(a, b)) * Raw<T>(b))
QCG_BINARY(and_, a& b)
QCG_BINARY(or_, a | b)
QCG_BINARY(xor_, a ^ b)
#undef QCG_BINARY
// clang-format on
template <class T, class D, class A, class B>
void add_sat_int(D& d, A a, B b) {
  set<T>(d, clamp<T>(Wide<T>(get<T>(a)) + get<T>(b)));
}
template <class T, class D, class A, class B>
void sub_sat_int(D& d, A a, B b) {
  set<T>(d, clamp<T>(Wide<T>(get<T>(a)) - get<T>(b)));
}

template <class T>
struct Twice;
template <>
struct Twice<u16> {
  using Type = u32;
};
template <>
struct Twice<s16> {
  using Type = s32;
};
template <>
struct Twice<u32> {
  using Type = u64;
};
template <>
struct Twice<s32> {
  using Type = s64;
};
template <class T, class D, class A, class B>
void mul_wide(D& d, A a, B b) {
  using W = typename Twice<T>::Type;
  d = static_cast<D>(Raw<W>(Value<W>(get<T>(a))) * Raw<W>(Value<W>(get<T>(b))));
}
template <class T, class D, class A, class B, class C>
void mad_wide(D& d, A a, B b, C c) {
  using W = typename Twice<T>::Type;
  d = static_cast<D>(Raw<W>(Value<W>(get<T>(a))) * Raw<W>(Value<W>(get<T>(b))) + Raw<W>(c));
}
template <class T, class D, class A, class B, class C>
void mad_lo(D& d, A a, B b, C c) {
  set<T>(d, static_cast<Value<T>>(Wide<T>(get<T>(a)) * get<T>(b) + get<T>(c)));
}
template <class T, class D, class A, class B, class C>
void mad_hi(D& d, A a, B b, C c) {
  set<T>(d, static_cast<Value<T>>((Wide<T>(get<T>(a)) * get<T>(b) >> kBits<T>)+get<T>(c)));
}
template <class T, class D, class A, class B>
void mul24_lo(D& d, A a, B b) {
  const auto low24 = [](Value<T> v) { return Value<T>(Value<T>(Raw<T>(v) << 8) >> 8); };
  set<T>(d, Value<T>(Wide<T>(low24(get<T>(a))) * low24(get<T>(b))));
}
template <class T, class D, class A, class B, class C>
void sad(D& d, A a, B b, C c) {
  const Value<T> x = get<T>(a), y = get<T>(b);
  set<T>(d, Value<T>(Raw<T>(c) + (x < y ? Raw<T>(y) - Raw<T>(x) : Raw<T>(x) - Raw<T>(y))));
}
template <class T, class D, class A>
void neg_int(D& d, A a) {
  set<T>(d, static_cast<Value<T>>(Raw<T>(0) - Raw<T>(a)));
}
template <class T, class D, class A>
void abs_int(D& d, A a) {
  const Value<T> v = get<T>(a);
  set<T>(d, v < 0 ? static_cast<Value<T>>(Raw<T>(0) - Raw<T>(v)) : v);
}

// ---- the carry of add.cc, sub.cc and mad.cc: nothing else runs between two instructions of a chain
inline bool carry;
template <class T, class D>
void set_with_carry(D& d, unsigned __int128 sum) {
  carry = sum >> kBits<T> & 1;
  set<T>(d, static_cast<Value<T>>(static_cast<Raw<T>>(sum)));
}
template <class T, class D, class A, class B>
void add_cc(D& d, A a, B b) {
  set_with_carry<T>(d, (unsigned __int128)Raw<T>(a) + Raw<T>(b));
}
template <class T, class D, class A, class B>
void addc_cc(D& d, A a, B b) {
  set_with_carry<T>(d, (unsigned __int128)Raw<T>(a) + Raw<T>(b) + carry);
}
template <class T, class D, class A, class B>
void addc(D& d, A a, B b) {
  set<T>(d, static_cast<Value<T>>(Raw<T>(Raw<T>(a) + Raw<T>(b) + carry)));
}
template <class T, class D, class A, class B>
void sub_cc(D& d, A a, B b) {
  set_with_carry<T>(d, (unsigned __int128)Raw<T>(a) - Raw<T>(b));
}
template <class T, class D, class A, class B>
void subc_cc(D& d, A a, B b) {
  set_with_carry<T>(d, (unsigned __int128)Raw<T>(a) - Raw<T>(b) - carry);
}
template <class T, class D, class A, class B>
void subc(D& d, A a, B b) {
  set<T>(d, static_cast<Value<T>>(Raw<T>(Raw<T>(a) - Raw<T>(b) - carry)));
}
template <class T>
unsigned __int128 low_product(Raw<T> a, Raw<T> b) {
  return Raw<T>((unsigned __int128)a * b);
}
template <class T>
unsigned __int128 high_product(Raw<T> a, Raw<T> b) {
  return Raw<T>(Wide<T>(get<T>(a)) * get<T>(b) >> kBits<T>);
}
template <class T, class D, class A, class B, class C>
void mad_lo_cc(D& d, A a, B b, C c) {
  set_with_carry<T>(d, low_product<T>(a, b) + Raw<T>(c));
}
template <class T, class D, class A, class B, class C>
void madc_lo_cc(D& d, A a, B b, C c) {
  set_with_carry<T>(d, low_product<T>(a, b) + Raw<T>(c) + carry);
}
template <class T, class D, class A, class B, class C>
void madc_lo(D& d, A a, B b, C c) {
  set<T>(d, static_cast<Value<T>>(Raw<T>(low_product<T>(a, b) + Raw<T>(c) + carry)));
}
template <class T, class D, class A, class B, class C>
void mad_hi_cc(D& d, A a, B b, C c) {
  set_with_carry<T>(d, high_product<T>(a, b) + Raw<T>(c));
}
template <class T, class D, class A, class B, class C>
void madc_hi_cc(D& d, A a, B b, C c) {
  set_with_carry<T>(d, high_product<T>(a, b) + Raw<T>(c) + carry);
}
template <class T, class D, class A, class B, class C>
void madc_hi(D& d, A a, B b, C c) {
  set<T>(d, static_cast<Value<T>>(Raw<T>(high_product<T>(a, b) + Raw<T>(c) + carry)));
}

// ---- bits
template <class T, class D, class A>
void not_(D& d, A a) {
  set<T>(d, static_cast<Value<T>>(static_cast<Raw<T>>(~Raw<T>(a))));
}
template <>
inline void not_<pred>(bool& d, bool a) {
  d = !a;
}
template <class T, class D, class A>
void cnot(D& d, A a) {
  set<T>(d, Raw<T>(a) == 0);
}
template <class T, class D, class A>
void shl(D& d, A a, uint32_t n) {
  set<T>(d, n >= kBits<T> ? Value<T>(0) : static_cast<Value<T>>(Raw<T>(a) << n));
}
template <class T, class D, class A>
void shr(D& d, A a, uint32_t n) {
  if (std::is_signed_v<Value<T>>) set<T>(d, static_cast<Value<T>>(get<T>(a) >> (n >= kBits<T> ? kBits<T> - 1 : n)));
  else set<T>(d, n >= kBits<T> ? Value<T>(0) : static_cast<Value<T>>(Raw<T>(a) >> n));
}
inline uint32_t funnel(uint32_t low, uint32_t high, uint32_t n, bool left) {
  const uint64_t both = uint64_t(high) << 32 | low;
  return left ? uint32_t(both << n >> 32) : uint32_t(both >> n);
}
template <class T>
void shf_l_wrap(uint32_t& d, uint32_t a, uint32_t b, uint32_t n) {
  d = funnel(a, b, n & 31, true);
}
template <class T>
void shf_r_wrap(uint32_t& d, uint32_t a, uint32_t b, uint32_t n) {
  d = funnel(a, b, n & 31, false);
}
template <class T>
void shf_l_clamp(uint32_t& d, uint32_t a, uint32_t b, uint32_t n) {
  d = n >= 32 ? a : funnel(a, b, n, true);
}
template <class T>
void shf_r_clamp(uint32_t& d, uint32_t a, uint32_t b, uint32_t n) {
  d = n >= 32 ? b : funnel(a, b, n, false);
}
template <class T, class D, class A>
void bfe(D& d, A a, uint32_t at, uint32_t length) {
  at &= 255, length &= 255;
  const bool is_signed = std::is_signed_v<Value<T>>;
  Raw<T> out = 0;
  const uint32_t last = at + length - 1 < uint32_t(kBits<T> - 1) ? at + length - 1 : uint32_t(kBits<T> - 1);
  const bool sign = is_signed && length && (Raw<T>(a) >> last & 1);
  for (uint32_t i = 0; i < uint32_t(kBits<T>); ++i)
    if (i < length && at + i < uint32_t(kBits<T>) ? Raw<T>(a) >> (at + i) & 1 : sign) out |= Raw<T>(1) << i;
  set<T>(d, static_cast<Value<T>>(out));
}
template <class T, class D, class A, class B>
void bfi(D& d, A a, B b, uint32_t at, uint32_t length) {
  at &= 255, length &= 255;
  Raw<T> out = Raw<T>(b);
  for (uint32_t i = 0; i < length && at + i < uint32_t(kBits<T>); ++i)
    out = (out & ~(Raw<T>(1) << (at + i))) | (Raw<T>(a) >> i & 1) << (at + i);
  d = static_cast<D>(out);
}
template <class T, class D, class A>
void popc(D& d, A a) {
  d = static_cast<D>(__builtin_popcountll(Raw<T>(a)));
}
template <class T, class D, class A>
void clz(D& d, A a) {
  d = static_cast<D>(Raw<T>(a) == 0 ? kBits<T> : __builtin_clzll(Raw<T>(a)) - (64 - kBits<T>));
}
template <class T, class D, class A>
void brev(D& d, A a) {
  Raw<T> out = 0;
  for (int i = 0; i < kBits<T>; ++i) out |= (Raw<T>(a) >> i & 1) << (kBits<T> - 1 - i);
  d = out;
}
template <class T, class D, class A>
void bfind(D& d, A a_) {
  Raw<T> a = Raw<T>(a_);
  if (std::is_signed_v<Value<T>> && get<T>(a) < 0) a = ~a;
  d = static_cast<D>(a == 0 ? ~0u : 63 - __builtin_clzll(a));
}
template <class T, class D, class A>
void bfind_shiftamt(D& d, A a) {
  uint32_t at;
  bfind<T>(at, a);
  d = at == ~0u ? at : kBits<T> - 1 - at;
}
template <class T>
void lop3(uint32_t& d, uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t out = 0;
  for (int i = 0; i < 8; ++i)
    if (table >> i & 1) out |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  d = out;
}
inline uint32_t byte_of(uint64_t both, uint32_t selector) {
  const uint32_t byte = both >> (8 * (selector & 7)) & 255;
  return selector & 8 ? (byte & 128 ? 255 : 0) : byte;
}
template <class T>
void prmt(uint32_t& d, uint32_t a, uint32_t b, uint32_t selectors) {
  const uint64_t both = uint64_t(b) << 32 | a;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out |= byte_of(both, selectors >> (4 * i) & 15) << (8 * i);
  d = out;
}
// dp4a.u32.s32: four bytes each, signed as the types say.
template <class A, class B, class D>
void dp4a(D& d, uint32_t a, uint32_t b, uint32_t c) {
  using ByteA = std::conditional_t<std::is_signed_v<Value<A>>, s8, u8>;
  using ByteB = std::conditional_t<std::is_signed_v<Value<B>>, s8, u8>;
  for (int i = 0; i < 4; ++i) c += uint32_t(int32_t(get<ByteA>(a >> 8 * i)) * int32_t(get<ByteB>(b >> 8 * i)));
  d = c;
}

// ---- moves
template <class T, class D, class A>
void mov(D& d, A a) {
  d = static_cast<D>(a);
}
template <class T>
void mov(uint64_t& d, uint32_t a, uint32_t b) {
  d = uint64_t(b) << 32 | a;
}
template <class T>
void mov(uint32_t& a, uint32_t& b, uint64_t s) {
  a = uint32_t(s), b = uint32_t(s >> 32);
}
template <class T>
void mov(uint32_t& d, uint16_t a, uint16_t b) {
  d = uint32_t(b) << 16 | a;
}
template <class T>
void mov(uint16_t& a, uint16_t& b, uint32_t s) {
  a = uint16_t(s), b = uint16_t(s >> 16);
}
template <class T>
void mov(uint16_t& d, uint8_t a, uint8_t b) {
  d = uint16_t(b << 8 | a);
}
template <class T>
void mov(uint8_t& a, uint8_t& b, uint16_t s) {
  a = uint8_t(s), b = uint8_t(s >> 8);
}
template <class T>
void mov(uint32_t& d, uint8_t a, uint8_t b, uint8_t c, uint8_t e) {
  d = uint32_t(e) << 24 | uint32_t(c) << 16 | uint32_t(b) << 8 | a;
}
template <class T>
void mov(uint8_t& a, uint8_t& b, uint8_t& c, uint8_t& e, uint32_t s) {
  a = uint8_t(s), b = uint8_t(s >> 8), c = uint8_t(s >> 16), e = uint8_t(s >> 24);
}
template <class T>
void mov(uint64_t& d, uint16_t a, uint16_t b, uint16_t c, uint16_t e) {
  d = uint64_t(e) << 48 | uint64_t(c) << 32 | uint64_t(b) << 16 | a;
}
template <class T>
void mov(uint16_t& a, uint16_t& b, uint16_t& c, uint16_t& e, uint64_t s) {
  a = uint16_t(s), b = uint16_t(s >> 16), c = uint16_t(s >> 32), e = uint16_t(s >> 48);
}
template <class T, class D, class A, class B>
void selp(D& d, A a, B b, bool p) {
  d = p ? static_cast<D>(a) : static_cast<D>(b);
}
template <class T, class S, class D, class A, class B, class C>
void slct(D& d, A a, B b, C c) {
  d = get<S>(c) >= 0 ? static_cast<D>(a) : static_cast<D>(b);
}

// ---- state spaces
template <class T, class D, class A>
void cvta_to_global(D& d, A a) {
  d = a;
}
template <class T, class D, class A>
void cvta_global(D& d, A a) {
  d = a;
}
template <class T, class D, class A>
void cvta_to_const(D& d, A a) {
  d = a;
}
template <class T, class D, class A>
void cvta_const(D& d, A a) {
  d = a;
}
template <class T, class D, class A>
void cvta_shared(D& d, A a) {
  d = kSharedWindow + a;
}
template <class T, class D, class A>
void cvta_to_shared(D& d, A a) {
  d = static_cast<D>(a - kSharedWindow);
}
template <class T, class D, class A>
void cvta_local(D& d, A a) {
  d = kLocalWindow + a;
}
template <class T, class D, class A>
void cvta_to_local(D& d, A a) {
  d = static_cast<D>(a - kLocalWindow);
}
template <class T, class D, class A>
void cvta_param(D& d, A a) {
  d = a;
}  // a name of a parameter is its generic address already
template <class T, class D, class A>
void cvta_to_param(D& d, A a) {
  d = a;
}
inline bool is_within(uint64_t a, uint64_t window) { return a >= window && a < window + (1ull << 32); }
template <class...>
void isspacep_shared(bool& p, uint64_t a) {
  p = is_within(a, kSharedWindow);
}
template <class...>
void isspacep_local(bool& p, uint64_t a) {
  p = is_within(a, kLocalWindow);
}
template <class...>
void isspacep_global(bool& p, uint64_t a) {
  p = !is_within(a, kSharedWindow) && !is_within(a, kLocalWindow);
}
template <class T, class D, class A>
void mapa_shared_cluster(D& d, A a, uint32_t rank) {
  if (rank != 0) machine->unsupported("a cluster of more than one CTA");
  d = a;
}

}  // namespace qcg::ptx

// What every GEMM kernel does the same way on every ISA: packing activations, broadcasting operands, f32 dot products.
//
// Why here: gemm_<isa>.h adds what that ISA does in its own instructions; the template sees one set of names:
//
//   <compute>_zero()  <compute>_broadcast(x)  <compute>_dot(acc, w, x)      fma, madd16, maddubs, vnni, bf16dot
//   <compute>_weight_<layout kind><U>(p)    unit U of the weight step at p, one vector of columns; 4-bit and fp8 kinds: quant/
//   pack_<element>_<dtype>(dst, x, n)       n activations to the element type of a compute: f32, bf16, s8, s16
//   all_zero(x)                             whether every lane is 0 or -0
//
// A *unit* is what one dot instruction consumes per column: 1 k (fma), 2 (madd16, bf16dot), 4 (maddubs, vnni); always 4 bytes of
// packed activations, so one broadcast serves them all. A dot of several units (maddubs) takes <compute>_units{first, …} of both.
#pragma once

typedef uint32_t __attribute__((may_alias, aligned(4))) qcg_unit;

template <class T>
QCG_INLINE void pack_convert(float* dst, const T* x, int64_t n, vf (*load)(const T*), vf (*load_n)(const T*, int)) {
  int64_t i = 0;
  for (; i + VL <= n; i += VL) v_store_f32(dst + i, load(x + i));
  if (i < n) v_store_f32_n(dst + i, load_n(x + i, (int)(n - i)), (int)(n - i));
}
QCG_INLINE void pack_f32_f32(float* dst, const float* x, int64_t n) { __builtin_memcpy(dst, x, (unsigned long)n * 4); }
QCG_INLINE void pack_f32_bf16(float* dst, const qcg_bf16* x, int64_t n) {
  pack_convert<qcg_bf16>(dst, x, n, v_load_bf16, v_load_bf16_n);
}
QCG_INLINE void pack_f32_f16(float* dst, const qcg_f16* x, int64_t n) {
  pack_convert<qcg_f16>(dst, x, n, v_load_f16, v_load_f16_n);
}
QCG_INLINE void pack_bf16_bf16(qcg_bf16* dst, const qcg_bf16* x, int64_t n) {
  __builtin_memcpy(dst, x, (unsigned long)n * 2);
}
QCG_INLINE void pack_s8_i8(int8_t* dst, const int8_t* x, int64_t n) { __builtin_memcpy(dst, x, (unsigned long)n); }
QCG_INLINE void pack_s8_u8(int8_t* dst, const uint8_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = (int8_t)(x[i] ^ 0x80);
}
QCG_INLINE void pack_s16_i8(int16_t* dst, const int8_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = x[i];
}
QCG_INLINE void pack_s16_u8(int16_t* dst, const uint8_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = (int16_t)(x[i] - 128);
}
QCG_INLINE qcg_unit pack_pair(qcg_bf16 low, qcg_bf16 high) { return (qcg_unit)low | (qcg_unit)high << 16; }
template <class T>
QCG_INLINE int32_t sum_elements(const T* x, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}
QCG_INLINE float sum_lanes(vf x) {
  float lanes[VL], sum = 0;
  v_store_f32(lanes, x);
  for (int i = 0; i < VL; ++i) sum += lanes[i];
  return sum;
}
QCG_INLINE float sum_elements(const float* x, int64_t n) {
  vf sum = v_zero();
  int64_t i = 0;
  for (; i + VL <= n; i += VL) sum = v_add(sum, v_load_f32(x + i));
  return sum_lanes(i < n ? v_add(sum, v_load_f32_n(x + i, (int)(n - i))) : sum);
}
QCG_INLINE float sum_elements(const qcg_bf16* x, int64_t n) {
  vf sum = v_zero();
  int64_t i = 0;
  for (; i + VL <= n; i += VL) sum = v_add(sum, v_load_bf16(x + i));
  return sum_lanes(i < n ? v_add(sum, v_load_bf16_n(x + i, (int)(n - i))) : sum);
}

// What a group adds to its sums, per row: see x_sums in gemm.cpp.j2.
QCG_INLINE qcg_unit unit_of(float x) {
  qcg_unit bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
QCG_INLINE float unit_float(qcg_unit x) {
  float value;
  __builtin_memcpy(&value, &x, 4);
  return value;
}
QCG_INLINE qcg_unit pack_words(int32_t low, int32_t high) { return ((qcg_unit)low & 0xffff) | (qcg_unit)high << 16; }

// Column and scalar operands: one element to every lane.
QCG_INLINE vf splat(vf x) {
  float lanes[VL];
  v_store_f32(lanes, x);
  return v_set1(lanes[0]);
}

QCG_INLINE vf fma_zero() { return v_zero(); }
QCG_INLINE vf fma_add(vf a, vf b) { return v_add(a, b); }
QCG_INLINE vf fma_broadcast(const qcg_unit* x) { return v_set1(*(const float __attribute__((may_alias))*)x); }
QCG_INLINE vf fma_dot(vf acc, vf w, vf x) { return v_fma(w, x, acc); }
QCG_INLINE vf fma_load(const void* p) { return v_load_f32((const float*)p); }
QCG_INLINE void fma_store(void* p, vf acc) { v_store_f32((float*)p, acc); }

QCG_INLINE vi dword_load(const uint8_t* p) { return vi_load((const int32_t*)p); }
template <int U>
QCG_INLINE vf fma_weight_f32(const uint8_t* p) { return v_load_f32((const float*)p); }
template <int U>
QCG_INLINE vf fma_weight_f16(const uint8_t* p) { return v_load_f16((const qcg_f16*)p); }
template <int U>
QCG_INLINE vf fma_weight_i8(const uint8_t* p) { return v_load_i8((const int8_t*)p); }
// Two bf16 of one column in a dword: the even k is its low half.
template <int U>
QCG_INLINE vf fma_weight_bf16x2(const uint8_t* p) {
  return v_from_bits(U == 0 ? vi_shl(dword_load(p), 16) : vi_and(dword_load(p), vi_set1((int32_t)0xffff0000)));
}

// Integer accumulators (madd16, maddubs, vnni) are int32 whatever the instruction.
QCG_INLINE vi int_zero() { return vi_set1(0); }
QCG_INLINE vi int_load(const void* p) { return vi_load((const int32_t*)p); }
QCG_INLINE void int_store(void* p, vi acc) { vi_store((int32_t*)p, acc); }

// Opcodes that read and write memory, exchange words in a warp, multiply matrices, wait and copy.
//
// Why here: as arithmetic.h; each hands its operands to the Machine. Source: PTX ISA 9.0, sections 9.7.9 and 9.7.13
// to 9.7.16.
#pragma once

#include "float_ops.h"

namespace qcg::ptx {

// ---- ld, st
template <class T, class D>
void put(D& d, Raw<T> r) {
  if constexpr (T::is_float || Packed<T>) d = static_cast<D>(r);
  else d = static_cast<D>(static_cast<Value<T>>(r));
}
template <class T, class... D>
void load_all(Space space, uint64_t address, D&... d) {
  Raw<T> raw[sizeof...(D)];
  machine->load(space, address, raw, sizeof raw);
  int i = 0;
  (put<T>(d, raw[i++]), ...);
}
template <class T, class... A>
void store_all(Space space, uint64_t address, A... a) {
  const Raw<T> raw[] = {static_cast<Raw<T>>(a)...};
  machine->store(space, address, raw, sizeof raw);
}
#define QCG_MEMORY(name, space)                            \
  template <class T, class A>                              \
  void ld##name(A& a, uint64_t p) {                        \
    load_all<T>(space, p, a);                              \
  }                                                        \
  template <class T, class A, class B>                     \
  void ld##name##_v2(A& a, B& b, uint64_t p) {             \
    load_all<T>(space, p, a, b);                           \
  }                                                        \
  template <class T, class A>                              \
  void ld##name##_v4(A& a, A& b, A& c, A& d, uint64_t p) { \
    load_all<T>(space, p, a, b, c, d);                     \
  }                                                        \
  template <class T, class A>                              \
  void st##name(uint64_t p, A a) {                         \
    store_all<T>(space, p, a);                             \
  }                                                        \
  template <class T, class A, class B>                     \
  void st##name##_v2(uint64_t p, A a, B b) {               \
    store_all<T>(space, p, a, b);                          \
  }                                                        \
  template <class T, class A, class B, class C, class D>   \
  void st##name##_v4(uint64_t p, A a, B b, C c, D d) {     \
    store_all<T>(space, p, a, b, c, d);                    \
  }
// clang-format off
QCG_MEMORY(, Space::generic)
QCG_MEMORY(_global, Space::global)
QCG_MEMORY(_shared, Space::shared)
QCG_MEMORY(_local, Space::local)
QCG_MEMORY(_const, Space::constant)
QCG_MEMORY(_param, Space::param)
#undef QCG_MEMORY
// clang-format on

// ---- atom, red: threads take turns, so that reading and writing in place is one step
#define QCG_ATOMIC(op, expression)                                                     \
  template <class T>                                                                   \
  Raw<T> atomic_##op(Space space, uint64_t p, Raw<T> b_) {                             \
    auto* at = static_cast<unsigned char*>(machine->atomic(space, p, sizeof(Raw<T>))); \
    Raw<T> old;                                                                        \
    std::memcpy(&old, at, sizeof old);                                                 \
    Raw<T> fresh;                                                                      \
    [[maybe_unused]] const Raw<T> a = old, b = b_;                                     \
    expression;                                                                        \
    std::memcpy(at, &fresh, sizeof fresh);                                             \
    return old;                                                                        \
  }
// clang-format off
QCG_ATOMIC(add, add<T>(fresh, a, b))
QCG_ATOMIC(min, min<T>(fresh, a, b))
QCG_ATOMIC(max, max<T>(fresh, a, b))
QCG_ATOMIC(and, fresh = a & b)
QCG_ATOMIC(or, fresh = a | b)
QCG_ATOMIC(xor, fresh = a ^ b)
QCG_ATOMIC(exch, fresh = b)
QCG_ATOMIC(inc, fresh = a >= b ? 0 : a + 1)
QCG_ATOMIC(dec, fresh = a == 0 || a > b ? b : a - 1)
#undef QCG_ATOMIC
// clang-format on
template <class T>
Raw<T> atomic_cas(Space space, uint64_t p, Raw<T> expected, Raw<T> desired) {
  auto* at = static_cast<unsigned char*>(machine->atomic(space, p, sizeof(Raw<T>)));
  Raw<T> old;
  std::memcpy(&old, at, sizeof old);
  if (old == expected) std::memcpy(at, &desired, sizeof desired);
  return old;
}
#define QCG_ATOM(op, name, space)                                \
  template <class T, class D, class B>                           \
  void atom##name##_##op(D& d, uint64_t p, B b) {                \
    put<T>(d, atomic_##op<T>(space, p, static_cast<Raw<T>>(b))); \
  }                                                              \
  template <class T, class B>                                    \
  void red##name##_##op(uint64_t p, B b) {                       \
    atomic_##op<T>(space, p, static_cast<Raw<T>>(b));            \
  }
// clang-format off
#define QCG_ATOMS(name, space)                                                                               \
  QCG_ATOM(add, name, space)                                                                                 \
  QCG_ATOM(min, name, space) QCG_ATOM(max, name, space) QCG_ATOM(and, name, space) QCG_ATOM(or, name, space) \
      QCG_ATOM(xor, name, space) QCG_ATOM(exch, name, space) QCG_ATOM(inc, name, space)                      \
          QCG_ATOM(dec, name, space) template <class T, class D, class B, class C>                           \
          void atom##name##_cas(D& d, uint64_t p, B b, C c) {                                                \
    put<T>(d, atomic_cas<T>(space, p, static_cast<Raw<T>>(b), static_cast<Raw<T>>(c)));                      \
  }
QCG_ATOMS(, Space::generic)
QCG_ATOMS(_global, Space::global)
QCG_ATOMS(_shared, Space::shared)
#undef QCG_ATOMS
#undef QCG_ATOM
// clang-format on

// ---- a warp: lanes meet, the last one computes for all
template <class F>
void exchange(const char* what, uint32_t mask, const uint64_t (&in)[3], uint64_t (&out)[2], F&& all) {
  machine->meet(
      what, mask, in, out,
      [](Lanes& lanes, void* f) {
        for (int lane = 0; lane < 32; ++lane)
          if (lanes.mask >> lane & 1) (*static_cast<std::remove_reference_t<F>*>(f))(lanes, lane);
      },
      &all);
}
// Source lane and whether it is within the segment; PTX ISA, shfl.sync.
template <class Source>
void shuffle(const char* what, uint32_t& d, bool& p, uint32_t a, uint32_t b, uint32_t c, uint32_t mask,
             Source&& source) {
  uint64_t out[2];
  exchange(what, mask, {a, b, c}, out, [&](Lanes& l, int lane) {
    const int segment = l.in[lane][2] >> 8 & 31, top = l.in[lane][2] & 31;
    const int max = (lane & segment) | (top & ~segment), min = lane & segment;
    bool inside = true;
    int from = source(lane, int(l.in[lane][1] & 31), min, max, segment, inside);
    if (!inside) from = lane;
    if (!(l.mask >> from & 1)) machine->unsupported("shfl.sync from a lane that is not in the mask");
    l.out[lane][0] = l.in[from][0], l.out[lane][1] = inside;
  });
  d = uint32_t(out[0]), p = out[1];
}
#define QCG_SHUFFLE(mode, compute)                                                                 \
  template <class T>                                                                               \
  void shfl_sync_##mode(uint32_t& d, bool& p, uint32_t a, uint32_t b, uint32_t c, uint32_t mask) { \
    shuffle("shfl.sync." #mode, d, p, a, b, c, mask,                                               \
            [](int lane, int n, int min, int max, int segment, bool& inside) {                     \
              (void)min, (void)max, (void)segment;                                                 \
              compute;                                                                             \
            });                                                                                    \
  }                                                                                                \
  template <class T>                                                                               \
  void shfl_sync_##mode(uint32_t& d, uint32_t a, uint32_t b, uint32_t c, uint32_t mask) {          \
    bool p;                                                                                        \
    shfl_sync_##mode<T>(d, p, a, b, c, mask);                                                      \
  }
// clang-format off
QCG_SHUFFLE(up, const int j = lane - n; inside = j >= max; return j)
QCG_SHUFFLE(down, const int j = lane + n; inside = j <= max; return j)
QCG_SHUFFLE(bfly, const int j = lane ^ n; inside = j <= max; return j)
QCG_SHUFFLE(idx, const int j = min | (n & ~segment); inside = j <= max; return j)
#undef QCG_SHUFFLE
// clang-format on

// All lanes get the same two words of what all gave.
template <class F>
uint64_t reduce(const char* what, uint64_t value, uint32_t mask, F&& all) {
  uint64_t out[2];
  exchange(what, mask, {value}, out, [&](Lanes& l, int lane) { l.out[lane][0] = all(l, lane); });
  return out[0];
}
inline uint32_t ballot(const Lanes& l) {
  uint32_t out = 0;
  for (int i = 0; i < 32; ++i) out |= uint32_t((l.mask >> i & 1) && l.in[i][0]) << i;
  return out;
}
template <class T>
void vote_sync_ballot(uint32_t& d, bool p, uint32_t mask) {
  d = uint32_t(reduce("vote.sync.ballot", p, mask, [](Lanes& l, int) { return ballot(l); }));
}
template <class T>
void vote_sync_all(bool& d, bool p, uint32_t mask) {
  d = reduce("vote.sync.all", p, mask, [](Lanes& l, int) { return ballot(l) == l.mask; });
}
template <class T>
void vote_sync_any(bool& d, bool p, uint32_t mask) {
  d = reduce("vote.sync.any", p, mask, [](Lanes& l, int) { return ballot(l) != 0; });
}
template <class T>
void vote_sync_uni(bool& d, bool p, uint32_t mask) {
  d = reduce("vote.sync.uni", p, mask, [](Lanes& l, int) { return ballot(l) == l.mask || ballot(l) == 0; });
}
template <class T, class A>
void match_any_sync(uint32_t& d, A a, uint32_t mask) {
  d = uint32_t(reduce("match.any.sync", Raw<T>(a), mask, [](Lanes& l, int lane) {
    uint32_t same = 0;
    for (int i = 0; i < 32; ++i) same |= uint32_t((l.mask >> i & 1) && l.in[i][0] == l.in[lane][0]) << i;
    return same;
  }));
}
template <class T, class A>
void match_all_sync(uint32_t& d, bool& p, A a, uint32_t mask) {
  match_any_sync<T>(d, a, mask);
  p = d == mask;
  if (!p) d = 0;
}
#define QCG_REDUX(op, expression)                                                       \
  template <class T, class D, class A>                                                  \
  void redux_sync_##op(D& d, A value, uint32_t mask) {                                  \
    put<T>(d, Raw<T>(reduce("redux.sync." #op, Raw<T>(value), mask, [](Lanes& l, int) { \
             Raw<T> r = 0;                                                              \
             bool first = true;                                                         \
             for (int i = 0; i < 32; ++i) {                                             \
               if (!(l.mask >> i & 1)) continue;                                        \
               const Raw<T> a = r, b = Raw<T>(l.in[i][0]);                              \
               if (first) r = b;                                                        \
               else expression;                                                         \
               first = false;                                                           \
             }                                                                          \
             return r;                                                                  \
           })));                                                                        \
  }
// clang-format off
QCG_REDUX(add, r = a + b)
QCG_REDUX(and, r = a & b) QCG_REDUX(or, r = a | b) QCG_REDUX(xor, r = a ^ b) QCG_REDUX(min, min<T>(r, a, b))
    QCG_REDUX(max, max<T>(r, a, b))
#undef QCG_REDUX
    // clang-format on
    template <class T>
    void activemask(uint32_t& d) {
  d = machine->active_mask();
}
template <class...>
void elect_sync(uint32_t& d, bool& p, uint32_t mask) {
  d = uint32_t(reduce("elect.sync", 0, mask, [](Lanes& l, int) { return __builtin_ctz(l.mask); }));
  p = d == machine->thread->lane;
}
template <class...>
void bar_warp_sync(uint32_t mask) {
  reduce("bar.warp.sync", 0, mask, [](Lanes&, int) { return 0; });
}

// ---- matrices
template <class T>
constexpr Element element_of() {
  if constexpr (std::is_same_v<T, f32>) return Element::f32;
  else if constexpr (std::is_same_v<T, f16>) return Element::f16;
  else if constexpr (std::is_same_v<T, bf16>) return Element::bf16;
  else if constexpr (std::is_same_v<T, tf32>) return Element::tf32;
  else if constexpr (std::is_same_v<T, e4m3>) return Element::e4m3;
  else if constexpr (std::is_same_v<T, e5m2>) return Element::e5m2;
  else if constexpr (std::is_same_v<T, s32>) return Element::s32;
  else if constexpr (std::is_same_v<T, s8>) return Element::s8;
  else if constexpr (std::is_same_v<T, u8>) return Element::u8;
  else if constexpr (std::is_same_v<T, s4>) return Element::s4;
  else if constexpr (std::is_same_v<T, u4>) return Element::u4;
  else static_assert(sizeof(T) == 0, "no matrix product has this element");
}
template <class R>
void assign(R& r, uint32_t v) {
  if constexpr (!std::is_const_v<R>) r = static_cast<R>(v);
}
// d, a, b, c in the order of the instruction, registers of 32 bits.
template <int M, int N, int K, bool Sat, class D, class A, class B, class C, class... R>
void mma_any(R&&... r) {
  static_assert(std::is_same_v<C, D>, "accumulators of two types");
  constexpr MmaShape shape{M, N, K, element_of<D>(), element_of<A>(), element_of<B>(), Sat};
  constexpr int d = M * N * element_bits(shape.d) / 1024, a = M * K * element_bits(shape.a) / 1024,
                b = K * N * element_bits(shape.b) / 1024;
  static_assert(sizeof...(R) == 2 * d + a + b, "another number of registers than the shape has");
  uint32_t words[] = {static_cast<uint32_t>(r)...};
  machine->mma(shape, words);
  int i = 0;
  ((i < d ? assign(r, words[i]) : void(), ++i), ...);
}
#define QCG_MMA(M, N, K)                                         \
  template <class D, class A, class B, class C, class... R>      \
  void mma_sync_m##M##n##N##k##K##_row_col(R&&... r) {           \
    mma_any<M, N, K, false, D, A, B, C>(r...);                   \
  }                                                              \
  template <class D, class A, class B, class C, class... R>      \
  void mma_sync_m##M##n##N##k##K##_row_col_satfinite(R&&... r) { \
    mma_any<M, N, K, true, D, A, B, C>(r...);                    \
  }
// clang-format off
QCG_MMA(16, 8, 4)
QCG_MMA(16, 8, 8) QCG_MMA(16, 8, 16) QCG_MMA(16, 8, 32) QCG_MMA(16, 8, 64)
#undef QCG_MMA
    // clang-format on

    template <int N, bool Transposed, class... R>
    void ldmatrix_any(uint64_t p, R&... r) {
  uint32_t words[N];
  machine->ldmatrix(N, Transposed, uint32_t(p >= kSharedWindow ? p - kSharedWindow : p), words);
  int i = 0;
  ((r = words[i++]), ...);
}
template <int N, bool Transposed, class... R>
void stmatrix_any(uint64_t p, R... r) {
  const uint32_t words[] = {r...};
  machine->stmatrix(N, Transposed, uint32_t(p >= kSharedWindow ? p - kSharedWindow : p), words);
}
#define QCG_MATRIX(shared)                                                                                   \
  template <class T>                                                                                         \
  void ldmatrix_sync_m8n8_x1##shared(uint32_t& a, uint64_t p) {                                              \
    ldmatrix_any<1, false>(p, a);                                                                            \
  }                                                                                                          \
  template <class T>                                                                                         \
  void ldmatrix_sync_m8n8_x2##shared(uint32_t& a, uint32_t& b, uint64_t p) {                                 \
    ldmatrix_any<2, false>(p, a, b);                                                                         \
  }                                                                                                          \
  template <class T>                                                                                         \
  void ldmatrix_sync_m8n8_x4##shared(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d, uint64_t p) {       \
    ldmatrix_any<4, false>(p, a, b, c, d);                                                                   \
  }                                                                                                          \
  template <class T>                                                                                         \
  void ldmatrix_sync_m8n8_x1_trans##shared(uint32_t& a, uint64_t p) {                                        \
    ldmatrix_any<1, true>(p, a);                                                                             \
  }                                                                                                          \
  template <class T>                                                                                         \
  void ldmatrix_sync_m8n8_x2_trans##shared(uint32_t& a, uint32_t& b, uint64_t p) {                           \
    ldmatrix_any<2, true>(p, a, b);                                                                          \
  }                                                                                                          \
  template <class T>                                                                                         \
  void ldmatrix_sync_m8n8_x4_trans##shared(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d, uint64_t p) { \
    ldmatrix_any<4, true>(p, a, b, c, d);                                                                    \
  }                                                                                                          \
  template <class T>                                                                                         \
  void stmatrix_sync_m8n8_x1##shared(uint64_t p, uint32_t a) {                                               \
    stmatrix_any<1, false>(p, a);                                                                            \
  }                                                                                                          \
  template <class T>                                                                                         \
  void stmatrix_sync_m8n8_x2##shared(uint64_t p, uint32_t a, uint32_t b) {                                   \
    stmatrix_any<2, false>(p, a, b);                                                                         \
  }                                                                                                          \
  template <class T>                                                                                         \
  void stmatrix_sync_m8n8_x4##shared(uint64_t p, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {           \
    stmatrix_any<4, false>(p, a, b, c, d);                                                                   \
  }                                                                                                          \
  template <class T>                                                                                         \
  void stmatrix_sync_m8n8_x1_trans##shared(uint64_t p, uint32_t a) {                                         \
    stmatrix_any<1, true>(p, a);                                                                             \
  }                                                                                                          \
  template <class T>                                                                                         \
  void stmatrix_sync_m8n8_x2_trans##shared(uint64_t p, uint32_t a, uint32_t b) {                             \
    stmatrix_any<2, true>(p, a, b);                                                                          \
  }                                                                                                          \
  template <class T>                                                                                         \
  void stmatrix_sync_m8n8_x4_trans##shared(uint64_t p, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {     \
    stmatrix_any<4, true>(p, a, b, c, d);                                                                    \
  }
// clang-format off
QCG_MATRIX()
QCG_MATRIX(_shared)
#undef QCG_MATRIX
// clang-format on
template <class T>
void movmatrix_sync_m8n8_trans(uint32_t& d, uint32_t a) {
  uint64_t out[2];
  exchange("movmatrix", ~0u, {a}, out, [](Lanes& l, int lane) {
    auto element = [&](int row, int column) { return l.in[row * 4 + column / 2][0] >> (column % 2 * 16) & 0xffff; };
    l.out[lane][0] = element(lane % 4 * 2, lane / 4) | element(lane % 4 * 2 + 1, lane / 4) << 16;
  });
  d = uint32_t(out[0]);
}

// ---- barriers and fences
template <class...>
void bar_sync(uint32_t id) {
  machine->barrier(id, 0, true);
}
template <class...>
void bar_sync(uint32_t id, uint32_t threads) {
  machine->barrier(id, threads, true);
}
template <class...>
void bar_arrive(uint32_t id, uint32_t threads) {
  machine->barrier(id, threads, false);
}
template <class T>
void bar_red_popc(uint32_t& d, uint32_t id, bool p) {
  d = machine->barrier_reduce(id, 0, p);
}
template <class T>
void bar_red_and(bool& d, uint32_t id, bool p) {
  d = machine->barrier_reduce(id, 0, !p) == 0;
}
template <class T>
void bar_red_or(bool& d, uint32_t id, bool p) {
  d = machine->barrier_reduce(id, 0, p) != 0;
}
template <class...>
void membar_cta() {}
template <class...>
void membar_gl() {}
template <class...>
void membar_sys() {}
template <class...>
void fence_sc() {}
template <class...>
void fence_acq_rel() {}
template <class...>
void fence_mbarrier_init() {}
template <class...>
void fence_proxy_async() {
  machine->fence_proxy();
}
template <class...>
void fence_proxy_tensormap_generic(uint64_t, uint32_t) {}
template <class...>
void barrier_cluster_arrive() {
  machine->cluster_barrier(true, false);
}
template <class...>
void barrier_cluster_wait() {
  machine->cluster_barrier(false, true);
}
template <class T>
void nanosleep(uint32_t) {
  machine->poll();
}
template <class...>
void trap() {
  machine->trap();
}
template <class T>
void setmaxnreg_inc_sync(uint32_t) {}
template <class T>
void setmaxnreg_dec_sync(uint32_t) {}
template <class...>
void griddepcontrol_wait() {}
template <class...>
void griddepcontrol_launch_dependents() {}

// ---- asynchronous copies
template <class...>
void cp_async(uint64_t to, uint64_t from, uint32_t bytes) {
  machine->copy_async(uint32_t(to), from, bytes, bytes);
}
template <class...>
void cp_async(uint64_t to, uint64_t from, uint32_t bytes, uint32_t source) {
  machine->copy_async(uint32_t(to), from, bytes, source);
}
template <class...>
void cp_async_commit_group() {
  machine->commit_copies();
}
template <class...>
void cp_async_wait_group(uint32_t pending) {
  machine->wait_copies(pending);
}
template <class...>
void cp_async_wait_all() {
  machine->commit_copies(), machine->wait_copies(0);
}
template <class T>
void cp_async_mbarrier_arrive(uint64_t b) {
  machine->arrive_after_copies(uint32_t(b), true);
}
template <class T>
void cp_async_mbarrier_arrive_noinc(uint64_t b) {
  machine->arrive_after_copies(uint32_t(b), false);
}
template <class...>
void cp_async_bulk_shared_global(uint64_t to, uint64_t from, uint32_t bytes, uint64_t barrier) {
  machine->copy_bulk(uint32_t(to), from, bytes, uint32_t(barrier));
}
template <class...>
void cp_async_bulk_global_shared(uint64_t to, uint64_t from, uint32_t bytes) {
  machine->store_bulk(to, uint32_t(from), bytes);
}
template <class...>
void cp_async_bulk_tensor_1d_shared_global(uint64_t to, uint64_t map, uint32_t x, uint64_t barrier) {
  machine->copy_tensor({map, uint32_t(to), uint32_t(barrier), 1, {int32_t(x)}});
}
template <class...>
void cp_async_bulk_tensor_2d_shared_global(uint64_t to, uint64_t map, uint32_t x, uint32_t y, uint64_t barrier) {
  machine->copy_tensor({map, uint32_t(to), uint32_t(barrier), 2, {int32_t(x), int32_t(y)}});
}
template <class...>
void cp_async_bulk_tensor_1d_global_shared(uint64_t map, uint32_t x, uint64_t from) {
  machine->store_tensor({map, uint32_t(from), 0, 1, {int32_t(x)}});
}
template <class...>
void cp_async_bulk_tensor_2d_global_shared(uint64_t map, uint32_t x, uint32_t y, uint64_t from) {
  machine->store_tensor({map, uint32_t(from), 0, 2, {int32_t(x), int32_t(y)}});
}
template <class...>
void cp_async_bulk_commit_group() {
  machine->commit_bulk();
}
template <class...>
void cp_async_bulk_wait_group(uint32_t pending) {
  machine->wait_bulk(pending, false);
}
template <class...>
void cp_async_bulk_wait_group_read(uint32_t pending) {
  machine->wait_bulk(pending, true);
}
template <class...>
void prefetch(uint64_t) {}
template <class...>
void prefetch_global_L2(uint64_t) {}
template <class...>
void prefetch_tensormap(uint64_t) {}
template <class...>
void prefetchu(uint64_t) {}
template <class...>
void cp_async_bulk_prefetch_global(uint64_t, uint32_t) {}

// ---- mbarrier
template <class T>
void mbarrier_init(uint64_t a, uint32_t count) {
  machine->mbarrier_init(a, count);
}
template <class T>
void mbarrier_inval(uint64_t a) {
  machine->mbarrier_invalidate(a);
}
template <class T>
void mbarrier_expect_tx(uint64_t a, uint32_t bytes) {
  machine->mbarrier_expect(a, bytes);
}
template <class T>
void mbarrier_arrive(uint64_t& s, uint64_t a) {
  s = machine->mbarrier_arrive(a, 1, 0, false);
}
template <class T>
void mbarrier_arrive(uint64_t& s, uint64_t a, uint32_t count) {
  s = machine->mbarrier_arrive(a, count, 0, false);
}
template <class T>
void mbarrier_arrive_drop(uint64_t& s, uint64_t a) {
  s = machine->mbarrier_arrive(a, 1, 0, true);
}
template <class T>
void mbarrier_arrive_expect_tx(uint64_t& s, uint64_t a, uint32_t bytes) {
  s = machine->mbarrier_arrive(a, 1, bytes, false);
}
template <class T>
void mbarrier_try_wait(bool& p, uint64_t a, uint64_t state) {
  p = machine->mbarrier_wait(a, false, state, true);
}
template <class T>
void mbarrier_try_wait_parity(bool& p, uint64_t a, uint32_t parity) {
  p = machine->mbarrier_wait(a, true, parity, true);
}
template <class T>
void mbarrier_try_wait_parity(bool& p, uint64_t a, uint32_t parity, uint32_t) {
  p = machine->mbarrier_wait(a, true, parity, true);
}
template <class T>
void mbarrier_test_wait(bool& p, uint64_t a, uint64_t state) {
  p = machine->mbarrier_wait(a, false, state, false);
}
template <class T>
void mbarrier_test_wait_parity(bool& p, uint64_t a, uint32_t parity) {
  p = machine->mbarrier_wait(a, true, parity, false);
}

// ---- wgmma
template <class...>
void wgmma_fence_sync() {
  machine->wgmma_fence();
}
template <class...>
void wgmma_commit_group_sync() {
  machine->wgmma_commit();
}
template <class...>
void wgmma_wait_group_sync(uint32_t pending) {
  machine->wgmma_wait(pending);
}
// The translator gives accumulators and, where a is in registers, a as arrays of addresses.
template <int N, int K, class D, class A, class B, class... Rest>
void wgmma_any(uint32_t** d, int registers, uint32_t** a, uint64_t a_descriptor, uint64_t b_descriptor, bool accumulate,
               Rest... rest) {
  constexpr Element de = element_of<D>(), ae = element_of<A>(), be = element_of<B>();
  static_assert(K * element_bits(ae) == 256, "wgmma multiplies 32 bytes of k");
  if (registers != N * element_bits(de) / 64)
    machine->unsupported("wgmma with another number of accumulators than its shape has");
  const int flags[] = {int(rest)..., 0};
  constexpr int n = sizeof...(rest);
  WgmmaCall call{N, de, ae, be, d, a, a_descriptor, b_descriptor, accumulate, 1, 1, false, false};
  if (n >= 2) call.scale_a = flags[0], call.scale_b = flags[1];
  if (n == 4) call.transposed_a = flags[2], call.transposed_b = flags[3];
  if (n == 3) call.transposed_b = flags[2];
  machine->wgmma(call);
}

}  // namespace qcg::ptx

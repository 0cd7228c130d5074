// reduction for avx2
//
// reduce mean in=bf16 out=f32
//
// y = mean(x)
#include "abi.h"
#include "avx2.h"

namespace {

// [outer, reduce, inner] -> [outer, inner]; an item is several outer rows. One output is computed whole by one item.
struct Sizes {
  int64_t outer, reduce, inner, rows_per_item;
};
Sizes sizes_of(const qcg_call* call) {
  Sizes s = {call->params[0], call->params[1], call->params[2], 1};
  const int64_t row = s.reduce * s.inner;
  if (row > 0 && row < 4096) s.rows_per_item = 4096 / row;
  return s;
}
int64_t items(const qcg_call* call, uint32_t) {
  const Sizes s = sizes_of(call);
  return s.outer <= 0 || s.inner <= 0 ? 0 : (s.outer + s.rows_per_item - 1) / s.rows_per_item;
}

QCG_INLINE vf finish(vf x, const Sizes& s) {
  return v_div(x, v_set1((float)s.reduce));
}

// n < VL elements; absent lanes hold what changes nothing.
QCG_INLINE vf load_tail(const qcg_bf16* x, int n) {
  float lanes[VL];
  v_store_f32(lanes, v_set1(0.0f));
  v_store_f32_n(lanes, v_load_bf16_n(x, n), n);
  return v_load_f32(lanes);
}

// inner == 1: the lanes run along the reduced axis, four chains of them.
void reduce_contiguous(const qcg_bf16* x, float* y, const Sizes& s) {
  vf a0 = v_set1(0.0f), a1 = a0, a2 = a0, a3 = a0;
  int64_t i = 0;
  for (; i + 4 * VL <= s.reduce; i += 4 * VL) {
    a0 = v_add(a0, v_load_bf16(x + i));
    a1 = v_add(a1, v_load_bf16(x + i + VL));
    a2 = v_add(a2, v_load_bf16(x + i + 2 * VL));
    a3 = v_add(a3, v_load_bf16(x + i + 3 * VL));
  }
  for (; i + VL <= s.reduce; i += VL) a0 = v_add(a0, v_load_bf16(x + i));
  if (i < s.reduce) a1 = v_add(a1, load_tail(x + i, (int)(s.reduce - i)));
  const float total = v_hadd(v_add(v_add(a0, a1), v_add(a2, a3)));
  v_store_f32_n(y, finish(v_set1(total), s), 1);
}

// inner > 1: the lanes run along the kept axis. Runs of a column are added on their own: the error of a sum grows with
// the length of its chain.
constexpr int64_t RUN = 32;
void reduce_row(const qcg_bf16* x, float* y, const Sizes& s) {
  if (s.inner == 1) return reduce_contiguous(x, y, s);
  for (int64_t j = 0; j < s.inner; j += VL) {
    const int n = (int)(s.inner - j < VL ? s.inner - j : VL);
    vf total = v_set1(0.0f);
    for (int64_t begin = 0; begin < s.reduce; begin += RUN) {
      const int64_t end = begin + RUN < s.reduce ? begin + RUN : s.reduce;
      vf run = v_set1(0.0f);
      for (int64_t i = begin; i < end; ++i) run = v_add(run, v_load_bf16_n(x + i * s.inner + j, n));
      total = v_add(total, run);
    }
    v_store_f32_n(y + j, finish(total, s), n);
  }
}

void run(const qcg_call* call, uint32_t, int64_t begin, int64_t end, void*) {
  const Sizes s = sizes_of(call);
  const int64_t last = end * s.rows_per_item < s.outer ? end * s.rows_per_item : s.outer;
  for (int64_t row = begin * s.rows_per_item; row < last; ++row)
    reduce_row((const qcg_bf16*)call->args[0].data + row * s.reduce * s.inner, (float*)call->args[1].data + row * s.inner, s);
}

int64_t no_bytes(const qcg_call*) { return 0; }

}  // namespace

extern "C" {
extern const qcg_kernel golden __attribute__((visibility("default")));
const qcg_kernel golden = {QCG_KERNEL_ABI, 1, items, no_bytes, no_bytes, run};
}

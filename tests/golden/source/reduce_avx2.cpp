// reduction for avx2
//
// reduce mean in=bf16 out=f32
//
// y = mean(x)
#include "abi.h"
#include "avx2.h"

namespace {

// [outer, reduce, inner] -> [outer, inner]; an item is several outer rows, or a part of the columns of one where there
// are few rows. One output is computed whole by one item.
struct Sizes {
  int64_t outer, reduce, inner, rows_per_item, columns_per_item, parts;  // parts: items of one row
};
Sizes sizes_of(const qcg_call* call) {
  constexpr int64_t kRow = 4096, kFewRows = 8, kParts = 8;
  Sizes s = {call->params[0], call->params[1], call->params[2], 1, call->params[2], 1};
  const int64_t row = s.reduce * s.inner;
  if (row > 0 && row < kRow) s.rows_per_item = kRow / row;
  if (row >= 2 * kRow && s.outer < kFewRows) {
    const int64_t vectors = (s.inner + VL - 1) / VL;
    s.columns_per_item = (vectors + kParts - 1) / kParts * VL;
    s.parts = (s.inner + s.columns_per_item - 1) / s.columns_per_item;
  }
  return s;
}
int64_t items(const qcg_call* call, uint32_t) {
  const Sizes s = sizes_of(call);
  return s.outer <= 0 || s.inner <= 0 ? 0 : (s.outer + s.rows_per_item - 1) / s.rows_per_item * s.parts;
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
// the length of its chain. Four runs at a time hide the latency of an addition.
constexpr int64_t RUN = 32;
QCG_INLINE vf reduce_run(const qcg_bf16* x, int64_t inner, int n, int64_t rows) {
  vf run = v_set1(0.0f);
  for (int64_t i = 0; i < rows; ++i) run = v_add(run, v_load_bf16_n(x + i * inner, n));
  return run;
}
void reduce_columns(const qcg_bf16* x, float* y, const Sizes& s, int64_t begin, int64_t end) {
  if (s.inner == 1) return reduce_contiguous(x, y, s);
  for (int64_t j = begin; j < end; j += VL) {
    const int n = (int)(end - j < VL ? end - j : VL);
    vf total = v_set1(0.0f);
    int64_t row = 0;
    for (; row + 4 * RUN <= s.reduce; row += 4 * RUN) {
      const qcg_bf16* const p = x + row * s.inner + j;
      const int64_t next = RUN * s.inner;
      vf a0 = v_set1(0.0f), a1 = a0, a2 = a0, a3 = a0;
      for (int64_t i = 0; i < next; i += s.inner) {
        a0 = v_add(a0, v_load_bf16_n(p + 0 * next + i, n));
        a1 = v_add(a1, v_load_bf16_n(p + 1 * next + i, n));
        a2 = v_add(a2, v_load_bf16_n(p + 2 * next + i, n));
        a3 = v_add(a3, v_load_bf16_n(p + 3 * next + i, n));
      }
      total = v_add(v_add(v_add(v_add(total, a0), a1), a2), a3);
    }
    for (; row < s.reduce; row += RUN)
      total = v_add(total, reduce_run(x + row * s.inner + j, s.inner, n, s.reduce - row < RUN ? s.reduce - row : RUN));
    v_store_f32_n(y + j, finish(total, s), n);
  }
}

void run(const qcg_call* call, uint32_t, int64_t begin, int64_t end, void*) {
  const Sizes s = sizes_of(call);
  const qcg_bf16* const x = (const qcg_bf16*)call->args[0].data;
  float* const y = (float*)call->args[1].data;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t first = item / s.parts * s.rows_per_item, column = item % s.parts * s.columns_per_item;
    const int64_t last = first + s.rows_per_item < s.outer ? first + s.rows_per_item : s.outer,
                  columns = column + s.columns_per_item < s.inner ? column + s.columns_per_item : s.inner;
    for (int64_t row = first; row < last; ++row)
      reduce_columns(x + row * s.reduce * s.inner, y + row * s.inner, s, column, columns);
  }
}

int64_t no_bytes(const qcg_call*) { return 0; }

}  // namespace

extern "C" {
extern const qcg_kernel golden __attribute__((visibility("default")));
const qcg_kernel golden = {QCG_KERNEL_ABI, 1, items, no_bytes, no_bytes, run};
}

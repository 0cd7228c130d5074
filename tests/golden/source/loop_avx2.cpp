// pointwise loop for avx2
//
// loop rank=2 in=[bf16, f32] inner=[1, 0] out=[bf16] expr=[mul(silu(in0), in1)]
//
// source nodes, in program order:
//   %y = aten.silu.default(%x)  model.py:41
#include "abi.h"
#include "avx2.h"

namespace {

// An item is a piece of the last axis, or several whole rows of it where it is short.
constexpr int RANK = 2;
constexpr int64_t PIECE = 4096;
struct Grid {
  int64_t rows, inner, pieces, rows_per_item;
};
Grid grid_of(const qcg_call* call) {
  Grid g = {1, call->params[RANK - 1], 0, 1};
  for (int axis = 0; axis + 1 < RANK; ++axis) g.rows *= call->params[axis];
  g.pieces = (g.inner + PIECE - 1) / PIECE;
  if (g.inner > 0 && g.inner < PIECE) g.rows_per_item = PIECE / g.inner;
  return g;
}
int64_t items(const qcg_call* call, uint32_t) {
  const Grid g = grid_of(call);
  return g.rows <= 0 || g.inner <= 0 ? 0 : (g.rows + g.rows_per_item - 1) / g.rows_per_item * g.pieces;
}

// Offset in elements of row `row` of the axes before the last, by the strides that begin at params[at].
inline int64_t offset_of(const int64_t* params, int64_t row, int at) {
  int64_t offset = 0;
  for (int axis = RANK - 2; axis > 0; --axis) {
    offset += row % params[axis] * params[at + axis];
    row /= params[axis];
  }
  return RANK > 1 ? offset + row * params[at] : 0;
}

template <class T>
QCG_INLINE void gather(T* lanes, const T* p, int64_t stride, int n) {
  for (int i = 0; i < VL; ++i) lanes[i] = i < n ? p[i * stride] : T(0);
}
template <class T>
QCG_INLINE void scatter(T* p, const T* lanes, int64_t stride, int n) {
  for (int i = 0; i < n; ++i) p[i * stride] = lanes[i];
}

void run_row(const qcg_call* call, int64_t row, int64_t begin, int64_t end) {
  const int64_t* const params = call->params;
  const qcg_bf16* const p0 = (const qcg_bf16*)call->args[0].data + offset_of(params, row, 2);
  const float* const p1 = (const float*)call->args[1].data + offset_of(params, row, 4);
  float first1;
  v_store_f32_n(&first1, v_load_f32_n(p1, 1), 1);
  const vf in1 = v_set1(first1);
  qcg_bf16* const q2 = (qcg_bf16*)call->args[2].data + offset_of(params, row, 6);
  const int64_t t2 = params[6 + RANK - 1];
  int64_t i = begin;
  for (; i + VL <= end; i += VL) {
      const vf in0 = v_load_bf16(p0 + i);
      const vf out2 = v_mul(v_silu(in0), in1);
      if (t2 == 1) {
        v_store_bf16(q2 + i, out2);
      } else {
        qcg_bf16 lanes[VL];
        v_store_bf16(lanes, out2);
        scatter(q2 + i * t2, lanes, t2, VL);
      }
}
  if (i < end) {
    const int n = (int)(end - i);
      const vf in0 = v_load_bf16_n(p0 + i, n);
      const vf out2 = v_mul(v_silu(in0), in1);
      if (t2 == 1) {
        v_store_bf16_n(q2 + i, out2, n);
      } else {
        qcg_bf16 lanes[VL];
        v_store_bf16(lanes, out2);
        scatter(q2 + i * t2, lanes, t2, n);
      }
}
}

void run(const qcg_call* call, uint32_t, int64_t begin, int64_t end, void*) {
  const Grid g = grid_of(call);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t row0 = item / g.pieces * g.rows_per_item, from = item % g.pieces * PIECE;
    const int64_t row1 = row0 + g.rows_per_item < g.rows ? row0 + g.rows_per_item : g.rows;
    const int64_t to = from + PIECE < g.inner ? from + PIECE : g.inner;
    for (int64_t row = row0; row < row1; ++row) run_row(call, row, from, to);
  }
}

int64_t no_bytes(const qcg_call*) { return 0; }

}  // namespace

extern "C" {
extern const qcg_kernel golden __attribute__((visibility("default")));
const qcg_kernel golden = {QCG_KERNEL_ABI, 1, items, no_bytes, no_bytes, run};
}

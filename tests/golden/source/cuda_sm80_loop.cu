// pointwise loop for sm_80
//
// loop rank=2 in=[bf16, f32] inner=[1, 0] out=[bf16] expr=[mul(silu(in0), in1)]
//
// source nodes, in program order:
//   %y = aten.silu.default(%x)  model.py:41
#include "device.cuh"
#include "scalar_math.cuh"
#include "elements.cuh"

namespace {

struct Arg {  // qcg_arg
  void* data;
  long long stride;
};
struct Args {
  Arg at[3];
  long long params[8];
};

constexpr int RANK = 2;
// Offset in elements of row `row` of the axes before the last, by the strides that begin at params[at].
QCG_DEVICE long long offset_of(const Args& args, long long row, int at) {
  long long offset = 0;
#pragma unroll
  for (int axis = RANK - 2; axis > 0; --axis) {
    offset += row % args.params[axis] * args.params[at + axis];
    row /= args.params[axis];
  }
  return RANK > 1 ? offset + row * args.params[at] : 0;
}
constexpr int WIDTH = 4;  // elements of the last axis that a thread computes

}  // namespace

extern "C" __global__ void __launch_bounds__(256) golden(const Args args) {
  const long long inner = args.params[RANK - 1], pieces = (inner + WIDTH - 1) / WIDTH;
  const long long piece = (long long)blockIdx.x * 256 + threadIdx.x, row = piece / pieces;
  long long rows = 1;
#pragma unroll
  for (int axis = 0; axis < RANK - 1; ++axis) rows *= args.params[axis];
  if (row >= rows) return;
  const long long i = piece % pieces * WIDTH;
  const int count = inner - i < WIDTH ? (int)(inner - i) : WIDTH;
  float operand0[WIDTH];
  load<Stored_bf16>(operand0, (const Stored_bf16::Type*)args.at[0].data + offset_of(args, row, 2) + i, count);
  float operand1[1];
  load<Stored_f32>(operand1, (const Stored_f32::Type*)args.at[1].data + offset_of(args, row, 4), 1);
  float out2[WIDTH];
#pragma unroll
  for (int e = 0; e < WIDTH; ++e) {
    const float in0 = operand0[e];
    const float in1 = operand1[0];
    out2[e] = s_mul(s_silu(in0), in1);
  }
  {
    const long long t = args.params[6 + RANK - 1];
    store<Stored_bf16>((Stored_bf16::Type*)args.at[2].data + offset_of(args, row, 6) + i * t, t, out2, count);
  }
}

// Reductions over the threads that share a row: a fixed tree, so that a sum has the same bits whatever else runs.
//
// Why here: row programs, row quantization and reductions all end a walk along a row so.
//
//   __shared__ float partial[256 / 32];
//   const float total = reduce_threads<Sum, 256>(of_this_thread, partial);     // every thread gets it
#pragma once

struct Sum {
  template <class T>
  QCG_DEVICE T of(T a, T b) { return a + b; }
};
struct Product {
  QCG_DEVICE double of(double a, double b) { return a * b; }
  QCG_DEVICE long long of(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
  }
};
// NaN wins, as in scalar_math.cuh.
struct Max {
  template <class T>
  QCG_DEVICE T of(T a, T b) { return a > b || a != a ? a : b; }
};
struct Min {
  template <class T>
  QCG_DEVICE T of(T a, T b) { return a < b || a != a ? a : b; }
};

// THREADS is 32, a warp, which needs no `partial`, or all of a block.
template <class Op, int THREADS, class T>
QCG_DEVICE T reduce_threads(T x, T* partial) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x = Op::of(x, shuffle_xor(x, distance));
  if (THREADS == 32) return x;
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  x = partial[0];
#pragma unroll
  for (int warp = 1; warp < THREADS / 32; ++warp) x = Op::of(x, partial[warp]);
  __syncthreads();  // before the next reduction writes
  return x;
}

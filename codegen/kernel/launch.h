// How a built kernel is called, beside the arguments that its problem has.
//
// Why here: a kernel's source, the built kernel and the program's manifest carry both, whatever problem the kernel
// computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace qcg {

// The grid of a kernel on a CUDA device: x = the product of ceil(params[p] / piece) over its axes, divided by `rows`
// and rounded up; y = column_tiles.
struct CudaLaunch {
  struct Axis {
    int param = 0;
    int piece = 1;  // of the extent, that is computed together
  };
  int threads = 0;       // 0: the kernel runs on the CPU
  int rows = 0;          // of one block
  int column_tiles = 0;  // grid.y
  int shared_bytes = 0;  // dynamic
  std::vector<Axis> axes = {{}};

  int64_t blocks(std::span<const int64_t> params) const {
    int64_t n = 1;
    for (const Axis& axis : axes) n *= (params[static_cast<size_t>(axis.param)] + axis.piece - 1) / axis.piece;
    return (n + rows - 1) / rows;
  }
};

// A vendor's kernel reads weights of its own, which follow the outputs, and parameters of its own, which follow m.
struct VendorCall {
  std::vector<int64_t> params;
  std::span<const std::byte> weights;
};

}  // namespace qcg

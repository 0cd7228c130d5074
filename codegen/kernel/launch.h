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

// The grid of a kernel on a CUDA device.
struct CudaLaunch {
  int threads = 0;       // 0: the kernel runs on the CPU
  int rows = 0;          // of one block: grid.x = ceil(m / rows)
  int column_tiles = 0;  // grid.y
  int shared_bytes = 0;  // dynamic
};

// A vendor's kernel reads weights of its own, which follow the outputs, and parameters of its own, which follow m.
struct VendorCall {
  std::vector<int64_t> params;
  std::span<const std::byte> weights;
};

}  // namespace qcg

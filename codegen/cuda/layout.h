// The byte layout of packed weights on CUDA devices, as numbers.
//
// Why here: pack.cpp writes these offsets, render.cpp prints them, and nothing else may compute them a second time.
//
// Weights that are multiplied as they are, under one scale for all of K or with 8-bit floats, lie in rows, as wgmma
// reads them from shared memory (K-major, swizzle of 128 bytes) and as ldmatrix does without bank conflicts:
//
//   [16 columns n][128 bytes of k][16 rows n][8 chunks of 16 bytes]     chunk c of row n lies at c ^ (n % 8)
//
// Other weights of a segment lie in the order in which the lanes of a warp hold them as the first operand of
// mma.m16n8k16, of 16-bit floats:
//
//   [16 columns n][64 of k][32 lanes][16 bytes]      a lane's bytes: its fragments of consecutive tiles of 16 k
//
// Lane 4 g + q holds four registers i of two elements e of a tile of 16 x 16: n = g + 8 (i & 1) and
// k = 2 q + 8 (i >> 1) + e.
//
//   32 bits   8 words: register i, element e in word 2 i + e
//   16 bits   4 words: register i, element e in half e
//    8 bits   2 words: word i >> 1, byte (i & 1) + 2 e         so that masks and a shift, no permutation, part them
//    4 bits   1 word:  nibble i + 4 e
//
// For integer activations they are that of mma.m16n8k32, where a register has four elements of k, e = k % 4:
//
//    8 bits   4 words: register i, element e in byte e
//    4 bits   2 words: word i >> 1, byte e, the lower nibble of even i     in two's complement
//             2 words: word i >> 1, half i & 1, nibble e            of e2m1, whose codes select numbers from a table
//
// The same bytes are the operand of a decode kernel (from global memory to registers), of a tile (through shared
// memory, without bank conflicts) and of wgmma: rows from shared memory, fragments from the registers of four warps
// side by side.
//
// Groups along K are padded to 1, 2 or a multiple of 4 products, and all of K to whole blocks; what pads is zero.
// Scales, offsets and zero points of 16 columns and a group follow each other as a lane reads them: columns g and g + 8
// side by side. The parts of a segment, each at a multiple of 256 bytes, in order:
//
//    weights | scales | offsets | zero points | corrections | biases
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "codegen/gemm/problem.h"

namespace qcg {

struct CudaForm {
  Scheme scheme;
  DType weight;
  std::string_view name;  // unpack_<name> in templates/cuda/weights.cuh
  int bits;
  int mma_k = 16;       // k of a product
  int raised = 0;       // unpacked weights are 2^raised times themselves
  bool float8 = false;  // x is, too
  int parts = 1;        // 16-bit floats whose sum a weight is; of several, f16 has 1024 times the weight

  bool is_integer() const { return mma_k == 32 && !float8; }
  int stage_k() const { return 4 * mma_k; }        // 128 bytes of a row of x
  int words() const { return bits * mma_k / 64; }  // that a lane has in a product
};
// Null where no kernel multiplies such weights.
const CudaForm* cuda_form(const Problem& problem);

struct CudaSegment {
  // Bytes from the start; absent parts take none. A correction is the sum of a column's weights over a group, less its
  // zero points: what a zero point of x is multiplied by.
  int64_t weight = 0, scale = 0, offset = 0, zero = 0, correction = 0, bias = 0;
};

struct CudaLayout {
  const CudaForm* form = nullptr;
  bool in_rows = false;                 // not in fragments
  int64_t group = 0, group_padded = 0;  // 0: not grouped; of a weight with offsets, all of K is a group
  int64_t groups = 1;                   // that are stored, those that only pad included
  int64_t k_padded = 0;
  DType scale = DType::f32;  // of grouped scales and offsets; ungrouped ones are f32
  bool by_column = false;    // corrections: f32, those of all groups times their scales (zeros_by_column())
  std::vector<CudaSegment> segments;
  int64_t bytes = 0;

  int64_t tile_bytes() const { return k_padded * 2 * form->bits; }  // of 16 columns
  // Where logical k lies.
  int64_t packed_k(int64_t k) const { return group ? k / group * group_padded + k % group : k; }
  // The place of a column's parameter of a group, in elements.
  int64_t parameter(int64_t n, int64_t g) const { return (n / 16 * groups + g) * 16 + n % 8 * 2 + n / 8 % 2; }
};
CudaLayout cuda_layout(const Problem& problem);  // precondition: it has a form

// What kernels unpack integers and narrow floats to: the 16-bit float of x; bf16 where x is another.
DType unpacked_dtype(const Problem& problem);

// Columns of a segment, padded so that no tile reads behind its weights.
int64_t padded_columns(int64_t n);
// k that a decode kernel takes at once.
int64_t decode_depth(const CudaForm& form);

}  // namespace qcg

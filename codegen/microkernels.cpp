// The microkernel table: which instruction serves which scheme and dtypes on which ISA. Read it top to bottom.
//
// All rows that serve one problem on one target read the same packed bytes (layout_for below). A row of an ISA also
// serves the ISAs that contain it, so fma and bf16dot compete on avx512bf16: which is faster is a fact about the machine
// (bf16dot is twice fma on Zen 5 and half of it on Sapphire Rapids), so the tuner decides.
//
// A template prints one register tile: mr rows x nr columns, nr = two vectors (of AMX: 16 or 32 rows, two tiles).
//
//            nr = 2 vectors
//          +-------+-------+
//     mr   | acc   | acc   |   += weight unit (one vector each, unpacked in registers) x broadcast activation unit
//          +-------+-------+
#include <algorithm>
#include <array>

#include "codegen/cuda.h"
#include "codegen/gemm_layout.h"
#include "codegen/problem.h"

namespace qcg {
namespace {

constexpr std::string_view kGemm = "cpu/gemm.cpp.j2", kTiles = "cpu/gemm_amx.cpp.j2";
using enum DType;
using enum Isa;

// Packing converts activations, so f32 stands for every float activation, bf16 also for fp8, i8 also for u8. A weight of
// f8e4m3 stands for e5m2 too.
constexpr Microkernel kTable[] = {
    // name            isa         source  scheme          act   weight  compute     rows
    // Tiles waste most of their 16 rows on few, but unpacking is all that each weight costs: from 2 rows on they compete with
    // the vector rows below.
    {"amx_bf16",        amx,        kTiles, Scheme::dense,  bf16, bf16,   "amx_bf16", 2, 1 << 30},
    {"amx_bf16",        amx,        kTiles, Scheme::w8,     bf16, i8,     "amx_bf16", 2, 1 << 30},
    {"amx_bf16",        amx,        kTiles, Scheme::w4,     bf16, i8,     "amx_bf16", 2, 1 << 30},
    {"amx_bf16",        amx,        kTiles, Scheme::f8,     bf16, f8e4m3, "amx_bf16", 2, 1 << 30},
    {"amx_bf16",        amx,        kTiles, Scheme::f4,     bf16, i8,     "amx_bf16", 2, 1 << 30},
    {"amx_int8",        amx,        kTiles, Scheme::da8w8,  i8,   i8,     "amx_int8", 2, 1 << 30},
    {"amx_int8",        amx,        kTiles, Scheme::s8s8,   i8,   i8,     "amx_int8", 2, 1 << 30},
    {"amx_int8",        amx,        kTiles, Scheme::da8w4,  i8,   i8,     "amx_int8", 2, 1 << 30},
    {"amx_int8",        amx,        kTiles, Scheme::da8f4,  i8,   i8,     "amx_int8", 2, 1 << 30},
    {"avx512bf16_dot",  avx512bf16, kGemm,  Scheme::dense,  bf16, bf16,   "bf16dot",  1, 1 << 30},
    {"avx512bf16_dot",  avx512bf16, kGemm,  Scheme::w8,     bf16, i8,     "bf16dot",  1, 1 << 30},
    {"avx512bf16_dot",  avx512bf16, kGemm,  Scheme::w4,     bf16, i8,     "bf16dot",  1, 1 << 30},
    {"avx512bf16_dot",  avx512bf16, kGemm,  Scheme::f8,     bf16, f8e4m3, "bf16dot",  1, 1 << 30},
    {"avx512bf16_dot",  avx512bf16, kGemm,  Scheme::f4,     bf16, i8,     "bf16dot",  1, 1 << 30},
    {"avx512_vnni",     avx512,     kGemm,  Scheme::da8w8,  i8,   i8,     "vnni",     1, 1 << 30},
    {"avx512_vnni",     avx512,     kGemm,  Scheme::s8s8,   i8,   i8,     "vnni",     1, 1 << 30},
    {"avx512_vnni",     avx512,     kGemm,  Scheme::da8w4,  i8,   i8,     "vnni",     1, 1 << 30},
    {"avx512_vnni",     avx512,     kGemm,  Scheme::da8f4,  i8,   i8,     "vnni",     1, 1 << 30},
    {"avx512_fma",      avx512,     kGemm,  Scheme::dense,  f32,  f32,    "fma",      1, 1 << 30},
    {"avx512_fma",      avx512,     kGemm,  Scheme::dense,  f32,  bf16,   "fma",      1, 1 << 30},
    {"avx512_fma",      avx512,     kGemm,  Scheme::dense,  f32,  f16,    "fma",      1, 1 << 30},
    {"avx512_fma",      avx512,     kGemm,  Scheme::w8,     f32,  i8,     "fma",      1, 1 << 30},
    {"avx512_fma",      avx512,     kGemm,  Scheme::w4,     f32,  i8,     "fma",      1, 1 << 30},
    {"avx512_fma",      avx512,     kGemm,  Scheme::f8,     f32,  f8e4m3, "fma",      1, 1 << 30},
    {"avx512_fma",      avx512,     kGemm,  Scheme::f4,     f32,  i8,     "fma",      1, 1 << 30},
    {"avx512_fma",      avx512,     kGemm,  Scheme::nf4,    f32,  i8,     "fma",      1, 1 << 30},
    {"avx2_madd16",     avx2,       kGemm,  Scheme::da8w8,  i8,   i8,     "madd16",   1, 1 << 30},
    {"avx2_madd16",     avx2,       kGemm,  Scheme::s8s8,   i8,   i8,     "madd16",   1, 1 << 30},
    {"avx2_maddubs",    avx2,       kGemm,  Scheme::da8w4,  i8,   i8,     "maddubs",  1, 1 << 30},
    {"avx2_maddubs",    avx2,       kGemm,  Scheme::da8f4,  i8,   i8,     "maddubs",  1, 1 << 30},
    {"avx2_fma",        avx2,       kGemm,  Scheme::dense,  f32,  f32,    "fma",      1, 1 << 30},
    {"avx2_fma",        avx2,       kGemm,  Scheme::dense,  f32,  bf16,   "fma",      1, 1 << 30},
    {"avx2_fma",        avx2,       kGemm,  Scheme::dense,  f32,  f16,    "fma",      1, 1 << 30},
    {"avx2_fma",        avx2,       kGemm,  Scheme::w8,     f32,  i8,     "fma",      1, 1 << 30},
    {"avx2_fma",        avx2,       kGemm,  Scheme::w4,     f32,  i8,     "fma",      1, 1 << 30},
    {"avx2_fma",        avx2,       kGemm,  Scheme::f8,     f32,  f8e4m3, "fma",      1, 1 << 30},
    {"avx2_fma",        avx2,       kGemm,  Scheme::f4,     f32,  i8,     "fma",      1, 1 << 30},
    {"avx2_fma",        avx2,       kGemm,  Scheme::nf4,    f32,  i8,     "fma",      1, 1 << 30},
    {"portable_madd16", portable,   kGemm,  Scheme::da8w8,  i8,   i8,     "madd16",   1, 1 << 30},
    {"portable_madd16", portable,   kGemm,  Scheme::s8s8,   i8,   i8,     "madd16",   1, 1 << 30},
    {"portable_madd16", portable,   kGemm,  Scheme::da8w4,  i8,   i8,     "madd16",   1, 1 << 30},
    {"portable_madd16", portable,   kGemm,  Scheme::da8f4,  i8,   i8,     "madd16",   1, 1 << 30},
    {"portable_fma",    portable,   kGemm,  Scheme::dense,  f32,  f32,    "fma",      1, 1 << 30},
    {"portable_fma",    portable,   kGemm,  Scheme::dense,  f32,  bf16,   "fma",      1, 1 << 30},
    {"portable_fma",    portable,   kGemm,  Scheme::dense,  f32,  f16,    "fma",      1, 1 << 30},
    {"portable_fma",    portable,   kGemm,  Scheme::w8,     f32,  i8,     "fma",      1, 1 << 30},
    {"portable_fma",    portable,   kGemm,  Scheme::w4,     f32,  i8,     "fma",      1, 1 << 30},
    {"portable_fma",    portable,   kGemm,  Scheme::f8,     f32,  f8e4m3, "fma",      1, 1 << 30},
    {"portable_fma",    portable,   kGemm,  Scheme::f4,     f32,  i8,     "fma",      1, 1 << 30},
    {"portable_fma",    portable,   kGemm,  Scheme::nf4,    f32,  i8,     "fma",      1, 1 << 30},
};

}  // namespace

std::span<const Microkernel> microkernel_table() { return kTable; }

PackedLayout layout_for(const Problem& problem, const Target& target) {
  if (isa_info(target.isa).device == Device::cuda) return {64, 8, std::string(kCudaRows)};
  const bool wide = isa_info(target.isa).vector_bytes == 64, avx2 = target.isa == Isa::avx2;
  PackedLayout layout;
  layout.nr = wide ? 32 : 16;
  switch (problem.scheme) {
    case Scheme::dense: layout.kind = problem.weight == f32 ? "f32" : problem.weight == f16 ? "f16" : "bf16x2"; break;
    case Scheme::w8: layout.kind = "i8"; break;
    case Scheme::w4: layout.kind = avx2 ? "i4x8u" : "i4x8"; break;
    case Scheme::f8: layout.kind = problem.weight == f8e5m2 ? "e5m2" : "e4m3"; break;
    case Scheme::f4: layout.kind = "f4x8"; break;
    case Scheme::nf4: layout.kind = "n4x8"; break;
    case Scheme::da8w8:
    case Scheme::s8s8: layout.kind = wide ? "u8x4" : "i8x2"; break;
    case Scheme::da8w4: layout.kind = wide || avx2 ? "i4x8u" : "i4x8"; break;
    case Scheme::da8f4: layout.kind = wide || avx2 ? "f4x8u" : "f4x8"; break;
  }
  layout.kr = layout_kind(layout.kind).k_step;
  return layout;
}

}  // namespace qcg

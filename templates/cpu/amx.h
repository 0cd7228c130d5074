// AMX: vectors are those of avx512bf16; the tiles, which GEMM and attention kernels use, are in gemm_amx.h.
//
// Why here: row kernels of the amx target include the header named after their ISA.
//
//   #include "amx.h"   // VL = 16, vf, vi, …
#pragma once
#include "avx512bf16.h"

// IsaProbe: the primitives of one ISA header as ordinary functions, so that one test program can compare all of them.
//
// Why here: each header has to be compiled with its own instruction set flags, and nothing else may be (an inline
// function of the standard library compiled with them could be the copy the linker keeps), so a probe includes no
// other.
//
//   for (const IsaProbe* probe : {&kPortableProbe, &kAvx2Probe}) probe->find("exp")->map(x, x, x, y, probe->lanes);
#pragma once
#include <stdint.h>

struct ProbeFunction {
  const char* name;
  int arity;
  void (*map)(const float* a, const float* b, const float* c, float* y, int n);  // n: a multiple of the lanes
};

// Loads n elements to f32 (all lanes are written to y), stores n of x; whole vectors when n is the number of lanes.
struct ProbeStorage {
  const char* name;
  int bytes;
  void (*load)(const void* p, float* y, int n, bool whole);
  void (*store)(void* p, const float* x, int n, bool whole);
};

struct ProbeReduction {
  const char* name;
  float (*reduce)(const float* x);
};

// rows: as many vectors as a vector has lanes.
using ProbeTranspose = void (*)(float* rows);
using ProbeSums = void (*)(const float* rows, float* sums);

struct IsaProbe {
  const char* isa;
  int lanes;
  const ProbeFunction* functions;
  int function_count;
  const ProbeStorage* storages;
  int storage_count;
  const ProbeReduction* reductions;
  int reduction_count;
  ProbeTranspose transpose;
  ProbeSums sum_rows;
};

extern const IsaProbe kPortableProbe, kAvx2Probe, kAvx512Probe, kAvx512Bf16Probe;

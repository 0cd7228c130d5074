#include "templates/cpu/avx512bf16.h"

// Uses the names of the ISA header.
// clang-format off
#include "probe.h"
#include "probe.inc"
// clang-format on

const IsaProbe kAvx512Bf16Probe = PROBE("avx512bf16");

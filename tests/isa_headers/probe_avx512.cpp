#include "templates/cpu/avx512.h"

// Uses the names of the ISA header.
// clang-format off
#include "probe.h"
#include "probe.inc"
// clang-format on

const IsaProbe kAvx512Probe = PROBE("avx512");

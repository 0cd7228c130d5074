#include "templates/cpu/avx2.h"

// Uses the names of the ISA header.
// clang-format off
#include "probe.h"
#include "probe.inc"
// clang-format on

const IsaProbe kAvx2Probe = PROBE("avx2");

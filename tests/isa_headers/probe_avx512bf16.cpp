#include "templates/cpu/avx512bf16.h"

#include "probe.h"
#include "probe.inc"

const IsaProbe kAvx512Bf16Probe = PROBE("avx512bf16");

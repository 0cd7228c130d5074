#include "probe.h"
#include "probe.inc"
#include "templates/cpu/avx512bf16.h"

const IsaProbe kAvx512Bf16Probe = PROBE("avx512bf16");

#include "templates/cpu/avx512.h"

#include "probe.h"
#include "probe.inc"

const IsaProbe kAvx512Probe = PROBE("avx512");

#include "probe.h"
#include "probe.inc"
#include "templates/cpu/avx512.h"

const IsaProbe kAvx512Probe = PROBE("avx512");

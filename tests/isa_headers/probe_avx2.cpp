#include "templates/cpu/avx2.h"

#include "probe.h"
#include "probe.inc"

const IsaProbe kAvx2Probe = PROBE("avx2");

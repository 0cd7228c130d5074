#include "probe.h"
#include "probe.inc"
#include "templates/cpu/avx2.h"

const IsaProbe kAvx2Probe = PROBE("avx2");

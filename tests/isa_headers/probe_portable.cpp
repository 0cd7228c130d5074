#include "templates/cpu/portable.h"

#include "probe.h"
#include "probe.inc"

const IsaProbe kPortableProbe = PROBE("portable");

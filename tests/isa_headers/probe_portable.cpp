#include "probe.h"
#include "probe.inc"
#include "templates/cpu/portable.h"

const IsaProbe kPortableProbe = PROBE("portable");

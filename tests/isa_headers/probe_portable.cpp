#include "templates/cpu/portable.h"

// Uses the names of the ISA header.
// clang-format off
#include "probe.h"
#include "probe.inc"
// clang-format on

const IsaProbe kPortableProbe = PROBE("portable");

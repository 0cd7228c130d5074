// The table of kernel families.
//
// Why here: tests and lists loop over every kind of kernel; nothing else needs to know which there are.
//
//   for (const KernelFamily* family : kernel_families()) …
#pragma once

#include <span>

#include "codegen/kernel/family.h"

namespace qcg {

std::span<const KernelFamily* const> kernel_families();

}  // namespace qcg

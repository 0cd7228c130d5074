// describe_fault: what a kernel refused to use as a position (qcg_refuse in abi.h), in words for the program's user.
//
// Why here: a kernel only says that a number is out of range. Which tensor it stands in, and what is allowed there,
// follow from the manifest (Reach::Positions).
//
//   step 'embed': input 'ids' is 50257 at [0, 3], which is out of range
//   help: pass values from 0 to 50256
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "runtime/abi.h"
#include "runtime/program_manifest.h"

namespace qcg {

// `args` and `params` of step number `step`, as its kernel got them; `position`: the one it reported.
Error describe_fault(const ProgramManifest& manifest, size_t step, std::span<const qcg_arg> args,
                     std::span<const int64_t> params, std::span<const int64_t> symbol_values, int64_t position);
// The same without the positions: they are not there any more.
Error describe_fault(const ProgramManifest& manifest, size_t step, int64_t position);

}  // namespace qcg

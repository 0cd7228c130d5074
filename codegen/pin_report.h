// What of a program is pinned: said in the report, and an error where it is nothing.
//
// Why here: pins.h knows logs and no batches, batch.h decides what is rendered and says nothing.
//
//   QCG_CHECK(require_pins(batch, pins));
//   report.pins = report_pins(batch, pins, report.warnings);
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/batch.h"
#include "codegen/program/compile_report.h"
#include "codegen/tune/pins.h"

namespace qcg {

// Error BadInput: there is a log, and kernels to choose, and none of its winners is one of them.
Status require_pins(const Batch& batch, const Pins& pins);
// Adds a warning where some are not pinned, and where the log is from another machine.
PinReport report_pins(const Batch& batch, const Pins& pins, std::vector<std::string>& warnings);

}  // namespace qcg

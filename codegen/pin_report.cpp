#include "codegen/pin_report.h"

#include <fmt/format.h>

#include "codegen/kernel/target.h"

namespace qcg {

namespace {

// How many of the batch's choices there are and how many are pinned.
PinReport count_pins(const Batch& batch) {
  PinReport out;
  for (const Choice& choice : batch.choices) {
    out.kernels += !choice.candidates.empty();
    out.pinned += choice.pinned;
  }
  return out;
}

}  // namespace

Status require_pins(const Batch& batch, const Pins& pins) {
  const PinReport counted = count_pins(batch);
  if (pins.empty() || counted.kernels == 0 || counted.pinned > 0) return {};
  return Error::bad_input(
      pins.log(), "none of this log's winners is a kernel of this graph on this target",
      "name the log of a program of this graph, compiled with the same --target, or leave --pin out");
}

PinReport report_pins(const Batch& batch, const Pins& pins, std::vector<std::string>& warnings) {
  if (pins.empty()) return {};
  PinReport out = count_pins(batch);
  out.log = pins.log(), out.machine = pins.machine();
  if (out.pinned < out.kernels)
    warnings.push_back(
        fmt::format("--pin: {} of {} kernels pinned; for the others the log has no winner that is a "
                    "candidate here, so they were tuned again",
                    out.pinned, out.kernels));
  const std::string here = this_machine().fingerprint;
  if (out.machine != here)
    warnings.push_back(fmt::format("--pin: the log is from another machine ({}), and this one is {}",
                                   out.machine.empty() ? "not recorded" : out.machine, here));
  return out;
}

}  // namespace qcg

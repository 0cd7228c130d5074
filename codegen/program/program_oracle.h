// What makes a program's outputs right: float64 says what they should be, this says how far off they may be.
//
// Why here: `check` asks it of a program that exists, `compile` of one it is about to publish (verify_program.h).
//
//   QCG_TRY(want, evaluate_graph(graph, inputs));                // the graph as it was read, before any pass
//   const std::vector<double> allowed = output_tolerances(graph);
//   OutputCheck y = compare_output("y", "oracle", got[0], want[0].contiguous(), allowed[0]);
//   if (!y.ok) QCG_CHECK(widen_bounds(graph, inputs, options, got, want, outputs));
//
// An output is right where every element is within a share of the largest one. Where sums cancel, or numbers are
// rounded to codes on the way, a right output may be farther off: as far as the oracle's own moves when what it is
// computed from is disturbed by as much as sums in f32 and roundings are off, and a code of each row flips. Then the
// largest error and the mean square must both stay within twice what the disturbances did: codes flip here and there, a
// wrong factor is everywhere.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/oracle/reference.h"

namespace qcg {

inline constexpr double kExact_dB = 999;  // the SNR of no difference at all

struct OutputCheck {
  std::string name;
  std::string against;  // "oracle" or "expected"
  double max_err = 0, bound = 0, snr_db = 0;
  bool ok = true;
  double rms_err = 0;
  int64_t finite = 0;            // elements that are a number in both
  std::vector<int64_t> element;  // of the largest error
  double got = 0, want = 0;      // there
  // "y[1, 5] is 0.31 where the oracle has 0.52: off by 0.21, and 0.003 is allowed".
  std::string describe() const;
};

// Of each output of the graph: the largest error, as a share of its largest element, that rounding explains.
std::vector<double> output_tolerances(const Graph& graph);

// Both dense, of one dtype and shape.
OutputCheck compare_output(const std::string& name, const std::string& against, const Tensor& got, const Tensor& want,
                           double tolerance);

// Looks again at `outputs`, some of which are not ok: the oracle's `want` once more under disturbances. `outputs` are
// those of the graph, which the program computed as `got`, against the oracle, perhaps followed by the same against what
// was expected. Elements that the roundings of eager execution make infinite are right whatever they are. `after_each`:
// called after every evaluation, which takes as long as the first.
Status widen_bounds(const Graph& graph, const std::vector<Tensor>& inputs, ReferenceOptions options,
                    const std::vector<Tensor>& got, const std::vector<Tensor>& want, std::vector<OutputCheck>& outputs,
                    const std::function<void()>& after_each = {});

}  // namespace qcg

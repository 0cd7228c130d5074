// Which integers f32 computes exactly: those whose magnitude, and that of every number on the way, is at most 2^24.
//
// Why here: row programs compute in f32 lanes; masks and how often they hold go along with them, positions and ids do not.
//
//   ExactIntegers exact(graph);
//   exact.most(%any: i64[s0, 1])       // 128, where %any is the sum of a bool[s0, 128] along its last axis
#pragma once

#include <span>
#include <unordered_map>

#include "graph/ir/graph.h"

namespace qcg {

class ExactIntegers {
 public:
  explicit ExactIntegers(const Graph& graph) : graph_(graph) {}

  static constexpr double kMost = 1 << 24;
  // The largest magnitude that the value's elements can have; infinite where nothing bounds it, or beyond kMost.
  double most(ValueId id);
  bool is_exact(ValueId id) { return most(id) <= kMost; }

 private:
  double bound_of(ValueId id);

  const Graph& graph_;
  std::unordered_map<ValueId, double> known_;
};

}  // namespace qcg

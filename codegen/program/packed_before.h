// PackedBefore: weights that an earlier plan of the same model has packed already.
//
// Why here: a plan that lost a trial is made again, and most of its weights are the same tensors, packed in the same
// way.
//
//   const PackedBefore before(plan, writer);
//   again.pack_constants(new_plan, threads, &before);     // copies what before.find() knows
#pragma once

#include <cstddef>
#include <map>
#include <span>

#include "codegen/plan/plan.h"
#include "codegen/program/program_writer.h"

namespace qcg {

class PackedBefore {
 public:
  // Both must outlive it.
  PackedBefore(const Plan& plan, const ProgramWriter& writer);

  // The packed bytes of a problem's weights; empty: they were other tensors, or packed for another problem. Tensors are
  // the same if they view the same bytes in memory, not if they are equal.
  std::span<const std::byte> find(const Plan& plan, const PlanConstant& constant) const;

 private:
  const Plan& plan_;
  const ProgramWriter& writer_;
  std::multimap<const Storage*, size_t> constants_;  // of problems, by the bytes of their first weight
};

}  // namespace qcg

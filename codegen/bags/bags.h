// Bags of embeddings: rows of a table at positions known only at run time, reduced bag by bag. Problem, renderer and
// family.
//
// Why here: recommendation models do little else; torch has one operator for it.
//
//   BagsProblem p{BagMode::sum, DType::f32};   render_bags(p, isa, "qcg_kernel_3")
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"

namespace qcg {

enum class BagMode : uint8_t { sum, mean, max };  // as torch numbers them

// y[b] = sum, mean or max over i in [offsets[b], offsets[b + 1]) of table[ids[i]] (times weights[i]), without those where
// ids[i] is the padding; 0 of an empty bag. The last bag may end where ids do.
// args: table, offsets, ids, weights (if any), y. params: bags, d, n (of ids), count of offsets, n + 1, size (rows of the
// table), row stride of the table, row stride of y, padding (-1: none).
struct BagsProblem {
  BagMode mode = BagMode::sum;
  DType table = DType::f32;  // and y's
  DType offsets = DType::i64, ids = DType::i64;
  std::optional<DType> weights;
  std::string comment;
  std::string signature() const;
};
Result<std::string> render_bags(const BagsProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch bags_launch(const BagsProblem& problem);
extern const KernelFamily kBagsFamily;

}  // namespace qcg

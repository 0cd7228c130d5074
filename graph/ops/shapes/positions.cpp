// Shape and dtype rules of ops that compare with lists and write at positions.
#include <fmt/format.h>

#include "graph/ops/infer.h"
#include "graph/ops/rows_library.h"

namespace qcg {

Result<Types> infer_isin(const OpArgs& a) {
  return one(DType::boolean, has_arg(a, "elements") ? a.tensor("elements").shape : Shape());
}

Result<Types> infer_index_fill(const OpArgs& a) {
  const Value &self = a.tensor("self"), &index = a.tensor("index");
  QCG_CHECK(a.axis("dim", self.shape.size()));
  if (self.shape.empty()) return a.fail("self", "expected axes, got a number");
  if ((index.dtype != DType::i64 && index.dtype != DType::i32) || index.shape.size() > 1)
    return a.fail("index", "expected a list of positions, got " + describe(index));
  if (const ValueId* value = a.node.arg("value").get<ValueId>(); value && !a.graph.value(*value).shape.empty())
    return a.fail("value", "expected a number, got " + describe(a.graph.value(*value)));
  return one(self.dtype, self.shape);
}

Result<Types> infer_put(const OpArgs& a) {
  const Value &self = a.tensor("self"), &index = a.tensor("index"), &source = a.tensor("source");
  if (index.dtype != DType::i64) return a.fail("index", "expected positions of i64, got " + describe(index));
  if (source.dtype != self.dtype || !(product(source.shape) == product(index.shape)))
    return a.fail("source", fmt::format("{} is not one element of {} for each of {}", describe(source), describe(self),
                                        describe(index)));
  return one(self.dtype, self.shape);
}

}  // namespace qcg

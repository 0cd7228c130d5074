// The oracle's rule for grouped products: each row is multiplied by the matrix of its group.
#include <algorithm>

#include "graph/oracle/ops.h"

namespace qcg {
namespace {

// Ends ascend; a row belongs to the first group that ends behind it, and is 0 where none does.
Result<Tensors> run_grouped_mm(const RefContext& c) {
  const bool own = c.node.op->arg_index("mat2") >= 0;
  const Tensor &x = c.tensor(own ? "self" : "input").data, &w = c.tensor(own ? "mat2" : "weight").data;
  const std::vector<int64_t> ends = read_ints(c.tensor("offs").data);
  const std::vector<double> xs = read_doubles(x), ws = read_doubles(w);
  const int64_t k = x.shape[1], n = w.shape[2];
  std::vector<double> out(static_cast<size_t>(x.shape[0] * n));
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    const auto end = std::ranges::find_if(ends, [&](int64_t e) { return e > row; });
    if (end == ends.end()) continue;
    const double* matrix = ws.data() + (end - ends.begin()) * k * n;
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j) out[static_cast<size_t>(row * n + j)] += xs[row * k + i] * matrix[i * n + j];
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

constexpr RefRow kGroupRules[] = {{"transformers.grouped_mm_fallback.default", run_grouped_mm},
                                  {"aten._grouped_mm.default", run_grouped_mm}};

}  // namespace

std::span<const RefRow> reference_groups() { return kGroupRules; }

}  // namespace qcg

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

// The same, of constants in a scheme.
Result<Tensors> run_grouped_linear(const RefContext& c) {
  const auto constants = [&](std::string_view name) {
    const RefValue* value = c.optional_tensor(name);
    return value ? value->data : Tensor();
  };
  const Tensor x = c.tensor("x").data, w = constants("weight"), scales = constants("scale"), zeros = constants("zero"),
               offsets = constants("offset");
  const std::vector<int64_t> ends = read_ints(c.tensor("ends").data);
  LinearOperands p;
  p.scheme = *scheme_from_name(*c.node.arg("scheme").get<std::string>());
  p.group = c.integer("group");
  p.xs = {x};
  const int64_t n = w.shape[1];
  std::vector<double> out(static_cast<size_t>(x.shape[0] * n));
  int64_t row = 0;
  for (int64_t g = 0; g < std::ssize(ends); ++g) {
    std::vector<int64_t> rows;
    for (; row < std::min(ends[g], x.shape[0]); ++row) rows.push_back(row);
    if (rows.empty()) continue;
    const auto of = [&](const Tensor& all) { return all.shape.empty() ? Tensor() : all.select(0, g); };
    p.segments = {{of(w), of(scales), of(zeros), {}, of(offsets)}};
    QCG_TRY(product, reference_linear(p, 0, rows));
    std::ranges::copy(product.y, out.begin() + rows[0] * n);
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

constexpr RefRow kGroupRules[] = {{"transformers.grouped_mm_fallback.default", run_grouped_mm},
                                  {"aten._grouped_mm.default", run_grouped_mm},
                                  {"qcg.grouped_linear", run_grouped_linear}};

}  // namespace

std::span<const RefRow> reference_groups() { return kGroupRules; }

}  // namespace qcg

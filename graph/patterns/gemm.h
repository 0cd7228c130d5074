// Gemm: linear, mm, addmm, matmul and bmm seen as one thing, x times a weight matrix.
//
// Why here: every pattern for a (quantized) linear starts from one of these five ops; how each orders its operands is
// said once.
//
//   std::optional<Gemm> g = as_gemm(graph, node);   // aten.mm(x, permute(w)) -> {x, w, weight_kn = false}
#pragma once

#include <optional>

#include "graph/ir/graph.h"

namespace qcg {

struct Gemm {
  ValueId x = kNoValue;
  ValueId w = kNoValue;     // transposes of the last two axes already taken off
  bool weight_kn = false;   // w is [K, N] (as in mm), not [N, K] (as in linear)
  ValueId bias = kNoValue;  // absent also for addmm with beta = 0
  double alpha = 1, beta = 1;
};

// The value under transposes of the last two axes, and whether it is [.., K, N], of one that is `kn` itself.
struct UnderTransposes {
  ValueId id;
  bool kn;
};
UnderTransposes under_transposes(const Graph& graph, ValueId id, bool kn);

std::optional<Gemm> as_gemm(const Graph& graph, const Node& node);

}  // namespace qcg

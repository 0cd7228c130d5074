// Problems without a graph: the linears of a Llama-3.1-8B layer in every scheme, with random weights.
//
// Why here: `bench --all` and tests want a scheme's kernels on real shapes before any file holds such a model.
//
//   for (const SchemeInfo& scheme : kSchemes)
//     for (const SampleScheme& s : sample_schemes(scheme))
//       for (const LayerShape& shape : kLlamaShapes) {
//         const Problem problem = sample_problem(s, shape);
//         const std::vector<SegmentTensors> tensors = sample_tensors(problem, 1);
//       }
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/gemm/problem.h"

namespace qcg {

// One linear of a layer, siblings merged as the compiler merges them.
struct LayerShape {
  std::string_view name;
  int64_t k;
  std::array<int64_t, 3> n;  // segments; 0: none
  bool plain = false;        // nothing but the linear, and a store in the activation's dtype
};
inline constexpr LayerShape kLlamaShapes[] = {{"qkv", 4096, {4096, 1024, 1024}},
                                              {"o", 4096, {4096, 0, 0}},
                                              {"gate_up", 4096, {14336, 14336, 0}},
                                              {"down", 14336, {4096, 0, 0}}};

// A scheme with the dtypes and the group it is sampled with.
struct SampleScheme {
  Scheme scheme;
  DType activation, weight;
  int64_t group = 0;
  DType scale = DType::f32;
  std::string label() const;  // "w4 g128", "dense f32"
};
std::vector<SampleScheme> sample_schemes(const SchemeInfo& scheme);

// The epilogue is the layer's own unless its shape is plain: silu(gate) * up, a residual behind o and down, and the store
// in the activation's dtype.
Problem sample_problem(const SampleScheme& scheme, const LayerShape& shape);

// Random tensors without zeros. Values repeat after a large prime, so that gigabytes cost a copy.
std::vector<SegmentTensors> sample_tensors(const Problem& problem, uint64_t seed);

}  // namespace qcg

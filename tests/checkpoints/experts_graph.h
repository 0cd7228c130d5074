// Graphs of mixtures of experts as they are exported from dense models: the matrices of all experts are one parameter.
//
//   spit(path, experts_graph("mlp.experts.gate_up_proj", "[3, 64, 48]"));
//   evaluate_graph(graph, identities(3, 64, DType::bf16))     // y lies as the parameter does
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dense_graph.h"

namespace qcg::test {

// The rows of an identity matrix for each expert, and where they end: y lies as a weight [experts, K, N] does.
inline std::vector<Tensor> identities(int64_t experts, int64_t k, DType dtype) {
  Tensor x = identity(k, dtype);
  x.shape = {experts, k, k}, x.strides = {0, k, 1};
  std::vector<int32_t> ends;
  for (int64_t e = 1; e <= experts; ++e) ends.push_back(static_cast<int32_t>(e * k));
  const auto bytes = std::as_bytes(std::span(ends));
  return {x.reshape({experts * k, k}), Tensor::from_bytes(DType::i32, {experts}, {bytes.begin(), bytes.end()})};
}

// A graph as it is exported from a dense mixture of experts: rows of x, sorted by expert, times the expert's matrix.
inline std::string experts_graph(const std::string& weight, const std::string& shape) {
  return R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 4096]},
  "inputs": [{"name": "x", "dtype": "bf16", "shape": ["m", 64]}, {"name": "ends", "dtype": "i32", "shape": [3]}],
  "parameters": [{"name": ")" +
         weight + R"(", "dtype": "bf16", "shape": )" + shape + R"(}],
  "nodes": [{"op": "_grouped_mm", "inputs": {"self": "x", "mat2": ")" +
         weight + R"(", "offs": "ends"}, "outputs": ["y"]}],
  "outputs": ["y"]})";
}

// All experts, a parameter [experts, n, k], as one product of groups.
inline std::string joined_graph(const std::string& weight, int64_t experts, int64_t n, int64_t k) {
  const std::string count = std::to_string(experts), size = std::to_string(k);
  return R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 4096]},
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", )" +
         size + R"(]},
             {"name": "ends", "dtype": "i32", "shape": [)" +
         count + R"(]}],
  "parameters": [{"name": ")" +
         weight + R"(", "dtype": "f32", "shape": [)" + count + ", " + std::to_string(n) + ", " + size + R"(]}],
  "nodes": [{"op": "permute", "inputs": {"self": ")" +
         weight + R"(", "dims": [0, 2, 1]}, "outputs": ["w"]},
            {"op": "_grouped_mm", "inputs": {"self": "x", "mat2": "w", "offs": "ends"}, "outputs": ["y"]}],
  "outputs": ["y"]})";
}

}  // namespace qcg::test

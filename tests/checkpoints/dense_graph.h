// A graph of linears as it is exported from a dense model, for checkpoints to fill; and what its linears multiply by then.
//
//   const auto graph = read_dense({{"fc.weight", n, k}}, {.weights = {folder}});
//   weights_of(*graph)[0];      // n * k numbers
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/checkpoints/checkpoint.h"
#include "graph/checkpoints/read_model.h"
#include "graph/ir/elements.h"
#include "graph/oracle/reference.h"
#include "graph/passes/pass_list.h"
#include "graph/read/safetensors.h"
#include "tests/paths.h"
#include "tests/temp_dir.h"

namespace qcg::test {

inline std::string fixture(const std::string& name) {
  return test::source_dir() + "/tests/checkpoints/fixtures/" + name;
}

inline void check_numbers(const std::vector<double>& got, const Tensor& expected, double tolerance,
                          const std::string& name) {
  const auto want = *read_elements<double>(expected);
  REQUIRE(got.size() == want.size());
  size_t wrong = 0;
  for (size_t i = 0; i < want.size(); ++i) wrong += std::abs(got[i] - want[i]) > tolerance * std::abs(want[i]);
  CHECK_MESSAGE(wrong == 0, name << ": " << wrong << " of " << want.size() << " numbers differ");
}

inline std::vector<const Node*> linears_of(const Graph& graph) {
  std::vector<const Node*> out;
  for (const Node& node : graph.nodes)
    if (node.op->name == "qcg.linear") out.push_back(&node);
  return out;
}

inline Graph lowered(Graph graph) {
  PassCheckpoint none;
  const auto passes = run_passes(graph, {}, none);
  REQUIRE_MESSAGE(passes.ok(), passes.error().to_string());
  return graph;
}

struct DenseLinear {
  std::string weight;
  int64_t n, k;
  std::string dtype = "f32";
};

// A graph as it is exported from a dense model: y_i = x_i @ w_i^T.
inline std::string dense_graph(const std::vector<DenseLinear>& linears) {
  std::string inputs, parameters, nodes, outputs;
  for (size_t i = 0; i < linears.size(); ++i) {
    const auto& [weight, n, k, dtype] = linears[i];
    const std::string comma = i ? "," : "", x = "x" + std::to_string(i), y = "y" + std::to_string(i);
    const auto tensor = [&](const std::string& name, const std::string& shape) {
      return comma + R"({"name": ")" + name + R"(", "dtype": ")" + dtype + R"(", "shape": )" + shape + "}";
    };
    inputs += tensor(x, R"(["m", )" + std::to_string(k) + "]");
    parameters += tensor(weight, "[" + std::to_string(n) + ", " + std::to_string(k) + "]");
    nodes += comma + R"({"op": "linear", "inputs": {"input": ")" + x + R"(", "weight": ")" + weight +
             R"("}, "outputs": [")" + y + R"("]})";
    outputs += comma + "\"" + y + "\"";
  }
  return R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 4096]}, "inputs": [)" + inputs +
         R"(], "parameters": [)" + parameters + R"(], "nodes": [)" + nodes + R"(], "outputs": [)" + outputs + "]}";
}

inline Result<Graph> read_dense(const std::vector<DenseLinear>& linears, const ReadOptions& options,
                                ReadInfo* info = nullptr) {
  const TempDir dir;
  spit(dir / "graph.json", dense_graph(linears));
  return read_model(dir / "graph.json", options, info);
}

inline Tensor identity(int64_t k, DType dtype) {
  std::vector<std::byte> bytes(static_cast<size_t>(k * k) * dtype_bytes(dtype));
  for (int64_t i = 0; i < k; ++i)
    double_to_element(dtype, 1, bytes.data() + static_cast<size_t>(i * k + i) * dtype_bytes(dtype));
  return Tensor::from_bytes(dtype, {k, k}, std::move(bytes));
}

// What each linear multiplies by: its output for the identity, turned. All have one K.
inline std::vector<std::vector<double>> weights_of(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs)
    inputs.push_back(identity(graph.value(id).shape.back().constant(), graph.value(id).dtype));
  const auto outputs = evaluate_graph(graph, inputs);
  REQUIRE_MESSAGE(outputs.ok(), outputs.error().to_string());
  std::vector<std::vector<double>> out;
  for (const Tensor& y : *outputs) out.push_back(*read_elements<double>(y.transpose(0, 1)));
  return out;
}

}  // namespace qcg::test

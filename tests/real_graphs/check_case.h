// check_case: compiles a torch case, runs it on the case's inputs, and compares with torch and the oracle.
//
// Why here: kinds of operators have a file each in this folder, and ask the same of their cases.
//
//   CHECK(check_case(dir, test).status == 0);
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/read/safetensors.h"
#include "tests/cli_runner.h"
#include "tests/torch_cases.h"

namespace qcg::test {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

inline NamedTensors with_names(const Graph& graph, const std::vector<ValueId>& ids, std::vector<Tensor> tensors) {
  NamedTensors out;
  for (size_t i = 0; i < ids.size(); ++i) out.emplace_back(graph.value(ids[i]).name, std::move(tensors[i]));
  return out;
}

inline Run check_case(const TempDir& dir, const TorchCase& test) {
  const Graph graph = test.graph();
  spit(dir / "graph.txt", test.text);
  REQUIRE(write_safetensors(dir / "in", with_names(graph, graph.inputs, test.input_tensors())).ok());
  REQUIRE(write_safetensors(dir / "out", with_names(graph, graph.outputs, test.output_tensors())).ok());
  return qcodegen({"check", dir / "graph.txt", "--inputs", dir / "in", "--expected", dir / "out"});
}

}  // namespace qcg::test

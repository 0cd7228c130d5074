// check_cases: compiles torch cases, runs them on their inputs, and compares with torch and the oracle.
//
// Why here: kinds of operators have a file each in this folder, and ask the same of their cases.
//
//   CHECK(check_cases([](const TorchCase&, const Graph& graph) { return is_any_op(graph.nodes[0], kScans); }, 4) > 10);
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/ops/op_table.h"
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

// Checks the first of every `every` cases that `wanted(test, graph)` takes, and returns how many were checked.
template <typename Wanted>
int check_cases(const Wanted& wanted, int every = 1) {
  const TempDir dir;
  int met = 0, checked = 0;
  for (const TorchCase& test : read_torch_cases()) {
    if (!wanted(test, test.graph()) || met++ % every != 0) continue;
    ++checked;
    const Run run = check_case(dir, test);
    CHECK_MESSAGE(run.status == 0, test.title << "\n" << run.out << run.err << test.text);
  }
  return checked;
}

// Whether the graph is one node of these operators.
inline auto is_one_of(std::span<const Op> ops) {
  return
      [ops](const TorchCase&, const Graph& graph) { return graph.nodes.size() == 1 && is_any_op(graph.nodes[0], ops); };
}

}  // namespace qcg::test

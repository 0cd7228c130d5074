// Small graphs with inputs and what eager torch computes from them: graph_core/torch_cases.txt, read.
//
// Why here: the oracle (tests/graph_core), the passes (tests/passes) and compiled programs (tests/real_graphs) each
// have to give these outputs.
//
//   for (const TorchCase& test : read_torch_cases()) evaluate_graph(test.graph(), test.input_tensors());
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/verify.h"
#include "graph/read/text.h"
#include "tests/paths.h"

namespace qcg::test {

inline Tensor tensor_of(DType dtype, std::vector<int64_t> shape, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* p = bytes.data() + i * dtype_bytes(dtype);
    if (is_floating(dtype)) double_to_element(dtype, values[i], p);
    else int_to_element(dtype, static_cast<int64_t>(values[i]), p);
  }
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

struct TorchCase {
  std::string title, text;
  std::vector<std::vector<double>> inputs, outputs;

  bool is_exact() const { return title.ends_with(" exact"); }
  bool is_quantization() const { return title.starts_with("quantization: "); }

  Graph graph() const {
    auto g = parse_graph(text);
    REQUIRE_MESSAGE(g.ok(), g.error().to_string() << "\n" << text);
    const Status status = verify_graph(*g);
    REQUIRE_MESSAGE(status.ok(), status.error().to_string() << "\n" << text);
    return std::move(*g);
  }
  std::vector<Tensor> input_tensors() const { return tensors(graph(), graph().inputs, inputs); }
  std::vector<Tensor> output_tensors() const { return tensors(graph(), graph().outputs, outputs); }

 private:
  static std::vector<Tensor> tensors(const Graph& g, const std::vector<ValueId>& ids,
                                     const std::vector<std::vector<double>>& values) {
    REQUIRE(ids.size() == values.size());
    std::vector<Tensor> out;
    for (size_t i = 0; i < ids.size(); ++i)
      out.push_back(tensor_of(g.value(ids[i]).dtype, *evaluate(g.value(ids[i]).shape, {}), values[i]));
    return out;
  }
};

inline std::vector<double> parse_numbers(const std::string& line) {
  std::vector<double> values;
  const char* p = line.c_str();
  for (char* end; *p; p = end) {
    values.push_back(std::strtod(p, &end));
    if (end == p) break;
    while (*end == ' ') ++end;
  }
  return values;
}

inline std::vector<TorchCase> read_torch_cases() {
  std::ifstream file(source_dir() + "/tests/graph_core/torch_cases.txt");
  REQUIRE(file.good());
  std::vector<TorchCase> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("case ")) cases.emplace_back().title = line.substr(5);
    else if (line == "in" || line.starts_with("in "))
      cases.back().inputs.push_back(parse_numbers(line.substr(std::min<size_t>(3, line.size()))));
    else if (line == "out" || line.starts_with("out "))
      cases.back().outputs.push_back(parse_numbers(line.substr(std::min<size_t>(4, line.size()))));
    else cases.back().text += line + "\n";
  }
  return cases;
}

}  // namespace qcg::test

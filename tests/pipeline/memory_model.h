// Models in memory: random weights for graphs in text form, and a source that counts how often it is read.
//
//   CountingModel model(graph_of(kText), random_weights(graph));
//   REQUIRE(compile_model(model, options).ok());
//   CHECK(model.reads == 1);
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "codegen/program/model_source.h"
#include "graph/read/text.h"

namespace qcg::test {

inline Graph graph_of(const std::string& text) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  return std::move(*graph);
}

inline Tensor random_tensor(std::vector<int64_t> shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  const auto bytes = std::as_bytes(std::span(values));
  return Tensor::from_bytes(DType::f32, std::move(shape), {bytes.begin(), bytes.end()});
}

// Of every parameter of a graph whose parameters are f32.
inline std::map<std::string, Tensor> random_weights(const Graph& graph) {
  std::map<std::string, Tensor> out;
  for (const Value& value : graph.values)
    if (value.kind == ValueKind::parameter)
      out[value.name] = random_tensor(value.data.shape, static_cast<unsigned>(out.size()) + 1);
  return out;
}

class CountingModel : public GraphModel {
 public:
  using GraphModel::GraphModel;
  Result<std::vector<ModelPart>> identify() override { return parts; }
  Result<Model> read() override { return ++reads, GraphModel::read(); }

  std::vector<ModelPart> parts;  // empty: whole compiles are not kept
  int reads = 0;
};

}  // namespace qcg::test

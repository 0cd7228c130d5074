// What every test of the passes needs: graphs from text, deterministic inputs, and "the oracle gives the same before
// and after".
//
//   Graph g = parse(R"(graph(%x: f32[4, 8]) { … })");
//   check_same_values(before, after, /*seed=*/1);
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "graph/ir/graph.h"
#include "graph/oracle/reference.h"
#include "graph/passes/pass_list.h"
#include "graph/read/text.h"
#include "graph/read/weights.h"

namespace qcg {

inline Graph parse(const std::string& text) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), (graph.error().to_string() + "\n" + text));
  return std::move(*graph);
}

inline Value& parameter(Graph& graph, const std::string& name) {
  for (Value& v : graph.values)
    if (v.kind == ValueKind::parameter && v.name == name) return v;
  FAIL("no parameter " << name);
  return graph.values[0];
}

inline Tensor random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor t = Tensor::zeros(dtype, shape);
  std::vector<std::byte> bytes(static_cast<size_t>(t.numel()) * dtype_bytes(dtype));
  std::byte* p = bytes.data();
  for (int64_t i = 0; i < t.numel(); ++i, p += dtype_bytes(dtype)) {
    if (is_floating(dtype)) double_to_element(dtype, std::uniform_real_distribution<double>(-2, 2)(random), p);
    else int_to_element(dtype, static_cast<int64_t>(random() % 100) - (dtype == DType::i8 ? 50 : 0), p);
  }
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

// Every symbol is `size`, or the nearest value its range allows.
inline std::vector<Tensor> random_inputs(const Graph& graph, uint64_t seed, int64_t size = 3) {
  SymbolValues values;
  for (const Symbol& s : graph.symbols) values[s.name] = std::clamp(size, s.min, s.max);
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs) {
    auto shape = evaluate(graph.value(id).shape, values);
    REQUIRE(shape);
    inputs.push_back(random_tensor(graph.value(id).dtype, *shape, ++seed));
  }
  return inputs;
}

inline size_t count_op(const Graph& graph, std::string_view op) {
  size_t count = 0;
  for (const Node& node : graph.nodes) count += node.op->name == op;
  return count;
}

// Every element of the parameter of this name.
inline void fill(Graph& graph, const std::string& name, double value) {
  for (Value& v : graph.values) {
    if (v.name != name) continue;
    std::vector<std::byte> bytes(static_cast<size_t>(v.data.numel()) * dtype_bytes(v.dtype));
    for (int64_t i = 0; i < v.data.numel(); ++i)
      double_to_element(v.dtype, value, bytes.data() + i * dtype_bytes(v.dtype));
    v.data = Tensor::from_bytes(v.dtype, v.data.shape, std::move(bytes));
  }
}

inline double largest_step(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 0x1p-7;
    case DType::f16: return 0x1p-10;
    case DType::f32: return 1e-5;
    default: return is_floating(dtype) ? 1e-9 : 0;
  }
}

// The oracle does not round the intermediates whose rounding passes may drop, so dropping it changes nothing: what
// differs is the order of a few exact operations, and one rounding of the output.
inline void check_same_values(const Graph& before, const Graph& after, uint64_t seed) {
  const std::vector<Tensor> inputs = random_inputs(before, seed);
  auto want = evaluate_graph(before, inputs), got = evaluate_graph(after, inputs);
  REQUIRE_MESSAGE(want.ok(), want.error().to_string());
  REQUIRE_MESSAGE(got.ok(), (got.error().to_string() + "\n" + print_graph(after)));
  REQUIRE(want->size() == got->size());
  for (size_t i = 0; i < want->size(); ++i) {
    const Tensor a = (*want)[i].contiguous(), b = (*got)[i].contiguous();
    REQUIRE(a.shape == b.shape);
    REQUIRE(a.dtype == b.dtype);
    const size_t bytes = dtype_bytes(a.dtype);
    for (int64_t k = 0; k < a.numel(); ++k) {
      const double x = element_to_double(a.dtype, a.bytes().data() + k * bytes);
      const double y = element_to_double(b.dtype, b.bytes().data() + k * bytes);
      const bool same = (std::isnan(x) && std::isnan(y)) || x == y ||
                        std::abs(x - y) <= largest_step(a.dtype) * std::max(1.0, std::abs(x));
      INFO("output ", i, " element ", k, ": ", x, " against ", y, ", seed ", seed, "\n", print_graph(after));
      REQUIRE(same);
    }
  }
}

inline void bind_random(Graph& graph, uint64_t seed) {
  auto bound = bind_random_weights(graph, weight_names(graph), seed);
  REQUIRE_MESSAGE(bound.ok(), bound.error().to_string());
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline const PassReport* find_report(const std::vector<PassReport>& reports, std::string_view name) {
  for (const PassReport& report : reports)
    if (report.name == name) return &report;
  return nullptr;
}

inline bool mentions(const PassReport& report, const std::string& text) {
  for (const Skipped& s : report.skipped)
    if (s.reason.find(text) != std::string::npos) return true;
  for (const std::string& note : report.notes)
    if (note.find(text) != std::string::npos) return true;
  return false;
}

}  // namespace qcg

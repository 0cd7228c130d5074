// Names of weights and steps for people, and the lines that kernels list.
#include "codegen/kernel/source_graph.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/read/text.h"

using namespace qcg;

namespace {

Graph parse(const std::string& text) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  return std::move(*graph);
}

}  // namespace

TEST_CASE("a label is the last part of a path that is no number alone") {
  CHECK(short_label("model.layers.0.self_attn.q_proj") == "q_proj");
  CHECK(short_label("q") == "q");
  CHECK(short_label("model.heads.0") == "heads.0");
  CHECK(short_label("heads.0.1") == "heads.0.1");
  CHECK(short_label("0") == "layer.0");
  CHECK(short_label("0.1") == "layer.0.1");
  CHECK(short_label("") == "");
  CHECK(module_of_weight("layers.0.q.weight") == "layers.0.q");
  CHECK(module_of_weight("layers.0.q.qweight") == "layers.0.q");
  CHECK(module_of_weight("layers.0.q.parametrizations.weight.original0") == "layers.0.q");
  CHECK(module_of_weight("wq") == "wq");
}

TEST_CASE("a weight keeps its path through passes, and takes its module's where it has no name of its own") {
  const Graph graph = parse(R"(param @layers.1.v.weight: f32[8, 8]
param @scale: f32[8, 1]
param @lifted_tensor_0: f32[8, 8]
graph(%x: f32[4, 8]) {
  %w = aten.mul.Tensor(@layers.1.v.weight, @scale) : f32[8, 8]
  %a = aten.linear.default(%x, %w) : f32[4, 8]
  %b = aten.linear.default(%a, @lifted_tensor_0) : f32[4, 8]
  return %b
})");
  const SourceGraph source(graph, {{"a", "layers.1.v"}, {"b", "layers.2.out"}, {"w", "layers.1.v"}});
  CHECK(source.weight_path("layers.1.v.weight.unpacked.view_1") == "layers.1.v");
  CHECK(source.weight_path("w.value") == "layers.1.v");
  CHECK(source.weight_path("lifted_tensor_0.view") == "layers.2.out");
  CHECK(source.weight_path("unknown.weight") == "unknown");
  CHECK(source.module_of({"a", "b"}) == "layers");
  CHECK(source.module_of({"a", "w"}) == "layers.1.v");
  CHECK(source.module_of({"a", "nobody"}) == "");
  CHECK(source.op_of("a") == "linear");
  CHECK(source.op_of("nobody") == "");
  CHECK(source.lines({"b", "a"}) ==
        std::vector<std::string>{"%w = aten.mul.Tensor(@layers.1.v.weight, @scale) : f32[8, 8]",
                                 "%a = aten.linear.default(%x, %w) : f32[4, 8]",
                                 "%b = aten.linear.default(%a, @lifted_tensor_0) : f32[4, 8]"});
  CHECK(SourceGraph().lines({"a"}).empty());
}

TEST_CASE("modules meet at whole parts of their paths") {
  const Graph graph = parse("graph(%x: f32[4, 8]) {\n  return %x\n}");
  const SourceGraph source(graph, {{"a", "layers.1.up"}, {"b", "layers.1.upper"}, {"c", "layers.1"}, {"d", "norm"}});
  CHECK(source.module_of({"a", "b"}) == "layers.1");
  CHECK(source.module_of({"a", "c"}) == "layers.1");
  CHECK(source.module_of({"c", "a", "b"}) == "layers.1");
  CHECK(source.module_of({"a", "d"}) == "");
}

TEST_CASE("what a kernel lists is bounded") {
  std::string text = "graph(%x0: f32[4, 8]) {\n";
  std::vector<std::string> nodes;
  for (int i = 0; i < 1000; ++i) {
    text += fmt::format("  %x{} = aten.relu.default(%x{}) : f32[4, 8]\n", i + 1, i);
    nodes.push_back(fmt::format("x{}", i + 1));
  }
  const SourceGraph source(parse(text + "  return %x1000\n}"));
  const std::vector<std::string> lines = source.lines(nodes);
  CHECK(lines.size() == 257);
  CHECK(lines.back() == "and 744 more");
}

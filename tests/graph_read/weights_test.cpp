#include "graph/read/weights.h"

#include <cmath>

#include "graph/ops/verify.h"
#include "graph/read/safetensors.h"
#include "graph/read/text.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Graph parsed(const std::string& text) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  Status verified = verify_graph(*graph);
  REQUIRE_MESSAGE(verified.ok(), verified.error().to_string());
  return std::move(*graph);
}

struct Stats {
  double mean = 0, deviation = 0, min = INFINITY, max = -INFINITY;
};

Stats stats_of(const Graph& graph, const char* name) {
  std::vector<double> values = elements(graph.value(value_named(graph, name)).data);
  Stats s;
  for (double v : values) {
    CHECK(std::isfinite(v));
    s.mean += v / values.size();
    s.min = std::min(s.min, v);
    s.max = std::max(s.max, v);
  }
  for (double v : values) s.deviation += (v - s.mean) * (v - s.mean) / values.size();
  s.deviation = std::sqrt(s.deviation);
  return s;
}

Graph with_random(const std::string& text, uint64_t seed = 1) {
  Graph graph = parsed(text);
  Status status = bind_random_weights(graph, weight_names(graph), seed);
  REQUIRE_MESSAGE(status.ok(), status.error().to_string());
  return graph;
}

}  // namespace

TEST_CASE("weights: by name from safetensors; missing ones are listed with near misses") {
  TempFolder folder;
  std::string graph_path = folder.write("graph.json", small_export().dump());
  Tensor weight = Tensor::zeros(DType::f32, {3, 4}), bias = Tensor::zeros(DType::f32, {3});
  std::string good = folder.file("good.safetensors"), part = folder.file("part.safetensors"),
              wrong = folder.file("wrong.safetensors");
  REQUIRE(write_safetensors(good, {{"fc.weight", weight}, {"fc.bias", bias}, {"other", bias}}).ok());
  REQUIRE(write_safetensors(part, {{"model.fc.weight", weight}, {"fc.bais", bias}}).ok());
  REQUIRE(write_safetensors(wrong, {{"fc.weight", weight.transpose(0, 1)}, {"fc.bias", bias}}).ok());

  ReadInfo info;
  auto graph = read_graph(graph_path, {{good}}, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->value(value_named(*graph, "fc.weight")).data.bound());
  CHECK(info.files == std::vector<std::string>{graph_path, good});

  auto missing = read_graph(graph_path, {{part}});
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::BadInput);
  CHECK(contains(missing.error().message, "2 weights of the graph are missing"));
  CHECK(contains(missing.error().message, "'fc.weight'   (the file has 'model.fc.weight')"));
  CHECK(contains(missing.error().message, "'fc.bias'   (the file has 'fc.bais')"));

  auto useless = read_graph(graph_path, {{good, part}});
  REQUIRE_FALSE(useless.ok());
  CHECK(useless.error().where == part);
  CHECK(contains(useless.error().message, "none of its tensors"));
  CHECK(contains(useless.error().help, "'fc.bias'"));

  auto shape = read_graph(graph_path, {{wrong}});
  REQUIRE_FALSE(shape.ok());
  CHECK(contains(shape.error().message, "holds f32[4, 3], the graph declares f32[3, 4]"));
  CHECK(contains(shape.error().where, "'fc.weight'"));

  CHECK(read_graph(graph_path, {{"random:x"}}).error().code == ErrorCode::Usage);
  CHECK(read_graph(graph_path, {{folder.file("nowhere")}}).error().code == ErrorCode::Io);
  CHECK(read_graph(graph_path, {{part, "random:3"}}).ok());
}

TEST_CASE("weights: random ones are deterministic in seed and name, whatever else the graph holds") {
  std::string text =
      "param @w: f32[300, 70]\nparam @b: f32[300]\ngraph(%x: f32[2, 70]) {\n"
      "  %y = aten.linear.default(%x, @w, @b) : f32[2, 300]\n  return %y\n}\n";
  std::string more = "param @a: f32[9]\n" + text;
  Graph a = with_random(text, 7), b = with_random(more, 7), c = with_random(text, 8);
  auto values = [](const Graph& g) { return elements(g.value(value_named(g, "w")).data); };
  CHECK(values(a) == values(b));
  CHECK(values(a) != values(c));
  CHECK(std::abs(stats_of(a, "w").deviation * std::sqrt(70.0) - 1) < 0.05);
  CHECK(std::abs(stats_of(a, "w").mean) < 0.01);
  CHECK(stats_of(a, "b").max < 0.6);
}

TEST_CASE(
    "weights: quantized weights get integers in range, scales that fit, zero points where the range is unsigned") {
  for (bool is_signed : {true, false}) {
    INFO("signed " << is_signed);
    std::string type = is_signed ? "i8" : "u8",
                range = is_signed ? "quant_min = -8, quant_max = 7" : "quant_min = 0, quant_max = 15";
    Graph graph = with_random("param @w: " + type + "[64, 256]\nparam @s: bf16[64, 8]\nparam @z: " + type +
                              "[64, 8]\ngraph(%x: bf16[3, 256]) {\n  %d = torchao.dequantize_affine.default(@w, "
                              "block_size = [1, 32], scale = @s, zero_point = @z, "
                              "input_dtype = " +
                              type + ", " + range +
                              ", output_dtype = bf16) : bf16[64, 256]\n"
                              "  %y = aten.linear.default(%x, %d) : bf16[3, 64]\n  return %y\n}\n");
    Stats w = stats_of(graph, "w"), s = stats_of(graph, "s"), z = stats_of(graph, "z");
    CHECK(w.min == (is_signed ? -8 : 0));
    CHECK(w.max == (is_signed ? 7 : 15));
    CHECK(s.min > 0);
    CHECK(s.max < 0.1);
    CHECK((z.deviation > 0) == !is_signed);
    CHECK(z.min >= 0);
    CHECK(z.max <= 15);
  }
}

TEST_CASE("weights: bytes of which nothing says a range take all of theirs, so that a weight of 8 bits stays one") {
  for (const char* type : {"i8", "u8"}) {
    INFO(std::string(type));
    const std::string t = type;
    Graph graph = with_random("param @w: " + t + "[64, 256]\nparam @z: " + t + "[64, 1]\nparam @s: f32[64, 1]\n" +
                              "graph(%x: f32[3, 256]) {\n  %d = aten.sub.Tensor(@w, @z) : " + t + "[64, 256]\n" +
                              "  %f = aten.to.dtype(%d, dtype = f32) : f32[64, 256]\n"
                              "  %m = aten.mul.Tensor(%f, @s) : f32[64, 256]\n"
                              "  %y = aten.linear.default(%x, %m) : f32[3, 64]\n  return %y\n}\n");
    const Stats w = stats_of(graph, "w"), z = stats_of(graph, "z"), s = stats_of(graph, "s");
    CHECK(w.min == (t == "i8" ? -128 : 0));
    CHECK(w.max == (t == "i8" ? 127 : 255));
    CHECK(z.min >= 0);
    CHECK(z.max <= 4);
    CHECK(s.min > 0);
    CHECK(s.max < 0.1);
  }
}

TEST_CASE("weights: no dtype ever gets a denormal or a NaN") {
  for (const char* type : {"f32", "f16", "bf16", "f8e4m3", "f8e5m2"}) {
    INFO(std::string(type));
    std::string t = type;
    Graph graph = with_random("param @w: " + t + "[64, 4096]\ngraph(%x: " + t +
                              "[2, 4096]) {\n  %y = aten.add.Tensor(@w, 1) : " + t + "[64, 4096]\n  return %y\n}\n");
    double smallest = t == "f16" || t == "f8e5m2" ? 0x1p-14 : t == "f8e4m3" ? 0x1p-6 : 0x1p-126;
    for (double v : elements(graph.value(value_named(graph, "w")).data)) {
      REQUIRE(std::isfinite(v));
      REQUIRE((v == 0 || std::abs(v) >= smallest));
    }
  }
}

TEST_CASE("weights: more than the machine has is refused") {
  std::string text = "param @w: f32[1000000, 100000000]\ngraph(%x: f32[2]) {\n  return %x\n}\n";
  Graph graph = parsed(text);
  Status status = bind_random_weights(graph, weight_names(graph), 1);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::Io);
}

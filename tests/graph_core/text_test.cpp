#include "graph/read/text.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "graph/ir/graph.h"
#include "graph/ops/op_table.h"

using namespace qcg;

namespace {

std::string round_trip(const std::string& text) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  return print_graph(*graph);
}

constexpr const char* kMlp = R"(symbol s0 in [1, 4096]
param @gate.weight: i8[704, 256]
param @gate.scale: f32[704, 1]
param @up.weight: i8[256, 704] strides [1, 256]
graph "mlp"(%x: bf16[s0, 256], %n: i64[] = s0) {
  aten._assert_tensor_metadata.default(%x, dtype = bf16)
  %g, %h = qcg.linear([%x], weights = [@gate.weight, @gate.weight], scales = [@gate.scale, none], scheme = "w8", epilogue = [mul(silu(acc0), acc1), acc1]) : bf16[s0, 704], bf16[s0, 704]
  %t = aten.t.default(@up.weight) : i8[704, 256]
  %c = aten.to.dtype(%t, dtype = bf16) : bf16[704, 256]
  %mm = aten.mm.default(%g, %c) : bf16[s0, 256]
  %"odd \"name\"" = aten.add.Tensor(%mm, other = 1.5, alpha = 2) : bf16[s0, 256]
  %r = aten.reshape.default(%"odd \"name\"", shape = [2*s0, -1]) : bf16[2*s0, 128]
  return %r as "output", %h
}
)";

// A value for an argument of every kind; printed and read back, never evaluated.
Arg random_arg(const ArgSpec& spec, const std::vector<ValueId>& ids, std::mt19937& random) {
  auto pick = [&] { return ids[random() % ids.size()]; };
  auto dim = [&] { return Dim::symbol("s0") * static_cast<int>(random() % 4) + static_cast<int>(random() % 9) - 4; };
  double edges[] = {0.5, 1, -2, 1e300, 1.1920928955078125e-07, std::numeric_limits<double>::infinity(), -0.0};
  auto real = [&] { return edges[random() % std::size(edges)]; };
  switch (spec.kind) {
    case ArgKind::tensor: return pick();
    case ArgKind::optional_tensor: return random() % 2 ? pick() : kNoValue;
    case ArgKind::tensors: return std::vector<ValueId>{pick(), pick()};
    case ArgKind::optional_tensors: return std::vector<ValueId>{pick(), kNoValue};
    case ArgKind::integer:
    case ArgKind::optional_integer: return dim();
    case ArgKind::integers:
    case ArgKind::optional_integers: return std::vector<Dim>(random() % 4, dim());
    case ArgKind::real:
    case ArgKind::optional_real: return real();
    case ArgKind::reals:
    case ArgKind::optional_reals: return std::vector<double>(random() % 3, real());
    case ArgKind::boolean:
    case ArgKind::optional_boolean: return random() % 2 == 0;
    case ArgKind::string:
    case ArgKind::optional_string: return std::string(random() % 2 ? "tanh" : "a\"\\\n\x01");
    case ArgKind::dtype:
    case ArgKind::optional_dtype: return kDTypes[random() % kDTypes.size()].dtype;
    case ArgKind::tensor_or_scalar:
      if (random() % 2) return pick();
      [[fallthrough]];
    case ArgKind::scalar:
    case ArgKind::optional_scalar: return random() % 3 == 0 ? Arg(dim()) : random() % 2 ? Arg(real()) : Arg(true);
    case ArgKind::exprs:
      return std::vector<Expr>{Expr::acc(0), Expr::call("clamp", {Expr::in(0), Expr::number(real()), Expr::number(2)})};
    case ArgKind::ignored: return Arg();
  }
  return Arg();
}

}  // namespace

TEST_CASE("the text form round-trips") {
  CHECK(round_trip(kMlp) == kMlp);
  CHECK(round_trip("graph() {\n  return\n}\n") == "graph() {\n  return\n}\n");
  constexpr const char* kChecked =
      "symbol s0 in [1, 4096]\ncheck at_least_0(-2*s0+39) \"2*x.size()[0] < 40\"\ncheck not_zero(s0-5) \"s0 != 5\"\n"
      "check zero(-2*floordiv(s0,2)+s0) \"\"\ngraph(%x: f32[s0]) {\n  return %x\n}\n";
  CHECK(round_trip(kChecked) == kChecked);
}

TEST_CASE("absent lists of optional tensors have one entry per segment") {
  auto graph = parse_graph(kMlp);
  REQUIRE(graph.ok());
  const Node& node = graph->nodes[1];
  CHECK(*node.arg("zeros").get<std::vector<ValueId>>() == std::vector<ValueId>{kNoValue, kNoValue});
  CHECK(node.where == "line 7:3");
}

TEST_CASE("every op round-trips with arguments of every kind") {
  uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  INFO("seed " << seed);
  for (int round = 0; round < 20; ++round) {
    Graph g;
    g.symbols.push_back({"s0", 1, round % 2 ? INT64_MAX : 64});
    std::vector<ValueId> ids{g.add_input("x", DType::bf16, {Dim::symbol("s0"), 8}), g.add_input("a b", DType::f32, {}),
                             g.add_parameter("w.0", Tensor::zeros(DType::i8, {3, 4}).transpose(0, 1))};
    for (const OpSchema& op : op_table()) {
      std::vector<Arg> args;
      for (const ArgSpec& spec : op.args)
        args.push_back(spec.has_default && random() % 3 == 0 ? default_arg(spec) : random_arg(spec, ids, random));
      std::vector<Value> outputs(op.outputs < 0 ? random() % 3 : op.outputs);
      for (Value& v : outputs) {
        v.name = g.unique_name(op.name) + (random() % 5 ? "" : " %");
        v.name += std::to_string(g.values.size()) + "_" + std::to_string(&v - outputs.data());
        v.dtype = DType::f16;
        v.shape = {Dim::symbol("s0") * 2, 1};
      }
      NodeId id = g.add_node(&op, std::move(args), std::move(outputs));
      for (ValueId out : g.nodes[id].outputs) ids.push_back(out);
    }
    g.outputs = {ids.back(), ids[0]};
    g.output_names = {"y", "x"};
    std::string text = print_graph(g);
    auto back = parse_graph(text);
    REQUIRE_MESSAGE(back.ok(), back.error().to_string());
    CHECK(print_graph(*back) == text);
    REQUIRE(back->nodes.size() == g.nodes.size());
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      CHECK(back->nodes[i].op == g.nodes[i].op);
      for (size_t a = 0; a < g.nodes[i].args.size(); ++a)
        if (!g.nodes[i].args[a].get<ValueId>() && !g.nodes[i].args[a].get<std::vector<ValueId>>())
          CHECK_MESSAGE(back->nodes[i].args[a] == g.nodes[i].args[a], g.nodes[i].op->name);
    }
  }
}

TEST_CASE("errors name the line and the column") {
  auto error = [](std::string_view text) {
    auto g = parse_graph(text);
    REQUIRE_FALSE(g.ok());
    return g.error().where + " " + g.error().message;
  };
  CHECK(error("graph(%x: f32[2]) {\n  %y = aten.relu.default(%z) : f32[2]\n  return %y\n}") ==
        "line 2:26 %z is not defined above");
  CHECK(error("graph(%x: f33[2]) {") == "line 1:14 unknown dtype 'f33'");
  CHECK(error("graph(%x: f32[2]) {\n  %y = aten.nope(%x) : f32[2]").starts_with("line 2:17 unknown op 'aten.nope'"));
  CHECK(error("graph(%x: f32[2], %x: f32[2]) {").find("defined twice") != std::string::npos);
  CHECK(error("param @x: f32[2]\ngraph(%x: f32[2]) {").find("defined twice") != std::string::npos);
  CHECK(error("graph(%x: f32[2]) {\n %y = aten.linear.default(%x) : f32[2]").find("needs argument 'weight'") !=
        std::string::npos);
  CHECK(error("graph(%x: f32[2]) {\n %y = aten.relu.default(%x, self = %x) : f32[2]").find("given twice") !=
        std::string::npos);
  CHECK(error("graph(%x: f32[2]) {\n %y = aten.gelu.default(%x, \"tanh\") : f32[2]").find("too many") !=
        std::string::npos);
  CHECK(error("param @w: f32[s0]\n").find("constant") != std::string::npos);
}

TEST_CASE("damaged text is refused or read, never worse") {
  std::string text = kMlp;
  for (size_t cut = 0; cut < text.size(); ++cut)
    CHECK((!parse_graph(text.substr(0, cut)).ok() || cut + 2 > text.size()));
  uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  INFO("seed " << seed);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = text;
    for (unsigned n = 0; n <= random() % 3; ++n)
      damaged[random() % damaged.size()] = "()[]{}%@\",: =-+*s09\\#\n\xff"[random() % 23];
    auto g = parse_graph(damaged);
    if (g.ok()) CHECK(parse_graph(print_graph(*g)).ok());
  }
  CHECK_FALSE(parse_graph("graph(%x: f32[" + std::string(100000, '1') + "]) {").ok());
  std::string dims = "graph(%x: f32[1";
  for (int i = 0; i < 100000; ++i) dims += ", 1";
  CHECK_FALSE(parse_graph(dims).ok());
}

TEST_CASE("dead nodes go, value ids stay") {
  auto g = parse_graph(
      "graph(%x: f32[2]) {\n  %a = aten.relu.default(%x) : f32[2]\n  %b = aten.neg.default(%a) : f32[2]\n"
      "  %c = aten.exp.default(%a) : f32[2]\n  return %c\n}\n");
  REQUIRE(g.ok());
  ValueId c = g->outputs[0];
  g->remove_dead();
  CHECK(g->nodes.size() == 2);
  CHECK(g->outputs[0] == c);
  CHECK(g->value(c).producer == 1);
  for_each_input(g->nodes[1], [&](ValueId& id) { id = g->inputs[0]; });
  g->remove_dead();
  CHECK(print_graph(*g) == "graph(%x: f32[2]) {\n  %c = aten.exp.default(%x) : f32[2]\n  return %c\n}\n");
}

TEST_CASE("names and views of values are found, those that were added since too") {
  Graph g;
  const auto input = [&](const std::string& name) { return g.add_input(name, DType::f32, {Dim(2)}); };
  const ValueId x = input("x");
  CHECK(g.unique_name("x") == "x_1");
  CHECK(g.unique_name("y") == "y");
  const ValueId x1 = input("x_1");
  CHECK(g.unique_name("x") == "x_2");
  CHECK(g.unique_name("x_1") == "x_1_1");
  CHECK(g.find_value("x_1") == x1);
  CHECK(g.find_value("z") == kNoValue);
  g.swap_names(x, x1);
  CHECK(g.value(x).name == "x_1");
  CHECK(g.find_value("x_1") == x);
  CHECK(g.find_value("x") == x1);

  const Tensor data = Tensor::zeros(DType::f32, {2, 3});
  const ValueId w = g.add_parameter("w", data);
  CHECK(g.find_view(data.transpose(0, 1).transpose(0, 1), "other") == w);  // the same bytes, whatever the name
  CHECK(g.find_view(data.transpose(0, 1), "w") == kNoValue);
  CHECK(g.find_view(Tensor::zeros(DType::f32, {2, 3}), "w") == kNoValue);
  Tensor unbound = data;
  unbound.storage.reset();
  CHECK(g.find_view(unbound, "w") == kNoValue);
  const ValueId v = g.add_parameter("v.view_1", unbound);
  CHECK(g.find_view(unbound, "v") == v);
  CHECK(g.find_view(unbound, "w") == kNoValue);
}

#include "graph/ops/verify.h"

#include <doctest/doctest.h>

#include <functional>

#include "graph/read/text.h"

using namespace qcg;

namespace {

constexpr const char* kGraph = R"(symbol s0 in [1, 64]
param @w: i8[3, 8]
param @s: f32[3, 2]
param @v: f32[8, 8]
graph(%x: f32[s0, 8], %b: f32[3]) {
  %h = aten.linear.default(%x, @v) : f32[s0, 8]
  %q, %r = qcg.linear([%h], weights = [@w, @w], scales = [@s, @s], operands = [%b], scheme = "w4", group = 4, epilogue = [add(acc0, in0), mul(acc0, acc1)]) : f32[s0, 3], bf16[s0, 3]
  return %q, %r
}
)";

// The message after one change to a good graph.
std::string broken_by(const std::function<void(Graph&)>& change) {
  auto g = parse_graph(kGraph);
  REQUIRE(g.ok());
  change(*g);
  Status status = verify_graph(*g);
  return status.ok() ? "ok" : status.error().message;
}

Value& named(Graph& g, std::string_view name) {
  for (Value& v : g.values)
    if (v.name == name) return v;
  FAIL("no value " << name);
  return g.values[0];
}

ValueId id_of(Graph& g, std::string_view name) { return static_cast<ValueId>(&named(g, name) - g.values.data()); }

void breaks(int rule, const std::function<void(Graph&)>& change) {
  std::string message = broken_by(change);
  std::string want = "rule " + std::to_string(rule) + ":";
  CHECK_MESSAGE(message.starts_with(want), want << " but got: " << message);
}

// Rule 10's messages about qcg.linear name the argument instead.
void refuses(std::string_view part, const std::function<void(Graph&)>& change) {
  std::string message = broken_by(change);
  CHECK_MESSAGE(message.find(part) != std::string::npos, part << " but got: " << message);
}

}  // namespace

TEST_CASE("a good graph passes") {
  CHECK(broken_by([](Graph&) {}) == "ok");
}

TEST_CASE("every rule of the verifier can fail") {
  breaks(1, [](Graph& g) { g.symbols.push_back(g.symbols[0]); });
  breaks(1, [](Graph& g) { g.symbols[0].min = -1; });
  breaks(1, [](Graph& g) { g.symbols[0].max = 0; });
  breaks(1, [](Graph& g) { g.conditions = {{SizeCondition::Says::zero, Dim::symbol("none"), "none == 0"}}; });
  breaks(2, [](Graph& g) { named(g, "h").name = "x"; });
  breaks(2, [](Graph& g) { named(g, "h").name = ""; });
  breaks(3, [](Graph& g) { g.inputs.push_back(g.inputs[0]); });
  breaks(3, [](Graph& g) { g.inputs.pop_back(); });
  breaks(3, [](Graph& g) { g.inputs[0] = id_of(g, "w"); });
  breaks(3, [](Graph& g) { g.outputs[0] = 1000; });
  breaks(3, [](Graph& g) { g.output_names.pop_back(); });
  breaks(3, [](Graph& g) { named(g, "x").symbol = g.symbols[0].name; });  // no single integer
  breaks(3, [](Graph& g) { named(g, "h").symbol = g.symbols[0].name; });  // no input
  breaks(3, [](Graph& g) {
    const ValueId id = g.add_input("n", DType::i64, {});
    g.value(id).symbol = "s9";  // which is not declared
  });
  breaks(4, [](Graph& g) { named(g, "h").shape[0] = Dim::symbol("s9"); });
  breaks(4, [](Graph& g) { named(g, "h").shape[0] = -1; });
  breaks(4, [](Graph& g) { named(g, "h").shape[0] = Dim(INT64_MAX) + 1; });
  breaks(5, [](Graph& g) { named(g, "w").dtype = DType::u8; });
  breaks(5, [](Graph& g) { named(g, "w").shape[0] = 4; });
  breaks(5, [](Graph& g) { named(g, "w").data.strides.pop_back(); });
  breaks(5, [](Graph& g) { named(g, "w").data.storage = Tensor::zeros(DType::i8, {23}).storage; });
  breaks(6, [](Graph& g) { g.nodes[0].op = nullptr; });
  breaks(6, [](Graph& g) { g.nodes[0].args.pop_back(); });
  breaks(7, [](Graph& g) { g.nodes[0].args[0] = Dim(1); });
  breaks(7, [](Graph& g) { g.nodes[0].args[0] = kNoValue; });
  breaks(7, [](Graph& g) { g.nodes[0].args[1] = ValueId{999}; });
  breaks(7, [](Graph& g) { g.nodes[1].arg("group") = 4.0; });
  breaks(8, [](Graph& g) { g.nodes[0].outputs.push_back(id_of(g, "q")); });
  breaks(8, [](Graph& g) { g.nodes[0].outputs[0] = id_of(g, "q"); });
  breaks(8, [](Graph& g) { named(g, "h").output = 1; });
  breaks(9, [](Graph& g) {
    std::swap(g.nodes[0], g.nodes[1]);
    named(g, "h").producer = 1;
    named(g, "q").producer = named(g, "r").producer = 0;
  });
  breaks(9, [](Graph& g) { g.nodes[0].args[0] = id_of(g, "h"); });
  breaks(10, [](Graph& g) { named(g, "h").dtype = DType::bf16; });
  breaks(10, [](Graph& g) { named(g, "q").shape[1] = 4; });
  breaks(11, [](Graph& g) { g.nodes[1].arg("biases") = std::vector<ValueId>{id_of(g, "b"), kNoValue}; });
}

TEST_CASE("a damaged qcg.linear is refused") {
  auto set = [](const char* arg, Arg value) { return [=](Graph& g) { g.nodes[1].arg(arg) = value; }; };
  auto exprs = [](const char* a) { return std::vector<Expr>{*Expr::parse(a), *Expr::parse("acc1")}; };
  refuses("acc2", set("epilogue", exprs("acc2")));
  refuses("in1", set("epilogue", exprs("add(acc0, in1)")));
  refuses("reads no segment", set("epilogue", exprs("in0")));
  refuses("unknown scheme", set("scheme", std::string("w5")));
  refuses("'scales'", set("group", Dim(3)));
  refuses("does not take", set("scheme", std::string("dense")));
  refuses("'weights'", [](Graph& g) { named(g, "w").dtype = named(g, "w").data.dtype = DType::f32; });
  refuses("one entry per weight",
          [](Graph& g) { std::get<std::vector<ValueId>>(g.nodes[1].arg("scales").v).pop_back(); });
  refuses("needs a scale", [](Graph& g) { std::get<std::vector<ValueId>>(g.nodes[1].arg("scales").v)[1] = kNoValue; });
  refuses("contracts 16", [](Graph& g) { g.nodes[1].arg("xs") = std::vector<ValueId>(2, id_of(g, "h")); });
  refuses("'x_scale'", [](Graph& g) { g.nodes[1].arg("x_scale") = id_of(g, "h"); });
  refuses("does not take", set("scheme", std::string("da8w8")));
}

TEST_CASE("one node can be verified alone") {
  auto g = parse_graph(kGraph);
  REQUIRE(g.ok());
  CHECK(verify_node(*g, 1).ok());
  named(*g, "q").shape[1] = 5;
  CHECK_FALSE(verify_node(*g, 1).ok());
  CHECK(verify_node(*g, 0).ok());
}

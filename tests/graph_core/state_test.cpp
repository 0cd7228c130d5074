#include <doctest/doctest.h>

#include <functional>

#include "graph/ops/verify.h"
#include "graph/oracle/reference.h"
#include "graph/read/text.h"

using namespace qcg;

namespace {

constexpr const char* kSums = R"(state %sum as "model.sum": f32[2]
state %count: i64[]
graph(%x: f32[2]) {
  %after = aten.add.Tensor(%sum, %x) : f32[2]
  %n = aten.add.Tensor(%count, other = 1) : i64[]
  %mean = aten.div.Tensor(%after, %n) : f32[2]
  return %mean
  next %sum = %after
  next %count = %n
}
)";

Graph graph_of(const std::string& text) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  return std::move(*graph);
}

std::vector<double> numbers(const Tensor& t) {
  const Tensor dense = t.contiguous();
  std::vector<double> out;
  for (int64_t i = 0; i < dense.numel(); ++i)
    out.push_back(
        element_to_double(dense.dtype, dense.bytes().data() + static_cast<size_t>(i) * dtype_bytes(dense.dtype)));
  return out;
}

Tensor floats(std::vector<float> values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return Tensor::from_bytes(DType::f32, {static_cast<int64_t>(values.size())}, {bytes, bytes + values.size() * 4});
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("state: the text form round-trips, and starts as zeros") {
  const Graph g = graph_of(kSums);
  CHECK(print_graph(g) == kSums);
  REQUIRE(verify_graph(g).ok());
  CHECK(g.states == std::vector<std::string>{"model.sum", "count"});
  CHECK(g.user_inputs() == 1);
  CHECK(g.user_outputs() == 1);
  const Tensor& initial = g.value(g.state_input(0)).data;
  REQUIRE(initial.bound());
  CHECK(numbers(initial) == std::vector<double>{0, 0});
}

TEST_CASE("state: the oracle takes it behind the inputs and gives what follows behind the outputs") {
  const Graph g = graph_of(kSums);
  std::vector<Tensor> state = {g.value(g.state_input(0)).data, g.value(g.state_input(1)).data};
  for (const auto& [x, mean] : {std::pair(std::vector<float>{4, -2}, std::vector<double>{4, -2}),
                                {std::vector<float>{2, 4}, std::vector<double>{3, 1}},
                                {std::vector<float>{0, 1}, std::vector<double>{2, 1}}}) {
    const auto out = evaluate_graph(g, {floats(x), state[0], state[1]});
    REQUIRE(out.ok());
    REQUIRE(out->size() == 3);
    CHECK(numbers((*out)[0]) == mean);
    state = {(*out)[1], (*out)[2]};
  }
  CHECK(numbers(state[0]) == std::vector<double>{6, 3});
  CHECK(numbers(state[1]) == std::vector<double>{3});
}

TEST_CASE("state: what is wrong in the text is said") {
  const auto fails = [](const std::string& text) {
    const auto graph = parse_graph(text);
    return graph.ok() ? "" : graph.error().message;
  };
  CHECK(fails(replaced(kSums, "  next %count = %n\n", "")) == "the state 'count' has no next value");
  CHECK(fails(replaced(kSums, "next %count", "next %sum")) == "the state has a next value already");
  CHECK(fails(replaced(kSums, "  next %count = %n\n", "  next %count = %n\n  next %x = %n\n")) ==
        "what has a next value is no state");
  CHECK(fails(replaced(kSums, "next %count = %n", "next %count = %m")) == "%m is not defined above");
  CHECK(fails(replaced(kSums, "state %count: i64[]", "state %count: i64[s0]")).find("constant sizes") !=
        std::string::npos);
}

TEST_CASE("state: rule 12 of the verifier") {
  const auto message = [](const std::function<void(Graph&)>& change) {
    Graph g = graph_of(kSums);
    change(g);
    const Status status = verify_graph(g);
    return status.ok() ? "ok" : status.error().message;
  };
  CHECK(message([](Graph&) {}) == "ok");
  CHECK(message([](Graph& g) { g.states[1] = g.states[0]; }).starts_with("rule 12"));
  CHECK(message([](Graph& g) { g.states[1].clear(); }).starts_with("rule 12"));
  CHECK(message([](Graph& g) { g.states.resize(5, "a"); }).starts_with("rule 12"));
  CHECK(message([](Graph& g) {
          std::swap(g.outputs[1], g.outputs[2]);
        }).find("it is f32[2], but its next value is i64[]") != std::string::npos);
  CHECK(message([](Graph& g) { g.values[g.state_input(0)].data.shape = {3}; }).starts_with("rule 5"));
  CHECK(message([](Graph& g) { g.values[g.state_input(0)].data.offset = 1; }).starts_with("rule 5"));
  CHECK(message([](Graph& g) { g.values[g.state_input(0)].data.storage = nullptr; }) ==
        "ok");  // explain without weights
}

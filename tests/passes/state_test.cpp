// State through the passes: it is no constant, and what becomes of it is no dead code.
#include <doctest/doctest.h>

#include "graph/oracle/ops.h"
#include "graph/oracle/reference.h"
#include "graph/passes/pass_list.h"
#include "graph/read/text.h"

using namespace qcg;

namespace {

// A cache that nothing returns, a state that only counts, one that two values become, and arithmetic on zeros that a
// constant would lose.
constexpr const char* kGraph = R"(param @w: f32[4, 4]
state %cache: f32[3, 4]
state %count: f32[1]
state %twin: f32[3, 4]
graph(%x: f32[1, 4]) {
  %rest = aten.slice.Tensor(%cache, dim = 0, start = 1, end = 3) : f32[2, 4]
  %moved = aten.cat.default([%rest, %x]) : f32[3, 4]
  %n = aten.add.Tensor(%count, other = 1.0) : f32[1]
  %half = aten.mul.Tensor(%twin, other = 0.5) : f32[3, 4]
  %same = aten.mul.Tensor(%twin, other = 0.5) : f32[3, 4]
  %mixed = aten.add.Tensor(%same, %moved) : f32[3, 4]
  %y = aten.linear.default(%half, @w) : f32[3, 4]
  return %y
  next %cache = %moved
  next %count = %n
  next %twin = %mixed
}
)";

std::vector<double> numbers(const Tensor& t) { return read_doubles(t); }

}  // namespace

TEST_CASE("state survives all passes, and means the same afterwards") {
  auto before = parse_graph(kGraph);
  REQUIRE_MESSAGE(before.ok(), before.error().to_string());
  std::vector<float> weights;
  for (int i = 0; i < 16; ++i) weights.push_back(static_cast<float>(i % 5) - 2);
  const auto* bytes = reinterpret_cast<const std::byte*>(weights.data());
  for (Value& value : before->values)
    if (value.kind == ValueKind::parameter) value.data = Tensor::from_bytes(DType::f32, {4, 4}, {bytes, bytes + 64});
  Graph after = *before;
  const auto reports = run_passes(after);
  REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
  CHECK(after.states == before->states);
  CHECK(after.user_inputs() == 1);
  CHECK(after.user_outputs() == 1);

  std::vector<std::vector<Tensor>> states(2);
  for (const ValueId id : {before->state_input(0), before->state_input(1), before->state_input(2)})
    for (auto& state : states) state.push_back(before->value(id).data);
  for (float call = 1; call < 4; ++call) {
    const std::vector<float> x = {call, 2 * call, -call, 0.5f};
    const auto* from = reinterpret_cast<const std::byte*>(x.data());
    std::vector<std::vector<Tensor>> results;
    for (size_t i = 0; i < 2; ++i) {
      std::vector<Tensor> inputs = {Tensor::from_bytes(DType::f32, {1, 4}, {from, from + 16})};
      inputs.insert(inputs.end(), states[i].begin(), states[i].end());
      auto out = evaluate_graph(i == 0 ? *before : after, inputs);
      REQUIRE_MESSAGE(out.ok(), out.error().to_string());
      states[i].assign(out->begin() + 1, out->end());
      results.push_back(std::move(*out));
    }
    for (size_t o = 0; o < results[0].size(); ++o) CHECK(numbers(results[0][o]) == numbers(results[1][o]));
  }
  CHECK(numbers(states[1][1]) == std::vector<double>{3});
  CHECK(numbers(states[1][0])[0] == 1);  // the oldest of three rows
  CHECK(numbers(states[1][0])[8] == 3);  // the newest
}

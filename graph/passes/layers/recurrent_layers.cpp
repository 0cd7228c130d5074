// lstm, gru and rnn, step by step, and their cells, which are one step.
//
// The weights of the input are multiplied with all steps at once; a step then has one small product, with the state.
#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/passes/layers/layers.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;
constexpr Op kCells[] = {"aten.lstm_cell.default", "aten.gru_cell.default", "aten.rnn_tanh_cell.default",
                         "aten.rnn_relu_cell.default"};
constexpr Op kRecurrences[] = {"aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input"};

class RecurrenceWriter {
 public:
  RecurrenceWriter(OpEmitter& e, const Node& node, Recurrence r)
      : e_(e), node_(node), r_(r), time_(r.batch_first ? 1 : 0) {}

  // One step of a cell.
  Values write_cell() {
    State state{r_.gates == 4 ? (*node_.arg("hx").get<Values>())[0] : node_.tensor("hx")};
    if (r_.gates == 4) state.c = (*node_.arg("hx").get<Values>())[1];
    const auto linear_of = [&](ValueId x, std::string_view weight, std::string_view bias) {
      return e_.op("aten.linear.default",
                   {{"input", x}, {"weight", node_.tensor(weight)}, {"bias", node_.tensor(bias)}});
    };
    step(linear_of(node_.tensor("input"), "w_ih", "b_ih"), linear_of(state.h, "w_hh", "b_hh"), state);
    return r_.gates == 4 ? Values{state.h, state.c} : Values{state.h};
  }

  Values write() {
    Values states, cells;
    ValueId x = node_.tensor("input");
    for (int64_t layer = 0; layer < r_.layers; ++layer) {
      Values directions;
      for (int64_t d = 0; d < r_.directions; ++d) {
        const int64_t index = layer * r_.directions + d;
        State state = initial(index);
        directions.push_back(run(x, index, d == 1, state));
        states.push_back(state.h), cells.push_back(state.c);
        if (!e_.status().ok()) return node_.outputs;
      }
      x = joined(directions, 2);
    }
    Values out = {x, stacked(states)};
    if (r_.gates == 4) out.push_back(stacked(cells));
    return out;
  }

 private:
  struct State {
    ValueId h, c = kNoValue;  // [batch, width], [batch, hidden]
  };

  State initial(int64_t index) {
    if (r_.gates != 4) return {layer_of(node_.tensor("hx"), index)};
    const Values& hx = *node_.arg("hx").get<Values>();
    return {layer_of(hx[0], index), layer_of(hx[1], index)};
  }
  ValueId layer_of(ValueId states, int64_t index) {
    return e_.op("aten.select.int", {{"self", states}, {"dim", Dim(0)}, {"index", Dim(index)}});
  }

  ValueId param(int64_t index, size_t which) const {
    return (*node_.arg("params").get<Values>())[static_cast<size_t>(index) * r_.params_each + which];
  }
  ValueId linear(ValueId x, int64_t index, bool of_state) {
    const ValueId bias = r_.has_biases ? param(index, of_state ? 3 : 2) : kNoValue;
    return e_.op("aten.linear.default", {{"input", x}, {"weight", param(index, of_state ? 1 : 0)}, {"bias", bias}});
  }

  ValueId projected(ValueId h, int64_t index) {
    const ValueId weight = param(index, r_.params_each - 1);
    return e_.op("aten.linear.default", {{"input", h}, {"weight", weight}, {"bias", kNoValue}});
  }

  // All steps of one layer in one direction, [batch, steps, width] or [steps, batch, width].
  ValueId run(ValueId x, int64_t index, bool backwards, State& state) {
    const ValueId inputs = linear(x, index, false);
    Values steps(static_cast<size_t>(r_.steps));
    for (int64_t s = 0; s < r_.steps && e_.status().ok(); ++s) {
      const int64_t t = backwards ? r_.steps - 1 - s : s;
      const ValueId of_input = e_.op("aten.select.int", {{"self", inputs}, {"dim", time_}, {"index", Dim(t)}});
      step(of_input, linear(state.h, index, true), state);
      if (r_.projects) state.h = projected(state.h, index);
      steps[static_cast<size_t>(t)] = unsqueezed(state.h, time_);
    }
    return e_.status().ok() ? joined(steps, time_.constant()) : x;
  }

  void step(ValueId of_input, ValueId of_state, State& state) {
    if (r_.gates == 4) return step_lstm(sum(of_input, of_state), state);
    if (r_.gates == 3) return step_gru(of_input, of_state, state);
    const ValueId both = sum(of_input, of_state);
    const bool rectified = is_op(node_, "aten.rnn_relu.input") || is_op(node_, "aten.rnn_relu_cell.default");
    state.h = e_.unary(rectified ? Op("aten.relu.default") : Op("aten.tanh.default"), both);
  }

  // Gates: input, forget, cell, output.
  void step_lstm(ValueId gates, State& state) {
    const ValueId kept = times(sigmoid(gate(gates, 1)), state.c),
                  added = times(sigmoid(gate(gates, 0)), tanh(gate(gates, 2)));
    state.c = sum(kept, added);
    state.h = times(sigmoid(gate(gates, 3)), tanh(state.c));
  }

  // Gates: reset, update, new. (1 - z) * n + z * h as torch computes it: n + z * (h - n).
  void step_gru(ValueId of_input, ValueId of_state, State& state) {
    const ValueId reset = sigmoid(sum(gate(of_input, 0), gate(of_state, 0))),
                  update = sigmoid(sum(gate(of_input, 1), gate(of_state, 1))),
                  fresh = tanh(sum(gate(of_input, 2), times(reset, gate(of_state, 2))));
    state.h = sum(fresh, times(update, e_.binary("aten.sub.Tensor", state.h, fresh)));
  }

  ValueId gate(ValueId gates, int64_t index) {
    return e_.op(
        "aten.slice.Tensor",
        {{"self", gates}, {"dim", Dim(1)}, {"start", Dim(index * r_.hidden)}, {"end", Dim((index + 1) * r_.hidden)}});
  }
  ValueId sum(ValueId a, ValueId b) { return e_.binary("aten.add.Tensor", a, b); }
  ValueId times(ValueId a, ValueId b) { return e_.binary("aten.mul.Tensor", a, b); }
  ValueId sigmoid(ValueId x) { return e_.unary("aten.sigmoid.default", x); }
  ValueId tanh(ValueId x) { return e_.unary("aten.tanh.default", x); }
  ValueId unsqueezed(ValueId x, const Dim& axis) {
    return e_.op("aten.unsqueeze.default", {{"self", x}, {"dim", axis}});
  }
  ValueId joined(const Values& parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : e_.op("aten.cat.default", {{"tensors", parts}, {"dim", Dim(axis)}});
  }
  ValueId stacked(const Values& states) {
    Values parts;
    for (ValueId state : states) parts.push_back(unsqueezed(state, Dim(0)));
    return joined(parts, 0);
  }

  OpEmitter& e_;
  const Node& node_;
  const Recurrence r_;
  const Dim time_;
};

}  // namespace

bool is_recurrence(const Node& node) { return is_any_op(node, kRecurrences) || is_any_op(node, kCells); }

std::vector<ValueId> write_recurrence(OpEmitter& e, const Graph& graph, const Node& node) {
  if (is_any_op(node, kCells)) {
    const int64_t hidden = graph.value(node.tensor("w_hh")).shape[1].constant();
    return RecurrenceWriter(e, node, {.gates = gates_of(*node.op), .hidden = hidden}).write_cell();
  }
  auto r = read_recurrence({graph, node});
  if (!r.ok()) return e.fail(r.error()), node.outputs;
  return RecurrenceWriter(e, node, *r).write();
}

}  // namespace qcg

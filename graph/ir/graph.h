// Graph: values and nodes, the IR. Everything above (readers) makes one, everything below (passes, oracle, plan) reads
// one.
//
// Why here: the one data structure shared by all of graph/ and by codegen/'s planner.
//
//   graph(%x: bf16[s0, 4096]) {
//     %y = qcg.linear([%x], weights = [@q_proj.weight], scheme = "dense", epilogue = [acc0]) : bf16[s0, 4096]
//     return %y
//   }
//
// A graph with state reads the state's value from before the run, and names the value that it has after the run:
//
//   state %sum: f32[8]
//   graph(%x: f32[8]) {
//     %after = aten.add.Tensor(%sum, %x) : f32[8]
//     return %after
//     next %sum = %after
//   }
//
// Rules that the verifier (ops/verify.h) checks: nodes are in topological order; every value has one producer; argument
// kinds are as in the op table; shapes and dtypes follow from the inputs.
//
// qcodegen's own nodes (all other ops keep their aten or torchao meaning):
//   qcg.linear(xs, x_scale, x_zero, weights, scales, zeros, offsets, biases, operands, scheme, group, epilogue) -> outputs
//       A problem with K segments xs (concatenated along the last axis, same leading shape [..., Ki], sum Ki = K) and
//       N segments weights[j] [Nj, K] (parameters; scales[j], zeros[j], offsets[j] [Nj, G]; biases[j] [Nj] or none), see
//       scheme.h.
//       scales, zeros, offsets and biases have one entry per weight, kNoValue where absent (add_node fills in lists left empty).
//       x_scale, x_zero: [..., 1] or one element, f32 and i32, of a quantized activation; else none. x_zero none = symmetric.
//       epilogue[i] is output i's expression over accJ (segment J incl. bias) and inI (operands[I], broadcast).
//       All segments that one epilogue reads have the same N; output i is [..., N] of that N.
//   qcg.loop(operands, exprs, arithmetic) -> outputs pointwise: output i = exprs[i] over broadcast operands. Arithmetic is f32,
//       f64, or i64, which is exact: operands and outputs are integers and every step wraps as 64 bits do
//   qcg.attention(query, key, value, operands, mask, score, sizes, empty) -> y [batch, heads, rows, Dv]
//       query [batch, heads, rows, D], key and value [batch or 1, heads / group, columns, D and Dv]. `score` is what softmax is
//       taken of along the columns, over acc0 (the products of query and key), inI, sizeI and posN (N: batch, head, row, column);
//       `mask`, none or one, over the same without acc0, is what sees a column: not 0. A row that sees none is `empty`: zero, nan,
//       or the mean of value. Everything between is f32, weights are not rounded before they multiply value.
//   qcg.quantize_rows(x, mapping, quant_min, quant_max, eps, scale_dtype) -> (q i8|u8 [..., K], scale f32 [..., 1], zero i32 [..., 1])
//       over the whole last axis, to the bit: torchao.choose_qparams_affine + quantize_affine (mapping SYMMETRIC, ASYMMETRIC), or
//       quantized_decomposed.choose_qparams_per_token[_asymmetric] + quantize_per_token (PER_TOKEN, PER_TOKEN_ASYMMETRIC).
//   qcg.rows(operands, steps, reduce, stores, shape) -> outputs    reductions along the last axis of `shape`, to which the
//       operands broadcast, and pointwise work around them (row_program.h); output i is step stores[i]: [...] = shape, or [..., 1]
//       where the step has one value per row
//   qcg.windows(x [batch, axes…, C], weight [kernel…, K, N], op, kernel, stride, dilation, before, places, operands, epilogue)
//       -> [batch, places…, C]
//       by channel, over the elements of x at place * stride - before + tap * dilation, as far as there are any: their sum, their
//       maximum (op sum, max; no weight), or the sum of each times its tap's weight (product). One or two axes. A product
//       has C / K groups, in order: channel n of the N in y sums over the K channels of x that its group has
//
//   qcg.measure(value i64[], size, most) -> nothing   from here on the symbol `size` is what `value` holds, from 0 to `most`, a
//       size of the inputs: how many elements of a mask are true. Nodes before it do not have the symbol, nor do inputs and
//       outputs. It is kept though it has no results (measured_symbol)
//
// An input of one integer may be the value of a symbol, as a size that the caller passes is:
//
//   graph(%x: f32[5, 30], %n: i64[] = s86) {
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "graph/ir/expr.h"
#include "graph/ir/op.h"
#include "graph/ir/symbol.h"
#include "graph/ir/tensor.h"

namespace qcg {

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr ValueId kNoValue = UINT32_MAX;

// One argument of a node. Tensors that may be absent are kNoValue; absent scalars are monostate.
struct Arg {
  using Variant = std::variant<std::monostate, ValueId, std::vector<ValueId>, Dim, std::vector<Dim>, double,
                               std::vector<double>, bool, std::string, DType, std::vector<Expr>>;
  Variant v;

  Arg() = default;
  template <class T>
  Arg(T value) : v(std::move(value)) {}  // NOLINT: an argument is what it holds

  bool is_none() const { return v.index() == 0; }
  template <class T>
  const T* get() const {
    return std::get_if<T>(&v);
  }
  friend bool operator==(const Arg&, const Arg&) = default;
};

// Scalars, whatever spelling the exporter chose (1, 1.0, true); nullopt for anything else.
std::optional<double> as_number(const Arg& arg);
std::optional<int64_t> as_integer(const Arg& arg);

enum class ValueKind : uint8_t { input, parameter, node };

struct Value {
  std::string name;  // unique in the graph; printed as %name, parameters as @name; exchanged by swap_names alone
  ValueKind kind = ValueKind::node;
  DType dtype = DType::f32;
  Shape shape;
  NodeId producer = UINT32_MAX;  // kind node
  uint32_t output = 0;           // which output of the producer
  Tensor data;                   // kind parameter: constant shape, maybe unbound bytes; name is the weight's own (fqn).
                                 // The input of a state: its value before the first run
  std::string symbol;            // kind input, of one i64 or i32: the symbol whose value it is; empty: of none
};

bool may_be_symbol(const Value& value);  // whether it is an input of one i64 or i32

struct Node {
  const OpSchema* op = nullptr;
  std::vector<Arg> args;  // one per op->args, defaults filled in
  std::vector<ValueId> outputs;
  std::string where;                 // "$.graph_module.graph.nodes[17]": for messages
  std::string source;                // "model.py:41" from the stack trace; may be empty
  std::vector<std::string> origins;  // names of the input graph's nodes this one stands for, topological order

  const Arg& arg(std::string_view name) const;  // precondition: op has it
  Arg& arg(std::string_view name);
  ValueId tensor(std::string_view name) const;  // kNoValue when absent
};

// The symbol that a node qcg.measure gives a value; empty: the node is another one.
std::string measured_symbol(const Node& node);

class Graph {
 public:
  std::string name = "graph";
  std::vector<Symbol> symbols;
  std::vector<SizeCondition> conditions;
  std::vector<Value> values;
  std::vector<Node> nodes;                // topological order
  std::vector<ValueId> inputs;            // user inputs, in signature order; then the states before the run
  std::vector<ValueId> outputs;           // user outputs, in signature order; then the states after the run
  std::vector<std::string> output_names;  // as the exporter named them (survive passes); same length as outputs
  // Names of the tensors that persist between runs. A state is an input, so that no pass takes it for a constant, and
  // an output, so that no pass drops its next value. Both have one type.
  std::vector<std::string> states;

  size_t user_inputs() const { return inputs.size() - states.size(); }
  size_t user_outputs() const { return outputs.size() - states.size(); }
  ValueId state_input(size_t state) const { return inputs[user_inputs() + state]; }
  ValueId state_output(size_t state) const { return outputs[user_outputs() + state]; }

  Value& value(ValueId id) { return values[id]; }
  const Value& value(ValueId id) const { return values[id]; }

  ValueId add_input(std::string name, DType dtype, Shape shape);
  ValueId add_parameter(std::string name, Tensor data);
  // Adds a state and the value that it has before the run. The caller appends its output behind the user's outputs.
  ValueId add_state(std::string state, std::string name, Tensor initial);
  // Appends a node whose output values are created here; args must fit op's schema (missing trailing ones are
  // defaulted).
  NodeId add_node(const OpSchema* op, std::vector<Arg> args, std::vector<Value> outputs);

  std::vector<uint32_t> count_uses() const;  // per value; graph outputs count
  // Drops nodes whose outputs nobody uses, except qcg.measure; keeps value ids stable.
  void remove_dead();
  std::vector<std::string> measured_symbols() const;  // in the order of the nodes

  std::string unique_name(std::string_view base);  // base, or base_1, base_2, …: the first that no value has
  ValueId find_value(std::string_view name);       // the first of this name, or kNoValue
  void swap_names(ValueId a, ValueId b);
  // The first parameter that is this view of the same bytes; without bytes, of the weight of that root name.
  ValueId find_view(const Tensor& view, std::string_view root);

 private:
  // Indexes the first `seen` values. A look-up adds the values that came since: n look-ups among n values cost O(n).
  struct Index {
    std::unordered_map<std::string, ValueId> names;
    std::unordered_map<std::string, size_t> suffixes;        // by base: no smaller one is free
    std::unordered_map<size_t, std::vector<ValueId>> views;  // by hash
    size_t seen = 0;
  };
  const Index& index_values();

  Index index_;
};

// "w" for "w", "w.view" and "w.view_1".
std::string_view root_name(std::string_view name);

// Calls f(ValueId&) for every tensor an argument refers to (absent ones are skipped).
template <class NodeT, class F>
void for_each_input(NodeT& node, F&& f) {
  for (auto& arg : node.args) {
    if (auto* one = std::get_if<ValueId>(&arg.v)) {
      if (*one != kNoValue) f(*one);
    } else if (auto* many = std::get_if<std::vector<ValueId>>(&arg.v)) {
      for (auto& id : *many)
        if (id != kNoValue) f(id);
    }
  }
}

// text.cpp: the IR text form; parse_graph(print_graph(g)) (read/text.h) prints the same again. Parameters print without
// their bytes.
std::string print_graph(const Graph& graph);
std::string print_node(const Graph& graph, const Node& node);  // one indented line, as in print_graph

// Dtype and shape of an output.
struct ValueType {
  DType dtype;
  Shape shape;
};

}  // namespace qcg

// The dozen graph edits that every pass is written in.
//
// Why here: passes should read as what they do to linears, not as index bookkeeping. Two habits keep passes simple:
//   - a node that is recognized is *replaced in place* and keeps its output values, so that no user has to be rewritten;
//   - new nodes are appended anywhere and sort_nodes() restores topological order at the end of the pass.
//
//   ValueId y = emit(graph, "aten.reshape.default", {x, Arg(shape)}, {DType::f32, shape}, like);
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/scheme.h"
#include "graph/ops/op_table.h"

namespace qcg {

// The node that makes `id`, or nullptr for inputs and parameters. Pointers die with the next emit().
const Node* producer_of(const Graph& graph, ValueId id);
// The node that makes `id` if it is this op, else nullptr.
const Node* producer_if(const Graph& graph, ValueId id, Op op);
bool is_parameter(const Graph& graph, ValueId id);
// What reports call a node: as the user's graph did, or by what it makes.
std::string node_name(const Graph& graph, const Node& node);

// An axis argument in [0, rank), negative axes counted from the end; nullopt when it is out of range.
std::optional<size_t> as_axis(const Arg& arg, size_t rank);
std::optional<std::vector<int64_t>> constant_shape(const Shape& shape);

// Every number of `narrow` is one of `wide`: a cast there and back changes nothing.
bool widens(DType narrow, DType wide);
// A cast that patterns look through. Rounding to a float of 16 bits or more is an intermediate rounding like others; a
// cast to an integer, a truth value or an 8-bit float changes what is computed unless it keeps every number.
bool keeps_numbers(DType from, DType to);
bool keeps_numbers(const Graph& graph, const Node& cast);
// Sizes known only at run time among the numbers of an argument.
bool has_symbols(const Arg& arg);

// Appends a node with one output. `like` lends where, source and (if keep_origins) its origins.
ValueId emit(Graph& graph, Op op, std::vector<Arg> args, ValueType type, const Node& like, std::string_view name_hint);
// Node `id` becomes `op`; it keeps its outputs, where and source.
void replace_node(Graph& graph, NodeId id, Op op, std::vector<Arg> args);

// `base` seen as `view` (same storage): the parameter that is that already, or a new one.
ValueId add_parameter_view(Graph& graph, ValueId base, Tensor view);
// The same numbers in another dtype: evaluated when the bytes are there, declared otherwise.
ValueId cast_parameter(Graph& graph, ValueId parameter, DType dtype);
// A parameter of one element.
ValueId add_number(Graph& graph, DType dtype, double value, std::vector<int64_t> shape, std::string_view name_hint);
// The one element of a parameter whose bytes are there, if a double holds it.
std::optional<double> constant_number(const Graph& graph, ValueId id);
bool is_beyond_double(const Arg& number);  // a whole number that as_number rounds
// Every tensor the node reads is a parameter with bytes, and every number is known.
bool reads_constants(const Graph& graph, const Node& node);
// The outputs of such a node, as eager execution gives them.
Result<std::vector<Tensor>> evaluate_node(const Graph& graph, const Node& node);
// Same bytes seen the same way (tied weights), whatever their names.
bool same_parameter(const Graph& graph, ValueId a, ValueId b);

// Stable topological order: each node directly after the last thing it needs, otherwise as before. Also renumbers
// producers. Error when the graph has a cycle, which is a bug in the pass that ran.
Status sort_nodes(Graph& graph);
// Does `from` (any output of these nodes) reach node `to`? Walks backwards from `to`.
bool depends_on(const Graph& graph, ValueId value, NodeId node);

// Which nodes read each value, kept while a pass edits the graph: asking all nodes after each edit costs n * n.
//
//   Readers readers(graph);
//   readers.replace(old, made);                                   // in node arguments and graph outputs
//   const Node before = graph.nodes[id];
//   replace_node(graph, id, …);
//   readers.exchange(id, before);                                 // or remove(id) before and add(id) behind the change
class Readers {
 public:
  explicit Readers(Graph& graph);

  const std::vector<NodeId>& of(ValueId id) const { return nodes_[id]; }  // once per use
  const std::vector<uint32_t>& uses() const { return uses_; }             // as Graph::count_uses
  bool is_returned(ValueId id) const { return outputs_.contains(id); }

  void catch_up();                                          // with nodes and values that were added since
  void add(NodeId id);                                      // after its arguments changed
  void remove(NodeId id) { remove(id, graph_.nodes[id]); }  // before they change, or it goes
  void exchange(NodeId id, const Node& before) { remove(id, before), add(id); }
  void replace(ValueId from, ValueId to);

 private:
  void remove(NodeId id, const Node& as);

  Graph& graph_;
  std::vector<std::vector<NodeId>> nodes_;                    // by value
  std::vector<uint32_t> uses_;                                // by value
  std::unordered_map<ValueId, std::vector<size_t>> outputs_;  // by value: its places among the graph's outputs
  size_t seen_ = 0;                                           // nodes
};

// How deep each node lies below the inputs. What depends on a node lies deeper than it, so that most questions whether
// something does need no walk.
//
//   Depths depths(graph, readers);                                // of sorted nodes
//   depths.update(id);                                            // the node reads something else now
class Depths {
 public:
  Depths(const Graph& graph, const Readers& readers) : graph_(graph), readers_(readers) { catch_up(); }

  bool depends_on(ValueId value, NodeId node) const;  // as the function above
  void update(NodeId id);                             // readers must know of the change

 private:
  void catch_up();
  uint32_t least_depth(NodeId id) const;

  const Graph& graph_;
  const Readers& readers_;
  std::vector<uint32_t> depth_;  // by node: more than of any that it reads
};

// Concatenation without repeats, order kept.
std::vector<std::string> join_origins(std::vector<std::string> a, const std::vector<std::string>& b);

// Rows stay rows: reshape, view, flatten, unsqueeze or squeeze of leading axes only (same last dimension). Such a view
// of a contiguous activation moves nothing, and a per-row computation does not see it.
bool is_row_view(const Graph& graph, const Node& node);
// Does `from` broadcast to `to` by the usual trailing-axes rule?
bool broadcasts_to(const Shape& from, const Shape& to);
std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b);

}  // namespace qcg

// Planner: the walk over a graph's nodes that fills a Plan. One source file per kind of step.
//
// Why here: internal to plan*.cpp; everybody else calls plan_kernels (plan.h).
//
//   Planner(graph, target).run();
//
//   plan.cpp          the walk, problems, lifetimes        plan_names.cpp  names of steps, comments of kernels
//   plan_views.cpp    values that are another view of the same bytes; concatenations written in place
//   plan_buffers.cpp  buffers, and arguments and outputs of steps within them
//   plan_linear.cpp   qcg.linear, grouped          plan_matmul.cpp  products of two activations
//   plan_state.cpp    what persists between runs, and whether it is written in place
//   plan_writes.cpp   values that differ from another in a part
//   plan_scatter.cpp  … at positions known only at run time
//   plan_attention.cpp  qcg.attention
//   plan_windows.cpp  depthwise convolutions and pools
//   plan_loops.cpp    pointwise loops, copies, quantized rows, reductions
//   plan_rows.cpp     row programs
//   plan_orders.cpp   running sums, elements in order
//   plan_gather.cpp   look-ups at positions known only at run time, bags of embeddings
//
// Every value gets a View; steps are appended as nodes need them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/loops/loops.h"
#include "codegen/plan/plan.h"
#include "codegen/plan/view.h"
#include "codegen/positions/positions.h"

namespace qcg {

// Elements of a tensor at positions known only at run time: `base` and the positions are over the axes of what is looked
// up or written, and `base` stands still along axes of positions.
struct Positioned {
  struct Ids {
    View view;
    Positions kind;
    Dim size, step;  // of the axis that they are positions in
  };
  View base;
  std::vector<Ids> ids;
};
struct PositionedWrite;

class Planner {
 public:
  Planner(const Graph& graph, const Target& target, const SourceGraph& source);
  Result<Plan> run();

 private:
  // plan.cpp
  Status check_symbols() const;
  void add_signature();
  Status check_outputs() const;
  Status lower_measure(const Node& node);
  Status bound_temporaries();
  Status lower(const Node& node);
  int intern(const KernelProblem& problem);
  void set_lifetimes();
  const std::vector<uint32_t>& uses();

  // plan_names.cpp
  const std::string& comment_of(const Node& node);
  std::string write_comment(const Node& node) const;
  std::string name_of(const Node& node, const std::string& label) const;
  void list_other_steps();

  // plan_views.cpp
  void place_outputs();
  bool is_placeable(ValueId id) const;
  void place_concat(const Node& node);
  void for_each_slice(const Node& node, const std::function<void(ValueId, const View&)>& visit);
  Status lower_concat(const Node& node);
  Status lower_view(const Node& node);
  bool is_read_by_windows(const Node& node, const View& in);
  void lower_bits(const Node& node);
  void lower_split(const Node& node);

  // plan_state.cpp
  void add_states();
  std::string why_copied(size_t state) const;
  void finish_states();

  // plan_writes.cpp
  void find_writes();
  View memory_to_write(const Node& node);
  Status lower_slice_scatter(const Node& node);

  // plan_scatter.cpp
  Status lower_positioned_write(const Node& node);
  Result<PositionedWrite> write_along_axis(const Node& node, const View& whole);
  PositionedWrite write_at_indices(const Node& node, const View& whole);

  // plan_positions.cpp
  Positioned at_indices(const View& t, const std::vector<ValueId>& indices, bool from_end, bool keeps_axes = false);
  void add_positioned_step(PlanStep step, KernelProblem problem, const std::vector<View>& views, DType dtype,
                           const std::vector<Positioned::Ids>& ids);

  // plan_linear.cpp
  Status lower_linear(const Node& node);
  Status lower_grouped_linear(const Node& node);
  std::optional<WindowRows> windows_of(const std::vector<ValueId>& xs, const View& x) const;
  int packed_weights(int problem, std::vector<SegmentTensors> tensors);
  Status describe_linear(const Node& node, Problem& problem);
  static Broadcast classify(const Shape& shape);
  PlanArg operand_arg(const Node& node, ValueId id, const Operand& operand);
  std::vector<SegmentTensors> segment_tensors(const Node& node) const;

  // plan_matmul.cpp
  Status lower_matmul(const Node& node);
  Status lower_grouped_matmul(const Node& node);
  Status add_grouped_matmul(const Node& node, ValueId x, ValueId weight, bool weight_kn, ValueId ends);

  // plan_attention.cpp
  Status lower_attention(const Node& node);

  // plan_loops.cpp
  Status lower_loop(const Node& node);
  void add_loop(LoopProblem problem, std::vector<View> views, const std::vector<Dim>& sizes, std::string name,
                std::vector<std::string> nodes);
  void add_copy(const View& from, const View& to, DType dtype, const std::string& what);
  Status lower_quantize_rows(const Node& node);
  Status lower_reduction(const Node& node);

  // plan_rows.cpp
  Status lower_rows(const Node& node);

  // plan_orders.cpp
  Status lower_scan(const Node& node);
  Status lower_order(const Node& node);
  // plan_windows.cpp
  Status lower_windows(const Node& node);

  // plan_gather.cpp
  Status lower_look_up(const Node& node);
  Positioned gather(ValueId table, size_t axis, ValueId index, const Shape& out);
  Positioned take(ValueId table, ValueId index, const Shape& out, bool from_end);
  Status add_look_up(const Node& node, const Positioned& look_up);
  Status lower_bags(const Node& node);

  // plan_buffers.cpp
  int add_buffer(PlanBuffer buffer);
  int add_temp(const Shape& shape, DType dtype);
  View view(ValueId id);
  View dense(ValueId id);
  int copy_to_temp(const View& v, DType dtype);
  PlanArg scale_arg(ValueId id);
  PlanArg row_arg(ValueId id);
  PlanArg row_arg(View v, DType dtype);
  View output_view(ValueId id, bool (*fits)(const View&));
  void finish_output(ValueId id, const View& written);
  void add_row_step(PlanStep step, const std::vector<ValueId>& outputs);

  const Graph& graph_;
  const SourceGraph& source_;
  ValueId commented_ = kNoValue;  // the first output of the node that comment_ is of
  std::string comment_;
  const Node* current_ = nullptr;  // being lowered: what a copy is made for
  Plan plan_;
  std::vector<View> views_;
  std::vector<std::optional<View>> placed_;
  std::vector<std::optional<View>> windows_;  // of values that linears alone read, row by row: what they are a copy of
  std::vector<uint32_t> uses_as_x_;           // by value: as the one x of a linear
  std::vector<int> output_buffers_, state_buffers_;
  std::vector<std::string> copied_writes_;  // by node that writes a part: why the rest is copied; empty: it is not
  std::vector<std::string> copied_states_;  // why each is; empty: its next value is written in place
  std::map<std::string, int> problem_index_;
  std::vector<uint32_t> uses_;
};

bool keeps_order(const Node& node);          // a view of the same elements in the same order
bool writes_part(const Node& node);          // of its first tensor, the rest of which it repeats
bool writes_at_positions(const Node& node);  // such a part that positions known at run time choose
int64_t constant_int(const Node& node, std::string_view arg, int64_t otherwise);
size_t normalize_axis(int64_t axis, size_t rank);
std::string join_names(const std::vector<std::string>& names);  // "gate_proj+up_proj"
Dim offset_bytes(const View& v, DType dtype);
View at_axes(View view, size_t rank, size_t first);           // over `rank` axes of which its own begin at `first`
std::vector<View> collapse_to_axes(std::vector<View> views);  // collapse, to one axis at least
Dim leading(const Shape& shape);                              // rows: everything but the last axis, if there is one

}  // namespace qcg

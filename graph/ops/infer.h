// What the shape and dtype rules share: access to a node's arguments, errors that name them, broadcasting, promotion.
//
// Why here: the rules are one small function each, in the files of shapes/ by kind of op; rows_*.h declare them and say
// which op has which. infer.cpp holds what they share.
//
//   Result<Types> infer_transpose(const OpArgs& a) {
//     QCG_TRY(d0, a.axis("dim0", a.tensor("self").shape.size()));
//     …
//   }
//
// Arguments were checked against the op table (verify.h) before any rule runs: kinds are right and ids are in range.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

using Types = std::vector<ValueType>;

// Dtype and shape of every output from op and inputs; the error names the offending argument.
Result<Types> infer_types(const Graph& graph, const Node& node);

struct OpArgs {
  const Graph& graph;
  const Node& node;

  const Value& tensor(std::string_view name) const { return graph.value(node.tensor(name)); }
  const Value* optional_tensor(std::string_view name) const;
  const std::vector<ValueId>& tensors(std::string_view name) const;
  const std::vector<Expr>& exprs(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const std::string& string(std::string_view name) const;
  const Dim& dim(std::string_view name) const;
  std::vector<Dim> dims(std::string_view name) const;  // one size is a list of it; empty when absent

  // An axis in [-rank, rank) as one in [0, rank); a tensor without axes counts as having one.
  Result<size_t> axis(std::string_view name, size_t rank) const;
  Result<size_t> axis(std::string_view name, const Dim& value, size_t rank) const;
  // Sorted and unique; every axis when the list is absent or empty.
  Result<std::vector<size_t>> axes(std::string_view name, size_t rank) const;
  Result<int64_t> constant(std::string_view name) const;

  Error fail(std::string_view arg, std::string message, std::string help = "") const;
  Error unsupported(std::string_view arg, std::string message, std::string help) const;
};

// Whether the operator takes such an argument.
inline bool has_arg(const OpArgs& a, std::string_view name) { return a.node.op->arg_index(name) >= 0; }

Types one(DType dtype, Shape shape);   // a single result
std::string describe(const Value& v);  // "i8[704, 256]"
Status need_float(const OpArgs& a, std::string_view arg);
// How many leaves of each kind an expression may name.
struct Leaves {
  size_t accs = 0, ins = 0, axes = 0, sizes = 0;
};
Status check_leaves(const OpArgs& a, std::string_view arg, const Expr& e, const Leaves& given);
// Both sides of a product contract as many elements.
Status same_k(const OpArgs& a, std::string_view arg, const Dim& x, const Dim& w);

// The range of values a size can take under the symbols' ranges, saturated to int64.
struct DimRange {
  int64_t min, max;
};
DimRange range_of(const Dim& d, std::span<const Symbol> symbols);
// Replaces calls whose value follows from the symbols' ranges: min(s0, 64) becomes s0 where s0 is at most 64. A size that
// has one possible value becomes that number. Exporters write either form.
Dim settled(const Dim& d, std::span<const Symbol> symbols);
// Whether the ranges of the graph's symbols, or one of its conditions, say that a size is not negative.
bool is_at_least_0(const Dim& d, const Graph& graph);
// An index into an axis as torch clamps it: negative counts from the end, then 0..size. nullopt when the graph does not
// say whether it is negative.
std::optional<Dim> clamp_index(Dim index, const Dim& size, const Graph& graph);

// numpy's rule; sizes are equal as polynomials or one is the constant 1. nullopt when they do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

// torch.result_type: tensors with axes outrank those without, which outrank Python numbers, inside a category.
struct Promotion {
  std::optional<DType> tensors, scalar_tensors, numbers;
  bool defined = true;  // false: torch refuses the pair
  void add(const Value& v);
  void add(const Arg& number);
  DType result();
};

// Every tensor is broadcast, every tensor and number takes part in the promotion; absent ones do not.
struct PromotedOperands {
  Promotion dtype;
  Shape shape;
};
Result<PromotedOperands> promote_operands(const OpArgs& a, std::initializer_list<std::string_view> names);

// The axes that a reduction names; empty: all.
inline std::vector<Dim> named_axes(const Graph& graph, const Node& reduction) {
  return reduction.op->arg_index("dim") < 0 ? std::vector<Dim>() : OpArgs{graph, reduction}.dims("dim");
}

// Whether a node adds what it writes at positions: index_add, scatter_add, index_put(accumulate).
bool sums_at_positions(const Node& node);
// How a node combines what it writes at positions with what is there: "sum", "prod", "mean", "amax", "amin"; "": the last
// stays.
std::string_view combination_at_positions(const Node& node);
// The mask of an index_put at truth values, which lie over the first axes of self; kNoValue: of any other.
ValueId mask_of_index_put(const Graph& graph, const Node& node);

// rms_norm's eps where none is given: that of the dtype torch computes in.
inline double rms_norm_eps(DType dtype) { return dtype == DType::f64 ? 0x1p-52 : 0x1p-23; }

// What a variance takes from the number of its elements: `correction`, or `unbiased` as 1 or 0; NaN where a size
// decides.
double correction_of(const Node& variance);

// The p of a norm, 2 where none is given; nullopt: a norm of matrices other than that of their elements.
std::optional<double> order_of_norm(const Node& norm);

// The columns of a triangle's elements in one row of tril_indices or triu_indices: from the first to before the second.
std::pair<int64_t, int64_t> columns_of_triangle(const Node& indices, int64_t row);

// What a stack of several tensors joins: their shapes then, and the axis.
std::pair<std::vector<Shape>, size_t> parts_of_stack(const Graph& graph, const Node& node);

// An axis in [-rank, rank), which was checked, as one in [0, rank).
inline size_t axis_at(const Dim& d, size_t rank) {
  return static_cast<size_t>(d.constant() < 0 ? d.constant() + static_cast<int64_t>(rank) : d.constant());
}

// The axis that a split cuts: `dim`, or the one that its name implies (hsplit, vsplit, dsplit).
size_t axis_of_parts(const Graph& graph, const Node& node);

// The axes of self in the order in which movedim leaves them; precondition: the node was checked.
std::vector<size_t> order_of_moved_axes(const Node& node, size_t rank);

// The diagonal that `offset` names of an axis of rows and one of columns: where it begins, and how long it is; nullopt:
// that is known only at run time.
struct Diagonal {
  int64_t row = 0, column = 0;
  Dim size;
};
std::optional<Diagonal> diagonal_of(const Dim& rows, const Dim& columns, int64_t offset,
                                    std::span<const Symbol> symbols);

// The axis along which cross multiplies: `dim`, or the first axis of 3 elements; the number of axes if there is none.
size_t axis_of_cross(const OpArgs& a);

// The shape of an operand of _trilinear with axes of size 1 where `expand` says; nullopt: it says so of no axis.
std::optional<Shape> expanded_shape(const Graph& graph, const Node& node, std::string_view tensor,
                                    std::string_view expand);

// Every choice of r of n positions in ascending order, with repetitions if `repeated`: r numbers each.
std::vector<int64_t> combinations_of(int64_t n, int64_t r, bool repeated);

// Whether a batch_norm normalizes with the statistics of its input (`training`), because it has no running ones.
bool is_of_batch(const Node& batch_norm);

// What a pad puts around: "constant", or what is there: "reflect", "replicate", "circular".
std::string_view pad_mode(const Node& pad);

// One axis along which a window slides over a tensor: convolutions and pools.
//
//   size 7, padding 1, kernel 3, stride 2:   [p 0 1] [1 2 3] [3 4 5] [5 6 p]   count 4
struct WindowAxis {
  Dim size, count;  // of the tensor's axis, and of the places of the window
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t before = 0, behind = 0;  // elements that are added at the two ends
  int64_t padding = 0;             // of which a mean counts so many at each end
  int64_t reach() const { return dilation * (kernel - 1) + 1; }
};
// How many axes a convolution or a pool slides over: those behind batch and channels.
size_t count_spatial(const OpArgs& a);
// By such an axis.
Result<std::vector<WindowAxis>> window_axes(const OpArgs& a);
// The part [first, last) of an axis of `size` that place `at` of `count` of an adaptive pool covers.
std::pair<Dim, Dim> adaptive_window(int64_t at, const Dim& size, int64_t count);

// One of the two axes along which im2col and col2im cut patches.
struct PatchAxis {
  Dim size, count;  // of the image's axis, and of the places of the kernel
  int64_t kernel = 1, dilation = 1, padding = 0, stride = 1;
  int64_t reach() const { return dilation * (kernel - 1) + 1; }
};
Result<std::vector<PatchAxis>> patch_axes(const OpArgs& a);

// A transposed convolution: a plain one, of stride 1, of x with stretch - 1 zeros between the elements of each axis.
struct TransposedAxis {
  WindowAxis window;  // of the stretched axis; what it pads may be less than nothing
  int64_t stretch = 1;
};
bool is_transposed(const OpArgs& a);
Result<std::vector<TransposedAxis>> transposed_axes(const OpArgs& a);

// One axis of an upsampling or downsampling.
struct ResizedAxis {
  Dim size, count;               // of elements, and of places of the result
  std::optional<double> factor;  // places per element, where it is given
  bool corners = false;          // the first and the last place are the first and the last element
};
Result<std::vector<ResizedAxis>> resized_axes(const OpArgs& a);

// How often nearest repeats the elements of each axis; empty: not a whole number of times.
std::vector<int64_t> repeats_of(const std::vector<ResizedAxis>& axes);

// By tap and place of the result, which element it takes with which share.
//
//   4 elements to 6, linear:   positions {0 0 1 1 2 3}  {1 1 2 2 3 3}     shares {1 .5 .8 .2 .5 1} and the rest
struct Interpolation {
  std::vector<std::vector<int64_t>> positions;
  std::vector<std::vector<double>> shares;  // empty: the one tap is the element itself
};
Interpolation interpolate(const Node& node, const ResizedAxis& axis, int64_t size, int64_t count);

// interpolation_mode and padding_mode of grid_sampler.
constexpr int64_t kBilinear = 0, kNearest = 1, kBicubic = 2, kZeros = 0, kReflected = 2;

// A recurrent layer: every layer has its parameters, by direction.
struct Recurrence {
  int64_t gates = 1, layers = 1, directions = 1, hidden = 0, steps = 0;
  int64_t width = 0;       // of what a step gives: hidden, or fewer of an lstm that projects it
  size_t params_each = 4;  // weights of input and state, their biases, the weight of the projection
  bool batch_first = false, has_biases = true, projects = false;
};
Result<Recurrence> read_recurrence(const OpArgs& a);
int64_t gates_of(const OpSchema& op);  // of a recurrent layer or cell: lstm 4, gru 3, rnn 1

// The shape that is left of self without the axes `dim`, or with ones there if `keepdim`.
Result<Shape> reduced_shape(const OpArgs& a);
// The same of one axis; without `dim`, of all.
Result<Shape> shape_without_axis(const OpArgs& a);

// How torchao cuts a tensor into blocks that share one scale (quant_primitives.py, _get_reduction_params).
struct BlockShape {
  Shape split;                  // the input's shape with every cut axis in two
  std::vector<size_t> reduced;  // axes of split that a block spans
  Shape reduced_shape() const;  // without the reduced axes
  Dim count() const;            // number of blocks
};
Result<BlockShape> block_shape(const OpArgs& a, const Shape& input);

}  // namespace qcg

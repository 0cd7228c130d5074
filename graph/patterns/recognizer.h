// Recognizer: one spelling of a (quantized) linear, and LinearSpec, what all spellings mean.
//
// Why here: recognize_linear (passes/) loops over recognizers(); each file of this folder defines one row. To teach
// qcodegen a new spelling: write its file, add its row, add a golden and near misses.
//
//   Outcome build_dense(Graph& graph, const Match& m);   // fills a LinearSpec, or says what was missing
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/ir/scheme.h"
#include "graph/patterns/gemm.h"
#include "graph/patterns/pattern.h"

namespace qcg {

// One qcg.linear with one K segment and one N segment. Parameters are already in the form graph.h asks for.
struct LinearSpec {
  ValueId x = kNoValue;           // [..., K]
  ValueId x_scale = kNoValue;     // quantized x: float, one number per row in any shape, or one element
  ValueId x_zero = kNoValue;      // integer, likewise
  ValueId weight = kNoValue;      // [N, K]
  ValueId scale = kNoValue;       // [N, G]
  ValueId zero = kNoValue;        // [N, G] integer
  ValueId offset = kNoValue;      // [N, G] float, added after scaling: w4 only
  ValueId bias = kNoValue;        // [N]
  std::vector<ValueId> operands;  // broadcast to the result of the product that was recognized, whatever the shape of x
  Scheme scheme = Scheme::dense;
  int64_t group = 0;
  Expr epilogue = Expr::acc(0);
  DType product = DType::f32;    // what the graph rounds x times w times x_scale to before it applies `scale`
  ValueId zero_rows = kNoValue;  // with such a rounding and x_zero: what the graph takes off is the rounded product of
  ValueId zero_columns = kNoValue;  // one number per row and one per column
  std::string note;                 // for explain: what the numbers of the weight told

  Expr add_operand(ValueId id) {
    operands.push_back(id);
    return Expr::in(static_cast<int>(operands.size()) - 1);
  }
};

// A linear; or nothing, and why (empty: this pattern has nothing to say about the node); or a typed error.
struct Outcome {
  std::optional<LinearSpec> linear;
  std::string missing;
  std::optional<Error> error;

  static Outcome miss(std::string why) { return {std::nullopt, std::move(why), std::nullopt}; }
  static Outcome fail(Error error) { return {std::nullopt, {}, std::move(error)}; }
  static Outcome match(LinearSpec spec) { return {std::move(spec), {}, std::nullopt}; }
};

struct Recognizer {
  std::string_view name;  // in explain's notes
  Pattern (*pattern)();
  Outcome (*build)(Graph& graph,
                   const Match& match);  // may add parameters and nodes, may not touch those that are there
};

// In the order they are tried: the most specific first, because dense matches inside all others.
std::span<const Recognizer> recognizers();

// One per file of this folder.
extern const Recognizer kScaledProduct, kDynamicDequantized, kStaticDequantized, kDynamicIntMm, kDynamicIntMmWithZeros,
    kDa8w4Linear, kWeightOnlyMmScale, kWeightOnlyInt8Pack, kWeightOnlyInt4Pack, kWeightOnlyDequantized,
    kWeightOnlyScaledWeight, kWeightOnlyArithmetic, kShiftedIntMm, kIntMm, kWeightOnlyUnscaled, kDenseLinear;

// --- What the recognizers share -------------------------------------------------------------------------------------

// Casts of parameters are parameters: the value itself, or its cast evaluated; kNoValue if `id` is neither.
ValueId constant_of(Graph& graph, ValueId id);
// " is computed at run time", or from constants alone: of an operand that is no parameter.
std::string how_computed(const Graph& graph, ValueId id);
// A weight operand as [N, K]: rank 2 in either orientation, rank 1 as [1, K], rank 3 whose batches are all the same.
ValueId weight_matrix(Graph& graph, ValueId weight, bool weight_kn);
// A constant with `size` elements ([N], [N, 1], [1, N] …) as a view of this shape; kNoValue if it is something else.
ValueId constant_as_shape(Graph& graph, ValueId id, std::vector<int64_t> shape);
// What was computed from the parameter `like`, named after it.
ValueId add_constant(Graph& graph, ValueId like, Tensor data);
// Kernels store an offset beside its scale, in one dtype.
void give_offset_dtype_of_scale(Graph& graph, LinearSpec& spec);
// Bytes are there and all are zero.
bool is_all_zero(const Graph& graph, ValueId id);
// The weight-only scheme of a weight that is stored in this dtype: i8 is w8, e4m3 and e5m2 are f8; nullopt: no
// scheme's.
std::optional<Scheme> stored_scheme(DType dtype);
// A constant with one number per output channel, or one for all of them, as [N, 1]; kNoValue if it is something else.
ValueId channel_numbers(Graph& graph, ValueId id, int64_t n);

// The value under reshapes and casts that keep every number: what was quantized, whatever the exporter did to its
// shape.
ValueId under_rows(const Graph& graph, ValueId id);
// Does this operand of a pointwise op with a result of this shape hold one number per row of the last axis (per
// column), or one for all? Its axes decide, because M and N may be equal.
bool is_per_row(const Graph& graph, ValueId operand, const Shape& result);
bool is_per_column(const Graph& graph, ValueId operand, const Shape& result);
// Adds gemm's bias, alpha and beta to the spec; says what is missing when they do not fit [.., N].
std::optional<std::string> add_gemm_bias(Graph& graph, const Gemm& gemm, LinearSpec& spec);
// x is output 0 of a qcg.quantize_rows node (looked for under row views): fills x, x_scale, x_zero. False if it is not.
bool take_quantized_rows(const Graph& graph, ValueId x, LinearSpec& spec);

}  // namespace qcg

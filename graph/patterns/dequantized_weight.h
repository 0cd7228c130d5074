// Weights written as torchao.dequantize_affine(@w, block_size, @scale, @zero, …), or as what that op would do.
//
// Why here: weight-only and dynamically quantized linears share this half of their pattern.
//
//   if (auto missing = take_dequantized_weight(graph, dequantize, gemm.weight_kn, spec)) return Outcome::miss(*missing);
#pragma once

#include "graph/patterns/recognizer.h"

namespace qcg {

// An [N, K] weight in blocks of `rows` by `group` that share a scale.
struct Blocks {
  int64_t n, k, rows, group;
  int64_t groups() const { return k / group; }
};

// How stored codes become those of a scheme: code = stored - shift.
struct CodeForm {
  Scheme scheme;  // of integers, under a float activation
  int64_t shift;
};
// The narrowest for codes in low..high; nullopt when they need more than a byte.
std::optional<CodeForm> form_of_range(double low, double high);
// Where nothing declares a range: int4 or int8, whichever holds every code (few codes would often fit in less by
// chance). Codes without bytes are taken at the width they are stored in.
std::optional<CodeForm> scan_codes(const Tensor& codes);
// What explain says of int4 codes that nothing declares.
inline constexpr const char* kScannedNote = "int4: no range is declared, but every code lies in [-8, 7] or [0, 15]";

// Fills weight, scale, zero or offset, scheme (of the form) and group from a parameter of codes [N, K] and constants
// with one number per block (zero may be absent); says what is missing. Zero points that are not whole are offsets.
std::optional<std::string> take_affine_weight(Graph& graph, ValueId codes, CodeForm form, const Blocks& blocks,
                                              ValueId scale, ValueId zero, LinearSpec& spec);

// The same for the node that dequantizes.
//
// int4 is what quant_min..quant_max promises and the codes keep, or, where the node promises nothing, what the codes
// are: [-8, 7], or [0, 15], which becomes [-8, 7] with every zero point 8 less. Unsigned bytes become int8 the same
// way, 128 less.
std::optional<std::string> take_dequantized_weight(Graph& graph, NodeId dequantize, bool weight_kn, LinearSpec& spec);

// The same for qcg.dequantize_4bit: mxfp4, nvfp4 (f4) and nf4. four_bit_weight.cpp
std::optional<std::string> take_four_bit_weight(Graph& graph, const Node& node, bool weight_kn, LinearSpec& spec);

// The same for one written by hand, (codes - zero) * scale + offset; an empty text: it is none.
// weight_only_arithmetic.cpp
std::optional<std::string> take_arithmetic_weight(Graph& graph, ValueId w, bool weight_kn, LinearSpec& spec);

// Either of the two ops, captured as "w_dequantized".
Pattern dequantized_weight();
// Whichever of the three spellings stands under the casts of `w`; an empty text: none does.
std::optional<std::string> take_weight(Graph& graph, ValueId w, bool weight_kn, LinearSpec& spec);
// The same under an int8 activation: the scheme is its under_int8.
std::optional<std::string> take_integer_weight(Graph& graph, ValueId w, bool weight_kn, LinearSpec& spec);

// Does the block of a (de)quantize node cover exactly one row (all axes but the last are 1)?
bool is_row_block(const Graph& graph, const Node& node);

}  // namespace qcg

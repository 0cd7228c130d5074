// Problem: one GEMM to build, with everything a template needs and nothing a graph owns.
//
// Why here: plan.cpp makes Problems from qcg.linear nodes; schedules, packing, rendering, the tuner and the log read
// them.
//
//   y_j[m, n] = epilogue( sum_k x^[m, k] * w^_j[n, k] + bias_j[n], operands )
//
//     K segments (cat-linear)            N segments (merged siblings), grouped by the output they feed
//     x = [ x_0 | x_1 | x_2 ]            w = [ gate | up ] -> output 0     [ other ] -> output 1
//
// Shapes: M is a run-time argument in [m_min, m_max]; N, K, groups, dtypes and the epilogue are constants in the
// source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "graph/ir/expr.h"
#include "graph/ir/scheme.h"
#include "graph/ir/tensor.h"

namespace qcg {

// Scales of e8m0 are from 2^-kLargestPower to 2^kLargestPower: there e2m1 times them is a normal bf16.
inline constexpr int kLargestPower = 120;

// One weight of the problem. Its tensors are logical, unpacked: weight [n, k], scales, zeros and offsets [n, G], bias
// [n].
struct Segment {
  int64_t n = 0;
  bool has_zero = false;  // integer zero points (any dtype convertible to int)
  bool has_bias = false;
  std::string name;         // for people, comments and logs: "layers.0.mlp.gate_proj"
  bool has_offset = false;  // real-domain zero points
  friend bool operator==(const Segment&, const Segment&) = default;
};

// How an epilogue operand is laid out against the output [m, n].
enum class Broadcast : uint8_t { full /* [m, n], row stride */, row /* [n] or [1, n] */, column /* [m, 1] */, scalar };

struct Operand {
  DType dtype = DType::f32;
  Broadcast broadcast = Broadcast::full;
  friend bool operator==(const Operand&, const Operand&) = default;
};

struct Output {
  Expr expr;  // over accJ (J indexes Problem::segments) and inI (I indexes Problem::operands)
  DType dtype = DType::f32;
  int64_t n = 0;
  std::vector<int> segments;  // that expr reads, ascending; never empty
  friend bool operator==(const Output&, const Output&) = default;
};

struct Problem {
  Scheme scheme = Scheme::dense;
  DType activation = DType::f32;  // of the x tensors: f32, bf16, f16; i8 or u8 for da8* and s8s8; also f8 for scheme f8
  DType weight = DType::f32;      // dense and f8: its dtype; other schemes: i8, see graph/ir/scheme.h
  int64_t k = 0;
  int64_t group = 0;         // along K; 0 = one scale per output channel
  DType scale = DType::f32;  // of grouped scales: f8e8m0, f8e4m3 or bf16 if that holds those of every segment, else f32
  bool x_has_zero = false;   // asymmetric quantized activations
  std::vector<int64_t> k_segments;  // widths of the x tensors, sum = k
  std::vector<Segment> segments;
  std::vector<Operand> operands;
  std::vector<Output> outputs;
  int64_t m_min = 0, m_max = INT64_MAX;
  bool windowed = false;           // rows of x are places of windows: columns of lines of images
  bool by_group_of_rows = false;   // each group of rows has weights of its own, and each is one call
  bool may_round = false;          // grouped weights may be rounded to bf16 before the product, where that is faster
  std::vector<std::string> nodes;  // provenance: source nodes in topological order
  std::string comment;             // provenance: lines for the head of the source, sanitized by the renderer

  int64_t groups() const { return group == 0 ? 1 : (k + group - 1) / group; }
  int64_t n_total() const;
  double operations(int64_t m) const;  // multiplications and additions
  std::string label() const;           // for people: "gate_proj+up_proj"
  // Identity of the mathematics (everything but provenance), as canonical text: part of the cache key.
  std::string signature() const;
};

bool is_integer(const Problem& problem);  // integer activations: int8 and da8*
bool has_zeros(const Problem& problem);   // any segment
// Whether activations have a zero point in a kernel. u8 always has one: kernels hold u8 less 128, as int8.
bool has_x_zero(const Problem& problem);
// Whether kernels subtract the zero point of activations once per column instead of once per group. The scales must be
// narrower than f32. Then the graph computes in bf16, whose rounding is larger than the error of the f32 sums.
bool zeros_by_column(const Problem& problem);
bool can_round(const Problem& problem);  // weights with scales under float activations: --dequant=rounded
// Refuses K so long that an exact int32 result could overflow (2^31 / (largest |x - zx| * largest |w - zw|)).
Status check_integer_range(const Problem& problem);

// Arguments of a GEMM kernel, in this order (abi.h): x_0 … x_{S-1}; x_scale, x_zero (quantized activations; x_zero only
// if x_has_zero); operands; the packed weights (data only); outputs. params[0] = m. Windowed, it is followed by images,
// lines and columns, of which m rows are the first, and by the elements from one of each to the next, in all x alike.

inline constexpr size_t kWindowAxes = 3;  // images, lines, columns

// The constant tensors of one segment, as the graph holds them (any strides).
struct SegmentTensors {
  Tensor weight;   // [n, k]
  Tensor scales;   // [n, G] or unbound dtype f32 when the scheme has none
  Tensor zeros;    // [n, G]; only if has_zero
  Tensor bias;     // [n]; only if has_bias
  Tensor offsets;  // [n, G]; only if has_offset
};
// The same bytes seen the same way; false of a weight without bytes.
bool is_same_segment(const SegmentTensors& a, const SegmentTensors& b);

}  // namespace qcg

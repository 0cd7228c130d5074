// Problem: one GEMM to build, with everything a template needs and nothing a graph owns. Candidate: one way to build it.
//
// Why here: plan.cpp makes Problems from qcg.linear nodes; candidates, packing, rendering, the tuner and the log read them.
//
//   y_j[m, n] = epilogue( sum_k x^[m, k] * w^_j[n, k] + bias_j[n], operands )
//
//     K segments (cat-linear)            N segments (merged siblings), grouped by the output they feed
//     x = [ x_0 | x_1 | x_2 ]            w = [ gate | up ] -> output 0     [ other ] -> output 1
//
// Shapes: M is a run-time argument in [m_min, m_max]; N, K, groups, dtypes and the epilogue are constants in the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "codegen/kernel/target.h"
#include "graph/ir/expr.h"
#include "graph/ir/scheme.h"
#include "graph/ir/tensor.h"

namespace qcg {

// Scales of e8m0 are from 2^-kLargestPower to 2^kLargestPower: there e2m1 times them is a normal bf16.
inline constexpr int kLargestPower = 120;

// One weight of the problem. Its tensors are logical, unpacked: weight [n, k], scales, zeros and offsets [n, G], bias [n].
struct Segment {
  int64_t n = 0;
  bool has_zero = false;   // integer zero points (any dtype convertible to int)
  bool has_bias = false;
  std::string name;        // for people, comments and logs: "layers.0.mlp.gate_proj"
  bool has_offset = false; // real-domain zero points
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
  Expr expr;                  // over accJ (J indexes Problem::segments) and inI (I indexes Problem::operands)
  DType dtype = DType::f32;
  int64_t n = 0;
  std::vector<int> segments;  // that expr reads, ascending; never empty
  friend bool operator==(const Output&, const Output&) = default;
};

struct Problem {
  Scheme scheme = Scheme::dense;
  DType activation = DType::f32;  // of the x tensors: f32, bf16, f16; i8 or u8 for da8* and s8s8; also f8 for scheme f8
  DType weight = DType::f32;           // dense and f8: its dtype; other schemes: i8, see graph/ir/scheme.h
  int64_t k = 0;
  int64_t group = 0;                   // along K; 0 = one scale per output channel
  DType scale = DType::f32;  // of grouped scales: f8e8m0, f8e4m3 or bf16 if that holds those of every segment, else f32
  bool x_has_zero = false;             // asymmetric quantized activations
  std::vector<int64_t> k_segments;     // widths of the x tensors, sum = k
  std::vector<Segment> segments;
  std::vector<Operand> operands;
  std::vector<Output> outputs;
  int64_t m_min = 0, m_max = INT64_MAX;
  bool may_round = false;  // grouped weights may be rounded to bf16 before the product, where that is faster
  std::vector<std::string> nodes;      // provenance: source nodes in topological order
  std::string comment;                 // provenance: lines for the head of the source, sanitized by the renderer

  int64_t groups() const { return group == 0 ? 1 : (k + group - 1) / group; }
  int64_t n_total() const;
  double operations(int64_t m) const;  // multiplications and additions
  std::string label() const;  // for people: "gate_proj+up_proj"
  // Identity of the mathematics (everything but provenance), as canonical text: part of the cache key.
  std::string signature() const;
};
// Arguments of a GEMM kernel, in this order (abi.h): x_0 … x_{S-1}; x_scale, x_zero (quantized activations; x_zero only if x_has_zero);
// operands; the packed weights (data only); outputs. params[0] = m.

// What a vendor's kernel gets beside the arguments every kernel of the problem gets: weights of its own after the outputs,
// and after m what it is to multiply.
struct VendorCall {
  std::vector<int64_t> params;
  std::span<const std::byte> weights;
};

// The constant tensors of one segment, as the graph holds them (any strides).
struct SegmentTensors {
  Tensor weight;  // [n, k]
  Tensor scales;  // [n, G] or unbound dtype f32 when the scheme has none
  Tensor zeros;   // [n, G]; only if has_zero
  Tensor bias;    // [n]; only if has_bias
  Tensor offsets; // [n, G]; only if has_offset
};

// The one packed layout of a problem's weights on a target: every M bucket's kernel reads these bytes.
//
//   for each output, for each panel of nr columns, for each segment of that output:  [K / kr][nr][kr] + parameters
struct PackedLayout {
  int nr = 32;             // columns per panel
  int kr = 1;              // consecutive k of one column stored together
  std::string kind;        // names the byte order within a panel; part of kernel names and keys
  friend bool operator==(const PackedLayout&, const PackedLayout&) = default;
};
PackedLayout layout_for(const Problem& problem, const Target& target);
int64_t packed_bytes(const Problem& problem, const PackedLayout& layout);
// Writes exactly packed_bytes() bytes. Errors: a value outside the scheme's range names segment, row and column.
Status pack_weights(const Problem& problem, const PackedLayout& layout, const std::vector<SegmentTensors>& tensors,
                    std::span<std::byte> out);
// The same for a problem that has one segment of `whole`, whose packed weights are there already: copied out of them where
// the layouts agree, packed from `tensors` otherwise. Precondition: one output of `whole` reads the segment.
Status pack_segment(const Problem& problem, const PackedLayout& layout, const SegmentTensors& tensors,
                    const Problem& whole, const PackedLayout& whole_layout, std::span<const std::byte> packed,
                    int segment, std::span<std::byte> out);

// A row of the microkernel table: which template serves which scheme, dtypes and ISA, and which tiles it may have.
struct Microkernel {
  std::string_view name;        // "avx512_fma", "avx512_vnni", …: in kernel names and logs
  Isa isa;
  std::string_view source;      // "cpu/gemm.cpp.j2", in templates/
  Scheme scheme;
  DType activation;
  DType weight;                 // dense only; i8 otherwise
  std::string_view compute;     // the instruction it lives on: "fma", "vnni", "bf16dot", "amx_int8"
  bool rounds = false;          // multiplies weights only after rounding them to bf16
};
std::span<const Microkernel> microkernel_table();
// Whether code for `isa` may run where `target` runs and shares its vector width.
bool runs_on(Isa isa, Isa target);
// Whether a row multiplies what the problem has, whatever the target.
bool serves(const Microkernel& row, const Problem& problem);

// What describe() says of a candidate without a microkernel.
inline constexpr std::string_view kExternCandidate = "extern oneDNN";

struct Candidate {
  const Microkernel* microkernel =
      nullptr;  // null: a vendor's kernel (extern_kernel.h); what follows means nothing then
  PackedLayout layout;
  int mr = 1;                  // rows per register tile
  std::vector<int> tails;      // rows of the kernels for a last row tile that is not full, ascending
  int64_t kc = 0;              // K block; 0 = all of K
  int panels_per_item = 1;     // panels one work item covers
  int rows_per_item = 0;       // most rows of one work item, more are shared out evenly; 0 = all
  int prefetch_bytes = 0;      // distance ahead in the weight stream
  int ahead_bytes = 0;  // blocks of K follow each other as they lie, what is this far behind the next one goes to L2;
                        // 0: panels of a block follow each other
  bool fetches_rows = false;   // each row tile fetches the activations of the next one, where L2 does not hold an item's
  bool unpacks_block = false;  // weights of a K block are unpacked once for all row tiles, not in registers for each
  bool rounded = false;        // unpacked weights are scaled and rounded to bf16, so sums need no scale per group
  bool scaled = false;         // weights are scaled as they are unpacked, where that is exact: likewise
  std::string describe() const;  // "avx512_fma 8x32 kc=512 panels=8 prefetch=4096", or kExternCandidate
};

// Best guess first; candidates(...)[0] is what --tune=off builds. All share layout_for(problem, target).
std::vector<Candidate> candidates(const Problem& problem, const Target& target, int64_t m_min, int64_t m_max);

// qgemm_<act>_<wgt>[_g<group>]_<out>_n<N>_k<K>_<mr>x<nr>x<kr>_<isa>[_<epilogue>]
std::string kernel_name(const Problem& problem, const Candidate& candidate);

// Pure function of its arguments: a whole translation unit that defines `extern "C" const qcg_kernel <symbol>`.
// Includes only headers returned by support_headers().
Result<std::string> render_gemm(const Problem& problem, const Candidate& candidate, std::string_view symbol);

struct SourceFile {
  std::string name;
  std::string text;
};
// The ISA headers and the ABI header a kernel for `isa` includes; their bytes are part of the cache key.
std::vector<SourceFile> support_headers(Isa isa);
// Compiler flags for kernels of this ISA: language standard, optimization, ISA flags.
std::vector<std::string> kernel_flags(Isa isa);

}  // namespace qcg

// ProgramManifest: the parsed and checked manifest.json of a program directory (docs/program_format.md).
//
// Why here: the file is hostile until parse_program_manifest() has accepted it. After that, its indices need no checks.
//
//   QCG_TRY(manifest, parse_program_manifest(text));
//   manifest.inputs[0].shape[0].evaluate(symbol_values);
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "runtime/reach.h"

namespace qcg {

// A polynomial of symbols: a sum of terms, each a coefficient times a product of symbols and calls.
struct SizeCall;
struct SizeExpr {
  struct Term {
    int64_t coefficient = 0;
    std::vector<int> symbols;
    std::vector<SizeCall> calls;
  };
  std::vector<Term> terms;

  bool is_constant() const;
  // nullopt: the value exceeds int64, or a divisor is 0.
  std::optional<int64_t> evaluate(std::span<const int64_t> symbol_values) const;
};

// The quotient of two sizes, rounded down, or the smaller of them.
struct SizeCall {
  bool divides = false;
  std::vector<SizeExpr> sizes;  // two
  std::optional<int64_t> evaluate(std::span<const int64_t> symbol_values) const;
};

struct ProgramManifest {
  struct File {
    int64_t bytes = 0;
    std::string sha256;
    std::string content;              // the digest in the mark of weights.bin (program_directory.h); may be empty
    std::vector<std::string> pieces;  // digests of kDigestPiece bytes each (piece_digests.h); may be empty
  };
  struct Symbol {
    std::string name;
    int64_t min = 0, max = 0;
  };
  // What the sizes of each run must satisfy.
  struct Condition {
    enum class Is : uint8_t { zero, not_zero, at_least_0 };
    SizeExpr size;
    Is is = Is::zero;
    std::string text;  // for errors: "x.size()[1] <= 4"
    bool holds(std::span<const int64_t> symbol_values) const;
  };
  struct Tensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<SizeExpr> shape;
    int symbol = -1;               // of an input of one integer: the symbol whose value it is
    bool has_one_element() const;  // whatever the symbols are
  };
  // A tensor that a program keeps between runs (state.h).
  struct State {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> shape;
    int64_t bytes = 0;               // derived
    std::optional<int64_t> initial;  // where weights.bin has the first value; nullopt: zeros
    int64_t place = 0;               // derived: where it lies in the block of all states
  };
  enum class BufferKind : uint8_t { input, output, weights, temp, state };
  struct Buffer {
    BufferKind kind = BufferKind::temp;
    int index = 0;                  // input, output, state
    int64_t offset = 0, bytes = 0;  // weights: inside weights.bin
    SizeExpr size;                  // temp
    int first = 0, last = 0;        // temp: steps it is alive in
  };
  struct Arg {
    int buffer = 0;
    SizeExpr offset;                 // bytes
    std::optional<SizeExpr> stride;  // elements; nullopt: the row stride of the caller's tensor
    std::optional<Reach> reach;      // nullopt: unknown, in programs of older versions
    bool holds_positions() const { return reach && reach->positions; }  // which the kernel may refuse
  };
  // The launch of a kernel on a device: a grid of (ceil(n / rows), column_tiles) blocks of `threads` threads, where n is
  // the product of ceil(params[param] / piece) over the axes.
  struct Launch {
    struct Axis {
      int param = 0, piece = 1;
    };
    int threads = 1, rows = 1, column_tiles = 1, shared_bytes = 0;
    std::vector<Axis> axes = {{}};
  };
  struct KernelChoice {
    int64_t m_max = -1;  // -1: no limit
    std::string module;  // a key of `files`
    std::string symbol;
    Launch launch;        // device targets only
    std::string library;  // the vendor's library that the module needs to load; empty: none
  };
  // Of a step that runs once per group of rows, with the weights of that group. Rows are sorted by group; the last
  // argument says where each group's rows end, one integer per group.
  struct Groups {
    int64_t count = 0;
    int weights = 0;    // the argument with the weights of all groups …
    int64_t bytes = 0;  // … which are so far apart
  };
  struct Step {
    std::string name;
    std::vector<KernelChoice> kernels;
    std::vector<Arg> args;
    std::vector<SizeExpr> params;
    std::optional<Groups> groups;
    bool uses_reads = false;  // derived: a param, an offset or a stride has a symbol that a run reads
  };
  // How the value of a symbol follows from an input: extent(input, axis) = coefficient * symbol + constant + terms of
  // symbols that earlier bindings determine, or, with axis kElement, the input's only element is the value.
  static constexpr int kElement = -1;
  struct Binding {
    int symbol = 0, input = 0, axis = 0;
    int64_t coefficient = 1, constant = 0;
  };
  // A symbol that no input determines: before step `step`, a run reads its value, an i64, at the start of `buffer`.
  struct Read {
    int symbol = 0, step = 0, buffer = 0;
    SizeExpr most;  // the value is at most this and the symbol's max; of symbols that inputs determine
  };
  static constexpr int64_t kReadBytes = 8;
  bool is_read(size_t symbol) const;
  // What the value of such a symbol is at most, with these values of the others; nullopt: more than an int64.
  std::optional<int64_t> most_of(const Read& read, std::span<const int64_t> symbol_values) const;

  int version = 0, kernel_abi = 0;
  std::string generator, target, isa;
  std::string method;  // its name; empty: the program has no others
  // The other methods, of the first one only. Files and states are the same in all.
  std::vector<ProgramManifest> others;
  // The other targets, of the first one only, best first (program_target.h). Files are the same in all.
  std::vector<ProgramManifest> other_targets;
  bool on_hip() const { return target.starts_with("hip:"); }
  bool on_device() const { return target.starts_with("cuda:") || on_hip(); }
  std::map<std::string, File> files;
  std::vector<Symbol> symbols;
  std::vector<Read> reads;  // sorted by step
  std::vector<Condition> conditions;
  std::vector<Tensor> inputs, outputs;
  std::vector<State> states;
  int64_t state_bytes = 0;  // derived: of the block
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Binding> bindings;        // derived: one per symbol that an input determines
  std::vector<bool> input_needs_dense;  // derived: some step reads it with a numeric stride
  std::vector<bool> output_needs_dense;
};

bool is_method_name(std::string_view name);  // 1 to 64 letters, digits and underscores

// Derives Step::uses_reads. Returns a place where a symbol that the run reads is not known yet or has no buffer to be read
// from, and what is wrong; nullopt: there is none. Part of parse_program_manifest.
struct Mistake {
  std::string path, message;
};
std::optional<Mistake> settle_reads(ProgramManifest& manifest, const std::string& path);

// The first method of the first target, which has the others. Errors name the JSON path. In the result, every index is
// in range and every weights buffer lies inside weights.bin.
Result<ProgramManifest> parse_program_manifest(std::string_view text);

}  // namespace qcg

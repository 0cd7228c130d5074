// Sequence: how a program takes the tokens of one sequence, run by run, and random inputs for each of these runs.
//
// Why here: `bench` runs a decoder on a prompt and then token by token. A program says neither which of its inputs
// are places in its caches nor which of its sizes is the number of tokens. The graph's writes say the first, and the
// shape of the places says the second.
//
//   QCG_TRY(sequence, Sequence::find(program, graph, {.sizes = {{"batch", 1}}}));
//   QCG_TRY(runs, sequence.cut(0, 512));              // 512 tokens: {{0, 512}}, or more runs of fewer tokens
//   QCG_TRY(io, sequence.inputs(runs[0], seed));      // ids at random, places from 0 to 511
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/program/random_inputs.h"
#include "graph/ir/graph.h"

namespace qcg {

struct SequenceOptions {
  std::map<std::string, int64_t> sizes;  // values of symbols by name; others are 1, or the least that is allowed
  std::vector<std::string> places;       // inputs that are places in caches; empty: those that the graph writes at
  int caution = 0;                       // of random ids (narrowed() in random_inputs.h)
};

// The values of the manifest's symbols: those of `sizes` by name, and of the others 1 or the least that is allowed. Error
// Usage: a symbol that the program lacks, or a size out of range.
Result<std::vector<int64_t>> symbols_of(const Program& program, const std::map<std::string, int64_t>& sizes);

class Sequence {
 public:
  struct Run {
    int64_t first = 0, tokens = 1;
  };

  // Error Usage: a symbol or an input that the program lacks, or a size out of range.
  static Result<Sequence> find(const Program& program, const Graph& graph, SequenceOptions options);

  // Error Usage: there are fewer places than tokens in all.
  Status check_room(int64_t tokens) const;
  // The runs that take `tokens` tokens, the first at place `first`: one, or as few as the program's sizes allow. Error
  // Usage: it has no such sizes.
  Result<std::vector<Run>> cut(int64_t first, int64_t tokens) const;
  // Inputs of one run. Without places, those at the sizes of the options.
  Result<ProgramIo> inputs(const Run& run, uint64_t seed) const;
  std::vector<int64_t> symbols_at(const Run& run) const;  // in the manifest's order

  // Bytes of the state that hold something once `tokens` tokens have been taken: of a cache its first rows.
  double live_bytes(int64_t tokens) const;
  bool be_more_cautious() { return options_.caution++ < kMostCaution; }  // false: there is no more

 private:
  Sequence(const Program& program, const Graph& graph, SequenceOptions options)
      : program_(&program), graph_(&graph), options_(std::move(options)) {}
  // The last axis of places: a symbol, or a number of tokens that is fixed.
  struct TokenAxis {
    std::optional<size_t> symbol;
    int64_t fixed = 1;
    friend bool operator==(const TokenAxis&, const TokenAxis&) = default;
  };

  Status find_places();
  Status find_tokens();
  Status take_tokens(const TokenAxis& axis);
  TokenAxis token_axis(const ProgramManifest::Tensor& input) const;
  std::vector<InputRange> ranges_at(std::span<const int64_t> symbols) const;

  const Program* program_;
  const Graph* graph_;
  SequenceOptions options_;
  std::vector<int64_t> symbols_;  // as the options say
  std::vector<size_t> places_;    // inputs
  std::optional<size_t> symbol_;  // the number of tokens of a run; none: it is fixed
  int64_t least_ = 1, most_ = 1;  // tokens of a run
  int64_t limit_ = INT64_MAX;     // places that there are
};

}  // namespace qcg

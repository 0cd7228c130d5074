// Random inputs of a program. Those that it uses as positions are positions.
//
// Why here: `check` and the verification of a compile try programs with them.
//
//   QCG_TRY(io, run_at_random(*program, *context, *state, symbols, seed, input_ranges(graph, values)));
#pragma once

#include <vector>

#include "codegen/program/program_io.h"
#include "graph/oracle/input_ranges.h"
#include "runtime/state.h"

namespace qcg {

// Symbols have these values, in the manifest's order. Floats are normal. Integers are in their input's range, and where
// none is known such that any arithmetic takes them.
std::vector<Tensor> random_inputs(const Program& program, std::span<const int64_t> symbols, uint64_t seed,
                                  std::span<const InputRange> ranges);

// The values of the manifest's symbols by name.
SymbolValues named_symbols(const Program& program, std::span<const int64_t> symbols);

// Ranges for a program that refuses positions which are computed in ways that input_ranges() does not follow: at
// caution 1, integers of unknown range are 0 or 1, at kMostCaution all integers are 0.
inline constexpr int kMostCaution = 2;
std::vector<InputRange> narrowed(std::vector<InputRange> ranges, int caution);

// A run whose inputs were made at random, and the state before it.
struct RandomRun {
  ProgramIo io;
  std::vector<Tensor> state_before;
};
// Runs the program on a random state, with more caution where it refuses the inputs. Error BadInput: it refuses zeros,
// too.
Result<RandomRun> run_at_random(const Program& program, Context& context, State& state,
                                std::span<const int64_t> symbols, uint64_t seed, std::vector<InputRange> ranges);

}  // namespace qcg

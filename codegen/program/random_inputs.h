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

// A run whose inputs were made at random, and the state before it.
struct RandomRun {
  ProgramIo io;
  std::vector<Tensor> state_before;
};
// Runs the program on a random state. Where it refuses positions that are computed in ways that input_ranges() does not
// follow, integers of unknown range are 0 or 1 in a second attempt, and all integers are 0 in a third. Error BadInput:
// it refuses those, too.
Result<RandomRun> run_at_random(const Program& program, Context& context, State& state,
                                std::span<const int64_t> symbols, uint64_t seed, std::vector<InputRange> ranges);

}  // namespace qcg

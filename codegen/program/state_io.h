// What tools do with the state of a program: random values into it, copies out of it, files.
//
// Why here: run, check and the verification of a compile look into states the same way.
//
//   QCG_TRY(state, State::create(program));
//   QCG_CHECK(read_state_file("s.safetensors", *program, *state));
//   QCG_TRY(tensors, state_tensors(*program, *state));   // copies, in the manifest's order
#pragma once

#include <string>
#include <vector>

#include "graph/ir/tensor.h"
#include "runtime/state.h"

namespace qcg {

Result<std::vector<Tensor>> state_tensors(const Program& program, const State& state);

// Normal floats in place of all that are there. Integers stay: they count and are positions, which have to fit the
// rest.
Status randomize_state(const Program& program, State& state, uint64_t seed);

// Tensors under the names of the states. Error BadInput names the one that is missing or has another dtype or shape;
// tensors that the program lacks are ignored.
Status read_state_file(const std::string& path, const Program& program, State& state);
Status write_state_file(const std::string& path, const Program& program, const State& state);

}  // namespace qcg

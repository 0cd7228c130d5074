// compile NAME=GRAPH... and compile --target A,B: one program of several compiles.
//
// Why here: each method and each target is compiled, tuned and verified as a program of its own, in a folder that
// disappears; then all become one (codegen/program/combine.h).
//
//   if (is_several(flags)) return run_compile_several(session, flags);
#pragma once

#include "cli/compile_flags.h"

namespace qcg {

bool is_several(const CompileFlags& flags);
int run_compile_several(const Session& session, const CompileFlags& flags);

// GRAPH with .qcg.
std::string default_output(const std::string& input);

}  // namespace qcg

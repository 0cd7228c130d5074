// Signature: the inputs, outputs, states and symbols of a graph or a program, as `inspect` and `explain` print them.
//
// Why here: both commands print it, and users copy names and shapes from it into the files that `run` reads.
//
//   put(describe_signature(signature_of(graph)));
//   // input   x   bf16  [m, 256]
//   // output  y   bf16  [m, 704]
//   // symbol  m   1 to 4096
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/program_manifest.h"

namespace qcg {

struct Signature {
  struct Tensor {
    std::string name;
    DType dtype;
    Shape shape;
    std::string symbol;  // whose value an input is; empty: of none
  };
  std::vector<Tensor> inputs, outputs, states;
  std::vector<Symbol> symbols;
  std::set<std::string> computed;  // symbols whose values each run computes; inputs determine the others
};

Signature signature_of(const Graph& graph);
Signature signature_of(const ProgramManifest& manifest);
Dim size_of(const SizeExpr& size, const std::vector<ProgramManifest::Symbol>& symbols);

std::string describe_signature(const Signature& signature);
// Adds `inputs`[] {name, dtype, shape[], symbol?}, `outputs`[], `states`[] and `symbols`[] {name, min, max, computed?} to `out`. A
// size is a number, or text if it has symbols. `max` is null if there is no maximum.
void add_signature(const Signature& signature, nlohmann::json& out);

}  // namespace qcg

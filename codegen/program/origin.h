// Origin: what a program was compiled from, kept in it as origin.json.
//
// Why here: `check` compares a program with the oracle and `bench` compares its kernels with vendors'; both need the
// graph again, which the program itself does not hold. Running a program never looks at this.
//
//   QCG_TRY(options, read_origin("mlp.qcg"));       // CompileOptions that lead to the same plan
//   QCG_TRY(explanation, explain_graph(options));
#pragma once

#include <string>

#include "codegen/program/compile_options.h"
#include "codegen/program/model_source.h"

namespace qcg {

// Paths are made absolute, and file:// URIs where they are not UTF-8; the graph's SHA-256 is kept, so that a changed
// file is noticed.
std::string place_of_files(const CompileOptions& options);
// The source's place and digest, and the options that lead from the model to the same plan.
Result<std::string> origin_json(const ModelSource& source, const CompileOptions& options);
// The origin of a program that was compiled before, from the same model in another place.
std::string moved_origin(const std::string& origin, const std::string& place);

// Error BadInput: the graph is gone or is another one now; the remedy is `--graph` (and `--weights`), which `graph` and
// `weights` stand for when not empty. `target` is that of the manifest, of a program for several; `method` is one of a
// program that has several. Error Usage: there are methods and none is named, or none has this name.
Result<CompileOptions> read_origin(const std::string& program, const std::string& graph = {},
                                   const std::vector<std::string>& weights = {}, const std::string& target = {},
                                   const std::string& method = {});
// The origin or the report (`file`) of one target, as JSON text; `text` is that of the program.
std::string record_of_target(const std::string& text, const std::string& target);

// Error Usage: `method` is none of `names`, or there are methods and it is empty.
Status require_method(const std::vector<std::string>& names, const std::string& method);

}  // namespace qcg

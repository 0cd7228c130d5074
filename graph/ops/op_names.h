// Names of operators near to one that is not there.
//
// Why here: both text forms of a graph and `qcodegen list ops` take names that people type.
//
//   similar_op("aten.relo.default")  ->  " (did you mean aten.relu.default?)"
#pragma once

#include <string>
#include <string_view>

namespace qcg {

// For the end of a message; empty where nothing is near. A short name ("relo") is told a short one.
std::string similar_op(std::string_view name);
// "relu" for "aten.relu.default".
std::string_view short_op_name(std::string_view name);

}  // namespace qcg

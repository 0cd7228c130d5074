// Where a test finds the sources, the build tree and the built program.
//
// Why functions: a macro in every compiler call would keep a compiler cache from serving two build trees.
//
//   std::ifstream file(source_dir() + "/examples/native/mlp_f32.json");
#pragma once

#include <string>

namespace qcg::test {

std::string source_dir();  // the root of the sources
std::string binary_dir();  // the root of the build tree
std::string cli_path();    // the qcodegen that was built; empty in tests that do not start it

}  // namespace qcg::test

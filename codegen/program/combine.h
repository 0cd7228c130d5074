// combine_programs: makes one program of several, each of which becomes a method of it.
//
// Why here: methods are compiled, tuned and verified one by one, each as a program of its own. What they share is found
// afterwards, by content: kernels and sources by their checksums, weights and initial states by their bytes. States are
// shared by name.
//
//   QCG_CHECK(combine_programs({{"encode", "a.qcg"}, {"decode", "b.qcg"}}, "m.qcg"));
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace qcg {

struct MethodProgram {
  std::string name;       // is_method_name()
  std::string directory;  // a program without methods
};

struct CombineReport {
  int64_t weight_bytes = 0;  // of the program
  int64_t shared_bytes = 0;  // less than the methods have together
  int64_t bytes = 0;         // of all files
};

// Error BadInput: targets differ, or a state that two methods have differs in dtype, shape or initial value.
Result<CombineReport> combine_programs(std::span<const MethodProgram> methods, const std::string& output);

}  // namespace qcg

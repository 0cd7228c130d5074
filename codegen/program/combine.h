// combine_methods, combine_targets: make one program of several, each of which becomes a method or a target of it.
//
// Why here: methods and targets are compiled, tuned and verified one by one, each as a program of its own. What they
// share is found afterwards, by content: kernels and sources by their checksums, weights and initial states by their
// bytes. Methods share states by name.
//
//   QCG_CHECK(combine_methods({{"encode", "a.qcg"}, {"decode", "b.qcg"}}, "m.qcg"));
//   QCG_CHECK(combine_targets({"avx2/m.qcg", "cuda/m.qcg"}, "m.qcg"));
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace qcg {

struct MethodProgram {
  std::string name;       // is_method_name(), and no other one is_same_method()
  std::string directory;  // a program without methods
};

// Whether two names of methods are one in the macros of their headers, which are in upper case.
bool is_same_method(std::string_view a, std::string_view b);

struct CombineReport {
  int64_t weight_bytes = 0;  // of the program
  int64_t shared_bytes = 0;  // less than the parts have together
  int64_t bytes = 0;         // of all files
};

// Error Usage: there is nothing to combine.
// Error BadInput: targets differ, or a state that two methods have differs in dtype, shape or initial value.
Result<CombineReport> combine_methods(std::span<const MethodProgram> methods, const std::string& output);
// The programs are of the same graphs and may have methods. They need not run on this machine. Error BadInput: two are
// for one target.
Result<CombineReport> combine_targets(std::span<const std::string> directories, const std::string& output);

}  // namespace qcg

// Generators of hostile inputs: each writes one kind of excess, up to a number of bytes.
//
// Why here: generated_test.cpp measures what each costs; a new reader, or a new list in an old one, gets a row.
//
//   for (const Recipe& recipe : recipes()) { Random random(7); std::string bytes = recipe.make(random, 65536); }
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/graph_read/small_export.h"

namespace qcg::test {

class Random {
 public:
  explicit Random(uint64_t state) : state_(state * 2 + 1) { below(2), below(2); }
  size_t below(size_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<size_t>(state_ >> 33) % n;
  }
  bool coin() { return below(2) == 0; }

 private:
  uint64_t state_;
};

struct Recipe {
  const char* name;
  std::string (*make)(Random&, size_t bytes);
  bool weights = false;  // for the graph many_weights(); else the input is a graph
};

inline constexpr size_t kMegabyte = 1 << 20;
std::vector<Recipe> recipes();
std::string many_weights();  // a graph of native JSON with 2,000 parameters

}  // namespace qcg::test

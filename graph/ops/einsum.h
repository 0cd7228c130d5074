// Einsum: what an equation of einsum says, checked against its tensors.
//
//   "...ik,kj->...ij" of [B, 2, 3] and [3, 5]  ->  {"\1ik", "kj"}, "\1ij": an ellipsis is labels below 'A'
//   "bhi,bhi->bh" of [B, 4, 8] and [B, 1, 8]   ->  {"bhi", "b[i"}, "bh": what is broadcast has a label that is no letter
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/ops/infer.h"

namespace qcg {

struct Einsum {
  std::vector<std::string> inputs;  // a label per axis; one that stands twice is a diagonal
  std::string output;
  std::map<char, Dim> sizes;
};
Result<Einsum> read_einsum(const OpArgs& a);

}  // namespace qcg

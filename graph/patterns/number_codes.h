// Floats that are the numbers of a quantization scheme, as the codes they stand for.
//
// Why here: a weight that was looked up in a table, or unpacked into floats, says by its numbers what it is: whole ones
// are int4 or int8, those of e2m1 are mxfp4, those of NormalFloat4 are nf4. Numbers may have been rounded to their own
// dtype, which is an intermediate rounding like others.
//
//   codes_of_numbers(bf16 [0.5, -6, 1.5])   f4, codes [1, -12, 3], unit 0.5
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/ir/scheme.h"
#include "graph/ir/tensor.h"

namespace qcg {

// number = unit * value(code - shift), value as in scheme.h; the unit is that of four_bit.h.
struct NumberCodes {
  Scheme scheme;
  int64_t shift = 0;
  double unit = 1;
  std::vector<int8_t> codes;  // row-major
};
// nullopt: other numbers. Precondition: bound, of floats.
std::optional<NumberCodes> codes_of_numbers(const Tensor& numbers);

}  // namespace qcg

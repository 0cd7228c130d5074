// Reach: which elements of a buffer a kernel touches through one argument, by the step's own numbers.
//
// Why here: a kernel trusts its arguments. What a manifest says of shapes, strides and buffers is compared before it runs: rows
// that would lie beyond the buffer are an error of the program, not an access to somebody else's memory.
//
//   {"item": 4, "axes": [["p0", "s"], [704, 1]]}      params[0] rows, the argument's stride apart, of 704 elements of 4 bytes
//   {"item": 4, "axes": [["p0"], ["p1"], ["p2"]]}     the same without gaps: each axis lies densely over those after it
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace qcg {

struct Reach {
  struct Number {
    enum Kind : uint8_t { constant, param, stride } kind = constant;
    int64_t value = 0;  // param: its index
  };
  struct Axis {
    Number extent;
    std::optional<Number> stride;  // elements; nullopt: dense
  };
  int64_t item = 1;  // bytes of an element
  std::vector<Axis> axes;
  bool writes = false;  // else the buffer is only read
};

// Whether all of it lies in a buffer of `bytes` bytes, from byte `offset` on.
bool is_within(const Reach& reach, std::span<const int64_t> params, int64_t stride, int64_t offset, int64_t bytes);

}  // namespace qcg

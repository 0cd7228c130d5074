// Reach: the elements of a buffer that a kernel accesses through one argument, in terms of the step's params.
//
// Why here: a kernel trusts its arguments. So the runtime compares the manifest's shapes, strides and buffers before a
// kernel runs: rows beyond the buffer are an error of the program instead of an access to other memory.
//
//   {"item": 4, "axes": [["p0", "s"], [704, 1]]}      params[0] rows of 704 4-byte elements, one stride apart
//   {"item": 4, "axes": [["p0"], ["p1"], ["p2"]]}     a dense tensor of 4-byte elements
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace qcg {

struct Reach {
  struct Number {
    enum Kind : uint8_t { constant, param, stride } kind = constant;
    int64_t value = 0;  // the constant, or the index of the param
  };
  struct Axis {
    Number extent;
    std::optional<Number> stride;  // elements; nullopt: dense
  };
  int64_t item = 1;  // bytes of an element
  std::vector<Axis> axes;
  bool writes = false;  // false: the kernel only reads the buffer
};

// Whether the reach from byte `offset` on lies within a buffer of `bytes` bytes. `stride`: the argument's, in elements.
bool is_within(const Reach& reach, std::span<const int64_t> params, int64_t stride, int64_t offset, int64_t bytes);

}  // namespace qcg

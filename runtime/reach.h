// Reach: the elements of a buffer that a kernel accesses through one argument, in terms of the step's params.
//
// Why here: a kernel trusts its arguments. So the runtime compares the manifest's shapes, strides and buffers before a
// kernel runs: rows beyond the buffer are an error of the program instead of an access to other memory.
//
//   {"item": 4, "axes": [["p0", "s"], [704, 1]]}      params[0] rows of 704 4-byte elements, one stride apart
//   {"item": 4, "axes": [["p0"], ["p1"], ["p2"]]}     a dense tensor of 4-byte elements
//   {"item": 8, "axes": [["p0"]], "positions": {"size": "p1"}}     params[0] numbers, each in [0, params[1])
#pragma once

#include <algorithm>
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
  // Integers (i32 or i64) that the kernel uses as positions in an axis of `size` elements. It refuses others.
  struct Positions {
    Number size;
    bool from_end = false;   // -1 is the last element
    bool ascending = false;  // none is less than the one before; the first is 0
  };
  int64_t item = 1;  // bytes of an element
  std::vector<Axis> axes;
  bool writes = false;  // false: the kernel only reads the buffer
  std::optional<Positions> positions;
};

// Whether the reach is of rows, params[0] of them.
inline bool is_by_row(const Reach& reach) {
  return !reach.axes.empty() && reach.axes[0].extent.kind == Reach::Number::param && reach.axes[0].extent.value == 0;
}

// Least and most of what positions may be; least > most where the axis is empty.
struct PositionRange {
  int64_t least = 0, most = -1;
  bool ascending = false;
};

// The value of a number in a call. `stride`: the argument's, in elements.
inline int64_t value_of(const Reach::Number& number, std::span<const int64_t> params, int64_t stride) {
  return number.kind == Reach::Number::constant ? number.value
         : number.kind == Reach::Number::stride ? stride
                                                : params[static_cast<size_t>(number.value)];
}

inline PositionRange allowed_by(const Reach::Positions& positions, std::span<const int64_t> params, int64_t stride) {
  const int64_t size = std::max<int64_t>(0, value_of(positions.size, params, stride));
  return {positions.from_end ? -size : 0, size - 1, positions.ascending};
}

// Whether the reach from byte `offset` on lies within a buffer of `bytes` bytes. `stride`: the argument's, in elements.
bool is_within(const Reach& reach, std::span<const int64_t> params, int64_t stride, int64_t offset, int64_t bytes);

// The least extent of the reach; 1 without axes.
int64_t least_extent(const Reach& reach, std::span<const int64_t> params, int64_t stride);

// The bytes that a call reads and writes once, through arguments with these reaches and strides. Of an axis that
// positions choose from, one element for each of them. Of an axis of stride 0, one.
double bytes_moved(std::span<const Reach> reaches, std::span<const int64_t> params, std::span<const int64_t> strides);

}  // namespace qcg

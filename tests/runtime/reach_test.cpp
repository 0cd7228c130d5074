// Reach: what lies within a buffer, and what does not by one element.
#include "runtime/reach.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

using namespace qcg;

namespace {

using Number = Reach::Number;

Number size(int64_t value) { return {Number::constant, value}; }
Number param(int64_t index) { return {Number::param, index}; }
constexpr Number kStride{Number::stride, 0};

}  // namespace

TEST_CASE("rows of a matrix end where the last element does") {
  const Reach rows{4, {{param(0), kStride}, {size(8), size(1)}}};
  const int64_t m[] = {3};
  CHECK(is_within(rows, m, 10, 0, 4 * 28));
  CHECK(!is_within(rows, m, 10, 0, 4 * 28 - 1));
  CHECK(!is_within(rows, m, 11, 0, 4 * 28));
  CHECK(is_within(rows, m, 10, 16, 4 * 28 + 16));
  CHECK(!is_within(rows, m, 10, 17, 4 * 28 + 16));
  CHECK(!is_within(rows, m, -10, 0, 1 << 20));
  CHECK(is_within(rows, m, -10, 80, 4 * 28));
  CHECK(is_within(rows, m, 0, 0, 32));
}

TEST_CASE("without a stride an axis lies densely over those after it") {
  const Reach dense{2, {{param(0), {}}, {param(1), {}}, {size(3), {}}}};
  const int64_t extents[] = {4, 5};
  CHECK(is_within(dense, extents, 0, 0, 120));
  CHECK(!is_within(dense, extents, 0, 0, 119));
}

TEST_CASE("nothing is touched where an extent is 0; a negative one is no extent; nothing overflows") {
  const Reach reach{8, {{param(0), param(1)}, {param(2), param(3)}}};
  const int64_t most = INT64_MAX, least = INT64_MIN;
  for (const auto& [good, params] : {std::pair(true, std::vector<int64_t>{0, most, most, most}),
                                     {false, {-1, 1, 1, 1}},
                                     {false, {most, most, most, most}},
                                     {false, {2, least, 2, least}},
                                     {false, {most, 1, 1, 1}},
                                     {true, {most, 0, most, 0}}})
    CHECK(is_within(reach, params, 0, 0, 8) == good);
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  CHECK(!is_within({1, {{param(0), {}}, {param(1), {}}}}, huge, 0, 0, most));
}

TEST_CASE("what a call moves: dense axes, repeated ones, and rows that positions choose") {
  const int64_t params[] = {3, 100, 0};
  // Rows of 8 floats, the same row for each of m, and a table of which 3 of 100 rows are looked up.
  const Reach rows{4, {{param(0), kStride}, {size(8), size(1)}}};
  const Reach repeated{4, {{param(0), size(0)}, {size(8), {}}}};
  const Reach table{4, {{param(0), size(0)}, {param(1), size(8)}, {size(8), size(1)}}};
  const Reach ids{8, {{param(0), {}}}, false, Reach::Positions{param(1)}};
  const int64_t strides[] = {8, 0, 0};
  CHECK(bytes_moved(std::vector{rows, repeated}, params, strides) == 4 * 3 * 8 + 4 * 8);
  CHECK(bytes_moved(std::vector{table}, params, strides) == 4 * 100 * 8);
  CHECK(bytes_moved(std::vector{table, ids, rows}, params, std::vector<int64_t>{0, 0, 8}) == 8 * 3 + 2 * 4 * 3 * 8);
  CHECK(bytes_moved(std::vector<Reach>{{4, {{param(2), {}}, {size(8), {}}}}}, params, strides) == 0);
}

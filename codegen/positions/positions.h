// Positions: what kernels have in common that look up (gather) or write (scatter) at positions known only at run time.
//
// Why here: both have the arguments x, positions, y and the same parameters; their templates check a position alike
// (cpu/positions.j2).
//
//   const PositionParams at(p.rank, p.ids.size());
//   QCG_CHECK(add_positions(v, "gather", p.rank, p.ids));      // what both templates are told of them
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"
#include "codegen/template_engine/value.h"

namespace qcg {

// One argument that holds positions along an axis.
struct Positions {
  DType dtype = DType::i64;  // i32 or i64
  bool from_end = false;     // negative ones count from the end
};

// Where params hold what: extents[rank], strides[rank] of x, of each of the positions and of y; then of each of the
// positions the size of its axis, in elements, and the step from one to the next.
struct PositionParams {
  size_t rank, ids;
  PositionParams(int axes, size_t arguments) : rank(static_cast<size_t>(axes)), ids(arguments) {}
  size_t strides(size_t arg) const { return rank * (arg + 1); }
  size_t y() const { return ids + 1; }  // its argument
  size_t size(size_t j) const { return rank * (ids + 3) + 2 * j; }
  size_t step(size_t j) const { return size(j) + 1; }
};

std::string describe_positions(const std::vector<Positions>& ids);  // "i64 from end, i32"
std::string names_of_positions(const std::vector<Positions>& ids);  // "in1, in2"

// Keys rank, ids, y_arg and y_strides of a template. Errors: Internal if there is no axis or no position, Unsupported if
// positions are not i32 or i64.
Status add_positions(TemplateValue& v, std::string_view kernel, int rank, const std::vector<Positions>& ids);

// Of x, positions and y, in that order; `dtype` is that of x and y.
std::vector<ArgumentKind> position_arguments(DType dtype, const std::vector<Positions>& ids);

// Position j of a call where its argument is read at `index`, counted from the start.
int64_t position_at(const CallMemory& call, const PositionParams& at, size_t j, const std::vector<int64_t>& index);

}  // namespace qcg

// View: where a value lives during the run: a buffer, an offset and one stride per axis, all in elements.
//
// Why here: the planner turns transposes, slices and reshapes into arithmetic on these instead of copies.
//
//   View x = dense_view(buffer, {s0, 4096});       // strides {4096, 1}
//   std::optional<Rows> rows = rows_of(x);          // a GEMM may read it: s0 rows, 4096 apart
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "graph/ir/symbol.h"

namespace qcg {

struct View {
  int buffer = -1;
  Dim offset;
  Shape shape;
  std::vector<Dim> strides;
};

View dense_view(int buffer, Shape shape);
bool is_dense(const View& view);

// The same elements under another shape, if strides can say it (torch.Tensor.view's rule, on polynomials).
std::optional<View> reshape_view(const View& view, const Shape& shape);
// view repeated to `shape` (numpy broadcasting): stride 0 along repeated axes. Precondition: shapes are compatible.
View broadcast_view(const View& view, const Shape& shape);

// Along the last axis, as kernels are told: 1, 0, or -1 for any other.
int inner_stride(const View& view);

// An axis is walked backwards: only loops read that.
bool walks_back(const View& view);

// Leading axes folded into rows, the last axis dense: what a row-wise kernel reads.
struct Rows {
  Dim count;
  Dim stride;
};
std::optional<Rows> rows_of(const View& view);

// Rows that are places of windows: columns of lines of images, these so many elements apart. Row 0 is dense in parts of
// `width` elements, which begin at `parts`.
struct WindowRows {
  std::array<Dim, 3> extents, strides;
  std::vector<Dim> parts;
  int64_t width = 1;
};
// Of a view whose last axes are the k elements of a row; nullopt: they are in pieces too many, or rows have more axes.
std::optional<WindowRows> window_rows_of(const View& view, int64_t k);

// Drops axes of size 1 and merges neighbours that every view walks as one. All views have the shape of views[0].
std::vector<View> collapse(std::vector<View> views);

}  // namespace qcg

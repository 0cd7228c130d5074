#include "codegen/plan/view.h"

#include <algorithm>

namespace qcg {

namespace {

std::vector<Dim> dense_strides(const Shape& shape) {
  std::vector<Dim> strides(shape.size());
  Dim next = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = next;
    next = next * shape[i];
  }
  return strides;
}

}  // namespace

View dense_view(int buffer, Shape shape) {
  View view{buffer, 0, std::move(shape), {}};
  view.strides = dense_strides(view.shape);
  return view;
}

bool is_dense(const View& view) {
  Dim next = 1;
  for (size_t i = view.shape.size(); i-- > 0;) {
    if (view.shape[i].is_constant(1)) continue;
    if (view.strides[i] != next) return false;
    next = next * view.shape[i];
  }
  return true;
}

std::vector<View> collapse(std::vector<View> views) {
  const Shape shape = views[0].shape;
  std::vector<View> out = views;
  for (auto& view : out) view.shape.clear(), view.strides.clear();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis].is_constant(1)) continue;
    bool merges = !out[0].shape.empty();
    for (size_t v = 0; v < views.size() && merges; ++v)
      merges = out[v].strides.back() == views[v].strides[axis] * shape[axis];
    for (size_t v = 0; v < views.size(); ++v) {
      if (merges) {
        out[v].shape.back() = out[v].shape.back() * shape[axis];
        out[v].strides.back() = views[v].strides[axis];
      } else {
        out[v].shape.push_back(shape[axis]);
        out[v].strides.push_back(views[v].strides[axis]);
      }
    }
  }
  return out;
}

std::optional<View> reshape_view(const View& view, const Shape& shape) {
  const View chunks = collapse({view})[0];
  View out{view.buffer, view.offset, shape, std::vector<Dim>(shape.size(), Dim(1))};
  size_t axis = shape.size();
  for (size_t c = chunks.shape.size(); c-- > 0;) {
    Dim covered = 1;
    while (covered != chunks.shape[c]) {
      if (axis == 0) return std::nullopt;
      --axis;
      out.strides[axis] = chunks.strides[c] * covered;
      covered = covered * shape[axis];
    }
  }
  while (axis > 0)
    if (!shape[--axis].is_constant(1)) return std::nullopt;
  return out;
}

View broadcast_view(const View& view, const Shape& shape) {
  View out{view.buffer, view.offset, shape, std::vector<Dim>(shape.size(), Dim(0))};
  const size_t lead = shape.size() - view.shape.size();
  for (size_t i = 0; i < view.shape.size(); ++i)
    if (view.shape[i] == shape[lead + i]) out.strides[lead + i] = view.strides[i];
  return out;
}

int inner_stride(const View& view) {
  const Dim& inner = view.strides.back();
  return inner.is_constant(1) ? 1 : inner.is_constant(0) ? 0 : -1;
}

bool walks_back(const View& view) {
  if (is_dense(view)) return false;  // [s0, s1-1, 8]: 8*s1-8 has a negative term, and is positive
  return std::ranges::any_of(view.strides, [](const Dim& stride) {
    const Dim::Terms terms = stride.terms();
    return std::ranges::any_of(terms, [](const auto& term) { return term.second < 0; });
  });
}

std::optional<Rows> rows_of(const View& view) {
  if (view.shape.empty() || walks_back(view)) return std::nullopt;
  const Dim k = view.shape.back();
  if (!k.is_constant(1) && !view.strides.back().is_constant(1)) return std::nullopt;
  View lead = view;
  lead.shape.pop_back();
  lead.strides.pop_back();
  if (lead.shape.empty()) return Rows{1, k};
  const View merged = collapse({lead})[0];
  if (merged.shape.empty()) return Rows{1, k};
  if (merged.shape.size() > 1) return std::nullopt;
  return Rows{merged.shape[0], merged.strides[0]};
}

std::optional<WindowRows> window_rows_of(const View& view, int64_t k) {
  constexpr size_t kMostParts = 32;
  if (walks_back(view)) return std::nullopt;
  size_t rank = view.shape.size();
  for (int64_t covered = 1; covered < k;) {
    if (rank == 0 || !view.shape[--rank].is_constant()) return std::nullopt;
    covered *= view.shape[rank].constant();
    if (covered > k) return std::nullopt;
  }
  View rows = view, row = view;
  const auto split = static_cast<std::ptrdiff_t>(rank);
  rows.shape.erase(rows.shape.begin() + split, rows.shape.end());
  rows.strides.erase(rows.strides.begin() + split, rows.strides.end());
  row.shape.erase(row.shape.begin(), row.shape.begin() + split);
  row.strides.erase(row.strides.begin(), row.strides.begin() + split);
  rows = collapse({rows})[0], row = collapse({row})[0];
  if (row.shape.empty() || !row.strides.back().is_constant(1)) return std::nullopt;
  WindowRows out{{1, 1, 1}, {0, 0, 0}, {view.offset}, row.shape.back().constant()};
  if (rows.shape.size() > out.extents.size()) return std::nullopt;
  std::ranges::copy(rows.shape, out.extents.end() - std::ssize(rows.shape));
  std::ranges::copy(rows.strides, out.strides.end() - std::ssize(rows.strides));
  for (size_t axis = 0; axis + 1 < row.shape.size(); ++axis) {
    std::vector<Dim> next;
    for (const Dim& part : out.parts)
      for (int64_t i = 0; i < row.shape[axis].constant() && next.size() <= kMostParts; ++i)
        next.push_back(part + row.strides[axis] * Dim(i));
    out.parts = std::move(next);
    if (out.parts.size() > kMostParts) return std::nullopt;
  }
  return out;
}

}  // namespace qcg

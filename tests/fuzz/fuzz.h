// What the fuzz targets share.
//
// Why here: a reader that does not crash may still hand on a graph that does; every target drives what it read a step
// on.
//
//   if (graph.ok()) qcg::fuzz::check_graph(*graph);
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "graph/ir/graph.h"
#include "graph/ops/verify.h"
#include "graph/read/text.h"
#include "graph/read/torch/mutations.h"

namespace qcg::fuzz {

inline std::string_view text(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

// Touches every byte of every bound parameter, and round-trips the text form.
inline void check_graph(const Graph& graph) {
  if (!verify_graph(graph).ok() || !check_in_place(graph).ok()) return;
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::parameter || !value.data.bound() || value.data.numel() > 100'000) continue;
    Tensor dense = value.data.contiguous();
    volatile unsigned sum = 0;
    for (std::byte b : dense.bytes()) sum = sum + static_cast<unsigned>(b);
  }
  std::string printed = print_graph(graph);
  auto again = parse_graph(printed);
  if (!again.ok() || print_graph(*again) != printed) std::abort();
}

}  // namespace qcg::fuzz

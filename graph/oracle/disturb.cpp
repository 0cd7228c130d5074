#include "graph/oracle/disturb.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/splitmix.h"
#include "graph/ir/dependence.h"
#include "graph/ir/float_format.h"
#include "graph/ops/op_table.h"

namespace qcg {
namespace {

bool is_whole(double v) { return v == std::nearbyint(v); }

// A number for each code of the result.
bool is_rounded_by(const Graph& graph, const Node& node, ValueId input) {
  const Value& value = graph.value(input);
  return is_floating(value.dtype) && value.shape == graph.value(node.outputs[0]).shape;
}

bool is_quantization(const Graph& graph, const Node& node) {
  if (node.outputs.empty() || node.op->role == OpRole::view) return false;
  const DType out = graph.value(node.outputs[0]).dtype;
  const bool codes = is_byte(out) || (is_float8(out) && float_format(out));
  if (!codes && !(Op(node.op) == "aten.round.default")) return false;
  bool reads = false;
  for_each_input(node, [&](ValueId id) { reads = reads || is_rounded_by(graph, node, id); });
  return reads;
}

// The code beside `code`.
double step_from(DType dtype, double code, bool up) {
  const auto format = is_float8(dtype) ? float_format(dtype) : std::nullopt;
  if (!format) return code + (up ? 1 : -1);
  const int exponent = std::max(code == 0 ? format->min_exponent() : std::ilogb(code), format->min_exponent());
  return round_to_dtype(dtype, code + std::ldexp(up ? 1.0 : -1.0, exponent - format->mantissa_bits));
}

// Calls f(first element, values) for all elements in pieces, on all processors.
template <class F>
void for_each_piece(const Tensor& t, F&& f) {
  const Tensor dense = t.contiguous();
  for_each_part(dense.numel(), 1, [&](int64_t first, int64_t last) {
    double values[1024];
    for (int64_t at = first, n; at < last; at += n) {
      n = std::min<int64_t>(last - at, std::size(values));
      read_run(dense, dense.offset + at, 1, n, values);
      f(at, std::span<const double>(values, static_cast<size_t>(n)));
    }
  });
}

double find_largest(const Tensor& t) {
  std::atomic<double> largest{0};
  for_each_piece(t, [&](int64_t, std::span<const double> values) {
    double mine = 0;
    for (double v : values)
      if (std::isfinite(v)) mine = std::max(mine, std::abs(v));
    double seen = largest;
    while (mine > seen && !largest.compare_exchange_weak(seen, mine)) {
    }
  });
  return largest;
}

bool all_whole(const Tensor& t) {
  std::atomic<bool> all{true};
  for_each_piece(t, [&](int64_t, std::span<const double> values) {
    if (all && !std::ranges::all_of(values, is_whole)) all = false;
  });
  return all;
}

// In [-1, 1).
double draw_share(uint64_t bits) { return static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-63; }

}  // namespace

double largest_term(const RefContext& c) {
  std::vector<double> largest;
  for_each_input(c.node, [&](ValueId id) { largest.push_back(find_largest(c.values[id].data)); });
  std::sort(largest.rbegin(), largest.rend());
  const bool products = c.node.op->role == OpRole::matmul;
  if (!products && c.node.op->role != OpRole::reduction) return 0;
  return products && largest.size() > 1 ? largest[0] * largest[1] : largest[0];
}

Tensor disturb(DType dtype, double term, const Tensor& t, std::mt19937_64& rng) {
  const double rounding = dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0;
  const double last_bits = 0x1p-21 * std::max(term, find_largest(t));
  const bool fractions = !all_whole(t);
  const uint64_t seed = rng();
  const auto disturbed = [&]<class T>(std::vector<T> out) {
    for_each_piece(t, [&](int64_t first, std::span<const double> values) {
      for (size_t i = 0; i < values.size(); ++i) {
        double v = values[i];
        if (!is_whole(v) || (v == 0 && term > 0 && fractions)) {
          const uint64_t bits = splitmix(seed + static_cast<uint64_t>(first) + i);
          // A sum that cancels is zero in one order and nearly zero in another: what is asked of zero wavers.
          const bool cancels = std::abs(v) < last_bits && splitmix(bits) % 2 == 0;
          v = cancels ? 0 : v + draw_share(bits) * (last_bits + rounding * std::abs(v));
        }
        out[static_cast<size_t>(first) + i] = static_cast<T>(v);
      }
    });
    return out;
  };
  const size_t count = static_cast<size_t>(t.numel());
  if (t.dtype == DType::f32 && is_half(dtype)) return make_floats(t.shape, disturbed(std::vector<float>(count)));
  return make_doubles(t.shape, disturbed(std::vector<double>(count)));
}

bool chooses_zero_points(const Node& node) { return node.op->role == OpRole::quantize && node.outputs.size() == 2; }

Tensor nudge(const Tensor& t, std::mt19937_64& rng) {
  const uint64_t seed = rng();
  std::vector<double> out(static_cast<size_t>(t.numel()));
  for_each_piece(t, [&](int64_t first, std::span<const double> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t at = static_cast<size_t>(first) + i;
      out[at] = values[i] * (1 + 0x1p-21 * draw_share(splitmix(seed + at)));
    }
  });
  return make_doubles(t.shape, std::move(out));
}

int count_quantizations(const Graph& graph) {
  const std::vector<bool> varies = vary_with_inputs(graph);
  return static_cast<int>(std::ranges::count_if(
      graph.nodes, [&](const Node& node) { return is_quantization(graph, node) && varies[node.outputs[0]]; }));
}

bool rounds_to_codes(const RefContext& c) {
  if (!is_quantization(c.graph, c.node)) return false;
  bool between = false;
  for_each_input(c.node, [&](ValueId id) {
    if (between || !is_rounded_by(c.graph, c.node, id)) return;
    between = !all_whole(c.values[id].data);
  });
  return between;
}

Tensor flip_codes(DType dtype, const Tensor& t, double share, std::mt19937_64& rng) {
  if (t.numel() == 0) return t;
  std::vector<double> values = read_doubles(t);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double least = *low, most = *high;
  const size_t width = static_cast<size_t>(t.shape.empty() ? 1 : t.shape.back());
  std::uniform_real_distribution<double> draw(0, 1);
  for (size_t row = 0; row < values.size(); row += width) {
    if (draw(rng) >= share) continue;
    double& code = values[row + rng() % width];
    if (std::isfinite(code)) code = std::clamp(step_from(dtype, code, rng() % 2 == 0), least, most);
  }
  return store_results(dtype, t.shape, std::move(values));
}

}  // namespace qcg

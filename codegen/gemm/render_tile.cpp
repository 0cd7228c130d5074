// The register tile of a GEMM kernel: its sums, the units of one iteration, what it fetches ahead.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "codegen/gemm/layout.h"
#include "codegen/gemm/render_parts.h"
#include "codegen/gemm/schedules.h"

namespace qcg {
namespace {

using V = TemplateValue;

std::string zero(const GemmShape& shape) { return fmt::format("{}_zero()", shape.compute.name); }

// What the sum of a slice of a row begins with.
std::string start_of_slice(const GemmShape& shape, int v, int slice, int row) {
  const std::string x = fmt::format("vi_set1((int32_t)x_sums[{} * MR + {}])", slice, row);
  return shape.panel.has_zero ? fmt::format("vi_mul(q{}, {})", v, x) : x;
}

// What zero points and raised weights add to the sum of a group of integers, vector v of a row. It is added at the end
// of the group. To begin the sum with it instead of with zero would save the addition, yet takes 4 % longer on Zen 5.
std::string correction_of(const GemmShape& shape, int v, std::string_view row) {
  const std::string x = fmt::format("vi_set1((int32_t)x_sums[{}])", row);
  switch (shape.corrections()) {
    case Corrections::none: break;
    case Corrections::raised: return x;
    case Corrections::sums:
    case Corrections::pairs: return fmt::format("pair_dot(p{}, {})", v, x);
    case Corrections::wide:
      return fmt::format("vi_add(vi_mul(p{0}, {1}), vi_mul(b{0}, vi_set1((int32_t)x_sums[MR + {2}])))", v, x, row);
  }
  return zero(shape);
}

std::string acc(int set, int r, int v) {
  return set == 0 ? fmt::format("a{}_{}", r, v) : fmt::format("a{}_{}_{}", r, v, set);
}

// Unit u of the weight step at `address`, columns of vector v, less their zero points. bf16 has no arithmetic: each
// half of a pair is subtracted as f32 (an integer of at most 8 bits and a sign either way, so exact in both), and
// scaled if it is to be rounded.
std::string weight(const GemmShape& shape, std::string_view compute, int u, std::string_view address, int v) {
  const auto unpacked = [&](std::string_view as, int unit) {
    return fmt::format("{}_weight_{}<{}>({})", as, shape.panel.kind->kind, unit, address);
  };
  const auto finished = [&](std::string text) {
    if (shape.subtracts_zeros()) text = fmt::format("v_sub({}, z{})", text, v);
    if (!shape.scales_weights()) return text;
    return shape.panel.has_offset ? fmt::format("v_fma({}, s{}, o{})", text, v, v)
                                  : fmt::format("v_mul({}, s{})", text, v);
  };
  if (shape.looks_up_scaled())
    return fmt::format("bf16dot_scaled_{}<{}>({}, s{})", shape.panel.kind->kind, u, address, v);
  if (compute != "bf16dot" || !(shape.subtracts_zeros() || shape.rounds_weights()))
    return finished(unpacked(compute, u));
  const bool codes = shape.panel.kind->bits < 8;
  return fmt::format("bf16dot_{}({}, {})", shape.rounds_weights() ? "round" : "pair",
                     finished(unpacked("fma", codes ? u : 2 * u)),
                     finished(unpacked("fma", codes ? u + 4 : 2 * u + 1)));
}

// The layout whose units are what unpacking leaves: 4 bytes a column.
std::string_view unpacked_kind(const GemmShape& shape) {
  return shape.compute.kd == 1 ? "f32" : shape.compute.integer ? "u8x4" : "bf16x2";
}

int64_t unpacked_step_bytes(const GemmShape& shape) {
  return int64_t{shape.k_iteration / shape.compute.kd} * shape.panel.nr * 4;
}

// Far ahead into L2, then just ahead into L1: unpacking is long enough to stall on what one level alone leaves late.
void add_prefetch_of(const GemmShape& shape, int64_t at, std::vector<V>& out) {
  const GemmSchedule& schedule = shape.schedule;
  constexpr int kNear = 1024, kL1 = 3, kL2 = 2;
  if (schedule.prefetch_bytes <= 0) return;
  const bool two_levels = schedule.prefetch_bytes >= 4 * kNear;
  out.push_back(V::dict({{"at", schedule.prefetch_bytes + at}, {"locality", two_levels ? kL2 : kL1}}));
  if (two_levels) out.push_back(V::dict({{"at", kNear + at}, {"locality", kL1}}));
}

// What one dot takes, of as many units.
std::string operand(const GemmShape& shape, const std::vector<std::string>& units) {
  return units.size() == 1 ? units[0] : fmt::format("{}_units{{{}}}", shape.compute.name, fmt::join(units, ", "));
}

// The kernel of a row tile with so many rows: whether it leaves its weights unpacked for those after it.
struct Tile {
  int rows;
  bool unpacks = false;
  bool is_layer = false;  // of what slices leave over
};

bool reads_block(const GemmShape& shape, const Tile& tile) { return shape.schedule.unpacks_block && !tile.unpacks; }

std::string function_of(const GemmShape& shape, const Tile& tile) {
  if (tile.unpacks) return "unpack_and_multiply";
  const std::string_view name = tile.is_layer ? "multiply_layer" : "multiply_tile";
  return tile.rows == shape.mr ? std::string(name) : fmt::format("{}_{}", name, tile.rows);
}

// The units of dot `index` of an iteration, for the vectors [v0, v1).
V dot(const GemmShape& shape, const Tile& tile, int index, int v0, int v1) {
  const PanelLayout& panel = shape.panel;
  const int per_step = shape.used_step / shape.compute.kd, first = index * shape.units, last = first + shape.units,
            x_rows = tile.rows * shape.slices;
  std::vector<V> weights, unpacked, rows;
  for (int v = v0; v < v1; ++v) {
    std::vector<std::string> units;
    for (int u = first; u < last; ++u) {
      const int64_t at =
          u / per_step * (shape.used_step / panel.kind->k_step) * panel.step_bytes() + v * shape.vector_bytes();
      const std::string code = weight(shape, shape.compute.name, u % per_step, fmt::format("w + {}", at), v),
                        name = fmt::format("u{}_{}", u - first, v);
      const int block_at = (u * shape.nv + v) * shape.vl * 4;
      unpacked.push_back(V::dict({{"name", name}, {"code", code}, {"to", block_at}}));
      units.push_back(tile.unpacks ? name
                      : shape.schedule.unpacks_block
                          ? fmt::format("{}_weight_{}<0>(w + {})", shape.compute.name, unpacked_kind(shape), block_at)
                          : code);
    }
    weights.push_back(V(operand(shape, units)));
  }
  for (int r = 0; r < x_rows; ++r) {
    std::vector<std::string> units;
    for (int u = first; u < last; ++u)
      units.push_back(shape.in_place() ? fmt::format("{}_broadcast(row{} + {})", shape.compute.name, r, u)
                                       : fmt::format("{}_broadcast(x + {})", shape.compute.name, u * x_rows + r));
    std::vector<V> accs;
    for (int v = v0; v < v1; ++v) accs.push_back(V(acc(index % shape.splits(tile.rows), r, v)));
    rows.push_back(V::dict(
        {{"name", fmt::format("x{}", r)}, {"value", operand(shape, units)}, {"accs", V::from_items(std::move(accs))}}));
  }
  // The lines of an iteration are spread over its dots, so that fetches do not come in bursts.
  std::vector<V> prefetch;
  const int64_t dots = shape.dots_of_iteration();
  const auto each_line = [&](int64_t bytes, auto add) {
    const int64_t lines = (bytes + 63) / 64;
    for (int64_t line = 0; line < lines && v0 == 0; ++line)
      if (line * dots / lines == index) add(line);
  };
  each_line(shape.iteration_bytes(), [&](int64_t line) { add_prefetch_of(shape, line * 64, prefetch); });
  const bool fetches_next = shape.schedule.prefetch_bytes == 0 && v0 == 0 &&
                            (index + 1) * shape.next_lines() / dots != index * shape.next_lines() / dots;
  // So are those of the next row tile's activations.
  std::vector<V> next_rows;
  if (shape.schedule.fetches_rows && !shape.in_place())
    each_line(shape.mr * shape.x_units(shape.k_iteration) * 4,
              [&](int64_t line) { next_rows.push_back(V(line * 16)); });
  return V::dict(
      {{"fetches_next", fetches_next},
       {"next_rows", V::from_items(std::move(next_rows))},
       {"forgets", v0 > 0 && !shape.in_place() && (shape.units > 1 || index % (panel.kind->k_step / 2) == 0)},
       {"prefetch", V::from_items(std::move(prefetch))},
       {"weights", V::from_items(std::move(weights))},
       {"unpacked", V::from_items(std::move(unpacked))},
       {"rows", V::from_items(std::move(rows))}});
}

// The dots of one iteration in their order. Codes that are looked up in tables are unpacked half a step at once, and a
// dot of several units takes several weights. Such vectors of columns are multiplied one after the other, so that what
// is unpacked fits into the registers beside the sums.
std::vector<V> dots_of(const GemmShape& shape, const Tile& tile) {
  std::vector<V> out;
  const int count = shape.dots_of_iteration();
  const bool looks_up = shape.panel.kind->looks_up_codes() && shape.compute.kd == 1 && !reads_block(shape, tile);
  const int together = looks_up ? shape.panel.kind->k_step / 2 : 1,
            vectors = looks_up || shape.units > 1 ? 1 : shape.nv;
  for (int first = 0; first < count; first += together)
    for (int v = 0; v < shape.nv; v += vectors)
      for (int d = first; d < first + together; ++d) out.push_back(dot(shape, tile, d, v, v + vectors));
  return out;
}

// What a row's sum of a group is, in the numbers of its activations.
std::string sum_of(const GemmShape& shape, int r, int v) {
  if (shape.corrections() != Corrections::none)
    return fmt::format("vi_add({}, {})", acc(0, r, v), correction_of(shape, v, std::to_string(r)));
  if (!shape.sliced) return acc(0, r, v);
  std::vector<std::string> parts;
  for (int s = 0; s < shape.slices; ++s) parts.push_back(acc(0, r * shape.slices + s, v));
  parts.push_back(fmt::format("x_sums[{} * MR + {}]", shape.slices, r));
  return fmt::format("join_slices({})", fmt::join(parts, ", "));
}

V tile_dict(const GemmShape& shape, const Tile& tile) {
  std::vector<V> accs, sums, stores;
  const int rows = tile.rows;
  const int x_rows = rows * shape.slices;
  for (int set = 0; set < shape.splits(rows); ++set)
    for (int r = 0; r < x_rows; ++r)
      for (int v = 0; v < shape.nv; ++v) {
        const bool sliced = shape.sliced && set == 0;
        accs.push_back(
            V::dict({{"name", acc(set, r, v)},
                     {"start", sliced ? start_of_slice(shape, v, r % shape.slices, r / shape.slices) : zero(shape)}}));
      }
  for (int width = shape.splits(rows); width > 1; width /= 2)
    for (int set = 0; set < width / 2; ++set)
      for (int r = 0; r < x_rows; ++r)
        for (int v = 0; v < shape.nv; ++v)
          sums.push_back(V::dict({{"to", acc(set, r, v)}, {"from", acc(set + width / 2, r, v)}}));
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < shape.nv; ++v)
      stores.push_back(
          V::dict({{"acc", sum_of(shape, r, v)},
                   {"sum", fmt::format("c{}_{}", r, v)},
                   {"at", (r * shape.panel.nr + v * shape.vl) * 4},
                   {"x_sum", shape.sliced ? fmt::format("{} * MR + {}", shape.x_words() - 1, r) : std::to_string(r)},
                   {"v", v}}));
  const bool of_block = reads_block(shape, tile);
  return V::dict({{"rows", rows},
                  {"function", function_of(shape, tile)},
                  {"unpacks", tile.unpacks},
                  {"is_layer", tile.is_layer},
                  {"step_units", shape.x_units(shape.k_iteration)},
                  {"reads_block", of_block},
                  {"by_groups", shape.loops_over_groups(of_block)},
                  {"knows_zeros", shape.zeros_in_tile(of_block)},
                  {"step_bytes", of_block ? unpacked_step_bytes(shape) : shape.iteration_bytes()},
                  {"keeps_sums", shape.keeps_sums(rows)},
                  {"accs", V::from_items(std::move(accs))},
                  {"sums", V::from_items(std::move(sums))},
                  {"stores", V::from_items(std::move(stores))},
                  {"dots", V::from_items(dots_of(shape, tile))}});
}

// How weights that a tile cannot hold as they are packed become rows of tiles: one store for each unit and tile.
V unpacked_rows(const GemmShape& shape) {
  const PanelLayout& panel = shape.panel;
  std::vector<V> out;
  if (panel.kind->bits * shape.compute.kd >= 32) return V::from_items(std::move(out));
  const int units = std::max(1, panel.kind->k_step / shape.compute.kd),
            unit_bytes = panel.nr * shape.compute.kd * panel.kind->bits / 8;
  for (int u = 0; u < units; ++u)
    for (int v = 0; v < shape.nv; ++v) {
      std::string code = weight(shape, shape.compute.integer ? "vnni" : "bf16dot", u,
                                fmt::format("w + r * {} + {}", unit_bytes, v * shape.vector_bytes()), v);
      if (shape.lowers_weights()) code = fmt::format("vi_sub_bytes({}, {})", code, panel.kind->raised);
      out.push_back(V::dict({{"units", units}, {"to", u * 128 + v * 64}, {"code", code}}));
    }
  return V::from_items(std::move(out));
}

}  // namespace

void add_vector_tiles(const GemmShape& shape, V& out) {
  std::vector<V> tiles{tile_dict(shape, {shape.mr})};
  if (shape.first_tile_unpacks()) tiles.push_back(tile_dict(shape, {shape.mr, true}));
  for (int rows : shape.schedule.tails) tiles.push_back(tile_dict(shape, {rows}));
  if (shape.sliced) {
    const GemmShape layer = shape.of_layer();
    tiles.push_back(tile_dict(layer, {shape.mr, false, true}));
    for (int rows : shape.schedule.tails) tiles.push_back(tile_dict(layer, {rows, false, true}));
  }
  out["tiles"] = V::from_items(std::move(tiles));
  out["packed_step_bytes"] = shape.iteration_bytes();
  out["unpacked_step_bytes"] = unpacked_step_bytes(shape);
  out["run_steps"] = shape.run_k() / shape.k_iteration;
}

// Tiles 0 to 3 are results, 4 and 5 activations, 6 and 7 weights. Weights that a tile cannot hold as they are packed
// (int8 and int4 for a bf16 product) are unpacked to a buffer.
//
// 32 rows use all eight tiles and load each once a step, which is the fastest on a core that is not shared (5 % over six
// tiles). 16 rows use four tiles and load both weight tiles of a step into the same one. Hardware threads of a core seem
// to share the registers that tiles are renamed to. While the other thread was busy, a product took 39 ns with eight
// tiles in use, 27 with six and 21 with four; while it was idle, 12 with any of them.
void add_tile_registers(const GemmShape& shape, V& out) {
  const PanelLayout& panel = shape.panel;
  const auto load = [](int tile, const char* from, int at, int stride) {
    return V::dict({{"load", true}, {"tile", tile}, {"from", from}, {"at", at}, {"stride", stride}});
  };
  const auto dot = [](int c, int a, int b) { return V::dict({{"load", false}, {"tile", c}, {"a", a}, {"b", b}}); };
  const int units = shape.tile_units, row = units * 4;
  std::vector<V> c_tiles, products;
  for (int t = 0; t < shape.mr / 16 * 2; ++t)
    c_tiles.push_back(V::dict({{"tile", t}, {"at", t / 2 * 16 * panel.nr * 4 + t % 2 * 64}}));
  if (shape.mr == 16)
    products = {load(4, "x", 0, row), load(6, "b", 0, 128), dot(0, 4, 6), load(6, "b", 64, 128), dot(1, 4, 6)};
  else
    products = {load(4, "x", 0, row), load(5, "x", 16 * units, row),
                load(6, "b", 0, 128), load(7, "b", 64, 128),
                dot(0, 4, 6),         dot(1, 4, 7),
                dot(2, 5, 6),         dot(3, 5, 7)};
  const int step = units * shape.compute.kd;
  const int64_t last = panel.group_k(panel.groups - 1);
  out["c_tiles"] = V::from_items(std::move(c_tiles));
  constexpr int kRowsAtOnce = 8;  // whose sums are scaled together: 16 vectors of results
  std::vector<V> corrections;
  for (int r = 0; r < kRowsAtOnce; ++r) {
    std::vector<V> of_row;
    for (int v = 0; v < shape.nv; ++v) of_row.push_back(V(correction_of(shape, v, std::to_string(r))));
    corrections.push_back(V::from_items(std::move(of_row)));
  }
  out["group_corrections"] = V::from_items(std::move(corrections));
  out["rows_at_once"] = kRowsAtOnce;
  out["groups_at_once"] = shape.groups_at_once();
  out["products"] = V::from_items(std::move(products));
  out["tile_dot"] = !shape.compute.integer ? "tile_dp_bf16" : shape.lowers_weights() ? "tile_dp_ssd" : "tile_dp_sud";
  out["tile_units"] = units;
  out["unpack"] = unpacked_rows(shape);
  out["has_tail"] = panel.group_padded % step != 0 || last % step != 0;
  out["units_per_count"] = shape.k_iteration / shape.compute.kd;
  out["groups_per_step"] = shape.groups_per_step;
  out["packed_unit_bytes"] = panel.k_bytes(step) / units;
  std::vector<V> tiles;
  for (const bool unpacks : {false, true}) {
    if (unpacks && !shape.first_tile_unpacks()) continue;
    const Tile tile{shape.mr, unpacks};
    const bool of_block = reads_block(shape, tile);
    tiles.push_back(V::dict({{"function", function_of(shape, tile)},
                             {"unpacks", unpacks},
                             {"reads_block", of_block},
                             {"by_groups", shape.loops_over_groups(of_block)},
                             {"step_bytes", of_block ? units * panel.nr * 4 : panel.k_bytes(step)}}));
  }
  out["tiles"] = V::from_items(std::move(tiles));
  out["fetches_per_step"] = shape.next_lines() * (step / shape.k_iteration);
}

void add_prefetch(const GemmShape& shape, V& out) {
  out["prefetch"] = shape.schedule.prefetch_bytes;
  std::vector<V> header;
  for (int64_t at = 0; at < shape.panel.header_bytes; at += 64) add_prefetch_of(shape, at, header);
  out["header_lines"] = V::from_items(std::move(header));
}

}  // namespace qcg

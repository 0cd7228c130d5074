// From the microkernel table to the schedules of one problem and M range, best guess first.
//
// The guess is the roofline's: for few rows the weight stream decides, so one row tile holds all rows, K is not blocked
// and the stream is prefetched a fixed distance ahead. For many rows the multiply rate decides, so tiles are as tall as
// registers allow, activations and weights are blocked to stay in L2, and each row tile fetches its share of the next
// block. In between, blocks of weights are passed over in the order in which they lie.
#include "codegen/gemm/schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "codegen/gemm/layout.h"
#include "codegen/gemm/shape.h"

namespace qcg {
namespace {

bool has_tiles(const Microkernel& row) { return compute_info(row.compute).tiles; }

bool is_sliced(const Microkernel& row) { return slices_of(row) > 1; }

int max_rows(const Microkernel& row) {
  const int vector_bytes = isa_info(row.isa).vector_bytes;
  if (is_sliced(row)) return vector_bytes == 32 ? 2 : 6;  // two slices of each
  if (row.isa == Isa::portable) return 2;                 // 16 registers of 16 bytes, 4 per row
  if (vector_bytes == 32) return row.compute == "maddubs" ? 4 : 6;
  // What four k of fp8 share while they are unpacked wants registers.
  if (row.scheme == Scheme::f8 && row.compute == "fma") return 8;
  return row.weight == DType::f32 || (row.compute == "vnni" && scheme_info(row.scheme).weight.bits == 8) ? 14 : 12;
}

constexpr int64_t kSmallM = 4, kMiddleM = 16, kManyM = 64;

constexpr int kTileRows[] = {1, 2, 4, 6, 8, 12, 14, 16, 32};

// Whether a tile of mr rows exists, and is not mostly padding where a smaller one would do.
bool tile_fits(const Microkernel& row, int mr, int64_t m) {
  if (has_tiles(row)) return mr == 16 || (mr == 32 && m > 16);
  // The 8-bit multiply-add takes three instructions, which pays where unpacking to floats is most of the work.
  if (is_sliced(row) && row.compute == "maddubs") return mr == 1 && m == 1;
  const int most = max_rows(row);
  // Few rows: one row tile, so that weights pass once.
  if (m <= kSmallM && (mr > kSmallM || mr < std::min<int64_t>(m, most))) return false;
  return mr <= most && (mr == 1 || mr < 2 * m);
}

// Whether packed weights are anything but what the multiply instruction takes, 4 bytes a unit.
bool unpacks(const Microkernel& row) {
  if (is_sliced(row)) return true;  // bytes want reordering
  const int bits = scheme_info(row.scheme).weight.bits;
  return (bits > 0 ? bits : 8 * int(dtype_bytes(row.weight))) * compute_info(row.compute).kd < 32;
}

// A block of activations of more rows would not stay in L2 (8 to 20 % for 1024 rows of bf16 where it has 1 MiB).
constexpr int kRowsPerItem = 256;
// Above this the activations of an item come from farther away each time they are passed over, too late for the
// multiplications unless they are fetched (4 % for 256 rows of 28 KiB, 15 % for 1024, where items of two threads differ
// in their rows).
constexpr int64_t kStaysInL2 = 2 << 20;

// Rows of the kernels for a last row tile that is not full: quarters of a full one, where tiles are so few that it
// matters. Only those that some m of the range ends in.
std::vector<int> tail_rows(const Microkernel& row, int mr, int64_t m_min, int64_t m_max) {
  std::vector<int> out;
  if (m_max > kManyM || has_tiles(row)) return out;
  int below = 0;
  for (int quarters = 1; quarters < 4; ++quarters) {
    const int rows = (mr * quarters + 3) / 4;
    bool wanted = false;
    for (int64_t m = m_min; m <= m_max; ++m) wanted |= m % mr > below && m % mr <= rows;
    if (rows < mr && wanted) out.push_back(rows);
    below = rows;
  }
  return out;
}

// Multiply work per useful row: rows of padding, plus unpacking weights once per tile (worth about 2 rows of products).
// A matrix instruction does 8 times the products of a vector one in its time.
// The sums of a group are converted and scaled at its end, and loaded and stored where they find no registers.
double tile_cost(const GemmShape& shape, int64_t m) {
  const Microkernel& row = *shape.schedule.microkernel;
  const int mr = shape.mr;
  const auto tiles = double((m + mr - 1) / mr);
  // 32 rows use eight tiles, which are slow where the core is shared (add_tile_registers). Unpacking does not count: a
  // block is unpacked once, whatever the height of its row tiles.
  if (has_tiles(row)) return tiles * (mr / 8.0 * (mr > 16 ? 1.5 : 1) + 0.7) / double(m);
  const double units = double(shape.panel.group_padded) / shape.compute.kd;
  // Two products of four k in the place of four, and little to unpack.
  if (is_sliced(row)) return tiles * (mr * (0.5 + (shape.keeps_sums(mr) ? 1.3 : 1.8) / units) + 0.5) / double(m);
  const double taller = mr > 8 ? 1.05 : 1;  // 16 sums hide any latency: more save loads, which few kernels wait for
  const double scaling = !shape.sums_groups() ? 0 : (shape.keeps_sums(mr) ? 2.0 : 4.5) / units;
  return taller * tiles * (mr * (1 + scaling) + (unpacks(row) ? 2.0 : 0.7)) / double(m);
}

// A block of K is a whole number of groups.
int64_t whole_groups(const PanelLayout& p, int64_t kc) {
  const int64_t unit = p.header_bytes > 0 || p.groups > 1 ? p.group_padded : kPadK;
  kc = std::max<int64_t>(unit, kc / unit * unit);
  return kc < p.k_padded ? kc : 0;
}

// Items of so many panels; none has panels of two strips.
int64_t count_items(const PanelLayout& p, int64_t panels) {
  int64_t items = 0;
  for (const Strip& strip : p.strips) items += (strip.panels + panels - 1) / panels;
  return items;
}

// As many as wanted, as long as there are 64 items, so that a late thread finds work to take over.
int panels_per_item(const PanelLayout& p, int64_t wanted) {
  return int(std::clamp<int64_t>(std::min(wanted, count_items(p, 1) / 64), 1, 64));
}

constexpr int64_t kItems = 32, kFewestTiles = 4;  // items of a product of many rows, row tiles of an item

// Panels of an item that passes over all of K: as many as stay in L2 where there are rows enough for `kItems`. Threads take
// items as they come, and a line of results that another core wrote in the last call is slow to write, so fewer and larger
// items are faster. 12544 x 96 x 16 alone takes two cores 1.08 ms with one panel of an item, as long as one core, and 0.51
// ms with all three. Image models gain 3 to 4 %.
int panels_of_rows(const GemmShape& shape, int64_t m) {
  constexpr int64_t kWeights = 256 << 10;
  if (m <= kManyM) return 1;
  const int64_t row_blocks = std::min(kItems, m / (kFewestTiles * shape.mr));
  const int64_t most = std::max<int64_t>(1, kWeights / shape.panel.k_bytes(shape.panel.k_padded));
  return int(std::clamp<int64_t>(count_items(shape.panel, 1) * row_blocks / kItems, 1, most));
}

// Most rows of an item; 0: all. Where panels are too few, work is split along rows as well: three items of one panel each
// keep the second of two threads idle for a third of the time. A block that is unpacked once for all row tiles keeps its
// rows together.
int rows_of_item(const PanelLayout& p, const GemmSchedule& c, int64_t m) {
  const int64_t rows = std::min<int64_t>(m, kRowsPerItem);
  const int most = m > kRowsPerItem ? kRowsPerItem : 0;
  if (m <= kManyM || c.unpacks_block || has_tiles(*c.microkernel)) return most;
  const int64_t items = count_items(p, c.panels_per_item);
  if (items * (m / rows) >= kItems) return most;
  const int64_t share = (m * items / kItems + c.mr - 1) / c.mr * c.mr;
  return int(std::clamp<int64_t>(share, std::min<int64_t>(rows, kFewestTiles * c.mr), rows));
}

// Packing moves activations through the caches of all threads before the first multiplication. The more columns, the
// smaller is its share of the time: with 256 columns and two threads a third at 16 rows and 12 % at 256 rows, with 768
// columns 5 %. Multiplying rows in place is up to 2 % slower, because each row lies in other pages.
constexpr int64_t kFewColumns = 4096;

// K of so many bytes of packed weights of a panel.
int64_t k_of(const PanelLayout& p, int64_t bytes) { return bytes * 8 / (int64_t{p.nr} * p.kind->bits); }

// Whether weights are better scaled as they are unpacked, one instruction each, than sums at the end of every group.
// For few rows at a time they are not (10 % at M = 4 on Zen 4). In f32 they are where a block serves so many tiles that
// the sums of a group, which AVX2 loads and stores, cost more: about 36 instructions per tile of 6 rows against 2 per
// k. Numbers of e4m3 take two instructions and groups of 16 a dozen: they need a block for some tiles (M = 16 10 %
// slower, 64 and 256 10 % faster).
bool is_worth_scaling(const GemmShape& shape, int64_t m, bool block) {
  constexpr int kFewRows = 4, kSomeRows = 16;
  if (!shape.can_scale()) return false;
  if (shape.compute.element == "f32") return block && 3 * m >= shape.panel.group;
  if (shape.compute.tiles) return true;
  return shape.problem.scale == DType::f8e8m0 ? block || shape.mr > kFewRows : block && m > kSomeRows;
}

constexpr int kAhead = 4096, kStreamedPanels = 8, kFewestItems = 16;

// One pass over the weights. Long runs of panels keep the prefetched stream unbroken (5 % on one host). Where several
// rows make multiplying about as long as reading, blocks that follow each other as they lie can be better (5 to 8 % on
// one host).
void add_decode(const PanelLayout& p, int64_t m, GemmSchedule c, std::vector<GemmSchedule>& out) {
  c.panels_per_item = panels_per_item(p, (1 << 20) / std::max<int64_t>(1, p.strips[0].panel_bytes));
  for (int distance : {8192, 4096, 2048}) {
    c.prefetch_bytes = distance;
    out.push_back(c);
  }
  c.kc = whole_groups(p, k_of(p, 16 << 10));
  if (m == 1 || c.kc == 0) return;
  c.panels_per_item = panels_per_item(p, kStreamedPanels), c.prefetch_bytes = 0, c.ahead_bytes = kAhead;
  out.insert(out.end() - 2, c);
}

// Blocks of K. For few row tiles (and for integers always) the block of weights that all tiles pass over stays in L1,
// so that the only misses in flight are the next block's; for many rows of floats a block of activations stays in L2.
// Unpacking a block once for all row tiles goes through memory but is paid once: measurement tells which is cheaper.
//
// Up to kManyM rows do not take long enough to hide memory behind one block: blocks follow each other as they lie, and
// what lies behind the next one comes to L2 meanwhile (10 to 20 % on one host).
//
// Matrix tiles wait for their loads where the core is shared, so a block of 4 or 8 steps of K stays in L1 (bf16 at
// M = 64: 16 steps or more take 18 to 21 % longer). Nothing behind the next block is fetched to L2 (4 to 12 % longer).
// Above kManyM rows longer blocks load and store sums less often.
void add_blocks(const GemmShape& shape, bool may_round, int64_t m, GemmSchedule c, std::vector<GemmSchedule>& out) {
  struct Blocking {
    int64_t kc;
    int panels;
    bool unpacked = false, rounded = false;
    int ahead = 0;
  };
  const PanelLayout& p = shape.panel;
  const Compute& compute = shape.compute;
  const int64_t k_of_8kib = k_of(p, 8 << 10);
  const bool integer = compute.integer, block = unpacks(*c.microkernel) && compute.name != "madd16" && m >= 2 * c.mr;
  const int64_t k_of_32kib = (32 << 10) / (int64_t{p.nr} * 4) * compute.kd;
  const bool registers = !block || !shape.is_crowded(), streams = m <= kManyM, few = integer || m <= kMiddleM;
  const int streamed = panels_per_item(p, kStreamedPanels);
  // Every other one, so that both are measured. Of 16 registers none is left for addresses while weights are unpacked.
  const bool in_place = m > kSmallM && shape.problem.n_total() <= kFewColumns && shape.can_read_in_place(),
             fetches_rows = c.fetches_rows;
  std::vector<Blocking> blockings;
  if (may_round && compute.element == "bf16" && (block || compute.tiles))
    blockings.push_back({k_of_32kib, m <= kMiddleM ? 1 : 4, true, true});
  if (compute.tiles) {
    const int64_t k_of_4_steps = 4 * 16 * compute.kd;
    int panels = streams ? streamed : kStreamedPanels;
    while (panels > 1 && count_items(p, panels) * ((m + kRowsPerItem - 1) / kRowsPerItem) < kFewestItems) panels /= 2;
    for (const int64_t times : !streams ? std::array{2, 4, 8} : block ? std::array{2, 1, 4} : std::array{1, 2, 4})
      blockings.push_back({times * k_of_4_steps, panels, block});
  }
  if (streams && block) blockings.push_back({k_of_32kib / 2, streamed, true, false, kAhead});
  if (streams && registers) blockings.push_back({k_of_8kib, streamed, false, false, kAhead});
  if (block) blockings.push_back({k_of_32kib, m <= kMiddleM ? 1 : 4, true});
  if (registers) {
    blockings.push_back(few ? Blocking{k_of_8kib, 1} : Blocking{512, 4});
    blockings.push_back(few ? Blocking{2 * k_of_8kib, 1} : Blocking{256, 8});
    blockings.push_back({0, 1});
  }
  for (const Blocking& b : blockings) {
    if (c.microkernel->rounds && !b.rounded) continue;
    c.unpacks_block = b.unpacked, c.ahead_bytes = b.ahead;
    c.scaling = b.rounded                                ? Scaling::rounded_weights
                : is_worth_scaling(shape, m, b.unpacked) ? Scaling::weights
                                                         : Scaling::sums;
    c.kc = b.kc == 0 ? 0 : whole_groups(p, b.kc);
    c.panels_per_item = c.kc == 0 ? panels_of_rows(shape, m) : b.panels;
    const auto same = [&](const GemmSchedule& o) {
      return o.kc == c.kc && o.ahead_bytes == c.ahead_bytes && o.unpacks_block == c.unpacks_block &&
             (o.scaling == Scaling::rounded_weights) == (c.scaling == Scaling::rounded_weights);
    };
    c.in_place = in_place && out.size() % 2 == 0 && (!c.unpacks_block || shape.registers() > 16);
    c.fetches_rows = fetches_rows && !c.in_place;
    c.rows_per_item = rows_of_item(p, c, m);
    if (std::none_of(out.begin(), out.end(), same)) out.push_back(c);
  }
}

}  // namespace

std::string GemmSchedule::describe() const {
  std::string s = fmt::format("{} {}x{}", microkernel->name, mr, layout.nr);
  if (kc > 0) s += fmt::format(" kc={}", kc);
  if (panels_per_item != 1) s += fmt::format(" panels={}", panels_per_item);
  if (rows_per_item > 0) s += fmt::format(" rows={}", rows_per_item);
  if (prefetch_bytes > 0) s += fmt::format(" prefetch={}", prefetch_bytes);
  if (ahead_bytes > 0) s += fmt::format(" ahead={}", ahead_bytes);
  if (!tails.empty()) s += fmt::format(" tails={}", fmt::join(tails, ","));
  if (in_place) s += " in place";
  if (fetches_rows) s += " fetched rows";
  if (unpacks_block) s += scaling == Scaling::rounded_weights ? " rounded block" : " unpacked block";
  if (scaling == Scaling::weights) s += " scaled";
  return s;
}

std::vector<GemmSchedule> gemm_schedules(const Problem& problem, const Target& target, int64_t m_min, int64_t m_max) {
  const int64_t m = std::clamp<int64_t>(m_max, std::max<int64_t>(m_min, 1), std::max<int64_t>(m_min, 1024));
  struct Ranked {
    double cost;
    std::vector<GemmSchedule> variants;
    size_t tile = 0;  // among those of its microkernel
  };
  std::vector<Ranked> ranked;
  const PackedLayout layout = layout_for(problem, target);
  for (const Microkernel& row : microkernel_table()) {
    if (!runs_on(row.isa, target.isa) || !serves(row, problem) || !unpacks_for(layout_kind(layout.kind), row)) continue;
    for (int mr : kTileRows) {
      if (!tile_fits(row, mr, m)) continue;
      GemmSchedule c;
      c.microkernel = &row;
      c.layout = layout;
      c.mr = mr;
      c.tails = tail_rows(row, mr, std::max<int64_t>(m_min, 1), m);
      if (is_worth_scaling(GemmShape(problem, c), m, false)) c.scaling = Scaling::weights;
      const GemmShape shape(problem, c);
      c.fetches_rows =
          !shape.compute.tiles && std::min<int64_t>(m, kRowsPerItem) * shape.x_units(shape.x_k) * 4 > kStaysInL2;
      // bf16dot has the rate of fma on Intel and twice that on AMD, which shows where there are rows to multiply; its sums
      // wait longer for each other. Measurement may turn the guess round.
      const double cost = tile_cost(shape, m);
      Ranked r{row.compute != "bf16dot" ? cost : m <= kSmallM ? cost + 0.5 : 0.7 * cost, {}, 0};
      if (m <= kSmallM && !has_tiles(row) && !row.rounds) add_decode(shape.panel, m, c, r.variants);
      else
        add_blocks(shape, problem.may_round && shape.has_group_scales() && !is_worth_scaling(shape, m, true), m, c,
                   r.variants);
      if (!r.variants.empty()) ranked.push_back(std::move(r));
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.cost < b.cost; });
  // The two best tiles of every microkernel with their blockings, diagonally: best tile with best blocking, then the
  // second blocking of the best tile and the best of the second tile, and so on; measurement picks.
  constexpr size_t kTiles = 2;
  constexpr size_t kCandidates = 8, kOfEach = 4;  // in all, or of each microkernel if those are more
  std::map<const Microkernel*, size_t> kept;
  std::erase_if(ranked, [&](Ranked& r) { return (r.tile = kept[r.variants.front().microkernel]++) >= kTiles; });
  const size_t most = std::max(kOfEach, kCandidates / std::max<size_t>(1, kept.size()));
  std::map<const Microkernel*, size_t> taken;
  std::vector<GemmSchedule> out;
  for (size_t diagonal = 0; diagonal < kTiles + 3; ++diagonal)
    for (const Ranked& r : ranked)
      if (diagonal >= r.tile && diagonal - r.tile < r.variants.size() && taken[r.variants[0].microkernel]++ < most)
        out.push_back(r.variants[diagonal - r.tile]);
  return out;
}

}  // namespace qcg

// The tables of the CUDA kernels: which template serves which weight, and the tiles that compete.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/layout.h"
#include "codegen/cuda/model.h"
#include "codegen/gemm/render.h"

namespace qcg {
namespace {

using enum DType;

constexpr std::string_view kDecode = "cuda/mma_decode.cu.j2", kTile = "cuda/mma_tile.cu.j2",
                           kFma = "cuda/fma_tile.cu.j2", kWgmma = "cuda/wgmma.cu.j2";

constexpr std::string_view kFromShared = "sm90a_wgmma_ss";  // weights that lie in rows

struct Kernel {
  std::string_view name;
  Isa isa;
  std::string_view source, compute;
};
constexpr Kernel kKernels[] = {
    {kFromShared, Isa::sm_90a, kWgmma, "wgmma"},          {"sm90a_wgmma_rs", Isa::sm_90a, kWgmma, "wgmma"},
    {"sm90a_mma_decode", Isa::sm_90a, kDecode, "mma"},    {"sm90a_mma_tile", Isa::sm_90a, kTile, "mma"},
    {"sm90a_imma_decode", Isa::sm_90a, kDecode, "imma"},  {"sm90a_imma_tile", Isa::sm_90a, kTile, "imma"},
    {"sm90a_fma_tile", Isa::sm_90a, kFma, "fma"},         {"sm80_mma_decode", Isa::sm_80, kDecode, "mma"},
    {"sm80_mma_tile", Isa::sm_80, kTile, "mma"},          {"sm80_imma_decode", Isa::sm_80, kDecode, "imma"},
    {"sm80_imma_tile", Isa::sm_80, kTile, "imma"},        {"sm80_fma_tile", Isa::sm_80, kFma, "fma"},
    {"gfx90a_mfma_decode", Isa::gfx90a, kDecode, "mma"},  {"gfx90a_mfma_tile", Isa::gfx90a, kTile, "mma"},
    {"gfx90a_mfma_decode", Isa::gfx90a, kDecode, "imma"}, {"gfx90a_mfma_tile", Isa::gfx90a, kTile, "imma"},
    {"gfx90a_fma_tile", Isa::gfx90a, kFma, "fma"},
};
struct Weight {
  Scheme scheme;
  DType activation, weight;
  bool is_float8() const { return qcg::is_float8(activation); }
  bool is_whole() const {
    return scheme == Scheme::dense || scheme == Scheme::da8w8 || scheme == Scheme::s8s8 || is_float8();
  }
  // Tensor cores multiply bytes, or 16-bit floats that hold the weights; those of sm_90a 8-bit floats, too.
  std::string_view compute() const {
    if (!is_floating(activation)) return "imma";
    return is_half(activation) ? "mma" : "fma";
  }
};
// Matrix instructions of gfx90a take subnormal 16-bit floats for zero, and these weights are among them in f16.
bool has_subnormal_weights(const Weight& w) {
  return w.activation == f16 && (w.scheme == Scheme::nf4 || w.weight == f8e5m2);
}
bool serves(const Kernel& k, const Weight& w) {
  if (k.isa == Isa::gfx90a && has_subnormal_weights(w)) return false;
  if (w.is_float8() && k.isa == Isa::sm_90a) return k.name == kFromShared || k.name == "sm90a_mma_decode";
  if (k.compute != "wgmma") return k.compute == w.compute();
  if (k.name == kFromShared) return w.is_whole() && w.compute() != "fma";
  return w.compute() != "fma" && w.scheme != Scheme::nf4 &&
         (!w.is_whole() || w.scheme == Scheme::da8w8);  // da8w8 with groups
}
constexpr Weight kWeights[] = {
    {Scheme::dense, bf16, bf16},  {Scheme::dense, f16, f16},    {Scheme::w8, bf16, i8},
    {Scheme::w8, f16, i8},        {Scheme::w4, bf16, i8},       {Scheme::w4, f16, i8},
    {Scheme::f8, bf16, f8e4m3},   {Scheme::f8, f16, f8e4m3},    {Scheme::f8, bf16, f8e5m2},
    {Scheme::f8, f16, f8e5m2},    {Scheme::f4, bf16, i8},       {Scheme::f4, f16, i8},
    {Scheme::da8w8, i8, i8},      {Scheme::da8w8, u8, i8},      {Scheme::da8w4, i8, i8},
    {Scheme::da8w4, u8, i8},      {Scheme::s8s8, i8, i8},       {Scheme::s8s8, u8, i8},
    {Scheme::dense, f32, f32},    {Scheme::w8, f32, i8},        {Scheme::w4, f32, i8},
    {Scheme::f8, f32, f8e4m3},    {Scheme::f8, f32, f8e5m2},    {Scheme::f4, f32, i8},
    {Scheme::nf4, f32, i8},       {Scheme::nf4, bf16, i8},      {Scheme::nf4, f16, i8},
    {Scheme::f8, f8e4m3, f8e4m3}, {Scheme::f8, f8e5m2, f8e4m3}, {Scheme::f8, f8e4m3, f8e5m2},
    {Scheme::da8f4, i8, i8},      {Scheme::da8f4, u8, i8},
};

std::vector<Microkernel> make_table() {
  std::vector<Microkernel> out;
  for (const Kernel& k : kKernels)
    for (const Weight& w : kWeights)
      if (serves(k, w)) out.push_back({k.name, k.isa, k.source, w.scheme, w.activation, w.weight, k.compute});
  return out;
}

// Columns are of all segments of an output together.
struct Tile {
  int bm, columns, warps, most_warps_n, stages;
};
constexpr Tile kTiles[] = {{128, 128, 8, 4, 4}, {64, 128, 8, 8, 4}, {64, 64, 4, 2, 4}, {32, 64, 4, 4, 4}};
constexpr int kDecodeTiles[] = {2, 1, 4};  // of 16 columns, of all segments together; among equals the first
constexpr Tile kHipTiles[] = {{128, 64, 4, 2, 2}, {64, 128, 4, 4, 2}, {64, 64, 4, 2, 2}, {32, 64, 4, 4, 2}};
constexpr int kDecodeRows = 16;
constexpr int kDecodeWarps[] = {8, 4, 16};  // fewer start more blocks at once, more share the K of few columns
constexpr int kDecodePieces = 16;           // of 16 bytes that a lane keeps: two turns of them fit registers
constexpr int kMostSegments = 8;
constexpr int kMostSharedBytes = 160 << 10;       // of one block, on every sm_80
constexpr int kMostSharedBytesSm90 = 227 << 10;   // on sm_90
constexpr int kMostSharedBytesHip = 64 << 10;     // of gfx90a's LDS
constexpr int kMostColumnTiles = 65535;           // of a grid, which has at least one
constexpr int kMostStages = 6, kLeastStages = 3;  // of a wgmma kernel
constexpr int kMostRows = 256;                    // of all segments: a thread has half as many sums
constexpr int kMostUnpackedSegments = 2;          // whose weights fit registers twice

int power_of_two(int n) {
  int p = 1;
  while (p < n) p *= 2;
  return p;
}

// What one block of a kernel without wgmma may have.
int most_shared_bytes(Isa isa) { return isa == Isa::gfx90a ? kMostSharedBytesHip : kMostSharedBytes; }

void add_decode(const Problem& p, const Microkernel& row, int64_t m_max, std::vector<CudaSchedule>& out) {
  const CudaForm& form = *cuda_form(p);
  const CudaLayout layout = cuda_layout(p);
  // Rows have two products of k together.
  if (m_max > kDecodeRows || (layout.in_rows && layout.group && layout.group_padded < 2 * form.mma_k)) return;
  const auto depth = static_cast<int>(decode_depth(form));
  const int segments = most_segments(p), pieces = depth / form.mma_k * form.words() / 4;
  int before = 0;
  for (const int tiles : kDecodeTiles) {
    const int nt = std::max(1, tiles / segments);
    if (nt == before || nt * segments * pieces > kDecodePieces) continue;
    before = nt;
    CudaSchedule s{&row, m_max <= 8 ? 8 : 16, nt * 16, depth};
    if (row.isa == Isa::gfx90a) s.bm = 16;  // rows of a product
    for (const int warps : kDecodeWarps) {
      s.warps_k = warps * 32 / s.lanes();
      if (cuda_launch(p, s).shared_bytes <= most_shared_bytes(row.isa)) out.push_back(s);
    }
  }
}

void add_tiles(const Problem& p, const Microkernel& row, std::vector<CudaSchedule>& out) {
  const int most = most_shared_bytes(row.isa);
  for (const Tile& tile : row.isa == Isa::gfx90a ? std::span<const Tile>(kHipTiles) : std::span<const Tile>(kTiles)) {
    CudaSchedule s{&row, tile.bm, tile.columns / power_of_two(most_segments(p)), cuda_form(p)->stage_k()};
    if (s.bn < 16) continue;
    s.warps_n = std::min(tile.most_warps_n, s.bn / 16);
    s.warps_m = tile.warps / s.warps_n;
    if (s.bm / s.warps_m < 16) continue;
    s.stages = tile.stages;
    while (s.stages > 2 && cuda_launch(p, s).shared_bytes > most) --s.stages;
    if (cuda_launch(p, s).shared_bytes <= most) out.push_back(s);
  }
}

// A group of four warps has 64 columns of every segment.
void add_wgmma(const Problem& p, const Microkernel& row, std::vector<CudaSchedule>& out) {
  const CudaLayout layout = cuda_layout(p);
  const bool apart = layout.group || layout.form->float8;  // sums of a part of K beside those of all
  // Zero points of both operands beside, which belong to groups.
  const bool crowded = layout.group && p.x_has_zero && !layout.by_column && has_zeros(p);
  const int segments = most_segments(p), rows = crowded ? kMostRows / 4 : apart ? kMostRows / 2 : kMostRows;
  if (layout.in_rows != (row.name == kFromShared)) return;
  if (!layout.in_rows && segments > kMostUnpackedSegments) return;
  for (const int bn : {128, 64})
    for (const int bm : {256, 128, 64, 32}) {
      CudaSchedule s{&row, bm, bn, layout.form->stage_k()};
      s.warps_n = bn / 16, s.stages = kMostStages;
      while (s.stages > kLeastStages && cuda_launch(p, s).shared_bytes > kMostSharedBytesSm90) --s.stages;
      if (segments * bm <= rows && cuda_launch(p, s).shared_bytes <= kMostSharedBytesSm90) out.push_back(s);
    }
}

// Everything else is f32 in shared memory.
void add_fma(const Problem& p, const Microkernel& row, int64_t m_max, std::vector<CudaSchedule>& out) {
  constexpr int kDepth = 32, kThreads = 256, kColumns = 64;
  for (const int bm : {16, 64}) {
    CudaSchedule s{&row, bm, kColumns / power_of_two(most_segments(p)), kDepth};
    if (s.bn < 16 || (bm > 16 && m_max <= 16)) continue;
    s.warps_m = kThreads / s.lanes(), s.stages = 2;
    if (cuda_launch(p, s).shared_bytes > most_shared_bytes(row.isa)) continue;
    out.push_back(s);
  }
}

}  // namespace

int most_segments(const Problem& p) {
  size_t most = 0;
  for (const Output& o : p.outputs) most = std::max(most, o.segments.size());
  return static_cast<int>(most);
}

std::span<const Microkernel> cuda_microkernel_table() {
  static const std::vector<Microkernel> table = make_table();
  return table;
}

template <Device D>
std::span<const Microkernel> device_microkernels() {
  static const std::vector<Microkernel> table = [] {
    std::vector<Microkernel> out;
    for (const Microkernel& row : cuda_microkernel_table())
      if (isa_info(row.isa).device == D) out.push_back(row);
    return out;
  }();
  return table;
}
template std::span<const Microkernel> device_microkernels<Device::cuda>();
template std::span<const Microkernel> device_microkernels<Device::hip>();

PackedLayout layout_for_cuda(const Problem& problem, const Target&) {
  return {16, 64, cuda_form(problem) && cuda_layout(problem).in_rows ? "rows" : "fragments"};
}

std::string CudaSchedule::describe() const {
  return fmt::format("{} {}x{}x{} {}", microkernel->name, bm, bn, bk,
                     is_decode() ? fmt::format("warps={}", warps_k) : fmt::format("stages={}", stages));
}

// A bulk copy takes some 100 cycles, however few bytes it has: products of fewer rows do not leave time for it.
bool copies_in_bulk(const CudaSchedule& s) { return s.microkernel->name == kFromShared && s.bm == 256; }

std::string kernel_name(const Problem& problem, const CudaSchedule& schedule) {
  const std::string tile = fmt::format("{}x{}x{}", schedule.bm, schedule.bn, schedule.bk);
  return kernel_name(problem, schedule.is_decode() ? fmt::format("{}w{}", tile, schedule.warps_k) : tile,
                     schedule.microkernel->name);
}

bool is_exact_sum(const Problem& p, const Output& o) {
  return p.scheme == Scheme::s8s8 && o.dtype == i32 && o.expr.kind == ExprKind::acc &&
         !p.segments[static_cast<size_t>(o.segments[0])].has_bias;
}

namespace {

// As on the CPU: what is stored from a number.
bool can_store(DType d) {
  constexpr DType kOthers[] = {f64, i8, u8, i32, i64, f8e4m3, f8e5m2};
  return is_compute_float(d) || std::ranges::find(kOthers, d) != std::end(kOthers);
}

// Of the outputs of a problem together, with tiles as wide as those of add_tiles and add_fma.
int64_t fewest_column_tiles(const Problem& p) {
  const bool is_fma = Weight{p.scheme, p.activation, p.weight}.compute() == "fma" && !is_float8(p.activation);
  const int64_t columns = (is_fma ? 64 : 128) / power_of_two(most_segments(p));
  int64_t tiles = 0;
  for (const Output& o : p.outputs) tiles += (o.n + columns - 1) / columns;
  return tiles;
}

// Sums of raised weights are exact in int32, too.
int64_t longest_sum(const Problem& p) {
  const int64_t x = p.activation == u8 ? 255 : 128, w = 128;
  return INT32_MAX / (x * w);
}

}  // namespace

Status check_cuda_support(const Problem& p, Device device) {
  const std::string where(device_name(device)), title = device == Device::hip ? "HIP" : "CUDA";
  auto no = [&](std::string what, std::string help) {
    return Error::unsupported(where, std::move(what), std::move(help));
  };
  const auto rows = cuda_microkernel_table();
  if (std::none_of(rows.begin(), rows.end(), [&](const Microkernel& row) {
        return isa_info(row.isa).device == device && row.scheme == p.scheme && row.weight == p.weight &&
               row.activation == p.activation;
      }))
    return no(fmt::format("the {} GEMM has no {} with {} activations and {} weights", title, scheme_name(p.scheme),
                          dtype_name(p.activation), dtype_name(p.weight)),
              "`qcodegen list microkernels` shows what there is; export the model in bf16 or f16, or compile for "
              "--target=cpu");
  if (cuda_form(p)->raised && (p.group ? p.group : p.k) > longest_sum(p))
    return no(fmt::format("K = {} could overflow the exact int32 sum", p.k), "compile for --target=cpu");
  if (most_segments(p) > kMostSegments)
    return no(fmt::format("an output of {} segments does not fit registers", most_segments(p)),
              "use --disable-pass=fold_epilogue");
  const int64_t tiles = fewest_column_tiles(p);
  if (tiles == 0)
    return no(fmt::format("the {} GEMM has no grid for a product of no columns", title),
              "leave it out of the model, or compile for --target=cpu");
  if (tiles > kMostColumnTiles)
    return no(
        fmt::format("a product of so many columns has {} tiles, and a grid has at most {}", tiles, kMostColumnTiles),
        "make several linears of it, each of a part of the columns, or compile for --target=cpu");
  for (const Output& o : p.outputs)
    if (!can_store(o.dtype))
      return no(fmt::format("the {} GEMM cannot store {}", title, dtype_name(o.dtype)), "cast to a float dtype");
  for (const Operand& o : p.operands)
    if (!can_store(o.dtype) && o.dtype != boolean && o.dtype != f8e8m0)
      return no(fmt::format("a {} epilogue cannot read {}", title, dtype_name(o.dtype)), "cast to a float dtype");
  return {};
}

std::vector<CudaSchedule> cuda_schedules(const Problem& problem, const Target& target, int64_t m_min, int64_t m_max) {
  std::vector<CudaSchedule> out;
  if (!check_cuda_support(problem, target.device).ok()) return out;
  for (const Microkernel& row : cuda_microkernel_table()) {
    if (row.isa != target.isa || row.scheme != problem.scheme || row.weight != problem.weight ||
        row.activation != problem.activation)
      continue;
    if (row.source == kFma) add_fma(problem, row, m_max, out);
    else if (row.source == kDecode) add_decode(problem, row, m_max, out);
    else if (row.source == kWgmma) add_wgmma(problem, row, out);
    else add_tiles(problem, row, out);
  }
  std::erase_if(out, [&](const CudaSchedule& s) { return cuda_launch(problem, s).column_tiles > kMostColumnTiles; });
  const CudaLayout layout = cuda_layout(problem);
  const int64_t m = m_max < 8192 ? m_max : std::max<int64_t>(m_min, 1024);
  std::stable_sort(out.begin(), out.end(), [&](const CudaSchedule& a, const CudaSchedule& b) {
    return modeled_seconds(problem, layout, a, target.isa, m) < modeled_seconds(problem, layout, b, target.isa, m);
  });
  return out;
}

}  // namespace qcg

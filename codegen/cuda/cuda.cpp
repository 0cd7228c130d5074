#include "codegen/cuda/cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codegen/gemm/render.h"
#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/render_template.h"

namespace qcg {
namespace {

using V = TemplateValue;
using enum DType;

constexpr std::string_view kRows = "rows8";  // PackedLayout::kind
constexpr std::string_view kDense = "cuda/gemm_dense.cu.j2";
constexpr Microkernel kTable[] = {
    // name         isa          source  scheme         act   weight compute
    {"sm90a_mma", Isa::sm_90a, kDense, Scheme::dense, bf16, bf16, "mma"},
    {"sm90a_mma", Isa::sm_90a, kDense, Scheme::dense, f16, f16, "mma"},
    {"sm80_mma", Isa::sm_80, kDense, Scheme::dense, bf16, bf16, "mma"},
    {"sm80_mma", Isa::sm_80, kDense, Scheme::dense, f16, f16, "mma"},
};

// Tiles that fit registers: a warp accumulates (bm / warps_m) x (bn / warps_n) for every segment of an output.
struct Tile {
  int bm, bn, warps_m, warps_n, stages;
  int most_segments;
};
constexpr Tile kTiles[] = {{128, 128, 2, 4, 3, 1}, {64, 64, 2, 2, 3, 2}, {16, 64, 1, 4, 4, 4}};
constexpr int kDepth = 64;                   // K of a stage: 128 bytes, one row of swizzled chunks
constexpr int kMostSharedBytes = 160 << 10;  // of one block, on every sm_80

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
int64_t padded_k(const Problem& p) { return round_up(p.k, 8); }

int most_segments(const Problem& p) {
  size_t most = 0;
  for (const Output& o : p.outputs) most = std::max(most, o.segments.size());
  return static_cast<int>(most);
}

// Bytes of a stage: the tile of x and one of w per segment.
int stage_bytes(int bm, int bn, int segments) { return (bm + segments * bn) * kDepth * 2; }

// Where every segment's weight and bias begin.
struct Place {
  int64_t weight = 0, bias = 0;
};
std::vector<Place> places_of(const Problem& p, int64_t& total) {
  std::vector<Place> places(p.segments.size());
  std::vector<bool> placed(p.segments.size());
  total = 0;
  for (const Output& o : p.outputs)
    for (const int j : o.segments) {
      if (placed[static_cast<size_t>(j)]) continue;  // two outputs may read one segment
      placed[static_cast<size_t>(j)] = true;
      const Segment& s = p.segments[static_cast<size_t>(j)];
      places[static_cast<size_t>(j)].weight = total;
      total += round_up(s.n * padded_k(p) * 2, 256);
      places[static_cast<size_t>(j)].bias = total;
      if (s.has_bias) total += round_up(s.n * 4, 256);
    }
  return places;
}

}  // namespace

Status check_cuda_support(const Problem& p) {
  auto no = [](std::string what, std::string help) {
    return Error::unsupported("cuda", std::move(what), std::move(help));
  };
  if (p.scheme != Scheme::dense || (p.weight != bf16 && p.weight != f16) || p.activation != p.weight)
    return no(fmt::format("the CUDA GEMM has no {} with {} activations and {} weights", scheme_name(p.scheme),
                          dtype_name(p.activation), dtype_name(p.weight)),
              "export the model in bf16 or f16 without quantization, or compile for --target=cpu");
  if (p.k_segments.size() != 1)
    return no("the CUDA GEMM reads one activation tensor", "use --disable-pass=split_cat_linear");
  if (most_segments(p) > kTiles[2].most_segments)
    return no(fmt::format("an output of {} segments does not fit registers", most_segments(p)),
              "use --disable-pass=fold_epilogue");
  for (const Output& o : p.outputs)
    if (!is_compute_float(o.dtype))
      return no(fmt::format("the CUDA GEMM cannot store {}", dtype_name(o.dtype)), "cast to a float dtype");
  for (const Operand& o : p.operands)
    if (!is_compute_float(o.dtype))
      return no(fmt::format("a CUDA epilogue cannot read {}", dtype_name(o.dtype)), "cast to a float dtype");
  return {};
}

namespace {

std::string operand_offset(Broadcast broadcast, size_t arg) {
  switch (broadcast) {
    case Broadcast::full: return fmt::format("row * args.at[{}].stride + column", arg);
    case Broadcast::row: return "column";
    case Broadcast::column: return fmt::format("row * args.at[{}].stride", arg);
    case Broadcast::scalar: break;
  }
  return "0";
}

V output_context(const Problem& p, const Output& o, const std::vector<Place>& places, size_t index) {
  std::vector<V> segments, operands;
  std::vector<std::string> acc_names, in_names;
  for (size_t j = 0; j < p.segments.size(); ++j) acc_names.push_back(fmt::format("acc{}", j));
  for (const int j : o.segments) {
    const Place& place = places[static_cast<size_t>(j)];
    segments.push_back(V::dict({{"index", j},
                                {"weight_at", place.weight},
                                {"bias_at", place.bias},
                                {"has_bias", p.segments[static_cast<size_t>(j)].has_bias}}));
  }
  for (size_t i = 0; i < p.operands.size(); ++i) in_names.push_back(fmt::format("in{}", i));
  for (const int i : o.expr.leaves(ExprKind::in)) {
    const Operand& operand = p.operands[static_cast<size_t>(i)];
    operands.push_back(V::dict({{"index", i},
                                {"arg", 1 + i},
                                {"dtype", dtype_name(operand.dtype)},
                                {"offset", operand_offset(operand.broadcast, static_cast<size_t>(1 + i))}}));
  }
  V v;
  v["text"] = sanitize_comment(o.expr.str());
  v["n"] = o.n;
  v["dtype"] = dtype_name(o.dtype);
  v["arg"] = 2 + p.operands.size() + index;
  v["segments"] = V::from_items(std::move(segments));
  v["operands"] = V::from_items(std::move(operands));
  v["code"] = print_expr_cuda(o.expr, acc_names, in_names);
  return v;
}

}  // namespace

std::span<const Microkernel> cuda_microkernel_table() { return kTable; }

PackedLayout layout_for_cuda(const Problem&, const Target&) { return {64, 8, std::string(kRows)}; }

std::string CudaSchedule::describe() const {
  return fmt::format("{} {}x{}x{} stages={}", microkernel->name, bm, bn, bk, stages);
}

std::string kernel_name(const Problem& problem, const CudaSchedule& schedule) {
  return kernel_name(problem, fmt::format("{}x{}x{}", schedule.bm, schedule.bn, schedule.bk),
                     schedule.microkernel->name);
}

std::vector<CudaSchedule> cuda_schedules(const Problem& problem, const Target& target, int64_t, int64_t m_max) {
  std::vector<CudaSchedule> out;
  if (!check_cuda_support(problem).ok()) return out;
  for (const Microkernel& row : kTable) {
    if (row.isa != target.isa || row.weight != problem.weight) continue;
    for (const Tile& tile : kTiles) {
      const int segments = most_segments(problem);
      if (segments > tile.most_segments) continue;
      // Hopper has more shared memory and a longer way to it.
      const int stages = std::min(tile.stages + (target.isa == Isa::sm_90a),
                                  kMostSharedBytes / stage_bytes(tile.bm, tile.bn, segments));
      out.push_back({&row, tile.bm, tile.bn, kDepth, tile.warps_m, tile.warps_n, stages});
    }
  }
  // The least padding first; among equals the larger tile.
  std::stable_sort(out.begin(), out.end(), [&](const CudaSchedule& a, const CudaSchedule& b) {
    auto wasteful = [&](const CudaSchedule& s) { return s.bm > 16 && s.bm / 2 >= m_max; };
    return wasteful(a) < wasteful(b);
  });
  return out;
}

int64_t packed_bytes_cuda(const Problem& problem, const PackedLayout&) {
  int64_t total = 0;
  places_of(problem, total);
  return total;
}

Status pack_weights_cuda(const Problem& problem, const PackedLayout&, const std::vector<SegmentTensors>& tensors,
                         std::span<std::byte> out) {
  int64_t total = 0;
  const std::vector<Place> places = places_of(problem, total);
  if (static_cast<int64_t>(out.size()) != total || tensors.size() != problem.segments.size())
    return Error::internal("pack_weights_cuda", "buffer or tensors do not fit the problem");
  std::memset(out.data(), 0, out.size());
  for (size_t j = 0; j < tensors.size(); ++j) {
    const Segment& s = problem.segments[j];
    const std::string where = fmt::format("weight of '{}'", s.name);
    if (!tensors[j].weight.bound() || tensors[j].weight.dtype != problem.weight ||
        tensors[j].weight.shape != std::vector<int64_t>{s.n, problem.k})
      return Error::bad_input(where, fmt::format("it is not {} [{}, {}]", dtype_name(problem.weight), s.n, problem.k),
                              "give the linear weights of matching shapes");
    const Tensor weight = tensors[j].weight.contiguous();
    for (int64_t n = 0; n < s.n; ++n)
      std::memcpy(out.data() + places[j].weight + n * padded_k(problem) * 2, weight.bytes().data() + n * problem.k * 2,
                  static_cast<size_t>(problem.k) * 2);
    if (!s.has_bias) continue;
    if (!tensors[j].bias.bound() || tensors[j].bias.numel() != s.n)
      return Error::bad_input(fmt::format("bias of '{}'", s.name), "its length is not the number of outputs",
                              "give one value per output");
    const Tensor bias = tensors[j].bias.contiguous();
    for (int64_t n = 0; n < s.n; ++n) {
      const float value = static_cast<float>(
          element_to_double(bias.dtype, bias.bytes().data() + n * static_cast<int64_t>(dtype_bytes(bias.dtype))));
      std::memcpy(out.data() + places[j].bias + n * 4, &value, 4);
    }
  }
  return {};
}

Result<std::string> render_gemm_cuda(const Problem& p, const CudaSchedule& s, std::string_view symbol) {
  QCG_CHECK(check_cuda_support(p));
  const CudaLaunch launch = cuda_launch(p, s);
  int64_t total = 0;
  const std::vector<Place> places = places_of(p, total);
  V v;
  v["symbol"] = symbol;
  v["name"] = kernel_name(p, s);
  v["signature"] = sanitize_comment(p.signature());
  v["comment"] = comment_lines(p.comment);
  v["dtype"] = dtype_name(p.weight);
  v["bm"] = s.bm, v["bn"] = s.bn, v["bk"] = s.bk;
  v["warps_m"] = s.warps_m, v["warps_n"] = s.warps_n;
  v["stages"] = s.stages, v["threads"] = launch.threads;
  v["k"] = p.k, v["k_padded"] = padded_k(p);
  v["weights_arg"] = 1 + p.operands.size();
  v["arg_count"] = 2 + p.operands.size() + p.outputs.size();
  std::vector<V> outputs;
  int64_t tiles = 0;
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    V o = output_context(p, p.outputs[i], places, i);
    o["tile_begin"] = tiles;
    tiles += (p.outputs[i].n + s.bn - 1) / s.bn;
    o["tile_end"] = tiles;
    outputs.push_back(std::move(o));
  }
  v["outputs"] = V::from_items(std::move(outputs));
  return render_template(s.microkernel->source, v);
}

CudaLaunch cuda_launch(const Problem& p, const CudaSchedule& s) {
  CudaLaunch launch;
  launch.threads = s.warps_m * s.warps_n * 32;
  launch.rows = s.bm;
  for (const Output& o : p.outputs) launch.column_tiles += static_cast<int>((o.n + s.bn - 1) / s.bn);
  launch.shared_bytes = s.stages * stage_bytes(s.bm, s.bn, most_segments(p));
  return launch;
}

}  // namespace qcg

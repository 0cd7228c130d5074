// Rendered source of the smallest tile of every microkernel row: a difference here is a change of every kernel of that
// row. And of some kernels whose first row tile unpacks a block for the others (with groups, without, of tiles), of
// CUDA, loops and reductions.
//
// A few texts are kept whole in tests/golden/source, for people to read: one of each kind. Of all of them hashes.txt
// has the hash without comments and spaces. The texts as they are rendered lie in the build tree, so that a difference
// can be seen.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cache/store/sha256.h"
#include "codegen/attention/attention.h"
#include "codegen/cuda/cuda.h"
#include "codegen/gather/gather.h"
#include "codegen/gemm/layout.h"
#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"
#include "codegen/gemm/render.h"
#include "codegen/gemm/schedules.h"
#include "codegen/loops/loops.h"
#include "codegen/matmul/matmul.h"
#include "codegen/quantize_rows/quantize_rows.h"
#include "codegen/reduce/reduce.h"
#include "codegen/windows/windows.h"
#include "tests/paths.h"
#include "tests/temp_dir.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// By name of its file.
using Sources = std::map<std::string, std::string>;

const std::set<std::string> kWhole = {"portable_fma_dense_f32.cpp",
                                      "avx2_fma_w8_i8.cpp",
                                      "avx512_fma_w4_i8.cpp",
                                      "avx512bf16_dot_dense_bf16.cpp",
                                      "amx_int8_da8w8_i8.cpp",
                                      "cuda_sm90a_mma_tile_dense_bf16_bf16.cu",
                                      "cuda_sm80_mma_decode_w4_bf16_i8.cu",
                                      "cuda_sm80_loop.cu",
                                      "loop_avx2.cpp",
                                      "reduce_avx2.cpp"};
const fs::path kRecorded = fs::path(source_dir()) / "tests/golden/source";
const char kUpdate[] = "QCG_UPDATE_GOLDENS";

std::string text_of(const Result<std::string>& source) {
  REQUIRE_MESSAGE(source.ok(), source.error().message);
  return *source;
}

Problem smallest(Scheme scheme, DType activation, DType weight, int64_t n) {
  Problem p;
  p.scheme = scheme, p.activation = activation, p.weight = weight;
  p.k = 64, p.k_segments = {64};
  if (scheme_info(scheme).weight.usual_group > 0) p.group = 32;
  p.segments = {{n, false, false, "proj"}};
  p.outputs = {{Expr::acc(0), scheme == Scheme::s8s8 ? DType::i32 : DType::f32, n, {0}}};
  p.comment =
      "source nodes, in program order:\n  %y = aten.linear.default(%x, @proj.weight)  model.py:41\n\n"
      "lowered to:\n  %y = qcg.linear([%x], weights = [@proj.weight])\n";
  return p;
}

void render_microkernel(const Microkernel& row, Sources& out) {
  const Problem p = smallest(row.scheme, row.activation, row.weight, isa_info(row.isa).vector_bytes / 2);
  const std::string name = fmt::format("{}_{}_{}", row.name, scheme_name(row.scheme), dtype_name(row.weight));
  const auto add = [&](const std::string& suffix, const Problem& problem, const GemmSchedule& c) {
    out[name + suffix + ".cpp"] = text_of(render_gemm(problem, c, "golden"));
  };
  GemmSchedule c;
  c.microkernel = &row;
  c.layout = layout_for(p, {Device::cpu, row.isa});
  c.prefetch_bytes = 2048;
  if (row.compute.starts_with("amx")) c.mr = 16, c.prefetch_bytes = 0;
  c.unpacks_block = row.rounds;
  if (row.rounds) c.scaling = Scaling::rounded_weights;
  add("", p, c);
  if (name == "avx512bf16_dot_f4_i8" || name == "amx_bf16_f4_i8") {
    GemmSchedule taking = c;
    taking.scaling = Scaling::weights;
    taking.unpacks_block = !compute_info(row.compute).tiles;
    for (const auto& [scale, suffix] : {std::pair{DType::f8e8m0, "_powers"}, {DType::f8e4m3, "_e4m3"}}) {
      Problem scaled = p;
      scaled.scale = scale;
      if (scale == DType::f8e4m3) scaled.group = 16;
      add(suffix, scaled, taking);
    }
  }
  static const std::set<std::string> kWithBlock = {"avx512bf16_dot_w8_i8", "avx512_fma_w4_i8", "amx_bf16_w4_i8"};
  if (!kWithBlock.contains(name)) return;
  c.prefetch_bytes = 0, c.kc = 32, c.unpacks_block = true;
  if (!compute_info(row.compute).tiles) c.mr = 2, c.tails = {1};
  add("_block", p, c);
}

void render_cuda(const Microkernel& row, Sources& out) {
  const Problem p = smallest(row.scheme, row.activation, row.weight, 64);
  for (const CudaSchedule& s : cuda_schedules(p, {Device::cuda, row.isa}, 1, 8))
    if (s.microkernel == &row)
      out[fmt::format("cuda_{}_{}_{}_{}.cu", row.name, scheme_name(row.scheme), dtype_name(row.activation),
                      dtype_name(row.weight))] = text_of(render_gemm_cuda(p, s, "golden"));
}

Sources render_all() {
  Sources out;
  for (const Microkernel& row : microkernel_table()) render_microkernel(row, out);
  // Those of HIP are rendered from the same templates; tests/hip runs them.
  for (const Microkernel& row : cuda_microkernel_table())
    if (isa_info(row.isa).device == Device::cuda) render_cuda(row, out);
  const LoopProblem loop{.operands = {DType::bf16, DType::f32},
                         .operand_inner_stride = {1, 0},
                         .outputs = {DType::bf16},
                         .exprs = {Expr::call("mul", {Expr::call("silu", {Expr::in(0)}), Expr::in(1)})},
                         .comment = "source nodes, in program order:\n  %y = aten.silu.default(%x)  model.py:41\n"};
  const ReduceProblem reduce{"mean", DType::bf16, DType::f32, "y = mean(x)"};
  const GatherProblem rows{2, DType::bf16, {{DType::i64, false}}, true, "y = embedding(table, ids)"};
  const GatherProblem elements{2, DType::f32, {{DType::i32, true}, {DType::i64, true}}, false, "y = x[a, b]"};
  const WindowProblem windows{
      .op = "product", .kernel = {3, 3}, .stride = {2, 1}, .before = {1, 1}, .comment = "depthwise"};
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::sm_80}) {
    const auto name = [isa](std::string_view kernel) {
      return on_device(isa) ? fmt::format("cuda_sm80_{}.cu", kernel)
                            : fmt::format("{}_{}.cpp", kernel, isa_info(isa).name);
    };
    AttentionProblem attention{
        .size = 16, .value_size = 16, .group = 2, .score = Expr::acc(0), .mask = {}, .operands = {}, .comment = ""};
    attention.mask = Expr::call("ge", {Expr::pos(2), Expr::pos(3)});
    out[name("attention")] = text_of(render_attention(attention, isa, "golden"));
    if (!on_device(isa)) out[name("windows")] = text_of(render_windows(windows, isa, "golden"));
    out[name("loop")] = text_of(render_loop(loop, isa, "golden"));
    out[name("reduce")] = text_of(render_reduce(reduce, isa, "golden"));
    out[name("gather")] = text_of(render_gather(rows, isa, "golden"));
    out[name("gather_elements")] = text_of(render_gather(elements, isa, "golden"));
  }
  return out;
}

// Without comments and spaces: what a compiler would see, apart from where a word ends. Strings stay as they are.
std::string code_of(const std::string& text) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string) out += text[i++];
    else if (text.compare(i, 2, "//") == 0) i = std::min(text.find('\n', i), text.size());
    else if (text.compare(i, 2, "/*") == 0) i = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
    else if (text[i] == ' ' || text[i] == '\n') ++i;
    else out += text[i++];
  }
  return out;
}

std::map<std::string, std::string> read_hashes() {
  std::map<std::string, std::string> out;
  std::istringstream lines(slurp(kRecorded / "hashes.txt"));
  for (std::string name, hash; lines >> name >> hash;) out[name] = hash;
  return out;
}

void write_goldens(const Sources& sources) {
  fs::remove_all(kRecorded);
  fs::create_directories(kRecorded);
  std::string hashes;
  for (const auto& [name, text] : sources) {
    hashes += fmt::format("{} {}\n", name, sha256_hex(code_of(text)));
    if (kWhole.contains(name)) spit(kRecorded / name, text);
  }
  spit(kRecorded / "hashes.txt", hashes);
}

// Where the texts lie that were last as recorded, and those that are not.
const fs::path kKept = fs::path(binary_dir()) / "rendered/as_recorded", kNow = fs::path(binary_dir()) / "rendered/now";

std::string how_to_see(const std::string& name) {
  if (fs::exists(kKept / name)) return fmt::format("diff -u {} {}", (kKept / name).string(), (kNow / name).string());
  return fmt::format("{} is the text; run this test at the revision before in this build tree, and again, for a diff",
                     (kNow / name).string());
}

}  // namespace

TEST_CASE("rendered source is as recorded") {
  const Sources sources = render_all();
  if (std::getenv(kUpdate)) write_goldens(sources);
  fs::remove_all(kNow);
  for (const fs::path& folder : {kKept, kNow}) fs::create_directories(folder);
  const std::map<std::string, std::string> hashes = read_hashes();
  for (const auto& [name, text] : sources) {
    const bool known = hashes.contains(name);
    CHECK_MESSAGE(known, "hashes.txt lacks ", name, "; QCG_UPDATE_GOLDENS=1 adds it");
    const bool whole = !kWhole.contains(name) || slurp(kRecorded / name) == text;
    const bool same = whole && known && hashes.at(name) == sha256_hex(code_of(text));
    spit((same ? kKept : kNow) / name, text);
    if (known) CHECK_MESSAGE(same, name, " differs: ", how_to_see(name), "\nQCG_UPDATE_GOLDENS=1 records it");
  }
  for (const auto& [name, hash] : hashes) CHECK_MESSAGE(sources.contains(name), "hashes.txt has an orphan: ", name);
  for (const std::string& name : kWhole)
    CHECK_MESSAGE(sources.contains(name), "nothing is rendered under the name ", name);
  for (const auto& entry : fs::directory_iterator(kRecorded)) {
    const std::string name = entry.path().filename().string();
    CHECK_MESSAGE((name == "hashes.txt" || kWhole.contains(name)), "orphaned golden ", name);
  }
}

TEST_CASE("the hash of a source is that of its code: comments and spaces are not in it") {
  CHECK(code_of("int x = 1;  // one\n/* two\n * lines */ int y;\n") == "intx=1;inty;");
  CHECK(code_of("a /* no end") == "a");
  CHECK(code_of("a // no end") == "a");
  CHECK(code_of("a / b") == "a/b");
  CHECK(code_of("f( \"a // b\" )") == "f(\"a // b\")");
}

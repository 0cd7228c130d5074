// Rendered source of the smallest tile of every microkernel row: a diff here is a change of every kernel of that row. And of
// some kernels whose first row tile unpacks a block for the others: with groups, without, of tiles.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "codegen/gemm/candidates.h"
#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"
#include "codegen/gemm/render.h"
#include "tests/paths.h"

using namespace qcg;
namespace fs = std::filesystem;

namespace {

Problem smallest(const Microkernel& row) {
  Problem p;
  p.scheme = row.scheme, p.activation = row.activation, p.weight = row.weight;
  p.k = 64, p.k_segments = {64};
  if (scheme_info(p.scheme).weight.usual_group > 0) p.group = 32;
  p.segments = {{isa_info(row.isa).vector_bytes / 2, false, false, "proj"}};
  p.outputs = {{Expr::acc(0), p.scheme == Scheme::s8s8 ? DType::i32 : DType::f32, p.segments[0].n, {0}}};
  p.comment =
      "source nodes, in program order:\n  %y = aten.linear.default(%x, @proj.weight)  model.py:41\n\n"
      "lowered to:\n  %y = qcg.linear([%x], weights = [@proj.weight])\n";
  return p;
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("rendered source is as recorded") {
  const fs::path folder = fs::path(qcg::test::source_dir()) / "tests/golden/source/gemm";
  const bool update = std::getenv("QCG_UPDATE_GOLDENS") != nullptr;
  if (update) fs::create_directories(folder);
  std::set<std::string> known;
  const auto check = [&](const std::string& name, const Problem& p, const Candidate& c) {
    auto source = render_gemm(p, c, "golden");
    REQUIRE_MESSAGE(source.ok(), source.error().message);
    known.insert(name);
    if (update) std::ofstream(folder / name, std::ios::binary) << *source;
    CHECK_MESSAGE(fs::exists(folder / name), "missing golden ", name, "; QCG_UPDATE_GOLDENS=1 writes it");
    CHECK_MESSAGE(read(folder / name) == *source, name, " differs; QCG_UPDATE_GOLDENS=1 rewrites it");
  };
  for (const Microkernel& row : microkernel_table()) {
    const Problem p = smallest(row);
    const std::string name = fmt::format("{}_{}_{}", row.name, scheme_name(row.scheme), dtype_name(row.weight));
    Candidate c;
    c.microkernel = &row;
    c.layout = layout_for(p, {Device::cpu, row.isa});
    c.prefetch_bytes = 2048;
    if (row.compute.starts_with("amx")) c.mr = 16, c.prefetch_bytes = 0;
    c.rounded = c.unpacks_block = row.rounds;
    check(name + ".cpp", p, c);
    if (name == "avx512bf16_dot_f4_i8" || name == "amx_bf16_f4_i8") {
      Candidate taking = c;
      taking.scaled = true;
      taking.unpacks_block = !compute_info(row.compute).tiles;
      for (const auto& [scale, suffix] : {std::pair{DType::f8e8m0, "_powers.cpp"}, {DType::f8e4m3, "_e4m3.cpp"}}) {
        Problem scaled = p;
        scaled.scale = scale;
        if (scale == DType::f8e4m3) scaled.group = 16;
        check(name + suffix, scaled, taking);
      }
    }
    static const std::set<std::string> kWithBlock = {"avx512bf16_dot_w8_i8", "avx512_fma_w4_i8", "amx_bf16_w4_i8"};
    if (!kWithBlock.contains(name)) continue;
    c.prefetch_bytes = 0, c.kc = 32, c.unpacks_block = true;
    if (!compute_info(row.compute).tiles) c.mr = 2, c.tails = {1};
    check(name + "_block.cpp", p, c);
  }
  for (const auto& entry : fs::directory_iterator(folder))
    CHECK_MESSAGE(known.count(entry.path().filename().string()) == 1, "orphaned golden ", entry.path().filename().string());
}

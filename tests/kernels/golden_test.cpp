// Rendered source of the smallest tile of every microkernel row: a diff here is a change of every kernel of that row.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "codegen/problem.h"

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
  p.nodes = {"linear"};
  p.graph_fragment = "%y = qcg.linear([%x], weights = [@proj.weight])";
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
  const fs::path folder = fs::path(QCG_SOURCE_DIR) / "tests/golden/source/gemm";
  const bool update = std::getenv("QCG_UPDATE_GOLDENS") != nullptr;
  if (update) fs::create_directories(folder);
  std::set<std::string> known;
  for (const Microkernel& row : microkernel_table()) {
    const Problem p = smallest(row);
    Candidate c;
    c.microkernel = &row;
    c.layout = layout_for(p, {Device::cpu, row.isa});
    c.prefetch_bytes = 2048;
    if (row.compute.starts_with("amx")) c.mr = 16, c.prefetch_bytes = 0;
    c.rounded = c.unpacks_block = row.rounds;
    auto source = render_gemm(p, c, "golden");
    REQUIRE(source.ok());
    const std::string name = fmt::format("{}_{}_{}.cpp", row.name, scheme_name(row.scheme), dtype_name(row.weight));
    known.insert(name);
    if (update) std::ofstream(folder / name, std::ios::binary) << *source;
    CHECK_MESSAGE(fs::exists(folder / name), "missing golden ", name, "; QCG_UPDATE_GOLDENS=1 writes it");
    CHECK_MESSAGE(read(folder / name) == *source, name, " differs; QCG_UPDATE_GOLDENS=1 rewrites it");
  }
  for (const auto& entry : fs::directory_iterator(folder))
    CHECK_MESSAGE(known.count(entry.path().filename().string()) == 1, "orphaned golden ", entry.path().filename().string());
}

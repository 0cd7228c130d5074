// No spills where it counts: every vector microkernel's tiles are compiled to assembly. The innermost loop that holds
// the dot products may hardly store a vector register on the stack, and may read few: constants that found no register.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>

#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"
#include "codegen/gemm/render.h"
#include "codegen/gemm/sample_problem.h"
#include "codegen/gemm/schedules.h"
#include "codegen/gemm/shape.h"
#include "tests/isa_job.h"

using namespace qcg;
using qcg::test::new_job;

namespace {

// So many multiplications hide a needless store or load of theirs. g++ 12 moves one accumulator of the tallest tiles
// through the stack, and constants of unpacking live there where there are 16 registers.
struct Allowed {
  int dots_per_store, dots_per_read;
};
Allowed allowed_for(Isa isa) { return isa_info(isa).vector_bytes == 32 ? Allowed{16, 1} : Allowed{40, 8}; }

// The instructions a compute row lives on, as the assembler spells them.
bool is_dot(std::string_view compute, const std::string& line) {
  auto has = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](const char* word) { return line.find(word) != std::string::npos; });
  };
  if (compute == "fma") return has({"vfmadd", "mulps"});
  if (compute == "madd16") return has({"pmaddwd"});
  if (compute == "vnni") return has({"vpdpbusd", "vpdpwssd"});
  if (compute == "maddubs") return has({"pmaddubsw"});
  return has({"vdpbf16ps"});
}

struct Function {
  std::string name;
  std::vector<std::string> lines;
};

std::vector<Function> functions_of(const std::string& listing) {
  std::vector<Function> out;
  std::istringstream in(listing);
  for (std::string line; std::getline(in, line);) {
    const bool label = !line.empty() && line[0] != '\t' && line[0] != '#' && line.back() == ':';
    if (label && line[0] != '.') out.push_back({line.substr(0, line.size() - 1), {}});
    else if (!out.empty()) out.back().lines.push_back(line);
  }
  return out;
}

// [begin, end) of lines from a label to a jump back to it, without another such inside.
std::vector<std::pair<size_t, size_t>> innermost_loops(const Function& f) {
  static const std::regex kJump(R"(^\tj[a-z]+\s+(\.L\w+))");
  std::map<std::string, size_t> labels;
  std::vector<std::pair<size_t, size_t>> all, out;
  for (size_t i = 0; i < f.lines.size(); ++i) {
    if (f.lines[i].starts_with(".L") && f.lines[i].back() == ':')
      labels[f.lines[i].substr(0, f.lines[i].size() - 1)] = i;
    std::smatch jump;
    if (std::regex_search(f.lines[i], jump, kJump) && labels.contains(jump[1]))
      all.emplace_back(labels[jump[1]], i + 1);
  }
  for (const auto& loop : all)
    if (std::none_of(all.begin(), all.end(),
                     [&](const auto& o) { return o != loop && o.first >= loop.first && o.second <= loop.second; }))
      out.push_back(loop);
  return out;
}

bool has_frame_pointer(const Function& f) {
  return std::any_of(f.lines.begin(), f.lines.end(),
                     [](const std::string& line) { return line.find("%rsp, %rbp") != std::string::npos; });
}

struct Hot {
  int dots = 0, stores = 0, reads = 0;
  std::string first_store;
  bool is_hotter(const Hot& than) const {
    return std::tuple(dots, stores + reads) > std::tuple(than.dots, than.stores + than.reads);
  }
};

// The innermost loop with the most dot products; the one of them that spills most.
std::optional<Hot> hottest_loop(const std::string& listing, std::string_view compute) {
  static const std::regex kStack(R"(\(%rsp[,)])"), kFrame(R"(\(%rbp[,)])"), kVector(R"(%[xyz]mm\d)");
  std::optional<Hot> best;
  for (const Function& f : functions_of(listing)) {
    const bool frame = has_frame_pointer(f);
    for (const auto& [begin, end] : innermost_loops(f)) {
      Hot hot;
      for (size_t i = begin; i < end; ++i) {
        const std::string& line = f.lines[i];
        hot.dots += is_dot(compute, line);
        const bool stack = std::regex_search(line, kStack) || (frame && std::regex_search(line, kFrame));
        if (!stack || !std::regex_search(line, kVector)) continue;
        const bool store = line.back() == ')';  // the destination comes last
        ++(store ? hot.stores : hot.reads);
        if (store && hot.first_store.empty()) hot.first_store = f.name + ": " + line;
      }
      if (hot.dots > 0 && (!best || hot.is_hotter(*best))) best = hot;
    }
  }
  return best;
}

struct Tile {
  std::string name;
  const Microkernel* row;
  std::string source, listing;
};

// Every row of the table that is for a CPU, with each tile height that its candidates have.
std::vector<Tile> all_tiles() {
  std::vector<Tile> out;
  for (const Microkernel& row : microkernel_table()) {
    // Tiles are not the compiler's to spill; portable code has whatever registers its machine has.
    if (isa_info(row.isa).device != Device::cpu || compute_info(row.compute).tiles || row.isa == Isa::portable)
      continue;
    std::set<std::tuple<DType, int, bool>> seen;
    for (SampleScheme scheme : sample_schemes(scheme_info(row.scheme))) {
      // A group of 16 is unrolled whole: what is left as a loop goes from group to group, which keeps less in
      // registers.
      if (scheme.group == 16 && slices_of(row) > 1) continue;
      scheme.activation = row.activation, scheme.weight = row.weight;
      Problem problem = sample_problem(scheme, {"tile", 2048, {256, 0, 0}});
      problem.may_round = row.rounds;
      for (int64_t m : {1, 4, 16, 64, 256})
        for (const GemmSchedule& c : gemm_schedules(problem, {Device::cpu, row.isa}, m, m)) {
          const bool other_loop = c.prefetch_bytes > 0 || c.unpacks_block;
          if (c.microkernel != &row || !seen.insert({scheme.scale, c.mr, other_loop}).second) continue;
          auto text = render_gemm(problem, c, fmt::format("kernel_{}", out.size()));
          REQUIRE_MESSAGE(text.ok(), text.error().to_string());
          out.push_back(
              {fmt::format("{} {} {}", scheme.label(), dtype_name(row.weight), c.describe()), &row, *text, {}});
        }
    }
    CHECK_MESSAGE(!seen.empty(), row.name << " " << scheme_name(row.scheme) << " has no candidate");
  }
  return out;
}

void assemble_tiles(std::vector<Tile>& tiles) {
  auto cxx = find_cxx({});
  REQUIRE_MESSAGE(cxx.ok(), "no compiler");
  std::vector<CompileJob> jobs;
  for (const Tile& tile : tiles) {
    CompileJob job = new_job(*cxx, tile.row->isa);
    job.output = OutputKind::assembly;
    job.sources[0].text += tile.source;
    jobs.push_back(std::move(job));
  }
  auto results = compile_all(*cxx, jobs);
  REQUIRE(results.ok());
  for (size_t i = 0; i < tiles.size(); ++i) {
    REQUIRE_MESSAGE((*results)[i].ok(), tiles[i].name << "\n" << (*results)[i].log.substr(0, 2000));
    tiles[i].listing = std::move((*results)[i].bytes);
  }
}

}  // namespace

TEST_CASE("the counter of spills counts") {
  const std::string listing =
      "f:\n\tpushq\t%rbp\n\tmovq\t%rsp, %rbp\n.L2:\n\tvmovaps\t64(%rsp), %zmm1\n.L3:\n\tvfmadd231ps\t%zmm0, %zmm1, "
      "%zmm2\n"
      "\tvmovaps\t%zmm2, -64(%rbp)\n\tmovq\t%rax, 8(%rsp)\n\tvmovaps\t(%rdi), %zmm4\n\tjne\t.L3\n\tjne\t.L2\n\tret\n";
  const auto hot = hottest_loop(listing, "fma");
  REQUIRE(hot);
  CHECK(hot->dots == 1);
  CHECK(hot->stores == 1);
  CHECK(hot->reads == 0);
  CHECK_FALSE(hottest_loop(listing, "vnni"));
}

TEST_CASE("no microkernel spills in its inner loop") {
  std::vector<Tile> tiles = all_tiles();
  assemble_tiles(tiles);
  for (const Tile& tile : tiles) {
    const auto hot = hottest_loop(tile.listing, tile.row->compute);
    CHECK_MESSAGE(hot, tile.name << ": no loop with dot products");
    if (!hot) continue;
    const Allowed allowed = allowed_for(tile.row->isa);
    CHECK_MESSAGE(
        hot->stores * allowed.dots_per_store <= hot->dots,
        tile.name << ": " << hot->stores << " stores among " << hot->dots << " dot products, " << hot->first_store);
    CHECK_MESSAGE(hot->reads * allowed.dots_per_read <= hot->dots,
                  tile.name << ": " << hot->reads << " reads among " << hot->dots << " dot products");
  }
}

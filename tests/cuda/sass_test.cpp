// What ptxas makes of the kernels' inner loops: instructions per product, as nvdisasm shows them.
//
// Why here: a kernel that issues too much is slow on every device, and no device is needed to see it.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "ptx_run.h"

using namespace qcg;
using namespace qcg::test;
namespace fs = std::filesystem;

namespace {

struct Loop {
  int instructions = 0, products = 0, local_loads = 0;
};

std::string disassemble(const std::string& cubin) {
  std::string path = (fs::temp_directory_path() / "qcg-sass-XXXXXX").string();
  const int file = mkstemp(path.data());
  REQUIRE(file >= 0);
  close(file);
  std::ofstream(path, std::ios::binary) << cubin;
  std::string text;
  if (FILE* pipe = popen(("nvdisasm -c " + path + " 2>/dev/null").c_str(), "r")) {
    char buffer[4096];
    for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
    pclose(pipe);
  }
  fs::remove(path);
  return text;
}

// Loops around products that hold no other such loop, the shortest first. An instruction is a line "/*0a40*/ HMMA… ;",
// a loop a branch back to a label.
std::vector<Loop> product_loops(const std::string& sass) {
  std::map<std::string, size_t> labels;
  std::vector<std::string> code;
  std::vector<std::pair<size_t, size_t>> loops;
  std::istringstream lines(sass);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(".L_")) labels[line.substr(0, line.find(':'))] = code.size();
    const size_t at = line.find("*/");
    if (line.find("/*") > 10 || at == line.npos || line.find(';') == line.npos) continue;
    code.push_back(line.substr(at + 2));
    const size_t label = code.back().find(".L_");
    if (code.back().find("BRA") == std::string::npos || label == std::string::npos) continue;
    const std::string name = code.back().substr(label, code.back().find_first_of(")`;, ", label) - label);
    if (labels.contains(name)) loops.emplace_back(labels[name], code.size() - 1);
  }
  auto count = [&](size_t from, size_t to, std::string_view opcode) {
    int n = 0;
    for (size_t i = from; i <= to; ++i) n += code[i].find(opcode) != std::string::npos;
    return n;
  };
  std::vector<Loop> out;
  for (const auto& [from, to] : loops) {
    const int products = count(from, to, "MMA.");
    const bool inner = std::none_of(loops.begin(), loops.end(), [&, a = from, b = to](const auto& l) {
      return (l.first != a || l.second != b) && l.first >= a && l.second <= b && count(l.first, l.second, "MMA.") > 0;
    });
    if (products && inner) out.push_back({static_cast<int>(to - from + 1), products, count(from, to, "LDL")});
  }
  std::sort(out.begin(), out.end(), [](const Loop& a, const Loop& b) { return a.instructions < b.instructions; });
  return out;
}

struct Gate {
  Scheme scheme;
  DType weight;
  int64_t group;
  int bm, bn;                    // of the schedule
  double per_product;            // instructions
  std::string_view kernel = "";  // the row; without one, that of sm_80
};

}  // namespace

TEST_CASE("instructions per product of the loops, from SASS") {
  auto tool = find_cuda();
  if (!tool.ok() || std::system("nvdisasm --version > /dev/null 2>&1") != 0) {
    MESSAGE("skipped: ", tool.ok() ? "nvdisasm is not on PATH" : tool.error().message);
    return;
  }
  using enum DType;
  // Measured with CUDA 13, and a tenth more for other compilers; 16 x 16 weights a product of a decode kernel (integers 16 x 32).
  const Gate gates[] = {
      {Scheme::dense, bf16, 0, 128, 128, 2.5},                     // 2.25
      {Scheme::w8, i8, 0, 128, 128, 4.4},                          // 4.0
      {Scheme::w4, i8, 128, 128, 128, 6.3},                        // 5.7
      {Scheme::dense, bf16, 0, 8, 32, 11.3},                       // 10.3
      {Scheme::w8, i8, 0, 8, 32, 25},                              // 22.4
      {Scheme::w4, i8, 128, 8, 32, 20},                            // 18.1
      {Scheme::w4, i8, 32, 8, 32, 24},                             // 22.7
      {Scheme::f8, f8e4m3, 0, 8, 32, 29},                          // 26.3
      {Scheme::f4, i8, 32, 8, 32, 33.5},                           // 30.5
      {Scheme::da8w8, i8, 0, 128, 128, 2.6},                       // 2.4
      {Scheme::da8w4, i8, 128, 128, 128, 7.4},                     // 6.7
      {Scheme::da8w4, i8, 128, 8, 32, 21},                         // 19.0
      {Scheme::dense, bf16, 0, 256, 128, 12.4, "sm90a_wgmma_ss"},  // 11.3
  };
  std::vector<Rendered> all;
  for (const Gate& g : gates) {
    const DType x = scheme_info(g.scheme).quantized_activation ? i8 : bf16;
    const Problem p =
        plain_problem(g.scheme, x, g.weight, {4096}, {{4096, false, false, "w"}}, g.group, g.group ? bf16 : f32);
    const Isa isa = g.kernel.empty() ? Isa::sm_80 : Isa::sm_90a;
    for (const CudaSchedule& s : cuda_schedules(p, {Device::cuda, isa}, 1, g.bm <= 16 ? g.bm : 4096))
      if (s.bm == g.bm && s.bn == g.bn && (g.kernel.empty() || s.microkernel->name == g.kernel))
        all.push_back({p, s, isa});
  }
  REQUIRE(all.size() == std::size(gates));
  const std::vector<CompileResult> cubins = compile_rendered(*tool, all, OutputKind::cubin);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<Loop> loops = product_loops(disassemble(cubins[i].bytes));
    REQUIRE(!loops.empty());
    const Loop& loop = loops[0];  // of aligned x
    INFO(kernel_name(all[i].problem, all[i].schedule), ": ", loop.instructions, " instructions around ", loop.products,
         " products, ", cubins[i].cuda[0].registers, " registers");
    CHECK(loop.local_loads == 0);
    CHECK(static_cast<double>(loop.instructions) / loop.products <= gates[i].per_product);
  }
}

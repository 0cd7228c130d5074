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
#include <optional>
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
    const int groups = count(from, to, "GMMA."), products = groups ? groups : count(from, to, "MMA.");
    const bool inner = std::none_of(loops.begin(), loops.end(), [&, a = from, b = to](const auto& l) {
      return (l.first != a || l.second != b) && l.first >= a && l.second <= b && count(l.first, l.second, "MMA.") > 0;
    });
    if (products && inner) out.push_back({static_cast<int>(to - from + 1), products, count(from, to, "LDL")});
  }
  std::sort(out.begin(), out.end(), [](const Loop& a, const Loop& b) { return a.instructions < b.instructions; });
  return out;
}

struct Gate {
  std::string_view kernel;  // the row
  Scheme scheme;
  DType activation, weight;
  int64_t group;
  int bm, bn;          // of the schedule
  double per_product;  // instructions
  int registers;       // of a thread
  bool has_offset = false, has_zero = false, x_has_zero = false;
};

// Measured with CUDA 13.0: instructions of the loop for aligned x per product (HMMA, IMMA or HGMMA), registers of a thread.
// A product of a decode kernel has 16 x 16 weights (integers and 8-bit floats 16 x 32).
constexpr auto kGates = [] {
  using enum DType;
  using enum Scheme;
  return std::to_array<Gate>({
      {"sm80_mma_tile", dense, bf16, bf16, 0, 128, 128, 2.33, 130},
      {"sm80_mma_tile", w8, bf16, i8, 0, 128, 128, 4.02, 150},
      {"sm80_mma_tile", w4, bf16, i8, 128, 128, 128, 5.72, 224},
      {"sm80_mma_decode", dense, bf16, bf16, 0, 8, 32, 11, 110},
      {"sm80_mma_decode", w8, bf16, i8, 0, 8, 32, 22.38, 80},
      {"sm80_mma_decode", w4, bf16, i8, 128, 8, 32, 18.06, 127},
      {"sm80_mma_decode", w4, bf16, i8, 32, 8, 32, 22.69, 127},
      {"sm80_mma_decode", f8, bf16, f8e4m3, 0, 8, 32, 26.12, 80},
      {"sm80_mma_decode", f4, bf16, i8, 32, 8, 32, 30.5, 128},
      {"sm80_mma_tile", nf4, bf16, i8, 64, 128, 128, 6.43, 238},
      {"sm80_mma_decode", nf4, bf16, i8, 64, 8, 32, 30.81, 128},
      {"sm90a_mma_decode", f8, f8e4m3, f8e4m3, 0, 8, 32, 12.88, 126},
      {"sm80_imma_tile", da8w8, i8, i8, 0, 128, 128, 2.33, 128},
      {"sm80_imma_tile", da8w4, i8, i8, 128, 128, 128, 5.73, 176},
      {"sm80_imma_tile", s8s8, i8, i8, 0, 128, 128, 2.33, 128},
      {"sm80_imma_decode", da8w8, i8, i8, 0, 8, 32, 10.75, 127},
      {"sm80_imma_decode", da8w4, i8, i8, 128, 8, 32, 18.5, 97},
      {"sm90a_wgmma_ss", dense, bf16, bf16, 0, 256, 128, 11.75, 168},
      {"sm90a_wgmma_ss", da8w8, i8, i8, 0, 256, 128, 11.5, 168},
      {"sm90a_wgmma_ss", da8w8, i8, i8, 0, 256, 128, 32, 168, false, true},
      {"sm90a_wgmma_ss", s8s8, i8, i8, 0, 256, 128, 11.5, 168},
      {"sm90a_wgmma_ss", f8, f8e4m3, f8e4m3, 0, 128, 128, 27.25, 168},
      {"sm90a_wgmma_ss", f8, f8e4m3, f8e4m3, 128, 128, 128, 28.75, 168},
      {"sm90a_wgmma_rs", w8, bf16, i8, 0, 256, 128, 25, 168},
      {"sm90a_wgmma_rs", w8, bf16, i8, 0, 128, 128, 24.25, 168},
      {"sm90a_wgmma_rs", w4, bf16, i8, 128, 128, 128, 29.62, 168},
      {"sm90a_wgmma_rs", w4, bf16, i8, 32, 128, 128, 56, 168},
      {"sm90a_wgmma_rs", w4, bf16, i8, 128, 128, 128, 56.25, 168, true},
      {"sm90a_wgmma_rs", w4, bf16, i8, 128, 128, 128, 34.88, 168, false, true},
      {"sm90a_wgmma_rs", f8, bf16, f8e4m3, 0, 256, 128, 28.62, 168},
      {"sm90a_wgmma_rs", f4, bf16, i8, 32, 128, 128, 63.5, 168},
      {"sm90a_wgmma_rs", da8w8, i8, i8, 128, 128, 128, 46.62, 168},
      {"sm90a_wgmma_rs", da8w4, i8, i8, 128, 128, 128, 52.62, 168},
      {"sm90a_wgmma_rs", da8w4, i8, i8, 128, 128, 128, 52.62, 168, false, false, true},
      {"sm90a_wgmma_rs", da8w4, i8, i8, 128, 64, 128, 73.88, 168, false, true, true},
      {"sm90a_wgmma_rs", da8w4, i8, i8, 32, 128, 128, 153.5, 168},
      {"sm90a_wgmma_rs", da8f4, i8, i8, 32, 128, 128, 186.38, 168},
  });
}();
constexpr double kMargin = 1.1;  // for other compilers

// The schedule of a gate, if its row has one.
std::optional<Rendered> rendered_of(const Gate& g) {
  Problem p = plain_problem(g.scheme, g.activation, g.weight, {4096}, {{4096, g.has_zero, false, "w", g.has_offset}},
                            g.group, g.group ? DType::bf16 : DType::f32);
  p.x_has_zero = g.x_has_zero;
  if (is_float8(g.activation)) p.outputs[0].dtype = DType::bf16;
  const Isa isa = g.kernel.starts_with("sm90a") ? Isa::sm_90a : Isa::sm_80;
  for (const CudaSchedule& s : cuda_schedules(p, {Device::cuda, isa}, 1, g.bm <= 16 ? g.bm : 4096))
    if (s.bm == g.bm && s.bn == g.bn && s.microkernel->name == g.kernel) return Rendered{p, s, isa};
  return std::nullopt;
}

}  // namespace

TEST_CASE("instructions per product of the loops, from SASS") {
  auto tool = find_cuda();
  if (!tool.ok() || std::system("nvdisasm --version > /dev/null 2>&1") != 0) {
    MESSAGE("skipped: ", tool.ok() ? "nvdisasm is not on PATH" : tool.error().message);
    return;
  }
  std::vector<Rendered> all;
  for (const Gate& g : kGates) {
    auto rendered = rendered_of(g);
    REQUIRE_MESSAGE(rendered, g.kernel, " ", scheme_name(g.scheme), " has no such tile");
    all.push_back(std::move(*rendered));
  }
  const std::vector<CompileResult> cubins = compile_rendered(*tool, all, OutputKind::cubin);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<Loop> loops = product_loops(disassemble(cubins[i].bytes));
    REQUIRE(!loops.empty());
    const Loop& loop = loops[0];  // of aligned x
    const CudaUsage& kernel = cubins[i].cuda[0];
    const double per_product = static_cast<double>(loop.instructions) / loop.products;
    INFO(kernel_name(all[i].problem, all[i].schedule), ": ", loop.instructions, " instructions around ", loop.products,
         " products, ", per_product, " each, ", kernel.registers, " registers");
    CHECK(loop.local_loads == 0);
    CHECK(kernel.spill_store_bytes + kernel.spill_load_bytes == 0);
    CHECK(per_product <= kMargin * kGates[i].per_product);
    CHECK(kernel.registers <= kMargin * kGates[i].registers);
  }
}

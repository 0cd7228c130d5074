// The oracle against eager torch on the real exports in ../shared/graphs, read and verified as a user's file would be.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "graph/ir/graph.h"
#include "graph/oracle/reference.h"
#include "graph/read/read_graph.h"
#include "graph/read/safetensors.h"
#include "graph/read/text.h"
#include "tests/paths.h"

using namespace qcg;
namespace fs = std::filesystem;

namespace {

// Signal-to-noise ratio in dB: eager rounds every intermediate, so elements differ; the signal must not.
double snr(const Tensor& got, const Tensor& want) {
  double signal = 0, noise = 0;
  Tensor dense = want.contiguous();
  for (int64_t i = 0; i < got.numel(); ++i) {
    double w = element_to_double(dense.dtype, dense.bytes().data() + i * dtype_bytes(dense.dtype));
    double g = element_to_double(got.dtype, got.bytes().data() + i * dtype_bytes(got.dtype));
    signal += w * w;
    noise += (g - w) * (g - w);
  }
  return noise == 0 ? 999 : 10 * std::log10(signal / noise);
}

Result<std::vector<Tensor>> inputs_of(const Graph& g, const std::string& path) {
  QCG_TRY(file, read_safetensors(path));
  std::vector<Tensor> inputs;
  for (ValueId id : g.inputs) {
    auto it = file.tensors.find(g.value(id).name);
    if (it == file.tensors.end()) return Error::bad_input(path, "no tensor '" + g.value(id).name + "'", "");
    inputs.push_back(it->second);
  }
  return inputs;
}

int check_folder(const fs::path& folder) {
  auto graph = read_graph((folder / "graph.pt2").string());
  if (!graph.ok()) return 0;  // what the readers refuse, and why, is their tests' business
  CHECK_MESSAGE(parse_graph(print_graph(*graph)).ok(), folder.string());
  const bool has_attention = std::ranges::any_of(
      graph->nodes, [](const Node& node) { return node.op->name.find("attention") != std::string::npos; });
  int checked = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string path = entry.path().string();
    constexpr std::string_view kTail = ".inputs.safetensors";
    if (!path.ends_with(kTail)) continue;
    auto inputs = inputs_of(*graph, path);
    auto expected = read_safetensors(path.substr(0, path.size() - kTail.size()) + ".expected.safetensors");
    REQUIRE_MESSAGE(inputs.ok(), inputs.error().to_string());
    REQUIRE_MESSAGE(expected.ok(), expected.error().to_string());
    bool small = path.ends_with("m5.inputs.safetensors");  // without emulation once per graph is enough
    for (bool emulate : small ? std::vector<bool>{true, false} : std::vector<bool>{true}) {
      auto out = evaluate_graph(*graph, *inputs, {emulate});
      REQUIRE_MESSAGE(out.ok(), out.error().to_string());
      for (size_t i = 0; i < out->size(); ++i) {
        auto want = expected->tensors.find(graph->output_names[i]);
        REQUIRE_MESSAGE(want != expected->tensors.end(), path << " " << graph->output_names[i]);
        REQUIRE((*out)[i].shape == want->second.shape);
        double db = snr((*out)[i], want->second);
        // Emulated, most bf16 graphs come out bit for bit; otherwise the noise is eager's own rounding, as it is of what
        // eager rounds inside an attention.
        double floor = (*out)[i].dtype == DType::f32 ? 100 : emulate && !has_attention ? 80 : 35;
        CHECK_MESSAGE(db >= floor, path << " emulate " << emulate << ": " << db << " dB");
      }
    }
    ++checked;
  }
  return checked;
}

double root_mean_square(const Tensor& t) {
  double squares = 0;
  for (int64_t i = 0; i < t.numel(); ++i)
    squares += std::pow(element_to_double(t.dtype, t.bytes().data() + i * dtype_bytes(t.dtype)), 2);
  return std::sqrt(squares / static_cast<double>(t.numel()));
}

const fs::path kGraphs = fs::path(qcg::test::source_dir()).parent_path() / "shared" / "graphs";

bool absent() {
  if (fs::exists(kGraphs)) return false;
  MESSAGE("skipped: no folder " << kGraphs.string());
  return true;
}

}  // namespace

TEST_CASE("the oracle agrees with eager torch on real exports") {
  if (absent()) return;
  int checked = 0;
  for (const auto& entry : fs::directory_iterator(kGraphs))
    if (fs::exists(entry.path() / "graph.pt2")) checked += check_folder(entry.path());
  CHECK(checked >= 10);
}

TEST_CASE("real exports: random weights give finite outputs of order one") {
  if (absent()) return;
  for (const char* name :
       {"llama_mlp_int8wo", "llama_mlp_int4wo_g32", "llama_mlp_da8w8", "llama_mlp_f32", "int8pack_siblings_bf16"}) {
    INFO(std::string(name));
    auto graph = read_graph((kGraphs / name / "graph.json").string(), {{"random:1"}});
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    auto inputs = inputs_of(*graph, (kGraphs / name / "m1.inputs.safetensors").string());
    REQUIRE_MESSAGE(inputs.ok(), inputs.error().to_string());
    auto outputs = evaluate_graph(*graph, *inputs);
    REQUIRE_MESSAGE(outputs.ok(), outputs.error().to_string());
    for (const Tensor& output : *outputs) {
      CHECK(root_mean_square(output) > 0.02);
      CHECK(root_mean_square(output) < 5);
    }
  }
}

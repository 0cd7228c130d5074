// What torch computes of an op, its decomposition, fused and lowered, computes too.
#include "tests/passes/passes_test_util.h"
#include "tests/torch_cases.h"

using namespace qcg;
using namespace qcg::test;

namespace {

bool is_close(DType dtype, double got, double want) {
  if (std::isnan(want) || std::isinf(want)) return std::isnan(want) ? std::isnan(got) : got == want;
  if (!is_floating(dtype)) return got == want;
  const double relative = dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : 4e-6;
  return std::abs(got - want) <= relative * std::max(std::abs(want), 0.25);
}

// Pointwise ops, reductions and what is composed of them: the rest has tests of its own.
bool is_tried(const Graph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    if (functional_name(node.op->name) != node.op->name) return false;
    return node.op->role == OpRole::pointwise || node.op->role == OpRole::reduction ||
           node.op->name == "aten.stack.default" || node.op->name == "aten.baddbmm.default" ||
           node.op->name == "aten.expand_as.default" || node.op->name == "prims.convert_element_type.default";
  });
}

}  // namespace

TEST_CASE("lowered ops compute what torch computes") {
  int tried = 0;
  for (const TorchCase& test : read_torch_cases()) {
    Graph graph = test.graph();
    if (test.is_quantization() || !is_tried(graph)) continue;
    ++tried;
    const auto status = run_passes(graph, {.verify_after_each = true});
    if (!status.ok() && status.error().message.find("has no exact kernel") != std::string::npos) continue;
    REQUIRE_MESSAGE(status.ok(), test.title << ": " << status.error().to_string() << "\n" << test.text);
    for (const Node& node : graph.nodes) CHECK_MESSAGE(node.op->role != OpRole::pointwise, test.title);
    const auto got = evaluate_graph(graph, test.input_tensors());
    REQUIRE(got.ok());
    const std::vector<Tensor> want = test.output_tensors();
    for (size_t i = 0; i < want.size(); ++i) {
      const Tensor flat = (*got)[i].contiguous();
      const size_t step = dtype_bytes(flat.dtype);
      int wrong = 0;
      for (int64_t k = 0; k < flat.numel(); ++k)
        wrong += !is_close(flat.dtype, element_to_double(flat.dtype, flat.bytes().data() + k * step),
                           element_to_double(want[i].dtype, want[i].bytes().data() + k * step));
      CHECK_MESSAGE(wrong == 0, test.title << "\n" << test.text << print_graph(graph));
    }
  }
  CHECK(tried > 300);
}

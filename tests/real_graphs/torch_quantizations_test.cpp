// Quantizations of values computed in bf16 and f16, compiled: the integers of the program are torch's, and the
// oracle's.
#include "graph/read/safetensors.h"
#include "tests/cli_runner.h"
#include "tests/torch_cases.h"

using namespace qcg;
using namespace qcg::test;

namespace {

using Named = std::vector<std::pair<std::string, Tensor>>;

Named with_names(const Graph& graph, const std::vector<ValueId>& ids, std::vector<Tensor> tensors) {
  Named out;
  for (size_t i = 0; i < ids.size(); ++i) out.emplace_back(graph.value(ids[i]).name, std::move(tensors[i]));
  return out;
}

}  // namespace

TEST_CASE("compiled quantizations give torch's integers") {
  TempDir dir;
  int tried = 0;
  for (const TorchCase& test : read_torch_cases()) {
    // The passes' own test tries the others; here each kind of quantization is compiled once per dtype.
    if (!test.is_quantization() || !test.title.ends_with(" of computed exact")) continue;
    ++tried;
    const Graph graph = test.graph();
    spit(dir / "graph.txt", test.text);
    REQUIRE(write_safetensors(dir / "in", with_names(graph, graph.inputs, test.input_tensors())).ok());
    REQUIRE(write_safetensors(dir / "out", with_names(graph, graph.outputs, test.output_tensors())).ok());
    const Run run = qcodegen({"check", dir / "graph.txt", "--inputs", dir / "in", "--expected", dir / "out"});
    CHECK_MESSAGE(run.status == 0, test.title << "\n" << run.out << run.err << test.text);
  }
  CHECK(tried == 28);
}

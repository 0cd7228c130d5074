// torch.export JSON: no crash, and what is read verifies and prints.
#include "graph/read/torch/export.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto document = qcg::JsonDocument::parse(qcg::fuzz::text(data, size), "");
  if (!document.ok()) return 0;
  auto exported = qcg::read_torch_export(*document);
  if (exported.ok()) qcg::fuzz::check_graph(exported->graph);
  return 0;
}

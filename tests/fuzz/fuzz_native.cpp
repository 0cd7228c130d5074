// Native JSON, types inferred.
#include "graph/read/native.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto document = qcg::JsonDocument::parse(qcg::fuzz::text(data, size), "");
  if (!document.ok()) return 0;
  auto graph = qcg::read_native_graph(*document);
  if (graph.ok()) qcg::fuzz::check_graph(*graph);
  return 0;
}

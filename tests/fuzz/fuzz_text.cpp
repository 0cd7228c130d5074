// The IR text form.
#include "tests/fuzz/fuzz.h"
#include "graph/read/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto graph = qcg::parse_graph(qcg::fuzz::text(data, size));
  if (graph.ok()) qcg::fuzz::check_graph(*graph);
  return 0;
}

// The IR text form.
#include "graph/read/text.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto graph = qcg::parse_graph(qcg::fuzz::text(data, size));
  if (graph.ok()) qcg::fuzz::check_graph(*graph);
  return 0;
}

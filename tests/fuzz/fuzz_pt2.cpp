// .pt2 archives. An input is the archive itself, or, when it starts with '{', the weights config inside a good one:
// CRCs would keep the fuzzer from ever changing JSON in an archive.
#include "graph/read/pt2.h"
#include "tests/fuzz/fuzz.h"
#include "tests/graph_read/small_export.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(qcg::fuzz::text(data, size));
  if (bytes.starts_with("{")) bytes = qcg::test::SmallPt2().pack_with_config(bytes);
  auto exported = qcg::read_pt2(bytes, nullptr, "fuzz", qcg::MissingWeights::allow);
  if (exported.ok()) qcg::fuzz::check_graph(exported->graph);
  return 0;
}

// Quantizations of values computed in bf16 and f16, compiled: the integers of the program are torch's, and the
// oracle's.
#include "tests/real_graphs/check_case.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("compiled quantizations give torch's integers") {
  TempDir dir;
  int tried = 0;
  for (const TorchCase& test : read_torch_cases()) {
    // The passes' own test tries the others; here each kind of quantization is compiled once per dtype.
    if (!test.is_quantization() || !test.title.ends_with(" of computed exact")) continue;
    ++tried;
    const Run run = check_case(dir, test);
    CHECK_MESSAGE(run.status == 0, test.title << "\n" << run.out << run.err << test.text);
  }
  CHECK(tried == 28);
}

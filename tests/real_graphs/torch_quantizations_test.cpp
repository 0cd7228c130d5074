// Quantizations of values computed in bf16 and f16, compiled: the integers of the program are torch's, and the
// oracle's.
#include "tests/real_graphs/check_case.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("compiled quantizations give torch's integers") {
  const int checked = check_cases([](const TorchCase& test, const Graph&) {
    // The passes' own test tries the others; here each kind of quantization is compiled once per dtype.
    return test.is_quantization() && test.title.ends_with(" of computed exact");
  });
  CHECK(checked == 28);
}

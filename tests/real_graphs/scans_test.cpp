// Running products and extremes, and products over an axis, compiled: programs give what torch gives.
#include "tests/real_graphs/check_case.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("compiled scans and products give what torch gives") {
  constexpr Op kOps[] = {"aten.cumprod.default", "aten.cummax.default", "aten.cummin.default",
                         "aten.logcumsumexp.default", "aten.prod.dim_int"};
  const int checked = check_cases(is_one_of(kOps), 4);
  CHECK(checked > 10);
}

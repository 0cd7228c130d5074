// Ops of torch's library, compiled: programs give what torch gives.
#include "tests/real_graphs/check_case.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("compiled indices of pools, and what takes them, give what torch gives") {
  constexpr Op kOps[] = {"aten.max_pool1d_with_indices.default",
                         "aten.max_pool2d_with_indices.default",
                         "aten.max_pool3d_with_indices.default",
                         "aten.adaptive_max_pool2d.default",
                         "aten.max_unpool2d.default",
                         "aten.max_unpool3d.default",
                         "aten.conv_transpose3d.input",
                         "aten.adaptive_avg_pool3d.default"};
  const int checked = check_cases(is_one_of(kOps), 2);
  CHECK(checked > 6);
}

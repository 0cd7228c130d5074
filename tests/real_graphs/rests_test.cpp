// Rests of quotients, gamma functions, inverses of the error function, compiled: programs give what torch gives.
#include "tests/real_graphs/check_case.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("compiled rests and special functions give what torch gives") {
  constexpr Op kOps[] = {"aten.fmod.Tensor",      "aten.fmod.Scalar",          "aten.remainder.Tensor",
                         "aten.remainder.Scalar", "aten.copysign.Tensor",      "aten.signbit.default",
                         "aten.ldexp.Tensor",     "aten.lgamma.default",       "aten.digamma.default",
                         "aten.erfinv.default",   "aten.round.decimals",       "aten.special_ndtri.default",
                         "aten.isclose.default",  "aten.special_entr.default", "aten.logaddexp2.default"};
  const int checked = check_cases(is_one_of(kOps), 3);
  CHECK(checked > 20);
}

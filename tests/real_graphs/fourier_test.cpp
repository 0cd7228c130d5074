// Fourier transforms compiled: programs give what torch gives, also where a size is known at run time alone.
#include "tests/real_graphs/check_case.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("compiled Fourier transforms give what torch gives") {
  constexpr Op kOps[] = {"aten._fft_r2c.default", "aten._fft_c2r.default", "aten._fft_c2c.default"};
  const int checked = check_cases(is_one_of(kOps), 4);
  CHECK(checked > 5);
}

TEST_CASE("compiled Fourier transforms of sizes that are known at run time are the oracle's") {
  TempDir dir;
  spit(dir / "graph.txt", R"(symbol n in [0, 64]
graph(%x: f32[3, n]) {
  %z = aten._fft_r2c.default(%x, dim = [1], normalization = 1, onesided = true) : f32[3, floordiv(n,2)+1, 2]
  %w = aten._fft_c2c.default(%z, dim = [0, 1], normalization = 2, forward = false) : f32[3, floordiv(n,2)+1, 2]
  return %z, %w
}
)");
  const Run checked = qcodegen({"check", dir / "graph.txt"});
  CHECK_MESSAGE(checked.status == 0, checked.out << checked.err);
  const Run refused = [&] {
    spit(dir / "refused.txt",
         "symbol n in [2, 64]\ngraph(%z: f32[3, n, 2]) {\n"
         "  %y = aten._fft_c2r.default(%z, dim = [1], normalization = 0, last_dim_size = 2*n-2) : f32[3, 2*n-2]\n"
         "  return %y\n}\n");
    return qcodegen({"explain", dir / "refused.txt"});
  }();
  CHECK(refused.status != 0);
  CHECK_MESSAGE(refused.err.find("argument 'last_dim_size': it is known only at run time") != std::string::npos,
                refused.err);
}

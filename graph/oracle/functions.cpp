// The oracle's rules for functions of each element that have more than one result, or as many terms as an argument says.
#include <cmath>

#include "graph/oracle/ops.h"

namespace qcg {
namespace {

Result<Tensors> run_log_gamma_of_many(const RefContext& c) {
  std::vector<double> out = read_doubles(c.tensor("self").data);
  const auto p = static_cast<double>(c.integer("p"));
  for (double& x : out) {
    double sum = p * (p - 1) / 4 * std::log(M_PI);
    for (double j = 0; j < p; ++j) {
      int sign = 0;
      sum += lgamma_r(x - j / 2, &sign);
    }
    x = sum;
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_mantissa(const RefContext& c) {
  std::vector<double> out = read_doubles(c.tensor("self").data);
  std::vector<int64_t> exponents;
  for (double& x : out) {
    int exponent = 0;
    x = std::frexp(x, &exponent);
    exponents.push_back(std::isfinite(x) ? exponent : 0);
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out)), make_ints(c.sizes(1), std::move(exponents))};
}

Result<Tensors> run_rectified(const RefContext& c) {
  std::vector<double> out = read_doubles(c.tensor("self").data);
  for (double& x : out)
    if (x < 0) x *= (c.number("lower") + c.number("upper")) / 2;
  return Tensors{make_doubles(c.sizes(0), std::move(out)), c.tensor("noise").data};
}

constexpr RefRow kFunctionRules[] = {
    {"aten.mvlgamma.default", run_log_gamma_of_many},
    {"aten.frexp.Tensor", run_mantissa},
    {"aten.rrelu_with_noise_functional.default", run_rectified},
};

}  // namespace

std::span<const RefRow> reference_functions() { return kFunctionRules; }

}  // namespace qcg

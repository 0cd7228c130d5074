// Gamma functions and inverses of the error function, in double, for expr.h.
//
// Why here: the C++ library has only one of them.
//
//   inverse_erf(std::erf(0.5)) == 0.5
//
// At poles and beyond a domain they are what torch gives.
#pragma once

namespace qcg {

double log_gamma(double x);  // of |gamma(x)|
double digamma(double x);    // its derivative
double inverse_erf(double y);
double inverse_normal(double p);  // x where a standard normal variable is below x with probability p

}  // namespace qcg

// Gamma, zeta and Bessel functions, scaled error functions and inverses, in double, for expr.h.
//
// Why here: the C++ library has few of these functions, and its own do not take all arguments.
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

double bessel_i0(double x);  // the modified one of order 0; e: times e^-|x|
double bessel_i0e(double x);
double bessel_i1(double x);
double bessel_i1e(double x);
double scaled_erfc(double x);     // e^(x^2) erfc(x)
double log_normal(double x);      // the logarithm of that probability
double trigamma(double x);        // the derivative of digamma
double zeta(double s, double a);  // sum (a + k)^-s

}  // namespace qcg

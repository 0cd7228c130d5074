// DefaultFloats: while it lives, its thread's floats are as kernels expect them: rounded to nearest, with denormals, without
// traps. What the host had set comes back at its end.
//
// Why here: hosts flush denormals (audio, -ffast-math, torch.set_flush_denormal) or round otherwise, but the pool's threads
// do not: results would depend on which thread took which item.
#pragma once

#include <cfenv>

namespace qcg {

class DefaultFloats {
 public:
  DefaultFloats() { std::fegetenv(&before_), std::fesetenv(FE_DFL_ENV); }
  ~DefaultFloats() { std::fesetenv(&before_); }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace qcg

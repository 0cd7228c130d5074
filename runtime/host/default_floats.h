// DefaultFloats: sets the floating-point state that kernels expect for its thread: rounding to nearest, denormals, no
// traps. Its destructor restores the host's state.
//
// Why here: some hosts flush denormals (audio, -ffast-math, torch.set_flush_denormal) or change the rounding mode. The
// pool's threads do not, so without this class results would depend on which thread ran which item.
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

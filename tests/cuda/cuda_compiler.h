// The compiler of CUDA kernels, or a message that the test is skipped.
//
//   const auto tool = cuda_compiler();
//   if (!tool) return;
#pragma once

#include <doctest/doctest.h>

#include <optional>

#include "cache/toolchain/toolchain.h"

namespace qcg::test {

inline std::optional<Toolchain> cuda_compiler() {
  auto tool = find_cuda();
  if (tool.ok()) return *tool;
  MESSAGE("skipped: ", tool.error().message);
  return std::nullopt;
}

}  // namespace qcg::test

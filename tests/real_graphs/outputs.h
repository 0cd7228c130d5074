// What a program gave against what eager torch computed, and which targets this host runs.
//
//   compare_files(dir / "out.safetensors", stem + ".expected.safetensors", rounded);
#pragma once

#include <cmath>
#include <string>

#include "graph/read/safetensors.h"
#include "tests/cli_runner.h"

namespace qcg::test {

// Largest error relative to the largest value, and error norm relative to norm: what rounding in another order
// explains.
struct Bounds {
  double largest, norm;
};
inline constexpr Bounds kEqual = {0, 0};
inline Bounds bounds_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return {2e-4, 1e-4};
    case DType::f16: return {1e-2, 5e-3};
    case DType::bf16: return {4e-2, 1.2e-2};
    default: return kEqual;
  }
}

inline void compare(const Tensor& got_view, const Tensor& want_view, const Bounds& bounds) {
  REQUIRE(got_view.dtype == want_view.dtype);
  REQUIRE(got_view.shape == want_view.shape);
  const Tensor got = got_view.contiguous(), want = want_view.contiguous();
  const size_t size = dtype_bytes(got.dtype);
  double worst = 0, largest = 0, noise = 0, signal = 0;
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double g = element_to_double(got.dtype, got.bytes().data() + static_cast<size_t>(i) * size);
    const double w = element_to_double(want.dtype, want.bytes().data() + static_cast<size_t>(i) * size);
    const double error = std::isfinite(g) ? std::fabs(g - w) : HUGE_VAL;
    worst = std::max(worst, error);
    largest = std::max(largest, std::fabs(w));
    noise += error * error;
    signal += w * w;
  }
  CHECK(worst <= bounds.largest * largest);
  CHECK(std::sqrt(noise) <= bounds.norm * std::sqrt(signal));
}

inline bool host_has(const std::string& target) {
  const auto targets = qcodegen({"list", "targets", "--json"}).json();
  for (const auto& row : targets["rows"])
    if (row["name"] == target) return row["host"] == "yes";
  FAIL("no target ", target);
  return false;
}

// How close outputs have to be: as rounding in another order explains, behind a layer or two or behind a whole model; to
// the bit; or as where a rounded activation may become another code.
enum Closeness { rounded, deep, exact, quantized };

inline Bounds bounds_at(DType dtype, Closeness closeness) {
  const Bounds once = bounds_of(dtype);
  if (closeness == exact || !is_floating(dtype)) return kEqual;
  if (closeness == quantized) return {6e-2, 3e-2};
  return closeness == deep ? Bounds{2 * once.largest, 2 * once.norm} : once;
}

// Every tensor of the file of expected ones.
inline void compare_files(const std::string& got_path, const std::string& want_path, Closeness closeness) {
  auto got = read_safetensors(got_path), want = read_safetensors(want_path);
  REQUIRE(got.ok());
  REQUIRE(want.ok());
  for (const auto& [name, tensor] : want->tensors) {
    INFO("tensor ", name);
    REQUIRE(got->tensors.contains(name));
    compare(got->tensors.at(name), tensor, bounds_at(tensor.dtype, closeness));
  }
}

}  // namespace qcg::test

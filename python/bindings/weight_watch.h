// WeightWatch: whether weights that were packed into programs are still what they were then.
//
// Why here: a call asks it of every weight, so it must cost little. torch counts writes, but not those through `.data`,
// and counts none of tensors that were made in inference mode.
//
//   WeightWatch watch({weight, bias});
//   watch.is_unchanged();               // false after weight.mul_(2), weight.data = other, weight.data.copy_(other)
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace qcg::python {

class WeightWatch {
 public:
  explicit WeightWatch(const std::vector<nanobind::object>& tensors);
  // Needs the GIL. A write through `.data` that leaves the sampled elements as they are is not seen.
  bool is_unchanged() const;

 private:
  struct Watched {
    explicit Watched(nanobind::object given);
    bool is_unchanged() const;

    nanobind::object tensor;
    bool exports_all = false, counts_versions = false;
    int64_t version = 0;
    const std::byte* data = nullptr;  // null: there is no memory to look at, or no element
    std::vector<int64_t> shape, strides, offsets;
    size_t width = 0;  // bytes of an element
    std::vector<std::byte> samples;
  };
  std::vector<Watched> watched_;
};

}  // namespace qcg::python

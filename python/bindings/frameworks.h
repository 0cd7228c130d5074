// Whose arrays a program's outputs are: numpy's, or those of the framework that its inputs come from.
//
// Why here: torch in, torch out. Neither numpy nor torch is imported before somebody needs it.
//
//   const Framework& framework = framework_of(inputs);
//   nb::object y = framework.allocate(DType::bf16, {2, 256});      // torch.empty, numpy.empty
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace qcg::python {

// "bfloat16": the name of a dtype in torch, and in numpy or ml_dtypes.
std::string_view array_dtype_name(DType dtype);

class Framework {
 public:
  // A new tensor whose elements have no value yet, in host memory or on the first device. Needs the GIL. Throws
  // qcodegen.Error: the framework makes no tensors on a device here.
  nanobind::object allocate(DType dtype, std::span<const int64_t> shape, bool on_device = false) const;
  // The array as one of this framework, sharing its memory where the framework can.
  nanobind::object adopt(nanobind::object array) const;

  // Tells the framework that a tensor of its was written to: torch counts the versions of what autograd has saved.
  void note_write(nanobind::handle array) const;

  static const Framework& numpy();
  static const Framework& of_module(std::string_view root);

 private:
  nanobind::object empty_;        // torch.empty, numpy.empty
  nanobind::object host_;         // of torch: the device of host memory, since torch.empty has a default of its own
  nanobind::object add_version_;  // of torch: increment_version
  std::array<nanobind::object, kDTypes.size()> dtypes_;
  bool is_torch_ = false;
  nanobind::object from_dlpack_;  // of a framework that is neither
};

// That of an array or tensor; numpy's for anything else.
const Framework& framework_of(nanobind::handle array);

// That of the first input which is no array of numpy; numpy's where there is none.
const Framework& framework_of(std::span<const nanobind::handle> inputs);

// numpy's view of memory that `owner` keeps: what state[name] gives. A dtype that numpy lacks is of ml_dtypes, or
// unsigned integers of its bits where that package is missing.
nanobind::object numpy_view(void* data, DType dtype, std::span<const int64_t> shape, nanobind::handle owner);

}  // namespace qcg::python

// TensorView: a borrowed tensor of the caller: pointer, dtype, shape, strides.
//
// Why here: Program and Context take TensorViews; the C API converts DLTensor structs to them.
//
//   std::vector<int64_t> shape = {2, 8};
//   TensorView x{data, DType::f32, shape, {}};     // no strides: dense, row-major
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/result.h"

namespace qcg {

struct TensorView {
  void* data = nullptr;  // address of element [0, 0, …]; may be null if there are no elements
  DType dtype = DType::f32;
  std::span<const int64_t> shape;    // must outlive the view
  std::span<const int64_t> strides;  // in elements; empty = dense row-major
  bool on_device = false;            // data is an address of the program's device, not for the host
};

// DLPack's numbers of kinds of memory.
enum DeviceType : int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLROCM = 10, kDLROCMHost = 11 };

// Whether a tensor is on the device of a program, rather than in host memory. `program` is the number of the memory that
// the program's kernels use: kDLCPU, kDLCUDA or kDLROCM. Error Unsupported: it is in memory that they cannot use.
Result<bool> is_on_device(const std::string& where, int32_t device_type, int32_t device_id, DeviceType program);

// The bytes of a dense tensor; nullopt if an extent is negative or the bytes exceed int64.
std::optional<int64_t> byte_count(std::span<const int64_t> shape, DType dtype);

bool is_dense(const TensorView& view);    // row-major without gaps; axes of extent 1 do not matter
bool is_aligned(const TensorView& view);  // data is a multiple of the element size

// Copies between a strided tensor and dense row-major bytes.
void copy_to_dense(const TensorView& from, void* to);
void copy_from_dense(const void* from, const TensorView& to);

// Error BadInput: `given` is not the number `wanted` of the program's tensors; `what` is "inputs" or "outputs".
Status check_count(const char* what, int64_t given, size_t wanted);

std::string shape_text(std::span<const int64_t> shape);  // "[2, 8]"

}  // namespace qcg

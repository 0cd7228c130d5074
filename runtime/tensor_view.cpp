#include "runtime/tensor_view.h"

#include <cstring>

namespace qcg {
namespace {

// Walks the axes, outermost first. `dense` advances by one element per copied element.
template <bool kToDense>
void copy_axis(const TensorView& view, size_t axis, std::byte* strided, std::byte*& dense, bool inner_dense) {
  const int64_t size = static_cast<int64_t>(dtype_bytes(view.dtype));
  const bool last = axis + 1 == view.shape.size();
  if (axis == view.shape.size() || (last && inner_dense)) {
    const size_t bytes = static_cast<size_t>(size * (last ? view.shape[axis] : 1));
    kToDense ? std::memcpy(dense, strided, bytes) : std::memcpy(strided, dense, bytes);
    dense += bytes;
    return;
  }
  for (int64_t i = 0; i < view.shape[axis]; ++i)
    copy_axis<kToDense>(view, axis + 1, strided + i * view.strides[axis] * size, dense, inner_dense);
}

template <bool kToDense>
void copy_view(const TensorView& view, std::byte* dense) {
  const auto bytes = byte_count(view.shape, view.dtype);
  if (!bytes || *bytes == 0) return;
  auto* strided = static_cast<std::byte*>(view.data);
  if (is_dense(view)) {
    kToDense ? std::memcpy(dense, strided, static_cast<size_t>(*bytes))
             : std::memcpy(strided, dense, static_cast<size_t>(*bytes));
    return;
  }
  copy_axis<kToDense>(view, 0, strided, dense, view.strides.back() == 1);
}

}  // namespace

std::optional<int64_t> byte_count(std::span<const int64_t> shape, DType dtype) {
  int64_t bytes = static_cast<int64_t>(dtype_bytes(dtype));
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) empty = true;
    else if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

bool is_dense(const TensorView& view) {
  if (view.strides.empty()) return true;
  int64_t expected = 1;
  for (size_t axis = view.shape.size(); axis-- > 0;) {
    if (view.shape[axis] == 0) return true;
    if (view.shape[axis] != 1 && view.strides[axis] != expected) return false;
    expected *= view.shape[axis];
  }
  return true;
}

bool is_aligned(const TensorView& view) {
  return reinterpret_cast<uintptr_t>(view.data) % dtype_bytes(view.dtype) == 0;
}

Result<bool> is_on_device(const std::string& where, int32_t device_type, int32_t device_id, DeviceType program) {
  if (device_type == kDLCPU || device_type == kDLCUDAHost || device_type == kDLROCMHost) return false;
  const std::string on_cpu = program == kDLCPU ? "a CPU" : "DLPack device type " + std::to_string(program);
  if (device_type != program)
    return Error::unsupported(
        where, "is on DLPack device type " + std::to_string(device_type) + ", the program runs on " + on_cpu,
        "copy the tensor to the CPU" + std::string(program == kDLCPU ? "" : ", or to that device"));
  if (device_id != 0)
    return Error::unsupported(where, "is on device " + std::to_string(device_id) + ", the program runs on device 0",
                              "copy the tensor to device 0");
  return true;
}

void copy_to_dense(const TensorView& from, void* to) { copy_view<true>(from, static_cast<std::byte*>(to)); }

void copy_from_dense(const void* from, const TensorView& to) {
  copy_view<false>(to, static_cast<std::byte*>(const_cast<void*>(from)));
}

Status check_count(const char* what, int64_t given, size_t wanted) {
  if (given == static_cast<int64_t>(wanted)) return {};
  const std::string name = what;
  return Error::bad_input(
      name, std::to_string(given) + " tensors given, the program has " + std::to_string(wanted) + " " + name,
      "pass exactly one tensor per " + name.substr(0, name.size() - 1) + ", in the program's order");
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace qcg

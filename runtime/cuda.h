// CudaDriver: the NVIDIA driver, loaded at run time: modules, memory, copies, launches. Nothing of CUDA is linked.
//
// Why here: it is the loader arm of the second device; a program compiled for cuda:sm_* runs through this and a machine
// without a driver gets an Error that says so. Source: CUDA Driver API, entry points with their versioned names.
//
//   QCG_TRY(driver, CudaDriver::load());
//   QCG_TRY(kernel, driver->load_kernel(cubin, "qcg_kernel_0"));
//   QCG_TRY(x, driver->allocate(bytes));
//   QCG_CHECK(driver->launch(kernel, {.grid_x = 4, .grid_y = 2, .threads = 128, .shared_bytes = 49152}, &args, sizeof args));
//
// All calls use the primary context of device 0 and the default stream; launch() returns when the kernel is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace qcg {

class CudaDriver;

// Bytes on the device, freed with the object.
class CudaBuffer {
 public:
  CudaBuffer() = default;
  CudaBuffer(CudaBuffer&& other) noexcept { *this = std::move(other); }
  CudaBuffer& operator=(CudaBuffer&& other) noexcept;
  ~CudaBuffer();

  void* data() const { return reinterpret_cast<void*>(address_); }  // a device address: never dereferenced here
  size_t bytes() const { return bytes_; }

 private:
  friend class CudaDriver;
  std::shared_ptr<CudaDriver> driver_;
  uint64_t address_ = 0;
  size_t bytes_ = 0;
};

// One kernel of a loaded cubin. The module is unloaded with the last copy.
struct CudaKernel {
  std::shared_ptr<void> module;
  void* function = nullptr;
};

struct CudaGrid {
  uint32_t grid_x = 1, grid_y = 1;
  uint32_t threads = 1;
  uint32_t shared_bytes = 0;  // dynamic
};

class CudaDriver : public std::enable_shared_from_this<CudaDriver> {
 public:
  // Errors: Unsupported when there is no driver or no device; the message says which, and what the loader said.
  static Result<std::shared_ptr<CudaDriver>> load();
  ~CudaDriver();

  const std::string& device_name() const { return device_name_; }
  int compute_capability() const { return capability_; }  // 80, 90

  // Errors: BadInput when the image is not for this device or has no such kernel.
  Result<CudaKernel> load_kernel(std::string_view cubin, const std::string& symbol);
  Result<CudaBuffer> allocate(size_t bytes);
  Status copy_in(const CudaBuffer& to, const void* from, size_t bytes);
  Status copy_out(void* to, const CudaBuffer& from, size_t bytes);
  // `args` is the kernel's one by-value parameter.
  Status launch(const CudaKernel& kernel, const CudaGrid& grid, const void* args, size_t args_bytes);

 private:
  friend class CudaBuffer;
  struct Api;
  CudaDriver() = default;
  Status check(int code, std::string_view what) const;

  std::unique_ptr<Api> api_;
  void* context_ = nullptr;
  int device_ = 0;
  int capability_ = 0;
  std::string device_name_;
};

}  // namespace qcg

// CudaDriver: NVIDIA's driver or AMD's, opened by dlopen: modules, memory, copies, launches. Nothing of CUDA or HIP is
// linked.
//
// Why here: programs for cuda:* and hip:* run through this class; on a machine without a driver, loading them is an
// Error that says so. Source: the CUDA Driver API, with the versioned names of its entry points.
//
//   QCG_TRY(driver, CudaDriver::load());
//   QCG_TRY(kernel, driver->load_kernel(cubin, "qcg_kernel_0"));
//   QCG_TRY(x, driver->allocate(bytes));
//   const CudaGrid grid{.grid_x = 4, .grid_y = 2, .threads = 128, .shared_bytes = 49152};
//   QCG_CHECK(driver->launch(kernel, grid, &args, sizeof args));
//
// All calls use the primary context of device 0, and the default stream unless they name another. launch() waits for
// the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace qcg {

class CudaDriver;

// A block of device memory. The destructor frees it.
class CudaBuffer {
 public:
  CudaBuffer() = default;
  CudaBuffer(CudaBuffer&& other) noexcept { *this = std::move(other); }
  CudaBuffer& operator=(CudaBuffer&& other) noexcept;
  ~CudaBuffer();

  void* data() const { return reinterpret_cast<void*>(address_); }  // a device address, not for the host
  size_t bytes() const { return bytes_; }

 private:
  friend class CudaDriver;
  std::shared_ptr<CudaDriver> driver_;
  uint64_t address_ = 0;
  size_t bytes_ = 0;
};

// A kernel of a loaded cubin. The last copy of this object unloads the module.
struct CudaKernel {
  std::shared_ptr<void> module;
  void* function = nullptr;
};

struct CudaGrid {
  uint32_t grid_x = 1, grid_y = 1;
  uint32_t threads = 1;
  uint32_t shared_bytes = 0;  // dynamic shared memory
  friend bool operator==(const CudaGrid&, const CudaGrid&) = default;
};

// A stream of the device, for launch_on. The last copy ends it.
using CudaStream = std::shared_ptr<void>;
// A place in a stream's work. The last copy frees it.
using CudaEvent = std::shared_ptr<void>;
// Launches that were recorded once and start together. The last copy frees them; kernels and memory must outlive it.
using CudaGraph = std::shared_ptr<void>;

// What a device says of itself. Hz, bytes.
struct CudaProperties {
  int multiprocessors = 0;
  double clock_hz = 0;  // at most
  int64_t l2_bytes = 0;
};

// NVIDIA's driver, or AMD's with the same functions under other names.
enum class DeviceApi { cuda, hip };

class CudaDriver : public std::enable_shared_from_this<CudaDriver> {
 public:
  // Error Unsupported: there is no driver or no device; the message says which, and quotes the dynamic linker.
  static Result<std::shared_ptr<CudaDriver>> load(DeviceApi api = DeviceApi::cuda);
  ~CudaDriver();

  const std::string& device_name() const { return device_name_; }
  int compute_capability() const { return capability_; }  // 80, 90
  // Of one block, in bytes. Devices of one architecture differ: 163 KiB on an A100, 99 KiB on its siblings 8.6 and 8.9.
  int most_shared_bytes() const { return most_shared_bytes_; }
  // Why the device cannot run cubins for `isa`, such as "sm_80" (8.0 and later minor versions) or "sm_90a" (9.0 alone);
  // empty: it can. Source: CUDA C++ Programming Guide, binary compatibility and architecture-specific features. A
  // device of HIP runs code objects of its own architecture, such as "gfx90a".
  std::string why_lacks(std::string_view isa) const;

  // Error BadInput: the cubin is not for this device, or has no such kernel.
  Result<CudaKernel> load_kernel(std::string_view cubin, const std::string& symbol);
  Result<CudaBuffer> allocate(size_t bytes);
  Status copy_in(const CudaBuffer& to, const void* from, size_t bytes);
  Status copy_out(void* to, const CudaBuffer& from, size_t bytes);
  // From or to a device address on, which the caller answers for.
  Status copy_out_at(void* to, const void* address, size_t bytes);
  Status copy_in_at(void* address, const void* from, size_t bytes);
  // The same on a stream, after what it has. It may return before page-locked memory of the host has been read; other
  // memory it has read then.
  Status copy_in_on(void* stream, void* address, const void* from, size_t bytes);
  // Between two addresses of the device.
  Status copy_on_device(void* to, const void* from, size_t bytes);
  Status clear(const CudaBuffer& buffer);  // all bytes become 0
  // `args` are the bytes of the kernel's one parameter, which is passed by value.
  Status launch(const CudaKernel& kernel, const CudaGrid& grid, const void* args, size_t args_bytes);
  // The same on a stream of the caller, or the default stream if it is null. It does not wait for the kernel.
  Status launch_on(void* stream, const CudaKernel& kernel, const CudaGrid& grid, const void* args, size_t args_bytes);
  // Waits for all that is on the stream, or on the default stream if it is null.
  Status synchronize(void* stream);

  Result<CudaEvent> create_event();
  // The event is behind what is on the stream now.
  Status record_event(const CudaEvent& event, void* stream);
  Status wait_for(const CudaEvent& event);
  // What comes onto the stream from now on waits for the event; the caller does not.
  Status order_after(const CudaEvent& event, void* stream);

  Result<CudaProperties> properties() const;
  Result<CudaStream> create_stream();
  // What `launches` puts on the stream is recorded and does not run.
  Result<CudaGraph> record(const CudaStream& stream, const std::function<Status()>& launches);
  // Puts the launches of a graph on the stream, or on the default stream if it is null.
  Status replay(const CudaGraph& graph, void* stream);
  // Seconds, by the device's clock, of what `work` puts on the stream. It waits for it.
  Result<double> time(const CudaStream& stream, const std::function<Status()>& work);

 private:
  friend class CudaBuffer;
  struct Api;
  CudaDriver() = default;
  Status check(int code, std::string_view what) const;
  Status find_capability();
  Status find_architecture();

  std::unique_ptr<Api> api_;
  void* context_ = nullptr;
  int device_ = 0;
  int capability_ = 0;
  int most_shared_bytes_ = 64 << 10;  // of HIP: the LDS of gfx90a
  DeviceApi which_ = DeviceApi::cuda;
  std::string architecture_;  // of a device of HIP: "gfx90a"
  std::string device_name_;
};

}  // namespace qcg

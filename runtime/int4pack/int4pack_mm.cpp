#include <cstdio>
#include <initializer_list>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "runtime/cuda.h"
#include "runtime/int4pack/qcg_int4pack.h"

// The PTX of int4pack_mm.cu, which any later device compiles when it loads it.
asm(".pushsection .rodata\n"
    ".hidden qcg_int4pack_ptx, qcg_int4pack_ptx_end\n"
    ".global qcg_int4pack_ptx, qcg_int4pack_ptx_end\n"
    "qcg_int4pack_ptx: .incbin \"" QCG_INT4PACK_PTX
    "\"\n"
    "qcg_int4pack_ptx_end: .byte 0\n"
    ".popsection\n");
extern "C" const char qcg_int4pack_ptx[], qcg_int4pack_ptx_end[];

namespace qcg {
namespace {

constexpr int32_t kCuda = 2;                                                 // kDLCUDA
constexpr qcg_dtype kBf16 = {4, 16, 1}, kI32 = {0, 32, 1};                   // DLPack's codes
constexpr int kThreads = 256, kBlockRows = 8, kBlockColumns = 32;            // as in int4pack_mm.cu
constexpr int64_t kMostRows = int64_t{65535} * kBlockRows, kMost = 1 << 24;  // rows of a grid; n and k
constexpr int kOldest = 80;                                                  // compute capability

thread_local char last_error[1024] = "";

// As in int4pack_mm.cu.
struct Arguments {
  const void *x, *weight, *scale_and_zero;
  void* y;
  int32_t m, n, k, group, words_log2;
};

struct Named {
  const char* name;
  const qcg_dltensor* tensor;
  qcg_dtype dtype;
  int32_t rank;
  uintptr_t alignment;

  int64_t extent(int axis) const { return tensor->shape[axis]; }
  std::byte* data() const { return static_cast<std::byte*>(tensor->data) + tensor->byte_offset; }
};

Error wrong(const char* name, std::string message) {
  return Error::bad_input(name, std::move(message), "see qcg_int4pack.h");
}

std::string shape_of(const Named& t) {
  std::string out = "[";
  for (int axis = 0; axis < t.rank; ++axis) out += (axis ? ", " : "") + std::to_string(t.extent(axis));
  return out + "]";
}

// All that can be said of one tensor alone.
Status check_tensor(const Named& t) {
  if (t.tensor == nullptr) return wrong(t.name, "is NULL");
  const qcg_dltensor& d = *t.tensor;
  if (d.device.device_type != kCuda) return wrong(t.name, "is not on a CUDA device");
  if (d.device.device_id != 0)
    return wrong(t.name, "is on CUDA device " + std::to_string(d.device.device_id) + ", not 0");
  if (d.dtype.code != t.dtype.code || d.dtype.bits != t.dtype.bits || d.dtype.lanes != 1)
    return wrong(t.name, t.dtype.code == kBf16.code ? "is not bf16" : "is not i32");
  if (d.ndim != t.rank) return wrong(t.name, "has " + std::to_string(d.ndim) + " axes, not " + std::to_string(t.rank));
  if (d.shape == nullptr) return wrong(t.name, "has no shape");
  int64_t dense = 1;
  for (int axis = t.rank; axis-- > 0;) {
    if (d.shape[axis] < 0 || __builtin_mul_overflow(dense, std::max<int64_t>(d.shape[axis], 1), &dense))
      return wrong(t.name, "has the impossible shape " + shape_of(t));
  }
  dense = 1;
  for (int axis = t.rank; axis-- > 0; dense *= d.shape[axis])
    if (d.strides != nullptr && d.shape[axis] > 1 && d.strides[axis] != dense)
      return wrong(t.name, "is not dense and row-major");
  if (d.data == nullptr && dense > 0) return wrong(t.name, "has no data");
  if (reinterpret_cast<uintptr_t>(t.data()) % t.alignment != 0)
    return wrong(t.name, "does not lie at a multiple of " + std::to_string(t.alignment) + " bytes");
  return {};
}

Result<Arguments> check_all(const qcg_dltensor* x_tensor, const qcg_dltensor* weight_tensor, int64_t group,
                            const qcg_dltensor* scales_tensor, const qcg_dltensor* out_tensor) {
  const Named x{"x", x_tensor, kBf16, 2, 4}, weight{"weight", weight_tensor, kI32, 4, 16},
      scales{"scale_and_zero", scales_tensor, kBf16, 3, 4}, out{"out", out_tensor, kBf16, 2, 2};
  for (const Named& tensor : {x, weight, scales, out}) QCG_CHECK(check_tensor(tensor));
  const int64_t m = x.extent(0), k = x.extent(1), inner = weight.extent(3) * 2, n = weight.extent(0) * 8;
  if (group != 32 && group != 64 && group != 128 && group != 256)
    return wrong("group", std::to_string(group) + " is none of 32, 64, 128 and 256");
  if (inner != 2 && inner != 4 && inner != 8)
    return wrong("weight", "has the shape " + shape_of(weight) + ", whose last extent is none of 1, 2 and 4");
  if (weight.extent(2) != 32)
    return wrong("weight", "has the shape " + shape_of(weight) + ", whose third extent is not 32");
  if (n <= 0 || n > kMost) return wrong("weight", "has " + std::to_string(n) + " columns, not 8 to 2^24");
  if (k <= 0 || k > kMost || k % (16 * inner) != 0 || weight.extent(1) != k / (16 * inner))
    return wrong("weight", "has the shape " + shape_of(weight) + ", and x " + shape_of(x) +
                               ": the second extent is not k / " + std::to_string(16 * inner));
  if (k % group != 0)
    return wrong("group", std::to_string(group) + " does not divide k, which is " + std::to_string(k));
  if (scales.extent(0) != k / group || scales.extent(1) != n || scales.extent(2) != 2)
    return wrong("scale_and_zero", "has the shape " + shape_of(scales) + ", not [" + std::to_string(k / group) + ", " +
                                       std::to_string(n) + ", 2]");
  if (out.extent(0) != m || out.extent(1) != n)
    return wrong("out",
                 "has the shape " + shape_of(out) + ", not [" + std::to_string(m) + ", " + std::to_string(n) + "]");
  if (m > kMostRows) return wrong("x", "has " + std::to_string(m) + " rows, more than " + std::to_string(kMostRows));
  return Arguments{x.data(),
                   weight.data(),
                   scales.data(),
                   out.data(),
                   static_cast<int32_t>(m),
                   static_cast<int32_t>(n),
                   static_cast<int32_t>(k),
                   static_cast<int32_t>(group),
                   inner == 2   ? 0
                   : inner == 4 ? 1
                                : 2};
}

struct Device {
  std::shared_ptr<CudaDriver> driver;
  CudaKernel kernel;
};

// Never destroyed: the driver may be gone when a process ends.
Result<const Device*> device() {
  static auto& mutex = *new std::mutex();
  static auto& loaded = *new std::optional<Device>();
  const std::lock_guard lock(mutex);
  if (loaded) return &*loaded;
  QCG_TRY(driver, CudaDriver::load());
  if (driver->compute_capability() < kOldest)
    return Error::unsupported("cuda", driver->device_name() + " is older than compute capability 8.0",
                              "use a device since Ampere");
  const std::string_view ptx(qcg_int4pack_ptx, static_cast<size_t>(qcg_int4pack_ptx_end - qcg_int4pack_ptx));
  QCG_TRY(kernel, driver->load_kernel(ptx, "qcg_int4pack_mm"));
  loaded = Device{std::move(driver), std::move(kernel)};
  return &*loaded;
}

Status multiply(const qcg_dltensor* x, const qcg_dltensor* weight, int64_t group, const qcg_dltensor* scale_and_zero,
                const qcg_dltensor* out, void* stream) {
  QCG_TRY(arguments, check_all(x, weight, group, scale_and_zero, out));
  if (arguments.m == 0) return {};
  QCG_TRY(on, device());
  const CudaGrid grid{static_cast<uint32_t>((arguments.n + kBlockColumns - 1) / kBlockColumns),
                      static_cast<uint32_t>((arguments.m + kBlockRows - 1) / kBlockRows), kThreads, 0};
  return on->driver->launch_on(stream, on->kernel, grid, &arguments, sizeof arguments);
}

qcg_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::BadInput: return QCG_ERROR_BAD_INPUT;
    case ErrorCode::Unsupported: return QCG_ERROR_UNSUPPORTED;
    case ErrorCode::Io: return QCG_ERROR_IO;
    default: return QCG_ERROR_INTERNAL;
  }
}

}  // namespace
}  // namespace qcg

extern "C" {

qcg_status qcg_cuda_int4pack_mm(const qcg_dltensor* x, const qcg_dltensor* weight, int64_t group,
                                const qcg_dltensor* scale_and_zero, const qcg_dltensor* out, void* stream) {
  try {
    const qcg::Status status = qcg::multiply(x, weight, group, scale_and_zero, out, stream);
    if (status.ok()) return QCG_OK;
    std::snprintf(qcg::last_error, sizeof qcg::last_error, "%s", status.error().to_string().c_str());
    return qcg::status_of(status.error().code);
  } catch (...) {
    std::snprintf(qcg::last_error, sizeof qcg::last_error, "error[Io]: out of memory");
    return QCG_ERROR_IO;
  }
}

const char* qcg_cuda_int4pack_error(void) { return qcg::last_error; }

}  // extern "C"

// CublasLt: NVIDIA's matrix product, opened by dlopen and timed beside the CUDA kernels. Never the oracle, never
// linked.
//
// Why here: as oneDNN on a CPU, it says by how much ours win or lose. What a problem is compared with is decided here,
// without the library or a device.
//
//   QCG_TRY(lt, CublasLt::load());                                             // needs no device
//   const auto way = cublaslt_way(problem);                                    // what to compare with, if anything
//   QCG_TRY(matmul, lt->matmul({m, problem.n_total(), problem.k, way->weight}));  // needs the device
//   for (size_t i = 0; i < matmul.algorithms(); ++i)                           // the caller times each
//     QCG_CHECK(matmul.run(i, stream, x, w, y, workspace));
//
// It works in the primary context of device 0, which is that of CudaDriver: keep a CudaDriver alive beside it. load()
// may be called before a fork; matmul() starts CUDA, which does not survive one. One thread at a time may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/gemm/problem.h"
#include "codegen/vendor/cublaslt_api.h"
#include "codegen/vendor/vendor_matmul.h"
#include "codegen/vendor/vendor_module.h"

namespace qcg {

// Bytes of device memory that every run() may use. Runs on two streams need one each.
inline constexpr size_t kCublasLtWorkspace = size_t{32} << 20;

// y[M, N] = x[M, K] · w[N, K]ᵀ, all row-major without gaps. x and w are bf16, f16 or f32 (no TF32), as y is; or f8e4m3,
// and y is bf16, of sums that are promoted to f32 at intervals, as those of our kernels; or i8, and y is i32, exact.
struct CublasLtProduct {
  int64_t m = 0, n = 0, k = 0;
  DType input = DType::bf16;
};

// What a problem is compared with: one product of all its columns, and its name, which says what differs. A weight of
// few bits under a float activation stands beside the dense product of the same shape. 8-bit floats on both sides, and
// int8 activations, stand beside the product of e4m3 or int8 without scales; other 8-bit types are taken for these.
// Empty: nothing.
std::optional<VendorMatmul> cublaslt_way(const Problem& problem);

class CublasLtMatmul;

class CublasLt : public std::enable_shared_from_this<CublasLt> {
 public:
  // Looks where the dynamic linker looks, beside nvcc and in /usr/local/cuda. The library stays loaded as long as the
  // process lives. Error Unsupported: there is none, or it lacks an entry point; the message quotes the dynamic linker.
  static Result<std::shared_ptr<CublasLt>> load();
  // The first of `files` that can be used.
  static Result<std::shared_ptr<CublasLt>> open(const std::vector<std::string>& files);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;

  const std::string& path() const { return path_; }        // with symbolic links resolved
  const std::string& version() const { return version_; }  // "13.1.0"

  // Asks for up to `most_algorithms`. Error Unsupported: there is no device, or the library has no algorithm for this
  // problem on it. 8-bit floats need sm_89 and multiples of 16, int8 multiples of 4, of N and K.
  Result<CublasLtMatmul> matmul(const CublasLtProduct& product, int most_algorithms = 8);

 private:
  friend class CublasLtMatmul;
  struct Api;
  CublasLt() = default;
  Status check(int code, const std::string& what) const;
  Status start();

  std::unique_ptr<Api> api_;
  void* handle_ = nullptr;
  std::string path_, version_;
};

// One problem, with the algorithms that the library offers for it.
class CublasLtMatmul {
 public:
  size_t algorithms() const { return algorithms_.size(); }  // at least one; the library's guess of the fastest first
  // Does not wait. Addresses are of the device and multiples of 256; `workspace` has kCublasLtWorkspace bytes. An
  // algorithm may load its kernels in its first run, so run each once before a graph captures it.
  Status run(size_t algorithm, void* stream, const void* x, const void* w, void* y, void* workspace) const;

 private:
  friend class CublasLt;
  using Descriptor = std::unique_ptr<void, lt::Destroy*>;
  CublasLtMatmul() = default;

  std::shared_ptr<CublasLt> library_;
  Descriptor desc_{nullptr, nullptr}, x_{nullptr, nullptr}, w_{nullptr, nullptr}, y_{nullptr, nullptr};
  bool integer_ = false;  // alpha and beta are int32
  std::vector<lt::Algorithm> algorithms_;
};

// "cuBLASLt 13.1.0 (path)" or why there is none: for `doctor`. Asks in a child process, as onednn_status does.
VendorStatus cublaslt_status();

}  // namespace qcg

#include "codegen/tune/device_reference.h"

#include <fmt/format.h>

#include "codegen/vendor/vendor_check.h"

namespace qcg {

namespace {

// 8-bit types for which the library has no product are given as the one that it has: the time is the same.
void take_as(DType dtype, Tensor& t) {
  if (t.bound() && t.dtype != dtype && dtype_bytes(t.dtype) == dtype_bytes(dtype)) t.dtype = dtype;
}

// One product in the device's memory.
struct DeviceProduct {
  CublasLtMatmul matmul;
  CudaBuffer x, y, workspace;
  std::vector<CudaBuffer> weights;  // copies, which take turns
  size_t turn = 0;

  Status run(size_t algorithm, const CudaStream& stream) {
    const CudaBuffer& w = weights[turn++ % weights.size()];
    return matmul.run(algorithm, stream.get(), x.data(), w.data(), y.data(), workspace.data());
  }
};

// Seconds of every algorithm decide; one that fails is none.
Result<size_t> fastest_algorithm(DeviceTrial& trial, DeviceProduct& product) {
  std::optional<size_t> fastest;
  double least = 0;
  Error last = Error::internal("cublasLt", "no algorithm");
  for (size_t i = 0; i < product.matmul.algorithms(); ++i) {
    const auto run = [&] { return product.run(i, trial.stream()); };
    const auto first = trial.driver().time(trial.stream(), run);  // loads the kernel
    const auto seconds = first.ok() ? trial.driver().time(trial.stream(), run) : first;
    if (!seconds.ok()) last = seconds.error();
    else if (!fastest || *seconds < least) fastest = i, least = *seconds;
  }
  if (!fastest) return last;
  return *fastest;
}

}  // namespace

std::optional<DeviceReference> DeviceReference::find(const Problem& problem) {
  auto way = cublaslt_way(problem);
  if (!way) return std::nullopt;
  auto library = CublasLt::load();
  if (!library.ok()) return std::nullopt;
  DeviceReference out;
  out.library_ = std::move(*library);
  out.way_ = std::move(*way);
  return out;
}

std::string DeviceReference::name() const { return fmt::format("cuBLASLt {} {}", library_->version(), way_.name); }

Result<std::function<double()>> DeviceReference::clock(DeviceTrial& trial, const Problem& problem,
                                                       const std::vector<SegmentTensors>& tensors,
                                                       const KernelInputs& inputs, int threads,
                                                       int64_t cold_bytes) const {
  const int64_t m = inputs.m(), n = problem.n_total();
  QCG_TRY(matmul, library_->matmul({m, n, problem.k, way_.weight}));
  std::vector<Tensor> xs = inputs.tensors();
  for (size_t s = 0; s < problem.k_segments.size(); ++s) take_as(way_.weight, xs[s]);
  std::vector<SegmentTensors> segments = tensors;
  for (SegmentTensors& s : segments)
    if (!way_.dequantize) take_as(way_.weight, s.weight);

  QCG_TRY(x, trial.upload(merge_vendor_x(problem, xs, m)));
  std::vector<std::byte> y(static_cast<size_t>(m * n) * dtype_bytes(way_.output));
  QCG_TRY(y_memory, trial.driver().allocate(y.size()));
  QCG_TRY(workspace, trial.driver().allocate(kCublasLtWorkspace));
  auto product = std::make_shared<DeviceProduct>(
      DeviceProduct{std::move(matmul), std::move(x), std::move(y_memory), std::move(workspace), {}});
  {
    QCG_TRY(w, merge_vendor_weights(problem, way_, segments, threads));
    const size_t bytes = static_cast<size_t>(n * problem.k) * dtype_bytes(way_.weight);
    do {
      QCG_TRY(copy, trial.upload({w.data(), bytes}));
      product->weights.push_back(std::move(copy));
    } while (static_cast<int64_t>(product->weights.size() * bytes) < cold_bytes);
  }
  QCG_TRY(algorithm, fastest_algorithm(trial, *product));
  QCG_CHECK(trial.driver().copy_out(y.data(), product->y, y.size()));
  if (!is_vendor_right(problem, segments, xs, m, way_, y))
    return Error::internal(name(), "its product is not that of the problem");
  return trial.clock([product, algorithm, stream = trial.stream()] { return product->run(algorithm, stream); });
}

}  // namespace qcg

#include "codegen/vendor/vendor_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/oracle/reference.h"

namespace qcg {

namespace {

constexpr double kMinSnr_dB = 25;  // half types give 45 and more; a wrong layout gives 0
constexpr int64_t kCheckedRows = 3, kCheckedColumns = 16;

// The vendor's output against a few points of the problem it was given.
class VendorCheck {
 public:
  VendorCheck(const Problem& problem, const std::vector<SegmentTensors>& tensors, std::span<const Tensor> inputs,
              int64_t m, const VendorMatmul& way, const VendorEltwise* eltwise, bool with_bias)
      : problem_(problem), m_(m), output_(way.output), eltwise_(eltwise) {
    const bool sums = way.output == DType::i32;  // integers in, their exact sums out
    const bool unscaled = sums || (is_float8(problem.activation) && is_float8(way.weight));
    operands_.scheme = sums ? Scheme::s8s8 : unscaled ? Scheme::dense : problem.scheme;
    operands_.group = unscaled ? 0 : problem.group;
    for (size_t s = 0; s < problem.k_segments.size(); ++s) operands_.xs.push_back(inputs[s]);
    const bool integer = !is_floating(problem.activation);
    for (const SegmentTensors& t : tensors)
      operands_.segments.push_back({t.weight, unscaled ? Tensor() : t.scales, integer ? Tensor() : t.zeros,
                                    with_bias ? t.bias : Tensor(), t.offsets});
    if (unscaled || !scheme_info(problem.scheme).quantized_activation) return;
    // Row scales of one: the vendor has none.
    const std::vector<float> ones(static_cast<size_t>(m_), 1.f);
    std::vector<std::byte> bytes(ones.size() * sizeof(float));
    std::memcpy(bytes.data(), ones.data(), bytes.size());
    operands_.x_scale = Tensor::from_bytes(DType::f32, {m_, 1}, std::move(bytes));
  }

  double snr_dB(const std::vector<std::byte>& y) const {
    double signal = 0, noise = 0;
    int64_t first = 0;
    for (size_t j = 0; j < operands_.segments.size(); ++j) {
      const int64_t n = problem_.segments[j].n;
      std::vector<int64_t> rows, columns;
      for (int64_t i = 0; i < std::min(m_, kCheckedRows); ++i)
        rows.push_back(i * (m_ - 1) / std::max<int64_t>(1, std::min(m_, kCheckedRows) - 1));
      for (int64_t i = 0; i < std::min(n, kCheckedColumns); ++i)
        columns.push_back(i * (n - 1) / std::max<int64_t>(1, std::min(n, kCheckedColumns) - 1));
      const auto want = reference_linear(operands_, j, rows, columns);
      if (!want.ok()) return -HUGE_VAL;
      for (size_t i = 0; i < want->y.size(); ++i) {
        const int64_t at = rows[i / columns.size()] * problem_.n_total() + first + columns[i % columns.size()];
        const double got = element_to_double(output_, y.data() + static_cast<size_t>(at) * dtype_bytes(output_));
        const double wanted =
            eltwise_ ? Expr::call(eltwise_->function, {Expr::acc(0)}).evaluate(std::span(&want->y[i], 1), {})
                     : want->y[i];
        signal += wanted * wanted;
        noise += (got - wanted) * (got - wanted);
      }
      first += n;
    }
    return noise == 0 ? HUGE_VAL : 10 * std::log10(signal / noise);  // NaN: not listed
  }

 private:
  const Problem& problem_;
  int64_t m_;
  DType output_;
  const VendorEltwise* eltwise_;
  LinearOperands operands_;
};

}  // namespace

Result<AlignedBuffer> merge_vendor_weights(const Problem& problem, const VendorMatmul& way,
                                           const std::vector<SegmentTensors>& tensors, int threads) {
  const int64_t bytes = problem.n_total() * problem.k * static_cast<int64_t>(dtype_bytes(way.weight));
  QCG_TRY(out, AlignedBuffer::allocate(std::max<int64_t>(1, bytes)));
  ThreadPool pool({.threads = threads});  // gone before the vendor's own threads start
  write_vendor_weights(problem, way, tensors, pool, {out.data(), static_cast<size_t>(bytes)});
  return out;
}

std::vector<std::byte> merge_vendor_x(const Problem& problem, std::span<const Tensor> inputs, int64_t m) {
  const size_t size = dtype_bytes(problem.activation), rows = static_cast<size_t>(m);
  std::vector<std::byte> out(rows * static_cast<size_t>(problem.k) * size);
  size_t at = 0;
  for (size_t s = 0; s < problem.k_segments.size(); ++s) {
    const size_t width = static_cast<size_t>(problem.k_segments[s]) * size;
    for (size_t row = 0; row < rows; ++row)
      if (width > 0)
        std::memcpy(out.data() + row * static_cast<size_t>(problem.k) * size + at,
                    inputs[s].bytes().data() + row * width, width);
    at += width;
  }
  return out;
}

bool is_vendor_right(const Problem& problem, const std::vector<SegmentTensors>& tensors, std::span<const Tensor> inputs,
                     int64_t m, const VendorMatmul& way, const std::vector<std::byte>& y, const VendorEltwise* eltwise,
                     bool with_bias) {
  return VendorCheck(problem, tensors, inputs, m, way, eltwise, with_bias).snr_dB(y) >= kMinSnr_dB;  // of NaN: not
}

}  // namespace qcg

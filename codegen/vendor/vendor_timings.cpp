// What of a Problem a vendor can do, asked through the adapter module, and whether it did it right.
#include "codegen/vendor/vendor_timings.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "codegen/vendor/vendor_matmul.h"
#include "codegen/vendor/vendor_module.h"
#include "graph/oracle/reference.h"
#include "runtime/memory.h"

namespace qcg {

namespace {

constexpr double kMinSnr_dB = 25;  // half types give 45 and more; a wrong layout gives 0
constexpr int64_t kCheckedRows = 3, kCheckedColumns = 16;

// Vendors run on OpenMP. Its idle threads spin for milliseconds by default and would take the cores from whoever is
// timed next, so they spin about as long as ours do.
void limit_openmp_spin() {
  ::setenv("GOMP_SPINCOUNT", "20000", 0);
  ::setenv("KMP_BLOCKTIME", "80us", 0);
}

void set_openmp_threads(const OneDnn& lib, int threads) {
  if (auto set = reinterpret_cast<void (*)(int)>(::dlsym(lib.handle, "omp_set_num_threads"))) set(threads);
}

// The post-op that is the whole epilogue of every output, if there is one; `all` is false where something is left out.
const VendorEltwise* common_eltwise(const Problem& problem, bool& all) {
  const VendorEltwise* found = nullptr;
  all = true;
  for (size_t o = 0; o < problem.outputs.size(); ++o) {
    const VendorEltwise* own = find_vendor_eltwise(problem.outputs[o].expr, all);
    if (!all || (o > 0 && own != found)) return all = false, nullptr;
    found = own;
  }
  return found;
}

// All segments' weights as one [N, K] matrix.
Result<AlignedBuffer> merge_weights(const Problem& problem, const std::vector<SegmentTensors>& tensors,
                                    const VendorMatmul& way, int threads) {
  const int64_t bytes = problem.n_total() * problem.k * static_cast<int64_t>(dtype_bytes(way.weight));
  QCG_TRY(out, AlignedBuffer::allocate(std::max<int64_t>(1, bytes)));
  ThreadPool pool({.threads = threads});  // gone before the vendor's own threads start
  write_vendor_weights(problem, way, tensors, pool, {out.data(), static_cast<size_t>(bytes)});
  return out;
}

// x as one matrix: a vendor's activation is not in pieces.
std::vector<std::byte> merge_x(const Problem& problem, const KernelInputs& inputs) {
  const size_t size = dtype_bytes(problem.activation), m = static_cast<size_t>(inputs.m());
  std::vector<std::byte> out(m * static_cast<size_t>(problem.k) * size);
  size_t at = 0;
  for (size_t s = 0; s < problem.k_segments.size(); ++s) {
    const size_t width = static_cast<size_t>(problem.k_segments[s]) * size;
    for (size_t row = 0; row < m; ++row)
      if (width > 0)
        std::memcpy(out.data() + row * static_cast<size_t>(problem.k) * size + at,
                    inputs.tensors()[s].bytes().data() + row * width, width);
    at += width;
  }
  return out;
}

// The vendor's output against a few points of the problem it was given.
class VendorCheck {
 public:
  VendorCheck(const Problem& problem, const std::vector<SegmentTensors>& tensors, const KernelInputs& inputs,
              const VendorMatmul& attempt, const VendorEltwise* eltwise, bool with_bias)
      : problem_(problem), m_(inputs.m()), output_(attempt.output), eltwise_(eltwise) {
    const bool unscaled = attempt.output == DType::i32;  // integers in, their exact sums out
    operands_.scheme = unscaled ? Scheme::s8s8 : problem.scheme;
    operands_.group = unscaled ? 0 : problem.group;
    for (size_t s = 0; s < problem.k_segments.size(); ++s) operands_.xs.push_back(inputs.tensors()[s]);
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

// A primitive with the memory it reads.
struct VendorRun {
  const OneDnn lib;
  std::vector<std::byte> x;
  void* matmul = nullptr;

  VendorRun(const OneDnn& l, std::vector<std::byte> input) : lib(l), x(std::move(input)) {}
  VendorRun(const VendorRun&) = delete;
  ~VendorRun() {
    if (matmul) lib.destroy(matmul);
  }
};

std::optional<Reference> try_attempt(const OneDnn& lib, const Problem& problem,
                                     const std::vector<SegmentTensors>& tensors, const KernelInputs& inputs,
                                     const VendorMatmul& attempt, int threads, int64_t cold_bytes) {
  bool whole_epilogue = true, has_bias = false;
  const VendorEltwise* eltwise = attempt.output == DType::i32 ? nullptr : common_eltwise(problem, whole_epilogue);
  for (const Segment& segment : problem.segments) has_bias = has_bias || segment.has_bias;
  const bool with_bias = has_bias && attempt.output != DType::i32;
  QcgOneDnnMatmul spec{inputs.m(),
                       problem.n_total(),
                       problem.k,
                       static_cast<int32_t>(problem.activation),
                       static_cast<int32_t>(attempt.weight),
                       static_cast<int32_t>(attempt.output),
                       eltwise ? eltwise->code : kOneDnnNone,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr,
                       cold_bytes};
  const std::vector<float> bias = with_bias ? vendor_numbers(tensors, &SegmentTensors::bias) : std::vector<float>();
  const std::vector<float> scales =
      attempt.scales ? vendor_numbers(tensors, &SegmentTensors::scales) : std::vector<float>();
  spec.bias = with_bias ? bias.data() : nullptr;
  spec.scales = attempt.scales ? scales.data() : nullptr;
  char why[256];
  if (!lib.check(&spec, why, sizeof why)) return std::nullopt;
  auto run = std::make_shared<VendorRun>(lib, merge_x(problem, inputs));
  spec.x = run->x.data();
  {
    auto merged = AlignedBuffer();
    if (const Tensor& only = tensors[0].weight;
        tensors.size() == 1 && !attempt.dequantize && only.dtype == attempt.weight && only.is_contiguous()) {
      spec.w = only.bytes().data();
    } else {
      auto weight = merge_weights(problem, tensors, attempt, threads);
      if (!weight.ok()) return std::nullopt;
      merged = std::move(*weight);
      spec.w = merged.data();
    }
    run->matmul = lib.create(&spec, why, sizeof why);
  }
  if (!run->matmul || !lib.run(run->matmul)) return std::nullopt;
  std::vector<std::byte> y(static_cast<size_t>(inputs.m() * problem.n_total()) * dtype_bytes(attempt.output));
  const VendorCheck check(problem, tensors, inputs, attempt, eltwise, with_bias);
  if (!lib.read(run->matmul, y.data()) || !(check.snr_dB(y) >= kMinSnr_dB)) return std::nullopt;
  std::string name = fmt::format("oneDNN {} {}{}{}", lib.version(), attempt.name,
                                 with_bias  ? " + bias"
                                 : has_bias ? " without bias"
                                            : "",
                                 eltwise          ? eltwise->name
                                 : whole_epilogue ? ""
                                                  : " without epilogue");
  return Reference{std::move(name), [run] { run->lib.run(run->matmul); }};
}

}  // namespace

std::vector<Reference> references_for(const Problem& problem, const std::vector<SegmentTensors>& tensors,
                                      const KernelInputs& inputs, int threads, int64_t cold_bytes) {
  std::vector<Reference> out;
  if (problem.outputs.empty() || inputs.m() <= 0 || problem.k <= 0) return out;
  limit_openmp_spin();
  const OneDnn lib = load_onednn();
  if (!lib.missing.empty()) return out;
  set_openmp_threads(lib, threads);
  for (const VendorMatmul& attempt : vendor_matmuls(problem))
    if (auto reference = try_attempt(lib, problem, tensors, inputs, attempt, threads, cold_bytes))
      out.push_back(std::move(*reference));
  return out;
}

}  // namespace qcg

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

#include "codegen/vendor/vendor_check.h"
#include "codegen/vendor/vendor_matmul.h"
#include "codegen/vendor/vendor_module.h"
#include "runtime/memory.h"

namespace qcg {

namespace {

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
  auto run = std::make_shared<VendorRun>(lib, merge_vendor_x(problem, inputs.tensors(), inputs.m()));
  spec.x = run->x.data();
  {
    auto merged = AlignedBuffer();
    if (const Tensor& only = tensors[0].weight;
        tensors.size() == 1 && !attempt.dequantize && only.dtype == attempt.weight && only.is_contiguous()) {
      spec.w = only.bytes().data();
    } else {
      auto weight = merge_vendor_weights(problem, attempt, tensors, threads);
      if (!weight.ok()) return std::nullopt;
      merged = std::move(*weight);
      spec.w = merged.data();
    }
    run->matmul = lib.create(&spec, why, sizeof why);
  }
  if (!run->matmul || !lib.run(run->matmul)) return std::nullopt;
  std::vector<std::byte> y(static_cast<size_t>(inputs.m() * problem.n_total()) * dtype_bytes(attempt.output));
  if (!lib.read(run->matmul, y.data()) ||
      !is_vendor_right(problem, tensors, inputs.tensors(), inputs.m(), attempt, y, eltwise, with_bias))
    return std::nullopt;
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

// What of a Problem a vendor can do, asked through the adapter module, and whether it did it right.
#include "codegen/references.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "codegen/onednn_adapter.h"
#include "codegen/trial.h"
#include "graph/reference.h"
#include "runtime/memory.h"
#include "runtime/threads.h"

namespace qcg {

namespace {

constexpr char kModule[] = "libqcodegen_onednn.so";
// Where the module lies, from the executable's directory: beside it, installed, in the build tree.
#ifndef QCG_MODULE_DIR
#define QCG_MODULE_DIR "../lib/qcodegen"
#endif
constexpr const char* kModuleDirs[] = {".", QCG_MODULE_DIR, "../lib/qcodegen", "../codegen"};
constexpr char kRemedy[] = "apt-get install libdnnl-dev, then build qcodegen again";
constexpr double kMinSnr_dB = 25;  // half types give 45 and more; a wrong layout gives 0
constexpr int64_t kCheckedRows = 3, kCheckedColumns = 16;
constexpr double kStatusTimeout_s = 20;

// The module's entry points; it stays loaded as long as the process lives, as its threads do.
struct OneDnn {
  void* handle = nullptr;
  decltype(&qcg_onednn_version) version = nullptr;
  decltype(&qcg_onednn_check) check = nullptr;
  decltype(&qcg_onednn_create) create = nullptr;
  decltype(&qcg_onednn_run) run = nullptr;
  decltype(&qcg_onednn_read) read = nullptr;
  decltype(&qcg_onednn_destroy) destroy = nullptr;
  std::string missing;  // why there is none; empty: loaded

  template <class F>
  void find(F& entry, const char* name) {
    entry = reinterpret_cast<F>(::dlsym(handle, name));
    if (!entry) missing = fmt::format("{} has no {}", kModule, name);
  }
};

OneDnn load_onednn() {
  OneDnn out;
  std::error_code ec;
  const auto directory = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path();
  out.missing = "qcodegen was built without it";
  for (const char* candidate : kModuleDirs) {
    const auto path = directory / candidate / kModule;
    if (out.handle || !std::filesystem::is_regular_file(path, ec)) continue;
    out.handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* error = out.handle ? nullptr : ::dlerror();
    out.missing = out.handle ? "" : error ? error : "it does not load";
  }
  if (!out.handle) return out;
  out.find(out.version, "qcg_onednn_version");
  out.find(out.check, "qcg_onednn_check");
  out.find(out.create, "qcg_onednn_create");
  out.find(out.run, "qcg_onednn_run");
  out.find(out.read, "qcg_onednn_read");
  out.find(out.destroy, "qcg_onednn_destroy");
  return out;
}

// Vendors run on OpenMP. Its idle threads spin for milliseconds by default and would take the cores from whoever is timed
// next, so they spin about as long as ours do.
void limit_openmp_spin() {
  ::setenv("GOMP_SPINCOUNT", "20000", 0);
  ::setenv("KMP_BLOCKTIME", "80us", 0);
}

void set_openmp_threads(const OneDnn& lib, int threads) {
  if (auto set = reinterpret_cast<void (*)(int)>(::dlsym(lib.handle, "omp_set_num_threads"))) set(threads);
}

struct Eltwise {
  std::string_view function;  // of the epilogue
  QcgOneDnnEltwise code;
  std::string_view name;
};
constexpr Eltwise kEltwise[] = {{"relu", kOneDnnRelu, " + relu"},
                                {"silu", kOneDnnSwish, " + swish"},
                                {"gelu", kOneDnnGeluErf, " + gelu"},
                                {"gelu_tanh", kOneDnnGeluTanh, " + gelu_tanh"}};

const Expr& strip_casts(const Expr& e) { return e.kind == ExprKind::cast ? strip_casts(e.args[0]) : e; }

// The post-op that is the whole epilogue of every output, if there is one; `all` is false where something is left out.
const Eltwise* common_eltwise(const Problem& problem, bool& all) {
  const Eltwise* found = nullptr;
  all = true;
  for (size_t o = 0; o < problem.outputs.size(); ++o) {
    const Expr& e = strip_casts(problem.outputs[o].expr);
    const Eltwise* own = nullptr;
    for (const Eltwise& row : kEltwise)
      if (e.kind == ExprKind::call && e.function == row.function && strip_casts(e.args[0]).kind == ExprKind::acc) own = &row;
    if ((!own && e.kind != ExprKind::acc) || (o > 0 && own != found)) return all = false, nullptr;
    found = own;
  }
  return found;
}

uint16_t bf16_of(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void store(DType dtype, const std::vector<float>& row, std::byte* out) {
  if (dtype == DType::f32) std::memcpy(out, row.data(), row.size() * sizeof(float));
  else if (dtype == DType::bf16)
    for (size_t i = 0; i < row.size(); ++i) reinterpret_cast<uint16_t*>(out)[i] = bf16_of(row[i]);
  else
    for (size_t i = 0; i < row.size(); ++i) double_to_element(dtype, row[i], out + i * dtype_bytes(dtype));
}

float number_at(const Tensor& t, size_t i) {
  if (t.dtype == DType::f32) return reinterpret_cast<const float*>(t.bytes().data())[i];
  return static_cast<float>(element_to_double(t.dtype, t.bytes().data() + i * dtype_bytes(t.dtype)));
}

// Row n of (weight - zero) * scale + offset, as `dtype`. Tensors are contiguous.
void dequantize_row(const Problem& problem, const SegmentTensors& t, size_t n, DType dtype, std::vector<float>& row, std::byte* out) {
  const size_t k = static_cast<size_t>(problem.k), groups = static_cast<size_t>(problem.groups());
  const size_t group = problem.group > 0 ? static_cast<size_t>(problem.group) : k;
  row.resize(k);
  for (size_t g = 0; g < groups; ++g) {
    const float scale = t.scales.bound() ? number_at(t.scales, n * groups + g) : 1, zero = t.zeros.bound() ? number_at(t.zeros, n * groups + g) : 0;
    const float offset = t.offsets.bound() ? number_at(t.offsets, n * groups + g) : 0;
    const size_t end = std::min(k, (g + 1) * group);
    const auto* bytes = reinterpret_cast<const int8_t*>(t.weight.bytes().data());
    if (problem.scheme == Scheme::nf4)
      for (size_t i = g * group; i < end; ++i) row[i] = kNf4Values[static_cast<size_t>(bytes[n * k + i]) & 15] * scale;
    else if (t.weight.dtype == DType::i8)
      for (size_t i = g * group; i < end; ++i) row[i] = (static_cast<float>(bytes[n * k + i]) - zero) * scale + offset;
    else
      for (size_t i = g * group; i < end; ++i) row[i] = (number_at(t.weight, n * k + i) - zero) * scale;
  }
  store(dtype, row, out);
}

// All segments' weights as one [N, K] matrix.
Result<AlignedBuffer> merge_weights(const Problem& problem, const std::vector<SegmentTensors>& tensors, DType dtype, bool dequantize, int threads) {
  const size_t row_bytes = static_cast<size_t>(problem.k) * dtype_bytes(dtype);
  QCG_TRY(out, AlignedBuffer::allocate(std::max<int64_t>(1, problem.n_total() * static_cast<int64_t>(row_bytes))));
  ThreadPool pool({.threads = threads});  // gone before the vendor's own threads start
  std::byte* at = out.data();
  for (const SegmentTensors& t : tensors) {
    SegmentTensors s{t.weight.contiguous(), {}, {}, {}, {}};
    if (dequantize && t.scales.bound()) s.scales = t.scales.contiguous();
    if (dequantize && t.zeros.bound()) s.zeros = t.zeros.contiguous();
    if (dequantize && t.offsets.bound()) s.offsets = t.offsets.contiguous();
    pool.parallel_items(s.weight.shape[0], [&](int64_t begin, int64_t end, int) {
      std::vector<float> row;
      for (size_t n = static_cast<size_t>(begin); n < static_cast<size_t>(end); ++n) {
        if (!dequantize && s.weight.dtype == dtype) std::memcpy(at + n * row_bytes, s.weight.bytes().data() + n * row_bytes, row_bytes);
        else dequantize_row(problem, s, n, dtype, row, at + n * row_bytes);
      }
    });
    at += static_cast<size_t>(s.weight.shape[0]) * row_bytes;
  }
  return out;
}

std::vector<float> merge_numbers(const std::vector<SegmentTensors>& tensors, Tensor SegmentTensors::* member) {
  std::vector<float> out;
  for (const SegmentTensors& t : tensors) {
    const Tensor values = (t.*member).bound() ? (t.*member).contiguous() : Tensor();
    for (size_t n = 0; n < static_cast<size_t>(t.weight.shape[0]); ++n) out.push_back(values.bound() ? number_at(values, n) : 0);
  }
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
      if (width > 0) std::memcpy(out.data() + row * static_cast<size_t>(problem.k) * size + at, inputs.tensors()[s].bytes().data() + row * width, width);
    at += width;
  }
  return out;
}

// One way of asking a vendor for the product.
struct Attempt {
  DType weight;             // dtype it is given
  DType output;
  bool dequantize = false;  // scales and zero points are in the weight
  bool scales = false;      // scales per channel are applied by the vendor
  std::string name;         // what it computes
};

std::vector<Attempt> attempts_for(const Problem& problem) {
  const DType x = problem.activation;
  const DType y = is_floating(x) && problem.outputs[0].dtype == x ? x : DType::f32;
  const std::string act(dtype_name(x));
  bool zeros = false;
  for (const Segment& segment : problem.segments) zeros = zeros || segment.has_zero;
  switch (problem.scheme) {
    case Scheme::dense: return {{x, y, false, false, act + " matmul" + (problem.weight == x ? "" : fmt::format(" on {} weight", act))}};
    case Scheme::w8: {
      std::vector<Attempt> out;
      if (!zeros && problem.group == 0) out.push_back({DType::i8, y, false, true, act + " x s8 matmul with weights decompression"});
      out.push_back({x, y, true, false, act + " matmul on dequantized weight"});
      return out;
    }
    case Scheme::w4:
    case Scheme::f8:
    case Scheme::f4:
    case Scheme::nf4: return {{x, y, true, false, act + " matmul on dequantized weight"}};
    case Scheme::da8w4:
    case Scheme::da8f4: return {{DType::i8, DType::i32, false, false, act + " x s8 matmul to s32, unscaled"}};
    case Scheme::da8w8:
      if (problem.group > 0) return {{DType::i8, DType::i32, false, false, act + " x s8 matmul to s32, unscaled"}};
      return {{DType::i8, DType::f32, false, true, fmt::format("{} x s8 matmul with channel scales, without quantization, row scales{}", act,
                                                                zeros || problem.x_has_zero ? " and zero points" : "")}};
    case Scheme::s8s8: return {{DType::i8, DType::i32, false, false, act + " x s8 matmul to s32"}};
  }
  return {};
}

// The vendor's output against a few points of the problem it was given.
class VendorCheck {
 public:
  VendorCheck(const Problem& problem, const std::vector<SegmentTensors>& tensors, const KernelInputs& inputs, const Attempt& attempt,
              const Eltwise* eltwise, bool with_bias)
      : problem_(problem), m_(inputs.m()), output_(attempt.output), eltwise_(eltwise) {
    const bool unscaled = attempt.output == DType::i32;  // integers in, their exact sums out
    operands_.scheme = unscaled ? Scheme::s8s8 : problem.scheme;
    operands_.group = unscaled ? 0 : problem.group;
    for (size_t s = 0; s < problem.k_segments.size(); ++s) operands_.xs.push_back(inputs.tensors()[s]);
    const bool integer = !is_floating(problem.activation);
    for (const SegmentTensors& t : tensors)
      operands_.segments.push_back({t.weight, unscaled ? Tensor() : t.scales, integer ? Tensor() : t.zeros, with_bias ? t.bias : Tensor(), t.offsets});
    if (unscaled || !scheme_info(problem.scheme).quantized_activation) return;
    operands_.x_scale = Tensor::zeros(DType::f32, {m_, 1});  // row scales of one: the vendor has none
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
      for (int64_t i = 0; i < std::min(m_, kCheckedRows); ++i) rows.push_back(i * (m_ - 1) / std::max<int64_t>(1, std::min(m_, kCheckedRows) - 1));
      for (int64_t i = 0; i < std::min(n, kCheckedColumns); ++i) columns.push_back(i * (n - 1) / std::max<int64_t>(1, std::min(n, kCheckedColumns) - 1));
      const auto want = reference_linear(operands_, j, rows, columns);
      if (!want.ok()) return -HUGE_VAL;
      for (size_t i = 0; i < want->y.size(); ++i) {
        const int64_t at = rows[i / columns.size()] * problem_.n_total() + first + columns[i % columns.size()];
        const double got = element_to_double(output_, y.data() + static_cast<size_t>(at) * dtype_bytes(output_));
        const double wanted = eltwise_ ? Expr::call(eltwise_->function, {Expr::acc(0)}).evaluate(std::span(&want->y[i], 1), {}) : want->y[i];
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
  const Eltwise* eltwise_;
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

std::optional<Reference> try_attempt(const OneDnn& lib, const Problem& problem, const std::vector<SegmentTensors>& tensors,
                                     const KernelInputs& inputs, const Attempt& attempt, int threads, int64_t cold_bytes) {
  bool whole_epilogue = true, has_bias = false;
  const Eltwise* eltwise = attempt.output == DType::i32 ? nullptr : common_eltwise(problem, whole_epilogue);
  for (const Segment& segment : problem.segments) has_bias = has_bias || segment.has_bias;
  const bool with_bias = has_bias && attempt.output != DType::i32;
  QcgOneDnnMatmul spec{inputs.m(), problem.n_total(), problem.k, static_cast<int32_t>(problem.activation), static_cast<int32_t>(attempt.weight),
                       static_cast<int32_t>(attempt.output), eltwise ? eltwise->code : kOneDnnNone, nullptr, nullptr, nullptr, nullptr, cold_bytes};
  const std::vector<float> bias = with_bias ? merge_numbers(tensors, &SegmentTensors::bias) : std::vector<float>();
  const std::vector<float> scales = attempt.scales ? merge_numbers(tensors, &SegmentTensors::scales) : std::vector<float>();
  spec.bias = with_bias ? bias.data() : nullptr;
  spec.scales = attempt.scales ? scales.data() : nullptr;
  char why[256];
  if (!lib.check(&spec, why, sizeof why)) return std::nullopt;
  auto run = std::make_shared<VendorRun>(lib, merge_x(problem, inputs));
  spec.x = run->x.data();
  {
    auto merged = AlignedBuffer();
    if (const Tensor& only = tensors[0].weight; tensors.size() == 1 && !attempt.dequantize && only.dtype == attempt.weight && only.is_contiguous()) {
      spec.w = only.bytes().data();
    } else {
      auto weight = merge_weights(problem, tensors, attempt.weight, attempt.dequantize, threads);
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
  std::string name = fmt::format("oneDNN {} {}{}{}", lib.version(), attempt.name, with_bias ? " + bias" : has_bias ? " without bias" : "",
                                 eltwise ? eltwise->name : whole_epilogue ? "" : " without epilogue");
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
  for (const Attempt& attempt : attempts_for(problem))
    if (auto reference = try_attempt(lib, problem, tensors, inputs, attempt, threads, cold_bytes)) out.push_back(std::move(*reference));
  return out;
}

VendorStatus onednn_status() {
  auto child = run_in_child(kStatusTimeout_s, [](ChildReport& report) {
    const OneDnn lib = load_onednn();
    report.send(lib.missing.empty() ? "+" + std::string(lib.version()) : "-" + lib.missing);
  });
  if (!child.ok()) return {false, child.error().message, ""};
  if (child->messages.empty()) return {false, "its library cannot be used: " + child->failure, kRemedy};
  const std::string& message = child->messages[0];
  if (message[0] == '+') return {true, "oneDNN " + message.substr(1), ""};
  return {false, message.substr(1), kRemedy};
}

}  // namespace qcg

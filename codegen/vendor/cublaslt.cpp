// Where the library is, its entry points, its product of one problem, and what a problem is compared with.
#include "codegen/vendor/cublaslt.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>

#include "cache/toolchain/toolchain.h"
#include "codegen/trial/trial.h"
#include "codegen/vendor/vendor_matmul.h"

namespace qcg {

namespace {

constexpr char kCublasLt[] = "cublasLt";
constexpr char kInstallCublasLt[] =
    "install the CUDA toolkit's cuBLAS, or name its folder in LD_LIBRARY_PATH; only timings beside it need it";
constexpr double kCublasLtTimeout_s = 60;  // the library has 500 MB

// A product that the library computes; alpha and beta have the scale type.
struct CublasLtKind {
  DType input, output;
  const char* name;
  lt::DataType input_type, output_type;
  lt::ComputeType compute;
  lt::DataType scale_type;
};
constexpr CublasLtKind kCublasLtKinds[] = {
    {DType::bf16, DType::bf16, "bf16", lt::kR16BF, lt::kR16BF, lt::kCompute32F, lt::kR32F},
    {DType::f16, DType::f16, "f16", lt::kR16F, lt::kR16F, lt::kCompute32F, lt::kR32F},
    {DType::f32, DType::f32, "f32", lt::kR32F, lt::kR32F, lt::kCompute32F, lt::kR32F},
    {DType::f8e4m3, DType::bf16, "e4m3", lt::kR8F_E4M3, lt::kR16BF, lt::kCompute32F, lt::kR32F},
    {DType::i8, DType::i32, "s8 x s8 to s32", lt::kR8I, lt::kR32I, lt::kCompute32I, lt::kR32I},
};

const CublasLtKind* find_cublaslt_kind(DType input) {
  for (const CublasLtKind& kind : kCublasLtKinds)
    if (kind.input == input) return &kind;
  return nullptr;
}

Error no_cublaslt(std::string message) { return Error::unsupported(kCublasLt, std::move(message), kInstallCublasLt); }

// CUBLAS_VERSION of cublas_api.h: major · 10000 + minor · 100 + patch; major · 1000 until 11.
std::string cublaslt_version(size_t number) {
  const size_t unit = number < 100000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", number / unit, number % unit / 100, number % 100);
}

std::string loaded_path(void* library, const std::string& file) {
  link_map* map = nullptr;
  char* const resolved = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? ::realpath(map->l_name, nullptr) : nullptr;
  std::string out = resolved ? resolved : file;
  std::free(resolved);
  return out;
}

bool is_bare_product(const Problem& problem) {
  return std::all_of(problem.outputs.begin(), problem.outputs.end(),
                     [](const Output& o) {
                       bool covered = false;
                       return !find_vendor_eltwise(o.expr, covered) && covered;
                     }) &&
         std::none_of(problem.segments.begin(), problem.segments.end(), [](const Segment& s) { return s.has_bias; });
}

}  // namespace

struct CublasLt::Api {
  void* library = nullptr;
  lt::Create* create = nullptr;
  lt::Destroy *destroy = nullptr, *desc_destroy = nullptr, *layout_destroy = nullptr, *preference_destroy = nullptr;
  lt::DescCreate* desc_create = nullptr;
  lt::LayoutCreate* layout_create = nullptr;
  lt::PreferenceCreate* preference_create = nullptr;
  lt::SetAttribute *desc_set = nullptr, *preference_set = nullptr;
  lt::GetHeuristic* get_heuristic = nullptr;
  lt::Matmul* matmul = nullptr;
  lt::GetVersion* get_version = nullptr;
  lt::StatusText* status_text = nullptr;  // since 11.4

  // Returns the first entry point that is missing, or null.
  const char* resolve() {
    const struct {
      const char* name;
      void** slot;
    } rows[] = {
        {"cublasLtCreate", reinterpret_cast<void**>(&create)},
        {"cublasLtDestroy", reinterpret_cast<void**>(&destroy)},
        {"cublasLtMatmulDescCreate", reinterpret_cast<void**>(&desc_create)},
        {"cublasLtMatmulDescDestroy", reinterpret_cast<void**>(&desc_destroy)},
        {"cublasLtMatmulDescSetAttribute", reinterpret_cast<void**>(&desc_set)},
        {"cublasLtMatrixLayoutCreate", reinterpret_cast<void**>(&layout_create)},
        {"cublasLtMatrixLayoutDestroy", reinterpret_cast<void**>(&layout_destroy)},
        {"cublasLtMatmulPreferenceCreate", reinterpret_cast<void**>(&preference_create)},
        {"cublasLtMatmulPreferenceDestroy", reinterpret_cast<void**>(&preference_destroy)},
        {"cublasLtMatmulPreferenceSetAttribute", reinterpret_cast<void**>(&preference_set)},
        {"cublasLtMatmulAlgoGetHeuristic", reinterpret_cast<void**>(&get_heuristic)},
        {"cublasLtMatmul", reinterpret_cast<void**>(&matmul)},
        {"cublasLtGetVersion", reinterpret_cast<void**>(&get_version)},
        {"cublasLtGetStatusString", reinterpret_cast<void**>(&status_text)},
    };
    for (const auto& row : rows)
      if (!(*row.slot = dlsym(library, row.name))) return row.name;
    return nullptr;
  }
};

Result<std::shared_ptr<CublasLt>> CublasLt::load() {
  std::vector<std::string> files;
  for (const std::string& folder : cuda_library_folders())
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"})
      files.push_back(folder + name);
  return open(files);
}

Result<std::shared_ptr<CublasLt>> CublasLt::open(const std::vector<std::string>& files) {
  std::string reason;
  for (const std::string& file : files) {
    auto api = std::make_unique<Api>();
    api->library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!api->library) {
      const char* const error = dlerror();
      if (reason.empty()) reason = error ? error : file;
      continue;
    }
    std::string path = loaded_path(api->library, file);
    if (const char* const missing = api->resolve()) {
      reason = path + " has no " + missing;
      dlclose(api->library);
      continue;
    }
    std::shared_ptr<CublasLt> out(new CublasLt);
    out->version_ = cublaslt_version(api->get_version());
    out->path_ = std::move(path);
    out->api_ = std::move(api);
    return out;
  }
  return no_cublaslt("there is no cuBLASLt here: " + reason);
}

CublasLt::~CublasLt() {
  if (handle_) api_->destroy(handle_);
}

Status CublasLt::check(int code, const std::string& what) const {
  if (code == lt::kSuccess) return {};
  const char* const text = api_->status_text(code);
  std::string message = fmt::format("{}: {} ({})", what, text ? text : "unknown status", code);
  if (code == lt::kNotInitialized)
    return Error::unsupported(kCublasLt, std::move(message), "run on a machine with an NVIDIA GPU and its driver");
  if (code == lt::kNotSupported || code == lt::kArchMismatch)
    return Error::unsupported(kCublasLt, std::move(message),
                              fmt::format("cuBLASLt {} does not multiply this on this device", version_));
  return Error::io(kCublasLt, std::move(message), "see the driver's messages in the system log");
}

// The handle is made when it is first needed: it takes a device.
Status CublasLt::start() { return handle_ ? Status() : check(api_->create(&handle_), "cublasLtCreate"); }

// Row-major [rows, K] is column-major [K, rows] with leading dimension K. So yᵀ = w · xᵀ is asked for:
//
//   D [N, M], ld N  =  A [K, N]ᵀ, ld K  ·  B [K, M], ld K
//   y [M, N]           w [N, K]            x [M, K]
Result<CublasLtMatmul> CublasLt::matmul(const CublasLtProduct& product, int most_algorithms) {
  const CublasLtKind* const kind = find_cublaslt_kind(product.input);
  if (!kind || product.m < 1 || product.n < 1 || product.k < 1 || most_algorithms < 1)
    return Error::internal("CublasLt::matmul", "a product that cublaslt_way does not give");
  CublasLtMatmul out;
  out.library_ = shared_from_this();
  out.integer_ = kind->compute == lt::kCompute32I;

  void* made = nullptr;
  QCG_CHECK(check(api_->desc_create(&made, kind->compute, kind->scale_type), "cublasLtMatmulDescCreate"));
  out.desc_ = {made, api_->desc_destroy};
  auto set = [&](lt::DescAttribute attribute, const auto& value) {
    return check(api_->desc_set(out.desc_.get(), attribute, &value, sizeof value),
                 fmt::format("cublasLtMatmulDescSetAttribute {}", static_cast<int>(attribute)));
  };
  QCG_CHECK(set(lt::kDescTransA, static_cast<int32_t>(lt::kOpT)));
  QCG_CHECK(set(lt::kDescTransB, static_cast<int32_t>(lt::kOpN)));

  auto make_layout = [&](CublasLtMatmul::Descriptor& to, lt::DataType type, int64_t rows, int64_t columns) -> Status {
    QCG_CHECK(check(api_->layout_create(&made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
                    "cublasLtMatrixLayoutCreate"));
    to = {made, api_->layout_destroy};
    return {};
  };
  QCG_CHECK(make_layout(out.w_, kind->input_type, product.k, product.n));
  QCG_CHECK(make_layout(out.x_, kind->input_type, product.k, product.m));
  QCG_CHECK(make_layout(out.y_, kind->output_type, product.n, product.m));

  CublasLtMatmul::Descriptor preference{nullptr, nullptr};
  QCG_CHECK(check(api_->preference_create(&made), "cublasLtMatmulPreferenceCreate"));
  preference = {made, api_->preference_destroy};
  const uint64_t workspace = kCublasLtWorkspace;
  QCG_CHECK(check(api_->preference_set(made, lt::kPreferenceMaxWorkspaceBytes, &workspace, sizeof workspace),
                  "cublasLtMatmulPreferenceSetAttribute"));

  QCG_CHECK(start());
  const std::string what = fmt::format("algorithms for {} [{}, {}] x [{}, {}]", dtype_name(product.input), product.m,
                                       product.k, product.n, product.k);
  std::vector<lt::HeuristicResult> found(static_cast<size_t>(most_algorithms));
  int count = 0;
  QCG_CHECK(check(api_->get_heuristic(handle_, out.desc_.get(), out.w_.get(), out.x_.get(), out.y_.get(), out.y_.get(),
                                      preference.get(), most_algorithms, found.data(), &count),
                  what));
  for (int i = 0; i < std::min(count, most_algorithms); ++i)
    if (const auto& result = found[static_cast<size_t>(i)]; result.state == lt::kSuccess)
      out.algorithms_.push_back(result.algorithm);
  if (out.algorithms_.empty()) return check(lt::kNotSupported, what).error();
  return out;
}

Status CublasLtMatmul::run(size_t algorithm, void* stream, const void* x, const void* w, void* y,
                           void* workspace) const {
  if (algorithm >= algorithms_.size()) return Error::internal("CublasLtMatmul::run", "no such algorithm");
  for (const void* address : {x, w, static_cast<const void*>(y), static_cast<const void*>(workspace)})
    if (!address || reinterpret_cast<uintptr_t>(address) % lt::kAlignment != 0)
      return Error::internal("CublasLtMatmul::run", "an address is null or no multiple of 256");
  static constexpr float kFloatOne = 1, kFloatZero = 0;
  static constexpr int32_t kIntegerOne = 1, kIntegerZero = 0;
  const void* const alpha = integer_ ? static_cast<const void*>(&kIntegerOne) : &kFloatOne;
  const void* const beta = integer_ ? static_cast<const void*>(&kIntegerZero) : &kFloatZero;
  return library_->check(
      library_->api_->matmul(library_->handle_, desc_.get(), alpha, w, w_.get(), x, x_.get(), beta, y, y_.get(), y,
                             y_.get(), &algorithms_[algorithm], workspace, kCublasLtWorkspace, stream),
      "cublasLtMatmul");
}

std::optional<VendorMatmul> cublaslt_way(const Problem& problem) {
  if (problem.outputs.empty() || problem.k < 1) return std::nullopt;
  const bool is_bytes = is_integer(problem) || is_float8(problem.activation);
  const bool same = problem.scheme == Scheme::dense && problem.weight == problem.activation;
  const DType input = is_integer(problem) ? DType::i8 : is_bytes ? DType::f8e4m3 : problem.activation;
  const CublasLtKind* const kind = find_cublaslt_kind(input);
  if (!kind) return std::nullopt;
  const char* const differs = same || problem.scheme == Scheme::s8s8 ? "" : is_bytes ? " (unscaled)" : " (dense)";
  return VendorMatmul{input, kind->output, !is_bytes && !same, false,
                      fmt::format("{}{}{}", kind->name, differs, is_bare_product(problem) ? "" : " without epilogue")};
}

VendorStatus cublaslt_status() {
  auto child = run_in_child(kCublasLtTimeout_s, [](ChildReport& report) {
    const auto library = CublasLt::load();
    report.send(library.ok() ? fmt::format("+cuBLASLt {} ({})", (*library)->version(), (*library)->path())
                             : "-" + library.error().message);
  });
  if (!child.ok()) return {false, child.error().message, ""};
  if (child->messages.empty()) return {false, "it cannot be loaded: " + child->failure, kInstallCublasLt};
  const std::string& message = child->messages[0];
  return message[0] == '+' ? VendorStatus{true, message.substr(1), ""}
                           : VendorStatus{false, message.substr(1), kInstallCublasLt};
}

}  // namespace qcg

// One matmul of oneDNN behind a C boundary, for the API of 2.x (operation descriptors, output scales) and that of 3.x.
#include "codegen/vendor/onednn_adapter.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "codegen/vendor/onednn_describe.h"

#define QCG_EXPORT __attribute__((visibility("default")))

namespace {

using dnnl::matmul;
using dnnl::memory;

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCopyAlignment = 4096;
constexpr int64_t kMaxCopies = 4096;

dnnl::post_ops post_ops(int32_t eltwise) {
  dnnl::post_ops out;
  if (eltwise == kOneDnnNone) return out;
  const auto algorithm = eltwise == kOneDnnRelu      ? dnnl::algorithm::eltwise_relu
                         : eltwise == kOneDnnSwish   ? dnnl::algorithm::eltwise_swish
                         : eltwise == kOneDnnGeluErf ? dnnl::algorithm::eltwise_gelu_erf
                                                     : dnnl::algorithm::eltwise_gelu_tanh;
  const float alpha = eltwise == kOneDnnSwish ? 1.f : 0.f;
#if DNNL_VERSION_MAJOR >= 3
  out.append_eltwise(algorithm, alpha, 0.f);
#else
  out.append_eltwise(1.f, algorithm, alpha, 0.f);
#endif
  return out;
}

}  // namespace

namespace qcg {

memory::data_type onednn_data_type(int32_t dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::f32: return memory::data_type::f32;
    case DType::f16: return memory::data_type::f16;
    case DType::bf16: return memory::data_type::bf16;
    case DType::i8: return memory::data_type::s8;
    case DType::u8: return memory::data_type::u8;
    case DType::i32: return memory::data_type::s32;
    default: throw std::runtime_error("oneDNN has no such dtype");
  }
}

namespace {

// Without VNNI oneDNN adds two 8-bit products at a time in 16 bits, and 2 * 127 * 255 saturates them.
bool saturates_byte_products() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
    case dnnl::cpu_isa::avx:
    case dnnl::cpu_isa::avx2:
    case dnnl::cpu_isa::avx512_core: return true;
    default: return false;
  }
}

}  // namespace

// What differs between the two APIs: how scales are said, and how a primitive descriptor is made.
matmul::primitive_desc describe_matmul(const QcgOneDnnMatmul& s, const dnnl::engine& engine,
                                       dnnl::scratchpad_mode scratchpad) {
  const memory::desc x({s.m, s.k}, onednn_data_type(s.x_dtype), memory::dims{s.x_stride > 0 ? s.x_stride : s.k, 1});
  const memory::desc w({s.k, s.n}, onednn_data_type(s.w_dtype), memory::format_tag::any);
  const memory::desc y({s.m, s.n}, onednn_data_type(s.y_dtype), memory::dims{s.y_stride > 0 ? s.y_stride : s.n, 1});
  const memory::desc bias({1, s.n}, memory::data_type::f32, memory::format_tag::ab);
  const bool decompress = s.scales && is_floating(static_cast<DType>(s.x_dtype));
  if (!is_floating(static_cast<DType>(s.x_dtype)) && saturates_byte_products())
    throw std::runtime_error("without VNNI it saturates sums of 8-bit products to 16 bits");
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(scratchpad);
  attr.set_post_ops(post_ops(s.eltwise));
#if DNNL_VERSION_MAJOR >= 3
  if (s.scales) attr.set_scales_mask(DNNL_ARG_WEIGHTS, 1 << 1);
#if DNNL_VERSION_MAJOR == 3 && DNNL_VERSION_MINOR < 4
  if (decompress) throw std::runtime_error("weights decompression came with oneDNN 3.4");
#else
  if (decompress) {
    const bool f32 = static_cast<DType>(s.x_dtype) == DType::f32;
    const bool f16 = static_cast<DType>(s.x_dtype) == DType::f16;
    attr.set_fpmath_mode(f32   ? dnnl::fpmath_mode::strict
                         : f16 ? dnnl::fpmath_mode::f16
                               : dnnl::fpmath_mode::bf16,
                         true);
  }
#endif
  return s.bias ? matmul::primitive_desc(engine, x, w, bias, y, attr) : matmul::primitive_desc(engine, x, w, y, attr);
#else
  if (decompress) throw std::runtime_error("oneDNN 2 has no weights decompression");
  if (s.scales) attr.set_output_scales(1 << 1, std::vector<float>(s.scales, s.scales + s.n));
  return s.bias ? matmul::primitive_desc(matmul::desc(x, w, bias, y), attr, engine)
                : matmul::primitive_desc(matmul::desc(x, w, y), attr, engine);
#endif
}

}  // namespace qcg

namespace {

// Weights on huge pages, as ours are: a fair reference.
struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};
using Block = std::unique_ptr<void, FreeDeleter>;

Block allocate(size_t bytes) {
  const size_t rounded = std::max<size_t>(1, (bytes + kHugePage - 1) / kHugePage) * kHugePage;
  Block block(std::aligned_alloc(kHugePage, rounded));
  if (!block) throw std::bad_alloc();
  ::madvise(block.get(), rounded, MADV_HUGEPAGE);
  return block;
}

class Matmul {
 public:
  explicit Matmul(const QcgOneDnnMatmul& s)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        pd_(qcg::describe_matmul(s, engine_, dnnl::scratchpad_mode::library)),
        primitive_(pd_) {
    memory x(pd_.src_desc(), engine_, const_cast<void*>(s.x));
    y_ = memory(pd_.dst_desc(), engine_);
    args_ = {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y_}};
    if (s.bias) add_bias(s);
#if DNNL_VERSION_MAJOR >= 3
    if (s.scales) {
      scales_.assign(s.scales, s.scales + s.n);
      const memory::desc desc({s.n}, memory::data_type::f32, memory::format_tag::a);
      args_.insert({qcg::kOneDnnScales, memory(desc, engine_, scales_.data())});
    }
#endif
    add_weights(s);
  }

  void run() {
    args_.insert_or_assign(DNNL_ARG_WEIGHTS, weights_[next_++ % weights_.size()]);
    primitive_.execute(stream_, args_);
    stream_.wait();
  }

  void read(void* y) const { std::memcpy(y, y_.get_data_handle(), y_.get_desc().get_size()); }

 private:
  void add_bias(const QcgOneDnnMatmul& s) {
    bias_.assign(s.bias, s.bias + s.n);
#if DNNL_VERSION_MAJOR < 3
    for (int64_t n = 0; s.scales && n < s.n; ++n)
      bias_[static_cast<size_t>(n)] /= s.scales[n];  // 2.x scales after the bias
#endif
    const memory::desc desc({1, s.n}, memory::data_type::f32, memory::format_tag::ab);
    args_.insert({DNNL_ARG_BIAS, memory(desc, engine_, bias_.data())});
  }

  // Once to the primitive's own layout, then byte for byte until the copies, with as many bytes of the kernel that is
  // timed in turn with it, are larger than any cache.
  void add_weights(const QcgOneDnnMatmul& s) {
    const memory::desc plain({s.k, s.n}, qcg::onednn_data_type(s.w_dtype), memory::format_tag::ba);
    memory user(plain, engine_, const_cast<void*>(s.w));
    const size_t bytes = pd_.weights_desc().get_size();
    const int64_t size = std::max<int64_t>(1, static_cast<int64_t>(bytes));
    const int64_t copies = std::clamp<int64_t>((s.cold_bytes + 2 * size - 1) / (2 * size), 1, kMaxCopies);
    const size_t stride = (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
    block_ = allocate(stride * static_cast<size_t>(copies));
    for (int64_t c = 0; c < copies; ++c) {
      char* at = static_cast<char*>(block_.get()) + static_cast<size_t>(c) * stride;
      weights_.emplace_back(pd_.weights_desc(), engine_, at);
      if (c > 0) std::memcpy(at, block_.get(), bytes);
      else dnnl::reorder(user, weights_[0]).execute(stream_, user, weights_[0]), stream_.wait();
    }
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  matmul::primitive_desc pd_;
  matmul primitive_;
  std::vector<float> bias_, scales_;
  Block block_;
  std::vector<memory> weights_;
  memory y_;
  std::unordered_map<int, memory> args_;
  size_t next_ = 0;
};

// Runs f; what it throws becomes text.
template <class F>
auto guarded(char* why, int64_t why_bytes, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    if (why)
      std::snprintf(why, static_cast<size_t>(why_bytes), "%s (status %d)", e.message, static_cast<int>(e.status));
  } catch (const std::exception& e) {
    if (why) std::snprintf(why, static_cast<size_t>(why_bytes), "%s", e.what());
  }
  return {};
}

}  // namespace

extern "C" {

QCG_EXPORT const char* qcg_onednn_version() {
  static const std::string text = [] {
    const dnnl_version_t* v = dnnl_version();
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
  }();
  return text.c_str();
}

QCG_EXPORT int qcg_onednn_check(const QcgOneDnnMatmul* spec, char* why, int64_t why_bytes) {
  return guarded(why, why_bytes, [&] {
    return qcg::describe_matmul(*spec, dnnl::engine(dnnl::engine::kind::cpu, 0), dnnl::scratchpad_mode::library) ? 1
                                                                                                                 : 0;
  });
}

QCG_EXPORT void* qcg_onednn_create(const QcgOneDnnMatmul* spec, char* why, int64_t why_bytes) {
  return guarded(why, why_bytes, [&]() -> void* { return new Matmul(*spec); });
}

QCG_EXPORT int qcg_onednn_run(void* matmul) {
  return guarded(nullptr, 0, [&] { return static_cast<Matmul*>(matmul)->run(), 1; });
}

QCG_EXPORT int qcg_onednn_read(void* matmul, void* y) {
  return guarded(nullptr, 0, [&] { return static_cast<Matmul*>(matmul)->read(y), 1; });
}

QCG_EXPORT void qcg_onednn_destroy(void* matmul) { delete static_cast<Matmul*>(matmul); }
}

// The entry points of cuBLASLt that codegen/vendor/cublaslt.cpp uses. Numbers are those of NVIDIA's headers, written again.
#include "tests/vendor/fake_cublaslt.h"

#include <cmath>
#include <cstring>

namespace {

constexpr int kSuccess = 0, kInvalid = 7, kNotSupported = 15;
constexpr int kR32F = 0, kR16F = 2, kR8I = 3, kR32I = 10, kR16BF = 14, kR8F_E4M3 = 28;
constexpr int kFloatSums = 68, kIntegerSums = 72;

qcg::test::FakeCublasLt* g_fake = nullptr;  // the test's; nobody else loads this library

struct Desc {
  int compute, scale;
  int32_t trans_a = 0, trans_b = 0;
};
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t leading;
};
struct Preference {
  uint64_t workspace = 0;
};
struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

int refuse(const char* why, int code = kInvalid) {
  g_fake->refused.emplace_back(why);
  return code;
}

size_t bytes_of(int type) { return type == kR32F || type == kR32I ? 4 : type == kR16F || type == kR16BF ? 2 : 1; }

// A number of e exponent bits and f fraction bits, from its value's bits without the sign.
double decode(uint32_t bits, int e, int f) {
  const int bias = (1 << (e - 1)) - 1, exponent = static_cast<int>(bits >> f) & ((1 << e) - 1);
  const double fraction = (bits & ((1u << f) - 1)) / static_cast<double>(1 << f);
  return exponent ? std::ldexp(1 + fraction, exponent - bias) : std::ldexp(fraction, 1 - bias);
}

double load(int type, const void* base, size_t i) {
  const auto* bytes = static_cast<const uint8_t*>(base) + i * bytes_of(type);
  uint16_t half = 0;
  float single = 0;
  int32_t integer = 0;
  if (bytes_of(type) == 2) std::memcpy(&half, bytes, 2);
  if (bytes_of(type) == 4) std::memcpy(&single, bytes, 4), std::memcpy(&integer, bytes, 4);
  switch (type) {
    case kR8I: return static_cast<int8_t>(*bytes);
    case kR32I: return integer;
    case kR8F_E4M3: return (*bytes & 0x80 ? -1 : 1) * decode(*bytes & 0x7F, 4, 3);
    case kR16F: return (half & 0x8000 ? -1 : 1) * decode(half & 0x7FFF, 5, 10);
    case kR16BF: return (half & 0x8000 ? -1 : 1) * decode(half & 0x7FFF, 8, 7);
    default: return single;
  }
}

// Of integers that the type holds exactly.
void store(int type, void* base, size_t i, double value) {
  auto* bytes = static_cast<uint8_t*>(base) + i * bytes_of(type);
  if (type == kR32I) {
    const auto integer = static_cast<int32_t>(value);
    std::memcpy(bytes, &integer, 4);
    return;
  }
  const auto single = static_cast<float>(value);
  if (type == kR32F) {
    std::memcpy(bytes, &single, 4);
    return;
  }
  const bool is_bf16 = type == kR16BF;
  uint16_t half = 0;
  if (value != 0) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent);  // in [1/2, 1)
    const int f = is_bf16 ? 7 : 10, bias = is_bf16 ? 127 : 15;
    half = static_cast<uint16_t>(((exponent - 1 + bias) << f) | static_cast<int>((2 * fraction - 1) * (1 << f)));
    if (value < 0) half |= 0x8000;
  }
  std::memcpy(bytes, &half, 2);
}

// Why the library has no such product; null: it has.
const char* why_unlike(const Desc& desc, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const bool a_transposed = desc.trans_a == 1, b_transposed = desc.trans_b == 1;
  const uint64_t m = a_transposed ? a.columns : a.rows, k = a_transposed ? a.rows : a.columns;
  if (k != (b_transposed ? b.columns : b.rows)) return "A and B differ in k";
  if (d.rows != m || d.columns != (b_transposed ? b.rows : b.columns)) return "D is not A times B";
  if (c.rows != d.rows || c.columns != d.columns || c.type != d.type) return "C is not like D";
  for (const Layout* l : {&a, &b, &c, &d})
    if (l->leading < static_cast<int64_t>(l->rows)) return "columns overlap";
  if (a.type != b.type) return "types of A and B";
  const bool is_integer = a.type == kR8I;
  if (desc.compute != (is_integer ? kIntegerSums : kFloatSums)) return "type of sums";
  if (desc.scale != (is_integer ? kR32I : kR32F)) return "type of alpha";
  if (d.type != (is_integer ? kR32I : a.type == kR8F_E4M3 ? kR16BF : a.type)) return "type of D";
  if ((is_integer || a.type == kR8F_E4M3) && (!a_transposed || b_transposed)) return "8 bits want A transposed, B not";
  return nullptr;
}

template <class T>
int take(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof to) return refuse("bytes of an attribute");
  std::memcpy(&to, value, bytes);
  return kSuccess;
}

template <class T>
int destroy(void* made) {
  --g_fake->alive;
  delete static_cast<T*>(made);
  return kSuccess;
}

}  // namespace

#define QCG_BEGIN \
  if (g_fake->fail == __func__) return g_fake->fail_code

extern "C" {

void qcg_use_fake_cublaslt(qcg::test::FakeCublasLt* fake) { g_fake = fake; }

size_t cublasLtGetVersion() { return 130205; }
const char* cublasLtGetStatusString(int status) { return status == 14 ? "an internal error" : "a status"; }

int cublasLtCreate(void** handle) {
  QCG_BEGIN;
  ++g_fake->alive;
  *handle = new int(0);
  return kSuccess;
}
int cublasLtDestroy(void* handle) { return destroy<int>(handle); }
int cublasLtMatmulDescCreate(void** desc, int compute, int scale) {
  QCG_BEGIN;
  ++g_fake->alive;
  *desc = new Desc{compute, scale};
  return kSuccess;
}
int cublasLtMatmulDescDestroy(void* desc) { return destroy<Desc>(desc); }
int cublasLtMatmulDescSetAttribute(void* made, int attribute, const void* value, size_t bytes) {
  QCG_BEGIN;
  auto& desc = *static_cast<Desc*>(made);
  switch (attribute) {
    case 3: return take(desc.trans_a, value, bytes);
    case 4: return take(desc.trans_b, value, bytes);
    default: return refuse("attribute of a product");
  }
}
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  QCG_BEGIN;
  ++g_fake->alive;
  *layout = new Layout{type, rows, columns, leading};
  return kSuccess;
}
int cublasLtMatrixLayoutDestroy(void* layout) { return destroy<Layout>(layout); }
int cublasLtMatmulPreferenceCreate(void** preference) {
  QCG_BEGIN;
  ++g_fake->alive;
  *preference = new Preference;
  return kSuccess;
}
int cublasLtMatmulPreferenceDestroy(void* preference) { return destroy<Preference>(preference); }
int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value, size_t bytes) {
  QCG_BEGIN;
  if (attribute != 1) return refuse("attribute of a preference");
  return take(static_cast<Preference*>(preference)->workspace, value, bytes);
}

int cublasLtMatmulAlgoGetHeuristic(void*, void* desc, void* a, void* b, void* c, void* d, void* preference,
                                   int requested, Heuristic* results, int* returned) {
  QCG_BEGIN;
  const char* const why = why_unlike(*static_cast<Desc*>(desc), *static_cast<Layout*>(a), *static_cast<Layout*>(b),
                                     *static_cast<Layout*>(c), *static_cast<Layout*>(d));
  if (why) return refuse(why, kNotSupported);
  g_fake->requested = requested;
  g_fake->workspace = static_cast<Preference*>(preference)->workspace;
  *returned = requested < g_fake->offered ? requested : g_fake->offered;
  for (int i = 0; i < *returned; ++i) {
    results[i] = {};
    results[i].state = i == 1 ? kNotSupported : kSuccess;
    for (uint64_t& word : results[i].algorithm) word = 100 + static_cast<uint64_t>(i);
    results[i].workspace = 1 << 20;
  }
  return kSuccess;
}

int cublasLtMatmul(void*, void* made, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout,
                   const void* beta, const void* c, void* c_layout, void* d, void* d_layout, const uint64_t* algorithm,
                   void* workspace, size_t workspace_bytes, void* stream) {
  QCG_BEGIN;
  const auto& desc = *static_cast<Desc*>(made);
  const auto &la = *static_cast<Layout*>(a_layout), &lb = *static_cast<Layout*>(b_layout),
             &lc = *static_cast<Layout*>(c_layout), &ld = *static_cast<Layout*>(d_layout);
  if (const char* const why = why_unlike(desc, la, lb, lc, ld)) return refuse(why, kNotSupported);
  for (int i = 1; i < 8; ++i)
    if (algorithm[i] != algorithm[0]) return refuse("an algorithm that was cut");
  if (!workspace || workspace_bytes != g_fake->workspace) return refuse("workspace");
  g_fake->stream = stream;
  a = g_fake->host(const_cast<void*>(a)), b = g_fake->host(const_cast<void*>(b)),
  c = g_fake->host(const_cast<void*>(c));
  d = g_fake->host(d);
  g_fake->algorithm = algorithm[0];
  ++g_fake->products;
  const bool is_integer = desc.scale == kR32I;
  int32_t factors[2];
  std::memcpy(&factors[0], alpha, 4);
  std::memcpy(&factors[1], beta, 4);
  const double alpha_value = is_integer ? factors[0] : load(kR32F, alpha, 0),
               beta_value = is_integer ? factors[1] : load(kR32F, beta, 0);
  const auto k = static_cast<int64_t>(desc.trans_a ? la.rows : la.columns);
  for (int64_t column = 0; column < static_cast<int64_t>(ld.columns); ++column)
    for (int64_t row = 0; row < static_cast<int64_t>(ld.rows); ++row) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        const int64_t at_a = desc.trans_a ? i + row * la.leading : row + i * la.leading;
        const int64_t at_b = desc.trans_b ? column + i * lb.leading : i + column * lb.leading;
        sum += load(la.type, a, static_cast<size_t>(at_a)) * load(lb.type, b, static_cast<size_t>(at_b));
      }
      double value = alpha_value * sum * (g_fake->wrong ? 2 : 1);
      if (beta_value != 0) value += beta_value * load(lc.type, c, static_cast<size_t>(row + column * lc.leading));
      store(ld.type, d, static_cast<size_t>(row + column * ld.leading), value);
    }
  return kSuccess;
}

}  // extern "C"

// The primitives of every ISA header against libm in double, against each other, and between guard pages.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "graph/tensor.h"
#include "probe.h"
#include "reference.h"

using namespace qcg_test;

namespace {

struct ProbeOfIsa {
  qcg::Isa isa;
  const IsaProbe* probe;
};
const ProbeOfIsa kProbes[] = {
    {qcg::Isa::portable, &kPortableProbe},
#if defined(__x86_64__)
    {qcg::Isa::avx2, &kAvx2Probe},
    {qcg::Isa::avx512, &kAvx512Probe},
    {qcg::Isa::avx512bf16, &kAvx512Bf16Probe},
#endif
};

template <class Check>
void for_each_probe(Check check) {
  for (const auto& [isa, probe] : kProbes) {
    if (const std::string why = qcg::why_isa_unavailable(isa); !why.empty()) {
      MESSAGE("skipped: ", probe->isa, ": ", why);
      continue;
    }
    CAPTURE(probe->isa);
    check(*probe);
  }
}

const ProbeFunction& find(const IsaProbe& probe, std::string_view name) {
  return *std::find_if(probe.functions, probe.functions + probe.function_count,
                       [&](const ProbeFunction& f) { return f.name == name; });
}
const ProbeStorage& find_storage(const IsaProbe& probe, std::string_view name) {
  return *std::find_if(probe.storages, probe.storages + probe.storage_count,
                       [&](const ProbeStorage& s) { return s.name == name; });
}

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kSpecial[] = {0.0f,     -0.0f,      1.0f,    -1.0f, kInf,   -kInf,   std::nanf(""), 1e-45f, -1e-45f, 1.1e-38f,
                          -1.1e-38f, 1.17549435e-38f, 3.4028235e38f, -3.4028235e38f, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, -2.5f,
                          2.0f,     -2.0f,      3.0f,    -3.0f, 8388607.5f, 8388608.0f, 1e10f, -1e10f, 88.7f, -88.7f, -103.9f, 104.0f};

// Specials, every 30011th bit pattern, and a dense stretch where the functions bend; a multiple of 16 long.
const std::vector<float>& sample() {
  static const std::vector<float> values = [] {
    std::vector<float> v(std::begin(kSpecial), std::end(kSpecial));
    for (uint64_t bits = 0; bits < (1ull << 32); bits += 30011) {
      const uint32_t b = static_cast<uint32_t>(bits);
      float x;
      std::memcpy(&x, &b, 4);
      v.push_back(x);
    }
    std::mt19937 random(1);
    for (int i = 0; i < 100000; ++i) v.push_back(std::uniform_real_distribution<float>(-20, 20)(random));
    v.resize(v.size() / 16 * 16);
    return v;
  }();
  return values;
}

// The bounds templates/cpu/vector_math.h states.
bool within_bound(std::string_view name, float x, float got, double want) {
  const double ulp = ulp_error(got, want);
  const double error = std::fabs(got - want), a = std::fabs(double{x});
  if (name == "exp" || name == "log") return ulp <= 1;
  if (name == "sin" || name == "cos") return a <= 1e6 || std::isnan(want) ? ulp <= 2 : std::fabs(got) <= 1;
  if (name == "tanh" || name == "erf" || name == "rsqrt") return ulp <= 2;
  if (name == "sigmoid") return ulp <= 3;
  if (name == "silu") return ulp <= 4 || (x < -87 && error <= 1e-43);
  if (name == "gelu") return ulp <= (x >= 0 ? 6 : 8) || (x < -13 && error <= 1e-8 * a);
  if (name == "gelu_tanh") return ulp <= (x >= -2 ? 8 : 40) || (x < -5 && error <= 1e-8 * a);
  return ulp == 0;
}

}  // namespace

TEST_CASE("unary functions keep the bounds their header states") {
  const std::vector<float>& x = sample();
  std::vector<float> y(x.size());
  for_each_probe([&](const IsaProbe& probe) {
    for (int f = 0; f < probe.function_count; ++f) {
      const ProbeFunction& function = probe.functions[f];
      const std::string name = function.name;
      if (function.arity != 1 || name.starts_with("cast")) continue;
      function.map(x.data(), x.data(), x.data(), y.data(), static_cast<int>(x.size()));
      size_t bad = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = reference_unary(name, x[i]);
        if (within_bound(name, x[i], y[i], want)) continue;
        if (bad++ < 3) FAIL_CHECK(name, "(", x[i], ") = ", y[i], " but is ", want, ", off by ", ulp_error(y[i], want), " ulp");
      }
      CHECK_MESSAGE(bad == 0, name);
    }
  });
}

TEST_CASE("pow: specials as IEEE 754, elsewhere 4 ulp") {
  std::vector<float> x, y;
  for (float a : kSpecial)
    for (float b : kSpecial) x.push_back(a), y.push_back(b);
  std::mt19937 random(2);
  for (int i = 0; i < 200000; ++i) {
    const float base = std::exp2(std::uniform_real_distribution<float>(-30, 30)(random));
    x.push_back(i % 4 == 0 ? 1 + (base < 1 ? base : 1 / base) * 0.1f : base);
    y.push_back(std::uniform_real_distribution<float>(-140, 140)(random) / (i % 4 == 0 ? 1 : std::log2(base)));
  }
  x.resize(x.size() / 16 * 16), y.resize(x.size());
  std::vector<float> z(x.size());
  for_each_probe([&](const IsaProbe& probe) {
    find(probe, "pow").map(x.data(), y.data(), y.data(), z.data(), static_cast<int>(x.size()));
    int bad = 0;
    for (size_t i = 0; i < x.size() && bad < 5; ++i) {
      const double want = std::pow(double{x[i]}, double{y[i]});
      if (ulp_error(z[i], want) <= 4 && std::signbit(z[i]) == (std::isnan(want) ? std::signbit(z[i]) : std::signbit(want))) continue;
      FAIL_CHECK("pow(", x[i], ", ", y[i], ") = ", z[i], " but is ", want, ", off by ", ulp_error(z[i], want), " ulp");
      ++bad;
    }
  });
}

TEST_CASE("arithmetic is exact to the bit, and NaN wins max, min, clamp and relu") {
  std::vector<float> a, b;
  for (float p : kSpecial)
    for (float q : kSpecial) a.push_back(p), b.push_back(q);
  const int n = static_cast<int>(a.size());
  std::vector<float> y(a.size()), ones(a.size(), 1.0f), minus(a.size(), -1.0f);
  auto same = [](float p, float q) { return std::isnan(p) ? std::isnan(q) : p == q; };
  for_each_probe([&](const IsaProbe& probe) {
    struct Case {
      const char* name;
      float (*meaning)(float, float);
    };
    const Case cases[] = {
        {"add", [](float p, float q) { return p + q; }},
        {"sub", [](float p, float q) { return p - q; }},
        {"mul", [](float p, float q) { return p * q; }},
        {"div", [](float p, float q) { return p / q; }},
        {"max", [](float p, float q) { return std::isnan(p) || std::isnan(q) ? std::nanf("") : std::max(p, q); }},
        {"min", [](float p, float q) { return std::isnan(p) || std::isnan(q) ? std::nanf("") : std::min(p, q); }},
    };
    for (const Case& c : cases) {
      find(probe, c.name).map(a.data(), b.data(), b.data(), y.data(), n);
      for (int i = 0; i < n; ++i)
        CHECK_MESSAGE(same(y[i], c.meaning(a[i], b[i])), c.name, " ", a[i], " ", b[i], " gave ", y[i]);
    }
    find(probe, "clamp").map(a.data(), minus.data(), ones.data(), y.data(), n);
    for (int i = 0; i < n; ++i)
      CHECK_MESSAGE(same(y[i], std::isnan(a[i]) ? a[i] : std::clamp(a[i], -1.0f, 1.0f)), "clamp ", a[i], " gave ", y[i]);
  });
}

TEST_CASE("fused rounds once; fma rounds once or twice") {
  std::mt19937 random(3);
  std::vector<float> a(4096), b(4096), c(4096), y(4096);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = std::uniform_real_distribution<float>(-2, 2)(random);
    b[i] = std::uniform_real_distribution<float>(-2, 2)(random);
    c[i] = i % 2 ? -(a[i] * b[i]) : std::uniform_real_distribution<float>(-2, 2)(random);
  }
  for_each_probe([&](const IsaProbe& probe) {
    find(probe, "fused").map(a.data(), b.data(), c.data(), y.data(), 4096);
    for (size_t i = 0; i < a.size(); ++i) CHECK(y[i] == std::fmaf(a[i], b[i], c[i]));
    find(probe, "fma").map(a.data(), b.data(), c.data(), y.data(), 4096);
    for (size_t i = 0; i < a.size(); ++i) {
      volatile float product = a[i] * b[i];
      CHECK((y[i] == std::fmaf(a[i], b[i], c[i]) || y[i] == product + c[i]));
    }
  });
}

TEST_CASE("rounding through a dtype: all ISAs agree with a scalar text") {
  const std::vector<float>& x = sample();
  std::vector<float> y(x.size());
  const int n = static_cast<int>(x.size());
  auto bf16 = [](float v) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    if (std::isnan(v)) return v;
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    std::memcpy(&v, &bits, 4);
    return v;
  };
  auto f16 = [](float v) {  // round to the spacing of the f16 binade; 65520 and above are infinite
    if (std::isnan(v) || std::isinf(v) || v == 0) return v;
    const double spacing = std::ldexp(1.0, std::max(std::ilogb(v), -14) - 10);
    const double r = std::nearbyint(v / spacing) * spacing;
    return std::fabs(r) > 65504 ? std::copysign(kInf, v) : static_cast<float>(r);
  };
  for_each_probe([&](const IsaProbe& probe) {
    size_t bad = 0;
    find(probe, "cast_bf16").map(x.data(), x.data(), x.data(), y.data(), n);
    for (size_t i = 0; i < x.size(); ++i) bad += ulp_error(y[i], bf16(x[i])) != 0;
    CHECK(bad == 0);
    find(probe, "cast_f16").map(x.data(), x.data(), x.data(), y.data(), n);
    for (size_t i = 0; i < x.size(); ++i) bad += ulp_error(y[i], f16(x[i])) != 0;
    CHECK(bad == 0);
    std::vector<float> small(x.size());
    for (size_t i = 0; i < x.size(); ++i) small[i] = std::fabs(x[i]) < 1e9f ? x[i] : 7.5f;
    for (const char* name : {"cast_i8", "cast_u8", "cast_i32", "cast_i64", "cast_bool"}) {
      find(probe, name).map(small.data(), small.data(), small.data(), y.data(), n);
      const std::string type = name + 5;
      for (size_t i = 0; i < x.size(); ++i) {
        const int64_t whole = static_cast<int64_t>(small[i]);
        const float want = type == "i8"     ? static_cast<int8_t>(whole)
                           : type == "u8"   ? static_cast<uint8_t>(whole)
                           : type == "bool" ? static_cast<float>(small[i] != 0)
                                            : static_cast<float>(whole);
        bad += y[i] != want;
      }
      CHECK_MESSAGE(bad == 0, name);
    }
  });
}

namespace {

// One page of memory between two pages that trap.
class GuardedPage {
 public:
  GuardedPage() : size_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    base_ = static_cast<char*>(mmap(nullptr, 3 * size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + size_, size_, PROT_READ | PROT_WRITE);
  }
  ~GuardedPage() { munmap(base_, 3 * size_); }
  GuardedPage(const GuardedPage&) = delete;
  char* first() { return base_ + size_; }
  char* last(size_t bytes) { return base_ + 2 * size_ - bytes; }

 private:
  size_t size_;
  char* base_;
};

double element(const std::string& type, const char* p) {
  auto as = [&]<class T>(T v) {
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  if (type == "f32") return as(float{});
  if (type == "f64") return as(double{});
  if (type == "i64") return static_cast<double>(as(int64_t{}));
  if (type == "i32" || type == "vi") return as(int32_t{});
  if (type == "i8" || type == "i8_sat" || type == "vi_i8") return as(int8_t{});
  if (type == "u8" || type == "u8_sat" || type == "vi_u8" || type == "bool") return as(uint8_t{});
  if (type.starts_with("f8")) return qcg::element_to_double(*qcg::dtype_from_name(type), reinterpret_cast<const std::byte*>(p));
  const uint16_t h = as(uint16_t{});
  if (type == "bf16") {
    const uint32_t bits = uint32_t{h} << 16;
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
  }
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double magnitude = exponent == 31   ? (mantissa ? std::nan("") : INFINITY)
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, exponent - 25);
  return h >> 15 ? -magnitude : magnitude;
}

// What storing `x` as `type` means; inputs stay where integer conversion is defined.
double stored(const std::string& type, float x) {
  const double even = std::nearbyint(double{x});
  if (type == "i8") return static_cast<int8_t>(static_cast<int64_t>(x));
  if (type == "u8") return static_cast<uint8_t>(static_cast<int64_t>(x));
  if (type == "i32" || type == "i64") return std::trunc(double{x});
  if (type == "vi") return even;
  if (type == "vi_i8") return static_cast<int8_t>(static_cast<int64_t>(even) * 3 - 1);
  if (type == "vi_u8") return static_cast<uint8_t>(static_cast<int64_t>(even) + 2);
  if (type == "i8_sat") return std::clamp(even, -128.0, 127.0);
  if (type == "u8_sat") return std::clamp(even, 0.0, 255.0);
  if (type.starts_with("f8")) return qcg::round_to_dtype(*qcg::dtype_from_name(type), x);
  return x;  // f32, f64; bf16 and f16 are fed values they hold exactly
}

}  // namespace

TEST_CASE("loads and stores touch exactly n elements, at both ends of a guarded page") {
  GuardedPage page;
  std::mt19937 random(4);
  for_each_probe([&](const IsaProbe& probe) {
    for (int s = 0; s < probe.storage_count; ++s) {
      const ProbeStorage& storage = probe.storages[s];
      const std::string type = storage.name;
      CAPTURE(type);
      for (int n = 0; n <= probe.lanes; ++n)
        for (int at_end = 0; at_end < 2; ++at_end)
          for (int whole = 0; whole <= (n == probe.lanes); ++whole) {
            const size_t bytes = static_cast<size_t>(n * storage.bytes);
            char* p = at_end ? page.last(bytes) : page.first();
            if (storage.load) {
              for (size_t i = 0; i < bytes; ++i) p[i] = static_cast<char>(random());
              if (type == "f32" || type == "f64")
                for (int i = 0; i < n; ++i) {
                  const float value = static_cast<float>(random() % 2000) / 8 - 100;
                  if (type == "f32") std::memcpy(p + 4 * i, &value, 4);
                  else { const double wide = value; std::memcpy(p + 8 * i, &wide, 8); }
                }
              float y[64];
              storage.load(p, y, n, whole);
              for (int i = 0; i < probe.lanes; ++i) {
                const double absent = type == "f8e8m0" ? 0x1p-127 : 0;
                double want = i < n ? element(type, p + i * storage.bytes) : absent;
                if (type == "bool") want = want != 0;
                CHECK(ulp_error(y[i], want) == 0);
              }
            }
            if (storage.store) {
              float x[64];
              const int range = type == "bf16" ? 128 : 400;  // a bf16 holds eight bits
              for (float& v : x) v = static_cast<float>(static_cast<int>(random() % (2 * range)) - range) / 4;
              storage.store(p, x, n, whole);
              for (int i = 0; i < n; ++i) CHECK(element(type, p + i * storage.bytes) == stored(type, x[i]));
            }
          }
    }
  });
}

TEST_CASE("partial stores leave their neighbours alone") {
  for_each_probe([&](const IsaProbe& probe) {
    for (int s = 0; s < probe.storage_count; ++s) {
      const ProbeStorage& storage = probe.storages[s];
      if (!storage.store) continue;
      CAPTURE(storage.name);
      float x[64] = {};
      for (int n = 0; n <= probe.lanes; ++n) {
        std::vector<unsigned char> memory(static_cast<size_t>(storage.bytes * (probe.lanes + 2)), 0xa5);
        storage.store(memory.data() + storage.bytes, x, n, false);
        for (size_t i = 0; i < memory.size(); ++i) {
          const int lane = static_cast<int>(i) / storage.bytes - 1;
          if (lane < 0 || lane >= n) CHECK(memory[i] == 0xa5);
        }
      }
    }
  });
}

TEST_CASE("8-bit floats: every code loads to its value, every f32 stores and casts as the oracle rounds") {
  // All bf16 patterns, each one f32 step to both sides: the ties of both formats and what is next to them, denormals, ends.
  std::vector<float> x;
  for (uint32_t high = 0; high < 65536; ++high)
    for (uint32_t low : {0u, 1u, 0xffffu}) x.push_back(std::bit_cast<float>(high << 16 | low));
  for_each_probe([&](const IsaProbe& probe) {
    for (const qcg::DType dtype : {qcg::DType::f8e4m3, qcg::DType::f8e5m2, qcg::DType::f8e8m0}) {
      const std::string type(qcg::dtype_name(dtype));
      const ProbeStorage& storage = find_storage(probe, type);
      int bad = 0;
      for (int base = 0; base < 256; base += probe.lanes) {
        char codes[16];
        float y[16];
        for (int i = 0; i < probe.lanes; ++i) codes[i] = static_cast<char>(base + i);
        storage.load(codes, y, probe.lanes, true);
        for (int i = 0; i < probe.lanes; ++i) bad += ulp_error(y[i], element(type, codes + i)) != 0;
      }
      CHECK_MESSAGE(bad == 0, type);
      if (!storage.store) continue;
      std::vector<float> cast(x.size());
      find(probe, "cast_" + type).map(x.data(), x.data(), x.data(), cast.data(), static_cast<int>(x.size()));
      for (size_t base = 0; base < x.size(); base += static_cast<size_t>(probe.lanes)) {
        char codes[16];
        storage.store(codes, x.data() + base, probe.lanes, true);
        for (int i = 0; i < probe.lanes; ++i) {
          const double want = qcg::round_to_dtype(dtype, x[base + i]), got = element(type, codes + i);
          bad += std::isnan(want) ? !std::isnan(got) || !std::isnan(cast[base + i])
                                  : got != want || cast[base + i] != want || std::signbit(got) != std::signbit(want);
        }
      }
      CHECK_MESSAGE(bad == 0, type);
    }
  });
}

TEST_CASE("every 16-bit pattern loads to its value and stores back to itself") {
  for_each_probe([&](const IsaProbe& probe) {
    for (const char* type : {"bf16", "f16"}) {
      const ProbeStorage& storage = find_storage(probe, type);
      int bad = 0;
      for (int base = 0; base < 65536; base += probe.lanes) {
        uint16_t in[16], out[16];
        float y[16];
        for (int i = 0; i < probe.lanes; ++i) in[i] = static_cast<uint16_t>(base + i);
        storage.load(in, y, probe.lanes, true);
        storage.store(out, y, probe.lanes, true);
        for (int i = 0; i < probe.lanes; ++i) {
          const double want = element(type, reinterpret_cast<const char*>(in + i));
          bad += ulp_error(y[i], want) != 0;
          bad += std::isnan(want) ? !std::isnan(element(type, reinterpret_cast<const char*>(out + i))) : in[i] != out[i];
        }
      }
      CHECK_MESSAGE(bad == 0, type);
    }
  });
}

TEST_CASE("saturating stores: out of range, ties, infinities and NaN") {
  const float x[16] = {-1e9f, 1e9f, kInf, -kInf, std::nanf(""), 126.5f, 127.5f, -128.5f, 0.5f, 1.5f, 254.5f, 255.5f, -0.5f, 2.5f, 0, 0};
  const int want_i8[14] = {-128, 127, 127, -128, -128, 126, 127, -128, 0, 2, 127, 127, 0, 2};
  const int want_u8[14] = {0, 255, 255, 0, 0, 126, 128, 0, 0, 2, 254, 255, 0, 2};
  for_each_probe([&](const IsaProbe& probe) {
    for (int base = 0; base < 14; base += probe.lanes) {
      int8_t i8[16];
      uint8_t u8[16];
      find_storage(probe, "i8_sat").store(i8, x + base, probe.lanes, true);
      find_storage(probe, "u8_sat").store(u8, x + base, probe.lanes, true);
      for (int i = 0; i < probe.lanes && base + i < 14; ++i) {
        CHECK(i8[i] == want_i8[base + i]);
        CHECK(u8[i] == want_u8[base + i]);
      }
    }
  });
}

TEST_CASE("reductions add halves onto halves; NaN anywhere wins max and min") {
  std::mt19937 random(5);
  for_each_probe([&](const IsaProbe& probe) {
    const int lanes = probe.lanes;
    for (int round = 0; round < 100; ++round) {
      std::vector<float> x(static_cast<size_t>(lanes)), tree;
      for (float& v : x) v = std::uniform_real_distribution<float>(-1, 1)(random);
      tree = x;
      for (int half = lanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) tree[static_cast<size_t>(i)] += tree[static_cast<size_t>(i + half)];
      CHECK(probe.reductions[0].reduce(x.data()) == tree[0]);
      CHECK(probe.reductions[1].reduce(x.data()) == *std::max_element(x.begin(), x.end()));
      CHECK(probe.reductions[2].reduce(x.data()) == *std::min_element(x.begin(), x.end()));
    }
    for (int at = 0; at < lanes; ++at) {
      std::vector<float> x(static_cast<size_t>(lanes), 1.0f);
      x[static_cast<size_t>(at)] = std::nanf("");
      CHECK(std::isnan(probe.reductions[1].reduce(x.data())));
      CHECK(std::isnan(probe.reductions[2].reduce(x.data())));
    }
  });
}

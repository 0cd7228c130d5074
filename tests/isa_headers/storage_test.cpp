// Loads and stores of every ISA header: every dtype, every count, between guard pages.
#include <sys/mman.h>
#include <unistd.h>

#include <bit>

#include "graph/ir/tensor.h"
#include "probes.h"

using namespace qcg_test;

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
  if (type == "i16") return as(int16_t{});
  if (type == "i8" || type == "i8_sat" || type == "vi_i8") return as(int8_t{});
  if (type == "u8" || type == "u8_sat" || type == "vi_u8" || type == "bool") return as(uint8_t{});
  if (type.starts_with("f8"))
    return qcg::element_to_double(*qcg::dtype_from_name(type), reinterpret_cast<const std::byte*>(p));
  const uint16_t h = as(uint16_t{});
  if (type == "bf16") {
    const uint32_t bits = uint32_t{h} << 16;
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
  }
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double magnitude = exponent == 31  ? (mantissa ? std::nan("") : INFINITY)
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, exponent - 25);
  return h >> 15 ? -magnitude : magnitude;
}

// What storing `x` as `type` means; inputs stay where integer conversion is defined.
double stored(const std::string& type, float x) {
  const double even = std::nearbyint(double{x});
  if (type == "i8") return static_cast<int8_t>(static_cast<int64_t>(x));
  if (type == "u8") return static_cast<uint8_t>(static_cast<int64_t>(x));
  if (type == "i16") return static_cast<int16_t>(static_cast<int64_t>(x));
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
                  else {
                    const double wide = value;
                    std::memcpy(p + 8 * i, &wide, 8);
                  }
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
  // All bf16 patterns, each one f32 step to both sides: the ties of both formats and what is next to them, denormals,
  // ends.
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
          bad +=
              std::isnan(want) ? !std::isnan(element(type, reinterpret_cast<const char*>(out + i))) : in[i] != out[i];
        }
      }
      CHECK_MESSAGE(bad == 0, type);
    }
  });
}

TEST_CASE("saturating stores: out of range, ties, infinities and NaN") {
  const float x[16] = {-1e9f, 1e9f, kInf,   -kInf,  std::nanf(""), 126.5f, 127.5f, -128.5f,
                       0.5f,  1.5f, 254.5f, 255.5f, -0.5f,         2.5f,   0,      0};
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

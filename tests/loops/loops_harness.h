// Compiles rendered kernels of all ISAs in few compiler runs and calls them on buffers between guard pages.
//
// Why here: tests/loops/*_test.cpp state cases and meanings; this file knows how to get from text to a running kernel.
//
//   KernelSet kernels;
//   const int k = kernels.add(Isa::avx2, [&](auto symbol) { return render_loop(problem, Isa::avx2, symbol); });
//   kernels.build();
//   run_kernel(kernels[k], {{x.data(), 0}, {y.data(), 0}}, params);
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cache/toolchain/compile.h"
#include "cache/toolchain/toolchain.h"
#include "codegen/kernel/target.h"
#include "codegen/loops/loops.h"
#include "codegen/matmul/matmul.h"
#include "codegen/quantize_rows/quantize_rows.h"
#include "codegen/reduce/reduce.h"
#include "codegen/windows/windows.h"
#include "runtime/abi.h"
#include "tests/isa_job.h"

namespace qcg::test {

// Elements that end exactly at a page that traps, or begin exactly after one.
class Guarded {
 public:
  Guarded(size_t bytes, bool at_end, unsigned char fill = 0xff) : bytes_(bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (bytes / page + 1) * page;
    total_ = inner + 2 * page;
    base_ = static_cast<char*>(mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + page, inner, PROT_READ | PROT_WRITE);
    std::memset(base_ + page, fill, inner);
    data_ = at_end ? base_ + page + inner - bytes : base_ + page;
  }
  Guarded(Guarded&& o) noexcept
      : base_(std::exchange(o.base_, nullptr)), data_(o.data_), bytes_(o.bytes_), total_(o.total_) {}
  ~Guarded() {
    if (base_) munmap(base_, total_);
  }
  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  char* base_;
  char* data_;
  size_t bytes_, total_;
};

inline std::vector<Isa> testable_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16}) {
    const std::string why = why_isa_unavailable(isa);
    if (why.empty()) isas.push_back(isa);
    else MESSAGE("skipped: ", isa_info(isa).name, ": ", why);
  }
  return isas;
}

class KernelSet {
 public:
  using Render = std::function<Result<std::string>(std::string_view symbol)>;

  int add(Isa isa, const Render& render) {
    const int index = static_cast<int>(entries_.size());
    auto text = render(fmt::format("kernel_{}", index));
    if (!text.ok()) FAIL(text.error().to_string());
    entries_.push_back({isa, *text, nullptr});
    return index;
  }

  // Kernels become namespaces of one source per ISA, so that one compiler run builds all of an ISA.
  void build() {
    auto cxx = find_cxx();
    REQUIRE_MESSAGE(cxx.ok(), "no compiler");
    std::map<Isa, CompileJob> jobs;
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Isa isa = entries_[i].isa;
      CompileJob& job = jobs[isa];
      if (job.sources.empty()) job = isa == Isa::amx && emulates_amx() ? new_emulated_job(*cxx) : new_job(*cxx, isa);
      job.sources[0].text += fmt::format("namespace k{} {{\n{}}}\n", i, entries_[i].text);
    }
    std::vector<CompileJob> list;
    for (auto& [isa, job] : jobs) list.push_back(std::move(job));
    auto results = compile_all(*cxx, list, {});
    if (!results.ok()) FAIL(results.error().to_string());
    for (const CompileResult& result : *results) {
      REQUIRE_MESSAGE(result.ok(), result.log);
      load(result.bytes);
    }
  }

  const qcg_kernel& operator[](int index) const { return *entries_[static_cast<size_t>(index)].kernel; }

 private:
  struct Entry {
    Isa isa;
    std::string text;
    const qcg_kernel* kernel;
  };

  void load(const std::string& bytes) {
    char path[] = "/tmp/qcg_loops_XXXXXX";
    const int fd = mkstemp(path);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    close(fd);
    void* module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    REQUIRE_MESSAGE(module, dlerror());
    for (size_t i = 0; i < entries_.size(); ++i)
      if (void* symbol = dlsym(module, fmt::format("kernel_{}", i).c_str()))
        entries_[i].kernel = static_cast<const qcg_kernel*>(symbol);
  }

  std::vector<Entry> entries_;
};

// Runs all items in uneven ranges, highest first: a kernel may not care.
inline void run_kernel(const qcg_kernel& kernel, const std::vector<qcg_arg>& args, const std::vector<int64_t>& params) {
  const qcg_call call = {args.data(), params.data(), nullptr};
  REQUIRE(kernel.abi == QCG_KERNEL_ABI);
  REQUIRE(kernel.phases == 1);
  REQUIRE(kernel.shared_bytes(&call) == 0);
  Guarded scratch(static_cast<size_t>(kernel.scratch_bytes(&call) + 63) / 64 * 64, true);
  const int64_t items = kernel.items(&call, 0);
  int64_t end = items, size = 1;
  while (end > 0) {
    const int64_t begin = std::max<int64_t>(0, end - size);
    kernel.run(&call, 0, begin, end, scratch.data());
    end = begin, size = size % 3 + 1;
  }
}

// One element as double, and back with the dtype's rounding.
inline double get_element(DType d, const void* data, int64_t i) {
  auto at = [&]<class T>(T) {
    T v;
    std::memcpy(&v, static_cast<const char*>(data) + i * static_cast<int64_t>(sizeof(T)), sizeof v);
    return v;
  };
  switch (d) {
    case DType::f32: return at(float{});
    case DType::f64: return at(double{});
    case DType::i8: return at(int8_t{});
    case DType::u8: return at(uint8_t{});
    case DType::boolean: return at(uint8_t{}) != 0;
    case DType::i16: return at(int16_t{});
    case DType::i32: return at(int32_t{});
    case DType::i64: return static_cast<double>(at(int64_t{}));
    case DType::bf16: return std::bit_cast<float>(uint32_t{at(uint16_t{})} << 16);
    case DType::f16: {
      const uint16_t h = at(uint16_t{});
      const int exponent = h >> 10 & 31, mantissa = h & 1023;
      const double magnitude = exponent == 31  ? (mantissa ? std::nan("") : INFINITY)
                               : exponent == 0 ? std::ldexp(mantissa, -24)
                                               : std::ldexp(1024 + mantissa, exponent - 25);
      return h >> 15 ? -magnitude : magnitude;
    }
    default: return std::nan("");
  }
}

// `x` rounded to the values of a float dtype, to nearest even.
inline double round_to(DType d, double x) {
  if (d == DType::f64 || std::isnan(x) || std::isinf(x) || x == 0) return x;
  if (d == DType::f32) return static_cast<float>(x);
  const int bits = d == DType::bf16 ? 8 : 11, lowest = d == DType::bf16 ? -126 : -14;
  const double spacing = std::ldexp(1.0, std::max(std::ilogb(x), lowest) - bits + 1);
  const double r = std::nearbyint(x / spacing) * spacing;
  const double largest = d == DType::bf16 ? 0x1.fep127 : 65504;
  return std::fabs(r) > largest ? std::copysign(INFINITY, x) : r;
}

inline void set_element(DType d, void* data, int64_t i, double x) {
  auto put = [&]<class T>(T v) {
    std::memcpy(static_cast<char*>(data) + i * static_cast<int64_t>(sizeof(T)), &v, sizeof v);
  };
  switch (d) {
    case DType::f32: return put(static_cast<float>(x));
    case DType::f64: return put(x);
    case DType::i8: return put(static_cast<int8_t>(x));
    case DType::u8: return put(static_cast<uint8_t>(x));
    case DType::boolean: return put(static_cast<uint8_t>(x != 0));
    case DType::i16: return put(static_cast<int16_t>(x));
    case DType::i32: return put(static_cast<int32_t>(x));
    case DType::i64: return put(static_cast<int64_t>(x));
    case DType::bf16:
      return put(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(round_to(d, x))) >> 16));
    case DType::f16: {
      const double r = std::fabs(round_to(d, x));
      const int exponent = r == 0 ? -15 : std::max(std::ilogb(r), -15);
      const uint16_t magnitude =
          std::isnan(x)    ? 0x7e00
          : std::isinf(r)  ? 0x7c00
          : exponent < -14 ? static_cast<uint16_t>(std::ldexp(r, 24))
                           : static_cast<uint16_t>(std::ldexp(r, 10 - exponent) - 1024 + (exponent + 15) * 1024);
      return put(static_cast<uint16_t>(magnitude | (std::signbit(x) ? 0x8000 : 0)));
    }
    default: return;
  }
}

}  // namespace qcg::test

// Builds GEMM kernels for table-driven cases, runs them between guard pages with a serial driver, and judges the result.
//
// Why here: tests/kernels/*_test.cpp state cases; this file knows how to make data, an oracle and a shared object.
//
//   std::vector<Case> cases = …;
//   build_cases(cases);                       // few compiler runs for all of them
//   for (Case& c : cases) check_case(c, 7);   // m = 7
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cache/compile.h"
#include "cache/toolchain.h"
#include "codegen/problem.h"
#include "graph/reference.h"
#include "runtime/abi.h"

namespace qcg::test {

// Bytes that end (or begin) exactly at a page that cannot be touched.
class GuardedBuffer {
 public:
  GuardedBuffer(size_t bytes, bool at_end, size_t align = 1) : bytes_(bytes) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    inner_ = (bytes + page - 1) / page * page + (bytes == 0 ? page : 0);
    base_ = static_cast<std::byte*>(mmap(nullptr, inner_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    REQUIRE(mprotect(base_ + page, inner_, PROT_READ | PROT_WRITE) == 0);
    total_ = inner_ + 2 * page;
    const size_t slack = at_end ? (inner_ - bytes) / align * align : 0;
    data_ = base_ + page + slack;
    std::memset(base_ + page, 0xff, inner_);
  }
  GuardedBuffer(GuardedBuffer&& o) noexcept
      : base_(std::exchange(o.base_, nullptr)), data_(o.data_), bytes_(o.bytes_), inner_(o.inner_), total_(o.total_) {}
  ~GuardedBuffer() {
    if (base_) munmap(base_, total_);
  }
  std::byte* data() { return data_; }
  size_t size() const { return bytes_; }
  std::span<std::byte> span() { return {data_, bytes_}; }

 private:
  std::byte* base_;
  std::byte* data_;
  size_t bytes_, inner_ = 0, total_ = 0;
};

struct Case {
  std::string what;
  Problem problem;
  Isa isa = Isa::portable;
  Candidate candidate;
  uint64_t seed = 1;
  bool powers = false;            // weights are powers of two, activations small integers: no rounding anywhere
  // Filled by build_cases:
  std::vector<SegmentTensors> tensors;
  std::vector<std::byte> packed;
  std::string source;
  const qcg_kernel* kernel = nullptr;
  bool emulated = false;          // AMX tiles are arrays: this host has none
};

inline Tensor random_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937_64& rng, double low, double high, bool integers) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  std::vector<std::byte> bytes(size_t(n) * dtype_bytes(dtype));
  for (int64_t i = 0; i < n; ++i) {
    double v = low + (high - low) * double(rng() >> 11) * 0x1p-53;
    if (integers || !is_floating(dtype)) v = std::floor(v + 0.5);
    std::byte* p = bytes.data() + size_t(i) * dtype_bytes(dtype);
    if (is_floating(dtype)) double_to_element(dtype, v, p);
    else int_to_element(dtype, int64_t(v), p);
  }
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

inline Tensor power_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937_64& rng) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  std::vector<std::byte> bytes(size_t(n) * dtype_bytes(dtype));
  for (int64_t i = 0; i < n; ++i)
    double_to_element(dtype, std::ldexp(rng() & 1 ? 1.0 : -1.0, int(rng() % 3) - 1), bytes.data() + size_t(i) * dtype_bytes(dtype));
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

// Twice an e2m1 number each.
inline Tensor e2m1_tensor(std::vector<int64_t> shape, std::mt19937_64& rng) {
  std::vector<std::byte> bytes(size_t(shape[0] * shape[1]));
  for (std::byte& b : bytes) b = std::byte(kE2m1Twice[rng() % 16]);
  return Tensor::from_bytes(DType::i8, std::move(shape), std::move(bytes));
}

inline void make_tensors(Case& c) {
  std::mt19937_64 rng(c.seed);
  const Problem& p = c.problem;
  const int64_t groups = p.groups();
  for (const Segment& s : p.segments) {
    SegmentTensors t;
    const bool four = scheme_info(p.scheme).weight_bits == 4;
    if (p.scheme == Scheme::dense || p.scheme == Scheme::f8) t.weight = c.powers ? power_tensor(p.weight, {s.n, p.k}, rng) : random_tensor(p.weight, {s.n, p.k}, rng, -1, 1, false);
    else if (p.scheme == Scheme::nf4) t.weight = random_tensor(DType::i8, {s.n, p.k}, rng, 0, 15, true);
    else if (p.scheme == Scheme::f4 || p.scheme == Scheme::da8f4) t.weight = e2m1_tensor({s.n, p.k}, rng);
    else t.weight = random_tensor(DType::i8, {s.n, p.k}, rng, four ? -8 : -128, four ? 7 : 127, true);
    if (scheme_info(p.scheme).has_scales)
      t.scales = c.powers ? power_tensor(p.scale, {s.n, groups}, rng) : random_tensor(p.scale, {s.n, groups}, rng, 0.001, 0.03, false);
    if (s.has_offset) t.offsets = c.powers ? power_tensor(p.scale, {s.n, groups}, rng) : random_tensor(p.scale, {s.n, groups}, rng, -0.2, 0.2, false);
    if (s.has_zero) t.zeros = random_tensor(DType::i32, {s.n, groups}, rng, four ? -8 : -100, four ? 7 : 100, true);
    if (s.has_bias) t.bias = random_tensor(DType::f32, {s.n}, rng, -4, 4, c.powers);
    c.tensors.push_back(std::move(t));
  }
}

// Kernels become namespaces of one source per ISA: one compiler run builds them all.
// AMX kernels are compiled for AMX, and where they cannot run once more with tiles emulated on the AVX-512 that they also use.
inline void build_cases(std::vector<Case>& cases) {
  std::vector<Isa> isas;
  for (Case& c : cases) {
    make_tensors(c);
    c.packed.resize(size_t(packed_bytes(c.problem, c.candidate.layout)));
    const Status packed = pack_weights(c.problem, c.candidate.layout, c.tensors, c.packed);
    REQUIRE_MESSAGE(packed.ok(), c.what);
    if (std::find(isas.begin(), isas.end(), c.isa) == isas.end()) isas.push_back(c.isa);
  }
  auto cxx = find_cxx({});
  REQUIRE_MESSAGE(cxx.ok(), "no compiler");
  constexpr size_t kPerSource = 12;
  std::vector<CompileJob> jobs;
  std::vector<std::vector<size_t>> members;
  for (Isa isa : isas) {
    size_t in_job = kPerSource;
    for (size_t i = 0; i < cases.size(); ++i) {
      if (cases[i].isa != isa) continue;
      auto source = render_gemm(cases[i].problem, cases[i].candidate, fmt::format("kernel_{}", i));
      if (!source.ok()) MESSAGE(source.error().to_string());
      REQUIRE(source.ok());
      cases[i].source = *source;
      if (in_job == kPerSource) {
        CompileJob job;
        std::string all = fmt::format("#include \"abi.h\"\n#include \"gemm_{}.h\"\n", isa_info(isa).name);
        for (const SourceFile& header : support_headers(isa)) {
          job.headers.push_back({header.name, header.text});
          if (header.name.starts_with("quant/")) all += "#include \"" + header.name + "\"\n";
        }
        job.sources = {{"kernels.cpp", all}};
        job.flags = kernel_flags(*cxx);
        for (const auto& flag : kernel_flags(isa)) job.flags.push_back(flag);
        jobs.push_back(std::move(job));
        members.emplace_back();
        in_job = 0;
      }
      ++in_job;
      members.back().push_back(i);
      jobs.back().sources[0].text += fmt::format("namespace k{} {{\n{}\n}}\n", i, *source);
    }
  }
  const bool emulate = !why_isa_unavailable(Isa::amx).empty() && why_isa_unavailable(Isa::avx512bf16).empty();
  const size_t native = jobs.size();
  for (size_t j = 0; emulate && j < native; ++j) {
    if (cases[members[j][0]].isa != Isa::amx) continue;
    jobs.push_back(jobs[j]);
    members.push_back(members[j]);
    jobs.back().flags = kernel_flags(*cxx);
    for (const auto& flag : kernel_flags(Isa::avx512bf16)) jobs.back().flags.push_back(flag);
    jobs.back().flags.push_back("-DQCG_EMULATE_AMX");
  }
  auto results = compile_all(*cxx, jobs);
  REQUIRE(results.ok());
  for (size_t j = 0; j < jobs.size(); ++j) {
    if (!(*results)[j].ok()) MESSAGE((*results)[j].log.substr(0, 4000));
    REQUIRE((*results)[j].ok());
    // The host lacks this ISA: that it compiles is all that can be known here.
    const bool emulated = j >= native;
    if (!emulated && !why_isa_unavailable(cases[members[j][0]].isa).empty()) continue;
    static int serial = 0;  // the loader takes a path it has seen for the module it knows
    const std::string path = fmt::format("/tmp/qcg_kernels_{}_{}.so", getpid(), serial++);
    std::ofstream(path, std::ios::binary) << (*results)[j].bytes;
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    unlink(path.c_str());
    REQUIRE_MESSAGE(module, dlerror());
    for (size_t i : members[j]) {
      cases[i].kernel = static_cast<const qcg_kernel*>(dlsym(module, fmt::format("kernel_{}", i).c_str()));
      REQUIRE(cases[i].kernel != nullptr);
      cases[i].emulated = emulated;
    }
  }
}

// All run-time tensors of one call, in the order of the kernel's arguments.
struct CallData {
  std::vector<GuardedBuffer> buffers;
  std::vector<int64_t> strides;
  std::vector<Tensor> xs, operands;  // logical copies for the oracle
  std::vector<double> x_scale;
  std::vector<int64_t> x_zero;
  size_t first_output = 0;
};

inline size_t strided_bytes(int64_t rows, int64_t width, int64_t stride, DType d) {
  return rows == 0 || width == 0 ? 0 : size_t((rows - 1) * stride + width) * dtype_bytes(d);
}

inline void put_rows(CallData& data, const Tensor& t, int64_t stride, bool at_end) {
  const int64_t rows = t.shape[0], width = t.shape[1];
  const size_t row_bytes = size_t(width) * dtype_bytes(t.dtype);
  GuardedBuffer buffer(strided_bytes(rows, width, stride, t.dtype), at_end, dtype_bytes(t.dtype));
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(buffer.data() + size_t(r * stride) * dtype_bytes(t.dtype), t.storage->bytes.data() + size_t(r) * row_bytes, row_bytes);
  data.buffers.push_back(std::move(buffer));
  data.strides.push_back(stride);
}

inline CallData make_call(Case& c, int64_t m, bool at_end, int64_t clean_row = -1) {
  const Problem& p = c.problem;
  std::mt19937_64 rng(c.seed * 7919 + uint64_t(m));
  CallData d;
  const bool integer = !is_floating(p.activation);
  for (int64_t width : p.k_segments) {
    Tensor x = integer ? random_tensor(p.activation, {m, width}, rng, p.activation == DType::u8 ? 0 : -128, p.activation == DType::u8 ? 255 : 127, true)
                       : random_tensor(p.activation, {m, width}, rng, -2, 2, c.powers);
    if (clean_row >= 0 && !integer) {
      auto* bytes = const_cast<std::byte*>(x.storage->bytes.data());
      for (int64_t i = 0; i < m * width; ++i)
        if (i / width != clean_row) double_to_element(p.activation, std::nan(""), bytes + size_t(i) * dtype_bytes(p.activation));
    }
    d.xs.push_back(x);
    put_rows(d, x, width + 3, at_end);
  }
  if (scheme_info(p.scheme).quantized_activation) {
    Tensor s = c.powers ? power_tensor(DType::f32, {m, 1}, rng) : random_tensor(DType::f32, {m, 1}, rng, 0.001, 0.05, false);
    for (int64_t r = 0; r < m; ++r) d.x_scale.push_back(element_to_double(DType::f32, s.storage->bytes.data() + r * 4));
    put_rows(d, s, 1, at_end);
  }
  if (p.x_has_zero) {
    Tensor z = random_tensor(DType::i32, {m, 1}, rng, p.activation == DType::u8 ? 0 : -128, p.activation == DType::u8 ? 255 : 127, true);
    for (int64_t r = 0; r < m; ++r) d.x_zero.push_back(element_to_int(DType::i32, z.storage->bytes.data() + r * 4));
    put_rows(d, z, 1, at_end);
  }
  for (const Operand& o : p.operands) {
    const int64_t n = p.outputs[0].n;
    const bool rows = o.broadcast == Broadcast::full || o.broadcast == Broadcast::column;
    const bool columns = o.broadcast == Broadcast::full || o.broadcast == Broadcast::row;
    Tensor t = random_tensor(o.dtype, {rows ? m : 1, columns ? n : 1}, rng, -3, 3, c.powers);
    d.operands.push_back(t);
    put_rows(d, t, (columns ? n : 1) + (o.broadcast == Broadcast::full ? 5 : 0), at_end);
  }
  GuardedBuffer weights(c.packed.size(), at_end, 64);
  std::memcpy(weights.data(), c.packed.data(), c.packed.size());
  d.buffers.push_back(std::move(weights));
  d.strides.push_back(0);
  d.first_output = d.buffers.size();
  for (const Output& o : p.outputs) {
    const int64_t stride = o.n + 2;
    d.buffers.emplace_back(strided_bytes(m, o.n, stride, o.dtype), at_end, dtype_bytes(o.dtype));
    d.strides.push_back(stride);
  }
  return d;
}

// pieces: how many ranges each phase is cut into; they run last to first, each with scratch of its own.
inline void run_kernel(const Case& c, CallData& d, int64_t m, bool at_end, int64_t pieces) {
  std::vector<qcg_arg> args;
  for (size_t i = 0; i < d.buffers.size(); ++i) args.push_back({d.buffers[i].data(), d.strides[i]});
  qcg_call call{args.data(), &m, nullptr};
  GuardedBuffer shared(size_t((c.kernel->shared_bytes(&call) + 63) / 64 * 64), at_end, 64);
  call.shared = shared.data();
  for (uint32_t phase = 0; phase < c.kernel->phases; ++phase) {
    const int64_t items = c.kernel->items(&call, phase);
    const int64_t cut = std::max<int64_t>(1, (items + pieces - 1) / pieces);
    for (int64_t begin = (items - 1) / cut * cut; begin >= 0 && items > 0; begin -= cut) {
      GuardedBuffer scratch(size_t((c.kernel->scratch_bytes(&call) + 63) / 64 * 64), at_end, 64);
      c.kernel->run(&call, phase, begin, std::min(items, begin + cut), scratch.data());
    }
  }
}

// One accumulator of segment s: its value, the sum of absolute products, and of the terms that dequantization adds.
struct Sum {
  double value = 0, magnitude = 0, terms = 0;
};
inline Sum exact_sum(const Case& c, const CallData& d, size_t s, int64_t row, int64_t n) {
  const Problem& p = c.problem;
  const SegmentTensors& t = c.tensors[s];
  const size_t wb = dtype_bytes(p.weight), xb = dtype_bytes(p.activation);
  const int64_t groups = p.groups(), group = p.group > 0 ? p.group : p.k;
  Sum sum;
  int64_t k = 0;
  double group_sum = 0, group_magnitude = 0, x_sum = 0;
  for (size_t i = 0; i < d.xs.size(); ++i)
    for (int64_t j = 0; j < p.k_segments[i]; ++j, ++k) {
      const std::byte* xp = d.xs[i].storage->bytes.data() + size_t(row * p.k_segments[i] + j) * xb;
      const std::byte* wp = t.weight.storage->bytes.data() + size_t(n * p.k + k) * wb;
      double x = is_floating(p.activation) ? element_to_double(p.activation, xp) : double(element_to_int(p.activation, xp));
      double w = is_floating(p.weight) ? element_to_double(p.weight, wp) : double(element_to_int(p.weight, wp));
      if (p.scheme == Scheme::nf4) w = kNf4Values[size_t(w)];
      const int64_t g = k / group;
      if (t.zeros.bound()) w -= double(element_to_int(DType::i32, t.zeros.storage->bytes.data() + size_t(n * groups + g) * 4));
      if (!d.x_zero.empty()) x -= double(d.x_zero[size_t(row)]);
      group_sum += x * w, group_magnitude += std::abs(x * w), x_sum += x;
      if (k + 1 == p.k || (k + 1) % group == 0) {
        const size_t at = size_t(n * groups + g) * dtype_bytes(p.scale);
        const double scale = t.scales.bound() ? element_to_double(p.scale, t.scales.storage->bytes.data() + at) : 1;
        const double offset = t.offsets.bound() ? element_to_double(p.scale, t.offsets.storage->bytes.data() + at) : 0;
        sum.value += group_sum * scale + offset * x_sum, sum.magnitude += group_magnitude * std::abs(scale) + std::abs(offset * x_sum);
        sum.terms += std::abs(group_sum * scale);
        group_sum = group_magnitude = x_sum = 0;
      }
    }
  if (!d.x_scale.empty()) {
    const double x_scale = d.x_scale[size_t(row)];
    sum.value *= x_scale, sum.magnitude *= std::abs(x_scale), sum.terms *= std::abs(x_scale);
  }
  if (t.bias.bound()) {
    const double b = element_to_double(DType::f32, t.bias.storage->bytes.data() + size_t(n) * 4);
    sum.value += b, sum.magnitude += std::abs(b), sum.terms += std::abs(b);
  }
  return sum;
}

inline double ulp_of(DType d, double v) {
  if (!is_floating(d)) return 0;
  const int digits = d == DType::bf16 ? 8 : d == DType::f16 ? 11 : 24;
  const int exponent = v == 0 ? -126 : std::max(std::ilogb(v), d == DType::f16 ? -14 : -126);
  return std::ldexp(1.0, exponent - digits + 1);
}

// Every output element against the oracle. Returns the number of wrong ones and reports the first.
inline int count_wrong(const Case& c, CallData& d, int64_t m) {
  const Problem& p = c.problem;
  const bool exact = c.powers || (!is_floating(p.activation) && p.scheme == Scheme::s8s8);
  // Integer sums are exact; what is left are a few roundings of the dequantization, one of them per group.
  const double gamma = (is_floating(p.activation) ? double(p.k) + 8 : double(p.groups()) + 4) * 0x1p-24;
  int wrong = 0;
  for (size_t o = 0; o < p.outputs.size(); ++o) {
    const Output& output = p.outputs[o];
    const size_t bytes = dtype_bytes(output.dtype);
    const ToleranceEvaluator flips(output.expr);  // roundings in it may go either way
    for (int64_t row = 0; row < m; ++row)
      for (int64_t n = 0; n < output.n; ++n) {
        std::vector<double> accs(p.segments.size()), bounds(p.segments.size()), ins;
        for (int s : output.segments) {
          const Sum sum = exact_sum(c, d, size_t(s), row, n);
          accs[size_t(s)] = sum.value;
          bounds[size_t(s)] = is_floating(p.activation) ? gamma * sum.magnitude : gamma * sum.terms;
        }
        for (size_t i = 0; i < p.operands.size(); ++i) {
          const Tensor& t = d.operands[i];
          const int64_t at = (t.shape[0] == 1 ? 0 : row) * t.shape[1] + (t.shape[1] == 1 ? 0 : n);
          ins.push_back(element_to_double(t.dtype, t.storage->bytes.data() + size_t(at) * dtype_bytes(t.dtype)));
        }
        const double want = output.expr.evaluate(accs, ins);
        double bound = 0;
        for (unsigned corner = 0; corner < 1u << output.segments.size(); ++corner) {
          std::vector<double> moved = accs;
          for (size_t j = 0; j < output.segments.size(); ++j) {
            const auto s = size_t(output.segments[j]);
            moved[s] += (corner >> j & 1 ? 1 : -1) * bounds[s];
          }
          bound = std::max(bound, std::abs(output.expr.evaluate(moved, ins) - want));
        }
        bound += flips(accs, std::vector<double>(accs.size()), ins).tolerance;
        const bool plain = output.expr.kind == ExprKind::acc;
        bound = 1.5 * bound + ulp_of(output.dtype, want) + (plain ? 0 : 1e-6 * (1 + std::abs(want)));
        const std::byte* at = d.buffers[d.first_output + o].data() + size_t(row * d.strides[d.first_output + o] + n) * bytes;
        const double got = element_to_double(output.dtype, at);
        if (exact && plain) bound = 0;
        const double target = exact && plain && is_floating(output.dtype) ? round_to_dtype(output.dtype, want) : want;
        if (!(std::abs(got - target) <= bound) && wrong++ == 0)
          MESSAGE(fmt::format("{} m={} output {} [{}, {}]: got {} want {} bound {} (seed {})", c.what, m, o, row, n, got, want, bound, c.seed));
      }
  }
  return wrong;
}

inline std::string output_bytes(const Case& c, CallData& d, int64_t m, int64_t only_row = -1) {
  std::string all;
  for (size_t o = 0; o < c.problem.outputs.size(); ++o) {
    const size_t bytes = dtype_bytes(c.problem.outputs[o].dtype), row_bytes = size_t(c.problem.outputs[o].n) * bytes;
    for (int64_t r = 0; r < m; ++r)
      if (only_row < 0 || r == only_row)
        all.append(reinterpret_cast<const char*>(d.buffers[d.first_output + o].data()) + size_t(r * d.strides[d.first_output + o]) * bytes, row_bytes);
  }
  return all;
}

inline bool gaps_untouched(const Case& c, CallData& d, int64_t m) {
  for (size_t o = 0; o < c.problem.outputs.size(); ++o) {
    const size_t bytes = dtype_bytes(c.problem.outputs[o].dtype);
    const int64_t n = c.problem.outputs[o].n, stride = d.strides[d.first_output + o];
    for (int64_t r = 0; r + 1 < m; ++r)
      for (size_t i = size_t(r * stride + n) * bytes; i < size_t((r + 1) * stride) * bytes; ++i)
        if (d.buffers[d.first_output + o].data()[i] != std::byte(0xff)) return false;
  }
  return true;
}

// The whole judgement for one m: oracle, untouched gaps, ranges cut in any way, NaN in every other row.
inline void check_case(Case& c, int64_t m) {
  INFO(c.what, " m=", m, " seed=", c.seed);
  CallData whole = make_call(c, m, true);
  run_kernel(c, whole, m, true, 1);
  CHECK(count_wrong(c, whole, m) == 0);
  CHECK(gaps_untouched(c, whole, m));
  CallData cut = make_call(c, m, false);
  run_kernel(c, cut, m, false, 1000);
  CHECK(output_bytes(c, whole, m) == output_bytes(c, cut, m));
  if (m > 1 && is_floating(c.problem.activation)) {
    const int64_t row = int64_t(c.seed % uint64_t(m));
    CallData tainted = make_call(c, m, true, row);
    run_kernel(c, tainted, m, true, 3);
    CHECK(output_bytes(c, whole, m, row) == output_bytes(c, tainted, m, row));
  }
}

}  // namespace qcg::test

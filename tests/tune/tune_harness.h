// Problems with data, and kernels to try on them: rendered ones, and bad ones written by hand against the ABI.
//
// Why here: tests/tune/*_test.cpp state what is to happen; this file makes what it happens to.
//
//   Workload w = make_workload(problem_of(Scheme::w8, DType::bf16, …), 7);
//   auto built = build_kernels({hand_written("good", {})});
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cache/store/store.h"
#include "cache/toolchain/toolchain.h"
#include "codegen/devices/gemm_device.h"
#include "codegen/gemm/pack.h"
#include "codegen/gemm/schedules.h"
#include "codegen/tune/tune.h"

namespace qcg::test {

struct Workload {
  Problem problem;
  std::vector<SegmentTensors> tensors;
  std::vector<std::byte> packed;
};

inline Tensor random_values(DType dtype, std::vector<int64_t> shape, std::mt19937_64& rng, double low, double high) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  std::vector<std::byte> bytes(static_cast<size_t>(n) * dtype_bytes(dtype));
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    const double v = low + (high - low) * static_cast<double>(rng() >> 11) * 0x1p-53;
    double_to_element(dtype, is_floating(dtype) ? v : std::floor(v + 0.5), bytes.data() + i * dtype_bytes(dtype));
  }
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

// One output per segment, or with gate_up one output: silu of the first times the second.
inline Problem problem_of(Scheme scheme, DType activation, DType weight, int64_t group, std::vector<int64_t> ks,
                          std::vector<int64_t> ns, DType output, bool gate_up = false) {
  Problem p;
  p.scheme = scheme, p.activation = activation, p.weight = weight, p.group = group;
  p.k_segments = std::move(ks);
  for (int64_t k : p.k_segments) p.k += k;
  for (size_t i = 0; i < ns.size(); ++i) {
    Segment segment;
    segment.n = ns[i];
    segment.name = fmt::format("proj_{}", i);
    p.segments.push_back(segment);
    if (!gate_up) p.outputs.push_back({Expr::acc(static_cast<int>(i)), output, ns[i], {static_cast<int>(i)}});
  }
  if (gate_up)
    p.outputs.push_back({Expr::call("mul", {Expr::call("silu", {Expr::acc(0)}), Expr::acc(1)}), output, ns[0], {0, 1}});
  p.nodes = {"linear"};
  return p;
}

inline std::vector<SegmentTensors> random_tensors(const Problem& p, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<SegmentTensors> out;
  for (const Segment& s : p.segments) {
    SegmentTensors t;
    const double low = std::max(scheme_info(p.scheme).weight.low, -127), high = scheme_info(p.scheme).weight.high;
    t.weight = p.scheme == Scheme::dense ? random_values(p.weight, {s.n, p.k}, rng, -1, 1)
                                         : random_values(DType::i8, {s.n, p.k}, rng, low, high);
    if (scheme_info(p.scheme).has_scales) t.scales = random_values(DType::f32, {s.n, p.groups()}, rng, 0.002, 0.02);
    if (s.has_zero) t.zeros = random_values(DType::i32, {s.n, p.groups()}, rng, -5, 5);
    if (s.has_bias) t.bias = random_values(DType::f32, {s.n}, rng, -2, 2);
    out.push_back(std::move(t));
  }
  return out;
}

inline std::vector<std::byte> pack(const Problem& p, const PackedLayout& layout,
                                   const std::vector<SegmentTensors>& tensors) {
  std::vector<std::byte> out(static_cast<size_t>(packed_bytes(p, layout)));
  const Status status = pack_weights(p, layout, tensors, out);
  REQUIRE_MESSAGE(status.ok(), status.error().to_string());
  return out;
}

inline std::vector<BuiltKernel> build_kernels(std::vector<KernelSource> sources) {
  static Store store = Store::none();
  auto cxx = find_cxx({});
  REQUIRE_MESSAGE(cxx.ok(), "no compiler");
  auto built = KernelBuilder(*cxx, store, {}).build(std::move(sources));
  REQUIRE_MESSAGE(built.ok(), built.error().to_string());
  return std::move(*built);
}

// y[m, n] = sum_k x[m, k] w[n, k] in f32, plain loops; N and K are those of hand_problem(). Its "packed" weights are
// [N, K].
inline constexpr int64_t kHandN = 64, kHandK = 512;
struct HandWritten {
  std::string prelude;        // before the functions
  std::string at_start;       // of run(), per item range
  std::string value = "sum";  // what is stored
  std::string at_row;         // after each row is stored
};

inline KernelSource hand_written(const std::string& name, const HandWritten& parts) {
  const std::string text = parts.prelude + R"(
#include "abi.h"
static int64_t items(const qcg_call* c, uint32_t) { return c->params[0]; }
static int64_t no_bytes(const qcg_call*) { return 0; }
static void run(const qcg_call* c, uint32_t, int64_t begin, int64_t end, void*) {
  const float *x = (const float*)c->args[0].data, *w = (const float*)c->args[1].data;
  float* y = (float*)c->args[2].data;
  const int64_t stride = c->args[2].stride;
  (void)stride;
  @START@
  for (int64_t m = begin; m < end; ++m) {
    for (int64_t n = 0; n < 64; ++n) {
      float part[8] = {}, sum = 0;
      for (int64_t k = 0; k < 512; k += 8)
        for (int i = 0; i < 8; ++i) part[i] += x[m * c->args[0].stride + k + i] * w[n * 512 + k + i];
      for (int i = 0; i < 8; ++i) sum += part[i];
      @STORE@
    }
    @ROW@
  }
}
extern const qcg_kernel @SYMBOL@ __attribute__((visibility("default")));
const qcg_kernel @SYMBOL@ = {QCG_KERNEL_ABI, 1, items, no_bytes, no_bytes, run};
)";
  auto fill = [](std::string s, const std::string& mark, const std::string& with) {
    for (size_t at; (at = s.find(mark)) != std::string::npos;) s.replace(at, mark.size(), with);
    return s;
  };
  std::string out = fill(text, "@START@", parts.at_start);
  out = fill(out, "@ROW@", parts.at_row);
  out = fill(out, "@STORE@", "y[m * stride + n] = " + parts.value + ";");
  const std::string symbol = "hand_" + name;
  return {name, symbol, fill(out, "@SYMBOL@", symbol), Isa::portable};
}

inline Workload hand_workload(uint64_t seed) {
  Workload w;
  w.problem = problem_of(Scheme::dense, DType::f32, DType::f32, 0, {kHandK}, {kHandN}, DType::f32);
  w.tensors = random_tensors(w.problem, seed);
  const auto bytes = w.tensors[0].weight.bytes();
  w.packed.assign(bytes.begin(), bytes.end());
  return w;
}

inline std::vector<Candidate> cpu_candidates(const Problem& problem, const Target& target, int64_t m_min,
                                             int64_t m_max) {
  return gemm_device(Device::cpu).candidates(problem, target, m_min, m_max);
}
inline const GemmSchedule& schedule_of(const Candidate& candidate) { return candidate.schedule<GemmSchedule>(); }

// As many candidates as there are kernels: what they say of themselves does not matter to the tuner.
inline std::vector<Candidate> some_candidates(const Problem& problem, size_t count) {
  const auto all = cpu_candidates(problem, {Device::cpu, Isa::portable}, 1, 16);
  REQUIRE_FALSE(all.empty());
  return std::vector<Candidate>(count, all[0]);
}

inline TuneOptions quick_options(TuneMode mode = TuneMode::fast) {
  TuneOptions o;
  o.mode = mode;
  o.threads = 2;
  o.budget_s = 0.05;
  o.references = false;
  o.ceilings = {2, 10, 100, 100, 100};
  return o;
}

}  // namespace qcg::test

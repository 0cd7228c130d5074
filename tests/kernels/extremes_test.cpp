// Every scheme on every ISA where numbers are hardest: K beyond 16384 with more groups than a group has columns, scales
// that f32 hardly holds, and weights, zero points and activations at the ends of their ranges, zero points against the
// far end.
#include "gemm_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

struct ExtremeRow {
  Scheme scheme;
  DType activation, weight;
  int64_t group;
  DType output;
  DType scale = DType::f32;
};
constexpr ExtremeRow kExtremeRows[] = {
    {Scheme::dense, DType::bf16, DType::bf16, 0, DType::f32},
    {Scheme::w8, DType::f32, DType::i8, 0, DType::f32},
    {Scheme::w8, DType::bf16, DType::i8, 32, DType::bf16},
    {Scheme::w4, DType::f32, DType::i8, 32, DType::f32},
    {Scheme::w4, DType::bf16, DType::i8, 128, DType::bf16, DType::bf16},
    {Scheme::f8, DType::bf16, DType::f8e4m3, 0, DType::f32},
    {Scheme::f8, DType::f8e5m2, DType::f8e5m2, 128, DType::f32},
    {Scheme::f4, DType::bf16, DType::i8, 32, DType::f32},
    {Scheme::f4, DType::bf16, DType::i8, 32, DType::f32, DType::f8e8m0},
    {Scheme::f4, DType::bf16, DType::i8, 16, DType::f32, DType::f8e4m3},
    {Scheme::nf4, DType::f32, DType::i8, 64, DType::f32},
    {Scheme::da8w8, DType::u8, DType::i8, 0, DType::f32},
    {Scheme::da8w8, DType::i8, DType::i8, 64, DType::f32},
    {Scheme::da8w4, DType::u8, DType::i8, 32, DType::f32},
    {Scheme::da8f4, DType::i8, DType::i8, 32, DType::f32},
    {Scheme::s8s8, DType::u8, DType::i8, 0, DType::i32},
};

Problem problem_of(const ExtremeRow& row) {
  const SchemeInfo& info = scheme_info(row.scheme);
  Problem p;
  p.scheme = row.scheme, p.activation = row.activation, p.weight = row.weight, p.group = row.group, p.scale = row.scale;
  p.k_segments = {16389, 22};
  p.k = 16411;
  p.x_has_zero = info.quantized_activation;
  Segment segment;
  segment.n = 17;
  segment.has_zero = may_have_zeros(info);
  segment.name = "proj";
  p.segments = {segment};
  p.outputs = {{Expr::acc(0), row.output, segment.n, {0}}};
  p.nodes = {"linear"};
  return p;
}

}  // namespace

TEST_CASE("long sums, extreme scales and both ends of every range") {
  std::vector<Case> cases;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx2vnni, Isa::avx512, Isa::avx512bf16, Isa::amx})
    for (const ExtremeRow& row : kExtremeRows) {
      Case c;
      c.problem = problem_of(row);
      c.isa = isa;
      const auto all = gemm_schedules(c.problem, {Device::cpu, isa}, 2, 4);
      // The microkernels of narrower ISAs that compete here have a turn of their own.
      const auto own = std::find_if(all.begin(), all.end(),
                                    [&](const GemmSchedule& candidate) { return candidate.microkernel->isa == isa; });
      if (own == all.end()) continue;
      c.candidate = *own;
      c.seed = 300 + cases.size();
      c.what = fmt::format("{} | {} | {}", isa_info(isa).name, c.candidate.describe(), c.problem.signature());
      cases.push_back(std::move(c));
    }
  CHECK(cases.size() > 40);
  build_cases(cases);
  for (Case& c : cases) {
    if (!c.kernel) continue;
    for (const Numbers numbers : {Numbers::ordinary, Numbers::tiny_scales, Numbers::huge_scales, Numbers::ends}) {
      const bool scaled = scheme_info(c.problem.scheme).has_scales;
      if (!scaled && (numbers == Numbers::tiny_scales || numbers == Numbers::huge_scales)) continue;
      CAPTURE(static_cast<int>(numbers));
      c.numbers = numbers;
      make_weights(c);
      check_case(c, 3);
    }
  }
}

namespace {

// Root of the mean square of what the first output is off by.
double typical_error(const Case& c, CallData& d, int64_t m) {
  const Output& output = c.problem.outputs[0];
  double squares = 0;
  for (int64_t row = 0; row < m; ++row)
    for (int64_t n = 0; n < output.n; ++n) {
      const std::byte* got = d.buffers[d.first_output].data() + size_t(row * d.strides[d.first_output] + n) * 4;
      const double off = element_to_double(DType::f32, got) - exact_sum(c, d, 0, row, n).value;
      squares += off * off;
    }
  return std::sqrt(squares / double(m * output.n));
}

}  // namespace

// Runs of 64 are off by 80 * 2^-23 here, one chain of 4160 products by 200 to 450.
TEST_CASE("sums of products of f32 are off by less than one chain of additions") {
  std::vector<Case> cases;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
    for (const int64_t kc : {0, 1024}) {
      Case c;
      c.problem = problem_of({Scheme::dense, DType::f32, DType::f32, 0, DType::f32});
      c.problem.k = 4160, c.problem.k_segments = {4160}, c.problem.segments[0].n = c.problem.outputs[0].n = 40;
      c.isa = isa;
      c.candidate = gemm_schedules(c.problem, {Device::cpu, isa}, 65, 256).front();
      c.candidate.kc = kc;
      c.what = fmt::format("{} | {}", isa_info(isa).name, c.candidate.describe());
      cases.push_back(std::move(c));
    }
  build_cases(cases);
  for (Case& c : cases) {
    if (!c.kernel) continue;
    CAPTURE(c.what);
    CallData d = make_call(c, 16, false);
    run_kernel(c, d, false, 1);
    CHECK(typical_error(c, d, 16) < 150 * 0x1p-23);
  }
}

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

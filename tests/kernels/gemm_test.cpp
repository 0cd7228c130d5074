// Every scheme on every ISA over odd shapes: what numerics.md asks of a GEMM kernel.
#include "gemm_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

constexpr Isa kIsas[] = {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16};

struct SchemeCase {
  Scheme scheme;
  DType activation, weight;
  int64_t group;
  DType output;
};
constexpr SchemeCase kSchemeCases[] = {
    {Scheme::dense, DType::f32, DType::f32, 0, DType::f32},   {Scheme::dense, DType::bf16, DType::bf16, 0, DType::bf16},
    {Scheme::dense, DType::f16, DType::f16, 0, DType::f16},   {Scheme::dense, DType::f32, DType::bf16, 0, DType::f32},
    {Scheme::w8, DType::bf16, DType::i8, 0, DType::bf16},     {Scheme::w8, DType::f32, DType::i8, 0, DType::f32},
    {Scheme::w8, DType::f16, DType::i8, 0, DType::f32},       {Scheme::w4, DType::bf16, DType::i8, 32, DType::bf16},
    {Scheme::w4, DType::f32, DType::i8, 0, DType::f32},       {Scheme::w4, DType::f32, DType::i8, 20, DType::f32},
    {Scheme::w4, DType::f16, DType::i8, 16, DType::f32},      {Scheme::da8w8, DType::i8, DType::i8, 0, DType::f32},
    {Scheme::da8w8, DType::u8, DType::i8, 0, DType::bf16},    {Scheme::s8s8, DType::i8, DType::i8, 0, DType::i32},
    {Scheme::s8s8, DType::u8, DType::i8, 0, DType::i32},
};

Problem problem_of(const SchemeCase& s, std::vector<int64_t> k_segments, std::vector<int64_t> ns, unsigned flags) {
  Problem p;
  p.scheme = s.scheme, p.activation = s.activation, p.weight = s.weight, p.group = s.group;
  p.k_segments = std::move(k_segments);
  for (int64_t k : p.k_segments) p.k += k;
  const bool integer = !is_floating(s.activation);
  p.x_has_zero = s.scheme == Scheme::da8w8 && (flags & 4);
  for (size_t i = 0; i < ns.size(); ++i) {
    Segment segment;
    segment.n = ns[i];
    segment.has_bias = ((flags + i) & 1) && s.output != DType::i32;
    segment.has_zero = ((flags >> 1) & 1) && i != 1 && s.scheme != Scheme::dense && s.scheme != Scheme::s8s8;
    segment.name = fmt::format("proj_{}", i);
    p.segments.push_back(segment);
    p.outputs.push_back({Expr::acc(int(i)), s.output, ns[i], {int(i)}});
  }
  (void)integer;
  p.nodes = {"linear_1", "linear_2"};
  return p;
}

std::string name_of(const SchemeCase& s, Isa isa, const Candidate& c, const Problem& p) {
  return fmt::format("{} {} {} | {} | {}", isa_info(isa).name, scheme_name(s.scheme), dtype_name(s.activation), c.describe(), p.signature());
}

// Every candidate of every M bucket once, over cycling shapes.
std::vector<Case> make_cases(unsigned stride) {
  static const std::vector<std::vector<int64_t>> kKs = {{64}, {1}, {37}, {40, 3, 21}, {129}, {7, 9}, {96}, {260}, {15}, {1030}};
  static const std::vector<std::vector<int64_t>> kNs = {{32}, {1}, {33, 17}, {70}, {15, 64, 3}, {31}, {48}};
  static const int64_t kBuckets[][2] = {{1, 1}, {2, 4}, {5, 16}, {17, 64}, {65, 256}};
  std::vector<Case> cases;
  unsigned serial = 0;
  for (Isa isa : kIsas)
    for (const SchemeCase& s : kSchemeCases)
      for (const auto& bucket : kBuckets) {
        const Problem p = problem_of(s, kKs[serial % kKs.size()], kNs[serial % kNs.size()], serial);
        for (const Candidate& candidate : candidates(p, {Device::cpu, isa}, bucket[0], bucket[1])) {
          if (serial++ % stride) continue;
          Case c;
          c.problem = problem_of(s, kKs[serial % kKs.size()], kNs[serial / 2 % kNs.size()], serial / 3);
          c.isa = isa;
          c.candidate = candidate;
          if (candidate.microkernel->compute == "bf16dot")
            for (Segment& segment : c.problem.segments) segment.has_zero = false;
          if (serial % 2) c.candidate.kc = 32, c.candidate.panels_per_item = 2;
          c.powers = serial % 5 == 0 && s.scheme == Scheme::dense;
          c.seed = 1000 + serial;
          c.what = name_of(s, isa, candidate, c.problem);
          cases.push_back(std::move(c));
        }
      }
  return cases;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr unsigned kStride = 23;
#else
constexpr unsigned kStride = 5;
#endif

}  // namespace

TEST_CASE("every scheme on every ISA over odd shapes") {
  std::vector<Case> cases = make_cases(kStride);
  build_cases(cases);
  int ran = 0, skipped = 0;
  for (Case& c : cases) {
    if (!c.kernel) {
      ++skipped;
      continue;
    }
    ++ran;
    for (int64_t m : {int64_t(0), int64_t(1), 2 + int64_t(c.seed % 5), 7 + int64_t(c.seed % 61)}) check_case(c, m);
  }
  MESSAGE(fmt::format("{} kernels ran, {} only compiled (this CPU lacks their ISA)", ran, skipped));
  CHECK(ran > 0);
}

TEST_CASE("w4 with one scale per channel is one group: a block of K is all of it") {
  std::vector<Case> cases;
  const SchemeCase s{Scheme::w4, DType::f32, DType::i8, 0, DType::f32};
  for (Isa isa : kIsas) {
    Case c;
    c.problem = problem_of(s, {130}, {40}, 0);
    c.isa = isa;
    c.candidate = candidates(c.problem, {Device::cpu, isa}, 65, 256).front();
    c.candidate.kc = 32;
    c.what = name_of(s, isa, c.candidate, c.problem);
    cases.push_back(std::move(c));
  }
  build_cases(cases);
  for (Case& c : cases)
    if (c.kernel) check_case(c, 9);
}

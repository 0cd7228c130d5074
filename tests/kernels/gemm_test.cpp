// Every scheme on every ISA over odd shapes: what numerics.md asks of a GEMM kernel.
#include <set>

#include "codegen/gemm/render.h"
#include "codegen/gemm/shape.h"
#include "gemm_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

constexpr Isa kIsas[] = {Isa::portable, Isa::avx2, Isa::avx2vnni, Isa::avx512, Isa::avx512bf16, Isa::amx};

struct SchemeCase {
  Scheme scheme;
  DType activation, weight;
  int64_t group;
  DType output;
  DType scale = DType::f32;
  bool offsets = false;
};
constexpr SchemeCase kSchemeCases[] = {
    {Scheme::dense, DType::f32, DType::f32, 0, DType::f32},
    {Scheme::dense, DType::bf16, DType::bf16, 0, DType::bf16},
    {Scheme::dense, DType::f16, DType::f16, 0, DType::f16},
    {Scheme::dense, DType::f32, DType::bf16, 0, DType::f32},
    {Scheme::w8, DType::bf16, DType::i8, 0, DType::bf16},
    {Scheme::w8, DType::f32, DType::i8, 0, DType::f32},
    {Scheme::w8, DType::f16, DType::i8, 0, DType::f32},
    {Scheme::w4, DType::bf16, DType::i8, 32, DType::bf16},
    {Scheme::w4, DType::f32, DType::i8, 0, DType::f32},
    {Scheme::w4, DType::f32, DType::i8, 20, DType::f32},
    {Scheme::w4, DType::f16, DType::i8, 16, DType::f32},
    {Scheme::w4, DType::bf16, DType::i8, 8, DType::bf16},
    {Scheme::da8w8, DType::i8, DType::i8, 0, DType::f32},
    {Scheme::da8w8, DType::u8, DType::i8, 0, DType::bf16},
    {Scheme::s8s8, DType::i8, DType::i8, 0, DType::i32},
    {Scheme::s8s8, DType::u8, DType::i8, 0, DType::i32},
    {Scheme::w8, DType::bf16, DType::i8, 32, DType::bf16},
    {Scheme::da8w8, DType::i8, DType::i8, 32, DType::f32},
    {Scheme::w4, DType::bf16, DType::i8, 32, DType::bf16, DType::bf16, true},
    {Scheme::w4, DType::f32, DType::i8, 24, DType::f32, DType::f32, true},
    {Scheme::w8, DType::bf16, DType::i8, 32, DType::bf16, DType::f32, true},
    {Scheme::w8, DType::f32, DType::i8, 0, DType::f32, DType::f32, true},
    {Scheme::da8w4, DType::i8, DType::i8, 32, DType::f32, DType::bf16},
    {Scheme::da8w4, DType::u8, DType::i8, 24, DType::bf16},
    {Scheme::da8w4, DType::i8, DType::i8, 0, DType::f32},
    {Scheme::da8w4, DType::u8, DType::i8, 256, DType::f32, DType::bf16},
    {Scheme::da8f4, DType::i8, DType::i8, 16, DType::f32},
    {Scheme::da8f4, DType::u8, DType::i8, 32, DType::f32, DType::bf16},
    {Scheme::f8, DType::bf16, DType::f8e4m3, 0, DType::bf16},
    {Scheme::f8, DType::f32, DType::f8e5m2, 0, DType::f32},
    {Scheme::f8, DType::f8e4m3, DType::f8e4m3, 0, DType::bf16},
    {Scheme::f8, DType::f8e5m2, DType::f8e4m3, 128, DType::f32},
    {Scheme::f4, DType::bf16, DType::i8, 32, DType::bf16, DType::bf16},
    {Scheme::f4, DType::f32, DType::i8, 16, DType::f32},
    {Scheme::f4, DType::bf16, DType::i8, 32, DType::bf16, DType::f8e8m0},
    {Scheme::f4, DType::f32, DType::i8, 16, DType::f32, DType::f8e8m0},
    {Scheme::da8f4, DType::i8, DType::i8, 32, DType::bf16, DType::f8e8m0},
    {Scheme::f4, DType::bf16, DType::i8, 16, DType::bf16, DType::f8e4m3},
    {Scheme::f4, DType::f16, DType::i8, 16, DType::f32, DType::f8e4m3},
    {Scheme::da8f4, DType::i8, DType::i8, 16, DType::bf16, DType::f8e4m3},
    {Scheme::nf4, DType::bf16, DType::i8, 64, DType::bf16},
    {Scheme::nf4, DType::f32, DType::i8, 0, DType::f32},
};

Problem problem_of(const SchemeCase& s, std::vector<int64_t> k_segments, std::vector<int64_t> ns, unsigned flags) {
  Problem p;
  p.scheme = s.scheme, p.activation = s.activation, p.weight = s.weight, p.group = s.group, p.scale = s.scale;
  p.k_segments = std::move(k_segments);
  for (int64_t k : p.k_segments) p.k += k;
  p.may_round = true;
  p.x_has_zero = scheme_info(s.scheme).quantized_activation && (flags & 4);
  for (size_t i = 0; i < ns.size(); ++i) {
    Segment segment;
    segment.n = ns[i];
    segment.has_bias = ((flags + i) & 1) && s.output != DType::i32;
    segment.has_zero = ((flags >> 1) & 1) && i != 1 && may_have_zeros(scheme_info(s.scheme));
    segment.has_offset = s.offsets && i != 2;
    segment.name = fmt::format("proj_{}", i);
    p.segments.push_back(segment);
    p.outputs.push_back({Expr::acc(int(i)), s.output, ns[i], {int(i)}});
  }
  p.nodes = {"linear_1", "linear_2"};
  return p;
}

// A candidate of another problem of the scheme, which may have had scales that weights can take where this one's
// cannot.
GemmSchedule fitted(GemmSchedule candidate, const Problem& problem) {
  if (candidate.scaling == Scaling::weights && !GemmShape(problem, candidate).can_scale())
    candidate.scaling = Scaling::sums;
  return candidate;
}

std::string name_of(const SchemeCase& s, Isa isa, const GemmSchedule& c, const Problem& p) {
  return fmt::format("{} {} {} | {} | {}", isa_info(isa).name, scheme_name(s.scheme), dtype_name(s.activation),
                     c.describe(), p.signature());
}

// Whether this candidate has something that none before it had: as code for this ISA, as a tile of its microkernel, or
// as the first for a row of the table above.
class Coverage {
 public:
  bool adds(const SchemeCase& s, Isa isa, const GemmSchedule& c) {
    const bool as_row = seen_.insert(fmt::format("{} {}", &s - kSchemeCases, isa_info(isa).name)).second;
    const bool as_tile = seen_.insert(fmt::format("{} {} {}", scheme_name(s.scheme), c.microkernel->name, c.mr)).second;
    const bool as_code =
        seen_
            .insert(fmt::format("{} {} {} {}{}{}{}", scheme_name(s.scheme), isa_info(isa).name, c.microkernel->name,
                                c.unpacks_block, int(c.scaling), !c.tails.empty(), c.ahead_bytes > 0))
            .second;
    return as_row || as_tile || as_code;
  }

 private:
  std::set<std::string> seen_;
};

// Of the candidates of every M bucket all that add to the coverage and a sample of the others, over shapes and
// blockings that cycle with periods without a common factor: every one meets every other.
std::vector<Case> make_cases() {
  constexpr unsigned kStride = 61;
  static const std::vector<std::vector<int64_t>> kKs = {{64},   {1},  {37},  {40, 3, 21}, {129},
                                                        {7, 9}, {96}, {260}, {15},        {1030}};
  static const std::vector<std::vector<int64_t>> kNs = {{32}, {1}, {33, 17}, {70}, {15, 64, 3}, {31}, {48}};
  static const int64_t kBuckets[][2] = {{1, 1}, {2, 4}, {5, 16}, {17, 64}, {65, 256}};
  std::vector<Case> cases;
  Coverage coverage;
  unsigned serial = 0;
  for (Isa isa : kIsas)
    for (const SchemeCase& s : kSchemeCases)
      for (const auto& bucket : kBuckets) {
        const Problem p = problem_of(s, kKs[serial % kKs.size()], kNs[serial % kNs.size()], serial);
        for (const GemmSchedule& candidate : gemm_schedules(p, {Device::cpu, isa}, bucket[0], bucket[1])) {
          const bool sampled = serial++ % kStride == 0;
          if (!coverage.adds(s, isa, candidate) && !sampled) continue;
          const size_t at = cases.size();
          Case c;
          c.problem = problem_of(s, kKs[at % kKs.size()], kNs[at % kNs.size()], unsigned(at / 10));
          c.isa = isa;
          c.candidate = fitted(candidate, c.problem);
          if (at % 3) c.candidate.kc = 32, c.candidate.panels_per_item = 2;
          if (at % 4 == 1) c.candidate.rows_per_item = 2 * c.candidate.mr;
          if (at % 4 != 3) c.candidate.fetches_rows = candidate.prefetch_bytes == 0;
          c.candidate.in_place = at % 2 == 0;
          c.problem.windowed = at % 5 == 2;
          c.powers = at % 11 < 3 && s.scheme == Scheme::dense;
          c.seed = 1000 + serial;
          c.what = name_of(s, isa, candidate, c.problem);
          cases.push_back(std::move(c));
        }
      }
  return cases;
}

}  // namespace

TEST_CASE("every scheme on every ISA over odd shapes") {
  std::vector<Case> cases = make_cases();
  build_cases(cases);
  int ran = 0, emulated = 0, skipped = 0;
  for (Case& c : cases) {
    if (!c.kernel) {
      ++skipped;
      continue;
    }
    ++(c.emulated ? emulated : ran);
    for (int64_t m : {int64_t(0), int64_t(1), 2 + int64_t(c.seed % 5), 7 + int64_t(c.seed % 61)}) check_case(c, m);
  }
  MESSAGE(fmt::format("{} kernels ran, {} of AMX ran with emulated tiles, {} only compiled (this CPU lacks their ISA)",
                      ran, emulated, skipped));
  CHECK(ran > 0);
}

// Every one of the tiles, each over two of four kinds of tail.
TEST_CASE("AMX: every tile row over tails of rows, columns, K and groups") {
  std::vector<Case> cases;
  unsigned serial = 0;
  constexpr int64_t kKs[] = {24, 64, 200, 261};
  for (const SchemeCase& s : kSchemeCases)
    for (size_t i = 0; i < std::size(kKs); ++i) {
      const int64_t k = kKs[i];
      size_t tiles = 0;
      for (const GemmSchedule& candidate :
           gemm_schedules(problem_of(s, {k}, {40}, 0), {Device::cpu, Isa::amx}, 5, 64)) {
        if (!candidate.microkernel->compute.starts_with("amx") || tiles++ % 2 != i % 2) continue;
        Case c;
        c.problem = problem_of(s, {k - 5, 5}, {40, 23}, serial);
        c.isa = Isa::amx;
        c.candidate = fitted(candidate, c.problem);
        if (++serial % 4 == 0) c.candidate.kc = 64;
        c.powers = serial % 3 == 0 && s.scheme == Scheme::dense;
        c.seed = 7000 + serial;
        c.what = name_of(s, Isa::amx, candidate, c.problem);
        cases.push_back(std::move(c));
      }
    }
  CHECK(cases.size() > 20);
  build_cases(cases, AmxBuild::only_run);  // the coverage above has assembled every tile
  int ran = 0;
  for (Case& c : cases) {
    if (!c.kernel) continue;
    ++ran;
    for (int64_t m : {int64_t(1), int64_t(16), int64_t(17), int64_t(49)}) check_case(c, m);
  }
  if (cases.front().kernel == nullptr)
    MESSAGE("skipped: AMX kernels compiled only, this CPU has neither tiles nor AVX-512 BF16 to emulate them on");
  else MESSAGE(fmt::format("{} AMX kernels ran{}", ran, cases.front().emulated ? " with emulated tiles" : ""));
}

TEST_CASE("weights rounded to bf16: where that is allowed, groups need no sums of their own") {
  std::vector<Case> cases;
  unsigned serial = 0;
  for (Isa isa : {Isa::avx512bf16, Isa::amx})
    for (const SchemeCase& s : kSchemeCases) {
      Problem p = problem_of(s, {200}, {40, 23}, serial);
      size_t rounded = 0, scaled = 0;
      for (const GemmSchedule& candidate : gemm_schedules(p, {Device::cpu, isa}, 17, 64)) {
        scaled +=
            candidate.scaling == Scaling::weights && compute_info(candidate.microkernel->compute).element == "bf16";
        if (candidate.scaling != Scaling::rounded_weights) continue;
        ++rounded;
        Case c;
        c.problem = problem_of(s, {190, 71}, {40, 23}, serial);
        c.isa = isa;
        c.candidate = fitted(candidate, c.problem);
        if (++serial % 2) c.candidate.kc = 64;
        c.seed = 9000 + serial;
        c.what = name_of(s, isa, candidate, c.problem);
        cases.push_back(std::move(c));
      }
      const bool grouped = s.group > 0 || scheme_info(s.scheme).weight.usual_group > 0;
      // What is scaled exactly leaves nothing to gain.
      CHECK_MESSAGE((rounded > 0) == (grouped && scaled == 0 && s.activation != DType::f32 &&
                                      s.activation != DType::f16 && is_floating(s.activation)),
                    name_of(s, isa, gemm_schedules(p, {Device::cpu, isa}, 17, 64)[0], p));
      p.may_round = false;
      for (const GemmSchedule& candidate : gemm_schedules(p, {Device::cpu, isa}, 17, 64))
        CHECK(candidate.scaling != Scaling::rounded_weights);
    }
  build_cases(cases);
  for (Case& c : cases)
    if (c.kernel)
      for (int64_t m : {int64_t(1), int64_t(16), int64_t(37)}) check_case(c, m);
}

TEST_CASE("AMX competes with vectors, and leaves them float activations") {
  const Target amx{Device::cpu, Isa::amx};
  auto tiles = [&](const SchemeCase& s, int64_t m_min, int64_t m_max, bool zeros) {
    Problem p = problem_of(s, {512}, {64}, 0);
    p.segments[0].has_zero = zeros;
    int with = 0, without = 0;
    for (const GemmSchedule& c : gemm_schedules(p, amx, m_min, m_max))
      ++(c.microkernel->isa == Isa::amx ? with : without);
    CHECK(without > 0);
    return with;
  };
  const SchemeCase dense{Scheme::dense, DType::bf16, DType::bf16, 0, DType::bf16},
      w4{Scheme::w4, DType::bf16, DType::i8, 32, DType::bf16}, w8{Scheme::w8, DType::bf16, DType::i8, 0, DType::bf16},
      da8w8{Scheme::da8w8, DType::i8, DType::i8, 0, DType::f32};
  for (const SchemeCase& s : {dense, w4, w8, da8w8}) {
    CHECK(tiles(s, 1, 1, false) > 0);
    CHECK(tiles(s, 2, 4, false) > 0);
    CHECK(tiles(s, 5, 8, false) > 0);
    CHECK(tiles(s, 65, 256, false) > 0);
  }
  CHECK(tiles(w4, 65, 256, true) > 0);
  CHECK(tiles(da8w8, 65, 256, true) > 0);
  CHECK(tiles({Scheme::w8, DType::f32, DType::i8, 0, DType::f32}, 65, 256, false) == 0);
  Problem p = problem_of(da8w8, {512}, {64}, 0);
  for (const GemmSchedule& c : gemm_schedules(p, amx, 5, 256))
    CHECK(c.layout == layout_for(p, {Device::cpu, Isa::avx512}));
  for (Isa isa : {Isa::avx512bf16, Isa::avx512, Isa::avx2vnni, Isa::avx2, Isa::portable})
    for (const GemmSchedule& c : gemm_schedules(p, {Device::cpu, isa}, 5, 256)) CHECK(c.microkernel->isa != Isa::amx);
}

TEST_CASE("w4 with one scale per channel is one group: a block of K is all of it") {
  std::vector<Case> cases;
  const SchemeCase s{Scheme::w4, DType::f32, DType::i8, 0, DType::f32};
  for (Isa isa : kIsas) {
    Case c;
    c.problem = problem_of(s, {130}, {40}, 0);
    c.isa = isa;
    c.candidate = gemm_schedules(c.problem, {Device::cpu, isa}, 65, 256).front();
    c.candidate.kc = 32;
    c.what = name_of(s, isa, c.candidate, c.problem);
    cases.push_back(std::move(c));
  }
  build_cases(cases);
  for (Case& c : cases)
    if (c.kernel) check_case(c, 9);
}

TEST_CASE("the last row tile: every height over blocks that stream or wait, unpacked or not") {
  static const SchemeCase kCases[] = {{Scheme::dense, DType::f32, DType::bf16, 0, DType::f32},
                                      {Scheme::w8, DType::bf16, DType::i8, 32, DType::bf16},
                                      {Scheme::w4, DType::f32, DType::i8, 24, DType::f32, DType::f32, true},
                                      {Scheme::w8, DType::bf16, DType::i8, 32, DType::bf16, DType::f32, true},
                                      {Scheme::w8, DType::f32, DType::i8, 0, DType::f32, DType::f32, true},
                                      {Scheme::da8w8, DType::u8, DType::i8, 0, DType::f32},
                                      {Scheme::da8w4, DType::i8, DType::i8, 32, DType::f32, DType::bf16}};
  std::vector<Case> cases;
  unsigned serial = 0;
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx2vnni, Isa::avx512bf16})
    for (const SchemeCase& s : kCases) {
      std::set<std::pair<bool, bool>> seen;
      for (const GemmSchedule& candidate :
           gemm_schedules(problem_of(s, {200}, {70, 9}, 0), {Device::cpu, isa}, 17, 64)) {
        if (candidate.tails.empty() || !seen.emplace(candidate.unpacks_block, candidate.ahead_bytes > 0).second)
          continue;
        Case c;
        c.problem = problem_of(s, {200}, {70, 9}, serial);
        c.isa = isa;
        c.candidate = candidate;
        c.candidate.kc = 32 + 32 * (serial % 2);
        c.candidate.panels_per_item = 2;
        c.seed = 9000 + ++serial;
        c.what = name_of(s, isa, c.candidate, c.problem);
        cases.push_back(std::move(c));
      }
      CHECK(seen.size() >= 2);
    }
  build_cases(cases);
  for (Case& c : cases)
    for (int64_t left = 1; c.kernel && left <= c.candidate.mr; ++left)
      check_case(c, left % 3 == 0 ? left : c.candidate.mr + left);
}

TEST_CASE("activations in place: every tile that can read them, over tails of rows and blocks of K") {
  std::vector<Case> cases;
  std::set<std::string> schemes;
  unsigned serial = 0;
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16})
    for (const SchemeCase& s : kSchemeCases) {
      std::set<std::pair<const Microkernel*, bool>> seen;
      for (const GemmSchedule& candidate : gemm_schedules(problem_of(s, {96}, {40}, 0), {Device::cpu, isa}, 65, 256)) {
        Case c;
        c.problem =
            problem_of(s, serial % 4 == 1 ? std::vector<int64_t>{40, 56} : std::vector<int64_t>{96}, {40, 23}, serial);
        c.problem.windowed = serial % 4 < 2;
        c.isa = isa;
        c.candidate = fitted(candidate, c.problem);
        c.candidate.in_place = true;
        if (!GemmShape(c.problem, c.candidate).in_place() ||
            !seen.emplace(candidate.microkernel, candidate.unpacks_block).second)
          continue;
        if (++serial % 3) c.candidate.kc = 32;
        if (serial % 2) c.candidate.rows_per_item = 2 * c.candidate.mr;
        c.seed = 9500 + serial;
        c.what = name_of(s, isa, c.candidate, c.problem);
        schemes.insert(fmt::format("{} {}", scheme_name(s.scheme), dtype_name(s.activation)));
        cases.push_back(std::move(c));
      }
    }
  CHECK(schemes.contains("dense f32"));
  CHECK(schemes.contains("dense bf16"));
  CHECK(schemes.contains("w8 bf16"));
  build_cases(cases);
  for (Case& c : cases)
    for (int64_t m : {int64_t(1), int64_t(c.candidate.mr), int64_t(3 * c.candidate.mr - 1), int64_t(29)})
      if (c.kernel) check_case(c, m);
}

TEST_CASE("few columns: every other candidate reads activations in place") {
  const auto in_place = [](std::vector<int64_t> ks, int64_t n, int64_t m_max) {
    std::set<bool> out;
    const SchemeCase f32{Scheme::dense, DType::f32, DType::f32, 0, DType::f32};
    for (const GemmSchedule& c : gemm_schedules(problem_of(f32, ks, {n}, 0), {Device::cpu, Isa::avx512}, m_max, m_max))
      if (c.mr <= 8) out.insert(c.in_place);
    return out;
  };
  CHECK(in_place({768}, 768, 256) == std::set{false, true});
  CHECK(in_place({768}, 768, 16) == std::set{false, true});
  CHECK(in_place({768}, 768, 4) == std::set{false});
  CHECK(in_place({768}, 8192, 256) == std::set{false});
  CHECK(in_place({384, 384}, 768, 256) == std::set{false});  // x is two tensors
  CHECK(in_place({769}, 768, 256) == std::set{false});       // rows end within a unit of the weights
}

TEST_CASE("kernels of fewer rows exist only for what a range of rows ends in") {
  const Problem p = problem_of({Scheme::dense, DType::f32, DType::f32, 0, DType::f32}, {512}, {64}, 0);
  const auto tails_of = [&](int64_t m_min, int64_t m_max, int mr) {
    for (const GemmSchedule& c : gemm_schedules(p, {Device::cpu, Isa::avx512}, m_min, m_max))
      if (c.mr == mr) return c.tails;
    return std::vector<int>{-1};
  };
  CHECK(tails_of(1, 1, 1).empty());
  CHECK(tails_of(2, 4, 4) == std::vector<int>{2, 3});
  CHECK(tails_of(5, 16, 8) == std::vector<int>{2, 4, 6});
  for (const GemmSchedule& c : gemm_schedules(p, {Device::cpu, Isa::avx512}, 65, 256)) CHECK(c.tails.empty());
}

TEST_CASE("each row tile fetches all activations of the next one where those of an item leave L2") {
  const SchemeCase bf16{Scheme::dense, DType::bf16, DType::bf16, 0, DType::bf16};
  const auto fetching = [&](int64_t k, int64_t m_min, int64_t m_max) {
    std::set<bool> out;
    for (const GemmSchedule& c :
         gemm_schedules(problem_of(bf16, {k}, {64}, 0), {Device::cpu, Isa::avx512bf16}, m_min, m_max))
      if (c.microkernel->compute == "bf16dot" && !c.in_place) out.insert(c.fetches_rows);
    return out;
  };
  CHECK(fetching(4096, 257, 1024) == std::set{false});
  CHECK(fetching(14336, 17, 64) == std::set{false});
  CHECK(fetching(14336, 129, 256) == std::set{true});
  CHECK(fetching(14336, 257, 1024) == std::set{true});

  const Problem p = problem_of(bf16, {14336}, {64}, 0);
  for (const GemmSchedule& c : gemm_schedules(p, {Device::cpu, Isa::avx512bf16}, 257, 1024)) {
    if (c.microkernel->compute != "bf16dot" || c.in_place) continue;
    const auto text = render_gemm(p, c, "kernel");
    REQUIRE(text.ok());
    std::set<int> lines;
    const std::string fetch = "__builtin_prefetch(x + UNITS * MR + ";
    for (size_t at = 0; (at = text->find(fetch, at)) != text->npos; ++at)
      lines.insert(std::stoi(text->substr(at + fetch.size())));
    CAPTURE(c.describe());
    REQUIRE(!lines.empty());
    CHECK(*lines.rbegin() == int(lines.size() - 1) * 16);  // 16 units of 4 bytes are a line
    CHECK(int(lines.size()) * 16 >= GemmShape(p, c).k_iteration / 2 * c.mr);
  }
}

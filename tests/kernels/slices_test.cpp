// Activations cut into integers (templates/quant/slices.h) lose nothing: what does not fit below the largest of its
// group is multiplied as it is. Weights are zero where activations are large, so that all of a result is what did not
// fit.
#include <set>

#include "codegen/gemm/pack.h"
#include "codegen/gemm/shape.h"
#include "gemm_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

struct SlicedRow {
  Scheme scheme;
  DType activation;
  int64_t group;
  bool zeros, offsets;
};
constexpr SlicedRow kSlicedRows[] = {
    {Scheme::w8, DType::bf16, 0, false, false},  {Scheme::w8, DType::f16, 0, true, false},
    {Scheme::w8, DType::bf16, 64, true, false},  {Scheme::w4, DType::bf16, 32, false, false},
    {Scheme::w4, DType::bf16, 128, true, false}, {Scheme::w4, DType::f16, 48, false, true},
    {Scheme::w8, DType::bf16, 32, false, true},  {Scheme::f4, DType::bf16, 32, false, false},
};
constexpr int64_t kK = 1003, kN = 37, kM = 6;

Problem problem_of(const SlicedRow& row) {
  Problem p;
  p.scheme = row.scheme, p.activation = row.activation, p.weight = DType::i8, p.group = row.group;
  p.k = kK, p.k_segments = {kK - 40, 40};
  Segment segment;
  segment.n = kN, segment.has_zero = row.zeros, segment.has_offset = row.offsets, segment.name = "proj";
  p.segments = {segment};
  p.outputs = {{Expr::acc(0), DType::f32, kN, {0}}};
  p.nodes = {"linear"};
  return p;
}

// Every microkernel and blocking that slices activations, for few rows and for many.
std::vector<Case> make_sliced_cases() {
  std::vector<Case> cases;
  for (const Isa isa : {Isa::avx2, Isa::avx2vnni, Isa::avx512, Isa::avx512bf16})
    for (const SlicedRow& row : kSlicedRows)
      for (const int64_t m : {int64_t{1}, int64_t{4}, int64_t{16}}) {
        std::set<bool> seen;
        for (const GemmSchedule& candidate : gemm_schedules(problem_of(row), {Device::cpu, isa}, m, m)) {
          if (slices_of(*candidate.microkernel) == 1 || !seen.insert(candidate.unpacks_block).second) continue;
          Case c;
          c.problem = problem_of(row);
          c.problem.windowed = cases.size() % 3 == 1;
          c.isa = isa;
          c.candidate = candidate;
          if (m == 16) c.candidate.kc = 256;
          c.seed = 4200 + cases.size();
          c.what = fmt::format("{} | {} | {}", isa_info(isa).name, candidate.describe(), c.problem.signature());
          cases.push_back(std::move(c));
        }
      }
  return cases;
}

// Large activations in the first group only: few rests. Everywhere: rests are sliced. Three sizes: rests of rests.
enum class Sizes { one_group, two, three };
constexpr int kLarge = 3, kMiddle = 5;  // of every 8 k
bool is_forgotten(int64_t k, Sizes sizes) {
  return (k % 8 == kLarge && (sizes != Sizes::one_group || k < 16)) || (k % 8 == kMiddle && sizes == Sizes::three);
}

int64_t zero_of(const Case& c, int64_t n, int64_t k) {
  const Tensor& zeros = c.tensors[0].zeros;
  const int64_t group = c.problem.group > 0 ? c.problem.group : kK;
  return zeros.bound()
             ? element_to_int(DType::i32, zeros.storage->bytes.data() + (n * c.problem.groups() + k / group) * 4)
             : 0;
}
int8_t* weights_of(const Case& c) {
  return reinterpret_cast<int8_t*>(const_cast<std::byte*>(c.tensors[0].weight.storage->bytes.data()));
}
double weight_of(const Case& c, int64_t n, int64_t k) { return double(weights_of(c)[n * kK + k] - zero_of(c, n, k)); }

// A weight that counts for nothing: its zero point.
void forget_weights(Case& c, Sizes sizes) {
  for (int64_t n = 0; n < kN; ++n)
    for (int64_t k = 0; k < kK; ++k)
      if (is_forgotten(k, sizes)) weights_of(c)[n * kK + k] = int8_t(zero_of(c, n, k));
  REQUIRE(pack_weights(c.problem, c.candidate.layout, c.tensors, c.packed).ok());
}

// Both copies of an activation: the kernel's and the oracle's.
void put_activation(const Case& c, CallData& d, int64_t row, int64_t k, double value) {
  const size_t source = k < c.problem.k_segments[0] ? 0 : 1, bytes = dtype_bytes(c.problem.activation);
  const int64_t column = source == 0 ? k : k - c.problem.k_segments[0];
  double_to_element(c.problem.activation, value,
                    d.buffers[source].data() + size_t(d.x_at(source, row) + column) * bytes);
  double_to_element(c.problem.activation, value,
                    const_cast<std::byte*>(d.xs[source].storage->bytes.data()) +
                        size_t(row * c.problem.k_segments[source] + column) * bytes);
}

}  // namespace

TEST_CASE("slices keep what is small beside the largest of its group, and infinity") {
  std::vector<Case> cases = make_sliced_cases();
  CHECK(cases.size() > 20);
  build_cases(cases);
  for (Case& c : cases) {
    if (!c.kernel) continue;
    INFO(c.what, " seed=", c.seed);
    const bool offset = c.problem.segments[0].has_offset;  // times a sum of activations: then not of cancelling ones
    for (const Sizes sizes : {Sizes::one_group, Sizes::two, Sizes::three}) {
      CAPTURE(static_cast<int>(sizes));
      if (sizes == Sizes::three && c.problem.activation == DType::f16) continue;  // it has no three
      forget_weights(c, sizes);
      CallData d = make_call(c, kM, true);
      // Rows 1 and 4 have numbers of one size, row 5 some that are denormal.
      for (const int64_t row : {0, 2, 3, 5})
        for (int64_t k = 0; k < kK; ++k)
          if (!is_forgotten(k, sizes)) {
            if (sizes == Sizes::three) put_activation(c, d, row, k, std::ldexp(double(k % 13 - 6), -60));
          } else if (k % 8 == kLarge) {
            put_activation(c, d, row, k, k % 16 == kLarge || offset ? 65000 : -65000);
          }
      for (int64_t k = 0; k < kK; k += 50)
        if (!is_forgotten(k, sizes)) put_activation(c, d, 5, k, c.problem.activation == DType::bf16 ? 3e-40 : 1e-7);
      run_kernel(c, d, true, 1000);
      CHECK(count_wrong(c, d, kM) == 0);
    }
    CallData d = make_call(c, kM, false);
    put_activation(c, d, 2, kK - 2, INFINITY);
    run_kernel(c, d, false, 1);
    for (int64_t n = 0; n < kN && !offset; ++n) {
      const double w = weight_of(c, n, kK - 2), want = w == 0 ? NAN : w * INFINITY;
      const double got = element_to_double(
          DType::f32, d.buffers[d.first_output].data() + size_t(2 * d.strides[d.first_output] + n) * 4);
      CHECK_MESSAGE((std::isnan(want) ? std::isnan(got) : got == want), n);
    }
  }
}

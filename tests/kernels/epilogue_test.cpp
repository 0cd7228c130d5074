// Epilogues and operands, limits of the integer schemes, and what packing refuses.
#include "codegen/gemm/layout.h"
#include "codegen/gemm/pack.h"
#include "codegen/gemm/render.h"
#include "gemm_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Problem base(Scheme scheme, DType activation, DType weight, std::vector<int64_t> ns, int64_t k) {
  Problem p;
  p.scheme = scheme, p.activation = activation, p.weight = weight;
  p.k = k, p.k_segments = {k};
  if (scheme == Scheme::w4) p.group = 32;
  for (size_t i = 0; i < ns.size(); ++i) p.segments.push_back({ns[i], false, i == 0, fmt::format("segment_{}", i)});
  return p;
}

Case make_case(Problem problem, Isa isa, int64_t m, uint64_t seed) {
  Case c;
  c.isa = isa;
  c.candidate = gemm_schedules(problem, {Device::cpu, isa}, m, m).front();
  c.what = fmt::format("{} {}", isa_info(isa).name, problem.signature());
  c.problem = std::move(problem);
  c.seed = seed;
  return c;
}

}  // namespace

TEST_CASE("epilogues over several segments and every kind of operand") {
  std::vector<Case> cases;
  uint64_t seed = 1;
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx2vnni, Isa::avx512, Isa::amx}) {
    for (Scheme scheme : {Scheme::dense, Scheme::w8, Scheme::w4}) {
      // gate * up, up itself and an unrelated sibling: three outputs, two strips.
      Problem p = base(scheme, DType::bf16, scheme == Scheme::dense ? DType::bf16 : DType::i8, {45, 45, 19}, 70);
      p.outputs.push_back(
          {Expr::call("mul", {Expr::call("silu", {Expr::acc(0)}), Expr::acc(1)}), DType::bf16, 45, {0, 1}});
      p.outputs.push_back({Expr::acc(2), DType::f32, 19, {2}});
      p.outputs.push_back({Expr::acc(1), DType::f32, 45, {1}});
      cases.push_back(make_case(p, isa, 4, seed++));
      cases.push_back(make_case(p, isa, 40, seed++));
    }
    Problem p = base(Scheme::da8w8, DType::i8, DType::i8, {37}, 52);
    p.operands = {{DType::f32, Broadcast::full},
                  {DType::bf16, Broadcast::row},
                  {DType::f32, Broadcast::column},
                  {DType::f16, Broadcast::scalar}};
    Expr sum = Expr::call("add", {Expr::acc(0), Expr::in(0)});
    sum = Expr::call("mul", {Expr::call("add", {sum, Expr::in(1)}), Expr::in(2)});
    p.outputs.push_back({Expr::call("add", {sum, Expr::in(3)}), DType::f32, 37, {0}});
    cases.push_back(make_case(p, isa, 1, seed++));
    cases.push_back(make_case(p, isa, 20, seed++));
  }
  build_cases(cases);
  for (Case& c : cases) {
    if (!c.kernel) continue;
    for (int64_t m : {1, 5, 43}) check_case(c, m);
  }
}

TEST_CASE("outputs that read a common segment are one strip, and its weights are packed once") {
  Problem p = base(Scheme::w4, DType::bf16, DType::i8, {45, 45, 19}, 70);
  const Expr product = Expr::call("mul", {Expr::acc(0), Expr::acc(1)});
  p.outputs = {{Expr::acc(0), DType::bf16, 45, {0}},
               {Expr::acc(2), DType::f32, 19, {2}},
               {Expr::acc(1), DType::f32, 45, {1}},
               {product, DType::bf16, 45, {0, 1}}};
  const PackedLayout layout = gemm_schedules(p, {Device::cpu, Isa::portable}, 1, 4).front().layout;
  const PanelLayout joined = panel_layout(p, layout);
  REQUIRE(joined.strips.size() == 2);
  CHECK(joined.strips[0].outputs == std::vector<int>{0, 2, 3});
  CHECK(joined.strips[0].segments == std::vector<int>{0, 1});
  CHECK(joined.strips[1].outputs == std::vector<int>{1});
  p.outputs.pop_back();
  const PanelLayout apart = panel_layout(p, layout);
  CHECK(apart.strips.size() == 3);
  CHECK(joined.bytes == apart.bytes);
}

TEST_CASE("int8 results are rounded to even and saturate, and come back as floats") {
  auto quantized = [](Expr x, double inverse, double zero, double low, double high) {
    Expr q = Expr::call("round_even", {Expr::call("mul", {std::move(x), Expr::number(inverse)})});
    return Expr::call("clamp",
                      {Expr::call("add", {std::move(q), Expr::number(zero)}), Expr::number(low), Expr::number(high)});
  };
  std::vector<Case> cases;
  uint64_t seed = 100;
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx2vnni, Isa::avx512, Isa::amx})
    for (DType activation : {DType::i8, DType::u8}) {
      Problem p = base(Scheme::da8w8, activation, DType::i8, {37, 19, 21}, 52);
      const Expr silu = quantized(Expr::call("silu", {Expr::acc(0)}), 8, 7, 0, 255);
      const Expr back =
          Expr::call("mul", {Expr::call("sub", {Expr::cast(DType::u8, silu), Expr::number(7)}), Expr::number(0.125)});
      p.outputs.push_back({quantized(back, 4, -3, -128, 127), DType::i8, 37, {0}});
      p.outputs.push_back({quantized(Expr::acc(1), 32, 100, 0, 255), DType::u8, 19, {1}});
      p.outputs.push_back(
          {Expr::call("mul", {Expr::cast(DType::i8, quantized(Expr::acc(2), 16, 0, -127, 127)), Expr::number(0.5)}),
           DType::f32,
           21,
           {2}});
      for (int64_t m : {1, 20}) cases.push_back(make_case(p, isa, m, seed++));
    }
  build_cases(cases);
  for (Case& c : cases) {
    if (!c.kernel) continue;
    for (int64_t m : {1, 5, 43}) check_case(c, m);
  }
}

TEST_CASE("a merged sibling has the bits it has alone") {
  std::vector<Case> cases;
  for (Scheme scheme : {Scheme::dense, Scheme::w8, Scheme::da8w8}) {
    const bool integer = scheme == Scheme::da8w8;
    Problem both =
        base(scheme, integer ? DType::i8 : DType::f32, scheme == Scheme::dense ? DType::f32 : DType::i8, {40, 40}, 100);
    both.outputs = {{Expr::acc(0), DType::f32, 40, {0}}, {Expr::acc(1), DType::f32, 40, {1}}};
    Problem alone = both;
    alone.segments.pop_back(), alone.outputs.pop_back();
    cases.push_back(make_case(both, Isa::portable, 4, 77));
    cases.push_back(make_case(alone, Isa::portable, 4, 77));
  }
  build_cases(cases);
  for (size_t i = 0; i < cases.size(); i += 2) {
    CallData both = make_call(cases[i], 5, true), alone = make_call(cases[i + 1], 5, true);
    run_kernel(cases[i], both, true, 1);
    run_kernel(cases[i + 1], alone, true, 1);
    CHECK(output_bytes(cases[i], both, 5).substr(0, 5 * 40 * 4) == output_bytes(cases[i + 1], alone, 5));
  }
}

TEST_CASE("integer sums that could overflow and weights out of range are refused") {
  Problem p = base(Scheme::s8s8, DType::i8, DType::i8, {1}, 131072);
  p.segments[0].has_bias = false;
  p.outputs = {{Expr::acc(0), DType::i32, 1, {0}}};
  const GemmSchedule c = gemm_schedules(p, {Device::cpu, Isa::portable}, 1, 1).front();
  auto refused = render_gemm(p, c, "k");
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::Unsupported);
  p.k = p.k_segments[0] = 131071;
  CHECK(render_gemm(p, c, "k").ok());

  Problem four = base(Scheme::w4, DType::f32, DType::i8, {2}, 32);
  four.segments[0].has_bias = false;
  four.outputs = {{Expr::acc(0), DType::f32, 2, {0}}};
  SegmentTensors t;
  std::vector<std::byte> bytes(64, std::byte(7));
  bytes[40] = std::byte(8);
  t.weight = Tensor::from_bytes(DType::i8, {2, 32}, bytes);
  t.scales = Tensor::zeros(DType::f32, {2, 1});
  const PackedLayout layout = layout_for(four, {Device::cpu, Isa::portable});
  std::vector<std::byte> out(size_t(packed_bytes(four, layout)));
  const Status status = pack_weights(four, layout, {t}, out);
  REQUIRE(!status.ok());
  CHECK(status.error().where == "weight of 'segment_0' [1, 8]");
}

// Corrections of integer sums are sized for zero points of int8; the others are floats by then.
TEST_CASE("zero points beyond int8 are refused where sums are integers") {
  for (const auto& [scheme, activation] : {std::pair{Scheme::da8w8, DType::i8}, std::pair{Scheme::w8, DType::f32}})
    for (const int zero : {-128, 127, 128, -129}) {
      CAPTURE(scheme_name(scheme));
      CAPTURE(zero);
      Problem p = base(scheme, activation, DType::i8, {2}, 32);
      p.segments[0].has_bias = false, p.segments[0].has_zero = true;
      p.outputs = {{Expr::acc(0), DType::f32, 2, {0}}};
      SegmentTensors t;
      t.weight = Tensor::zeros(DType::i8, {2, 32});
      t.scales = Tensor::zeros(DType::f32, {2, 1});
      std::vector<std::byte> zeros(8);
      int_to_element(DType::i32, zero, zeros.data() + 4);
      t.zeros = Tensor::from_bytes(DType::i32, {2, 1}, zeros);
      const PackedLayout layout = layout_for(p, {Device::cpu, Isa::portable});
      std::vector<std::byte> out(size_t(packed_bytes(p, layout)));
      const Status status = pack_weights(p, layout, {t}, out);
      CHECK(status.ok() == (scheme == Scheme::w8 || (zero >= -128 && zero <= 127)));
      if (!status.ok()) CHECK(status.error().where == "zero point of 'segment_0' [1, 0]");
    }
}

// Merged siblings taken apart, timed against the whole, and judged.
#include "codegen/tune/merge_trial.h"

#include <cmath>

#include "codegen/batch.h"
#include "codegen/gemm/pack.h"
#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

MergeTiming merge_timing(double merged, double separate, double spread = 0) {
  return {{merged, merged * (1 - spread), merged, 9}, {separate, separate * (1 - spread), separate, 9}};
}

bool faster(std::vector<MergeTiming> timings) { return separate_is_faster(timings); }

// What the members compute one after the other, each seeing what earlier ones of its output stored.
double run_members(const std::vector<Member>& members, const std::vector<double>& accs, const std::vector<double>& ins,
                   size_t& at) {
  std::vector<double> stored;
  for (;; ++at) {
    const Problem& p = members[at].problem;
    const double acc[] = {accs[members[at].segments[0]]};
    const bool last = p.outputs[0].expr != Expr::acc(0) || !p.operands.empty();
    std::vector<double> operands = stored;
    operands.insert(operands.end(), ins.begin(), ins.end());
    const double y = p.outputs[0].expr.evaluate(acc, operands);
    if (last) return ++at, y;
    stored.push_back(y);
  }
}

}  // namespace

TEST_CASE("siblings with outputs of their own become one problem each") {
  Problem p = problem_of(Scheme::w8, DType::bf16, DType::i8, 0, {64}, {48, 32, 16}, DType::bf16);
  p.segments[1].has_bias = true;
  const auto members = take_apart(p, Fusion::siblings);
  REQUIRE(members.size() == 3);
  for (size_t j = 0; j < 3; ++j) {
    CHECK(members[j].segments == std::vector<size_t>{j});
    CHECK(members[j].problem.segments == std::vector<Segment>{p.segments[j]});
    REQUIRE(members[j].problem.outputs.size() == 1);
    CHECK(members[j].problem.outputs[0].expr == Expr::acc(0));
    CHECK(members[j].problem.outputs[0].n == p.segments[j].n);
    CHECK(members[j].problem.operands.empty());
    CHECK(members[j].problem.k == p.k);
  }
}

TEST_CASE("an output over several segments is finished by the last, with the operands it reads and no others") {
  Problem p = problem_of(Scheme::dense, DType::f32, DType::f32, 0, {32}, {24, 24, 8}, DType::f32);
  p.operands = {{DType::f32, Broadcast::row}, {DType::bf16, Broadcast::full}};
  auto gate = Expr::call("add", {Expr::call("silu", {Expr::acc(0)}), Expr::in(1)});
  p.outputs = {{Expr::call("mul", {gate, Expr::acc(1)}), DType::f32, 24, {0, 1}},
               {Expr::call("neg", {Expr::acc(2)}), DType::f32, 8, {2}}};
  const auto members = take_apart(p, Fusion::siblings);
  REQUIRE(members.size() == 3);
  CHECK(members[0].problem.outputs[0].expr == Expr::acc(0));
  CHECK(members[1].problem.operands ==
        std::vector<Operand>{{DType::f32, Broadcast::full}, {DType::bf16, Broadcast::full}});
  CHECK(members[1].problem.outputs[0].expr.str() == "mul(add(silu(in0), in1), acc0)");
  CHECK(members[2].problem.operands.empty());
  const std::vector<double> accs = {0.7, -1.3, 2.5}, own = {9, 0.25};
  size_t at = 0;
  CHECK(run_members(members, accs, {own[1]}, at) == doctest::Approx(p.outputs[0].expr.evaluate(accs, own)));
  CHECK(at == 2);
}

TEST_CASE("separate must be ahead by more than 3 % and the noise, in the mean") {
  CHECK_FALSE(faster({}));
  CHECK_FALSE(faster({merge_timing(1, 1)}));
  CHECK_FALSE(faster({merge_timing(1, 0.975)}));
  CHECK(faster({merge_timing(1, 0.9)}));
  CHECK_FALSE(faster({merge_timing(1, 0.9, 0.5)}));                           // within the spread
  CHECK_FALSE(faster({merge_timing(1e-6, 0.95e-6), merge_timing(1, 1.06)}));  // short and long count alike
  CHECK(faster({merge_timing(1e-6, 0.88e-6), merge_timing(1, 1.05)}));
  CHECK_FALSE(faster({merge_timing(1, 0.5), merge_timing(0, 0.5)}));  // not timed
}

TEST_CASE("a segment's packed weights are those it has alone on every ISA, whether they can be copied or not") {
  struct Weights {
    Scheme scheme;
    DType x, stored;
    int64_t group;
    bool may_have_zero;
  };
  constexpr Weights kWeights[] = {
      {Scheme::w8, DType::f32, DType::i8, 0, true},    {Scheme::w8, DType::bf16, DType::i8, 0, true},
      {Scheme::w4, DType::bf16, DType::i8, 32, true},  {Scheme::da8w8, DType::i8, DType::i8, 0, false},
      {Scheme::da8w4, DType::i8, DType::i8, 32, true}, {Scheme::dense, DType::bf16, DType::bf16, 0, false}};
  for (const IsaInfo& isa : isa_table())
    for (const Weights& w : kWeights)
      for (const bool zero : {false, true}) {  // a zero point of one segment changes the layout of them all
        if (isa.device != Device::cpu || (zero && !w.may_have_zero)) continue;
        CAPTURE(isa.name);
        CAPTURE(scheme_name(w.scheme));
        CAPTURE(zero);
        Problem p = problem_of(w.scheme, w.x, w.stored, w.group, {40}, {72, 72, 33}, DType::f32);
        p.outputs = {{Expr::call("mul", {Expr::acc(0), Expr::acc(1)}), DType::f32, 72, {0, 1}},
                     {Expr::acc(2), DType::f32, 33, {2}}};
        p.segments[0].has_zero = zero;
        const Target target{Device::cpu, isa.isa};
        const auto tensors = random_tensors(p, 7);
        const PackedLayout layout = layout_for(p, target);
        const auto whole = pack(p, layout, tensors);
        for (const Member& member : take_apart(p, Fusion::siblings)) {
          const PackedLayout own = layout_for(member.problem, target);
          const auto alone = pack(member.problem, own, {tensors[member.segments[0]]});
          std::vector<std::byte> out(alone.size(), std::byte{0x5a});
          REQUIRE(pack_segment(member.problem, own, tensors[member.segments[0]], p, layout, whole,
                               static_cast<int>(member.segments[0]), out)
                      .ok());
          CHECK(out == alone);
        }
      }
}

TEST_CASE("both ways run and are timed on real kernels") {
  const Target target{Device::cpu, best_host_isa()};
  Problem p = problem_of(Scheme::w8, DType::f32, DType::i8, 0, {256}, {512, 512}, DType::f32, true);
  const auto tensors = random_tensors(p, 5);
  const Bucket bucket{2, 4, 4};
  Batch batch;
  const Candidate winner = cpu_candidates(p, target, 2, 4)[0];
  REQUIRE(add_gemm(batch, 0, p, target, bucket, {winner}).ok());
  const auto members = take_apart(p, Fusion::siblings);
  for (const Member& member : members) {
    const Candidate c = member_candidate(member.problem, target, bucket, winner);
    CHECK(schedule_of(c).microkernel == schedule_of(winner).microkernel);
    CHECK(schedule_of(c).mr == schedule_of(winner).mr);
    REQUIRE(add_gemm(batch, 0, member.problem, target, bucket, {c}).ok());
  }
  const auto built = build_kernels(batch.sources);
  // One copy: the merged weights, then each member's out of them.
  std::vector<std::byte> copy = pack(p, schedule_of(winner).layout, tensors);
  const std::vector<std::byte> whole = copy;
  std::vector<TrialLaunch> launches;
  for (size_t i = 0; i < members.size(); ++i) {
    const Problem& member = members[i].problem;
    const PackedLayout layout = layout_for(member, target);
    const auto bytes = static_cast<size_t>(packed_bytes(member, layout)), at = (copy.size() + 63) / 64 * 64;
    copy.resize(at + bytes);
    const std::span<std::byte> out(copy.data() + at, bytes);
    const int segment = static_cast<int>(members[i].segments[0]);
    REQUIRE(pack_segment(member, layout, tensors[members[i].segments[0]], p, schedule_of(winner).layout, whole, segment,
                         out)
                .ok());
    const auto alone = pack(member, layout, {tensors[members[i].segments[0]]});
    CHECK(std::equal(alone.begin(), alone.end(), out.begin(), out.end()));
    launches.push_back({&member, &built[i + 1], static_cast<int64_t>(at)});
  }
  ColdWeights cold;
  const auto timed =
      time_merge({&p, &built[0], 0}, {launches, nullptr, {}}, cold.copies(copy, 1 << 20), 3, quick_options());
  REQUIRE_MESSAGE(timed.ok(), timed.error().to_string());
  CHECK(timed->merged.median_s > 0);
  CHECK(timed->separate.median_s > 0);
  CHECK(timed->merged.samples == timed->separate.samples);
}

TEST_CASE("a concatenation that is not read in place has one K segment and all weights") {
  const Problem p = problem_of(Scheme::w8, DType::bf16, DType::i8, 0, {64, 32}, {48, 16}, DType::bf16);
  const auto members = take_apart(p, Fusion::cat);
  REQUIRE(members.size() == 1);
  CHECK(members[0].problem.k_segments == std::vector<int64_t>{96});
  CHECK(members[0].problem.k == 96);
  CHECK(members[0].segments == std::vector<size_t>{0, 1});
  CHECK(members[0].problem.outputs == p.outputs);
  const Target target{Device::cpu, best_host_isa()};
  const auto tensors = random_tensors(p, 3);
  CHECK(pack(p, layout_for(p, target), tensors) ==
        pack(members[0].problem, layout_for(members[0].problem, target), tensors));
}

TEST_CASE("a concatenation is copied and multiplied as a whole against reading it in place") {
  const Target target{Device::cpu, best_host_isa()};
  const Problem p = problem_of(Scheme::dense, DType::f32, DType::f32, 0, {96, 160}, {256}, DType::f32);
  const auto tensors = random_tensors(p, 5);
  const Bucket bucket{2, 4, 4};
  Batch batch;
  const Candidate winner = cpu_candidates(p, target, 2, 4)[0];
  REQUIRE(add_gemm(batch, 0, p, target, bucket, {winner}).ok());
  const auto members = take_apart(p, Fusion::cat);
  REQUIRE(add_gemm(batch, 0, members[0].problem, target, bucket,
                   {member_candidate(members[0].problem, target, bucket, winner)})
              .ok());
  const auto copy = add_other(batch, {kLoopFamily, copy_problem(DType::f32)}, target);
  REQUIRE((copy.ok() && *copy == 2));
  const auto built = build_kernels(batch.sources);
  const auto packed = pack(p, schedule_of(winner).layout, tensors);
  ColdWeights cold;
  for (const std::vector<size_t>& copied : {std::vector<size_t>{0, 1}, {}}) {
    const ApartLaunch apart{{{&members[0].problem, &built[1], 0}}, &built[2], copied};
    const auto timed = time_merge({&p, &built[0], 0}, apart, cold.copies(packed, 1 << 20), 3, quick_options());
    REQUIRE_MESSAGE(timed.ok(), timed.error().to_string());
    CHECK(timed->merged.median_s > 0);
    CHECK(timed->separate.median_s > 0);
  }
}

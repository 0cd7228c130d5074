#include "codegen/merge_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/cancel.h"
#include "codegen/gemm/pack.h"
#include "codegen/tune/merge_trial.h"

namespace qcg {

namespace {

constexpr int64_t kDecidingMs[] = {1, 16};
constexpr int64_t kPage = 4096;

bool decides(const Bucket& bucket, TuneMode mode) {
  return mode == TuneMode::full || std::any_of(std::begin(kDecidingMs), std::end(kDecidingMs),
                                               [&](int64_t m) { return m >= bucket.m_min && m <= bucket.m_max; });
}

// One fused problem with its members' kernels, per bucket that decides.
struct Contest {
  Fusion fusion = Fusion::siblings;
  const Problem* merged = nullptr;
  const PlanConstant* constant = nullptr;
  std::span<const std::byte> packed;
  std::vector<Member> members;
  std::vector<const Choice*> choices;
  std::vector<size_t> builds;  // [choice][member]: into the batch of members
  std::vector<size_t> copied;  // cat: sources that are copied, and with what
  size_t copy_build = 0;
  std::vector<int64_t> weights_at, packed_bytes;  // [member]: within a copy of everything that a trial reads
};

class MergeJudge {
 public:
  MergeJudge(const Plan& plan, const Batch& batch, const ProgramWriter& writer, const Pins& pins,
             const TuneOptions& options)
      : plan_(plan), batch_(batch), writer_(writer), pins_(pins), options_(options) {}

  Result<MergeChoice> run(KernelBuilder& builder) {
    for (size_t p = 0; p < plan_.problems.size(); ++p) {
      const auto* gemm = plan_.problems[p].get_if<Problem>();
      if (gemm && gemm->segments.size() > 1) QCG_CHECK(add_contest(static_cast<int>(p), *gemm, Fusion::siblings));
      if (gemm && gemm->k_segments.size() > 1 && !gemm->windowed)
        QCG_CHECK(add_contest(static_cast<int>(p), *gemm, Fusion::cat));
    }
    QCG_TRY(built, builder.build(members_.sources));
    members_.kernels = std::move(built);
    for (const Contest& contest : contests_) QCG_CHECK(hold(contest));
    return std::move(out_);
  }

 private:
  Status add_contest(int problem, const Problem& merged, Fusion fusion) {
    Contest contest;
    contest.fusion = fusion;
    contest.merged = &merged;
    contest.members = take_apart(merged, fusion);
    for (const Choice& choice : batch_.choices)
      if (choice.problem == problem && choice.won.median_s > 0 && !is_extern(choice.won) &&
          decides(choice.bucket, options_.mode))
        contest.choices.push_back(&choice);
    for (size_t c = 0; c < plan_.constants.size() && !contest.constant; ++c)
      if (plan_.constants[c].problem == problem)
        contest.constant = &plan_.constants[c], contest.packed = writer_.packed(plan_, c);
    if (contest.choices.empty() || !contest.constant) return {};
    int64_t end = std::ssize(contest.packed);
    for (const Member& member : contest.members) {
      contest.weights_at.push_back((end + kPage - 1) / kPage * kPage);
      contest.packed_bytes.push_back(packed_bytes(member.problem, layout_for(member.problem, plan_.target)));
      end = contest.weights_at.back() + contest.packed_bytes.back();
    }
    for (const Choice* choice : contest.choices)
      for (const Member& member : contest.members) {
        const Candidate& winner = choice->candidates[static_cast<size_t>(choice->winner)];
        QCG_CHECK(add_gemm(members_, 0, member.problem, plan_.target, choice->bucket,
                           {member_candidate(member.problem, plan_.target, choice->bucket, winner)}));
        contest.builds.push_back(members_.choices.back().builds[0]);
      }
    if (fusion == Fusion::cat) {
      contest.copied = sources_to_copy(problem, merged);
      QCG_TRY(copy, add_other(members_, {kLoopFamily, copy_problem(merged.activation)}, plan_.target));
      contest.copy_build = copy;
    }
    contests_.push_back(std::move(contest));
    return {};
  }

  // The planner lets temporaries be born inside a concatenation; what belongs to the caller or is constant has to be
  // copied.
  std::vector<size_t> sources_to_copy(int problem, const Problem& merged) const {
    std::vector<size_t> out;
    const auto step =
        std::find_if(plan_.steps.begin(), plan_.steps.end(), [&](const PlanStep& s) { return s.problem == problem; });
    for (size_t i = 0; i < merged.k_segments.size(); ++i)
      if (plan_.buffers[static_cast<size_t>(step->args[i].buffer)].kind != BufferKind::temp) out.push_back(i);
    return out;
  }

  Status hold(const Contest& contest) {
    MergeReport report{contest.merged->label(), contest.fusion, true, {}};
    std::vector<MergeTiming> timings;
    const ColdWeights::Copies* copies = nullptr;  // made for the first choice that no pinned log decides
    for (size_t c = 0; c < contest.choices.size(); ++c) {
      const Choice& choice = *contest.choices[c];
      auto timing = time_choice(contest, c, copies);
      if (!timing.ok()) timing = time_choice(contest, c, copies);  // what a process ran short of may be there again
      if (!timing.ok() && is_cancelled(options_.cancel)) return timing.error();
      add_record(contest.fusion, choice, timing);
      if (!timing.ok()) {  // the merge stays where it cannot be judged
        out_.warnings.push_back(
            fmt::format("{} could not be timed apart at m={}: {}", report.step, choice.won.m, timing.error().message));
        continue;
      }
      timings.push_back(*timing);
      report.timings.push_back({choice.won.m, timing->merged.median_s, timing->separate.median_s,
                                is_disturbed(timing->merged) || is_disturbed(timing->separate)});
    }
    out_.close += is_close_merge(timings);
    if (separate_is_faster(timings)) {
      report.kept = false;
      std::set<std::string>& keep = contest.fusion == Fusion::cat ? out_.keep_cats : out_.keep_apart;
      for (const PlanStep& step : plan_.steps)
        if (step.problem == contest.constant->problem) keep.insert(step.nodes.begin(), step.nodes.end());
    }
    out_.reports.push_back(std::move(report));
    return {};
  }

  // A copy holds the merged weights and then every member's.
  Result<const ColdWeights::Copies*> make_copies(const Contest& contest) const {
    const int64_t bytes = contest.weights_at.back() + contest.packed_bytes.back();
    int64_t cold_bytes = 0;
    for (const Choice* choice : contest.choices) cold_bytes = std::max(cold_bytes, cold_bytes_at(choice->won.m));
    return options_.cold_weights->filled_copies(bytes, cold_bytes, [&](std::span<std::byte> copy) -> Status {
      std::memcpy(copy.data(), contest.packed.data(), contest.packed.size());
      for (size_t i = 0; i < contest.members.size(); ++i)
        QCG_CHECK(pack_member(contest, i, member_bytes(contest, i, copy)));
      return {};
    });
  }

  Status pack_member(const Contest& contest, size_t i, std::span<std::byte> out) const {
    const auto& [problem, segments] = contest.members[i];
    if (segments.size() != 1)  // all of them, over another cut of K: the same bytes
      return std::memcpy(out.data(), contest.packed.data(), out.size()), Status();
    return pack_segment(problem, layout_for(problem, plan_.target), contest.constant->segments[segments[0]],
                        *contest.merged, layout_for(*contest.merged, plan_.target), contest.packed,
                        static_cast<int>(segments[0]), out);
  }

  template <class Byte>
  static std::span<Byte> member_bytes(const Contest& contest, size_t i, std::span<Byte> copy) {
    return copy.subspan(static_cast<size_t>(contest.weights_at[i]), static_cast<size_t>(contest.packed_bytes[i]));
  }

  Result<MergeTiming> time_choice(const Contest& contest, size_t c, const ColdWeights::Copies*& copies) const {
    const Choice& choice = *contest.choices[c];
    if (auto pinned = pins_.find_merge(contest.merged->signature(), choice.bucket, contest.fusion)) return *pinned;
    if (!copies) {
      QCG_TRY(made, make_copies(contest));
      copies = made;
    }
    ApartLaunch apart{{}, nullptr, contest.copied};
    if (!contest.copied.empty()) apart.copy = &members_.kernels[contest.copy_build];
    for (size_t i = 0; i < contest.members.size(); ++i) {
      const auto& [problem, segments] = contest.members[i];
      const BuiltKernel& kernel = members_.kernels[contest.builds[c * contest.members.size() + i]];
      std::vector<SegmentTensors> tensors;
      for (size_t segment : segments) tensors.push_back(contest.constant->segments[segment]);
      QCG_CHECK(verify(problem, tensors, choice, kernel, member_bytes(contest, i, copies->front())));
      apart.members.push_back({&problem, &kernel, contest.weights_at[i]});
    }
    const BuiltKernel& winner = batch_.kernels[choice.builds[static_cast<size_t>(choice.winner)]];
    return time_merge({contest.merged, &winner, 0}, apart, *copies, choice.won.m, options_);
  }

  Status verify(const Problem& member, const std::vector<SegmentTensors>& tensors, const Choice& choice,
                const BuiltKernel& kernel, std::span<const std::byte> packed) const {
    TuneOptions verify_only = options_;
    verify_only.mode = TuneMode::off;
    const Candidate candidate =
        member_candidate(member, plan_.target, choice.bucket, choice.candidates[static_cast<size_t>(choice.winner)]);
    QCG_TRY(verdict, tune(member, tensors, packed, choice.bucket, {candidate}, {kernel}, verify_only));
    if (verdict.winner < 0)
      return Error::internal(member.label(), "a member's kernel is wrong: " + verdict.records[0].reason);
    return {};
  }

  void add_record(Fusion fusion, const Choice& choice, const Result<MergeTiming>& timing) {
    TuneRecord r = choice.won;
    r.status = TrialStatus::separate;
    r.candidate = fusion_info(fusion).apart_way;
    r.key.clear();
    r.cache_hit = false;
    r.compile_s = r.max_error = r.error_bound = r.median_s = r.p10_s = r.p90_s = r.gbps = r.gflops = r.share = 0;
    r.samples = r.disturbed = 0;
    if (!timing.ok()) {
      r.reason = timing.error().message;
      out_.records.push_back(std::move(r));
      return;
    }
    const Timing &merged = timing->merged, &separate = timing->separate;
    const double ratio = separate.median_s / merged.median_s;
    r.median_s = separate.median_s, r.p10_s = separate.p10_s, r.p90_s = separate.p90_s, r.samples = separate.samples;
    r.disturbed = separate.disturbed, r.merged_disturbed = merged.disturbed;
    r.merged_s = merged.median_s, r.merged_p10_s = merged.p10_s, r.merged_p90_s = merged.p90_s;
    r.gbps = choice.won.gbps * choice.won.median_s / r.median_s;
    r.gflops = choice.won.gflops * choice.won.median_s / r.median_s;
    r.reason = ratio >= 1 ? fmt::format("{:.3f} times slower than {}", ratio, fusion_info(fusion).fused)
                          : fmt::format("{:.3f} times faster than {}", 1 / ratio, fusion_info(fusion).fused);
    out_.records.push_back(std::move(r));
  }

  const Plan& plan_;
  const Batch& batch_;
  const ProgramWriter& writer_;
  const Pins& pins_;
  const TuneOptions& options_;
  Batch members_;
  std::vector<Contest> contests_;
  MergeChoice out_;
};

}  // namespace

Result<MergeChoice> choose_merges(const Plan& plan, const Batch& batch, const ProgramWriter& writer,
                                  KernelBuilder& builder, const Pins& pins, const TuneOptions& options) {
  return MergeJudge(plan, batch, writer, pins, options).run(builder);
}

std::vector<MergeReport> logged_merges(const std::vector<TuneRecord>& records, const Plan& plan) {
  std::map<std::string, std::string> labels;  // by signature
  for (const KernelProblem& problem : plan.problems)
    if (const auto* gemm = problem.get_if<Problem>()) labels[gemm->signature()] = gemm->label();
  std::vector<MergeReport> out;
  std::map<std::pair<std::string, Fusion>, size_t> known;
  for (const TuneRecord& r : records) {
    if (r.status != TrialStatus::separate || r.merged_s <= 0) continue;
    const Fusion fusion = r.candidate == fusion_info(Fusion::cat).apart_way ? Fusion::cat : Fusion::siblings;
    const auto [at, is_new] = known.try_emplace({r.problem, fusion}, out.size());
    if (is_new) {
      const auto label = labels.find(r.problem);
      const bool kept = label != labels.end();
      out.push_back({kept ? label->second : r.step, fusion, kept, {}});
    }
    out[at->second].timings.push_back({r.m, r.merged_s, r.median_s, is_disturbed(r)});
  }
  return out;
}

}  // namespace qcg

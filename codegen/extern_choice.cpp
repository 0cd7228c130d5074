#include "codegen/extern_choice.h"

namespace qcg {

Status ExternChoices::join(const Plan& plan, Batch& batch, Choice& choice, bool alone) {
  const Problem& problem = plan.problems[static_cast<size_t>(choice.problem)].get<Problem>();
  if (!offers_.contains(choice.problem)) {
    ExternOffer& offer = offers_[choice.problem] = find_extern_kernel(problem, choice.bucket.m_probe);
    if (offer.library_missing) missing_ = offer.why_not;
  }
  const ExternKernel* kernel = find(choice.problem);
  if (!kernel) return {};
  if (written_ != choice.problem) {
    size_t constant = 0;
    while (plan.constants[constant].problem != choice.problem) ++constant;
    QCG_CHECK(weights_.reserve(kernel->weights_bytes()));
    const std::span<std::byte> out(weights_.data(), static_cast<size_t>(kernel->weights_bytes()));
    kernel->write_weights(problem, plan.constants[constant].segments, threads_, out);
    written_ = choice.problem;
    builds_[choice.problem] = batch.kernels.size();
    batch.kernels.push_back(kernel->built(out, plan.target.isa));
    batch.sources.push_back(batch.kernels.back().source);
  }
  if (alone) choice.candidates.clear(), choice.builds.clear();
  choice.candidates.emplace_back();
  choice.builds.push_back(builds_.at(choice.problem));
  return {};
}

const ExternKernel* ExternChoices::find(int problem) const {
  const auto offer = offers_.find(problem);
  return offer != offers_.end() && offer->second.kernel ? &*offer->second.kernel : nullptr;
}

const std::string& ExternChoices::why_not(int problem) const {
  static const std::string none;
  const auto offer = offers_.find(problem);
  return offer == offers_.end() ? none : offer->second.why_not;
}

void ExternChoices::forget() {
  offers_.clear();
  builds_.clear();
  written_ = -1;
}

}  // namespace qcg

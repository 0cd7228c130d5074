#include "codegen/tune/pins.h"

#include <algorithm>

namespace qcg {

Result<Pins> Pins::read(const std::string& path, const std::string& target) {
  Pins pins;
  if (path.empty()) return pins;
  QCG_TRY(records, read_tune_log(path));
  const bool has_winner =
      std::ranges::any_of(records, [](const TuneRecord& r) { return r.status == TrialStatus::won; });
  std::erase_if(records, [&](const TuneRecord& record) { return !record.is_of(target); });
  for (TuneRecord& record : records)
    if (record.status == TrialStatus::won) pins.won_[record.problem].push_back(record);
    else if (record.status == TrialStatus::separate) pins.separate_.push_back(std::move(record));
  if (pins.won_.empty() && has_winner) return pins;  // of other targets
  if (pins.won_.empty())
    return Error::bad_input(path, "this log has no winner to pin",
                            "name the log of a compile with --tune=fast or --tune=full");
  pins.log_ = path;
  return pins;
}

const TuneRecord* Pins::find(const std::string& signature, const Bucket& bucket) const {
  if (const auto records = won_.find(signature); records != won_.end())
    for (const TuneRecord& record : records->second)
      if (record.m_min == bucket.m_min && record.m_max == bucket.m_max) return &record;
  return nullptr;
}

std::optional<MergeTiming> Pins::find_merge(const std::string& signature, const Bucket& bucket, Fusion fusion) const {
  for (const TuneRecord& r : separate_)
    if (r.problem == signature && r.m_min == bucket.m_min && r.m_max == bucket.m_max && r.merged_s > 0 &&
        r.candidate == fusion_info(fusion).apart_way)
      return MergeTiming{merged_timing_of(r), timing_of(r)};
  return {};
}

}  // namespace qcg

// Compares the winners of two tune logs of the same graph.
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "cli/log.h"
#include "cli/report.h"

namespace qcg {

namespace {

using Place = std::tuple<std::string, std::vector<std::string>, int64_t>;  // family, nodes, m

std::map<Place, const TuneRecord*> winners_by_place(const std::vector<TuneRecord>& records) {
  std::map<Place, const TuneRecord*> out;
  for (const TuneRecord& r : records)
    if (r.status == TrialStatus::won && r.median_s > 0) out[{r.family, r.nodes, r.m}] = &r;
  return out;
}

}  // namespace

LogComparison compare_logs(const std::vector<TuneRecord>& a, const std::vector<TuneRecord>& b) {
  LogComparison out;
  const auto in_a = winners_by_place(a), in_b = winners_by_place(b);
  for (const auto& [place, record] : in_a) {
    const auto other = in_b.find(place);
    if (other == in_b.end()) ++out.only_a;
    else out.pairs.push_back({*record, *other->second});
  }
  out.only_b = static_cast<int>(in_b.size() - out.pairs.size());
  return out;
}

std::string describe_comparison(const LogComparison& comparison) {
  Table table({"kernel", "scheme", "m", "first", "second", "the second is"});
  MarkNotes marks;
  for (const auto& [a, b] : comparison.pairs) {
    const std::string scheme = kind_of(a) == kind_of(b) ? kind_of(a) : kind_of(a) + " / " + kind_of(b);
    table.add({a.step, scheme, fmt::format("{}", a.m), format_time(a), format_time(b), format_ratio(b, a)});
    marks.see(a), marks.see(b);
  }
  std::string out = table.str() + marks.str();
  if (comparison.only_a > 0) out += fmt::format("{} only in the first log\n", count_of(comparison.only_a, "kernel"));
  if (comparison.only_b > 0) out += fmt::format("{} only in the second log\n", count_of(comparison.only_b, "kernel"));
  const TuneRecord &a = comparison.pairs[0].a, &b = comparison.pairs[0].b;
  if (a.machine != b.machine)
    out += printable(fmt::format("different machines: {} and {}", a.machine, b.machine)) + "\n";
  return out;
}

nlohmann::json comparison_json(const LogComparison& comparison) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [a, b] : comparison.pairs)
    rows.push_back({{"step", a.step},
                    {"nodes", a.nodes},
                    {"m", a.m},
                    {"first", {{"kernel", a.kernel}, {"scheme", a.scheme}, {"median_us", a.median_s * 1e6}}},
                    {"second", {{"kernel", b.kernel}, {"scheme", b.scheme}, {"median_us", b.median_s * 1e6}}},
                    {"ratio", ratio_of(b, a)},
                    {"disturbed", is_disturbed(a) || is_disturbed(b)}});
  return {{"rows", rows}, {"only_first", comparison.only_a}, {"only_second", comparison.only_b}};
}

}  // namespace qcg

// tune.jsonl: one TuneRecord per line, out and in.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "codegen/tune.h"

namespace qcg {

using nlohmann::json;

namespace {

constexpr std::string_view kStatusNames[] = {"won",     "lost",      "wrong",   "failed to build", "too slow",
                                             "crashed", "reference", "untimed"};
constexpr size_t kMaxLine = 1u << 20, kMaxRecords = 1u << 20;

TrialStatus status_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kStatusNames); ++i)
    if (kStatusNames[i] == name) return static_cast<TrialStatus>(i);
  return TrialStatus::untimed;
}

// Calls f(field name, member) for every field of a record: one list for writing and reading.
template <class Record, class F>
void for_each_field(Record& r, F&& f) {
  f("kernel", r.kernel), f("problem", r.problem), f("nodes", r.nodes), f("target", r.target), f("candidate", r.candidate);
  f("scheme", r.scheme), f("epilogue", r.epilogue), f("m", r.m), f("m_min", r.m_min), f("m_max", r.m_max), f("n", r.n);
  f("k", r.k), f("group", r.group), f("segments", r.segments), f("threads", r.threads), f("median_s", r.median_s);
  f("p10_s", r.p10_s), f("p90_s", r.p90_s), f("samples", r.samples), f("gbps", r.gbps), f("gflops", r.gflops);
  f("share", r.share), f("compile_s", r.compile_s), f("max_error", r.max_error), f("error_bound", r.error_bound);
  f("reason", r.reason), f("cache_hit", r.cache_hit), f("key", r.key), f("machine", r.machine), f("date", r.date);
}

}  // namespace

std::string_view trial_status_name(TrialStatus status) { return kStatusNames[static_cast<size_t>(status)]; }

std::string to_json_line(const TuneRecord& record) {
  json out;
  for_each_field(record, [&](const char* name, const auto& value) { out[name] = value; });
  out["status"] = trial_status_name(record.status);
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::vector<TuneRecord>> read_tune_log(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error::io(path, "this tune log cannot be read", "name a program directory or its tune.jsonl");
  std::vector<TuneRecord> records;
  std::string line;
  for (size_t number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    if (line.size() > kMaxLine || records.size() >= kMaxRecords)
      return Error::bad_input(where, "too long for a tune log", "this file was not written by qcodegen");
    const json parsed = json::parse(line, nullptr, false);
    if (!parsed.is_object() || !parsed.contains("kernel") || !parsed.contains("status"))
      return Error::bad_input(where, "not a tune record", "every line is a JSON object as `compile` writes it");
    TuneRecord record;
    try {
      for_each_field(record, [&](const char* name, auto& value) {
        if (parsed.contains(name)) parsed.at(name).get_to(value);
      });
      record.status = status_from_name(parsed.at("status").get<std::string>());
    } catch (const json::exception&) {
      return Error::bad_input(where, "a field has the wrong type", "every line is a JSON object as `compile` writes it");
    }
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace qcg

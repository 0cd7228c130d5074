// tune.jsonl: one TuneRecord per line, out and in.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "codegen/tune/tune.h"

namespace qcg {

using nlohmann::json;

namespace {

constexpr std::string_view kStatusNames[] = {"won",     "lost",      "wrong",   "failed to build", "too slow",
                                             "crashed", "reference", "untimed", "separate"};
constexpr int kVersion = 1;  // of a line; one without a version is of version 1
constexpr size_t kMaxLine = 1u << 20, kMaxRecords = 1u << 20;

std::optional<TrialStatus> status_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kStatusNames); ++i)
    if (kStatusNames[i] == name) return static_cast<TrialStatus>(i);
  return std::nullopt;
}

// False: the member is of another type or out of range. Null is a number that JSON cannot say, and stays 0.
bool read_field(const json& value, std::string& out) {
  return value.is_string() && (out = value.get<std::string>(), true);
}
bool read_field(const json& value, bool& out) { return value.is_boolean() && (out = value.get<bool>(), true); }
bool read_field(const json& value, double& out) {
  return value.is_null() || (value.is_number() && (out = value.get<double>(), true));
}
bool read_field(const json& value, std::vector<std::string>& out) {
  if (!value.is_array()) return false;
  for (const json& item : value)
    if (!read_field(item, out.emplace_back())) return false;
  return true;
}
template <class Integer>
requires std::is_integral_v<Integer>
bool read_field(const json& value, Integer& out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<Integer>::max()))
    return false;
  if (value.get<int64_t>() < std::numeric_limits<Integer>::min()) return false;
  out = value.get<Integer>();
  return true;
}

// Calls f(field name, member) for every field of a record: one list for writing and reading.
template <class Record, class F>
void for_each_field(Record& r, F&& f) {
  f("family", r.family), f("kernel", r.kernel), f("problem", r.problem), f("step", r.step), f("nodes", r.nodes),
      f("target", r.target), f("candidate", r.candidate);
  f("scheme", r.scheme), f("activation", r.activation), f("weight", r.weight), f("epilogue", r.epilogue);
  f("m", r.m), f("m_min", r.m_min), f("m_max", r.m_max), f("n", r.n);
  f("k", r.k), f("group", r.group), f("segments", r.segments), f("threads", r.threads), f("median_s", r.median_s);
  f("p10_s", r.p10_s), f("p90_s", r.p90_s), f("samples", r.samples), f("disturbed", r.disturbed);
  f("merged_s", r.merged_s), f("merged_p10_s", r.merged_p10_s), f("merged_p90_s", r.merged_p90_s),
      f("merged_disturbed", r.merged_disturbed);
  f("gbps", r.gbps), f("gflops", r.gflops);
  f("share", r.share), f("compile_s", r.compile_s), f("max_error", r.max_error), f("error_bound", r.error_bound);
  f("reason", r.reason), f("resources", r.resources), f("cache_hit", r.cache_hit), f("key", r.key),
      f("machine", r.machine), f("date", r.date), f("compiled_for", r.compiled_for);
}

}  // namespace

std::string_view trial_status_name(TrialStatus status) { return kStatusNames[static_cast<size_t>(status)]; }

std::string to_json_line(const TuneRecord& record) {
  json out;
  for_each_field(record, [&](const char* name, const auto& value) { out[name] = value; });
  if (record.compiled_for.empty()) out.erase("compiled_for");
  if (record.status != TrialStatus::separate)
    for (const char* name : {"merged_p10_s", "merged_p90_s", "merged_disturbed"}) out.erase(name);
  out["status"] = trial_status_name(record.status);
  out["version"] = kVersion;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<TuneRecord> from_json_line(std::string_view line, const std::string& where) {
  const char* help = "every line must be a JSON object as written by `compile`";
  const json parsed = json::parse(line, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("kernel") || !parsed.contains("status") || !parsed["status"].is_string())
    return Error::bad_input(where, "not a tune record", help);
  TuneRecord record;
  const char* wrong = nullptr;
  for_each_field(record, [&](const char* name, auto& value) {
    if (parsed.contains(name) && !read_field(parsed[name], value) && !wrong) wrong = name;
  });
  if (const auto version = parsed.find("version"); version != parsed.end() && *version != kVersion)
    return Error::bad_input(where, "a tune record of another version of qcodegen", "compile the program again");
  const auto status = status_from_name(parsed["status"].get<std::string>());
  if (!status) wrong = "status";
  if (wrong)
    return Error::bad_input(where, fmt::format("the field \"{}\" of this tune record has a wrong value", wrong), help);
  record.status = *status;
  if (!parsed.contains("merged_p10_s"))  // logs written before it was there
    record.merged_p10_s = record.merged_p90_s = record.merged_s, record.merged_disturbed = record.disturbed;
  return record;
}

std::string tune_log_of(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_directory(path, failed) ? path + "/tune.jsonl" : path;
}

Result<std::vector<TuneRecord>> read_tune_log(const std::string& path) {
  std::error_code ec;
  std::ifstream in;
  if (std::filesystem::is_regular_file(path, ec)) in.open(path, std::ios::binary);
  if (!in.is_open()) return Error::io(path, "cannot read this tune log", "name a program directory or its tune.jsonl");
  std::vector<TuneRecord> records;
  std::string line(kMaxLine, '\0');
  for (size_t number = 1; in.getline(line.data(), kMaxLine), in.gcount() > 0 || in.good(); ++number) {
    const std::string where = fmt::format("{}:{}", path, number);
    if ((in.fail() && !in.eof()) || records.size() >= kMaxRecords)
      return Error::bad_input(where, "too long for a tune log", "this file was not written by qcodegen");
    // What getline counts includes the newline it took off.
    const std::string_view text(line.data(), static_cast<size_t>(in.gcount()) - (in.eof() ? 0 : 1));
    if (text.empty()) continue;
    QCG_TRY(record, from_json_line(text, where));
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace qcg

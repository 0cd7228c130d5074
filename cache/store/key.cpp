#include "cache/store/key.h"

#include <algorithm>
#include <map>

namespace qcg {

namespace {

constexpr size_t kLongValue = 160;

std::string with_length(std::string_view text) { return std::to_string(text.size()) + ":" + std::string(text); }

bool prints_on_one_line(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
}

std::string shown(std::string_view value) {
  if (value.size() <= kLongValue && prints_on_one_line(value)) return std::string(value);
  return "sha256 " + sha256_hex(value) + ", " + std::to_string(value.size()) + " bytes";
}

// Whether a value is a digest. Explanations do not print digests.
bool is_digest(std::string_view value) {
  return value.starts_with("sha256 ") || value.starts_with("file sha256 ") || is_sha256_hex(value);
}

struct DumpLine {
  std::string name;
  std::string value;
};

std::vector<DumpLine> parse_dump(std::string_view dump) {
  std::vector<DumpLine> lines;
  std::map<std::string, int> seen;
  while (!dump.empty()) {
    size_t end = dump.find('\n');
    std::string_view line = dump.substr(0, end);
    dump.remove_prefix(end == std::string_view::npos ? dump.size() : end + 1);
    size_t equals = line.find(" = ");
    if (equals == std::string_view::npos) continue;
    std::string name(line.substr(0, equals));
    if (int n = ++seen[name]; n > 1) name += "#" + std::to_string(n);
    lines.push_back({std::move(name), std::string(line.substr(equals + 3))});
  }
  return lines;
}

}  // namespace

void KeyBuilder::hash(char tag, std::string_view name, std::string_view value) {
  hashed_ += tag;
  hashed_ += with_length(name);
  hashed_ += with_length(value);
}

KeyBuilder& KeyBuilder::add(std::string_view name, std::string_view bytes) {
  hash('v', name, sha256_hex(bytes));
  dump_ += shown(name) + " = " + shown(bytes) + "\n";
  return *this;
}

KeyBuilder& KeyBuilder::add_list(std::string_view name, std::span<const std::string> items) {
  std::string joined;
  for (const auto& item : items) joined += with_length(item);
  hash('l', name, sha256_hex(joined));
  dump_ += shown(name) + " = list of " + std::to_string(items.size()) + "\n";
  for (size_t i = 0; i < items.size(); ++i)
    dump_ += shown(name) + "[" + std::to_string(i) + "] = " + shown(items[i]) + "\n";
  return *this;
}

Status KeyBuilder::add_file(std::string_view name, const std::string& path) {
  auto digest = sha256_file(path);
  if (!digest.ok()) return digest.error();
  hash('f', name, digest.value());
  dump_ += shown(name) + " = file sha256 " + digest.value() + "\n";
  return {};
}

Key KeyBuilder::finish() const { return {sha256_hex(hashed_)}; }

std::vector<std::string> explain_difference(std::string_view now, std::string_view before) {
  std::vector<DumpLine> now_lines = parse_dump(now);
  std::map<std::string, std::string> before_values;
  for (auto& line : parse_dump(before)) before_values[line.name] = line.value;

  std::vector<std::string> out;
  for (const auto& line : now_lines) {
    auto found = before_values.find(line.name);
    if (found == before_values.end()) {
      out.push_back(line.name + ": " + line.value + " is new");
      continue;
    }
    if (found->second != line.value)
      out.push_back(is_digest(line.value) ? line.name + " is not the same"
                                          : line.name + ": " + line.value + " was " + found->second);
    before_values.erase(found);
  }
  for (const auto& [name, value] : before_values) out.push_back(name + ": " + value + " is gone");
  return out;
}

}  // namespace qcg

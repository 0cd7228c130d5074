#include "cache/store/manifest.h"

#include <algorithm>
#include <charconv>

namespace qcg {

namespace {

constexpr std::string_view kFirstLine = "qcg-entry 1\n";

std::string octal(uint32_t mode) {
  char buffer[16];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, mode & 0777, 8).ptr;
  return std::string(buffer, end);
}

// Removes the text before `delimiter` from the front of `rest` and returns it.
std::optional<std::string_view> take_until(std::string_view& rest, char delimiter) {
  size_t end = rest.find(delimiter);
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return word;
}

template <class T>
bool parse_number(std::string_view text, T& out, int base) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::optional<FileRecord> parse_file_line(std::string_view line) {
  FileRecord file;
  auto mode = take_until(line, ' ');
  auto size = mode ? take_until(line, ' ') : std::nullopt;
  auto hash = size ? take_until(line, ' ') : std::nullopt;
  if (!hash || !parse_number(*mode, file.mode, 8) || !parse_number(*size, file.size, 10) || !is_sha256_hex(*hash))
    return std::nullopt;
  if (line != kKeyDumpName && !is_entry_file_name(line)) return std::nullopt;
  file.sha256 = *hash;
  file.name = line;
  return file;
}

}  // namespace

std::string print_manifest(const Manifest& manifest) {
  std::string text(kFirstLine);
  text += "key " + manifest.key.hex + "\n";
  for (const auto& f : manifest.files)
    text += "file " + octal(f.mode) + " " + std::to_string(f.size) + " " + f.sha256 + " " + f.name + "\n";
  return text + "end " + sha256_hex(text) + "\n";
}

std::optional<Manifest> parse_manifest(std::string_view text) {
  Manifest manifest;
  std::string_view rest = text;
  if (!rest.starts_with(kFirstLine)) return std::nullopt;
  rest.remove_prefix(kFirstLine.size());
  auto key_line = take_until(rest, '\n');
  if (!key_line || !key_line->starts_with("key ") || !is_sha256_hex(key_line->substr(4))) return std::nullopt;
  manifest.key.hex = key_line->substr(4);
  while (rest.starts_with("file ")) {
    rest.remove_prefix(5);
    auto line = take_until(rest, '\n');
    auto file = line ? parse_file_line(*line) : std::nullopt;
    if (!file || std::any_of(manifest.files.begin(), manifest.files.end(),
                             [&](const FileRecord& f) { return f.name == file->name; }))
      return std::nullopt;
    manifest.files.push_back(std::move(*file));
  }
  // There is only one valid spelling: the parsed manifest must print as the text that was read, including its hash.
  if (print_manifest(manifest) != text) return std::nullopt;
  return manifest;
}

bool is_entry_file_name(std::string_view name) {
  if (!is_plain_path(name) || name.size() > 200 || name == kManifestName || name == kKeyDumpName) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._+@=,-/").find(c) != std::string_view::npos;
  });
}

std::string disk_name(const std::string& name) {
  std::string out = name;
  std::replace(out.begin(), out.end(), '/', '%');
  return out;
}

}  // namespace qcg

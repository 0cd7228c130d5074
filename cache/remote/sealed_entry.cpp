#include "cache/remote/sealed_entry.h"

#include <charconv>

#include "cache/remote/remote_options.h"
#include "cache/store/file_system.h"
#include "cache/store/manifest.h"
#include "cache/store/sha256.h"

namespace qcg {

namespace {

constexpr std::string_view kFirstLine = "qcg-remote 1\n";
constexpr size_t kSignatureBytes = 64;

Result<std::string> bytes_of(const EntryFile& file) {
  if (file.source_path.empty()) return file.bytes;
  QCG_TRY(fd, open_regular_file(file.source_path));
  std::string bytes;
  if (const int error = FileSystem().read_all(fd.get(), bytes, kMostRemoteBytes))
    return io_error(file.source_path, "cannot be read", error);
  return bytes;
}

Error refused(const Key& key, const std::string& why) {
  return Error::cache_corrupt("entry " + key.hex.substr(0, 12), why, "");
}

}  // namespace

Result<std::string> seal_entry(const Key& key, const std::vector<EntryFile>& files, const std::string& key_dump,
                               std::string_view secret) {
  Manifest manifest{key, {}};
  std::string bytes;
  const auto add = [&](const std::string& name, const std::string& content, uint32_t mode) {
    manifest.files.push_back({name, content.size(), sha256_hex(content), mode & 0777});
    bytes += content;
  };
  for (const EntryFile& file : files) {
    QCG_TRY(content, bytes_of(file));
    add(file.name, content, file.mode);
  }
  add(kKeyDumpName, key_dump, 0600);
  const std::string text = print_manifest(manifest);
  const std::string body = std::to_string(text.size()) + "\n" + text + bytes;
  return std::string(kFirstLine) + hmac_sha256_hex(secret, body) + "\n" + body;
}

Result<BackedEntry> open_entry(const Key& key, std::string_view value, std::string_view secret) {
  std::string_view body = value;
  const size_t head = kFirstLine.size() + kSignatureBytes + 1;
  if (!body.starts_with(kFirstLine) || body.size() < head || body[head - 1] != '\n')
    return refused(key, "is not an entry of this version");
  body.remove_prefix(head);
  if (!same_digest(value.substr(kFirstLine.size(), kSignatureBytes), hmac_sha256_hex(secret, body)))
    return refused(key, "is not signed with this team's key, or was changed");
  const size_t line = std::min(body.find('\n'), body.size());
  size_t size = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + line, size);
  if (error != std::errc() || end != body.data() + line || line == body.size() || size > body.size() - line - 1)
    return refused(key, "has no manifest");
  const auto manifest = parse_manifest(body.substr(line + 1, size));
  if (!manifest) return refused(key, "has a damaged manifest");
  if (manifest->key != key) return refused(key, "is that of another key");
  body.remove_prefix(line + 1 + size);
  BackedEntry entry;
  for (const FileRecord& record : manifest->files) {
    if (record.size > body.size()) return refused(key, "ends inside " + record.name);
    const std::string_view bytes = body.substr(0, record.size);
    if (sha256_hex(bytes) != record.sha256) return refused(key, record.name + " does not match its SHA-256");
    if (record.name == kKeyDumpName) entry.key_dump = bytes;
    else entry.files.push_back({record.name, std::string(bytes), record.mode, {}});
    body.remove_prefix(record.size);
  }
  if (!body.empty()) return refused(key, "is longer than its files");
  return entry;
}

}  // namespace qcg

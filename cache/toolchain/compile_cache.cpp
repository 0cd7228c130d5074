#include "cache/toolchain/compile_cache.h"

#include <filesystem>

namespace qcg {

namespace {

constexpr char kGuardsName[] = "guards.json";
constexpr char kFilesPrefix[] = "files/";

}  // namespace

Status CompileRecord::write_to(const std::string& directory) const {
  for (const auto& file : entry.files()) {
    if (!file.name.starts_with(kFilesPrefix)) continue;
    const std::filesystem::path path = std::filesystem::path(directory) / file.name.substr(sizeof kFilesPrefix - 1);
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) return io_error(path.parent_path().string(), "cannot be made", error.value());
    QCG_CHECK(entry.copy_verified(file.name, path.string()));
  }
  return {};
}

Result<std::string> CompileRecord::read(const std::string& name) const { return entry.read(kFilesPrefix + name); }

Result<std::optional<CompileRecord>> CompileCache::find(const Key& key) {
  QCG_TRY(entry, store_.find(key, EntryKind::program));
  if (!entry || !entry->has(kGuardsName)) return std::optional<CompileRecord>();
  QCG_TRY(guards, entry->read(kGuardsName));
  return std::optional<CompileRecord>(CompileRecord{std::move(*entry), std::move(guards)});
}

Status CompileCache::publish(const Key& key, std::span<const EntryFile> files, const std::string& guards_json,
                             const std::string& key_dump, Store::Reach reach) {
  std::vector<EntryFile> all;
  for (const auto& file : files) {
    all.push_back(file);
    all.back().name = kFilesPrefix + file.name;
  }
  all.push_back({kGuardsName, guards_json, 0600, {}});
  auto entry = store_.publish(key, all, key_dump, Store::Wins::newest, reach);
  if (!entry.ok()) return entry.error();
  return {};
}

}  // namespace qcg

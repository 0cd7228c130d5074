#include "cache/compile_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "cache/scratch.h"

namespace qcg {

namespace {

constexpr char kGuardsName[] = "guards.json";
constexpr char kFilesPrefix[] = "files/";
constexpr uint64_t kHashWholeBytes = uint64_t{256} << 20;
constexpr int kSamples = 64;
constexpr size_t kSampleBytes = 64 << 10;

Result<std::string> sample_file(const std::string& path, int fd, const struct stat& info) {
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  Sha256 hash;
  std::vector<char> buffer(kSampleBytes);
  for (int i = 0; i < kSamples; ++i) {
    const uint64_t at = (size - kSampleBytes) / (kSamples - 1) * static_cast<uint64_t>(i);
    const uint64_t offset = i == kSamples - 1 ? size - kSampleBytes : at;
    ssize_t n = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (n < 0) return io_error(path, "cannot be read", errno);
    hash.update({buffer.data(), static_cast<size_t>(n)});
  }
  return "sampled " + hash.finish() + " size " + std::to_string(size) + " device " + std::to_string(info.st_dev) +
         " inode " + std::to_string(info.st_ino) + " mtime " + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

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
  QCG_TRY(entry, store_.find(key));
  if (!entry || !entry->has(kGuardsName)) return std::optional<CompileRecord>();
  QCG_TRY(guards, entry->read(kGuardsName));
  return std::optional<CompileRecord>(CompileRecord{std::move(*entry), std::move(guards)});
}

Status CompileCache::publish(const Key& key, std::span<const EntryFile> files, const std::string& guards_json,
                             const std::string& key_dump) {
  std::vector<EntryFile> all;
  for (const auto& file : files) {
    all.push_back(file);
    all.back().name = kFilesPrefix + file.name;
  }
  all.push_back({kGuardsName, guards_json, 0600, {}});
  auto entry = store_.publish(key, all, key_dump);
  if (!entry.ok()) return entry.error();
  return {};
}

Result<std::string> weights_identity(const std::string& path) {
  OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (fd && !::fstat(fd.get(), &info) && S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) > kHashWholeBytes)
    return sample_file(path, fd.get(), info);
  QCG_TRY(hash, sha256_file(path));
  return "sha256 " + hash;
}

}  // namespace qcg

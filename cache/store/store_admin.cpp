// Store: the operations of `qcodegen cache …`, the counters and the size limit.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "cache/store/store_state.h"

namespace qcg {

namespace {

constexpr size_t kMaxKeyDumpBytes = 4 << 20;

bool is_bucket(const std::string& name) { return name.size() == 2 && is_sha256_hex(name + std::string(62, '0')); }

std::string counters_text(uint64_t hits, uint64_t misses, uint64_t corrupt) {
  char line[96];
  std::snprintf(line, sizeof line, "hits %020llu misses %020llu corrupt %020llu ",
                static_cast<unsigned long long>(hits), static_cast<unsigned long long>(misses),
                static_cast<unsigned long long>(corrupt));
  return line + sha256_hex(line).substr(0, 16) + "\n";
}

// Parses the text that counters_text writes; false for any other text.
bool parse_counters(const std::string& text, StoreStats& stats) {
  unsigned long long hits, misses, corrupt;
  if (std::sscanf(text.c_str(), "hits %llu misses %llu corrupt %llu", &hits, &misses, &corrupt) != 3) return false;
  if (text != counters_text(hits, misses, corrupt)) return false;
  stats.hits = hits;
  stats.misses = misses;
  stats.corrupt = corrupt;
  return true;
}

// Whether a file that cannot be opened or read for this reason is not what an entry has.
bool is_of_the_entry(int error) {
  return error == ENOENT || error == ESTALE || error == ELOOP || error == ENOTDIR || error == EISDIR ||
         error == EFBIG || error == ENXIO;
}

}  // namespace

void Store::State::add_counters(StoreStats& stats) {
  OwnedFd fd(fs->open_at(AT_FDCWD, root + "/counters", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string text;
  if (fd && fs->read_all(fd.get(), text, 4096) == 0) parse_counters(text, stats);
  std::lock_guard lock(mutex);
  stats.hits += new_hits;
  stats.misses += new_misses;
  stats.corrupt += new_corrupt;
}

// Adds the new counts to the file. They are lost if another process holds the lock or the disk fails, because no lookup
// should wait for statistics.
void Store::State::flush_counters() {
  if (!usable || read_only) return;
  {
    std::lock_guard lock(mutex);
    if (!new_hits && !new_misses && !new_corrupt) return;
  }
  OwnedFd fd(fs->open_at(AT_FDCWD, root + "/counters", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!fd || fs->try_lock(fd.get())) return;
  std::string text;
  StoreStats stats;
  if (fs->read_all(fd.get(), text, 4096) == 0) parse_counters(text, stats);
  std::lock_guard lock(mutex);
  text = counters_text(stats.hits + new_hits, stats.misses + new_misses, stats.corrupt + new_corrupt);
  if (::lseek(fd.get(), 0, SEEK_SET) != 0 || fs->write_all(fd.get(), text)) return;
  if (::ftruncate(fd.get(), static_cast<off_t>(text.size()))) return;
  new_hits = new_misses = new_corrupt = 0;
}

EntryInfo Store::State::describe(const Key& key) {
  EntryInfo info{key, "(damaged)", 0, 0, {}};
  const std::string path = entry_dir(key);
  struct stat dir_info;
  // Too few descriptors, or a failing disk, say nothing of the entry.
  const auto failed = [&](int error) {
    if (is_of_the_entry(error)) return info;
    info.title = "(cannot be read)";
    info.unread = true;
    return info;
  };
  if (fs->lstat(path, &dir_info)) return failed(errno);
  info.last_used = dir_info.st_mtim.tv_sec;
  OwnedFd fd(fs->open_at(AT_FDCWD, path + "/" + kManifestName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return failed(errno);
  std::string text;
  if (const int error = fs->read_all(fd.get(), text, kMaxManifestBytes)) return failed(error);
  auto manifest = parse_manifest(text);
  if (!manifest || manifest->key != key) return info;
  info.bytes = text.size();
  for (const auto& file : manifest->files) info.bytes += file.size;
  info.files = std::move(manifest->files);
  std::string dump = read_key_dump(key);
  info.title = dump.substr(0, dump.find('\n'));
  return info;
}

std::string Store::State::read_key_dump(const Key& key) {
  OwnedFd fd(
      fs->open_at(AT_FDCWD, entry_dir(key) + "/" + kKeyDumpName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string text;
  if (fd) (void)fs->read_all(fd.get(), text, kMaxKeyDumpBytes);
  return text;
}

Result<std::vector<EntryInfo>> Store::State::scan() {
  std::vector<EntryInfo> entries;
  if (!usable) return entries;
  std::vector<std::string> buckets, keys;
  if (int error = fs->list_dir(root, buckets)) {
    if (error == ENOENT) return entries;
    return io_error(root, "cannot be listed", error);
  }
  for (const auto& bucket : buckets) {
    if (!is_bucket(bucket)) continue;
    if (const Status refused = check_bucket(root + "/" + bucket); !refused.ok()) {
      warn(refused.error().to_string());
      continue;
    }
    if (int error = fs->list_dir(root + "/" + bucket, keys))
      return io_error(root + "/" + bucket, "cannot be listed", error);
    for (const auto& key : keys)
      if (is_sha256_hex(key) && key.starts_with(bucket)) entries.push_back(describe({key}));
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const EntryInfo& a, const EntryInfo& b) { return a.last_used > b.last_used; });
  return entries;
}

Result<GcResult> Store::State::gc(uint64_t max_bytes) {
  GcResult result;
  if (read_only && usable) return Error::io(options.dir, "the cache is read-only", "choose another with QCG_CACHE_DIR");
  QCG_TRY(entries, scan());
  int unread = 0;
  for (const auto& entry : entries) {  // most recently used first; older entries stay if they fit after a too large one
    unread += entry.unread;
    const bool damaged = entry.files.empty() && !entry.unread;
    if (damaged || result.kept_bytes + entry.bytes > max_bytes) {
      QCG_CHECK(remove_entry(entry.key));
      ++result.removed_entries;
      result.removed_bytes += entry.bytes;
    } else {
      ++result.kept_entries;
      result.kept_bytes += entry.bytes;
    }
  }
  if (unread > 0) warn("cache entries that could not be read, and were kept: " + std::to_string(unread));
  std::lock_guard lock(mutex);
  bytes_estimate = result.kept_bytes;
  return result;
}

// This process counts the whole cache only when its own estimate exceeds the limit. So the cache may exceed the limit
// by what other processes add meanwhile.
void Store::State::enforce_limit(uint64_t added_bytes) {
  if (!options.max_bytes) return;
  bool over;
  {
    std::lock_guard lock(mutex);
    if (bytes_estimate) *bytes_estimate += added_bytes;
    over = !bytes_estimate || *bytes_estimate > options.max_bytes;
  }
  if (!over) return;
  uint64_t total = 0;
  if (auto entries = scan(); entries.ok())
    for (const auto& entry : entries.value()) total += entry.bytes;
  if (total <= options.max_bytes) {
    std::lock_guard lock(mutex);
    bytes_estimate = total;
  } else if (auto done = gc(options.max_bytes / 10 * 9); !done.ok()) {  // 10 % free: not every publish calls gc
    warn(done.error().to_string());
  }
}

// Reads the titles of all entries once per store, because a walk over the whole cache for each miss would be slow.
std::vector<Key> Store::State::keys_titled(const std::string& title) {
  std::lock_guard lock(title_mutex);
  if (!keys_by_title) {
    keys_by_title.emplace();
    if (auto entries = scan(); entries.ok())
      for (const auto& entry : entries.value()) (*keys_by_title)[entry.title].push_back(entry.key);
  }
  auto found = keys_by_title->find(title);
  return found == keys_by_title->end() ? std::vector<Key>() : found->second;
}

std::vector<std::string> Store::explain_miss(const std::string& key_dump) {
  const std::string title = key_dump.substr(0, key_dump.find('\n'));
  std::vector<std::string> best = {"nothing like it was built before"};
  bool found = false;
  for (const auto& key : state_->keys_titled(title)) {
    const std::string dump = state_->read_key_dump(key);
    if (dump.empty()) continue;  // removed meanwhile
    auto difference = explain_difference(key_dump, dump);
    if (!found || difference.size() < best.size()) best = std::move(difference);
    found = true;
  }
  return best;
}

Result<std::vector<EntryInfo>> Store::list() { return state_->scan(); }

Result<EntryInfo> Store::show(const std::string& key_prefix, std::string* key_dump) {
  QCG_TRY(entries, state_->scan());
  const EntryInfo* match = nullptr;
  for (const auto& entry : entries) {
    if (key_prefix.empty() || !entry.key.hex.starts_with(key_prefix)) continue;
    if (match) return Error::bad_input(key_prefix, "is the beginning of several keys", "give more digits");
    match = &entry;
  }
  if (!match) return Error::bad_input(key_prefix, "no such entry", "`qcodegen cache ls` lists the keys");
  if (key_dump) *key_dump = state_->read_key_dump(match->key);
  return *match;
}

Result<StoreStats> Store::stats() {
  StoreStats stats;
  QCG_TRY(entries, state_->scan());
  stats.entries = entries.size();
  for (const auto& entry : entries) stats.bytes += entry.bytes;
  state_->add_counters(stats);
  return stats;
}

Result<GcResult> Store::gc(uint64_t max_bytes) {
  if (state_->usable && !state_->read_only) remove_stale_scratch(state_->temp_dir(), state_->fs);
  return state_->gc(max_bytes);
}

Result<VerifyResult> Store::verify_all() {
  VerifyResult result;
  QCG_TRY(entries, state_->scan());
  for (const auto& entry : entries) {
    Loaded loaded = state_->load(entry.key, state_->entry_dir(entry.key));
    if (loaded.outcome == Loaded::absent) continue;
    ++result.checked;
    if (loaded.outcome == Loaded::found) continue;
    state_->warn("cache entry " + entry.key.hex.substr(0, 12) + ": " + loaded.reason);
    if (loaded.outcome == Loaded::failed) return Error::io(entry.key.hex, loaded.reason, "check the file system");
    result.corrupt.push_back(entry.key.hex);
    if (!state_->read_only) QCG_CHECK(state_->remove_entry(entry.key));
  }
  return result;
}

Status Store::clear() {
  if (!state_->usable) return {};
  if (state_->read_only) return Error::io(dir(), "the cache is read-only", "choose another with QCG_CACHE_DIR");
  remove_stale_scratch(state_->temp_dir(), state_->fs);
  QCG_TRY(entries, state_->scan());
  for (const auto& entry : entries) QCG_CHECK(state_->remove_entry(entry.key));
  std::lock_guard lock(state_->mutex);
  state_->new_hits = state_->new_misses = state_->new_corrupt = 0;
  state_->bytes_estimate = 0;
  state_->fs->remove_at(AT_FDCWD, state_->root + "/counters");
  return {};
}

}  // namespace qcg

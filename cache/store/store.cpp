#include "cache/store/store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <set>

#include "cache/store/store_dir.h"
#include "cache/store/store_state.h"

namespace qcg {

namespace {

constexpr size_t kMaxWarnings = 100;
constexpr int kOpenEntry = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Error not_a_key(const Key& key) { return Error::internal("cache", "not a key: '" + key.hex.substr(0, 80) + "'"); }

ByteSink append_to(std::string& bytes) {
  return [&bytes](std::string_view piece) { return bytes.append(piece), 0; };
}

// Writes and syncs one file of the entry in the staging directory, and fills in its record.
Status stage_file(FileSystem& fs, const std::string& stage, const EntryFile& file, FileRecord& record) {
  const std::string path = stage + "/" + disk_name(file.name);
  record = {file.name, file.bytes.size(), {}, file.mode & 0777};
  if (file.source_path.empty()) {
    record.sha256 = sha256_hex(file.bytes);
    if (int error = fs.create_file(path, file.bytes, 0600)) return io_error(path, "cannot be written", error);
    return {};
  }
  OwnedFd in(fs.open_at(AT_FDCWD, file.source_path, O_RDONLY | O_CLOEXEC));
  if (!in) return io_error(file.source_path, "cannot be opened", errno);
  OwnedFd out(fs.open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!out) return io_error(path, "cannot be made", errno);
  Sha256 hash;
  record.size = 0;
  std::vector<char> buffer(1 << 20);
  for (;;) {
    ssize_t n = fs.read(in.get(), buffer.data(), buffer.size());
    if (n < 0) return io_error(file.source_path, "cannot be read", errno);
    if (n == 0) break;
    std::string_view piece(buffer.data(), static_cast<size_t>(n));
    hash.update(piece);
    record.size += piece.size();
    if (int error = fs.write_all(out.get(), piece)) return io_error(path, "cannot be written", error);
  }
  record.sha256 = hash.finish();
  if (fs.fsync(out.get())) return io_error(path, "cannot be synced", errno);
  return {};
}

Status stage_entry(FileSystem& fs, const std::string& stage, const Key& key, std::span<const EntryFile> files,
                   const std::string& key_dump) {
  if (fs.mkdir(stage, 0700)) return io_error(stage, "cannot be made", errno);
  Manifest manifest{key, {}};
  std::set<std::string> names;
  for (const auto& file : files) {
    if (!is_entry_file_name(file.name) || !names.insert(file.name).second)
      return Error::internal("cache", "not a file name for an entry, or given twice: '" + file.name + "'");
    FileRecord record;
    QCG_CHECK(stage_file(fs, stage, file, record));
    manifest.files.push_back(std::move(record));
  }
  FileRecord dump_record;
  QCG_CHECK(stage_file(fs, stage, {kKeyDumpName, key_dump, 0600, {}}, dump_record));
  manifest.files.push_back(std::move(dump_record));
  const std::string path = stage + "/" + kManifestName;
  if (int error = fs.create_file(path, print_manifest(manifest), 0600))
    return io_error(path, "cannot be written", error);
  if (int error = fs.sync_dir(stage)) return io_error(stage, "cannot be synced", error);
  return {};
}

}  // namespace

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() {
  if (!state_) return;
  state_->flush_counters();
  state_->flush_lookups();
}

Store Store::none() {
  auto state = std::make_unique<State>();
  state->fs = &real_file_system();
  state->read_only = true;
  return Store(std::move(state));
}

Result<Store> Store::open(StoreOptions options) {
  auto state = std::make_unique<State>();
  state->fs = options.fs ? options.fs : &real_file_system();
  FileSystem& fs = *state->fs;
  QCG_CHECK(make_private_dir(options.dir, fs, options.shared));
  state->root = options.dir + "/v1";
  state->usable = true;
  for (const auto& dir : {state->root, state->temp_dir()}) {
    if (fs.mkdir(dir, options.shared ? 0770 : 0700) && errno != EEXIST) {
      state->warn(io_error(dir, "cannot be made, so nothing new will be kept", errno).to_string());
      state->read_only = true;
      break;
    }
    QCG_CHECK(check_private_dir(dir, fs, options.shared));
  }
  if (!state->read_only && ::faccessat(AT_FDCWD, state->temp_dir().c_str(), W_OK, AT_EACCESS)) state->read_only = true;
  state->options = std::move(options);
  if (!state->read_only) remove_stale_scratch(state->temp_dir(), &fs);
  return Store(std::move(state));
}

const std::string& Store::dir() const { return state_->options.dir; }
bool Store::read_only() const { return state_->read_only; }

std::vector<std::string> Store::take_warnings() {
  std::lock_guard lock(state_->mutex);
  return std::exchange(state_->warnings, {});
}

const std::vector<Lookup>& Store::lookups() const { return state_->lookups; }

void Store::State::warn(std::string text) {
  std::lock_guard lock(mutex);
  if (warnings.size() < kMaxWarnings) warnings.push_back(std::move(text));
}

// Error: the bucket is a link or another user's directory, in which nothing may be loaded or removed. An absent bucket
// is ok.
Status Store::State::check_bucket(const std::string& path) {
  struct stat info;
  if (fs->lstat(path, &info) && errno == ENOENT) return {};
  return check_private_dir(path, *fs, options.shared);
}

// Opens the directory once and reaches its files through that descriptor. So all files belong to one entry, even if
// another process replaces or removes the entry meanwhile.
Loaded Store::State::load(const Key& key, const std::string& path) {
  if (!usable) return {};
  const std::string bucket = path.substr(0, path.rfind('/'));
  if (const Status refused = check_bucket(bucket); !refused.ok())
    return {Loaded::failed, refused.error().to_string(), {}};
  OwnedFd dir(fs->open_at(AT_FDCWD, path, kOpenEntry));
  if (!dir) {
    if (errno == ENOENT) return {};
    if (errno == ENOTDIR || errno == ELOOP) return {Loaded::corrupt, "is not a directory", {}};
    return {Loaded::failed, io_error(path, "cannot be opened", errno).to_string(), {}};
  }
  if (const Status refused = check_private_dir(path, *fs, options.shared); !refused.ok() && errno != ENOENT)
    return {Loaded::failed, refused.error().to_string(), {}};
  // A missing file means damage, unless another process has removed the whole entry meanwhile.
  auto outcome_of = [&](const FileCheck& check, const std::string& name) -> Loaded {
    struct stat here, there;
    bool vanished = fs->fstat(dir.get(), &here) || fs->lstat(path, &there) || here.st_ino != there.st_ino;
    if (check.outcome == FileCheck::failed)
      return {Loaded::failed, io_error(path + "/" + name, "cannot be read", check.error).to_string(), {}};
    if (vanished) return {};
    return {Loaded::corrupt, name + (check.outcome == FileCheck::missing ? " is missing" : " " + check.reason), {}};
  };

  std::string text;
  FileCheck check =
      check_file(*fs, dir.get(), {kManifestName, kMaxManifestBytes, {}, 0}, options.shared, append_to(text));
  if (check.outcome != FileCheck::good) return outcome_of(check, kManifestName);
  auto manifest = parse_manifest(text);
  if (!manifest) return {Loaded::corrupt, "MANIFEST is damaged", {}};
  if (manifest->key != key) return {Loaded::corrupt, "MANIFEST is that of another key", {}};

  Entry entry;
  entry.key_ = key;
  entry.dir_ = path;
  entry.fs_ = fs;
  entry.shared_ = options.shared;
  for (auto& file : manifest->files) {
    std::optional<std::string> held;
    if (file.size <= options.hold_bytes) held.emplace();
    check = check_file(*fs, dir.get(), file, options.shared, held ? append_to(*held) : ByteSink());
    if (check.outcome != FileCheck::good) return outcome_of(check, file.name);
    entry.held_.push_back(std::move(held));
    entry.files_.push_back(std::move(file));
  }
  return {Loaded::found, {}, std::move(entry)};
}

// Renames the entry away first, so that it is complete or gone even if this process dies meanwhile.
Status Store::State::remove_entry(const Key& key) {
  const std::string path = entry_dir(key);
  QCG_CHECK(check_bucket(bucket_dir(key)));
  auto scratch = ScratchDir::create(temp_dir(), fs);
  if (scratch.ok() && (fs->rename(path, scratch->path() + "/removed") == 0 || errno == ENOENT)) {
    (void)fs->remove_tree(scratch->path() + "/removed", {.any_owner = options.shared});
    return {};
  }
  // A full disk may prevent the rename. Then removing the MANIFEST first makes the entry unloadable.
  fs->remove_at(AT_FDCWD, path + "/" + kManifestName);
  if (int error = fs->remove_tree(path, {.any_owner = options.shared}))
    return io_error(path, "cannot be removed", error);
  return {};
}

Status Store::remove(const Key& key) {
  if (!is_sha256_hex(key.hex)) return not_a_key(key);
  if (!state_->usable || state_->read_only) return {};
  return state_->remove_entry(key);
}

void Store::back_with(std::shared_ptr<Backing> backing) { state_->backing = std::move(backing); }

bool Store::shares(uint64_t bytes) const { return state_->backing && state_->backing->takes(bytes); }

// An entry whose files are all in memory, for a cache that cannot keep them.
Entry Store::State::hold(const Key& key, std::vector<EntryFile> files) {
  Entry entry;
  entry.key_ = key;
  entry.dir_ = entry_dir(key);
  entry.fs_ = fs;
  for (EntryFile& file : files) {
    entry.files_.push_back({file.name, file.bytes.size(), sha256_hex(file.bytes), file.mode});
    entry.held_.emplace_back(std::move(file.bytes));
  }
  return entry;
}

std::optional<Entry> Store::State::fetch(const Key& key) {
  std::optional<BackedEntry> backed = backing->get(key);
  if (!backed) return std::nullopt;
  if (usable && !read_only)
    if (auto kept = publish(key, backed->files, backed->key_dump, Wins::first); kept.ok()) return std::move(*kept);
  return hold(key, std::move(backed->files));
}

Result<std::optional<Entry>> Store::find(const Key& key, EntryKind kind) {
  if (!is_sha256_hex(key.hex)) return not_a_key(key);
  const auto start = std::chrono::steady_clock::now();
  Loaded loaded = state_->load(key, state_->entry_dir(key));
  if (loaded.outcome == Loaded::found) state_->fs->set_used_now(loaded.entry->dir());
  if (loaded.outcome == Loaded::failed) state_->warn(loaded.reason);
  if (loaded.outcome == Loaded::corrupt) {
    state_->warn("cache entry " + key.hex.substr(0, 12) + " was damaged (" + loaded.reason + ") and is made anew");
    if (!state_->read_only) (void)state_->remove_entry(key);
  }
  Lookup lookup{key.hex, kind, loaded.entry ? LookupSource::local : LookupSource::none};
  if (!loaded.entry && state_->backing && entry_kind_info(kind).shared) {
    loaded.entry = state_->fetch(key);
    if (loaded.entry) lookup.source = LookupSource::remote;
  }
  if (loaded.entry)
    for (const FileRecord& file : loaded.entry->files()) lookup.bytes += file.size;
  lookup.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  lookup.time = std::time(nullptr);
  std::lock_guard lock(state_->mutex);
  state_->lookups.push_back(std::move(lookup));
  ++(loaded.entry ? state_->new_hits : state_->new_misses);
  if (loaded.outcome == Loaded::corrupt) ++state_->new_corrupt;
  return std::move(loaded.entry);
}

Result<Entry> Store::publish(const Key& key, std::span<const EntryFile> files, const std::string& key_dump, Wins wins,
                             Reach reach) {
  if (!is_sha256_hex(key.hex)) return not_a_key(key);
  const EntryKind kind = kind_of_title(key_dump.substr(0, key_dump.find('\n')));
  if (state_->backing && reach == Reach::shared && entry_kind_info(kind).shared)
    state_->backing->put(key, {files.begin(), files.end()}, key_dump);
  if (!state_->usable || state_->read_only)
    return Error::io(dir(), "the cache accepts no new entries: it is read-only or disabled",
                     "choose another with QCG_CACHE_DIR");
  auto entry = state_->publish(key, files, key_dump, wins);
  // Warns only once, because a full disk fails for every kernel.
  if (!entry.ok() && entry.error().code == ErrorCode::Io && !state_->said_unkept.exchange(true))
    state_->warn("not everything is kept in the cache: " + entry.error().to_string());
  return entry;
}

Result<Entry> Store::State::publish(const Key& key, std::span<const EntryFile> files, const std::string& key_dump,
                                    Wins wins) {
  FileSystem& fs = *this->fs;
  QCG_TRY(scratch, ScratchDir::create(temp_dir(), &fs));
  const std::string stage = scratch.path() + "/entry";
  QCG_CHECK(stage_entry(fs, stage, key, files, key_dump));

  // Reads the entry back before other processes can see it. So the published entry is complete and equals the returned
  // one.
  Loaded staged = load(key, stage);
  if (staged.outcome != Loaded::found)
    return Error::io(stage, "what was read back differs from what was written", "check the file system");

  const std::string bucket = bucket_dir(key), path = entry_dir(key);
  if (fs.mkdir(bucket, options.shared ? 0770 : 0700) == 0) {
    if (int error = fs.sync_dir(root)) return io_error(root, "cannot be synced", error);
  } else if (errno != EEXIST) {
    return io_error(bucket, "cannot be made", errno);
  }
  QCG_CHECK(check_bucket(bucket));
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (fs.rename(stage, path) == 0) {
      if (int error = fs.sync_dir(bucket)) warn(io_error(bucket, "cannot be synced", error).to_string());
      enforce_limit(describe(key).bytes);
      staged.entry->dir_ = path;
      return std::move(*staged.entry);
    }
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
      return io_error(path, "cannot be put in place", errno);
    if (wins == Wins::newest) {
      QCG_CHECK(remove_entry(key));
      continue;
    }
    // Another process was first. Its entry serves as well, if it is complete.
    Loaded existing = load(key, path);
    if (existing.outcome == Loaded::found) return std::move(*existing.entry);
    if (existing.outcome == Loaded::failed) return Error::io(path, existing.reason, "check the file system");
    if (existing.outcome == Loaded::corrupt) QCG_CHECK(remove_entry(key));
  }
  return Error::io(path, "other processes keep replacing this entry by damaged ones",
                   "check the file system and the other users of this cache");
}

}  // namespace qcg

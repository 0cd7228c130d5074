#include "cache/store/scratch.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>

namespace qcg {

namespace {

constexpr char kPrefix[] = "qcg-";
constexpr char kLockSuffix[] = ".lock";
constexpr std::string_view kMark = "qcodegen scratch\n", kDirectory = "directory ";

std::string random_name() {
  unsigned char bytes[8] = {};
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    // O_EXCL enforces uniqueness; a clash costs only a retry.
    uint64_t fallback = static_cast<uint64_t>(getpid()) * 0x9e3779b97f4a7c15u + reinterpret_cast<uintptr_t>(&bytes);
    for (auto& b : bytes) b = static_cast<unsigned char>(fallback), fallback >>= 8;
  }
  std::string name = kPrefix + std::to_string(getpid()) + "-";
  for (unsigned char b : bytes) {
    name += "0123456789abcdef"[b >> 4];
    name += "0123456789abcdef"[b & 15];
  }
  return name;
}

// The inode of a new directory. It must be empty: if other users may rename directories in root, the name may already
// lead to another directory.
int inode_of_empty(FileSystem& fs, const std::string& path, ino_t& inode) {
  OwnedFd dir(fs.open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  std::vector<std::string> names;
  if (!dir || fs.fstat(dir.get(), &info)) return errno;
  if (int error = fs.list_open_dir(dir.get(), names)) return error;
  inode = info.st_ino;
  return names.empty() ? 0 : ENOTEMPTY;
}

// Parses a lock file: returns whether it is one, and sets `inode` to its directory's (0: not recorded yet, so the
// directory is empty).
bool parse_lock(std::string_view text, ino_t& inode) {
  inode = 0;
  if (text.size() < kMark.size()) return kMark.starts_with(text);
  if (!text.starts_with(kMark)) return false;
  text.remove_prefix(kMark.size());
  if (text.size() <= kDirectory.size()) return kDirectory.starts_with(text);
  if (!text.starts_with(kDirectory)) return false;
  const auto [end, error] = std::from_chars(text.data() + kDirectory.size(), text.data() + text.size(), inode);
  if (error != std::errc()) return false;
  if (end == text.data() + text.size()) inode = 0;  // the number is truncated
  return true;
}

}  // namespace

Result<ScratchDir> ScratchDir::create(const std::string& root, FileSystem* fs) {
  if (!fs) fs = &real_file_system();
  const char* what = "a temporary directory cannot be made here";
  for (int attempt = 0; attempt < 16; ++attempt) {
    std::string path = root + "/" + random_name();
    std::string lock_path = path + kLockSuffix;
    OwnedFd lock(fs->open_at(AT_FDCWD, lock_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) {
      if (errno == EEXIST) continue;
      return io_error(root, what, errno);
    }
    // A cleaner may have found the lock file before it was locked: then the cleaner holds the lock or has unlinked the
    // file. On file systems without locks, cleaners remove nothing.
    struct stat info;
    const bool locked = fs->try_lock(lock.get()) == 0 || errno == ENOSYS || errno == EOPNOTSUPP;
    if (!locked || fs->fstat(lock.get(), &info) || info.st_nlink != 1) {
      int error = errno;
      ::unlink(lock_path.c_str());
      if (error == EWOULDBLOCK || error == 0) continue;
      if (attempt < 15) continue;
      return io_error(lock_path, "cannot be locked", error);
    }
    ino_t inode = 0;
    int error = fs->write_all(lock.get(), kMark);
    const bool made = !error && fs->mkdir(path, 0700) == 0;
    if (!error && !made) error = errno;
    if (made) error = inode_of_empty(*fs, path, inode);
    if (made && !error) error = fs->write_all(lock.get(), std::string(kDirectory) + std::to_string(inode) + "\n");
    if (!error) return ScratchDir(std::move(path), std::move(lock), inode, fs);
    if (made) ::rmdir(path.c_str());
    ::unlink(lock_path.c_str());
    if (error != EEXIST && error != ENOTEMPTY) return io_error(root, what, error);
  }
  return Error::io(root, "no temporary directory could be made in 16 attempts",
                   "check that the file system allows locks");
}

ScratchDir::ScratchDir(ScratchDir&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)), inode_(other.inode_), fs_(other.fs_) {}

ScratchDir& ScratchDir::operator=(ScratchDir&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  std::swap(inode_, other.inode_);
  std::swap(fs_, other.fs_);
  return *this;
}

ScratchDir::~ScratchDir() {
  if (path_.empty()) return;
  // Removes the lock file last, so that the next cleaner finds what a failure here leaves behind.
  if (fs_->remove_tree(path_, {.inode = inode_}) == 0) fs_->remove_at(AT_FDCWD, path_ + kLockSuffix);
}

int remove_stale_scratch(const std::string& root, FileSystem* fs) {
  if (!fs) fs = &real_file_system();
  std::vector<std::string> names;
  if (fs->list_dir(root, names)) return 0;
  int removed = 0;
  const std::string suffix = kLockSuffix;
  for (const auto& name : names) {
    if (name.rfind(kPrefix, 0) != 0 || name.size() <= suffix.size() || !name.ends_with(suffix)) continue;
    const std::string lock_path = root + "/" + name, path = lock_path.substr(0, lock_path.size() - suffix.size());
    struct stat info;
    OwnedFd lock(fs->open_at(AT_FDCWD, lock_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!lock || fs->fstat(lock.get(), &info) || !S_ISREG(info.st_mode)) continue;
    if (info.st_uid != geteuid() || info.st_nlink != 1 || fs->try_lock(lock.get())) continue;  // its owner lives
    std::string text;
    ino_t inode = 0;
    if (fs->read_all(lock.get(), text, 256) || !parse_lock(text, inode)) continue;
    const bool gone = inode ? fs->remove_tree(path, {.inode = inode}) == 0
                            : fs->remove_at(AT_FDCWD, path, AT_REMOVEDIR) == 0 || errno == ENOENT;
    if (!gone) continue;
    fs->remove_at(AT_FDCWD, lock_path);
    ++removed;
  }
  return removed;
}

std::string default_temp_root() {
  const char* root = std::getenv("TMPDIR");
  return root && root[0] == '/' ? root : "/tmp";
}

FileSystem& real_file_system() {
  static FileSystem fs;
  return fs;
}

}  // namespace qcg

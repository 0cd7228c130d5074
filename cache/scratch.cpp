#include "cache/scratch.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace qcg {

namespace {

constexpr char kPrefix[] = "qcg-";
constexpr char kLockSuffix[] = ".lock";

std::string random_name() {
  unsigned char bytes[8] = {};
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    // Uniqueness is enforced by O_EXCL; a clash only costs a retry.
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

}  // namespace

Result<ScratchDir> ScratchDir::create(const std::string& root, FileSystem* fs) {
  if (!fs) fs = &real_file_system();
  for (int attempt = 0; attempt < 16; ++attempt) {
    std::string path = root + "/" + random_name();
    std::string lock_path = path + kLockSuffix;
    OwnedFd lock(fs->open_at(AT_FDCWD, lock_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) {
      if (errno == EEXIST) continue;
      return io_error(root, "a temporary directory cannot be made here", errno);
    }
    // A cleaner may have seen the lock file before it was locked: then it owns the lock or has unlinked the file.
    struct stat info;
    if (fs->try_lock(lock.get()) || fs->fstat(lock.get(), &info) || info.st_nlink != 1) {
      int error = errno;
      ::unlink(lock_path.c_str());
      if (error == EWOULDBLOCK || error == 0) continue;
      if (attempt < 15) continue;
      return io_error(lock_path, "cannot be locked", error);
    }
    if (fs->mkdir(path, 0700)) {
      int error = errno;
      ::unlink(lock_path.c_str());
      if (error == EEXIST) continue;
      return io_error(root, "a temporary directory cannot be made here", error);
    }
    return ScratchDir(std::move(path), std::move(lock), fs);
  }
  return Error::io(root, "no temporary directory could be made in 16 attempts",
                   "check that the file system allows locks");
}

ScratchDir::ScratchDir(ScratchDir&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)), fs_(other.fs_) {}

ScratchDir& ScratchDir::operator=(ScratchDir&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  std::swap(fs_, other.fs_);
  return *this;
}

ScratchDir::~ScratchDir() {
  if (path_.empty()) return;
  // The lock file goes last: whatever is left behind by a failure here is found by the next cleaner.
  if (fs_->remove_tree(path_) == 0) fs_->remove_at(AT_FDCWD, path_ + kLockSuffix);
}

int remove_stale_scratch(const std::string& root, FileSystem* fs) {
  if (!fs) fs = &real_file_system();
  std::vector<std::string> names;
  if (fs->list_dir(root, names)) return 0;
  int removed = 0;
  const std::string suffix = kLockSuffix;
  for (const auto& name : names) {
    if (name.rfind(kPrefix, 0) != 0 || name.size() <= suffix.size() || !name.ends_with(suffix)) continue;
    std::string lock_path = root + "/" + name;
    struct stat info;
    OwnedFd lock(fs->open_at(AT_FDCWD, lock_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!lock || fs->fstat(lock.get(), &info) || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) continue;
    if (fs->try_lock(lock.get())) continue;  // its owner lives
    if (fs->remove_tree(lock_path.substr(0, lock_path.size() - suffix.size())) == 0) {
      fs->remove_at(AT_FDCWD, lock_path);
      ++removed;
    }
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

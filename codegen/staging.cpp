#include "codegen/staging.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace qcg {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMark = ".tmp-", kPattern = "XXXXXX";
constexpr const char* kRemedy = "choose a writable place with -o";

Error cannot(const std::string& path, const char* what) {
  return Error::io(path, fmt::format("cannot {}: {}", what, std::strerror(errno)), kRemedy);
}

bool is_there(const std::string& path) {
  std::error_code failed;
  return fs::exists(fs::symlink_status(path, failed));
}

Status check_replaceable(const std::string& path) {
  if (!is_there(path) || is_program(path)) return {};
  return Error::io(path, "exists and is not a program", "remove it or choose another name with -o");
}

int open_directory(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

// File systems that cannot sync a directory say so; there is nothing else to do about it then.
void sync_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)::fsync(fd);
  ::close(fd);
}

fs::path parent_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

// Directories that a killed process left for the same target: nobody holds their lock.
void remove_stale(const std::string& target) {
  const std::string prefix = fs::path(target).filename().string() + std::string(kMark);
  std::error_code failed;
  for (fs::directory_iterator at(parent_of(target), failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + kPattern.size()) continue;
    const int fd = open_directory(at->path().string());
    if (fd < 0) continue;
    struct stat info;
    std::error_code ignored;
    if (::fstat(fd, &info) == 0 && info.st_uid == ::geteuid() && ::flock(fd, LOCK_EX | LOCK_NB) == 0)
      fs::remove_all(at->path(), ignored);
    ::close(fd);
  }
}

}  // namespace

bool is_program(const std::string& path) {
  std::error_code failed;
  return fs::exists(path + "/manifest.json", failed);
}

Status check_destination(const std::string& path) {
  QCG_CHECK(check_replaceable(path));
  if (::access((parent_of(path) / ".").c_str(), W_OK | X_OK) == 0) return {};
  return cannot(path, "be made");
}

Result<StagingDir> StagingDir::create(const std::string& target) {
  remove_stale(target);
  for (int attempt = 0; attempt < 16; ++attempt) {
    std::string path = target + std::string(kMark) + std::string(kPattern);
    if (!::mkdtemp(path.data())) return cannot(target, "create a directory beside it");
    const int fd = open_directory(path);
    if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(fd);  // another compile came between and is removing it
      continue;
    }
    struct stat info;
    if (fd < 0 || ::stat(path.c_str(), &info) != 0) {
      if (fd >= 0) ::close(fd);
      continue;
    }
    ::chmod(path.c_str(), 0755);
    return StagingDir(target, std::move(path), fd);
  }
  return Error::io(target, "no directory beside it stays: another process removes them", kRemedy);
}

StagingDir::StagingDir(StagingDir&& other) noexcept
    : target_(std::move(other.target_)), path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

StagingDir::~StagingDir() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

Status StagingDir::publish() {
  std::error_code failed;
  for (fs::recursive_directory_iterator at(path_, failed), end; !failed && at != end; at.increment(failed))
    if (at->is_directory(failed)) sync_directory(at->path().string());
  sync_directory(path_);
  QCG_CHECK(check_replaceable(target_));
  if (!is_there(target_)) {
    if (::rename(path_.c_str(), target_.c_str()) != 0) return cannot(target_, "put the program in place");
  } else if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return cannot(target_, "put the program in place");
    const std::string old = path_ + ".old";  // a file system without exchange: for an instant there is no program
    if (::rename(target_.c_str(), old.c_str()) != 0) return cannot(target_, "move the old program away");
    if (::rename(path_.c_str(), target_.c_str()) != 0) {
      const Error error = cannot(target_, "put the program in place");
      (void)::rename(old.c_str(), target_.c_str());
      return error;
    }
    fs::remove_all(old, failed);
  }
  sync_directory(parent_of(target_).string());
  return {};
}

}  // namespace qcg

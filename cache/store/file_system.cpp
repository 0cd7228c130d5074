#include "cache/store/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace qcg {

namespace {

// Closes `dir`. Returns 0 or an errno value.
int read_names(DIR* dir, std::vector<std::string>& names) {
  int error = 0;
  for (;;) {
    errno = 0;
    const dirent* item = ::readdir(dir);
    if (!item) {
      error = errno;
      break;
    }
    if (std::strcmp(item->d_name, ".") && std::strcmp(item->d_name, "..")) names.emplace_back(item->d_name);
  }
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return error;
}

}  // namespace

void OwnedFd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool FileSystem::refuses(FileOp op, const std::string& path) {
  int error = hook_ ? hook_(op, path) : 0;
  if (error) errno = error;
  return error != 0;
}

int FileSystem::open_at(int dir_fd, const std::string& path, int flags, mode_t mode) {
  if (refuses(FileOp::open, path)) return -1;
  return ::openat(dir_fd, path.c_str(), flags, mode);
}

ssize_t FileSystem::read(int fd, void* buffer, size_t size) {
  if (refuses(FileOp::read, "")) return -1;
  ssize_t n;
  do n = ::read(fd, buffer, size);
  while (n < 0 && errno == EINTR);
  return n;
}

ssize_t FileSystem::write(int fd, const void* bytes, size_t size) {
  if (refuses(FileOp::write, "")) {
    // A real disk fills up in the middle of a write. So an injected failure writes half of the bytes first.
    int error = errno;
    if (size > 1) {
      [[maybe_unused]] ssize_t half = ::write(fd, bytes, size / 2);
    }
    errno = error;
    return -1;
  }
  ssize_t n;
  do n = ::write(fd, bytes, size);
  while (n < 0 && errno == EINTR);
  return n;
}

int FileSystem::fsync(int fd) { return refuses(FileOp::fsync, "") ? -1 : ::fsync(fd); }

int FileSystem::rename(const std::string& from, const std::string& to) {
  return refuses(FileOp::rename, to) ? -1 : ::rename(from.c_str(), to.c_str());
}

int FileSystem::mkdir(const std::string& path, mode_t mode) {
  return refuses(FileOp::mkdir, path) ? -1 : ::mkdir(path.c_str(), mode);
}

int FileSystem::remove_at(int dir_fd, const std::string& path, int flags) {
  return refuses(FileOp::remove, path) ? -1 : ::unlinkat(dir_fd, path.c_str(), flags);
}

int FileSystem::lstat(const std::string& path, struct stat* out) {
  return refuses(FileOp::stat, path) ? -1 : ::lstat(path.c_str(), out);
}

int FileSystem::fstat(int fd, struct stat* out) { return refuses(FileOp::stat, "") ? -1 : ::fstat(fd, out); }

int FileSystem::try_lock(int fd) { return refuses(FileOp::lock, "") ? -1 : ::flock(fd, LOCK_EX | LOCK_NB); }

int FileSystem::set_used_now(const std::string& path) {
  return refuses(FileOp::utime, path) ? -1 : ::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

int FileSystem::list_dir(const std::string& path, std::vector<std::string>& names) {
  names.clear();
  if (refuses(FileOp::list, path)) return errno;
  DIR* dir = ::opendir(path.c_str());
  return dir ? read_names(dir, names) : errno;
}

int FileSystem::list_open_dir(int dir_fd, std::vector<std::string>& names) {
  names.clear();
  if (refuses(FileOp::list, "")) return errno;
  OwnedFd own(::openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));  // has its own read position
  DIR* dir = own ? ::fdopendir(own.get()) : nullptr;
  if (!dir) return errno;
  own.release();
  return read_names(dir, names);
}

int FileSystem::write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

int FileSystem::create_file(const std::string& path, std::string_view bytes, mode_t mode) {
  OwnedFd fd(open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd) return errno;
  if (int error = write_all(fd.get(), bytes)) return error;
  return fsync(fd.get()) ? errno : 0;
}

int FileSystem::read_all(int fd, std::string& bytes, size_t limit) {
  bytes.clear();
  char buffer[1 << 16];
  for (;;) {
    ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0) return errno;
    if (n == 0) return 0;
    if (bytes.size() + static_cast<size_t>(n) > limit) return EFBIG;
    bytes.append(buffer, static_cast<size_t>(n));
  }
}

int FileSystem::sync_dir(const std::string& path) {
  OwnedFd fd(open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return errno;
  return fsync(fd.get()) ? errno : 0;
}

int FileSystem::remove_tree(const std::string& path, const RemoveRules& rules) {
  if (!rules.inode && (remove_at(AT_FDCWD, path) == 0 || errno == ENOENT)) return 0;
  if (!rules.inode && errno != EISDIR && errno != EPERM) return errno;
  return remove_directory(AT_FDCWD, path, rules, nullptr);
}

// Works through the descriptor of the directory, so that replacing the directory meanwhile has no effect.
int FileSystem::remove_directory(int parent, const std::string& name, const RemoveRules& rules,
                                 const struct stat* top) {
  struct stat info;
  OwnedFd dir(open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!dir || fstat(dir.get(), &info)) return errno == ENOENT ? 0 : errno;
  if (!top && rules.inode && info.st_ino != rules.inode) return ESTALE;
  if (top && (info.st_dev != top->st_dev || (!rules.any_owner && info.st_uid != top->st_uid))) return EPERM;
  std::vector<std::string> names;
  int first = list_open_dir(dir.get(), names);
  for (const auto& item : names) {
    if (remove_at(dir.get(), item) == 0 || errno == ENOENT) continue;
    int error = errno;
    if (error == EISDIR || error == EPERM) error = remove_directory(dir.get(), item, rules, top ? top : &info);
    if (error && !first) first = error;
  }
  if (remove_at(parent, name, AT_REMOVEDIR) && !first && errno != ENOENT) first = errno;
  return first;
}

Result<OwnedFd> open_regular_file(const std::string& path) {
  OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // opening a FIFO must not wait for a writer
  struct stat info;
  if (!fd || ::fstat(fd.get(), &info)) return io_error(path, "cannot be opened", errno);
  if (!S_ISREG(info.st_mode))
    return Error::bad_input(path, "not a regular file", "name a file, not a directory, pipe or device");
  return fd;
}

bool is_plain_path(std::string_view path) {
  for (;;) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

Error io_error(const std::string& where, const std::string& what, int error_number) {
  const char* help = "check that the file system works and that the path is yours";
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: help = "free some space there; where that is the cache, with `qcodegen cache gc --max-size …`"; break;
    case EFBIG: help = "raise the limit of a file's size with `ulimit -f`"; break;
    case EROFS: help = "the file system is read-only: choose another directory with QCG_CACHE_DIR"; break;
    case EACCES:
    case EPERM: help = "permission denied: choose a directory that you own, for the cache with QCG_CACHE_DIR"; break;
    case EMFILE:
    case ENFILE: help = "too many open files: raise the limit with `ulimit -n`"; break;
    case EISDIR: help = "name a file in it"; break;
    case ENOENT: help = "check the spelling of the path"; break;
    default: break;
  }
  return Error::io(where, what + ": " + std::strerror(error_number), help);
}

}  // namespace qcg

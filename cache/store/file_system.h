// FileSystem: the system calls of the cache, behind one hook, so that a test can make the Nth call fail.
//
// Why here: tests inject every failure to show that a failing disk never causes a wrong result.
// The functions return what the system call returns (-1 and errno), unless they say that they return an errno value.
//
//   int calls = 0;
//   FileSystem fs([&](FileOp op, const std::string&) { return op == FileOp::fsync && ++calls == 2 ? EIO : 0; });
//   StoreOptions options{.dir = dir, .fs = &fs};
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace qcg {

enum class FileOp { open, read, write, fsync, rename, mkdir, remove, stat, list, lock, utime };

class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Limits what remove_tree removes. It never follows links and never enters a directory on another file system.
struct RemoveRules {
  ino_t inode = 0;         // the directory must have this inode; 0: any
  bool any_owner = false;  // also enter directories whose owner differs from that of the outermost directory
};

class FileSystem {
 public:
  // Runs before each operation; a nonzero result is the errno with which that operation fails.
  using Hook = std::function<int(FileOp, const std::string& path)>;

  FileSystem() = default;
  explicit FileSystem(Hook hook) : hook_(std::move(hook)) {}

  int open_at(int dir_fd, const std::string& path, int flags, mode_t mode = 0);
  ssize_t read(int fd, void* buffer, size_t size);
  ssize_t write(int fd, const void* bytes, size_t size);
  int fsync(int fd);
  int rename(const std::string& from, const std::string& to);
  int mkdir(const std::string& path, mode_t mode);
  int remove_at(int dir_fd, const std::string& path, int flags = 0);  // AT_REMOVEDIR for a directory
  int lstat(const std::string& path, struct stat* out);
  int fstat(int fd, struct stat* out);
  int try_lock(int fd);  // exclusive flock, never waits
  int set_used_now(const std::string& path);

  // The functions below use those above. Each returns 0 or an errno value.
  int list_dir(const std::string& path, std::vector<std::string>& names);
  int list_open_dir(int dir_fd, std::vector<std::string>& names);
  int write_all(int fd, std::string_view bytes);
  int create_file(const std::string& path, std::string_view bytes, mode_t mode);  // a new file, synced
  int read_all(int fd, std::string& bytes, size_t limit);                         // EFBIG beyond limit
  int sync_dir(const std::string& path);
  int remove_tree(const std::string& path, const RemoveRules& rules = {});  // continues after errors, returns the first

 private:
  int remove_directory(int parent, const std::string& name, const RemoveRules& rules, const struct stat* top);
  bool refuses(FileOp op, const std::string& path);
  Hook hook_;
};

// Opens a regular file for reading. Error Io: it cannot be opened. BadInput: it is not a regular file.
Result<OwnedFd> open_regular_file(const std::string& path);

// Whether the path is relative and stays below the directory to which it is appended: no part is empty, "." or "..".
bool is_plain_path(std::string_view path);

// An error such as "PATH: WHAT: No space left on device", with a remedy for this errno.
Error io_error(const std::string& where, const std::string& what, int error_number);

}  // namespace qcg

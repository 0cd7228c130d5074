// ScratchDir: a private directory (0700) that is removed on every path, even by a later process if this one is killed.
//
// Why here: the compiler writes partial files under its output name when killed, and publishing stages files before the
// rename; both need a place that nobody takes for a finished thing. A lock file beside the directory is held as long as
// its owner lives, so "stale" is decided by the kernel and not by process numbers or times:
//
//   root/qcg-1234-8f3a….lock     held with flock by the owner; says which directory is meant, by its inode
//   root/qcg-1234-8f3a…/         the directory
//
// A cleaner removes that directory and no other: root may be a folder where other users can rename things.
//
//   QCG_TRY(scratch, ScratchDir::create(default_temp_root()));
//   write_to(scratch.path() + "/kernel.cpp");
#pragma once

#include <string>

#include "base/result.h"
#include "cache/store/file_system.h"

namespace qcg {

class ScratchDir {
 public:
  static Result<ScratchDir> create(const std::string& root, FileSystem* fs = nullptr);
  ScratchDir(ScratchDir&&) noexcept;
  ScratchDir& operator=(ScratchDir&&) noexcept;
  ~ScratchDir();

  const std::string& path() const { return path_; }

 private:
  ScratchDir(std::string path, OwnedFd lock, ino_t inode, FileSystem* fs)
      : path_(std::move(path)), lock_(std::move(lock)), inode_(inode), fs_(fs) {}

  std::string path_;
  OwnedFd lock_;
  ino_t inode_;
  FileSystem* fs_;
};

// Removes what killed processes of this user left under root. Returns how many directories went.
int remove_stale_scratch(const std::string& root, FileSystem* fs = nullptr);

// $TMPDIR if it is an absolute path, else /tmp.
std::string default_temp_root();

// The instance without a hook.
FileSystem& real_file_system();

}  // namespace qcg

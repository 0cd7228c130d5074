// ScratchDir: a private directory (0700). Its destructor removes it, or a later process if this one is killed.
//
// Why here: a killed compiler leaves partial files under its output name, and publishing prepares files before the
// rename. Both need a directory whose contents nobody takes for finished. The owner holds a lock file beside the
// directory while it lives, so the kernel decides whether the directory is stale, not process numbers or times:
//
//   root/qcg-1234-8f3a….lock     held with flock by the owner; contains the inode of the directory
//   root/qcg-1234-8f3a…/         the directory
//
// A cleaner removes only the directory with that inode, because other users may be able to rename directories in root.
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

// Removes the scratch directories that killed processes of this user left in root. Returns their number.
int remove_stale_scratch(const std::string& root, FileSystem* fs = nullptr);

// $TMPDIR if it is an absolute path, else /tmp.
std::string default_temp_root();

// The FileSystem without a hook.
FileSystem& real_file_system();

}  // namespace qcg

// StagingDir: a directory beside a program in which its next version is written, and the rename that publishes it.
//
// Why here: the writer of programs and the cache that restores them both fill one. A process that is killed leaves its
// directory behind; the lock it held on it went with it, and the next compile to the same place removes what nobody locks.
//
//   QCG_TRY(staging, StagingDir::create("mlp.qcg"));       // mlp.qcg.tmp-a8s7dq, locked
//   … files into staging.path() …
//   QCG_CHECK(staging.publish());                          // mlp.qcg is the new program at one instant, or the old one
#pragma once

#include <string>

#include "base/result.h"

namespace qcg {

// Whether a directory holds a program, sound or damaged.
bool is_program(const std::string& path);
// Error Io where something that is no program is there, or the folder around it cannot be written.
Status check_destination(const std::string& path);

class StagingDir {
 public:
  // Error Io: no directory can be made beside `target`.
  static Result<StagingDir> create(const std::string& target);
  StagingDir(StagingDir&& other) noexcept;
  StagingDir& operator=(StagingDir&&) = delete;
  ~StagingDir();  // what lies there, unpublished or replaced, is removed

  const std::string& path() const { return path_; }
  // Puts it at the target; a program that was there goes. Error Io if something else is.
  Status publish();

 private:
  StagingDir(std::string target, std::string path, int lock)
      : target_(std::move(target)), path_(std::move(path)), lock_(lock) {}

  std::string target_, path_;
  int lock_ = -1;
};

}  // namespace qcg

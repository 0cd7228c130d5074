// StagingDir: a directory beside a program in which its next version is written, and the rename that publishes it.
//
// Why here: the writer of programs and the cache that restores them both fill one. It lies in a ScratchDir, so that the
// next compile into the same folder removes what a killed one left there. What is replaced was a program in every part:
// the manifest is one of ours and lists each file that is there, but for the records.
//
//   QCG_TRY(staging, StagingDir::create("out/mlp.qcg"));   // out/qcg-1234-8f3a…/mlp.qcg
//   … files into staging.path() …
//   QCG_CHECK(staging.publish());                          // out/mlp.qcg is the new program at one instant, or the old one
#pragma once

#include <string>

#include "base/result.h"
#include "cache/store/scratch.h"

namespace qcg {

// What a program says of how it came about. The manifest does not list these: dates, durations and paths are in them,
// and the same kernels are the same program.
inline constexpr const char *kTuneLogFile = "tune.jsonl", *kOriginFile = "origin.json", *kReportFile = "report.json";

// Whether a directory holds a program, sound or damaged.
bool is_program(const std::string& path);
// Error Io where something that is not a program in every part is there, or the folder around it cannot be written.
Status check_destination(const std::string& path);

class StagingDir {
 public:
  // Error Io: no directory can be made beside `target`. A link is followed: its own place is where the program goes.
  static Result<StagingDir> create(const std::string& target);

  const std::string& path() const { return path_; }  // the last part is that of the target
  // Puts it at the target; a program that was there goes. Error Io if something else is, which stays.
  Status publish();

 private:
  StagingDir(std::string target, std::string path, ScratchDir scratch)
      : target_(std::move(target)), path_(std::move(path)), scratch_(std::move(scratch)) {}

  // One attempt each; false: what was there is no longer, or something is there now.
  Result<bool> exchange();
  Result<bool> move_in();
  Result<bool> replace_in_two_steps();

  std::string target_, path_;
  ScratchDir scratch_;
  int replaced_ = 0;
};

}  // namespace qcg

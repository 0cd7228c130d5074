// InputFiles: the files a compile reads, known by their contents: when it begins, and again when its program is made.
//
// Why here: weights are mapped, so what is packed is what the file holds at that moment. A program is kept under the
// contents its files had at the beginning, and is published only if they have them at the end and nobody wrote to them
// in between. Nothing but the bytes says that a file is the one of an earlier compile; times only ever say that it is
// not.
//
//   QCG_TRY(inputs, InputFiles::read(options));
//   for (const InputFile& file : inputs.files()) key.add(file.role, file.identity);
//   … the compile …
//   QCG_CHECK(inputs.check_unchanged(explanation.read.files));
//
// Not noticed: a process that writes through a shared mapping in a file system that keeps no time for that (tmpfs), and
// takes it back before the compile ends.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "codegen/program/compile_options.h"

namespace qcg {

struct InputFile {
  std::string role;  // "graph", "weights", "pin"; "weights" too for random numbers, which have no path
  std::string path;
  std::string identity;   // SHA-256 of the SHA-256 of every 16 MiB, or "random:SEED"
  struct stat status {};  // before the bytes were read
};

class InputFiles {
 public:
  // Reads every byte, on all processors. Error Io or BadInput: one cannot be read.
  static Result<InputFiles> read(const CompileOptions& options);

  const std::vector<InputFile>& files() const { return files_; }

  // Error Io names the file that was changed, replaced or cut off since; `used` are the paths the compile read.
  Status check_unchanged(const std::vector<std::string>& used) const;

 private:
  std::vector<InputFile> files_;
};

}  // namespace qcg

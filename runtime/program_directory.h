// ProgramDirectory: a program directory, opened once; every file of it is reached through that one descriptor.
//
// Why here: `compile -o` may put another program under the same name at any moment. Files opened by their paths could be
// of two programs; files opened below one descriptor are of one, or gone, and then is_replaced() says to begin again.
//
//   QCG_TRY(directory, ProgramDirectory::open("mlp.qcg"));
//   QCG_TRY(text, directory.read_manifest());
//   QCG_TRY(weights, directory.open_file("weights.bin", bytes));
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "runtime/memory.h"
#include "runtime/program_manifest.h"

namespace qcg {

// What weights.bin ends with: the SHA-256 of all before it, which the manifest names too. So the loader can tell weights of
// another program without reading them.
std::string weights_mark(const std::string& content);

class ProgramDirectory {
 public:
  static Result<ProgramDirectory> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }  // for messages

  Result<OpenedFile> open_file(const std::string& name) const;
  // The same, and its size must be `bytes`.
  Result<OpenedFile> open_file(const std::string& name, int64_t bytes) const;

  // weights.bin, of the size and with the mark that the manifest says.
  Result<OpenedFile> open_weights(const ProgramManifest::File& file) const;

  // manifest.json, whose checksum is that of manifest.sha256.
  Result<std::string> read_manifest() const;
  // Compares every byte of every file with the manifest.
  Status verify(const ProgramManifest& manifest) const;

  // Whether another directory has the name now, or none.
  bool is_replaced() const;

 private:
  ProgramDirectory(FileHandle fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  FileHandle fd_;
  std::string path_;
};

}  // namespace qcg

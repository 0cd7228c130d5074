// ProgramDirectory: an open program directory. All its files are opened through one descriptor.
//
// Why here: `compile -o` may replace the program at any moment. Files opened by path could belong to two programs;
// files opened through one descriptor belong to one, or are gone. Then is_replaced() tells the loader to start again.
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

// The last bytes of weights.bin, with the SHA-256 of all bytes before them. The manifest has the same digest, so the
// loader detects the weights of another program without reading them.
std::string weights_mark(const std::string& content);

class ProgramDirectory {
 public:
  static Result<ProgramDirectory> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }  // for messages

  Result<OpenedFile> open_file(const std::string& name) const;
  // The same. Error BadInput: the file does not have `bytes` bytes.
  Result<OpenedFile> open_file(const std::string& name, int64_t bytes) const;

  // Opens weights.bin. Error BadInput: it does not have the size or the mark of the manifest.
  Result<OpenedFile> open_weights(const ProgramManifest::File& file) const;

  // Reads manifest.json. Error BadInput: it does not have the checksum in manifest.sha256.
  Result<std::string> read_manifest() const;
  // Compares every byte of every file with the manifest.
  Status verify(const ProgramManifest& manifest) const;

  // Whether the path now leads to another directory, or to none.
  bool is_replaced() const;

 private:
  ProgramDirectory(FileHandle fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  FileHandle fd_;
  std::string path_;
};

}  // namespace qcg

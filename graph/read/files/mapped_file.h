// MappedFile: a regular file, read-only in memory, kept alive by whoever holds a view into it.
//
// Why here: weights are gigabytes and must not be copied; graph files are hostile, so what is not a plain file (a FIFO
// that never ends, a device) is refused before the first read.
//
//   QCG_TRY(file, MappedFile::open("model.safetensors"));
//   storage->bytes = file->bytes().subspan(begin, size);
//   storage->owner = file;
//
// Hazard: a file that another process truncates while it is mapped raises SIGBUS on access, as with every mapping. A
// program that calls guard_mapped_files() reads zeros instead and is told so by check_mapped_files().
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace qcg {

class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  MappedFile() = default;
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int guard_ = -1;
};

// Handles SIGBUS from now on: memory that a mapped file lost becomes zeros. What else raises it ends the process, as
// before.
void guard_mapped_files();
bool are_mapped_files_guarded();
// Error Io names a file that was cut off while it was mapped, once: what was made of it is worth nothing.
Status check_mapped_files();

// Private zeroed memory, given by pages on first touch; nullptr when the system has none. Freed with the last holder.
std::shared_ptr<std::byte> map_anonymous(size_t size);

}  // namespace qcg

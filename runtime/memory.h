// Memory and files for the runtime: aligned blocks, mapped files, digests.
//
// Why here: weights, temporaries and kernel modules all need bytes that are owned, aligned, and unchanged once they are
// verified.
//
//   QCG_TRY(block, AlignedBuffer::allocate(1 << 24));          // on huge pages if the system has them
//   QCG_TRY(file, open_program_file("p.qcg/weights.bin"));     // a regular file, and its size
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace qcg {

// A block of memory, aligned to 64 bytes. A block of 2 MiB or more is aligned to 2 MiB and requests huge pages.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  static Result<AlignedBuffer> allocate(int64_t bytes);

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Replaces the block if it is shorter than `bytes`; its contents are then lost.
  Status reserve(int64_t bytes);
  // Sets all bytes to 0. A mapped block returns its memory to the system until it is written again.
  void clear();
  // Write-protects the bytes of mapped blocks; has no effect on smaller blocks.
  void make_read_only();

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  void* mapping_ = nullptr;  // the argument of munmap, if the block is mapped
  size_t mapping_bytes_ = 0;
};

// A read-only private mapping of a whole file.
class MappedWeights {
 public:
  MappedWeights() = default;
  MappedWeights(MappedWeights&& other) noexcept;
  MappedWeights& operator=(MappedWeights&& other) noexcept;
  ~MappedWeights();

  const std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  static Result<MappedWeights> map(int fd, int64_t bytes, const std::string& path);

 private:
  const std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

class FileHandle {
 public:
  explicit FileHandle(int fd = -1) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(other.release()) {}
  FileHandle& operator=(FileHandle&& other) noexcept;
  ~FileHandle();
  int get() const { return fd_; }
  int release();

 private:
  int fd_;
};

struct OpenedFile {
  FileHandle fd;
  int64_t bytes = 0;
};

Result<FileHandle> open_program_directory(const std::string& path);
// Opens a regular file for reading. Anything else (a FIFO, a directory) is an error; the call never blocks.
Result<OpenedFile> open_program_file(const std::string& path);
// The same for a file in an open directory; `path` is only for messages.
Result<OpenedFile> open_program_file(int directory, const std::string& name, const std::string& path);
// Reads the whole file. Error: it now has fewer bytes than when it was opened.
Result<std::string> read_program_file(const OpenedFile& file, const std::string& path);
Result<std::string> read_program_file(const std::string& path);
// Reads out.size() bytes from byte `offset` of the file.
Status read_file_range(int fd, int64_t offset, std::span<std::byte> out, const std::string& path);

// The SHA-256 as 64 lower-case hex digits. If the library fails, the result is empty, which equals no checksum.
std::string digest_hex(std::span<const std::byte> bytes);
std::string hex_digits(std::span<const unsigned char> bytes);

}  // namespace qcg

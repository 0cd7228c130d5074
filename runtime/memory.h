// Memory and files for the runtime: aligned blocks, mapped files, digests.
//
// Why here: weights, temporaries and kernel modules all need bytes that are owned, aligned and, once checked,
// unchanging.
//
//   QCG_TRY(block, AlignedBuffer::allocate(1 << 24));          // huge pages where the system gives them
//   QCG_TRY(file, open_program_file("p.qcg/weights.bin", 4096));   // a regular file of exactly 4096 bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace qcg {

// A block aligned to 64 bytes, to 2 MiB with huge pages asked for when it is at least that long.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  static Result<AlignedBuffer> allocate(int64_t bytes);

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Replaces the block when it is shorter than `bytes`; contents are lost then.
  Status reserve(int64_t bytes);
  // All bytes are 0 afterwards; a mapped block gives its memory back until it is written again.
  void clear();
  // From here on the bytes cannot be written (whole-page blocks only; others ignore it).
  void make_read_only();

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  void* mapping_ = nullptr;  // what munmap gets, when the block is mapped
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
// Opens a regular file for reading; anything else (a FIFO, a directory) is an error and never blocks.
Result<OpenedFile> open_program_file(const std::string& path);
// The same of a file below an open directory; `path` is for messages.
Result<OpenedFile> open_program_file(int directory, const std::string& name, const std::string& path);
// Reads all of it; fewer bytes than it had when opened is an error.
Result<std::string> read_program_file(const OpenedFile& file, const std::string& path);
Result<std::string> read_program_file(const std::string& path);
// Fills `out` from byte `offset` on.
Status read_file_range(int fd, int64_t offset, std::span<std::byte> out, const std::string& path);

// 64 lower-case hex digits, or nothing, which equals no checksum, where the library fails.
std::string digest_hex(std::span<const std::byte> bytes);
std::string hex_digits(std::span<const unsigned char> bytes);

}  // namespace qcg

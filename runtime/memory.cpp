#include "runtime/memory.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace qcg {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

Error io_failure(const std::string& path, const std::string& what) {
  return Error::io(path, what + ": " + std::strerror(errno),
                   "check that the program directory is complete and readable");
}

Error no_memory(int64_t bytes) {
  return Error::io("memory", "cannot allocate " + std::to_string(bytes) + " bytes",
                   "use smaller inputs or free memory");
}

}  // namespace

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
  else std::free(data_);
}

Result<AlignedBuffer> AlignedBuffer::allocate(int64_t bytes) {
  AlignedBuffer block;
  if (bytes < 0 || bytes > INT64_MAX / 2) return no_memory(bytes);
  if (bytes == 0) return block;
  block.bytes_ = bytes;
  const size_t size = static_cast<size_t>(bytes);
  if (size < kHugePage) {
    block.data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, round_up(size, kAlignment)));
    if (block.data_ == nullptr) return no_memory(bytes);
    return block;
  }
  block.mapping_bytes_ = round_up(size, kHugePage) + kHugePage;
  void* mapping = mmap(nullptr, block.mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return no_memory(bytes);
  block.mapping_ = mapping;
  block.data_ = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(mapping), kHugePage));
  madvise(block.data_, round_up(size, kHugePage), MADV_HUGEPAGE);  // may fail: the block is then slower, but correct
  return block;
}

Status AlignedBuffer::reserve(int64_t bytes) {
  if (bytes <= bytes_) return {};
  *this = AlignedBuffer();  // frees the old block first, so that both need not fit into memory
  QCG_TRY(block, allocate(bytes));
  *this = std::move(block);
  return {};
}

void AlignedBuffer::clear() {
  if (bytes_ == 0) return;
  const bool given_back = mapping_ != nullptr && madvise(mapping_, mapping_bytes_, MADV_DONTNEED) == 0;
  if (!given_back) std::memset(data_, 0, static_cast<size_t>(bytes_));
}

void AlignedBuffer::make_read_only() {
  if (mapping_ != nullptr) mprotect(mapping_, mapping_bytes_, PROT_READ);
}

MappedWeights::MappedWeights(MappedWeights&& other) noexcept { *this = std::move(other); }

MappedWeights& MappedWeights::operator=(MappedWeights&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedWeights::~MappedWeights() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), static_cast<size_t>(bytes_));
}

Result<MappedWeights> MappedWeights::map(int fd, int64_t bytes, const std::string& path) {
  MappedWeights file;
  if (bytes == 0) return file;
  const size_t size = static_cast<size_t>(bytes);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return io_failure(path, "cannot map it");
  file.data_ = static_cast<const std::byte*>(data);
  file.bytes_ = bytes;
  madvise(data, size, MADV_HUGEPAGE);  // may fail: some file systems have no huge pages
  madvise(data, size, MADV_WILLNEED);
  return file;
}

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileHandle::~FileHandle() {
  if (fd_ >= 0) close(fd_);
}

int FileHandle::release() { return std::exchange(fd_, -1); }

Result<FileHandle> open_program_directory(const std::string& path) {
  FileHandle fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return io_failure(path, "cannot open it");
  return fd;
}

Result<OpenedFile> open_program_file(const std::string& path) { return open_program_file(AT_FDCWD, path, path); }

Result<OpenedFile> open_program_file(int directory, const std::string& name, const std::string& path) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  OpenedFile file{FileHandle(openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (file.fd.get() < 0) return io_failure(path, "cannot open it");
  struct stat info;
  if (fstat(file.fd.get(), &info) != 0) return io_failure(path, "cannot read its size");
  if (!S_ISREG(info.st_mode))
    return Error::bad_input(path, "is not a regular file", "name a program directory written by `qcodegen compile -o`");
  file.bytes = info.st_size;
  return file;
}

Status read_file_range(int fd, int64_t offset, std::span<std::byte> out, const std::string& path) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = pread(fd, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_failure(path, "cannot read it");
    if (n == 0) return Error::io(path, "ended early", "the file changed while it was read: load it again");
    done += static_cast<size_t>(n);
  }
  return {};
}

Result<std::string> read_program_file(const OpenedFile& file, const std::string& path) {
  std::string text(static_cast<size_t>(file.bytes), '\0');
  QCG_CHECK(read_file_range(file.fd.get(), 0, std::as_writable_bytes(std::span(text)), path));
  return text;
}

Result<std::string> read_program_file(const std::string& path) {
  QCG_TRY(file, open_program_file(path));
  return read_program_file(file, path);
}

std::string digest_hex(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  // An empty result equals no checksum: if the library fails, every file is refused.
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) != 1) return {};
  return hex_digits({digest, length});
}

std::string hex_digits(std::span<const unsigned char> bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  for (unsigned char byte : bytes) {
    hex += kHex[byte >> 4];
    hex += kHex[byte & 15];
  }
  return hex;
}

}  // namespace qcg

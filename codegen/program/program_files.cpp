#include "codegen/program/program_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "cache/store/sha256.h"
#include "codegen/plan/plan.h"
#include "runtime/piece_digests.h"
#include "runtime/program_directory.h"

namespace qcg {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

Status io_error(const std::string& path, const char* what) {
  return Error::io(path, fmt::format("{}: {}", what, std::strerror(errno)),
                   "free some space or write elsewhere with -o");
}

}  // namespace

Result<WeightsFile> WeightsFile::create(const std::string& staging) {
  const std::string path = staging + "/weights.bin";
  FileHandle fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (fd.get() < 0) return io_error(path, "cannot create").error();
  return WeightsFile(std::move(fd), path);
}

WeightsFile::WeightsFile(WeightsFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

WeightsFile::~WeightsFile() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(bytes_));
}

// posix_fallocate: a full disk is an error here, not a SIGBUS while packing.
Status WeightsFile::grow(int64_t bytes) {
  if (bytes <= bytes_) return {};
  const auto size = static_cast<size_t>(bytes);
  const int full = ::posix_fallocate(fd_.get(), 0, static_cast<off_t>(bytes));
  if (full != 0) errno = full;
  void* map = full != 0 ? MAP_FAILED
              : data_   ? ::mremap(data_, static_cast<size_t>(bytes_), size, MREMAP_MAYMOVE)
                        : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (map == MAP_FAILED) return io_error(path_, "cannot reserve");
  data_ = static_cast<std::byte*>(map);
  bytes_ = bytes;
  return {};
}

Status WeightsFile::append(std::string_view content) {
  const int64_t offset = bytes_;
  QCG_CHECK(grow(offset + align_section(std::ssize(content))));
  if (!content.empty()) std::memcpy(data_ + offset, content.data(), content.size());
  return {};
}

Result<json> WeightsFile::end() {
  if (bytes_ == 0) QCG_CHECK(grow(kSectionAlign));
  const int64_t end = bytes_;
  Sha256 hash;
  hash.update({reinterpret_cast<const char*>(data_), static_cast<size_t>(end)});
  const std::string content = hash.so_far(), mark = weights_mark(content);
  QCG_CHECK(grow(end + std::ssize(mark)));
  std::memcpy(data_ + end, mark.data(), mark.size());
  hash.update(mark);
  if (::msync(data_, static_cast<size_t>(bytes_), MS_SYNC) != 0) return io_error(path_, "cannot write").error();
  json out = {{"bytes", bytes_}, {"sha256", hash.finish()}, {"content", content}};
  if (bytes_ > kDigestPiece) out["pieces"] = piece_digests(at(0, bytes_));
  return out;
}

Status write_program_file(const std::string& path, std::string_view bytes) {
  fs::create_directories(fs::path(path).parent_path());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return io_error(path, "cannot create");
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ::close(fd), io_error(path, "cannot write");
    done += static_cast<size_t>(n);
  }
  const bool synced = ::fsync(fd) == 0;
  ::close(fd);
  return synced ? Status() : io_error(path, "cannot sync");
}

Status add_file(const std::string& staging, const std::string& name, const std::string& bytes, json& manifest) {
  manifest["files"][name] = {{"bytes", bytes.size()}, {"sha256", sha256_hex(bytes)}};
  return write_program_file(staging + "/" + name, bytes);
}

Status write_manifest(const std::string& staging, const json& manifest) {
  const std::string text = manifest.dump(1) + "\n";
  QCG_CHECK(write_program_file(staging + "/manifest.json", text));
  return write_program_file(staging + "/manifest.sha256", sha256_hex(text) + "\n");
}

}  // namespace qcg

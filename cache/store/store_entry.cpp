// Entry, and the check of one file. All bytes that leave the cache pass through these functions.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cache/store/store_dir.h"
#include "cache/store/store_state.h"

namespace qcg {

// A record without a hash (the MANIFEST) is only read; its size is then an upper limit.
FileCheck check_file(FileSystem& fs, int dir_fd, const FileRecord& file, bool shared, const ByteSink& sink) {
  // With O_NONBLOCK, a FIFO in place of the file does not block this call.
  OwnedFd fd(fs.open_at(dir_fd, disk_name(file.name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT || errno == ESTALE) return {FileCheck::missing, errno, {}};
    if (errno == ELOOP) return {FileCheck::wrong, 0, "is a symbolic link"};
    return {FileCheck::failed, errno, {}};
  }
  struct stat info;
  if (fs.fstat(fd.get(), &info)) return {FileCheck::failed, errno, {}};
  if (std::string why = refuse_file(info, shared); !why.empty()) return {FileCheck::wrong, 0, why};
  const bool hashed = !file.sha256.empty();
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (hashed ? size != file.size : size > file.size) return {FileCheck::wrong, 0, "has the wrong size"};

  Sha256 hash;
  std::vector<char> buffer(std::clamp<size_t>(size + 1, 1, 1 << 20));
  for (uint64_t total = 0;;) {
    ssize_t n = fs.read(fd.get(), buffer.data(), buffer.size());
    if (n < 0) return {FileCheck::failed, errno, {}};
    if (n == 0) break;
    std::string_view piece(buffer.data(), static_cast<size_t>(n));
    total += piece.size();
    if (total > file.size) return {FileCheck::wrong, 0, "has the wrong size"};
    if (hashed) hash.update(piece);
    if (sink)
      if (int error = sink(piece)) return {FileCheck::failed, error, {}};
  }
  if (hashed && hash.finish() != file.sha256) return {FileCheck::wrong, 0, "does not match its SHA-256"};
  return {};
}

const FileRecord* Entry::record(const std::string& name) const {
  auto found = std::find_if(files_.begin(), files_.end(), [&](const FileRecord& f) { return f.name == name; });
  return found == files_.end() ? nullptr : &*found;
}

std::string Entry::path(const std::string& name) const { return dir_ + "/" + disk_name(name); }

Status Entry::stream(const std::string& name, const std::function<int(std::string_view)>& sink) const {
  const FileRecord* file = record(name);
  if (!file) return Error::cache_corrupt(path(name), "the entry has no such file", "`qcodegen cache verify`");
  FileCheck check;
  if (const auto& held = held_[static_cast<size_t>(file - files_.data())]) {
    if (int error = sink(*held)) check = {FileCheck::failed, error, {}};
  } else {
    OwnedFd dir(fs_->open_at(AT_FDCWD, dir_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    check = dir ? check_file(*fs_, dir.get(), *file, shared_, sink) : FileCheck{FileCheck::missing, errno, {}};
  }
  switch (check.outcome) {
    case FileCheck::good: return {};
    case FileCheck::failed: return io_error(path(name), "cannot be copied out of the cache", check.error);
    case FileCheck::missing: return Error::cache_corrupt(path(name), "has vanished", "compile again");
    case FileCheck::wrong: break;
  }
  return Error::cache_corrupt(path(name), check.reason, "compile again");
}

Result<std::string> Entry::read(const std::string& name) const {
  std::string bytes;
  QCG_CHECK(stream(name, [&](std::string_view piece) { return bytes.append(piece), 0; }));
  return bytes;
}

Status Entry::copy_verified(const std::string& name, const std::string& destination) const {
  const FileRecord* file = record(name);
  const std::string part = destination + ".part";
  ::unlink(part.c_str());
  OwnedFd out(
      fs_->open_at(AT_FDCWD, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file ? file->mode : 0600));
  if (!out) return io_error(part, "cannot be made", errno);
  int error = 0;
  Status copied = stream(name, [&](std::string_view piece) { return error = fs_->write_all(out.get(), piece); });
  if (error) copied = io_error(destination, "cannot be written", error);
  // The file gets its name only when it is complete.
  if (copied.ok() && fs_->rename(part, destination)) copied = io_error(destination, "cannot be put in place", errno);
  if (!copied.ok()) ::unlink(part.c_str());
  return copied;
}

}  // namespace qcg

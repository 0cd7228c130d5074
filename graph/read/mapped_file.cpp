#include "graph/read/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace qcg {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return Error::io(path, std::string("cannot open: ") + std::strerror(errno), "check the path and its permissions");
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return Error::bad_input(path, "not a regular file", "name a file, not a directory, pipe or device");
  }
  std::shared_ptr<MappedFile> file(new MappedFile());
  file->path_ = path;
  file->size_ = static_cast<size_t>(info.st_size);
  void* data = file->size_ == 0 ? nullptr : mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd, 0);
  int error = errno;
  ::close(fd);
  if (data == MAP_FAILED) {
    return Error::io(path, std::string("cannot map: ") + std::strerror(error), "check the memory limit (ulimit -v)");
  }
  file->data_ = static_cast<const std::byte*>(data);
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

std::shared_ptr<std::byte> map_anonymous(size_t size) {
  if (size == 0) size = 1;
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, size, MADV_HUGEPAGE);  // a quarter of the page faults' time; where it is refused nothing is lost
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(data), [size](std::byte* p) { munmap(p, size); });
}

}  // namespace qcg

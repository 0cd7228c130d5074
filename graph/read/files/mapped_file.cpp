#include "graph/read/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

namespace qcg {

namespace {

// What the handler of SIGBUS looks at: no lock, no allocation. A mapping that finds no free row is not guarded.
struct Guarded {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<const char*> path{nullptr};
};
constexpr int kMaxGuarded = 4096;
Guarded g_guarded[kMaxGuarded];
std::atomic<bool> g_installed{false}, g_cut_off{false};
char g_cut_off_path[4096];

void on_bus_error(int, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Guarded& mapping : g_guarded) {
    const uintptr_t begin = mapping.begin, end = mapping.end;
    if (at < begin || at >= end) continue;
    // What follows is cut off, too.
    const uintptr_t page = at & ~static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE) - 1);
    void* zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) break;
    const char* path = mapping.path;
    if (path && !g_cut_off) ::strncpy(g_cut_off_path, path, sizeof g_cut_off_path - 1);
    g_cut_off = true;
    return;
  }
  ::signal(SIGBUS, SIG_DFL);  // and the same access raises it again
}

int guard(const std::byte* data, size_t size, const char* path) {
  for (int i = 0; i < kMaxGuarded; ++i) {
    uintptr_t expected = 0;
    const auto begin = reinterpret_cast<uintptr_t>(data);
    if (!g_guarded[i].begin.compare_exchange_strong(expected, begin)) continue;
    g_guarded[i].path = path;
    g_guarded[i].end = begin + size;
    return i;
  }
  return -1;
}

void unguard(int row) {
  g_guarded[row].end = 0;
  g_guarded[row].path = nullptr;
  g_guarded[row].begin = 0;
}

}  // namespace

void guard_mapped_files() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  g_installed = ::sigaction(SIGBUS, &action, nullptr) == 0;
}

bool are_mapped_files_guarded() { return g_installed; }

Status check_mapped_files() {
  if (!g_cut_off.exchange(false)) return {};
  return Error::io(g_cut_off_path, "was cut off, or could not be read, while it was in use",
                   "try again when nobody writes to it");
}

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
  if (data) file->guard_ = guard(file->data_, file->size_, file->path_.c_str());
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (guard_ >= 0) unguard(guard_);
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

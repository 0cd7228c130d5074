// resolve_output: the path to which a result file is written, and whether it may be replaced by rename. write_output:
// writes such a file.
//
// Why here: graph/ writes tensors, cache/ writes exports, cli/ writes reports. All write a new file and rename it, so
// that no reader sees half a file. But a rename would replace a device, a pipe or a symbolic link by a regular file.
//
//   QCG_CHECK(write_output("out.json", [&](std::FILE* file) { return std::fputs(text, file) >= 0; }));
//
//   const OutputFile out = resolve_output(path);
//   const std::string written = out.in_place ? out.path : temporary_name(out.path);
//   open(written);  …;  if (!out.in_place) rename(written, out.path);
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/result.h"

namespace qcg {

struct OutputFile {
  std::string path;       // with symbolic links resolved
  bool in_place = false;  // the path exists and is not a regular file: write to it directly
};

// A name beside `path` that no other writer of this machine has at the time.
inline std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return path + ".tmp" + std::to_string(::getpid()) + "-" + std::to_string(count++);
}

inline OutputFile resolve_output(const std::string& path) {
  OutputFile out{path, false};
  if (char* real = ::realpath(path.c_str(), nullptr)) {
    out.path = real;
    std::free(real);
  }
  struct stat info {};
  out.in_place = ::stat(out.path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  return out;
}

// `fill` writes the contents and returns false where it cannot. Error Io: the file cannot be created or written; then
// what was there before stays.
template <class Fill>
Status write_output(const std::string& path, const Fill& fill) {
  const OutputFile target = resolve_output(path);
  const std::string written = target.in_place ? target.path : temporary_name(target.path);
  std::FILE* file = std::fopen(written.c_str(), target.in_place ? "wb" : "wbx");
  if (!file)
    return Error::io(path, std::string("cannot create: ") + std::strerror(errno),
                     "check the folder and its permissions");
  bool good = fill(file);
  good = std::fclose(file) == 0 && good;
  good = good && (target.in_place || std::rename(written.c_str(), target.path.c_str()) == 0);
  if (good) return {};
  Error error =
      Error::io(path, std::string("cannot write: ") + std::strerror(errno), "check the free space and the permissions");
  if (!target.in_place) std::remove(written.c_str());
  return error;
}

}  // namespace qcg

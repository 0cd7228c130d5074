// resolve_output: where a result file really goes, and whether it may be put there by rename.
//
// Why here: graph/ writes tensors and cache/ writes exports; both write a file beside the old one and rename, so that no
// reader sees half of it. That would put a regular file in the place of a device or a pipe, and of a symbolic link.
//
//   const OutputFile out = resolve_output(path);
//   open(out.in_place ? out.path : out.path + ".part");  …;  if (!out.in_place) rename(out.path + ".part", out.path);
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <string>

namespace qcg {

struct OutputFile {
  std::string path;       // what a symbolic link leads to
  bool in_place = false;  // it is there and is no regular file: write to it as it is
};

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

}  // namespace qcg

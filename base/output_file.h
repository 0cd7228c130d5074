// resolve_output: the path to which a result file is written, and whether it may be replaced by rename.
//
// Why here: graph/ writes tensors and cache/ writes exports. Both write a new file and rename it, so that no reader
// sees half a file. But a rename would replace a device, a pipe or a symbolic link by a regular file.
//
//   const OutputFile out = resolve_output(path);
//   open(out.in_place ? out.path : out.path + ".part");  …;  if (!out.in_place) rename(out.path + ".part", out.path);
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <string>

namespace qcg {

struct OutputFile {
  std::string path;       // with symbolic links resolved
  bool in_place = false;  // the path exists and is not a regular file: write to it directly
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

// Cubins of kernels for a device: those in the folder $QCG_TEST_CUBINS; the others are compiled, and left there.
//
// Why here: a device may be lent for minutes, in which hundreds of kernels are not to be compiled. A machine without a
// device fills the folder (`device: fill …` in device_test.cpp), and it travels.
//
//   const auto cubins = device_cubins(*tool, sources);   // bytes, in the order of the sources
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cache/store/sha256.h"
#include "tests/cuda/compile_sources.h"

namespace qcg::test {

// Empty: no folder is named.
inline std::string cubin_folder() {
  const char* const folder = std::getenv("QCG_TEST_CUBINS");
  return folder ? folder : "";
}

inline std::string cubin_path(const KernelSource& source) {
  std::string text = source.source + "\n" + std::string(isa_info(source.isa).name);
  for (const SourceFile& header : support_headers(source.isa)) text += "\n" + header.text;
  return cubin_folder() + "/" + sha256_hex(text).substr(0, 32) + ".cubin";
}

inline std::vector<std::string> device_cubins(const Toolchain* tool, const std::vector<KernelSource>& sources) {
  std::vector<std::string> out(sources.size());
  std::vector<KernelSource> missing;
  std::vector<size_t> places;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (std::ifstream file(cubin_path(sources[i]), std::ios::binary); !cubin_folder().empty() && file) {
      std::ostringstream bytes;
      bytes << file.rdbuf();
      out[i] = bytes.str();
    } else {
      missing.push_back(sources[i]), places.push_back(i);
    }
  }
  if (missing.empty()) return out;
  REQUIRE_MESSAGE(tool, "no CUDA compiler for ", missing.size(), " kernels");
  const std::vector<CompileResult> built = compile_sources(*tool, missing, OutputKind::cubin);
  for (size_t i = 0; i < missing.size(); ++i) {
    out[places[i]] = built[i].bytes;
    if (cubin_folder().empty()) continue;
    std::filesystem::create_directories(cubin_folder());
    std::ofstream(cubin_path(missing[i]), std::ios::binary) << built[i].bytes;
  }
  return out;
}

}  // namespace qcg::test

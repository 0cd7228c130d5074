// The files of a program directory in the making: weights.bin, and small files that the manifest lists.
//
// Why here: the writer of programs and combine_methods() write the same kinds of files.
//
//   QCG_TRY(weights, WeightsFile::create(staging));
//   QCG_CHECK(weights.append(bytes));
//   QCG_TRY(described, weights.end());
//   manifest["files"]["weights.bin"] = described;
//   QCG_CHECK(add_file(staging, "kernels/k.so", module, manifest));
//   QCG_CHECK(write_manifest(staging, manifest));
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/memory.h"

namespace qcg {

// weights.bin, mapped for writing.
class WeightsFile {
 public:
  static Result<WeightsFile> create(const std::string& staging);
  WeightsFile(WeightsFile&& other) noexcept;
  WeightsFile& operator=(WeightsFile&&) = delete;
  ~WeightsFile();

  int64_t bytes() const { return bytes_; }
  std::span<std::byte> at(int64_t offset, int64_t bytes) const { return {data_ + offset, static_cast<size_t>(bytes)}; }
  // Makes the file longer; what at() returned is void then. Error Io: the disk is full.
  Status grow(int64_t bytes);
  Status append(std::string_view content);  // a section
  // Marks which content the file has, syncs it, and returns what the manifest says of it.
  Result<nlohmann::json> end();

 private:
  WeightsFile(FileHandle fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  FileHandle fd_;
  std::string path_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

Status write_program_file(const std::string& path, std::string_view bytes);
// Writes a file and lists it in the manifest.
Status add_file(const std::string& staging, const std::string& name, const std::string& bytes,
                nlohmann::json& manifest);
// manifest.json and its checksum.
Status write_manifest(const std::string& staging, const nlohmann::json& manifest);

}  // namespace qcg

// ZipArchive: the entries of a memory-mapped zip file; stored ones are views into the mapping.
//
// Why here: a .pt2 is a zip whose weights are stored, not compressed, and must not be copied. libzip inflates and
// checks CRCs but does not say where an entry's bytes lie, so the central directory (zip64 too) is read here.
//
//   QCG_TRY(zip, ZipArchive::open(file));
//   const ZipEntry* entry = zip.find("graph/models/model.json");
//   QCG_TRY(json, zip.checked_storage(*entry, 64 << 20));   // CRC verified, size limited
//   QCG_TRY(weight, zip.storage(*other));                   // a stored weight is not read until it is used
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/ir/tensor.h"
#include "graph/read/files/mapped_file.h"

namespace qcg {

struct ZipEntry {
  std::string name;
  uint16_t method = 0;  // 0 stored, 8 deflate
  uint16_t flags = 0;
  uint32_t crc = 0;
  uint64_t compressed_size = 0;
  uint64_t size = 0;
  uint64_t header_offset = 0;
  uint64_t index = 0;  // position in the central directory
};

// A view when the entry is stored, inflated memory otherwise (then the CRC is verified in any case).
class ZipArchive {
 public:
  static bool is_zip(std::string_view bytes);
  // name is for messages; owner keeps the bytes alive.
  static Result<ZipArchive> open(std::string_view bytes, std::shared_ptr<const void> owner, std::string name);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(const std::string& name) const;

  // What is unpacked counts against what the archive may unpack to.
  Result<std::shared_ptr<const Storage>> storage(const ZipEntry& entry);
  Result<std::shared_ptr<const Storage>> checked_storage(const ZipEntry& entry, size_t max_bytes);

 private:
  Status read_directory();
  Status refuse_overlaps() const;
  Status find_directory(uint64_t& offset, uint64_t& count) const;
  Result<ZipEntry> read_entry(uint64_t& at) const;
  Result<std::string_view> stored_bytes(const ZipEntry& entry) const;
  Status open_libzip();
  Status unpack(const ZipEntry& entry, std::byte* out) const;  // out has entry.size bytes; null: only verify the CRC
  Status check_size(const ZipEntry& entry) const;
  Error bad(std::string message) const;
  Error bad(const ZipEntry& entry, std::string message, std::string help) const;

  template <class T>
  bool load(uint64_t at, T& value) const;  // little endian; false when it lies outside

  std::string_view bytes_;
  std::shared_ptr<void> libzip_;  // zip_t: the header stays free of zip.h
  std::shared_ptr<const void> owner_;
  std::string name_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string, size_t> by_name_;
  uint64_t inflation_left_ = 0;  // bytes
};

}  // namespace qcg

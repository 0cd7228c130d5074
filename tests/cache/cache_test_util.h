// Small helpers of the cache's tests: a directory that goes away, files, keys from numbers, entries whose bytes follow
// from their key so that a wrong load is recognized.
//
//   TestDir dir;
//   Store store = open_store(dir.path() + "/cache");
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cache/store/store.h"

namespace qcg::testing {

namespace files = std::filesystem;

class TestDir {
 public:
  enum Place { on_disk, in_memory };  // in memory, where thousands of syncs cost nothing, if there is such a place

  explicit TestDir(Place place = on_disk) {
    const bool shm = place == in_memory && ::access("/dev/shm", W_OK) == 0;
    std::string name = (shm ? files::path("/dev/shm") : files::temp_directory_path()) / "qcgtest-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  TestDir(const TestDir&) = delete;
  ~TestDir() {
    std::error_code ignored;
    files::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
}

inline Key key_of(int number) { return KeyBuilder().add("number", std::to_string(number)).finish(); }
inline std::string dump_of(int number) { return "test = entry\nnumber = " + std::to_string(number) + "\n"; }

// Written through a pointer, for tests are not optimized and the torture runs make gigabytes of these.
inline std::string bytes_of(int number, size_t size) {
  std::string out = std::to_string(number) + ":";
  const size_t head = out.size();
  if (size <= head) return out;
  out.resize(size);
  uint32_t state = static_cast<uint32_t>(number) * 2654435761u + 1;
  for (char *at = out.data() + head, *end = out.data() + size; at != end; ++at)
    *at = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  return out;
}

inline std::vector<EntryFile> files_of(int number, size_t size = 150) {
  return {{"kernel.so", bytes_of(number, size), 0700, {}},
          {"src/kernel.cpp", bytes_of(number + 1000000, size / 2), 0600, {}}};
}

// True if the entry holds exactly what files_of(number, size) made.
inline bool is_entry_of(const Entry& entry, int number, size_t size = 150) {
  for (const auto& file : files_of(number, size)) {
    auto bytes = entry.read(file.name);
    if (!bytes.ok() || bytes.value() != file.bytes) return false;
  }
  return entry.key() == key_of(number) && entry.files().size() == 3;
}

inline Store open_store(const std::string& dir, FileSystem* fs = nullptr) {
  auto store = Store::open({.dir = dir, .fs = fs});
  if (!store.ok()) FAIL(store.error().to_string());
  return std::move(store).value();
}

inline void must_publish(Store& store, int number, size_t size = 150) {
  auto entry = store.publish(key_of(number), files_of(number, size), dump_of(number));
  if (!entry.ok()) FAIL(entry.error().to_string());
}

inline size_t count_files(const std::string& dir) {
  size_t count = 0;
  if (files::exists(dir))
    for ([[maybe_unused]] const auto& item : files::directory_iterator(dir)) ++count;
  return count;
}

inline std::string entry_path(const TestDir& dir, int number) {
  const std::string hex = key_of(number).hex;
  return dir.path() + "/v1/" + hex.substr(0, 2) + "/" + hex;
}

inline bool hits(Store& store, int number, size_t size = 150) {
  auto found = store.find(key_of(number));
  REQUIRE(found.ok());
  if (*found) CHECK(is_entry_of(**found, number, size));
  return found->has_value();
}

}  // namespace qcg::testing

// A directory that goes away with its test, and whole files as strings.
//
//   TempDir dir;
//   spit(dir / "a.json", "{}");
//   CHECK(slurp(dir / "a.json") == "{}");
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace qcg::test {

namespace fs = std::filesystem;

inline std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline void spit(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// A directory that goes away with it.
class TempDir {
 public:
  TempDir() : path_((fs::temp_directory_path() / "qcodegen-test-XXXXXX").string()) { REQUIRE(::mkdtemp(path_.data())); }
  ~TempDir() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace qcg::test

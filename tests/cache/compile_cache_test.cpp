// CompileCache: whole compiles, and what weights are known by.
#include "cache/compile_cache.h"

#include "cache_test_util.h"

using namespace qcg;
using namespace qcg::testing;

TEST_CASE("whole compiles come back as they were") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path() + "/c");
  CompileCache cache(store);
  CHECK(!cache.find(key_of(1))->has_value());
  write_text(dir.path() + "/weights", bytes_of(9, 500000));
  std::vector<EntryFile> in = {{"manifest.json", "{}", 0600, {}},
                               {"kernels/k.so", bytes_of(1, 99), 0700, {}},
                               {"weights.bin", {}, 0600, dir.path() + "/weights"}};
  REQUIRE(cache.publish(key_of(1), in, R"({"cores":2})", dump_of(1)).ok());
  auto record = cache.find(key_of(1));
  REQUIRE((record.ok() && record->has_value()));
  CHECK((*record)->guards_json == R"({"cores":2})");
  const std::string out = dir.path() + "/p.qcg";
  REQUIRE((*record)->write_to(out).ok());
  CHECK(read_text(out + "/manifest.json") == "{}");
  CHECK(read_text(out + "/kernels/k.so") == bytes_of(1, 99));
  CHECK(read_text(out + "/weights.bin") == bytes_of(9, 500000));
  must_publish(store, 2);
  CHECK(!cache.find(key_of(2))->has_value());  // an entry, but no compile
}

TEST_CASE("weights are known by their contents, huge ones by samples and their inode") {
  TestDir dir(TestDir::in_memory);
  const std::string a = dir.path() + "/a", b = dir.path() + "/b";
  write_text(a, "weights");
  write_text(b, "weights");
  CHECK(weights_identity(a).value() == weights_identity(b).value());
  write_text(b, "weight5");
  CHECK(weights_identity(a).value() != weights_identity(b).value());
  CHECK(!weights_identity(dir.path() + "/none").ok());
  CHECK(!weights_identity(dir.path()).ok());
  const std::string big = dir.path() + "/big";
  write_text(big, "x");
  files::resize_file(big, uint64_t{300} << 20);
  const std::string before = weights_identity(big).value();
  CHECK(before == weights_identity(big).value());
  {
    std::fstream out(big, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp((300 << 20) - 1);
    out << "y";
  }
  CHECK(before != weights_identity(big).value());
}

// CompileCache: whole compiles.
#include "cache/toolchain/compile_cache.h"

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

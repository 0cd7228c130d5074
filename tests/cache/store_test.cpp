// Store: round trips, the size limit, maintenance, exports.
#include "cache/store/store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <thread>

#include "cache_test_util.h"

using namespace qcg;
using namespace qcg::testing;

TEST_CASE("what is published is found, by this and by another store") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path() + "/deep/er/cache");
  CHECK(!hits(store, 1));
  must_publish(store, 1);
  CHECK(hits(store, 1));
  CHECK(!hits(store, 2));
  Store other = open_store(dir.path() + "/deep/er/cache");
  CHECK(hits(other, 1));
  auto found = other.find(key_of(1));
  REQUIRE(found->has_value());
  const std::string copy = dir.path() + "/copy.so";
  CHECK((*found)->copy_verified("kernel.so", copy).ok());
  CHECK(read_text(copy) == files_of(1)[0].bytes);
  CHECK((files::status(copy).permissions() & files::perms::owner_exec) != files::perms::none);
  CHECK(!(*found)->read("nothing").ok());
  CHECK((*found)->has("src/kernel.cpp"));
  CHECK(count_files(dir.path() + "/deep/er/cache/v1/tmp") == 0);
  struct stat info;
  REQUIRE(::stat((dir.path() + "/deep/er/cache").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
}

TEST_CASE("publishing twice keeps the first entry") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path());
  must_publish(store, 1);
  struct stat before, after;
  REQUIRE(::stat(entry_path(dir, 1).c_str(), &before) == 0);
  must_publish(store, 1);
  REQUIRE(::stat(entry_path(dir, 1).c_str(), &after) == 0);
  CHECK(before.st_ino == after.st_ino);
}

TEST_CASE("a damaged entry in place is replaced by a publish") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path());
  must_publish(store, 1);
  write_text(entry_path(dir, 1) + "/kernel.so", "damaged");
  must_publish(store, 1);
  CHECK(hits(store, 1));
}

TEST_CASE("files too large to hold are verified again when they are read") {
  TestDir dir(TestDir::in_memory);
  auto opened = Store::open({.dir = dir.path(), .hold_bytes = 64});
  REQUIRE(opened.ok());
  Store store = std::move(opened).value();
  const std::string source = dir.path() + "/big";
  write_text(source, bytes_of(7, 3000000));
  std::vector<EntryFile> in = {{"big.bin", {}, 0600, source}, {"small", "s", 0600, {}}};
  REQUIRE(store.publish(key_of(7), in, dump_of(7)).ok());
  auto found = store.find(key_of(7));
  REQUIRE((found.ok() && found->has_value()));
  CHECK((*found)->read("big.bin").value() == bytes_of(7, 3000000));
  CHECK((*found)->copy_verified("big.bin", dir.path() + "/copy").ok());
  CHECK(read_text(dir.path() + "/copy") == bytes_of(7, 3000000));

  std::string changed = bytes_of(7, 3000000);
  changed[2999999] ^= 1;
  write_text((*found)->path("big.bin"), changed);
  auto bytes = (*found)->read("big.bin");
  REQUIRE(!bytes.ok());
  CHECK(bytes.error().code == ErrorCode::CacheCorrupt);
  CHECK(!(*found)->copy_verified("big.bin", dir.path() + "/copy2").ok());
  CHECK(!files::exists(dir.path() + "/copy2"));
  CHECK(!files::exists(dir.path() + "/copy2.part"));
}

TEST_CASE("gc removes the least recently used first, and publish keeps the limit") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path());
  for (int n = 0; n < 6; ++n) {
    must_publish(store, n, 1000);
    timespec times[2] = {{0, UTIME_OMIT}, {1000 + n, 0}};
    REQUIRE(::utimensat(AT_FDCWD, entry_path(dir, n).c_str(), times, 0) == 0);
  }
  CHECK(hits(store, 0, 1000));  // now the most recently used
  auto list = store.list();
  REQUIRE(list.ok());
  REQUIRE(list->size() == 6);
  CHECK(list->front().key == key_of(0));
  CHECK(list->back().key == key_of(1));
  const uint64_t one = list->front().bytes;
  auto result = store.gc(one * 3 + 50);
  REQUIRE(result.ok());
  CHECK(result->removed_entries == 3);
  CHECK(result->kept_entries == 3);
  for (int n = 0; n < 6; ++n) CHECK(hits(store, n, 1000) == (n == 0 || n >= 4));

  must_publish(store, 9, 5000);
  auto without_newest = store.gc(one * 3 + 50);
  REQUIRE(without_newest.ok());
  CHECK(without_newest->removed_entries == 1);
  CHECK(without_newest->kept_entries == 3);

  auto limited = Store::open({.dir = dir.path(), .max_bytes = one * 10});
  REQUIRE(limited.ok());
  for (int n = 10; n < 60; ++n) {
    must_publish(*limited, n, 1000);
    CHECK(limited->stats()->bytes <= one * 10);
  }
  CHECK(hits(*limited, 59, 1000));
}

TEST_CASE("counters outlive the process and survive damage") {
  TestDir dir(TestDir::in_memory);
  {
    Store store = open_store(dir.path());
    must_publish(store, 1);
    for (int i = 0; i < 3; ++i) CHECK(hits(store, 1));
    CHECK(!hits(store, 2));
  }
  {
    Store store = open_store(dir.path());
    CHECK(hits(store, 1));
    auto stats = store.stats();
    REQUIRE(stats.ok());
    CHECK(stats->entries == 1);
    CHECK(stats->hits == 4);
    CHECK(stats->misses == 1);
    CHECK(stats->bytes > 200);
  }
  for (const char* damage : {"", "hits 9", "hits 99999999999999999999999 misses 1 corrupt 1 x\n", "\xff\xff"}) {
    write_text(dir.path() + "/v1/counters", damage);
    Store store = open_store(dir.path());
    CHECK(store.stats()->hits == 0);
    CHECK(hits(store, 1));
  }
  CHECK(open_store(dir.path()).stats()->hits == 1);
}

TEST_CASE("show, verify, clear") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path());
  must_publish(store, 1);
  must_publish(store, 2);
  std::string dump;
  auto info = store.show(key_of(1).hex.substr(0, 12), &dump);
  REQUIRE(info.ok());
  CHECK(info->key == key_of(1));
  CHECK(info->title == "test = entry");
  CHECK(dump == dump_of(1));
  CHECK(!store.show("").ok());
  CHECK(!store.show("zz").ok());
  write_text(entry_path(dir, 2) + "/kernel.so", "damaged");
  auto verified = store.verify_all();
  REQUIRE(verified.ok());
  CHECK(verified->checked == 2);
  CHECK(verified->corrupt == std::vector<std::string>{key_of(2).hex});
  CHECK(store.stats()->entries == 1);
  CHECK(store.clear().ok());
  CHECK(store.stats()->entries == 0);
  CHECK(!hits(store, 1));
}

TEST_CASE("a miss is explained by the nearest entry") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path());
  auto dump = [](const char* flag, const char* source) {
    return std::string("kernel = k\nflag = ") + flag + "\nsource = " + source + "\n";
  };
  REQUIRE(store.publish(key_of(1), files_of(1), dump("-O2", "a")).ok());
  REQUIRE(store.publish(key_of(2), files_of(2), dump("-O2", "b")).ok());
  CHECK(store.explain_miss(dump("-O3", "b")) == std::vector<std::string>{"flag: -O3 was -O2"});
  CHECK(store.explain_miss("kernel = other\n") == std::vector<std::string>{"nothing like it was built before"});
}

TEST_CASE("export and import") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path() + "/a");
  for (int n = 0; n < 5; ++n) must_publish(store, n, 300);
  const std::string file = dir.path() + "/out.qcgcache";
  REQUIRE(store.export_to(file).ok());
  Store other = open_store(dir.path() + "/b");
  auto added = other.import_from(file);
  REQUIRE(added.ok());
  CHECK(*added == 5);
  for (int n = 0; n < 5; ++n) CHECK(hits(other, n, 300));
  std::string dump;
  REQUIRE(other.show(key_of(3).hex, &dump).ok());
  CHECK(dump == dump_of(3));
  CHECK(*other.import_from(file) == 5);

  const std::string whole = read_text(file);
  const std::string bad = dir.path() + "/bad";
  for (size_t size = 0; size < whole.size(); size += 37) {
    CAPTURE(size);
    write_text(bad, whole.substr(0, size));
    auto result = other.import_from(bad);
    REQUIRE(!result.ok());
    CHECK(result.error().code == ErrorCode::BadInput);
  }
  for (size_t at = 0; at < whole.size(); at += 23) {
    CAPTURE(at);
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    write_text(bad, flipped);
    CHECK(!other.import_from(bad).ok());
  }
  write_text(bad, whole + "x");
  CHECK(!other.import_from(bad).ok());
  write_text(bad, "qcg-cache 1\nentry 18446744073709551615\n");
  CHECK(!other.import_from(bad).ok());
  for (int n = 0; n < 5; ++n) CHECK(hits(other, n, 300));
  CHECK(count_files(dir.path() + "/b/v1/tmp") == 0);
}

TEST_CASE("one store may be used from several threads") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        const int n = (i * 7 + t) % 10;
        auto found = store.find(key_of(n));
        if (!found.ok()) ++wrong;
        else if (*found) wrong += !is_entry_of(**found, n);
        else wrong += !store.publish(key_of(n), files_of(n), dump_of(n)).ok();
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(store.stats()->hits + store.stats()->misses == 160);
}

// Store: round trips, what is refused, the size limit, maintenance, exports.
#include "cache/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "cache/compile_cache.h"
#include "cache_test_util.h"

using namespace qcg;
using namespace qcg::testing;

namespace {

std::string entry_path(const TestDir& dir, int number) {
  const std::string hex = key_of(number).hex;
  return dir.path() + "/v1/" + hex.substr(0, 2) + "/" + hex;
}

bool hits(Store& store, int number, size_t size = 150) {
  auto found = store.find(key_of(number));
  REQUIRE(found.ok());
  if (*found) CHECK(is_entry_of(**found, number, size));
  return found->has_value();
}

}  // namespace

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

TEST_CASE("names that would leave the entry are refused") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path() + "/c");
  for (const char* name :
       {"", "..", "../x", "/x", "a/../b", "a//b", "a/", ".", "MANIFEST", "key.txt", "a b", "a%b", "a\nb"}) {
    CAPTURE(name);
    std::vector<EntryFile> in = {{name, "x", 0600, {}}};
    CHECK(!store.publish(key_of(1), in, "").ok());
  }
  std::vector<EntryFile> twice = {{"a", "1", 0600, {}}, {"a", "2", 0600, {}}};
  CHECK(!store.publish(key_of(1), twice, "").ok());
  CHECK(!store.find({"../../etc"}).ok());
  CHECK(!store.publish({std::string(64, '/')}, {}, "").ok());
  CHECK(store.stats()->entries == 0);
}

TEST_CASE("a directory that others can change is refused") {
  TestDir dir(TestDir::in_memory);
  const std::string cache = dir.path() + "/cache";
  auto refused = [&](const std::string& path) {
    auto store = Store::open({.dir = path});
    if (store.ok()) return false;
    CHECK(store.error().code == ErrorCode::Io);
    CHECK(!store.error().help.empty());
    return true;
  };
  CHECK(refused("relative/path"));
  CHECK(refused(""));
  files::create_directory(cache);
  ::chmod(cache.c_str(), 0777);
  CHECK(refused(cache));
  ::chmod(cache.c_str(), 0770);
  CHECK(refused(cache));
  ::chmod(cache.c_str(), 0755);
  CHECK(!refused(cache));
  ::chmod((cache + "/v1").c_str(), 0777);
  CHECK(refused(cache));
  ::chmod((cache + "/v1").c_str(), 0700);
  ::chmod((cache + "/v1/tmp").c_str(), 0707);
  CHECK(refused(cache));
  CHECK(Store::open({.dir = cache, .shared = true}).ok());

  files::create_directory_symlink(cache, dir.path() + "/link");
  CHECK(refused(dir.path() + "/link"));
  files::create_directory(dir.path() + "/open");
  ::chmod((dir.path() + "/open").c_str(), 0777);
  CHECK(refused(dir.path() + "/open/cache"));
  ::chmod((dir.path() + "/open").c_str(), 01777);  // sticky, like /tmp
  CHECK(!refused(dir.path() + "/open/cache"));
  write_text(dir.path() + "/file", "x");
  CHECK(refused(dir.path() + "/file"));
  CHECK(refused(dir.path() + "/file/cache"));
  if (::geteuid() == 0) {
    files::create_directory(dir.path() + "/theirs");
    REQUIRE(::chown((dir.path() + "/theirs").c_str(), 12345, 12345) == 0);
    CHECK(refused(dir.path() + "/theirs"));
    files::create_directory(dir.path() + "/real");
    files::create_directory_symlink(dir.path() + "/real", dir.path() + "/their_link");
    REQUIRE(::lchown((dir.path() + "/their_link").c_str(), 12345, 12345) == 0);
    CHECK(refused(dir.path() + "/their_link/cache"));
  }
}

TEST_CASE("links, pipes and files of others inside an entry are never loaded") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path());
  const std::string outside = dir.path() + "/outside";
  const std::vector<std::pair<const char*, std::function<void(const std::string&)>>> tricks = {
      {"hard link",
       [&](const std::string& f) {
         files::remove(outside);
         files::create_hard_link(f, outside);
       }},
      {"symbolic link",
       [&](const std::string& f) {
         files::copy_file(f, outside, files::copy_options::overwrite_existing);
         files::remove(f);
         files::create_symlink(outside, f);
       }},
      {"pipe",
       [&](const std::string& f) {
         files::remove(f);
         REQUIRE(::mkfifo(f.c_str(), 0600) == 0);
       }},
      {"directory",
       [&](const std::string& f) {
         files::remove(f);
         files::create_directory(f);
       }},
      {"writable by others", [&](const std::string& f) { ::chmod(f.c_str(), 0666); }},
      {"of another user",
       [&](const std::string& f) {
         if (::chown(f.c_str(), 12345, 0)) ::chmod(f.c_str(), 0666);
       }},
  };
  for (const auto& [what, trick] : tricks)
    for (const char* name : {"kernel.so", "MANIFEST", "key.txt"}) {
      CAPTURE(what);
      CAPTURE(name);
      must_publish(store, 1);
      REQUIRE(hits(store, 1));
      trick(entry_path(dir, 1) + "/" + name);
      CHECK(!hits(store, 1));
      auto warnings = store.take_warnings();
      CHECK(!warnings.empty());
    }
  // The entry's directory itself being a link.
  must_publish(store, 1);
  files::rename(entry_path(dir, 1), dir.path() + "/moved");
  files::create_directory_symlink(dir.path() + "/moved", entry_path(dir, 1));
  CHECK(!hits(store, 1));
}

TEST_CASE("every flipped bit and every truncation is detected") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path() + "/c");
  must_publish(store, 1, 40);
  TestDir kept(TestDir::in_memory);
  const std::string path = dir.path() + "/c/v1/" + key_of(1).hex.substr(0, 2) + "/" + key_of(1).hex;
  files::copy(path, kept.path() + "/entry");
  size_t changes = 0;
  auto loads = [&](const std::string& name, const std::string& bytes) {
    files::create_directories(path);
    for (const auto& item : files::directory_iterator(kept.path() + "/entry"))
      files::copy_file(item.path(), path + "/" + item.path().filename().string(),
                       files::copy_options::overwrite_existing);
    write_text(path + "/" + name, bytes);
    ++changes;
    auto found = store.find(key_of(1));
    REQUIRE(found.ok());
    return found->has_value();
  };
  for (const char* name : {"kernel.so", "src%kernel.cpp", "key.txt", "MANIFEST"}) {
    CAPTURE(name);
    const std::string good = read_text(kept.path() + "/entry/" + name);
    REQUIRE(loads(name, good));
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      if (loads(name, bad)) FAIL_CHECK("bit " << bit << " went unnoticed");
    }
    for (size_t size = 0; size < good.size(); ++size)
      if (loads(name, good.substr(0, size))) FAIL_CHECK("truncation to " << size << " went unnoticed");
    CHECK(!loads(name, good + '\0'));
  }
  CHECK(store.stats()->corrupt == changes - 4);
}

TEST_CASE("a missing file, a foreign manifest and another key's entry are not loaded") {
  TestDir dir(TestDir::in_memory);
  Store store = open_store(dir.path());
  for (const char* name : {"kernel.so", "MANIFEST", "key.txt"}) {
    must_publish(store, 1);
    files::remove(entry_path(dir, 1) + "/" + name);
    CHECK(!hits(store, 1));
  }
  must_publish(store, 1);
  must_publish(store, 2);
  files::remove_all(entry_path(dir, 1));
  files::rename(entry_path(dir, 2), entry_path(dir, 1));  // both keys' buckets exist
  CHECK(!hits(store, 1));
  CHECK(!files::exists(entry_path(dir, 1)));
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
  CHECK(store.explain_miss("kernel = other\n").at(0).find("kernel = other") != std::string::npos);
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

TEST_CASE("no cache at all, and a read-only one") {
  Store none = Store::none();
  CHECK(!none.find(key_of(1))->has_value());
  CHECK(!none.publish(key_of(1), files_of(1), "").ok());
  CHECK(none.stats()->entries == 0);
  CHECK(none.clear().ok());
  CHECK(none.gc(0).ok());

  TestDir dir(TestDir::in_memory);
  {
    Store store = open_store(dir.path());
    must_publish(store, 1);
  }
  // A read-only file system, as it looks to the program.
  FileSystem read_only([](FileOp op, const std::string&) {
    return op == FileOp::mkdir || op == FileOp::write || op == FileOp::rename || op == FileOp::remove ||
                   op == FileOp::utime
               ? EROFS
               : 0;
  });
  Store store = open_store(dir.path(), &read_only);
  CHECK(hits(store, 1));
  CHECK(!hits(store, 2));
  auto published = store.publish(key_of(2), files_of(2), "");
  REQUIRE(!published.ok());
  CHECK(published.error().code == ErrorCode::Io);
}

TEST_CASE("a directory without write permission serves what it has") {
  TestDir dir(TestDir::in_memory);
  ::chmod(dir.path().c_str(), 0755);
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {  // root may write anywhere, so be somebody else if we can
    if (::geteuid() == 0 && (::chown(dir.path().c_str(), 65534, 65534) || ::setgid(65534) || ::setuid(65534)))
      ::_exit(9);
    const std::string cache = dir.path() + "/cache";
    {
      auto store = Store::open({.dir = cache});
      if (!store.ok() || !store->publish(key_of(1), files_of(1), dump_of(1)).ok()) ::_exit(1);
    }
    for (const char* part : {"/v1/tmp", "/v1", ""}) ::chmod((cache + part).c_str(), 0500);
    bool good = true;
    if (auto store = Store::open({.dir = cache}); store.ok()) {
      auto found = store->find(key_of(1));
      good = store->read_only() && found.ok() && *found && is_entry_of(**found, 1) &&
             !store->publish(key_of(2), files_of(2), "").ok();
    } else {
      good = false;
    }
    good = good && !Store::open({.dir = cache, .read_only_ok = false}).ok();
    // A place where nothing can be made is an error that names it.
    auto nowhere = Store::open({.dir = cache + "/new"});
    good = good && !nowhere.ok() && nowhere.error().where == cache + "/new";
    for (const char* part : {"", "/v1", "/v1/tmp"}) ::chmod((cache + part).c_str(), 0700);
    ::_exit(good ? 0 : 2);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
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
        if (!found.ok())
          ++wrong;
        else if (*found)
          wrong += !is_entry_of(**found, n);
        else
          wrong += !store.publish(key_of(n), files_of(n), dump_of(n)).ok();
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(store.stats()->hits + store.stats()->misses == 160);
}

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
  CHECK(weights_identity(dir.path()).value().find("1:a sha256 ") != std::string::npos);
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

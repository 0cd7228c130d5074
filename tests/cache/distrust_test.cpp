// Store: what it refuses to write, open or load: names, directories, links, damage, places it may not write to.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/store/store.h"
#include "cache_test_util.h"

using namespace qcg;
using namespace qcg::testing;

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

TEST_CASE("a way to the directory that others can change is refused, also where links lead") {
  TestDir dir(TestDir::in_memory);
  auto refused = [&](const std::string& path) { return !Store::open({.dir = dir.path() + path}).ok(); };
  files::create_directories(dir.path() + "/open/real");
  files::create_directories(dir.path() + "/safe");
  ::chmod((dir.path() + "/open").c_str(), 0777);
  files::create_directory_symlink("open/real", dir.path() + "/into_open");
  files::create_directory_symlink(dir.path() + "/safe", dir.path() + "/open/through");
  files::create_directory_symlink("../open/through", dir.path() + "/safe/through_open");
  files::create_directory_symlink(dir.path() + "/safe", dir.path() + "/good");
  files::create_directory_symlink("round", dir.path() + "/round");
  files::create_directory_symlink("nowhere", dir.path() + "/lost");
  CHECK(refused("/into_open/cache"));
  CHECK(refused("/safe/through_open/cache"));
  CHECK(refused("/round/cache"));
  CHECK(refused("/lost/cache"));
  CHECK(!refused("/good/cache"));
  CHECK(!files::exists(dir.path() + "/open/real/cache"));
  // A ".." behind a link leads out of the folder that the link leads to.
  files::create_directories(dir.path() + "/open/cache");
  ::chmod((dir.path() + "/open/cache").c_str(), 0700);
  CHECK(refused("/into_open/../cache"));
  CHECK(!files::exists(dir.path() + "/cache"));
  files::create_directories(dir.path() + "/deep/er");
  files::create_directory_symlink("deep/er", dir.path() + "/down");
  auto behind = Store::open({.dir = dir.path() + "/down/../kept//./"});
  REQUIRE(behind.ok());
  CHECK(!behind->read_only());
  CHECK(files::exists(dir.path() + "/deep/kept/v1/tmp"));
  CHECK(!files::exists(dir.path() + "/kept"));
  if (::geteuid() != 0) return;
  files::create_directories(dir.path() + "/theirs/cache");
  REQUIRE(::chown((dir.path() + "/theirs").c_str(), 12345, 12345) == 0);
  CHECK(refused("/theirs/cache"));
  CHECK(Store::open({.dir = dir.path() + "/theirs/cache", .shared = true}).ok());
}

TEST_CASE("a bucket or an entry that is a link or another user's is neither read nor removed") {
  for (const std::string part : {"bucket", "entry"})
    for (const std::string trick : {"link", "owner", "mode"}) {
      CAPTURE(part);
      CAPTURE(trick);
      TestDir dir(TestDir::in_memory);
      Store store = open_store(dir.path());
      must_publish(store, 1);
      const std::string entry = entry_path(dir, 1), bucket = files::path(entry).parent_path();
      const std::string path = part == "bucket" ? bucket : entry, outside = dir.path() + "/outside";
      if (trick == "link") {
        files::rename(path, outside);
        files::create_directory_symlink(outside, path);
      } else if (trick == "mode" || ::chown(path.c_str(), 12345, 12345) != 0) {
        ::chmod(path.c_str(), 0777);
      }
      const size_t before = count_files(trick == "link" ? outside : path);
      CHECK(!hits(store, 1));
      if (trick == "link" && part == "entry") continue;  // a link is no entry: it goes, what it leads to stays
      CHECK(!store.publish(key_of(1), files_of(1), dump_of(1)).ok());
      CHECK(!hits(store, 1));
      if (part == "bucket") {
        CHECK(store.gc(0).ok());
        CHECK(store.clear().ok());
      }
      CHECK(count_files(trick == "link" ? outside : path) == before);
      CHECK(!store.take_warnings().empty());
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

// Faults: the Nth system call fails, or the process dies at it, for every N. Afterwards nothing wrong is ever loaded,
// what was good is still there, and the store goes on working.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/store/scratch.h"
#include "cache_test_util.h"

using namespace qcg;
using namespace qcg::testing;

namespace {

constexpr int kMaxCalls = 2000;

// Fails call number `at` with `error`; with `for_good` all later ones of that kind too, as on a full disk.
struct Fault {
  int at = 0;
  int error = 0;
  bool for_good = false;
  int calls = 0;
  std::optional<FileOp> kind;

  FileSystem file_system() {
    return FileSystem([this](FileOp op, const std::string&) {
      if (++calls < at) return 0;
      if (calls == at) kind = op;
      return calls == at || (for_good && kind == op) ? error : 0;
    });
  }
  bool reached() const { return calls >= at; }
};

// True if the entry is there; fails the test if it is there and wrong.
bool check_entry(const std::string& dir, int number) {
  Store store = open_store(dir);
  auto found = store.find(key_of(number));
  REQUIRE(found.ok());
  if (!*found) return false;
  CHECK(is_entry_of(**found, number));
  return true;
}

// Runs `action` on a store that holds entry 1, with a fault at call N, for every N and error.
template <class Action>
void try_every_fault(Action action, bool entry_1_stays, const std::vector<int>& errors) {
  for (int error : errors) {
    for (bool for_good : {false, true}) {
      if (for_good && error == EMFILE) continue;  // descriptors come back
      TestDir dir(TestDir::in_memory);
      {
        Store store = open_store(dir.path());
        must_publish(store, 1);
      }
      int at = 1;
      for (; at < kMaxCalls; ++at) {
        CAPTURE(error);
        CAPTURE(for_good);
        CAPTURE(at);
        Fault fault{.at = at, .error = error, .for_good = for_good};
        FileSystem fs = fault.file_system();
        {
          auto store = Store::open({.dir = dir.path(), .fs = &fs});
          if (store.ok()) action(*store);
          else CHECK(store.error().code == ErrorCode::Io);
        }
        const bool there = check_entry(dir.path(), 1);
        const bool published = check_entry(dir.path(), 2);
        if (entry_1_stays) CHECK(there);
        Store store = open_store(dir.path());
        CHECK(count_files(dir.path() + "/v1/tmp") == 0);  // whatever the fault left was cleaned up
        if (published) REQUIRE(store.clear().ok());
        if (published || !there) must_publish(store, 1);
        if (!fault.reached()) break;
      }
      CHECK(at < kMaxCalls);
      CHECK(at > 5);
    }
  }
}

}  // namespace

TEST_CASE("publish with every call failing once") {
  try_every_fault(
      [](Store& store) {
        auto published = store.publish(key_of(2), files_of(2), dump_of(2));
        if (published.ok()) CHECK(is_entry_of(*published, 2));
        else CHECK(published.error().code == ErrorCode::Io);
      },
      true, {ENOSPC, EIO, EMFILE, EROFS, EACCES});
}

TEST_CASE("find with every call failing once: a failing disk is a miss, and no reason to remove") {
  try_every_fault(
      [](Store& store) {
        auto found = store.find(key_of(1));
        REQUIRE(found.ok());
        if (*found) CHECK(is_entry_of(**found, 1));
      },
      true, {ENOSPC, EIO, EMFILE, EROFS, EACCES});
}

TEST_CASE("gc, export and import with every call failing once") {
  TestDir outside(TestDir::in_memory);
  const std::string file = outside.path() + "/export";
  try_every_fault(
      [&](Store& store) {
        files::remove(file);
        if (store.export_to(file).ok()) {
          TestDir other(TestDir::in_memory);
          Store target = open_store(other.path());
          auto added = target.import_from(file);
          CHECK(added.ok());
        } else {
          CHECK(!files::exists(file));
        }
        (void)store.import_from(file);
        (void)store.gc(0);
      },
      false, {ENOSPC});
}

TEST_CASE("gc keeps an entry that cannot be read just now, and removes one that is damaged") {
  for (const int error : {EMFILE, EIO, EACCES, ENOENT}) {
    CAPTURE(error);
    TestDir dir(TestDir::in_memory);
    {
      Store store = open_store(dir.path());
      for (int n = 0; n < 2; ++n) must_publish(store, n);
    }
    bool fails = true;
    FileSystem fs([&](FileOp op, const std::string& path) {
      return fails && op == FileOp::open && path == entry_path(dir, 1) + "/MANIFEST" ? error : 0;
    });
    auto store = Store::open({.dir = dir.path(), .fs = &fs});
    REQUIRE(store.ok());
    const auto result = store->gc(1 << 30);
    REQUIRE(result.ok());
    const bool is_damaged = error == ENOENT;
    CHECK(result->removed_entries == (is_damaged ? 1 : 0));
    CHECK(result->kept_entries == (is_damaged ? 1 : 2));
    CHECK(store->take_warnings().size() == (is_damaged ? 0 : 1));
    fails = false;
    CHECK(hits(*store, 0));
    CHECK(hits(*store, 1) == !is_damaged);
  }
}

TEST_CASE("two exports to one file: the last one stays, and both are whole") {
  TestDir dir(TestDir::in_memory);
  {
    Store store = open_store(dir.path() + "/a");
    must_publish(store, 1);
  }
  Store other = open_store(dir.path() + "/b");
  for (int n = 2; n < 4; ++n) must_publish(other, n);
  files::create_directory(dir.path() + "/out");
  const std::string file = dir.path() + "/out/export";
  bool among = true;
  FileSystem fs([&](FileOp op, const std::string& path) {
    if (op == FileOp::rename && path.starts_with(file) && std::exchange(among, false))
      CHECK(other.export_to(file).ok());
    return 0;
  });
  auto store = Store::open({.dir = dir.path() + "/a", .fs = &fs});
  REQUIRE(store.ok());
  CHECK(store->export_to(file).ok());
  CHECK(!among);
  CHECK(*open_store(dir.path() + "/c").import_from(file) == 1);
  CHECK(count_files(dir.path() + "/out") == 1);
}

TEST_CASE("a read that fails is an error, never other bytes") {
  TestDir dir(TestDir::in_memory);
  {
    Store store = open_store(dir.path());
    must_publish(store, 1);
  }
  for (int at = 1; at < kMaxCalls; ++at) {
    Fault fault{.at = at, .error = EIO};
    FileSystem fs = fault.file_system();
    auto store = Store::open({.dir = dir.path(), .hold_bytes = 10, .fs = &fs});
    if (!store.ok()) continue;
    auto found = store->find(key_of(1));
    if (found.ok() && *found) {
      auto bytes = (*found)->read("kernel.so");
      if (bytes.ok()) CHECK(*bytes == files_of(1)[0].bytes);
      const std::string copy = dir.path() + "/copy";
      files::remove(copy);
      if ((*found)->copy_verified("kernel.so", copy).ok()) CHECK(read_text(copy) == files_of(1)[0].bytes);
      else CHECK(!files::exists(copy));
    }
    if (!fault.reached()) return;
  }
  FAIL("the fault was always reached");
}

TEST_CASE("killed at every call: what was published is whole or absent, and nothing is left behind") {
  TestDir dir(TestDir::in_memory);
  int at = 1;
  for (; at < kMaxCalls; ++at) {
    CAPTURE(at);
    pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      int calls = 0;
      FileSystem fs([&](FileOp, const std::string&) {
        if (++calls == at) ::kill(::getpid(), SIGKILL);
        return 0;
      });
      auto store = Store::open({.dir = dir.path(), .fs = &fs});
      bool good = store.ok() && store->publish(key_of(1), files_of(1), dump_of(1)).ok() && store->gc(0).ok() &&
                  store->publish(key_of(2), files_of(2), dump_of(2)).ok();
      ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    check_entry(dir.path(), 1);
    check_entry(dir.path(), 2);
    Store store = open_store(dir.path());
    CHECK(count_files(dir.path() + "/v1/tmp") == 0);
    auto stats = store.stats();
    REQUIRE(stats.ok());
    CHECK(stats->corrupt == 0);
    must_publish(store, 1);
    REQUIRE(store.clear().ok());
    if (WIFEXITED(status)) {
      CHECK(WEXITSTATUS(status) == 0);
      break;
    }
  }
  CHECK(at > 60);
  CHECK(at < kMaxCalls);
}

TEST_CASE("a scratch directory lives as long as its owner and no longer") {
  TestDir dir(TestDir::in_memory);
  std::string path;
  {
    auto scratch = ScratchDir::create(dir.path());
    REQUIRE(scratch.ok());
    path = scratch->path();
    write_text(path + "/x", "x");
    CHECK(remove_stale_scratch(dir.path()) == 0);
    CHECK(files::exists(path + "/x"));
    CHECK((files::status(path).permissions() & files::perms::all) == files::perms::owner_all);
  }
  CHECK(count_files(dir.path()) == 0);
  pid_t pid = ::fork();
  if (pid == 0) {
    auto scratch = ScratchDir::create(dir.path());
    ::_exit(scratch.ok() ? 0 : 1);  // no destructor
  }
  ::waitpid(pid, nullptr, 0);
  CHECK(count_files(dir.path()) == 2);
  CHECK(remove_stale_scratch(dir.path()) == 1);
  CHECK(count_files(dir.path()) == 0);
}

namespace {

// A folder whose loss would be a loss.
std::string make_precious(const TestDir& dir) {
  const std::string path = dir.path() + "/precious";
  files::create_directories(path + "/deep");
  for (const char* name : {"/a", "/b", "/deep/c"}) write_text(path + name, "precious");
  return path;
}

bool is_whole(const std::string& precious) {
  return read_text(precious + "/a") == "precious" && read_text(precious + "/b") == "precious" &&
         read_text(precious + "/deep/c") == "precious";
}

}  // namespace

TEST_CASE(
    "a directory that is swapped for a link or another directory while it is removed takes nothing else with it") {
  for (const bool with_link : {true, false})
    for (int at = 1; at < 60; ++at) {
      CAPTURE(with_link);
      CAPTURE(at);
      TestDir dir(TestDir::in_memory);
      const std::string precious = make_precious(dir), tree = dir.path() + "/tree", victim = tree + "/sub";
      files::create_directories(victim + "/more");
      write_text(victim + "/x", "x");
      int calls = 0;
      FileSystem fs([&](FileOp, const std::string&) {
        if (++calls != at || !files::exists(victim)) return 0;
        files::rename(victim, dir.path() + "/away");
        if (with_link) files::create_directory_symlink(precious, victim);
        return 0;
      });
      (void)fs.remove_tree(tree);
      CHECK(is_whole(precious));
      if (calls < at) break;
    }
}

TEST_CASE("a cleaner removes the directory that was made, not what has its name now") {
  TestDir dir(TestDir::in_memory);
  for (const std::string trick : {"link", "directory", "lock is a link", "lock of another", "empty lock"}) {
    CAPTURE(trick);
    const std::string precious = make_precious(dir), root = dir.path() + "/tmp";
    files::remove_all(root);
    files::create_directory(root);
    const pid_t pid = ::fork();
    if (pid == 0) {
      auto scratch = ScratchDir::create(root);
      if (scratch.ok()) write_text(scratch->path() + "/x", "x");
      ::_exit(0);  // no destructor
    }
    ::waitpid(pid, nullptr, 0);
    std::string path;
    for (const auto& item : files::directory_iterator(root))
      if (item.is_directory()) path = item.path();
    REQUIRE(!path.empty());
    files::remove_all(path);
    if (trick == "link") files::create_directory_symlink(precious, path);
    else files::rename(precious, path);
    if (trick == "lock is a link") {
      files::rename(path + ".lock", root + "/lock");
      files::create_symlink(root + "/lock", path + ".lock");
    }
    if (trick == "lock of another" && ::chown((path + ".lock").c_str(), 12345, 12345) != 0)
      write_text(path + ".lock", "of another");
    if (trick == "empty lock") write_text(path + ".lock", "");
    CHECK(remove_stale_scratch(root) == 0);
    CHECK(is_whole(path));
    files::remove_all(precious);
  }
}

TEST_CASE("a scratch directory that was exchanged under its owner is left alone") {
  TestDir dir(TestDir::in_memory);
  const std::string precious = make_precious(dir);
  std::string path;
  {
    auto scratch = ScratchDir::create(dir.path());
    REQUIRE(scratch.ok());
    path = scratch->path();
    files::rename(path, dir.path() + "/away");
    files::rename(precious, path);
  }
  CHECK(is_whole(path));
}

TEST_CASE("a directory of another user is not entered, unless all are trusted") {
  if (::geteuid() != 0) return;
  TestDir dir(TestDir::in_memory);
  const std::string precious = make_precious(dir), tree = dir.path() + "/tree";
  files::create_directory(tree);
  files::rename(precious, tree + "/theirs");
  REQUIRE(::chown((tree + "/theirs").c_str(), 12345, 12345) == 0);
  CHECK(real_file_system().remove_tree(tree) == EPERM);
  CHECK(is_whole(tree + "/theirs"));
  CHECK(real_file_system().remove_tree(tree, {.any_owner = true}) == 0);
  CHECK(!files::exists(tree));
}

TEST_CASE("a cache without room says so, once") {
  TestDir dir(TestDir::in_memory);
  FileSystem full([](FileOp op, const std::string&) { return op == FileOp::write ? ENOSPC : 0; });
  Store store = open_store(dir.path(), &full);
  for (int number = 0; number < 3; ++number)
    CHECK(!store.publish(key_of(number), files_of(number), dump_of(number)).ok());
  const auto warnings = store.take_warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("No space left on device") != std::string::npos);
  CHECK(warnings[0].find("qcodegen cache gc") != std::string::npos);
}

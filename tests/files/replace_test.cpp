// Programs that are replaced: what may be replaced at all, and compiles that publish to one place at one time.
#include <fcntl.h>
#include <signal.h>

#include <set>

#include "cache/store/store.h"
#include "codegen/program/combine.h"
#include "codegen/program/staging.h"
#include "tests/files/compile_files.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::set<std::string> tree_of(const fs::path& path) {
  std::set<std::string> out;
  for (const auto& item : fs::recursive_directory_iterator(path)) out.insert(item.path().string());
  return out;
}

// Two compiles publish to one place; then each is asked of the cache.
void compile_to_one_place(int rounds) {
  const Workplace place;
  place.write_weights("warm.safetensors", 1000);
  REQUIRE(place.compile("warm.safetensors", "warm.qcg").ok());
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const float values[] = {static_cast<float>(2 * round + 1), static_cast<float>(2 * round + 2)};
    const std::string weights[] = {"a.safetensors", "b.safetensors"};
    pid_t compiles[2];
    for (int i = 0; i < 2; ++i) {
      place.write_weights(weights[i], values[i]);
      compiles[i] = in_child([&] { return place.compile(weights[i], "p.qcg").ok() ? 0 : 1; });
      ::usleep(static_cast<useconds_t>(round * 37 % 11 * 500));
    }
    for (const pid_t pid : compiles) CHECK(status_of(pid) == 0);
    const float published = value_of(place / "p.qcg");
    CHECK((published == values[0] || published == values[1]));
    for (int i = 0; i < 2; ++i) {
      fs::remove_all(place / "again.qcg");
      const auto again = place.compile(weights[i], "again.qcg");
      REQUIRE_MESSAGE(again.ok(), again.error().to_string());
      CHECK(value_of(place / "again.qcg") == values[i]);
    }
  }
}

}  // namespace

TEST_CASE("two compiles to one place leave one program, and each its own in the cache") { compile_to_one_place(12); }

TEST_CASE("stress: two compiles to one place, 250 times" * doctest::skip()) { compile_to_one_place(250); }

TEST_CASE("a program in the cache whose parts do not belong together is made anew") {
  const Workplace place;
  place.write_weights("a.safetensors", 1);
  place.write_weights("b.safetensors", 2);
  REQUIRE(place.compile("a.safetensors", "a.qcg").ok());
  REQUIRE(place.compile("b.safetensors", "b.qcg").ok());
  auto store = Store::open({.dir = place / "cache"});
  REQUIRE(store.ok());
  Key keys[2];  // of the two compiles
  const auto listed = store->list();
  REQUIRE(listed.ok());
  for (const EntryInfo& info : *listed) {
    const auto entry = store->find(info.key);
    REQUIRE((entry.ok() && *entry));
    if (!(*entry)->has("guards.json")) continue;
    keys[(*entry)->read("files/manifest.json").value() == slurp(place / "a.qcg/manifest.json") ? 0 : 1] = info.key;
  }
  // Entries that are sound by themselves, under the key of the first and with one part of the second.
  const std::vector<std::string> manifest = {"files/manifest.json", "files/manifest.sha256"}, guards = {"guards.json"};
  for (const auto& foreign : {manifest, guards}) {
    CAPTURE(foreign[0]);
    const auto a = store->find(keys[0]), b = store->find(keys[1]);
    REQUIRE((a.ok() && *a && b.ok() && *b));
    std::vector<EntryFile> files;
    for (const FileRecord& file : (*a)->files()) {
      const bool other = std::find(foreign.begin(), foreign.end(), file.name) != foreign.end();
      if (file.name != "key.txt") files.push_back({file.name, (other ? **b : **a).read(file.name).value(), 0600, {}});
    }
    REQUIRE(store->remove(keys[0]).ok());
    REQUIRE(store->publish(keys[0], files, "").ok());
    for (int again = 0; again < 2; ++again) {
      fs::remove_all(place / "again");
      fs::create_directory(place / "again");
      REQUIRE(place.compile("a.safetensors", "again/a.qcg").ok());
      CHECK(value_of(place / "again/a.qcg") == 1);
    }
    const auto repaired = store->find(keys[0]);
    REQUIRE((repaired.ok() && *repaired));
    CHECK((*repaired)->read("files/manifest.json").value() == slurp(place / "again/a.qcg/manifest.json"));
  }
}

TEST_CASE("only a program in every part is replaced") {
  const Workplace place;
  place.write_weights("a.safetensors", 1);
  place.write_weights("b.safetensors", 2);
  REQUIRE(place.compile("a.safetensors", "p.qcg").ok());

  auto refused = [&](const std::string& name) {
    const auto before = tree_of(place / name);
    const auto compiled = place.compile("b.safetensors", name);
    REQUIRE(!compiled.ok());
    CHECK(compiled.error().code == ErrorCode::Io);
    CHECK(compiled.error().where.starts_with(place / name));
    CHECK(compiled.error().help.find("-o") != std::string::npos);
    CHECK(tree_of(place / name) == before);
  };
  SUBCASE("a web application has a manifest.json, too") {
    fs::create_directories(place / "site/assets");
    spit(place / "site/manifest.json", R"({"name": "site", "icons": [], "files": {}})");
    spit(place / "site/index.html", "<html>");
    refused("site");
  }
  SUBCASE("a manifest.json that is no JSON, or none that anybody could read") {
    fs::create_directories(place / "broken");
    spit(place / "broken/manifest.json", "{");
    refused("broken");
    fs::remove(place / "broken/manifest.json");
    fs::create_directories(place / "broken/manifest.json");
    refused("broken");
  }
  SUBCASE("somebody's notes in a program") {
    for (const std::string note : {"notes.txt", "sources/mine.cpp", "kernels/.keep", "weights.bin.bak"}) {
      spit(place / ("p.qcg/" + note), "mine");
      refused("p.qcg");
      CHECK(slurp(place / ("p.qcg/" + note)) == "mine");
      fs::remove(place / ("p.qcg/" + note));
    }
    fs::create_directory_symlink("/etc", place / "p.qcg/etc");
    refused("p.qcg");
  }
  SUBCASE("a program that lost files, or whose files changed, goes") {
    fs::remove(place / "p.qcg/weights.bin");
    spit(place / "p.qcg/tune.jsonl", "changed");
    REQUIRE(place.compile("b.safetensors", "p.qcg").ok());
    CHECK(value_of(place / "p.qcg") == 2);
  }
  SUBCASE("a program of a later version goes") {
    std::string text = slurp(place / "p.qcg/manifest.json");
    text.replace(text.find("\"version\": 1"), 12, "\"version\": 9");
    spit(place / "p.qcg/manifest.json", text);
    REQUIRE(place.compile("b.safetensors", "p.qcg").ok());
    CHECK(value_of(place / "p.qcg") == 2);
  }
  SUBCASE("a link stays one, the program goes where it leads") {
    fs::create_symlink("p.qcg", place / "latest.qcg");
    REQUIRE(place.compile("b.safetensors", "latest.qcg").ok());
    CHECK(fs::is_symlink(place / "latest.qcg"));
    CHECK(value_of(place / "p.qcg") == 2);
  }
}

TEST_CASE("methods with names that no program may have take no program's place") {
  const Workplace place;
  place.write_weights("a.safetensors", 1);
  for (const char* name : {"a.qcg", "good.qcg"}) REQUIRE(place.compile("a.safetensors", name).ok());
  const std::string part = place / "a.qcg", output = place / "good.qcg";
  const auto before = tree_of(place / "");
  for (const std::string& name : {std::string("../escaped"), std::string(), std::string("a b"), std::string(65, 'x')}) {
    CAPTURE(name);
    const std::vector<MethodProgram> methods = {{"first", part}, {name, part}};
    const auto report = combine_methods(methods, output);
    REQUIRE(!report.ok());
    CHECK(report.error().code == ErrorCode::BadInput);
    CHECK(report.error().to_string().find("'" + name + "'") != std::string::npos);
  }
  const std::vector<MethodProgram> twice = {{"one", part}, {"two", part}, {"one", part}};
  const auto report = combine_methods(twice, output);
  REQUIRE(!report.ok());
  CHECK(report.error().to_string().find("two methods") != std::string::npos);
  for (const auto& nothing : {combine_methods({}, output), combine_targets({}, output)}) {
    REQUIRE(!nothing.ok());
    CHECK(nothing.error().code == ErrorCode::Usage);
  }
  CHECK(tree_of(place / "") == before);
  CHECK(value_of(output) == 1);
}

TEST_CASE("what takes the program's place between the last look and the exchange is put back") {
  const Workplace place;
  place.write_weights("a.safetensors", 1);
  REQUIRE(place.compile("a.safetensors", "p.qcg").ok());
  // A process that keeps putting its own folder there and the program back.
  fs::create_directories(place / "other");
  spit(place / "other/precious", "precious");
  const std::string target = place / "p.qcg", other = place / "other";
  const pid_t swapper = in_child([&] {
    for (;;)
      if (::renameat2(AT_FDCWD, target.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) != 0) return 1;
  });
  for (int round = 0; round < 100; ++round) {
    auto staging = StagingDir::create(target);
    REQUIRE(staging.ok());
    spit(staging->path() + "/manifest.json", R"({"format": "qcodegen-program", "files": {}})");
    (void)staging->publish();
  }
  ::kill(swapper, SIGKILL);
  (void)status_of(swapper);
  CHECK((slurp(place / "other/precious") == "precious" || slurp(place / "p.qcg/precious") == "precious"));
}

TEST_CASE("what a killed compile left goes with the next one into the folder; what merely looks like it stays") {
  const Workplace place;
  place.write_weights("a.safetensors", 1);
  auto entries = [&] {
    size_t count = 0;
    for ([[maybe_unused]] const auto& item : fs::directory_iterator(place / ".")) ++count;
    return count;
  };
  // Of others: names like ours without our mark, or with a mark that means another directory.
  for (const char* name : {"p.qcg.tmp-backup", "qcg-12-backup", "qcg-1-0123456789abcdef", "qcg-2-0123456789abcdef"}) {
    fs::create_directories(place / name);
    spit(place / (std::string(name) + "/precious"), "precious");
  }
  spit(place / "qcg-12-backup.lock", "somebody's lock");
  spit(place / "qcg-1-0123456789abcdef.lock", "");
  spit(place / "qcg-2-0123456789abcdef.lock", "qcodegen scratch\ndirectory 1\n");
  const size_t before = entries();

  const int killed = status_of(in_child([&] {
    auto staging = StagingDir::create(place / "p.qcg");
    if (!staging.ok()) return 1;
    spit(staging->path() + "/weights.bin", "left behind");
    ::kill(::getpid(), SIGKILL);
    return 2;
  }));
  CHECK(killed == 1000 + SIGKILL);
  CHECK(entries() == before + 2);
  auto living = StagingDir::create(place / "q.qcg");
  REQUIRE(living.ok());
  CHECK(entries() == before + 2);  // that of the killed one went, the new one's came
  REQUIRE(place.compile("a.safetensors", "p.qcg").ok());
  CHECK(fs::exists(living->path()));
  CHECK(entries() == before + 2 + 2);  // the program and the cache
  for (const char* name : {"p.qcg.tmp-backup", "qcg-12-backup", "qcg-1-0123456789abcdef", "qcg-2-0123456789abcdef"})
    CHECK(slurp(place / (std::string(name) + "/precious")) == "precious");
}

// The cache of a team, from the command line: two homes and a real redis-server.
#include <sys/stat.h>

#include "tests/cli_runner.h"
#include "tests/redis_server.h"

using namespace qcg::test;

namespace {

// One kernel, since these tests compile it twenty times.
constexpr const char* kSharedGraph = R"({"format": "qcodegen", "version": 1,
  "inputs": [{"name": "x", "dtype": "f32", "shape": [4, 32]}],
  "parameters": [{"name": "w", "dtype": "f32", "shape": [16, 32]}, {"name": "b", "dtype": "f32", "shape": [16]}],
  "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w", "bias": "b"}, "outputs": ["h"]},
            {"op": "silu", "inputs": {"self": "h"}, "outputs": ["y"]}], "outputs": ["y"]})";

// A member of the team: a home with an empty cache.
struct Home {
  TempDir dir;
  std::string server, key_file = dir / "team.key";

  explicit Home(std::string url, const std::string& key = "a key that all members of the team have")
      : server(std::move(url)) {
    spit(dir / "graph.json", kSharedGraph);
    spit(key_file, key);
    ::chmod(key_file.c_str(), 0600);
  }
  Run compile(std::vector<std::string> more = {}) const {
    ::setenv("QCG_REMOTE_CACHE_KEY_FILE", key_file.c_str(), 1);
    std::vector<std::string> words = {"compile", dir / "graph.json", "--weights",   "random:1",    "--tune=off",
                                      "-o",      dir / "p.qcg",      "--cache-dir", dir / "cache", "--remote-cache",
                                      server};
    words.insert(words.end(), more.begin(), more.end());
    const Run run = qcodegen(words);
    ::unsetenv("QCG_REMOTE_CACHE_KEY_FILE");
    return run;
  }
  nlohmann::json compile_json(std::vector<std::string> more = {}) const {
    more.push_back("--json");
    const Run run = compile(more);
    REQUIRE_MESSAGE(run.status == 0, run.err);
    return run.json();
  }
  bool is_right() const {
    const Run checked = qcodegen({"check", dir / "p.qcg"});
    INFO(checked.out, checked.err);
    return checked.status == 0;
  }
};

int count_warnings(const nlohmann::json& report) {
  int count = 0;
  for (const std::string text : report["warnings"]) count += text.find("the shared cache") != text.npos;
  return count;
}

size_t count_lookups(const nlohmann::json& report, const std::string& kind, const std::string& source) {
  size_t count = 0;
  for (const auto& l : report["lookups"]) count += l["kind"] == kind && l["source"] == source;
  return count;
}

}  // namespace

TEST_CASE("a second home compiles nothing, and reports what the first one did") {
  RedisServer server;
  if (!server.runs()) return;
  const Home first(server.url() + "?ttl=30d"), second(server.url());
  const auto built = first.compile_json();
  CHECK(built["compiler_runs"] > 0);
  CHECK(built["remote_cache"]["published"] > 2);
  CHECK(built["remote_cache"]["hits"] == 0);
  for (const std::string& key : server.keys()) CHECK(std::stol(server.ask("TTL " + key)) > 29 * 86400);

  const auto copied = second.compile_json();
  CHECK(copied["compiler_runs"] == 0);
  CHECK(copied["earlier"]["compiler_runs"] == built["compiler_runs"]);
  CHECK(copied["remote_cache"]["hits"] == 2);  // the program and its weights
  CHECK(copied["remote_cache"]["misses"] == 0);
  for (const char* said : {"kernels", "notes", "warnings", "passes", "verified", "tuned", "target"}) {
    auto before = built[said];
    for (auto& kernel : before)
      if (std::string(said) == "kernels") kernel["status"] = "hit";
    CHECK_MESSAGE(copied[said] == before, said);
  }
  REQUIRE(copied["lookups"].size() == 2);
  for (const auto& lookup : copied["lookups"]) {
    CHECK(lookup["hit"] == true);
    CHECK(lookup["source"] == "remote");
    CHECK(lookup["bytes"] > 0);
    CHECK(lookup["ms"] > 0);
    CHECK(lookup["key"].get<std::string>().size() == 64);
  }
  CHECK(second.is_right());
  for (const char* file : {"weights.bin", "tune.jsonl", "report.json"})
    CHECK_MESSAGE(slurp(first.dir / "p.qcg/" + file) == slurp(second.dir / "p.qcg/" + file), file);

  server.stop();  // what came from the server is at home now
  const auto again = second.compile_json();
  CHECK(again["compiler_runs"] == 0);
  CHECK(count_lookups(again, "program", "local") == 1);
  CHECK(count_warnings(again) == 0);
}

TEST_CASE("kernels alone serve a compile with other options, and every lookup can be read") {
  RedisServer server;
  if (!server.runs()) return;
  const Home first(server.url()), second(server.url());
  first.compile_json();
  const auto report = second.compile_json({"--verify=kernels"});
  CHECK(report["compiler_runs"] == 0);
  CHECK(!report.contains("earlier"));
  CHECK(count_lookups(report, "program", "none") == 1);
  CHECK(count_lookups(report, "kernel", "remote") == report["cache_hits"]);
  CHECK(report["cache_hits"] > 0);

  const Run stats = qcodegen({"cache", "stats", "--cache-dir", second.dir / "cache"});
  INFO(stats.out);
  CHECK(stats.out.find("latest lookups") != std::string::npos);
  CHECK(stats.out.find("remote") != std::string::npos);
  const auto log = qcodegen({"cache", "stats", "--json", "--cache-dir", second.dir / "cache"}).json()["lookups"];
  CHECK(log.size() == report["lookups"].size());

  const Home third(server.url());
  const Run verbose = third.compile({"-v"});
  REQUIRE_MESSAGE(verbose.status == 0, verbose.err);
  CHECK_MESSAGE(verbose.err.find("remote") != std::string::npos, verbose.err);
  CHECK_MESSAGE(verbose.out.find("2 hits, 0 misses") != std::string::npos, verbose.out);
}

TEST_CASE("whatever the server does, the compile is right, says so once and loses less than a second") {
  RedisServer server({"--requirepass", "hunter2"});
  if (!server.runs()) return;
  const Home first(server.url());
  first.compile_json();
  const std::string address = "127.0.0.1:" + std::to_string(server.port());
  std::string url = server.url(), key = "a key that all members of the team have";
  SUBCASE("killed") { server.stop(); }
  SUBCASE("stopped") { ::kill(server.pid(), SIGSTOP); }
  SUBCASE("full") {
    server.ask("FLUSHALL");
    server.ask("CONFIG SET maxmemory-policy noeviction");
    server.ask("CONFIG SET maxmemory 1");
  }
  SUBCASE("the wrong password") { url = "redis://:hunter3@" + address; }
  SUBCASE("another key") { key += ", except this one"; }
  SUBCASE("flipped bytes") {
    for (const std::string& name : server.keys()) server.flip(name, std::stoul(server.ask("STRLEN " + name)) - 40);
  }
  SUBCASE("entries under other keys") {
    const auto names = server.keys();
    REQUIRE(names.size() > 1);
    const std::string last = names.back();
    server.ask("RENAME " + names[0] + " swapped");
    for (size_t i = 0; i + 1 < names.size(); ++i) server.ask("RENAME " + names[i + 1] + " " + names[i]);
    server.ask("RENAME swapped " + last);
  }
  const Home second(url, key);
  const auto report = second.compile_json();
  CHECK(count_warnings(report) == 1);
  CHECK(report["remote_cache"]["ms"] <= 1000);
  CHECK(report["remote_cache"]["hits"] == 0);
  CHECK(report["compiler_runs"] > 0);
  CHECK(report.dump().find("hunter") == std::string::npos);
  CHECK(second.is_right());
}

TEST_CASE("a compile of several graphs says once what the server did, and logs every lookup") {
  const Home home("redis://127.0.0.1:1/0");
  std::string other = kSharedGraph;
  other.replace(other.find("silu"), 4, "relu");
  spit(home.dir / "other.json", other);
  ::setenv("QCG_REMOTE_CACHE_KEY_FILE", home.key_file.c_str(), 1);
  const Run run = qcodegen({"compile", "a=" + (home.dir / "graph.json"), "b=" + (home.dir / "other.json"), "--weights",
                            "random:1", "--tune=off", "-o", home.dir / "p.qcg", "--cache-dir", home.dir / "cache",
                            "--remote-cache", home.server, "-v"});
  ::unsetenv("QCG_REMOTE_CACHE_KEY_FILE");
  REQUIRE_MESSAGE(run.status == 0, run.err);
  const auto count = [](const std::string& text, const std::string& piece) {
    int found = 0;
    for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++found;
    return found;
  };
  CHECK_MESSAGE(count(run.err, "warning: the shared cache") == 1, run.err);
  CHECK(count(run.err, "\nmiss   program") == 2);
  CHECK(count(run.out, "shared   redis://127.0.0.1:1/0") == 1);
  CHECK_MESSAGE(count(run.out, "6 failures") == 1, run.out);  // each compile gives up after three
}

TEST_CASE("a shared cache that cannot be meant is refused before anything is compiled") {
  const Home home("redis://127.0.0.1:1/0");
  const auto refused = [&](const Run& run, const std::string& why) {
    INFO(run.err);
    CHECK(run.status != 0);
    CHECK(run.err.find(why) != std::string::npos);
    CHECK(run.err.find("help: ") != std::string::npos);
    CHECK(run.err.find("hunter2") == std::string::npos);
    CHECK(!fs::exists(home.dir / "p.qcg"));
  };
  const std::vector<std::string> words = {"compile", home.dir / "graph.json", "--weights", "random:1", "--tune=off",
                                          "-o",      home.dir / "p.qcg"};
  ::setenv("QCG_REMOTE_CACHE", home.server.c_str(), 1);
  refused(qcodegen(words), "QCG_REMOTE_CACHE_KEY_FILE is not set");
  ::setenv("QCG_REMOTE_CACHE_KEY_FILE", home.key_file.c_str(), 1);
  ::chmod(home.key_file.c_str(), 0644);
  refused(qcodegen(words), "others may read");
  ::chmod(home.key_file.c_str(), 0600);
  ::setenv("QCG_REMOTE_CACHE", "http://:hunter2@host", 1);
  refused(qcodegen(words), "redis://");
  std::vector<std::string> alone = words;
  alone.push_back("--no-cache");
  CHECK(qcodegen(alone).status == 0);  // then there is no shared cache either
  ::unsetenv("QCG_REMOTE_CACHE");
  ::unsetenv("QCG_REMOTE_CACHE_KEY_FILE");
}

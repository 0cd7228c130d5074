// cache, list, doctor, help: what they print, for people and for scripts.
#include <sys/stat.h>

#include "tests/cli_runner.h"
#include "tests/paths.h"

using namespace qcg::test;
using nlohmann::json;

TEST_CASE("cache stats and path") {
  const json stats = qcodegen({"cache", "stats", "--json"}).json();
  for (const char* field : {"entries", "bytes", "hits", "misses"}) CHECK(stats[field].is_number());
  TempDir dir;
  CHECK(qcodegen({"cache", "path", "--cache-dir", dir / "cache"}).out == dir / "cache\n");
}

TEST_CASE("cache export, clear and import bring entries back") {
  TempDir dir;
  const std::string graph = source_path("examples/native/linear_w8.json"), cache = dir / "cache";
  REQUIRE(qcodegen({"compile", graph, "-o", dir / "a.qcg", "--tune=off", "--cache-dir", cache}).status == 0);
  auto entries = [&] {  // that an export holds
    int count = 0;
    const json stats = qcodegen({"cache", "stats", "--json", "--cache-dir", cache}).json();
    for (const auto& [kind, held] : stats["kinds"].items())
      if (kind != "precompiled headers") count += held["entries"].get<int>();
    return count;
  };
  const int before = entries();
  CHECK(before > 0);
  CHECK(qcodegen({"cache", "verify", "--cache-dir", cache}).status == 0);
  const json listed = qcodegen({"cache", "ls", "--json", "--cache-dir", cache}).json()["entries"];
  REQUIRE(static_cast<int>(listed.size()) >= before);
  CHECK(qcodegen({"cache", "show", listed[0]["key"], "--cache-dir", cache}).status == 0);
  REQUIRE(qcodegen({"cache", "export", dir / "all.qcache", "--cache-dir", cache}).status == 0);
  // Such a pipe holds the export alone.
  const std::string quiet = cli_path() + " -q cache export /dev/stdout --cache-dir " + cache + " | cat";
  CHECK(run_program({"/bin/sh", "-c", quiet}).out == slurp(dir / "all.qcache"));
  REQUIRE(qcodegen({"cache", "clear", "--cache-dir", cache}).status == 0);
  CHECK(entries() == 0);
  REQUIRE(qcodegen({"cache", "import", dir / "all.qcache", "--cache-dir", cache}).status == 0);
  CHECK(entries() == before);
}

TEST_CASE("list prints every table, as text and as JSON") {
  const std::vector<std::pair<std::string, std::string>> known = {
      {"targets", "cpu:portable"},         {"schemes", "w8"}, {"microkernels", ""},
      {"passes", "merge_sibling_linears"}, {"ops", ""},       {"documents", "compile"}};
  for (const auto& [what, name] : known) {
    INFO(what);
    const Run text = qcodegen({"list", what});
    CHECK(text.status == 0);
    const json rows = qcodegen({"list", what, "--json"}).json()["rows"];
    REQUIRE(!rows.empty());
    bool found = name.empty();
    for (const json& row : rows) {
      REQUIRE(row["name"].is_string());
      CHECK(text.out.find(row["name"].get<std::string>()) != std::string::npos);
      found = found || row["name"] == name;
    }
    CHECK(found);
  }
}

TEST_CASE("doctor says what works, and what to do where something does not") {
  const Run run = qcodegen({"doctor", "--json"});
  CHECK(run.status == 0);
  const json checks = run.json()["checks"];  // a part of a temporary does not outlive it
  CHECK(checks.size() > 5);
  for (const json& check : checks) {
    for (const char* field : {"name", "ok", "detail", "remedy"}) CHECK(check.contains(field));
    INFO(check.dump());
    CHECK((check["ok"] == true || !check["remedy"].get<std::string>().empty()));
  }
  const Run without = qcodegen({"doctor", "--cxx", "/nowhere/g++"});
  CHECK(without.status == 3);
  CHECK(without.out.find("FAIL") != std::string::npos);
}

TEST_CASE("doctor finds cuBLASLt where the dynamic linker does") {
  const std::string folder = binary_dir() + "/tests/fake";
  const Run run = run_program({"/usr/bin/env", "LD_LIBRARY_PATH=" + folder, cli_path(), "doctor", "--json"});
  const json checks = run.json()["checks"];
  std::string detail;
  for (const json& check : checks)
    if (check["name"] == "cublasLt") detail = check["detail"];
  CHECK(detail == "cuBLASLt 13.2.5 (" + fs::canonical(folder).string() + "/libcublasLt.so.13)");
}

TEST_CASE("every command has a help with an example, and is in man page and completion") {
  const Run man = qcodegen({"help", "--man"});
  CHECK(man.status == 0);
  std::vector<std::string> completions;
  for (const char* shell : {"--bash", "--zsh", "--fish"}) {
    const Run run = qcodegen({"help", shell});
    CHECK(run.status == 0);
    completions.push_back(run.out);
  }
  CHECK(qcodegen({"help", "--zsh", "--fish"}).status == 2);
  for (const std::string command :
       {"compile", "run", "check", "bench", "explain", "inspect", "log", "report", "cache", "list", "doctor"}) {
    INFO(command);
    const Run help = qcodegen({command, "--help"});
    CHECK(help.status == 0);
    CHECK(help.out.find("qcodegen " + command + " ") != std::string::npos);
    CHECK(help.out.find("Example") != std::string::npos);
    CHECK(man.out.find(".SS \"" + command) != std::string::npos);
    for (const std::string& completion : completions) CHECK(completion.find(command) != std::string::npos);
  }
}

TEST_CASE("--version gives the version and the commit that was built") {  // tests/install/version.sh: which one that is
  const Run run = qcodegen({"--version"});
  CHECK(run.status == 0);
  const std::string built = slurp(binary_dir() + "/cli/commit.cpp");
  const size_t begin = built.find('"') + 1;
  const std::string commit = built.substr(begin, built.find('"', begin) - begin);
  CHECK(run.out == (commit.empty() ? "0.1.0\n" : "0.1.0 (" + commit + ")\n"));
}

TEST_CASE("-q prints nothing, control characters never enter a file") {
  TempDir dir;
  const Run quiet =
      qcodegen({"compile", source_path("examples/native/linear_w8.json"), "-o", dir / "a.qcg", "--tune=off", "-q"});
  CHECK(quiet.status == 0);
  CHECK(quiet.out.empty());
  CHECK(quiet.err.empty());
  // A cache that cannot be used is worth a warning, not an error.
  for (const bool loud : {false, true}) {
    const Run run = run_program({"/usr/bin/env", "QCG_CACHE_DIR=relative", cli_path(), "compile",
                                 source_path("examples/native/linear_w8.json"), "-o", dir / "w.qcg", "--tune=off",
                                 loud ? "--json" : "-q"});
    CHECK(run.status == 0);
    CHECK(run.err.empty());
    if (loud) CHECK(run.out.find("working without a cache") != std::string::npos);
  }
  const Run loud =
      qcodegen({"compile", source_path("examples/native/linear_w8.json"), "-o", dir / "b.qcg", "--tune=off"});
  CHECK(loud.out.find('\x1b') == std::string::npos);
  CHECK(loud.err.find('\x1b') == std::string::npos);
}

TEST_CASE("-v says each step on stderr, and changes nothing else") {
  TempDir dir;
  const Run run = qcodegen(
      {"compile", source_path("examples/native/linear_w8.json"), "-o", dir / "a.qcg", "--tune=off", "--explain", "-v"});
  CHECK(run.status == 0);
  CHECK(run.err.find("] verify ") != std::string::npos);
  CHECK(run.err.find('\x1b') == std::string::npos);
  CHECK(run.out.find("wrote") != std::string::npos);
}

TEST_CASE("-v says the steps of check and run too") {
  TempDir dir;
  const std::string program = dir / "p.qcg";
  REQUIRE(qcodegen({"compile", source_path("examples/llama_mlp_int8/graph.pt2"), "-o", program, "--tune=off"}).status ==
          0);
  CHECK(qcodegen({"check", program, "--m", "3", "-v"}).err.find(" s  check m=3\n") != std::string::npos);
  const Run run = qcodegen({"run", program, "--inputs", source_path("examples/llama_mlp_int8/m5.inputs.safetensors"),
                            "--repeat", "2", "-v"});
  CHECK(run.err.find(" s  run 2 times on ") != std::string::npos);
}

TEST_CASE("results go where a link leads, and into a pipe, without taking their place") {
  TempDir dir;
  const std::string program = dir / "p.qcg", inputs = source_path("examples/llama_mlp_int8/m5.inputs.safetensors");
  REQUIRE(qcodegen({"compile", source_path("examples/llama_mlp_int8/graph.pt2"), "-o", program, "--tune=off"}).status ==
          0);
  const std::string own_cache = "QCG_CACHE_DIR=" + (dir / "cache") + " ";  // tests beside this one fill the other
  REQUIRE(qcodegen({"compile", source_path("examples/native/linear_w8.json"), "-o", dir / "w8.qcg", "--tune=off",
                    "--cache-dir", dir / "cache"})
              .status == 0);
  const std::vector<std::string> writers = {"run " + program + " --inputs " + inputs + " --outputs ", "cache export "};
  for (const std::string& writer : writers) {
    INFO(writer);
    const auto write_to = [&](const std::string& path) {
      return run_program({"/bin/sh", "-c", own_cache + cli_path() + " " + writer + path}).status;
    };
    spit(dir / "target", "old");
    fs::create_symlink("target", dir / "link");
    CHECK(write_to(dir / "link") == 0);
    CHECK(fs::is_symlink(dir / "link"));
    const std::string whole = slurp(dir / "target");
    CHECK(whole.size() > 100);
    REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
    const Run piped = run_program(
        {"/bin/sh", "-c",
         "cat " + (dir / "pipe") + " & " + own_cache + cli_path() + " -q " + writer + (dir / "pipe") + " >&2; wait"});
    CHECK(fs::is_fifo(dir / "pipe"));
    CHECK(piped.out == whole);
    for (const char* name : {"target", "link", "pipe"}) fs::remove(dir / name);
    CHECK(write_to(dir.path()) == 3);
  }
}

TEST_CASE("--json leaves one document on stdout, whatever is asked beside it") {
  TempDir dir;
  const std::string graph = source_path("examples/native/linear_w8.json");
  for (const char* flag : {"--print-after-all", "--print-after=dce"}) {
    const Run run = qcodegen({"explain", graph, flag, "--json"});
    CHECK(run.json()["passes"].is_array());
    CHECK(run.err.find("// after dce") != std::string::npos);
  }
  for (const std::string emit : {"graph", "plan", "source", "asm"}) {
    INFO(emit);
    const Run text = qcodegen({"compile", graph, "--emit=" + emit});
    const Run run = qcodegen({"compile", graph, "--emit=" + emit, "--json"});
    CHECK(!text.out.empty());
    CHECK(run.json()["emitted"] == text.out);
  }
  const Run compiled = qcodegen({"compile", graph, "-o", dir / "a.qcg", "--tune=off", "--time-passes", "--json"});
  REQUIRE(!compiled.json()["passes"].empty());
  CHECK(compiled.json()["passes"][0]["ms"].is_number());
}

TEST_CASE(
    "compile and explain warn of a weight of integers that is stored as floats, by name and with what was missing") {
  TempDir dir;
  spit(dir / "graph.txt",
       "param @codes: i8[8, 16]\nparam @s: f32[1, 16]\ngraph(%x: f32[3, 16]) {\n"
       "  %f = aten.to.dtype(@codes, dtype = f32) : f32[8, 16]\n  %w = aten.mul.Tensor(%f, @s) : f32[8, 16]\n"
       "  %fc = aten.linear.default(%x, %w) : f32[3, 8]\n  return %fc\n}\n");
  const std::vector<std::string> input = {dir / "graph.txt", "--weights", "random:1"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, input.begin(), input.end());
    return qcodegen(arguments);
  };
  const std::string about = "fc: its weight is computed from the integers of @codes and is compiled as floats: ";
  for (const Run& run : {with({"explain", "--json"}), with({"compile", "-o", dir / "a.qcg", "--tune=off", "--json"})}) {
    REQUIRE_MESSAGE(run.status == 0, run.err);
    const json warnings = run.json()["warnings"];
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].get<std::string>().find(about) == 0);
    CHECK(warnings[0].get<std::string>().find("not one scale per output channel or group") != std::string::npos);
  }
  CHECK(with({"explain"}).out.find("warning: " + about) != std::string::npos);
  const Run compiled = with({"compile", "-o", dir / "b.qcg", "--tune=off"});
  CHECK((compiled.out + compiled.err).find("warning: " + about) != std::string::npos);
}

TEST_CASE("a list of passes of one's own comes from flags or a file, and makes another program") {
  TempDir dir;
  const std::string graph = source_path("examples/native/linear_w8.json");
  std::vector<std::string> usual, own = {"unpack_constants", "fold_noops", "decompose", "lower_loops", "dce"};
  const json passes = qcodegen({"list", "passes", "--json"}).json()["rows"];
  for (const json& pass : passes) usual.push_back(pass["name"]);
  const auto names_of = [](const Run& run) {
    REQUIRE_MESSAGE(run.status == 0, run.err);
    std::vector<std::string> names;
    const json report = run.json();
    for (const json& pass : report["passes"]) names.push_back(pass["name"]);
    return names;
  };
  spit(dir / "passes.txt", "unpack_constants fold_noops  # the first two\n\n# nothing\ndecompose\nlower_loops\ndce\n");
  std::vector<std::string> flags = {"explain", graph, "--json"};
  CHECK(names_of(qcodegen(flags)) == usual);
  CHECK(names_of(qcodegen({"explain", graph, "--json", "--passes", dir / "passes.txt"})) == own);
  for (const std::string& name : own) flags.insert(flags.end(), {"--pass", name});
  CHECK(names_of(qcodegen(flags)) == own);

  // Another list is another compile; a program remembers its own.
  const auto compile = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"compile", graph, "-o", dir / "a.qcg", "--tune=off", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Run run = qcodegen(arguments);
    REQUIRE_MESSAGE(run.status == 0, run.err);
    return run.json();
  };
  compile({});
  CHECK(compile({})["unchanged"] == true);
  CHECK(compile({"--passes", dir / "passes.txt"})["unchanged"] == false);
  CHECK(names_of(qcodegen({"explain", dir / "a.qcg", "--json"})) == own);
  CHECK(qcodegen({"check", dir / "a.qcg"}).status == 0);

  const auto refused = [&](const std::string& text, const std::string& why) {
    spit(dir / "passes.txt", text);
    const Run run = qcodegen({"explain", graph, "--passes", dir / "passes.txt"});
    CHECK(run.status != 0);
    CHECK_MESSAGE(run.err.find(why) != std::string::npos, run.err);
  };
  refused("# nothing\n", "is empty");
  refused("make_coffee\n", "there is no such pass");
  refused("unpack_constants fold_noops decompose dce\n", "lacks this required pass");
  refused(std::string(1 << 17, 'x'), "longer than 64 KiB");
  CHECK(qcodegen({"explain", graph, "--passes", dir / "none.txt"}).status != 0);
}

// What was meant: mistyped words, tables by name, defaults in help, words that complete, what a cache holds.
#include <sstream>

#include "tests/cli_runner.h"
#include "tests/paths.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

bool has(const std::string& text, const std::string& piece) { return text.find(piece) != std::string::npos; }

// Graphs whose one op is written like this.
std::string native_with(const std::string& op) {
  return R"({"format": "qcodegen", "version": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [4, 8]}],
    "nodes": [{"op": ")" +
         op + R"(", "inputs": {"self": "x"}, "outputs": ["y"]}], "outputs": ["y"]})";
}

}  // namespace

TEST_CASE("what was mistyped is told what it is near to: flags, commands, choices, passes, schemes, operators") {
  TempDir dir;
  const std::string graph = source_path("examples/native/linear_w8.json");
  spit(dir / "relo.json", native_with("relo"));
  spit(dir / "relo.txt", "graph(%x: f32[4, 8]) {\n  %y = aten.relo.default(%x) : f32[4, 8]\n  return %y\n}\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"compile", graph, "--tun", "off"}, "there is no option '--tun' (did you mean --tune?)"},
      {{"compile", graph, "--tun=off"}, "there is no option '--tun' (did you mean --tune?)"},
      {{"compile", graph, "--jsn"}, "there is no option '--jsn' (did you mean --json?)"},
      {{"complie", graph}, "there is no command 'complie' (did you mean compile?)"},
      {{"cache", "stat"}, "there is no command 'stat' (did you mean stats?)"},
      {{"compile", graph, "--tune=fsat"}, "fsat is not one of off|fast|full (did you mean fast?)"},
      {{"explain", graph, "--disable-pass=fold_epilog"}, "(did you mean fold_epilogue?)"},
      {{"explain", graph, "--print-after=dec"}, "(did you mean decompose?)"},
      {{"bench", "--all", "--schemes", "da8w44"}, "there is no 'da8w44' (did you mean da8w4?)"},
      {{"explain", dir / "relo.json"}, "there is no operator 'relo' (did you mean relu?)"},
      {{"explain", dir / "relo.txt"}, "unknown op 'aten.relo.default' (did you mean aten.relu.default?)"},
      {{"list", "ops", "layer_nrom"}, "(did you mean layer_norm?)"},
      {{"list", "passes", "fuse_lops"}, "(did you mean fuse_loops?)"}};
  for (const auto& [arguments, text] : cases) {
    const Run run = qcodegen(arguments);
    INFO(run.err);
    CHECK(run.status != 0);
    CHECK_MESSAGE(has(run.err, text), text);
  }
  for (const std::vector<std::string>& far : {std::vector<std::string>{"compile", graph, "--quux"}, {"zzz"}})
    CHECK(!has(qcodegen(far).err, "did you mean"));
}

TEST_CASE("list shows one row by name, and an op's arguments") {
  const Run text = qcodegen({"list", "ops", "linear"});
  CHECK(text.status == 0);
  CHECK(has(text.out, "aten.linear.default\n"));
  CHECK(has(text.out, "bias      Tensor?  None\n"));
  CHECK(!has(text.out, "_weight_int8pack_mm"));
  const auto rows_of = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "list");
    arguments.push_back("--json");
    return qcodegen(arguments).json()["rows"];
  };
  const json rows = rows_of({"ops", "aten.gelu.default"});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["arguments"] ==
        json::parse(R"([{"name": "self", "type": "Tensor", "keyword_only": false, "default": null},
                        {"name": "approximate", "type": "str", "keyword_only": true, "default": "'none'"}])"));
  for (const json& row : rows_of({"ops"})) CHECK(row["arguments"].is_array());
  CHECK(rows_of({"schemes", "w8"}).size() == 1);
  CHECK(rows_of({"passes", "fold"}).size() == 4);  // fold_constants, _epilogue, _noops, _windows
}

TEST_CASE("a folder of weights given as a graph is told how to get one") {
  TempDir dir;
  for (const bool checkpoint : {false, true}) {
    if (checkpoint) spit(dir / "config.json", "{}");
    const Run run = qcodegen({"compile", dir.path()});
    INFO(run.err);
    CHECK(run.status == 1);
    CHECK(has(run.err, checkpoint ? "Hugging Face" : "this is a folder"));
    CHECK(has(run.err, "torch.export.export(model") == checkpoint);
    CHECK(has(run.err, "--weights") == checkpoint);
  }
}

TEST_CASE("every option that takes a value names its default") {
  std::istringstream man(qcodegen({"help", "--man"}).out);
  int options = 0;
  for (std::string line, head, text; std::getline(man, line);) {
    if (line != ".TP" || !std::getline(man, head) || !std::getline(man, text)) continue;
    if (!head.starts_with("\\fB\\-") || head.ends_with("\\fI\\fR")) continue;  // positional, or a flag
    ++options;
    const bool required = has(head, "\\-\\-inputs") && has(text, "one tensor per input (`qcodegen inspect`");
    CHECK_MESSAGE((required || has(text, "default")), head, " ", text);
  }
  CHECK(options > 40);
  CHECK(has(qcodegen({"compile", "--help"}).out, "(default 65536)"));
}

TEST_CASE("bench says where oneDNN is missing that it was asked to time") {
  TempDir dir;
  const std::string program = dir / "p.qcg";
  REQUIRE(qcodegen({"compile", source_path("examples/native/linear_w8.json"), "-o", program, "--tune=off"}).status ==
          0);
  fs::copy_file(cli_path(), dir / "qcodegen");  // the module that calls oneDNN lies beside the other one
  const auto bench = [&](const std::string& against) {
    return run_program(
        {dir / "qcodegen", "bench", program, "--m", "1", "--budget", "0.05", "--against", against, "--json"});
  };
  const Run none = bench("none"), run = bench("onednn");
  CHECK(none.err.empty());
  CHECK(none.json()["warnings"].empty());
  CHECK(run.status == 0);
  CHECK(has(run.err, "warning: oneDNN is not timed: "));
  CHECK(run.json()["warnings"].size() == 1);
}

TEST_CASE("cache stats say what it holds by kind, and exports leave precompiled headers out") {
  TempDir dir;
  const std::string cache = dir / "cache";
  for (int i = 0; i < 2; ++i)
    REQUIRE(qcodegen({"compile", source_path("examples/llama_mlp_int8/graph.pt2"), "-o",
                      dir / std::to_string(i) + ".qcg", "--tune=off", "--cache-dir", cache})
                .status == 0);
  const auto stats = [&] { return qcodegen({"cache", "stats", "--json", "--cache-dir", cache}).json(); };
  const json before = stats();
  CHECK(before["kinds"]["kernels"]["entries"].get<int>() >= 1);
  CHECK(before["kinds"]["programs"]["entries"] == 1);
  CHECK(before["kinds"]["weights"]["entries"] == 1);
  CHECK(!before["kinds"].contains("other"));
  CHECK(before["hit_rate"].get<double>() > 0);
  CHECK(before["hit_rate"].get<double>() < 1);
  CHECK(before["limit_bytes"] == uint64_t{4} << 30);
  const Run text = qcodegen({"cache", "stats", "--cache-dir", cache});
  for (const char* piece : {"kernels", "programs", "weights", " of at most ", " % hits", "ago"})
    CHECK(has(text.out, piece));
  CHECK(has(qcodegen({"cache", "ls", "--cache-dir", cache}).out, " ago  "));

  REQUIRE(before["kinds"].contains("precompiled headers"));
  const auto headers = before["kinds"]["precompiled headers"];
  REQUIRE(qcodegen({"cache", "export", dir / "all.qcache", "--cache-dir", cache}).status == 0);
  CHECK(fs::file_size(dir / "all.qcache") <
        before["bytes"].get<uint64_t>() - headers["bytes"].get<uint64_t>() + 100'000);
  REQUIRE(qcodegen({"cache", "clear", "--cache-dir", cache}).status == 0);
  REQUIRE(qcodegen({"cache", "import", dir / "all.qcache", "--cache-dir", cache}).status == 0);
  const json after = stats();
  CHECK(!after["kinds"].contains("precompiled headers"));
  CHECK(after["kinds"]["kernels"]["entries"] == before["kinds"]["kernels"]["entries"]);
}

TEST_CASE("a compile that the cache does not know names what changed") {
  TempDir dir;
  const std::string graph = dir / "g.json";
  fs::copy_file(source_path("examples/native/linear_w8.json"), graph);
  const auto notes = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"compile",    graph,    "-o",          dir / "p.qcg",
                                    "--tune=off", "--json", "--cache-dir", dir / "cache"};
    all.insert(all.end(), more.begin(), more.end());
    const Run run = qcodegen(all);
    REQUIRE_MESSAGE(run.status == 0, run.err);
    return run.json()["notes"].dump();
  };
  CHECK(has(notes({"-v"}), "compiled anew: nothing like it was built before"));
  CHECK(!has(notes({"-v"}), "compiled anew"));  // it is known now
  CHECK(has(notes({"-v", "--dequant=rounded"}), "compiled anew: option rounded: true was false"));
  CHECK(has(notes({"--explain", "--threads=1", "--emulate-precision-casts"}), "compiled anew: option "));
  CHECK(!has(notes({"--cat-max-parts=5"}), "compiled anew"));  // nobody asked
  spit(graph, slurp(graph) + " ");
  CHECK(has(notes({"-v"}), "compiled anew: graph is not the same"));
}

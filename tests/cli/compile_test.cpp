// compile, run, check, bench, log on shipped graphs: the fields scripts rely on, repetition, replay, emission.

#include <map>
#include <set>

#include "tests/cli_runner.h"
#include "tests/paths.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

const std::string kMlp = source_path("examples/llama_mlp_int8/graph.pt2");

void check_fields(const json& object, const std::vector<std::string>& fields) {
  for (const std::string& field : fields) {
    INFO("field ", field, " in ", object.dump().substr(0, 400));
    CHECK(object.contains(field));
  }
}

json compile(const std::string& graph, const std::string& program, std::vector<std::string> more = {},
             const std::string& tune = "off") {
  more.insert(more.begin(), {"compile", graph, "-o", program, "--tune=" + tune, "--json"});
  const Run run = qcodegen(more);
  INFO(run.err);
  REQUIRE(run.status == 0);
  return run.json();
}

// What a program's manifest says, but for its header, which is called like the program.
json manifest_but_header(const std::string& program) {
  json manifest = json::parse(slurp(program + "/manifest.json"));
  CHECK(manifest["files"].erase(fs::path(program).stem().string() + ".h") == 1);
  return manifest;
}

// The same log, with the one fusion in it twice as slow as the work apart.
void rewrite_as_lost(const std::string& from, const std::string& to) {
  std::string rewritten;
  std::istringstream log(slurp(from));
  int separate = 0;
  for (std::string line; std::getline(log, line);) {
    json record = json::parse(line);
    if (record["status"] == "separate") ++separate, record["merged_s"] = 2 * record["median_s"].get<double>();
    rewritten += record.dump() + "\n";
  }
  CHECK(separate == 1);
  spit(to, rewritten);
}

// The same log, in which of every problem a kernel won that lost and is none of `others`. Returns its name by the
// problem's nodes.
std::map<std::string, std::string> crown_losers(const std::string& from, const std::string& to, const json& others) {
  std::vector<json> records;
  std::istringstream log(slurp(from));
  for (std::string line; std::getline(log, line);) records.push_back(json::parse(line));
  std::set<std::string> known;
  for (const json& kernel : others) known.insert(kernel["name"]);
  for (const json& record : records)
    if (record["status"] == "won") known.insert(record["kernel"]);
  std::map<std::string, std::string> crowned;
  for (json& record : records) {
    if (record["status"] == "won") record["status"] = "lost";
    else if (record["status"] != "lost" && record["status"] != "too slow") continue;
    else if (!known.contains(record["kernel"]) && crowned.emplace(record["nodes"].dump(), record["kernel"]).second)
      record["status"] = "won";
  }
  std::string text;
  for (const json& record : records) text += record.dump() + "\n";
  spit(to, text);
  return crowned;
}

// What explain says of a program's one fusion is what its compile said, but for the name of what lost: the log knows
// nodes only.
void check_explained(const std::string& program, json trial) {
  const Run run = qcodegen({"explain", program, "--json"});
  INFO(run.err);
  REQUIRE(run.status == 0);
  REQUIRE(run.json()["merge_trials"].size() == 1);
  json explained = run.json()["merge_trials"][0];
  CHECK(!explained["step"].get<std::string>().empty());
  if (trial["kept"] == false) explained.erase("step"), trial.erase("step");
  CHECK(explained == trial);
  const Run text = qcodegen({"explain", program});
  CHECK(text.out.find("m=1 ") != std::string::npos);
}

}  // namespace

TEST_CASE("compile, run, check, log and bench give the fields of the contract") {
  TempDir dir;
  const std::string program = dir / "mlp.qcg";
  const json compiled = compile(kMlp, program);
  check_fields(compiled, {"program", "wall_s", "compiler_runs", "cache_hits", "kernels", "merged", "cat_split"});
  CHECK(compiled["program"] == program);
  REQUIRE(!compiled["kernels"].empty());
  for (const json& kernel : compiled["kernels"]) {
    check_fields(kernel, {"name", "nodes", "segments", "status", "median_us"});
    CHECK((kernel["status"] == "built" || kernel["status"] == "hit"));
  }
  REQUIRE(compiled["merged"].size() == 1);
  CHECK(compiled["merged"][0].size() == 2);

  const std::string inputs = source_path("examples/llama_mlp_int8/m5.inputs.safetensors");
  const Run ran =
      qcodegen({"run", program, "--inputs", inputs, "--outputs", dir / "out.safetensors", "--repeat", "3", "--json"});
  REQUIRE(ran.status == 0);
  check_fields(ran.json(), {"wall_s", "median_us", "p10_us", "p90_us", "threads", "outputs"});
  // The first call takes longer: it touches pages.
  const json twice = qcodegen({"run", program, "--inputs", inputs, "--repeat", "2", "--json"}).json();
  CHECK(twice["p10_us"] < twice["p90_us"]);
  // The only temporary is 704 bf16 of each row, for 5 rows here and 1 to 4096 in all.
  CHECK(ran.json()["arena_bytes"] == 5 * 704 * 2);
  CHECK(compiled["arena_bytes"] == json{{"least", 704 * 2}, {"most", 4096 * 704 * 2}});
  CHECK(compile(kMlp, program)["arena_bytes"] == compiled["arena_bytes"]);  // from the cache
  CHECK(fs::exists(dir / "out.safetensors"));

  const Run checked = qcodegen({"check", program, "--inputs", inputs, "--expected",
                                source_path("examples/llama_mlp_int8/m5.expected.safetensors"), "--json"});
  INFO(checked.err);
  CHECK(checked.status == 0);
  CHECK(checked.json()["ok"] == true);
  REQUIRE(checked.json()["outputs"].size() == 2);
  check_fields(checked.json()["outputs"][0], {"name", "max_err", "bound", "snr_db"});
  CHECK(checked.json()["outputs"][1]["against"] == "expected");

  // Outputs of other inputs must not pass.
  spit(dir / "other.safetensors", [&] {
    std::string text = slurp(source_path("examples/llama_mlp_int8/m5.expected.safetensors"));
    text[text.size() - 1] = static_cast<char>(text[text.size() - 1] ^ 0xc0);
    return text;
  }());
  CHECK(qcodegen({"check", program, "--inputs", inputs, "--expected", dir / "other.safetensors"}).status == 1);

  const Run log = qcodegen({"log", program, "--format", "json"});
  REQUIRE(log.status == 0);
  const json records = log.json()["records"];
  REQUIRE(records.size() == compiled["kernels"].size());
  check_fields(records[0], {"kernel", "status", "threads"});
  for (const char* format : {"text", "csv", "inductor"})
    CHECK(qcodegen({"log", program, "--format", format}).status == 0);

  const Run bench = qcodegen({"bench", program, "--m", "1", "--budget", "0.05", "--json"});
  INFO(bench.err);
  REQUIRE(bench.status == 0);
  check_fields(bench.json()["ceilings"], {"read_gbps", "peak_gflops", "threads"});
  REQUIRE(!bench.json()["rows"].empty());
  check_fields(bench.json()["rows"][0],
               {"kernel", "n", "k", "m", "scheme", "who", "median_us", "p10_us", "p90_us", "gbps", "gflops", "share"});
}

TEST_CASE("the second compile runs no compiler and changes nothing") {
  TempDir dir;
  compile(kMlp, dir / "a.qcg");
  const json again = compile(kMlp, dir / "a.qcg");
  CHECK(again["compiler_runs"] == 0);
  CHECK(again["unchanged"] == true);
  const json elsewhere = compile(kMlp, dir / "b.qcg");
  CHECK(elsewhere["compiler_runs"] == 0);
  CHECK(manifest_but_header(dir / "a.qcg") == manifest_but_header(dir / "b.qcg"));
  // Damage is not "unchanged", whichever file it is in.
  for (const auto& [name, file] : json::parse(slurp(dir / "a.qcg/manifest.json"))["files"].items()) {
    INFO(name);
    const std::string path = dir / ("a.qcg/" + name), good = slurp(path);
    std::string bad = good;
    bad[bad.size() / 2] ^= 1;
    spit(path, bad);
    CHECK(compile(kMlp, dir / "a.qcg")["unchanged"] == false);
    CHECK((slurp(path) == good));
  }
}

TEST_CASE("a program that the cache restores has the header of its own name") {
  TempDir dir, fresh;
  compile(kMlp, dir / "a.qcg");
  for (const bool again : {false, true}) CHECK(compile(kMlp, dir / "b.qcg")["unchanged"] == again);
  CHECK(!fs::exists(dir / "b.qcg/a.h"));
  compile(kMlp, fresh / "b.qcg", {"--threads", "3"});  // an option of the key: this one is not restored
  CHECK(slurp(dir / "b.qcg/b.h") == slurp(fresh / "b.qcg/b.h"));
  CHECK(slurp(dir / "b.qcg/b.h").find("#ifndef B_QCG_H") != std::string::npos);
  CHECK(qcodegen({"check", dir / "b.qcg"}).status == 0);
}

TEST_CASE("every input and output has a name of its own in C and in a file of outputs") {
  TempDir dir;
  spit(dir / "graph.json", R"({"format": "qcodegen", "version": 1,
    "inputs": [{"name": "a.b", "dtype": "f32", "shape": [8]}, {"name": "a_b", "dtype": "f32", "shape": [8]}],
    "nodes": [{"op": "add", "inputs": {"self": "a.b", "other": "a_b"}, "outputs": ["y"]}], "outputs": ["y", "y"]})");
  compile(dir / "graph.json", dir / "g.qcg");
  const std::string header = slurp(dir / "g.qcg/g.h");
  for (const char* line :
       {"#define G_INPUT_a_b 0 ", "#define G_INPUT_a_b_1 1 ", "#define G_OUTPUT_y 0 ", "#define G_OUTPUT_y_1 1 "})
    CHECK_MESSAGE(header.find(line) != std::string::npos, header);
  const Run checked = qcodegen({"check", dir / "g.qcg", "--json"});
  REQUIRE(checked.status == 0);
  CHECK(checked.json()["outputs"][1]["name"] == "y_1");
}

TEST_CASE("what was asked of the passes is said of a program that was compiled before, too") {
  TempDir dir;
  for (int i = 0; i < 2; ++i) {
    const Run run =
        qcodegen({"compile", kMlp, "-o", dir / "a.qcg", "--tune=off", i == 0 ? "--explain" : "--time-passes"});
    INFO(run.err);
    CHECK(run.status == 0);
    CHECK(run.out.find("merge_sibling_linears") != std::string::npos);
    CHECK((run.out.find(" ms)") != std::string::npos) == (i == 1));
  }
}

TEST_CASE("a program that the cache restores names the graph of this compile, not of the first") {
  TempDir dir;
  compile(kMlp, dir / "a.qcg");
  const std::string copy = dir / "copy.pt2";
  fs::copy_file(kMlp, copy);
  for (const bool again : {false, true}) {
    const json restored = compile(copy, dir / "b.qcg");
    CHECK(restored["compiler_runs"] == 0);
    CHECK(restored["unchanged"] == again);
  }
  CHECK(json::parse(slurp(dir / "b.qcg/origin.json"))["graph"] == copy);
  CHECK(qcodegen({"check", dir / "b.qcg"}).status == 0);
  // Over a program of the same bytes from elsewhere: its origin is no longer true.
  CHECK(compile(kMlp, dir / "b.qcg")["unchanged"] == false);
  CHECK(manifest_but_header(dir / "b.qcg") == manifest_but_header(dir / "a.qcg"));
}

TEST_CASE("a graph with other names is made of the same kernels") {
  TempDir dir;
  std::string text = slurp(source_path("examples/native/linear_w8.json"));
  compile(source_path("examples/native/linear_w8.json"), dir / "a.qcg");
  const std::string output = json::parse(text)["outputs"][0];
  for (size_t at; (at = text.find('"' + output + '"')) != std::string::npos;)
    text.replace(at, output.size() + 2, "\"renamed\"");
  spit(dir / "renamed.json", text);
  const json renamed = compile(dir / "renamed.json", dir / "b.qcg");
  CHECK(renamed["compiler_runs"] == 0);
  CHECK(renamed["cache_hits"].get<size_t>() > 0);
  CHECK(qcodegen({"check", dir / "b.qcg"}).status == 0);
}

TEST_CASE("a compile from the cache reports what the first one measured") {
  TempDir dir;
  const json first = compile(kMlp, dir / "a.qcg", {"--m", "1,1024"}, "fast");
  REQUIRE(first["unchanged"] == false);
  json cached = compile(kMlp, dir / "b.qcg", {"--m", "1,1024"}, "fast");
  CHECK(cached["merge_trials"].size() == 1);
  CHECK(cached.contains("earlier") == first["noise"]["final"].get<bool>());
  if (first["noise"]["final"] == false) {
    MESSAGE("the machine was busy: the first compile was not kept");
    return;
  }
  CHECK(cached["compiler_runs"] == 0);
  CHECK(cached["merge_trials"] == first["merge_trials"]);
  REQUIRE(cached["kernels"].size() == first["kernels"].size());
  for (size_t i = 0; i < cached["kernels"].size(); ++i)
    for (const char* field : {"name", "m", "m_max", "median_us"})
      CHECK(cached["kernels"][i][field] == first["kernels"][i][field]);
  const Run text = qcodegen({"compile", kMlp, "-o", dir / "b.qcg", "--m", "1,1024", "--tune=fast"});
  CHECK_MESSAGE(text.out.find(" 0 candidates") == std::string::npos, text.out);
}

TEST_CASE("without merge_sibling_linears nothing is merged and the results stay the same") {
  TempDir dir;
  const json merged = compile(kMlp, dir / "merged.qcg");
  const json unmerged = compile(kMlp, dir / "unmerged.qcg", {"--disable-pass", "merge_sibling_linears"});
  CHECK(merged["merged"].size() == 1);
  CHECK(unmerged["merged"].empty());
  for (const char* m : {"m1", "m5", "m33"}) {
    INFO(std::string(m));
    const std::string stem = source_path("examples/llama_mlp_int8/") + m;
    for (const char* program : {"merged", "unmerged"})
      CHECK(qcodegen({"check", dir / (program + std::string(".qcg")), "--inputs", stem + ".inputs.safetensors",
                      "--expected", stem + ".expected.safetensors"})
                .status == 0);
  }
}

TEST_CASE("emit prints the graph, the plan, the source and the assembly, and writes nothing") {
  TempDir dir;
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {"graph", "qcg.linear"}, {"plan", "gate_proj"}, {"source", "#include \"abi.h\""}, {"asm", "ret"}};
  for (const auto& [kind, word] : kinds) {
    const Run run = qcodegen({"compile", kMlp, "-o", dir / "none.qcg", "--emit", kind, "--target", "cpu:portable"});
    INFO(kind, "\n", run.err);
    CHECK(run.status == 0);
    CHECK(run.out.find(word) != std::string::npos);
    CHECK(!fs::exists(dir / "none.qcg"));
  }
}

TEST_CASE("scales of mxfp4 and nvfp4 are a byte each, where mxfp4's are ordinary powers of two") {
  TempDir dir;
  const auto scale_in_plan = [&](const std::string& exponent, bool nvfp4 = false) {
    std::string graph = slurp(source_dir() + "/examples/native/linear_mxfp4.json");
    const auto replace = [&](const std::string& from, const std::string& to) {
      REQUIRE(graph.find(from) != std::string::npos);
      graph.replace(graph.find(from), from.size(), to);
    };
    replace("130]", exponent + "]");
    if (nvfp4) {
      replace("\"u8\", \"shape\": [4, 1]", "\"f8e4m3\", \"shape\": [4, 1]");
      replace("[127, 126, 127,", "[448, 0, 0.001953125,");
      replace("}\n  ],\n  \"nodes\"",
              "},\n    {\"name\": \"g\", \"dtype\": \"f32\", \"shape\": [1], \"data\": [0.1]}\n  ],\n  \"nodes\"");
      replace("\"format\": \"mxfp4\"", "\"format\": \"nvfp4\", \"group\": 32, \"global_scale\": \"g\"");
    }
    spit(dir / "g.json", graph);
    const Run run = qcodegen({"compile", dir / "g.json", "--emit=plan"});
    INFO(run.err);
    const size_t at = run.out.find(" scale=");
    return at == std::string::npos ? "f32" : run.out.substr(at + 7, run.out.find(' ', at + 7) - at - 7);
  };
  CHECK(scale_in_plan("130") == "f8e8m0");
  // Numbers are stored twice as large, scales half: of 2^-120 and 2^120 these.
  CHECK(scale_in_plan("8") == "f8e8m0");
  CHECK(scale_in_plan("7") == "bf16");
  CHECK(scale_in_plan("248") == "f8e8m0");
  CHECK(scale_in_plan("249") == "bf16");
  CHECK(scale_in_plan("255") == "f32");  // NaN
  CHECK(scale_in_plan("1.75", true) == "f8e4m3");
  CHECK(scale_in_plan("-1.75", true) == "bf16");
  CHECK(scale_in_plan("\"NaN\"", true) == "f32");
}

TEST_CASE("a pinned log replays its winners, whatever would be chosen without") {
  TempDir dir;
  // At 64 rows every ISA has tiles of several names; at one row AVX2's candidates differ in their prefetch alone.
  const json untuned = compile(kMlp, dir / "untuned.qcg", {"--m", "64"});
  compile(kMlp, dir / "a.qcg", {"--m", "64"}, "fast");
  const auto crowned = crown_losers(dir / "a.qcg/tune.jsonl", dir / "pin.jsonl", untuned["kernels"]);
  REQUIRE(!crowned.empty());
  const json pinned = compile(kMlp, dir / "b.qcg", {"--m", "64", "--pin", dir / "pin.jsonl"});
  size_t replayed = 0;
  for (const json& kernel : pinned["kernels"]) {
    const auto name = crowned.find(kernel["nodes"].dump());
    if (name == crowned.end()) continue;
    CHECK(kernel["name"] == name->second);
    ++replayed;
  }
  CHECK(replayed > 0);
  CHECK(qcodegen({"check", dir / "b.qcg"}).status == 0);
}

TEST_CASE("merged linears are timed one by one, and a log that says they lost takes them apart") {
  TempDir dir;
  const json first = compile(kMlp, dir / "a.qcg", {"--m", "1"}, "fast");
  REQUIRE(first["merge_trials"].size() == 1);
  INFO(first["warnings"].dump());
  const json trial = first["merge_trials"][0];
  check_fields(trial, {"step", "fusion", "kept", "timings"});
  CHECK(trial["fusion"] == "siblings");
  REQUIRE(trial["timings"].size() == 1);
  CHECK(trial["timings"][0]["merged_us"].get<double>() > 0);
  CHECK(trial["timings"][0]["separate_us"].get<double>() > 0);

  rewrite_as_lost(dir / "a.qcg/tune.jsonl", dir / "lost.jsonl");
  const json second = compile(kMlp, dir / "b.qcg", {"--m", "1", "--pin", dir / "lost.jsonl"}, "fast");
  CHECK(second["merge_trials"][0]["kept"] == false);
  CHECK(second["merged"].empty());
  for (const json& kernel : second["kernels"]) CHECK(kernel["segments"] == 1);
  CHECK(qcodegen({"check", dir / "b.qcg"}).status == 0);
  CHECK(qcodegen({"bench", dir / "b.qcg", "--m", "1", "--budget", "0.05"}).status == 0);
}

TEST_CASE("a concatenation read in place is timed against copying it first, and a log that says it lost keeps it") {
  TempDir dir;
  const std::string graph = source_path("examples/recsys_cat_linear/graph.pt2");
  const json first = compile(graph, dir / "a.qcg", {"--m", "1"}, "fast");
  REQUIRE(first["merge_trials"].size() == 1);
  INFO(first["warnings"].dump());
  CHECK(first["merge_trials"][0]["fusion"] == "cat");
  REQUIRE(first["merge_trials"][0]["timings"].size() == 1);
  CHECK(first["merge_trials"][0]["timings"][0]["separate_us"].get<double>() > 0);
  if (first["merge_trials"][0]["kept"] == true) CHECK(first["cat_split"].size() == 1);
  rewrite_as_lost(dir / "a.qcg/tune.jsonl", dir / "lost.jsonl");
  const json second = compile(graph, dir / "b.qcg", {"--m", "1", "--pin", dir / "lost.jsonl"}, "fast");
  CHECK(second["merge_trials"][0]["kept"] == false);
  CHECK(second["cat_split"].empty());
  check_explained(dir / "a.qcg", first["merge_trials"][0]);
  check_explained(dir / "b.qcg", second["merge_trials"][0]);
  CHECK(qcodegen({"check", dir / "b.qcg"}).status == 0);
}

TEST_CASE("bench --all times a scheme on a shape without any file, and says what it does not know") {
  const Run run = qcodegen({"bench", "--all", "--schemes", "s8s8", "--shapes", "o", "--m", "1,4", "--against", "none",
                            "--budget", "0.05", "--json"});
  INFO(run.err);
  REQUIRE(run.status == 0);
  check_fields(run.json()["ceilings"], {"read_gbps", "peak_gflops", "threads"});
  const json rows = run.json()["rows"];
  REQUIRE(rows.size() == 2);
  for (const json& row : rows) {
    check_fields(
        row, {"kernel", "n", "k", "m", "scheme", "who", "median_us", "p10_us", "p90_us", "gbps", "gflops", "share"});
    CHECK(row["kernel"] == "o");
    CHECK(row["median_us"].get<double>() > 0);
  }
  CHECK(qcodegen({"bench", "--all", "--schemes", "w5"}).status == 2);
  CHECK(qcodegen({"bench", "--all", "--shapes", "x"}).status == 2);
  CHECK(qcodegen({"bench"}).status == 2);
}

TEST_CASE("explain says what fired, what did not and why") {
  const Run run = qcodegen({"explain", source_path("examples/recsys_cat_linear/graph.pt2"), "--json"});
  REQUIRE(run.status == 0);
  const json explained = run.json();
  bool split = false;
  for (const json& pass : explained["passes"]) {
    check_fields(pass, {"name", "fired", "skipped"});
    split = split || (pass["name"] == "split_cat_linear" && pass["fired"] == 1);
  }
  CHECK(split);
  REQUIRE(explained["problems"].size() == 1);
  check_fields(explained["problems"][0], {"name", "nodes", "scheme", "n", "k", "segments", "epilogue"});
  CHECK(explained["problems"][0]["n"] == 80);
  CHECK(explained["problems"][0]["k"] == 64 + 96 + 33);
}

TEST_CASE("check compiles a graph on the spot") {
  const Run run = qcodegen({"check", source_path("examples/recsys_cat_linear/graph.pt2"), "--trials", "2", "--json"});
  INFO(run.err);
  CHECK(run.status == 0);
  CHECK(run.json()["ok"] == true);
}

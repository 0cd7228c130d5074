// One program for several targets: it shares weights, and runs, checks and explains one target at a time.
#include "tests/cli_runner.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

const std::string kFatGraph = source_path("examples/llama_mlp_int8/graph.pt2");
const std::string kFatInputs = source_path("examples/llama_mlp_int8/m5.inputs.safetensors");
const std::string kFatExpected = source_path("examples/llama_mlp_int8/m5.expected.safetensors");

Run compile_all(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "compile");
  Run run = qcodegen(std::move(arguments));
  INFO(run.err);
  REQUIRE(run.status == 0);
  return run;
}

}  // namespace

TEST_CASE("a program for several targets runs what the host can run, or the target that is asked for") {
  TempDir dir;
  const std::string fat = dir / "fat.qcg", list = "cpu:portable,cpu:avx2";
  const json compiled = compile_all({kFatGraph, "--target", list, "--tune=off", "-o", fat, "--json"}).json();
  CHECK(compiled["document"] == "compile_targets");
  REQUIRE(compiled["compiles"].size() == 2);
  CHECK(compiled["compiles"][1]["target"] == "cpu:avx2");
  CHECK(compiled["compiles"][1]["verified"]["scope"] == "program");
  const json manifest = json::parse(slurp(fat + "/manifest.json"));
  CHECK(manifest["version"] == 4);
  REQUIRE(manifest["targets"].size() == 2);
  CHECK(manifest["targets"][0]["target"] == "cpu:avx2");  // the best first
  CHECK(!manifest.contains("target"));
  CHECK(fs::exists(fat + "/fat.h"));

  const json best = qcodegen({"run", fat, "--inputs", kFatInputs, "--outputs", dir / "best", "--json"}).json();
  CHECK(best["target"] == "cpu:avx2");
  for (const std::string target : {"cpu:portable", "cpu:avx2"}) {
    INFO(target);
    const std::string alone = dir / "alone.qcg";
    compile_all({kFatGraph, "--target", target, "--tune=off", "-o", alone});
    REQUIRE(qcodegen({"run", alone, "--inputs", kFatInputs, "--outputs", dir / "a"}).status == 0);
    const Run forced =
        qcodegen({"run", fat, "--inputs", kFatInputs, "--outputs", dir / "f", "--target", target, "--json"});
    REQUIRE_MESSAGE(forced.status == 0, forced.err);
    CHECK(forced.json()["target"] == target);
    CHECK(slurp(dir / "f") == slurp(dir / "a"));
    CHECK((slurp(dir / "f") == slurp(dir / "best") || target != "cpu:avx2"));
    const Run checked =
        qcodegen({"check", fat, "--target", target, "--inputs", kFatInputs, "--expected", kFatExpected, "--json"});
    REQUIRE_MESSAGE(checked.status == 0, checked.err);
    CHECK(checked.json()["ok"] == true);
    const json inspected = qcodegen({"inspect", fat, "--target", target, "--json"}).json();
    CHECK(inspected["target"] == target);
    CHECK(inspected["inputs"] == qcodegen({"inspect", alone, "--json"}).json()["inputs"]);
    const json explained = qcodegen({"explain", fat, "--target", target, "--json"}).json();
    CHECK(explained["steps"] == 2);
    const json log = qcodegen({"log", fat, "--target", target, "--json"}).json();
    CHECK(log["records"].size() == qcodegen({"log", alone, "--json"}).json()["records"].size());
    CHECK(log["records"][0]["compiled_for"] == target);
    CHECK(qcodegen({"log", alone, "--target", target}).status == 0);
    CHECK(qcodegen({"log", alone, "--target", "cuda"}).status == 1);
    CHECK(qcodegen({"report", fat, "--target", target, "-o", dir / "report.html"}).status == 0);
    CHECK(slurp(dir / "report.html").find("\"target\":\"" + target + "\"") != std::string::npos);
    CHECK(qcodegen({"bench", fat, "--target", target, "--m", "1", "--budget", "0.05"}).status == 0);
    CHECK(qcodegen({"bench", fat, "--target", target, "--whole", "--budget", "0.05"}).status == 0);
  }
  const Run inspected = qcodegen({"inspect", fat});
  CHECK(inspected.out.find("cpu:portable") != std::string::npos);
  const json targets = qcodegen({"inspect", fat, "--json"}).json()["targets"];
  REQUIRE(targets.size() == 2);
  CHECK(targets[1]["target"] == "cpu:portable");
  CHECK(targets[1]["runs_here"] == true);
  CHECK(qcodegen({"log", fat}).out.find("cpu:portable gate_proj+up_proj") != std::string::npos);
  CHECK(qcodegen({"log", fat, "--target", "cpu", "--json"}).json()["records"][0]["compiled_for"] == "cpu:avx2");
  check_refused({"log", fat, "--compare", fat}, 2, "choose one with --target");
  check_refused({"run", fat, "--inputs", kFatInputs, "--target", "cpu:avx512"}, 1,
                "it was compiled for cpu:avx2, cpu:portable");
  check_refused({"check", fat, "--target", "cuda"}, 1, "has no target 'cuda'");
  check_refused({"explain", fat, "--target", "sm_80"}, 1, "has no target 'sm_80'");
  check_refused({"inspect", kFatGraph, "--target", "cpu"}, 2, "this option is for programs");

  // Again: nothing is compiled, and the bytes are the same.
  const std::string before = slurp(fat + "/manifest.json");
  const json again = compile_all({kFatGraph, "--target", list, "--tune=off", "-o", fat, "--json"}).json();
  for (const json& one : again["compiles"]) CHECK(one["compiler_runs"] == 0);
  CHECK(slurp(fat + "/manifest.json") == before);
  // It is replaced by a program for one target.
  compile_all({kFatGraph, "--target", "cpu:portable", "--tune=off", "-o", fat});
  CHECK(json::parse(slurp(fat + "/manifest.json"))["target"] == "cpu:portable");
}

TEST_CASE("targets of one layout share weights, and a target that does not run here is not tuned") {
  TempDir dir;
  const std::string fat = dir / "fat.qcg", one = dir / "one.qcg";
  compile_all({kFatGraph, "--target", "cpu:avx512", "--tune=off", "-o", one});
  const auto weights = [](const std::string& program) { return fs::file_size(program + "/weights.bin"); };
  const json shared =
      compile_all({kFatGraph, "--target", "cpu:avx512,cpu:avx512bf16", "--tune=off", "-o", fat, "--json"}).json();
  CHECK(weights(fat) == weights(one));
  CHECK(shared["shared_bytes"].get<uint64_t>() > weights(one) / 2);
  // Both read all of it.
  const json manifest = json::parse(slurp(fat + "/manifest.json"));
  const auto offsets = [&](size_t target) {
    std::vector<int64_t> out;
    for (const json& buffer : manifest["targets"][target]["buffers"])
      if (buffer["kind"] == "weights") out.push_back(buffer["offset"]);
    return out;
  };
  CHECK(offsets(0) == offsets(1));

  const Run mixed = compile_all({kFatGraph, "--target", "cpu:portable,cpu:amx", "--m", "1", "-o", fat, "--json"});
  const json compiles = mixed.json()["compiles"];
  for (const json& compile : compiles) {
    const std::string target = compile["target"];
    const bool runs = qcodegen({"inspect", fat, "--target", target, "--json"}).json()["runs_here"];
    CHECK(!compile["kernels"].empty());
    for (const json& kernel : compile["kernels"]) CHECK((kernel["median_us"] > 0.0) == runs);
    CHECK(runs == (mixed.err.find("warning: " + target + " is not tuned") == std::string::npos));
  }
  // The winners of each target are pinned for that target alone.
  const json pinned = compile_all({kFatGraph, "--target", "cpu:portable,cpu:amx", "--m", "1", "--pin", fat, "-o",
                                   dir / "p.qcg", "--json"})
                          .json();
  const json& pins = pinned["compiles"][0]["pins"];
  CHECK(pins["pinned"] == compiles[0]["kernels"].size());  // two or three: gate and up may be faster apart
}

TEST_CASE("methods for several targets share one program") {
  TempDir dir;
  const std::string fat = dir / "fat.qcg";
  const std::string graph = source_path("tests/cli/state_models/positions/graph.pt2");
  const std::string t0 = source_path("tests/cli/state_models/positions/t0.inputs.safetensors");
  const json compiled = compile_all({"take=" + graph, "again=" + graph, "--target", "cpu:avx2,cpu:portable",
                                     "--tune=off", "-o", fat, "--json"})
                            .json();
  REQUIRE(compiled["compiles"].size() == 4);
  CHECK(compiled["compiles"][1]["method"] == "again");
  const json manifest = json::parse(slurp(fat + "/manifest.json"));
  REQUIRE(manifest["targets"].size() == 2);
  CHECK(manifest["targets"][1]["methods"].size() == 2);
  CHECK(manifest["targets"][0]["states"] == manifest["targets"][1]["states"]);
  CHECK(fs::exists(fat + "/fat_take.h"));
  for (const std::string target : {"cpu:avx2", "cpu:portable"})
    for (const std::string method : {"take", "again"}) {
      const Run run = qcodegen({"run", fat, "--target", target, "--method", method, "--inputs", t0, "--json"});
      CHECK_MESSAGE(run.status == 0, run.err);
    }
  CHECK(qcodegen({"inspect", fat, "--json"}).json()["methods"].size() == 2);
  check_refused({"check", fat}, 2, "choose one of: again, take");
  CHECK(qcodegen({"check", fat, "--method", "take", "--target", "cpu:portable", "--m", "2"}).status == 0);
}

TEST_CASE("lists of targets that make no sense are refused") {
  TempDir dir;
  const std::string out = dir / "x.qcg";
  check_refused({"compile", kFatGraph, "--target", "cpu:avx2,cpu:avx2", "-o", out}, 2, "cpu:avx2 is named twice");
  check_refused({"compile", kFatGraph, "--target", "cpu:avx2,", "-o", out}, 2, "unknown target ''");
  check_refused({"compile", kFatGraph, "--target", "cpu:avx2,cpu:mmx", "-o", out}, 2, "unknown target 'cpu:mmx'");
  check_refused({"compile", kFatGraph, "--target", "cpu:avx2,cpu:portable", "--emit=plan"}, 2, "takes one target");
  check_refused({"explain", kFatGraph, "--target", "cpu:avx2,cpu:portable"}, 2, "several targets are named");
  CHECK(!fs::exists(out));
}

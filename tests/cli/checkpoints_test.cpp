// A quantized checkpoint for a graph that was exported dense, without weights: compile, explain, check.
#include "tests/cli_runner.h"

using namespace qcg::test;

namespace {

std::string checkpoint(const std::string& name) { return source_path("tests/checkpoints/fixtures/" + name); }

}  // namespace

TEST_CASE(
    "a dense export takes the weights of a quantized checkpoint, and the program remembers where they came from") {
  TempDir dir;
  const std::vector<std::string> weights = {"--weights", checkpoint("gptq4"), "--prefix", "model.layers.0.mlp."};
  std::vector<std::string> words = {"compile", checkpoint("dense.pt2"), "--tune=off", "-o", dir / "p.qcg", "--json"};
  words.insert(words.end(), weights.begin(), weights.end());
  const Run compiled = qcodegen(words);
  REQUIRE_MESSAGE(compiled.status == 0, compiled.err);
  const auto report = compiled.json();
  CHECK(report["kernels"][0]["step"] == "up_proj");
  CHECK(report["kernels"][0]["name"].get<std::string>().find("w4_g32") != std::string::npos);
  CHECK(report["weight_bytes"] < 32 * 128);  // a byte per weight would be more
  CHECK(report["notes"].dump().find("gptq: 1 quantized weight") != std::string::npos);
  const Run checked = qcodegen({"check", dir / "p.qcg"});  // reads the checkpoint again, under its prefix
  CHECK_MESSAGE(checked.status == 0, checked.err);
  for (const char* option : {"--prefix", "--rename"}) {
    const Run other = qcodegen({"explain", dir / "p.qcg", option, "up=down"});
    CHECK(other.status == 2);
    CHECK_MESSAGE(other.err.find("a program has the options of its compile") != std::string::npos, other.err);
  }

  const Run explained = qcodegen({"explain", checkpoint("dense.pt2"), "--weights", checkpoint("gptq4")});
  CHECK_MESSAGE(explained.out.find("w4") != std::string::npos, explained.out);
}

TEST_CASE("another naming is another compile, and what the graph lacks is listed") {
  TempDir dir;
  const auto compile = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {
        "compile", checkpoint("dense.pt2"), "--weights", checkpoint("gptq4"), "--tune=off",
        "-o",      dir / "p.qcg",           "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return qcodegen(words);
  };
  CHECK(compile({"--rename", "model.layers.0.mlp.up_proj=up_proj"}).status == 0);
  const Run missing = compile({"--rename", "up_proj=down_proj"});
  CHECK(missing.status == 1);
  CHECK_MESSAGE(missing.err.find("none of its tensors has the name") != std::string::npos, missing.err);
  CHECK_MESSAGE(missing.err.find("up_proj.weight") != std::string::npos, missing.err);
  const Run bare = qcodegen({"compile", checkpoint("dense.pt2"), "-o", dir / "p.qcg"});
  CHECK(bare.status == 1);
  CHECK_MESSAGE(bare.err.find("this weight has no data") != std::string::npos, bare.err);
  const Run usage = compile({"--rename", "up_proj"});
  CHECK(usage.status == 2);
}

TEST_CASE("a graph that is a checkpoint, and a checkpoint of an unknown kind, are refused with what to do") {
  TempDir dir;
  fs::copy(checkpoint("gptq4"), dir / "other", fs::copy_options::recursive);
  std::string config = slurp(dir / "other/config.json");
  config.replace(config.find("\"gptq\""), 6, "\"quip\"");
  spit(dir / "other/config.json", config);
  const Run unknown = qcodegen({"compile", checkpoint("dense.pt2"), "--weights", dir / "other", "-o", dir / "p.qcg"});
  CHECK(unknown.status == 1);
  CHECK_MESSAGE(unknown.err.find("'quip'") != std::string::npos, unknown.err);
  CHECK_MESSAGE(unknown.err.find("compressed-tensors") != std::string::npos, unknown.err);
}

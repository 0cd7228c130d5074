// examples/generate: a decoder with state behind the C++ API, on a language model that transformers exported.
#include "tests/cli_runner.h"

using namespace qcg::test;

namespace {

std::string program() {
  static TempDir dir;
  const std::string path = dir / "lm.qcg";
  if (!fs::exists(path)) {
    const Run run = qcodegen({"compile", source_path("examples/generate/lm.pt2"), "--tune=off", "-o", path});
    REQUIRE_MESSAGE(run.status == 0, run.err);
  }
  return path;
}

Run generate(const std::string& prompt, const std::string& flags, const std::string& count_and_more) {
  return run_program({"/bin/bash", "-c", R"(printf '%s' "$1" | "$2" $3 "$4" $5)", "-", prompt,
                      binary_dir() + "/examples/generate", flags, program(), count_and_more});
}

std::string as_ids(const std::string& text) {
  std::string out;
  for (const char c : text) out += std::to_string(int{c}) + " ";
  return out;
}

}  // namespace

TEST_CASE("the example generates the tokens that eager PyTorch does") {
  const std::string expected = slurp(source_path("examples/generate/expected.txt"));
  REQUIRE(expected.size() == 64);
  const Run text = generate("A kernel is ", "", "64");
  CHECK(text.status == 0);
  CHECK(text.out == expected + "\n");
  CHECK(generate("A kernel is ", "", "64 1 7").out == text.out);  // of one candidate, chance chooses that
  const Run ids = generate(as_ids("A kernel is "), "--ids", "64");
  CHECK(ids.out == as_ids(expected) + "\n");
}

TEST_CASE("the example samples by seed, and continues at any token of a sequence alike") {
  const Run one = generate("A kernel is ", "", "40 5 1");
  CHECK(one.status == 0);
  CHECK(one.out.size() == 41);
  CHECK(generate("A kernel is ", "", "40 5 1").out == one.out);
  CHECK(generate("A kernel is ", "", "40 5 2").out != one.out);
  const std::string expected = slurp(source_path("examples/generate/expected.txt"));
  CHECK(generate("A kernel is " + expected.substr(0, 30), "", "34").out == expected.substr(30) + "\n");
}

TEST_CASE("the example says why it stops") {
  CHECK(generate("", "", "4").status == 2);
  const Run full = generate(std::string(511, 'a'), "", "3");  // in two runs, of 510 tokens and of one
  CHECK(full.status == 1);
  CHECK(full.out.size() == 2);  // the cache has 512 places: the second token still gets one, what follows it does not
  CHECK(full.err.find("is 512 at") != std::string::npos);
}

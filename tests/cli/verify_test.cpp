// compile says what of the program was compared with the oracle, and a cached program says it again.
#include "tests/cli_runner.h"

using namespace qcg::test;

TEST_CASE("compile says what was verified, in text and JSON, also when the program comes from the cache") {
  TempDir dir;
  const std::string graph = source_path("examples/native/linear_w8.json"), program = dir / "p.qcg";
  const auto compile = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"compile", graph, "-o", program, "--tune=off"});
    more.insert(more.end(), {"--cache-dir", dir / "cache"});
    const Run run = qcodegen(more);
    INFO(run.err);
    CHECK(run.status == 0);
    return run;
  };
  const auto first = compile({"--json"}).json();
  CHECK(first["unchanged"] == false);
  CHECK(first["verified"]["scope"] == "program");
  CHECK(first["verified"]["outputs"] == 1);
  CHECK(first["verified"]["unchecked"].empty());
  CHECK(first["verified"]["checked"].size() == first["verified"]["trials"].size());
  const auto again = compile({"--json"}).json();
  CHECK(again["unchanged"] == true);
  CHECK(again["verified"] == first["verified"]);
  // Another promise is another compile.
  const Run kernels = compile({"--verify=kernels"});
  CHECK(kernels.out.find("\nverify   kernels ") != std::string::npos);
  CHECK(kernels.out.find("not run as a whole (--verify=kernels)") != std::string::npos);
  const Run whole = compile({"--no-cache"});
  CHECK(whole.out.find("\nverify   program                1 output right at m = ") != std::string::npos);
}

TEST_CASE("what this host cannot run is not said to be verified") {
  std::string target;
  const nlohmann::json targets = qcodegen({"list", "targets", "--json"}).json()["rows"];
  for (const auto& row : targets)
    if (row["name"].get<std::string>().starts_with("cpu:") && row["host"] != "yes") target = row["name"];
  if (target.empty()) {
    MESSAGE("skipped: this host runs every target");
    return;
  }
  TempDir dir;
  const Run run = qcodegen({"compile", source_path("examples/native/linear_w8.json"), "--target", target, "--tune=off",
                            "-o", dir / "p.qcg"});
  INFO(run.err);
  CHECK(run.status == 0);
  CHECK(run.err.find("neither kernels nor the program were verified: this host cannot run it") != std::string::npos);
  CHECK(run.out.find("\nverify   nothing                this host cannot run it") != std::string::npos);
}

// bench of a whole CUDA program, in a process whose driver is host_device.cpp's.
#include "tests/cli_runner.h"
#include "tests/cuda/cuda_compiler.h"

using namespace qcg;
using namespace qcg::test;
using nlohmann::json;

namespace {

Run on_host_device(std::vector<std::string> arguments) {
  std::vector<std::string> argv = {"/usr/bin/env", "LD_LIBRARY_PATH=" + binary_dir() + "/tests/host_device",
                                   cli_path()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_program(argv);
}

}  // namespace

TEST_CASE("bench of a CUDA program times its phases and kinds beside the ceilings of the device") {
  if (!cuda_compiler()) return;
  TempDir dir;
  const std::string program = dir / "positions.qcg";
  const Run compiled = qcodegen({"compile", source_path("tests/cli/state_models/positions/graph.pt2"),
                                 "--target=cuda:sm_80", "--tune=off", "-o", program});
  REQUIRE_MESSAGE(compiled.status == 0, compiled.err);
  const std::vector<std::string> bench = {"bench", program, "--prompt", "5", "--decode", "3", "--budget", "0.05"};
  std::vector<std::string> with_json = bench;
  with_json.push_back("--json");
  const json report = on_host_device(with_json).json();
  CHECK(report["ceilings"]["read_gbps"] > 0);
  CHECK(report["ceilings"]["peak_gflops"]["bf16"] > report["ceilings"]["peak_gflops"]["f32"]);
  CHECK(report["empty_step_us"] == 0);
  REQUIRE(report["phases"].size() == 2);
  for (const json& phase : report["phases"]) {
    INFO(phase["phase"]);
    CHECK(phase["median_us"] > 0);
    CHECK(phase["read_floor_us"] > 0);
    CHECK(phase["steps"].size() > 0);
    for (const json& row : phase["steps"]) CHECK(row["us"] > 0);
  }
  CHECK(report["phases"][0]["samples"] >= 3);
  CHECK(report["phases"][1]["samples"] == 3);

  const Run text = on_host_device(bench);
  CHECK(text.status == 0);
  CHECK_MESSAGE(text.out.starts_with("ceilings of the device: read "), text.out);
  CHECK(text.out.find("decode 3") != std::string::npos);
  CHECK(text.out.find("does nothing") == std::string::npos);

  const Run here = qcodegen(bench);  // fails unless there is a device
  if (here.status != 0)
    CHECK_MESSAGE(here.err.find("but there is no NVIDIA driver here") != std::string::npos, here.err);

  const std::string mlp = dir / "mlp.qcg";
  REQUIRE(qcodegen({"compile", source_path("examples/llama_mlp_int8/graph.pt2"), "--target=cuda:sm_80", "--tune=off",
                    "-o", mlp})
              .status == 0);
  const json whole = on_host_device({"bench", mlp, "--sizes", "s6=64", "--budget", "0.05", "--json"}).json();
  REQUIRE(whole["phases"].size() == 1);
  CHECK(whole["phases"][0]["multiply_floor_us"] > 0);
}

// Where the time goes: profiles of runs, traces, two programs in turn, linears without a program, and what inspect knows.
#include <map>

#include "tests/cli_runner.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

// A Llama MLP with int8 weights: two steps.
std::string mlp() {
  static TempDir dir;
  const std::string program = dir / "mlp.qcg";
  if (!fs::exists(program))
    REQUIRE(
        qcodegen({"compile", source_path("examples/llama_mlp_int8/graph.pt2"), "--tune=off", "-o", program}).status ==
        0);
  return program;
}

const std::string& mlp_inputs() {
  static const std::string path = source_path("examples/llama_mlp_int8/m33.inputs.safetensors");
  return path;
}

void check_usage(std::vector<std::string> arguments, const std::string& text) {
  const Run run = qcodegen(std::move(arguments));
  INFO(run.err);
  CHECK(run.status == 2);
  CHECK(run.err.find(text) != std::string::npos);
}

}  // namespace

TEST_CASE("run --profile says what each step took, at which rate, and how busy its threads were") {
  const std::vector<std::string> command = {"run", mlp(),      "--inputs", mlp_inputs(), "--threads",
                                            "2",   "--repeat", "20",       "--profile"};
  std::vector<std::string> with_json = command;
  with_json.push_back("--json");
  const json report = qcodegen(with_json).json();
  const json& profile = report["profile"];
  CHECK(profile["runs"] == 20);
  CHECK(profile["threads"] == 2);
  CHECK(profile["read_gbps"] > 0);
  REQUIRE(profile["steps"].size() == 2);
  double sum = 0;
  for (const json& step : profile["steps"]) {
    CHECK(step["us"] > 0);
    CHECK(step["kind"] == "w8");
    CHECK(step["kernel"].get<std::string>().starts_with("kernels/qgemm_"));
    CHECK(step["gbps"].get<double>() == doctest::Approx(step["bytes"].get<double>() / step["us"].get<double>() * 1e-3));
    CHECK(step["share"] > 0);
    REQUIRE(step["thread_us"].size() == 2);
    double busy = 0;
    for (const json& us : step["thread_us"]) busy += us.get<double>();
    CHECK(busy > 0);
    sum += step["us"].get<double>();
  }
  CHECK(profile["run_us"].get<double>() <= report["p90_us"].get<double>());
  // 33 rows of bf16 and at least a byte per weight.
  CHECK(profile["steps"][1]["bytes"] >= 704 * 256 + 2 * 33 * (704 + 256));
  CHECK(profile["steps"][1]["bytes"] < 2 * (704 * 256 + 2 * 33 * (704 + 256)));

  const Run text = qcodegen(command);
  CHECK(text.out.find("gate_proj+up_proj") != std::string::npos);
  CHECK(text.out.find("2 steps: ") != std::string::npos);
  const Run plain = qcodegen({"run", mlp(), "--inputs", mlp_inputs(), "--json"});
  CHECK(!plain.json().contains("profile"));
}

TEST_CASE("bench --trace writes every step on every thread, in order and without overlaps") {
  TempDir dir;
  const std::string trace = dir / "trace.json";
  const Run run =
      qcodegen({"bench", mlp(), "--trace", trace, "--sizes", "s6=200", "--threads", "2", "--budget", "0.05"});
  INFO(run.err);
  REQUIRE(run.status == 0);
  const json document = json::parse(slurp(trace));
  std::map<int, std::string> tracks;
  std::map<int, double> end;  // by track
  std::map<std::string, int> steps;
  int runs = 0;
  for (const json& event : document["traceEvents"]) {
    const int track = event["tid"];
    if (event["ph"] == "M") {
      if (event["name"] == "thread_name") tracks[track] = event["args"]["name"];
      continue;
    }
    CHECK(event["ph"] == "X");
    CHECK(event["dur"] >= 0);
    const std::string name = event["name"];
    if (name == "run") {
      ++runs;
      CHECK(event["args"]["steps"] == 2);
      continue;
    }
    CHECK(event["ts"].get<double>() >= end[track] - 1e-3);
    end[track] = event["ts"].get<double>() + event["dur"].get<double>();
    if (tracks[track] == "steps") ++steps[name];
    else CHECK(event["args"]["items"] > 0);
  }
  CHECK(tracks == std::map<int, std::string>{{0, "steps"}, {1, "thread 0"}, {2, "thread 1"}});
  CHECK(runs >= 3);
  CHECK(steps == std::map<std::string, int>{{"gate_proj+up_proj", runs}, {"down_proj", runs}});
  CHECK(qcodegen({"bench", mlp(), "--trace", dir / "no/trace.json", "--budget", "0.05"}).status == 3);
}

TEST_CASE("bench --compare times two programs in turn and gives the ratio with its spread") {
  TempDir dir;
  const std::string other = dir / "other.qcg";
  REQUIRE(qcodegen({"compile", source_path("examples/llama_mlp_int8/graph.pt2"), "--tune=off", "--target",
                    "cpu:portable", "-o", other})
              .status == 0);
  for (const std::vector<std::string>& order :
       {std::vector<std::string>{"bench", "--compare", mlp(), other}, {"bench", mlp(), "--compare", other}}) {
    std::vector<std::string> command = order;
    for (const char* word : {"--sizes", "s6=64", "--budget", "0.1", "--threads", "1", "--json"})
      command.emplace_back(word);
    const Run run = qcodegen(command);
    INFO(run.err);
    REQUIRE(run.status == 0);
    const json report = run.json();
    CHECK(report["programs"][0]["program"] == mlp());
    CHECK(report["programs"][1]["program"] == other);
    CHECK(report["rounds"] >= 5);
    CHECK(report["programs"][0]["samples"] == report["rounds"]);
    CHECK(report["ratio_p10"] <= report["ratio"]);
    CHECK(report["ratio"] <= report["ratio_p90"]);
    CHECK(report["threads"] == 1);
  }
  const Run same = qcodegen({"bench", "--compare", mlp(), mlp(), "--budget", "0.1"});
  CHECK(same.status == 0);
  CHECK(same.out.find(" in four of five rounds") != std::string::npos);
  check_usage({"bench", "--compare", mlp()}, "--compare takes two programs, not 1");
  check_usage({"bench", mlp(), other}, "one program is timed at a time");
  check_usage({"bench", "--compare", mlp(), other, "--m", "1"}, "excludes");
  check_usage({"bench", "--compare", mlp(), other, "--sizes", "q=1"}, "the program has no symbol q");

  const std::string unlike = dir / "unlike.qcg";
  REQUIRE(qcodegen({"compile", source_path("examples/native/mlp_f32.json"), "--weights", "random:1", "--tune=off", "-o",
                    unlike})
              .status == 0);
  const Run refused = qcodegen({"bench", "--compare", mlp(), unlike});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("has other inputs than") != std::string::npos);
}

TEST_CASE("bench times one linear of any shape without a program") {
  const Run run = qcodegen({"bench", "--scheme", "w4", "--n", "96", "--k", "256", "--m", "1,3", "--against", "none",
                            "--budget", "0.05", "--json"});
  INFO(run.err);
  REQUIRE(run.status == 0);
  REQUIRE(run.json()["rows"].size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const json row = run.json()["rows"][i];
    CHECK(row["n"] == 96);
    CHECK(row["k"] == 256);
    CHECK(row["m"] == (i == 0 ? 1 : 3));
    CHECK(row["scheme"] == "w4");
    CHECK(row["median_us"] > 0);
  }
  check_usage({"bench", "--n", "96"}, "--k");
  check_usage({"bench", "--scheme", "w4", "--n", "96", "--k", "100"}, "100 is no multiple of 128");
  check_usage({"bench", "--n", "96", "--k", "0"}, "--k");
  check_usage({"bench", mlp(), "--n", "96", "--k", "128"}, "linears without a program");
  check_usage({"bench", mlp(), "--scheme", "w4"}, "--all");
}

TEST_CASE("inspect says where a program runs, how large it is and which versions it has") {
  const json report = qcodegen({"inspect", mlp(), "--json"}).json();
  CHECK(report["runs_here"] == true);
  CHECK(report["why_not_here"] == "");
  CHECK(report["format_version"] == 1);
  CHECK(report["kernel_abi"] >= 1);
  CHECK(report["state_bytes"] == 0);
  CHECK(report["weight_bytes"] > 3 * 256 * 704);
  CHECK(report["kernel_bytes"] > 0);
  CHECK(report["weight_bytes"].get<int64_t>() + report["kernel_bytes"].get<int64_t>() < report["bytes"]);
  // One temporary between the two linears: bf16 [m, 704], m from 1 to 4096.
  CHECK(report["temporary_bytes"]["least"] >= 2 * 704);
  CHECK(report["temporary_bytes"]["most"] >= 2 * 704 * 4096);
  const std::string text = qcodegen({"inspect", mlp()}).out;
  for (const char* piece : {"can run it", "of kernels", "kernel ABI", "for temporaries"})
    CHECK_MESSAGE(text.find(piece) != std::string::npos, piece);
}

// log: what it selects, compares and prints for other programs; made-up logs, so that nothing is built or timed.
#include <algorithm>

#include "tests/cli_runner.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

json record(const std::string& step, const std::string& status, int m, double median_us, int samples = 20) {
  return {{"kernel", "qgemm_" + step + "_" + status},
          {"problem", "gemm " + step},
          {"step", step},
          {"nodes", {step}},
          {"target", "avx2"},
          {"candidate", "avx2_fma 4x16 prefetch=4096"},
          {"scheme", "w8"},
          {"activation", "bf16"},
          {"weight", "i8"},
          {"m", m},
          {"m_min", m},
          {"m_max", m},
          {"n", 1408},
          {"k", 256},
          {"threads", 2},
          {"median_s", median_us * 1e-6},
          {"p10_s", median_us * 0.9e-6},
          {"p90_s", median_us * 1.1e-6},
          {"samples", samples},
          {"share", 0.5},
          {"machine", "some machine"},
          {"date", "2026-11-24T07:31:02Z"},
          {"status", status}};
}

std::string write_log(const TempDir& dir, const std::string& name, const std::vector<json>& records) {
  std::string text;
  for (const json& r : records) text += r.dump() + "\n";
  spit(dir / name, text);
  return dir / name;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// Where the line that begins so is; the test fails if there is none.
size_t line_at(const std::vector<std::string>& lines, const std::string& begin) {
  for (size_t i = 0; i < lines.size(); ++i)
    if (lines[i].starts_with(begin)) return i;
  FAIL_CHECK("no line begins with ", begin);
  return lines.size();
}

size_t code_points(const std::string& line) {
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

TEST_CASE("a log without a match fails and names what there is") {
  TempDir dir;
  const std::string log = write_log(dir, "a.jsonl", {record("up", "won", 1, 10), record("down", "won", 16, 20)});
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--m", "99"}, {"--kernel", "nothing*"}, {"--status", "wrong", "--format", "csv"}}) {
    std::vector<std::string> all = {"log", log};
    all.insert(all.end(), flags.begin(), flags.end());
    const Run run = qcodegen(all);
    INFO(flags[0], "\n", run.out, run.err);
    CHECK(run.status == 1);
    CHECK(run.out.empty());
    CHECK(run.err.find("m = 1, 16") != std::string::npos);
    CHECK(run.err.find("down, up") != std::string::npos);
  }
  CHECK(qcodegen({"log", log, "--m", "16"}).status == 0);
  const std::string untimed =
      write_log(dir, "untimed.jsonl", {record("up", "won", 1, 10), record("down", "won", 16, 0)});
  CHECK(qcodegen({"log", untimed, "--json"}).json()["records"].size() == 2);
  CHECK(qcodegen({"log", untimed}).out.find("10.0 µs  -") != std::string::npos);
  CHECK(qcodegen({"log", write_log(dir, "empty.jsonl", {})}).status == 0);  // nothing was asked for that is not there
}

TEST_CASE("what was timed in other rounds has a table of its own, and no place among the winner's rivals") {
  TempDir dir;
  json apart = record("gate+up", "separate", 1, 5);
  apart["candidate"] = "one by one", apart["merged_s"] = 6e-6, apart["reason"] = "1.200 times faster than merged";
  const Run run = qcodegen(
      {"log", write_log(dir, "a.jsonl", {record("gate+up", "won", 1, 10), apart, record("gate+up", "lost", 1, 12)})});
  INFO(run.out);
  const auto lines = lines_of(run.out);
  const size_t own = line_at(lines, "in separate rounds");
  CHECK(line_at(lines, "1  ") < line_at(lines, "2  "));
  CHECK(line_at(lines, "2  ") < own);
  CHECK(line_at(lines, "one by one") == own + 1);
  CHECK(lines[own + 1].find("5.0 µs") != std::string::npos);
  CHECK(lines[own + 1].find("6.0 µs") != std::string::npos);
}

TEST_CASE("a log fits 100 columns, says what disturbed it and ends with a summary") {
  TempDir dir;
  json busy = record("gate_proj+up_proj", "won", 16, 30), slow = record("gate_proj+up_proj", "reference", 16, 90, 1);
  busy["disturbed"] = 19, busy["share"] = 6.2;
  slow["kernel"] = "oneDNN 2.6.3 bf16 matmul on dequantized weight without epilogue", slow["candidate"] = "";
  json broken = record("gate_proj+up_proj", "failed to build", 16, 0);
  broken["reason"] = "kernel.cpp:7:3: error: " + std::string(90, 'x') + " was not declared in this scope";
  const Run run =
      qcodegen({"log", write_log(dir, "a.jsonl", {busy, slow, broken, record("down_proj", "won", 16, 20)})});
  INFO(run.out);
  for (const std::string& line : lines_of(run.out)) CHECK(code_points(line) <= 100);
  CHECK(run.out.find("~30.0 µs") != std::string::npos);
  CHECK(run.out.find("~ other processes used the processors") != std::string::npos);
  CHECK(run.out.find(">110 %") != std::string::npos);
  CHECK(run.out.find("620 %") == std::string::npos);
  CHECK(run.out.find("1 run") != std::string::npos);
  const auto lines = lines_of(run.out);
  CHECK(lines[line_at(lines, "w8 on 2 threads")].find("50.0 µs") != std::string::npos);  // of both kernels
  CHECK(line_at(lines, "50 % of the roofline, 10.0 µs slower than it: down_proj m=16") < lines.size());
  CHECK(line_at(lines, "tuned 2026-11-24 07:31 UTC on some machine") < lines.size());
}

TEST_CASE("two logs are compared winner by winner, with no ratio from one run") {
  TempDir dir;
  const std::string a = write_log(dir, "a.jsonl",
                                  {record("up", "won", 1, 10), record("up", "won", 16, 20),
                                   record("down", "won", 1, 30), record("only_a", "won", 1, 1)});
  const std::string b = write_log(dir, "b.jsonl",
                                  {record("up", "won", 1, 15), record("up", "won", 16, 20.1),
                                   record("down", "won", 1, 900, 1), record("up", "lost", 1, 1)});
  const Run text = qcodegen({"log", a, "--compare", b});
  INFO(text.out);
  CHECK(text.status == 0);
  const auto lines = lines_of(text.out);
  CHECK(lines[line_at(lines, "down")].ends_with("slower (1 run)"));
  const size_t up = line_at(lines, "up");
  CHECK(lines[up].ends_with("1.5× slower"));
  CHECK(lines[up + 1].ends_with("even"));
  CHECK(text.out.find("1 kernel only in the first log\n") != std::string::npos);
  const json document = qcodegen({"log", a, "--compare", b, "--json"}).json();
  REQUIRE(document["rows"].size() == 3);
  for (const json& row : document["rows"])
    if (row["step"] == "up" && row["m"] == 1) CHECK(row["ratio"].get<double>() == doctest::Approx(1.5));
    else if (row["step"] == "down") CHECK(row["ratio"] == 0);
  CHECK(document["only_first"] == 1);
  const std::string other = write_log(dir, "c.jsonl", {record("else", "won", 1, 10)});
  CHECK(qcodegen({"log", a, "--compare", other}).status == 1);
  CHECK(qcodegen({"log", a, "--compare", dir / "none"}).status != 0);
}

TEST_CASE("CSV has step, target and range of m; the other form has what inductor's own log has") {
  TempDir dir;
  const std::string log =
      write_log(dir, "a.jsonl", {record("up", "lost", 4, 12), record("up", "won", 4, 10), record("up", "wrong", 4, 0)});
  const auto csv = lines_of(qcodegen({"log", log, "--format", "csv"}).out);
  REQUIRE(csv.size() == 4);
  for (const char* column : {"step,", ",target,", ",m_min,", ",m_max,", ",samples,", ",disturbed,"})
    CHECK(csv[0].find(column) != std::string::npos);
  CHECK(csv[1].starts_with("up,qgemm_up_won,avx2_fma 4x16 prefetch=4096,avx2,w8,4,4,4,1408,256,"));
  const auto text = lines_of(qcodegen({"log", log, "--format", "inductor"}).out);
  REQUIRE(text.size() == 8);
  CHECK(text[0] == "Autotune Choices Stats:");
  const json stats = json::parse(text[1]);
  CHECK(stats["num_choices"] == 2);
  CHECK(stats["num_triton_choices"] == 0);
  CHECK(stats["best_kernel"] == "qgemm_up_won");
  CHECK(stats["best_time"].get<double>() == doctest::Approx(0.01));
  CHECK(text[2] == "AUTOTUNE linear_w8(4x256, 256x1408)");
  CHECK(text[3] == "strides: [256, 1], [1, 256]");
  CHECK(text[4] == "dtypes: torch.bfloat16, torch.int8");
  CHECK(text[5] == "  qgemm_up_won 0.0100 ms 100.0% avx2_fma 4x16 prefetch=4096");
  CHECK(text[7].ends_with(" seconds precompiling for 2 choices"));
}

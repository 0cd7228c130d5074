// check: what counts as a wrong output.
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/cli_runner.h"

using namespace qcg::test;

namespace {

// One tensor in a safetensors file.
void write_tensor(const std::string& path, const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& data) {
  const std::string header = "{\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
                             ",\"data_offsets\":[0," + std::to_string(data.size()) + "]}}";
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i));
  spit(path, text + header + data);
}

std::string floats(const std::vector<float>& values) {
  std::string out(values.size() * sizeof(float), '\0');
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

// A linear with weights of zero: its output is its bias.
std::string write_bias_graph(const std::string& path, const std::string& dtype) {
  spit(path, R"({"format": "qcodegen", "version": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 4]}],
    "parameters": [{"name": "w", "dtype": "f32", "shape": [4, 4],
                    "data": [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]},
                   {"name": "b", "dtype": "f32", "shape": [4], "data": [1, 0.5, 2, -1]}],
    "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w", "bias": "b"}, "outputs": ["h"]},
              {"op": "to.dtype", "inputs": {"self": "h", "dtype": ")" +
                 dtype + R"("}, "outputs": ["y"]}],
    "outputs": ["y"]})");
  return path;
}

}  // namespace

TEST_CASE("a NaN or an infinity on one side alone is wrong, and excuses nothing else") {
  TempDir dir;
  const std::string graph = write_bias_graph(dir / "g.json", "f32"), program = dir / "g.qcg";
  REQUIRE(qcodegen({"compile", graph, "-o", program, "--tune=off"}).status == 0);
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> zero = {0, 0, 0, 0}, infinite = {0, inf, 0, 0};
  const auto check = [&](const std::vector<float>& x, const std::vector<float>& expected) {
    write_tensor(dir / "x", "x", "F32", "[1,4]", floats(x));
    write_tensor(dir / "y", "y", "F32", "[1,4]", floats(expected));
    const Run run = qcodegen({"check", program, "--inputs", dir / "x", "--expected", dir / "y", "--json"});
    INFO(run.err);
    CHECK(run.json()["outputs"][0]["ok"] == true);  // the oracle sees what the program does
    CHECK(run.json()["ok"] == (run.status == 0));
    return run.status;
  };
  CHECK(check(zero, {1, 0.5, 2, -1}) == 0);
  CHECK(check(zero, {1, nan, 2, -1}) == 1);
  CHECK(check(zero, {1, 0.5, inf, -1}) == 1);
  CHECK(check(zero, {-inf, 0.5, 2, -1}) == 1);
  CHECK(check(zero, {1, 0.5, 2.5, -1}) == 1);
  // Infinity times a weight of zero.
  CHECK(check(infinite, {nan, nan, nan, nan}) == 0);
  CHECK(check(infinite, {nan, nan, nan, 1}) == 1);
  CHECK(check(infinite, {nan, nan, nan, inf}) == 1);
}

TEST_CASE("eight-bit floats may be one step away, not two") {
  TempDir dir;
  write_tensor(dir / "x", "x", "F32", "[1,4]", floats({0, 0, 0, 0}));
  const std::vector<std::tuple<std::string, std::string, std::string>> dtypes = {
      {"f8e4m3", "F8_E4M3", "\x38\x30\x40\xb8"}, {"f8e5m2", "F8_E5M2", "\x3c\x38\x40\xbc"}};
  for (const auto& [dtype, stored, bytes] : dtypes)
    for (int steps = 0; steps <= 2; ++steps) {
      INFO(dtype, " ", steps);
      std::string expected = bytes;
      expected[2] = static_cast<char>(expected[2] + steps);
      write_tensor(dir / "y", "y", stored, "[1,4]", expected);
      const Run run =
          qcodegen({"check", write_bias_graph(dir / "g.json", dtype), "--inputs", dir / "x", "--expected", dir / "y"});
      INFO(run.out, run.err);
      CHECK(run.status == (steps <= 1 ? 0 : 1));
    }
}

TEST_CASE("--trials counts with --m too: so many at each") {
  const std::string graph = source_path("examples/native/linear_w8.json");
  const auto trials = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"check", graph, "--json"});
    return qcodegen(more).json()["trials"];
  };
  CHECK(trials({}).size() == 3);
  TempDir dir;
  spit(dir / "g.txt", "graph(%x: f32[8]) {\n  %y = aten.relu.default(%x) : f32[8]\n  return %y\n}\n");
  CHECK(qcodegen({"check", dir / "g.txt", "--json"}).json()["trials"] ==
        nlohmann::json({"seed 1", "seed 2", "seed 3"}));
  CHECK(trials({"--m", "2,3"}) == nlohmann::json({"m=2", "m=3"}));
  CHECK(trials({"--m", "2,3", "--trials", "2"}) == nlohmann::json({"m=2", "m=3", "m=2", "m=3"}));
}

TEST_CASE("a single result that cancels may be off by what the roundings before it are, and no more") {
  TempDir dir;
  spit(dir / "g.json", R"({"format": "qcodegen", "version": 1,
    "inputs": [{"name": "x", "dtype": "bf16", "shape": [1, 2]}],
    "parameters": [{"name": "w", "dtype": "bf16", "shape": [2, 2], "data": [[1, 0], [0, 1]]},
                   {"name": "v", "dtype": "bf16", "shape": [1, 2], "data": [[1, -1]]}],
    "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w"}, "outputs": ["h"]},
              {"op": "linear", "inputs": {"input": "h", "weight": "v"}, "outputs": ["y"]}],
    "outputs": ["y"]})");
  const auto bf16 = [](const std::vector<float>& values) {
    std::string out;
    for (float v : values) out += floats({v}).substr(2);
    return out;
  };
  write_tensor(dir / "x", "x", "BF16", "[1,2]",
               bf16({1, 1 - 0x1p-8f}));  // y = 2^-8, of numbers that roundings may move by as much
  const auto check = [&](float expected) {
    write_tensor(dir / "y", "y", "BF16", "[1,1]", bf16({expected}));
    return qcodegen({"check", dir / "g.json", "--inputs", dir / "x", "--expected", dir / "y"}).status;
  };
  CHECK(check(0x1p-8f) == 0);
  CHECK(check(0x1p-8f + 0x1p-9f) == 0);
  CHECK(check(0x1p-5f) == 1);
}

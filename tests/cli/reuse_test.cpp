// What a compile reads counts: a change to any file of the weights, and paths of any kind.
#include <sys/stat.h>

#include <span>

#include "graph/read/safetensors.h"
#include "tests/cli_runner.h"

using namespace qcg::test;

namespace {

constexpr const char* kLinear = R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 64]},
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", 8]}],
  "parameters": [{"name": "w", "dtype": "f32", "shape": [4, 8]}],
  "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w"}, "outputs": ["y"]}], "outputs": ["y"]})";

qcg::Tensor filled(std::vector<int64_t> shape, float value) {
  const std::vector<float> values(static_cast<size_t>(shape[0] * shape[1]), value);
  const auto bytes = std::as_bytes(std::span(values));
  return qcg::Tensor::from_bytes(qcg::DType::f32, std::move(shape), {bytes.begin(), bytes.end()});
}

double first_element(const std::string& path, const std::string& name) {
  const auto read = qcg::read_safetensors(path);
  REQUIRE(read.ok());
  return qcg::element_to_double(qcg::DType::f32, read->tensors.at(name).bytes().data());
}

void write_tensor(const std::string& path, const std::string& name, const qcg::Tensor& tensor) {
  REQUIRE(qcg::write_safetensors(path, {{name, tensor}}).ok());
}

}  // namespace

TEST_CASE("a shard that changed is compiled again, named by its index or by the folder") {
  TempDir dir;
  spit(dir / "linear.json", kLinear);
  spit(dir / "model.safetensors.index.json", R"({"weight_map": {"w": "part.safetensors"}})");
  write_tensor(dir / "x.st", "x", filled({1, 8}, 1));
  for (const std::string& weights : {dir / "model.safetensors.index.json", dir.path()})
    for (const float value : {1.0f, 2.0f}) {
      write_tensor(dir / "part.safetensors", "w", filled({4, 8}, value));
      for (const bool again : {false, true}) {
        const Run run = qcodegen(
            {"compile", dir / "linear.json", "--weights", weights, "--tune=off", "-o", dir / "p.qcg", "--json"});
        REQUIRE_MESSAGE(run.status == 0, run.err);
        if (again) CHECK(run.json()["unchanged"] == true);
      }
      REQUIRE(qcodegen({"run", dir / "p.qcg", "--inputs", dir / "x.st", "--outputs", dir / "y.st"}).status == 0);
      CHECK(first_element(dir / "y.st", "y") == 8 * value);
    }
}

TEST_CASE("a pipe or a device is refused at once, as the graph, the weights and the log") {
  TempDir dir;
  spit(dir / "linear.json", kLinear);
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  for (const std::string& endless : {dir / "pipe", std::string("/dev/zero")}) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{endless},
          {dir / "linear.json", "--weights", endless},
          {dir / "linear.json", "--weights", "random:1", "--pin", endless}}) {
      std::vector<std::string> all = {"compile", "-o", dir / "p.qcg"};
      all.insert(all.end(), arguments.begin(), arguments.end());
      const Run run = qcodegen(all);
      INFO(run.err);
      CHECK(run.status == 1);
      CHECK(run.err.find("not a regular file") != std::string::npos);
    }
  }
}

TEST_CASE("a program knows its graph by any path that the system allows") {
  TempDir dir;
  const std::string folder = dir / "d\xff 100%41";
  REQUIRE(fs::create_directory(folder));
  spit(folder + "/linear.json", kLinear);
  write_tensor(folder + "/w\xfe.safetensors", "w", filled({4, 8}, 1));
  const Run compiled = qcodegen({"compile", folder + "/linear.json", "--weights", folder + "/w\xfe.safetensors",
                                 "--tune=off", "-o", folder + "/p.qcg"});
  REQUIRE_MESSAGE(compiled.status == 0, compiled.err);
  const Run checked = qcodegen({"check", folder + "/p.qcg"});
  CHECK_MESSAGE(checked.status == 0, checked.err);
}

TEST_CASE("--explain says why kernels were built, until none is") {
  TempDir dir;
  spit(dir / "linear.json", kLinear);
  for (const bool again : {false, true}) {
    const Run run = qcodegen({"compile", dir / "linear.json", "--weights", again ? "random:2" : "random:1",
                              "--tune=off", "--explain", "--cache-dir", dir / "cache", "-o", dir / "p.qcg"});
    REQUIRE_MESSAGE(run.status == 0, run.err);
    const bool explained = run.out.find("not in the cache: nothing like it was built before") != std::string::npos;
    CHECK(explained != again);
  }
}

// What a compile reads counts: a change to any file of the weights, and paths of any kind.
#include <sys/stat.h>

#include "tests/cli_runner.h"

using namespace qcg::test;

namespace {

constexpr const char* kLinear = R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 64]},
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", 8]}],
  "parameters": [{"name": "w", "dtype": "f32", "shape": [4, 8]}],
  "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w"}, "outputs": ["y"]}], "outputs": ["y"]})";

}  // namespace

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

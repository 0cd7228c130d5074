// What people see of a graph and of a program: its signature, the names of steps, and where a kernel's source says it
// is from.
#include <filesystem>
#include <set>

#include "tests/cli_runner.h"

using namespace qcg::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Weights with numbers for names, a weight that is computed, and one kernel of every kind.
const std::string kEveryKind = R"(symbol m in [1, 64]
param @0.weight: f32[16, 32]
param @1.weight: f32[16, 32]
param @layers.0.q.parametrizations.weight.original0: f32[16, 16]
param @s: f32[16, 1]
graph(%x: f32[m, 32]) {
  %linear = aten.linear.default(%x, @0.weight) : f32[m, 16]
  %linear_1 = aten.linear.default(%x, @1.weight) : f32[m, 16]
  %silu = aten.silu.default(%linear) : f32[m, 16]
  %mul = aten.mul.Tensor(%silu, %linear_1) : f32[m, 16]
  %mean = aten.mean.dim(%mul, [-1], true) : f32[m, 1]
  %sub = aten.sub.Tensor(%mul, %mean) : f32[m, 16]
  %tanh = aten.tanh.default(%sub) : f32[m, 16]
  %view = aten.mul.Tensor(@layers.0.q.parametrizations.weight.original0, @s) : f32[16, 16]
  %linear_2 = aten.linear.default(%tanh, %view) : f32[m, 16]
  %t = aten.t.default(%linear_2) : f32[16, m]
  %mm = aten.mm.default(%linear_2, %t) : f32[m, m]
  return %mm as "scores"
}
)";

// Linears of one size, one after the other; `name` goes before the number of each weight.
std::string equal_layers(const std::string& name, int count) {
  std::string params, nodes, last = "x";
  for (int i = 0; i < count; ++i) {
    const std::string weight = "@" + name + "." + std::to_string(i) + ".proj.weight", out = name + std::to_string(i);
    params += "param " + weight + ": f32[16, 16]\n";
    nodes += "  %" + out + " = aten.linear.default(%" + last + ", " + weight + ") : f32[4, 16]\n";
    last = out;
  }
  return params + "graph(%x: f32[4, 16]) {\n" + nodes + "  return %" + last + " as \"y\"\n}\n";
}

std::vector<std::string> sources_of(const std::string& program) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(program + "/sources")) out.push_back(slurp(entry.path().string()));
  return out;
}

std::string compile_text(const TempDir& dir, const std::string& text, const std::string& program) {
  const std::string graph = dir / (program + ".txt"), out = dir / (program + ".qcg");
  spit(graph, text);
  const Run run =
      qcodegen({"compile", graph, "-o", out, "--tune=off", "--weights", "random:1", "--cache-dir", dir / "cache"});
  REQUIRE_MESSAGE(run.status == 0, run.err);
  return out;
}

}  // namespace

TEST_CASE("explain and inspect print inputs, outputs and symbols of a graph and of a program") {
  TempDir dir;
  const std::string program = compile_text(dir, kEveryKind, "g"), graph = dir / "g.txt";
  const json expected = json::parse(R"({"inputs": [{"name": "x", "dtype": "f32", "shape": ["m", 32]}],
    "outputs": [{"name": "scores", "dtype": "f32", "shape": ["m", "m"]}],
    "symbols": [{"name": "m", "min": 1, "max": 64}]})");
  for (const std::string& path : {graph, program})
    for (const char* command : {"explain", "inspect"}) {
      INFO(command, " ", path);
      const json got = qcodegen({command, path, "--json"}).json();
      for (const char* list : {"inputs", "outputs", "symbols"}) CHECK(got[list] == expected[list]);
      const std::string text = qcodegen({command, path}).out;
      for (const char* line :
           {"input   x       f32      [m, 32]\n", "output  scores  f32      [m, m]\n", "symbol  m       1 to 64\n"})
        CHECK(text.find(line) != std::string::npos);
    }
  CHECK(qcodegen({"inspect", program, "--json"}).json()["kind"] == "program");
  fs::remove(graph);  // a program is looked at without it
  CHECK(qcodegen({"inspect", program}).status == 0);
  CHECK(qcodegen({"inspect", program, "--weights", "random:1"}).status == 2);
  CHECK(qcodegen({"inspect", dir / "absent"}).status != 0);
}

TEST_CASE("sizes that are quotients or the smaller of two are printed whole, of a graph and of its program") {
  TempDir dir;
  const std::string program = compile_text(dir, R"(symbol n in [4, 64]
graph(%x: f32[1, 3, n]) {
  %y = aten.max_pool1d.default(%x, [3], [2]) : f32[1, 3, floordiv(n+1,2)-1]
  %z = aten.slice.Tensor(%x, 2, 0, 7) : f32[1, 3, min(n,7)]
  return %y, %z
}
)",
                                           "pool");
  for (const std::string& path : {dir / "pool.txt", program}) {
    const json outputs = qcodegen({"inspect", path, "--json"}).json()["outputs"];
    CHECK(outputs[0]["shape"] == json{1, 3, "floordiv(n+1,2)-1"});
    CHECK(outputs[1]["shape"] == json{1, 3, "min(7,n)"});
  }
}

TEST_CASE("steps are called what people call them, everywhere alike") {
  TempDir dir;
  const std::string program = compile_text(dir, kEveryKind, "g"), graph = dir / "g.txt";
  const json explained = qcodegen({"explain", graph, "--json", "--weights", "random:1"}).json();
  std::vector<std::string> names;
  for (const json& step : explained["step_list"]) names.push_back(step["name"]);
  CHECK(names == std::vector<std::string>{"layer.0+layer.1", "mean", "q", "mm"});
  CHECK(explained["step_list"][1]["formula"] == "mean(in0); tanh(sub(in0, acc0))");
  CHECK(qcodegen({"inspect", program, "--json"}).json()["steps"] == json(names));
  const std::string text = qcodegen({"explain", graph, "--weights", "random:1"}).out;
  for (const char* piece : {"mul(silu(acc0), acc1)", "mean(in0); tanh(sub(in0, acc0))"})
    CHECK(text.find(piece) != std::string::npos);
  CHECK(text.find("inner=") == std::string::npos);  // of a problem's signature
  std::set<std::string> logged;
  const json log = qcodegen({"log", program, "--json"}).json();
  for (const json& record : log["records"]) logged.insert(record["step"]);
  CHECK(logged == std::set<std::string>(names.begin(), names.end()));
  const Run compiled =
      qcodegen({"compile", graph, "-o", dir / "v.qcg", "--tune=off", "--weights", "random:1", "-v", "--no-cache"});
  CHECK(compiled.err.find("verify layer.0+layer.1 m=1") != std::string::npos);
  CHECK(compiled.err.find("verify q m=1") != std::string::npos);
  for (const json& step :
       qcodegen({"explain", source_path("examples/llama_mlp_int8/graph.pt2"), "--json"}).json()["step_list"])
    if (step["name"] == "down_proj") CHECK(step["module"] == "down_proj");
}

TEST_CASE("every kernel's source lists the nodes it stands for, as they were exported and in program order") {
  TempDir dir;
  std::string all;
  for (const std::string& source : sources_of(compile_text(dir, kEveryKind, "g"))) {
    CHECK(source.find("// source nodes, in program order:\n") != std::string::npos);
    CHECK(source.find("// lowered to:\n") != std::string::npos);
    all += source;
  }
  const std::string gated =
      "// source nodes, in program order:\n"
      "//   %linear = aten.linear.default(%x, @0.weight) : f32[m, 16]\n"
      "//   %linear_1 = aten.linear.default(%x, @1.weight) : f32[m, 16]\n"
      "//   %silu = aten.silu.default(%linear) : f32[m, 16]\n"
      "//   %mul = aten.mul.Tensor(%silu, %linear_1) : f32[m, 16]\n";
  const std::string computed_weight =
      "//   %view = aten.mul.Tensor(@layers.0.q.parametrizations.weight.original0, @s) : f32[16, 16]\n"
      "//   %linear_2 = aten.linear.default(%tanh, %view) : f32[m, 16]\n";
  const std::string loop =
      "//   %sub = aten.sub.Tensor(%mul, %mean) : f32[m, 16]\n//   %tanh = aten.tanh.default(%sub)";
  for (const std::string& text : {gated, computed_weight, loop, std::string("//   %mean = aten.mean.dim(%mul,"),
                                  std::string("//   %mm = aten.mm.default(%linear_2, %t) : f32[m, m]\n")})
    CHECK_MESSAGE(all.find(text) != std::string::npos, text);

  const Run exported =
      qcodegen({"compile", source_path("examples/llama_mlp_int8/graph.pt2"), "--emit=source", "--weights", "random:1"});
  CHECK(exported.out.find("aten.silu.default(") != std::string::npos);
  CHECK(exported.out.find("  export.py:") != std::string::npos);
}

TEST_CASE("kernels for a device say where they are from, too") {
  TempDir dir;
  const std::string graph = dir / "g.txt";
  spit(graph,
       "param @up.weight: bf16[64, 64]\ngraph(%x: bf16[8, 64]) {\n"
       "  %h = aten.linear.default(%x, @up.weight) : bf16[8, 64]\n"
       "  %y = aten.silu.default(%h) : bf16[8, 64]\n  return %y\n}\n");
  const Run run = qcodegen({"compile", graph, "--emit=source", "--target=cuda:sm_80", "--weights", "random:1"});
  CHECK_MESSAGE(run.status == 0, run.err);
  CHECK(run.out.find("// source nodes, in program order:\n//   %h = aten.linear.default(%x, @up.weight) : bf16[8, 64]\n"
                     "//   %y = aten.silu.default(%h) : bf16[8, 64]\n") != std::string::npos);
}

TEST_CASE("kernels of equal layers are built once, whatever their nodes and weights are called") {
  TempDir dir;
  const std::string a = dir / "a.txt", b = dir / "b.txt";
  spit(a, equal_layers("alpha", 16));
  spit(b, equal_layers("beta", 3));
  const auto compile_json = [&](const std::string& graph, const std::string& out) {
    const Run run = qcodegen({"compile", graph, "-o", dir / out, "--tune=off", "--weights", "random:1", "--cache-dir",
                              dir / "cache", "--json"});
    REQUIRE_MESSAGE(run.status == 0, run.err);
    return run.json();
  };
  const json first = compile_json(a, "a.qcg"), second = compile_json(b, "b.qcg");
  CHECK(first["compiler_runs"] == 1);
  CHECK(second["compiler_runs"] == 0);
  CHECK(second["cache_hits"] == 1);
  const std::vector<std::string> sources = sources_of(dir / "a.qcg"), others = sources_of(dir / "b.qcg");
  REQUIRE(sources.size() == 1);
  REQUIRE(others.size() == 1);
  CHECK(sources[0].find("15 other steps of the program run this kernel: alpha1, alpha2,") != std::string::npos);
  CHECK(others[0].find("%beta0 = aten.linear.default(%x, @beta.0.proj.weight)") != std::string::npos);
  CHECK(others[0].find("alpha") == std::string::npos);
}

TEST_CASE("no name of a file ends a comment of a kernel") {
  TempDir dir;
  const std::string text = R"(param @"w*/\\": f32[16, 16]
graph(%"x */ #error": f32[4, 16]) {
  %"y*/\\\\" = aten.linear.default(%"x */ #error", @"w*/\\") : f32[4, 16]
  %"z\x0a#error\\" = aten.mean.dim(%"y*/\\\\", [-1], true) : f32[4, 1]
  return %"z\x0a#error\\" as "z"
}
)";
  for (const std::string& source : sources_of(compile_text(dir, text, "h"))) {
    CHECK(source.find("*/") == std::string::npos);
    CHECK(source.find("\\\n") == std::string::npos);
    CHECK(source.find("\n#error") == std::string::npos);
    CHECK(source.find("source nodes") != std::string::npos);
  }
}

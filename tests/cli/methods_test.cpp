// Several graphs as methods of one program: they share what is equal, and one state.
#include "tests/cli_runner.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

std::string model(const std::string& file) { return source_path("tests/cli/state_models/positions/" + file); }

// y = x + w and a state that adds x up; `extent` of all.
std::string adds_up(const std::string& extent, const std::string& data) {
  const std::string type = R"("dtype": "f32", "shape": [)" + extent + "]";
  return R"({"format": "qcodegen", "version": 1, "inputs": [{"name": "x", )" + type +
         R"(}], "parameters": [{"name": "w", )" + type + R"(, "data": )" + data + R"(}], "states": [{"name": "sum", )" +
         type + R"(, "next": "after"}], "nodes": [
         {"op": "aten.add.Tensor", "inputs": {"self": "sum", "other": "x"}, "outputs": ["after"]},
         {"op": "aten.add.Tensor", "inputs": {"self": "x", "other": "w"}, "outputs": ["y"]}], "outputs": ["y"]})";
}

}  // namespace

TEST_CASE("methods of one program run on one state like the programs that they were compiled from") {
  TempDir dir;
  const std::string both = dir / "both.qcg", one = dir / "one.qcg", graph = model("graph.pt2");
  const std::string other = source_path("tests/cli/state_models/training/graph.pt2");
  REQUIRE(qcodegen({"compile", graph, "--tune=off", "-o", one}).status == 0);
  const Run compiled =
      qcodegen({"compile", "take=" + graph, "other=" + other, "again=" + graph, "--tune=off", "-o", both, "--json"});
  REQUIRE_MESSAGE(compiled.status == 0, compiled.err);
  CHECK(compiled.json()["methods"].size() == 3);
  // All constants of the third method are those of the first.
  const json manifest = json::parse(slurp(both + "/manifest.json"));
  CHECK(manifest["version"] == 3);
  REQUIRE(manifest["methods"].size() == 3);
  CHECK(manifest["methods"][0]["name"] == "take");
  json again = manifest["methods"][2];
  again["name"] = "take";
  CHECK(again == manifest["methods"][0]);
  CHECK(compiled.json()["shared_bytes"] > 0);
  CHECK(fs::exists(both + "/both_take.h"));
  CHECK(slurp(both + "/both_take.h").find("#define BOTH_TAKE_INPUT_x 0") != std::string::npos);

  REQUIRE(qcodegen({"run", one, "--inputs", model("t0.inputs.safetensors") + "," + model("t1.inputs.safetensors"),
                    "--outputs", dir / "o0" + "," + (dir / "o1"), "--state-out", dir / "end"})
              .status == 0);
  // A comma may be part of a path.
  for (const char* t : {"t0", "t1"})
    fs::copy_file(model(t + std::string(".inputs.safetensors")), dir / (std::string("in,") + t));
  REQUIRE(qcodegen({"run", one, "--inputs", dir / "in,t0", "--inputs", dir / "in,t1", "--outputs", dir / "out,0",
                    "--outputs", dir / "out,1"})
              .status == 0);
  CHECK(slurp(dir / "out,0") == slurp(dir / "o0"));
  CHECK(slurp(dir / "out,1") == slurp(dir / "o1"));
  CHECK(qcodegen({"run", one, "--inputs", (dir / "in,t0") + "," + (dir / "in,t1")}).status != 0);
  REQUIRE(qcodegen({"run", both, "--method", "take", "--inputs", model("t0.inputs.safetensors"), "--outputs",
                    dir / "p0", "--state-out", dir / "s0"})
              .status == 0);
  REQUIRE(qcodegen({"run", both, "--method", "again", "--inputs", model("t1.inputs.safetensors"), "--outputs",
                    dir / "p1", "--state-in", dir / "s0", "--state-out", dir / "s1"})
              .status == 0);
  CHECK(slurp(dir / "p0") == slurp(dir / "o0"));
  CHECK(slurp(dir / "p1") == slurp(dir / "o1"));
  // The state has the tensors of all methods.
  CHECK(slurp(dir / "s1").size() > slurp(dir / "end").size());
  const json inspected = qcodegen({"inspect", both, "--json"}).json();
  CHECK(inspected["methods"]["other"]["states"] == inspected["methods"]["take"]["states"]);
  CHECK(inspected["methods"]["take"]["inputs"].size() == 3);
  CHECK(inspected["methods"]["other"]["inputs"].size() == 2);

  check_refused({"run", both, "--inputs", model("t0.inputs.safetensors")}, 2, "choose one of: take, other, again");
  check_refused({"run", both, "--method", "tkae", "--inputs", model("t0.inputs.safetensors")}, 2, "no method 'tkae'");
  check_refused({"run", one, "--method", "take", "--inputs", model("t0.inputs.safetensors")}, 2, "has no methods");
  check_refused({"check", both}, 2, "choose one of: again, other, take");
  check_refused({"bench", both}, 2, "choose one of: again, other, take");
  check_refused({"explain", both}, 2, "choose one of: again, other, take");
  check_refused({"bench", "--compare", one, both}, 2, "choose one of: take, other, again");
  check_refused({"check", one, "--method", "take"}, 2, "has no methods");
  check_refused({"check", graph, "--method", "take"}, 2, "--method");
  // Each method is compared with its own graph and its own states, which are some of the program's.
  for (const std::string method : {"take", "other"}) {
    const Run checked = qcodegen({"check", both, "--method", method, "--m", "2", "--json"});
    CHECK_MESSAGE(checked.status == 0, checked.err);
    size_t states = 0;
    const json outputs = checked.json()["outputs"];
    for (const json& output : outputs) states += output["name"].get<std::string>().starts_with("state ");
    CHECK(states < manifest["states"].size());
    const Run timed = qcodegen({"bench", both, "--method", method, "--whole", "--budget", "0.05", "--json"});
    REQUIRE_MESSAGE(timed.status == 0, timed.err);
    CHECK(timed.json()["phases"][0]["samples"] >= 1);
    CHECK(qcodegen({"bench", both, "--method", method, "--m", "1", "--budget", "0.05"}).status == 0);
  }
  CHECK(qcodegen({"explain", both, "--method", "take", "--json"}).json()["step_list"] ==
        qcodegen({"explain", one, "--json"}).json()["step_list"]);
  CHECK(qcodegen({"bench", "--compare", both, both, "--method", "take", "--budget", "0.05"}).status == 0);
  CHECK(qcodegen({"log", both}).status == 0);
  // It is replaced like any other program.
  CHECK(qcodegen({"compile", "take=" + graph, "--tune=off", "-o", both}).status == 0);
  CHECK(json::parse(slurp(both + "/manifest.json"))["methods"].size() == 1);
  CHECK(!fs::exists(both + "/both_other.h"));
}

TEST_CASE("methods share equal constants, and states of one name have to agree") {
  TempDir dir;
  std::string ones = "[1", twos = "[2";
  for (int i = 1; i < 2048; ++i) ones += ",1", twos += ",2";
  spit(dir / "a.json", adds_up("2048", ones + "]"));
  spit(dir / "b.json", adds_up("2048", ones + "]"));
  spit(dir / "c.json", adds_up("2048", twos + "]"));
  spit(dir / "d.json", adds_up("4", "[1,2,3,4]"));
  const auto weights = [&](const std::string& second) {
    const Run run = qcodegen(
        {"compile", "a=" + (dir / "a.json"), "second=" + (dir / second), "--tune=off", "-o", dir / "m.qcg", "--json"});
    REQUIRE_MESSAGE(run.status == 0, run.err);
    return run.json()["weight_bytes"].get<int64_t>();
  };
  const int64_t equal = weights("b.json");
  CHECK(weights("c.json") == equal + 8192);
  check_refused({"compile", "a=" + (dir / "a.json"), "d=" + (dir / "d.json"), "--tune=off", "-o", dir / "m.qcg"}, 1,
                "state sum of d");
  CHECK(fs::exists(dir / "m.qcg/m_second.h"));  // the program from before is still there

  const std::string a = "a=" + (dir / "a.json"), b = "b=" + (dir / "b.json");
  check_refused({"compile", a, b}, 2, "-o");
  check_refused({"compile", a, a, "-o", dir / "n.qcg"}, 2, "another graph has this name");
  check_refused({"compile", a, "A=" + (dir / "b.json"), "-o", dir / "n.qcg"}, 2, "another graph has this name");
  check_refused({"compile", a, dir / "b.json", "-o", dir / "n.qcg"}, 2, "is not NAME=GRAPH");
  check_refused({"compile", a, "b c=" + (dir / "b.json"), "-o", dir / "n.qcg"}, 2, "is not NAME=GRAPH");
  check_refused({"compile", a, b, "--emit=plan", "-o", dir / "n.qcg"}, 2, "takes one graph");
  // A graph may have a name like that.
  spit(dir / "x=y.json", slurp(dir / "a.json"));
  CHECK(qcodegen({"compile", dir / "x=y.json", "--tune=off", "-o", dir / "x.qcg"}).status == 0);
}

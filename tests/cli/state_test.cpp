// State from graph to files: calls one after the other on one state, what is written in place and what is copied.
#include <cstring>
#include <map>

#include "tests/cli_runner.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

using Floats = std::vector<float>;

// A file of f32 tensors of one axis.
void write_tensors(const std::string& path, const std::vector<std::pair<std::string, Floats>>& tensors) {
  json header;
  std::string data;
  for (const auto& [name, values] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    header[name] = {{"dtype", "F32"}, {"shape", {values.size()}}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  std::string size(8, '\0');
  for (size_t i = 0; i < 8; ++i) size[i] = static_cast<char>(text.size() >> (8 * i));
  spit(path, size + text + data);
}

// All tensors of a file, integers of 64 bits as floats.
std::map<std::string, Floats> read_tensors(const std::string& path) {
  const std::string text = slurp(path);
  REQUIRE(text.size() > 8);
  uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  std::map<std::string, Floats> out;
  const json header = json::parse(text.substr(8, length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const bool integers = entry["dtype"] == "I64";
    REQUIRE((integers || entry["dtype"] == "F32"));
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1], width = integers ? 8 : 4;
    for (size_t at = begin; at < end; at += width) {
      const char* from = text.data() + 8 + length + at;
      int64_t integer = 0;
      float number = 0;
      if (integers) std::memcpy(&integer, from, 8), number = static_cast<float>(integer);
      else std::memcpy(&number, from, 4);
      out[name].push_back(number);
    }
  }
  return out;
}

Floats read_tensor(const std::string& path, const std::string& name) { return read_tensors(path).at(name); }

void check_close(const std::string& path, const std::string& expected) {
  const auto got = read_tensors(path);
  for (const auto& [name, want] : read_tensors(expected)) {
    INFO(path, ": ", name);
    REQUIRE(got.contains(name));
    REQUIRE(got.at(name).size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) CHECK(got.at(name)[i] == doctest::Approx(want[i]).epsilon(1e-5));
  }
}

// A graph on x [4] with these states, nodes and outputs.
std::string native(const std::string& states, const std::string& nodes, const std::string& outputs) {
  return R"({"format": "qcodegen", "version": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [4]}], "states": [)" +
         states + R"(], "nodes": [)" + nodes + R"(], "outputs": [)" + outputs + "]}";
}

std::string state(const std::string& name, const std::string& next, const std::string& data = "") {
  return R"({"name": ")" + name + R"(", "dtype": "f32", "shape": [4], "next": ")" + next + "\"" +
         (data.empty() ? "" : R"(, "data": )" + data) + "}";
}

// add(a, b) -> out, and alike.
std::string node(const std::string& op, const std::string& a, const std::string& b, const std::string& out) {
  return R"({"op": ")" + op + R"(", "inputs": {"self": ")" + a + R"(", "other": )" + b + R"(}, "outputs": [")" + out +
         "\"]}";
}

const std::string kRunningSum =
    native(state("sum", "after", "[1, 0, 0, -1]"), node("add", "sum", "\"x\"", "after"), "\"after\"");

// A program, and what calls on it give.
struct Subject {
  TempDir dir;
  std::string program = dir / "p.qcg";

  explicit Subject(const std::string& graph) {
    spit(dir / "g.json", graph);
    const Run run = qcodegen({"compile", dir / "g.json", "-o", program, "--tune=off"});
    INFO(run.err);
    REQUIRE(run.status == 0);
  }

  // Calls with these x; the outputs are in o0, o1, …, the state afterwards in s.
  Run calls(const std::vector<Floats>& xs, std::vector<std::string> more = {}) {
    std::string inputs, outputs;
    for (size_t i = 0; i < xs.size(); ++i) {
      write_tensors(dir / ("i" + std::to_string(i)), {{"x", xs[i]}});
      inputs += (i == 0 ? "" : ",") + dir / ("i" + std::to_string(i));
      outputs += (i == 0 ? "" : ",") + dir / ("o" + std::to_string(i));
    }
    std::vector<std::string> arguments = {"run",       program, "--inputs",    inputs,
                                          "--outputs", outputs, "--state-out", dir / "s"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return qcodegen(arguments);
  }
  Floats output(int call, const std::string& name) { return read_tensor(dir / ("o" + std::to_string(call)), name); }
  Floats state_after(const std::string& name) { return read_tensor(dir / "s", name); }
  int steps_named(const std::string& part) {
    int count = 0;
    const json explained = qcodegen({"explain", dir / "g.json", "--json"}).json();
    for (const json& step : explained["step_list"])
      count += step["name"].get<std::string>().find(part) != std::string::npos;
    return count;
  }
};

}  // namespace

TEST_CASE("a running sum: calls on one state, from the initial value, from a file, and on") {
  Subject sum(kRunningSum);
  const Run run = sum.calls({{1, 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 5, 0}});
  INFO(run.err);
  REQUIRE(run.status == 0);
  CHECK(sum.output(0, "after") == Floats{2, 2, 3, 3});
  CHECK(sum.output(1, "after") == Floats{3, 3, 4, 4});
  CHECK(sum.output(2, "after") == Floats{3, 3, 9, 4});
  CHECK(sum.state_after("sum") == Floats{3, 3, 9, 4});
  fs::copy_file(sum.dir / "s", sum.dir / "saved");

  REQUIRE(sum.calls({{1, 1, 1, 1}}).status == 0);  // a fresh state
  CHECK(sum.output(0, "after") == Floats{2, 1, 1, 0});
  REQUIRE(sum.calls({{1, 1, 1, 1}}, {"--state-in", sum.dir / "saved"}).status == 0);
  CHECK(sum.output(0, "after") == Floats{4, 4, 10, 5});
  REQUIRE(sum.calls({{1, 0, 0, 0}}, {"--repeat", "10"}).status == 0);
  CHECK(sum.state_after("sum") == Floats{11, 0, 0, -1});
}

TEST_CASE("state is listed and checked") {
  Subject sum(kRunningSum);
  const json listed = qcodegen({"inspect", sum.program, "--json"}).json();
  REQUIRE(listed["states"].size() == 1);
  CHECK(listed["states"][0]["name"] == "sum");
  CHECK(listed["states"][0]["shape"] == json::array({4}));
  CHECK(listed["inputs"].size() == 1);
  CHECK(listed["outputs"].size() == 1);
  CHECK(qcodegen({"inspect", sum.dir / "g.json"}).out.find("state") != std::string::npos);
  CHECK(slurp(sum.program + "/p.h").find("#define P_STATE_sum 0") != std::string::npos);
  const json manifest = json::parse(slurp(sum.program + "/manifest.json"));
  CHECK(manifest["version"] == 2);
  CHECK(manifest["states"][0]["init"]["bytes"] == 16);

  const json checked = qcodegen({"check", sum.program, "--json"}).json();
  CHECK(checked["ok"] == true);
  REQUIRE(checked["outputs"].size() == 2);
  CHECK(checked["outputs"][1]["name"] == "state sum");
  // Whether the state is right is a question of its own: here it is another one in the graph that the program names.
  Subject other(native(state("sum", "x", "[1, 0, 0, -1]"), node("add", "sum", "\"x\"", "after"), "\"after\""));
  fs::copy_file(other.program + "/origin.json", sum.program + "/origin.json", fs::copy_options::overwrite_existing);
  const Run wrong = qcodegen({"check", sum.program, "--json"});
  CHECK(wrong.status == 1);
  CHECK(wrong.json()["outputs"][0]["ok"] == true);
  CHECK(wrong.json()["outputs"][1]["ok"] == false);
}

TEST_CASE("zeros are not stored, and a program without state is of version 1 still") {
  Subject ema(native(state("ema", "next"),
                     node("mul", "ema", "0.5", "half") + "," + node("mul", "x", "0.5", "part") + "," +
                         node("add", "half", "\"part\"", "next"),
                     ""));
  const json manifest = json::parse(slurp(ema.program + "/manifest.json"));
  CHECK(manifest["states"][0]["init"] == "zero");
  REQUIRE(ema.calls({{4, 0, 8, 2}, {4, 4, 0, 2}}).status == 0);
  CHECK(ema.state_after("ema") == Floats{3, 2, 2, 1.5});

  Subject plain(native("", node("add", "x", "1", "y"), "\"y\""));
  CHECK(json::parse(slurp(plain.program + "/manifest.json"))["version"] == 1);
  const Run run = plain.calls({{1, 2, 3, 4}});
  CHECK(run.status == 2);
  CHECK(run.err.find("the program has no state") != std::string::npos);
}

TEST_CASE(
    "an element-wise update is written in place; where something else reads the old value, a copy is made and named") {
  const std::string grow = node("add", "sum", "\"x\"", "after");
  CHECK(Subject(native(state("sum", "after"), grow, "")).steps_named("to state") == 0);
  // y is read after the sum is written, or is computed before it: both are right.
  Subject late(
      native(state("sum", "after"), grow + R"(,{"op": "t", "inputs": {"self": "sum"}, "outputs": ["y"]})", "\"y\""));
  CHECK(late.steps_named("to state sum (the old value is returned)") == 1);
  REQUIRE(late.calls({{1, 2, 3, 4}, {1, 1, 1, 1}}).status == 0);
  CHECK(late.output(0, "y") == Floats{0, 0, 0, 0});
  CHECK(late.output(1, "y") == Floats{1, 2, 3, 4});
  CHECK(late.state_after("sum") == Floats{2, 3, 4, 5});
  CHECK(qcodegen({"check", late.program}).status == 0);
}

TEST_CASE("the next value of a state may be an input, another state, its own reverse, or a constant") {
  const std::string shifted =
      R"({"op": "slice", "inputs": {"self": "a", "dim": 0, "start": 1, "end": 4}, "outputs": ["tail"]},
         {"op": "slice", "inputs": {"self": "x", "dim": 0, "start": 0, "end": 1}, "outputs": ["one"]},
         {"op": "cat", "inputs": {"tensors": ["tail", "one"]}, "outputs": ["window"]})";
  Subject swap(native(state("a", "b", "[1, 1, 1, 1]") + "," + state("b", "a", "[2, 2, 2, 2]") + "," + state("c", "x") +
                          "," + state("d", "c", "[5, 5, 5, 5]"),
                      node("add", "a", "\"b\"", "y"), "\"y\""));
  REQUIRE(swap.calls({{1, 2, 3, 4}, {5, 6, 7, 8}, {0, 0, 0, 1}}).status == 0);
  CHECK(swap.state_after("a") == Floats{2, 2, 2, 2});
  CHECK(swap.state_after("b") == Floats{1, 1, 1, 1});
  CHECK(swap.state_after("c") == Floats{0, 0, 0, 1});
  CHECK(swap.state_after("d") == Floats{5, 6, 7, 8});
  CHECK(swap.output(2, "y") == Floats{3, 3, 3, 3});
  CHECK(qcodegen({"check", swap.program}).status == 0);

  Subject window(native(state("a", "window", "[1, 2, 3, 4]"), shifted, "\"window\""));
  REQUIRE(window.calls({{7, 0, 0, 0}, {8, 0, 0, 0}}).status == 0);
  CHECK(window.output(0, "window") == Floats{2, 3, 4, 7});
  CHECK(window.state_after("a") == Floats{3, 4, 7, 8});

  Subject kept(native(state("a", "a", "[1, 2, 3, 4]"), node("add", "a", "\"x\"", "y"), "\"y\""));
  CHECK(kept.steps_named("state") == 0);
  REQUIRE(kept.calls({{1, 1, 1, 1}, {2, 2, 2, 2}}).status == 0);
  CHECK(kept.output(1, "y") == Floats{3, 4, 5, 6});
  CHECK(kept.state_after("a") == Floats{1, 2, 3, 4});
}

TEST_CASE("models that write into their buffers, as exported in place and as functional graphs, do what eager does") {
  for (const char* form : {"training", "functional", "positions", "positions_functional"}) {
    INFO(form);
    TempDir dir;
    const std::string folder = source_path("tests/cli/state_models/") + form + "/", program = dir / "p.qcg";
    const Run compiled = qcodegen({"compile", folder + "graph.pt2", "-o", program, "--tune=off"});
    INFO(compiled.err);
    REQUIRE(compiled.status == 0);
    std::string inputs, outputs;
    for (const std::string i : {"0", "1", "2"}) {
      inputs += (i == "0" ? "" : ",") + folder + "t" + i + ".inputs.safetensors";
      outputs += (i == "0" ? "" : ",") + dir / ("o" + i);
    }
    const Run run = qcodegen({"run", program, "--inputs", inputs, "--outputs", outputs, "--state-out", dir / "s"});
    INFO(run.err);
    REQUIRE(run.status == 0);
    for (const std::string i : {"0", "1", "2"})
      check_close(dir / ("o" + i), folder + "t" + i + ".expected.safetensors");
    check_close(dir / "s", folder + "state.expected.safetensors");
    CHECK(qcodegen({"check", program}).status == 0);
  }
}

TEST_CASE("an input that a model changes is an output, too") {
  TempDir dir;
  const std::string folder = source_path("tests/cli/state_models/inputs/"), program = dir / "p.qcg";
  REQUIRE(qcodegen({"compile", folder + "graph.pt2", "-o", program, "--tune=off"}).status == 0);
  for (const std::string i : {"0", "1"}) {
    const std::string in = folder + "t" + i + ".inputs.safetensors";
    REQUIRE(qcodegen({"run", program, "--inputs", in, "--outputs", dir / "o"}).status == 0);
    check_close(dir / "o", folder + "t" + i + ".expected.safetensors");
  }
  const Run explained = qcodegen({"explain", folder + "graph.pt2"});
  CHECK(explained.out.find("changes its input 'seen' in place") != std::string::npos);
}

TEST_CASE("a position out of range is an error that names it, and nothing is written") {
  TempDir dir;
  const std::string folder = source_path("tests/cli/state_models/positions/"), program = dir / "p.qcg";
  REQUIRE(qcodegen({"compile", folder + "graph.pt2", "-o", program, "--tune=off"}).status == 0);
  std::string text = slurp(folder + "t0.inputs.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  const size_t at = json::parse(text.substr(8, length))["at"]["data_offsets"][0];
  for (const int64_t bad : {int64_t{8}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    std::memcpy(text.data() + 8 + length + at + 8, &bad, 8);
    spit(dir / "in", text);
    const Run run = qcodegen({"run", program, "--inputs", dir / "in", "--state-out", dir / "s"});
    CHECK(run.status == 1);
    CHECK(run.err.find("input 'at' is " + std::to_string(bad) + " at [1]") != std::string::npos);
    CHECK(run.err.find("pass values from 0 to 7") != std::string::npos);
    CHECK(!fs::exists(dir / "s"));
  }
}

TEST_CASE("mistakes with state are errors that say what to do") {
  Subject sum(kRunningSum);
  const auto err = [&](std::vector<std::string> more) {
    const Run run = sum.calls({{1, 2, 3, 4}}, std::move(more));
    CHECK(run.status != 0);
    return run.err;
  };
  write_tensors(sum.dir / "none", {{"sun", {1, 2, 3, 4}}});
  write_tensors(sum.dir / "short", {{"sum", {1, 2}}});
  CHECK(err({"--state-in", sum.dir / "none"}).find("has no tensor of this name") != std::string::npos);
  CHECK(err({"--state-in", sum.dir / "short"}).find("holds f32[2], the state is f32[4]") != std::string::npos);
  const std::string i0 = sum.dir / "i0", two = i0 + "," + i0;
  const Run few = qcodegen({"run", sum.program, "--inputs", two, "--outputs", sum.dir / "o"});
  CHECK(few.status == 2);
  CHECK(few.err.find("1 files for the outputs of 2 calls") != std::string::npos);
  const Run repeated = qcodegen({"run", sum.program, "--inputs", two, "--repeat", "2"});
  CHECK(repeated.status == 2);
  CHECK(repeated.err.find("--repeat") != std::string::npos);
  const Run none = qcodegen({"run", "--inputs", i0, sum.program});  // an option does not swallow the program
  CHECK(none.status == 0);
}

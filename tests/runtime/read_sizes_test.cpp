// Sizes that a run reads: what it computes with them, and what refuses them.
#include <functional>

#include "runtime/state.h"
#include "tests/runtime/counted_program.h"

using namespace qcg;
using nlohmann::json;

namespace {

std::unique_ptr<Context> context_of(std::shared_ptr<const Program> program, ContextOptions options = {.threads = 2}) {
  return Context::create(std::move(program), options).value();
}

// What a run that fails says; it is the caller's fault.
std::string refusal_of(const Status& status) {
  REQUIRE(!status.ok());
  CHECK(status.error().code == ErrorCode::BadInput);
  return status.error().to_string();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("each run has the size that it computes, of the same inputs' shapes and of others") {
  CountedProgram program;
  auto context = context_of(program.load());
  for (const int64_t m : {10, 3, 10, 100})
    for (const int64_t count : {0, 3, 3, 1, 2, 10, 7, 100}) {
      if (count > m) continue;
      CAPTURE(m);
      CAPTURE(count);
      CountedRun run(m, count);
      const Status status = run.run(*context);
      REQUIRE_MESSAGE(status.ok(), status.error().to_string());
      CHECK(run.is_right());
    }
}

TEST_CASE("many runs with changing sizes are right on several threads, whatever runs on one of them") {
  CountedProgram program;
  auto context = context_of(program.load(), {.threads = 3});
  for (int64_t i = 0; i < 200; ++i) {
    CountedRun run(500, i < 40 ? 3 : i * 37 % 500);
    REQUIRE(run.run(*context).ok());
    CHECK(run.is_right());
  }
}

TEST_CASE("before a run the size is the most that it may be") {
  CountedProgram program;
  program.manifest["buffers"].push_back({{"kind", "temp"}, {"bytes", {{32, 0}}}, {"first", 0}, {"last", 1}});
  const auto loaded = program.load();
  const auto values = [&](int64_t m) { return loaded->bind_symbols(CountedRun(m, 1).inputs()).value(); };
  CHECK(values(10) == std::vector<int64_t>{10, 10});
  CHECK(values(700) == std::vector<int64_t>{700, 500});
  CHECK(loaded->output_shapes(CountedRun(10, 1).inputs()).value() == std::vector<std::vector<int64_t>>{{10, 8}});
  CHECK(arena_bytes(loaded->manifest(), values(10)).value() == 64 + 320);

  program.manifest["symbols"][1]["min"] = 4;
  const auto narrower = program.load();
  CHECK(has(refusal_of(context_of(narrower)->run(CountedRun(3, 3).inputs(), {})),
            "leave no value for u0, which must be at least 4 and at most 3"));
  program.read()["most"] = {{INT64_MAX, 0}};
  CHECK(has(refusal_of(context_of(program.load())->run(CountedRun(3, 3).inputs(), {})), "what exceeds 2^63"));
}

TEST_CASE("a size out of range is an error that names it, and leaves the state undefined") {
  CountedProgram program;
  program.read_input();
  program.manifest["states"] = {{{"name", "a"}, {"dtype", "f32"}, {"shape", {4}}, {"init", "zero"}}};
  program.manifest["symbols"][1]["min"] = 2;
  const auto loaded = program.load();
  auto context = context_of(loaded);
  auto state = State::create(loaded).value();
  CountedRun run(10, 5);
  run.has_n = true;
  const auto run_with = [&](int64_t n) {
    run.n = n;
    return context->run(*state, run.inputs(), run.outputs());
  };
  for (const int64_t bad : {int64_t{1}, int64_t{11}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    const std::string text = refusal_of(run_with(bad));
    INFO(text);
    CHECK(has(text, "size u0: is " + std::to_string(bad) + " before step 'count', and must be from 2 to 10"));
    CHECK(!state->tensor("a").ok());
    REQUIRE(state->reset().ok());
  }
  REQUIRE(run_with(5).ok());
  CHECK(state->tensor("a").ok());
  CHECK(run.is_right());
}

TEST_CASE("a size that lets a kernel reach beyond a buffer is an error before the kernel runs") {
  CountedProgram program;
  program.read_input();
  program.read()["most"] = INT64_MAX;
  program.manifest["symbols"][1]["max"] = INT64_MAX;
  json& out = program.manifest["steps"][1]["args"][1]["offset"];
  out = 0;
  auto context = context_of(program.load());
  CountedRun run(10, 10);
  run.has_n = true;
  for (const int64_t bad : {int64_t{11}, int64_t{1} << 40, INT64_MAX}) {
    run.n = bad;
    CHECK(has(refusal_of(run.run(*context)), "$.steps[1].args[0]"));
    CHECK(run.y == std::vector<float>(80, -1));
    run.n = 10;
    REQUIRE(run.run(*context).ok());  // what was refused is not kept
    CHECK(run.is_right());
    std::ranges::fill(run.y, -1.0f);
  }
  out = {{32, 0}, {-32, 1}};
  program.manifest["steps"][1]["args"][0]["offset"] = {{16, 1}, {-32}};
  context = context_of(program.load());
  run.n = 1;  // an offset of -16 bytes
  CHECK(has(refusal_of(run.run(*context)), "$.steps[1].args"));
}

TEST_CASE("kernels are chosen by the size that is read; of a size that none serves the run is an error") {
  CountedProgram program;
  program.manifest["steps"][1]["kernels"][1]["m_max"] = 6;
  auto context = context_of(program.load(), {.threads = 1, .profile = true});
  for (const int64_t count : {1, 5, 2, 6}) {
    CountedRun run(10, count);
    REQUIRE(run.run(*context).ok());
    CHECK(run.is_right());
    REQUIRE(context->last_profile().steps.size() == 2);
    const StepProfile& step = context->last_profile().steps[1];
    CHECK(step.kernel == (count <= 2 ? 0 : 1));
    CHECK(step.bytes == 64.0 * static_cast<double>(count));
  }
  const Status status = CountedRun(10, 7).run(*context);
  REQUIRE(!status.ok());
  CHECK(status.error().code == ErrorCode::Unsupported);
  CHECK(has(status.error().to_string(), "has no kernel for m = 7"));
  CountedRun run(10, 6);
  REQUIRE(run.run(*context).ok());
  CHECK(run.is_right());
}

TEST_CASE("a size may be read from a state, and steps before it do not know it") {
  CountedProgram program;
  program.manifest["states"] = {{{"name", "a"}, {"dtype", "i64"}, {"shape", {2}}, {"init", "zero"}}};
  program.manifest["buffers"].push_back({{"kind", "state"}, {"index", 0}});
  program.read()["buffer"] = 3;
  const auto loaded = program.load();
  auto context = context_of(loaded);
  auto state = State::create(loaded).value();
  for (const int64_t count : {4, 0, 9}) {
    const int64_t values[2] = {count, 77};
    REQUIRE(state->write("a", values, sizeof values).ok());
    CountedRun run(10, count);
    REQUIRE(context->run(*state, run.inputs(), run.outputs()).ok());
    CHECK(run.is_right());
  }
}

TEST_CASE("two sizes are read before one step, and one of them before another") {
  CountedProgram program;
  json& m = program.manifest;
  // v0 is counted again in the second step, after u0 was read.
  m["symbols"].push_back(
      {{"name", "v0"}, {"min", 0}, {"max", 500}, {"read", {{"step", 2}, {"buffer", 3}, {"most", 9}}}});
  m["symbols"].push_back(
      {{"name", "w0"}, {"min", 0}, {"max", 500}, {"read", {{"step", 2}, {"buffer", 1}, {"most", 9}}}});
  m["buffers"][1]["last"] = 2;
  m["buffers"].push_back({{"kind", "temp"}, {"bytes", 16}, {"first", 1}, {"last", 2}});
  json again = m["steps"][0];
  again["name"] = "count again", again["args"][1]["buffer"] = 3;
  again["params"] = {{{1, 1}}, 8};  // u0 rows, all of which begin with a number above 0
  json last = m["steps"][1];
  last["params"] = json::parse("[[[1, 2]], 8]");
  last["args"][1]["offset"] = json::parse("[[32, 0], [-32, 3]]");
  m["steps"] = {m["steps"][0], again, last};
  auto context = context_of(program.load());
  for (const int64_t count : {3, 8, 3, 0}) {
    CountedRun run(10, count);
    const Status status = run.run(*context);
    REQUIRE_MESSAGE(status.ok(), status.error().to_string());
    CHECK(run.is_right());
  }
}

TEST_CASE("a position out of range behind an offset that is read is named by its place in the input") {
  CountedProgram program;
  json& m = program.manifest;
  m["inputs"].push_back({{"name", "ids"}, {"dtype", "i64"}, {"shape", json::parse("[[[1, 0]]]")}});
  m["outputs"].push_back({{"name", "p"}, {"dtype", "f32"}, {"shape", json::parse("[[[1, 0]]]")}});
  m["buffers"].push_back({{"kind", "input"}, {"index", 1}});
  m["buffers"].push_back({{"kind", "output"}, {"index", 1}});
  m["buffers"].push_back({{"kind", "weights"}, {"offset", 0}, {"bytes", 32}});
  m["steps"].push_back(json::parse(R"({
    "name": "look up", "kernels": [{"m_max": -1, "module": "kernels/k.so", "symbol": "test_look_up"}],
    "args": [{"buffer": 5, "offset": 0, "stride": 0, "reach": {"item": 4, "axes": [["p1"]]}},
             {"buffer": 3, "offset": [[8, 1]], "stride": 0,
              "reach": {"item": 8, "axes": [["p0"]], "positions": {"size": "p1"}}},
             {"buffer": 4, "offset": [[4, 1]], "stride": 0, "reach": {"item": 4, "axes": [["p0"]], "writes": true}}],
    "params": [[[1, 0], [-1, 1]], 8]})"));
  auto context = context_of(program.load());
  CountedRun run(10, 4);
  std::vector<int64_t> ids(10, 3);
  std::vector<float> p(10, -1);
  const std::vector<int64_t> ten = {10};
  std::vector<TensorView> inputs = run.inputs(), outputs = run.outputs();
  inputs.push_back({ids.data(), DType::i64, ten, {}}), outputs.push_back({p.data(), DType::f32, ten, {}});
  ids[1] = 99;  // of the rows that are left out
  REQUIRE(context->run(inputs, outputs).ok());
  CHECK((p[3] == -1 && p[4] == 300 && p[9] == 300));
  ids[6] = 8;
  CHECK(has(refusal_of(context->run(inputs, outputs)), "input 'ids' is 8 at [6], which is out of range"));
}

TEST_CASE("a buffer of 8 bytes is required of the inputs' sizes, too") {
  CountedProgram program;
  program.manifest["buffers"][1]["bytes"] = json::parse("[[2, 0]]");
  json& count = program.manifest["steps"][0]["args"][1]["reach"];
  count = json::parse(R"({"item": 1, "axes": [], "writes": true})");
  auto context = context_of(program.load());
  CHECK(has(refusal_of(CountedRun(3, 1).run(*context)), "$.buffers[1]"));
  CountedRun run(4, 1);
  REQUIRE(run.run(*context).ok());
  CHECK(run.is_right());
}

TEST_CASE("methods and targets of version 5 are read") {
  CountedProgram program;
  SampleProgram::split_into_methods(program.manifest, {"one", "two"});
  program.manifest["version"] = 5;
  const auto loaded = program.load();
  for (const char* name : {"one", "two"}) {
    auto context = context_of(Program::method(loaded, name).value());
    CountedRun run(10, 4);
    REQUIRE(run.run(*context).ok());
    CHECK(run.is_right());
  }
  CountedProgram other;
  SampleProgram::split_into_targets(other.manifest, {"cuda:sm_80", "cpu:portable"});
  other.manifest["version"] = 5;
  auto context = context_of(other.load());
  CountedRun run(10, 4);
  REQUIRE(run.run(*context).ok());
  CHECK(run.is_right());
}

TEST_CASE("what a program must not do with a size that it reads is an error that names the place") {
  const json u0 = json::parse("[[1, 1]]");
  const struct {
    const char *where, *says;
    std::function<void(CountedProgram&)> apply;
  } cases[] = {
      {"$.symbols[1].read", "of a version before 5", [](auto& p) { p.manifest["version"] = 1; }},
      {"$.symbols[1].read.step", "is not an integer", [](auto& p) { p.read() = 7; }},
      {"$.symbols[1].read.step", "from 0 to 1", [](auto& p) { p.read()["step"] = 2; }},
      {"$.symbols[1].read.step", "from 0 to 1", [](auto& p) { p.read()["step"] = -1; }},
      {"$.buffers[1].last", "is not an integer", [](auto& p) { p.manifest["steps"] = json::array(); }},
      {"$.symbols[1].read.buffer", "from 0 to 2", [](auto& p) { p.read()["buffer"] = 3; }},
      {"$.symbols[1].read.buffer", "not alive", [](auto& p) { p.read()["step"] = 0; }},
      {"$.symbols[1].read.buffer", "not alive",
       [](auto& p) {
         p.manifest["buffers"].push_back({{"kind", "temp"}, {"bytes", 8}, {"first", 0}, {"last", 0}});
         p.read()["buffer"] = 3;
       }},
      {"$.symbols[1].read.buffer", "less than 8 bytes", [](auto& p) { p.manifest["buffers"][1]["bytes"] = 7; }},
      {"$.symbols[1].read.buffer", "less than 8 bytes", [](auto& p) { p.manifest["buffers"][1]["bytes"] = -8; }},
      {"$.symbols[1].read.buffer", "an input of one i64", [](auto& p) { p.read()["buffer"] = 0; }},
      {"$.symbols[1].read.buffer", "an input of one i64",
       [](auto& p) {
         p.read_input();
         p.manifest["inputs"][1]["dtype"] = "i32";
       }},
      {"$.symbols[1].read.buffer", "an input of one i64",
       [](auto& p) {
         p.read_input();
         p.manifest["inputs"][1]["shape"] = {2};
       }},
      {"$.symbols[1].read.most", "is not a list", [](auto& p) { p.read().erase("most"); }},
      {"$.symbols[1].read.most[0][1]", "from 0 to 1", [](auto& p) { p.read()["most"] = json::parse("[[1, 2]]"); }},
      {"$.symbols[1].read.most", "needed before", [u0](auto& p) { p.read()["most"] = u0; }},
      {"$.symbols[1].read.most", "needed before",
       [](auto& p) { p.read()["most"] = json::parse(R"([[1, {"min": [[[1, {"floordiv": [[[1, 1]], 2]}]], 3]}]])"); }},
      {"$.conditions[0].size", "needed before",
       [u0](auto& p) {
         p.manifest["conditions"] = {{{"size", u0}, {"is", "zero"}, {"text", "a"}}};
       }},
      {"$.inputs[0].shape[0]", "needed before", [u0](auto& p) { p.manifest["inputs"][0]["shape"][0] = u0; }},
      {"$.outputs[0].shape[1]", "needed before", [u0](auto& p) { p.manifest["outputs"][0]["shape"][1] = u0; }},
      {"$.inputs[1].symbol", "reads elsewhere",
       [](auto& p) {
         p.read_input();
         p.manifest["inputs"][1]["symbol"] = 1;
       }},
      {"$.buffers[1].bytes", "needed before",
       [](auto& p) { p.manifest["buffers"][1]["bytes"] = json::parse("[[1, 1], [8]]"); }},
      {"$.steps[0].params[1]", "before a later step", [u0](auto& p) { p.manifest["steps"][0]["params"][1] = u0; }},
      {"$.steps[0].args[0].offset", "before a later step",
       [u0](auto& p) { p.manifest["steps"][0]["args"][0]["offset"] = u0; }},
      {"$.steps[0].args[1].stride", "before a later step",
       [u0](auto& p) { p.manifest["steps"][0]["args"][1]["stride"] = u0; }},
      {"$.steps[1].args[1].reach", "is missing", [](auto& p) { p.manifest["steps"][1]["args"][1].erase("reach"); }},
      {"$.symbols[0]", "not determined",  // a size that is read determines no other one
       [](auto& p) { p.manifest["inputs"][0]["shape"][0] = 5; }},
  };
  for (const auto& [where, says, apply] : cases) {
    CAPTURE(where);
    CAPTURE(says);
    CountedProgram program;
    apply(program);
    const auto parsed = parse_program_manifest(program.manifest.dump());
    REQUIRE(!parsed.ok());
    CHECK(parsed.error().code == ErrorCode::BadInput);
    CHECK(parsed.error().where == std::string("manifest.json: ") + where);
    CHECK_MESSAGE(has(parsed.error().message, says), parsed.error().message);
  }
}

TEST_CASE("a size is read from no output and no weights, and from no state of other numbers") {
  for (const char* buffer : {R"({"kind": "output", "index": 0})", R"({"kind": "weights", "offset": 0, "bytes": 32})"}) {
    CountedProgram program;
    program.manifest["buffers"].push_back(json::parse(buffer));
    program.read()["buffer"] = 3;
    const auto parsed = parse_program_manifest(program.manifest.dump());
    REQUIRE(!parsed.ok());
    CHECK(parsed.error().where == "manifest.json: $.symbols[1].read.buffer");
  }
  for (const char* state : {R"({"name": "a", "dtype": "f64", "shape": [2], "init": "zero"})",
                            R"({"name": "a", "dtype": "i64", "shape": [0], "init": "zero"})"}) {
    CountedProgram program;
    program.manifest["states"].push_back(json::parse(state));
    program.manifest["buffers"].push_back({{"kind", "state"}, {"index", 0}});
    program.read()["buffer"] = 3;
    const auto parsed = parse_program_manifest(program.manifest.dump());
    REQUIRE(!parsed.ok());
    CHECK(has(parsed.error().message, "is not a state of one or more i64"));
  }
}

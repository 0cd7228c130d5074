#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <random>

#include "runtime/program_manifest.h"
#include "tests/child_cost.h"
#include "tests/runtime/counted_program.h"

using namespace qcg;
using namespace qcg::test;
using nlohmann::json;

namespace {

struct Damage {
  const char* where;  // the place the message must name
  std::function<void(json&)> apply;
};

// A device program whose first kernel has one launch field wrong.
Damage bad_launch(const char* where, const char* field, json value) {
  return {where, [field, value](json& m) {
            SampleProgram::put_on_device(m);
            m["steps"][0]["kernels"][0]["launch"][field] = value;
          }};
}

// A program of version 2 with one state, with a mistake in it.
Damage bad_state(const char* where, std::function<void(json&)> apply) {
  return {where, [apply](json& m) {
            SampleProgram::add_state(m);
            apply(m);
          }};
}

// A program of version 3 with two equal methods and a state, with a mistake in it.
Damage bad_methods(const char* where, std::function<void(json&)> apply) {
  return {where, [apply](json& m) {
            SampleProgram::add_state(m);
            SampleProgram::split_into_methods(m, {"one", "two"});
            apply(m);
          }};
}

// A program of version 4 for two targets, the second with two methods, with a mistake in it.
Damage bad_targets(const char* where, std::function<void(json&)> apply) {
  return {where, [apply](json& m) {
            SampleProgram::add_state(m);
            SampleProgram::split_into_targets(m, {"cuda:sm_80", "cpu:portable"});
            json& second = m["targets"][1];
            second["version"] = 3;
            SampleProgram::split_into_methods(second, {"one", "two"});
            apply(m);
          }};
}

// A program with a step of groups, with a mistake in it.
Damage bad_groups(const char* where, std::function<void(json& step)> apply) {
  return {where, [apply](json& m) {
            SampleProgram::group_rows(m);
            apply(m["steps"][1]);
          }};
}

const std::vector<Damage>& damages() {
  static const std::vector<Damage> list = {
      {"$.steps[0].kernels[0].launch", [](json& m) { m["target"] = "cuda:sm_80"; }},
      bad_launch("$.steps[0].kernels[0].launch.threads", "threads", 0),
      bad_launch("$.steps[0].kernels[0].launch.threads", "threads", 1025),
      bad_launch("$.steps[0].kernels[0].launch.rows", "rows", 0),
      bad_launch("$.steps[0].kernels[0].launch.rows", "rows", 1e30),
      bad_launch("$.steps[0].kernels[0].launch.column_tiles", "column_tiles", 65536),
      bad_launch("$.steps[0].kernels[0].launch.column_tiles", "column_tiles", "1"),
      bad_launch("$.steps[0].kernels[0].launch.axes", "axes", 1),
      bad_launch("$.steps[0].kernels[0].launch.axes[0]", "axes", json::array({{0, 1, 1}})),
      bad_launch("$.steps[0].kernels[0].launch.axes[0][1]", "axes", json::array({{0, 0}})),
      bad_launch("$.steps[0].params", "axes", json::array({{99, 1}})),
      bad_launch("$.steps[0].kernels[0].launch.shared_bytes", "shared_bytes", -1),
      bad_launch("$.steps[0].kernels[0].launch.shared_bytes", "shared_bytes", 1 << 20),
      {"$.steps[0].params",
       [](json& m) {
         SampleProgram::put_on_device(m);
         m["steps"][0]["kernels"].erase(1);
         m["steps"][0]["params"] = json::array();
       }},
      {"$.steps[0].args",
       [](json& m) {
         SampleProgram::put_on_device(m);
         const json arg = m["steps"][0]["args"][0];
         for (int i = 0; i < 256; ++i) m["steps"][0]["args"].push_back(arg);
       }},
      bad_groups("$.steps[1].groups.kernels", [](json& s) { s["groups"].erase("kernels"); }),
      bad_groups("$.steps[1].groups.count", [](json& s) { s["groups"]["count"] = 0; }),
      bad_groups("$.steps[1].groups.count", [](json& s) { s["groups"]["count"] = 1 << 21; }),
      bad_groups("$.steps[1].groups.weights", [](json& s) { s["groups"]["weights"] = 4; }),
      bad_groups("$.steps[1].groups.weights", [](json& s) { s["groups"]["weights"] = 0; }),
      bad_groups("$.steps[1].groups.weights", [](json& s) { s["groups"]["weights"] = 3; }),
      bad_groups("$.steps[1].groups.bytes", [](json& s) { s["groups"]["bytes"] = 5000; }),
      bad_groups("$.steps[1].groups.bytes", [](json& s) { s["groups"]["bytes"] = -64; }),
      bad_groups("$.steps[1].groups", [](json& s) { s["params"] = json::array(); }),
      bad_groups("$.steps[1].groups", [](json& s) { s["args"][1].erase("reach"); }),
      bad_groups("$.steps[1].groups", [](json& s) { s["args"][3]["reach"]["axes"] = {{4}}; }),
      bad_groups("$.steps[1].groups", [](json& s) { s["args"][3]["reach"]["item"] = 2; }),
      bad_groups("$.steps[1].groups", [](json& s) { s["args"][0]["reach"]["axes"][0][1] = 8; }),
      bad_groups("$.steps[1].groups", [](json& s) { s["args"][2]["reach"]["axes"][1] = {"p1", 1}; }),
      bad_groups("$.steps[1].groups", [](json& s) { s["args"][2]["reach"]["axes"][0][0] = 4; }),
      {"$.format", [](json& m) { m["format"] = "zip"; }},
      {"$.format", [](json& m) { m.erase("format"); }},
      {"$.version", [](json& m) { m["version"] = 6; }},
      {"$.targets", [](json& m) { m["version"] = 4; }},
      bad_targets("$.targets", [](json& m) { m["targets"] = json::array(); }),
      bad_targets("$.targets", [](json& m) { m["targets"] = {{"cpu:portable", m["targets"][1]}}; }),
      bad_targets("$.targets",
                  [](json& m) {
                    for (int i = 0; i < 15; ++i) m["targets"].push_back(m["targets"][1]);
                  }),
      bad_targets("$.targets[0]", [](json& m) { m["targets"][0] = 3; }),
      bad_targets("$.targets[0].target", [](json& m) { m["targets"][0].erase("target"); }),
      bad_targets("$.targets[1].target", [](json& m) { m["targets"][0]["target"] = "cpu:portable"; }),
      bad_targets("$.targets[1].isa", [](json& m) { m["targets"][1]["isa"] = 2; }),
      bad_targets("$.targets[0].states", [](json& m) { m["targets"][0]["states"] = 2; }),
      bad_targets("$.targets[0].steps[0].kernels[0].launch",
                  [](json& m) { m["targets"][0]["steps"][0]["kernels"][0].erase("launch"); }),
      bad_targets("$.targets[0].buffers[2].offset", [](json& m) { m["targets"][0]["buffers"][2]["offset"] = 5000; }),
      bad_targets("$.targets[1].methods", [](json& m) { m["targets"][1]["methods"] = json::object(); }),
      bad_targets("$.targets[1].methods[1].name", [](json& m) { m["targets"][1]["methods"][1]["name"] = "one"; }),
      bad_targets("$.targets[1].methods[0].buffers[6].index",
                  [](json& m) { m["targets"][1]["methods"][0]["buffers"][6]["index"] = 1; }),
      bad_targets("$.targets[1].methods",
                  [](json& m) {
                    for (int i = 0; i < 20000; ++i) m["targets"][1]["methods"].push_back(nullptr);
                  }),
      {"$.version", [](json& m) { m["version"] = 0; }},
      bad_methods("$.methods", [](json& m) { m.erase("methods"); }),
      bad_methods("$.methods", [](json& m) { m["methods"] = json::array(); }),
      bad_methods("$.methods",
                  [](json& m) {
                    m["methods"] = json(4, m["methods"][0]);
                    for (int i = 0; i < 20000; ++i) {
                      m["states"].push_back(m["states"][0]);
                      m["states"].back()["name"] = std::to_string(i);
                    }
                  }),
      bad_methods("$.methods[1].name", [](json& m) { m["methods"][1]["name"] = "one"; }),
      bad_methods("$.methods[1].name", [](json& m) { m["methods"][1].erase("name"); }),
      bad_methods("$.methods[0].name", [](json& m) { m["methods"][0]["name"] = ""; }),
      bad_methods("$.methods[0].name", [](json& m) { m["methods"][0]["name"] = "a\nb"; }),
      bad_methods("$.methods[0].name", [](json& m) { m["methods"][0]["name"] = std::string(65, 'a'); }),
      bad_methods("$.methods[1].symbols", [](json& m) { m["methods"][1].erase("symbols"); }),
      bad_methods("$.methods[1].symbols[0]", [](json& m) { m["methods"][1]["inputs"][0]["shape"] = {1, 8}; }),
      bad_methods("$.methods[1].buffers[2].bytes", [](json& m) { m["methods"][1]["buffers"][2]["bytes"] = 8192; }),
      bad_methods("$.methods[1].steps[0].args[0].buffer",
                  [](json& m) { m["methods"][1]["steps"][0]["args"][0]["buffer"] = 99; }),
      bad_methods("$.methods[0].buffers[6].index", [](json& m) { m["methods"][0]["buffers"][6]["index"] = 1; }),
      bad_state("$.states", [](json& m) { m["states"] = nullptr; }),
      bad_state("$.states[0].name", [](json& m) { m["states"][0]["name"] = 3; }),
      bad_state("$.states[1].name", [](json& m) { m["states"].push_back(m["states"][0]); }),
      bad_state("$.states[0].dtype", [](json& m) { m["states"][0]["dtype"] = "f31"; }),
      bad_state("$.states[0].shape[0]", [](json& m) { m["states"][0]["shape"] = {-1}; }),
      bad_state("$.states[0].shape[0]", [](json& m) { m["states"][0]["shape"] = json::parse("[[[1, 0]]]"); }),
      bad_state("$.states[0].shape",
                [](json& m) {
                  m["states"][0]["shape"] = {INT64_MAX, 2};
                }),
      bad_state("$.states[0].shape", [](json& m) { m["states"][0]["shape"] = {INT64_MAX / 4 - 1}; }),
      bad_state(
          "$.states[1].shape",
          [](json& m) {
            m["states"][0]["shape"] = {INT64_MAX / 8};
            m["states"].push_back({{"name", "b"}, {"dtype", "f64"}, {"shape", {INT64_MAX / 16}}, {"init", "zero"}});
          }),
      bad_state("$.states[0].init", [](json& m) { m["states"][0].erase("init"); }),
      bad_state("$.states[0].init", [](json& m) { m["states"][0]["init"] = "one"; }),
      bad_state("$.states[0].init.offset",
                [](json& m) {
                  m["states"][0]["init"] = {{"offset", 5000}, {"bytes", 16}};
                }),
      bad_state("$.states[0].init.bytes",
                [](json& m) {
                  m["states"][0]["init"] = {{"offset", 4090}, {"bytes", 16}};
                }),
      bad_state("$.states[0].init.bytes",
                [](json& m) {
                  m["states"][0]["init"] = {{"offset", 0}, {"bytes", 17}};
                }),
      bad_state("$.buffers[6].index", [](json& m) { m["buffers"][6]["index"] = 1; }),
      bad_state("$.buffers[6].index", [](json& m) { m["states"] = json::array(); }),
      bad_state("$.buffers[6].index", [](json& m) { m["version"] = 1; }),
      bad_state("$.steps[2].args[0].stride",
                [](json& m) {
                  m["steps"][2]["args"][0]["buffer"] = 6;
                  m["steps"][2]["args"][0]["stride"] = nullptr;
                }),
      {"$.steps[0].args[0].reach.item",
       [](json& m) {
         m["steps"][0]["args"][0]["reach"] = {{"item", 2}, {"axes", {{"p0"}}}, {"positions", {{"size", 8}}}};
       }},
      {"$.steps[0].args[0].reach.positions",
       [](json& m) {
         m["steps"][0]["args"][0]["reach"] = {{"item", 4}, {"axes", {{"p0"}}}, {"positions", {{"size", "p2"}}}};
       }},
      {"$.steps[0].args[0].reach.positions.size",
       [](json& m) {
         m["steps"][0]["args"][0]["reach"] = {{"item", 4}, {"axes", {{"p0"}}}, {"positions", 8}};
       }},
      {"$.version", [](json& m) { m["version"] = "1"; }},
      {"$.kernel_abi", [](json& m) { m["kernel_abi"] = 3; }},
      {"$.isa", [](json& m) { m["isa"] = nullptr; }},
      {"$.files", [](json& m) { m["files"] = json::array(); }},
      {"$.files['/etc/passwd']", [](json& m) { m["files"]["/etc/passwd"] = m["files"]["weights.bin"]; }},
      {"$.files['a/../../b']", [](json& m) { m["files"]["a/../../b"] = m["files"]["weights.bin"]; }},
      {"$.files['weights.bin'].bytes", [](json& m) { m["files"]["weights.bin"]["bytes"] = -1; }},
      {"$.files['weights.bin'].sha256", [](json& m) { m["files"]["weights.bin"]["sha256"] = "abc"; }},
      {"$.files['weights.bin'].pieces", [](json& m) { m["files"]["weights.bin"]["pieces"] = "abc"; }},
      {"$.files['weights.bin'].pieces", [](json& m) { m["files"]["weights.bin"]["pieces"] = json::array({"abc"}); }},
      {"$.files['weights.bin'].pieces",
       [](json& m) {
         const json digest = m["files"]["weights.bin"]["sha256"];
         m["files"]["weights.bin"]["pieces"] = json::array({digest, digest});
       }},
      {"$.symbols[0].min", [](json& m) { m["symbols"][0]["min"] = -1; }},
      {"$.symbols[0].max", [](json& m) { m["symbols"][0]["min"] = 2000; }},
      {"$.symbols[1]",
       [](json& m) {
         m["symbols"].push_back({{"name", "s1"}, {"min", 0}, {"max", 9}});
       }},
      {"$.conditions", [](json& m) { m["conditions"] = 1; }},
      {"$.conditions[0].size[0][1]",
       [](json& m) {
         m["conditions"] = {{{"size", {{1, 7}}}, {"is", "zero"}, {"text", "a"}}};
       }},
      {"$.conditions[0].is",
       [](json& m) {
         m["conditions"] = {{{"size", {{1, 0}}}, {"is", "one"}, {"text", "a"}}};
       }},
      {"$.conditions[0].text", [](json& m) { m["conditions"] = {{{"size", {{1, 0}}}, {"is", "zero"}}}; }},
      {"$.inputs[0].dtype", [](json& m) { m["inputs"][0]["dtype"] = "f31"; }},
      {"$.inputs[0].shape[0][0][1]",
       [](json& m) {
         m["inputs"][0]["shape"][0] = {{1, 7}};
       }},
      {"$.inputs[0].shape[0][0][1]",
       [](json& m) {
         m["inputs"][0]["shape"][0] = {{1, -1}};
       }},
      {"$.inputs[0].shape[0][0]", [](json& m) { m["inputs"][0]["shape"][0] = json::array({json::array()}); }},
      {"$.inputs[0].shape[0][0][1]",
       [](json& m) { m["inputs"][0]["shape"][0] = json::parse(R"([[1, {"floordiv": [[[1, 0]]]}]])"); }},
      {"$.inputs[0].shape[0][0][1]",
       [](json& m) { m["inputs"][0]["shape"][0] = json::parse(R"([[1, {"max": [1, 2]}]])"); }},
      {"$.symbols[0]",  // which no quotient determines
       [](json& m) { m["inputs"][0]["shape"][0] = json::parse(R"([[1, {"floordiv": [[[1, 0]], 2]}]])"); }},
      {"$.inputs[0].shape[1]", [](json& m) { m["inputs"][0]["shape"][1] = 8.5; }},
      {"$.inputs[0].shape[1]", [](json& m) { m["inputs"][0]["shape"][1] = uint64_t{1} << 63; }},
      {"$.inputs[0].shape", [](json& m) { m["inputs"][0]["shape"] = std::vector<int>(17, 1); }},
      {"$.buffers[0].kind", [](json& m) { m["buffers"][0]["kind"] = "disk"; }},
      {"$.buffers[0].index", [](json& m) { m["buffers"][0]["index"] = 1; }},
      {"$.buffers[3].index", [](json& m) { m["buffers"][3]["index"] = -1; }},
      {"$.buffers[2].offset", [](json& m) { m["buffers"][2]["offset"] = 5000; }},
      {"$.buffers[2].offset", [](json& m) { m["buffers"][2]["offset"] = 32; }},
      {"$.buffers[2].bytes", [](json& m) { m["buffers"][2]["bytes"] = INT64_MAX; }},
      {"$.buffers[2].bytes",
       [](json& m) {
         m["buffers"][2] = {{"kind", "weights"}, {"offset", 4032}, {"bytes", 65}};
       }},
      {"$.buffers[2].offset",
       [](json& m) {
         m["files"].erase("weights.bin");
         m["buffers"][2]["offset"] = 64;
       }},
      {"$.buffers[1].last", [](json& m) { m["buffers"][1]["last"] = 4; }},
      {"$.buffers[1].last", [](json& m) { m["buffers"][1]["first"] = 1, m["buffers"][1]["last"] = 0; }},
      {"$.steps[1].args[0]", [](json& m) { m["buffers"][1]["last"] = 0; }},
      {"$.steps[0].kernels", [](json& m) { m["steps"][0]["kernels"] = json::array(); }},
      {"$.steps[0].kernels[1].m_max", [](json& m) { m["steps"][0]["kernels"][1]["m_max"] = 2; }},
      {"$.steps[0].kernels[1].m_max", [](json& m) { m["steps"][0]["kernels"][0]["m_max"] = -1; }},
      {"$.steps[0].kernels[0].m_max", [](json& m) { m["steps"][0]["kernels"][0]["m_max"] = -2; }},
      {"$.steps[0].kernels[0].module", [](json& m) { m["steps"][0]["kernels"][0]["module"] = "kernels/other.so"; }},
      {"$.steps[0].kernels[0].symbol", [](json& m) { m["steps"][0]["kernels"][0]["symbol"] = 3; }},
      {"$.steps[0].args[0].buffer", [](json& m) { m["steps"][0]["args"][0]["buffer"] = 6; }},
      {"$.steps[0].args[0].offset", [](json& m) { m["steps"][0]["args"][0].erase("offset"); }},
      {"$.steps[0].args[1].stride", [](json& m) { m["steps"][0]["args"][1]["stride"] = nullptr; }},
      {"$.steps[0].params", [](json& m) { m["steps"][0]["params"] = json::array(); }},
      {"$.steps[1].kernels[0].library", [](json& m) { m["steps"][1]["kernels"][0]["library"] = 3; }},
      {"$.buffers[1].last", [](json& m) { m["steps"] = 5; }},
      {"$.buffers", [](json& m) { m["buffers"] = "x"; }},
  };
  return list;
}

// One random change somewhere in the tree.
void mutate(json& node, std::mt19937_64& rng) {
  static const std::vector<json> values = {nullptr,
                                           0,
                                           -1,
                                           1,
                                           3,
                                           INT64_MAX,
                                           INT64_MIN,
                                           UINT64_MAX,
                                           1e300,
                                           true,
                                           "",
                                           "temp",
                                           "kernels/k.so",
                                           json::array(),
                                           json::object(),
                                           json::array({1, 2}),
                                           json::array({json::array({2, 0, 0})})};
  if (node.is_structured() && !node.empty() && rng() % 5 != 0) {
    auto it = node.begin();
    std::advance(it, rng() % node.size());
    if (rng() % 12 == 0) node.erase(it);
    else mutate(*it, rng);
    return;
  }
  node = values[rng() % values.size()];
}

}  // namespace

TEST_CASE("the sample manifest is read") {
  const SampleProgram sample;
  const auto manifest = parse_program_manifest(sample.manifest.dump());
  REQUIRE(manifest.ok());
  CHECK(manifest->steps.size() == 4);
  CHECK(manifest->bindings.size() == 1);
  CHECK(manifest->input_needs_dense[0]);  // copied to z
  CHECK(!manifest->output_needs_dense[0]);
  CHECK(manifest->output_needs_dense[1]);
}

TEST_CASE("states are read, and their places do not overlap") {
  SampleProgram sample;
  SampleProgram::add_state(sample.manifest);
  sample.manifest["states"].push_back(
      {{"name", "b"}, {"dtype", "i64"}, {"shape", json::array()}, {"init", {{"offset", 8}, {"bytes", 8}}}});
  const auto manifest = parse_program_manifest(sample.manifest.dump());
  REQUIRE(manifest.ok());
  REQUIRE(manifest->states.size() == 2);
  CHECK(manifest->states[0].bytes == 16);
  CHECK(!manifest->states[0].initial);
  CHECK(manifest->states[1].place == 64);
  CHECK(manifest->states[1].initial == 8);
  CHECK(manifest->state_bytes == 128);
}

TEST_CASE("targets are read, each with its own states, methods and kernels") {
  SampleProgram sample;
  SampleProgram::add_state(sample.manifest);
  SampleProgram::split_into_targets(sample.manifest, {"cuda:sm_80", "cpu:portable"});
  sample.manifest["targets"][1].erase("states");
  sample.manifest["targets"][1]["buffers"].erase(6);
  const auto manifest = parse_program_manifest(sample.manifest.dump());
  REQUIRE_MESSAGE(manifest.ok(), manifest.error().to_string());
  CHECK(manifest->version == 4);
  CHECK(manifest->target == "cuda:sm_80");
  CHECK(manifest->steps[0].kernels[0].launch.threads == 128);
  CHECK(manifest->states.size() == 1);
  REQUIRE(manifest->other_targets.size() == 1);
  const ProgramManifest& other = manifest->other_targets[0];
  CHECK(other.target == "cpu:portable");
  CHECK(other.isa == "portable");
  CHECK(other.states.empty());
  CHECK(other.steps.size() == 4);
  CHECK(other.files.size() == manifest->files.size());
}

TEST_CASE("every damage is an error that names the place") {
  const SampleProgram sample;
  for (const Damage& damage : damages()) {
    json manifest = sample.manifest;
    damage.apply(manifest);
    const std::string where = std::string("manifest.json: ") + damage.where;
    CAPTURE(where);
    const auto parsed = parse_program_manifest(manifest.dump());
    REQUIRE(!parsed.ok());
    CHECK(parsed.error().code == ErrorCode::BadInput);
    CHECK(parsed.error().where.substr(0, where.size()) == where);
    CHECK(!parsed.error().help.empty());
  }
}

TEST_CASE("random changes and random bytes never crash the reader") {
  const SampleProgram sample;
  const CountedProgram counted;
  int accepted = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 rng(seed);
    json manifest = seed % 8 == 2 ? counted.manifest : sample.manifest;
    if (seed % 8 != 2 && seed % 2 == 0) SampleProgram::add_state(manifest);
    if (seed % 4 == 1) SampleProgram::split_into_targets(manifest, {"cuda:sm_80", "cpu:portable"});
    for (uint64_t changes = 1 + rng() % 3; changes > 0; --changes) mutate(manifest, rng);
    std::string text = manifest.dump();
    if (seed % 3 == 0) text[rng() % text.size()] = static_cast<char>(rng());
    if (seed % 5 == 0) text.resize(rng() % text.size());
    const auto parsed = parse_program_manifest(text);
    if (!parsed.ok()) continue;
    ++accepted;
    // What was accepted may be indexed without a check.
    const std::vector<int64_t> values(parsed->symbols.size(), INT64_MAX / 3);
    for (const auto& step : parsed->steps)
      for (const auto& arg : step.args) {
        CHECK(static_cast<size_t>(arg.buffer) < parsed->buffers.size());
        (void)arg.offset.evaluate(values);
      }
    for (const auto& read : parsed->reads) {
      CHECK(static_cast<size_t>(read.buffer) < parsed->buffers.size());
      CHECK(static_cast<size_t>(read.step) < parsed->steps.size());
      (void)parsed->most_of(read, values);
    }
  }
  CHECK(accepted > 0);
}

TEST_CASE("bombs are refused at once") {
  const auto start = std::chrono::steady_clock::now();
  CHECK(!parse_program_manifest(std::string(8 << 20, '[')).ok());
  CHECK(!parse_program_manifest(std::string(17 << 20, ' ')).ok());
  CHECK(!parse_program_manifest("").ok());
  CHECK(!parse_program_manifest(std::string("{\"format\": \"\xff\xfe\"}")).ok());
  CHECK(!parse_program_manifest("{\"a\": \"\\").ok());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
}

TEST_CASE("generated: any megabyte is read or refused in a second and 256 MiB, and sixteen within 256 MiB") {
  SampleProgram sixteen;
  std::vector<std::string> targets;
  for (int i = 0; i < 16; ++i) targets.push_back("cpu:" + std::to_string(i));
  SampleProgram::split_into_targets(sixteen.manifest, targets);
  const std::string one = SampleProgram().manifest.dump(), fat = sixteen.manifest.dump();
  constexpr size_t kMost = kSanitized ? size_t{1} << 18 : size_t{16} << 20;  // sixteen are about memory and time
  // The sample with more of one unit in one of its lists, or in place of a value.
  const auto padded = [](const std::string& sample, const std::string& after, const std::string& unit, size_t bytes) {
    std::string more;
    while (more.size() + unit.size() + sample.size() + 64 < bytes) more += (more.empty() ? "" : ",") + unit;
    std::string text = sample;
    const size_t at = text.find(after);
    REQUIRE(at != std::string::npos);
    return text.insert(at + after.size(), more + ",");
  };
  struct Excess {
    const char *after, *unit;
  };
  constexpr Excess kExcesses[] = {
      {"\"symbols\":[", "[]"},
      {"\"symbols\":[", "{}"},
      {"\"symbols\":[", "{\"name\":\"a\",\"min\":0,\"max\":0}"},
      {"\"steps\":[", "{\"name\":\"a\",\"kernels\":[],\"args\":[],\"params\":[[[1,0]]]}"},
      {"\"buffers\":[", "{\"kind\":\"temp\",\"bytes\":[[1]],\"first\":0,\"last\":0}"},
      {"\"shape\":[", "[[1,0,0,0,0]]"},
      {"\"shape\":[", "0"},
      {"\"files\":{", "\"a\":{\"bytes\":0}"},
      {"\"generator\":", "[[[],[]]]"},
  };
  for (const Excess& excess : kExcesses)
    for (size_t bytes : {size_t{1} << 12, size_t{1} << 20, kMost, kMost - 1}) {
      const std::string text = padded(bytes % 2 == 1 ? fat : one, excess.after, excess.unit, bytes);
      INFO(excess.after, excess.unit, " of ", bytes, " bytes");
      const ChildCost cost = cost_of([&] { return parse_program_manifest(text).ok(); });
      CHECK(cost.outcome != ChildCost::died);
      const double seconds = static_cast<double>(std::max<size_t>(bytes >> 20, 1));
      CHECK(cost.seconds < (kOptimized && !kSanitized ? seconds : 5 * seconds));
      if (!kSanitized) CHECK(cost.kib < 256 * 1024);
    }
}

TEST_CASE("a long name is not repeated in the error") {
  SampleProgram sample;
  sample.manifest["files"]["/" + std::string(1 << 20, 'x')] = sample.manifest["files"]["weights.bin"];
  const auto parsed = parse_program_manifest(sample.manifest.dump());
  REQUIRE(!parsed.ok());
  CHECK(parsed.error().to_string().size() < 10'000);
}

TEST_CASE("sizes are exact or refused") {
  const SizeExpr expr{{{2, {0, 1}}, {3, {}}}};
  CHECK(expr.evaluate(std::vector<int64_t>{5, 7}) == 73);
  CHECK(!expr.evaluate(std::vector<int64_t>{INT64_MAX, 7}));
  CHECK(!SizeExpr{{{INT64_MAX, {}}, {1, {}}}}.evaluate({}));
  CHECK(SizeExpr{}.evaluate({}) == 0);
  CHECK(!expr.is_constant());
}

TEST_CASE("symbols are found in linear extents only") {
  SampleProgram sample;
  sample.manifest["inputs"][0]["shape"][0] = {{3, 0}, {1}};
  const auto linear = parse_program_manifest(sample.manifest.dump());
  REQUIRE(linear.ok());
  CHECK(linear->bindings[0].coefficient == 3);
  CHECK(linear->bindings[0].constant == 1);
  sample.manifest["inputs"][0]["shape"][0] = {{1, 0, 0}};
  CHECK(!parse_program_manifest(sample.manifest.dump()).ok());
}

TEST_CASE("a symbol is found in a sum of symbols of which all others are found") {
  SampleProgram sample;
  json& m = sample.manifest;
  m["symbols"].push_back({{"name", "rest"}, {"min", 0}, {"max", 9}});
  m["inputs"][0]["shape"][0] = {{1, 0}, {2, 1}, {4}};
  CHECK(!parse_program_manifest(m.dump()).ok());  // one sum, two symbols
  m["inputs"].push_back({{"name", "y"}, {"dtype", "f32"}, {"shape", {{{1, 0}}}}});
  const auto read = parse_program_manifest(m.dump());
  REQUIRE_MESSAGE(read.ok(), read.error().to_string());
  REQUIRE(read->bindings.size() == 2);
  CHECK((read->bindings[0].symbol == 0 && read->bindings[0].input == 1));
  CHECK((read->bindings[1].symbol == 1 && read->bindings[1].input == 0 && read->bindings[1].coefficient == 2));
}

TEST_CASE("a chain of sums of symbols against the order of the inputs is refused in time linear in their number") {
  SampleProgram sample;
  json& m = sample.manifest;
  constexpr int kInputs = 20000;
  m["symbols"].clear();
  for (int i = 0; i <= kInputs; ++i)
    m["symbols"].push_back({{"name", "s" + std::to_string(i)}, {"min", 0}, {"max", 9}});
  m["inputs"][0]["shape"][0] = {{1, kInputs}};
  const auto add = [&](int i) {  // its extent is s[i] + s[i + 1]
    m["inputs"].push_back({{"name", "y" + std::to_string(i)}, {"dtype", "f32"}, {"shape", {{{1, i}, {1, i + 1}}}}});
  };
  json backwards = m;
  for (int i = kInputs - 1; i >= 0; --i) add(i);
  const auto with_order = parse_program_manifest(m.dump());
  CHECK_MESSAGE(with_order.ok(), with_order.error().to_string());
  m = std::move(backwards);
  for (int i = 0; i < kInputs; ++i) add(i);
  const auto start = std::chrono::steady_clock::now();
  const auto against_order = parse_program_manifest(m.dump());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(kOptimized && !kSanitized ? 2 : 10));
  REQUIRE(!against_order.ok());
  CHECK(against_order.error().message.find("is not determined") != std::string::npos);
}

TEST_CASE("an input of one integer may be the value of a symbol") {
  SampleProgram sample;
  sample.manifest["inputs"][0]["shape"][0] = 5;
  sample.manifest["inputs"].push_back({{"name", "n"}, {"dtype", "i64"}, {"shape", {1}}, {"symbol", 0}});
  const auto read = parse_program_manifest(sample.manifest.dump());
  REQUIRE(read.ok());
  REQUIRE(read->bindings.size() == 1);
  CHECK(read->bindings[0].input == 1);
  CHECK(read->bindings[0].axis == ProgramManifest::kElement);
  for (const auto& [field, value] : std::vector<std::pair<const char*, json>>{
           {"symbol", 1}, {"symbol", -1}, {"symbol", "s0"}, {"dtype", "f32"}, {"shape", {2}}, {"shape", {{{1, 0}}}}}) {
    json bad = sample.manifest;
    bad["inputs"][1][field] = value;
    const auto refused = parse_program_manifest(bad.dump());
    REQUIRE(!refused.ok());
    CHECK(refused.error().where.ends_with("$.inputs[1].symbol"));
  }
}

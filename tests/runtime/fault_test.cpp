// Numbers that kernels use as positions: one that is out of range ends the run with an error that names it.
#include "runtime/fault.h"

#include <doctest/doctest.h>

#include "runtime/state.h"
#include "tests/runtime/sample_program.h"

using namespace qcg;
using nlohmann::json;

namespace {

// The sample with another input, ids i64 [s0], and another output, p[i] = w[ids[i]] (w has 8 elements).
struct LookUpProgram {
  SampleProgram sample;

  LookUpProgram() {
    json& m = sample.manifest;
    m["inputs"].push_back({{"name", "ids"}, {"dtype", "i64"}, {"shape", rows()}});
    m["outputs"].push_back({{"name", "p"}, {"dtype", "f32"}, {"shape", rows()}});
    m["buffers"].push_back({{"kind", "input"}, {"index", 1}});
    m["buffers"].push_back({{"kind", "output"}, {"index", 3}});
    m["steps"].push_back(json::parse(R"({
      "name": "look up", "kernels": [{"m_max": -1, "module": "kernels/k.so", "symbol": "test_look_up"}],
      "args": [{"buffer": 2, "offset": 0, "stride": 0, "reach": {"item": 4, "axes": [["p1"]]}},
               {"buffer": 6, "offset": 0, "stride": 0,
                "reach": {"item": 8, "axes": [["p0"]], "positions": {"size": "p1"}}},
               {"buffer": 7, "offset": 0, "stride": 0, "reach": {"item": 4, "axes": [["p0"]], "writes": true}}],
      "params": [[[1, 0]], 8]})"));
    sample.sign();
  }
  static json rows() { return json::parse("[[[1, 0]]]"); }
  json& positions() { return sample.manifest["steps"].back()["args"][1]["reach"]["positions"]; }
};

struct LookUpRun {
  explicit LookUpRun(int64_t m) : plain(m), ids(static_cast<size_t>(m)), p(static_cast<size_t>(m), -1), shape{m} {
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * 5 % 8);
  }
  std::vector<TensorView> inputs() {
    std::vector<TensorView> out = plain.inputs;
    out.push_back({ids.data(), DType::i64, shape, {}});
    return out;
  }
  std::vector<TensorView> outputs() {
    std::vector<TensorView> out = plain.outputs;
    out.push_back({p.data(), DType::f32, shape, {}});
    return out;
  }
  Status run(Context& context) { return context.run(inputs(), outputs()); }
  bool is_right() const {
    for (size_t i = 0; i < ids.size(); ++i)
      if (p[i] != 100.0f * static_cast<float>(ids[i])) return false;
    return plain.is_right();
  }

  SampleRun plain;
  std::vector<int64_t> ids;
  std::vector<float> p;
  std::vector<int64_t> shape;
};

std::shared_ptr<const Program> load_program_of(const SampleProgram& sample) {
  auto program = Program::load(sample.dir());
  if (!program.ok()) FAIL(program.error().to_string());
  return *program;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a position out of range is an error that names tensor, value and range; the next run is right") {
  const LookUpProgram program;
  const auto loaded = load_program_of(program.sample);
  for (const int threads : {1, 3}) {
    auto context = Context::create(loaded, {.threads = threads}).value();
    for (const int64_t bad : {int64_t{8}, int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 40})
      for (const size_t at : {size_t{0}, size_t{250}, size_t{499}}) {
        LookUpRun run(500);
        run.ids[at] = bad;
        const Status status = run.run(*context);
        REQUIRE(!status.ok());
        const Error& e = status.error();
        CHECK(e.code == ErrorCode::BadInput);
        CHECK(e.where == "step 'look up'");
        CHECK(contains(e.message, "input 'ids' is " + std::to_string(bad) + " at [" + std::to_string(at) + "]"));
        CHECK(contains(e.help, "from 0 to 7"));
        LookUpRun good(500);
        REQUIRE(good.run(*context).ok());
        CHECK(good.is_right());
      }
  }
}

TEST_CASE("of several positions out of range the first is named, on any number of threads") {
  const LookUpProgram program;
  auto context = Context::create(load_program_of(program.sample), {.threads = 4}).value();
  for (int repeat = 0; repeat < 20; ++repeat) {
    LookUpRun run(1000);
    for (size_t i = 7; i < 1000; i += 31) run.ids[i] = 1000 + static_cast<int64_t>(i);
    const Status status = run.run(*context);
    REQUIRE(!status.ok());
    CHECK(contains(status.error().message, "is 1007 at [7]"));
  }
}

TEST_CASE("the error says what the kind of positions allows") {
  LookUpProgram program;
  SUBCASE("from the end") {
    program.positions()["from_end"] = true;
    program.sample.sign();
    auto context = Context::create(load_program_of(program.sample), {.threads = 1}).value();
    LookUpRun run(3);
    run.ids = {0, 9, 2};
    const Status status = run.run(*context);
    REQUIRE(!status.ok());
    CHECK(contains(status.error().help, "from -8 to 7"));
  }
  SUBCASE("ascending") {
    program.positions()["ascending"] = true;
    program.sample.sign();
    auto context = Context::create(load_program_of(program.sample), {.threads = 1}).value();
    LookUpRun run(4);
    run.ids = {0, 5, 3, 9};  // the kernel of this test checks the range only
    const Status status = run.run(*context);
    REQUIRE(!status.ok());
    CHECK(contains(status.error().message, "is 3 at [2]"));
    CHECK(contains(status.error().help, "ascend, all from 0 to 7"));
  }
  SUBCASE("a kernel whose manifest says nothing of positions") {
    program.sample.manifest["steps"].back()["args"][1]["reach"].erase("positions");
    program.sample.sign();
    auto context = Context::create(load_program_of(program.sample), {.threads = 1}).value();
    LookUpRun run(3);
    run.ids = {0, 5, 8};
    const Status status = run.run(*context);
    REQUIRE(!status.ok());
    CHECK(contains(status.error().message, "number 2 of the positions"));
  }
}

TEST_CASE("a run with state that meets a position out of range leaves the state undefined") {
  LookUpProgram program;
  SampleProgram::add_state(program.sample.manifest);
  program.sample.sign();
  const auto loaded = load_program_of(program.sample);
  auto context = Context::create(loaded, {.threads = 2}).value();
  auto state = State::create(loaded).value();
  LookUpRun run(9);
  run.ids[4] = -3;
  REQUIRE(!context->run(*state, run.inputs(), run.outputs()).ok());
  CHECK(!state->tensor("a").ok());
  REQUIRE(state->reset().ok());
  run.ids[4] = 3;
  REQUIRE(context->run(*state, run.inputs(), run.outputs()).ok());
  CHECK(run.is_right());
}

TEST_CASE("kernels of the first ABI, which know nothing of faults, run as before") {
  LookUpProgram program;
  program.sample.manifest["steps"][0]["kernels"][1]["symbol"] = "test_first_abi";
  program.sample.manifest["kernel_abi"] = 1;
  program.sample.sign();
  auto context = Context::create(load_program_of(program.sample), {.threads = 2}).value();
  LookUpRun run(300);
  REQUIRE(run.run(*context).ok());
  CHECK(run.is_right());
}

// Sizes of a run: how inputs determine them, and what refuses them.
#include <doctest/doctest.h>

#include "runtime/program.h"
#include "tests/runtime/sample_program.h"

using namespace qcg;

namespace {

std::shared_ptr<const Program> load_sample(const SampleProgram& sample) {
  auto program = Program::load(sample.dir(), {});
  if (!program.ok()) FAIL(program.error().to_string());
  return *program;
}

}  // namespace

TEST_CASE("an extent that falls as its symbol grows says which value it has") {
  SampleProgram sample;
  sample.manifest["inputs"][0]["shape"][0] = {{-1, 0}, {65}};
  sample.sign();
  const SampleRun run(60);
  const auto shapes = load_sample(sample)->output_shapes(run.inputs);
  REQUIRE(shapes.ok());
  CHECK((*shapes)[0] == std::vector<int64_t>{5, 8});
}

TEST_CASE("a size that is the sum of another one and a rest: an input that is too small is named") {
  SampleProgram sample;
  sample.manifest["symbols"].push_back({{"name", "s0_rest"}, {"min", 0}, {"max", 100}});
  sample.manifest["inputs"].push_back({{"name", "y"}, {"dtype", "f32"}, {"shape", {{{1, 0}, {2, 1}}}}});
  sample.sign();
  const auto program = load_sample(sample);
  const SampleRun run(5);
  const float zeros[9] = {};
  const auto bound = [&](int64_t size) {
    const std::vector<int64_t> shape{size};
    const TensorView y{const_cast<float*>(zeros), DType::f32, shape, {}};
    return program->bind_symbols(std::vector{run.inputs[0], y});
  };
  REQUIRE(bound(9).ok());
  CHECK(*bound(9) == std::vector<int64_t>{5, 2});
  CHECK(*bound(5) == std::vector<int64_t>{5, 0});
  CHECK(bound(3).error().to_string().find("input 'y': axis 0 is 3, so s0_rest = -1 is outside [0, 100]") !=
        std::string::npos);
  CHECK(bound(8).error().to_string().find("which fits no s0_rest") != std::string::npos);
}

TEST_CASE("an input may be the value of a symbol; a wrong value is an error that names the input") {
  SampleProgram sample;
  sample.manifest["symbols"][0]["max"] = 100;
  sample.manifest["inputs"].push_back({{"name", "n"}, {"dtype", "i64"}, {"shape", json::array()}, {"symbol", 0}});
  sample.sign();
  const auto program = load_sample(sample);
  const SampleRun run(5);
  int64_t n = 5;
  TensorView view{&n, DType::i64, {}, {}};
  const auto shapes = [&] { return program->output_shapes(std::vector{run.inputs[0], view}); };
  const auto refusal = [&] {
    const auto refused = shapes();
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::BadInput);
    return refused.error().to_string();
  };
  REQUIRE(shapes().ok());
  CHECK((*shapes())[0] == std::vector<int64_t>{5, 8});
  for (const auto& [value, message] :
       {std::pair<int64_t, const char*>{4, "input 'x': axis 0 is 5, the program expects 4"},
        {101, "input 'n': is 101, but s0 is from 0 to 100"},
        {-1, "input 'n': is -1"},
        {INT64_MIN, "input 'n': is -9223372036854775808"},
        {INT64_MAX, "input 'n': is 9223372036854775807"}}) {
    n = value;
    CHECK(refusal().find(message) != std::string::npos);
  }
  n = 5;
  view.data = nullptr;
  CHECK(refusal().find("input 'n': has no data") != std::string::npos);
  view = {&n, DType::i32, {}, {}};
  CHECK(refusal().find("input 'n': has dtype i32") != std::string::npos);
  const int64_t two = 2;
  view = {&n, DType::i64, {&two, 1}, {}};
  CHECK(refusal().find("input 'n': has 1 axes") != std::string::npos);
}

TEST_CASE("two inputs that are values of one symbol agree") {
  SampleProgram sample;
  for (const char* name : {"n", "k"})
    sample.manifest["inputs"].push_back({{"name", name}, {"dtype", "i32"}, {"shape", {1}}, {"symbol", 0}});
  sample.sign();
  const auto program = load_sample(sample);
  const SampleRun run(5);
  const int64_t one = 1;
  int32_t n = 5, k = 5;
  const std::vector inputs = {run.inputs[0], TensorView{&n, DType::i32, {&one, 1}, {}},
                              TensorView{&k, DType::i32, {&one, 1}, {}}};
  CHECK(program->output_shapes(inputs).ok());
  k = 6;
  const auto refused = program->output_shapes(inputs);
  REQUIRE(!refused.ok());
  CHECK(refused.error().to_string().find("input 'k': is 6, but s0 is 5") != std::string::npos);
}

TEST_CASE("conditions of sizes: a run that breaks one is an error that has its text") {
  SampleProgram sample;
  sample.manifest["conditions"] = {{{"size", {{-2, 0}, {39}}}, {"is", "at_least_0"}, {"text", "2*x.size()[0] < 40"}},
                                   {{"size", {{1, 0}, {-5}}}, {"is", "not_zero"}, {"text", "x.size()[0] != 5"}},
                                   {{"size", {{1, 0}, {-3, {{"floordiv", {{{1, 0}}, 3}}}}, {-1}}},
                                    {"is", "zero"},
                                    {"text", "x.size()[0] % 3 == 1"}}};
  sample.sign();
  const auto program = load_sample(sample);
  const auto answer = [&](int64_t m) {
    const SampleRun run(m);
    const auto shapes = program->output_shapes(run.inputs);
    return shapes.ok() ? std::to_string((*shapes)[0][0]) : shapes.error().to_string();
  };
  CHECK(answer(4) == "4");
  CHECK(answer(19) == "19");
  CHECK(answer(22).find("do not satisfy 2*x.size()[0] < 40") != std::string::npos);
  CHECK(answer(5).find("do not satisfy x.size()[0] != 5") != std::string::npos);
  CHECK(answer(6).find("do not satisfy x.size()[0] % 3 == 1") != std::string::npos);
}

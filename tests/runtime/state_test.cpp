#include "runtime/state.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "runtime/qcodegen.h"
#include "runtime/qcodegen.hpp"
#include "tests/runtime/sample_program.h"

using namespace qcg;

namespace {

// The sample with state: y as ever; z = count, then count = x (of one row); kept = w at first, never written; v = kept.
struct StatefulProgram {
  SampleProgram sample;

  StatefulProgram() {
    auto& m = sample.manifest;
    m["version"] = 2;
    m["symbols"][0]["max"] = 1;
    m["states"] = nlohmann::json::parse(R"([
      {"name": "last", "dtype": "f32", "shape": [1, 8], "init": "zero"},
      {"name": "kept", "dtype": "f32", "shape": [8], "init": {"offset": 0, "bytes": 32}}])");
    m["buffers"].push_back({{"kind", "state"}, {"index", 0}});
    m["buffers"].push_back({{"kind", "state"}, {"index", 1}});
    auto copy = m["steps"][2];
    copy["name"] = "z = last";
    copy["args"][0]["buffer"] = 6;
    copy["args"][1]["buffer"] = 4;
    m["steps"][2] = copy;
    copy["name"] = "last = x";
    copy["args"][0]["buffer"] = 0;
    copy["args"][1]["buffer"] = 6;
    copy["args"][1]["reach"] = {{"item", 4}, {"axes", {{"p0", "s"}, {8, 1}}}, {"writes", true}};
    m["steps"].push_back(copy);
    m["steps"][3]["args"][0]["buffer"] = 7;
    sample.sign();
  }
};

// One run on one row: x[0, i] = first + i. Afterwards z is what the state held before.
struct StatefulRun {
  std::vector<float> x, y = std::vector<float>(8), z = y, v = y;
  std::vector<int64_t> rows = {1, 8}, eight = {8};

  explicit StatefulRun(float first) {
    for (int i = 0; i < 8; ++i) x.push_back(first + static_cast<float>(i));
  }
  Status run(Context& context, State& state) {
    const TensorView in[] = {{x.data(), DType::f32, rows, {}}};
    const TensorView out[] = {
        {y.data(), DType::f32, rows, {}}, {z.data(), DType::f32, eight, {}}, {v.data(), DType::f32, eight, {}}};
    return context.run(state, in, out);
  }
};

struct LoadedStateful {
  explicit LoadedStateful(const SampleProgram& sample) : program(Program::load(sample.dir()).value()) {
    context = Context::create(program, {.threads = 2}).value();
  }
  std::unique_ptr<State> new_state() const { return State::create(program).value(); }
  std::shared_ptr<const Program> program;
  std::unique_ptr<Context> context;
};

float first_of(const State& state, const char* name) {
  const auto view = state.tensor(name);
  REQUIRE(view.ok());
  return static_cast<const float*>(view->data)[0];
}

}  // namespace

TEST_CASE("state starts as the program says, and persists from run to run") {
  const StatefulProgram program;
  const LoadedStateful loaded(program.sample);
  const auto state = loaded.new_state();
  float before = 0;
  for (const float first : {5.0f, 7.0f, -2.0f}) {
    StatefulRun run(first);
    REQUIRE(run.run(*loaded.context, *state).ok());
    CHECK(run.z[0] == before);
    CHECK(run.v[3] == 300.0f);
    before = first;
  }
  CHECK(first_of(*state, "last") == -2.0f);
  const auto kept = state->tensor("kept");
  REQUIRE(kept.ok());
  CHECK(kept->shape.size() == 1);
  CHECK(kept->shape[0] == 8);
  CHECK(static_cast<const float*>(kept->data)[2] == 200.0f);

  // What is written through the view is what the next run reads.
  static_cast<float*>(state->tensor("last")->data)[0] = 41;
  StatefulRun run(1);
  REQUIRE(run.run(*loaded.context, *state).ok());
  CHECK(run.z[0] == 41);

  const void* address = state->tensor("last")->data;
  static_cast<float*>(kept->data)[2] = 1;
  REQUIRE(state->reset().ok());
  CHECK(first_of(*state, "last") == 0);
  CHECK(static_cast<const float*>(kept->data)[2] == 200.0f);
  CHECK(state->tensor("last")->data == address);
}

TEST_CASE("a large state of zeros is zeros again after a reset") {
  StatefulProgram program;
  program.sample.manifest["states"].push_back(
      {{"name", "cache"}, {"dtype", "f32"}, {"shape", {1024, 1024}}, {"init", "zero"}});
  program.sample.sign();
  const LoadedStateful loaded(program.sample);
  const auto state = loaded.new_state();
  auto* cache = static_cast<float*>(state->tensor("cache")->data);
  for (const size_t at : {size_t{0}, size_t{1} << 19, (size_t{1} << 20) - 1}) {
    CHECK(cache[at] == 0);
    cache[at] = 3;
  }
  REQUIRE(state->reset().ok());
  for (const size_t at : {size_t{0}, size_t{1} << 19, (size_t{1} << 20) - 1}) CHECK(cache[at] == 0);
  CHECK(static_cast<const float*>(state->tensor("kept")->data)[2] == 200.0f);
}

TEST_CASE("states are apart, and a clone goes on from where it was made") {
  const StatefulProgram program;
  const LoadedStateful loaded(program.sample);
  const auto a = loaded.new_state(), b = loaded.new_state();
  REQUIRE(StatefulRun(5).run(*loaded.context, *a).ok());
  auto clone = a->clone();
  REQUIRE(clone.ok());
  REQUIRE(StatefulRun(6).run(*loaded.context, *a).ok());
  CHECK(first_of(*a, "last") == 6);
  CHECK(first_of(*b, "last") == 0);
  CHECK(first_of(**clone, "last") == 5);
}

TEST_CASE("a run on a state that is wrong for it does not start") {
  const StatefulProgram program;
  const LoadedStateful loaded(program.sample), other(program.sample);
  const auto state = loaded.new_state();
  REQUIRE(StatefulRun(5).run(*loaded.context, *state).ok());

  const Status foreign = StatefulRun(6).run(*other.context, *state);
  REQUIRE(!foreign.ok());
  CHECK(foreign.error().to_string().find("another program") != std::string::npos);

  StatefulRun run(7);
  const TensorView in[] = {{run.x.data(), DType::f32, run.rows, {}}};
  const TensorView out[] = {{run.y.data(), DType::f32, run.rows, {}},
                            {run.z.data(), DType::f32, run.eight, {}},
                            {run.v.data(), DType::f32, run.eight, {}}};
  const Status none = loaded.context->run(in, out);
  REQUIRE(!none.ok());
  CHECK(none.error().code == ErrorCode::BadInput);
  CHECK(none.error().to_string().find("qcg_run_state") != std::string::npos);

  const TensorView own = *state->tensor("last");
  const TensorView overlapping[] = {own};
  CHECK(!loaded.context->run(*state, overlapping, out).ok());
  const TensorView into_state[] = {out[0], {own.data, DType::f32, run.eight, {}}, out[2]};
  const Status overlap = loaded.context->run(*state, in, into_state);
  REQUIRE(!overlap.ok());
  CHECK(overlap.error().to_string().find("overlaps the state") != std::string::npos);

  const TensorView short_input[] = {{run.x.data(), DType::f32, run.eight, {}}};
  CHECK(!loaded.context->run(*state, short_input, out).ok());
  CHECK(first_of(*state, "last") == 5);  // as it was

  const auto missing = state->tensor("lats");
  REQUIRE(!missing.ok());
  CHECK(missing.error().to_string().find("it has last, kept") != std::string::npos);
}

TEST_CASE("a run that fails half way leaves the state undefined until it is reset") {
  StatefulProgram program;
  // The last step refuses when x[0] is negative, after y and z were written.
  program.sample.manifest["steps"].back()["kernels"][0]["symbol"] = "test_refuse_negative";
  program.sample.sign();
  const LoadedStateful loaded(program.sample);
  const auto state = loaded.new_state();
  REQUIRE(StatefulRun(5).run(*loaded.context, *state).ok());
  const auto good = state->clone();
  REQUIRE(good.ok());
  CHECK(!StatefulRun(-1).run(*loaded.context, *state).ok());
  const Status again = StatefulRun(5).run(*loaded.context, *state);
  REQUIRE(!again.ok());
  CHECK(again.error().code == ErrorCode::BadInput);
  CHECK(again.error().to_string().find("undefined") != std::string::npos);
  CHECK(!state->tensor("last").ok());
  CHECK(!state->clone().ok());
  REQUIRE(state->reset().ok());
  StatefulRun run(5);
  REQUIRE(run.run(*loaded.context, *state).ok());
  CHECK(run.z[0] == 0);
  StatefulRun after(6);
  REQUIRE(after.run(*loaded.context, **good).ok());
  CHECK(after.z[0] == 5);
}

TEST_CASE("one run at a time per state: the others are told, and nothing is lost") {
  const StatefulProgram program;
  const LoadedStateful loaded(program.sample);
  const auto state = loaded.new_state();
  constexpr int kThreads = 4, kCalls = 300;
  std::atomic<int> ran = 0, refused = 0, wrong = 0;
  const auto work = [&](int thread) {
    auto context = Context::create(loaded.program, {.threads = 1}).value();
    const auto own = loaded.new_state();
    float before = 0;
    for (int i = 0; i < kCalls; ++i) {
      // Of a sequence of its own every run is right, whatever happens to the shared one.
      StatefulRun mine(static_cast<float>(thread * kCalls + i));
      if (!mine.run(*context, *own).ok() || mine.z[0] != before) ++wrong;
      before = mine.x[0];
      StatefulRun shared(static_cast<float>(i));
      const Status status = i % 3 == 0 ? state->reset() : shared.run(*context, *state);
      if (!status.ok() && status.error().to_string().find("in use by another call") == std::string::npos) ++wrong;
      ++(status.ok() ? ran : refused);
      // What is copied is one value, whole.
      if (const auto copy = state->clone(); copy.ok()) {
        const auto* last = static_cast<const float*>((*copy)->tensor("last")->data);
        const bool zero = last[0] == 0 && last[7] == 0;
        if (!zero && last[7] != last[0] + 7) ++wrong;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(ran > 0);
  CHECK(ran + refused == kThreads * kCalls);
  CHECK(state->reset().ok());  // nobody holds it any more
}

TEST_CASE("clones and reads happen side by side") {
  const StatefulProgram program;
  const LoadedStateful loaded(program.sample);
  const auto state = loaded.new_state();
  REQUIRE(StatefulRun(9).run(*loaded.context, *state).ok());
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto copy = state->clone();
        if (!copy.ok() || static_cast<const float*>((*copy)->tensor("last")->data)[0] != 9 ||
            !state->tensor("kept").ok())
          ++failed;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
}

TEST_CASE("a program without state has an empty one") {
  const SampleProgram sample;
  const LoadedStateful loaded(sample);
  const auto state = loaded.new_state();
  SampleRun run(6);
  CHECK(loaded.context->run(*state, run.inputs, run.outputs).ok());
  CHECK(run.is_right());
  CHECK(!state->tensor("x").ok());
  CHECK(state->clone().ok());
  CHECK(state->reset().ok());
}

TEST_CASE("C: state is created, run, read, cloned, reset and freed") {
  const StatefulProgram program;
  qcg_program* loaded = nullptr;
  qcg_context* context = nullptr;
  qcg_state *state = nullptr, *clone = nullptr;
  REQUIRE(qcg_program_load(program.sample.dir().c_str(), nullptr, &loaded) == QCG_OK);
  REQUIRE(qcg_context_create(loaded, nullptr, &context) == QCG_OK);
  CHECK(qcg_n_states(loaded) == 2);
  qcg_tensor_info info;
  REQUIRE(qcg_state_info(loaded, 0, &info) == QCG_OK);
  CHECK(std::string(info.name) == "last");
  CHECK(info.ndim == 2);
  CHECK(info.shape[1] == 8);
  CHECK(qcg_state_info(loaded, 2, &info) == QCG_ERROR_BAD_INPUT);
  REQUIRE(qcg_state_create(loaded, &state) == QCG_OK);
  qcg_program_free(loaded);  // states and contexts keep what they need

  StatefulRun run(4);
  qcg_dltensor in = {run.x.data(), {1, 0}, 2, {2, 32, 1}, run.rows.data(), nullptr, 0};
  qcg_dltensor out[3] = {in, in, in};
  out[0].data = run.y.data();
  for (int i : {1, 2}) out[i].data = (i == 1 ? run.z : run.v).data(), out[i].ndim = 1, out[i].shape = run.eight.data();
  CHECK(qcg_run(context, &in, 1, out, 3, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(std::strstr(qcg_last_error(), "qcg_state_create") != nullptr);
  CHECK(qcg_run_state(context, nullptr, &in, 1, out, 3, nullptr) == QCG_ERROR_BAD_INPUT);
  REQUIRE(qcg_run_state(context, state, &in, 1, out, 3, nullptr) == QCG_OK);
  CHECK(run.z[0] == 0);
  REQUIRE(qcg_state_clone(state, &clone) == QCG_OK);
  REQUIRE(qcg_state_reset(state) == QCG_OK);
  qcg_dltensor view;
  REQUIRE(qcg_state_tensor(clone, "last", &view) == QCG_OK);
  CHECK(static_cast<float*>(view.data)[7] == 11);
  CHECK(view.ndim == 2);
  CHECK(view.shape[1] == 8);
  REQUIRE(qcg_state_tensor(state, "last", &view) == QCG_OK);
  CHECK(static_cast<float*>(view.data)[7] == 0);
  CHECK(view.device.device_type == 1);
  float host[8] = {};
  REQUIRE(qcg_state_read(clone, "last", host, sizeof host) == QCG_OK);
  CHECK(host[7] == 11);
  REQUIRE(qcg_state_write(state, "last", host, sizeof host) == QCG_OK);
  CHECK(static_cast<float*>(view.data)[7] == 11);
  CHECK(qcg_state_read(state, "last", host, sizeof host - 4) == QCG_ERROR_BAD_INPUT);
  CHECK(std::strstr(qcg_last_error(), "has 32 bytes, not 28") != nullptr);
  CHECK(qcg_state_write(state, "last", host, -1) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_state_write(state, "last", nullptr, sizeof host) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_state_read(nullptr, "last", host, sizeof host) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_state_read(state, "x", host, sizeof host) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_state_tensor(state, "x", &view) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_state_tensor(state, nullptr, &view) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_state_clone(state, nullptr) == QCG_ERROR_BAD_INPUT);
  qcg_state* none = nullptr;
  CHECK(qcg_state_create(nullptr, &none) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_state_reset(nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_n_states(nullptr) == 0);
  qcg_state_free(state);
  qcg_state_free(clone);
  qcg_state_free(nullptr);
  qcg_context_free(context);
}

TEST_CASE("C++: a state by its handle") {
  const StatefulProgram sample;
  const qcodegen::Program program(sample.sample.dir());
  qcodegen::Context context(program, 1);
  qcodegen::State state(program);
  CHECK(program.n_states() == 2);
  CHECK(std::string(program.state(1).name) == "kept");
  qcodegen::Tensor x(qcodegen::dtypes::f32, {1, 8});
  x.data<float>()[0] = 3;
  CHECK(context.run(state, {x})[1].data<float>()[0] == 0);
  qcodegen::State clone = state.clone();
  state.reset();
  CHECK(context.run(clone, {x})[1].data<float>()[0] == 3);
  CHECK(static_cast<float*>(state.tensor("last").data)[0] == 0);
  CHECK_THROWS_AS(state.tensor("none"), qcodegen::Error);
  CHECK_THROWS_AS(context.run({x}), qcodegen::Error);
}

TEST_CASE("methods share weights, kernels and state, and run on the threads of one context") {
  StatefulProgram program;
  auto& m = program.sample.manifest;
  SampleProgram::split_into_methods(m, {"write", "read"});
  m["methods"][1]["steps"].erase(4);  // "last = x": the second method leaves the state as it is
  m["methods"][1]["inputs"][0]["name"] = "other_x";
  program.sample.sign();

  qcodegen::Program whole(program.sample.dir());
  CHECK(qcg_n_methods(whole.handle()) == 2);
  CHECK(qcg_method_name(whole.handle(), 0) == std::string("write"));
  CHECK(qcg_method_name(whole.handle(), 1) == std::string("read"));
  CHECK(qcg_method_name(whole.handle(), 2) == nullptr);
  CHECK(whole.input(0).name == std::string("x"));
  const qcodegen::Program write = whole.method("write"), read = whole.method("read");
  CHECK(write.handle() == whole.handle());
  CHECK(read.input(0).name == std::string("other_x"));
  CHECK_THROWS_WITH_AS(whole.method("wirte"), doctest::Contains("it has write, read"), qcodegen::Error);
  CHECK_THROWS_AS(whole.method(""), qcodegen::Error);

  qcodegen::Context context(whole, 2);
  qcodegen::State state(read);  // of any method
  const auto z_of = [&](const qcodegen::Program& method, float value) {
    qcodegen::Tensor x(qcodegen::dtypes::f32, {1, 8});
    std::fill_n(x.data<float>(), 8, value);
    const auto outputs = context.run(method, state, {x});
    CHECK(outputs[2].data<float>()[3] == 300);  // weights
    return outputs[1].data<float>()[0];
  };
  CHECK(z_of(write, 5) == 0);
  CHECK(z_of(read, 6) == 5);
  CHECK(z_of(read, 7) == 5);
  CHECK(z_of(whole, 8) == 5);
  CHECK(z_of(read, 9) == 8);

  qcodegen::Context own(read, 1);  // a context of a method is one of the program
  qcodegen::Tensor x(qcodegen::dtypes::f32, {1, 8});
  CHECK(own.run(state, {x})[1].data<float>()[0] == 8);

  StatefulProgram other;
  qcodegen::Program stranger(other.sample.dir());
  CHECK_THROWS_WITH_AS(context.run(stranger, state, {x}), doctest::Contains("of another program"), qcodegen::Error);
  CHECK(qcg_n_methods(stranger.handle()) == 1);
  CHECK(qcg_method_name(stranger.handle(), 0) == nullptr);
  CHECK_THROWS_AS(stranger.method("write"), qcodegen::Error);
}

#include "runtime/program.h"

#include <doctest/doctest.h>
#include <immintrin.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <random>
#include <thread>

#include "runtime/host/host_isa.h"
#include "runtime/piece_digests.h"
#include "tests/runtime/sample_program.h"

using namespace qcg;

namespace {

std::shared_ptr<const Program> load(const SampleProgram& sample, const LoadOptions& options = {}) {
  auto program = Program::load(sample.dir(), options);
  if (!program.ok()) FAIL(program.error().to_string());
  return *program;
}

std::unique_ptr<Context> make_context(std::shared_ptr<const Program> program,
                                      const ContextOptions& options = {.threads = 2}) {
  auto context = Context::create(std::move(program), options);
  REQUIRE(context.ok());
  return std::move(*context);
}

// The error of a run that must fail.
Error run_error(Context& context, const SampleRun& run) {
  const Status status = context.run(run.inputs, run.outputs);
  REQUIRE(!status.ok());
  CHECK(!status.error().help.empty());
  return status.error();
}

}  // namespace

TEST_CASE("a program runs at every m, in any order, mapped or copied") {
  const SampleProgram sample;
  for (WeightsMode mode : {WeightsMode::map, WeightsMode::huge_pages}) {
    auto context = make_context(load(sample, {.weights = mode, .verify_weights = true}));
    for (int64_t m : {1, 3, 0, 64, 2, 1000, 7, 0, 1}) {
      CAPTURE(m);
      SampleRun run(m);
      const Status status = context->run(run.inputs, run.outputs);
      REQUIRE(status.ok());
      CHECK(run.is_right());
    }
  }
}

TEST_CASE("results do not depend on the number of threads") {
  const SampleProgram sample;
  const auto program = load(sample);
  for (int threads : {1, 2, 5, 16}) {
    auto context = make_context(program, {.threads = threads});
    CHECK(context->threads() == threads);
    for (int repeat = 0; repeat < 12; ++repeat) {  // through the runs in which a step tries to do without threads
      SampleRun run(333);
      REQUIRE(context->run(run.inputs, run.outputs).ok());
      CHECK(run.is_right());
    }
  }
}

TEST_CASE("results do not depend on how the host's thread treats floats, and it keeps that") {
  const SampleProgram sample;
  auto context = make_context(load(sample));
  SampleRun plain(333);
  for (float& x : plain.x) x = 1e-40f;
  REQUIRE(context->run(plain.inputs, plain.outputs).ok());
  REQUIRE(plain.y[0] > 0);
  const unsigned before = _mm_getcsr();
  for (const unsigned mode : {0x9fc0u, 0x5f80u}) {  // denormals are zero, rounded up
    SampleRun run(333);
    run.x = plain.x;
    _mm_setcsr(mode);
    const Status status = context->run(run.inputs, run.outputs);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    REQUIRE(status.ok());
    CHECK(after == mode);
    CHECK(run.y == plain.y);
  }
}

// "sums" of each group's rows: twice x, the weights of the group, and the sum of the group's rows.
std::vector<float> sums_of_groups(const std::vector<float>& x, const std::vector<int32_t>& ends,
                                  const std::vector<float>& weights) {
  const auto rows = std::ssize(x) / SampleProgram::kN;
  const float extra = rows <= 2 ? 0.5f : 0;
  std::vector<float> y(x.size(), 0);
  std::vector<size_t> group(static_cast<size_t>(rows), ends.size());
  for (int64_t row = 0; row < rows; ++row)
    for (size_t g = ends.size(); g-- > 0;)
      if (ends[g] > row) group[static_cast<size_t>(row)] = g;
  std::vector<float> sums(ends.size() + 1, 0);
  for (size_t i = 0; i < x.size(); ++i) sums[group[i / SampleProgram::kN]] += 2 * x[i] + extra;
  for (size_t i = 0; i < x.size(); ++i)
    if (const size_t g = group[i / SampleProgram::kN]; g < ends.size())
      y[i] = 2 * x[i] + extra + weights[g * 16 + i % SampleProgram::kN] + sums[g];
  return y;
}

TEST_CASE("a step of groups runs the rows of each group with its weights; rows of no group are 0") {
  std::string bytes(4096, '\0');
  std::vector<float> weights(3 * 16);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(100 * i);
  std::memcpy(bytes.data(), weights.data(), weights.size() * sizeof(float));
  const std::vector<std::vector<int32_t>> all_ends = {{2, 2, 5}, {-3, 9, 4}, {0, 0, 0},
                                                      {1, 4, 7}, {7, 0, 0},  {4, 1, INT32_MAX}};
  for (const std::vector<int32_t>& ends : all_ends) {
    SampleProgram sample;
    SampleProgram::group_rows(sample.manifest);
    std::memcpy(bytes.data() + 1024, ends.data(), ends.size() * sizeof(int32_t));
    write_file(sample.dir() + "/weights.bin", bytes);
    sample.sign_file("weights.bin");
    sample.sign();
    const auto program = load(sample);
    for (int64_t m : {7, 2, 1, 0, 7}) {
      INFO(m, " rows, ends ", ends[0], " ", ends[1], " ", ends[2]);
      SampleRun run(m);
      auto context = Context::create(program, {.threads = 3, .profile = true});
      REQUIRE(context.ok());
      REQUIRE((*context)->run(run.inputs, run.outputs).ok());
      CHECK(run.y == sums_of_groups(run.x, ends, weights));
    }
  }
}

TEST_CASE("weights of groups beyond their buffer are an error, not an access") {
  SampleProgram sample;
  SampleProgram::group_rows(sample.manifest);
  sample.manifest["steps"][1]["groups"]["bytes"] = 65;
  sample.sign();
  const auto program = load(sample);
  auto context = Context::create(program, {.threads = 1});
  REQUIRE(context.ok());
  SampleRun run(4);
  const Status status = (*context)->run(run.inputs, run.outputs);
  REQUIRE(!status.ok());
  CHECK_MESSAGE(status.error().to_string().find("$.steps[1].args[1]") != std::string::npos, status.error().to_string());
}

TEST_CASE("weights larger than a huge page are copied whole") {
  SampleProgram sample;
  std::string weights = read_file(sample.dir() + "/weights.bin");
  weights.resize((9 << 20) + 4097, 'w');
  write_file(sample.dir() + "/weights.bin", weights);
  sample.sign_file("weights.bin");
  sample.sign();
  const auto program = load(sample, {.weights = WeightsMode::huge_pages, .verify_weights = true});
  CHECK(program->weights_bytes() == static_cast<int64_t>(weights.size()));
  CHECK(std::memcmp(program->weights(), weights.data(), weights.size()) == 0);
}

TEST_CASE("weights are checked piece by piece where the manifest has pieces") {
  SampleProgram sample;
  std::string weights = read_file(sample.dir() + "/weights.bin");
  weights.resize(static_cast<size_t>(2 * kDigestPiece) + 5, 'w');
  write_file(sample.dir() + "/weights.bin", weights);
  sample.sign_file("weights.bin");
  const auto digests = piece_digests(std::as_bytes(std::span(weights)));
  REQUIRE(digests.size() == 3);
  CHECK(digests[1] == sha256_of(weights.substr(static_cast<size_t>(kDigestPiece), static_cast<size_t>(kDigestPiece))));
  CHECK(digests[2] == sha256_of("wwwww"));
  sample.manifest["files"]["weights.bin"]["pieces"] = digests;
  sample.sign();
  CHECK(Program::load(sample.dir(), {.verify_weights = true}).ok());
  for (size_t at : {size_t{0}, static_cast<size_t>(kDigestPiece), weights.size() - 1}) {
    std::string changed = weights;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    write_file(sample.dir() + "/weights.bin", changed);
    CHECK(Program::load(sample.dir(), {}).ok());
    CHECK(!Program::load(sample.dir(), {.verify_weights = true}).ok());
  }
}

TEST_CASE("strides, offsets and alignment are the caller's choice") {
  const SampleProgram sample;
  auto context = make_context(load(sample));
  const int64_t m = 5;
  SampleRun dense(m);
  REQUIRE(context->run(dense.inputs, dense.outputs).ok());

  struct Layout {
    const char* name;
    int64_t row, column, start;
  };
  for (const Layout& l : {Layout{"wide rows", 11, 1, 0}, Layout{"columns first", 1, 5, 0},
                          Layout{"every second", 40, 2, 3}, Layout{"backwards", -8, 1, 32}}) {
    CAPTURE(l.name);
    SampleRun run(m);
    std::vector<float> x(256, 1e9f), y(256, -7);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < 8; ++j)
        x[static_cast<size_t>(l.start + i * l.row + j * l.column)] = run.x[static_cast<size_t>(i * 8 + j)];
    const std::vector<int64_t> strides = {l.row, l.column};
    run.inputs[0] = {x.data() + l.start, DType::f32, run.rows, strides};
    run.outputs[0] = {y.data() + l.start, DType::f32, run.rows, strides};
    const std::vector<int64_t> flat_strides = {3};
    std::vector<float> z(3 * m * 8, -7);
    run.outputs[1] = {z.data(), DType::f32, run.flat, flat_strides};
    REQUIRE(context->run(run.inputs, run.outputs).ok());
    int64_t untouched = 0;
    for (float value : y) untouched += value == -7;
    CHECK(untouched == 256 - m * 8);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < 8; ++j) {
        CHECK(y[static_cast<size_t>(l.start + i * l.row + j * l.column)] == dense.y[static_cast<size_t>(i * 8 + j)]);
        CHECK(z[static_cast<size_t>(3 * (i * 8 + j))] == run.x[static_cast<size_t>(i * 8 + j)]);
      }
  }

  SampleRun run(m);
  std::vector<char> x(m * 32 + 1), y(m * 32 + 1);
  std::memcpy(x.data() + 1, run.x.data(), run.x.size() * 4);
  run.inputs[0].data = x.data() + 1;
  run.outputs[0].data = y.data() + 1;
  REQUIRE(context->run(run.inputs, run.outputs).ok());
  CHECK(std::memcmp(y.data() + 1, dense.y.data(), dense.y.size() * 4) == 0);
}

TEST_CASE("m = 0 needs no memory") {
  const SampleProgram sample;
  auto context = make_context(load(sample));
  SampleRun run(0);
  run.inputs[0].data = run.outputs[0].data = run.outputs[1].data = nullptr;
  REQUIRE(context->run(run.inputs, run.outputs).ok());
  CHECK(run.v[7] == 700.0f);
}

TEST_CASE("wrong tensors are errors that name the tensor and the axis") {
  const SampleProgram sample;
  const auto program = load(sample);
  auto context = make_context(program);
  SUBCASE("dtype") {
    SampleRun run(3);
    run.inputs[0].dtype = DType::bf16;
    const Error e = run_error(*context, run);
    CHECK(e.where == "input 'x'");
    CHECK(e.message == "has dtype bf16, the program expects f32");
  }
  SUBCASE("out of the symbol's range") {
    SampleRun run(1001);
    CHECK(run_error(*context, run).message == "axis 0 is 1001, so s0 = 1001 is outside [0, 1000]");
    CHECK(!program->output_shapes(run.inputs).ok());
  }
  SUBCASE("extent") {
    SampleRun run(3);
    run.rows = {3, 9};
    CHECK(run_error(*context, run).message == "axis 1 is 9, the program expects 8");
  }
  SUBCASE("negative extent") {
    SampleRun run(3);
    run.rows = {-3, 8};
    CHECK(run_error(*context, run).where == "input 'x'");
  }
  SUBCASE("rank") {
    SampleRun run(3);
    run.inputs[0].shape = run.flat;
    CHECK(run_error(*context, run).message == "has 1 axes, the program expects 2");
  }
  SUBCASE("count") {
    SampleRun run(3);
    run.inputs.push_back(run.inputs[0]);
    CHECK(run_error(*context, run).where == "inputs");
    run.inputs.resize(1);
    run.outputs.pop_back();
    CHECK(run_error(*context, run).where == "outputs");
  }
  SUBCASE("output shape") {
    SampleRun run(3);
    run.flat = {25};
    const Error e = run_error(*context, run);
    CHECK(e.where == "output 'z'");
    CHECK(e.message == "has shape [25], the program writes [24]");
  }
  SUBCASE("output dtype") {
    SampleRun run(3);
    run.outputs[2].dtype = DType::i32;
    CHECK(run_error(*context, run).where == "output 'v'");
  }
  SUBCASE("output that overlaps itself") {
    SampleRun run(3);
    const std::vector<int64_t> strides = {0, 1};
    run.outputs[0].strides = strides;
    CHECK(run_error(*context, run).where == "output 'y'");
  }
  SUBCASE("outputs that overlap an input or each other") {
    SampleRun run(3);
    run.outputs[0].data = run.x.data() + 23;  // of its 24 elements
    Error e = run_error(*context, run);
    CHECK(e.where == "output 'y'");
    CHECK(e.message == "overlaps input 'x'");
    run.outputs[0].data = run.y.data();
    run.outputs[1].data = run.y.data();
    e = run_error(*context, run);
    CHECK(e.where == "output 'z'");
    CHECK(e.message == "overlaps output 'y'");
  }
  SUBCASE("strides of another rank") {
    SampleRun run(3);
    const std::vector<int64_t> strides = {1};
    run.inputs[0].strides = strides;
    CHECK(run_error(*context, run).where == "input 'x'");
  }
  SUBCASE("no data") {
    SampleRun run(3);
    run.inputs[0].data = nullptr;
    CHECK(run_error(*context, run).where == "input 'x'");
    run.inputs[0].data = run.x.data();
    run.outputs[0].data = nullptr;
    CHECK(run_error(*context, run).where == "output 'y'");
  }
  SampleRun after(4);
  REQUIRE(context->run(after.inputs, after.outputs).ok());  // an error leaves the context usable
  CHECK(after.is_right());
}

TEST_CASE("shapes, peak and profile are reported") {
  const SampleProgram sample;
  const auto program = load(sample);
  SampleRun run(10);
  const auto shapes = program->output_shapes(run.inputs);
  REQUIRE(shapes.ok());
  CHECK(*shapes == std::vector<std::vector<int64_t>>{{10, 8}, {80}, {8}});
  CHECK(Program::static_shape(program->manifest().outputs[0]) == std::vector<int64_t>{-1, 8});
  CHECK(*arena_bytes(program->manifest(), std::vector<int64_t>{10}) == 320);
  CHECK(!arena_bytes(program->manifest(), {}).ok());
  auto context = make_context(program);
  REQUIRE(context->run(run.inputs, run.outputs).ok());
  CHECK(context->arena_bytes() == 320);
  CHECK(context->last_profile().steps.empty());
}

TEST_CASE("a profile says of every step when it ran, what its kernel read and wrote, and which threads worked") {
  SampleProgram sample;
  // x [m, 8] and a temporary of the same size; the other steps say nothing of their reach.
  sample.manifest["steps"][0]["args"][0]["reach"] = {{"item", 4}, {"axes", {{"p0", "s"}, {8, 1}}}};
  sample.manifest["steps"][0]["args"][1]["reach"] = {{"item", 4}, {"axes", {{"p0", "s"}, {8, 1}}}, {"writes", true}};
  sample.sign();
  for (const int threads : {1, 3}) {
    INFO("threads=", threads);
    auto context = make_context(load(sample), {.threads = threads, .profile = true});
    SampleRun run(500);
    for (int again = 0; again < 2; ++again) REQUIRE(context->run(run.inputs, run.outputs).ok());
    CHECK(run.is_right());
    const RunProfile& profile = context->last_profile();
    REQUIRE(profile.steps.size() == 4);
    CHECK(profile.steps[0].bytes == 2 * 500 * 8 * 4);
    CHECK(profile.steps[1].bytes == 0);
    CHECK(profile.steps[0].kernel == 1);  // m > 2
    // Microseconds: an end is a sum of two rounded times.
    constexpr double kRounding = 1e-3;
    double end = 0;
    for (const StepProfile& step : profile.steps) {
      CHECK(step.us > 0);
      CHECK(step.begin_us >= end - kRounding);
      end = step.begin_us + step.us;
      double busy = 0;
      for (int thread = 0; thread < threads; ++thread) busy += step.busy_us(thread);
      CHECK(busy > 0);
      CHECK(busy <= step.us * threads + kRounding);
      for (const ThreadSpan& span : step.spans) {
        CHECK(span.thread < threads);
        CHECK(span.begin_us >= step.begin_us);
        CHECK(span.end_us <= end + kRounding);
        CHECK(span.busy_us <= span.end_us - span.begin_us + kRounding);
      }
    }
    CHECK(profile.us >= end - kRounding);
    // Rows are items: of the two phases of `sums` each has all of them.
    int64_t items[2] = {};
    for (const ThreadSpan& span : profile.steps[1].spans) items[span.phase] += span.items;
    CHECK(items[0] == 500);
    CHECK(items[1] == 500);
    context->set_profile(false);
    REQUIRE(context->run(run.inputs, run.outputs).ok());
    CHECK(context->last_profile().steps.empty());
  }
}

TEST_CASE("sizes come back, more of them than a context keeps") {
  const SampleProgram sample;
  auto context = make_context(load(sample), {.threads = 2});
  for (const int64_t m : {1, 40, 1, 2, 3, 5, 7, 1, 40, 3, 0, 3, 40}) {
    INFO("m=", m);
    SampleRun run(m);
    REQUIRE(context->run(run.inputs, run.outputs).ok());
    CHECK(run.is_right());
    CHECK(context->arena_bytes() == (m + 1) / 2 * 64);  // 32 bytes a row, rounded up
  }
  SampleRun run(40), wrong(1001);
  CHECK(!context->run(wrong.inputs, wrong.outputs).ok());
  REQUIRE(context->run(run.inputs, run.outputs).ok());
  CHECK(run.is_right());
}

TEST_CASE("contexts on several threads share a program, with pools of their own or one pool") {
  const SampleProgram sample;
  const auto program = load(sample);
  for (const auto& pool : {std::shared_ptr<ThreadPool>(), std::make_shared<ThreadPool>(PoolOptions{.threads = 3})}) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        auto context = Context::create(program, {.threads = 2, .pool = pool});
        for (int64_t round = 0; round < 40; ++round) {
          SampleRun run((t * 31 + round * 17) % 200);
          if (!(*context)->run(run.inputs, run.outputs).ok() || !run.is_right()) ++wrong;
        }
      });
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("a program outlives its directory, and many load and unload without mixing up") {
  auto sample = std::make_unique<SampleProgram>();
  auto context = make_context(load(*sample));
  sample.reset();
  SampleRun run(9);
  REQUIRE(context->run(run.inputs, run.outputs).ok());
  CHECK(run.is_right());
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  for (int i = 0; i < 50; ++i) {  // descriptors and mappings are given back each time
    const SampleProgram other;
    SampleRun again(3);
    REQUIRE(make_context(load(other), {.threads = 1})->run(again.inputs, again.outputs).ok());
    CHECK(again.is_right());
  }
}

TEST_CASE("sizes that do not fit are errors at run, not crashes") {
  using nlohmann::json;
  const auto fails = [](auto change, const char* why = "does not fit") {
    SampleProgram sample;
    change(sample.manifest);
    sample.sign();
    auto context = make_context(load(sample));
    SampleRun run(3);
    const Error e = run_error(*context, run);
    CHECK_MESSAGE(e.message.find(why) != std::string::npos, e.message);
  };
  fails([](json& m) { m["buffers"][1]["bytes"] = {{INT64_MAX, 0}}; });
  fails([](json& m) { m["buffers"][1]["bytes"] = {{-32, 0}}; }, "give $.buffers[1] -96 bytes");
  fails([](json& m) { m["steps"][0]["args"][1]["offset"] = {{33, 0}}; });
  fails([](json& m) { m["steps"][0]["args"][1]["offset"] = -1; });
  fails([](json& m) { m["steps"][0]["args"][1]["stride"] = {{INT64_MAX, 0, 0}}; });
  fails([](json& m) { m["steps"][0]["params"][0] = {{INT64_MAX, 0}}; });
}

TEST_CASE(
    "a module that needs a vendor's library says which and what to do; one that needs none is just not loadable") {
  for (const bool vendor : {true, false}) {
    SampleProgram sample;
    write_file(sample.dir() + "/kernels/vendor.so", "\177ELF, and no more");
    sample.sign_file("kernels/vendor.so");
    auto& kernel = sample.manifest["steps"][2]["kernels"][0];
    kernel["module"] = "kernels/vendor.so";
    if (vendor) kernel["library"] = "oneDNN";
    sample.sign();
    const auto program = Program::load(sample.dir());
    REQUIRE(!program.ok());
    CHECK(program.error().code == (vendor ? ErrorCode::Unsupported : ErrorCode::Io));
    CHECK(program.error().where.find("vendor.so") != std::string::npos);
    CHECK((program.error().message.find("calls oneDNN") != std::string::npos) == vendor);
    CHECK((program.error().help.find("--extern=never") != std::string::npos) == vendor);
  }
}

TEST_CASE("a kernel whose library refuses is an error, and nothing runs") {
  static bool ran;
  ran = false;
  const auto one = [](const qcg_call*, uint32_t) -> int64_t { return 1; };
  const auto none = [](const qcg_call*) -> int64_t { return 0; };
  const auto refuse = [](const qcg_call*) -> int64_t { return -1; };
  const qcg_kernel kernel = {
      QCG_KERNEL_ABI, 1, one, refuse, none, [](const qcg_call*, uint32_t, int64_t, int64_t, void*) { ran = true; }};
  ThreadPool pool({.threads = 1});
  Workspace workspace;
  const Status status = run_kernel(pool, kernel, {nullptr, nullptr, nullptr}, workspace);
  REQUIRE(!status.ok());
  CHECK(status.error().code == ErrorCode::Unsupported);
  CHECK(!ran);
}

TEST_CASE("memory that cannot be had is an error") {
  SampleProgram sample;
  sample.manifest["buffers"][1]["bytes"] = {{int64_t{1} << 50, 0}};
  sample.sign();
  auto context = make_context(load(sample));
  SampleRun run(300);
  CHECK(run_error(*context, run).code == ErrorCode::Io);
}

TEST_CASE("a step without a kernel for this m is an error") {
  SampleProgram sample;
  sample.manifest["steps"][0]["kernels"].erase(1);
  sample.sign();
  auto context = make_context(load(sample));
  SampleRun good(2), bad(3);
  CHECK(context->run(good.inputs, good.outputs).ok());
  CHECK(run_error(*context, bad).code == ErrorCode::Unsupported);
}

TEST_CASE("the host's instruction sets are known by name") {
  CHECK(why_host_lacks("portable").empty());
  CHECK(!why_host_lacks("avx1024").empty());
  CHECK(is_known_isa("amx"));
  CHECK(!is_known_isa("cpu:amx"));
  // Each level contains the one before it.
  bool lacks = false;
  for (const char* isa : {"avx2", "avx512", "avx512bf16", "amx"}) {
    const bool now = !why_host_lacks(isa).empty();
    CHECK((now || !lacks));
    lacks = now;
  }
  CHECK((!why_host_lacks("avx2vnni").empty() || why_host_lacks("avx2").empty()));
}

// Runs on streams of the caller. Work on such a stream waits until someone waits for it, as on a device that is busy.
#include "tests/cuda_program/device_tensor.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// A stream of the caller. wait() is the caller's own: the program knows nothing of it.
class CallerStream {
 public:
  explicit CallerStream(ExecutedDevice& device) : device_(device) {
    auto driver = CudaDriver::load();
    REQUIRE_MESSAGE(driver.ok(), driver.error().to_string());
    driver_ = std::move(*driver);
    auto stream = driver_->create_stream();
    REQUIRE(stream.ok());
    stream_ = std::move(*stream);
    device_.queues.insert(stream_.get());
  }
  ~CallerStream() { device_.queues.erase(stream_.get()); }
  CallerStream(const CallerStream&) = delete;
  void* get() const { return stream_.get(); }
  Status wait() { return driver_->synchronize(stream_.get()); }

 private:
  ExecutedDevice& device_;
  std::shared_ptr<CudaDriver> driver_;
  CudaStream stream_;
};

void clear(ExecutedDevice& device, const qcg_dltensor& t, size_t bytes) {
  REQUIRE(device.set(reinterpret_cast<uint64_t>(t.data), 0, bytes) == 0);
}

size_t byte_count(const qcg_dltensor& t) {
  size_t bytes = t.dtype.bits / 8;
  for (int axis = 0; axis < t.ndim; ++axis) bytes *= static_cast<size_t>(t.shape[axis]);
  return bytes;
}

}  // namespace

TEST_CASE("a run on a stream returns before its steps, launched or replayed; with an output on the host it waits") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  LoadedMlp mlp(*tool);
  ExecutedDevice& device = mlp.device;
  CallerStream stream(device);
  std::vector<int64_t> x_shape = mlp.x.shape, y_shape = mlp.y.shape;
  const Values room(mlp.y_bytes);
  Values x_host = bytes_of(mlp.x), y_host = room;
  for (int run = 0; run < 3; ++run) {
    INFO(run);
    clear(device, mlp.device_y.view, mlp.y_bytes);
    device.seen.clear(), device.launches = 0;
    mlp.run(stream.get());
    CHECK(device.launches == 0);
    CHECK(device.seen["cuStreamSynchronize"] + device.seen["cuEventSynchronize"] == 0);
    CHECK(device.seen["cuGraphLaunch"] == (run == 0 ? 0 : 1));
    CHECK(mlp.output() == room);
    REQUIRE(stream.wait().ok());
    mlp.check_output(mlp.output());
  }
  // An input on the host is read before the run returns, and goes to the device when it is its turn.
  const DeviceTensor other(device, mlp.dtype, y_shape, room);
  mlp.context->run({on_host(mlp.dtype, x_shape, x_host)}, {mlp.device_y.view}, stream.get());
  std::ranges::fill(x_host, std::byte{0});
  mlp.context->run({on_host(mlp.dtype, x_shape, x_host)}, {other.view}, stream.get());
  mlp.context->wait();
  mlp.check_output(mlp.output());
  mlp.context->run({mlp.device_x.view}, {on_host(mlp.dtype, y_shape, y_host)}, stream.get());
  mlp.check_output(y_host);
}

TEST_CASE("runs of a context follow each other on whatever streams, and keep what queued ones need") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  LoadedMlp mlp(*tool);
  ExecutedDevice& device = mlp.device;
  CallerStream one(device), two(device);
  // More rows than the run before it: temporaries move.
  constexpr int64_t kTimes = 8;
  Values rows;
  for (int64_t i = 0; i < kTimes; ++i) rows.insert(rows.end(), mlp.x.bytes().begin(), mlp.x.bytes().end());
  std::vector<int64_t> many = mlp.x.shape, results = mlp.y.shape;
  many[0] *= kTimes, results[0] *= kTimes;
  const DeviceTensor xs(device, mlp.dtype, many, rows), ys(device, mlp.dtype, results, Values(kTimes * mlp.y_bytes));
  const auto run_many = [&](void* stream) { mlp.context->run({xs.view}, {ys.view}, stream); };
  const auto check_many = [&] {
    const Values all = bytes_at(device, ys.view, kTimes * mlp.y_bytes);
    for (auto begin = all.begin(); begin != all.end(); begin += static_cast<ptrdiff_t>(mlp.y_bytes))
      mlp.check_output({begin, begin + static_cast<ptrdiff_t>(mlp.y_bytes)});
  };
  mlp.run(one.get());
  run_many(two.get());
  REQUIRE_MESSAGE(two.wait().ok(), device.fault);
  check_many();
  mlp.check_output(mlp.output());

  // A run that is not queued comes after those that are.
  const int before = device.launches;
  mlp.run(one.get());
  run_many(nullptr);
  CHECK(device.launches == before + 4);

  clear(device, ys.view, kTimes * mlp.y_bytes);
  run_many(one.get());
  mlp.context.reset();
  CHECK_MESSAGE(one.wait().ok(), device.fault);
  check_many();
}

TEST_CASE("a state follows its runs through contexts and streams, and what reads or writes it waits") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  ExecutedProgram executed(*tool, kPositions);
  ExecutedDevice& device = executed.device;
  const qcodegen::Program program(executed.path);
  qcodegen::Context first(program, 1), second(program, 1);
  auto state = std::make_unique<qcodegen::State>(program);
  CallerStream one(device), two(device);
  DeviceExample t0(device, program, kPositions + "/t0"), t1(device, program, kPositions + "/t1");
  first.run(*state, t0.in, t0.out, one.get());
  second.run(*state, t1.in, t1.out, two.get());
  CHECK(device.launches == 0);
  REQUIRE(two.wait().ok());
  t0.check_outputs(), t1.check_outputs();

  const qcg_dltensor table = state->tensor("table");
  Values now(byte_count(table)), later = now;
  const auto bytes = static_cast<int64_t>(now.size());
  state->read("table", now.data(), bytes);
  state->reset();
  const auto queue_both = [&] {
    first.run(*state, t0.in, t0.out, one.get());
    first.run(*state, t1.in, t1.out, two.get());
  };
  queue_both();
  state->read("table", later.data(), bytes);
  CHECK(later == now);
  queue_both();
  state->reset();
  queue_both();
  qcodegen::State copy = state->clone();
  copy.read("table", later.data(), bytes);
  CHECK(later == now);
  state->reset();
  for (const qcg_dltensor& out : t1.out) clear(device, out, byte_count(out));
  queue_both();
  state.reset();  // its memory
  CHECK_MESSAGE(two.wait().ok(), device.fault);
  t1.check_outputs();
}

TEST_CASE("what a queued run refuses is an error of the next wait, and its states are undefined") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  ExecutedProgram executed(*tool, kPositions);
  ExecutedDevice& device = executed.device;
  const qcodegen::Program program(executed.path);
  qcodegen::Context context(program, 1);
  qcodegen::State state(program), other(program), untouched(program);
  CallerStream stream(device);
  DeviceExample good(device, program, kPositions + "/t0"), bad(device, program, kPositions + "/t0");
  const std::vector<int64_t> positions = {1, 8};
  device.copy_in(reinterpret_cast<uint64_t>(bad.in[static_cast<size_t>(program.input_index("at"))].data),
                 positions.data(), 16);
  const auto refuses = [&](auto&& fn) {
    const auto [code, text] = failure(fn);
    INFO(text);
    CHECK(code == QCG_ERROR_BAD_INPUT);
    CHECK(text.find("step '") != std::string::npos);
    CHECK(text.find("of the positions that it reads is out of range") != std::string::npos);
  };
  const auto is_undefined = [&](qcodegen::State& s) {
    return failure([&] { s.clone(); }).second.find("is undefined") != std::string::npos;
  };
  for (int run = 0; run < 2; ++run) {
    INFO(run);
    context.run(state, bad.in, bad.out, stream.get());
    context.run(other, good.in, good.out, stream.get());
    if (run == 0) refuses([&] { context.wait(); });
    else refuses([&] { context.run(untouched, good.in, good.out); });  // which does not start
    CHECK(is_undefined(state));
    CHECK(is_undefined(other));
    CHECK_FALSE(is_undefined(untouched));
    context.wait();  // nothing is left to report
    state.reset(), other.reset();
    context.run(state, good.in, good.out, stream.get());
    context.wait();
    good.check_outputs();
    state.reset();
  }
  // Initial values are not those that the run has spoilt.
  context.run(state, bad.in, bad.out, stream.get());
  state.reset();
  refuses([&] { context.wait(); });
  CHECK_FALSE(is_undefined(state));

  device.fails = "cuLaunchKernel";
  CHECK(failure([&] { context.run(state, bad.in, bad.out, stream.get()); }).first == QCG_ERROR_IO);
  device.fails = "";
  CHECK(is_undefined(state));
  state.reset();
  context.wait();
  context.run(state, good.in, good.out, stream.get());
  context.wait();
  good.check_outputs();
}

TEST_CASE("a device that fails in a queued run is an error of the wait") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  LoadedMlp mlp(*tool);
  CallerStream stream(mlp.device);
  mlp.run(stream.get());
  mlp.device.free(reinterpret_cast<uint64_t>(mlp.device_y.view.data));  // before the steps write it
  const auto [code, text] = failure([&] { mlp.context->wait(); });
  CHECK(code == QCG_ERROR_IO);
  CHECK_MESSAGE(text.find("running kernels: the executor's error") != std::string::npos, text);
}

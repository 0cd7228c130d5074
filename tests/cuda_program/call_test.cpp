// Calls of CUDA programs: how launches reach the device, and what the driver is asked for.
#include <fcntl.h>
#include <unistd.h>

#include "tests/cuda_program/executed_device.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// What is written to stderr as long as an object lives.
class Stderr {
 public:
  explicit Stderr(std::string path) : path_(std::move(path)), before_(dup(STDERR_FILENO)) {
    const int file = open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, STDERR_FILENO);
    close(file);
  }
  ~Stderr() { dup2(before_, STDERR_FILENO), close(before_); }
  Stderr(const Stderr&) = delete;
  std::string text() const { return slurp(path_); }

 private:
  std::string path_;
  int before_;
};

}  // namespace

TEST_CASE("where a graph cannot be recorded, steps are launched one by one, and one line of stderr says why") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  ExecutedProgram program(*tool, kMlp);
  ExecutedDevice& device = program.device;
  const auto example = read_example(kMlp + "/m1");
  std::vector<const char*> calls(kRecording);
  calls.push_back("cuLaunchKernel");
  for (const std::string call : calls) {
    INFO(call);
    device.fails = "";
    auto sequence = begin_sequence(program.path);
    REQUIRE_MESSAGE(sequence.ok(), sequence.error().to_string());
    const int steps = static_cast<int>(sequence->program->manifest().steps.size());
    const auto check_run = [&](int graphs) {
      device.seen.clear(), device.launches = 0;
      std::vector<std::pair<std::string, Tensor>> outputs;
      const Status status = run(*sequence, example.inputs, example.expected, outputs);
      REQUIRE_MESSAGE(status.ok(), status.error().to_string(), device.fault);
      CHECK(outputs.size() == example.expected.tensors.size());
      for (const auto& [name, got] : outputs) compare(got, example.expected.tensors.at(name), bounds_of(got.dtype));
      CHECK(device.launches == steps);
      CHECK(device.seen["cuGraphLaunch"] == graphs);
    };
    std::string said;
    {
      const Stderr captured(program.dir / "stderr");
      check_run(0);
      device.fails = call, device.failures = 1;  // while it is recorded, a launch too
      check_run(0);
      CHECK(device.failures == 0);
      for (int more = 0; more < 2; ++more) {
        check_run(0);
        CHECK(device.seen["cuStreamBeginCapture_v2"] == 0);
      }
      auto context = Context::create(sequence->program, {.threads = 1});
      REQUIRE(context.ok());
      sequence->context = std::move(*context);
      for (int more = 0; more < 2; ++more) check_run(0);
      said = captured.text();
    }
    CHECK(said.starts_with("qcodegen: warning: cuda device 0: no graph of launches: "));
    CHECK(said.find("the executor's error") != std::string::npos);
    CHECK(std::ranges::count(said, '\n') == 1);
    // Another load of the program asks the driver again.
    auto again = begin_sequence(program.path);
    REQUIRE(again.ok());
    sequence = std::move(again);
    check_run(0);
    check_run(1);
  }
}

TEST_CASE("a launch that fails when it is recorded and again when it is made is an error") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  ExecutedProgram program(*tool, kMlp);
  ExecutedDevice& device = program.device;
  const auto example = read_example(kMlp + "/m1");
  auto sequence = begin_sequence(program.path);
  REQUIRE(sequence.ok());
  std::vector<std::pair<std::string, Tensor>> outputs;
  REQUIRE(run(*sequence, example.inputs, example.expected, outputs).ok());
  device.fails = "cuLaunchKernel";
  const Stderr captured(program.dir / "stderr");
  const Status status = run(*sequence, example.inputs, example.expected, outputs);
  REQUIRE(!status.ok());
  CHECK(status.error().message.find("step '") == 0);
  device.fails = "";
  REQUIRE(sequence->state->reset().ok());
  CHECK(run(*sequence, example.inputs, example.expected, outputs).ok());
}

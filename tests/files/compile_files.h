// Small compiles in processes of their own, and what their programs compute: the tests of what happens to files.
//
// Why here: whether a program is whole is asked of its results, never of its files alone.
//
//   Workplace place;
//   place.write_weights("a.safetensors", 3);
//   CHECK(place.compile("a.safetensors", "p.qcg").ok());
//   CHECK(value_of(place / "p.qcg") == 3);
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "codegen/program/compile_options.h"
#include "graph/read/safetensors.h"
#include "runtime/program.h"
#include "tests/temp_dir.h"

namespace qcg::test {

// What a program of a Workplace's graph computes of ones: the value its weights are filled with. Errors are exceptions.
inline float value_of(const std::string& path, bool verify = true) {
  auto check = [](const auto& result) {
    if (!result.ok()) throw std::runtime_error(result.error().to_string());
  };
  auto program = Program::load(path, {.verify_weights = verify});
  check(program);
  auto context = Context::create(*program, {.threads = 1});
  check(context);
  const auto& in = (*program)->manifest().inputs.at(0);
  const auto& out = (*program)->manifest().outputs.at(0);
  const std::vector<int64_t> x_shape = {1, Program::static_shape(in)[1]}, y_shape = {1, Program::static_shape(out)[1]};
  std::vector<float> x(static_cast<size_t>(x_shape[1]), 1.0f / static_cast<float>(x_shape[1]));
  std::vector<float> y(static_cast<size_t>(y_shape[1]), -1.0f);
  const TensorView inputs[] = {{x.data(), DType::f32, x_shape, {}}}, outputs[] = {{y.data(), DType::f32, y_shape, {}}};
  check((*context)->run(inputs, outputs));
  for (const float value : y)
    if (value != y[0]) throw std::runtime_error("the outputs of " + path + " are of several programs");
  return y[0];
}

// Runs `work` in a child; its return value is the exit status.
inline pid_t in_child(const std::function<int()>& work) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    int status = 99;
    try {
      status = work();
    } catch (...) {
    }
    ::_exit(status);
  }
  return pid;
}

inline int status_of(pid_t pid) {
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// A folder with a graph y = x wᵀ, w f32 [rows, columns], and a cache of its own.
class Workplace {
 public:
  explicit Workplace(int64_t rows = 16, int64_t columns = 16) : rows_(rows), columns_(columns) {
    path_ = (fs::temp_directory_path() / "qcodegen-files-XXXXXX").string();
    REQUIRE(::mkdtemp(path_.data()));
    const std::string n = std::to_string(rows), k = std::to_string(columns);
    spit(*this / "g.json", R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 4]},
      "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", )" +
                               k + R"(]}],
      "parameters": [{"name": "w", "dtype": "f32", "shape": [)" +
                               n + ", " + k + R"(]}],
      "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w"}, "outputs": ["y"]}], "outputs": ["y"]})");
  }
  Workplace(const Workplace&) = delete;
  ~Workplace() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  Tensor filled(float value) const {
    const std::vector<float> values(static_cast<size_t>(rows_ * columns_), value);
    const auto bytes = std::as_bytes(std::span(values));
    return Tensor::from_bytes(DType::f32, {rows_, columns_}, {bytes.begin(), bytes.end()});
  }
  void write_weights(const std::string& name, float value) const {
    REQUIRE(write_safetensors(*this / name, {{"w", filled(value)}}).ok());
  }

  CompileOptions options(const std::string& weights, const std::string& output) const {
    CompileOptions options;
    options.input = *this / "g.json";
    options.weights = {*this / weights};
    options.output = *this / output;
    options.tune = TuneMode::off;
    options.threads = options.jobs = 1;
    options.cache_dir = *this / "cache";
    return options;
  }
  Result<CompileReport> compile(const std::string& weights, const std::string& output) const {
    return compile_program(options(weights, output));
  }

 private:
  std::string path_;
  int64_t rows_, columns_;
};

}  // namespace qcg::test

// CountedProgram: a program that counts rows, and has as many of them in its next step.
//
// Why here: runs that read a size are tested on the CPU, and on a stand-in for a device.
//
//   CountedProgram program;                  // of x [s0, 8]: u0 rows of it begin with a number above 0
//   CountedRun run(10, 4);  run.run(context);  run.is_right();      // y: 4 rows of 2x, at the end of its 10 rows
#pragma once

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/runtime/sample_program.h"

namespace qcg {

struct CountedProgram {
  SampleProgram sample;
  nlohmann::json& manifest = sample.manifest;

  CountedProgram() {
    const nlohmann::json parts = nlohmann::json::parse(R"({
      "version": 5,
      "symbols": [{"name": "s0", "min": 0, "max": 1000},
                  {"name": "u0", "min": 0, "max": 500, "read": {"step": 1, "buffer": 1, "most": [[1, 0]]}}],
      "outputs": [{"name": "y", "dtype": "f32", "shape": [[[1, 0]], 8]}],
      "buffers": [{"kind": "input", "index": 0}, {"kind": "temp", "bytes": 8, "first": 0, "last": 1},
                  {"kind": "output", "index": 0}],
      "steps": [{"name": "count", "kernels": [{"m_max": -1, "module": "kernels/k.so", "symbol": "test_count"}],
                 "args": [{"buffer": 0, "offset": 0, "stride": 8, "reach": {"item": 4, "axes": [["p0", "s"], [8]]}},
                          {"buffer": 1, "offset": 0, "stride": 0, "reach": {"item": 8, "axes": [], "writes": true}}],
                 "params": [[[1, 0]], 8]},
                {"name": "double", "kernels": [{"m_max": 2, "module": "kernels/k.so", "symbol": "test_double_small"},
                                               {"m_max": -1, "module": "kernels/k.so", "symbol": "test_double"}],
                 "args": [{"buffer": 0, "offset": 0, "stride": 8, "reach": {"item": 4, "axes": [["p0", "s"], [8]]}},
                          {"buffer": 2, "offset": [[32, 0], [-32, 1]], "stride": 8,
                           "reach": {"item": 4, "axes": [["p0", "s"], [8]], "writes": true}}],
                 "params": [[[1, 1]], 8]}]
    })");
    for (const auto& [field, value] : parts.items()) manifest[field] = value;
    sample.sign();
  }
  nlohmann::json& read() { return manifest["symbols"][1]["read"]; }
  // A third input and what the symbol is read from, before all steps.
  void read_input() {
    manifest["inputs"].push_back({{"name", "n"}, {"dtype", "i64"}, {"shape", nlohmann::json::array()}});
    manifest["buffers"].push_back({{"kind", "input"}, {"index", 1}});
    read()["buffer"] = 3, read()["step"] = 0;
  }
  std::shared_ptr<const Program> load() {
    sample.sign();
    auto program = Program::load(sample.dir());
    if (!program.ok()) FAIL(program.error().to_string());
    return *program;
  }
};

struct CountedRun {
  CountedRun(int64_t m, int64_t marked) : count(marked), x(SampleProgram::ramp(m)), y(x.size(), -1), rows{m, 8} {
    for (int64_t i = 0; i < m; ++i) x[static_cast<size_t>(8 * i)] = i < marked ? 1.0f : -1.0f;
  }
  std::vector<TensorView> inputs() {
    std::vector<TensorView> out = {{x.data(), DType::f32, rows, {}}};
    if (has_n) out.push_back({&n, DType::i64, {}, {}});
    return out;
  }
  std::vector<TensorView> outputs() { return {{y.data(), DType::f32, rows, {}}}; }
  Status run(Context& context, void* stream = nullptr) { return context.run(inputs(), outputs(), stream); }
  // Whether the rows that the run writes are right.
  bool has_rows() const {
    const float extra = count <= 2 ? 0.5f : 0.0f;
    for (size_t i = first(); i < y.size(); ++i)
      if (y[i] != 2 * x[i - first()] + extra) return false;
    return true;
  }
  // The same, and it has not written others.
  bool is_right() const {
    return has_rows() &&
           std::all_of(y.begin(), y.begin() + static_cast<ptrdiff_t>(first()), [](float value) { return value == -1; });
  }
  size_t first() const { return y.size() - static_cast<size_t>(8 * count); }

  int64_t count, n = 0;
  bool has_n = false;
  std::vector<float> x, y;
  std::vector<int64_t> rows;
};

}  // namespace qcg

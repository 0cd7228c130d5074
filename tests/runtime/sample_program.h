// SampleProgram: a small program directory for tests, made of hand-written kernels, removed when the test ends.
//
// Why here: loading, running and damaging programs all start from one that is right.
//
//   SampleProgram sample;                         // y = 2x + w + sum(2x) over all rows, x [s0, 8]; z = x; v = w
//   sample.manifest["version"] = 2;  sample.sign();   // damaged on purpose, checksum right
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/memory.h"
#include "runtime/program.h"

namespace qcg {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
inline std::string sha256_of(const std::string& text) { return digest_hex(std::as_bytes(std::span(text))); }

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "qcg-runtime-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class SampleProgram {
 public:
  static constexpr int64_t kN = 8;

  SampleProgram() {
    std::filesystem::create_directories(dir() + "/kernels");
    std::filesystem::copy_file(QCG_TEST_KERNELS, dir() + "/kernels/k.so");
    std::string weights(4096, '\0');
    for (int j = 0; j < kN; ++j) {
      const float w = 100.0f * static_cast<float>(j);
      weights.replace(static_cast<size_t>(j) * 4, 4, reinterpret_cast<const char*>(&w), 4);
    }
    write_file(dir() + "/weights.bin", weights);
    write_file(dir() + "/tune.jsonl", "{}\n");
    manifest = nlohmann::json::parse(R"({
      "format": "qcodegen-program", "version": 1, "generator": "test", "kernel_abi": 1,
      "target": "cpu:portable", "isa": "portable", "files": {},
      "symbols": [{"name": "s0", "min": 0, "max": 1000}],
      "inputs": [{"name": "x", "dtype": "f32", "shape": [[[1, 0]], 8]}],
      "outputs": [{"name": "y", "dtype": "f32", "shape": [[[1, 0]], 8]},
                  {"name": "z", "dtype": "f32", "shape": [[[8, 0]]]},
                  {"name": "v", "dtype": "f32", "shape": [8]}],
      "buffers": [{"kind": "input", "index": 0}, {"kind": "temp", "bytes": [[32, 0]], "first": 0, "last": 1},
                  {"kind": "weights", "offset": 0, "bytes": 32}, {"kind": "output", "index": 0},
                  {"kind": "output", "index": 1}, {"kind": "output", "index": 2}],
      "steps": [{"name": "double", "kernels": [{"m_max": 2, "module": "kernels/k.so", "symbol": "test_double_small"},
                                               {"m_max": -1, "module": "kernels/k.so", "symbol": "test_double"}],
                 "args": [{"buffer": 0, "offset": 0, "stride": null}, {"buffer": 1, "offset": 0, "stride": 8}],
                 "params": [[[1, 0]], 8]},
                {"name": "sums", "kernels": [{"m_max": -1, "module": "kernels/k.so", "symbol": "test_sums"}],
                 "args": [{"buffer": 1, "offset": 0, "stride": 8}, {"buffer": 2, "offset": 0, "stride": 0},
                          {"buffer": 3, "offset": 0, "stride": null}],
                 "params": [[[1, 0]], 8]},
                {"name": "copy x", "kernels": [{"m_max": -1, "module": "kernels/k.so", "symbol": "test_copy"}],
                 "args": [{"buffer": 0, "offset": 0, "stride": 8}, {"buffer": 4, "offset": 0, "stride": 8}],
                 "params": [[[1, 0]], 8]},
                {"name": "copy w", "kernels": [{"m_max": -1, "module": "kernels/k.so", "symbol": "test_copy"}],
                 "args": [{"buffer": 2, "offset": 0, "stride": 8}, {"buffer": 5, "offset": 0, "stride": 8}],
                 "params": [1, 8]}]
    })");
    for (const char* name : {"kernels/k.so", "weights.bin", "tune.jsonl"}) sign_file(name);
    sign();
  }

  std::string dir() const { return (temp_.path() / "sample.qcg").string(); }
  void sign_file(const std::string& name) {
    const std::string bytes = read_file(dir() + "/" + name);
    manifest["files"][name] = {{"bytes", bytes.size()}, {"sha256", sha256_of(bytes)}};
  }
  // The manifest of a program for a device, as far as a loader can tell before it looks at modules.
  static void put_on_device(nlohmann::json& manifest) {
    manifest["target"] = "cuda:sm_90a";
    for (auto& step : manifest["steps"])
      for (auto& kernel : step["kernels"])
        kernel["launch"] = {{"threads", 128}, {"rows", 16}, {"column_tiles", 1}, {"shared_bytes", 49152}};
  }
  void put_on_device() { put_on_device(manifest); }
  // Version 2, with one state that no step uses.
  static void add_state(nlohmann::json& manifest) {
    manifest["version"] = 2;
    manifest["states"] = {{{"name", "a"}, {"dtype", "f32"}, {"shape", {4}}, {"init", "zero"}}};
    manifest["buffers"].push_back({{"kind", "state"}, {"index", 0}});
  }
  // Version 3: the same program as several methods.
  static void split_into_methods(nlohmann::json& manifest, const std::vector<std::string>& names) {
    manifest["version"] = 3;
    if (!manifest.contains("states")) manifest["states"] = nlohmann::json::array();
    nlohmann::json method;
    for (const char* list : {"symbols", "inputs", "outputs", "buffers", "steps"}) {
      method[list] = manifest[list];
      manifest.erase(list);
    }
    for (const std::string& name : names) {
      method["name"] = name;
      manifest["methods"].push_back(method);
    }
  }
  // Version 4: the same program for several targets, best first. What is named cpu:X needs X of the CPU.
  static void split_into_targets(nlohmann::json& manifest, const std::vector<std::string>& names) {
    manifest["version"] = 4;
    nlohmann::json target;
    for (const char* field : {"states", "methods", "symbols", "inputs", "outputs", "buffers", "steps"})
      if (manifest.contains(field)) {
        target[field] = manifest[field];
        manifest.erase(field);
      }
    manifest.erase("target");
    manifest.erase("isa");
    for (const std::string& name : names) {
      nlohmann::json one = target;
      if (name.starts_with("cuda:")) put_on_device(one);
      one["target"] = name;
      one["isa"] = name.substr(name.find(':') + 1);
      manifest["targets"].push_back(std::move(one));
    }
  }
  // "sums" once per group of rows: three groups, whose weights lie 64 bytes apart and whose ends are i32.
  static void group_rows(nlohmann::json& manifest) {
    manifest["buffers"][2]["bytes"] = 160;
    manifest["buffers"].push_back({{"kind", "weights"}, {"offset", 1024}, {"bytes", 12}});
    nlohmann::json& step = manifest["steps"][1];
    step["groups"] = {{"count", 3}, {"weights", 1}, {"bytes", 64}, {"kernels", step["kernels"]}};
    step.erase("kernels");
    step["args"].push_back({{"buffer", 6}, {"offset", 0}, {"stride", 0}});
    step["args"][0]["reach"] = nlohmann::json::parse(R"({"item": 4, "axes": [["p0", "s"], ["p1", 1]]})");
    step["args"][1]["reach"] = nlohmann::json::parse(R"({"item": 4, "axes": [["p1"]]})");
    step["args"][2]["reach"] = nlohmann::json::parse(R"({"item": 4, "axes": [["p0", "s"], [8, 1]], "writes": true})");
    step["args"][3]["reach"] = nlohmann::json::parse(R"({"item": 4, "axes": [[3]]})");
  }
  void sign() {
    write_file(dir() + "/manifest.json", manifest.dump());
    write_file(dir() + "/manifest.sha256", sha256_of(manifest.dump()) + "  manifest.json\n");
  }

  // What y must be for dense x.
  static std::vector<float> expected(const std::vector<float>& x) {
    const float extra = x.size() / kN <= 2 ? 0.5f : 0.0f;
    std::vector<float> y;
    float sum = 0;
    for (float value : x) sum += 2 * value + extra;
    for (size_t i = 0; i < x.size(); ++i) y.push_back(2 * x[i] + extra + 100.0f * static_cast<float>(i % kN) + sum);
    return y;
  }
  // Small integers: every sum is exact.
  static std::vector<float> ramp(int64_t m) {
    std::vector<float> x(static_cast<size_t>(m * kN));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 7 % 23) - 11);
    return x;
  }

  nlohmann::json manifest;

 private:
  TempDir temp_;
};

// The tensors of one run of the sample, all dense.
struct SampleRun {
  explicit SampleRun(int64_t m)
      : x(SampleProgram::ramp(m)),
        y(x.size(), -1),
        z(x.size(), -1),
        v(8, -1),
        rows{m, 8},
        flat{m * 8},
        eight{8},
        inputs{{x.data(), DType::f32, rows, {}}},
        outputs{{y.data(), DType::f32, rows, {}}, {z.data(), DType::f32, flat, {}}, {v.data(), DType::f32, eight, {}}} {
  }
  SampleRun(const SampleRun&) = delete;
  bool is_right() const { return y == SampleProgram::expected(x) && z == x && v[3] == 300.0f; }

  std::vector<float> x, y, z, v;
  std::vector<int64_t> rows, flat, eight;
  std::vector<TensorView> inputs, outputs;
};

}  // namespace qcg

// compile_program for cuda targets: graph to program with cubins, through the cache, and what loading one says.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "codegen/compile.h"
#include "codegen/program/combine.h"
#include "codegen/program/compile_options.h"
#include "runtime/cuda.h"
#include "runtime/program.h"

using namespace qcg;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int64_t kIn = 72, kHidden = 100, kOut = 40;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// A directory for graphs, programs and a cache, removed with the test.
class Workplace {
 public:
  Workplace() {
    std::string pattern = (fs::temp_directory_path() / "qcg-cuda-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    dir_ = pattern;
  }
  ~Workplace() { fs::remove_all(dir_); }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  // y = down(silu(gate(x)) * up(x)), or other nodes on the same parameters.
  std::string write_mlp(const std::string& dtype, const json& replaced_nodes = nullptr) const {
    auto tensor = [&](const char* name, int64_t n, int64_t k) {
      return json{{"name", name}, {"dtype", dtype}, {"shape", {n, k}}};
    };
    json graph = {
        {"format", "qcodegen"}, {"version", 1}, {"name", "mlp"}, {"symbols", {{"m", {1, 300}}}}, {"outputs", {"y"}}};
    graph["inputs"] = json::array({{{"name", "x"}, {"dtype", dtype}, {"shape", {"m", kIn}}}});
    graph["parameters"] = {tensor("gate.weight", kHidden, kIn), tensor("up.weight", kHidden, kIn),
                           tensor("down.weight", kOut, kHidden)};
    graph["nodes"] = json::parse(R"([
      {"op": "linear", "inputs": {"input": "x", "weight": "gate.weight"}, "outputs": ["gate"]},
      {"op": "linear", "inputs": {"input": "x", "weight": "up.weight"}, "outputs": ["up"]},
      {"op": "silu", "inputs": {"self": "gate"}, "outputs": ["activated"]},
      {"op": "mul", "inputs": {"self": "activated", "other": "up"}, "outputs": ["hidden"]},
      {"op": "linear", "inputs": {"input": "hidden", "weight": "down.weight"}, "outputs": ["y"]}])");
    if (!replaced_nodes.is_null()) graph["nodes"] = replaced_nodes;
    const std::string file = path("mlp_" + dtype + ".json");
    std::ofstream(file) << graph.dump(1);
    return file;
  }

  CompileOptions options(const std::string& input, const std::string& target) const {
    CompileOptions o;
    o.input = input;
    o.weights = {"random:1"};
    o.output = path("p.qcg");
    o.target = target;
    o.tune = TuneMode::off;
    o.jobs = 2;
    o.cache_dir = path("cache");
    return o;
  }

 private:
  fs::path dir_;
};

bool has_cuda_compiler() {
  auto tool = find_cuda();
  if (!tool.ok()) MESSAGE("skipped: ", tool.error().message);
  return tool.ok();
}

CompileReport compile(const CompileOptions& options) {
  auto report = compile_program(options);
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
  return std::move(*report);
}

void check_program(const std::string& dir, const std::string& target) {
  const json manifest = json::parse(read_text(dir + "/manifest.json"));
  CHECK(manifest["target"] == target);
  REQUIRE(manifest["steps"].size() == 2);
  for (const json& step : manifest["steps"])
    for (const json& kernel : step["kernels"]) {
      const json& launch = kernel["launch"];
      CHECK((launch["threads"] == 128 || launch["threads"] == 256 || launch["threads"] == 512));
      CHECK(launch["rows"] >= 8);
      CHECK(launch["rows"] <= 128);
      CHECK(launch["column_tiles"] >= 1);
      CHECK(launch["shared_bytes"] > 0);
      CHECK(launch["shared_bytes"] <= 160 << 10);
      const std::string module = kernel["module"];
      CHECK(module.ends_with(".cubin"));
      CHECK(read_text(dir + "/" + module)
                .starts_with("\x7f"
                             "ELF"));
      const std::string source = "sources/" + fs::path(module).stem().string() + ".cu";
      CHECK(read_text(dir + "/" + source).find(kernel["symbol"].get<std::string>()) != std::string::npos);
    }
  CHECK(manifest["steps"][0]["kernels"].size() > 1);
  auto parsed = parse_program_manifest(read_text(dir + "/manifest.json"));
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().to_string());
  CHECK(parsed->steps[0].kernels[0].launch.rows == manifest["steps"][0]["kernels"][0]["launch"]["rows"]);
}

void check_log(const std::string& dir) {
  auto records = read_tune_log(dir + "/tune.jsonl");
  REQUIRE_MESSAGE(records.ok(), records.error().to_string());
  CHECK(records->size() >= 2);
  for (const TuneRecord& record : *records) {
    INFO(record.kernel, ": ", record.resources);
    CHECK(record.status == TrialStatus::untimed);
    CHECK(record.reason.find("not tried") != std::string::npos);
    int registers = 0, shared = 0;
    // Anything else than "0 spills" does not match.
    CHECK(std::sscanf(record.resources.c_str(), "%d registers, 0 spills, %d KiB shared", &registers, &shared) == 2);
    CHECK(registers >= 16);
    CHECK(registers <= 255);
    CHECK(shared >= 4);
    CHECK(shared <= 160);
  }
}

void check_load_without_driver(const std::string& dir, const std::string& target) {
  if (CudaDriver::load().ok()) return;
  auto program = Program::load(dir);
  REQUIRE(!program.ok());
  INFO(program.error().to_string());
  CHECK(program.error().code == ErrorCode::Unsupported);
  CHECK(program.error().where == dir);
  CHECK(program.error().message.find(target) != std::string::npos);
  CHECK(program.error().message.find("driver") != std::string::npos);
  CHECK(program.error().help.find("--target=cpu") != std::string::npos);
}

std::vector<std::byte> run(const std::string& dir, DType dtype, int64_t m, std::vector<std::byte>& x) {
  auto program = Program::load(dir);
  REQUIRE_MESSAGE(program.ok(), program.error().to_string());
  auto context = Context::create(*program, {.threads = 1});
  REQUIRE_MESSAGE(context.ok(), context.error().to_string());
  std::vector<std::byte> y(static_cast<size_t>(m * kOut) * 2);
  const int64_t x_shape[] = {m, kIn}, y_shape[] = {m, kOut};
  const TensorView in{.data = x.data(), .dtype = dtype, .shape = x_shape, .strides = {}};
  const TensorView out{.data = y.data(), .dtype = dtype, .shape = y_shape, .strides = {}};
  const Status status = (*context)->run({&in, 1}, {&out, 1});
  REQUIRE_MESSAGE(status.ok(), status.error().to_string());
  return y;
}

}  // namespace

TEST_CASE("a dense MLP becomes a program with cubins, the second time without a compiler") {
  if (!has_cuda_compiler()) return;
  for (const std::string dtype : {"f16", "bf16"})
    for (const std::string target : {"cuda:sm_80", "cuda:sm_90a"}) {
      INFO(dtype, " ", target);
      const Workplace place;
      CompileOptions options = place.options(place.write_mlp(dtype), target);
      const CompileReport first = compile(options);
      CHECK(first.compiler_runs > 0);
      CHECK(first.candidates_correct == 0);  // nothing was run
      REQUIRE(!first.kernels.empty());
      check_program(options.output, target);
      check_log(options.output);
      check_load_without_driver(options.output, target);
      const std::string manifest = read_text(options.output + "/manifest.json");

      options.reuse_programs = false;
      const CompileReport again = compile(options);
      CHECK(again.compiler_runs == 0);
      CHECK(again.cache_hits == first.compiler_runs);
      check_log(options.output);

      options.reuse_programs = true;
      const CompileReport restored = compile(options);
      CHECK(restored.compiler_runs == 0);
      CHECK(read_text(options.output + "/manifest.json") == manifest);
    }
}

TEST_CASE("tuning for a device is a typed error with a remedy") {
  const Workplace place;
  CompileOptions options = place.options(place.write_mlp("bf16"), "cuda:sm_80");
  options.tune = TuneMode::fast;
  auto tuned = compile_program(options);
  REQUIRE(!tuned.ok());
  CHECK(tuned.error().code == ErrorCode::Unsupported);
  CHECK(tuned.error().where == "cuda:sm_80");
  CHECK(tuned.error().help.find("--tune=off") != std::string::npos);
}

TEST_CASE("--emit=source prints CUDA") {
  const Workplace place;
  CompileOptions options = place.options(place.write_mlp("bf16"), "cuda:sm_80");
  options.emit = Emit::source;
  std::string text;
  options.on_emit = [&](std::string_view part) { text += part; };
  const Status status = emit_text(options);
  REQUIRE_MESSAGE(status.ok(), status.error().to_string());
  CHECK(text.find("__global__") != std::string::npos);
  CHECK(text.find("mma_decode") != std::string::npos);
}

TEST_CASE("device: a program compiled for the GPU agrees with the same program on the CPU, alone and beside it") {
  auto driver = CudaDriver::load();
  if (!driver.ok()) {
    MESSAGE("skipped: ", driver.error().message);
    return;
  }
  if (!has_cuda_compiler()) return;
  const std::string target = (*driver)->compute_capability() == 90 ? "cuda:sm_90a" : "cuda:sm_80";
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Workplace place;
    CompileOptions options = place.options(place.write_mlp(std::string(dtype_name(dtype))), target);
    compile(options);
    CompileOptions on_cpu = options;
    on_cpu.target = "cpu:portable";
    on_cpu.output = place.path("cpu.qcg");
    compile(on_cpu);
    const std::string both = place.path("both.qcg");
    REQUIRE(combine_targets(std::vector<std::string>{on_cpu.output, options.output}, both).ok());
    auto loaded = Program::load(both);
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().to_string());
    CHECK((*loaded)->manifest().target == target);
    for (const int64_t m : {int64_t{1}, int64_t{5}, int64_t{33}, int64_t{300}}) {
      INFO(dtype_name(dtype), " m=", m);
      std::vector<std::byte> x(static_cast<size_t>(m * kIn) * 2);
      for (int64_t i = 0; i < m * kIn; ++i)
        double_to_element(dtype, std::sin(0.37 * static_cast<double>(i)), x.data() + 2 * i);
      const std::vector<std::byte> got = run(options.output, dtype, m, x), want = run(on_cpu.output, dtype, m, x);
      CHECK(run(both, dtype, m, x) == got);  // it is taken where it can run
      double largest = 0, worst = 0;
      for (int64_t i = 0; i < m * kOut; ++i) {
        const double a = element_to_double(dtype, got.data() + 2 * i),
                     b = element_to_double(dtype, want.data() + 2 * i);
        largest = std::fmax(largest, std::fabs(b));
        worst = std::isnan(a) ? INFINITY : std::fmax(worst, std::fabs(a - b));
      }
      // Both round the hidden values and the result to the dtype.
      CHECK(largest > 0);
      CHECK(worst <= (dtype == DType::bf16 ? 0x1p-6 : 0x1p-9) * largest);
    }
  }
}

// Manifests of real programs, changed and signed again: refused, or run without touching what is not theirs.
#include <signal.h>
#include <sys/mman.h>

#include <nlohmann/json.hpp>

#include "cache/store/sha256.h"
#include "tests/files/compile_files.h"
#include "tests/paths.h"

using namespace qcg;
using namespace qcg::test;
using nlohmann::json;

namespace {

void sign(const std::string& program, const json& manifest) {
  const std::string text = manifest.dump();
  spit(program + "/manifest.json", text);
  spit(program + "/manifest.sha256", sha256_hex(text) + "\n");
}

constexpr unsigned kLongest_s = 4;  // a size may be made so large that it only takes time

// Paths of all numbers that say where something lies or how large it is.
std::vector<json::json_pointer> numbers_of(const json& manifest) {
  std::vector<json::json_pointer> out;
  const json flat = manifest.flatten();
  for (const auto& [path, value] : flat.items())
    if (value.is_number_integer() && !path.starts_with("/files") && !path.starts_with("/version") &&
        !path.starts_with("/kernel_abi"))
      out.emplace_back(path);
  return out;
}

// The page after them may not be touched. Never freed: the process ends soon.
void* zeros_before_a_wall(size_t bytes) {
  const size_t page = 4096, used = (bytes + page - 1) / page * page;
  void* memory = ::mmap(nullptr, used + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  REQUIRE(::mprotect(static_cast<std::byte*>(memory) + used, page, PROT_NONE) == 0);
  return static_cast<std::byte*>(memory) + used - (bytes + 63) / 64 * 64;
}

// Runs a program with tensors of the shapes that its own manifest gives, each at the end of its memory: 0 done, 1
// refused.
int run_once(const std::string& path) {
  const auto program = Program::load(path);
  if (!program.ok()) return 1;
  const auto& m = (*program)->manifest();
  const std::vector<int64_t> symbols(m.symbols.size(), 3);
  std::vector<std::vector<int64_t>> shapes;
  std::vector<TensorView> inputs, outputs;
  auto add = [&](const ProgramManifest::Tensor& tensor, std::vector<TensorView>& to) {
    auto& shape = shapes.emplace_back();
    int64_t bytes = static_cast<int64_t>(dtype_bytes(tensor.dtype));
    for (const SizeExpr& extent : tensor.shape) {
      shape.push_back(extent.evaluate(symbols).value_or(-1));
      if (shape.back() < 0 || shape.back() > 1 << 20 || (bytes *= shape.back()) > 1 << 28) return false;
    }
    to.push_back({zeros_before_a_wall(static_cast<size_t>(bytes)), tensor.dtype, {}, {}});
    return true;
  };
  for (const auto& tensor : m.inputs)
    if (!add(tensor, inputs)) return 1;
  for (const auto& tensor : m.outputs)
    if (!add(tensor, outputs)) return 1;
  for (size_t i = 0; i < shapes.size(); ++i)
    (i < inputs.size() ? inputs[i] : outputs[i - inputs.size()]).shape = shapes[i];
  const auto context = Context::create(*program, {.threads = 1});
  return context.ok() && (*context)->run(inputs, outputs).ok() ? 0 : 1;
}

void mutate(const std::string& program, int every) {
  const json manifest = json::parse(slurp(program + "/manifest.json"));
  REQUIRE(status_of(in_child([&] { return run_once(program); })) == 0);
  const auto numbers = numbers_of(manifest);
  int changes = 0, refused = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t value = manifest.at(numbers[i]);
    for (const int64_t changed : {int64_t{0}, value + 1, value * 2, value / 2, value * 1000, -value - 1, value + 64,
                                  int64_t{1} << 40, INT64_MAX}) {
      if (changed == value || ++changes % every != 0) continue;
      json other = manifest;
      other.at(numbers[i]) = changed;
      sign(program, other);
      const int status = status_of(in_child([&] {
        ::alarm(kLongest_s);
        return run_once(program);
      }));
      CAPTURE(numbers[i].to_string());
      CAPTURE(changed);
      CHECK((status < 2 || status == 1000 + SIGALRM));
      refused += status == 1;
      if (status == 1000 + SIGALRM) MESSAGE("still running after " << kLongest_s << " s");
    }
  }
  sign(program, manifest);
  CHECK(refused > 0);
  const int tried = changes / every;
  MESSAGE(tried << " changes, " << refused << " refused");
}

// A graph with a step of every kind: rows that are quantized, products, a reduction, loops, a transpose.
constexpr const char* kGraph = R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 64]},
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", 64]}, {"name": "z", "dtype": "f32", "shape": ["m", 32]}],
  "parameters": [{"name": "w", "dtype": "f32", "shape": [32, 64]}],
  "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w"}, "outputs": ["a"]},
            {"op": "mul", "inputs": {"self": "a", "other": "z"}, "outputs": ["b"]},
            {"op": "t", "inputs": {"self": "z"}, "outputs": ["zt"]},
            {"op": "mm", "inputs": {"self": "b", "mat2": "zt"}, "outputs": ["c"]},
            {"op": "aten.mean.dim", "inputs": {"self": "z", "dim": [1], "keepdim": true}, "outputs": ["d"]},
            {"op": "sub", "inputs": {"self": "c", "other": "d"}, "outputs": ["y"]}],
  "outputs": ["y", "b"]})";

// Look-ups: of rows, of elements, in bags.
constexpr const char* kLookUps = R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 64]},
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", 8]}, {"name": "ids", "dtype": "i64", "shape": ["m"]},
             {"name": "at", "dtype": "i32", "shape": ["m", 5]}],
  "parameters": [{"name": "w", "dtype": "f32", "shape": [32, 8]}],
  "nodes": [{"op": "aten.embedding.default", "inputs": {"weight": "w", "indices": "ids"}, "outputs": ["a"]},
            {"op": "aten.gather.default", "inputs": {"self": "x", "dim": 1, "index": "at"}, "outputs": ["b"]},
            {"op": "aten.index.Tensor", "inputs": {"self": "x", "indices": ["ids"]}, "outputs": ["c"]},
            {"op": "aten._embedding_bag.default", "inputs": {"weight": "w", "indices": "ids", "offsets": "ids"},
             "outputs": ["d", "d1", "d2", "d3"]}],
  "outputs": ["a", "b", "c", "d"]})";

void mutate_programs(int every) {
  const Workplace place;
  spit(place / "g.json", kGraph);
  spit(place / "ids.json", kLookUps);
  fs::copy_file(source_dir() + "/examples/native/mlp_f32.json", place / "mlp.json");
  for (const char* graph : {"g.json", "mlp.json", "ids.json"}) {
    CompileOptions options = place.options("", "p.qcg");
    options.input = place / graph;
    options.weights = {"random:1"};
    const auto compiled = compile_program(options);
    REQUIRE_MESSAGE(compiled.ok(), compiled.error().to_string());
    mutate(place / "p.qcg", every);
  }
}

}  // namespace

TEST_CASE("a manifest whose shapes, strides and buffers do not fit is refused, not run") { mutate_programs(9); }

TEST_CASE("stress: every number of three manifests is changed in nine ways" * doctest::skip()) { mutate_programs(1); }

// What stands between a finished program and its publication: right ones pass, whatever is wrong with a wrong one.
#include "codegen/program/verify_program.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "cache/store/store.h"
#include "cache/toolchain/toolchain.h"
#include "codegen/build/build.h"
#include "codegen/compile.h"
#include "codegen/program/compile_options.h"
#include "codegen/program/program_oracle.h"
#include "codegen/program/program_writer.h"
#include "codegen/program/random_inputs.h"
#include "graph/oracle/reference.h"
#include "graph/read/read_graph.h"
#include "tests/paths.h"
#include "tests/temp_dir.h"
#include "tests/verify/cascade.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::string write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

CompileOptions options_for(const std::string& graph, const std::string& program) {
  CompileOptions options;
  options.input = graph;
  options.output = program;
  options.tune = TuneMode::off;
  options.cache_dir = binary_dir() + "/test-cache";
  options.reuse_programs = false;
  return options;
}

Graph graph_of(const std::string& path) {
  auto graph = read_graph(path, {});
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  return std::move(*graph);
}

CompileReport compiled(const CompileOptions& options) {
  auto report = compile_program(options);
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
  return std::move(*report);
}

// y = x w1 + b, z = x w2: two outputs, the first the cheaper one.
std::string two_outputs(double bias, const std::string& range = "[0, 4]") {
  std::string w2 = "1";
  for (int i = 1; i < 24; ++i) w2 += i % 2 ? ", -0.5" : ", 2";
  return R"({"format": "qcodegen", "version": 1, "symbols": {"m": )" + range + R"(},
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", 4]}],
    "parameters": [{"name": "w1", "dtype": "f32", "shape": [2, 4], "data": [1, 2, 3, 4, 5, 6, 7, 8]},
                   {"name": "b", "dtype": "f32", "shape": [2], "data": [0, )" +
         std::to_string(bias) + R"(]},
                   {"name": "w2", "dtype": "f32", "shape": [6, 4], "data": [)" +
         w2 + R"(]}],
    "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w1", "bias": "b"}, "outputs": ["y"]},
              {"op": "linear", "inputs": {"input": "x", "weight": "w2"}, "outputs": ["z"]}],
    "outputs": ["y", "z"]})";
}

// Where, beside `program`, its next version is being made.
std::string staging_of(const std::string& program) {
  for (const auto& item : fs::directory_iterator(fs::path(program).parent_path()))
    if (const fs::path made = item.path() / fs::path(program).filename(); fs::exists(made / "weights.bin")) return made;
  FAIL("nothing is being made");
  return "";
}

// A kernel that runs `body` instead of computing, in the place of every kernel of the program.
void replace_kernels(const std::string& program, const std::string& body) {
  KernelSource source;
  source.name = source.symbol = "bad";
  source.source = R"(#include "abi.h"
static int64_t items(const qcg_call*, uint32_t) { return 1; }
static int64_t no_bytes(const qcg_call*) { return 0; }
static void run(const qcg_call*, uint32_t, int64_t, int64_t, void*) { )" +
                  body + R"( }
)";
  std::vector<std::string> modules;
  for (const auto& item : fs::directory_iterator(program + "/kernels")) modules.push_back(item.path().filename());
  std::set<std::string> symbols;
  const auto manifest = nlohmann::json::parse(slurp(program + "/manifest.json"));
  for (const auto& step : manifest["steps"])
    for (const auto& kernel : step["kernels"]) symbols.insert(kernel["symbol"]);
  for (const std::string& symbol : symbols)
    source.source += "extern \"C\" __attribute__((visibility(\"default\"))) const qcg_kernel " + symbol +
                     " = {QCG_KERNEL_ABI, 1, items, no_bytes, no_bytes, run};\n";
  Store store = Store::none();
  auto cxx = find_cxx({});
  REQUIRE(cxx.ok());
  auto built = KernelBuilder(*cxx, store, {}).build({source});
  REQUIRE_MESSAGE(built.ok(), built.error().to_string());
  REQUIRE_MESSAGE((*built)[0].ok(), (*built)[0].failure);
  for (const std::string& module : modules)
    REQUIRE(replace_file(program, "kernels/" + module, "kernels/" + module, (*built)[0].bytes).ok());
}

}  // namespace

TEST_CASE("right programs of each kind are verified whole, with no rows too") {
  TempDir dir;
  for (const char* example : {"native/mlp_f32.json", "native/linear_w8.json", "native/linear_mxfp4.json",
                              "recsys_cat_linear/graph.pt2", "llama_mlp_int8/graph.pt2"}) {
    INFO(example);
    CompileOptions options = options_for(source_dir() + "/examples/" + example, dir / "p.qcg");
    if (example == std::string("native/mlp_f32.json")) options.weights = {"random:1"};
    const ProgramVerdict verdict = compiled(options).verdict;
    CHECK(verdict.scope == "program");
    CHECK(verdict.unchecked.empty());
    for (const int checked : verdict.checked) CHECK(checked == verdict.outputs);
    CHECK(verdict.describe().find("right at ") != std::string::npos);
  }
  const ProgramVerdict verdict = compiled(options_for(write(dir / "g.json", two_outputs(1)), dir / "p.qcg")).verdict;
  CHECK(verdict.trials == std::vector<std::string>{"m = 3", "m = 0"});  // 2 is an extent of the graph
  CHECK(verdict.checked == std::vector<int>{2, 2});
  CHECK(verdict.describe().starts_with("2 outputs right at m = 3 and m = 0 ("));
}

TEST_CASE("the rows that are tried differ from every extent, and from each other") {
  Graph graph;
  graph.add_input("x", DType::f32, {Dim::symbol("a"), Dim(2), Dim(4)});
  const auto rows = [&](std::vector<Symbol> symbols) { return rows_to_verify(graph, symbols); };
  using Rows = std::vector<std::vector<int64_t>>;
  CHECK(rows({}) == Rows{{}});
  CHECK(rows({{"a", 1, 100}}) == Rows{{3}});
  CHECK(rows({{"a", 0, 100}}) == Rows{{3}, {0}});
  CHECK(rows({{"a", 1, 1}}) == Rows{{1}});
  CHECK(rows({{"a", 2, 2}}) == Rows{{2}});
  CHECK(rows({{"a", 4, INT64_MAX}}) == Rows{{5}});
  CHECK(rows({{"a", 1, 100}, {"b", 0, 100}}) == Rows{{3, 5}, {3, 0}});

  const Dim a = Dim::symbol("a"), b = Dim::symbol("b");
  graph.conditions = {{SizeCondition::Says::at_least_0, a - Dim(2) * b - Dim(1), "a > 2*b"}};
  CHECK(rows({{"a", 7, 100}, {"b", 0, 100}}) == Rows{{7, 3}, {7, 0}});
  const Rows found = rows({{"a", 1, 100}, {"b", 1, 100}});
  REQUIRE(found.size() == 1);
  CHECK(found[0][0] > 2 * found[0][1]);
  graph.conditions.push_back({SizeCondition::Says::zero, Dim::modulo(a, Dim(7)) - Dim(1), "a % 7 == 1"});
  CHECK(rows({{"a", 1, 100}, {"b", 1, 1}}).at(0)[0] % 7 == 1);
  CHECK(rows({{"a", 2, 7}, {"b", 1, 1}}).empty());
}

TEST_CASE("a random mask chooses some and leaves some, however short it is") {
  TempDir dir;
  const std::string graph = write(dir / "g.txt", R"(symbol m in [0, 8]
graph(%x: f32[m], %mask: bool[m]) {
  %y = aten.where.ScalarOther(%mask, %x, other = 0) : f32[m]
  return %y
}
)");
  compiled(options_for(graph, dir / "p.qcg"));
  const auto program = Program::load(dir / "p.qcg");
  REQUIRE(program.ok());
  for (uint64_t seed = 0; seed < 50; ++seed)
    for (const int64_t m : {2, 3}) {
      const Tensor mask = random_inputs(**program, std::array{m}, seed, {})[1];
      const auto chosen = std::ranges::count(mask.bytes(), std::byte{1});
      CHECK(chosen > 0);
      CHECK(chosen < m);
    }
}

TEST_CASE("a wrong program is not published, and what was there before stays") {
  TempDir dir;
  CompileOptions options = options_for(write(dir / "g.json", two_outputs(1)), dir / "p.qcg");
  compiled(options);
  const std::string before = slurp(dir / "p.qcg/manifest.json");
  options.input = write(dir / "h.json", two_outputs(2));
  // The bias as it is packed, changed between packing and verification.
  options.on_step = [&](std::string_view text) {
    if (text != "verify the program") return;
    const std::string file = staging_of(options.output) + "/weights.bin";
    std::string bytes = slurp(file);
    const float bias = 2, other = 3;
    const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&bias), sizeof bias));
    REQUIRE(at != std::string::npos);
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(at))
        .write(reinterpret_cast<const char*>(&other), sizeof other);
  };
  const auto report = compile_program(options);
  REQUIRE(!report.ok());
  INFO(report.error().to_string());
  CHECK(report.error().code == ErrorCode::Internal);
  CHECK((report.error().where == "y" || report.error().where == "z"));
  CHECK(report.error().message.find("the program is wrong: ") == 0);
  CHECK(report.error().message.find(" is allowed at m = 3") != std::string::npos);
  CHECK(report.error().help.find("--verify=kernels") != std::string::npos);
  CHECK(slurp(dir / "p.qcg/manifest.json") == before);
  std::set<std::string> left;
  for (const auto& item : fs::directory_iterator(dir / "")) left.insert(item.path().filename());
  CHECK(left == std::set<std::string>{"g.json", "h.json", "p.qcg"});
  options.verify = Verify::kernels;
  const ProgramVerdict unverified = compiled(options).verdict;
  CHECK(unverified.scope == "kernels");
  CHECK(unverified.describe().find("--verify=kernels") != std::string::npos);
}

TEST_CASE("a program of another graph is wrong: a bias, a factor on a column, segments that changed places") {
  TempDir dir;
  const auto verify = [&](const std::string& program_of, const std::string& graph) {
    CompileOptions options = options_for(write(dir / "g.json", program_of), dir / "p.qcg");
    options.verify = Verify::kernels;
    compiled(options);
    return verify_program(dir / "p.qcg", graph_of(write(dir / "h.json", graph)), {});
  };
  CHECK(verify(two_outputs(1), two_outputs(1)).ok());
  const auto biased = verify(two_outputs(1), two_outputs(1.5));
  REQUIRE(!biased.ok());
  CHECK(biased.error().where == "y");
  CHECK(biased.error().message.find("off by 0.5, and ") != std::string::npos);

  // Five layers, each of which quantizes twice.
  const Cascade right(5, 3);
  CHECK(verify(right.text(), right.text()).ok());
  for (const int layer : {0, 4}) {
    INFO("layer ", layer);
    Cascade scaled = right, swapped = right;
    scaled.scale(layer, "down", 7, 2);
    swapped.swap(layer, "gate", "up");
    CHECK_FALSE(verify(scaled.text(), right.text()).ok());
    CHECK_FALSE(verify(swapped.text(), right.text()).ok());
  }
}

TEST_CASE("a program that crashes, hangs or leaves the process is refused, and the compiler goes on") {
  TempDir dir;
  compiled(options_for(write(dir / "g.json", two_outputs(1)), dir / "p.qcg"));
  const Graph graph = graph_of(dir / "g.json");
  CHECK(verify_program(dir / "p.qcg", graph, {}).ok());
  for (const auto& [body, what] : {std::pair("*(volatile int*)8 = 1;", "SIGSEGV"),
                                   std::pair("for (volatile int i = 0;; i = i + 1) {}", "no answer in "),
                                   std::pair("", "y[0, 0] is nan where the oracle has")}) {
    replace_kernels(dir / "p.qcg", body);
    const auto verdict = verify_program(dir / "p.qcg", graph, {.hang_s = 1});
    REQUIRE(!verdict.ok());
    INFO(verdict.error().to_string());
    CHECK(verdict.error().code == ErrorCode::Internal);
    CHECK(verdict.error().message.find(what) != std::string::npos);
  }
}

TEST_CASE("a program that contradicts itself is refused, whatever its inputs are") {
  TempDir dir;
  compiled(options_for(write(dir / "g.json", two_outputs(1)), dir / "p.qcg"));
  auto manifest = nlohmann::json::parse(slurp(dir / "p.qcg/manifest.json"));
  manifest["steps"][0]["args"].back()["offset"] = 1 << 20;
  const std::string text = write(dir / "p.qcg/manifest.json", manifest.dump());
  write(dir / "p.qcg/manifest.sha256", sha256_hex(slurp(text)) + "\n");
  const auto verdict = verify_program(dir / "p.qcg", graph_of(dir / "g.json"), {});
  REQUIRE(!verdict.ok());
  INFO(verdict.error().to_string());
  CHECK(verdict.error().code == ErrorCode::Internal);
  CHECK(verdict.error().message.find("$.steps[0].args") != std::string::npos);
}

TEST_CASE("what the oracle has no time for is named") {
  TempDir dir;
  compiled(options_for(write(dir / "g.json", two_outputs(1)), dir / "p.qcg"));
  const auto verdict = verify_program(dir / "p.qcg", graph_of(dir / "g.json"), {.budget_s = 0});
  REQUIRE(verdict.ok());
  CHECK(verdict->checked == std::vector<int>{0, 0});
  REQUIRE(verdict->unchecked.size() == 2);
  CHECK(verdict->unchecked[0] == "y and 1 more at m = 3: the oracle did not finish within 0 s");
  CHECK(verdict->describe().starts_with("0 of 2 outputs right ("));
}

TEST_CASE("where codes cascade, what a last bit may move is allowed, and a factor on one column is not") {
  constexpr int kRows = 64;
  const Cascade exact(8, 11, kRows);
  TempDir dir;
  const Graph graph = graph_of(write(dir / "g.json", exact.text()));
  std::mt19937_64 rng(1);
  std::vector<float> x(kRows * Cascade::kHidden);
  for (float& v : x) v = static_cast<float>(std::normal_distribution<double>()(rng));
  const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
  const std::vector<Tensor> inputs = {
      Tensor::from_bytes(DType::f32, {kRows, Cascade::kHidden}, {bytes, bytes + x.size() * sizeof(float)})};
  const auto want = evaluate_graph(graph, inputs);
  REQUIRE(want.ok());
  const auto check = [&](const Cascade& other) {
    const auto got = evaluate_graph(graph_of(write(dir / "h.json", other.text())), inputs);
    REQUIRE(got.ok());
    std::vector<OutputCheck> outputs = {
        compare_output("y", "oracle", (*got)[0], (*want)[0], output_tolerances(graph)[0])};
    const bool at_once = outputs[0].ok;
    REQUIRE(widen_bounds(graph, inputs, {}, *got, *want, outputs).ok());
    return std::pair(at_once, outputs[0]);
  };
  const auto expect = [&](const Cascade& other, bool right) {
    const OutputCheck y = check(other).second;
    CHECK_MESSAGE(y.ok == right, y.describe() << ", rms " << y.rms_err);
  };
  int beyond = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed ", seed);
    Cascade moved = exact;
    moved.disturb(2e-7, seed);
    beyond += check(moved).first ? 0 : 1;
    expect(moved, true);
  }
  CHECK(beyond > 0);  // else nothing was shown
  for (const int layer : {0, 4, 7}) {
    INFO("layer ", layer);
    Cascade wrong = exact;
    wrong.scale(layer, "down", 7, 2);
    expect(wrong, false);
    wrong = exact;
    wrong.swap(layer, "gate", "up");
    expect(wrong, false);
  }
}

// y = sum(20000 x) / 64: in f16, the sum of a row leaves the range, and the oracle's does not.
TEST_CASE("elements that eager's own roundings make infinite say nothing against a program, the others do") {
  TempDir dir;
  const std::string graph = write(dir / "g.json", R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 4]},
    "inputs": [{"name": "x", "dtype": "f16", "shape": ["m", 32]}],
    "parameters": [{"name": "large", "dtype": "f16", "shape": [1], "data": [20000]},
                   {"name": "small", "dtype": "f16", "shape": [1], "data": [64]}],
    "nodes": [{"op": "aten.mul.Tensor", "inputs": {"self": "x", "other": "large"}, "outputs": ["a"]},
              {"op": "aten.sum.dim_IntList", "inputs": {"self": "a", "dim": [-1], "keepdim": true}, "outputs": ["s"]},
              {"op": "aten.div.Tensor", "inputs": {"self": "s", "other": "small"}, "outputs": ["y"]}],
    "outputs": ["y"]})");
  compiled(options_for(graph, dir / "p.qcg"));
  // Rows of 1/2 and of 1/64: sums of 320,000 and of 10,000.
  const Graph g = graph_of(graph);
  std::vector<std::byte> x;
  for (int row = 0; row < 2; ++row)
    for (int i = 0; i < 32; ++i)
      x.resize(x.size() + 2), double_to_element(DType::f16, row == 0 ? .5 : .015625, &x[x.size() - 2]);
  const std::vector<Tensor> inputs = {Tensor::from_bytes(DType::f16, {2, 32}, std::move(x))};
  const auto want = evaluate_graph(g, inputs);
  REQUIRE(want.ok());
  const auto judge = [&](double first, double second) {
    std::vector<std::byte> y(4);
    double_to_element(DType::f16, first, y.data()), double_to_element(DType::f16, second, y.data() + 2);
    const std::vector<Tensor> got = {Tensor::from_bytes(DType::f16, {2, 1}, std::move(y))};
    std::vector<OutputCheck> checks = {compare_output("y", "oracle", got[0], (*want)[0].contiguous(), 1e-2)};
    if (!checks[0].ok) REQUIRE(widen_bounds(g, inputs, {}, got, *want, checks).ok());
    return checks[0].ok;
  };
  // A root of what is negative is no number, with the roundings of eager execution and without.
  const std::string roots = write(dir / "r.json", R"({"format": "qcodegen", "version": 1, "symbols": {},
    "inputs": [{"name": "x", "dtype": "f16", "shape": [2]}],
    "nodes": [{"op": "aten.sqrt.default", "inputs": {"self": "x"}, "outputs": ["y"]}], "outputs": ["y"]})");
  const auto numbers = [](double first, double second) {
    std::vector<std::byte> bytes(4);
    double_to_element(DType::f16, first, bytes.data()), double_to_element(DType::f16, second, bytes.data() + 2);
    return Tensor::from_bytes(DType::f16, {2}, std::move(bytes));
  };
  const Graph of_roots = graph_of(roots);
  const auto no_number = evaluate_graph(of_roots, {numbers(-4, 4)});
  REQUIRE(no_number.ok());
  for (const double root : {2.0, std::nan("")}) {
    const std::vector<Tensor> got = {numbers(root, 2)};
    std::vector<OutputCheck> checks = {compare_output("y", "oracle", got[0], (*no_number)[0], 1e-2)};
    if (!checks[0].ok) REQUIRE(widen_bounds(of_roots, {numbers(-4, 4)}, {}, got, *no_number, checks).ok());
    CHECK(checks[0].ok == std::isnan(root));
  }
  CHECK(judge(5000, 156.25));
  CHECK(judge(HUGE_VAL, 156.25));
  CHECK(!judge(HUGE_VAL, HUGE_VAL));
  CHECK(!judge(HUGE_VAL, 300));
}

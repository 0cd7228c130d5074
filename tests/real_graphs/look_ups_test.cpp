// Look-ups compiled: programs give what torch gives, and refuse ids that are out of range.
#include "graph/ops/op_table.h"
#include "tests/real_graphs/check_case.h"

using namespace qcg;
using namespace qcg::test;

namespace {

bool looks_up(const Node& node) { return node.op->role == OpRole::look_up || is_any_op(node, kEmbeddingBags); }

// Rows of a table in bf16, at ids that a sum makes.
constexpr const char* kShifted = R"(symbol n in [1, 64]
graph(%table: bf16[10, 6], %ids: i64[2, n]) {
  %at = aten.add.Tensor(%ids, 4) : i64[2, n]
  %y = aten.embedding.default(%table, %at) : bf16[2, n, 6]
  return %y
}
)";

constexpr const char* kAlong = R"(graph(%table: f32[3, 7], %ids: i32[3, 4]) {
  %y = aten.take_along_dim.default(%table, %ids, dim = 1) : f32[3, 4]
  return %y
}
)";

constexpr const char* kBags = R"(symbol n in [1, 64]
symbol b in [1, 64]
graph(%table: f32[10, 6], %ids: i64[n], %offsets: i64[b]) {
  %y, %u, %v, %w = aten._embedding_bag.default(%table, %ids, %offsets) : f32[b, 6], i64[0], i64[b], i64[b]
  return %y
}
)";

}  // namespace

TEST_CASE("compiled look-ups give what torch gives") {
  const int checked = check_cases(
      [](const TorchCase&, const Graph& graph) { return graph.nodes.size() == 1 && looks_up(graph.nodes[0]); });
  CHECK(checked > 40);
}

TEST_CASE("random inputs of a compile and of check are ids, also where a sum makes them") {
  TempDir dir;
  for (const char* text : {kShifted, kAlong, kBags}) {
    spit(dir / "graph.txt", text);
    const Run compiled =
        qcodegen({"compile", dir / "graph.txt", "-o", dir / "p.qcg", "--tune=off", "--no-cache", "--json"});
    REQUIRE_MESSAGE(compiled.status == 0, compiled.err);
    const auto verified = compiled.json()["verified"];
    CHECK_MESSAGE(verified["checked"][0] == 1, verified.dump());
    CHECK_MESSAGE(verified["unchecked"].empty(), verified.dump());
    const Run checked = qcodegen({"check", dir / "graph.txt"});
    CHECK_MESSAGE(checked.status == 0, checked.err);
  }
}

TEST_CASE("ids and offsets out of range end a run with an error that names them") {
  TempDir dir;
  const auto run_error = [&](const char* text, const NamedTensors& inputs) {
    spit(dir / "graph.txt", text);
    const Run compiled = qcodegen({"compile", dir / "graph.txt", "-o", dir / "p.qcg", "--tune=off"});
    REQUIRE_MESSAGE(compiled.status == 0, compiled.err);
    REQUIRE(write_safetensors(dir / "in", inputs).ok());
    const Run run = qcodegen({"run", dir / "p.qcg", "--inputs", dir / "in", "--outputs", dir / "out"});
    CHECK(run.status == 1);
    return run.err;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  const Tensor rows = tensor_of(DType::bf16, {10, 6}, std::vector<double>(60, 1)),
               table = tensor_of(DType::f32, {10, 6}, std::vector<double>(60, 1));
  const auto ids = [](std::vector<int64_t> shape, const std::vector<double>& values) {
    return tensor_of(DType::i64, std::move(shape), values);
  };
  std::string error = run_error(kShifted, {{"table", rows}, {"ids", ids({2, 2}, {0, 5, -4, 6})}});
  has(error, "error[BadInput]: step 'y: look up'");
  has(error, "the result of step 'at' is 10 at element 3");
  has(error, "from 0 to 9");
  error = run_error(kBags, {{"table", table}, {"ids", ids({3}, {0, -1, 9})}, {"offsets", ids({2}, {0, 2})}});
  has(error, "input 'ids' is -1 at [1]");
  error = run_error(kBags, {{"table", table}, {"ids", ids({3}, {0, 1, 9})}, {"offsets", ids({3}, {0, 2, 1})}});
  has(error, "input 'offsets' is 1 at [2]");
  has(error, "ascend, all from 0 to 3");
  error = run_error(kBags, {{"table", table}, {"ids", ids({3}, {0, 1, 9})}, {"offsets", ids({1}, {4})}});
  has(error, "input 'offsets' is 4 at [0]");
}

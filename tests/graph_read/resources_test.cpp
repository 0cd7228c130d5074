// Bombs: input that is small or cheap to make and would be expensive to believe. Each is read in a child process, whose
// time and peak memory are then known. Memory is only checked without AddressSanitizer, the second only in optimized
// builds.
#include <sys/stat.h>

#include "graph/read/safetensors.h"
#include "tests/child_cost.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

void expect_cheap_refusal(const std::string& what, const std::string& path,
                          const std::vector<std::string>& weights = {}, double seconds = 1) {
  INFO(what);
  const ChildCost cost = cost_of([&] { return read_graph(path, {weights}).ok(); });
  MESSAGE(what << ": " << cost.seconds << " s, " << cost.kib / 1024 << " MiB");
  CHECK(cost.outcome == ChildCost::no);
  CHECK(cost.seconds < (kOptimized && !kSanitized ? seconds : 15));
  if (!kSanitized) CHECK(cost.kib < 256 * 1024);
}

// A file of n bytes without writing them: the rest is a hole.
std::string write_sparse(const TempFolder& folder, const std::string& start, off_t size) {
  std::string path = folder.write("sparse", start);
  REQUIRE(truncate(path.c_str(), size) == 0);
  return path;
}

std::string repeat(const std::string& unit, size_t bytes) {
  std::string text;
  text.reserve(bytes + unit.size());
  while (text.size() < bytes) text += unit;
  return text;
}

}  // namespace

TEST_CASE("bombs: long, deep and wide JSON") {
  constexpr size_t kMiB = kOptimized ? 1 << 20 : 1 << 16;  // the limits themselves where they can be measured
  TempFolder folder;
  auto file = [&](const std::string& text) { return folder.write("bomb.json", text); };
  expect_cheap_refusal("a list of 10^9 elements (2 GB, mostly a hole)",
                       write_sparse(folder, "{\"graph_module\": [1,1,1", off_t{2} << 30));
  expect_cheap_refusal("a list as long as the text may be",
                       file("{\"graph_module\": [" + repeat("1,", 63 * kMiB) + "1]}"));
  expect_cheap_refusal("depth", file(repeat("[", 63 * kMiB)));
  expect_cheap_refusal("depth by objects", file(repeat("{\"a\":", 63 * kMiB)));
  expect_cheap_refusal("one long string", file("{\"graph_module\": \"" + std::string(63 * kMiB, 'a')));
  expect_cheap_refusal("one long escaped string", file("{\"graph_module\": \"" + repeat("\\u0041", 63 * kMiB)));
  expect_cheap_refusal("many keys", [&] {
    std::string text = "{";
    for (size_t i = 0; i < (kOptimized ? 1'900'000 : 100'000); ++i) text += "\"" + std::to_string(i) + "\":0,";
    return file(text + "\"graph_module\":{}}");
  }());
  expect_cheap_refusal("equal keys", file("{" + repeat("\"a\":0,", 16 * kMiB) + "\"a\":1}"));
  expect_cheap_refusal("spaces", file(std::string(63 * kMiB, ' ') + "{"));
}

TEST_CASE("bombs: a graph as large as the limits allow, and wrong at its very end") {
  TempFolder folder;
  Json j = small_export();
  Json& graph = j["graph_module"]["graph"];
  std::string ones = repeat(R"({"as_int":1},)", 39) + R"({"as_int":1}])";  // four axes
  std::string sizes = R"("sizes":[)" + ones + R"(,"strides":[)" + ones;
  graph["nodes"] = "NODES";
  graph["tensor_values"]["x"] = Json::parse(R"({"dtype":7,)" + sizes + "}");
  graph["tensor_values"]["METAS"] = 0;
  graph["outputs"] = Json::array({{{"as_tensor", {{"name", "x"}}}}});
  std::string text = j.dump(), nodes, metas;
  constexpr int kNodes = kOptimized ? 60'000 : 3'000;
  for (int i = 0; i < kNodes; ++i) {
    std::string name = "n" + std::to_string(i), from = i == 0 ? "x" : "n" + std::to_string(i - 1);
    nodes += (i ? "," : "[") +
             std::string(
                 R"({"target":"torch.ops.aten.relu.default","inputs":[{"name":"self","arg":{"as_tensor":{"name":")") +
             from + R"("}}}],"outputs":[{"as_tensor":{"name":")" + name + R"("}}]})";
    metas += "\"" + name + R"(":{"dtype":)" + (i + 1 < kNodes ? "7," : "6,") + sizes + "},";
  }
  auto replace = [&](const std::string& what, const std::string& with) {
    text.replace(text.find(what), what.size(), with);
  };
  replace("\"NODES\"", nodes + "]");
  replace("\"METAS\":0", metas + "\"end\":0");
  std::string path = folder.write("g.json", text);
  // All is read before the fault is: 0.4 s of a quiet Zen 5, 1.1 s of a Zen 3 whose cores other programs use.
  expect_cheap_refusal(std::to_string(kNodes) + " nodes", path, {}, 3);
  CHECK(contains(read_graph(path).error().where, "nodes[" + std::to_string(kNodes - 1) + "]"));
}

TEST_CASE("bombs: safetensors and archives") {
  TempFolder folder;
  std::string graph = folder.write("graph.json", small_export().dump());
  auto header = [&](const std::string& text) {
    uint64_t length = text.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return folder.write("w.safetensors", bytes + text);
  };
  std::string lie(8, '\0');
  uint64_t huge = 99'000'000;
  std::memcpy(lie.data(), &huge, 8);
  expect_cheap_refusal("a header of 99 MB that is a hole", graph, {write_sparse(folder, lie + "{", 200'000'000)});
  expect_cheap_refusal("a header of 60 MB of values", graph,
                       {header("{\"a\": {\"dtype\": \"U8\", \"shape\": [" +
                               repeat("1,", kOptimized ? 60'000'000 : 6'000'000) + "1]}}")});
  expect_cheap_refusal("a zip of 2 GB that is a hole", write_sparse(folder, "PK\3\4", off_t{2} << 30));
  SmallPt2 p;
  p.zip.method = 8;
  std::string bytes = p.pack();
  uint32_t size = 60 << 20;  // below the limit for JSON: unpacking must stop where the data does
  size_t entry = bytes.rfind("PK\1\2", bytes.find("models/model.json", bytes.find("PK\1\2")));
  std::memcpy(bytes.data() + entry + 24, &size, 4);
  expect_cheap_refusal("a model entry that claims 60 MiB", folder.write("bomb.pt2", bytes));
}

TEST_CASE("what is not a regular file is refused at once") {
  TempFolder folder;
  REQUIRE(mkfifo(folder.file("fifo").c_str(), 0600) == 0);
  for (const std::string& path :
       {folder.file("fifo"), folder.file(""), std::string("/dev/zero"), std::string("/dev/null")}) {
    INFO(path);
    auto graph = read_graph(path);
    REQUIRE_FALSE(graph.ok());
    CHECK(graph.error().code == ErrorCode::BadInput);
    CHECK(contains(graph.error().message, "not a regular file"));
  }
  CHECK(read_graph(folder.file("nowhere")).error().code == ErrorCode::Io);
}

TEST_CASE("files of other kinds are named") {
  auto message = [](const std::string& bytes) { return error_of(bytes).message; };
  CHECK(contains(message(""), "empty"));
  CHECK(contains(message("GGUF...."), "GGUF"));
  CHECK(contains(message("\x80\x02}q"), "pickle"));
  CHECK(contains(message(std::string("\x10\0\0\0\0\0\0\0{}", 10)), "safetensors"));
  CHECK(contains(message("{}"), "not a graph"));
  CHECK(contains(message(R"({"weight_map": {}})"), "index"));
  CHECK(contains(message("hello"), "not known"));
  CHECK(contains(message(std::string("PK\5\6") + std::string(18, '\0')), "pt2"));
  CHECK_FALSE(message("graph(").empty());
}

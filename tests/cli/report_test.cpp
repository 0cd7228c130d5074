// report: what the page's data say of a program, and that the file contains all it needs. tests/browser opens it.
#include "tests/cli_runner.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

// The data that a page carries.
json data_of(const std::string& html) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const size_t at = html.find(begin) + begin.size();
  REQUIRE(at >= begin.size());
  return json::parse(html.substr(at, html.find("</script>", at) - at));
}

int count_of(const std::string& text, const std::string& piece) {
  int count = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a report is one file with the graph, the steps, the log and the memory plan of a program") {
  TempDir dir;
  const std::string graph = dir / "graph.pt2", program = dir / "mlp.qcg", page = dir / "r.html";
  fs::copy_file(source_path("examples/llama_mlp_int8/graph.pt2"), graph);
  REQUIRE(qcodegen({"compile", graph, "--m", "1,16", "-o", program}).status == 0);
  const json written = qcodegen({"report", program, "-o", page, "--json"}).json();
  const std::string html = slurp(page);
  CHECK(written["bytes"] == html.size());
  CHECK(written["steps"] == 2);
  CHECK(written["why_no_graph"] == "");
  // The only addresses are names of XML, which nobody fetches.
  const std::string own = html.substr(0, html.find("id=\"data\"")) + html.substr(html.rfind("<script>"));
  CHECK(count_of(own, "://") == count_of(own, "http://www.w3.org/2000/svg"));

  const json data = data_of(html);
  REQUIRE(data["programs"].size() == 1);
  const json& p = data["programs"][0];
  CHECK(p["name"] == "mlp.qcg");
  CHECK(p["bytes"]["weights"] > 3 * 256 * 704);
  CHECK(p["input"]["nodes"] == 38);
  std::istringstream lines(slurp(program + "/tune.jsonl"));
  size_t records = 0;
  for (std::string line; std::getline(lines, line);) ++records;
  CHECK(p["records"].size() == records);
  const json& method = p["methods"][0];
  REQUIRE(method["steps"].size() == 2);
  CHECK(method["steps"][0]["name"] == "gate_proj+up_proj");
  CHECK(method["steps"][0]["formula"] == "mul(silu(acc0), acc1)");
  CHECK(method["points"].size() == 2);
  for (const json& point : method["points"]) {
    for (const json& us : point["us"]) CHECK(us > 0);
    // bf16 [m, 704], and nothing else.
    REQUIRE(point["memory"]["temps"].size() == 1);
    CHECK(point["memory"]["temps"][0][0] == (point["label"] == "s6 = 1" ? 1408 : 16 * 1408));
    CHECK(point["memory"]["peak"] >= point["memory"]["temps"][0][0]);
  }
  // x, two steps, the output; each step reads what is above it.
  REQUIRE(method["drawing"].size() == 4);
  CHECK(method["drawing"][1]["inputs"] == json({0}));
  CHECK(method["drawing"][2]["inputs"] == json({1}));
  CHECK(method["drawing"][3]["inputs"] == json({2}));
  int taken = 0, of_weights = 0;
  for (const json& node : p["graph"]["nodes"]) {
    taken += node["step"] >= 0;
    of_weights += node["weights"] == true;
    for (const json& input : node["inputs"]) CHECK(input < p["graph"]["nodes"].size());
  }
  CHECK(p["graph"]["nodes"].size() >= 30);
  CHECK(p["graph"]["nodes"][0]["input"] == true);
  CHECK(taken >= 5);
  CHECK(of_weights >= 3);
  for (const json& kernel : p["kernels"]) {
    CHECK(kernel["source"].get<std::string>() == slurp(program + "/" + kernel["file"].get<std::string>()));
    CHECK(kernel["family"] == "gemm");
    CHECK(kernel["kind"] == "w8");
  }

  fs::remove(graph);  // then there is a page without the first picture
  const Run gone = qcodegen({"report", program, "-o", page});
  CHECK(gone.status == 0);
  CHECK(gone.err.find("warning: the page has no picture of the graph before the passes") != std::string::npos);
  CHECK(data_of(slurp(page))["programs"][0]["graph"]["nodes"].empty());
  CHECK(data_of(slurp(page))["programs"][0]["methods"][0]["drawing"].size() == 4);
  CHECK(qcodegen({"report", program, "--graph", graph, "-o", page}).status != 0);
  CHECK(qcodegen({"report", dir / "absent.qcg", "-o", page}).status == 1);
  CHECK(qcodegen({"report", program, "-o", dir / "no/r.html"}).status == 3);
}

TEST_CASE("a report compares the winners of two programs") {
  TempDir dir;
  const std::string graph = source_path("examples/llama_mlp_int8/graph.pt2");
  REQUIRE(qcodegen({"compile", graph, "--m", "1", "-o", dir / "a.qcg"}).status == 0);
  REQUIRE(qcodegen({"compile", graph, "--m", "1", "--target", "cpu:portable", "-o", dir / "b.qcg"}).status == 0);
  REQUIRE(qcodegen({"report", dir / "a.qcg", "--compare", dir / "b.qcg", "-o", dir / "r.html"}).status == 0);
  const json data = data_of(slurp(dir / "r.html"));
  REQUIRE(data["programs"].size() == 2);
  CHECK(data["programs"][1]["name"] == "b.qcg");
  REQUIRE(data["pairs"].size() == 2);
  for (const json& pair : data["pairs"]) {
    CHECK(pair["a"] > 0);
    CHECK(pair["b"] > 0);
  }
}

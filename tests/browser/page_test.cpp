// The page of `qcodegen report` in a headless Chromium: no errors, no requests, tables that sort, links that lead
// somewhere, 400 pixels, the dark. Skipped where no Chromium is installed (Debian: chromium-headless-shell).
//
// There is no driver: a script that uses the page is put into a copy of it, and leaves what it found in the document.
#include <algorithm>

#include "tests/cli_runner.h"
#include "tests/large_graphs.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

// Empty where there is none.
std::string find_browser() {
  for (const char* name : {"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"})
    for (const char* folder : {"/usr/bin/", "/usr/local/bin/", "/opt/google/chrome/"})
      if (fs::exists(std::string(folder) + name)) return std::string(folder) + name;
  return "";
}

#define REQUIRE_BROWSER()                                                                   \
  if (find_browser().empty()) {                                                             \
    MESSAGE("skipped: no Chromium is installed (apt-get install chromium-headless-shell)"); \
    return;                                                                                 \
  }

struct View {
  int width = 1280;
  bool dark = false;
};

std::vector<std::string> browser_command(const TempDir& dir, const View& view) {
  return {find_browser(),
          "--headless",
          "--no-sandbox",
          "--disable-gpu",
          "--disable-dev-shm-usage",
          "--disable-background-networking",
          "--hide-scrollbars",
          "--user-data-dir=" + (dir / "profile"),
          "--window-size=" + std::to_string(view.width) + ",900",
          std::string("--blink-settings=preferredColorScheme=") + (view.dark ? "0" : "1")};
}

// What every page must satisfy, before the script of a test.
constexpr const char* kWatch = R"(<script>
window.found = {errors: []};
addEventListener("error", (event) => found.errors.push(event.message));
addEventListener("securitypolicyviolation", (event) => found.errors.push("policy: " + event.blockedURI));
for (const level of ["error", "warn"]) console[level] = (...words) => found.errors.push(words.join(" "));
</script>)";
constexpr const char* kCheck = R"(
  found.requests = performance.getEntriesByType("resource").map((entry) => entry.name);
  found.broken = [...document.querySelectorAll("a")].map((a) => a.getAttribute("href"))
      .filter((href) => !href.startsWith("#") || !document.getElementById(href.slice(1)));
  found.sections = [...document.querySelectorAll("section")].map((node) => node.id);
  found.width = innerWidth;
  found.wide = document.documentElement.scrollWidth;
  found.background = getComputedStyle(document.body).backgroundColor;
  found.title = document.title;
)";

// Opens a page, runs `script` in it and returns what it left in `found`.
json use(const std::string& html_path, const std::string& script, const View& view = {}) {
  TempDir dir;
  std::string html = slurp(html_path);
  const size_t head = html.find("<head>"), body = html.rfind("</body>");
  REQUIRE(head != std::string::npos);
  REQUIRE(body != std::string::npos);
  html.insert(body, std::string("<script>addEventListener(\"load\", () => {\n") + kCheck + script +
                        "\nconst out = document.createElement(\"pre\"); out.id = \"found\";"
                        "out.textContent = \"@@\" + encodeURIComponent(JSON.stringify(found)) + \"@@\";"
                        "document.body.append(out);});</script>");
  html.insert(head + 6, kWatch);
  spit(dir / "page.html", html);
  std::vector<std::string> command = browser_command(dir, view);
  command.insert(command.end(), {"--virtual-time-budget=4000", "--dump-dom", "file://" + (dir / "page.html")});
  const Run run = run_program(command);
  INFO(run.err);
  REQUIRE(run.status == 0);
  const size_t end = run.out.rfind("@@"), begin = run.out.rfind("@@", end - 1);
  REQUIRE_MESSAGE(begin != std::string::npos, "the script of the test did not come to its end");
  std::string text;
  for (size_t i = begin + 2; i < end; ++i)
    if (run.out[i] != '%') text += run.out[i];
    else text += static_cast<char>(std::stoi(run.out.substr(i + 1, 2), nullptr, 16)), i += 2;
  const json found = json::parse(text);
  CHECK_MESSAGE(found["errors"].empty(), found["errors"].dump());
  CHECK_MESSAGE(found["requests"].empty(), found["requests"].dump());
  CHECK_MESSAGE(found["broken"].empty(), found["broken"].dump());
  return found;
}

// The report of a tuned MLP, beside one for another target.
const std::string& mlp_report() {
  static TempDir dir;
  static const std::string page = dir / "report.html";
  if (fs::exists(page)) return page;
  const std::string graph = source_path("examples/llama_mlp_int8/graph.pt2");
  REQUIRE(qcodegen({"compile", graph, "--m", "1,16", "-o", dir / "mlp.qcg"}).status == 0);
  REQUIRE(qcodegen({"compile", graph, "--m", "1,16", "--target", "cpu:portable", "-o", dir / "portable.qcg"}).status ==
          0);
  const Run run = qcodegen({"report", dir / "mlp.qcg", "--compare", dir / "portable.qcg", "-o", page});
  REQUIRE_MESSAGE(run.status == 0, run.err);
  return page;
}

bool is_dark(const std::string& rgb) {
  int red = 255;
  REQUIRE(std::sscanf(rgb.c_str(), "rgb(%d", &red) == 1);
  return red < 100;
}

}  // namespace

TEST_CASE("a report opens without errors and requests, at any width and in the dark") {
  REQUIRE_BROWSER();
  for (const View& view : {View{1280, false}, {1280, true}, {400, false}, {400, true}}) {
    INFO("width ", view.width, view.dark ? ", dark" : "");
    const json found = use(mlp_report(), "", view);
    CHECK(found["title"] == "mlp.qcg \xe2\x80\x94 qcodegen report");
    CHECK(is_dark(found["background"]) == view.dark);
    CHECK(found["wide"] <= std::max(found["width"].get<int>(), view.width));
    for (const char* id :
         {"compare", "time", "graph", "kernels", "roofline", "tuning", "memory", "passes", "compile", "signature"})
      CHECK_MESSAGE(std::ranges::count(found["sections"], json(id)) == 1, id);
  }
}

TEST_CASE("the tables of a report sort by a click on a column's head, and back") {
  REQUIRE_BROWSER();
  const json found = use(mlp_report(), R"(
    const table = document.querySelector("#kernels table"), heads = [...table.querySelectorAll("th")];
    const at = heads.findIndex((th) => th.textContent === "time");
    const unit = {"\u00b5s": 1, ms: 1e3, s: 1e6};
    const times = () => [...table.querySelectorAll("tbody tr")].map((row) => {
      const [number, name] = row.children[at].textContent.replace("~", "").split(" ");
      return Number(number) * unit[name];
    });
    const click = (i) => heads[i].querySelector("button").click();
    const sorted = (list) => list.every((x, i) => i === 0 || list[i - 1] <= x);
    found.rows = times().length;
    click(0);
    found.names = [...table.querySelectorAll("tbody tr")].map((row) => row.children[0].textContent);
    click(at);
    found.down = sorted([...times()].reverse()) && heads[at].getAttribute("aria-sort");
    click(at);
    found.up = sorted(times()) && heads[at].getAttribute("aria-sort");
    found.marked = table.querySelectorAll("[aria-sort]").length;)");
  CHECK(found["rows"] == 4);  // two kernels at two m
  CHECK(std::ranges::is_sorted(found["names"].get<std::vector<std::string>>()));
  CHECK(found["down"] == "descending");
  CHECK(found["up"] == "ascending");
  CHECK(found["marked"] == 1);
}

TEST_CASE("a click on a node of a report marks what one kernel computes, and a kernel's name opens its source") {
  REQUIRE_BROWSER();
  const json found = use(mlp_report(), R"(
    const canvases = [...document.querySelectorAll("#graph .canvas")];
    const nodes = canvases.map((canvas) => [...canvas.querySelectorAll(".node")]);
    found.before = nodes[0].length;
    found.steps = nodes[1].filter((node) => node.classList.contains("taken")).length;
    const step = nodes[1].find((node) => node.textContent === "gate_proj+up_proj");
    step.dispatchEvent(new MouseEvent("click", {bubbles: true}));
    found.marked = canvases.map((canvas) => canvas.querySelectorAll(".marked").length);
    found.detail = document.querySelector("#graph .detail").textContent;
    document.querySelector("#with-weights").click();
    found.all = document.querySelector("#graph .canvas").querySelectorAll(".node").length;
    document.querySelector("#kernels tbody button").click();
    found.open = document.getElementById("dialog").open;
    found.source = document.querySelector("#dialog pre").textContent;
    found.points = document.querySelectorAll("#roofline circle").length;
    found.temporaries = document.querySelectorAll("#memory svg rect").length;
    found.bars = document.querySelectorAll("#time .stack > div").length;)");
  CHECK(found["steps"] == 2);
  CHECK(found["before"] > 5);
  CHECK(found["all"] >= found["before"]);
  CHECK(found["marked"][0] >= 4);  // two linears, silu, mul
  CHECK(found["marked"][1] == 1);
  const std::string detail = found["detail"];
  CHECK_MESSAGE(detail.find("mul(silu(acc0), acc1)") != std::string::npos, detail);
  CHECK(found["open"] == true);
  CHECK(found["source"].get<std::string>().find("qcg_kernel") != std::string::npos);
  CHECK(found["points"] >= 4);
  CHECK(found["temporaries"] == 1);
  CHECK(found["bars"] == 2);
}

TEST_CASE("names in a report are text, whatever they are made of") {
  REQUIRE_BROWSER();
  TempDir dir;
  const std::string name = R"(</script><img src=x onerror=alert(1)><!--)";
  spit(dir / "g.json",
       R"({"format": "qcodegen", "version": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [4, 8]}],
    "nodes": [{"op": "aten.softmax.int", "inputs": {"self": "x", "dim": 1}, "outputs": [")" +
           name + R"("]}], "outputs": [")" + name + R"("]})");
  REQUIRE(qcodegen({"compile", dir / "g.json", "--tune=off", "-o", dir / "g.qcg"}).status == 0);
  REQUIRE(qcodegen({"report", dir / "g.qcg", "-o", dir / "r.html"}).status == 0);
  const json found = use(dir / "r.html", R"(
    found.images = document.querySelectorAll("img").length;
    found.text = document.getElementById("signature").textContent;)");
  CHECK(found["images"] == 0);
  CHECK(found["text"].get<std::string>().find(name) != std::string::npos);
}

TEST_CASE("the report of a program of 500 steps is small, and opens") {
  REQUIRE_BROWSER();
  TempDir dir;
  LargeGraphWriter graph;
  graph.input("x");
  std::string last = "x";
  for (int i = 0; i < 250; ++i) {  // a sum along rows and a loop that reads it: two steps, or one
    const std::string sum = "s" + std::to_string(i), next = "y" + std::to_string(i);
    graph.node("aten.cumsum.default", R"("self": ")" + last + R"(", "dim": 1)", {sum});
    graph.node("aten.sub.Tensor", R"("self": ")" + sum + R"(", "other": "x")", {next});
    last = next;
  }
  spit(dir / "g.json", graph.finish({last}));
  const Run compiled = qcodegen({"compile", dir / "g.json", "--tune=off", "-o", dir / "g.qcg"});
  REQUIRE_MESSAGE(compiled.status == 0, compiled.err);
  const json written = qcodegen({"report", dir / "g.qcg", "-o", dir / "r.html", "--json"}).json();
  CHECK(written["steps"] >= 250);
  CHECK(written["nodes"] == 501);
  CHECK(written["bytes"] < 3'000'000);
  const json found = use(dir / "r.html", R"(
    found.nodes = document.querySelectorAll("#graph .node").length;
    found.rows = document.querySelectorAll("#passes tbody tr").length;)",
                         {400, false});
  CHECK(found["nodes"].get<int>() > 751);
  CHECK(found["wide"] <= std::max(found["width"].get<int>(), 400));
}

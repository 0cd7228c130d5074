// --extern=auto: a program that calls oneDNN where a pinned log says that it won, and what happens where there is no
// oneDNN.
#include "tests/cli_runner.h"
#include "tests/paths.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

constexpr char kGraph[] = R"({"format": "qcodegen", "version": 1, "name": "two", "symbols": {"m": [1, 600]},
 "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", 384]}],
 "parameters": [{"name": "w", "dtype": "f32", "shape": [520, 384]}, {"name": "b", "dtype": "f32", "shape": [520]},
                {"name": "v", "dtype": "f32", "shape": [200, 520]}],
 "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w", "bias": "b"}, "outputs": ["h"]},
           {"op": "relu", "inputs": {"self": "h"}, "outputs": ["r"]},
           {"op": "linear", "inputs": {"input": "r", "weight": "v"}, "outputs": ["y"]}],
 "outputs": ["y"]})";

bool skip_without_onednn() {
  const json doctor = qcodegen({"doctor", "--json"}).json();
  for (const json& check : doctor["checks"]) {
    if (check["name"] != "oneDNN" || check["ok"] == true) continue;
    MESSAGE("skipped: oneDNN: " << check["detail"].get<std::string>());
    return true;
  }
  return false;
}

std::vector<std::string> compile_flags(const TempDir& dir, const std::string& program, std::vector<std::string> more) {
  more.insert(more.begin(), {"compile", dir / "graph.json", "--weights", "random:1", "-o", dir / program, "--threads",
                             "2", "--json"});
  return more;
}

json compile(const TempDir& dir, const std::string& program, std::vector<std::string> more) {
  const Run run = qcodegen(compile_flags(dir, program, std::move(more)));
  INFO(run.err);
  REQUIRE(run.status == 0);
  return run.json();
}

// A log that says oneDNN won every range from `first_m` on, made from one of the same graph.
std::string pin_extern(const std::string& log, int64_t first_m) {
  std::string out;
  std::istringstream in(log);
  for (std::string line; std::getline(in, line);) {
    json record = json::parse(line);
    record["status"] = "won";
    if (record["m_min"].get<int64_t>() >= first_m) record["candidate"] = "extern oneDNN";
    out += record.dump() + "\n";
  }
  return out;
}

// The graph, the pin and nothing else.
struct Pinned {
  TempDir dir;
  explicit Pinned(int64_t first_m) {
    spit(dir / "graph.json", kGraph);
    compile(dir, "plain.qcg", {"--tune=off"});
    spit(dir / "pin.jsonl", pin_extern(slurp(dir / "plain.qcg/tune.jsonl"), first_m));
  }
  json make(const std::string& program, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--tune=off", "--extern=auto", "--pin", dir / "pin.jsonl"});
    return compile(dir, program, more);
  }
};

std::string sha256_of_file(const std::string& path) {
  return run_program({"/usr/bin/sha256sum", path}).out.substr(0, 64);
}

std::string vendor_module(const json& manifest) {
  for (const json& kernel : manifest["steps"][0]["kernels"])
    if (kernel.contains("library")) return kernel["module"];
  return "";
}

// An x for the graph, in safetensors.
void write_inputs(const std::string& path, int64_t m) {
  const json header = {{"x", {{"dtype", "F32"}, {"shape", {m, 384}}, {"data_offsets", {0, m * 384 * 4}}}}};
  std::string text = header.dump();
  const uint64_t size = text.size();
  std::string out(reinterpret_cast<const char*>(&size), 8);
  out += text;
  for (int64_t i = 0; i < m * 384; ++i) {
    const float v = static_cast<float>(i * 37 % 101 - 50) / 50;
    out.append(reinterpret_cast<const char*>(&v), 4);
  }
  spit(path, out);
}

}  // namespace

TEST_CASE("a pinned log lets oneDNN serve its ranges, and the program is right at every m on any number of threads") {
  if (skip_without_onednn()) return;
  Pinned pinned(5);
  const json compiled = pinned.make("extern.qcg");
  for (const json& kernel : compiled["kernels"]) {
    const bool by_vendor = kernel["m_min"].get<int64_t>() >= 5;
    CHECK((kernel["status"] == "extern") == by_vendor);
    CHECK(kernel["name"].get<std::string>().starts_with("oneDNN") == by_vendor);
  }
  const std::string program = pinned.dir / "extern.qcg";
  for (const char* threads : {"1", "2"}) {
    const Run checked = qcodegen({"check", program, "--graph", pinned.dir / "graph.json", "--weights", "random:1",
                                  "--m", "1,4,5,16,17,100,257,600", "--threads", threads});
    INFO(checked.out, checked.err);
    CHECK(checked.status == 0);
  }
  const Run bench = qcodegen({"bench", program, "--graph", pinned.dir / "graph.json", "--weights", "random:1", "--m",
                              "1,16", "--budget", "0.05", "--json"});
  INFO(bench.err);
  REQUIRE(bench.status == 0);
  const json rows = bench.json()["rows"];
  for (const json& row : rows) CHECK((row["status"] == "extern") == (row["m"] == 16));

  SUBCASE("moved away, started from elsewhere, without the graph: the same bits") {
    const std::string inputs = pinned.dir / "x.safetensors";
    write_inputs(inputs, 70);
    REQUIRE(
        qcodegen({"run", program, "--inputs", inputs, "--outputs", pinned.dir / "one.safetensors", "--threads", "1"})
            .status == 0);
    TempDir other;
    fs::create_directory(other / "deep");
    fs::rename(program, other / "deep/moved.qcg");
    fs::remove(pinned.dir / "graph.json");
    const std::string run = "cd '" + (other / "deep") + "' && exec '" + cli_path() +
                            "' run moved.qcg --threads 2 --inputs '" + inputs + "' --outputs two.safetensors";
    REQUIRE(run_program({"/bin/sh", "-c", run}).status == 0);
    const std::string one = slurp(pinned.dir / "one.safetensors");
    CHECK(one.size() > 70 * 200 * 4);
    CHECK(one == slurp(other / "deep/two.safetensors"));
  }
  SUBCASE("compiled again it is unchanged, and still says who serves") {
    const json again = pinned.make("extern.qcg");
    CHECK(again["unchanged"] == true);
    REQUIRE(again["kernels"].size() == compiled["kernels"].size());
    for (size_t i = 0; i < again["kernels"].size(); ++i)
      CHECK((again["kernels"][i]["status"] == "extern") == (compiled["kernels"][i]["status"] == "extern"));
  }
  SUBCASE("without the flag the same log makes a program that holds nothing of the vendor's") {
    const json never = compile(pinned.dir, "never.qcg", {"--tune=off", "--pin", pinned.dir / "pin.jsonl"});
    for (const json& kernel : never["kernels"]) CHECK(kernel["status"] != "extern");
    const std::string manifest = slurp(pinned.dir / "never.qcg/manifest.json");
    CHECK(manifest.find("onednn") == std::string::npos);
    CHECK(manifest.find("oneDNN") == std::string::npos);
    CHECK(slurp(pinned.dir / "extern.qcg/manifest.json").find("oneDNN") != std::string::npos);
  }
}

TEST_CASE("the log of a tuned compile says that oneDNN serves, and replays it") {
  if (skip_without_onednn()) return;
  Pinned pinned(1);
  const std::vector<std::string> more = {"--tune=fast", "--m", "1,16", "--extern=auto", "--pin"};
  auto with_pin = [&](const std::string& path) {
    std::vector<std::string> out = more;
    out.push_back(path);
    return out;
  };
  const json compiled = compile(pinned.dir, "a.qcg", with_pin(pinned.dir / "pin.jsonl"));
  REQUIRE(!compiled["kernels"].empty());
  for (const json& kernel : compiled["kernels"]) {
    CHECK(kernel["status"] == "extern");
    CHECK(kernel["median_us"].get<double>() > 0);
  }
  const Run log = qcodegen({"log", pinned.dir / "a.qcg", "--status", "extern"});
  REQUIRE(log.status == 0);
  CHECK(log.out.find("extern: oneDNN serves this range") != std::string::npos);
  CHECK(log.out.find("reference") == std::string::npos);
  const json again = compile(pinned.dir, "b.qcg", with_pin(pinned.dir / "a.qcg/tune.jsonl"));
  for (const json& kernel : again["kernels"]) CHECK(kernel["status"] == "extern");
}

TEST_CASE("where oneDNN is missing the program says so, and damage is still damage") {
  if (skip_without_onednn()) return;
  Pinned pinned(1);
  pinned.make("extern.qcg");
  const std::string program = pinned.dir / "extern.qcg", inputs = pinned.dir / "x.safetensors";
  write_inputs(inputs, 3);
  json manifest = json::parse(slurp(program + "/manifest.json"));
  const std::string module = vendor_module(manifest);
  REQUIRE(!module.empty());

  // The module of a machine whose oneDNN has another name: what the loader says is what it says where there is none.
  std::string bytes = slurp(program + "/" + module);
  const size_t at = bytes.find("libdnnl.so");
  REQUIRE(at != std::string::npos);
  bytes.replace(at, 7, "libnone");
  spit(program + "/" + module, bytes);
  const Run damaged = qcodegen({"run", program, "--inputs", inputs});
  CHECK(damaged.status == 1);
  CHECK(damaged.err.find("error[BadInput]") != std::string::npos);

  manifest["files"][module] = {{"bytes", bytes.size()}, {"sha256", sha256_of_file(program + "/" + module)}};
  spit(program + "/manifest.json", manifest.dump());
  spit(program + "/manifest.sha256", sha256_of_file(program + "/manifest.json"));
  const Run missing = qcodegen({"run", program, "--inputs", inputs});
  INFO(missing.err);
  CHECK(missing.status == 1);
  for (const char* part : {"error[Unsupported]", "calls oneDNN", "libnone.so", "libdnnl2", "--extern=never"})
    CHECK(missing.err.find(part) != std::string::npos);
}

TEST_CASE("a qcodegen that was built without oneDNN compiles all the same, and says that it goes without") {
  Pinned pinned(1);
  const std::string lonely = pinned.dir / "bin/qcodegen";  // where no module is beside it
  fs::create_directory(pinned.dir / "bin");
  fs::copy_file(cli_path(), lonely);
  std::vector<std::string> flags =
      compile_flags(pinned.dir, "p.qcg", {"--tune=off", "--extern=auto", "--pin", pinned.dir / "pin.jsonl"});
  flags.insert(flags.begin(), lonely);
  const Run run = run_program(flags);
  INFO(run.err);
  REQUIRE(run.status == 0);
  const json compiled = run.json();
  REQUIRE(compiled["warnings"].size() == 1);
  CHECK(compiled["warnings"][0].get<std::string>().find("oneDNN cannot be used") != std::string::npos);
  for (const json& kernel : compiled["kernels"]) CHECK(kernel["status"] != "extern");
}

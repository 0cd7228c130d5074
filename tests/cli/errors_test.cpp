// Exit status and text of what goes wrong: 1 the input or the result, 2 usage, 3 environment.
#include "tests/cli_runner.h"
#include "tests/paths.h"

using namespace qcg::test;

namespace {

const std::string kMlpWithoutWeights = source_path("examples/native/mlp_f32.json");

// The human form on stderr, the JSON form on stdout, the same status for both.
void check_error(std::vector<std::string> arguments, int status, const std::string& code,
                 const std::vector<std::string>& words) {
  const Run text = qcodegen(arguments);
  INFO("arguments: ", nlohmann::json(arguments).dump(), "\nstderr: ", text.err);
  CHECK(text.status == status);
  CHECK(text.err.find("error[" + code + "]: ") != std::string::npos);
  CHECK(text.err.find("\nhelp: ") != std::string::npos);
  for (const std::string& word : words) {
    INFO("word: ", word);
    CHECK(text.err.find(word) != std::string::npos);
  }
  CHECK(text.out.empty());
  arguments.push_back("--json");
  const Run machine = qcodegen(arguments);
  CHECK(machine.status == status);
  const auto error = machine.json()["error"];
  CHECK(error["code"] == code);
  CHECK(error["where"].is_string());
  CHECK(!error["message"].get<std::string>().empty());
  CHECK(!error["help"].get<std::string>().empty());
}

}  // namespace

TEST_CASE("usage errors exit with 2 and name the help to read") {
  check_error({"compile", kMlpWithoutWeights, "--bogus"}, 2, "Usage", {"--bogus", "qcodegen compile --help"});
  check_error({"compile"}, 2, "Usage", {"graph"});
  check_error({"frobnicate"}, 2, "Usage", {"frobnicate"});
  check_error({"compile", kMlpWithoutWeights, "--tune=sometimes"}, 2, "Usage", {"sometimes", "off|fast|full"});
  check_error({"compile", kMlpWithoutWeights, "--threads", "0"}, 2, "Usage", {"--threads"});
  check_error({"list", "colours"}, 2, "Usage", {"targets|schemes|microkernels|passes|ops|documents"});
  check_error({"cache", "gc", "--max-size", "many"}, 2, "Usage", {"many"});
  check_error({"check", "x.qcg", "--expected", "y.safetensors"}, 2, "Usage", {"--inputs"});
}

TEST_CASE("values that mean nothing are refused, not ignored") {
  const std::string linear = source_path("examples/native/linear_w8.json");
  check_error({"explain", kMlpWithoutWeights, "--print-after", "nonsense"}, 2, "Usage", {"nonsense", "list passes"});
  for (const std::string flag : {"--cat-max-parts", "--cat-min-width", "--cat-max-width"})
    check_error({"explain", kMlpWithoutWeights, flag, "-7"}, 2, "Usage", {flag});
  check_error({"check", linear, "--threads", "-5"}, 2, "Usage", {"--threads"});
  check_error({"check", linear, "--m", "1,-4"}, 2, "Usage", {"--m", "-4"});
  check_error({"check", linear, "--m", "0,4"}, 2, "Usage", {"--m", "m=0", "[1, 64]"});
  check_error({"bench", "p.qcg", "--against", "onednn,foo"}, 2, "Usage", {"foo", "onednn"});
  TempDir dir;
  const std::string program = dir / "p.qcg";
  REQUIRE(qcodegen({"compile", linear, "-o", program, "--tune=off"}).status == 0);
  for (const char* command :
       {"explain", "check", "bench"})  // of a program, --target names one that it was compiled for
    check_error({command, program, "--target", "cuda:sm_80"}, 1, "BadInput", {"cuda:sm_80", "it was compiled for cpu"});
  check_error({"explain", program, "--cat-max-parts", "2"}, 2, "Usage", {"--cat-max-parts"});
  CHECK(qcodegen({"explain", program, "--disable-pass", "cse"}).status == 0);
  check_error({"explain", linear, "--graph", linear}, 2, "Usage", {"--graph"});
  check_error({"check", linear, "--graph", linear}, 2, "Usage", {"--graph"});
  for (const char* flag : {"--m", "--trials", "--seed"})
    check_error({"check", program, "--inputs", "in.safetensors", flag, "2"}, 2, "Usage", {flag, "--inputs"});
  for (const char* seed : {"-1", "18446744073709551616", "1.5"})
    check_error({"check", program, "--seed", seed}, 2, "Usage", {"--seed", seed});
  for (const auto& [flag, value] :
       {std::pair{"--schemes", "w4"}, {"--shapes", "qkv"}, {"--dequant", "exact"}, {"--tune", "full"}})
    check_error({"bench", program, flag, value}, 2, "Usage", {flag, "--all"});
  for (const char* flag : {"--kernel", "--graph", "--weights"})
    check_error({"bench", "--all", flag, "x"}, 2, "Usage", {flag, "--all"});
  check_error({"bench", program, "--budget", "nan"}, 2, "Usage", {"--budget", "nan"});
  check_error({"bench", program, "--kernel", "zz", "--m", "1"}, 2, "Usage", {"explain"});
  check_error({"log", program, "--status", "bogus"}, 2, "Usage", {"bogus", "failed to build"});
  CHECK(qcodegen({"log", program, "--status", "failed to build"}).status == 1);  // a status, but no line has it
}

TEST_CASE("what is no number is said in a line") {
  for (const std::string value : {"0", "x", "1.5", "99999999999999999999"}) {
    check_error({"compile", kMlpWithoutWeights, "--m", value}, 2, "Usage",
                {"--m", "a whole number from 1", "'" + value + "'"});
    CHECK(qcodegen({"compile", kMlpWithoutWeights, "--m", value}).err.size() < 150);
  }
  check_error({"explain", kMlpWithoutWeights, "--cat-max-parts", "x"}, 2, "Usage", {"a whole number from 0"});
}

TEST_CASE("a command that is not there is named, also after options") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"foo"}, {"-q", "foo"}, {"--cache-dir", "/tmp", "foo", "--bar"}})
    check_error(arguments, 2, "Usage", {"there is no command 'foo'"});
  CHECK(qcodegen({"--json", "foo"}).json()["error"]["message"] == "there is no command 'foo'");
}

TEST_CASE("a list ends where its option's word ends") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"explain", "--weights", "random:1", kMlpWithoutWeights},
        {"explain", "--weights", "random:1", "--weights", "random:2", "--disable-pass", "cse", kMlpWithoutWeights},
        {"compile", "--m", "1,4", kMlpWithoutWeights, "--emit=graph"}}) {
    const Run run = qcodegen(arguments);
    INFO(nlohmann::json(arguments).dump(), run.err);
    CHECK(run.err.find("Usage") == std::string::npos);
  }
}

TEST_CASE("no argument at all prints the help and exits with 2") {
  const Run run = qcodegen({});
  CHECK(run.status == 2);
  CHECK(run.err.find("Usage: qcodegen") != std::string::npos);
  CHECK(run.err.find("compile") != std::string::npos);
}

TEST_CASE("a missing file is an error of the environment that names the file") {
  check_error({"compile", "/nowhere/graph.pt2"}, 3, "Io", {"/nowhere/graph.pt2"});
  check_error({"explain", "/nowhere/graph.json"}, 3, "Io", {"/nowhere/graph.json"});
}

TEST_CASE("a compiler that compiles no kernel is an error of the environment, whatever it says") {
  TempDir dir;
  // It answers questions about itself, as a compiler out of time or memory does.
  spit(dir / "g++",
       "#!/bin/sh\ncase \"$*\" in *.cpp*) echo 'kernel.cpp:1: error: no' >&2; exit 1;; esac\nexec /usr/bin/g++ "
       "\"$@\"\n");
  fs::permissions(dir / "g++", fs::perms::owner_all);
  check_error({"compile", kMlpWithoutWeights, "--weights", "random:1", "-o", dir / "a.qcg", "--tune=off", "--no-cache",
               "--cxx", dir / "g++"},
              3, "Toolchain", {"doctor"});
}

TEST_CASE("text that is no JSON is named by its file") {
  TempDir dir;
  spit(dir / "broken.json", "{\"graph_module\": [1,\n 2");
  check_error({"explain", dir / "broken.json"}, 1, "BadInput", {dir / "broken.json"});
}

TEST_CASE("damaged graphs are errors of the input") {
  TempDir dir;
  const std::string whole = slurp(source_path("examples/llama_mlp_int8/graph.pt2"));
  REQUIRE(whole.size() > 1000);
  for (const size_t size : {size_t{0}, size_t{3}, whole.size() / 2, whole.size() - 1}) {
    spit(dir / "cut.pt2", whole.substr(0, size));
    check_error({"compile", dir / "cut.pt2", "-o", dir / "out.qcg"}, 1, "BadInput", {"cut.pt2"});
    CHECK(!fs::exists(dir / "out.qcg"));
  }
  spit(dir / "cut.json", slurp(kMlpWithoutWeights).substr(0, 200));
  check_error({"compile", dir / "cut.json"}, 1, "BadInput", {"$.", "line ", "ends too early"});
}

TEST_CASE("all unsupported operators are listed at once, with source lines") {
  const std::string graph = shared_graph("llama_tiny_lm_f32/graph.json");
  if (graph.empty()) return;
  TempDir dir;
  std::string text = slurp(graph);
  for (const std::string& name : {std::string("aten.cumsum."), std::string("aten.silu.")})
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) text.replace(at, 5, "other.");
  spit(dir / "graph.json", text);
  check_error({"compile", dir / "graph.json"}, 1, "Unsupported",
              {"operators", "other.cumsum.default", "other.silu.default", "$.graph_module.graph.nodes[", ".py:"});
}

TEST_CASE("what is computed in f32 although it is f64 is said") {
  TempDir dir;
  spit(dir / "g.txt", R"(graph(%x: f64[3, 8], %i: i64[3, 8]) {
  %y = aten.lgamma.default(%x) : f64[3, 8]
  %z = aten.to.dtype(%i, f64) : f64[3, 8]
  %l = aten.logcumsumexp.default(%z, 1) : f64[3, 8]
  return %y, %l
}
)");
  const Run said = qcodegen({"explain", dir / "g.txt"});
  CHECK(said.status == 0);
  CHECK_MESSAGE(said.out.find("lgamma, aten.logcumsumexp.default of f64 are computed in f32") < said.out.size(),
                said.out);
  spit(dir / "g.txt", R"(graph(%x: f64[3, 8]) {
  %y = aten.add.Tensor(%x, 1.0) : f64[3, 8]
  %s = aten.sum.dim_IntList(%y, dim = [1]) : f64[3]
  return %y, %s
}
)");
  CHECK(qcodegen({"explain", dir / "g.txt"}).out.find("warning") == std::string::npos);
}

TEST_CASE("a product in f64 is refused by its name, with the remedy") {
  TempDir dir;
  spit(dir / "f64.json", R"({"format": "qcodegen", "version": 1,
    "inputs": [{"name": "x", "dtype": "f64", "shape": [3, 8]}],
    "parameters": [{"name": "w", "dtype": "f64", "shape": [4, 8]}],
    "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w"}, "outputs": ["proj"]}], "outputs": ["proj"]})");
  check_error({"compile", dir / "f64.json", "--weights", "random:1", "-o", dir / "out.qcg"}, 1, "Unsupported",
              {"$.nodes[0]", "proj", "f64", "model.float()"});
}

TEST_CASE("tensor subclasses are refused with their remedy") {
  const std::string graph = shared_graph("llama_mlp_int8wo_subclass/graph.pt2");
  if (graph.empty()) return;
  check_error({"compile", graph}, 1, "Unsupported", {"unwrap_tensor_subclass"});
}

TEST_CASE("names that are not known are refused with the ones that are") {
  check_error({"compile", kMlpWithoutWeights, "--weights", "random:1", "--target", "cpu:6502"}, 2, "Usage",
              {"6502", "cpu:portable"});
  check_error({"compile", kMlpWithoutWeights, "--weights", "random:1", "--disable-pass", "make_coffee"}, 2, "Usage",
              {"make_coffee", "merge_sibling_linears"});
}

TEST_CASE("a missing weight is named") {
  TempDir dir;
  check_error({"compile", kMlpWithoutWeights, "-o", dir / "out.qcg"}, 1, "BadInput", {"--weights"});
}

TEST_CASE("no compiler, no output directory: errors of the environment") {
  TempDir dir;
  check_error({"compile", kMlpWithoutWeights, "--weights", "random:1", "-o", dir / "out.qcg", "--cxx", "/nowhere/g++"},
              3, "Toolchain", {"/nowhere/g++"});
  check_error({"compile", kMlpWithoutWeights, "--weights", "random:1", "--tune=off", "-o", "/proc/nowhere/out.qcg"}, 3,
              "Io", {"/proc/nowhere"});
}

TEST_CASE("a bad -o is said before anything is built; one with a slash is good") {
  TempDir dir;
  const std::vector<std::string> compile = {"compile",  kMlpWithoutWeights, "--weights",
                                            "random:1", "--tune=off",       "--no-cache"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), compile.begin(), compile.end());
    return more;
  };
  // No kernel could be built with this: the destination is looked at first.
  spit(dir / "g++", "#!/bin/sh\ncase \"$*\" in *.cpp*) exit 1;; esac\nexec /usr/bin/g++ \"$@\"\n");
  fs::permissions(dir / "g++", fs::perms::owner_all);
  fs::create_directory(dir / "other");
  spit(dir / "file", "");
  check_error(with({"--cxx", dir / "g++", "-o", dir / "other"}), 3, "Io", {dir / "other", "not a program"});
  check_error(with({"--cxx", dir / "g++", "-o", dir / "file"}), 3, "Io", {dir / "file", "not a program"});
  check_error(with({"--cxx", dir / "g++", "-o", dir / "none/p.qcg"}), 3, "Io", {dir / "none/p.qcg", "No such file"});
  check_error(with({"--cxx", dir / "g++", "-o", dir / "file/p.qcg"}), 3, "Io", {dir / "file/p.qcg"});
  for (int i = 0; i < 2; ++i) {
    const Run run = qcodegen(
        {"compile", kMlpWithoutWeights, "--weights", "random:1", "--tune=off", "-o", dir / "p.qcg/", "--json"});
    INFO(run.err);
    CHECK(run.status == 0);
    CHECK(run.json()["program"] == dir / "p.qcg");
    CHECK(fs::exists(dir / "p.qcg/manifest.json"));
  }
}

TEST_CASE("a directory that is no program, and a damaged program") {
  TempDir dir;
  fs::create_directory(dir / "empty.qcg");
  check_error({"run", dir / "empty.qcg", "--inputs", "in.safetensors"}, 3, "Io", {"empty.qcg/manifest.json"});
  const std::string program = dir / "p.qcg";
  REQUIRE(qcodegen({"compile", source_path("examples/native/linear_w8.json"), "-o", program, "--tune=off"}).status ==
          0);
  for (const std::string file : {"manifest.json", "weights.bin"}) {
    INFO(file);
    const std::string whole = slurp(program + "/" + file);
    REQUIRE(!whole.empty());
    std::string flipped = whole;
    flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 1);
    fs::permissions(program + "/" + file, fs::perms::owner_all);
    for (const std::string& damaged : {flipped, whole.substr(0, whole.size() / 2)}) {
      spit(program + "/" + file, damaged);
      const Run run = qcodegen({"check", program});
      INFO(run.err);
      CHECK(run.status == 1);
      CHECK(run.err.find("error[") != std::string::npos);
      CHECK(run.err.find(file) != std::string::npos);
    }
    spit(program + "/" + file, whole);
  }
}

TEST_CASE("inputs of the wrong name, shape or dtype are named") {
  TempDir dir;
  const std::string program = dir / "p.qcg";
  REQUIRE(qcodegen({"compile", source_path("examples/native/linear_w8.json"), "-o", program, "--tune=off"}).status ==
          0);
  auto tensor_file = [&](const std::string& header, size_t bytes) {
    std::string text(8, '\0');
    for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i));
    spit(dir / "in.safetensors", text + header + std::string(bytes, '\0'));
  };
  tensor_file(R"({"z":{"dtype":"F32","shape":[1,8],"data_offsets":[0,32]}})", 32);
  check_error({"run", program, "--inputs", dir / "in.safetensors"}, 1, "BadInput", {"x", "in.safetensors"});
  tensor_file(R"({"x":{"dtype":"F32","shape":[1,9],"data_offsets":[0,36]}})", 36);
  check_error({"run", program, "--inputs", dir / "in.safetensors"}, 1, "BadInput", {"x", "8", "9"});
  tensor_file(R"({"x":{"dtype":"F32","shape":[65,8],"data_offsets":[0,2080]}})", 2080);
  check_error({"run", program, "--inputs", dir / "in.safetensors"}, 1, "BadInput", {"65", "64"});
  tensor_file(R"({"x":{"dtype":"I32","shape":[1,8],"data_offsets":[0,32]}})", 32);
  check_error({"run", program, "--inputs", dir / "in.safetensors"}, 1, "BadInput", {"x", "i32", "f32"});
}

TEST_CASE("paths that cannot be looked at are errors of the environment, not bugs") {
  const std::string graph = source_path("examples/native/linear_w8.json"), too_long(300, 'a');
  check_error({"check", too_long}, 3, "Io", {too_long});
  check_error({"log", too_long}, 3, "Io", {too_long});
  const Run run = run_program({"/usr/bin/env", "TMPDIR=/nonexistent", cli_path(), "check", graph});
  CHECK(run.status == 3);
  CHECK(run.err.find("error[Io]: ") != std::string::npos);
  CHECK(run.err.find("TMPDIR") != std::string::npos);
}

TEST_CASE("a result that cannot be written is an error of the environment") {
  const std::string cli = cli_path(), graph = source_path("examples/native/linear_w8.json");
  for (const std::string& command : {cli + " list ops --json", cli + " explain " + graph, cli + " list ops",
                                     cli + " compile --emit=source " + graph, cli + " explain /nowhere --json"}) {
    const Run run = run_program({"/bin/sh", "-c", command + " >/dev/full"});
    INFO(command, "\n", run.err);
    CHECK(run.status == 3);
    CHECK(run.err.find("error[Io]: stdout: ") != std::string::npos);
  }
}

TEST_CASE("what has no room is named as it was asked for, with what helps there") {
  TempDir dir;
  const std::string program = dir / "p.qcg", inputs = source_path("examples/llama_mlp_int8/m5.inputs.safetensors");
  REQUIRE(qcodegen({"compile", source_path("examples/llama_mlp_int8/graph.pt2"), "-o", program, "--tune=off"}).status ==
          0);
  const std::string file = dir / "none/out";
  check_error({"run", program, "--inputs", inputs, "--outputs", file}, 3, "Io", {"error[Io]: " + file + ": "});
  check_error({"cache", "export", "/dev/full"}, 3, "Io", {"/dev/full", "free some space there"});
  const std::string run_to = " run " + program + " --inputs " + inputs + " --outputs ";
  for (const std::string& command : {run_to, std::string(" cache export ")}) {
    const Run run = run_program({"/bin/sh", "-c", "ulimit -f 1; exec " + cli_path() + command + (dir / "out")});
    INFO(command, run.err);
    CHECK(run.status == 3);
    CHECK(run.err.find("error[Io]: " + (dir / "out")) != std::string::npos);
    CHECK(!fs::exists(dir / "out"));
  }
}

TEST_CASE("sizes that no memory holds are an error of the environment, not a bug") {
  TempDir dir;
  spit(dir / "g.txt", R"(symbol m in [1, 9223372036854775807]
graph(%x: f32[m]) {
  %y = aten.relu.default(%x) : f32[m]
  return %y
}
)");
  check_error({"check", dir / "g.txt", "--m", "2305843009213693951"}, 3, "Io", {"memory", "smaller sizes"});
}

TEST_CASE("an empty word names nothing") {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"run", "", "--inputs", "x"},
                                                    {"run", "p.qcg", "--inputs", "x", "--outputs", ""},
                                                    {"compile", kMlpWithoutWeights, "-o", ""},
                                                    {"cache", "export", ""},
                                                    {"cache", "stats", "--cache-dir", ""}})
    check_error(arguments, 2, "Usage", {"must not be empty"});
}

TEST_CASE("a stderr that cannot be written changes no exit status") {
  TempDir dir;
  const std::string cli = cli_path(), graph = source_path("examples/native/linear_w8.json");
  const std::string compile = cli + " compile " + graph + " --tune=off -v -o " + (dir / "p.qcg");
  for (const std::string where : {" 2>&-", " 2>/dev/full"})
    for (const auto& [command, status] :
         {std::pair{cli + " --bogus", 2}, {cli, 2}, {cli + " log /nowhere --json", 3}, {compile, 0}}) {
      INFO(command, where);
      CHECK(run_program({"/bin/sh", "-c", command + where}).status == status);
    }
  CHECK(qcodegen({"check", dir / "p.qcg"}).status == 0);
}

TEST_CASE("a program whose graph moved is explained with --graph, as the error says") {
  TempDir dir;
  const std::string program = dir / "p.qcg", graph = dir / "g.json", moved = dir / "moved.json";
  fs::copy_file(source_path("examples/native/linear_w8.json"), graph);
  REQUIRE(qcodegen({"compile", graph, "-o", program, "--tune=off"}).status == 0);
  fs::rename(graph, moved);
  check_error({"explain", program}, 1, "BadInput", {graph, "--graph FILE"});
  CHECK(qcodegen({"explain", program, "--graph", moved}).status == 0);
}

TEST_CASE("a cache directory that is none is refused by cache, and said by compile") {
  TempDir dir;
  const std::vector<std::pair<std::vector<std::string>, std::string>> places = {
      {{"-u", "HOME"}, "$HOME/.cache/qcodegen"}, {{"HOME=rel"}, "rel/.cache/qcodegen"}, {{"QCG_CACHE_DIR=rel"}, "rel"}};
  for (const auto& [place, named] : places) {
    INFO(named);
    std::vector<std::string> cli = {"/usr/bin/env", "-u", "XDG_CACHE_HOME", "-u", "QCG_CACHE_DIR"};
    cli.insert(cli.end(), place.begin(), place.end());
    cli.push_back(cli_path());
    const auto run = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.begin(), cli.begin(), cli.end());
      return run_program(arguments);
    };
    for (const char* command : {"path", "stats"}) {
      const Run refused = run({"cache", command});
      INFO(refused.err);
      CHECK(refused.status == 3);
      CHECK(refused.out.empty());
      CHECK(refused.err.find("error[Io]: " + named + ": ") != std::string::npos);
      CHECK(refused.err.find("QCG_CACHE_DIR") != std::string::npos);
    }
    const std::string graph = source_path("examples/native/linear_w8.json");
    const Run compiled = run({"compile", graph, "-o", dir / "p.qcg", "--tune=off", "--m", "1"});
    CHECK(compiled.status == 0);
    CHECK(compiled.err.find("warning: working without a cache: error[Io]: " + named + ": ") != std::string::npos);
    CHECK(run({"compile", graph, "-o", dir / "p.qcg", "--tune=off", "--m", "1", "--no-cache"}).err.empty());
  }
}

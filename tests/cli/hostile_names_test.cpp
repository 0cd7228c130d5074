// No string of an input file becomes code, a path, a shell word or a compiler argument: a graph whose every name is
// hostile gives the same generated tokens as one with harmless names, and leaves no trace outside its output.
#include "tests/cli_runner.h"

using namespace qcg::test;

namespace {

// A graph with every name made of `text`; the reader's rule of unique names is kept by a digit at the end.
std::string graph_named(const std::string& text) {
  auto name = [&](int i) {
    return nlohmann::json(text + std::to_string(i)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  return "{\"format\": \"qcodegen\", \"version\": 1, \"name\": " + name(0) + ", \"symbols\": {\"m\": [1, 64]}," +
         "\"inputs\": [{\"name\": " + name(1) + ", \"dtype\": \"f32\", \"shape\": [\"m\", 8]}]," +
         "\"parameters\": [{\"name\": " + name(2) + ", \"dtype\": \"f32\", \"shape\": [4, 8]}," +
         "{\"name\": " + name(3) + ", \"dtype\": \"f32\", \"shape\": [4]}]," +
         "\"nodes\": [{\"op\": \"linear\", \"inputs\": {\"input\": " + name(1) + ", \"weight\": " + name(2) +
         ", \"bias\": " + name(3) + "}, \"outputs\": [" + name(4) +
         "]}, {\"op\": \"relu\", \"inputs\": {\"self\": " + name(4) + "}, \"outputs\": [" + name(5) + "]}]," +
         "\"outputs\": [" + name(5) + "]}";
}

// C++ without comments, as a compiler reads it: line splices first, then comments, strings kept.
std::string without_comments(const std::string& source) {
  std::string spliced;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\' && i + 1 < source.size() && source[i + 1] == '\n') ++i;
    else spliced += source[i];
  }
  std::string out;
  for (size_t i = 0; i < spliced.size();) {
    if (spliced.compare(i, 2, "//") == 0) {
      while (i < spliced.size() && spliced[i] != '\n') ++i;
    } else if (spliced.compare(i, 2, "/*") == 0) {
      const size_t end = spliced.find("*/", i + 2);
      i = end == std::string::npos ? spliced.size() : end + 2;
    } else if (spliced[i] == '"' || spliced[i] == '\'') {
      const char quote = spliced[i];
      out += spliced[i++];
      while (i < spliced.size() && spliced[i] != quote) {
        if (spliced[i] == '\\') out += spliced[i++];
        if (i < spliced.size()) out += spliced[i++];
      }
      if (i < spliced.size()) out += spliced[i++];
    } else {
      out += spliced[i++];
    }
  }
  // Blank lines are what comments leave behind.
  std::string lines, line;
  std::istringstream in(out);
  while (std::getline(in, line))
    if (line.find_first_not_of(" \t\r\f\v") != std::string::npos) lines += line + "\n";
  return lines;
}

std::vector<std::string> hostile_strings(const std::string& canary) {
  // clang-format off
  std::vector<std::string> out = {
      "\\", "\\\n", "\\\r\n", "a\\", "?\?/", "?\?/\n", "*/", "/*", "//", "\n", "\r", "\r\n", "\f", "\v", "\t", "\b", "\x7f", "\x01", "\x1b[31m",
      "\"", "'", "\"\"\"", "R\"(", ")\"", "\"); abort(); (\"", "';abort();'", "\n#error hostile\n", "\n#include \"/etc/passwd\"\n", "#define if while",
      "\n#pragma GCC error \"x\"\n", "_Pragma(\"once\")", "__FILE__", "__attribute__((constructor))", "\nint main() {}\n", "*/ int x = 1; /*",
      "*/\n#error hostile\n/*", "{{ name }}", "{% for x in y %}", "{# x #}", "<< x >>", "<% x %>", "$<TARGET_FILE:x>", "%s%s%s%n", "%d", "{}", "{0}", "{:x}",
      "$(touch " + canary + ")", "`touch " + canary + "`", "; touch " + canary + " ;", "| touch " + canary, "&& touch " + canary, "$HOME", "${HOME}", "~",
      "-o" + canary, "-include /etc/passwd", "--version", "-fplugin=" + canary, "@/etc/passwd", "-", "--", "*", "?", "[a-z]", "!", "^", ">" + canary,
      "..", "../", "../../" + canary, "/", "/etc/passwd", "/dev/null", "a/b", "./a", ".", "con", "nul", "file.so", "kernels/x.so", "manifest.json",
      "\xc3\xa9", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xae", "\xef\xbb\xbf", "\xf0\x9f\x92\xa5", "\xd7\x90", "\xcc\x81", "\xe3\x80\x80", "\xc2\xa0", "\xc2\x85",
      "int", "return", "class", "namespace", "main", "abort", "printf", "asm", "goto", "x", "y", "m", "acc0", "qcg_call", "params", "__LINE__", "NULL", "nan",
      " ", "  ", "a b", "a\tb", "a;b", "a,b", "a=b", "a:b", "a::b", "a.b", "a->b", "a+b", "a<b>", "a(b)", "a[b]", "a{b}", "a@b", "a#b", "a$b", "a%b", "a&b", "a|b",
      "%", "@", "$", "#", "&", "<", ">", "<!--", "-->", "<script>alert(1)</script>", "]]>", "&amp;", "null", "true", "[1]", "{\"a\": 1}", "1e999", "-0", "0x10",
      std::string(200, 'A'), std::string(1000, 'z'), std::string(300, '\\'), std::string(300, '"'), std::string(100, '\n')};
  // clang-format on
  // Every string once more where a comment line would end in it, and inside a word.
  const size_t plain = out.size();
  for (size_t i = 0; i < 40; ++i) out.push_back("tail " + out[i] + "\\");
  for (size_t i = 0; i < plain && out.size() < 320; ++i)
    if (out[i].size() < 100) out.push_back("w" + out[i] + "w");
  return out;
}

}  // namespace

TEST_CASE("hostile names leave the generated tokens unchanged") {
  TempDir dir;
  const std::string canary = dir / "canary", graph = dir / "graph.json";
  auto source_of = [&](const std::string& name) {
    spit(graph, graph_named(name));
    return qcodegen({"compile", graph, "--weights", "random:1", "-o", dir / "out.qcg", "--emit=source", "--target",
                     "cpu:portable"});
  };
  const Run plain = source_of("plain");
  INFO(plain.err);
  REQUIRE(plain.status == 0);
  const std::string tokens = without_comments(plain.out);
  REQUIRE(tokens.find("#include") != std::string::npos);
  CHECK(tokens.find("plain") == std::string::npos);
  int refused = 0;
  const auto strings = hostile_strings(canary);
  CHECK(strings.size() >= 200);
  for (const std::string& hostile : strings) {
    INFO("name: ", nlohmann::json(hostile).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
    const Run run = source_of(hostile);
    if (run.status == 0) {
      CHECK(without_comments(run.out) == tokens);
    } else {  // refusing is safe too, if it is said
      CHECK(run.status == 1);
      CHECK(run.err.find("error[BadInput]") != std::string::npos);
      ++refused;
    }
    CHECK(!fs::exists(canary));
  }
  INFO("refused: ", refused);
  CHECK(refused < static_cast<int>(strings.size()) / 2);
}

TEST_CASE("hostile names do not drive the terminal, nor break a table") {
  TempDir dir;
  const std::string graph = dir / "graph.json", program = dir / "out.qcg";
  spit(graph, graph_named("a\x1b[2J\xc2\x9b"
                          "1m\r\nb"));
  const std::vector<std::vector<std::string>> commands = {
      {"compile", graph, "--weights", "random:1", "-o", program, "--tune=off", "--explain", "-v"},
      {"compile", graph, "--weights", "random:1", "--emit=plan"},
      {"explain", graph},
      {"explain", program},
      {"check", program},
      {"log", program},
      {"log", program, "--format", "csv"},
      {"run", program, "--inputs", source_path("examples/llama_mlp_int8/m5.inputs.safetensors")},
      {"bench", program, "--m", "1", "--budget", "0.05"},
      {"compile", graph, "-o", dir / "no.qcg"},
      {"compile", dir / "\x1b[2J"}};
  for (const auto& command : commands) {
    INFO(command[0]);
    const Run run = qcodegen(command);
    INFO(run.out, run.err);
    CHECK(!(run.out + run.err).empty());
    for (const char* raw : {"\x1b", "\xc2\x9b", "\r"}) {
      CHECK(run.out.find(raw) == std::string::npos);
      CHECK(run.err.find(raw) == std::string::npos);
    }
  }
  CHECK(qcodegen({"check", program}).out.find("\na\\x1b[2J\\x9b1m\\x0d\\x0ab5  oracle") != std::string::npos);
}

TEST_CASE("a graph whose every name is hostile compiles to a program that loads and is right") {
  TempDir dir;
  const std::string canary = dir / "canary";
  spit(dir / "graph.json", graph_named("*/ \"; $(touch " + canary + ")\n#error hostile\n../\\"));
  const Run compiled =
      qcodegen({"compile", dir / "graph.json", "--weights", "random:1", "-o", dir / "out.qcg", "--tune=off"});
  INFO(compiled.err);
  REQUIRE(compiled.status == 0);
  const Run checked = qcodegen({"check", dir / "out.qcg", "--json"});
  INFO(checked.err);
  CHECK(checked.status == 0);
  CHECK(checked.json()["ok"] == true);
  CHECK(!fs::exists(canary));
}

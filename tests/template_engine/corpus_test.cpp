// The fragments of corpus.json: same text or same kind of error as jinja2 (recorded by jinja_corpus.py), and a walk
// over mutations of them that must end in a Result, whatever it is.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "codegen/template_engine/template_engine.h"
#include "tests/paths.h"

using Json = nlohmann::ordered_json;
using qcg::Error;
using qcg::Result;
using qcg::TemplateEngine;
using qcg::TemplateLimits;
using qcg::TemplateValue;

namespace {

Json read_corpus() {
  std::ifstream file(qcg::test::source_dir() + "/tests/template_engine/corpus.json");
  REQUIRE(file.is_open());
  return Json::parse(file);
}

TemplateValue to_value(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_null()) return nullptr;
  TemplateValue value = json.is_array() ? TemplateValue::list() : TemplateValue::dict();
  for (auto it = json.begin(); it != json.end(); ++it)
    if (json.is_array()) value.push_back(to_value(*it));
    else value[it.key()] = to_value(it.value());
  return value;
}

Result<std::string> render_fragment(const Json& fragment, const std::string& text, TemplateLimits limits = {}) {
  TemplateEngine engine(
      [&](std::string_view name) -> Result<std::string> {
        if (name == "main") return text;
        auto includes = fragment.value("includes", Json::object());
        if (auto it = includes.find(std::string(name)); it != includes.end()) return it->get<std::string>();
        return Error::io(std::string(name), "no such template", "check the name");
      },
      limits);
  return engine.render("main", to_value(fragment.value("context", Json::object())));
}

// Bytes flipped, removed, doubled, or pieces of other fragments spliced in.
std::string mutate(std::string text, const Json& corpus, std::mt19937& random) {
  static const std::string kPieces[] = {"<%",
                                        "%>",
                                        "<$",
                                        "$>",
                                        "<#",
                                        "#>",
                                        "-",
                                        "+",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "|",
                                        ".",
                                        " if ",
                                        " for x in ",
                                        "<% endfor %>",
                                        "<% raw %>",
                                        "\"",
                                        "'",
                                        "\\",
                                        "\n",
                                        "9223372036854775807",
                                        "\xff"};
  auto below = [&](std::size_t n) { return n ? random() % n : 0; };
  for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
    std::size_t at = below(text.size() + 1), length = below(std::min<std::size_t>(12, text.size() - at) + 1);
    switch (below(5)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, kPieces[below(std::size(kPieces))]); break;
      case 2: text.insert(at, text.substr(at, length)); break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      default: {
        std::string other = corpus[below(corpus.size())]["template"];
        std::size_t from = below(other.size() + 1);
        text.insert(at, other.substr(from, below(40)));
      }
    }
  }
  return text;
}

}  // namespace

TEST_CASE("every fragment gives what jinja2 gives") {
  Json corpus = read_corpus();
  CHECK(corpus.size() >= 150);
  for (const auto& fragment : corpus) {
    std::string name = fragment["name"], text = fragment["template"];
    CAPTURE(name);
    CAPTURE(text);
    auto result = render_fragment(fragment, text);
    if (fragment.contains("expected")) {
      CHECK_MESSAGE(result.ok(), (result.ok() ? "" : result.error().to_string()));
      if (result.ok()) CHECK(*result == fragment["expected"].get<std::string>());
    } else {
      CHECK_MESSAGE(!result.ok(), "rendered: ", (result.ok() ? *result : ""));
      if (result.ok()) continue;
      const std::string kind = fragment["error"].get<std::string>() + ": ";
      CHECK_MESSAGE(result.error().message.rfind(kind, 0) == 0, kind, "expected, got ", result.error().to_string());
      CHECK(result.error().code == qcg::ErrorCode::BadInput);
      CHECK(!result.error().where.empty());
      CHECK(!result.error().help.empty());
    }
  }
}

TEST_CASE("mutated fragments render or fail, and never crash") {
  const char* given = std::getenv("QCG_TEST_SEED");
  unsigned seed = given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : 20240607u;
  Json corpus = read_corpus();
  std::mt19937 random(seed);
  int rendered = 0;
  TemplateLimits limits{.max_output = 20'000, .max_steps = 5'000};
  for (int round = 0; round < 6000; ++round) {
    const Json& fragment = corpus[random() % corpus.size()];
    std::string text = mutate(fragment["template"], corpus, random);
    INFO("seed ", seed, " round ", round, " text ", text);
    auto result = render_fragment(fragment, text, limits);
    rendered += result.ok();
    CHECK((result.ok() || !result.error().message.empty()));
  }
  CHECK_MESSAGE(rendered > 300, "seed ", seed, ": mutations that never render test only the parser");
}

#include "graph/read/files/json.h"

#include <chrono>

#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

bool accepts(std::string_view text) { return JsonDocument::parse(text, "").ok(); }

std::string error_text(std::string_view text, const JsonLimits& limits = {}) {
  auto document = JsonDocument::parse(text, "", limits);
  return document.ok() ? "" : document.error().to_string();
}

}  // namespace

TEST_CASE("json: values, keys and iteration") {
  std::string text = R"( {"a": [1, -2.5, "x\u00e9\ud83d\ude00\n", true, null], "b c": {"d": {}}, "e": []} )";
  auto document = JsonDocument::parse(text, "");
  REQUIRE(document.ok());
  JsonCursor root = document->root();
  CHECK(root.size() == 3);
  std::vector<std::string> keys;
  for (JsonCursor member : root) keys.emplace_back(member.key());
  CHECK(keys == std::vector<std::string>{"a", "b c", "e"});
  std::vector<JsonCursor> items;
  JsonCursor list = *root.find("a");
  for (JsonCursor item : list) items.push_back(item);
  REQUIRE(items.size() == 5);
  CHECK(*items[0].integer() == 1);
  CHECK(*items[1].real() == -2.5);
  CHECK(*items[2].string() == "x\xc3\xa9\xf0\x9f\x98\x80\n");
  CHECK(*items[3].boolean());
  CHECK(items[4].is(JsonKind::null));
  CHECK(items[3].path() == "$.a[3]");
  CHECK(root.find("b c")->find("d")->path() == "$['b c'].d");
  CHECK_FALSE(root.find("zzz").has_value());
  CHECK(root.find("e")->begin() == root.find("e")->end());
}

TEST_CASE("json: what is missing or of another kind is named by its path") {
  std::string text = R"({"a": [{"b": 1}], "n": "Infinity", "m": "-Infinity", "x": "NaN"})";
  auto document = JsonDocument::parse(text, "weights.json");
  REQUIRE(document.ok());
  JsonCursor item = *(*document->root().find("a")).begin();
  CHECK(item.string_at("b").error().where == "weights.json: $.a[0].b");
  CHECK(contains(item.string_at("b").error().message, "expected a string, found an integer"));
  CHECK(contains(item.at("c").error().message, "'c' is missing"));
  CHECK(*document->root().find("n")->real() == INFINITY);
  CHECK(*document->root().find("m")->real() == -INFINITY);
  CHECK(std::isnan(*document->root().find("x")->real()));
}

TEST_CASE("json: accepts and refuses what nlohmann does") {
  // clang-format off
  const char* texts[] = {
      "", " ", "{}", "[]", "null", "true", "false", "tru", "nul", "0", "-0", "-", "01", "1.", ".5", "1.5e3", "1e", "1e+", "1E-7", "+1", "0x1",
      "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e308", "1e400", "[1,]", "[,1]", "[1 2]", "[1", "]", "{\"a\":}",
      "{\"a\"}", "{\"a\" 1}", "{a:1}", "{\"a\":1,}", "{\"a\":1", "\"", "\"a", "\"\\\"", "\"\\q\"", "\"\\u12\"", "\"\\ud800\"", "\"\\ud800\\u0041\"",
      "\"\\udc00\"", "\"\\ud83d\\ude00\"", "\"\t\"", "\"\x7f\"", "\"\xc3\xa9\"", "\"\xc3\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
      "\"\xff\"", "[] []", "{} x", "[[[[]]]]", "{\"a\":{\"b\":[1,{\"c\":null}]}}", "\xef\xbb\xbf{}", "/* */ 1", "'a'", "[1,\n2,\r\n\t3]",
      "\"\\u0000\"", "\"\\/\\b\\f\\n\\r\\t\\\\\""};
  // clang-format on
  for (const char* text : texts) {
    INFO(std::string(text));
    // A byte order mark is the one difference: nlohmann skips it, exporters do not write it.
    if (std::string_view(text).starts_with("\xef\xbb\xbf")) continue;
    CHECK(accepts(text) == nlohmann::json::accept(text));
  }
  CHECK_FALSE(accepts(std::string_view("{\"a\":\0 1}", 9)));
}

TEST_CASE("json: random texts are accepted or refused as by nlohmann, and mean the same") {
  uint64_t state = 12345;
  auto next = [&](size_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<size_t>(state >> 33) % n;
  };
  // clang-format off
  const std::string pieces[] = {"{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "1", "-2.5", "1e3", "true", "null", " ", "\"\\u0041\"", "\"", "\\", "0"};
  // clang-format on
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t n = next(9) + 1; n > 0; --n) text += pieces[next(std::size(pieces))];
    INFO("seed 12345, round " << round << ": " << text);
    auto mine = JsonDocument::parse(text, "");
    auto theirs = nlohmann::json::parse(text, nullptr, false);
    bool duplicate = !mine.ok() && contains(mine.error().message, "occurs twice");
    CHECK((mine.ok() || duplicate) == !theirs.is_discarded());
    if (mine.ok() && theirs.is_array()) CHECK(mine->root().size() == theirs.size());
  }
}

TEST_CASE("json: duplicate keys, however they are spelled and however many keys there are") {
  CHECK(contains(error_text(R"({"a": 1, "b": 2, "a": 3})"), "'a' occurs twice"));
  CHECK(contains(error_text(R"({"a": 1, "\u0061": 3})"), "'a' occurs twice"));
  CHECK(contains(error_text(R"({"x": {"k": {"a": 1, "a": 3}}})"), "$.x.k"));
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += "\"k" + std::to_string(i) + "\": 0, ";
  CHECK(accepts(many + "\"z\": 1}"));
  CHECK(contains(error_text(many + "\"k7\": 1}"), "'k7' occurs twice"));
}

TEST_CASE("json: limits on depth, length and number of values") {
  std::string deep = std::string(200, '[') + std::string(200, ']');
  CHECK(accepts(deep));
  CHECK(contains(error_text("[" + deep + "]"), "nested deeper than 200"));
  CHECK(contains(error_text(std::string(1 << 20, '[')), "nested deeper than 200"));
  JsonLimits limits;
  limits.values = 10;
  CHECK(contains(error_text("[1,1,1,1,1,1,1,1,1,1]", limits), "more than 10 values"));
  limits.text_bytes = 5;
  CHECK(contains(error_text("[1,1,1]", limits), "7 bytes long"));
}

TEST_CASE("json: truncation and position") {
  std::string text = small_export().dump(1);
  for (size_t n = 0; n < text.size(); n += 7) {
    std::string cut = text.substr(0, n);
    auto document = JsonDocument::parse(cut, "");
    REQUIRE_FALSE(document.ok());
    CHECK(contains(document.error().to_string(), "(line "));
  }
  CHECK(contains(error_text("{\"a\": [1,\n  x]}"), "$.a (line 2, column 3)"));
}

// The API of the template engine, its error messages, its limits, and what it refuses that jinja2 allows.
#include "codegen/template_engine/template_engine.h"

#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <thread>

using qcg::Error;
using qcg::ErrorCode;
using qcg::render_string;
using qcg::Result;
using qcg::TemplateEngine;
using qcg::TemplateLimits;
using qcg::TemplateValue;

namespace {

std::string text_of(std::string_view text, const TemplateValue& context = {}) {
  auto result = render_string(text, context);
  return result.ok() ? *result : "ERROR " + result.error().to_string();
}

Error error_of(std::string_view text, const TemplateValue& context = {}, TemplateLimits limits = {}) {
  auto result = render_string(text, context, "t.j2", limits);
  REQUIRE_MESSAGE(!result.ok(), "rendered: ", *result);
  return result.error();
}

bool starts_with(const std::string& text, std::string_view start) { return text.rfind(start, 0) == 0; }

TemplateEngine engine_of(std::map<std::string, std::string> files, TemplateLimits limits = {}) {
  return TemplateEngine(
      [files](std::string_view name) -> Result<std::string> {
        auto found = files.find(std::string(name));
        if (found != files.end()) return found->second;
        return Error::io(std::string(name), "no such template", "look again");
      },
      limits);
}

}  // namespace

TEST_CASE("a context is built from initializer lists and by key") {
  auto v = TemplateValue::dict({{"mr", 8}, {"isa", "avx2"}, {"scale", 0.5}, {"wide", true}, {"nothing", nullptr}});
  v["rows"].push_back(1);
  v["rows"].push_back("two");
  v["tile"]["nr"] = 16;
  v["names"] = TemplateValue::list({"a", std::string("b")});
  v["sizes"] = std::vector<std::size_t>{1, 2};
  CHECK(text_of("<$ mr $> <$ isa $> <$ scale $> <$ wide $> <$ nothing $>", v) == "8 avx2 0.5 True None");
  CHECK(text_of("<$ rows $> <$ tile.nr $> <$ names|join $> <$ sizes $>", v) == "[1, 'two'] 16 ab [1, 2]");
  CHECK(text_of("<% for k, v in d.items() %><$ k $><$ v $> <% endfor %>",
                TemplateValue::dict({{"d", TemplateValue::dict({{"z", 1}, {"a", 2}, {"z", 3}})}})) == "z3 a2 ");
}

TEST_CASE("copies of values are independent") {
  auto a = TemplateValue::dict({{"x", 1}});
  auto b = a;
  b["x"] = 2;
  CHECK(text_of("<$ x $>", a) == "1");
  CHECK(text_of("<$ x $>", b) == "2");
  auto list = TemplateValue::list({1});
  auto other = list;
  other.push_back(2);
  CHECK(list.items().size() == 1);
  CHECK(other.items().size() == 2);
}

TEST_CASE("integers of every width print right") {
  auto v =
      TemplateValue::dict({{"a", std::int8_t{-5}}, {"b", std::uint64_t{1} << 63}, {"c", INT64_MIN}, {"d", UINT64_MAX}});
  CHECK(text_of("<$ a $> <$ b $> <$ c $> <$ d $>", v) ==
        "-5 9223372036854775808 -9223372036854775808 18446744073709551615");
  CHECK(starts_with(error_of("<$ d + 1 $>", v).message, "type: "));
}

TEST_CASE("a name is loaded once, also from several threads") {
  int loads = 0;
  TemplateEngine engine([&](std::string_view) -> Result<std::string> { return ++loads, std::string("<$ i * 2 $>"); });
  std::string out[4];
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { out[i] = *engine.render("x", TemplateValue::dict({{"i", i}})); });
  for (auto& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) CHECK(out[i] == std::to_string(i * 2));
  CHECK(loads == 1);
}

TEST_CASE("an error shows the place, the line and a caret") {
  Error e = error_of("int x;\nfloat y = <$ scale $>;\n");
  CHECK(e.code == ErrorCode::BadInput);
  CHECK(e.where == "t.j2:2:14");
  CHECK(e.message == "undefined: 'scale' is undefined\n  | float y = <$ scale $>;\n  |              ^");
  CHECK(!e.help.empty());
}

TEST_CASE("errors point at the culprit") {
  auto ctx = TemplateValue::dict({{"p", TemplateValue::dict({{"mr", 8}})}, {"s", "x"}});
  CHECK(error_of("<$ p.mr + p.nr $>", ctx).where == "t.j2:1:9");  // the operator that met it
  CHECK(error_of("<$ p.nr $>", ctx).where == "t.j2:1:6");         // the attribute
  CHECK(error_of("<$ 1 + s $>", ctx).where == "t.j2:1:6");
  CHECK(error_of("a\r\n\r\n  <$ s|length(3) $>", ctx).where == "t.j2:3:8");
  CHECK(error_of("\xC3\xA9\xC3\xA9 <$ nope $>").where == "t.j2:1:7");  // columns count characters
  CHECK(error_of("<% if p.mr %>\n  <% for x in s %>\n", ctx).where == "t.j2:2:17");
  CHECK(error_of("a\n<# never closed").where == "t.j2:2:1");
  CHECK(error_of("<$ 1 ? 2 $>").where == "t.j2:1:6");
}

TEST_CASE("an error inside macros and includes tells how it came there") {
  auto engine = engine_of({{"main", "<% from 'm' import f %>\nx\n<$ f(1) $>"},
                           {"m", "<% macro f(a) %>\n<% include 'deep' %>\n<% endmacro %>"},
                           {"deep", "<$ a + b $>"}});
  auto result = engine.render("main", {});
  REQUIRE(!result.ok());
  CHECK(result.error().where == "deep:1:6");
  CHECK(result.error().message ==
        "undefined: 'b' is undefined\n  | <$ a + b $>\n  |      ^\n  in 'deep', used at m:2:4\n"
        "  in the macro 'f', called at main:3:4");
}

TEST_CASE("a long or binary line is shown in part") {
  Error e = error_of(std::string(5000, 'x') + "\t\x01<$ nope $>" + std::string(5000, 'y'));
  CHECK(e.where == "t.j2:1:5006");
  CHECK(e.message.size() < 500);
  CHECK(e.message.find("<$ nope $>") != std::string::npos);
  CHECK(e.message.find('\x01') == std::string::npos);
}

TEST_CASE("the loader's error is the error") {
  auto engine = engine_of({{"main", "a\n<% include 'gone' %>"}});
  auto top = engine.render("absent", {});
  REQUIRE(!top.ok());
  CHECK(top.error().code == ErrorCode::Io);
  auto nested = engine.render("main", {});
  REQUIRE(!nested.ok());
  CHECK(nested.error().where == "main:2:12");
  CHECK(starts_with(nested.error().message, "missing: cannot load the template 'gone': no such template"));
  CHECK(nested.error().help == "look again");
}

TEST_CASE("what templates must not compute is refused with a remedy") {
  for (const char* text : {"<$ 4 / 2 $>", "<$ 2 ** 3 $>"}) {
    Error e = error_of(text);
    CHECK(starts_with(e.message, "syntax: templates do not compute"));
    CHECK(e.help.find("pass the number in") != std::string::npos);
  }
  CHECK(error_of("<$ 1.5 + 1 $>").help.find("integers only") != std::string::npos);
  CHECK(starts_with(error_of("<$ 9223372036854775807 + 1 $>").message, "limit: "));
  CHECK(starts_with(error_of("<$ 99999999999999999999 $>").message, "syntax: "));
  auto lowest = TemplateValue::dict({{"m", INT64_MIN}});
  CHECK(starts_with(error_of("<$ m // -1 $>", lowest).message, "limit: "));
  CHECK(starts_with(error_of("<$ -m $>", lowest).message, "limit: "));
  CHECK(text_of("<$ m % -1 $>", lowest) == "0");
}

TEST_CASE("parts of Jinja outside the subset are named as such") {
  for (const char* tag :
       {"block x", "extends 'x'", "call f()", "filter upper", "with a = 1", "print 1", "do x", "break"})
    CHECK(error_of("<% " + std::string(tag) + " %>").message.find("is Jinja, but not in the subset") !=
          std::string::npos);
  CHECK(error_of("<$ [1]|sum $>").help == "the filters are: join length default indent");
  CHECK(error_of("<$ x is defined $>").message.find("not in the subset") != std::string::npos);
  CHECK(error_of("<$ [1][0:1] $>").message.find("slices") != std::string::npos);
  CHECK(error_of("<$ d.update $>", TemplateValue::dict({{"d", TemplateValue::dict()}})).help.find("[\"update\"]") !=
        std::string::npos);
  CHECK(starts_with(error_of("<$ range $>").message, "type: "));
  CHECK(starts_with(error_of("<$ {1: 2} $>").message, "type: "));
  CHECK(starts_with(error_of("<% set n = namespace() %><$ n $>").message, "type: "));
}

TEST_CASE("the context must be a dict or none") {
  CHECK(!render_string("x", TemplateValue(5)).ok());
  CHECK(*render_string("x", TemplateValue()) == "x");
  TemplateValue deep = TemplateValue::list();
  for (int i = 0; i < 200; ++i) deep = TemplateValue::list({deep});
  CHECK(!render_string("x", TemplateValue::dict({{"deep", deep}})).ok());
}

TEST_CASE("endless recursion ends with an error") {
  CHECK(starts_with(error_of("<% macro f() %><$ f() $><% endmacro %><$ f() $>").message, "limit: "));
  CHECK(starts_with(error_of("<% macro f(n) %><$ f(n ~ 'x') $><% endmacro %><$ f('') $>").message, "limit: "));
  auto engine = engine_of({{"a", "<% include 'b' %>"}, {"b", "<% include 'a' %>"}, {"i", "<% from 'i' import f %>"}});
  CHECK(starts_with(engine.render("a", {}).error().message, "limit: "));
  CHECK(starts_with(engine.render("i", {}).error().message, "limit: "));
}

TEST_CASE("nesting bombs are errors, not stack overflows") {
  auto repeat = [](std::string_view unit, std::size_t n) {
    std::string s;
    while (n--) s += unit;
    return s;
  };
  constexpr std::size_t kMany = 10'000;
  for (const std::string& bomb :
       {repeat("(", kMany), repeat("[", kMany), repeat("{'a':", kMany), repeat("-", kMany) + "1",
        repeat("not ", kMany) + "1", "1" + repeat("+1", kMany), "a" + repeat(".b", kMany), "a" + repeat("[0]", kMany),
        "a" + repeat("()", kMany), "a" + repeat("|join", kMany), "1" + repeat(" if 1", kMany),
        "1" + repeat(" if 1 else 1", kMany), "1" + repeat(" in 1", kMany), repeat("f(", kMany), repeat("a[", kMany)}) {
    auto result = render_string("x <$ " + bomb + " $>", {});
    REQUIRE(!result.ok());
    CHECK(result.error().message.size() < 1000);
  }
  for (const char* tag :
       {"<% if 1 %>", "<% for x in [1] %>", "<% set x %>", "<% macro f() %>", "<% raw %><% endraw %><% if 1 %>"})
    CHECK(!render_string(repeat(tag, kMany), {}).ok());
  CHECK(!render_string("<% for " + repeat("(", kMany) + " in x %>", {}).ok());
  CHECK(text_of("<$ 1" + repeat(" ~ 1", 5000) + " $>").size() == 5001);  // flat, so any length will do
  CHECK(text_of("<$ " + repeat("0 or ", 5000) + "1 $>") == "1");
  CHECK(text_of("<% if 0 %>" + repeat("<% elif 0 %>", 5000) + "<% else %>x<% endif %>") == "x");
}

TEST_CASE("the deepest recursion that the limits permit fits the stack") {
  // A macro whose call is nested in as many statements and operands as may be, so that each level takes the most stack.
  std::string inner = "f(n + 1)", open, close;
  for (int i = 0; i < 12; ++i) inner = "(1 + [" + inner + "][0]|join|default(1)|length)";
  for (int i = 0; i < 15; ++i) open += "<% if 1 %><% for x in [1] %>", close += "<% endfor %><% endif %>";
  std::string text = "<% macro f(n) %>" + open + "<$ " + inner + " $>" + close + "<% endmacro %><$ f(0) $>";
  CHECK(starts_with(error_of(text).message, "limit: includes, macros and expressions are nested deeper"));
}

TEST_CASE("work, output and values are bounded") {
  TemplateLimits small{.max_output = 10'000, .max_steps = 20'000};
  for (const char* text :
       {"<% for i in range(1000000000) %><% endfor %>", "<% for i in range(1000000000) if 0 %><% endfor %>",
        "<$ 'x' * 1000000000000 $>", "<$ range(1000000000)|join $>", "<% for i in range(2000) %>0123456789<% endfor %>",
        "<$ 'a'|indent(1000000000000) $>",
        "<% set n = namespace(s='x') %><% for i in range(100) %><% set n.s = n.s ~ n.s %><% endfor %>",
        "<% set n = namespace(s=[]) %><% for i in range(200) %><% set n.s = [n.s] %><% endfor %>",
        "<% set n = namespace(s={}) %><% for i in range(200) %><% set n.s = {'a': n.s} %><% endfor %>",
        "<% set n = namespace(s=[1]) %><% for i in range(90) %><% set n.s = [n.s, n.s] %><% endfor %><$ n.s $>",
        "<% set n = namespace(s=[1], t=[1]) %><% for i in range(90) %><% set n.s = [n.s, n.s] %><% set n.t = [n.t, "
        "n.t] %>"
        "<% endfor %><$ n.s == n.t $>",
        "<% set a = 'a' * 9000 %><$ a|join(a) $>", "<% set a = 'a\\n' * 4000 %><$ a|indent(9000) $>"}) {
    INFO(text);
    CHECK(starts_with(error_of(text, {}, small).message, "limit: "));
  }
  CHECK(text_of("<$ 999999999999 in range(0, 1000000000000, 3) $> <$ range(1000000000)[999] $> <$ "
                "range(1000000000)|length $>") == "True 999 1000000000");
  auto edge = TemplateValue::dict({{"lo", INT64_MIN}, {"hi", INT64_MAX}});
  CHECK(text_of("<$ range(lo, hi)[0] $> <$ range(hi, lo, lo)|join(' ') $> <$ 0 in range(lo, hi) $>", edge) ==
        "-9223372036854775808 9223372036854775807 -1 True");
}

TEST_CASE("cycles among what a template makes neither leak nor hang") {
  CHECK(text_of("<% set a = namespace() %><% set b = namespace(a=a) %><% set a.b = b %><% set a.me = a %><$ a.b.a.me "
                "== a $>") == "True");
  CHECK(text_of("<% set n = namespace() %><% for i in range(3) %><% macro f() %><$ i $><% endmacro %><% set n.f = f %>"
                "<% set n.loop = loop %><% endfor %><$ n.f() $><$ n.loop.index $>") == "23");
}

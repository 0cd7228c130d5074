// Conditions of sizes with fractions, roots and bits: the sizes for which they hold, or a note where these are no range.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/read/torch/guards.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::string range_text(const std::string& guard, int64_t hint) {
  const auto size_of = [](std::string_view, int64_t axis) { return std::optional(Dim::symbol(axis == 0 ? "b" : "n")); };
  const auto range = find_range(guard, size_of, {{"b", {0, 2}}, {"n", {1, hint}}});
  return range ? fmt::format("{} {} {}", range->name, range->min, range->max) : "none";
}

bool has_op(const Graph& graph, Op op) {
  return std::ranges::any_of(graph.nodes, [&](const Node& node) { return is_op(node, op); });
}

}  // namespace

TEST_CASE("guards: the sizes for which a condition of floats holds") {
  const std::string n = "L['x'].size()[1]";
  CHECK(range_text("((2*" + n + ") / 3) == 34.666666666666664", 52) == "n 52 52");
  CHECK(range_text("math.trunc(0.7*torch.sym_float(" + n + ")) == 36", 52) == "n 52 52");
  CHECK(range_text("math.trunc(torch.sym_float(" + n + ") ** 0.5) == 7", 50) == "n 49 63");
  CHECK(range_text("math.ceil(" + n + " / 4) <= 2.5e0", 8) == "n 0 8");
  CHECK(range_text("(" + n + " / 3) > 10.5", 52) == fmt::format("n 32 {}", INT64_MAX));
  CHECK(range_text("torch._sym_sqrt(" + n + ") >= 2", 9) == fmt::format("n 4 {}", INT64_MAX));
  CHECK(range_text("-1 + round(" + n + " / 2) == 4", 10) == "n 10 10");  // 4.5 and 5.5 are rounded to even numbers
  CHECK(range_text("math.ceil(1.5*(" + n + " / 4096)) <= 4", 50) == "n 0 10922");
  CHECK(range_text("math.trunc(0.001*torch.sym_float(" + n + ")) < 10000", 50) == "n 0 9999999");
  // No range, two symbols, a size that was not exported with it, and what is no condition.
  CHECK(range_text("(" + n + " & 1) == 0", 52) == "none");
  CHECK(range_text("(" + n + " / L['x'].size()[0]) > 4.0", 52) == "none");
  CHECK(range_text("(" + n + " / 3) > 10.5", 20) == "none");
  CHECK(range_text("(" + n + " / 0) > 10.5", 20) == "none");
  CHECK(range_text("math.log(" + n + ") > 0.5", 20) == "none");
  CHECK(range_text(n + " / 2", 20) == "none");
}

TEST_CASE("torch.export: conditions of floats narrow sizes, and those that cannot are noted") {
  Json j = small_export();
  meta_of(j, "x")["sizes"][0]["as_expr"]["hint"] = {{"as_int", 12}};
  j["guards_code"] = {"(L['x'].size()[0] / 3) > 3.5", "(L['x'].size()[0] / 2) <= 7.25", "(L['x'].size()[0] & 1) == 0"};
  ReadInfo info;
  const auto graph = read_bytes(j.dump(), {}, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK((graph->symbols[0].min == 11 && graph->symbols[0].max == 14));
  CHECK(fmt::format("{}", fmt::join(info.notes, "\n")).find("such as (L['x'].size()[0] & 1) == 0") !=
        std::string::npos);
}

TEST_CASE("guards: a number that divides a size, which was a multiple of it when torch exported") {
  const Dim n = Dim::symbol("n");
  const std::vector<Dim> skip = {Dim::floor_divide(n, 2) - Dim(2) * Dim::floor_divide(n, 4)};  // 0 for 5, too
  CHECK(find_divisors(skip, {{"n", {1, 24}}}) == std::map<std::string, int64_t>{{"n", 4}});
  CHECK(find_divisors(skip, {{"n", {1, 25}}}).empty());
  CHECK(find_divisors(skip, {{"n", {1, std::nullopt}}}).empty());
}

TEST_CASE("guards: quotients that are numbers, and sizes that are expressions of others") {
  const Dim a = Dim::symbol("a"), b = Dim::symbol("b"), n = Dim::symbol("n"), m = Dim::symbol("m");
  const Dim quotient = Dim::floor_divide(Dim(6) * a, b);
  const KnownSizes calls =
      find_known_calls({Dim(8) * quotient - Dim(48), quotient - Dim::floor_divide(a, b), Dim(2) * a - Dim(4),
                        Dim(2) * Dim::floor_divide(n, 3) - Dim(3), a * Dim::floor_divide(m, 3) - Dim(3)});
  REQUIRE(calls.size() == 1);
  CHECK(with_known(Dim(6) * a - b * quotient, calls) == Dim(6) * a - Dim(6) * b);

  const ExportedSizes exported = {{"a", {0, 2}}, {"b", {0, 2}}, {"n", {1, 24}}, {"m", {1, 48}}};
  const auto text = [&](const Dim& difference, const KnownSizes& known) {
    const auto found = find_definition(difference, exported, known);
    return found ? found->first + " = " + found->second.str() : "none";
  };
  CHECK(text(n - Dim::floor_divide(m - Dim(1), 2) - Dim(1), {}) == "n = floordiv(m+1,2)");
  CHECK(text(Dim(3) * a - b + m, {}) == "b = 3*a+m");
  CHECK(text(Dim(3) * a - b + m, {{"b", a}}) == "none");  // b is no size of its own
  CHECK(text(n - a * b, {}) == "n = a*b");
  CHECK(text(n - Dim::floor_divide(n, 2) - a * n, {}) == "none");
  CHECK(text(n - Dim::symbol("z"), {}) == "none");
  CHECK(text(n - Dim(4), {}) == "none");
  CHECK(text(Dim(2) * n - Dim(3) * m, {}) == "none");

  // Sums of other axes: by their sizes.
  const ExportedSizes streams = {{"a", {1, 4}}, {"b", {1, 6}}, {"n", {0, 6}}, {"m", {0, 4}}};
  const auto equal = find_equal_sizes(a + b - n - m, streams);
  REQUIRE(equal.size() == 2);
  CHECK((equal[0].symbol == "m" && equal[0].of == "a" && equal[1].symbol == "n" && equal[1].of == "b"));
}

TEST_CASE("torch.export: the last elements of a cache and new ones that are all of them") {
  // linear = cat(x, p_fc_bias);  relu = linear[-63:]
  Json j = small_export();
  j["graph_module"]["signature"]["input_specs"][1] =
      Json::parse(R"({"user_input": {"arg": {"as_tensor": {"name": "p_fc_bias"}}}})");
  meta_of(j, "p_fc_bias") = meta_of(j, "linear") = meta_of(j, "relu") = meta_of(j, "x");
  meta_of(j, "p_fc_bias")["sizes"][0] = Json::parse(R"({"as_expr": {"expr_str": "s1"}})");
  for (const char* name : {"linear", "relu"})
    meta_of(j, name)["sizes"][0] =
        Json::parse(R"json({"as_expr": {"expr_str": "Add(Symbol('s0'), Symbol('s1'))"}})json");
  j["range_constraints"]["s1"] = Json::parse(R"({"min_val": 2, "max_val": null})");
  node_of(j, 0)["target"] = "torch.ops.aten.cat.default";
  node_of(j, 0)["inputs"] =
      Json::array({argument("tensors", {{"as_tensors", {{{"name", "x"}}, {{"name", "p_fc_bias"}}}}})});
  node_of(j, 1)["target"] = "torch.ops.aten.slice.Tensor";
  node_of(j, 1)["inputs"] = {argument("self", tensor("linear")), argument("dim", {{"as_int", 0}}),
                             argument("start", {{"as_int", -63}}), argument("end", {{"as_int", INT64_MAX}})};
  ReadInfo info;
  auto graph = read_bytes(j.dump(), {}, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->value(graph->outputs[0]).shape == Shape{Dim::symbol("s0") + Dim::symbol("s1"), Dim(4)});
  REQUIRE(info.notes.size() == 1);
  CHECK(contains(info.notes[0], "reads all of s0+s1: that it is no more than 63"));
  for (const Symbol& symbol : graph->symbols) CHECK(symbol.max > 63);
  CHECK(has_op(*graph, "aten.index_select.default"));

  // A guard says it: a view of all, and the sizes are checked before a run.
  j["guards_code"] = Json::array({"L['x'].size()[0] + L['p_fc_bias'].size()[0] <= 63"});
  graph = read_bytes(j.dump(), {}, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK_FALSE(has_op(*graph, "aten.index_select.default"));
  REQUIRE(graph->conditions.size() == 1);
  CHECK(graph->conditions[0].text == "x.size()[0] + p_fc_bias.size()[0] <= 63");
}

TEST_CASE("torch.export: what torch found of sizes is checked in each run, or a note says that it is not") {
  Json j = small_export();
  std::vector<SizeCondition> conditions;
  const auto notes = [&](const char* guard) {
    j["guards_code"] = Json::array({guard, "L['x'].size()[0] != 1", "L['x'].size()[0]*L['x'].size()[0] >= 4"});
    ReadInfo info;
    const auto graph = read_bytes(j.dump(), {}, &info);
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    conditions = graph->conditions;
    return info.notes;
  };
  using Says = SizeCondition::Says;
  struct Case {
    const char *guard, *text;
    Says says;
    const char* difference;
  };
  constexpr Case kCases[] = {
      {"L['x'].size()[0] != 5", "x.size()[0] != 5", Says::not_zero, "s0-5"},
      {"2*L['x'].size()[0] < 40", "2*x.size()[0] < 40", Says::at_least_0, "-2*s0+39"},
      {"(L['x'].size()[0] % 3) == 1", "(x.size()[0] % 3) == 1", Says::zero, "-3*floordiv(s0,3)+s0-1"}};
  for (const Case& c : kCases) {
    const auto noted = notes(c.guard);
    REQUIRE(noted.size() == 1);
    CHECK(noted[0] == fmt::format("1 condition of sizes that torch found when it exported is checked in each run, such "
                                  "as {}",
                                  c.text));
    REQUIRE(conditions.size() == 1);
    CHECK(conditions[0].says == c.says);
    CHECK(conditions[0].difference.str() == c.difference);
    CHECK(conditions[0].text == c.text);
  }
  // The range of the size says it, or becomes what it says.
  CHECK(notes("L['x'].size()[0] < 65").empty());
  CHECK(contains(notes("(L['x'].size()[0] // 8) == 2").at(0), "lies in 16 to 23"));
  CHECK(conditions.empty());
}

TEST_CASE(
    "torch.export: branches on remainders, quotients and two sizes are checked; comparisons for strides are noted") {
  Json j = small_export();
  j["graph_module"]["signature"]["input_specs"][1] =
      Json::parse(R"({"user_input": {"arg": {"as_tensor": {"name": "p_fc_bias"}}}})");
  meta_of(j, "p_fc_bias")["sizes"][0] = Json::parse(R"({"as_expr": {"expr_str": "s1"}})");
  j["range_constraints"]["s1"] = Json::parse(R"({"min_val": 2, "max_val": null})");
  node_of(j, 0)["inputs"].erase(2);
  const std::string a = "L['x'].size()[0]", b = "L['p_fc_bias'].size()[0]";
  const auto found = [&](const std::string& guard) -> std::string {
    j["guards_code"] = Json::array({guard});
    ReadInfo info;
    const auto graph = read_bytes(j.dump(), {}, &info);
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    if (!graph->conditions.empty())
      return fmt::format("{} {}", name_of(graph->conditions[0].says), graph->conditions[0].difference.str());
    const std::string notes = fmt::format("{}", fmt::join(info.notes, ";"));
    return contains(notes, "1 condition of sizes that torch found when it exported is not checked") ? "noted" : notes;
  };
  CHECK(found(a + " != " + b) == "not_zero s0-s1");
  CHECK(found(a + " != (2*" + b + ")") == "not_zero s0-2*s1");
  CHECK(found("(" + a + " % 4) != 0") == "not_zero -4*floordiv(s0,4)+s0");
  CHECK(found("(" + a + " // 4) != 0") == "not_zero floordiv(s0,4)");
  CHECK(found(a + " + ((-1)*" + b + ") >= 2") == "at_least_0 s0-s1-2");
  CHECK(found("(-5) + (" + a + " // 3) >= 2") == "at_least_0 floordiv(s0,3)-7");
  CHECK(found("torch.sym_max(1, " + a + " + ((-1)*" + b + ")) > 3") == "at_least_0 -min(1,s0-s1)+s0-s1-3");
  CHECK(found("3*torch.sym_max(1, " + a + " // 2) < " + a) == "zero -3*floordiv(s0,2)+3*min(1,floordiv(s0,2))+s0-4");
  CHECK(found("(" + a + "*" + b + ") != 20") == "noted");
  CHECK(found("(" + a + " % (2*" + a + ")) != 0") == "noted");
  CHECK(found("(" + a + " // 2) != 1") == "noted");
  CHECK(found("torch.sym_max(1, " + a + " // 2) > 1") == "noted");
  CHECK(found("torch.sym_max(1, " + a + " // 2) < 8*torch.sym_max(1, " + b + " // 2)") == "noted");
  CHECK(found(a + " > 6 or " + b + " > 6") == "noted");
  CHECK(found(a + " == 1 or " + b + " == 7") == "noted");
  CHECK(found(a + "*" + a + " >= 2") == "");                  // torch assumes sizes of at least 2
  CHECK(found(a + " == " + b + " or " + b + " == 1") == "");  // the shape rules check it
}

TEST_CASE("torch.export: conditions of integers that are inputs, two of them in one guard") {
  Json j = small_export();
  const Json start = Json::parse(R"({"user_input": {"arg": {"as_sym_int": {"as_name": "start"}}}})");
  j["graph_module"]["signature"]["input_specs"].push_back(start);
  graph_of(j)["inputs"].push_back(Json::parse(R"({"as_sym_int": {"as_name": "start"}})"));
  graph_of(j)["sym_int_values"]["start"] = {{"as_expr", {{"expr_str", "Symbol('s7')"}}}};
  j["range_constraints"]["s7"] = Json::parse(R"({"min_val": 0, "max_val": 100})");
  j["guards_code"] = {"L['start'] + L['x'].size()[0] >= 5 and L['start'] + L['x'].size()[0] <= 12"};
  const auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  REQUIRE(graph->conditions.size() == 2);
  CHECK(graph->conditions[0].text == "start + x.size()[0] >= 5");
  CHECK(graph->conditions[0].difference == Dim::symbol("s0") + Dim::symbol("s7") - Dim(5));
  CHECK(graph->conditions[1].difference == Dim(12) - Dim::symbol("s0") - Dim::symbol("s7"));
}

TEST_CASE("torch.export: inputs as guards name them, fractions of several sizes, and what chooses strides") {
  const std::string n = "L['X'].size()[0]";
  const auto conditions = [&](const std::string& guard) {
    Json j = small_export();
    j["graph_module"]["signature"]["input_specs"][1] =
        Json::parse(R"({"user_input": {"arg": {"as_tensor": {"name": "p_fc_bias"}}}})");
    meta_of(j, "p_fc_bias")["sizes"][0] = Json::parse(R"({"as_expr": {"expr_str": "s1"}})");
    j["range_constraints"]["s1"] = Json::parse(R"({"min_val": 2, "max_val": null})");
    node_of(j, 0)["target"] = "torch.ops.aten.linear.default";
    node_of(j, 0)["inputs"] = {argument("input", tensor("x")), argument("weight", tensor("p_fc_weight"))};
    j["guards_code"] = Json::array({guard});
    ReadInfo info;
    const auto graph = read_bytes(j.dump(), {}, &info);
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    std::string out;
    for (const SizeCondition& c : graph->conditions) out += fmt::format("{} {};", name_of(c.says), c.difference.str());
    if (out.empty()) out = fmt::format("{}", fmt::join(info.notes, ";"));
    return out;
  };
  const std::string other = "L['p_fc_bias'].size()[0]";
  CHECK(conditions(n + " <= " + other + " + 3") == "at_least_0 -s0+s1+3;");
  CHECK(conditions("L['flat_args'][1].size()[0] <= " + other) == "at_least_0 -s0+s1;");
  CHECK(conditions("((3*" + n + "*" + other + ") / 16) <= 2.5") == "at_least_0 -3*s0*s1+40;");
  CHECK(conditions("math.ceil((" + n + " + " + other + ") / 4) > 2") == "at_least_0 -floordiv(3*s0+3*s1,4)+s0+s1-3;");
  CHECK(conditions("((" + n + " + " + other + ") / 3) <= 2.5").find("is not checked in a run") != std::string::npos);
  CHECK(conditions("((3*(" + n + " // (" + other + " // (" + n + " // 8)))) % 192) != 0")
            .find("is not checked in a run") != std::string::npos);
}

TEST_CASE("torch.export: flat_args counts the arguments of the model, not its states") {
  Json j = small_export();
  graph_of(j)["outputs"].insert(graph_of(j)["outputs"].begin(), tensor("p_fc_bias"));
  j["graph_module"]["signature"]["input_specs"][1] =
      Json::parse(R"({"buffer": {"arg": {"name": "p_fc_bias"}, "buffer_name": "fc.bias", "persistent": true}})");
  Json& outputs = j["graph_module"]["signature"]["output_specs"];
  outputs.insert(outputs.begin(),
                 Json::parse(R"({"buffer_mutation": {"arg": {"name": "p_fc_bias"}, "buffer_name": "fc.bias"}})"));
  j["guards_code"] = {"2*L['flat_args'][0].size()[0] < 40"};
  const auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  REQUIRE(graph->states.size() == 1);
  REQUIRE(graph->conditions.size() == 1);
  CHECK(graph->conditions[0].difference.str() == "-2*s0+39");
}

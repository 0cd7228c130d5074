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

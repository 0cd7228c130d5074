#include "graph/ir/symbol.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace qcg;

TEST_CASE("long sums: refused beyond the limits, added up in one go, shared by copies") {
  std::vector<Dim> symbols;
  for (size_t i = 0; i < Dim::kMaxTerms; ++i) symbols.push_back(Dim::symbol("s" + std::to_string(i)));
  const Dim sum = Dim::sum(symbols);
  REQUIRE(sum.valid());
  CHECK(sum.count_terms() == Dim::kMaxTerms);
  CHECK(sum.symbols().size() == Dim::kMaxTerms);
  CHECK_FALSE((sum + Dim::symbol("t")).valid());
  CHECK((sum - symbols[0]).count_terms() == Dim::kMaxTerms - 1);
  CHECK((sum * Dim::symbol("t")).count_terms() == Dim::kMaxTerms);
  CHECK_FALSE((sum * sum).valid());
  CHECK(*(sum * Dim(6)).divide_exactly(Dim(3)) == sum + sum);
  CHECK(*(sum * Dim::symbol("t")).divide_exactly(sum) == Dim::symbol("t"));
  Dim power = 1;
  for (size_t i = 0; i < Dim::kMaxDegree; ++i) power = power * symbols[0];
  CHECK(power.valid());
  CHECK_FALSE((power * symbols[0]).valid());
  CHECK(sum == Dim::sum({Dim(1), sum, Dim(-1)}));
  CHECK(Dim::sum({}) == Dim(0));
  CHECK_FALSE(Dim::sum({Dim(INT64_MAX), Dim(1), Dim(-1)}).valid());
}

TEST_CASE("a size is a polynomial in normal form") {
  Dim s0 = Dim::symbol("s0"), s1 = Dim::symbol("s1");
  CHECK((s0 * s1 + s1 * s0).str() == "2*s0*s1");
  CHECK((s0 + 1) * (s0 - 1) == s0 * s0 - 1);
  CHECK((s0 - s0) == Dim(0));
  CHECK((2 * s0 * s1 + 3 - s1).str() == "2*s0*s1-s1+3");
  CHECK((Dim(0) - s0).str() == "-s0");
  CHECK((s0 * s1).symbols() == std::vector<std::string>{"s0", "s1"});
  CHECK((s0 * s1).evaluate({{"s0", 2}, {"s1", 8}}) == 16);
  CHECK_FALSE((s0 * s1).evaluate({{"s0", 2}}));
  CHECK(Dim(7).is_constant(7));
  CHECK_FALSE(s0.is_constant());
}

TEST_CASE("overflow makes a size invalid instead of wrong") {
  CHECK_FALSE((Dim(INT64_MAX) + 1).valid());
  CHECK_FALSE((Dim(INT64_MAX) * 2).valid());
  CHECK_FALSE((Dim(INT64_MAX) * Dim::symbol("s0")).evaluate({{"s0", 3}}));
  Dim power = 1;
  for (int i = 0; i < 1000; ++i) power = power * (Dim::symbol("a") + Dim::symbol("b"));
  CHECK_FALSE(power.valid());
}

TEST_CASE("quotients are rounded down and extremes are chosen, in one text for equal sizes") {
  const Dim s0 = Dim::symbol("s0"), s1 = Dim::symbol("s1");
  const auto half = [](const Dim& d) { return Dim::floor_divide(d, 2); };
  CHECK(half(s0).str() == "floordiv(s0,2)");
  for (int64_t number = -9; number <= 9; ++number) {  // whole numbers of a common factor
    const Dim quotient = Dim::floor_divide(Dim(4) * s0 + Dim(number), 8);
    CHECK(quotient.str().find("4*s0") == std::string::npos);
    for (int64_t size = 0; size < 9; ++size)
      CHECK(quotient.evaluate({{"s0", size}}) == (4 * size + number + 16) / 8 - 2);
  }
  CHECK(half(4 * s0 + 6) == 2 * s0 + 3);
  CHECK(half(2 * s0 + 1) == s0);
  CHECK(half(5 * s0 - 3) == 2 * s0 + half(s0 + 1) - 2);
  CHECK(half(half(half(s0 - 1) - 1)) == Dim::floor_divide(s0 - 3, 8));
  CHECK(Dim::floor_divide(-7, 2) == Dim(-4));
  CHECK(Dim::floor_divide(7, -2) == Dim(-4));
  CHECK(Dim::floor_divide(s0, -2) == half(Dim(0) - s0));
  CHECK(Dim::floor_divide(s0 * s1, s1) == s0);
  CHECK(Dim::floor_divide(s0 * s1 + s1 - 1, s1) == s0);
  CHECK(Dim::floor_divide(s0 * s1 + s0 + s1, s1 + 1) == s0);
  CHECK(Dim::floor_divide(s0 * s1 + s1 - 1, Dim(-1) * s1).has_calls());
  CHECK(Dim::smaller(s0, s0 + 2) == s0);
  CHECK(Dim::smaller(s1, s0) == Dim::smaller(s0, s1));
  CHECK(Dim::larger(s0, s0 - 1) == s0);
  CHECK_FALSE(Dim::floor_divide(s0, 0).valid());
  CHECK((half(s0) * s1).symbols() == std::vector<std::string>{"s0", "s1"});
  CHECK((half(s0) + s1).has_calls());
  CHECK_FALSE((s0 * s1).has_calls());
  for (int64_t a = -9; a <= 9; ++a)
    for (int64_t b = 1; b <= 5; ++b) {
      const SymbolValues values = {{"s0", a}, {"s1", b}};
      CHECK(half(s0 + 3 * s1).evaluate(values) == static_cast<int64_t>(std::floor((a + 3.0 * b) / 2)));
      CHECK(half(half(s0) - 1).evaluate(values) == static_cast<int64_t>(std::floor((std::floor(a / 2.0) - 1) / 2)));
      CHECK(Dim::floor_divide(s0, s1).evaluate(values) == static_cast<int64_t>(std::floor(1.0 * a / b)));
      CHECK(Dim::modulo(s0, s1).evaluate(values) == ((a % b) + b) % b);
      CHECK(Dim::smaller(s0, s1 * 2).evaluate(values) == std::min(a, 2 * b));
      CHECK(Dim::larger(s0, s1 * 2).evaluate(values) == std::max(a, 2 * b));
    }
  CHECK_FALSE(Dim::floor_divide(s0, s1).evaluate({{"s0", 1}, {"s1", 0}}));
  for (const Dim& d : {half(s0), 3 * s1 * half(s0 + s1) - 1, Dim::smaller(half(s0), s1), Dim::floor_divide(s1, s0)})
    CHECK(*Dim::parse(d.str()) == d);
  for (const char* bad : {"floordiv(s0)", "floordiv(s0,2", "min(s0,2))", "max(s0,2)", "floordiv(s0,0)", "min(,2)",
                          "floordiv(floordiv(floordiv(s0,s1),s1),s1)"})
    CHECK_MESSAGE(!Dim::parse(bad).ok(), bad);
}

TEST_CASE("division is exact or refused") {
  Dim s0 = Dim::symbol("s0"), s1 = Dim::symbol("s1");
  CHECK((s0 * s1 * 64).divide_exactly(s1 * 32) == s0 * 2);
  CHECK((s0 * 4 + 8).divide_exactly(4) == s0 + 2);
  CHECK_FALSE((s0 * 4 + 6).divide_exactly(4));
  CHECK_FALSE(s0.divide_exactly(s1));
  CHECK_FALSE(s0.divide_exactly(0));
  CHECK(Dim(0).divide_exactly(s0) == Dim(0));
  CHECK((s0 * s1 * 64 + s1 * 64).divide_exactly(s0 + 1) == s1 * 64);
  CHECK_FALSE(Dim(INT64_MIN).divide_exactly(-1));
}

TEST_CASE("parse is the inverse of str") {
  for (int64_t edge : {INT64_MIN, INT64_MAX, int64_t{0}, int64_t{-1}}) CHECK(*Dim::parse(Dim(edge).str()) == Dim(edge));
  uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  INFO("seed " << seed);
  for (int i = 0; i < 300; ++i) {
    Dim d = static_cast<int>(random() % 7) - 3;
    for (unsigned step = 0; step < random() % 5; ++step) {
      Dim other = Dim::symbol("s" + std::to_string(random() % 3)) + static_cast<int>(random() % 9) - 4;
      d = random() % 2 ? d * other : d - other;
    }
    auto parsed = Dim::parse(d.str());
    REQUIRE(parsed.ok());
    CHECK_MESSAGE(*parsed == d, d.str());
  }
}

TEST_CASE("bad sizes are refused") {
  for (const char* bad :
       {"", "+", "s0+", "2*", "s0 s1", "1e3", "(s0)", "9223372036854775808", "-9223372036854775809", "s0-*2", "[1]"})
    CHECK_MESSAGE(!Dim::parse(bad).ok(), bad);
}

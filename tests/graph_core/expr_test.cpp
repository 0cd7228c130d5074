#include "graph/ir/expr.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace qcg;

namespace {

Expr random_expr(std::mt19937& random, int depth) {
  switch (depth == 0 ? random() % 3 : 3 + random() % 6) {
    case 0: return Expr::acc(static_cast<int>(random() % 3));
    case 1: return Expr::in(static_cast<int>(random() % 3));
    case 2: return Expr::number((static_cast<double>(random()) - 2e9) / 7e5);
    case 3: return Expr::cast(random() % 2 ? DType::bf16 : DType::f32, random_expr(random, depth - 1));
    default: break;
  }
  const ExprFunction& f = kExprFunctions[random() % std::size(kExprFunctions)];
  std::vector<Expr> args;
  for (int i = 0; i < f.arity; ++i) args.push_back(random_expr(random, static_cast<int>(random() % depth)));
  return Expr::call(f.name, std::move(args));
}

double eval(std::string_view text, std::vector<double> accs = {}, std::vector<double> ins = {}) {
  auto e = Expr::parse(text);
  REQUIRE_MESSAGE(e.ok(), text);
  return e->evaluate(accs, ins);
}

}  // namespace

TEST_CASE("expressions print and parse back") {
  Expr gated = Expr::call("mul", {Expr::call("silu", {Expr::acc(0)}), Expr::cast(DType::bf16, Expr::in(1))});
  CHECK(gated.str() == "mul(silu(acc0), cast_bf16(in1))");
  CHECK(gated.count_nodes() == 5);
  uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  INFO("seed " << seed);
  for (int i = 0; i < 300; ++i) {
    Expr e = random_expr(random, 1 + static_cast<int>(random() % 4));
    auto back = Expr::parse(e.str());
    REQUIRE_MESSAGE(back.ok(), e.str());
    CHECK_MESSAGE(*back == e, e.str());
  }
}

TEST_CASE("functions compute what their names say") {
  CHECK(eval("add(mul(acc0, acc1), in0)", {2, 3}, {4}) == 10);
  CHECK(eval("clamp(acc0, -1, 1)", {5}) == 1);
  CHECK(eval("div(sub(acc0, 1), neg(2))", {5}) == -2);
  CHECK(eval("round_even(2.5)") == 2);
  CHECK(eval("gelu(1)") == doctest::Approx(0.841344746068543).epsilon(1e-14));
  CHECK(eval("gelu(-10)") == doctest::Approx(-7.61985302416052e-23).epsilon(1e-10));
  CHECK(eval("gelu_tanh(1)") == doctest::Approx(0.8411919906082768).epsilon(1e-14));
  CHECK(eval("silu(2)") == doctest::Approx(1.7615941559557649).epsilon(1e-14));
  CHECK(eval("cast_bf16(1.001)") == 1);
  CHECK(eval("max(rsqrt(4), min(sqrt(4), pow(2, 3)))") == 2);
  for (const char* f : {"relu(acc0)", "max(acc0, 0)", "max(0, acc0)", "min(0, acc0)", "clamp(acc0, 0, 1)"})
    CHECK_MESSAGE(std::isnan(eval(f, {std::numeric_limits<double>::quiet_NaN()})), f);
}

TEST_CASE("bad expressions are refused") {
  for (const char* bad : {"", "acc", "pos", "size-1", "acc-1", "acc99999", "foo(acc0)", "add(acc0)", "add(acc0, in0",
                          "add(acc0, in0))", "silu()", "cast_q8(acc0)", "1.2.3", "acc0 acc1"})
    CHECK_MESSAGE(!Expr::parse(bad).ok(), bad);
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "neg(";
  CHECK_FALSE(Expr::parse(deep).ok());
}

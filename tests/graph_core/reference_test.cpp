#include "graph/oracle/reference.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <set>

#include "graph/ops/complex_pairs.h"
#include "graph/ops/op_table.h"
#include "graph/ops/verify.h"
#include "graph/oracle/input_ranges.h"
#include "graph/oracle/order.h"
#include "graph/read/text.h"
#include "tests/torch_cases.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::vector<double> values_of(const Tensor& t) {
  std::vector<double> values;
  for (int64_t i = 0; i < t.numel(); ++i)
    values.push_back(element_to_double(t.dtype, t.bytes().data() + i * dtype_bytes(t.dtype)));
  return values;
}

Graph parse(const std::string& text) {
  auto g = parse_graph(text);
  REQUIRE_MESSAGE(g.ok(), g.error().to_string() << "\n" << text);
  Status status = verify_graph(*g);
  REQUIRE_MESSAGE(status.ok(), status.error().to_string() << "\n" << text);
  return std::move(*g);
}

std::vector<Tensor> evaluate(const Graph& g, const std::vector<Tensor>& inputs, bool emulate = false) {
  auto out = evaluate_graph(g, inputs, {emulate});
  REQUIRE_MESSAGE(out.ok(), out.error().to_string());
  return std::move(*out);
}

// What eager float arithmetic may differ by from double arithmetic rounded once; products of cancelling terms need the
// absolute part.
double tolerance(DType dtype, double want) {
  double relative = dtype == DType::bf16 ? 1.0 / 128 : dtype == DType::f16 ? 1.0 / 1024 : 4e-6;
  return relative * std::max(std::abs(want), 0.25);
}

void check_case(const TorchCase& test, std::set<std::string>& seen) {
  Graph g = test.graph();
  for (const Node& node : g.nodes) seen.insert(node.op->name);
  const std::vector<Tensor> inputs = test.input_tensors();
  for (bool emulate : {true, false}) {
    std::vector<Tensor> got = evaluate(g, inputs, emulate);
    REQUIRE(got.size() == test.outputs.size());
    for (size_t i = 0; i < got.size(); ++i) {
      std::vector<double> values = values_of(got[i]);
      REQUIRE(values.size() == test.outputs[i].size());
      for (size_t k = 0; k < values.size(); ++k) {
        double want = round_to_dtype(got[i].dtype, test.outputs[i][k]);  // the file holds nine digits
        if (std::isnan(want) ? std::isnan(values[k]) : values[k] == want) continue;
        bool close = !(test.is_exact() && emulate) && is_floating(got[i].dtype) &&
                     std::abs(values[k] - want) <= tolerance(got[i].dtype, want);
        CHECK_MESSAGE(close, test.title << " output " << i << " element " << k << ": " << values[k] << ", torch "
                                        << want << ", emulate " << emulate << "\n"
                                        << test.text);
      }
    }
  }
}

}  // namespace

TEST_CASE("every op computes what torch computes") {
  std::set<std::string> seen;
  for (const TorchCase& test : read_torch_cases()) check_case(test, seen);
  // What has no torch twin, or no value, is tested elsewhere in this file or has no CPU kernel in torch's and torchao's
  // packages (int4_packing_test.cpp), or is ours (coded_test.cpp), or gives shapes only (tensor_cast.cat, which is
  // aten.cat of one dtype), or is in a package of its own (transformers, whose grouped_mm is aten._grouped_mm); everything else must have a case.
  for (const OpSchema& op : op_table()) {
    const bool is_written_in_others = is_fourier(op.name) && !op.name.starts_with("aten._fft_");  // by the reader
    bool other = is_written_in_others || op.role == OpRole::internal || op.role == OpRole::assertion ||
                 op.name == "aten.sym_size.int" || op.name == "aten._weight_int4pack_mm.default" ||
                 op.name == "torchao.da8w4_linear_cpu.default" || op.name == "aten.to.device" ||
                 op.name == "qcg.dequantize_4bit" || op.name.find("empty") != std::string::npos ||
                 op.name == "tensor_cast.cat.default" || op.name == "transformers.grouped_mm_fallback.default" ||
                 functional_name(op.name) != op.name;
    if (!other) CHECK_MESSAGE(seen.contains(op.name), op.name);
  }
}

TEST_CASE("symbols are bound from the inputs' shapes") {
  Graph g = parse(
      "symbol s0 in [1, 64]\nsymbol s1 in [0, 8]\ngraph(%x: f32[2*s0+1, s1], %y: f32[s0*s1, 1]) {\n"
      "  %n = aten.sym_size.int(%x, dim = 0) : i64[]\n  %r = aten.reshape.default(%y, shape = [s0, -1]) : f32[s0, "
      "s1]\n  return %n, %r\n}\n");
  auto symbols = bind_symbols(g, {{9, 3}, {12, 1}});
  REQUIRE(symbols.ok());
  CHECK(*symbols == SymbolValues{{"s0", 4}, {"s1", 3}});
  CHECK_FALSE(bind_symbols(g, {{8, 3}, {12, 1}}).ok());
  CHECK_FALSE(bind_symbols(g, {{9, 3}, {13, 1}}).ok());
  CHECK_FALSE(bind_symbols(g, {{9, 9}, {36, 1}}).ok());
  CHECK_FALSE(bind_symbols(g, {{9, 3}}).ok());
  g.conditions = {{SizeCondition::Says::not_zero, Dim::symbol("s0") - Dim(4), "s0 != 4"}};
  CHECK(bind_symbols(g, {{9, 3}, {12, 1}}).error().message.find("s0 != 4") != std::string::npos);
  CHECK(bind_symbols(g, {{11, 3}, {15, 1}}).ok());
  g.conditions.clear();
  auto out = evaluate(g, {Tensor::zeros(DType::f32, {9, 3}), Tensor::zeros(DType::f32, {12, 1})});
  CHECK(values_of(out[0]) == std::vector<double>{9});
  CHECK(out[1].shape == std::vector<int64_t>{4, 3});
  out = evaluate(g, {Tensor::zeros(DType::f32, {9, 0}), Tensor::zeros(DType::f32, {0, 1})});
  CHECK(out[1].shape == std::vector<int64_t>{4, 0});
}

TEST_CASE("an input may be the value of a symbol") {
  Graph g = parse(
      "symbol n in [1, 8]\ngraph(%x: f32[8], %k: i64[] = n, %again: i32[1] = n) {\n"
      "  %y = aten.slice.Tensor(%x, end = n) : f32[n]\n  return %y\n}\n");
  const auto of = [&](int64_t n, int32_t again) {
    const auto bytes = [](const auto& v) {
      const auto* p = reinterpret_cast<const std::byte*>(&v);
      return std::vector<std::byte>(p, p + sizeof v);
    };
    return evaluate_graph(g, {Tensor::zeros(DType::f32, {8}), Tensor::from_bytes(DType::i64, {}, bytes(n)),
                              Tensor::from_bytes(DType::i32, {1}, bytes(again))});
  };
  const auto out = of(3, 3);
  REQUIRE(out.ok());
  CHECK((*out)[0].shape == std::vector<int64_t>{3});
  for (const auto& [n, again] : {std::pair(3, 4), {0, 0}, {-1, -1}, {9, 9}}) CHECK_FALSE(of(n, again).ok());
}

TEST_CASE("intermediates round only when casts are emulated, constants always") {
  Graph g = parse(
      "graph(%x: bf16[1]) {\n  %a = aten.add.Tensor(%x, other = 0.001) : bf16[1]\n"
      "  %b = aten.sub.Tensor(%a, %x) : bf16[1]\n  return %b\n}\n");
  Tensor one = tensor_of(DType::bf16, {1}, {1});
  CHECK(values_of(evaluate(g, {one}, true)[0])[0] == 0);
  CHECK(values_of(evaluate(g, {one}, false)[0])[0] == doctest::Approx(0.001).epsilon(0.004));

  Graph constant = parse(
      "param @s: f32[1]\ngraph(%x: f32[1]) {\n  %c = aten.to.dtype(@s, dtype = bf16) : bf16[1]\n"
      "  %d = aten.to.dtype(%c, dtype = f32) : f32[1]\n  %y = aten.mul.Tensor(%x, %d) : f32[1]\n  return %y\n}\n");
  for (Value& v : constant.values)
    if (v.kind == ValueKind::parameter) v.data = tensor_of(DType::f32, {1}, {1.001});
  CHECK(values_of(evaluate(constant, {tensor_of(DType::f32, {1}, {1})})[0])[0] == 1);
}

TEST_CASE("qcg.linear computes every scheme") {
  Graph g = parse(
      "param @w0: i8[2, 4]\nparam @s0: f32[2, 2]\nparam @z0: i8[2, 2]\nparam @w1: i8[2, 4]\nparam @s1: f32[2, "
      "2]\nparam @b1: f32[2]\n"
      "symbol m in [0, 8]\ngraph(%a: f32[m, 1], %b: f32[m, 3], %r: f32[2]) {\n"
      "  %y, %t = qcg.linear([%a, %b], weights = [@w0, @w1], scales = [@s0, @s1], zeros = [@z0, none], biases = [none, "
      "@b1], "
      "operands = [%r], scheme = \"w4\", group = 3, epilogue = [add(mul(acc0, acc1), in0), neg(acc1)]) : f32[m, 2], "
      "bf16[m, 2]\n"
      "  return %y, %t\n}\n");
  auto set = [&](std::string_view name, DType dtype, std::vector<int64_t> shape, std::vector<double> values) {
    for (Value& v : g.values)
      if (v.name == name) v.data = tensor_of(dtype, shape, values);
  };
  set("w0", DType::i8, {2, 4}, {1, 2, 3, 4, -1, -2, -3, -4});
  set("s0", DType::f32, {2, 2}, {0.5, 2, 1, 0.25});
  set("z0", DType::i8, {2, 2}, {1, 0, -1, 2});
  set("w1", DType::i8, {2, 4}, {1, 0, 0, 1, 0, 1, 1, 0});
  set("s1", DType::f32, {2, 2}, {1, 1, 2, 2});
  set("b1", DType::f32, {2}, {10, 20});
  auto out = evaluate(g, {tensor_of(DType::f32, {1, 1}, {1}), tensor_of(DType::f32, {1, 3}, {2, 3, 4}),
                          tensor_of(DType::f32, {2}, {100, 200})});
  // w0^ = [[0, .5, 1, 8], [0, -1, -2, -1.5]], acc0 = [36, -14]; acc1 = [1 + 4 + 10, 2 * (2 + 3) + 20] = [15, 30]
  CHECK(values_of(out[0]) == std::vector<double>{36 * 15 + 100, -14 * 30 + 200});
  CHECK(values_of(out[1]) == std::vector<double>{-15, -30});
  out = evaluate(
      g, {Tensor::zeros(DType::f32, {0, 1}), Tensor::zeros(DType::f32, {0, 3}), Tensor::zeros(DType::f32, {2})});
  CHECK(out[0].shape == std::vector<int64_t>{0, 2});
}

TEST_CASE("da8w8 equals its parts, s8s8 is exact") {
  uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  INFO("seed " << seed);
  Graph g = parse(
      "param @w: i8[3, 32]\nparam @s: f32[3, 1]\ngraph(%x: bf16[5, 32]) {\n"
      "  %q, %xs, %xz = qcg.quantize_rows(%x, mapping = \"ASYMMETRIC\", quant_min = -128, quant_max = 127, eps = "
      "1.1920928955078125e-07) : "
      "i8[5, 32], f32[5, 1], i32[5, 1]\n"
      "  %y = qcg.linear([%q], %xs, %xz, [@w], scales = [@s], scheme = \"da8w8\", epilogue = [acc0]) : f32[5, 3]\n"
      "  %i = qcg.linear([%q], weights = [@w], scheme = \"s8s8\", epilogue = [acc0]) : i32[5, 3]\n"
      "  %d = torchao.dequantize_affine.default(%q, block_size = [1, 32], scale = %xs, zero_point = %xz, input_dtype = "
      "i8) : f32[5, 32]\n"
      "  %v = torchao.dequantize_affine.default(@w, block_size = [1, 32], scale = @s, zero_point = none, input_dtype = "
      "i8) : f32[3, 32]\n"
      "  %z = aten.linear.default(%d, %v) : f32[5, 3]\n"
      "  %t = aten.t.default(@w) : i8[32, 3]\n  %j = aten._int_mm.default(%q, %t) : i32[5, 3]\n  return %y, %z, %i, "
      "%j\n}\n");
  auto random_tensor = [&](DType dtype, std::vector<int64_t> shape) {
    std::vector<double> values(Tensor::zeros(DType::i8, shape).numel());
    for (double& v : values)
      v = is_floating(dtype) ? static_cast<int>(random() % 2000) / 250.0 - 3 : static_cast<int>(random() % 256) - 128;
    return tensor_of(dtype, shape, values);
  };
  for (Value& v : g.values)
    if (v.kind == ValueKind::parameter) v.data = random_tensor(v.dtype, v.data.shape);
  auto out = evaluate(g, {random_tensor(DType::bf16, {5, 32})});
  auto fused = values_of(out[0]), parts = values_of(out[1]);
  for (size_t i = 0; i < fused.size(); ++i) CHECK(fused[i] == doctest::Approx(parts[i]).epsilon(1e-6));
  CHECK(values_of(out[2]) == values_of(out[3]));
}

TEST_CASE("chosen rows and columns of a linear, with magnitudes") {
  LinearOperands p;
  p.xs = {tensor_of(DType::f32, {3, 2}, {1, 2, 3, 4, 5, 6}), tensor_of(DType::f32, {3, 1}, {-1, -2, -3})};
  p.segments = {{tensor_of(DType::f32, {2, 3}, {1, -1, 2, 0, 1, -1}), {}, {}, tensor_of(DType::f32, {2}, {-7, 8})}};
  int64_t rows[] = {2, 0}, columns[] = {1};
  auto some = reference_linear(p, 0, rows, columns);
  REQUIRE(some.ok());
  CHECK(some->y == std::vector<double>{6 + 3 + 8, 2 + 1 + 8});
  CHECK(some->abs_sum == std::vector<double>{6 + 3 + 8, 2 + 1 + 8});
  auto all = reference_linear(p, 0);
  REQUIRE(all.ok());
  CHECK(all->y[0] == 1 - 2 - 2 - 7);
  CHECK(all->abs_sum[0] == 1 + 2 + 2 + 7);
  int64_t far[] = {3};
  CHECK_FALSE(reference_linear(p, 0, far).ok());
  CHECK_FALSE(reference_linear(p, 1).ok());
  p.scheme = Scheme::w8;
  CHECK_FALSE(reference_linear(p, 0).ok());
  double accs[] = {2, 3}, tolerances[] = {0.5, 0.25};
  const Expr product = *Expr::parse("mul(acc0, acc1)");
  const ToleranceValue moved = evaluate_with_tolerance(product, accs, tolerances, {});
  CHECK(moved.value == 6);
  CHECK(moved.tolerance == 0.5 * 3 + 0.25 * 2 + 0.5 * 0.25 + 6 * 0x1p-22);
  // 2 + 2^-7 lies in the middle of two bf16 numbers: the cast may go either way, unlike that of 2.
  const Expr rounded = *Expr::parse("cast_bf16(mul(acc0, acc1))");
  const double tie[] = {1, 2 + 0x1p-7}, exact[] = {1, 2}, none[] = {0, 0};
  CHECK(evaluate_with_tolerance(rounded, tie, none, {}).tolerance == 0x1p-6);
  CHECK(evaluate_with_tolerance(rounded, exact, none, {}).tolerance == 0);
  // The square of a rounded number, as of f16 in a norm, is off by the square of the rounding too.
  const Expr square = *Expr::parse("mul(cast_f16(acc0), cast_f16(acc0))");
  const double near_tie[] = {1 + 0x1p-11, 0}, little[] = {0x1p-30, 0};
  const ToleranceValue squared = evaluate_with_tolerance(square, near_tie, little, {});
  CHECK(squared.value == 1);
  CHECK(squared.tolerance >= (1 + 0x1p-10) * (1 + 0x1p-10) - 1);
  // What cancels is as wrong as what it was the difference of.
  const Expr cancels = *Expr::parse("add(1, tanh(acc0))");
  const double far_left[] = {-9, 0};
  const ToleranceValue left = evaluate_with_tolerance(cancels, far_left, none, {});
  CHECK(left.value < 1e-7);
  CHECK(left.tolerance > 0x1p-24);
  CHECK(left.tolerance < 0x1p-18);
  // exp(-200) is 0 in f32: a comparison with 0 may go either way, unlike that of exp(-1).
  const Expr is_zero = *Expr::parse("where(gt(exp(acc0), 0), 0, 1)");
  const double tiny[] = {-200, 0}, small[] = {-1, 0};
  CHECK(evaluate_with_tolerance(is_zero, tiny, none, {}).tolerance >= 1);
  CHECK(evaluate_with_tolerance(is_zero, small, none, {}).tolerance < 1);
  // No number has no error of its own, and where arguments nearby give one, anything may come out.
  const Expr root = *Expr::parse("mul(sqrt(acc0), 2)");
  const double negative[] = {-4, 0}, near_zero[] = {-0x1p-30, 0}, infinite[] = {HUGE_VAL, 0}, off[] = {0x1p-20, 0};
  CHECK(std::isnan(evaluate_with_tolerance(root, negative, off, {}).value));
  CHECK(evaluate_with_tolerance(root, negative, off, {}).tolerance == 0);
  CHECK(evaluate_with_tolerance(root, near_zero, off, {}).tolerance == HUGE_VAL);
  CHECK(evaluate_with_tolerance(root, infinite, none, {}).tolerance == 0);
}

TEST_CASE("NaN stays in its row") {
  Graph g =
      parse("graph(%x: f32[3, 4], %w: f32[2, 4]) {\n  %y = aten.linear.default(%x, %w) : f32[3, 2]\n  return %y\n}\n");
  Tensor x = tensor_of(DType::f32, {3, 4}, {1, 2, 3, 4, NAN, 1, 1, 1, 4, 3, 2, 1});
  auto y = values_of(evaluate(g, {x, tensor_of(DType::f32, {2, 4}, {1, 1, 1, 1, 0, 0, 0, 2})})[0]);
  CHECK(y[0] == 10);
  CHECK(std::isnan(y[2]));
  CHECK(std::isnan(y[3]));
  CHECK(y[5] == 2);
}

TEST_CASE("integers that a mask of the least float is made of are 0 and 1") {
  const Graph g = parse(R"(graph(%m: i64[2, 3], %n: i64[2, 3]) {
  %u = aten.unsqueeze.default(%m, dim = 1) : i64[2, 1, 3]
  %f = aten.to.dtype(%u, dtype = f32) : f32[2, 1, 3]
  %r = aten.rsub.Scalar(%f, other = 1.0) : f32[2, 1, 3]
  %y = aten.mul.Tensor(%r, other = -3.4028234663852886e+38) : f32[2, 1, 3]
  %h = aten.to.dtype(%n, dtype = f32) : f32[2, 3]
  %z = aten.mul.Tensor(%h, other = 2.0) : f32[2, 3]
  return %y, %z
}
)");
  const auto ranges = input_ranges(g, {});
  CHECK(ranges[0].low == 0);
  CHECK(ranges[0].high == 1);
  CHECK_FALSE(ranges[1].is_known());
}

TEST_CASE("bad calls are errors") {
  Graph g = parse(
      "param @w: f32[2, 4]\ngraph(%x: f32[3, 4]) {\n  %y = aten.linear.default(%x, @w) : f32[3, 2]\n  return %y\n}\n");
  CHECK_FALSE(evaluate_graph(g, {Tensor::zeros(DType::f32, {3, 4})}).ok());  // no weights
  CHECK_FALSE(evaluate_graph(g, {}).ok());
  CHECK_FALSE(evaluate_graph(g, {Tensor::zeros(DType::bf16, {3, 4})}).ok());
  CHECK_FALSE(evaluate_graph(g, {Tensor::zeros(DType::f32, {4, 4})}).ok());
}

TEST_CASE(
    "a disturbed evaluation flips codes of some rows, and leaves whole numbers and what follows from them alone") {
  const Graph g = parse(R"(graph(%x: f32[4, 64]) {
  %h = aten.mul.Tensor(%x, 37.3) : f32[4, 64]
  %r = aten.round.default(%h) : f32[4, 64]
  %c = aten.clamp.default(%r, -128, 127) : f32[4, 64]
  %q = aten.to.dtype(%c, i8) : i8[4, 64]
  %p = aten.relu.default(%x) : f32[4, 64]
  %m = aten.gt.Scalar(%p, 0) : bool[4, 64]
  return %q, %m
}
)");
  std::mt19937_64 rng(3);
  std::vector<double> x(4 * 64);
  for (double& v : x) v = std::normal_distribution<double>()(rng);
  const std::vector<Tensor> inputs = {tensor_of(DType::f32, {4, 64}, x)};
  const auto exact = evaluate(g, inputs);
  int flipped = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    auto moved = evaluate_graph(g, inputs, {.disturbed = seed});
    REQUIRE(moved.ok());
    const std::vector<double> before = values_of(exact[0]), after = values_of((*moved)[0]);
    for (size_t i = 0; i < before.size(); ++i) {
      flipped += before[i] != after[i];
      CHECK(std::abs(before[i] - after[i]) <= 1);
    }
    CHECK(values_of(exact[1]) == values_of((*moved)[1]));
  }
  CHECK(flipped >= 1);
  CHECK(flipped <= 4 * 4);
}

TEST_CASE("a disturbed sum that cancels is zero at times, and the zero of a sum is not always one") {
  const Graph g = parse(R"(graph(%x: f32[2, 3], %w: f32[3, 2]) {
  %y = aten.mm.default(%x, %w) : f32[2, 2]
  %b = aten.to.dtype(%y, bool) : bool[2, 2]
  return %b
}
)");
  // Column 0 of the product cancels: in row 0 but for the last bits, in row 1 exactly.
  const std::vector<Tensor> inputs = {tensor_of(DType::f32, {2, 3}, {1 + 0x1p-23, 1, 1, 1, 1, 2.5}),
                                      tensor_of(DType::f32, {3, 2}, {1, 0.3, -1, 0.3, 0, 0.3})};
  std::set<std::vector<double>> seen;
  for (uint64_t seed = 1; seed <= 32; ++seed) {
    const auto moved = evaluate_graph(g, inputs, {.disturbed = seed});
    REQUIRE(moved.ok());
    seen.insert(values_of((*moved)[0]));
  }
  for (double a : {0, 1})
    for (double b : {0, 1}) CHECK(seen.contains({a, 1, b, 1}));
}

TEST_CASE("with a deadline, what costs little comes first and what is not reached is unbound") {
  const Graph g = parse(R"(graph(%x: f32[512, 512]) {
  %a = aten.mm.default(%x, %x) : f32[512, 512]
  %b = aten.mm.default(%a, %x) : f32[512, 512]
  %c = aten.neg.default(%x) : f32[512, 512]
  return %b, %c
}
)");
  const std::vector<Tensor> inputs = {Tensor::zeros(DType::f32, {512, 512})};
  using Clock = std::chrono::steady_clock;
  const auto late = evaluate_until(g, inputs, {}, Clock::now() - std::chrono::seconds(1));
  const auto whole = evaluate_until(g, inputs, {}, Clock::now() + std::chrono::hours(1));
  REQUIRE(late.ok());
  REQUIRE(whole.ok());
  CHECK(!(*late)[0].bound());
  CHECK(!(*late)[1].bound());
  CHECK(cheapest_outputs_first(g, {}) == std::vector<size_t>{1, 0});
  CHECK(values_of((*whole)[0]) == values_of(evaluate(g, inputs)[0]));
}

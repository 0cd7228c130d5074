// Attention in random spellings: one node, the same values, also where rows see nothing.
#include <fmt/format.h>

#include "graph/ops/verify.h"
#include "tests/passes/passes_test_util.h"

using namespace qcg;

namespace {

struct Spelling {
  int64_t batch, heads, group, rows, columns;
  int scale, mask, second, cap;  // which spelling
  bool safe, matrices, cast;
};

Spelling random_spelling(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  Spelling s{1 + below(2), 1 + below(3), 1 + below(3),  below(5),      below(9),     below(5),
             below(6),     below(3),     below(2) == 1, below(2) == 1, below(2) == 1};
  if (s.rows == 0 || s.columns == 0) s.matrices = false;
  return s;
}

class Writer {
 public:
  explicit Writer(const Spelling& s) : s_(s) {}

  std::string write() {
    const int64_t heads = s_.heads * s_.group;
    const std::string few = shape({s_.batch, s_.heads, s_.columns, 4}), q = shape({s_.batch, heads, s_.rows, 4});
    const std::string many = shape({s_.batch, heads, s_.columns, 4}), turned = shape({s_.batch, heads, 4, s_.columns});
    scores_ = shape({s_.batch, heads, s_.rows, s_.columns});
    rows_ = shape({s_.batch, heads, s_.rows, 1});
    std::string head = fmt::format(
        "param @never: f32[]\nparam @none: f32[]\ngraph(%q: f32{}, %k: f32{}, %v: f32{}, %seen: bool{}, %bias: f32{}, "
        "%other: bool{}) {{\n",
        q, few, few, seen_shape(), shape({heads, s_.rows, s_.columns}), seen_shape());
    std::string keys = repeat("k", many), values = repeat("v", many), query = "q";
    if (s_.scale % 2 == 1) query = add("aten.mul.Tensor(%q, 0.5)", q);
    std::string kt = add(fmt::format("aten.permute.default(%{}, dims = [0, 1, 3, 2])", keys), turned);
    if (s_.scale == 3) kt = add(fmt::format("aten.mul.Scalar(%{}, 0.5)", kt), turned);
    std::string x = product(query, kt, {s_.batch, heads, s_.rows, 4}, {s_.batch, heads, 4, s_.columns},
                            {s_.batch, heads, s_.rows, s_.columns});
    if (s_.scale == 2) x = add(fmt::format("aten.div.Tensor(%{}, 2.0)", x), scores_);
    if (s_.scale == 4) x = add(fmt::format("aten.mul.Tensor(%{}, 0.3)", x), scores_);
    if (s_.cap == 1)
      x = add(fmt::format("aten.mul.Tensor(%{}, 5.0)", add(fmt::format("aten.tanh.default(%{})", x), scores_)),
              scores_);
    if (s_.cap == 2) x = add(fmt::format("aten.add.Tensor(%{}, %bias)", x), scores_);
    x = masked_again(masked(x));
    if (s_.cast) x = add_as(fmt::format("aten.to.dtype(%{}, dtype = f32)", x), "f32", scores_);
    std::string w = add(fmt::format("aten._softmax.default(%{}, dim = -1, half_to_float = false)", x), scores_);
    if (s_.safe) w = safe(x, w);
    const std::string y = product(w, values, {s_.batch, heads, s_.rows, s_.columns}, {s_.batch, heads, s_.columns, 4},
                                  {s_.batch, heads, s_.rows, 4});
    return head + body_ + fmt::format("  return %{}\n}}\n", y);
  }

 private:
  static std::string shape(std::vector<int64_t> sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }
  std::string seen_shape() const { return shape({s_.batch, 1, s_.rows, s_.columns}); }

  std::string add(const std::string& call, const std::string& shape) { return add_as(call, "f32", shape); }
  std::string add_as(const std::string& call, std::string_view dtype, const std::string& shape) {
    body_ += fmt::format("  %n{} = {} : {}{}\n", next_, call, dtype, shape);
    return fmt::format("n{}", next_++);
  }

  std::string repeat(const std::string& id, const std::string& many) {
    if (s_.group == 1) return id;
    const std::string one = shape({s_.batch, s_.heads, 1, s_.columns, 4}),
                      all = shape({s_.batch, s_.heads, s_.group, s_.columns, 4});
    const std::string a = add(fmt::format("aten.reshape.default(%{}, shape = {})", id, one), one);
    const std::string b = add(fmt::format("aten.expand.default(%{}, size = {})", a, all), all);
    return add(fmt::format("aten.reshape.default(%{}, shape = {})", b, many), many);
  }

  std::string product(const std::string& a, const std::string& b, std::vector<int64_t> x, std::vector<int64_t> w,
                      std::vector<int64_t> y) {
    const std::string whole = shape(y);
    if (!s_.matrices) return add(fmt::format("aten.matmul.default(%{}, %{})", a, b), whole);
    for (auto* sizes : {&x, &w, &y}) (*sizes)[1] *= (*sizes)[0], sizes->erase(sizes->begin());
    const std::string left = add(fmt::format("aten.reshape.default(%{}, shape = {})", a, shape(x)), shape(x));
    const std::string right = add(fmt::format("aten.reshape.default(%{}, shape = {})", b, shape(w)), shape(w));
    const std::string merged = add(fmt::format("aten.bmm.default(%{}, %{})", left, right), shape(y));
    return add(fmt::format("aten.reshape.default(%{}, shape = {})", merged, whole), whole);
  }

  std::string masked(const std::string& x) {
    switch (s_.mask) {
      case 1:
      case 2: {
        const std::string m = add(fmt::format("aten.where.self(%seen, @none, {})", "@never"), seen_shape());
        return add(fmt::format("aten.add.Tensor(%{}, %{})", x, m), scores_);
      }
      case 3: {
        const std::string unseen = add_as("aten.logical_not.default(%seen)", "bool", seen_shape());
        return add(fmt::format("aten.masked_fill.Scalar(%{}, %{}, -inf)", x, unseen), scores_);
      }
      case 4: return add(fmt::format("aten.where.self(%seen, %{}, @never)", x), scores_);
      case 5: return add(fmt::format("aten.add.Tensor(%{}, %bias)", x), scores_);
      default: return x;
    }
  }

  // By a mask of its own: what both hide may be hidden more than what one hides.
  std::string masked_again(const std::string& x) {
    switch (s_.second) {
      case 1: return add(fmt::format("aten.where.self(%other, %{}, @never)", x), scores_);
      case 2: {
        const std::string m = add("aten.where.self(%other, @none, @never)", seen_shape());
        return add(fmt::format("aten.add.Tensor(%{}, %{})", x, m), scores_);
      }
      case 3: return add(fmt::format("aten.where.ScalarOther(%other, %{}, -inf)", x), scores_);
      default: return x;
    }
  }

  std::string safe(const std::string& x, const std::string& w) {
    const std::string eq = add_as(fmt::format("aten.eq.Scalar(%{}, -inf)", x), "bool", scores_);
    const std::string some = add_as(fmt::format("aten.logical_not.default(%{})", eq), "bool", scores_);
    const std::string any = add_as(fmt::format("aten.any.dim(%{}, dim = -1, keepdim = true)", some), "bool", rows_);
    const std::string none = add_as(fmt::format("aten.logical_not.default(%{})", any), "bool", rows_);
    const std::string zeros = add(fmt::format("aten.expand.default(@none, size = {})", scores_), scores_);
    return add(fmt::format("aten.where.self(%{}, %{}, %{})", none, zeros, w), scores_);
  }

  const Spelling& s_;
  std::string body_, scores_, rows_;
  int next_ = 0;
};

}  // namespace

TEST_CASE("attention of products in random spellings is one node that computes the same") {
  int recognized = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const Spelling spelling = random_spelling(seed);
    Graph before = parse(Writer(spelling).write());
    INFO("seed ", seed, "\n", print_graph(before));
    REQUIRE(verify_graph(before).ok());
    const double never = seed % 2 ? -INFINITY : -3.4028234663852886e+38;
    fill(before, "never", never), fill(before, "none", 0);
    Graph after = before;
    const auto reports = run_passes(after, {.verify_after_each = true});
    REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
    if (spelling.rows > 0 && spelling.columns > 0) {
      CHECK(count_op(after, "qcg.attention") == 1);
      for (const char* op : {"qcg.matmul", "aten.bmm.default", "aten.matmul.default"}) CHECK(count_op(after, op) == 0);
      ++recognized;
    }
    std::vector<Tensor> inputs = random_inputs(before, seed);
    // Rows that see few columns, and some that see none.
    std::mt19937_64 random(seed);
    for (const size_t mask : {3, 5}) {
      std::vector<std::byte> seen(static_cast<size_t>(inputs[mask].numel()));
      for (std::byte& s : seen) s = std::byte{random() % 3 == 0};
      inputs[mask] = Tensor::from_bytes(DType::boolean, inputs[mask].shape, std::move(seen));
    }
    // Sums of masks overflow in f32, as in eager.
    const auto want = evaluate_graph(before, inputs, {.emulate_casts = true}), got = evaluate_graph(after, inputs);
    REQUIRE((want.ok() && got.ok()));
    REQUIRE((*want)[0].shape == (*got)[0].shape);
    const Tensor a = (*want)[0].contiguous(), b = (*got)[0].contiguous();
    int wrong = 0;
    for (int64_t i = 0; i < a.numel(); ++i) {
      const double x = element_to_double(a.dtype, a.bytes().data() + i * dtype_bytes(a.dtype)),
                   y = element_to_double(b.dtype, b.bytes().data() + i * dtype_bytes(b.dtype));
      wrong += std::isnan(x) ? !std::isnan(y) : !(std::fabs(x - y) < 1e-5);
    }
    CHECK_MESSAGE(wrong == 0, print_graph(after));
  }
  CHECK(recognized > 200);
}

TEST_CASE("attention of products keeps its roundings to 16 bits where the score steps and where casts are emulated") {
  const auto recognized = [](const std::string& dtype, const std::string& score, bool emulate) {
    const std::string shape = " : " + dtype + "[2, 3, 4, 5]";
    Graph graph = parse("graph(%q: " + dtype + "[2, 3, 4, 8], %kt: " + dtype + "[2, 3, 8, 5], %v: " + dtype +
                        "[2, 3, 5, 8]) {\n  %p = aten.matmul.default(%q, %kt)" + shape +
                        "\n  %m = aten.mul.Tensor(%p, 0.35)" + shape + "\n  %s = " + score + shape +
                        "\n  %w = aten._softmax.default(%s, dim = -1, half_to_float = false)" + shape +
                        "\n  %y = aten.matmul.default(%w, %v) : " + dtype + "[2, 3, 4, 8]\n  return %y\n}\n");
    const auto reports = run_passes(graph, {.emulate_precision_casts = emulate});
    REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
    return count_op(graph, "qcg.attention") == 1;
  };
  for (const char* dtype : {"bf16", "f16"}) {
    CHECK(recognized(dtype, "aten.tanh.default(%m)", false));
    CHECK_FALSE(recognized(dtype, "aten.tanh.default(%m)", true));
    for (const char* step : {"aten.round.default(%m)", "aten.hardshrink.default(%m, 1.0)"})
      for (const bool emulate : {false, true}) CHECK_FALSE(recognized(dtype, step, emulate));
  }
  for (const char* score : {"aten.tanh.default(%m)", "aten.round.default(%m)"})
    for (const bool emulate : {false, true}) CHECK(recognized("f32", score, emulate));
}

TEST_CASE("rows that see nothing are NaN where a cast to 16 bits makes their mask infinite") {
  const auto empty_rows = [](const std::string& masked, const std::string& dtype) {
    Graph graph =
        parse(fmt::format(R"(graph(%q: {1}[2, 4, 8], %kt: {1}[2, 8, 5], %v: {1}[2, 5, 8], %hidden: bool[4, 5]) {{
  %p = aten.matmul.default(%q, %kt) : {1}[2, 4, 5]
  %f = aten.to.dtype(%p, dtype = {0}) : {0}[2, 4, 5]
  %m = aten.masked_fill.Scalar(%f, %hidden, -3.3895313892515355e+38) : {0}[2, 4, 5]
  %s = aten.to.dtype(%m, dtype = {1}) : {1}[2, 4, 5]
  %w = aten._softmax.default(%s, dim = -1, half_to_float = false) : {1}[2, 4, 5]
  %y = aten.matmul.default(%w, %v) : {1}[2, 4, 8]
  return %y
}}
)",
                          masked, dtype));
    REQUIRE(run_passes(graph, {}).ok());
    REQUIRE(count_op(graph, "qcg.attention") == 1);
    const std::string text = print_graph(graph);
    return text.find("\"nan\"") != text.npos ? "nan" : text.find("\"mean\"") != text.npos ? "mean" : "zero";
  };
  CHECK(empty_rows("f32", "f16") == std::string("nan"));
  CHECK(empty_rows("f32", "bf16") == std::string("mean"));  // the lowest bf16, finite in both
  CHECK(empty_rows("bf16", "bf16") == std::string("mean"));
  CHECK(empty_rows("f32", "f32") == std::string("mean"));
}

TEST_CASE("heads that a graph repeats of keys without a batch are those of every batch") {
  Graph before = parse(R"(graph(%q: f32[2, 6, 4, 8], %k: f32[2, 5, 8], %v: f32[2, 5, 8]) {
  %k1 = aten.reshape.default(%k, shape = [2, 1, 5, 8]) : f32[2, 1, 5, 8]
  %k2 = aten.expand.default(%k1, size = [2, 3, 5, 8]) : f32[2, 3, 5, 8]
  %k3 = aten.reshape.default(%k2, shape = [6, 5, 8]) : f32[6, 5, 8]
  %v1 = aten.reshape.default(%v, shape = [2, 1, 5, 8]) : f32[2, 1, 5, 8]
  %v2 = aten.expand.default(%v1, size = [2, 3, 5, 8]) : f32[2, 3, 5, 8]
  %v3 = aten.reshape.default(%v2, shape = [6, 5, 8]) : f32[6, 5, 8]
  %t = aten.permute.default(%k3, dims = [0, 2, 1]) : f32[6, 8, 5]
  %s = aten.matmul.default(%q, %t) : f32[2, 6, 4, 5]
  %w = aten._softmax.default(%s, dim = -1, half_to_float = false) : f32[2, 6, 4, 5]
  %y = aten.matmul.default(%w, %v3) : f32[2, 6, 4, 8]
  return %y
}
)");
  Graph after = before;
  const auto reports = run_passes(after, {.verify_after_each = true});
  REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
  CHECK(count_op(after, "qcg.attention") == 1);
  check_same_values(before, after, 1);
}

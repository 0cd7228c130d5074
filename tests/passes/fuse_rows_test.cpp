// fuse_rows on random graphs of loops, reductions, quantizations, reshapes and products: what they compute stays.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "graph/ops/op_table.h"
#include "graph/ops/verify.h"
#include "graph/oracle/reference.h"
#include "graph/passes/pass_list.h"
#include "graph/read/text.h"

using namespace qcg;

namespace {

// A graph over rows of 12 elements, as text. Values of elements are [s0, 4, 12] or [4*s0, 12], those per row have a last
// axis of 1, or none.
class RandomRows {
 public:
  explicit RandomRows(uint64_t seed) : rng_(seed) {}

  std::string write() {
    elements_ = {{"%x", true}, {"%y", false}};
    per_row_ = {{"%r", true}};
    const int count = 4 + draw(12);
    for (int i = 0; i < count; ++i) add_node();
    std::string outputs;
    for (const auto* list : {&elements_, &per_row_})
      for (size_t i = list == &elements_ ? 2 : 1; i < list->size(); ++i)
        if (draw(3) == 0 || i + 1 == list->size()) outputs += (outputs.empty() ? "" : ", ") + (*list)[i].name;
    return "symbol s0 in [1, 64]\ngraph(%x: f32[s0, 4, 12], %y: f32[4*s0, 12], %r: f32[s0, 4, 1], %w: f32[12], "
           "%m: f32[12, 12], %h: f32[4, 12]) {\n" +
           body_ + "  return " + outputs + "\n}\n";
  }

 private:
  struct Known {
    std::string name;
    bool deep;  // [s0, 4, …], not [4*s0, …]
  };
  int draw(int below) { return static_cast<int>(rng_() % static_cast<uint64_t>(below)); }
  std::string next() { return fmt::format("%v{}", count_++); }
  static std::string type(bool deep, int last) {
    return fmt::format("f32[{}{}]", deep ? "s0, 4" : "4*s0", last > 0 ? fmt::format(", {}", last) : "");
  }
  void line(const std::string& name, const std::string& text, const std::string& type) {
    body_ += fmt::format("  {} = {} : {}\n", name, text, type);
  }

  // One of those, as the wanted shape.
  std::string pick(const std::vector<Known>& from, bool deep, int last) {
    const Known& known = from[static_cast<size_t>(draw(static_cast<int>(from.size())))];
    if (known.deep == deep) return known.name;
    const std::string name = next();
    line(name, fmt::format("aten.reshape.default({}, shape = [{}, {}])", known.name, deep ? "s0, 4" : "4*s0", last),
         type(deep, last));
    return name;
  }

  void add_node() {
    const bool deep = draw(2) == 0;
    const std::string name = next();
    switch (draw(9)) {
      case 0:
      case 1: {
        static constexpr const char* kExprs[] = {"add(mul(in0, in1), in2)", "exp(min(sub(in0, in1), 0))",
                                                 "where(gt(in0, in2), in1, neg(in0))"};
        const std::string last = draw(2) == 0 ? "%w" : deep && draw(2) == 0 ? "%h" : pick(per_row_, deep, 1);
        const std::string a = pick(elements_, deep, 12), b = pick(elements_, deep, 12);
        line(name, fmt::format("qcg.loop([{}, {}, {}], exprs = [{}])", a, b, last, kExprs[draw(3)]), type(deep, 12));
        return elements_.push_back({name, deep});
      }
      case 2: {
        const std::string a = pick(per_row_, deep, 1), b = pick(per_row_, deep, 1);
        line(name, fmt::format("qcg.loop([{}, {}], exprs = [rsqrt(add(abs(in0), abs(in1)))])", a, b), type(deep, 1));
        return per_row_.push_back({name, deep});
      }
      case 3: {
        const std::string a = pick(elements_, deep, 12);
        line(name, fmt::format("qcg.matmul({}, %m, dtype = f32)", a), type(deep, 12));
        return elements_.push_back({name, deep});
      }
      case 4: {
        const std::string a = pick(elements_, deep, 12), s = next(), z = next(), back = next();
        line(fmt::format("{}, {}, {}", name, s, z),
             fmt::format(
                 "qcg.quantize_rows({}, mapping = \"ASYMMETRIC\", quant_min = -128, quant_max = 127, eps = 1e-05)", a),
             fmt::format("i8{}, f32{}, i32{}", type(deep, 12).substr(3), type(deep, 1).substr(3),
                         type(deep, 1).substr(3)));
        line(back, fmt::format("qcg.loop([{}, {}, {}], exprs = [mul(sub(in0, in1), in2)])", name, z, s),
             type(deep, 12));
        per_row_.push_back({s, deep});
        return elements_.push_back({back, deep});
      }
      case 5: {  // 0.5 where a row has few that are larger than another's
        const std::string a = pick(elements_, deep, 12), b = pick(elements_, deep, 12), is = next(), no = next();
        const std::string sum = next(), few = next(), dims = type(deep, 12).substr(3), row = type(deep, 1).substr(3);
        line(is, fmt::format("qcg.loop([{}, {}], exprs = [gt(in0, in1)])", a, b), "bool" + dims);
        line(no, fmt::format("qcg.loop([{}], exprs = [sub(1, in0)], arithmetic = i64)", is), "bool" + dims);
        line(sum, fmt::format("aten.sum.dim_IntList({}, dim = [-1], keepdim = true)", no), "i64" + row);
        line(few, fmt::format("qcg.loop([{}], exprs = [ge(in0, 6)], arithmetic = i64)", sum), "bool" + row);
        line(name, fmt::format("qcg.loop([{}, {}], exprs = [where(in1, in0, 0.5)])", a, few), type(deep, 12));
        return elements_.push_back({name, deep});
      }
      default: break;
    }
    static constexpr const char* kReductions[] = {"mean.dim", "sum.dim_IntList", "amax.default", "amin.default"};
    const std::string a = pick(elements_, deep, 12);
    const bool keepdim = draw(2) == 0;
    line(name, fmt::format("aten.{}({}, dim = [-1], keepdim = {})", kReductions[draw(4)], a, keepdim),
         type(deep, keepdim ? 1 : 0));
    if (keepdim) return per_row_.push_back({name, deep});
    const std::string kept = next();
    line(kept, fmt::format("aten.reshape.default({}, shape = [{}, 1])", name, deep ? "s0, 4" : "4*s0"), type(deep, 1));
    per_row_.push_back({kept, deep});
  }

  std::mt19937_64 rng_;
  std::vector<Known> elements_, per_row_;
  std::string body_;
  int count_ = 0;
};

Tensor random_tensor(std::vector<int64_t> shape, std::mt19937_64& rng) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<std::byte> bytes(static_cast<size_t>(count) * 4);
  std::uniform_real_distribution<double> draw(-2, 2);
  for (size_t i = 0; i < bytes.size(); i += 4) double_to_element(DType::f32, draw(rng), bytes.data() + i);
  return Tensor::from_bytes(DType::f32, std::move(shape), std::move(bytes));
}

std::vector<double> numbers_of(const Tensor& t) {
  const Tensor dense = t.contiguous();
  std::vector<double> out;
  const size_t size = dtype_bytes(dense.dtype);
  for (int64_t i = 0; i < dense.numel(); ++i)
    out.push_back(element_to_double(dense.dtype, dense.bytes().data() + static_cast<size_t>(i) * size));
  return out;
}

// A code may be its neighbour where a number lay between both: there the difference is one step of its scale.
void compare(const Tensor& got, const Tensor& want) {
  const std::vector<double> a = numbers_of(got), b = numbers_of(want);
  REQUIRE(a.size() == b.size());
  double largest = 1e-6;
  for (const double v : b)
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  size_t off = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    off += std::fabs(a[i] - b[i]) > 1e-4 * largest;
    CHECK(std::fabs(a[i] - b[i]) <= 0.05 * largest);
  }
  CHECK(off <= a.size() / 20 + 1);
}

}  // namespace

TEST_CASE("fuse_rows keeps what random graphs of rows compute") {
  int programs = 0, outputs = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = RandomRows(seed).write();
    INFO("seed ", seed, "\n", text);
    auto graph = parse_graph(text);
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    REQUIRE(verify_graph(*graph).ok());
    std::mt19937_64 rng(seed);
    const int64_t s0 = 1 + static_cast<int64_t>(seed % 3);
    const std::vector<Tensor> inputs = {random_tensor({s0, 4, 12}, rng), random_tensor({4 * s0, 12}, rng),
                                        random_tensor({s0, 4, 1}, rng),  random_tensor({12}, rng),
                                        random_tensor({12, 12}, rng),    random_tensor({4, 12}, rng)};
    const auto want = evaluate_graph(*graph, inputs);
    REQUIRE_MESSAGE(want.ok(), want.error().to_string());
    Graph fused = *graph;
    const auto report = run_pass("fuse_rows", fused);
    REQUIRE_MESSAGE(report.ok(), report.error().to_string());
    const Status verified = verify_graph(fused);
    REQUIRE_MESSAGE(verified.ok(), verified.error().to_string(), print_graph(fused));
    const auto got = evaluate_graph(fused, inputs);
    REQUIRE_MESSAGE(got.ok(), got.error().to_string());
    INFO(print_graph(fused));
    for (size_t o = 0; o < want->size(); ++o) compare((*got)[o], (*want)[o]);
    programs += static_cast<int>(report->fired);
    for (const Node& node : fused.nodes)
      if (is_op(node, "qcg.rows")) outputs += static_cast<int>(node.outputs.size());
  }
  CHECK(programs > 200);
  CHECK(outputs > programs);
}

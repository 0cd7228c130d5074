// Complex numbers of an export beside std::complex: what their pairs of real numbers give.
#include <fmt/format.h>

#include <complex>
#include <functional>
#include <numbers>

#include "graph/ir/elements.h"
#include "graph/oracle/reference.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

using Complex = std::complex<double>;

Tensor floats_of(const std::vector<int64_t>& shape, const std::vector<double>& values) {
  return make_tensor(DType::f32, shape, Elements<float>(std::in_place, values.begin(), values.end()));
}

// view_as_real(node), a node of the complex z and w [2, 2] or of the real numbers r [2, 2].
std::vector<Complex> computed(const char* op, const std::vector<Json>& inputs, const std::vector<Complex>& z,
                              const std::vector<Complex>& w, const std::vector<double>& r) {
  Json j = small_export();
  Json& graph = graph_of(j);
  graph["inputs"] = {tensor("x"), tensor("y"), tensor("r")};
  graph["outputs"] = Json::array({tensor("out")});
  graph["tensor_values"] = {{"x", real_meta({2, 2, 2})},  {"y", real_meta({2, 2, 2})}, {"r", real_meta({2, 2})},
                            {"z", complex_meta({2, 2})},  {"w", complex_meta({2, 2})}, {"made", complex_meta({2, 2})},
                            {"out", real_meta({2, 2, 2})}};
  Json made = node_named("made", op, {});
  made["inputs"] = Json(inputs);
  graph["nodes"] = {node_named("z", "view_as_complex.default", {argument("self", tensor("x"))}),
                    node_named("w", "view_as_complex.default", {argument("self", tensor("y"))}), made,
                    node_named("out", "view_as_real.default", {argument("self", tensor("made"))})};
  Json specs = Json::array();
  for (const char* name : {"x", "y", "r"}) specs.push_back({{"user_input", {{"arg", tensor(name)}}}});
  j["graph_module"]["signature"] = {{"input_specs", specs},
                                    {"output_specs", {{{"user_output", {{"arg", tensor("out")}}}}}}};
  const auto read = read_bytes(j.dump());
  REQUIRE_MESSAGE(read.ok(), op << ": " << read.error().to_string());
  const auto pairs = [](const std::vector<Complex>& numbers) {
    std::vector<double> out;
    for (const Complex& c : numbers) out.insert(out.end(), {c.real(), c.imag()});
    return floats_of({2, 2, 2}, out);
  };
  const auto out = evaluate_graph(*read, {pairs(z), pairs(w), floats_of({2, 2}, r)}, {});
  REQUIRE_MESSAGE(out.ok(), op << ": " << out.error().to_string());
  const auto values = read_elements<double>((*out)[0]);
  std::vector<Complex> result;
  for (size_t i = 0; i < 8; i += 2) result.emplace_back((*values)[i], (*values)[i + 1]);
  return result;
}

}  // namespace

TEST_CASE("complex numbers: functions, quotients, sums with numbers, and products of matrices") {
  const std::vector<Complex> z = {{1, 2}, {-0.5, 0.25}, {0.75, -1.5}, {-2, -0.125}},
                             w = {{0.5, -1}, {2, 1}, {-1, 3}, {1, 1}};
  const std::vector<double> r = {2, -3, 0.5, 1};
  const Json a = argument("self", tensor("z")), b = argument("other", tensor("w")),
             real = argument("other", tensor("r"));
  const Json number = argument("other", {{"as_float", 2.5}}),
             i = argument("other", {{"as_complex", {{"real", 0.5}, {"imag", -1.0}}}});
  struct Case {
    const char* op;
    std::vector<Json> inputs;
    std::function<Complex(size_t)> want;
  };
  const auto matrix = [&](size_t k) { return z[k / 2 * 2] * w[k % 2] + z[k / 2 * 2 + 1] * w[2 + k % 2]; };
  const std::vector<Case> cases = {
      {"exp.default", {a}, [&](size_t k) { return std::exp(z[k]); }},
      {"log.default", {a}, [&](size_t k) { return std::log(z[k]); }},
      {"reciprocal.default", {a}, [&](size_t k) { return 1.0 / z[k]; }},
      {"square.default", {a}, [&](size_t k) { return z[k] * z[k]; }},
      {"pow.Tensor_Scalar", {a, argument("exponent", {{"as_int", 2}})}, [&](size_t k) { return z[k] * z[k]; }},
      {"div.Tensor", {a, b}, [&](size_t k) { return z[k] / w[k]; }},
      {"div.Tensor", {argument("self", tensor("r")), b}, [&](size_t k) { return r[k] / w[k]; }},
      {"add.Tensor", {a, real}, [&](size_t k) { return z[k] + r[k]; }},
      {"sub.Tensor", {argument("self", tensor("r")), b}, [&](size_t k) { return r[k] - w[k]; }},
      {"add.Tensor", {a, number}, [&](size_t k) { return z[k] + 2.5; }},
      {"rsub.Scalar", {a, number}, [&](size_t k) { return 2.5 - z[k]; }},
      {"add.Tensor", {a, i}, [&](size_t k) { return z[k] + Complex(0.5, -1); }},
      {"mul.Tensor", {argument("self", tensor("r")), i}, [&](size_t k) { return r[k] * Complex(0.5, -1); }},
      {"div.Tensor", {a, i}, [&](size_t k) { return z[k] / Complex(0.5, -1); }},
      {"matmul.default", {a, b}, matrix},
      {"mm.default", {a, argument("mat2", tensor("w"))}, matrix},
      {"einsum.default",
       {argument("equation", {{"as_string", "ij,jk->ik"}}),
        argument("tensors", {{"as_tensors", {{{"name", "z"}}, {{"name", "w"}}}}})},
       matrix},
      {"matmul.default",
       {a, real},
       [&](size_t k) { return z[k / 2 * 2] * r[k % 2] + z[k / 2 * 2 + 1] * r[2 + k % 2]; }},
  };
  for (const Case& c : cases) {
    const std::vector<Complex> got = computed(c.op, c.inputs, z, w, r);
    for (size_t k = 0; k < 4; ++k)
      CHECK_MESSAGE(std::abs(got[k] - c.want(k)) < 1e-5,
                    c.op << " " << k << ": " << got[k].real() << " " << got[k].imag());
  }
}

TEST_CASE("istft gives back what stft was taken of") {
  // x [1, n] in frames of 6, 2 or 4 apart, through a window of 4 elements; the first and last half frame are missing.
  for (const int hop : {2, 4}) {
    const int n = 6 + 4 * hop, frames = 5;
    Json j = small_export();
    Json& graph = graph_of(j);
    graph["inputs"] = {tensor("x"), tensor("w")};
    graph["outputs"] = Json::array({tensor("out")});
    graph["tensor_values"] = {{"x", real_meta({1, n})},
                              {"w", real_meta({4})},
                              {"s", complex_meta({1, 4, frames})},
                              {"out", real_meta({1, n - 6 + 9})}};
    const auto call = [&](const char* name, const char* op, const char* self, std::initializer_list<Json> more) {
      Json node = node_named(name, op,
                             {argument("self", tensor(self)), argument("n_fft", {{"as_int", 6}}),
                              argument("hop_length", {{"as_int", hop}}), argument("win_length", {{"as_int", 4}}),
                              argument("window", tensor("w"))});
      for (const Json& input : more) node["inputs"].push_back(input);
      return node;
    };
    graph["nodes"] = {call("s", "stft.default", "x", {argument("return_complex", {{"as_bool", true}})}),
                      call("out", "istft.default", "s", {argument("length", {{"as_int", n - 6 + 9}})})};
    j["graph_module"]["signature"] = {
        {"input_specs", {{{"user_input", {{"arg", tensor("x")}}}}, {{"user_input", {{"arg", tensor("w")}}}}}},
        {"output_specs", {{{"user_output", {{"arg", tensor("out")}}}}}}};
    const auto read = read_bytes(j.dump());
    REQUIRE_MESSAGE(read.ok(), read.error().to_string());
    std::vector<double> x, w = {0.5, 1, 0.75, 0.25};
    for (int k = 0; k < n; ++k) x.push_back(std::sin(k) + 0.25 * k);
    const auto out = evaluate_graph(*read, {floats_of({1, n}, x), floats_of({4}, w)}, {});
    REQUIRE_MESSAGE(out.ok(), out.error().to_string());
    const auto values = read_elements<double>((*out)[0]);
    REQUIRE(values->size() == static_cast<size_t>(n + 3));
    for (int k = 3; k < n - 1; ++k)
      CHECK((*values)[static_cast<size_t>(k - 3)] == doctest::Approx(x[static_cast<size_t>(k)]));
    for (size_t k = static_cast<size_t>(n - 3); k < values->size(); ++k) CHECK((*values)[k] == 0);
  }
}

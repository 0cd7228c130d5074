// quantize_rows against rows that torchao and torch quantized, to the bit, and the isolation of rows with NaN and
// infinities.
#include <nlohmann/json.hpp>

#include "loops_harness.h"
#include "tests/paths.h"

using namespace qcg;
using namespace qcg::test;

namespace {

QuantizeRowsProblem problem_of(const nlohmann::json& c, int64_t k) {
  QuantizeRowsProblem p;
  p.input = *dtype_from_name(c["input"].get<std::string>());
  p.k = k;
  p.mapping = *row_mapping_from_name(c["mapping"].get<std::string>());
  p.quant_min = c["low"], p.quant_max = c["high"];
  p.eps = c["eps"];
  p.scale = *dtype_from_name(c["scale_dtype"].get<std::string>());
  p.output = p.quant_min < 0 ? DType::i8 : DType::u8;
  p.writes_zero = true;
  p.comment = "x\\\nint main() {";
  return p;
}

// Row r of `stored` in the first k columns of rows `stride` apart, the rest filled with NaN.
Guarded make_rows(const nlohmann::json& x, size_t bytes, int64_t rows, int64_t k, int64_t stride, bool at_end) {
  Guarded out(static_cast<size_t>((rows - 1) * stride + k) * bytes, at_end);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) {
      const uint32_t v = x[static_cast<size_t>(r * k + i)].get<uint32_t>();
      std::memcpy(out.data() + static_cast<size_t>(r * stride + i) * bytes, &v, bytes);
    }
  return out;
}

}  // namespace

TEST_CASE("quantize_rows equals torchao and quantized_decomposed bit for bit") {
  std::ifstream file(source_dir() + "/tests/loops/torchao_rows.json");
  REQUIRE(file);
  const nlohmann::json cases = nlohmann::json::parse(file);
  constexpr int64_t kRows = 11, kK = 37;
  REQUIRE(cases.size() == 78);
  KernelSet kernels;
  struct Run {
    int kernel;
    Isa isa;
    const nlohmann::json* expected;
  };
  std::vector<Run> runs;
  // All cases on two ISAs; the others, whose text is the same, take every fifth.
  for (const Isa isa : testable_isas())
    for (size_t i = 0; i < cases.size(); i += isa == best_host_isa() || isa == Isa::portable ? 1 : 5) {
      const auto& c = cases[i];
      const QuantizeRowsProblem p = problem_of(c, kK);
      runs.push_back({kernels.add(isa, [&](auto symbol) { return render_quantize_rows(p, isa, symbol); }), isa, &c});
    }
  kernels.build();
  for (const Run& run : runs) {
    const auto& c = *run.expected;
    const QuantizeRowsProblem p = problem_of(c, kK);
    INFO(isa_info(run.isa).name, " ", p.signature());
    for (const int64_t stride : {kK, kK + 5}) {
      const bool at_end = stride == kK;
      Guarded x = make_rows(c["x"], dtype_bytes(p.input), kRows, kK, stride, at_end);
      Guarded q(static_cast<size_t>((kRows - 1) * stride + kK), at_end, 0xa5);
      Guarded scale(kRows * 4, at_end), zero(kRows * 4, at_end);
      run_kernel(kernels[run.kernel], {{x.data(), stride}, {q.data(), stride}, {scale.data(), 1}, {zero.data(), 1}},
                 {kRows});
      for (size_t r = 0; r < kRows; ++r) {
        CAPTURE(r);
        uint32_t s;
        std::memcpy(&s, scale.data() + 4 * r, 4);
        CHECK(s == c["scale"][r].get<uint32_t>());
        CHECK(get_element(DType::i32, zero.data(), static_cast<int64_t>(r)) == c["zero"][r].get<int>());
        int wrong = 0;
        for (size_t i = 0; i < kK; ++i)
          wrong += static_cast<uint8_t>(q.data()[r * static_cast<size_t>(stride) + i]) != c["q"][r * kK + i].get<int>();
        CHECK(wrong == 0);
        for (int64_t i = kK; i < stride && r + 1 < kRows; ++i)
          CHECK(static_cast<uint8_t>(q.data()[static_cast<int64_t>(r) * stride + i]) == 0xa5);
      }
    }
  }
}

TEST_CASE("quantize_rows: K around the vector, no rows, and NaN in all other rows") {
  KernelSet kernels;
  struct Run {
    int kernel;
    Isa isa;
    QuantizeRowsProblem problem;
  };
  std::vector<Run> runs;
  for (const Isa isa : testable_isas())
    for (const int64_t k : {1, 8, 9, 15, 16, 33, 64, 5000})
      for (const bool symmetric : {true, false}) {
        if (k > 1 && symmetric == (k % 3 == 0)) continue;
        QuantizeRowsProblem p;
        p.input = k % 2 ? DType::bf16 : DType::f32;
        p.k = k, p.mapping = symmetric ? RowMapping::symmetric : RowMapping::asymmetric, p.writes_zero = !symmetric;
        runs.push_back({kernels.add(isa, [&](auto symbol) { return render_quantize_rows(p, isa, symbol); }), isa, p});
      }
  kernels.build();
  for (const Run& run : runs) {
    const auto& p = run.problem;
    INFO(isa_info(run.isa).name, " ", p.signature());
    for (const bool poisoned : {false, true}) {
      const int64_t rows = 5;
      Guarded x(static_cast<size_t>(rows * p.k) * dtype_bytes(p.input), poisoned),
          q(static_cast<size_t>(rows * p.k), poisoned);
      Guarded scale(rows * 4, poisoned), zero(rows * 4, poisoned);
      std::mt19937 random(11);
      double low = 0, high = 0;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < p.k; ++i) {
          const double v = round_to(p.input, std::uniform_real_distribution<double>(-3, 5)(random));
          set_element(p.input, x.data(), r * p.k + i, poisoned && r != 2 ? (r == 1 ? INFINITY : std::nan("")) : v);
          if (r == 2) low = std::min(low, v), high = std::max(high, v);
        }
      std::vector<qcg_arg> args = {{x.data(), p.k}, {q.data(), p.k}, {scale.data(), 1}};
      if (p.writes_zero) args.push_back({zero.data(), 1});
      run_kernel(kernels[run.kernel], args, {0});
      CHECK(static_cast<uint8_t>(scale.data()[0]) == 0xff);
      run_kernel(kernels[run.kernel], args, {rows});
      const bool symmetric = p.mapping == RowMapping::symmetric;
      const double range = symmetric ? std::max(high, -low) / 127.5 : round_to(p.input, high - low) / 255;
      const float s = static_cast<float>(round_to(p.input, static_cast<float>(range)));
      CHECK(get_element(DType::f32, scale.data(), 2) == s);
      const double z = symmetric ? 0 : -128 - std::nearbyint(round_to(p.input, static_cast<float>(low) / s));
      if (p.writes_zero) CHECK(get_element(DType::i32, zero.data(), 2) == z);
      int wrong = 0;
      for (int64_t i = 2 * p.k; i < 3 * p.k; ++i) {
        const float scaled = static_cast<float>(get_element(p.input, x.data(), i)) * (1.0f / s);
        wrong += get_element(DType::i8, q.data(), i) != std::min(127.0, std::max(-128.0, std::nearbyint(scaled) + z));
      }
      CHECK(wrong == 0);
      if (poisoned) CHECK(std::isnan(get_element(DType::f32, scale.data(), 0)));
    }
  }
}

TEST_CASE("quantize_rows refuses what it cannot do") {
  QuantizeRowsProblem p;
  p.k = 4, p.input = DType::i8;
  CHECK(render_quantize_rows(p, Isa::portable, "k").error().code == ErrorCode::Unsupported);
  p.input = DType::f32, p.output = DType::i32;
  CHECK(render_quantize_rows(p, Isa::portable, "k").error().code == ErrorCode::Unsupported);
}

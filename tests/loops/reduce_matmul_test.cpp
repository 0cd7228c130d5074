// Reductions and products of two activations against sums in double, over odd shapes and strides.
#include "loops_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Guarded random_values(DType d, int64_t n, bool at_end, std::mt19937& random, double low = -2, double high = 3) {
  Guarded out(static_cast<size_t>(n) * dtype_bytes(d), at_end);
  for (int64_t i = 0; i < n; ++i) {
    double v = std::uniform_real_distribution<double>(low, high)(random);
    if (!is_floating(d)) v = std::trunc(v * 20);
    set_element(d, out.data(), i, round_to(is_floating(d) ? d : DType::f64, v));
  }
  return out;
}

double unit(DType d) {
  return d == DType::bf16 ? 0x1p-8 : d == DType::f16 ? 0x1p-11 : d == DType::f64 ? 0x1p-52 : 0x1p-24;
}

}  // namespace

TEST_CASE("reductions over the middle axis") {
  const ReduceProblem problems[] = {{"sum", DType::f32, DType::f32, ""},   {"mean", DType::bf16, DType::f32, ""},
                                    {"amax", DType::f16, DType::f16, ""},  {"amin", DType::f32, DType::f32, ""},
                                    {"sum", DType::i8, DType::i64, ""},    {"amax", DType::i32, DType::i32, ""},
                                    {"mean", DType::f32, DType::bf16, ""}, {"prod", DType::bf16, DType::f32, ""},
                                    {"prod", DType::f32, DType::f16, ""},  {"sum", DType::f64, DType::f64, ""},
                                    {"mean", DType::i64, DType::f64, ""},  {"amin", DType::f64, DType::f64, ""},
                                    {"prod", DType::f64, DType::f64, ""}};
  KernelSet kernels;
  struct Run {
    int kernel;
    Isa isa;
    const ReduceProblem* p;
  };
  std::vector<Run> runs;
  for (const Isa isa : testable_isas())
    for (const ReduceProblem& p : problems)
      runs.push_back({kernels.add(isa, [&](auto symbol) { return render_reduce(p, isa, symbol); }), isa, &p});
  kernels.build();
  const std::vector<int64_t> shapes[] = {{0, 3, 1},   {1, 1, 1}, {3, 7, 1},  {2, 64, 1}, {5, 67, 1},   {2, 4099, 1},
                                         {300, 9, 1}, {2, 5, 3}, {3, 4, 33}, {1, 2, 16}, {2, 300, 35}, {1, 135, 150}};
  for (const Run& run : runs)
    for (const auto& s : shapes)
      for (const bool at_end : {false, true}) {
        INFO(isa_info(run.isa).name, " ", run.p->signature(), " ", s[0], "x", s[1], "x", s[2]);
        std::mt19937 random(8);
        Guarded x = random_values(run.p->input, s[0] * s[1] * s[2], at_end, random);
        Guarded y(static_cast<size_t>(s[0] * s[2]) * dtype_bytes(run.p->output), at_end);
        run_kernel(kernels[run.kernel], {{x.data(), 0}, {y.data(), 0}}, s);
        for (int64_t o = 0; o < s[0]; ++o)
          for (int64_t j = 0; j < s[2]; ++j) {
            double sum = 0, product = 1, magnitude = 0, least = INFINITY, most = -INFINITY;
            for (int64_t i = 0; i < s[1]; ++i) {
              const double v = get_element(run.p->input, x.data(), (o * s[1] + i) * s[2] + j);
              sum += v, product *= v, magnitude += std::fabs(v), least = std::min(least, v), most = std::max(most, v);
            }
            const std::string_view op = run.p->op;
            const double n = static_cast<double>(s[1]);
            const double want = op == "sum"    ? sum
                                : op == "prod" ? product
                                : op == "mean" ? sum / n
                                : op == "amax" ? most
                                               : least;
            const double sums = run.p->output == DType::f64 ? 0x1p-52 : 0x1p-24;
            const double bound = op == "sum" || op == "mean" ? magnitude * n * sums / (op == "mean" ? n : 1) : 0;
            const double got = get_element(run.p->output, y.data(), o * s[2] + j);
            const double rounding =
                is_floating(run.p->output) ? unit(run.p->output) * std::fabs(want) + (op == "prod" ? sums : 0) : 0;
            const bool same = got == round_to(run.p->output, want);  // infinity beyond the range of f16
            if (!same && !(std::fabs(got - want) <= bound + rounding))
              FAIL("[", o, ", ", j, "] is ", got, ", not ", want);
          }
      }
}

TEST_CASE("amax and amin give NaN where a row has one, and only there") {
  KernelSet kernels;
  std::vector<int> runs;
  const ReduceProblem p{"amax", DType::f32, DType::f32, ""};
  for (const Isa isa : testable_isas())
    runs.push_back(kernels.add(isa, [&](auto symbol) { return render_reduce(p, isa, symbol); }));
  kernels.build();
  for (const int kernel : runs)
    for (const size_t at : {size_t{0}, size_t{40}, size_t{66}}) {
      std::vector<float> x(3 * 67, -5.0f), y(3);
      x[67 + at] = std::nanf("");
      run_kernel(kernels[kernel], {{x.data(), 0}, {y.data(), 0}}, {3, 67, 1});
      CHECK(y[0] == -5);
      CHECK(std::isnan(y[1]));
      CHECK(y[2] == -5);
    }
}

TEST_CASE("batched products, w by rows and transposed, any strides, NaN in other rows") {
  const MatmulProblem problems[] = {{DType::f32, DType::f32, DType::f32, ""},
                                    {DType::bf16, DType::bf16, DType::bf16, ""},
                                    {DType::f16, DType::f32, DType::f16, ""}};
  KernelSet kernels;
  struct Run {
    int kernel;
    Isa isa;
    const MatmulProblem* p;
  };
  std::vector<Run> runs;
  for (const Isa isa : testable_isas())
    for (const MatmulProblem& p : problems)
      runs.push_back({kernels.add(isa, [&](auto symbol) { return render_matmul(p, isa, symbol); }), isa, &p});
  kernels.build();
  struct Size {
    int64_t batch, m, n, k;
  };
  const Size sizes[] = {{1, 0, 3, 4},   {1, 1, 1, 1},    {2, 3, 5, 7}, {3, 8, 16, 16},
                        {2, 9, 33, 17}, {1, 67, 65, 40}, {2, 5, 70, 0}};
  for (const Run& run : runs)
    for (const Size& s : sizes)
      for (int layout = 0; layout < 4; ++layout) {
        const MatmulProblem& p = *run.p;
        INFO(isa_info(run.isa).name, " ", p.signature(), " ", s.batch, "x", s.m, "x", s.n, "x", s.k, " layout ",
             layout);
        // 0: w [n, k]; 1: w [k, n]; 2: every other element of everything; 3: x and y transposed, w shared by all
        // batches
        const int64_t step = layout == 2 ? 2 : 1;
        const int64_t xm = layout == 3 ? 1 : s.k * step, xk = layout == 3 ? s.m : step;
        const int64_t wn = layout == 1 ? 1 : s.k * step, wk = layout == 1 ? s.n : step;
        const int64_t ym = layout == 3 ? 1 : s.n * step, yn = layout == 3 ? s.m : step;
        const int64_t xb = s.m * s.k * step, wb = layout == 3 ? 0 : s.n * s.k * step, yb = s.m * s.n * step;
        const int64_t w_batches = layout == 3 ? 1 : s.batch,
                      trim = step - 1;  // the last stretch of a strided buffer is not there
        auto length = [&](int64_t n) { return std::max<int64_t>(0, n - (n ? trim : 0)); };
        std::mt19937 random(9);
        Guarded x = random_values(p.input, length(s.batch * xb), layout % 2, random, -1, 1);
        Guarded w = random_values(p.weight, length(w_batches * s.n * s.k * step), layout % 2, random, -1, 1);
        Guarded y(static_cast<size_t>(length(s.batch * yb)) * dtype_bytes(p.output), layout % 2);
        const int64_t poisoned = s.m > 2 ? 1 : -1;  // a row of NaN must not reach its neighbours
        for (int64_t b = 0; b < s.batch && poisoned >= 0; ++b)
          for (int64_t k = 0; k < s.k; ++k)
            set_element(p.input, x.data(), b * xb + poisoned * xm + k * xk, std::nan(""));
        run_kernel(kernels[run.kernel], {{x.data(), 0}, {w.data(), 0}, {y.data(), 0}},
                   {s.batch, s.m, s.n, s.k, xb, xm, xk, wb, wn, wk, yb, ym, yn});
        for (int64_t b = 0; b < s.batch; ++b)
          for (int64_t i = 0; i < s.m; ++i)
            for (int64_t j = 0; j < s.n; ++j) {
              double sum = 0, magnitude = 0;
              for (int64_t k = 0; k < s.k; ++k) {
                const double product = get_element(p.input, x.data(), b * xb + i * xm + k * xk) *
                                       get_element(p.weight, w.data(), b * wb + j * wn + k * wk);
                sum += product, magnitude += std::fabs(product);
              }
              const double got = get_element(p.output, y.data(), b * yb + i * ym + j * yn);
              if (i == poisoned && s.k > 0) {
                CHECK(std::isnan(got));
                continue;
              }
              const double bound = magnitude * static_cast<double>(s.k) * 0x1p-24 + unit(p.output) * std::fabs(sum);
              if (!(std::fabs(got - sum) <= bound)) FAIL("[", b, ", ", i, ", ", j, "] is ", got, ", not ", sum);
            }
      }
}

TEST_CASE("products of batches over several axes, of which some share w") {
  // x [2, 3, 4, m, k] stored as [2, m, 3, 4, k], w [2, 3, 1, n, k], y [2, m, 3, 4, n]: heads that share keys.
  const int64_t m = 5, n = 7, k = 6;
  const MatmulProblem p{DType::bf16, DType::f32, DType::f32, "", 3};
  KernelSet kernels;
  const std::vector<Isa> isas = testable_isas();
  for (const Isa isa : isas) kernels.add(isa, [&](auto symbol) { return render_matmul(p, isa, symbol); });
  kernels.build();
  std::mt19937 random(11);
  Guarded x = random_values(p.input, 2 * m * 12 * k, false, random, -1, 1);
  Guarded w = random_values(p.weight, 6 * n * k, false, random, -1, 1);
  for (size_t i = 0; i < isas.size(); ++i) {
    INFO(isa_info(isas[i]).name);
    Guarded y(static_cast<size_t>(2 * m * 12 * n) * 4, false);
    run_kernel(kernels[static_cast<int>(i)], {{x.data(), 0}, {w.data(), 0}, {y.data(), 0}},
               {2,          3,     4, m,      n, k,  //
                m * 12 * k, 4 * k, k, 12 * k, 1,     // x
                3 * n * k,  n * k, 0, k,      1,     // w
                m * 12 * n, 4 * n, n, 12 * n, 1});   // y
    for (int64_t at = 0; at < 2 * m * 12 * n; ++at) {
      const int64_t column = at % n, head = at / n % 12, row = at / n / 12 % m, batch = at / n / 12 / m;
      double sum = 0;
      for (int64_t j = 0; j < k; ++j)
        sum += get_element(p.input, x.data(), ((batch * m + row) * 12 + head) * k + j) *
               get_element(p.weight, w.data(), ((batch * 3 + head / 4) * n + column) * k + j);
      CHECK(get_element(p.output, y.data(), at) == doctest::Approx(sum).epsilon(1e-5));
    }
  }
}

TEST_CASE("what reductions and products refuse") {
  CHECK(render_reduce({"median", DType::f32, DType::f32, ""}, Isa::portable, "k").error().code ==
        ErrorCode::Unsupported);
  CHECK(render_reduce({"sum", DType::u64, DType::f32, ""}, Isa::portable, "k").error().code == ErrorCode::Unsupported);
  CHECK(render_matmul({DType::i8, DType::i8, DType::i32, ""}, Isa::portable, "k").error().code ==
        ErrorCode::Unsupported);
}

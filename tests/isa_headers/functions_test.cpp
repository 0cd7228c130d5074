// The functions of every ISA header against libm in double and against each other.
#include <numeric>

#include "probes.h"

using namespace qcg_test;

namespace {

// The bounds templates/cpu/vector_math.h states.
bool within_bound(std::string_view name, float x, float got, double want) {
  const double ulp = ulp_error(got, want);
  const double error = std::fabs(got - want), a = std::fabs(double{x});
  if (name == "exp" || name == "log" || name == "log2" || name == "log10") return ulp <= 1;
  if (name == "sin" || name == "cos" || name == "tanh" || name == "erf" || name == "rsqrt" || name == "log1p" ||
      name == "expm1")
    return ulp <= 2;
  if (name == "atan") return ulp <= 3;
  if (name == "lgamma") return ulp <= 2;
  if (name == "digamma" || name == "erfinv" || name == "ndtri" || name == "i0" || name == "i0e" || name == "i1" ||
      name == "i1e" || name == "erfcx" || name == "log_ndtr" || name == "trigamma")
    return ulp <= 1;
  if (name == "sigmoid" || name == "silu") return ulp <= 3 || (x < -88 && error <= 3e-37);
  if (name == "gelu") return ulp <= (x >= 0 ? 6 : 8) || (x < -13 && error <= 1e-8 * a);
  if (name == "gelu_tanh") return ulp <= (x >= -2 ? 8 : 40) || (x < -5 && error <= 1e-8 * a);
  return ulp == 0;
}

}  // namespace

TEST_CASE("unary functions keep the bounds their header states") {
  const std::vector<float>& x = sample();
  std::vector<float> y(x.size());
  for_each_probe([&](const IsaProbe& probe) {
    for (int f = 0; f < probe.function_count; ++f) {
      const ProbeFunction& function = probe.functions[f];
      const std::string name = function.name;
      if (function.arity != 1 || name.starts_with("cast")) continue;
      function.map(x.data(), x.data(), x.data(), y.data(), static_cast<int>(x.size()));
      size_t bad = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = reference_unary(name, x[i]);
        if (within_bound(name, x[i], y[i], want)) continue;
        if (bad++ < 3)
          FAIL_CHECK(name, "(", x[i], ") = ", y[i], " but is ", want, ", off by ", ulp_error(y[i], want), " ulp");
      }
      CHECK_MESSAGE(bad == 0, name);
    }
  });
}

TEST_CASE("pow: specials as IEEE 754, elsewhere 4 ulp") {
  std::vector<float> x, y;
  for (float a : kSpecial)
    for (float b : kSpecial) x.push_back(a), y.push_back(b);
  std::mt19937 random(2);
  for (int i = 0; i < 200000; ++i) {
    const float base = std::exp2(std::uniform_real_distribution<float>(-30, 30)(random));
    x.push_back(i % 4 == 0 ? 1 + (base < 1 ? base : 1 / base) * 0.1f : base);
    y.push_back(std::uniform_real_distribution<float>(-140, 140)(random) / (i % 4 == 0 ? 1 : std::log2(base)));
  }
  x.resize(x.size() / 16 * 16), y.resize(x.size());
  std::vector<float> z(x.size());
  for_each_probe([&](const IsaProbe& probe) {
    find(probe, "pow").map(x.data(), y.data(), y.data(), z.data(), static_cast<int>(x.size()));
    int bad = 0;
    for (size_t i = 0; i < x.size() && bad < 5; ++i) {
      const double want = std::pow(double{x[i]}, double{y[i]});
      if (ulp_error(z[i], want) <= 4 &&
          std::signbit(z[i]) == (std::isnan(want) ? std::signbit(z[i]) : std::signbit(want)))
        continue;
      FAIL_CHECK("pow(", x[i], ", ", y[i], ") = ", z[i], " but is ", want, ", off by ", ulp_error(z[i], want), " ulp");
      ++bad;
    }
  });
}

TEST_CASE("whole powers of two are exact, from the smallest denormal to infinity") {
  std::vector<float> x(352, 2.0f), y(x.size()), z(x.size());
  std::iota(y.begin(), y.end(), -176.0f);
  for_each_probe([&](const IsaProbe& probe) {
    find(probe, "pow").map(x.data(), y.data(), y.data(), z.data(), static_cast<int>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      CHECK_MESSAGE(z[i] == static_cast<float>(std::exp2(double{y[i]})), "2^", y[i], " = ", z[i]);
  });
}

TEST_CASE("logarithms of whole powers of their base are whole") {
  std::vector<float> two(288), ten(16, 1.0f), y(two.size());
  for (size_t i = 0; i < two.size(); ++i) two[i] = static_cast<float>(std::exp2(static_cast<double>(i) - 149));
  for (size_t i = 0; i < ten.size(); ++i) ten[i] = static_cast<float>(std::pow(10.0, static_cast<double>(i % 11)));
  for_each_probe([&](const IsaProbe& probe) {
    find(probe, "log2").map(two.data(), two.data(), two.data(), y.data(), static_cast<int>(two.size()));
    for (size_t i = 0; i < two.size(); ++i)
      CHECK_MESSAGE(y[i] == static_cast<float>(std::log2(double{two[i]})), "log2(", two[i], ") = ", y[i]);
    find(probe, "log10").map(ten.data(), ten.data(), ten.data(), y.data(), static_cast<int>(ten.size()));
    for (size_t i = 0; i < ten.size(); ++i)
      CHECK_MESSAGE(y[i] == static_cast<float>(i % 11), "log10(", ten[i], ") = ", y[i]);
  });
}

TEST_CASE("zeta: 1 ulp, also of terms below 0; poles are infinite, and NaN is what has no value") {
  std::vector<float> x, y;
  for (float a : kSpecial)
    for (float b : kSpecial) x.push_back(a), y.push_back(b);
  std::mt19937 random(6);
  for (int i = 0; i < 20000; ++i) {
    const bool below = i % 3 == 0;
    x.push_back(below ? static_cast<float>(2 + i % 11)
                      : 1 + std::exp2(std::uniform_real_distribution<float>(-8, 6)(random)));
    y.push_back(below ? std::uniform_real_distribution<float>(-40, 40)(random)
                      : std::exp2(std::uniform_real_distribution<float>(-3, 12)(random)));
  }
  x.resize(x.size() / 16 * 16), y.resize(x.size());
  std::vector<float> z(x.size());
  for_each_probe([&](const IsaProbe& probe) {
    find(probe, "zeta").map(x.data(), y.data(), y.data(), z.data(), static_cast<int>(x.size()));
    int bad = 0;
    for (size_t i = 0; i < x.size() && bad < 5; ++i) {
      const double want = qcg::zeta(x[i], y[i]);
      if (ulp_error(z[i], want) <= 1) continue;
      FAIL_CHECK("zeta(", x[i], ", ", y[i], ") = ", z[i], " but is ", want, ", off by ", ulp_error(z[i], want), " ulp");
      ++bad;
    }
  });
}

TEST_CASE("fmod is exact to the bit, whatever the quotient") {
  std::vector<float> x, y;
  for (float a : kSpecial)
    for (float b : kSpecial) x.push_back(a), y.push_back(b);
  std::mt19937 random(4);
  for (int i = 0; i < 100000; ++i) {
    const float base = std::exp2(std::uniform_real_distribution<float>(-140, 120)(random));
    const float quotient = std::exp2(std::uniform_real_distribution<float>(-3, i % 2 == 0 ? 26 : 250)(random));
    y.push_back(i % 3 == 0 ? -base : base);
    x.push_back((i % 5 < 2 ? -1.0f : 1.0f) * (i % 7 == 0 ? base * std::floor(quotient) : base * quotient));
  }
  x.resize(x.size() / 16 * 16), y.resize(x.size());
  std::vector<float> z(x.size());
  for_each_probe([&](const IsaProbe& probe) {
    find(probe, "fmod").map(x.data(), y.data(), y.data(), z.data(), static_cast<int>(x.size()));
    int bad = 0;
    for (size_t i = 0; i < x.size() && bad < 5; ++i) {
      const float want = std::fmod(x[i], y[i]);
      if (std::isnan(want) ? std::isnan(z[i]) : z[i] == want && std::signbit(z[i]) == std::signbit(want)) continue;
      FAIL_CHECK("fmod(", x[i], ", ", y[i], ") = ", z[i], " but is ", want);
      ++bad;
    }
  });
}

TEST_CASE("arithmetic is exact to the bit, and NaN wins max, min, clamp and relu") {
  std::vector<float> a, b;
  for (float p : kSpecial)
    for (float q : kSpecial) a.push_back(p), b.push_back(q);
  const int n = static_cast<int>(a.size());
  std::vector<float> y(a.size()), ones(a.size(), 1.0f), minus(a.size(), -1.0f);
  auto same = [](float p, float q) { return std::isnan(p) ? std::isnan(q) : p == q; };
  for_each_probe([&](const IsaProbe& probe) {
    struct Case {
      const char* name;
      float (*meaning)(float, float);
    };
    const Case cases[] = {
        {"add", [](float p, float q) { return p + q; }},
        {"sub", [](float p, float q) { return p - q; }},
        {"mul", [](float p, float q) { return p * q; }},
        {"div", [](float p, float q) { return p / q; }},
        {"max", [](float p, float q) { return std::isnan(p) || std::isnan(q) ? std::nanf("") : std::max(p, q); }},
        {"min", [](float p, float q) { return std::isnan(p) || std::isnan(q) ? std::nanf("") : std::min(p, q); }},
    };
    for (const Case& c : cases) {
      find(probe, c.name).map(a.data(), b.data(), b.data(), y.data(), n);
      for (int i = 0; i < n; ++i)
        CHECK_MESSAGE(same(y[i], c.meaning(a[i], b[i])), c.name, " ", a[i], " ", b[i], " gave ", y[i]);
    }
    find(probe, "clamp").map(a.data(), minus.data(), ones.data(), y.data(), n);
    for (int i = 0; i < n; ++i)
      CHECK_MESSAGE(same(y[i], std::isnan(a[i]) ? a[i] : std::clamp(a[i], -1.0f, 1.0f)), "clamp ", a[i], " gave ",
                    y[i]);
  });
}

TEST_CASE("fused rounds once; fma rounds once or twice") {
  std::mt19937 random(3);
  std::vector<float> a(4096), b(4096), c(4096), y(4096);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = std::uniform_real_distribution<float>(-2, 2)(random);
    b[i] = std::uniform_real_distribution<float>(-2, 2)(random);
    c[i] = i % 2 ? -(a[i] * b[i]) : std::uniform_real_distribution<float>(-2, 2)(random);
  }
  for_each_probe([&](const IsaProbe& probe) {
    find(probe, "fused").map(a.data(), b.data(), c.data(), y.data(), 4096);
    for (size_t i = 0; i < a.size(); ++i) CHECK(y[i] == std::fmaf(a[i], b[i], c[i]));
    find(probe, "fma").map(a.data(), b.data(), c.data(), y.data(), 4096);
    for (size_t i = 0; i < a.size(); ++i) {
      volatile float product = a[i] * b[i];
      CHECK((y[i] == std::fmaf(a[i], b[i], c[i]) || y[i] == product + c[i]));
    }
  });
}

TEST_CASE("rounding through a dtype: all ISAs agree with a scalar text") {
  const std::vector<float>& x = sample();
  std::vector<float> y(x.size());
  const int n = static_cast<int>(x.size());
  auto bf16 = [](float v) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    if (std::isnan(v)) return v;
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    std::memcpy(&v, &bits, 4);
    return v;
  };
  auto f16 = [](float v) {  // round to the spacing of the f16 binade; 65520 and above are infinite
    if (std::isnan(v) || std::isinf(v) || v == 0) return v;
    const double spacing = std::ldexp(1.0, std::max(std::ilogb(v), -14) - 10);
    const double r = std::nearbyint(v / spacing) * spacing;
    return std::fabs(r) > 65504 ? std::copysign(kInf, v) : static_cast<float>(r);
  };
  for_each_probe([&](const IsaProbe& probe) {
    size_t bad = 0;
    find(probe, "cast_bf16").map(x.data(), x.data(), x.data(), y.data(), n);
    for (size_t i = 0; i < x.size(); ++i) bad += ulp_error(y[i], bf16(x[i])) != 0;
    CHECK(bad == 0);
    find(probe, "cast_f16").map(x.data(), x.data(), x.data(), y.data(), n);
    for (size_t i = 0; i < x.size(); ++i) bad += ulp_error(y[i], f16(x[i])) != 0;
    CHECK(bad == 0);
    std::vector<float> small(x.size());
    for (size_t i = 0; i < x.size(); ++i) small[i] = std::fabs(x[i]) < 1e9f || std::isnan(x[i]) ? x[i] : 7.5f;
    small[3] = NAN;
    const std::vector<float> edges = {HUGE_VALF, -HUGE_VALF, 0x1p70f, -0x1p63f};  // i64 saturates
    std::vector<float> held(static_cast<size_t>(probe.lanes));
    for (float edge : edges) {
      const std::vector<float> lanes(held.size(), edge);
      find(probe, "cast_i64").map(lanes.data(), lanes.data(), lanes.data(), held.data(), probe.lanes);
      for (float h : held) CHECK(h == std::copysign(0x1p63f, edge));
    }
    for (const char* name : {"cast_i8", "cast_u8", "cast_i16", "cast_i32", "cast_i64", "cast_bool"}) {
      find(probe, name).map(small.data(), small.data(), small.data(), y.data(), n);
      const std::string type = name + 5;
      for (size_t i = 0; i < x.size(); ++i) {
        const int64_t whole = std::isnan(small[i]) ? 0 : static_cast<int64_t>(small[i]);  // an integer is never NaN
        const float want = type == "i8"     ? static_cast<int8_t>(whole)
                           : type == "u8"   ? static_cast<uint8_t>(whole)
                           : type == "i16"  ? static_cast<int16_t>(whole)
                           : type == "bool" ? static_cast<float>(small[i] != 0)
                                            : static_cast<float>(whole);
        bad += y[i] != want;
      }
      CHECK_MESSAGE(bad == 0, name);
    }
  });
}

TEST_CASE("a transposed block has rows for columns, sums of rows are lanes") {
  for_each_probe([&](const IsaProbe& probe) {
    const auto lanes = static_cast<size_t>(probe.lanes);
    std::vector<float> block(lanes * lanes);
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<float>(i);
    std::vector<float> sums(lanes);
    probe.sum_rows(block.data(), sums.data());
    for (size_t i = 0; i < lanes; ++i)
      CHECK(sums[i] == std::accumulate(&block[i * lanes], &block[i * lanes] + lanes, 0.0f));
    probe.transpose(block.data());
    for (size_t i = 0; i < lanes; ++i)
      for (size_t j = 0; j < lanes; ++j) CHECK(block[i * lanes + j] == static_cast<float>(j * lanes + i));
  });
}

TEST_CASE("reductions add halves onto halves; NaN anywhere wins max and min") {
  std::mt19937 random(5);
  for_each_probe([&](const IsaProbe& probe) {
    const int lanes = probe.lanes;
    for (int round = 0; round < 100; ++round) {
      std::vector<float> x(static_cast<size_t>(lanes)), tree;
      for (float& v : x) v = std::uniform_real_distribution<float>(-1, 1)(random);
      tree = x;
      for (int half = lanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) tree[static_cast<size_t>(i)] += tree[static_cast<size_t>(i + half)];
      CHECK(probe.reductions[0].reduce(x.data()) == tree[0]);
      CHECK(probe.reductions[1].reduce(x.data()) == *std::max_element(x.begin(), x.end()));
      CHECK(probe.reductions[2].reduce(x.data()) == *std::min_element(x.begin(), x.end()));
    }
    for (int at = 0; at < lanes; ++at) {
      std::vector<float> x(static_cast<size_t>(lanes), 1.0f);
      x[static_cast<size_t>(at)] = std::nanf("");
      CHECK(std::isnan(probe.reductions[1].reduce(x.data())));
      CHECK(std::isnan(probe.reductions[2].reduce(x.data())));
    }
  });
}

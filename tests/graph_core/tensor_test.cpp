#include "graph/ir/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace qcg;

namespace {

Tensor iota(std::vector<int64_t> shape) {
  Tensor t = Tensor::zeros(DType::i32, std::move(shape));
  std::vector<std::byte> bytes(t.numel() * 4);
  for (int64_t i = 0; i < t.numel(); ++i) int_to_element(DType::i32, i, &bytes[i * 4]);
  return Tensor::from_bytes(DType::i32, t.shape, std::move(bytes));
}

std::vector<int64_t> elements(const Tensor& t) {
  Tensor dense = t.contiguous();
  std::vector<int64_t> v;
  for (int64_t i = 0; i < dense.numel(); ++i)
    v.push_back(element_to_int(t.dtype, dense.bytes().data() + i * dtype_bytes(t.dtype)));
  return v;
}

uint32_t bits(DType dtype, double v) {
  std::byte raw[8] = {};
  double_to_element(dtype, v, raw);
  uint32_t b;
  std::memcpy(&b, raw, 4);
  return b;
}

}  // namespace

TEST_CASE("views share storage and read the right elements") {
  Tensor t = iota({2, 3, 4});
  Tensor p = t.permute(std::vector<size_t>{2, 0, 1});
  CHECK(p.shape == std::vector<int64_t>{4, 2, 3});
  CHECK(p.storage == t.storage);
  CHECK(elements(p.slice(0, 1, 4, 2)) == std::vector<int64_t>{1, 5, 9, 13, 17, 21, 3, 7, 11, 15, 19, 23});
  CHECK(elements(t.transpose(0, 1).slice(2, 3, 4)) == std::vector<int64_t>{3, 15, 7, 19, 11, 23});
  CHECK_FALSE(p.is_contiguous());
  CHECK(p.in_bounds());
  CHECK(t.slice(1, 3, 3).numel() == 0);
  CHECK(t.slice(1, 3, 3).in_bounds());
}

TEST_CASE("reshape keeps the row-major order and copies only when it must") {
  Tensor t = iota({4, 6});
  CHECK(t.reshape({2, 2, 3, 2}).storage == t.storage);
  CHECK(t.slice(1, 0, 3).reshape({2, 2, 3}).storage == t.storage);
  CHECK(t.slice(1, 0, 3).reshape({2, 2, 3, 1}).strides[0] == 12);
  CHECK(t.transpose(0, 1).reshape({24}).storage != t.storage);
  CHECK(elements(t.transpose(0, 1).reshape({24}))[1] == 6);
  CHECK(Tensor::zeros(DType::f32, {1, 1}).reshape({}).shape.empty());
  CHECK(Tensor::zeros(DType::f32, {}).reshape({1, 1, 1}).strides.size() == 3);
  CHECK(Tensor::zeros(DType::f32, {0, 5}).reshape({5, 0, 2}).numel() == 0);
  uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  INFO("seed " << seed);
  for (int i = 0; i < 200; ++i) {
    Tensor view = iota({2, 3, 4, 5});
    if (random() % 2) view = view.permute(std::vector<size_t>{1, 0, 2, 3});
    if (random() % 2) view = view.slice(random() % 4, 1, 2);
    int64_t n = view.numel();
    int64_t inner = n % 4 == 0 && random() % 2 ? 4 : n % 5 == 0 ? 5 : 1;
    CHECK(elements(view.reshape({n / inner, 1, inner})) == elements(view));
  }
}

TEST_CASE("in_bounds refuses what hostile headers claim") {
  Tensor t = iota({2, 3});
  CHECK(t.in_bounds());
  Tensor wide = t;
  wide.shape = {2, 4};
  CHECK_FALSE(wide.in_bounds());
  Tensor far = t;
  far.strides = {INT64_MAX, INT64_MAX};
  CHECK_FALSE(far.in_bounds());
  Tensor before = t;
  before.offset = -1;
  CHECK_FALSE(before.in_bounds());
  Tensor negative = t;
  negative.shape = {-2, -3};
  CHECK_FALSE(negative.in_bounds());
  Tensor huge = t;
  huge.shape = {INT64_MAX, INT64_MAX};
  huge.strides = {0, 0};
  CHECK(huge.numel() == INT64_MAX);
  Tensor unbound;
  CHECK_FALSE(unbound.in_bounds());
}

TEST_CASE("every f16, bf16 and f8 pattern survives decode and encode") {
  for (DType dtype : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::f8e8m0}) {
    size_t bytes = dtype_bytes(dtype);
    for (uint32_t pattern = 0; pattern < (bytes == 1 ? 256u : 65536u); ++pattern) {
      std::byte raw[4] = {};
      std::memcpy(raw, &pattern, bytes);
      double v = element_to_double(dtype, raw);
      if (std::isnan(v)) continue;
      bool exact = (bits(dtype, v) & (bytes == 1 ? 0xff : 0xffff)) == pattern && round_to_dtype(dtype, v) == v;
      if (!exact) FAIL_CHECK(dtype_name(dtype) << " " << pattern << " " << v);
    }
  }
}

TEST_CASE("a bf16 is stored as it is rounded, over all exponents, at ties and beside them") {
  std::mt19937_64 rng(11);
  for (int exponent = -150; exponent <= 130; ++exponent)
    for (int i = 0; i < 400; ++i) {
      const uint64_t random = rng();
      const double tie = 1 + static_cast<double>(random % 512) / 256;  // half of them between two bf16
      const double v =
          std::ldexp(i % 4 ? 1 + static_cast<double>(random >> 11) * 0x1p-53 : tie + (i % 8 ? 0 : 1e-12), exponent) *
          (random >> 63 ? -1 : 1);
      std::byte stored[2];
      double_to_element(DType::bf16, v, stored);
      const double want = round_to_dtype(DType::bf16, v), got = element_to_double(DType::bf16, stored);
      REQUIRE_MESSAGE((got == want && std::signbit(got) == std::signbit(v)), v);
    }
}

TEST_CASE("rounding is to nearest even, as torch 2.13 does it") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(round_to_dtype(DType::bf16, 1 + 1.0 / 256) == 1);
  CHECK(round_to_dtype(DType::bf16, 1 + 3.0 / 256) == 1 + 4.0 / 256);
  CHECK(round_to_dtype(DType::bf16, 1 + 1.0 / 256 + 1e-12) == 1 + 2.0 / 256);  // once, not through f32
  CHECK(round_to_dtype(DType::f16, 65519) == 65504);
  CHECK(round_to_dtype(DType::f16, 65520) == inf);
  CHECK(round_to_dtype(DType::f16, std::ldexp(1.0, -25)) == 0);
  CHECK(round_to_dtype(DType::f16, std::ldexp(1.5, -25)) == std::ldexp(1.0, -24));
  const double e4m3[][2] = {{448, 126},  {460, 126},        {1000, 126},       {inf, 126},
                            {-1e9, 254}, {0.0009765625, 0}, {0.00146484375, 1}};
  for (auto [v, pattern] : e4m3) CHECK((bits(DType::f8e4m3, v) & 0xff) == pattern);
  const double e5m2[][2] = {{1e6, 124}, {57344, 123}, {61440, 124}, {1000, 100}, {0.0009765625, 20}};
  for (auto [v, pattern] : e5m2) CHECK((bits(DType::f8e5m2, v) & 0xff) == pattern);
  const double e8m0[][2] = {{1, 127}, {1.4, 127}, {1.5, 128}, {3, 129}, {inf, 255}, {1e-40, 0}, {3.2e38, 255}};
  for (auto [v, pattern] : e8m0) CHECK((bits(DType::f8e8m0, v) & 0xff) == pattern);
}

TEST_CASE("integers wrap, floats truncate toward zero") {
  CHECK(round_to_dtype(DType::i8, -1.9) == -1);
  CHECK((bits(DType::u8, 300) & 0xff) == 44);
  CHECK(round_to_dtype(DType::i64, 1e30) == 9223372036854775807.0);
  CHECK(round_to_dtype(DType::boolean, 0.5) == 1);
}

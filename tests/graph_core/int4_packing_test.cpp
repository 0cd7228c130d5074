// Weights packed the way the exporters' own sources do it, in their order of loops, must unpack to the codes they came
// from.
#include "graph/ops/int4_packing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "graph/ops/verify.h"
#include "graph/oracle/reference.h"
#include "graph/read/int4_order.h"
#include "graph/read/text.h"

using namespace qcg;

namespace {

using Codes = std::vector<uint8_t>;

std::mt19937 make_random() {
  const char* given = std::getenv("QCG_TEST_SEED");
  const uint32_t seed = given ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  MESSAGE("seed " << seed);
  return std::mt19937(seed);
}

Codes random_codes(std::mt19937& random, int64_t count) {
  Codes codes(static_cast<size_t>(count));
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random() % 16);
  return codes;
}

// As a quantizer leaves them: both ends of the range in every group.
Codes quantized_codes(std::mt19937& random, int64_t n, int64_t k, int64_t group) {
  std::normal_distribution<double> normal(7.5, 2.5);
  Codes codes(static_cast<size_t>(n * k));
  for (uint8_t& code : codes) code = static_cast<uint8_t>(std::clamp(std::lround(normal(random)), 1l, 14l));
  for (int64_t begin = 0; begin < n * k; begin += group) {
    const int64_t low = static_cast<int64_t>(random() % static_cast<uint64_t>(group));
    codes[static_cast<size_t>(begin + low)] = 0;
    codes[static_cast<size_t>(begin + (low + 1 + static_cast<int64_t>(random()) % (group - 1)) % group)] = 15;
  }
  return codes;
}

std::span<const std::byte> bytes_of(const Codes& packed) { return std::as_bytes(std::span(packed)); }

// torch, aten/src/ATen/native/cpu/int4mm_kernel.cpp
Codes pack_cpu(const Codes& w, int64_t n, int64_t k, int64_t block) {
  Codes out;
  for (int64_t first = 0; first < n; first += block) {
    const int64_t width = std::min(block, n - first);
    for (int64_t i = 0; i < k; ++i) {
      auto code = [&](int64_t d) { return w[static_cast<size_t>((first + d) * k + i)]; };
      for (int64_t d = 0; d < width / 2; ++d) {
        const uint8_t low = width == block ? code(d) : code(2 * d),
                      high = width == block ? code(d + block / 2) : code(2 * d + 1);
        out.push_back(static_cast<uint8_t>(low | high << 4));
      }
    }
  }
  return out;
}

// torch, aten/src/ATen/native/cuda/int4mm.cu: lane t of a warp, pairs of 16 x 8 tiles. Its input has even k in the high
// nibble.
std::vector<uint32_t> pack_cuda(const Codes& w, int64_t n, int64_t k, int64_t tiles) {
  std::vector<uint32_t> out;
  for (int64_t n_tile = 0; n_tile < n / 8; ++n_tile)
    for (int64_t outer = 0; outer < k / 16 / tiles; ++outer)
      for (int64_t t = 0; t < 32; ++t)
        for (int64_t inner = 0; inner < tiles; inner += 2) {
          const int64_t base = (outer * tiles + inner) * 8, row = n_tile * 8 + t / 4;
          const int64_t ks[4] = {base + t % 4, base + t % 4 + 4, base + 8 + t % 4, base + 8 + t % 4 + 4};
          uint32_t v[4];
          for (int i = 0; i < 4; ++i)
            v[i] = static_cast<uint32_t>(w[static_cast<size_t>(row * k + 2 * ks[i])] << 4 |
                                         w[static_cast<size_t>(row * k + 2 * ks[i] + 1)]);
          out.push_back((v[3] & 15) << 28 | (v[2] & 15) << 24 | (v[1] & 15) << 20 | (v[0] & 15) << 16 |
                        (v[3] & 0xF0) << 8 | (v[2] & 0xF0) << 4 | (v[1] & 0xF0) | (v[0] & 0xF0) >> 4);
        }
  return out;
}

// torchao, csrc/cpu/aten_kernels/da8w4_linear_krnl.cpp
struct Da8w4 {
  Codes packed;
  std::vector<float> scales;                 // [n / 32][groups][32]
  std::vector<int32_t> zeros, compensation;  // [n / 32][groups][32], [n / 32][k / block][32]
};
Da8w4 pack_da8w4(const Codes& w, int64_t n, int64_t k, int64_t group, bool vnni, std::mt19937& random) {
  const int64_t block = std::min<int64_t>(group, 128), groups = k / group, blocks = k / block;
  Da8w4 out;
  out.packed.resize(static_cast<size_t>(n * k / 2));
  for (int64_t i = 0; i < n * groups; ++i) {
    out.zeros.push_back(static_cast<int32_t>(random() % 16));
    out.scales.push_back(static_cast<float>(random() % 1000 + 1) / 4096);
  }
  for (int64_t panel = 0; panel < n / 32; ++panel)
    for (int64_t b = 0; b < blocks; ++b) {
      uint8_t* to = out.packed.data() + (panel * blocks + b) * block * 16;
      auto code = [&](int64_t i, int64_t column) {
        return w[static_cast<size_t>((panel * 32 + column) * k + b * block + i)];
      };
      if (vnni) {
        for (int64_t nb = 0; nb < 4; nb += 2)
          for (int64_t i = 0; i < block; i += 4)
            for (int64_t ni = 0; ni < 8; ++ni)
              for (int64_t ki = 0; ki < 4; ++ki)
                to[(nb / 2 * 8 + ni) * 4 + i * 16 + ki] =
                    static_cast<uint8_t>(code(i + ki, nb * 8 + ni) | code(i + ki, (nb + 1) * 8 + ni) << 4);
      } else {
        for (int64_t i = 0; i < block; ++i)
          for (int64_t d = 0; d < 16; ++d)
            to[i * 16 + d] = static_cast<uint8_t>(code(i, 2 * d) | code(i, 2 * d + 1) << 4);
      }
      for (int64_t column = 0; column < 32; ++column) {
        int32_t sum = 0;
        for (int64_t i = 0; i < block; ++i)
          sum += code(i, column) - out.zeros[static_cast<size_t>((panel * groups + b * block / group) * 32 + column)];
        out.compensation.push_back(sum);
      }
    }
  return out;
}

template <class T>
Tensor tensor_of(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* p = bytes.data() + i * dtype_bytes(dtype);
    if (is_floating(dtype)) double_to_element(dtype, static_cast<double>(values[i]), p);
    else int_to_element(dtype, static_cast<int64_t>(values[i]), p);
  }
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

}  // namespace

TEST_CASE("int4pack of the CPU unpacks in the order of either instruction set") {
  std::mt19937 random = make_random();
  for (const int64_t n : {2, 16, 32, 48, 64, 80, 112, 128, 160})
    for (const int64_t k : {2, 32, 70}) {
      CAPTURE(n);
      CAPTURE(k);
      const Codes codes = random_codes(random, n * k);
      for (const auto& [block, order] : {std::pair{64, Int4CpuOrder::avx512}, {32, Int4CpuOrder::avx2}}) {
        const Codes packed = pack_cpu(codes, n, k, block);
        CHECK(unpack_int4pack_cpu(bytes_of(packed), n, k, order) == codes);
        const auto again = pack_int4pack_cpu(codes, n, k, order);
        CHECK(std::equal(again.begin(), again.end(), bytes_of(packed).begin(), bytes_of(packed).end()));
      }
      CHECK((n < kLeastOrderedRows || k == 2) >= (pack_cpu(codes, n, k, 64) == pack_cpu(codes, n, k, 32)));
    }
}

TEST_CASE("the instruction set that packed is seen by full groups or centred ones, or not at all") {
  std::mt19937 random = make_random();
  const int64_t n = 192, k = 256;
  auto guess = [&](const Codes& codes, int64_t block, int64_t group, const std::vector<double>& zeros) {
    std::vector<double> pairs;  // [groups, n, 2]: scale 1, offset 8 - zero
    for (int64_t g = 0; g < k / group; ++g)
      for (int64_t row = 0; row < n; ++row)
        pairs.insert(pairs.end(), {1, 8 - zeros[static_cast<size_t>(row * (k / group) + g)]});
    return find_cpu_order(tensor_of(DType::u8, {n, k / 2}, pack_cpu(codes, n, k, block)), group,
                          tensor_of(DType::f32, {k / group, n, 2}, pairs));
  };
  for (const int64_t group : {32, 64, 128}) {
    CAPTURE(group);
    const std::vector<double> unknown(static_cast<size_t>(n * k / group), NAN), middle(unknown.size(), 8);
    const Codes full = quantized_codes(random, n, k, group), noise = random_codes(random, n * k);
    for (const auto& zeros : {unknown, middle}) {
      CHECK(guess(full, 64, group, zeros) == Int4Evidence::avx512);
      CHECK(guess(full, 32, group, zeros) == Int4Evidence::avx2);
      CHECK(guess(noise, 64, group, zeros) == Int4Evidence::none);
      CHECK(guess(noise, 32, group, zeros) == Int4Evidence::none);
    }
    // Zero lies somewhere between 6 and 9, and the codes of a group around it.
    std::vector<double> zeros(unknown.size());
    Codes centred(static_cast<size_t>(n * k));
    for (size_t i = 0; i < centred.size(); ++i) {
      double& zero = zeros[i / static_cast<size_t>(group)];
      if (i % static_cast<size_t>(group) == 0) zero = 6 + static_cast<double>(random() % 64) / 21;
      centred[i] =
          static_cast<uint8_t>(std::clamp(std::lround(std::normal_distribution<double>(zero, 2)(random)), 1l, 14l));
    }
    CHECK(guess(centred, 64, group, zeros) == Int4Evidence::avx512);
    CHECK(guess(centred, 32, group, zeros) == Int4Evidence::avx2);
  }
}

TEST_CASE("int4pack of CUDA unpacks for every number of inner tiles") {
  std::mt19937 random = make_random();
  for (const int64_t tiles : {2, 4, 8})
    for (const int64_t n : {8, 24}) {
      const int64_t k = 16 * tiles * 3;
      CAPTURE(tiles);
      const Codes codes = random_codes(random, n * k);
      const std::vector<uint32_t> packed = pack_cuda(codes, n, k, tiles);
      CHECK(unpack_int4pack_cuda(std::as_bytes(std::span(packed)), n, k, tiles) == codes);
    }
}

TEST_CASE("da8w4: the byte order is the one that gives the compensation") {
  std::mt19937 random = make_random();
  for (const bool vnni : {true, false})
    for (const int64_t group : {32, 64, 256}) {
      const int64_t n = 64, k = 512, block = std::min<int64_t>(group, 128), groups = k / group;
      CAPTURE(vnni);
      CAPTURE(group);
      const Codes codes = random_codes(random, n * k);
      Da8w4 w = pack_da8w4(codes, n, k, group, vnni, random);
      const auto order = find_da8w4_order(bytes_of(w.packed), n, k, block, w.zeros, w.compensation);
      REQUIRE(order);
      CHECK(*order == (vnni ? Da8w4Order::vnni : Da8w4Order::pairs));
      CHECK(unpack_da8w4(bytes_of(w.packed), n, k, block, *order) == codes);

      auto packed = tensor_of(DType::u8, {n / 32, k / block, block, 16}, w.packed);
      auto scales = tensor_of(DType::f32, {n / 32, groups, 32}, w.scales),
           zeros = tensor_of(DType::i8, {n / 32, groups, 32}, w.zeros);
      auto sums = tensor_of(DType::i32, {n / 32, k / block, 32}, w.compensation);
      const auto weight = read_da8w4(packed, scales, zeros, sums);
      REQUIRE(weight);
      CHECK(weight->group == group);
      for (int64_t row : {0, 31, 32, 45}) {
        CAPTURE(row);
        const int64_t g = groups - 1, index[] = {row, g}, from = (row / 32 * groups + g) * 32 + row % 32;
        CHECK(element_to_double(DType::f32, weight->scales.element(index)) == w.scales[static_cast<size_t>(from)]);
        CHECK(element_to_int(DType::i32, weight->zeros.element(index)) == w.zeros[static_cast<size_t>(from)] - 8);
      }
      w.compensation[17] += 1;
      CHECK_FALSE(find_da8w4_order(bytes_of(w.packed), n, k, block, w.zeros, w.compensation));
    }
}

TEST_CASE("the oracle of the packed products equals the product of what they unpack to") {
  std::mt19937 random = make_random();
  const int64_t n = 32, k = 64, group = 32;
  const Codes codes = random_codes(random, n * k);
  const Da8w4 w = pack_da8w4(codes, n, k, group, true, random);
  auto graph = parse_graph(
      "param @w: u8[1, 2, 32, 16]\nparam @s: f32[1, 2, 32]\nparam @z: i8[1, 2, 32]\nparam @c: i32[1, 2, 32]\nparam @b: "
      "f32[32]\n"
      "param @p: i32[4, 2, 32, 1]\nparam @sz: bf16[2, 32, 2]\n"
      "graph(%q: u8[1, 64], %xs: f32[1], %xz: i32[1], %x: bf16[1, 64]) {\n"
      "  %y = torchao.da8w4_linear_cpu.default(%q, %xs, %xz, @w, @s, @z, @c, @b, output_dtype = f32) : f32[1, 32]\n"
      "  %v = aten._weight_int4pack_mm.default(%x, @p, qGroupSize = 32, qScaleAndZeros = @sz) : bf16[1, 32]\n  return "
      "%y, %v\n}\n");
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const Status status = verify_graph(*graph);
  REQUIRE_MESSAGE(status.ok(), status.error().to_string());
  std::vector<double> bias, activation, sz;
  for (int64_t i = 0; i < n; ++i) bias.push_back(static_cast<double>(i) - 7);
  for (int64_t i = 0; i < k; ++i) activation.push_back(static_cast<double>(random() % 256));
  for (int64_t i = 0; i < n * 4; ++i) sz.push_back(static_cast<double>(random() % 64) / 64);
  auto set = [&](const char* name, Tensor data) {
    for (Value& v : graph->values)
      if (v.name == name) v.data = std::move(data);
  };
  set("w", tensor_of(DType::u8, {1, 2, 32, 16}, w.packed));
  set("s", tensor_of(DType::f32, {1, 2, 32}, w.scales));
  set("z", tensor_of(DType::i8, {1, 2, 32}, w.zeros));
  set("c", tensor_of(DType::i32, {1, 2, 32}, w.compensation));
  set("b", tensor_of(DType::f32, {32}, bias));
  set("p", tensor_of(DType::i32, {4, 2, 32, 1}, pack_cuda(codes, n, k, 2)));
  set("sz", tensor_of(DType::bf16, {2, 32, 2}, sz));
  auto out = evaluate_graph(
      *graph, {tensor_of(DType::u8, {1, k}, activation), tensor_of(DType::f32, {1}, std::vector<double>{0.5}),
               tensor_of(DType::i32, {1}, std::vector<int>{119}), tensor_of(DType::bf16, {1, k}, activation)});
  REQUIRE_MESSAGE(out.ok(), out.error().to_string());
  for (int64_t row = 0; row < n; ++row) {
    double quantized = 0, real = 0;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t g = i / group, at = g * 32 + row;
      const double code = codes[static_cast<size_t>(row * k + i)], x = activation[static_cast<size_t>(i)];
      quantized += (x - 119) * 0.5 * (code - w.zeros[static_cast<size_t>(at)]) * w.scales[static_cast<size_t>(at)];
      real += x * ((code - 8) * sz[static_cast<size_t>(at * 2)] + sz[static_cast<size_t>(at * 2 + 1)]);
    }
    const int64_t index[] = {0, row};
    CHECK(element_to_double((*out)[0].dtype, (*out)[0].element(index)) ==
          doctest::Approx(quantized + bias[static_cast<size_t>(row)]).epsilon(1e-6));
    CHECK(element_to_double((*out)[1].dtype, (*out)[1].element(index)) ==
          doctest::Approx(round_to_dtype(DType::bf16, real)).epsilon(1e-6));
  }
}

TEST_CASE("a weight that torch packed with AVX2 is packed again where it is read; what is assumed is said") {
  std::mt19937 random = make_random();
  const int64_t n = 64, k = 128, group = 32;
  struct Read {
    Codes packed;
    ReadInfo info;
  };
  auto read = [&](const Codes& codes, int64_t block, Int4Packing packing) {
    auto graph = parse_graph(
        "param @w: u8[64, 64]\nparam @s: f32[4, 64, 2]\ngraph(%x: f32[3, 128]) {\n"
        "  %y = aten._weight_int4pack_mm_for_cpu.default(%x, @w, qGroupSize = 32, qScaleAndZeros = @s) : f32[3, 64]\n  "
        "return %y\n}\n");
    REQUIRE(graph.ok());
    for (Value& v : graph->values) {
      if (v.name == "w") v.data = tensor_of(DType::u8, {n, k / 2}, pack_cpu(codes, n, k, block));
      if (v.name == "s")
        v.data =
            tensor_of(DType::f32, {k / group, n, 2}, std::vector<double>(static_cast<size_t>(k / group * n * 2), 0.5));
    }
    Read out;
    settle_int4_order(*graph, packing, out.info);
    REQUIRE(verify_graph(*graph).ok());
    const auto bytes = graph->value(graph->nodes[0].tensor("mat2")).data.bytes();
    for (const std::byte b : bytes) out.packed.push_back(std::to_integer<uint8_t>(b));
    return out;
  };
  const Codes full = quantized_codes(random, n, k, group), noise = random_codes(random, n * k);
  for (const int64_t block : {64, 32}) {
    const Read sure = read(full, block, Int4Packing::automatic), unsure = read(noise, block, Int4Packing::automatic);
    CHECK(sure.packed == pack_cpu(full, n, k, 64));
    CHECK((sure.info.notes.size() == 1 && sure.info.warnings.empty()));
    CHECK(unsure.packed == pack_cpu(noise, n, k, block));
    CHECK((unsure.info.notes.empty() && unsure.info.warnings.size() == 1));
    const Read told = read(noise, block, block == 64 ? Int4Packing::avx512 : Int4Packing::avx2);
    CHECK(told.packed == pack_cpu(noise, n, k, 64));
    CHECK((told.info.notes.size() == 1 && told.info.warnings.empty()));
  }
}

// What the configuration says of scales: which weights share one, and what becomes of codes whose scale is not read.
// Checkpoints by hand, of codes that are small integers.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "dense_graph.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Tensor numbers(DType dtype, std::vector<int64_t> shape, const std::function<double(int64_t)>& value) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<std::byte> bytes(static_cast<size_t>(count) * dtype_bytes(dtype));
  for (int64_t i = 0; i < count; ++i)
    double_to_element(dtype, value(i), bytes.data() + static_cast<size_t>(i) * dtype_bytes(dtype));
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

double code(int64_t i) { return static_cast<double>(i % 15 - 7); }
Tensor codes(DType dtype, int64_t n, int64_t k) { return numbers(dtype, {n, k}, code); }
Tensor scales(std::vector<int64_t> shape, DType dtype = DType::f32) {
  return numbers(dtype, std::move(shape), [](int64_t i) { return 0.5 + 0.25 * static_cast<double>(i); });
}

using Parts = std::vector<std::pair<std::string, Tensor>>;

struct Folder {
  TempDir dir;
  ReadInfo info;

  // `config` is the quantization_config; empty: there is no config.json.
  Folder(const Parts& parts, const std::string& config) {
    REQUIRE(write_safetensors(dir / "model.safetensors", parts).ok());
    if (!config.empty()) spit(dir / "config.json", R"({"quantization_config": )" + config + "}");
  }
  Result<Graph> read(int64_t n, int64_t k, const std::string& weight = "fc.weight") {
    return read_dense({{weight, n, k}}, {.weights = {dir.path()}}, &info);
  }
};

// The weight is codes * scale(row, column).
void check_scaled(const Result<Graph>& graph, int64_t n, int64_t k,
                  const std::function<double(int64_t, int64_t)>& scale) {
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const auto got = weights_of(*graph)[0];
  REQUIRE(got.size() == static_cast<size_t>(n * k));
  size_t wrong = 0;
  for (int64_t i = 0; i < n * k; ++i) wrong += got[static_cast<size_t>(i)] != code(i) * scale(i / k, i % k);
  CHECK(wrong == 0);
}

void check_refused(const Result<Graph>& graph, std::initializer_list<const char*> texts) {
  REQUIRE(!graph.ok());
  CHECK(graph.error().code != ErrorCode::Internal);
  CHECK(!graph.error().help.empty());
  for (const char* text : texts)
    CHECK_MESSAGE(graph.error().to_string().find(text) != std::string::npos, graph.error().to_string());
}

constexpr DType kF8 = DType::f8e4m3;

// config.json of compressed-tensors: one group of layers whose weights are `weights`, and more members.
std::string ct(const std::string& format, const std::string& weights, const std::string& more = "") {
  return R"({"quant_method": "compressed-tensors", "format": ")" + format + "\", " + more +
         R"("config_groups": {"group_0": {"targets": ["Linear"], "weights": {)" + weights +
         R"(}, "input_activations": null}}})";
}

std::string ct_int8(const std::string& weights, const std::string& more = "") {
  return ct("int-quantized", R"("num_bits": 8, "type": "int", "symmetric": true, )" + weights, more);
}

}  // namespace

TEST_CASE("fp8 without blocks: one scale, or one of each row, under either name") {
  const int64_t n = 6, k = 32;
  for (const std::string name : {"weight_scale_inv", "weight_scale"})
    for (const char* config : {R"({"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": null})",
                               R"({"quant_method": "fp8", "activation_scheme": "dynamic"})",
                               R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0})"})
      for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {1}, {1, 1}, {n}, {n, 1}})
        for (const std::string module : {"fc.", ""}) {
          CAPTURE(name);
          CAPTURE(std::string(config));
          CAPTURE(shape.size());
          const bool one = shape.empty() || shape[0] == 1;
          const DType dtype = shape.size() == 2 ? DType::bf16 : DType::f32;
          Folder folder({{module + "weight", codes(kF8, n, k)},
                         {module + name, scales(shape, dtype)},
                         {module + "input_scale", scales({1})}},
                        config);
          check_scaled(folder.read(n, k, module + "weight"), n, k,
                       [&](int64_t row, int64_t) { return 0.5 + (one ? 0 : 0.25 * static_cast<double>(row)); });
          CHECK(std::ranges::any_of(folder.info.notes,
                                    [](const std::string& note) { return note.find("not rounded") != note.npos; }));
        }
  const char* config = R"({"quant_method": "fp8", "weight_block_size": null})";
  Folder other({{"fc.weight", codes(kF8, 256, 128)}, {"fc.weight_scale_inv", scales({2, 1})}}, config);
  check_refused(other.read(256, 128), {"weight_scale_inv", "has 2 numbers", "weight_block_size"});
  Folder both({{"fc.weight", codes(kF8, n, k)}, {"fc.weight_scale_inv", scales({1})}, {"fc.weight_scale", scales({1})}},
              config);
  check_refused(both.read(n, k), {"both stored"});
  Folder blocks({{"fc.weight", codes(kF8, n, k)}, {"fc.weight_scale", scales({2, 2})}},
                R"({"quant_method": "fp8", "weight_block_size": [4, 16]})");
  check_scaled(blocks.read(n, k), n, k, [&](int64_t row, int64_t column) {
    return 0.5 + 0.25 * static_cast<double>(row / 4 * 2 + column / 16);
  });
}

TEST_CASE("fp8 codes whose scale is not understood are never taken for weights") {
  const int64_t n = 6, k = 32;
  const Parts parts = {{"fc.weight", codes(kF8, n, k)}, {"fc.weight_scale", scales({1})}};
  Folder modelopt(parts, R"({"quant_method": "modelopt", "quant_algo": "FP8"})");
  check_refused(modelopt.read(n, k), {"modelopt", "the kinds that are read"});
  Folder broken(parts, R"({"quant_method": "fp8", "weight_block_size": [128]})");
  check_refused(broken.read(n, k), {"has not two sizes"});
  Folder root({{"weight", codes(kF8, n, k)}, {"weight_scale", scales({1})}}, R"({"quant_method": "quark"})");
  check_refused(root.read(n, k, "weight"), {"quark"});
  // Integers, too: why they cannot be read, not which dtype they have.
  Folder integers({{"fc.weight", codes(DType::i8, n, k)}, {"fc.weight_scale", scales({1})}},
                  R"({"quant_method": "quark"})");
  check_refused(integers.read(n, k), {"quark"});
  // A checkpoint that does not say how it is quantized is read tensor by tensor where names are changed.
  const WeightNaming naming{.prefix = "model.", .renames = {}};
  for (const char* scale : {"model.fc.weight_scale", "model.fc.scale_weight", "model.fc.weight._scale"}) {
    CAPTURE(std::string(scale));
    Folder silent({{"model.fc.weight", codes(kF8, n, k)}, {scale, scales({1})}}, "");
    check_refused(read_dense({{"fc.weight", n, k}}, {.weights = {silent.dir.path()}, .naming = naming}),
                  {"'model.fc.weight'", scale, "quant_method"});
  }
  Folder unscaled({{"fc.weight", codes(kF8, n, k)}, {"fc.bias", scales({n})}}, R"({"quant_method": "fp8"})");
  check_refused(unscaled.read(n, k), {"no scale is stored for it"});
  // Numbers that were cast to fp8 are their own values; a note says so.
  Folder cast({{"model.fc.weight", codes(kF8, n, k)}}, "");
  check_scaled(read_dense({{"fc.weight", n, k}}, {.weights = {cast.dir.path()}, .naming = naming}, &cast.info), n, k,
               [](int64_t, int64_t) { return 1.0; });
  CHECK(std::ranges::any_of(cast.info.notes,
                            [](const std::string& note) { return note.find("without a scale") != note.npos; }));
}

TEST_CASE("compressed-tensors: groups and blocks are those of the configuration") {
  const std::string blocks = R"("num_bits": 8, "type": "float", "strategy": "block", "block_structure": )";
  const auto float8 = [&](const std::string& size) { return ct("float-quantized", blocks + size); };
  for (const char* size : {"[128, 128]", "\"128x128\""}) {
    Folder ragged({{"fc.weight", codes(kF8, 192, 256)}, {"fc.weight_scale", scales({2, 2})}}, float8(size));
    check_scaled(ragged.read(192, 256), 192, 256, [](int64_t row, int64_t column) {
      return 0.5 + 0.25 * static_cast<double>(row / 128 * 2 + column / 128);
    });
  }
  Folder narrow({{"fc.weight", codes(kF8, 192, 192)}, {"fc.weight_scale", scales({2, 2})}}, float8("[128, 128]"));
  check_refused(narrow.read(192, 192), {"group of 128 does not divide K = 192"});
  Folder fewer({{"fc.weight", codes(kF8, 192, 256)}, {"fc.weight_scale", scales({3, 2})}}, float8("[128, 128]"));
  check_refused(fewer.read(192, 256), {"weight_scale has 3 rows"});
  for (const char* size : {"[128]", "[128, 0]", "\"128\"", "\"128x\"", "\"x\"", "\"1x2x3\"", "null", "[1, 2, 3]"}) {
    CAPTURE(std::string(size));
    Folder lies({{"fc.weight", codes(kF8, 192, 256)}, {"fc.weight_scale", scales({2, 2})}}, float8(size));
    check_refused(lies.read(192, 256), {"block_structure"});
  }

  const auto int8 = [](int64_t k, const std::vector<int64_t>& shape, const std::string& weights) {
    return Folder({{"fc.weight", codes(DType::i8, 4, k)}, {"fc.weight_scale", scales(shape)}}, ct_int8(weights))
        .read(4, k);
  };
  const std::string group = R"("strategy": "group", "group_size": )";
  check_scaled(int8(256, {4, 2}, group + "128"), 4, 256,
               [](int64_t row, int64_t column) { return 0.5 + 0.25 * static_cast<double>(row * 2 + column / 128); });
  check_refused(int8(192, {4, 2}, group + "128"), {"group of 128 does not divide K = 192"});
  check_refused(int8(256, {4, 4}, group + "128"), {"4 groups", "2 of 128"});
  check_refused(int8(256, {4, 2}, group + "null"), {"group_size"});
  check_refused(int8(256, {4, 2}, group + "-2"), {"group_size"});
  check_refused(int8(256, {4, 2}, R"("strategy": "channel")"), {"2 groups"});
  check_refused(int8(256, {4, 1}, R"("strategy": "tensor")"), {"weight_scale has 4 rows"});
  check_refused(int8(256, {1}, R"("strategy": "channel")"), {"weight_scale has 1 rows"});
  check_refused(int8(256, {4, 2}, R"("strategy": "token")"), {"'token'"});
  // Where the strategy is not named, group_size says it.
  const auto of_row = [](int64_t row, int64_t) { return 0.5 + 0.25 * static_cast<double>(row); };
  check_scaled(int8(256, {4, 1}, R"("strategy": null, "group_size": -1)"), 4, 256, of_row);
  check_scaled(int8(256, {4}, R"("strategy": "channel", "group_size": null)"), 4, 256, of_row);
  check_scaled(int8(256, {}, R"("group_size": null)"), 4, 256, [](int64_t, int64_t) { return 0.5; });
  check_refused(int8(256, {4, 2}, R"("group_size": 64)"), {"2 groups"});
}

TEST_CASE("compressed-tensors: of two groups of layers, a layer is of the one that its scales fit") {
  const std::string config = R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {
    "a": {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}},
    "b": {"weights": {"num_bits": 8, "type": "int", "strategy": "group", "group_size": 32}}}})";
  for (const int64_t groups : {1, 2}) {
    Folder folder({{"fc.weight", codes(DType::i8, 4, 64)}, {"fc.weight_scale", scales({4, groups})}}, config);
    check_scaled(folder.read(4, 64), 4, 64, [&](int64_t row, int64_t column) {
      return 0.5 + 0.25 * static_cast<double>(row * groups + column * groups / 64);
    });
  }
}

TEST_CASE("compressed-tensors: a note says that outputs are not rounded") {
  for (const std::string outputs : {"null", R"({"num_bits": 8, "type": "int", "strategy": "tensor"})"}) {
    CAPTURE(outputs);
    std::string config = ct_int8(R"("strategy": "channel")");
    const std::string before = R"("input_activations")";
    config.insert(config.find(before), R"("output_activations": )" + outputs + ", ");
    Folder folder({{"fc.weight", codes(DType::i8, 4, 64)},
                   {"fc.weight_scale", scales({4, 1})},
                   {"fc.output_scale", scales({1})},
                   {"fc.output_zero_point", codes(DType::i8, 1, 1)}},
                  config);
    REQUIRE(folder.read(4, 64).ok());
    const bool is_said = std::ranges::any_of(
        folder.info.notes, [](const std::string& note) { return note.starts_with("output_activations"); });
    CHECK(is_said == (outputs != "null"));
  }
}

TEST_CASE("compressed-tensors: rotations at run time and sparse weights are refused") {
  const auto read = [](const std::string& more) {
    return Folder({{"fc.weight", codes(DType::i8, 4, 64)}, {"fc.weight_scale", scales({4, 1})}},
                  ct_int8(R"("strategy": "channel")", more))
        .read(4, 64);
  };
  check_refused(read(R"("transform_config": {"config_groups": {"u": {"type": "hadamard"}}}, )"), {"rotations"});
  check_refused(read(R"("transform_config": {"type": "hadamard"}, )"), {"rotations"});
  check_refused(read(R"("sparsity_config": {"format": "sparse-24-bitmask"}, )"), {"sparse-24-bitmask"});
  for (const char* none : {R"("transform_config": {}, )", R"("transform_config": {"config_groups": {}}, )",
                           R"("transform_config": null, "sparsity_config": null, )", R"("sparsity_config": {}, )",
                           R"("sparsity_config": {"format": "dense", "targets": ["Linear"]}, )"}) {
    CAPTURE(std::string(none));
    CHECK(read(none).ok());
  }
}

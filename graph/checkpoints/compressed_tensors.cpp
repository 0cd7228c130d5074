// compressed-tensors: what llm-compressor writes, one of several formats per group of layers.
//
//   pack-quantized        weight_packed i32 [N, ceil(K / p)] of q + 2^(bits-1), p = 32 / bits along K, low bits first;
//                         weight_scale [N, G]; weight_zero_point i32 [N / p, G], packed along N, where not symmetric;
//                         weight_g_idx i32 [K] with activation ordering; weight_shape i64 [2]
//   int-quantized         weight i8 [N, K], weight_scale by the strategy: tensor [1], channel [N, 1], group [N, G] of
//                         group_size, block [ceil(N / rows), K / columns] of block_structure; weight_zero_point i8 alike
//   float-quantized       weight e4m3 [N, K], weight_scale alike
//   nvfp4-pack-quantized  weight_packed u8 [N, K / 2], low nibble first; weight_scale e4m3 [N, K / 16];
//                         weight_global_scale f32 [1], which divides
//   mxfp4-pack-quantized  weight_packed alike; weight_scale u8 [N, K / 32], 2^(s - 127)
//
//   w = (q - z) * s
//
// input_activations of 8-bit integers are rounded as well: per token with scales of the run, or per tensor with
// input_scale [1] and input_zero_point [1].
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "graph/checkpoints/kinds.h"
#include "graph/ir/elements.h"

namespace qcg {

namespace {

constexpr std::string_view kNvfp4 = "nvfp4-pack-quantized", kMxfp4 = "mxfp4-pack-quantized";

// config_groups: how the weights of some layers are quantized. Which layers they are can be seen by their tensors.
struct WeightScheme {
  std::string format;
  int64_t bits = 0;
  // strategy: so many rows and columns share a scale; 0: all of them.
  int64_t rows = 1, columns = 0;
  // Whether activations become integers, and how.
  bool rounds = false, symmetric = true, at_run_time = true;

  bool operator==(const WeightScheme&) const = default;
};

// Scales or zero points of a weight, as [N, G]. `group` becomes K / G.
Result<Tensor> read_rows_and_groups(const LinearParts& parts, std::string_view part,
                                    std::initializer_list<DType> dtypes, const WeightScheme& scheme, int64_t n,
                                    int64_t k, int64_t& group) {
  QCG_TRY(numbers, parts.tensor(part, dtypes, {}));
  if (numbers.shape.empty()) numbers = numbers.reshape({1});
  if (numbers.shape.size() == 1) numbers = numbers.reshape({numbers.numel(), 1});
  if (numbers.shape.size() != 2)
    return parts.bad(part, "has " + std::to_string(numbers.shape.size()) + " axes, not rows and groups");
  QCG_TRY(checked, check_group(parts, scheme.columns, k, numbers.shape[1]));
  const int64_t rows = scheme.rows > 0 ? scheme.rows : std::max<int64_t>(n, 1), want = (n + rows - 1) / rows;
  if (numbers.shape[0] != want)
    return parts.bad(part, "has " + std::to_string(numbers.shape[0]) + " rows of numbers, and " + std::to_string(n) +
                               " channels have " + std::to_string(want) + " with the strategy of config_groups");
  group = checked;
  return repeat_rows(numbers, rows, n);
}

Status take_scale(const LinearParts& parts, const WeightScheme& scheme, int64_t n, int64_t k, QuantizedWeight& out) {
  QCG_TRY(scale,
          read_rows_and_groups(parts, "weight_scale", {DType::f32, DType::bf16, DType::f16}, scheme, n, k, out.group));
  out.scale = std::move(scale);
  return {};
}

Result<QuantizedWeight> read_packed(const LinearParts& parts, const WeightScheme& scheme) {
  const int64_t bits = scheme.bits, per_word = 32 / bits;
  QCG_TRY(packed, parts.tensor("weight_packed", {DType::i32}, {-1, -1}));
  QCG_TRY(shape, parts.tensor("weight_shape", {DType::i64, DType::i32}, {2}));
  const auto sizes = *read_elements<int64_t>(shape);
  const int64_t n = packed.shape[0], k = sizes[1];
  if (sizes[0] != n || k < 1 || k > packed.shape[1] * per_word || k <= (packed.shape[1] - 1) * per_word)
    return parts.bad("weight_shape", "says [" + std::to_string(sizes[0]) + ", " + std::to_string(k) +
                                         "], which weight_packed does not hold");
  QuantizedWeight out;
  out.codes = unpack_words(packed, static_cast<int>(bits)).slice(1, 0, k).contiguous();
  QCG_CHECK(take_scale(parts, scheme, n, k, out));
  const int64_t middle = int64_t{1} << (bits - 1);
  out.high = static_cast<int>(2 * middle - 1);
  if (parts.has("weight_zero_point")) {
    QCG_TRY(words, parts.tensor("weight_zero_point", {DType::i32}, {(n + per_word - 1) / per_word, k / out.group}));
    out.zero = to_i32(unpack_words(words.transpose(0, 1), static_cast<int>(bits)).slice(1, 0, n).transpose(0, 1));
  } else {
    out.zero = to_i32(Tensor::zeros(DType::i32, {n, k / out.group}), static_cast<int32_t>(middle));
  }
  if (parts.has("weight_g_idx")) {
    QCG_TRY(g_idx, parts.tensor("weight_g_idx", {DType::i32, DType::i64}, {k}));
    const auto groups = *read_elements<int64_t>(g_idx);
    const bool is_set = std::any_of(groups.begin(), groups.end(), [](int64_t g) { return g != -1; });
    if (is_set) QCG_CHECK(order_by_group(parts, g_idx, out));
  }
  return out;
}

Result<QuantizedWeight> read_bytes(const LinearParts& parts, const WeightScheme& scheme, DType dtype) {
  QCG_TRY(weight, parts.tensor("weight", {dtype}, {-1, -1}));
  const int64_t n = weight.shape[0], k = weight.shape[1];
  QuantizedWeight out;
  out.codes = weight;
  out.low = -128, out.high = 127;
  QCG_CHECK(take_scale(parts, scheme, n, k, out));
  if (!parts.has("weight_zero_point")) return out;
  if (dtype != DType::i8) return out;  // zeros
  QCG_TRY(zero, read_rows_and_groups(parts, "weight_zero_point", {DType::i8, DType::i32}, scheme, n, k, out.group));
  out.zero = to_i32(zero);
  return out;
}

// Four-bit floats: nvfp4 has groups of 16 and a global scale, mxfp4 has groups of 32 and powers of two.
Result<QuantizedWeight> read_four_bit(const LinearParts& parts, bool nvfp4) {
  QCG_TRY(packed, parts.tensor("weight_packed", {DType::u8}, {-1, -1}));
  const int64_t n = packed.shape[0], k = packed.shape[1] * 2;
  QCG_TRY(scale, parts.tensor("weight_scale", {nvfp4 ? DType::f8e4m3 : DType::u8}, {n, -1}));
  QCG_TRY(group, check_group(parts, nvfp4 ? 16 : 32, k, scale.shape[1]));
  QuantizedWeight out;
  out.codes = packed;
  out.scale = scale;
  out.group = group;
  out.format = nvfp4 ? "nvfp4" : "mxfp4";
  if (!nvfp4) return out;
  QCG_TRY(global, parts.tensor("weight_global_scale", {DType::f32}, {1}));
  const float divisor = (*read_elements<float>(global))[0];
  if (!(divisor > 0)) return parts.bad("weight_global_scale", "is not positive");
  out.global = make_tensor(DType::f32, {1}, Elements<float>(std::in_place, 1, 1 / divisor));
  return out;
}

Result<QuantizedWeight> read_codes(const LinearParts& parts, const WeightScheme& scheme) {
  if (scheme.format == "pack-quantized") return read_packed(parts, scheme);
  if (scheme.format == "int-quantized") return read_bytes(parts, scheme, DType::i8);
  if (scheme.format == "float-quantized") return read_bytes(parts, scheme, DType::f8e4m3);
  return read_four_bit(parts, scheme.format == kNvfp4);
}

Result<QuantizedWeight> read_weight(const LinearParts& parts, const WeightScheme& scheme) {
  QCG_TRY(out, read_codes(parts, scheme));
  if (!scheme.rounds) return out;
  out.activation = ActivationCodes{.symmetric = scheme.symmetric};
  if (scheme.at_run_time) return out;
  QCG_TRY(scale, parts.tensor("input_scale", {DType::f32, DType::bf16, DType::f16}, {1}));
  out.activation->scale = (*read_elements<double>(scale))[0];
  if (!(*out.activation->scale > 0) || !std::isfinite(*out.activation->scale))
    return parts.bad("input_scale", "is not positive");
  if (!parts.has("input_zero_point")) return out;
  QCG_TRY(zero, parts.tensor("input_zero_point", {DType::i8, DType::i32, DType::i64}, {1}));
  out.activation->zero = (*read_elements<int64_t>(zero))[0];
  if (out.activation->zero < -128 || out.activation->zero > 127)
    return parts.bad("input_zero_point", "is outside -128 to 127");
  return out;
}

Result<std::string> text_or(const JsonCursor& object, std::string_view key, const std::string& missing) {
  const auto found = object.find(key);
  if (!found || !found->is(JsonKind::string)) return missing;
  QCG_TRY(text, found->string());
  return std::string(text);
}

Result<bool> flag_or(const JsonCursor& object, std::string_view key, bool missing) {
  const auto found = object.find(key);
  if (!found || !found->is(JsonKind::boolean)) return missing;
  return found->boolean();
}

// Whether activations are rounded as a kernel does it. Those that are not stay floating.
Status read_activations(const JsonCursor& activations, WeightScheme& out) {
  QCG_TRY(bits, config_number(activations, "num_bits", 8, 1, 64));
  QCG_TRY(type, text_or(activations, "type", "int"));
  QCG_TRY(strategy, text_or(activations, "strategy", ""));
  QCG_TRY(dynamic, flag_or(activations, "dynamic", false));
  QCG_TRY(symmetric, flag_or(activations, "symmetric", true));
  out.rounds = bits == 8 && type == "int" && strategy == (dynamic ? "token" : "tensor");
  out.symmetric = symmetric, out.at_run_time = dynamic;
  return {};
}

// Two positive numbers: [128, 128], or "128x128".
Status read_block(const JsonCursor& weights, WeightScheme& out) {
  QCG_TRY(block, weights.at("block_structure"));
  std::vector<int64_t> sizes;
  if (block.is(JsonKind::string)) {
    QCG_TRY(text, block.string());
    for (std::string_view rest = text; sizes.size() < 3;) {
      const std::string_view word = rest.substr(0, rest.find('x'));
      const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), sizes.emplace_back());
      if (failed != std::errc() || end != word.data() + word.size()) sizes.back() = 0;
      if (word.size() == rest.size()) break;
      rest.remove_prefix(word.size() + 1);
    }
  } else if (block.is(JsonKind::array)) {
    for (JsonCursor size : block) {
      QCG_TRY(value, size.integer());
      sizes.push_back(value);
      if (sizes.size() > 2) break;
    }
  }
  const auto is_size = [](int64_t size) { return size > 0 && size <= INT32_MAX; };
  if (sizes.size() != 2 || !std::ranges::all_of(sizes, is_size))
    return block.bad("is no size of a block", "two positive numbers are read");
  out.rows = sizes[0], out.columns = sizes[1];
  return {};
}

// What shares a scale. Where no strategy is named, group_size says it, as the library has it.
Status read_strategy(const JsonCursor& weights, WeightScheme& out) {
  QCG_TRY(group, config_number(weights, "group_size", 0, -1, INT32_MAX));
  QCG_TRY(strategy, text_or(weights, "strategy", group > 0 ? "group" : group < 0 ? "channel" : "tensor"));
  const bool grouped = strategy == "group" || strategy == "tensor_group";
  if (strategy == "block") return read_block(weights, out);
  if (grouped && group <= 0) return weights.bad("has groups without a group_size", "a positive number is read");
  if (!grouped && strategy != "channel" && strategy != "tensor")
    return weights.unsupported("the strategy " + quote(strategy) + " of weights",
                               "tensor, channel, group, tensor_group and block are read");
  out.rows = strategy == "tensor" ? 0 : 1;
  out.columns = grouped ? group : 0;
  return {};
}

Result<WeightScheme> read_scheme(const JsonCursor& group, const std::string& format) {
  WeightScheme out{.format = format};
  if (const auto own = group.find("format"); own && own->is(JsonKind::string)) {
    QCG_TRY(name, own->string());
    out.format = name;
  }
  QCG_TRY(weights, group.object_at("weights"));
  QCG_TRY(bits, config_number(weights, "num_bits", 8, 1, 64));
  out.bits = bits;
  const bool packs = out.format == "pack-quantized" && (bits == 4 || bits == 8),
             eight = (out.format == "int-quantized" || out.format == "float-quantized") && bits == 8,
             four = (out.format == kNvfp4 || out.format == kMxfp4) && bits == 4;
  if (!packs && !eight && !four)
    return weights.unsupported(
        "compressed-tensors in the format " + quote(out.format) + " with " + std::to_string(bits) + " bits",
        "pack-quantized with 4 or 8 bits, int-quantized, float-quantized, "
        "nvfp4-pack-quantized and mxfp4-pack-quantized are read");
  QCG_CHECK(read_strategy(weights, out));
  const int64_t fixed = out.format == kNvfp4 ? 16 : 32;
  if (four && (out.rows != 1 || out.columns != fixed))
    return weights.unsupported(out.format + " in other groups than of " + std::to_string(fixed) + " columns",
                               "quantize with group_size " + std::to_string(fixed));
  return out;
}

// What changes the numbers of a layer beyond its codes and scales.
Status refuse_transforms(const JsonCursor& config) {
  const auto is_empty = [](const JsonCursor& c) { return c.is(JsonKind::object) && c.begin() == c.end(); };
  if (const auto transform = config.find("transform_config"); transform && !transform->is(JsonKind::null)) {
    const auto groups = transform->find("config_groups");
    if (!is_empty(*transform) && !(groups && is_empty(*groups)))
      return transform->unsupported("weights with rotations that are applied at run time",
                                    "quantize without transforms, or with rotations that are fused into the weights");
  }
  const auto sparsity = config.find("sparsity_config");
  if (!sparsity || !sparsity->is(JsonKind::object)) return {};
  QCG_TRY(format, text_or(*sparsity, "format", "dense"));
  if (format == "dense") return {};
  return sparsity->unsupported("sparse weights in the format " + quote(format), "save the checkpoint dense");
}

}  // namespace

Status take_compressed_tensors(RawCheckpoint& raw, Checkpoint& out) {
  QCG_CHECK(refuse_transforms(raw.config));
  std::string format;
  if (const auto stated = raw.config.find("format"); stated && stated->is(JsonKind::string)) {
    QCG_TRY(name, stated->string());
    format = name;
  }
  QCG_TRY(groups, raw.config.object_at("config_groups"));
  std::vector<WeightScheme> schemes;
  bool leaves_activations = false, leaves_outputs = false;
  for (JsonCursor group : groups) {
    QCG_TRY(scheme, read_scheme(group, format));
    if (const auto activations = group.find("input_activations"); activations && activations->is(JsonKind::object)) {
      QCG_CHECK(read_activations(*activations, scheme));
      leaves_activations = leaves_activations || !scheme.rounds;
    }
    const auto outputs = group.find("output_activations");
    leaves_outputs = leaves_outputs || (outputs && outputs->is(JsonKind::object));
    schemes.push_back(scheme);
  }
  // Which group a layer belongs to follows from the tensors that it has, unless two groups have the same.
  const auto scheme_of = [schemes](const LinearParts& parts) -> Result<WeightScheme> {
    std::vector<WeightScheme> fitting;
    for (const WeightScheme& s : schemes) {
      const bool packed = s.format.find("pack-quantized") != s.format.npos;
      if (packed != parts.has("weight_packed") || (s.format == kNvfp4) != parts.has("weight_global_scale")) continue;
      if (!packed) {
        const DType dtype = s.format == "int-quantized" ? DType::i8 : DType::f8e4m3;
        if (!parts.tensor("weight", {dtype}, {-1, -1}).ok()) continue;
      }
      if (std::ranges::find(fitting, s) == fitting.end()) fitting.push_back(s);
    }
    if (fitting.size() > 1) std::erase_if(fitting, [&](const WeightScheme& s) { return !read_codes(parts, s).ok(); });
    if (fitting.size() == 1) return fitting[0];
    if (fitting.empty()) return parts.bad("its tensors", "fit none of the config_groups");
    return parts.unsupported("two of the config_groups fit its tensors",
                             "name one group, or give groups of different formats");
  };
  const std::initializer_list<std::string_view> others = {"weight",       "weight_packed",    "weight_zero_point",
                                                          "weight_shape", "weight_g_idx",     "weight_global_scale",
                                                          "input_scale",  "input_zero_point", "input_global_scale",
                                                          "output_scale", "output_zero_point"};
  for (auto& [base, parts] : take_parts(raw, "weight_scale", others))
    out.weights.emplace(weight_of(base), [parts = parts, scheme_of]() -> Result<QuantizedWeight> {
      QCG_TRY(scheme, scheme_of(parts));
      return read_weight(parts, scheme);
    });
  if (leaves_activations)
    out.notes.push_back(
        "activations stay floating: those of 8-bit integers per token, or per tensor with scales of the checkpoint, "
        "are "
        "rounded");
  if (leaves_outputs) out.notes.push_back("output_activations are not rounded: results of linears stay floating");
  return {};
}

}  // namespace qcg

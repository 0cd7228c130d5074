// Random weights that behave like trained ones.
//
// What a parameter is follows from who consumes it, through views and casts: the tensor that dequantize_affine reads is
// an integer in quant_min..quant_max, what multiplies the product of an int8 weight is its scale, and so on. Each kind
// is a palette of 4096 representable values; elements pick from it by 16 bits of a counter-based generator. A palette
// makes every dtype cost the same, and cannot hold a denormal or a NaN.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/parallel.h"
#include "base/splitmix.h"
#include "graph/ops/op_table.h"
#include "graph/ops/scaled_product.h"
#include "graph/read/files/mapped_file.h"
#include "graph/read/weights.h"

namespace qcg {
namespace {

constexpr size_t kPalette = 4096;
constexpr size_t kMaxWalk = 4096;  // steps along consumers per parameter

uint64_t hash_name(std::string_view name, uint64_t seed) {
  uint64_t h = splitmix(seed);
  for (unsigned char c : name) h = splitmix(h ^ c);
  return h;
}

// normal: mean + deviation * N(0, 1); positive: uniform in [0.5, 1.5] * deviation; integers: uniform in [low, high];
// bits: any.
enum class Draw { zeros, integers, bits, normal, positive };

struct Recipe {
  Draw draw = Draw::zeros;
  double mean = 0, deviation = 1;
  int64_t low = 0, high = 0;

  static Recipe integers(int64_t low, int64_t high) { return {Draw::integers, 0, 1, low, high}; }
  static Recipe normal(double mean, double deviation) { return {Draw::normal, mean, deviation}; }
  // For a weight with K columns of integers up to q in magnitude: products of unit activations come out near one.
  static Recipe scale(double k, double q) {
    return {Draw::positive, 0, 2 / (std::sqrt(std::max(k, 1.0)) * std::max(q, 1.0))};
  }
};

bool is_integer(DType dtype) { return !is_floating(dtype) && dtype != DType::boolean; }

// Size of an axis counted from the back, 1 where it is symbolic or absent.
double size_from_back(const Value& value, size_t back) {
  if (value.shape.size() < back) return 1;
  const Dim& dim = value.shape[value.shape.size() - back];
  return dim.is_constant() ? static_cast<double>(dim.constant()) : 1;
}

class RecipeFinder {
 public:
  explicit RecipeFinder(const Graph& graph) : graph_(graph), uses_(graph.values.size()) {
    for (const Node& node : graph.nodes) {
      for (size_t i = 0; i < node.args.size(); ++i) {
        const ValueId* id = node.args[i].get<ValueId>();
        if (id && *id != kNoValue) uses_[*id].push_back({&node, i});
      }
    }
  }

  Recipe find(ValueId parameter) const {
    std::vector<ValueId> reached{parameter};
    for (size_t i = 0; i < reached.size() && reached.size() < kMaxWalk; ++i) {
      for (const Use& use : uses_[reached[i]]) {
        if (auto recipe = from_use(use, graph_.value(parameter))) return *recipe;
        bool same_data = use.node->op->role == OpRole::view || use.node->op->role == OpRole::copy;
        if (same_data) reached.insert(reached.end(), use.node->outputs.begin(), use.node->outputs.end());
      }
    }
    return fallback(graph_.value(parameter));
  }

 private:
  struct Use {
    const Node* node;
    size_t arg;
  };

  static Recipe fallback(const Value& value) {
    if (value.dtype == DType::boolean) return Recipe::integers(0, 1);
    // Codes of a weight: fewer of them would be another scheme. Wider integers may be positions.
    if (is_byte(value.dtype)) return Recipe::integers(integer_range(value.dtype).low, integer_range(value.dtype).high);
    if (!is_floating(value.dtype)) return {};
    return Recipe::normal(0, value.shape.size() < 2 ? 0.1 : 1 / std::sqrt(std::max(size_from_back(value, 1), 1.0)));
  }

  std::optional<Recipe> from_use(const Use& use, const Value& parameter) const {
    const Node& node = *use.node;
    const Op op = node.op;
    const std::string_view name = op.row().name, arg = node.op->args[use.arg].name;
    if (op == "torchao.dequantize_affine.default" || op == "torchao.quantize_affine.default")
      return quantized(node, arg, parameter);
    if (op == "aten._weight_int8pack_mm.default" && arg == "scales")
      return Recipe::scale(size_from_back(graph_.value(node.tensor("mat2")), 1), 127);
    if (name.starts_with("aten._weight_int4pack_mm")) return packed(node, arg, parameter);
    if (op == "torchao.da8w4_linear_cpu.default") return packed_with_sums(node, arg);
    if (is_scaled_product(op) || op == "qcg.dequantize_4bit") return coded(node, arg, parameter);
    if (node.op->role == OpRole::matmul) return multiplied(node, arg, parameter);
    if (arg == "running_var") return Recipe{Draw::positive, 0, 1};
    if (arg == "weight" && node.op->arg_index("dilation") >= 0) return convolved(parameter);
    if (node.op->role == OpRole::constant && is_integer(parameter.dtype) && node.op->arg_index("other") >= 0)
      return Recipe{Draw::bits};                                                               // a word of codes
    if (is_byte(parameter.dtype) && takes_off(use, parameter)) return Recipe::integers(0, 4);  // a zero point
    if (!is_floating(parameter.dtype) || node.op->role != OpRole::pointwise) return std::nullopt;
    if (name.starts_with("aten.mul")) return multiplier(node, use.arg);
    if (name.starts_with("aten.add") || name.starts_with("aten.sub")) return Recipe::normal(0, 0.1);
    return std::nullopt;
  }

  // [N, C, kernel…]: products of unit activations come out near one.
  static Recipe convolved(const Value& weight) {
    double k = 1;
    for (size_t back = 1; back < weight.shape.size(); ++back) k *= size_from_back(weight, back);
    return Recipe::normal(0, 1 / std::sqrt(std::max(k, 1.0)));
  }

  // Whether it is added to more numbers than it has, or taken off them.
  bool takes_off(const Use& use, const Value& parameter) const {
    const Node& node = *use.node;
    if (!is_op(node, "aten.sub.Tensor") && !is_op(node, "aten.add.Tensor")) return false;
    const ValueId* other = node.args[1 - std::min<size_t>(use.arg, 1)].get<ValueId>();
    if (use.arg > 1 || !other) return false;
    const Dim elements = product(graph_.value(*other).shape);
    return elements.is_constant() && elements.constant() > parameter.data.numel();
  }

  std::optional<Recipe> quantized(const Node& node, std::string_view arg, const Value& parameter) const {
    int64_t low = bound(node, "quant_min", -127), high = bound(node, "quant_max", 127);
    if (high < low) return std::nullopt;
    if (arg == "input" && is_integer(parameter.dtype)) return Recipe::integers(low, high);
    if (arg == "scale") {
      double q = static_cast<double>(std::max(std::abs(low), std::abs(high)));
      return Recipe::scale(size_from_back(graph_.value(node.tensor("input")), 1), q);
    }
    if (arg != "zero_point") return std::nullopt;
    // A signed range belongs to a symmetric quantization, whose zero points exporters write as zeros.
    if (low < 0) return Recipe{};
    int64_t quarter = (high - low) / 4;
    if (!is_integer(parameter.dtype))
      return Recipe::normal(static_cast<double>(low + high) / 2, static_cast<double>(quarter) / 2);
    return Recipe::integers(low + quarter, high - quarter);
  }

  // Any byte is two codes. Scales and zero points are interleaved in one tensor, so both are as small as a scale is.
  std::optional<Recipe> packed(const Node& node, std::string_view arg, const Value& parameter) const {
    if (arg == "mat2")
      return parameter.dtype == DType::u8 ? Recipe::integers(0, 255) : Recipe::integers(INT32_MIN, INT32_MAX);
    if (arg == "qScaleAndZeros") return Recipe::scale(size_from_back(graph_.value(node.tensor("self")), 1), 8);
    return std::nullopt;
  }

  // Codes, zero points and the sums over both have to agree: all are zero.
  std::optional<Recipe> packed_with_sums(const Node& node, std::string_view arg) const {
    if (arg == "bias") return Recipe::normal(0, 0.1);
    return arg == "weight_scales" ? Recipe::scale(size_from_back(graph_.value(node.tensor("input")), 1), 8) : Recipe{};
  }

  // Codes with scales: any byte is a pair of 4-bit numbers, an integer scale is an exponent.
  std::optional<Recipe> coded(const Node& node, std::string_view arg, const Value& parameter) const {
    if (arg == "bias") return Recipe::normal(0, 0.1);
    if (arg.find("offset") != arg.npos) return Recipe::integers(-4, 4);
    const bool scale = arg.find("scale") != arg.npos;
    if (scale && is_integer(parameter.dtype)) return Recipe::integers(120, 127);
    if (scale) {
      const double k = size_from_back(graph_.value(*node.args[0].get<ValueId>()), 1);
      const bool of_weight = arg.starts_with("w_") || arg == "scale_b" || arg == "scales";
      return Recipe::scale(of_weight ? k : 1, holds_integers(*node.args[0].get<ValueId>()) ? 127 : 1);
    }
    if (parameter.dtype == DType::u8) return Recipe::integers(0, 255);
    if (is_integer(parameter.dtype))
      return !is_op(node, "tensor_cast.static_quant_linear_int4.default") ? Recipe::integers(-127, 127)
                                                                          : Recipe::integers(-8, 7);
    return Recipe::normal(0, 1);
  }

  static int64_t bound(const Node& node, std::string_view arg, int64_t unless_given) {
    const Dim* dim = node.arg(arg).get<Dim>();
    return dim && dim->is_constant() && std::abs(dim->constant()) <= INT32_MAX ? dim->constant() : unless_given;
  }

  std::optional<Recipe> multiplied(const Node& node, std::string_view arg, const Value& parameter) const {
    if (arg == "bias" || (is_op(node, "aten.addmm.default") && arg == "self")) return Recipe::normal(0, 0.1);
    if (is_integer(parameter.dtype)) return Recipe::integers(-127, 127);
    return Recipe::normal(0, 1 / std::sqrt(contracted(node, arg)));
  }

  // K of a product whose weight is the argument arg.
  double contracted(const Node& node, std::string_view arg) const {
    bool rows_are_outputs = arg == "weight" || is_op(node, "aten._weight_int8pack_mm.default");
    return std::max(size_from_back(graph_.value(node.tensor(arg)), rows_are_outputs ? 1 : 2), 1.0);
  }

  // A factor of an integer weight, or of its product, is that weight's scale; any other one is a norm's weight.
  Recipe multiplier(const Node& node, size_t arg) const {
    const ValueId* other = node.args[1 - std::min<size_t>(arg, 1)].get<ValueId>();
    std::vector<ValueId> behind;
    if (other && *other != kNoValue) behind.push_back(*other);
    if (!behind.empty() && holds_integers(*other)) return Recipe::scale(size_from_back(graph_.value(*other), 1), 127);
    constexpr size_t kMaxBehind = 64;
    for (size_t i = 0; i < behind.size() && behind.size() < kMaxBehind; ++i) {
      const Value& value = graph_.value(behind[i]);
      if (value.kind != ValueKind::node) continue;
      const Node& producer = graph_.nodes[value.producer];
      if (producer.op->role == OpRole::matmul) {
        int weight = std::max(producer.op->arg_index("mat2"), producer.op->arg_index("weight"));
        if (weight < 0) continue;
        std::string_view name = producer.op->args[weight].name;
        if (holds_integers(producer.tensor(name))) return Recipe::scale(contracted(producer, name), 127);
        continue;
      }
      for_each_input(producer, [&](const ValueId& id) { behind.push_back(id); });
    }
    return Recipe::normal(1, 0.1);
  }

  bool holds_integers(ValueId id) const {
    for (size_t step = 0; step < 16; ++step) {
      const Value& value = graph_.value(id);
      if (is_integer(value.dtype)) return true;
      if (value.kind != ValueKind::node) return false;
      const Node& producer = graph_.nodes[value.producer];
      const ValueId* self = producer.args.empty() ? nullptr : producer.args[0].get<ValueId>();
      if (!self || *self == kNoValue) return false;
      id = *self;
    }
    return false;
  }

  const Graph& graph_;
  std::vector<std::vector<Use>> uses_;
};

double smallest_normal(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-14;
    case DType::f8e4m3: return 0x1p-6;
    case DType::f8e5m2: return 0x1p-14;
    case DType::f64: return 0x1p-1022;
    default: return 0x1p-126;
  }
}

double draw_real(const Recipe& recipe, size_t i) {
  constexpr double kUnit = 0x1p-16;
  uint64_t pair = i % (kPalette / 2);
  if (recipe.draw == Draw::positive) return recipe.deviation * (0.5 + (static_cast<double>(i) + 0.5) / kPalette);
  double sum =
      -6;  // twelve uniforms have variance 1; the other half of the palette mirrors this one, so the mean is exact
  for (uint64_t j = 0; j < 3; ++j) {
    uint64_t bits = splitmix(pair * 3 + j);
    for (int k = 0; k < 4; ++k) sum += kUnit * (static_cast<double>((bits >> (16 * k)) & 0xFFFF) + 0.5);
  }
  return recipe.mean + recipe.deviation * (i < kPalette / 2 ? sum : -sum);
}

std::vector<std::byte> make_palette(DType dtype, Recipe recipe) {
  size_t bytes = dtype_bytes(dtype);
  std::vector<std::byte> palette(kPalette * bytes);
  if (dtype == DType::f8e8m0) recipe = {Draw::positive, 0, 1};                 // powers of two only
  if (dtype == DType::f8e4m3 || dtype == DType::f8e5m2) recipe.deviation = 1;  // eight bits have no room for 1/sqrt(K)
  uint64_t span = static_cast<uint64_t>(recipe.high - recipe.low) + 1;
  for (size_t i = 0; i < kPalette; ++i) {
    std::byte* element = palette.data() + i * bytes;
    if (!is_floating(dtype)) {
      const int64_t value = recipe.draw == Draw::integers ? recipe.low + static_cast<int64_t>(i * span / kPalette)
                            : recipe.draw == Draw::bits   ? static_cast<int64_t>(splitmix(i))
                                                          : 0;
      int_to_element(dtype, value, element);
      continue;
    }
    double value = recipe.draw == Draw::integers
                       ? static_cast<double>(recipe.low + static_cast<int64_t>(i * span / kPalette))
                   : recipe.draw == Draw::zeros ? 0
                                                : draw_real(recipe, i);
    double_to_element(dtype, std::abs(value) < smallest_normal(dtype) ? 0 : value, element);
  }
  return palette;
}

template <class Word>
void fill(std::byte* out, size_t begin, size_t end, const std::byte* palette_bytes, uint64_t seed) {
  const Word* palette = reinterpret_cast<const Word*>(palette_bytes);
  Word* words = reinterpret_cast<Word*>(out);
  constexpr uint64_t kMask = kPalette - 1;
  for (size_t i = begin; i < end; i += 4) {
    uint64_t bits = splitmix(seed + i);
    size_t n = std::min<size_t>(4, end - i);
    for (size_t j = 0; j < n; ++j) words[i + j] = palette[(bits >> (16 * j)) & kMask];
  }
}

struct Job {
  std::byte* out;
  size_t begin, end, bytes;
  const std::byte* palette;
  uint64_t seed;

  void run() const {
    switch (bytes) {
      case 1: return fill<uint8_t>(out, begin, end, palette, seed);
      case 2: return fill<uint16_t>(out, begin, end, palette, seed);
      case 4: return fill<uint32_t>(out, begin, end, palette, seed);
      default: return fill<uint64_t>(out, begin, end, palette, seed);
    }
  }
};

Result<std::shared_ptr<std::byte>> reserve(uint64_t bytes) {
  uint64_t physical = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  auto memory = bytes < physical ? map_anonymous(bytes) : nullptr;
  if (memory) return memory;
  return Error::io("random weights", "there is no memory for " + std::to_string(bytes >> 20) + " MiB",
                   "use a smaller graph or another machine");
}

}  // namespace

Status bind_random_weights(Graph& graph, const WeightNames& names, uint64_t seed) {
  constexpr size_t kAlign = 64, kChunk = size_t{1} << 20;
  RecipeFinder finder(graph);
  uint64_t total = 0;
  for (const auto& [name, id] : names) {
    const Tensor& tensor = graph.value(id).data;
    if (tensor.bound()) continue;
    uint64_t bytes = static_cast<uint64_t>(tensor.numel()) * dtype_bytes(tensor.dtype);
    if (__builtin_add_overflow(total, (bytes + kAlign - 1) / kAlign * kAlign, &total)) total = UINT64_MAX / 2;
  }
  QCG_TRY(memory, reserve(total));
  std::vector<std::vector<std::byte>> palettes;
  std::vector<Job> jobs;
  std::byte* at = memory.get();
  for (const auto& [name, id] : names) {
    Tensor& tensor = graph.value(id).data;
    if (tensor.bound()) continue;
    size_t count = static_cast<size_t>(tensor.numel()), bytes = dtype_bytes(tensor.dtype);
    palettes.push_back(make_palette(tensor.dtype, finder.find(id)));
    for (size_t begin = 0; begin < count; begin += kChunk) {
      jobs.push_back(
          {at, begin, std::min(count, begin + kChunk), bytes, palettes.back().data(), hash_name(name, seed)});
    }
    tensor.strides = Tensor::row_major_strides(tensor.shape);
    tensor.offset = 0;
    tensor.storage = std::make_shared<const Storage>(Storage{{at, count * bytes}, memory});
    at += (count * bytes + kAlign - 1) / kAlign * kAlign;
  }
  in_parallel(jobs.size(), 2, [&](size_t i) { jobs[i].run(); });
  return {};
}

}  // namespace qcg

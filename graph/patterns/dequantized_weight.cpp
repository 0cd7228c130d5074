#include "graph/patterns/dequantized_weight.h"

#include <algorithm>
#include <cmath>

#include "graph/ir/elements.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

CodeForm bytes_form(DType stored) { return {Scheme::w8, stored == DType::u8 ? 128 : 0}; }

// Schemes of integers, each for its own codes and for those that begin at 0; narrow ones first.
std::vector<CodeForm> integer_forms() {
  std::vector<CodeForm> out;
  for (const SchemeInfo& s : kSchemes)
    if (s.has_scales && !s.quantized_activation && !s.weight.is_float && !s.weight.numbers && !s.weight.values)
      out.insert(out.end(), {{s.scheme, 0}, {s.scheme, -s.weight.low}});
  const auto bits = [](const CodeForm& form) { return scheme_info(form.scheme).weight.bits; };
  std::stable_sort(out.begin(), out.end(), [&](const CodeForm& a, const CodeForm& b) { return bits(a) < bits(b); });
  return out;
}

bool fits(const CodeForm& form, int64_t low, int64_t high) {
  const WeightInfo& weight = scheme_info(form.scheme).weight;
  return low >= weight.low + form.shift && high <= weight.high + form.shift;
}

bool has_range(const Node& dequantize) {
  return as_number(dequantize.arg("quant_min")) && as_number(dequantize.arg("quant_max"));
}

bool fits(const CodeForm& form, const Tensor& codes) {
  const Tensor dense = codes.contiguous();
  const auto bytes = dense.bytes();
  const size_t width = dtype_bytes(codes.dtype);
  for (size_t at = 0; at < bytes.size(); at += width)
    if (const int64_t code = element_to_int(codes.dtype, bytes.data() + at); !fits(form, code, code)) return false;
  return true;
}

CodeForm code_form(const Node& dequantize, const Tensor& data) {
  if (!has_range(dequantize)) return scan_codes(data).value_or(bytes_form(data.dtype));
  const auto form = form_of_range(*as_number(dequantize.arg("quant_min")), *as_number(dequantize.arg("quant_max")));
  if (!form || form->scheme == Scheme::w8) return bytes_form(data.dtype);
  // The op does not clamp: a code outside the promised range means what it says.
  return !data.bound() || fits(*form, data) ? *form : bytes_form(data.dtype);
}

ValueId shift_codes(Graph& graph, ValueId weight, int64_t shift) {
  const Tensor data = graph.value(weight).data;
  if ((data.dtype == DType::i8 || is_float8(data.dtype)) && shift == 0) return weight;
  auto codes = read_elements<int8_t>(data);
  if (codes)
    for (int8_t& code : *codes)
      code = static_cast<int8_t>(static_cast<uint8_t>(code) - static_cast<uint8_t>(shift));  // wraps to the right code
  return add_constant(graph, weight, make_tensor(DType::i8, data.shape, codes));
}

// One number per row and group, from one per block; kNoValue if `id` is no constant of that size.
ValueId per_row_and_group(Graph& graph, ValueId id, const Blocks& b) {
  const ValueId blocks = constant_as_shape(graph, id, {b.n / b.rows, b.groups()});
  if (blocks == kNoValue || b.rows == 1) return blocks;
  Elements<float> out;
  if (const auto numbers = read_elements<float>(graph.value(blocks).data)) {
    out.emplace();
    for (int64_t n = 0; n < b.n; ++n)
      for (int64_t g = 0; g < b.groups(); ++g)
        out->push_back((*numbers)[static_cast<size_t>(n / b.rows * b.groups() + g)]);
  }
  const ValueId repeated = add_constant(graph, blocks, make_tensor(DType::f32, {b.n, b.groups()}, out));
  return is_floating(graph.value(blocks).dtype) ? repeated : cast_parameter(graph, repeated, DType::i32);
}

bool fit_zeros(const Elements<float>& zeros, ZeroRange range) {
  return std::ranges::all_of(
      *zeros, [&](float z) { return static_cast<float>(range.low) <= z && z <= static_cast<float>(range.high); });
}

// stored - zero = code - (zero - shift)
std::optional<std::string> take_zero(Graph& graph, ValueId zero, const Blocks& b, int64_t shift, LinearSpec& spec) {
  const std::vector<int64_t> shape = {b.n, b.groups()};
  if (zero == kNoValue) {
    const Elements<int32_t> shifted(std::in_place, static_cast<size_t>(b.n * b.groups()), static_cast<int32_t>(-shift));
    if (shift != 0) spec.zero = add_constant(graph, spec.weight, make_tensor(DType::i32, shape, shifted));
    return std::nullopt;
  }
  const ValueId zeros = per_row_and_group(graph, zero, b);
  if (zeros == kNoValue) return "the weight's zero points are not a constant of shape [N, K / group]";
  const bool real = is_floating(graph.value(zeros).dtype);
  if (shift == 0 && is_all_zero(graph, zeros)) return std::nullopt;
  auto values = read_elements<float>(graph.value(zeros).data);
  const SchemeInfo& scheme = scheme_info(spec.scheme);
  const bool in_groups = b.groups() > 1 || scheme.weight.bits < 8;
  const ZeroRange range = zero_range(in_groups, scheme.quantized_activation);
  if (shift == 0 && !real && (!values || fit_zeros(values, range))) {
    spec.zero = zeros;
    return std::nullopt;
  }
  bool whole = values ? std::all_of(values->begin(), values->end(),
                                    [](float z) { return std::nearbyint(z) == z && std::abs(z) < 0x1p24f; })
                      : !real;
  if (!whole && !may_have_offsets(scheme)) return "the weight's zero points are not integers";
  if (values)
    for (float& z : *values) z -= static_cast<float>(shift);
  if (whole && values && !fit_zeros(values, range)) {
    if (!may_have_offsets(scheme)) return "the weight's zero points are outside int8";
    whole = false;
  }
  if (whole) {
    if (values && std::all_of(values->begin(), values->end(), [](float z) { return z == 0; })) return std::nullopt;
    Elements<int32_t> integers;
    if (values) integers.emplace(values->begin(), values->end());
    spec.zero = add_constant(graph, zeros, make_tensor(DType::i32, shape, integers));
    return std::nullopt;
  }
  if (const auto scales = read_elements<float>(graph.value(spec.scale).data); values && scales)
    for (size_t i = 0; i < values->size(); ++i) (*values)[i] *= -(*scales)[i];
  spec.offset = add_constant(graph, zeros, make_tensor(DType::f32, shape, values));
  return std::nullopt;
}

}  // namespace

std::optional<CodeForm> form_of_range(double low, double high) {
  if (!(low >= -0x1p31 && high <= 0x1p31)) return std::nullopt;
  for (const CodeForm& form : integer_forms())
    if (fits(form, static_cast<int64_t>(std::floor(low)), static_cast<int64_t>(std::ceil(high)))) return form;
  return std::nullopt;
}

std::optional<CodeForm> scan_codes(const Tensor& codes) {
  if (!codes.bound() || codes.numel() == 0)
    return codes.dtype == DType::i8 || codes.dtype == DType::u8 ? std::optional(bytes_form(codes.dtype)) : std::nullopt;
  for (const CodeForm& form : integer_forms())
    if (scheme_info(form.scheme).weight.bits >= 4 && fits(form, codes)) return form;
  return std::nullopt;
}

std::optional<std::string> take_affine_weight(Graph& graph, ValueId codes, CodeForm form, const Blocks& blocks,
                                              ValueId scale, ValueId zero, LinearSpec& spec) {
  spec.scheme = form.scheme;
  spec.group = blocks.group == blocks.k ? 0 : blocks.group;
  spec.scale = per_row_and_group(graph, scale, blocks);
  if (spec.scale == kNoValue) return "the weight's scales are not a constant of shape [N, K / group]";
  if (!is_floating(graph.value(spec.scale).dtype)) return "the weight's scales are not floating point";
  spec.weight = shift_codes(graph, codes, form.shift);
  return take_zero(graph, zero, blocks, form.shift, spec);
}

bool is_row_block(const Graph& graph, const Node& node) {
  const auto* block = node.arg("block_size").get<std::vector<Dim>>();
  const Shape& shape = graph.value(node.tensor("input")).shape;
  if (!block || block->size() != shape.size() || shape.empty()) return false;
  for (size_t i = 0; i + 1 < block->size(); ++i)
    if (!(*block)[i].is_constant(1)) return false;
  return block->back() == shape.back();
}

std::optional<std::string> take_dequantized_weight(Graph& graph, NodeId dequantize, bool weight_kn, LinearSpec& spec) {
  const Node node = graph.nodes[dequantize];
  const ValueId w = node.tensor("input");
  if (!is_parameter(graph, w)) return "the quantized weight" + how_computed(graph, w);
  const Tensor data = graph.value(w).data;
  if (data.dtype != DType::i8 && data.dtype != DType::u8)
    return "the quantized weight is stored as " + std::string(dtype_name(data.dtype)) + ", not int8";
  if (weight_kn || data.shape.size() != 2) return "the quantized weight is not an [N, K] matrix";
  const auto* block = node.arg("block_size").get<std::vector<Dim>>();
  if (!block || block->size() != 2 || !(*block)[0].is_constant() || !(*block)[1].is_constant())
    return "the weight's scales are not per output channel or per group along K";
  const Blocks b = {data.shape[0], data.shape[1], (*block)[0].constant(), (*block)[1].constant()};
  // Groups of one are scales of the activation, not of the weight.
  if (b.group == 1 && b.k > 1) return "the weight's scales are not per output channel or per group along K";
  if (b.group < 1 || b.k % b.group != 0) return "the group " + std::to_string(b.group) + " does not divide K";
  if (b.rows < 1 || b.n % b.rows != 0) return "the block of " + std::to_string(b.rows) + " rows does not divide N";
  const CodeForm form = code_form(node, data);
  if (form.scheme == Scheme::w4 && !has_range(node)) spec.note = kScannedNote;
  return take_affine_weight(graph, w, form, b, node.tensor("scale"), node.tensor("zero_point"), spec);
}

Pattern dequantized_weight() {
  return maybe_cast(op({"torchao.dequantize_affine.default", "qcg.dequantize_4bit"}, {}, "w_dequantized"));
}

std::optional<std::string> take_weight(Graph& graph, ValueId w, bool weight_kn, LinearSpec& spec) {
  const Node* node = producer_of(graph, w);
  while (node && is_op(*node, "aten.to.dtype") && keeps_numbers(graph, *node)) {
    w = node->tensor("self");
    node = producer_of(graph, w);
  }
  if (!node) return "";
  if (is_op(*node, "qcg.dequantize_4bit")) return take_four_bit_weight(graph, Node(*node), weight_kn, spec);
  if (is_op(*node, "torchao.dequantize_affine.default"))
    return take_dequantized_weight(graph, graph.value(w).producer, weight_kn, spec);
  return take_arithmetic_weight(graph, w, weight_kn, spec);
}

std::optional<std::string> take_integer_weight(Graph& graph, ValueId w, bool weight_kn, LinearSpec& spec) {
  if (auto missing = take_weight(graph, w, weight_kn, spec)) return missing;
  if (spec.offset != kNoValue) return "the weight's zero points are not integers";
  const SchemeInfo& scheme = scheme_info(spec.scheme);
  if (!scheme.under_int8)
    return std::string(scheme.name) + " numbers are not integers: there is no int8 product with them";
  if (spec.zero != kNoValue) {
    const auto zeros = read_elements<float>(graph.value(spec.zero).data);
    if (zeros && !fit_zeros(zeros, zero_range(spec.group > 0, true)))
      return "the weight's zero points are outside int8";
  }
  spec.scheme = *scheme.under_int8;
  return std::nullopt;
}

}  // namespace qcg

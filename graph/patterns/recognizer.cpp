#include "graph/patterns/recognizer.h"

#include <algorithm>

#include "graph/rewrite/parameter_views.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

std::span<const Recognizer> recognizers() {
  static const Recognizer kAll[] = {
      kScaledProduct,          kDynamicDequantized,
      kStaticDequantized,      kDynamicIntMm,
      kDynamicIntMmWithZeros,  kDa8w4Linear,
      kWeightOnlyMmScale,      kWeightOnlyInt8Pack,
      kWeightOnlyInt4Pack,     kWeightOnlyDequantized,
      kWeightOnlyScaledWeight, kWeightOnlyArithmetic,
      kShiftedIntMm,           kIntMm,
      kWeightOnlyUnscaled,     kDenseLinear,
  };
  return kAll;
}

ValueId constant_of(Graph& graph, ValueId id) {
  if (id == kNoValue || is_parameter(graph, id)) return id;
  const Node* node = producer_if(graph, id, "aten.to.dtype");
  if (!node || !is_parameter(graph, node->tensor("self"))) return kNoValue;
  const ValueId parameter = node->tensor("self");
  return cast_parameter(graph, parameter, graph.value(id).dtype);
}

std::string how_computed(const Graph& graph, ValueId id) {
  std::vector<ValueId> values = {id};
  std::vector<bool> seen(graph.values.size(), false);
  for (size_t i = 0; i < values.size(); ++i) {
    if (graph.value(values[i]).kind == ValueKind::input) return " is computed at run time";
    const Node* node = producer_of(graph, values[i]);
    if (!node) continue;
    for_each_input(*node, [&](ValueId input) {
      if (!seen[input]) values.push_back(input);
      seen[input] = true;
    });
  }
  return " is computed from constants, but matches no scheme";
}

ValueId weight_matrix(Graph& graph, ValueId weight, bool weight_kn) {
  if (!is_parameter(graph, weight)) return kNoValue;
  Tensor view = graph.value(weight).data;
  if (view.shape.size() == 3 && (view.shape[0] == 1 || view.strides[0] == 0) && view.shape[0] > 0)
    view = view.select(0, 0);
  if (view.shape.size() == 1) {
    view.shape.insert(view.shape.begin(), 1);
    view.strides.insert(view.strides.begin(), view.shape[1]);
  }
  if (view.shape.size() != 2) return kNoValue;
  if (weight_kn) view = view.transpose(0, 1);
  return add_parameter_view(graph, weight, std::move(view));
}

ValueId constant_as_shape(Graph& graph, ValueId id, std::vector<int64_t> shape) {
  const ValueId constant = constant_of(graph, id);
  if (constant == kNoValue) return kNoValue;
  const Tensor& tensor = graph.value(constant).data;
  if (tensor.shape == shape) return constant;
  // [1, N] and [N] are the same list of N scales; [N, G] against [G, N] is not.
  std::vector<int64_t> have, want;
  std::copy_if(tensor.shape.begin(), tensor.shape.end(), std::back_inserter(have), [](int64_t n) { return n != 1; });
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(want), [](int64_t n) { return n != 1; });
  if (have != want) return kNoValue;
  auto view = view_as_shape(tensor, shape);
  return view ? add_parameter_view(graph, constant, std::move(*view)) : kNoValue;
}

ValueId add_constant(Graph& graph, ValueId like, Tensor data) {
  std::string name = graph.unique_name(graph.value(like).name + "." + std::string(dtype_name(data.dtype)));
  return graph.add_parameter(std::move(name), std::move(data));
}

void give_offset_dtype_of_scale(Graph& graph, LinearSpec& spec) {
  if (spec.offset == kNoValue || graph.value(spec.offset).dtype == graph.value(spec.scale).dtype) return;
  spec.scale = cast_parameter(graph, spec.scale, DType::f32);
  spec.offset = cast_parameter(graph, spec.offset, DType::f32);
}

bool is_all_zero(const Graph& graph, ValueId id) {
  const Tensor& tensor = graph.value(id).data;
  if (!tensor.bound()) return false;
  const Tensor dense = tensor.contiguous();
  const auto bytes = dense.bytes();
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::optional<Scheme> stored_scheme(DType dtype) {
  if (dtype == DType::i8) return Scheme::w8;
  if (dtype == DType::f8e4m3 || dtype == DType::f8e5m2) return Scheme::f8;
  return std::nullopt;
}

ValueId channel_numbers(Graph& graph, ValueId id, int64_t n) {
  const ValueId constant = constant_of(graph, id);
  if (constant == kNoValue) return kNoValue;
  if (graph.value(constant).data.numel() != 1) return constant_as_shape(graph, constant, {n, 1});
  Tensor view = graph.value(constant).data;
  view.shape = {n, 1};
  view.strides = {0, 0};
  return add_parameter_view(graph, constant, std::move(view));
}

namespace {

// Does a cast to `dtype` keep what was chosen? qcg.quantize_rows gives scales in f32, but they were rounded to the
// dtype of x or to scale_dtype; its zero points are codes, which any dtype holds that is as wide.
bool keeps_chosen(const Graph& graph, ValueId chosen, DType dtype) {
  if (graph.value(chosen).dtype == dtype) return true;
  const Node* quantize = producer_if(graph, chosen, "qcg.quantize_rows");
  if (!quantize) return false;
  if (quantize->outputs[1] == chosen) {
    const bool by_torchao = !quantize->arg("mapping").get<std::string>()->starts_with("PER_TOKEN");
    return widens(DType::f32, dtype) || *quantize->arg("scale_dtype").get<DType>() == dtype ||
           (by_torchao && graph.value(quantize->tensor("x")).dtype == dtype);
  }
  const DType codes = graph.value(quantize->outputs[0]).dtype;
  return quantize->outputs[2] == chosen && keeps_numbers(codes, dtype);
}

}  // namespace

ValueId under_rows(const Graph& graph, ValueId id) {
  while (true) {
    const Node* node = producer_of(graph, id);
    if (!node) return id;
    if (is_op(*node, "aten.to.dtype")) {
      const ValueId source = node->tensor("self");
      const DType from = graph.value(source).dtype, to = graph.value(id).dtype;
      if (is_floating(to) || !widens(from, to)) {
        const ValueId chosen = under_rows(graph, source);
        return keeps_chosen(graph, chosen, to) ? chosen : id;
      }
    } else if (!is_row_view(graph, *node) && !is_op(*node, "aten.reshape.default")) {
      return id;  // a scale per row may be [M], [M, 1] or [B, S, 1]: any reshape of it is the same list of rows
    }
    id = node->tensor("self");
  }
}

bool is_per_row(const Graph& graph, ValueId operand, const Shape& result) {
  Shape rows = result, shape = graph.value(operand).shape;
  rows.back() = Dim(1);
  while (shape.size() < rows.size()) shape.insert(shape.begin(), Dim(1));
  return shape == rows || product(shape).is_constant(1);
}

bool is_per_column(const Graph& graph, ValueId operand, const Shape& result) {
  const Shape& shape = graph.value(operand).shape;
  return product(shape).is_constant(1) || (shape.back() == result.back() && product(shape) == shape.back());
}

std::optional<std::string> add_gemm_bias(Graph& graph, const Gemm& gemm, LinearSpec& spec) {
  const int64_t n = graph.value(spec.weight).data.shape[0];
  if (gemm.alpha != 1) spec.epilogue = Expr::call("mul", {Expr::number(gemm.alpha), std::move(spec.epilogue)});
  if (gemm.bias == kNoValue) return std::nullopt;
  const Shape shape = graph.value(gemm.bias).shape;
  // [N] and [1, N] are one number per column; [N, 1] would be one per row.
  const bool per_column = !shape.empty() && shape.back().is_constant(n);
  const ValueId bias = per_column ? constant_as_shape(graph, gemm.bias, {n}) : kNoValue;
  if (bias != kNoValue && spec.epilogue == Expr::acc(0) && gemm.beta == 1) {
    spec.bias = bias;
    return std::nullopt;
  }
  if (!shape.empty() && !shape.back().is_constant(n) && !shape.back().is_constant(1))
    return "a bias of shape " + to_string(shape) + " does not fit N = " + std::to_string(n);
  Expr scaled = spec.add_operand(gemm.bias);
  if (gemm.beta != 1) scaled = Expr::call("mul", {Expr::number(gemm.beta), std::move(scaled)});
  spec.epilogue = Expr::call("add", {std::move(spec.epilogue), std::move(scaled)});
  return std::nullopt;
}

bool take_quantized_rows(const Graph& graph, ValueId x, LinearSpec& spec) {
  const ValueId q = under_rows(graph, x);
  const Node* node = producer_if(graph, q, "qcg.quantize_rows");
  if (!node || node->outputs[0] != q) return false;
  if (!(graph.value(q).shape.back() == graph.value(x).shape.back())) return false;  // rows were cut or joined
  spec.x = q;
  spec.x_scale = node->outputs[1];
  spec.x_zero = node->outputs[2];
  auto low = as_integer(node->arg("quant_min")), high = as_integer(node->arg("quant_max"));
  const std::string* mapping = node->arg("mapping").get<std::string>();
  // torchao: the zero point of a symmetric mapping is int((max + min + 1) / 2).
  const bool centred = mapping && *mapping == "SYMMETRIC" && low && high && (*low + *high + 1) / 2 == 0;
  if (centred || (mapping && *mapping == "PER_TOKEN")) spec.x_zero = kNoValue;
  return true;
}

}  // namespace qcg

#include "codegen/quantize_rows/quantize_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/reach_of.h"
#include "graph/ir/graph.h"
#include "graph/oracle/reference.h"
#include "graph/read/text.h"

namespace qcg {

namespace {

using V = TemplateValue;

constexpr std::string_view kMappings[] = {"SYMMETRIC", "ASYMMETRIC", "PER_TOKEN",
                                          "PER_TOKEN_ASYMMETRIC"};  // by RowMapping

struct RowRule {
  bool asymmetric;  // the row has a zero point
  DType steps;      // what the steps to scale and zero point are rounded to
  double divisor;
  double symmetric_zero;
};

RowRule rule_of(const QuantizeRowsProblem& p) {
  const double range = static_cast<double>(p.quant_max - p.quant_min);
  switch (p.mapping) {
    case RowMapping::symmetric:
      return {false, p.input, range / 2, static_cast<double>((p.quant_max + p.quant_min + 1) / 2)};
    case RowMapping::asymmetric: return {true, p.input, range, 0};
    case RowMapping::per_token: return {false, p.scale, 127, 0};
    case RowMapping::per_token_asymmetric: return {true, p.input, 255, 0};
  }
  return {};
}

Status check_rows(const QuantizeRowsProblem& p) {
  QCG_CHECK(need_float("quantize_rows", p.input));
  if (p.output != DType::i8 && p.output != DType::u8)
    return Error::unsupported("quantize_rows", fmt::format("rows cannot be quantized to {}", dtype_name(p.output)),
                              "quantize activations to int8 or uint8");
  const bool f64 = p.mapping == RowMapping::per_token_asymmetric;
  if (f64 ? p.scale != DType::f64 : p.scale != DType::f32 && p.scale != p.input)
    return Error::internal("quantize_rows", "a scale of a dtype that this mapping does not have");
  return {};
}

}  // namespace

std::optional<RowMapping> row_mapping_from_name(std::string_view name) {
  const auto* at = std::find(std::begin(kMappings), std::end(kMappings), name);
  return at == std::end(kMappings) ? std::nullopt : std::optional(static_cast<RowMapping>(at - kMappings));
}

std::string QuantizeRowsProblem::signature() const {
  return fmt::format("quantize_rows in={} k={} {} [{}, {}] eps={} scale={} out={} zero={}", dtype_name(input), k,
                     kMappings[static_cast<size_t>(mapping)], quant_min, quant_max, eps, dtype_name(scale),
                     dtype_name(output), writes_zero);
}

Result<std::string> render_quantize_rows(const QuantizeRowsProblem& p, Isa isa, std::string_view symbol) {
  QCG_CHECK(check_rows(p));
  const RowRule rule = rule_of(p);
  V v = kernel_context(symbol, isa, "row quantization", p.signature(), p.comment);
  v["scale"] = typed(p.scale);
  v["steps"] = typed(rule.steps);
  v["x"] = typed(p.input);
  v["q"] = typed(p.output);
  v["k"] = p.k;
  v["mapping"] = kMappings[static_cast<size_t>(p.mapping)];
  v["symmetric"] = !rule.asymmetric;
  v["in_f64"] = p.scale == DType::f64;
  v["writes_zero"] = p.writes_zero;
  v["quant_min"] = float_literal(static_cast<double>(p.quant_min));
  v["quant_max"] = float_literal(static_cast<double>(p.quant_max));
  v["divisor"] = float_literal(rule.divisor);
  v["symmetric_zero"] = float_literal(rule.symmetric_zero);
  const double smallest_normal =
      p.input == DType::f16 ? 0x1p-14 : static_cast<double>(std::numeric_limits<float>::min());
  v["eps"] = float_literal(p.eps > 0 ? p.eps : smallest_normal);
  v["rows_per_item"] = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, p.k));
  if (on_device(isa)) {
    const CudaLaunch launch = quantize_rows_launch(p);
    v["rows"] = launch.rows;
    add_device_context(v, p.writes_zero ? 4 : 3, 1, launch.threads / launch.rows);
  }
  return render_kernel("quantize_rows", isa, v);
}

// A block has one row, or a warp where rows are short.
CudaLaunch quantize_rows_launch(const QuantizeRowsProblem& p) {
  constexpr int kThreads = 256, kWarps = kThreads / 32, kShort = 512;
  return {.threads = kThreads, .rows = p.k <= kShort ? kWarps : 1, .column_tiles = 1};
}

namespace {

std::string formula_of(const KernelProblem& any) {
  const auto& p = any.get<QuantizeRowsProblem>();
  return fmt::format("{} rows of {} to {} [{}, {}]", dtype_name(p.input), p.k, dtype_name(p.output), p.quant_min,
                     p.quant_max);
}

std::vector<Reach> reaches_of(const KernelProblem& any, size_t args, int64_t) {
  const auto& p = any.get<QuantizeRowsProblem>();
  std::vector<Reach> out = {reach_rows(bytes_of(p.input), p.k), reach_rows(bytes_of(p.output), p.k)};
  while (out.size() < args) out.push_back(reach_per_row(4));  // scale and zero point
  for (size_t i = 1; i < out.size(); ++i) out[i].writes = true;
  return out;
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t args) {
  const auto& p = any.get<QuantizeRowsProblem>();
  std::vector<ArgumentKind> out = {{p.input, -3, 5}, {p.output}, {DType::f32}};
  if (args > out.size()) out.push_back({DType::i32});
  return out;
}

double operations_of(const KernelProblem& any, const CallSizes& sizes) {
  constexpr double kPerElement = 6;  // extremes, product, rounding, zero point, clamp
  return kPerElement * static_cast<double>(sizes.params[0]) * static_cast<double>(any.get<QuantizeRowsProblem>().k);
}

// The operation as a graph of its own: what it means is said by the graph's oracle.
Result<std::vector<Tensor>> quantize_by_oracle(const QuantizeRowsProblem& p, const CallMemory& call,
                                               const std::vector<int64_t>& rows) {
  const std::string text = fmt::format(
      "graph(%x: {0}[{1}, {2}]) {{\n"
      "  %q, %s, %z = qcg.quantize_rows(%x, mapping = \"{3}\", quant_min = {4}, quant_max = {5}{6}, scale_dtype = {7})"
      " : {8}[{1}, {2}], f32[{1}, 1], i32[{1}, 1]\n  return %q, %s, %z\n}}\n",
      dtype_name(p.input), rows.size(), p.k, kMappings[static_cast<size_t>(p.mapping)], p.quant_min, p.quant_max,
      p.eps > 0 ? fmt::format(", eps = {}", p.eps) : "", dtype_name(p.scale), dtype_name(p.output));
  QCG_TRY(graph, parse_graph(text));
  const size_t size = dtype_bytes(p.input);
  std::vector<std::byte> x(rows.size() * static_cast<size_t>(p.k) * size);
  for (size_t r = 0; r < rows.size(); ++r)
    for (int64_t k = 0; k < p.k; ++k)
      double_to_element(p.input, call.number(0, call.offset_of(0, std::array{rows[r], k})),
                        x.data() + (r * static_cast<size_t>(p.k) + static_cast<size_t>(k)) * size);
  return evaluate_graph(graph, {Tensor::from_bytes(p.input, {std::ssize(rows), p.k}, std::move(x))});
}

// To the bit: another step of a scale would be other codes.
Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  std::map<int64_t, int64_t> place;  // of a row among those evaluated
  for (size_t o = 0; o < points.size(); ++o)
    for (const int64_t point : points[o]) place[call.index_of(1 + o, point)[0]] = 0;
  std::vector<int64_t> rows;
  for (auto& [row, at] : place) at = std::ssize(rows), rows.push_back(row);
  std::vector<std::vector<Expected>> out(points.size());
  if (rows.empty()) return out;
  QCG_TRY(wanted, quantize_by_oracle(any.get<QuantizeRowsProblem>(), call, rows));
  for (size_t o = 0; o < points.size(); ++o)
    for (const int64_t point : points[o]) {
      const std::vector<int64_t> index = call.index_of(1 + o, point);
      const int64_t at[2] = {place[index[0]], o == 0 ? index[1] : 0};
      out[o].push_back({element_to_double(wanted[o].dtype, wanted[o].element(at)), 0});
    }
  return out;
}

}  // namespace

const KernelFamily kQuantizeRowsFamily{
    .name = "quantize_rows",
    .signature = signature_of<QuantizeRowsProblem>,
    .formula = formula_of,
    .comment = comment_of<QuantizeRowsProblem>,
    .reaches = reaches_of,
    .render = render_of<QuantizeRowsProblem, render_quantize_rows>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .launch = launch_of<QuantizeRowsProblem, quantize_rows_launch>,
};

}  // namespace qcg

// The renderers of the kernels that are not GEMMs. Every number and name is computed here; templates/cpu prints them.
#include "codegen/loops/loops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/render_template.h"

namespace qcg {
namespace {

using V = TemplateValue;

// The dtypes the ISA headers load and store as f32 lanes.
bool has_lanes(DType d) {
  switch (d) {
    case DType::f32: case DType::bf16: case DType::f16: case DType::f64:
    case DType::i8: case DType::u8: case DType::i32: case DType::i64: case DType::boolean:
    case DType::f8e4m3: case DType::f8e5m2: return true;
    default: return false;
  }
}

Status need_lanes(std::string_view kernel, DType d) {
  if (has_lanes(d)) return {};
  return Error::unsupported(std::string(kernel), fmt::format("{} cannot compute with {}", kernel, dtype_name(d)),
                            "cast to f32, bf16 or f16 before it");
}

Status need_float(std::string_view kernel, DType d) {
  if (is_compute_float(d)) return {};
  return Error::unsupported(std::string(kernel), fmt::format("{} of {} is not supported", kernel, dtype_name(d)),
                            "cast to f32, bf16 or f16 before it");
}

// `value != 0` is what a bool stores.
std::string_view stored_as(DType d) { return d == DType::boolean ? "u8" : dtype_name(d); }

V kernel_context(std::string_view symbol, Isa isa, std::string_view what, std::string_view signature,
                 std::string_view comment) {
  V v;
  v["symbol"] = symbol;
  v["isa"] = isa_info(isa).name;
  v["header"] = isa_info(isa).header;
  v["what"] = what;
  v["signature"] = sanitize_comment(signature);
  v["comment"] = comment_lines(comment);
  return v;
}

V typed(DType d) {
  V v;
  v["type"] = dtype_info(d).cpp;
  v["dtype"] = dtype_name(d);
  return v;
}

std::string list_dtypes(const std::vector<DType>& dtypes) {
  std::vector<std::string_view> names;
  for (const DType d : dtypes) names.push_back(dtype_name(d));
  return fmt::format("[{}]", fmt::join(names, ", "));
}

// An output that is an operand unchanged is moved as bytes: exact for integers beyond 2^24, any dtype.
bool is_move(const LoopProblem& p, size_t output) {
  const Expr& e = p.exprs[output];
  return e.kind == ExprKind::in && p.operands[static_cast<size_t>(e.index)] == p.outputs[output];
}

// u64 alone does not fit the 64 bits that loops over integers compute in.
Status need_integer(DType d) {
  if (!is_floating(d) && d != DType::u64) return {};
  return Error::unsupported("loop", fmt::format("a loop over integers cannot compute with {}", dtype_name(d)),
                            "cast to i64 before it");
}

Status check_casts(const Expr& e) {
  if (e.kind == ExprKind::cast) QCG_CHECK(need_lanes("loop", e.dtype));
  for (const Expr& arg : e.args) QCG_CHECK(check_casts(arg));
  return {};
}

Status check_loop(const LoopProblem& p) {
  const bool consistent = p.rank >= 1 && !p.outputs.empty() && p.exprs.size() == p.outputs.size() &&
                          p.operand_inner_stride.size() == p.operands.size();
  if (!consistent) return Error::internal("loop", "a LoopProblem whose lists differ in length");
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    if (is_move(p, i)) continue;
    if (p.integers) {
      QCG_CHECK(need_integer(p.outputs[i]));
      for (DType d : p.operands) QCG_CHECK(need_integer(d));
      continue;
    }
    QCG_CHECK(need_lanes("loop", p.outputs[i]));
    QCG_CHECK(check_casts(p.exprs[i]));
    for (int j : p.exprs[i].leaves(ExprKind::in))
      if (const DType d = p.operands[static_cast<size_t>(j)]; d != DType::f8e8m0)  // loads only
        QCG_CHECK(need_lanes("loop", d));
  }
  return {};
}

std::string_view bytes_type(DType d) {
  switch (dtype_bytes(d)) {
    case 1: return "uint8_t";
    case 2: return "uint16_t";
    case 4: return "uint32_t";
    default: return "uint64_t";
  }
}

}  // namespace

std::string LoopProblem::signature() const {
  return fmt::format("loop{} rank={} in={} inner={} out={} expr=[{}]", integers ? " integers" : "", rank,
                     list_dtypes(operands), operand_inner_stride, list_dtypes(outputs), formula());
}

std::string LoopProblem::formula() const {
  std::vector<std::string> texts;
  for (const Expr& e : exprs) texts.push_back(e.str());
  return fmt::format("{}", fmt::join(texts, "; "));
}

namespace {

// Functions in the order they are computed in; casts, which are everywhere, only if `casts`.
void collect_functions(const Expr& e, bool casts, std::vector<std::string>& out) {
  for (const Expr& arg : e.args) collect_functions(arg, casts, out);
  std::string name;
  if (e.kind == ExprKind::call) name = e.function;
  if (e.kind == ExprKind::cast && casts) name = "to_" + std::string(dtype_name(e.dtype));
  if (!name.empty() && (out.empty() || out.back() != name)) out.push_back(std::move(name));
}

}  // namespace

std::string LoopProblem::label() const {
  constexpr size_t kMost = 5;
  std::vector<std::string> functions;
  for (bool casts : {false, true})
    for (size_t i = 0; i < exprs.size() && (!casts || functions.empty()); ++i)
      collect_functions(exprs[i], casts, functions);
  if (functions.empty()) {
    const bool same = exprs.size() == 1 && !operands.empty() && !outputs.empty() && operands[0] == outputs[0];
    return same || outputs.empty() ? "copy" : "to_" + std::string(dtype_name(outputs[0]));
  }
  if (functions.size() > kMost) functions = {functions[0], functions[1], "…", *(functions.end() - 2), functions.back()};
  return fmt::format("{}", fmt::join(functions, "·"));
}

Result<std::string> render_loop(const LoopProblem& p, Isa isa, std::string_view symbol) {
  QCG_CHECK(check_loop(p));
  V v = kernel_context(symbol, isa, "pointwise loop", p.signature(), p.comment);
  v["rank"] = p.rank;
  v["integers"] = p.integers;
  std::vector<bool> used(p.operands.size());
  std::vector<std::string> names;
  std::vector<V> operands, outputs, moves;
  for (size_t i = 0; i < p.outputs.size(); ++i)
    if (!is_move(p, i))
      for (int operand : p.exprs[i].leaves(ExprKind::in)) used[static_cast<size_t>(operand)] = true;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    names.push_back(fmt::format("in{}", i));
    if (!used[i]) continue;
    V o = typed(p.operands[i]);
    o["index"] = i;
    o["inner"] = p.operand_inner_stride[i];
    o["strides"] = p.rank * static_cast<int>(i + 1);
    operands.push_back(o);
  }
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    V o = typed(p.outputs[i]);
    o["arg"] = p.operands.size() + i;
    o["strides"] = p.rank * static_cast<int>(p.operands.size() + i + 1);
    if (is_move(p, i)) {
      o["type"] = bytes_type(p.outputs[i]);
      o["from"] = p.exprs[i].index;
      o["from_strides"] = p.rank * (p.exprs[i].index + 1);
      moves.push_back(o);
      continue;
    }
    o["store"] = stored_as(p.outputs[i]);
    const std::string code = p.integers ? print_expr_integers(p.exprs[i], names) : print_expr(p.exprs[i], {}, names);
    const std::string_view to_bool = p.integers ? "i_cast_bool(" : "v_cast_bool(";
    o["code"] = p.outputs[i] == DType::boolean ? std::string(to_bool) + code + ")" : code;
    outputs.push_back(o);
  }
  v["operands"] = V::from_items(std::move(operands));
  v["outputs"] = V::from_items(std::move(outputs));
  v["moves"] = V::from_items(std::move(moves));
  return render_template("cpu/loop.cpp.j2", v);
}

namespace {

constexpr std::string_view kMappings[] = {"SYMMETRIC", "ASYMMETRIC", "PER_TOKEN",
                                          "PER_TOKEN_ASYMMETRIC"};  // by RowMapping

struct RowRule {
  bool asymmetric;      // the row has a zero point
  DType steps;          // what the steps to scale and zero point are rounded to
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
  return render_template("cpu/quantize_rows.cpp.j2", v);
}

std::string ReduceProblem::signature() const {
  return fmt::format("reduce {} in={} out={}", op, dtype_name(input), dtype_name(output));
}

Result<std::string> render_reduce(const ReduceProblem& p, Isa isa, std::string_view symbol) {
  QCG_CHECK(need_lanes("reduction", p.input));
  QCG_CHECK(need_lanes("reduction", p.output));
  const bool sum = p.op == "sum" || p.op == "mean";
  if (!sum && p.op != "amax" && p.op != "amin")
    return Error::unsupported("reduction", fmt::format("reduction '{}' is not known", p.op),
                              "use sum, mean, amax or amin");
  V v = kernel_context(symbol, isa, "reduction", p.signature(), p.comment);
  v["x"] = typed(p.input);
  v["y"] = typed(p.output);
  v["store"] = stored_as(p.output);
  v["op"] = p.op;
  v["combine"] = sum ? "v_add" : p.op == "amax" ? "v_max" : "v_min";
  v["across"] = sum ? "v_hadd" : p.op == "amax" ? "v_hmax" : "v_hmin";
  v["identity"] = float_literal(sum ? 0 : p.op == "amax" ? -INFINITY : INFINITY);
  v["integers"] = !is_floating(p.input) && !is_floating(p.output) && p.op != "mean";
  return render_template("cpu/reduce.cpp.j2", v);
}

std::string MatmulProblem::signature() const {
  return fmt::format("matmul x={} w={} out={}", dtype_name(input), dtype_name(weight), dtype_name(output));
}

Result<std::string> render_matmul(const MatmulProblem& p, Isa isa, std::string_view symbol) {
  for (const DType d : {p.input, p.weight, p.output}) QCG_CHECK(need_float("matmul of activations", d));
  V v = kernel_context(symbol, isa, "batched matmul of two activations", p.signature(), p.comment);
  v["x"] = typed(p.input);
  v["w"] = typed(p.weight);
  v["y"] = typed(p.output);
  // Accumulators fill the registers: 16 zmm, 8 of 16 ymm, 8 of 16 xmm (a portable vector is two).
  const int bytes = isa_info(isa).vector_bytes;
  v["mr"] = bytes == 64 ? 8 : 4;
  v["nv"] = isa == Isa::portable ? 1 : 2;
  v["rows_per_item"] = 64;
  return render_template("cpu/matmul.cpp.j2", v);
}

}  // namespace qcg

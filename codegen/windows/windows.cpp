#include "codegen/windows/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/kernel_context.h"
#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/reach_of.h"
#include "codegen/loops/expect_expr.h"

namespace qcg {

std::string WindowProblem::signature() const {
  const auto pair = [](const Pair& p) { return fmt::format("{}x{}", p[0], p[1]); };
  std::string out = fmt::format("windows {} kernel={} stride={} dilation={} before={} in={}{} out={}{}", op,
                                pair(kernel), pair(stride), pair(dilation), pair(before), dtype_name(input),
                                has_weight() ? fmt::format(" w={}", dtype_name(weight)) : "", dtype_name(output),
                                is_grouped() ? fmt::format(" groups of {} to {}", inputs, outputs) : "");
  if (!epilogue) return out;
  for (size_t i = 0; i < operands.size(); ++i)
    out += fmt::format(" in{}={}{}", i, dtype_name(operands[i]), operand_inner_stride[i] == 0 ? " repeated" : "");
  return out + fmt::format(" epilogue={}", epilogue->str());
}

namespace {

enum Param : size_t {
  batch,
  height,
  width,
  channels,
  places_h,
  places_w,
  x_strides,
  y_strides = x_strides + 4,
  x_channels = y_strides + 3,
  operand_strides,
};

}  // namespace

Result<std::string> render_windows(const WindowProblem& p, Isa isa, std::string_view symbol) {
  for (const DType d : {p.input, p.weight, p.output}) QCG_CHECK(need_float("windows", d));
  for (const DType d : p.operands) QCG_CHECK(need_float("windows", d));
  TemplateValue v = kernel_context(symbol, isa, "windows over two axes", p.signature(), p.comment);
  v["x"] = typed(p.input);
  v["w"] = typed(p.weight);
  v["y"] = typed(p.output);
  v["store"] = stored_as(p.output);
  v["op"] = p.op;
  v["last"] = p.result();
  std::vector<TemplateValue> operands;
  std::vector<std::string> names;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    TemplateValue o = typed(p.operands[i]);
    o["index"] = i;
    o["inner"] = p.operand_inner_stride[i];
    o["arg"] = p.first_operand() + i;
    o["strides"] = operand_strides + 3 * i;
    operands.push_back(std::move(o));
    names.push_back(fmt::format("in{}", i));
  }
  v["operands"] = TemplateValue::from_items(std::move(operands));
  const Expr epilogue = p.epilogue.value_or(Expr::acc(0));
  v["code"] = on_device(isa) ? print_expr_cuda(epilogue, {"total"}, names) : print_expr(epilogue, {"acc0"}, names);
  const double identity = p.op == "max" ? -INFINITY : 0;
  v["identity"] = on_device(isa) ? print_expr_cuda(Expr::number(identity), {}, {}) : float_literal(identity);
  const std::pair<const char*, const WindowProblem::Pair*> pairs[] = {
      {"kernel", &p.kernel}, {"stride", &p.stride}, {"dilation", &p.dilation}, {"before", &p.before}};
  for (const auto& [name, pair] : pairs) {
    v[std::string(name) + "_h"] = (*pair)[0];
    v[std::string(name) + "_w"] = (*pair)[1];
  }
  v["inputs"] = p.inputs, v["outputs"] = p.outputs;
  if (on_device(isa)) {
    add_device_context(v, p.result() + 1, operand_strides + 3 * p.operands.size(), windows_launch(p).threads);
  } else {
    v["grouped"] = p.is_grouped();
    v["repeats"] = std::ranges::count(p.operand_inner_stride, 0) > 0;
    v["together"] = p.is_grouped() ? 8 : 4;
  }
  return render_kernel("windows", isa, v);
}

// A thread has one channel of one place.
CudaLaunch windows_launch(const WindowProblem&) {
  constexpr int kThreads = 256;
  return {.threads = kThreads, .rows = kThreads, .column_tiles = 1, .axes = {{0, 1}, {4, 1}, {5, 1}, {3, 1}}};
}

namespace {

std::string formula_of(const KernelProblem& any) {
  const auto& p = any.get<WindowProblem>();
  const std::string sum =
      fmt::format("{} of {}x{}({})", p.op, p.kernel[0], p.kernel[1], p.has_weight() ? "x, weight" : "x");
  return p.epilogue ? fmt::format("{} of acc0 = {}", p.epilogue->str(), sum) : sum;
}

std::vector<Reach> reaches_of(const KernelProblem& any, size_t, int64_t) {
  const auto& p = any.get<WindowProblem>();
  const auto image = [](DType dtype, Param h, Param w, Param c, size_t strides, Reach::Number inner, bool writes) {
    return Reach{bytes_of(dtype),
                 {{reach_param(batch), reach_param(strides)},
                  {reach_param(h), reach_param(strides + 1)},
                  {reach_param(w), reach_param(strides + 2)},
                  {reach_param(c), inner}},
                 writes};
  };
  std::vector<Reach> out = {image(p.input, height, width, x_channels, x_strides, reach_param(x_strides + 3), false)};
  if (p.has_weight())
    out.push_back({bytes_of(p.weight), {{reach_constant(p.terms()), {}}, {reach_param(channels), {}}}, false});
  for (size_t i = 0; i < p.operands.size(); ++i)
    out.push_back(image(p.operands[i], places_h, places_w, channels, operand_strides + 3 * i,
                        reach_constant(p.operand_inner_stride[i]), false));
  out.push_back(image(p.output, places_h, places_w, channels, y_strides, reach_constant(1), true));
  return out;
}

std::vector<ArgumentKind> arguments_of(const KernelProblem& any, size_t) {
  const auto& p = any.get<WindowProblem>();
  std::vector<ArgumentKind> out = {{p.input}};
  if (p.has_weight()) out.push_back({p.weight, -1, 1});
  for (const DType d : p.operands) out.push_back({d});
  out.push_back({p.output});
  return out;
}

double operations_of(const KernelProblem& any, const CallSizes& sizes) {
  const auto& p = any.get<WindowProblem>();
  double elements = static_cast<double>(p.terms()) * (p.has_weight() ? 2 : 1);
  if (p.epilogue) elements += p.epilogue->count_nodes();
  for (const Param param : {batch, channels, places_h, places_w}) elements *= static_cast<double>(sizes.params[param]);
  return elements;
}

// In f64, off by what f32 rounds in a sum of as many taps; maxima are exact.
Expected slide_exactly(const WindowProblem& p, const CallMemory& call, const std::vector<int64_t>& at) {
  double sum = 0, magnitude = 0, most = -INFINITY;
  for (int64_t i = 0; i < p.kernel[0]; ++i)
    for (int64_t j = 0; j < p.kernel[1]; ++j) {
      const int64_t h = at[1] * p.stride[0] - p.before[0] + i * p.dilation[0];
      const int64_t w = at[2] * p.stride[1] - p.before[1] + j * p.dilation[1];
      if (h < 0 || h >= call.sizes().params[height] || w < 0 || w >= call.sizes().params[width]) continue;
      for (int64_t k = 0; k < p.inputs; ++k) {
        double v = call.number(0, call.offset_of(0, std::array{at[0], h, w, at[3] / p.outputs * p.inputs + k}));
        const int64_t tap = (i * p.kernel[1] + j) * p.inputs + k;
        if (p.has_weight()) v *= call.number(1, call.offset_of(1, std::array{tap, at[3]}));
        sum += v, magnitude += std::fabs(v), most = std::max(most, v);
      }
    }
  if (p.op == "max") return {most, 0};
  return {sum, sum_unit(static_cast<double>(p.terms())) * magnitude};
}

Expected finish_exactly(const WindowProblem& p, const CallMemory& call, const std::vector<int64_t>& at,
                        const Expected& sum) {
  const Expr e = in_f32(*p.epilogue);
  std::vector<double> ins;
  for (size_t i = p.first_operand(); i < p.result(); ++i) ins.push_back(call.number(i, call.offset_of(i, at)));
  const std::array acc{sum.want}, tolerance{sum.bound};
  if (overflows(e, acc, ins)) return {0, HUGE_VAL};
  return expect_stored(evaluate_with_tolerance(e, acc, tolerance, ins), DType::f32, p.output);
}

Result<std::vector<std::vector<Expected>>> expect(const KernelProblem& any, const CallMemory& call,
                                                  const OutputPoints& points) {
  const auto& p = any.get<WindowProblem>();
  std::vector<std::vector<Expected>> out(1);
  for (const int64_t point : points[0]) {
    const std::vector<int64_t> at = call.index_of(p.result(), point);
    const Expected e = slide_exactly(p, call, at);
    out[0].push_back(p.epilogue ? finish_exactly(p, call, at, e)
                                : within_range(p.output, e.want, e.bound + half_ulp(p.output, e.want)));
  }
  return out;
}

}  // namespace

const KernelFamily kWindowFamily{
    .name = "windows",
    .signature = signature_of<WindowProblem>,
    .formula = formula_of,
    .comment = comment_of<WindowProblem>,
    .reaches = reaches_of,
    .render = render_of<WindowProblem, render_windows>,
    .arguments = arguments_of,
    .expect = expect,
    .operations = operations_of,
    .launch = launch_of<WindowProblem, windows_launch>,
};

}  // namespace qcg

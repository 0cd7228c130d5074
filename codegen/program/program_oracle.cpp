#include "codegen/program/program_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/ops/steps.h"
#include "graph/oracle/reference.h"

namespace qcg {

namespace {

// A right output may be off by so many times what the disturbances did.
constexpr int kDisturbances = 8;
constexpr double kBeyondDisturbance = 2;

// Whether something in between is rounded to codes: there the last bit of a sum can become a whole step.
bool has_steps(const Graph& graph) {
  const std::vector<bool> decides = find_step_inputs(graph);
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return decides[id]; });
  });
}

// Largest error relative to the largest output that rounding of intermediates to their dtypes, or to codes, explains.
double tolerance(DType dtype, bool steps) {
  if (steps && dtype == DType::f32) return 1e-2;
  switch (dtype) {
    case DType::f32: return 2e-4;
    case DType::f16: return 1e-2;
    case DType::bf16: return 4e-2;
    case DType::f8e4m3: return 0.125;  // one step of three and of two bits of mantissa
    case DType::f8e5m2: return 0.25;
    default: return 0;
  }
}

// The index of element `at` of a dense tensor.
std::vector<int64_t> index_of(const std::vector<int64_t>& shape, int64_t at) {
  std::vector<int64_t> out(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; at /= shape[axis]) out[axis] = at % shape[axis];
  return out;
}

}  // namespace

std::string OutputCheck::describe() const {
  const auto number = [](double v) { return std::isnan(v) ? "nan" : fmt::format("{:.6g}", v); };
  return fmt::format("{}[{}] is {} where the {} has {}: off by {:.3g}, and {:.3g} is allowed", name,
                     fmt::join(element, ", "), number(got), against == "oracle" ? "oracle" : "expected tensor",
                     number(want), max_err, bound);
}

// Of each output: as of its dtype, or of the narrower one that something it is computed from was rounded to.
std::vector<double> output_tolerances(const Graph& graph) {
  const bool steps = has_steps(graph);
  std::vector<double> rounded(graph.values.size(), 0);  // by value
  for (const Node& node : graph.nodes) {
    double widest = 0;
    for_each_input(node, [&](ValueId id) { widest = std::max(widest, rounded[id]); });
    for (ValueId id : node.outputs) {
      const DType dtype = graph.value(id).dtype;
      const bool rounds = is_half(dtype);
      const OpRole role = node.op->role;
      const bool moves = role == OpRole::view || role == OpRole::copy || role == OpRole::look_up;
      rounded[id] = rounds && !moves ? std::max(widest, tolerance(dtype, steps)) : widest;
    }
  }
  std::vector<double> out;
  for (ValueId id : graph.outputs) {
    const DType dtype = graph.value(id).dtype;
    out.push_back(is_floating(dtype) ? std::max(tolerance(dtype, steps), rounded[id]) : tolerance(dtype, steps));
  }
  return out;
}

namespace {

// Looks again at outputs with infinite errors: elements that are infinite, or no number, with the roundings of eager
// execution alone are not compared. A sum in f16 leaves its range, and the oracle's does not.
Status leave_out_overflows(const Graph& graph, const std::vector<Tensor>& inputs, ReferenceOptions options,
                           const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                           std::vector<OutputCheck>& outputs) {
  const auto is_open = [](const OutputCheck& o) { return !o.ok && !std::isfinite(o.max_err); };
  if (options.emulate_casts || std::none_of(outputs.begin(), outputs.begin() + want.size(), is_open)) return {};
  options.emulate_casts = true;
  QCG_TRY(eager, evaluate_graph(graph, inputs, options));
  for (size_t i = 0; i < want.size(); ++i) {
    OutputCheck& o = outputs[i];
    if (!is_open(o)) continue;
    const Tensor right = want[i].contiguous(), rounded = eager[i].contiguous();
    std::vector<std::byte> bytes(right.bytes().begin(), right.bytes().end());
    const size_t size = dtype_bytes(right.dtype);
    for (size_t at = 0; at < bytes.size(); at += size) {
      const double exact = element_to_double(right.dtype, right.bytes().data() + at);
      const double in_eager = element_to_double(rounded.dtype, rounded.bytes().data() + at);
      if (!std::isfinite(in_eager) && in_eager != exact && !std::isnan(exact))
        std::memcpy(bytes.data() + at, got[i].bytes().data() + at, size);
    }
    OutputCheck again =
        compare_output(o.name, o.against, got[i], Tensor::from_bytes(right.dtype, right.shape, std::move(bytes)), 0);
    again.bound = o.bound;
    again.ok = again.max_err <= again.bound;
    o = std::move(again);
  }
  return {};
}

}  // namespace

OutputCheck compare_output(const std::string& name, const std::string& against, const Tensor& got, const Tensor& want,
                           double tolerance) {
  OutputCheck out{.name = name, .against = against};
  double largest = 0, signal = 0, noise = 0;
  int64_t worst = -1;
  const size_t size = dtype_bytes(got.dtype);
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double g = element_to_double(got.dtype, got.bytes().data() + static_cast<size_t>(i) * size);
    const double w = element_to_double(want.dtype, want.bytes().data() + static_cast<size_t>(i) * size);
    if (std::isfinite(w)) largest = std::max(largest, std::fabs(w)), signal += w * w;
    if (std::isfinite(g) && std::isfinite(w)) ++out.finite;
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    const double error = std::isfinite(g) && std::isfinite(w) ? std::fabs(g - w) : HUGE_VAL;
    if (error > out.max_err) worst = i, out.max_err = error, out.got = g, out.want = w;
    noise += error * error;
  }
  if (worst >= 0) out.element = index_of(got.shape, worst);
  out.bound = tolerance * largest;
  out.snr_db = noise == 0 ? kExact_dB : 10 * std::log10(signal / noise);
  out.rms_err = got.numel() > 0 ? std::sqrt(noise / static_cast<double>(got.numel())) : 0;
  out.ok = std::isfinite(out.max_err) && out.max_err <= out.bound;
  return out;
}

Status widen_bounds(const Graph& graph, const std::vector<Tensor>& inputs, ReferenceOptions options,
                    const std::vector<Tensor>& got, const std::vector<Tensor>& want, std::vector<OutputCheck>& outputs,
                    const std::function<void()>& after_each) {
  QCG_CHECK(leave_out_overflows(graph, inputs, options, got, want, outputs));
  std::vector<double> largest(want.size(), 0), mean(want.size(), 0);
  const auto is_open = [](const OutputCheck& o) { return !o.ok && std::isfinite(o.max_err); };
  for (int seed = 1; seed <= kDisturbances && std::any_of(outputs.begin(), outputs.end(), is_open); ++seed) {
    options.disturbed = uint64_t(seed);
    QCG_TRY(moved, evaluate_graph(graph, inputs, options));
    for (size_t i = 0; i < want.size(); ++i) {
      const OutputCheck by = compare_output("", "", moved[i].contiguous(), want[i].contiguous(), 0);
      if (!std::isfinite(by.max_err)) continue;
      largest[i] = std::max(largest[i], kBeyondDisturbance * by.max_err);
      mean[i] = std::max(mean[i], kBeyondDisturbance * by.rms_err);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      OutputCheck& o = outputs[i];
      if (!is_open(o)) continue;
      o.bound = std::max(o.bound, largest[i % want.size()]);
      o.ok = o.max_err <= o.bound && o.rms_err <= mean[i % want.size()];
    }
    if (after_each) after_each();
  }
  return {};
}

}  // namespace qcg

// Which problems oneDNN can serve whole, whether this machine's oneDNN does, and the weights it then reads.
#include "codegen/vendor/extern_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cache/store/sha256.h"
#include "codegen/kernel/launch.h"
#include "codegen/trial/trial.h"
#include "codegen/vendor/vendor_module.h"
#include "runtime/memory.h"

namespace qcg {

namespace {

constexpr double kQueryTimeout_s = 20;

// What holds for every way of asking; empty if nothing is in the way.
std::string find_obstacle(const Problem& problem) {
  if (scheme_info(problem.scheme).quantized_activation || problem.x_has_zero)
    return "oneDNN leaves out the scales of its rows";
  if (problem.by_group_of_rows) return "a call has weights of one group of rows";
  if (problem.windowed) return "rows of its activations are windows, which oneDNN's matmul does not read";
  if (problem.k_segments.size() != 1) return "its activations are in pieces, which oneDNN does not accept";
  if (!problem.operands.empty()) return "oneDNN leaves out operands of its epilogue";
  if (problem.outputs.empty() || problem.k <= 0) return "there is nothing to multiply";
  for (const Output& output : problem.outputs) {
    bool covered = false;
    const VendorEltwise* eltwise = find_vendor_eltwise(output.expr, covered);
    if (!covered || output.segments.size() != 1) return "oneDNN leaves out part of its epilogue";
    if (output.n <= 0) return "there is nothing to multiply";
    const Segment& segment = problem.segments[static_cast<size_t>(output.segments[0])];
    if (problem.scheme == Scheme::s8s8 && (eltwise || segment.has_bias))
      return "oneDNN leaves out part of its epilogue";
  }
  return {};
}

// Rounding weights to half types is more than the oracle allows: oneDNN must take them as they are, or in f32.
bool keeps_weights(const Problem& problem, const VendorMatmul& way) {
  return way.weight == problem.weight || way.weight == DType::f32;
}

OneDnnTask task_of(const Problem& problem, const VendorMatmul& way) {
  OneDnnTask task{problem.k, problem.activation, way.weight, way.output, way.scales, {}};
  for (const Output& output : problem.outputs) {
    bool covered = false;
    const VendorEltwise* eltwise = find_vendor_eltwise(output.expr, covered);
    task.outputs.push_back({output.n, eltwise ? eltwise->code : kOneDnnNone,
                            problem.segments[static_cast<size_t>(output.segments[0])].has_bias});
  }
  return task;
}

std::string name_of(const Problem& problem, const ExternWay& extern_way, const std::string& version) {
  std::string out = fmt::format("oneDNN {} {}", version, extern_way.way.name);
  const auto& outputs = extern_way.task.outputs;
  if (std::any_of(outputs.begin(), outputs.end(), [](const OneDnnTask::Output& o) { return o.bias; })) out += " + bias";
  bool covered = false;
  for (const Output& output : problem.outputs)
    if (const VendorEltwise* eltwise = find_vendor_eltwise(output.expr, covered);
        eltwise && out.find(eltwise->name) == std::string::npos)
      out += eltwise->name;
  return out;
}

// `why` says what oneDNN lacks where it does not.
bool serves(const OneDnn& lib, const OneDnnTask& task, int64_t m, std::string& why) {
  return std::all_of(task.outputs.begin(), task.outputs.end(), [&](const OneDnnTask::Output& o) {
    const std::vector<float> ones(static_cast<size_t>(o.n), 1.f);
    const QcgOneDnnMatmul spec{m,
                               o.n,
                               task.k,
                               static_cast<int32_t>(task.x),
                               static_cast<int32_t>(task.w),
                               static_cast<int32_t>(task.y),
                               o.eltwise,
                               nullptr,
                               nullptr,
                               o.bias ? ones.data() : nullptr,
                               task.scales ? ones.data() : nullptr,
                               0,
                               0,
                               0};
    char text[256] = "";
    const bool served = lib.check(&spec, text, sizeof text) != 0;
    if (!served) why = text;
    return served;
  });
}

struct Answer {
  std::string missing, version;
  int first = -1;       // the first way that oneDNN has
  std::string why_not;  // what it lacks, if it has none
};

Result<Answer> ask_onednn(const std::vector<ExternWay>& ways, int64_t m) {
  QCG_TRY(child, run_in_child(kQueryTimeout_s, [&](ChildReport& report) {
            const OneDnn lib = load_onednn();
            if (!lib.missing.empty()) return report.send("-" + lib.missing);
            report.send("+" + std::string(lib.version()));
            std::string why;
            for (size_t i = 0; i < ways.size(); ++i)
              if (serves(lib, ways[i].task, m, why)) return report.send("+" + std::to_string(i));
            report.send("-" + why);
          }));
  Answer out;
  if (child.messages.empty()) out.missing = "its library cannot be used: " + child.failure;
  else if (child.messages[0][0] == '-') out.missing = child.messages[0].substr(1);
  else out.version = child.messages[0].substr(1);
  if (child.messages.size() < 2) return out;
  const std::string& found = child.messages[1];
  if (found[0] == '-') out.why_not = found.substr(1);
  else out.first = static_cast<int>(std::min<size_t>(ways.size() - 1, static_cast<size_t>(found[1] - '0')));
  return out;
}

}  // namespace

int64_t ExternKernel::weights_bytes() const {
  int64_t bytes = 0;
  (void)task.places(bytes);
  return bytes;
}

void ExternKernel::write_weights(const Problem& problem, const std::vector<SegmentTensors>& tensors, int threads,
                                 std::span<std::byte> out) const {
  int64_t bytes = 0;
  const std::vector<OneDnnTask::Place> places = task.places(bytes);
  ThreadPool pool({.threads = threads});
  auto put = [&](int64_t at, const std::vector<float>& numbers) {
    std::memcpy(out.data() + at, numbers.data(), numbers.size() * sizeof(float));
  };
  for (size_t o = 0; o < places.size(); ++o) {
    const std::vector<SegmentTensors> segment = {tensors[static_cast<size_t>(problem.outputs[o].segments[0])]};
    const size_t size = static_cast<size_t>(task.outputs[o].n * task.k) * dtype_bytes(task.w);
    write_vendor_weights(problem, way, segment, pool, out.subspan(static_cast<size_t>(places[o].weights), size));
    if (task.outputs[o].bias) put(places[o].bias, vendor_numbers(segment, &SegmentTensors::bias));
    if (task.scales) put(places[o].scales, vendor_numbers(segment, &SegmentTensors::scales));
  }
}

BuiltKernel ExternKernel::built(std::span<const std::byte> weights, Isa isa) const {
  BuiltKernel out;
  out.source = {name, kExternSymbol, "", isa};
  out.key = sha256_hex(module);
  out.bytes = module;
  out.hit = true;
  out.vendor = VendorCall{task.params_after_m(), weights};
  return out;
}

std::vector<ExternWay> extern_ways(const Problem& problem, std::string& why_not) {
  std::vector<ExternWay> out;
  why_not = find_obstacle(problem);
  if (!why_not.empty()) return out;
  for (const VendorMatmul& way : vendor_matmuls(problem)) {
    const bool same_output = std::all_of(problem.outputs.begin(), problem.outputs.end(),
                                         [&](const Output& o) { return o.dtype == way.output; });
    if (!same_output) why_not = fmt::format("oneDNN's results are {}, but its outputs are not", dtype_name(way.output));
    else if (!keeps_weights(problem, way))
      why_not = fmt::format("oneDNN would need weights that are rounded to {}", dtype_name(way.weight));
    else out.push_back({way, task_of(problem, way)});
  }
  if (!out.empty()) why_not.clear();
  return out;
}

ExternOffer find_extern_kernel(const Problem& problem, int64_t m) {
  ExternOffer out;
  const std::vector<ExternWay> ways = extern_ways(problem, out.why_not);
  if (ways.empty()) return out;
  const auto answer = ask_onednn(ways, m);
  const std::string missing = answer.ok() ? answer->missing : answer.error().message;
  if (!missing.empty()) return {{}, "oneDNN cannot be used: " + missing, true};
  if (answer->first < 0)
    return {{},
            fmt::format("oneDNN {} has no such product on this machine{}{}", answer->version,
                        answer->why_not.empty() ? "" : ": ", answer->why_not),
            false};
  auto module = read_program_file(find_onednn_module());
  if (!module.ok()) return {{}, "oneDNN cannot be used: " + module.error().message, true};
  const ExternWay& chosen = ways[static_cast<size_t>(answer->first)];
  out.kernel = ExternKernel{name_of(problem, chosen, answer->version), chosen.way, chosen.task, std::move(*module)};
  return out;
}

}  // namespace qcg

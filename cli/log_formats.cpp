// Prints the tune log as CSV and in the format of TORCHINDUCTOR.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/log.h"
#include "cli/report.h"

namespace qcg {

namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string torch_dtype(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"f64", "float64"}, {"f32", "float32"}, {"bf16", "bfloat16"},        {"f16", "float16"},
      {"i8", "int8"},     {"u8", "uint8"},    {"f8e4m3", "float8_e4m3fn"}, {"f8e5m2", "float8_e5m2"}};
  for (const auto& [ours, theirs] : kNames)
    if (ours == name) return fmt::format("torch.{}", theirs);
  return fmt::format("torch.{}", name);
}

// The records timed in the same rounds, fastest first, in the order of _inductor/select_algorithm.py.
Group timed_choices(const Group& group) {
  Group out;
  for (const TuneRecord* r : group)
    if (r->median_s > 0 && r->status != TrialStatus::separate) out.push_back(r);
  std::stable_sort(out.begin(), out.end(),
                   [](const TuneRecord* a, const TuneRecord* b) { return a->median_s < b->median_s; });
  return out;
}

std::string inductor_block(const Group& group) {
  const Group choices = timed_choices(group);
  if (choices.empty() || group[0]->family != "gemm") return "";  // inductor tunes no others
  const TuneRecord &first = *group[0], &best = *choices[0];
  nlohmann::ordered_json stats = {
      {"num_choices", choices.size()}, {"num_triton_choices", 0}, {"best_kernel", best.kernel}};
  if (!best.candidate.empty()) stats["best_kernel_desc"] = best.candidate;
  stats["best_time"] = best.median_s * 1e3;
  std::string out = fmt::format("Autotune Choices Stats:\n{}\n", stats.dump());
  out += fmt::format("AUTOTUNE linear_{}({}x{}, {}x{})\n", first.scheme, first.m, first.k, first.k, first.n);
  out += fmt::format("strides: [{}, 1], [1, {}]\n", first.k, first.k);
  if (!first.activation.empty())
    out += fmt::format("dtypes: {}, {}\n", torch_dtype(first.activation), torch_dtype(first.weight));
  double timing = 0, building = 0;
  for (const TuneRecord* r : choices) {
    timing += r->median_s * r->samples, building += r->compile_s;
    out += fmt::format("  {} {:.4f} ms {:.1f}% {}\n", r->kernel, r->median_s * 1e3, best.median_s / r->median_s * 100,
                       r->candidate);
  }
  return out + fmt::format(
                   "SingleProcess AUTOTUNE benchmarking takes {:.4f} seconds and {:.4f} seconds precompiling "
                   "for {} choices\n",
                   timing, building, choices.size());
}

}  // namespace

std::string log_csv(const std::vector<Group>& groups) {
  std::string out =
      "step,kernel,candidate,target,scheme,m,m_min,m_max,n,k,group,threads,median_us,p10_us,p90_us,samples,disturbed,"
      "fused_us,gbps,gflops,share,compile_s,status,reason,family\n";
  for (const Group& group : groups)
    for (const TuneRecord* r : group)
      out += fmt::format(
          "{},{},{},{},{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{},{},{:.3f},{:.3f},{:.3f},{:.4f},{:.3f},{},{},{}"
          "\n",
          csv_field(r->step), csv_field(r->kernel), csv_field(r->candidate), r->target, r->scheme, r->m, r->m_min,
          r->m_max, r->n, r->k, r->group, r->threads, r->median_s * 1e6, r->p10_s * 1e6, r->p90_s * 1e6, r->samples,
          r->disturbed, r->merged_s * 1e6, r->gbps, r->gflops, r->share, r->compile_s, status_of(*r),
          csv_field(r->reason), csv_field(r->family));
  return out;
}

std::string log_inductor(const std::vector<Group>& groups) {
  std::string out;
  for (const Group& group : groups) out += inductor_block(group);
  return out;
}

}  // namespace qcg

#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/report.h"
#include "codegen/kernel/target.h"

namespace qcg {

namespace {

constexpr size_t kMostSamples = 1000;  // of a step; later runs replace the earliest
constexpr size_t kMostThreads = 4;     // whose shares a row shows one by one
constexpr int kProcess = 1, kStepTrack = 0;

int thread_track(int thread) { return thread + 1; }

std::string stem_of(const std::string& module) { return std::filesystem::path(module).stem().string(); }

void keep(std::vector<double>& samples, double value) {
  if (samples.size() == kMostSamples) samples.erase(samples.begin());
  samples.push_back(value);
}

// "97 % 95 %": of the time of a step, what each thread spent in its kernel; of many threads the least and the most.
std::string busy_text(std::vector<double> thread_us, double us) {
  if (thread_us.size() > kMostThreads) {
    std::ranges::sort(thread_us);
    thread_us = {thread_us.front(), thread_us.back()};
    return fmt::format("{:.0f} to {:.0f} %", 100 * thread_us[0] / us, 100 * thread_us[1] / us);
  }
  std::string out;
  for (const double busy : thread_us) out += fmt::format("{}{:.0f} %", out.empty() ? "" : " ", 100 * busy / us);
  return out;
}

// Empty where there is none that can be read.
std::vector<TuneRecord> read_log(const std::string& program) {
  auto records = read_tune_log(tune_log_of(program));
  return records.ok() ? std::move(*records) : std::vector<TuneRecord>();
}

double gbps_of(double bytes, double us) { return us > 0 ? bytes / us * 1e-3 : 0; }

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string module_stem(const TuneRecord& record) {
  return fmt::format("{}_{}", is_extern(record) ? "onednn" : record.kernel, record.key.substr(0, 8));
}

KernelLog::KernelLog(const std::vector<TuneRecord>& log) {
  for (const TuneRecord& record : log)
    if (!record.key.empty()) records_[module_stem(record)].push_back(record);
}

std::string KernelLog::family(const std::string& module) const {
  const std::string stem = stem_of(module);
  const auto found = records_.find(stem);
  if (found != records_.end()) return found->second[0].family;
  const std::string word = stem.substr(0, stem.find('_'));
  return word == "qgemm" ? "gemm" : word;
}

const TuneRecord* KernelLog::find(const std::string& module, int64_t m) const {
  const auto found = records_.find(stem_of(module));
  if (found == records_.end()) return nullptr;
  for (const TuneRecord& record : found->second)
    if (record.status == TrialStatus::won && record.m_min <= m && m <= record.m_max) return &record;
  return &found->second[0];
}

std::string KernelLog::kind(const std::string& module) const {
  const auto found = records_.find(stem_of(module));
  if (found == records_.end()) return family(module);
  const TuneRecord& record = found->second[0];
  return record.group > 0 ? fmt::format("{} g{}", kind_of(record), record.group) : kind_of(record);
}

StepTable::StepTable(const std::string& directory, std::shared_ptr<const Program> program, std::vector<int64_t> symbols,
                     int threads)
    : program_(std::move(program)), log_(read_log(directory)), symbols_(std::move(symbols)), threads_(threads) {
  const auto target = parse_target(program_->manifest().target);
  if (target.ok() && target->device == Device::cpu) ceilings_ = measure_ceilings(target->isa, threads);
}

void StepTable::add(const RunProfile& run) {
  keep(run_us_, run.us);
  steps_.resize(run.steps.size());
  for (size_t s = 0; s < run.steps.size(); ++s) {
    const StepProfile& from = run.steps[s];
    Samples& to = steps_[s];
    keep(to.us, from.us);
    to.thread_us.resize(static_cast<size_t>(threads_));
    for (int thread = 0; thread < threads_; ++thread)
      keep(to.thread_us[static_cast<size_t>(thread)], from.busy_us(thread));
    to.begin_us = from.begin_us, to.bytes = from.bytes, to.kernel = from.kernel;
  }
}

// What no kernel is faster than: moving the bytes at the rate of reading, or multiplying at the rate that the roofline
// of the tune log had. 0: unknown. Attention reads only what its mask shows, which its arguments do not say.
double StepTable::floor_us(const std::string& module, int64_t m, double bytes) const {
  const TuneRecord* r = log_.find(module, m);
  if (ceilings_.read_gbps <= 0 || bytes <= 0 || (r != nullptr && r->family == "attention")) return 0;
  const double read_us = bytes / ceilings_.read_gbps * 1e-3;
  if (r == nullptr || r->family != "gemm" || r->gflops <= 0 || r->m <= 0) return read_us;
  // The roofline of the log was multiplying if moving the bytes does not explain the share.
  if (r->share < 1.05 * r->gbps / ceilings_.read_gbps) return read_us;
  const double operations = r->gflops * r->median_s * 1e9 * static_cast<double>(m) / static_cast<double>(r->m);
  const double peak_gflops = r->gflops / r->share * threads_ / std::max(1, r->threads);
  return std::max(read_us, operations / peak_gflops * 1e-3);
}

std::vector<StepTable::Line> StepTable::lines() const {
  std::vector<Line> out;
  for (size_t s = 0; s < steps_.size(); ++s) {
    const ProgramManifest::Step& step = program_->manifest().steps[s];
    const Samples& from = steps_[s];
    Line& line = out.emplace_back();
    line.step = step.name, line.module = step.kernels[from.kernel].module, line.kind = log_.kind(line.module);
    line.begin_us = from.begin_us, line.us = median(from.us), line.bytes = from.bytes;
    for (const auto& samples : from.thread_us) line.thread_us.push_back(median(samples));
    const int64_t m = step.params.empty() ? 0 : step.params[0].evaluate(symbols_).value_or(0);
    line.floor_us = floor_us(line.module, m, line.bytes);
  }
  return out;
}

std::vector<StepTable::Line> StepTable::by_kernel(std::vector<Line> lines) {
  std::vector<Line> out;
  std::map<std::string, size_t> index;
  for (Line& line : lines) {
    const auto [it, is_new] = index.try_emplace(line.module, out.size());
    if (is_new) {
      out.push_back(std::move(line));
      continue;
    }
    Line& sum = out[it->second];
    sum.us += line.us, sum.bytes += line.bytes, sum.floor_us += line.floor_us, ++sum.steps;
    for (size_t thread = 0; thread < sum.thread_us.size(); ++thread) sum.thread_us[thread] += line.thread_us[thread];
  }
  std::ranges::stable_sort(out, [](const Line& a, const Line& b) { return a.us > b.us; });
  return out;
}

std::string StepTable::text(bool all) const {
  const std::vector<Line> steps = lines();
  double sum_us = 0;
  for (const Line& line : steps) sum_us += line.us;
  Table table({all ? "step" : "kernel", "kind", "steps", "time", "of run", "rate", "roofline", "busy threads"});
  for (const Line& line : all ? steps : by_kernel(steps))
    table.add({printable(line.step), line.kind, fmt::format("{}", line.steps), format_time(line.us * 1e-6),
               fmt::format("{:.1f} %", 100 * line.us / std::max(1e-9, sum_us)),
               line.bytes > 0 ? format_rate(gbps_of(line.bytes, line.us)) : "-",
               format_share(line.us > 0 ? line.floor_us / line.us : 0), busy_text(line.thread_us, line.us)});
  const double run_us = median(run_us_);
  std::string out = table.str();
  out += fmt::format("{}: {} in kernels, {} between them\n", count_of(std::ssize(steps), "step"),
                     format_time(sum_us * 1e-6), format_time(std::max(0.0, run_us - sum_us) * 1e-6));
  if (ceilings_.read_gbps > 0)
    out += fmt::format("ceiling on {}: read {}\n", count_of(threads_, "thread"), format_rate(ceilings_.read_gbps));
  return out;
}

nlohmann::json StepTable::json() const {
  nlohmann::json steps = nlohmann::json::array();
  for (const Line& line : lines())
    steps.push_back({{"step", line.step},
                     {"kernel", line.module},
                     {"kind", line.kind},
                     {"begin_us", line.begin_us},
                     {"us", line.us},
                     {"bytes", line.bytes},
                     {"gbps", gbps_of(line.bytes, line.us)},
                     {"share", line.us > 0 ? line.floor_us / line.us : 0},
                     {"thread_us", line.thread_us}});
  return {{"run_us", median(run_us_)},
          {"runs", run_us_.size()},
          {"threads", threads_},
          {"read_gbps", ceilings_.read_gbps},
          {"steps", steps}};
}

ChromeTrace::ChromeTrace(const ProgramManifest& manifest, int threads) : manifest_(&manifest) {
  const auto name = [&](const char* what, int track, const std::string& text) {
    events_.push_back({{"ph", "M"}, {"name", what}, {"pid", kProcess}, {"tid", track}, {"args", {{"name", text}}}});
  };
  name("process_name", kStepTrack, "qcodegen, " + manifest.target);
  name("thread_name", kStepTrack, "steps");
  for (int thread = 0; thread < threads; ++thread)
    name("thread_name", thread_track(thread), fmt::format("thread {}", thread));
}

void ChromeTrace::add(const std::string& name, double begin_us, const RunProfile& run) {
  if (events_.size() >= kMostEvents) return;
  const auto event = [&](const std::string& what, int track, double from_us, double us, nlohmann::json args) {
    events_.push_back({{"ph", "X"},
                       {"name", what},
                       {"pid", kProcess},
                       {"tid", track},
                       {"ts", begin_us + from_us},
                       {"dur", us},
                       {"args", std::move(args)}});
  };
  event(name, kStepTrack, 0, run.us, {{"steps", run.steps.size()}});
  for (size_t s = 0; s < run.steps.size(); ++s) {
    const StepProfile& step = run.steps[s];
    const ProgramManifest::Step& described = manifest_->steps[s];
    event(described.name, kStepTrack, step.begin_us, step.us,
          {{"step", s},
           {"kernel", described.kernels[step.kernel].module},
           {"bytes", step.bytes},
           {"gbps", gbps_of(step.bytes, step.us)}});
    for (const ThreadSpan& span : step.spans)
      event(described.name, thread_track(span.thread), span.begin_us, span.end_us - span.begin_us,
            {{"step", s}, {"phase", span.phase}, {"items", span.items}, {"busy_us", span.busy_us}});
  }
}

std::string ChromeTrace::text() const {
  const nlohmann::json document = {{"traceEvents", events_}, {"displayTimeUnit", "ns"}};
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace qcg

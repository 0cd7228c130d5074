// The steps of a program for the page: what they are, the times that the tuner has for them at some sizes, the memory
// plan at these, and what each step reads.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/page/page.h"
#include "cli/profile.h"
#include "cli/signature.h"
#include "runtime/arena.h"

namespace qcg {

using nlohmann::json;

namespace {

using BufferKinds = ProgramManifest::BufferKind;

constexpr int64_t kSizes[] = {1, 16, 256};  // of a program that was not tuned
constexpr int64_t kFewRows = 16;            // a linear of so few rows takes as long as reading its weights

// Sizes at which the page shows times and memory: the first symbol has the m that linears were timed at.
std::vector<std::vector<int64_t>> sizes_of(const ProgramManifest& m, const std::vector<TuneRecord>& log) {
  if (m.symbols.empty()) return {{}};
  std::set<int64_t> ms;
  for (const TuneRecord& r : log)
    if (r.family == "gemm" && r.status == TrialStatus::won && r.median_s > 0) ms.insert(r.m);
  if (ms.empty()) ms.insert(std::begin(kSizes), std::end(kSizes));
  std::set<std::vector<int64_t>> out;
  for (const int64_t size : ms) {
    std::vector<int64_t> values;
    for (const auto& symbol : m.symbols)
      values.push_back(std::clamp<int64_t>(values.empty() ? size : 1, symbol.min, symbol.max));
    for (const auto& read : m.reads)
      if (const auto most = m.most_of(read, values)) values[static_cast<size_t>(read.symbol)] = *most;
    out.insert(std::move(values));
  }
  return {out.begin(), out.end()};
}

std::string label_of(const ProgramManifest& m, const std::vector<int64_t>& values) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < values.size(); ++i) parts.push_back(fmt::format("{} = {}", m.symbols[i].name, values[i]));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// The winner of a module that was timed nearest to these rows; -1: none was.
int record_at(const PageProgram& program, int kernel, int64_t rows) {
  int best = -1;
  double nearest = 0;
  for (size_t i = 0; i < program.log.size(); ++i) {
    const TuneRecord& r = program.log[i];
    if (r.status != TrialStatus::won || r.median_s <= 0 || r.m <= 0 || program.log_kernels[i] != kernel) continue;
    const double a = static_cast<double>(std::max<int64_t>(rows, 1)), b = static_cast<double>(r.m);
    const double distance = std::max(a, b) / std::min(a, b);
    if (best < 0 || distance < nearest) best = static_cast<int>(i), nearest = distance;
  }
  return best;
}

// A linear of few rows takes the same time at any of them; the time of other kernels is in proportion to their rows.
double time_at(const TuneRecord& r, int64_t rows) {
  if (r.family == "gemm" && std::max(rows, r.m) <= kFewRows) return r.median_s * 1e6;
  return r.median_s * 1e6 * static_cast<double>(rows) / static_cast<double>(r.m);
}

json memory_json(const ProgramManifest& m, const std::vector<int64_t>& values) {
  std::vector<int64_t> sizes;
  std::vector<Lifetime> lifetimes;
  for (const auto& buffer : m.buffers) {
    if (buffer.kind != BufferKinds::temp) continue;
    const auto bytes = buffer.size.evaluate(values);
    if (!bytes) return {};
    sizes.push_back(*bytes);
    lifetimes.push_back({buffer.first, buffer.last});
  }
  const auto plan = plan_arena(sizes, lifetimes);
  if (!plan.ok()) return {};
  json temps = json::array();
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 0) temps.push_back({sizes[i], lifetimes[i].first, lifetimes[i].last, plan->offsets[i]});
  return {{"peak", plan->peak_bytes}, {"temps", temps}};
}

json point_json(const PageProgram& program, const ProgramManifest& m, const std::vector<int64_t>& values) {
  SymbolValues named;
  for (size_t i = 0; i < values.size(); ++i) named[m.symbols[i].name] = values[i];
  json us = json::array(), kernels = json::array(), records = json::array();
  for (size_t s = 0; s < m.steps.size(); ++s) {
    const ProgramManifest::Step& step = m.steps[s];
    const int64_t first = step.params.empty() ? 1 : step.params[0].evaluate(values).value_or(1);
    const int64_t rows = program.plan ? program.plan->steps[s].rows.evaluate(named).value_or(first) : first;
    const auto chosen = std::ranges::find_if(
        step.kernels, [&](const auto& choice) { return choice.m_max < 0 || first <= choice.m_max; });
    const int kernel = program.kernel_of(chosen == step.kernels.end() ? step.kernels[0].module : chosen->module);
    const int record = record_at(program, kernel, rows);
    kernels.push_back(kernel);
    records.push_back(record);
    us.push_back(record < 0 ? 0 : time_at(program.log[static_cast<size_t>(record)], rows));
  }
  return {{"label", label_of(m, values)},
          {"us", us},
          {"kernel", kernels},
          {"record", records},
          {"memory", memory_json(m, values)}};
}

json steps_json(const PageProgram& program, const ProgramManifest& m) {
  const KernelLog log(program.log);
  json out = json::array();
  for (size_t s = 0; s < m.steps.size(); ++s) {
    const ProgramManifest::Step& step = m.steps[s];
    json kernels = json::array();
    for (const auto& choice : step.kernels)
      kernels.push_back({{"m_max", choice.m_max}, {"kernel", program.kernel_of(choice.module)}});
    json& to = out.emplace_back(json{{"name", step.name},
                                     {"family", log.family(step.kernels[0].module)},
                                     {"kind", log.kind(step.kernels[0].module)},
                                     {"kernels", kernels},
                                     {"nodes", json::array()},
                                     {"module", ""},
                                     {"formula", ""}});
    if (!program.plan) continue;
    const PlanStep& planned = program.plan->steps[s];
    const KernelProblem& problem = program.plan->problems[static_cast<size_t>(planned.problem)];
    to["nodes"] = planned.nodes;
    to["module"] = program.source.module_of(planned.nodes);
    to["formula"] = problem.family().formula(problem);
  }
  return out;
}

// The steps and the tensors of the signature as nodes of a picture: each after what it reads.
class Drawing {
 public:
  explicit Drawing(const ProgramManifest& m) : m_(m), writers_(m.buffers.size()) {}

  json draw() {
    for (size_t b = 0; b < m_.buffers.size(); ++b) {
      const auto& buffer = m_.buffers[b];
      const auto index = static_cast<size_t>(buffer.index);
      if (buffer.kind == BufferKinds::input) add_source(b, m_.inputs[index].name, "input");
      if (buffer.kind == BufferKinds::state) add_source(b, m_.states[index].name, "state");
    }
    for (size_t s = 0; s < m_.steps.size(); ++s) add_step(s);
    for (size_t b = 0; b < m_.buffers.size(); ++b)
      if (m_.buffers[b].kind == BufferKinds::output)
        add_node(m_.outputs[static_cast<size_t>(m_.buffers[b].index)].name, "output", -1, nodes_of(b));
    return std::move(nodes_);
  }

 private:
  // Places within a buffer, by their text, and the node that wrote there last.
  using Writers = std::map<std::string, int>;

  int add_node(const std::string& name, const char* what, int step, const std::set<int>& inputs) {
    nodes_.push_back({{"name", name}, {"what", what}, {"step", step}, {"inputs", inputs}});
    return static_cast<int>(nodes_.size()) - 1;
  }
  void add_source(size_t buffer, const std::string& name, const char* what) {
    writers_[buffer][""] = add_node(name, what, -1, {});
  }
  std::set<int> nodes_of(size_t buffer) const {
    std::set<int> out;
    for (const auto& [place, node] : writers_[buffer]) out.insert(node);
    return out;
  }

  void add_step(size_t s) {
    std::set<int> inputs;
    for (const auto& arg : m_.steps[s].args)
      if (!arg.reach || !arg.reach->writes || m_.buffers[static_cast<size_t>(arg.buffer)].kind == BufferKinds::state)
        inputs.merge(nodes_of(static_cast<size_t>(arg.buffer)));
    const int node = add_node(m_.steps[s].name, "step", static_cast<int>(s), inputs);
    for (const auto& arg : m_.steps[s].args)
      if (!arg.reach || arg.reach->writes) {
        Writers& writers = writers_[static_cast<size_t>(arg.buffer)];
        const auto kind = m_.buffers[static_cast<size_t>(arg.buffer)].kind;
        if (kind == BufferKinds::input || kind == BufferKinds::weights) continue;
        if (kind == BufferKinds::state) writers.clear();  // it is the state from here on
        writers[size_of(arg.offset, m_.symbols).str()] = node;
      }
  }

  const ProgramManifest& m_;
  std::vector<Writers> writers_;  // by buffer
  json nodes_ = json::array();
};

}  // namespace

json methods_json(const PageProgram& program) {
  json out = json::array();
  for (const ProgramManifest* method : program.methods()) {
    json points = json::array();
    for (const auto& values : sizes_of(*method, program.log)) points.push_back(point_json(program, *method, values));
    out.push_back({{"name", method->method},
                   {"points", points},
                   {"steps", steps_json(program, *method)},
                   {"drawing", Drawing(*method).draw()}});
  }
  return out;
}

}  // namespace qcg

#include "codegen/program/verify_program.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "codegen/program/program_oracle.h"
#include "codegen/program/random_inputs.h"
#include "codegen/program/state_io.h"
#include "codegen/trial/timing.h"
#include "codegen/trial/trial.h"
#include "graph/oracle/reference.h"

namespace qcg {

using nlohmann::json;

namespace {

constexpr uint64_t kSeed = 0x5eed;
constexpr double kSlowestRead = 5e7;  // bytes per second: weights come from a disk
constexpr int64_t kMostSizes = 4096;  // looked at to find one that no extent of the graph has

Error wrong(const std::string& where, std::string message) {
  Error out = Error::internal(where, std::move(message));
  out.help =
      "this is a bug in qcodegen: please report it with the graph. Nothing was published; `--disable-pass` may avoid "
      "the bug, and `--verify=kernels` publishes a program that was not run as a whole";
  return out;
}

// Lets malloc of this process reuse the pages of large blocks. The oracle makes and drops a weight for each linear of a
// model; by default each one is mapped anew, and page faults are a third of the oracle's time.
void keep_pages() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

std::string name_trial(const std::vector<Symbol>& symbols, const std::vector<int64_t>& values) {
  std::string out;
  for (size_t i = 0; i < symbols.size(); ++i)
    out += fmt::format("{}{} = {}", i == 0 ? "" : ", ", symbols[i].name, values[i]);
  return out;
}

std::string at(const std::string& trial) { return trial.empty() ? "" : " at " + trial; }

struct Trial {
  std::string name;
  std::vector<int64_t> symbols;
};

// Whether a run refused its inputs. What is wrong with the program itself is said with its place in the manifest.
bool is_of_inputs(const Error& error) { return error.code == ErrorCode::BadInput && !error.where.starts_with("$."); }

// The graph with these outputs alone.
Graph with_outputs(const Graph& graph, const std::vector<size_t>& some) {
  Graph out = graph;
  out.states.clear();  // inputs and outputs like others, as far as the oracle is concerned
  out.outputs.clear();
  out.output_names.clear();
  for (size_t i : some) {
    out.outputs.push_back(graph.outputs[i]);
    out.output_names.push_back(graph.output_names[i]);
  }
  out.remove_dead();
  return out;
}

// What the child does. A message is {"error": …}, {"wrong": …} or, of each trial, {"checked": n, "unchecked": […]}; an
// empty one is a sign of life.
class Verification {
 public:
  Verification(const std::string& directory, const Graph& graph, const std::vector<Trial>& trials,
               const VerifyOptions& options, ChildReport& report)
      : directory_(directory), graph_(graph), trials_(trials), options_(options), report_(report) {}

  void run() {
    if (const Status ran = run_program(); !ran.ok()) return send({{"error", ran.error().to_string()}});
    const auto budget = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.budget_s));
    const Clock::time_point deadline = Clock::now() + budget;
    for (size_t t = 0; t < trials_.size(); ++t) {
      report_.begin(trials_.size() + t);
      send(check(t, deadline));
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  void send(const json& message) { report_.send(message.dump(-1, ' ', false, json::error_handler_t::replace)); }

  // All trials before anything is compared: that it runs at all is worth knowing where the oracle has no time.
  Status run_program() {
    QCG_TRY(program, Program::load(directory_));
    QCG_TRY(context, Context::create(program, {.threads = options_.threads}));
    for (const auto& output : program->manifest().outputs) names_.push_back(output.name);
    for (const auto& state : program->manifest().states) names_.push_back("state " + state.name);
    for (size_t t = 0; t < trials_.size(); ++t) {
      report_.begin(t);
      QCG_TRY(state, State::create(program));
      QCG_CHECK(check_initial(*program, *state));
      const std::vector<int64_t>& symbols = trials_[t].symbols;
      auto run = run_at_random(*program, *context, *state, symbols, kSeed + t,
                               input_ranges(graph_, named_symbols(*program, symbols)));
      if (!run.ok() && !is_of_inputs(run.error())) return std::move(run.error());
      refused_.push_back(run.ok() ? "" : run.error().to_string());
      inputs_.emplace_back();
      outputs_.emplace_back();
      if (!run.ok()) continue;
      QCG_TRY(after, state_tensors(*program, *state));
      inputs_.back() = run->io.input_tensors();
      inputs_.back().insert(inputs_.back().end(), run->state_before.begin(), run->state_before.end());
      outputs_.back() = run->io.output_tensors();
      outputs_.back().insert(outputs_.back().end(), after.begin(), after.end());
      report_.send("");
    }
    return {};
  }

  // What a state starts as is the graph's, to the bit.
  Status check_initial(const Program& program, const State& state) const {
    QCG_TRY(initial, state_tensors(program, state));
    for (size_t i = 0; i < initial.size(); ++i) {
      const Tensor& data = graph_.value(graph_.state_input(i)).data;
      if (data.bound() && !std::ranges::equal(data.contiguous().bytes(), initial[i].bytes()))
        return Error::internal("state " + graph_.states[i], "it does not start with the value of the graph");
    }
    return {};
  }

  json check(size_t t, Clock::time_point deadline) {
    const std::string where = at(trials_[t].name);
    json unchecked = json::array();
    if (!refused_[t].empty()) {
      unchecked.push_back(fmt::format("all outputs{}: random inputs are refused: {}", where, refused_[t]));
      return {{"checked", 0}, {"unchecked", unchecked}};
    }
    try {
      const ReferenceOptions oracle{.emulate_casts = options_.emulate_casts};
      const auto want = evaluate_until(graph_, inputs_[t], oracle, deadline);
      if (want.ok()) return compare(t, oracle, *want);
      unchecked.push_back(fmt::format("all outputs{}: {}", where, want.error().to_string()));
    } catch (const std::bad_alloc&) {
      unchecked.push_back(fmt::format("all outputs{}: the oracle ran out of memory", where));
    }
    return {{"checked", 0}, {"unchecked", unchecked}};
  }

  json compare(size_t t, const ReferenceOptions& oracle, const std::vector<Tensor>& want) {
    const std::string where = at(trials_[t].name);
    const std::vector<double> allowed = output_tolerances(graph_);
    json unchecked = json::array();
    std::vector<std::string> unreached;  // by the oracle
    int checked = 0;
    std::vector<size_t> suspects;
    std::vector<OutputCheck> checks;
    std::vector<Tensor> got_of_suspects, want_of_suspects;
    for (size_t i = 0; i < want.size(); ++i) {
      if (!want[i].bound()) {
        unreached.push_back(names_[i]);
        continue;
      }
      const OutputCheck o = compare_output(names_[i], "oracle", outputs_[t][i], want[i].contiguous(), allowed[i]);
      if (o.ok && o.finite == 0 && want[i].numel() > 0) {
        unchecked.push_back(fmt::format("{}{}: random inputs give no finite value", names_[i], where));
        continue;
      }
      ++checked;
      if (o.ok) continue;
      suspects.push_back(i);
      checks.push_back(o);
      got_of_suspects.push_back(outputs_[t][i]);
      want_of_suspects.push_back(want[i]);
    }
    if (!unreached.empty())
      unchecked.push_back(fmt::format("{}{}{}: the oracle did not finish within {:.3g} s", unreached[0],
                                      unreached.size() == 1 ? "" : fmt::format(" and {} more", unreached.size() - 1),
                                      where, options_.budget_s));
    if (!suspects.empty()) {
      const Status widened = widen_bounds(with_outputs(graph_, suspects), inputs_[t], oracle, got_of_suspects,
                                          want_of_suspects, checks, [&] { report_.send(""); });
      if (!widened.ok()) return {{"error", widened.error().to_string()}};
    }
    for (const OutputCheck& o : checks)
      if (!o.ok) return {{"wrong", o.name}, {"how", o.describe() + where}};
    return {{"checked", checked}, {"unchecked", unchecked}};
  }

  const std::string& directory_;
  const Graph& graph_;
  const std::vector<Trial>& trials_;
  const VerifyOptions& options_;
  ChildReport& report_;
  std::vector<std::string> names_;
  std::vector<std::vector<Tensor>> inputs_, outputs_;  // by trial
  std::vector<std::string> refused_;                   // by trial: why the program took no random inputs; empty: it did
};

// Whether the child ended for want of time or memory while the oracle was at work, which says nothing against the
// program.
bool ran_out(const ChildResult& child, size_t trials) {
  const bool oracle = child.current >= static_cast<int64_t>(trials);
  return oracle && (child.failure.starts_with("no answer") || child.failure.starts_with("SIGKILL"));
}

// A program that scribbles over memory may leave any message behind: what is not understood counts against it.
Status read_message(const std::string& text, ProgramVerdict& verdict) {
  const json message = json::parse(text, nullptr, false);
  if (message.is_object() && message.contains("error"))
    return wrong("program", "it does not run: " + message.value("error", ""));
  if (message.is_object() && message.contains("wrong"))
    return wrong(message.value("wrong", ""), "the program is wrong: " + message.value("how", ""));
  try {
    verdict.checked.push_back(message.at("checked"));
    for (const json& line : message.at("unchecked")) verdict.unchecked.push_back(line);
  } catch (const json::exception&) {
    return wrong("program", "the process that ran it sent an unreadable answer");
  }
  return {};
}

int64_t weights_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const Value& value : graph.values)
    if (value.kind == ValueKind::parameter)
      bytes += value.data.numel() * static_cast<int64_t>(dtype_bytes(value.dtype));
  return bytes;
}

bool satisfy(const std::vector<SizeCondition>& conditions, const std::vector<Symbol>& symbols,
             const std::vector<int64_t>& values) {
  SymbolValues named;
  for (size_t s = 0; s < symbols.size(); ++s) named[symbols[s].name] = values[s];
  return std::ranges::all_of(conditions, [&](const SizeCondition& condition) { return condition.holds(named); });
}

}  // namespace

std::vector<Symbol> given_symbols(const Graph& graph) {
  const std::vector<std::string> computed = graph.measured_symbols();
  std::vector<Symbol> out = graph.symbols;
  std::erase_if(out, [&](const Symbol& symbol) { return std::ranges::count(computed, symbol.name) > 0; });
  return out;
}

std::vector<int64_t> values_of_all(const Graph& graph, std::span<const int64_t> given) {
  const std::vector<std::string> computed = graph.measured_symbols();
  std::vector<int64_t> out;
  for (const Symbol& symbol : graph.symbols) {
    const bool is_given = std::ranges::count(computed, symbol.name) == 0;
    out.push_back(is_given ? given.front() : symbol.min);
    if (is_given) given = given.subspan(1);
  }
  return out;
}

std::optional<std::vector<int64_t>> find_satisfying(const std::vector<SizeCondition>& conditions,
                                                    const std::vector<Symbol>& symbols, std::vector<int64_t> values) {
  constexpr int kTries = 2000;
  if (satisfy(conditions, symbols, values)) return values;
  const std::vector<int64_t> least = values;
  std::minstd_rand random(1);
  for (const int64_t width : {4, 16, 64, 512})
    for (int i = 0; i < kTries; ++i) {
      for (size_t s = 0; s < symbols.size(); ++s) {
        const int64_t room = symbols[s].max - least[s];
        values[s] = least[s] + static_cast<int64_t>(random() % static_cast<uint64_t>(std::min(room, width) + 1));
      }
      if (satisfy(conditions, symbols, values)) return values;
    }
  return std::nullopt;
}

std::vector<std::vector<int64_t>> rows_to_verify(const Graph& graph, const std::vector<Symbol>& symbols) {
  std::set<int64_t> taken;  // extents of the graph, and sizes of other symbols
  for (const Value& value : graph.values)
    for (const Dim& dim : value.shape)
      if (dim.is_constant()) taken.insert(dim.constant());
  std::vector<int64_t> few, none;
  for (const Symbol& s : symbols) {
    const int64_t least = std::min(std::max<int64_t>(s.min, 2), s.max);
    const int64_t most = s.max - least < kMostSizes ? s.max : least + kMostSizes;
    int64_t size = least;
    while (size < most && taken.contains(size)) ++size;
    few.push_back(taken.contains(size) ? least : size);
    taken.insert(few.back());
    none.push_back(s.min == 0 ? 0 : few.back());
  }
  std::vector<std::vector<int64_t>> out;
  if (auto found = find_satisfying(graph.conditions, symbols, few)) out.push_back(std::move(*found));
  if (none != few && satisfy(graph.conditions, symbols, none)) out.push_back(std::move(none));
  return out;
}

Result<ProgramVerdict> verify_program(const std::string& directory, const Graph& graph, const VerifyOptions& options) {
  const double start = now_s();
  std::vector<Trial> trials;
  const std::vector<Symbol> symbols = given_symbols(graph);
  for (const std::vector<int64_t>& values : rows_to_verify(graph, symbols))
    trials.push_back({name_trial(symbols, values), values_of_all(graph, values)});
  if (trials.empty()) {
    ProgramVerdict verdict;
    verdict.scope = "program", verdict.outputs = static_cast<int>(graph.outputs.size());
    verdict.unchecked.push_back("all outputs: no small sizes satisfy " + graph.conditions[0].text);
    return verdict;
  }
  const double timeout_s = options.hang_s + static_cast<double>(weights_bytes(graph)) / kSlowestRead;
  const auto work = [&](ChildReport& report) {
    keep_pages();
    Verification(directory, graph, trials, options, report).run();
  };
  QCG_TRY(child, run_in_child(timeout_s, work, options.cancel));
  ProgramVerdict verdict;
  verdict.scope = "program";
  verdict.outputs = static_cast<int>(graph.outputs.size());
  for (const std::string& message : child.messages) QCG_CHECK(read_message(message, verdict));
  for (const Trial& trial : trials) verdict.trials.push_back(trial.name);
  if (verdict.checked.size() < trials.size() && !ran_out(child, trials.size()))
    return wrong("program", fmt::format("running it{} ended the process{}",
                                        child.current < 0 ? "" : at(trials[child.current % trials.size()].name),
                                        child.failure.empty() ? "" : ": " + child.failure));
  while (verdict.checked.size() < trials.size()) {
    verdict.unchecked.push_back(fmt::format("all outputs{}: the oracle was stopped: {}",
                                            at(trials[verdict.checked.size()].name), child.failure));
    verdict.checked.push_back(0);
  }
  verdict.wall_s = now_s() - start;
  return verdict;
}

std::string ProgramVerdict::describe() const {
  if (scope != "program") return why;
  std::string where;
  for (size_t t = 0; t < trials.size(); ++t)
    if (checked[t] > 0 && !trials[t].empty()) where += fmt::format("{}{}", where.empty() ? " at " : " and ", trials[t]);
  const int most = checked.empty() ? 0 : *std::max_element(checked.begin(), checked.end());
  return fmt::format("{}{} output{} right{} ({:.1f} s)", most, most < outputs ? fmt::format(" of {}", outputs) : "",
                     outputs == 1 ? "" : "s", where, wall_s);
}

json to_json(const ProgramVerdict& v) {
  return {{"scope", v.scope},   {"why", v.why},         {"outputs", v.outputs},
          {"trials", v.trials}, {"checked", v.checked}, {"unchecked", v.unchecked},
          {"wall_s", v.wall_s}};
}

ProgramVerdict verdict_from_json(const json& in) {
  ProgramVerdict out;
  out.scope = in.at("scope");
  out.why = in.at("why");
  out.outputs = in.at("outputs");
  out.trials = in.at("trials").get<std::vector<std::string>>();
  out.checked = in.at("checked").get<std::vector<int>>();
  out.unchecked = in.at("unchecked").get<std::vector<std::string>>();
  out.wall_s = in.at("wall_s");
  return out;
}

}  // namespace qcg

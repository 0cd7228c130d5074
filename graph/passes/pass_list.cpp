#include "graph/passes/pass_list.h"

#include <algorithm>
#include <chrono>

#include "base/closest.h"
#include "graph/ops/verify.h"
#include "graph/passes/integer_weights.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

#ifdef NDEBUG
constexpr bool kAlwaysVerify = false;
#else
constexpr bool kAlwaysVerify = true;
#endif

const PassInfo* find_pass(std::string_view name) {
  for (const PassInfo& pass : kPasses)
    if (pass.name == name) return &pass;
  return nullptr;
}

Error unknown_pass(std::string_view name) {
  std::string names;
  std::vector<std::string> words;
  for (const PassInfo& pass : kPasses) {
    names += (names.empty() ? "" : ", ") + std::string(pass.name);
    words.emplace_back(pass.name);
  }
  return {ErrorCode::Usage, std::string(name), "there is no such pass" + did_you_mean(name, words),
          "the passes are: " + names};
}

Status check_order(const PassOptions& options) {
  if (options.order.size() > kMostPasses)
    return Error{ErrorCode::Usage, "passes", "the list has " + std::to_string(options.order.size()) + " passes",
                 "at most " + std::to_string(kMostPasses) + " are supported"};
  for (const std::string& name : options.order)
    if (!find_pass(name)) return unknown_pass(name);
  for (const PassInfo& pass : kPasses)
    if (pass.required && !options.order.empty() && std::ranges::count(options.order, pass.name) == 0)
      return Error{ErrorCode::Usage, std::string(pass.name), "the list of passes lacks this required pass",
                   "`qcodegen list passes` shows which passes may be left out"};
  return {};
}

Status check_disabled(const PassOptions& options) {
  for (const std::string& name : options.disabled) {
    const PassInfo* pass = find_pass(name);
    if (!pass) return unknown_pass(name);
    if (pass->required)
      return Error{ErrorCode::Usage, name, "this pass cannot be disabled, because the later steps depend on it",
                   "`qcodegen list passes` shows which passes are optional"};
  }
  return {};
}

Status verify_after(const std::string& passes, const Graph& graph) {
  const Status status = verify_graph(graph);
  if (status.ok()) return {};
  return Error::internal(passes, "left a broken graph: " + status.error().to_string() + "\n" + print_graph(graph));
}

Result<PassReport> run_one(const PassInfo& pass, Graph& graph, const PassOptions& options) {
  PassReport report;
  report.name = pass.name;
  PassContext context{options, report};
  auto start = std::chrono::steady_clock::now();
  QCG_CHECK(pass.run(graph, context));
  report.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (options.verify_after_each || kAlwaysVerify) QCG_CHECK(verify_after("pass " + report.name, graph));
  if (options.after_each) options.after_each(report.name, graph);
  return report;
}

std::vector<const PassInfo*> passes_in_order(const PassOptions& options) {
  std::vector<const PassInfo*> out;
  for (const std::string& name : options.order) out.push_back(find_pass(name));
  for (const PassInfo& pass : kPasses)
    if (options.order.empty()) out.push_back(&pass);
  return out;
}

// A list of one's own may lower before it decomposes. The error names the first operation that the planner has no step
// for.
Status check_lowered(const Graph& graph, const PassOptions& options) {
  if (options.order.empty()) return {};
  for (const Node& node : graph.nodes)
    if (node.op->role == OpRole::pointwise || node.op->role == OpRole::quantize)
      return Error::unsupported(node.where, node.op->name + " remains after the passes of the list",
                                "run decompose and lower_loops after all passes that create operations");
  return {};
}

}  // namespace

bool runs_pass(const PassOptions& options, std::string_view name) {
  return !options.disabled.contains(std::string(name)) &&
         (options.order.empty() || std::ranges::count(options.order, name) > 0);
}

Result<std::vector<PassReport>> run_passes(Graph& graph, const PassOptions& options) {
  PassCheckpoint none;
  return run_passes(graph, options, none);
}

Result<std::vector<PassReport>> run_passes(Graph& graph, const PassOptions& options, PassCheckpoint& checkpoint) {
  QCG_CHECK(check_order(options));
  QCG_CHECK(check_disabled(options));
  const IntegerWeights integer_weights(graph);
  std::vector<PassReport> reports = checkpoint.reports;
  if (checkpoint.graph) graph = *checkpoint.graph;
  const std::vector<const PassInfo*> order = passes_in_order(options);
  for (size_t i = reports.size(); i < order.size(); ++i) {
    const PassInfo* pass = order[i];
    if (pass->is_judged && !checkpoint.graph) checkpoint = {graph, reports};
    if (options.disabled.count(std::string(pass->name))) {
      PassReport off;
      off.name = pass->name;
      off.notes.push_back("disabled by --disable-pass=" + off.name);
      reports.push_back(std::move(off));
      continue;
    }
    QCG_TRY(report, run_one(*pass, graph, options));
    reports.push_back(std::move(report));
  }
  // Always, because what is planned and run is what a broken graph says.
  QCG_CHECK(verify_after("the passes", graph));
  QCG_CHECK(check_lowered(graph, options));
  auto recognition = std::ranges::find(reports, "recognize_linear", &PassReport::name);
  if (recognition == reports.end()) --recognition;
  recognition->warnings = integer_weights.find_dense(graph, *recognition);
  return reports;
}

Result<PassReport> run_pass(std::string_view name, Graph& graph, const PassOptions& options) {
  const PassInfo* pass = find_pass(name);
  if (!pass) return unknown_pass(name);
  return run_one(*pass, graph, options);
}

}  // namespace qcg

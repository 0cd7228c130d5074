// qcodegen explain: what fused, what did not and why, which kernels would be built. Needs no weights and no compiler.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "cli/report.h"

namespace qcg {

namespace {

nlohmann::json problems_json(const Plan& plan) {
  nlohmann::json out = nlohmann::json::array();
  for (const PlanStep& step : plan.steps) {
    const auto* gemm = std::get_if<Problem>(&plan.problems[step.problem]);
    if (!gemm) continue;
    nlohmann::json epilogue = nlohmann::json::array();
    for (const Output& o : gemm->outputs) epilogue.push_back(o.expr.str());
    out.push_back({{"name", step.name}, {"nodes", step.nodes}, {"scheme", scheme_name(gemm->scheme)}, {"n", gemm->n_total()},
                   {"k", gemm->k}, {"group", gemm->group}, {"segments", gemm->segments.size()},
                   {"k_segments", gemm->k_segments}, {"epilogue", epilogue}});
  }
  return out;
}

int run_explain(const Session& session, CompileFlags& flags) {
  auto options = flags.resolve(session);
  if (!options.ok()) return fail(session, options.error());
  auto explanation = explain_graph(*options);
  if (!explanation.ok()) return fail(session, explanation.error());
  const Plan& plan = explanation->plan;
  if (session.json) {
    print_json({{"passes", passes_json(explanation->passes)}, {"problems", problems_json(plan)},
                {"steps", plan.steps.size()}, {"nodes_read", explanation->nodes_read},
                {"notes", explanation->read.notes}, {"warnings", explanation->read.warnings}});
    return 0;
  }
  for (const std::string& note : explanation->read.notes) fmt::print("note: {}\n", note);
  for (const std::string& warning : explanation->read.warnings) fmt::print("warning: {}\n", warning);
  fmt::print("{}\n", describe_passes(explanation->passes, flags.time_passes));
  Table table({"step", "scheme", "n", "k", "segments", "epilogue"});
  for (const PlanStep& step : plan.steps) {
    const auto* gemm = std::get_if<Problem>(&plan.problems[step.problem]);
    if (!gemm) {
      table.add({step.name, problem_signature(plan.problems[step.problem]).substr(0, 48)});
      continue;
    }
    std::vector<std::string> epilogues;
    for (const Output& o : gemm->outputs) epilogues.push_back(o.expr.str());
    table.add({step.name, std::string(scheme_name(gemm->scheme)), fmt::format("{}", gemm->n_total()), fmt::format("{}", gemm->k),
               fmt::format("{}", gemm->segments.size()), fmt::format("{}", fmt::join(epilogues, " | "))});
  }
  fmt::print("{}steps that would run: {} (see compile --emit=plan, --emit=source)\n", table.str(), plan.steps.size());
  return 0;
}

}  // namespace

void add_explain_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("explain", "what fused, what did not and why");
  auto flags = std::make_shared<CompileFlags>();
  flags->add_pass_flags(*sub);
  sub->footer("Example:\n  qcodegen explain mlp.pt2 --json");
  sub->callback([&session, flags] { session.status = run_explain(session, *flags); });
}

}  // namespace qcg

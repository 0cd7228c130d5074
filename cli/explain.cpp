// qcodegen explain: what fused, what did not and why, which kernels would be built. Needs no weights and no compiler. Of a
// program also what its tuning measured of fusions.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "cli/report.h"
#include "codegen/merge_choice.h"
#include "codegen/origin.h"
#include "codegen/staging.h"

namespace qcg {

namespace {

nlohmann::json problems_json(const Plan& plan) {
  nlohmann::json out = nlohmann::json::array();
  for (const PlanStep& step : plan.steps) {
    const auto* gemm = std::get_if<Problem>(&plan.problems[step.problem]);
    if (!gemm) continue;
    nlohmann::json epilogue = nlohmann::json::array();
    for (const Output& o : gemm->outputs) epilogue.push_back(o.expr.str());
    out.push_back({{"name", step.name},
                   {"nodes", step.nodes},
                   {"scheme", scheme_name(gemm->scheme)},
                   {"n", gemm->n_total()},
                   {"k", gemm->k},
                   {"group", gemm->group},
                   {"segments", gemm->segments.size()},
                   {"k_segments", gemm->k_segments},
                   {"epilogue", epilogue}});
  }
  return out;
}

struct Subject {
  CompileOptions options;
  std::vector<TuneRecord> log;  // of a program
};

// A graph as it would be compiled; or, of a program, the graph it came from as it was compiled.
Result<Subject> resolve_subject(const Session& session, CompileFlags& flags) {
  QCG_TRY(options, flags.resolve(session));
  const std::string program = options.input;
  if (!is_program(program)) {
    QCG_CHECK(refuse_options(flags.of_program, "only a program can have lost its graph"));
    return Subject{std::move(options), {}};
  }
  QCG_CHECK(refuse_options(flags.compiled_with, "a program is explained as it was compiled: only a graph takes this"));
  QCG_TRY(origin, read_origin(program, flags.moved_graph, options.weights));
  origin.passes.disabled.merge(options.passes.disabled);
  if (!options.passes.order.empty()) origin.passes.order = options.passes.order;
  origin.passes.after_each = options.passes.after_each;
  QCG_TRY(records, read_tune_log(program + "/tune.jsonl"));
  return Subject{std::move(origin), std::move(records)};
}

int run_explain(const Session& session, CompileFlags& flags) {
  auto subject = resolve_subject(session, flags);
  if (!subject.ok()) return fail(session, subject.error());
  auto explanation = explain_graph(subject->options);
  if (!explanation.ok()) return fail(session, explanation.error());
  const Plan& plan = explanation->plan;
  const std::vector<MergeReport> merges = logged_merges(subject->log, plan);
  if (session.json) {
    print_json({{"passes", passes_json(explanation->passes)},
                {"problems", problems_json(plan)},
                {"merge_trials", merges_json(merges)},
                {"steps", plan.steps.size()},
                {"nodes_read", explanation->nodes_read},
                {"notes", explanation->read.notes},
                {"warnings", explanation->read.warnings}});
    return 0;
  }
  if (session.verbosity >= 0) {
    for (const std::string& note : explanation->read.notes) show("note: {}\n", note);
    for (const std::string& warning : explanation->read.warnings) show("warning: {}\n", warning);
  }
  show("{}{}\n", describe_passes(explanation->passes, flags.time_passes), describe_merges(merges));
  Table table({"step", "scheme", "n", "k", "segments", "epilogue"});
  for (const PlanStep& step : plan.steps) {
    const auto* gemm = std::get_if<Problem>(&plan.problems[step.problem]);
    if (!gemm) {
      table.add({step.name, problem_signature(plan.problems[step.problem]).substr(0, 48)});
      continue;
    }
    std::vector<std::string> epilogues;
    for (const Output& o : gemm->outputs) epilogues.push_back(o.expr.str());
    table.add({step.name, std::string(scheme_name(gemm->scheme)), fmt::format("{}", gemm->n_total()),
               fmt::format("{}", gemm->k), fmt::format("{}", gemm->segments.size()),
               fmt::format("{}", fmt::join(epilogues, " | "))});
  }
  show("{}steps that would run: {} (see compile --emit=plan, --emit=source)\n", table.str(), plan.steps.size());
  return 0;
}

}  // namespace

void add_explain_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("explain", "what fused, what did not and why");
  auto flags = std::make_shared<CompileFlags>();
  flags->add_pass_flags(*sub, "path");
  flags->of_program = {
      sub->add_option("--graph", flags->moved_graph, "the graph a program was compiled from, if it moved")};
  sub->get_option("path")->description(
      "a torch.export JSON, a .pt2, native JSON, or a program: with what its tuning measured of fusions");
  sub->footer("Examples:\n  qcodegen explain mlp.pt2 --json\n  qcodegen explain mlp.qcg");
  sub->callback([&session, flags] { session.status = run_explain(session, *flags); });
}

}  // namespace qcg

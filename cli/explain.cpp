// qcodegen explain: prints which operations fuse, which do not and why, and the resulting steps. It needs no weights
// and no compiler. For a program it also prints the measured times of fusions.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "cli/report.h"
#include "cli/signature.h"
#include "codegen/compile.h"
#include "codegen/merge_choice.h"
#include "codegen/program/compile_options.h"
#include "codegen/program/origin.h"
#include "codegen/program/program_io.h"
#include "codegen/program/staging.h"

namespace qcg {

namespace {

nlohmann::json problems_json(const Plan& plan) {
  nlohmann::json out = nlohmann::json::array();
  for (const PlanStep& step : plan.steps) {
    const auto* gemm = plan.problems[step.problem].get_if<Problem>();
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

// The column `kind` of a step: the scheme of a linear, or the kind of another step.
std::string kind_for_people(const KernelProblem& problem) {
  const auto* gemm = problem.get_if<Problem>();
  return std::string(gemm ? scheme_name(gemm->scheme) : problem.family().name);
}

nlohmann::json steps_json(const Explanation& explanation) {
  nlohmann::json out = nlohmann::json::array();
  for (const PlanStep& step : explanation.plan.steps) {
    const KernelProblem& problem = explanation.plan.problems[static_cast<size_t>(step.problem)];
    out.push_back({{"name", step.name},
                   {"kind", kind_for_people(problem)},
                   {"module", explanation.source.module_of(step.nodes)},
                   {"nodes", step.nodes},
                   {"formula", problem.family().formula(problem)}});
  }
  return out;
}

std::vector<std::vector<std::string>> step_rows(const Explanation& explanation) {
  std::vector<std::vector<std::string>> rows = {{"step", "kind", "n", "k", "segments", "module", "formula"}};
  for (const PlanStep& step : explanation.plan.steps) {
    const KernelProblem& problem = explanation.plan.problems[static_cast<size_t>(step.problem)];
    const auto* gemm = problem.get_if<Problem>();
    rows.push_back({step.name, kind_for_people(problem), gemm ? fmt::format("{}", gemm->n_total()) : "",
                    gemm ? fmt::format("{}", gemm->k) : "", gemm ? fmt::format("{}", gemm->segments.size()) : "",
                    explanation.source.module_of(step.nodes), problem.family().formula(problem)});
  }
  return rows;
}

struct Subject {
  CompileOptions options;
  std::vector<TuneRecord> log;  // of a program; empty for a graph
};

// For a graph, the options of its compile. For a program, its graph with the options of the compile that made it.
Result<Subject> resolve_subject(const Session& session, CompileFlags& flags) {
  QCG_TRY(options, flags.resolve(session));
  const std::string program = options.input;
  if (!is_program(program)) {
    QCG_CHECK(refuse_options(flags.of_program, "this option is for programs, and this is a graph"));
    return Subject{std::move(options), {}};
  }
  QCG_CHECK(refuse_options(flags.compiled_with, "this option is for graphs; a program has the options of its compile"));
  QCG_TRY(manifest, read_manifest_of(program, flags.target->empty() ? "" : options.target));
  QCG_TRY(origin, read_origin(program, flags.moved_graph, options.weights, manifest.target, flags.method));
  origin.passes.disabled.merge(options.passes.disabled);
  if (!options.passes.order.empty()) origin.passes.order = options.passes.order;
  origin.passes.after_each = options.passes.after_each;
  QCG_TRY(records, read_tune_log(program + "/tune.jsonl"));
  std::erase_if(records, [&](const TuneRecord& r) { return !r.is_of(manifest.target); });
  return Subject{std::move(origin), std::move(records)};
}

int run_explain(const Session& session, CompileFlags& flags) {
  auto subject = resolve_subject(session, flags);
  if (!subject.ok()) return fail(session, subject.error());
  auto explanation = explain_graph(subject->options);
  if (!explanation.ok()) return fail(session, explanation.error());
  const Plan& plan = explanation->plan;
  if (const std::string_view caution = device_caution(plan.target.device); !caution.empty())
    explanation->read.warnings.emplace_back(caution);
  const std::vector<MergeReport> merges = logged_merges(subject->log, plan);
  if (session.json) {
    nlohmann::json out = {{"passes", passes_json(explanation->passes)}, {"problems", problems_json(plan)},
                          {"merge_trials", merges_json(merges)},        {"steps", plan.steps.size()},
                          {"step_list", steps_json(*explanation)},      {"nodes_read", explanation->nodes_read},
                          {"notes", explanation->read.notes},           {"warnings", explanation->read.warnings}};
    add_signature(signature_of(explanation->graph), out);
    print_json("explain", out);
    return 0;
  }
  if (session.verbosity >= 0) {
    for (const std::string& note : explanation->read.notes) show("note: {}\n", note);
    for (const std::string& warning : explanation->read.warnings) show("warning: {}\n", warning);
  }
  show("{}\n", describe_signature(signature_of(explanation->graph)));
  show("{}{}\n", describe_passes(explanation->passes, flags.time_passes), describe_merges(merges));
  show("{}{} steps would run (compile --emit=plan and --emit=source show more)\n", print_rows(step_rows(*explanation)),
       plan.steps.size());
  return 0;
}

}  // namespace

void add_explain_command(CLI::App& app, Session& session) {
  auto* sub =
      app.add_subcommand("explain", "print which operations fuse, which do not and why, and the resulting steps");
  auto flags = std::make_shared<CompileFlags>();
  flags->add_pass_flags(*sub, "path");
  flags->of_program = {
      sub->add_option("--graph", flags->moved_graph,
                      "the graph that a program was compiled from (default: its path at that time)"),
      sub->add_option("--method", flags->method, "the method to explain, of a program that has several")};
  sub->get_option("path")->description(
      "a torch.export JSON, a .pt2, native JSON, or a program; for a program also print what its fusions gain");
  sub->get_option("--target")
      ->description(
          "a target of `qcodegen list targets` (default cpu: the best of this host), or one that the program was "
          "compiled for");
  sub->footer("Examples:\n  qcodegen explain mlp.pt2 --json\n  qcodegen explain mlp.qcg");
  sub->callback([&session, flags] { session.status = run_explain(session, *flags); });
}

}  // namespace qcg

// qcodegen inspect: prints the inputs and outputs of a graph or a program. It needs no weights and no compiler, and for
// a program no graph.
#include <fmt/format.h>

#include <filesystem>

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/signature.h"
#include "codegen/program/staging.h"
#include "graph/checkpoints/read_model.h"
#include "runtime/memory.h"

namespace qcg {

namespace {

int64_t total_bytes(const ProgramManifest& manifest) {
  int64_t total = 0;
  for (const auto& [name, file] : manifest.files) total += file.bytes;
  return total;
}

std::vector<std::string> names_of_steps(const ProgramManifest& manifest) {
  std::vector<std::string> names;
  for (const auto& step : manifest.steps) names.push_back(step.name);
  return names;
}

void add_method(const ProgramManifest& manifest, nlohmann::json& out) {
  out["steps"] = names_of_steps(manifest);
  add_signature(signature_of(manifest), out);
}

int inspect_program(const Session& session, const std::string& path) {
  auto text = read_program_file(path + "/manifest.json");
  if (!text.ok()) return fail(session, text.error());
  auto manifest = parse_program_manifest(*text);
  if (!manifest.ok()) return fail(session, manifest.error());
  const auto weights = manifest->files.find("weights.bin");
  const int64_t weight_bytes = weights == manifest->files.end() ? 0 : weights->second.bytes;
  std::vector<const ProgramManifest*> methods = {&*manifest};
  for (const ProgramManifest& other : manifest->others) methods.push_back(&other);
  if (session.json) {
    nlohmann::json out = {{"kind", "program"},
                          {"target", manifest->target},
                          {"generator", manifest->generator},
                          {"weight_bytes", weight_bytes},
                          {"bytes", total_bytes(*manifest)}};
    if (manifest->method.empty()) add_method(*manifest, out);
    else
      for (const ProgramManifest* method : methods) add_method(*method, out["methods"][method->method]);
    print_json("inspect", out);
    return 0;
  }
  put(labelled("program", path,
               fmt::format("{} · qcodegen {} · {} · {} of weights", manifest->target, manifest->generator,
                           format_bytes(static_cast<double>(total_bytes(*manifest))),
                           format_bytes(static_cast<double>(weight_bytes)))));
  for (const ProgramManifest* method : methods) {
    if (!method->method.empty()) put(labelled("method", method->method, ""));
    const std::vector<std::string> steps = names_of_steps(*method);
    put(describe_signature(signature_of(*method)));
    put(labelled("steps", fmt::format("{}", steps.size()), fmt::format("{}", fmt::join(steps, ", "))));
  }
  return 0;
}

int inspect_graph(const Session& session, const std::string& path, const std::vector<std::string>& weights) {
  ReadInfo info;
  auto graph = read_model(path, {.weights = weights}, &info);
  if (!graph.ok()) return fail(session, graph.error());
  const Signature signature = signature_of(*graph);
  if (session.json) {
    nlohmann::json out = {{"kind", "graph"},
                          {"format", info.format},
                          {"torch_version", info.torch_version},
                          {"nodes", graph->nodes.size()},
                          {"weight_bytes", info.weight_bytes},
                          {"notes", info.notes},
                          {"warnings", info.warnings}};
    add_signature(signature, out);
    print_json("inspect", out);
    return 0;
  }
  put(labelled("graph", std::filesystem::path(path).filename().string(),
               fmt::format("{}{} · {} nodes · {} of weights", info.format,
                           info.torch_version.empty() ? "" : ", torch " + info.torch_version, graph->nodes.size(),
                           format_bytes(static_cast<double>(info.weight_bytes)))));
  put(describe_signature(signature));
  for (const std::string& note : info.notes) show("note: {}\n", note);
  for (const std::string& warning : info.warnings) show("warning: {}\n", warning);
  return 0;
}

struct InspectFlags {
  std::string path;
  std::vector<std::string> weights;
};

}  // namespace

void add_inspect_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("inspect", "print inputs, outputs and symbols of a graph or a program");
  auto flags = std::make_shared<InspectFlags>();
  sub->add_option("path", flags->path, "a torch.export JSON, a .pt2, native JSON, or a program directory")->required();
  auto* weights = sub->add_option("--weights", flags->weights,
                                  "the weights of a graph, as for `compile` (default: none, or those in the .pt2)");
  sub->footer("Examples:\n  qcodegen inspect mlp.pt2\n  qcodegen inspect mlp.qcg --json");
  sub->callback([&session, flags, weights] {
    if (!is_program(flags->path)) {
      session.status = inspect_graph(session, flags->path, flags->weights);
      return;
    }
    const Status refused = refuse_options({weights}, "this option is for graphs; a program contains its weights");
    session.status = refused.ok() ? inspect_program(session, flags->path) : fail(session, refused.error());
  });
}

}  // namespace qcg

// qcodegen inspect: prints the inputs and outputs of a graph or a program, and of a program its target, sizes and
// versions. It needs no weights and no compiler, and for a program no graph.
#include <fmt/format.h>

#include <filesystem>

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/signature.h"
#include "codegen/program/program_io.h"
#include "codegen/program/staging.h"
#include "graph/checkpoints/read_model.h"
#include "runtime/memory.h"
#include "runtime/program.h"

namespace qcg {

namespace {

int64_t total_bytes(const ProgramManifest& manifest) {
  int64_t total = 0;
  for (const auto& [name, file] : manifest.files) total += file.bytes;
  return total;
}

int64_t bytes_of(const ProgramManifest& manifest, std::string_view prefix) {
  int64_t total = 0;
  for (const auto& [name, file] : manifest.files)
    if (name.starts_with(prefix)) total += file.bytes;
  return total;
}

std::vector<std::string> names_of_steps(const ProgramManifest& manifest) {
  std::vector<std::string> names;
  for (const auto& step : manifest.steps) names.push_back(step.name);
  return names;
}

// Bytes for temporaries with the least and with the greatest sizes; -1: sizes without a bound, or too large ones.
struct Temporaries {
  int64_t least = -1, most = -1;
};
Temporaries temporaries_of(const ProgramManifest& manifest) {
  std::vector<int64_t> least, most;
  for (const auto& symbol : manifest.symbols) least.push_back(symbol.min), most.push_back(symbol.max);
  const auto at = [&](const std::vector<int64_t>& symbols) {
    const auto bytes = arena_bytes(manifest, symbols);
    return bytes.ok() ? *bytes : -1;
  };
  return {at(least), at(most)};
}

std::string describe_temporaries(const ProgramManifest& manifest) {
  const auto [least, most] = temporaries_of(manifest);
  const auto text = [](int64_t bytes) { return bytes < 0 ? "?" : format_bytes(static_cast<double>(bytes)); };
  return least == most ? text(least) : fmt::format("{} to {}", text(least), text(most));
}

// Why this host cannot run a target of the program; empty: it can, as far as its manifest says.
std::string why_not_here(Host& host, const ProgramManifest& manifest) {
  const Status possible = host.can_run(manifest);
  return possible.ok() ? "" : possible.error().message;
}

struct TargetSummary {
  std::string name, isa, why_not_here;
};
std::vector<TargetSummary> targets_of(Host& host, const ProgramManifest& program) {
  std::vector<TargetSummary> out = {{program.target, program.isa, why_not_here(host, program)}};
  for (const ProgramManifest& other : program.other_targets)
    out.push_back({other.target, other.isa, why_not_here(host, other)});
  return out;
}

void add_method(const ProgramManifest& manifest, nlohmann::json& out) {
  const auto or_null = [](int64_t bytes) { return bytes < 0 ? nlohmann::json() : nlohmann::json(bytes); };
  const auto [least, most] = temporaries_of(manifest);
  out["steps"] = names_of_steps(manifest);
  out["temporary_bytes"] = {{"least", or_null(least)}, {"most", or_null(most)}};
  add_signature(signature_of(manifest), out);
}

nlohmann::json targets_json(const std::vector<TargetSummary>& targets) {
  nlohmann::json out = nlohmann::json::array();
  for (const TargetSummary& target : targets)
    out.push_back({{"target", target.name},
                   {"isa", target.isa},
                   {"runs_here", target.why_not_here.empty()},
                   {"why_not_here", target.why_not_here}});
  return out;
}

int inspect_program(const Session& session, const std::string& path, const std::string& wish) {
  auto program = read_manifest(path);
  if (!program.ok()) return fail(session, program.error());
  Host host;
  const std::vector<TargetSummary> targets = targets_of(host, *program);
  const auto manifest = describe_target(std::move(*program), path, wish);
  if (!manifest.ok()) return fail(session, manifest.error());
  const int64_t weight_bytes = bytes_of(*manifest, "weights.bin"), kernel_bytes = bytes_of(*manifest, "kernels/");
  const std::string missing = why_not_here(host, *manifest);
  std::vector<const ProgramManifest*> methods = {&*manifest};
  for (const ProgramManifest& other : manifest->others) methods.push_back(&other);
  if (session.json) {
    nlohmann::json out = {{"kind", "program"},
                          {"target", manifest->target},
                          {"isa", manifest->isa},
                          {"runs_here", missing.empty()},
                          {"why_not_here", missing},
                          {"generator", manifest->generator},
                          {"format_version", manifest->version},
                          {"kernel_abi", manifest->kernel_abi},
                          {"weight_bytes", weight_bytes},
                          {"kernel_bytes", kernel_bytes},
                          {"state_bytes", manifest->state_bytes},
                          {"bytes", total_bytes(*manifest)}};
    if (targets.size() > 1) out["targets"] = targets_json(targets);
    if (manifest->method.empty()) add_method(*manifest, out);
    else
      for (const ProgramManifest* method : methods) add_method(*method, out["methods"][method->method]);
    print_json("inspect", out);
    return 0;
  }
  put(labelled("program", path,
               fmt::format("{} · qcodegen {} · format {} · kernel ABI {}", manifest->target, manifest->generator,
                           manifest->version, manifest->kernel_abi)));
  for (const TargetSummary& target : targets)
    if (targets.size() > 1)
      put(labelled("target", target.name, target.why_not_here.empty() ? "can run here" : target.why_not_here));
  put(labelled("host", missing.empty() ? "can run it" : "cannot run it", missing));
  put(labelled(
      "size", format_bytes(static_cast<double>(total_bytes(*manifest))),
      fmt::format("{} of weights · {} of kernels · {} of state", format_bytes(static_cast<double>(weight_bytes)),
                  format_bytes(static_cast<double>(kernel_bytes)),
                  format_bytes(static_cast<double>(manifest->state_bytes)))));
  for (const ProgramManifest* method : methods) {
    if (!method->method.empty()) put(labelled("method", method->method, ""));
    const std::vector<std::string> steps = names_of_steps(*method);
    put(describe_signature(signature_of(*method)));
    put(labelled("memory", describe_temporaries(*method), "for temporaries"));
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
  std::string path, target;
  std::vector<std::string> weights;
};

}  // namespace

void add_inspect_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand(
      "inspect",
      "print inputs, outputs, symbols, states, sizes and versions of a program, or what a graph has of them");
  auto flags = std::make_shared<InspectFlags>();
  sub->add_option("path", flags->path, "a torch.export JSON, a .pt2, native JSON, or a program directory")->required();
  auto* weights = sub->add_option("--weights", flags->weights,
                                  "the weights of a graph, as for `compile` (default: none, or those in the .pt2)");
  auto* target = sub->add_option("--target", flags->target,
                                 "the target to describe, of a program that was compiled for several (default: the "
                                 "best that this machine can run)");
  sub->footer("Examples:\n  qcodegen inspect mlp.pt2\n  qcodegen inspect mlp.qcg --json");
  sub->callback([&session, flags, weights, target] {
    if (!is_program(flags->path)) {
      const Status refused = refuse_options({target}, "this option is for programs; a graph has no target");
      session.status =
          refused.ok() ? inspect_graph(session, flags->path, flags->weights) : fail(session, refused.error());
      return;
    }
    const Status refused = refuse_options({weights}, "this option is for graphs; a program contains its weights");
    session.status =
        refused.ok() ? inspect_program(session, flags->path, flags->target) : fail(session, refused.error());
  });
}

}  // namespace qcg

// qcodegen report: writes a page about a program, which a browser opens without a network.
#include <fmt/format.h>

#include "base/output_file.h"
#include "cli/cli.h"
#include "cli/page/page.h"
#include "cli/report.h"
#include "codegen/program/staging.h"

namespace qcg {

namespace {

struct ReportFlags {
  PageSource source;
  std::string output = "report.html", other;
};

struct Written {
  size_t bytes = 0;
  nlohmann::json data;
};

Result<Written> write_report(const ReportFlags& flags, ProgressLine& progress) {
  std::vector<PageProgram> programs;
  for (const PageSource& source : {flags.source, PageSource{.program = flags.other}}) {
    if (source.program.empty()) continue;
    if (!is_program(source.program))
      return Error::bad_input(source.program, "is no program directory", "name what `qcodegen compile -o` wrote");
    progress.show("read " + source.program + " and its graph");
    QCG_TRY(program, read_page_program(source));
    programs.push_back(std::move(program));
  }
  progress.show("write " + flags.output);
  Written out{0, page_data(programs)};
  const std::string html = page_html(out.data);
  out.bytes = html.size();
  QCG_CHECK(write_output(
      flags.output, [&](std::FILE* file) { return std::fwrite(html.data(), 1, html.size(), file) == html.size(); }));
  return out;
}

int run_report(const Session& session, const ReportFlags& flags) {
  ProgressLine progress(session);
  const auto written = write_report(flags, progress);
  progress.clear();
  if (!written.ok()) return fail(session, written.error());
  const nlohmann::json& program = written->data["programs"][0];
  const std::string why_no_graph = program["graph"]["why"];
  if (session.json) {
    print_json("report", {{"report", flags.output},
                          {"bytes", written->bytes},
                          {"programs", written->data["programs"].size()},
                          {"steps", program["methods"][0]["steps"].size()},
                          {"nodes", program["graph"]["nodes"].size()},
                          {"records", program["records"].size()},
                          {"why_no_graph", why_no_graph}});
    return 0;
  }
  if (!why_no_graph.empty())
    say("warning: the page has no picture of the graph before the passes: " + why_no_graph + "\n");
  if (session.verbosity >= 0)
    put(labelled("wrote", flags.output,
                 fmt::format("{} · {} · {}", format_bytes(static_cast<double>(written->bytes)),
                             count_of(std::ssize(program["methods"][0]["steps"]), "step"),
                             count_of(std::ssize(program["records"]), "tune record"))));
  return 0;
}

}  // namespace

void add_report_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand(
      "report", "write one HTML file about a program: its graph, kernels, roofline, tuning, memory and cache");
  auto flags = std::make_shared<ReportFlags>();
  sub->add_option("program", flags->source.program, "a program directory")->required();
  sub->add_option("-o,--output", flags->output, "the HTML file to write")->capture_default_str();
  sub->add_option("--compare", flags->other, "another program of the same model to compare it with");
  sub->add_option("--target", flags->source.target,
                  "the target to write about, of a program that was compiled for several (default: the best that this "
                  "machine can run)");
  sub->add_option("--graph", flags->source.graph,
                  "the graph that the program was compiled from (default: its path at that time)");
  sub->add_option("--weights", flags->source.weights, "the weights of that graph (default: their paths at that time)");
  sub->footer(
      "Examples:\n  qcodegen report mlp.qcg -o report.html\n  qcodegen report new.qcg --compare old.qcg -o "
      "report.html");
  sub->callback([&session, flags] { session.status = run_report(session, *flags); });
}

}  // namespace qcg

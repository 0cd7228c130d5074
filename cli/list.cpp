// qcodegen list: the tables the project is made of.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "cli/cli.h"
#include "cli/report.h"
#include "codegen/cuda.h"
#include "codegen/problem.h"
#include "graph/op_schema.h"
#include "graph/passes/pass_list.h"
#include "graph/scheme.h"

namespace qcg {

namespace {

using Rows = std::vector<std::vector<std::string>>;  // the first is the header
using ListRows = Rows (*)();

Rows list_targets() {
  Rows rows = {{"name", "host", "summary", "flags"}};
  for (const IsaInfo& isa : isa_table()) {
    const std::string missing = why_isa_unavailable(isa.isa);
    rows.push_back({(isa.device == Device::cpu ? "cpu:" : "cuda:") + std::string(isa.name),
                    missing.empty() ? "yes" : "no: " + missing, std::string(isa.summary), std::string(isa.flags)});
  }
  return rows;
}

Rows list_schemes() {
  Rows rows = {{"name", "weight_bits", "grouped", "quantized_activation", "summary"}};
  for (const SchemeInfo& s : kSchemes)
    rows.push_back({std::string(s.name), s.weight.bits ? fmt::format("{}", s.weight.bits) : "own",
                    s.has_scales ? "yes" : "no", s.quantized_activation ? "yes" : "no", std::string(s.summary)});
  return rows;
}

Rows list_microkernels() {
  Rows rows = {{"name", "isa", "scheme", "activation", "weight", "compute", "weights", "template"}};
  std::vector<Microkernel> all(microkernel_table().begin(), microkernel_table().end());
  all.insert(all.end(), cuda_microkernel_table().begin(), cuda_microkernel_table().end());
  for (const Microkernel& k : all)
    rows.push_back({std::string(k.name), std::string(isa_info(k.isa).name), std::string(scheme_name(k.scheme)),
                    std::string(dtype_name(k.activation)), std::string(dtype_name(k.weight)), std::string(k.compute),
                    k.rounds ? "rounded" : "exact", std::string(k.source)});
  return rows;
}

Rows list_passes() {
  Rows rows = {{"name", "may_disable", "summary"}};
  for (const PassInfo& pass : kPasses)
    rows.push_back({std::string(pass.name), pass.required ? "no" : "yes", std::string(pass.summary)});
  return rows;
}

Rows list_ops() {
  Rows rows = {{"name", "signature"}};
  for (const OpSchema& op : op_table()) rows.push_back({op.name, op.signature});
  return rows;
}

constexpr size_t kWidth = 100;

std::vector<std::string> lines_of_table(const Rows& rows, size_t columns) {
  const auto cells = [&](size_t r) { return std::vector<std::string>(rows[r].begin(), rows[r].begin() + columns); };
  Table table(cells(0));
  for (size_t r = 1; r < rows.size(); ++r) table.add(cells(r));
  std::istringstream text(table.str());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// Indented, broken between words.
void print_below(const std::string& text) {
  std::istringstream words(text);
  std::string line = "   ";
  for (std::string word; words >> word; line += " " + word)
    if (line.size() + 1 + word.size() > kWidth) show("{}\n", std::exchange(line, "   "));
  if (line.size() > 4) show("{}\n", line);
}

int run_list(const Session& session, ListRows list_rows) {
  const Rows rows = list_rows();
  if (session.json) {
    nlohmann::json out = nlohmann::json::array();
    for (size_t r = 1; r < rows.size(); ++r) {
      nlohmann::json row;
      for (size_t c = 0; c < rows[r].size(); ++c) row[rows[0][c]] = rows[r][c];
      out.push_back(std::move(row));
    }
    print_json(out);
    return 0;
  }
  // What would make lines longer than kWidth comes below them: flags, signatures.
  std::vector<std::string> lines = lines_of_table(rows, rows[0].size());
  const bool fits = std::all_of(lines.begin(), lines.end(), [](const auto& line) { return line.size() <= kWidth; });
  if (!fits) lines = lines_of_table(rows, rows[0].size() - 1);
  for (size_t r = 0; r < lines.size(); ++r) {
    show("{}\n", lines[r]);
    if (!fits && r > 0) print_below(rows[r].back());
  }
  return 0;
}

}  // namespace

void add_list_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("list", "targets, schemes, microkernels, passes or ops");
  auto what = std::make_shared<ListRows>(nullptr);
  add_choice<ListRows>(*sub, "what", *what,
                       {{"targets", list_targets},
                        {"schemes", list_schemes},
                        {"microkernels", list_microkernels},
                        {"passes", list_passes},
                        {"ops", list_ops}},
                       "the table to print")
      ->required();
  sub->footer(
      "passes are listed in the order they run. A list of one's own (--pass NAME, repeated, or --passes FILE) may leave out\n"
      "those that may be disabled, repeat passes and reorder them; the graph is verified after it.\n\n"
      "Example:\n  qcodegen list schemes");
  sub->callback([&session, what] { session.status = run_list(session, *what); });
}

}  // namespace qcg

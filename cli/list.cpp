// qcodegen list: prints the tables of targets, schemes, microkernels, passes, ops and JSON documents.
#include <fmt/format.h>

#include <iterator>

#include "cli/cli.h"
#include "cli/report.h"
#include "codegen/devices/gemm_device.h"
#include "codegen/gemm/microkernels.h"
#include "codegen/kernel/target.h"
#include "graph/ir/scheme.h"
#include "graph/ops/op_names.h"
#include "graph/ops/op_table.h"
#include "graph/passes/pass_list.h"

namespace qcg {

namespace {

using Rows = std::vector<std::vector<std::string>>;  // the first row is the header
using ListRows = Rows (*)();

Rows list_targets() {
  Rows rows = {{"name", "host", "summary", "flags"}};
  for (const IsaInfo& isa : isa_table()) {
    const std::string missing = why_isa_unavailable(isa.isa);
    rows.push_back({Target{isa.device, isa.isa}.str(), missing.empty() ? "yes" : "no: " + missing,
                    std::string(isa.summary), std::string(isa.flags)});
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
  for (const GemmDevice& device : gemm_devices())
    for (const Microkernel& k : device.microkernels())
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

Rows list_documents() {
  Rows rows = {{"name", "version", "printed_by"}};
  for (const DocumentInfo& d : kDocuments)
    rows.push_back({std::string(d.name), fmt::format("{}", d.version), std::string(d.printed_by)});
  return rows;
}

// The notation of aten's schemas for each ArgKind.
std::string_view type_of(ArgKind kind) {
  static constexpr std::string_view kTypes[] = {
      "Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "int",           "int?",   "int[]",  "int[]?",
      "float",  "float?",  "float[]",  "float[]?",  "bool",          "bool?",  "str",    "str?",
      "dtype",  "dtype?",  "Scalar",   "Scalar?",   "Tensor|Scalar", "Expr[]", "ignored"};
  static_assert(std::size(kTypes) == static_cast<size_t>(ArgKind::ignored) + 1);
  return kTypes[static_cast<size_t>(kind)];
}

nlohmann::json arguments_json(const OpSchema& op) {
  nlohmann::json out = nlohmann::json::array();
  for (const ArgSpec& arg : op.args)
    out.push_back({{"name", arg.name},
                   {"type", type_of(arg.kind)},
                   {"keyword_only", arg.keyword_only},
                   {"default", arg.has_default ? nlohmann::json(arg.default_text) : nlohmann::json()}});
  return out;
}

std::string describe_arguments(const OpSchema& op) {
  Table table({"   argument", "type", "default"});
  for (const ArgSpec& arg : op.args)
    table.add({"   " + arg.name, std::string(type_of(arg.kind)), arg.has_default ? arg.default_text : "required"});
  return fmt::format("{}\n   {}\n{}", op.name, op.signature, table.str());
}

// The rows with this name; the short name of an op selects all its overloads. If there is none, the rows whose names
// contain it.
Rows select_named(const Rows& rows, const std::string& name) {
  Rows exact = {rows[0]}, containing = {rows[0]};
  for (size_t r = 1; r < rows.size(); ++r) {
    const std::string& own = rows[r][0];
    if (own == name || (name.find('.') == name.npos && short_op_name(own) == name)) exact.push_back(rows[r]);
    if (own.find(name) != own.npos) containing.push_back(rows[r]);
  }
  return exact.size() > 1 ? exact : containing;
}

int run_list(const Session& session, ListRows list_rows, const std::string& name) {
  const bool ops = list_rows == list_ops;
  const Rows all = list_rows(), rows = name.empty() ? all : select_named(all, name);
  if (rows.size() == 1) {
    std::vector<std::string> names;
    for (const auto& row : all) names.push_back(row[0]);
    return fail(session, {ErrorCode::Usage, name,
                          "no row of this table has this name" + (ops ? similar_op(name) : did_you_mean(name, names)),
                          "leave the name out to see all rows"});
  }
  if (session.json) {
    nlohmann::json out = nlohmann::json::array();
    for (size_t r = 1; r < rows.size(); ++r) {
      nlohmann::json row;
      for (size_t c = 0; c < rows[r].size(); ++c) row[rows[0][c]] = rows[r][c];
      if (ops) row["arguments"] = arguments_json(*find_op(rows[r][0]));
      out.push_back(std::move(row));
    }
    print_json("list", {{"rows", std::move(out)}});
  } else if (ops && !name.empty()) {
    for (size_t r = 1; r < rows.size(); ++r) put(describe_arguments(*find_op(rows[r][0])));
  } else {
    put(print_rows(rows));
  }
  return 0;
}

}  // namespace

void add_list_command(CLI::App& app, Session& session) {
  auto* sub =
      app.add_subcommand("list", "print the tables of targets, schemes, microkernels, passes, ops or JSON documents");
  auto what = std::make_shared<ListRows>(nullptr);
  auto name = std::make_shared<std::string>();
  add_choice<ListRows>(*sub, "what", *what,
                       {{"targets", list_targets},
                        {"schemes", list_schemes},
                        {"microkernels", list_microkernels},
                        {"passes", list_passes},
                        {"ops", list_ops},
                        {"documents", list_documents}},
                       "the table to print")
      ->required();
  sub->add_option("name", *name,
                  "only this row, or the rows whose names contain this; ops are printed with their arguments "
                  "(default: all)");
  sub->footer(
      "Passes are listed in the order in which they run. Your own list (--pass NAME, repeated, or --passes FILE) may\n"
      "reorder and repeat passes, and omit those that may be disabled. The graph is verified after its last pass.\n\n"
      "Examples:\n  qcodegen list schemes\n  qcodegen list ops linear");
  sub->callback([&session, what, name] { session.status = run_list(session, *what, *name); });
}

}  // namespace qcg

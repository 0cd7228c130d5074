#include "graph/read/torch/export.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "graph/read/files/limits.h"
#include "graph/read/torch/export_reader.h"
#include "graph/read/torch/meta.h"
#include "graph/read/torch/operators.h"
#include "graph/read/torch/symbols.h"

namespace qcg {
namespace {

constexpr int64_t kSchemaMajor = 8;

}  // namespace

Result<TorchExport> TorchExportReader::read() {
  QCG_CHECK(read_versions());
  QCG_TRY(module, root_.object_at("graph_module"));
  QCG_TRY(graph, module.object_at("graph"));
  QCG_TRY(signature, module.object_at("signature"));
  QCG_TRY(nodes, graph.array_at("nodes"));
  if (nodes.size() > kMaxNodes) {
    return nodes.bad("the graph has " + std::to_string(nodes.size()) + " nodes",
                     "at most " + std::to_string(kMaxNodes) + " are supported");
  }
  out_.node_count = nodes.size();
  QCG_TRY(outputs, graph.array_at("outputs"));
  QCG_CHECK(check_operators(nodes, find_unread(nodes, outputs)));
  QCG_TRY(ranges, read_symbol_ranges(root_));
  QCG_CHECK(index_metadata(graph));
  QCG_CHECK(find_mutations(signature, nodes));
  QCG_CHECK(read_inputs(graph, signature));
  out_.graph.symbols = std::move(ranges);  // shape rules ask for them; those that shapes use are declared in the end
  QCG_CHECK(find_measured(nodes));
  read_guards(nodes);
  QCG_CHECK(read_nodes(nodes));
  QCG_CHECK(read_outputs(graph, signature));
  settle_sizes();
  const std::vector<Symbol> narrowed = std::exchange(out_.graph.symbols, {});
  declare_symbols(out_.graph, narrowed);
  note_conditions();
  return std::move(out_);
}

Status TorchExportReader::read_versions() {
  QCG_TRY(schema, root_.object_at("schema_version"));
  QCG_TRY(major, schema.at("major"));
  QCG_TRY(version, major.integer());
  if (version != kSchemaMajor) {
    return major.unsupported(
        "schema version " + std::to_string(version) + " is not supported, only " + std::to_string(kSchemaMajor),
        "export the graph again with torch 2.9 or later");
  }
  if (auto torch = root_.find("torch_version"); torch && torch->is(JsonKind::string)) {
    std::string shown = quote(*torch->string());
    out_.torch_version = shown.substr(1, shown.size() - 2);
  }
  return {};
}

Status TorchExportReader::index_metadata(const JsonCursor& graph) {
  QCG_TRY(tensors, graph.object_at("tensor_values"));
  for (JsonCursor meta : tensors) {
    metas_.emplace(meta.key(), meta);
    has_complex_ = has_complex_ || is_complex_meta(meta);
  }
  if (auto sizes = graph.find("sym_int_values")) {
    QCG_CHECK(sizes->expect(JsonKind::object));
    for (JsonCursor size : *sizes) sizes_.emplace(size.key(), size);
  }
  if (auto reals = graph.find("sym_float_values")) {
    QCG_CHECK(reals->expect(JsonKind::object));
    for (JsonCursor real : *reals) reals_.emplace(real.key(), real);
  }
  if (auto truths = graph.find("sym_bool_values"); truths && truths->is(JsonKind::object))
    for (JsonCursor truth : *truths) truths_.emplace(truth.key(), truth);
  return {};
}

Result<JsonCursor> TorchExportReader::find_meta(const JsonCursor& place, std::string_view name) const {
  auto it = metas_.find(name);
  if (it != metas_.end()) return it->second;
  return place.bad("tensor_values does not describe " + quote(name), kExportGraphAgain);
}

void TorchExportReader::define(std::string_view name, ValueId id) {
  scope_.tensors.emplace(name, id);
  if (regions_ == 0) mutations_.define(name);
}

void TorchExportReader::name_values() {
  for (ValueId id : graph().inputs) names_.insert(graph().value(id).name);
  for (const auto& [fqn, id] : out_.weights) {
    Value& value = graph().value(id);
    value.name = unique_name(names_.contains(fqn) ? value.name : fqn);
  }
}

std::string TorchExportReader::unique_name(const std::string& base) {
  std::string name = base;
  for (size_t i = 1; !names_.insert(name).second; ++i) name = base + "_" + std::to_string(i);
  return name;
}

Result<std::string> TorchExportReader::new_tensor_name(const JsonCursor& argument) const {
  QCG_TRY(field, argument.at("name"));
  QCG_TRY(name, field.name());
  if (scope_.tensors.contains(name))
    return field.bad("the tensor " + quote(name) + " is defined twice", kExportGraphAgain);
  return name;
}

Result<TorchExport> read_torch_export(const JsonDocument& document, KnownConstants constants) {
  return TorchExportReader(document, std::move(constants)).read();
}

}  // namespace qcg

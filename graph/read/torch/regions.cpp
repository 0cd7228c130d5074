#include <set>
#include <utility>

#include "graph/read/files/limits.h"
#include "graph/read/torch/export_reader.h"
#include "graph/read/torch/operators.h"

namespace qcg {
namespace {

// Whether a node's result is certainly no view of what it reads.
bool is_new_memory(const Node& node) { return node.op->role != OpRole::view && node.op->role != OpRole::copy; }

}  // namespace

Status TorchExportReader::read_region(const JsonCursor& node) {
  QCG_TRY(region, graph_of_region(node));
  QCG_TRY(nodes, region.array_at("nodes"));
  out_.node_count += nodes.size();
  if (out_.node_count > kMaxNodes)
    return nodes.bad("the graph has more than " + std::to_string(kMaxNodes) + " nodes", "export a smaller model");
  QCG_TRY(inner, scope_of_region(node, region));
  std::swap(scope_, inner);
  std::unordered_map<std::string_view, JsonCursor> metas, sizes;
  std::swap(metas_, metas), std::swap(sizes_, sizes);
  ++regions_;
  const ValueId first = static_cast<ValueId>(graph().values.size());
  QCG_CHECK(index_metadata(region));
  QCG_CHECK(read_nodes(nodes));
  --regions_;
  std::swap(metas_, metas), std::swap(sizes_, sizes), std::swap(scope_, inner);
  return define_results(node, region, inner, first);
}

Result<TorchScope> TorchExportReader::scope_of_region(const JsonCursor& node, const JsonCursor& region) {
  TorchScope inner;
  QCG_TRY(names, region.array_at("inputs"));
  QCG_TRY(inputs, node.array_at("inputs"));
  auto name = names.begin();
  bool behind_graph = false;
  for (JsonCursor input : inputs) {
    QCG_TRY(argument, input.at("arg"));
    QCG_TRY(value, read_union(argument));
    if (!std::exchange(behind_graph, behind_graph || value.key() == "as_graph")) continue;
    if (!(name != names.end())) return input.bad("the region takes fewer operands", kExportGraphAgain);
    QCG_TRY(inner_value, read_union(*name));
    ++name;
    if (inner_value.key() != value.key())
      return input.bad("the region takes " + quote(inner_value.key()), kExportGraphAgain);
    if (value.key() == "as_tensor") {
      if (regions_ == 0) QCG_CHECK(mutations_.refresh(stored(value)));
      QCG_TRY(id, read_tensor_name(value, scope_));
      QCG_TRY(key, inner_value.string_at("name"));
      inner.tensors.emplace(key, id);
    } else if (const ValueId number = find_number(argument, scope_); number != kNoValue) {
      QCG_TRY(key, inner_value.string_at("as_name"));
      inner.numbers.emplace(key, number);
    } else if (value.key() == "as_sym_int") {
      QCG_TRY(size, read_sym_int_argument(value, scope_));
      QCG_TRY(key, inner_value.string_at("as_name"));
      inner.sym_ints.emplace(key, std::move(size));
    }
  }
  if (name != names.end()) return names.bad("the region takes more operands", kExportGraphAgain);
  return inner;
}

Status TorchExportReader::define_results(const JsonCursor& node, const JsonCursor& region, const TorchScope& inner,
                                         ValueId first) {
  QCG_TRY(given, region.array_at("outputs"));
  QCG_TRY(outputs, node.array_at("outputs"));
  std::vector<JsonCursor> names;
  for (JsonCursor output : outputs) {
    QCG_TRY(value, read_union(output));
    if (value.key() != "as_tensors") names.push_back(value);
    else
      for (JsonCursor one : value) names.push_back(one);
  }
  // Whether no result is a view of another one, or of what the region takes.
  bool each_is_new = true;
  std::set<ValueId> results;
  for (JsonCursor output : given) {
    QCG_TRY(value, read_union(output));
    if (value.key() != "as_tensor") continue;
    QCG_TRY(id, read_tensor_name(value, inner));
    const Value& result = graph().value(id);
    each_is_new = each_is_new && results.insert(id).second && id >= first && result.kind == ValueKind::node &&
                  is_new_memory(graph().nodes[result.producer]);
  }
  size_t at = 0;
  for (JsonCursor output : given) {
    QCG_TRY(value, read_union(output));
    if (at == names.size()) return outputs.bad("the region gives more results", kExportGraphAgain);
    const JsonCursor& to = names[at++];
    if (value.key() == "as_sym_int" && to.key() == "as_sym_int") {
      QCG_TRY(size, read_sym_int_argument(value, inner));
      QCG_TRY(name, to.string_at("as_name"));
      scope_.sym_ints.emplace(name, std::move(size));
    }
    if (value.key() != "as_tensor") continue;
    QCG_TRY(id, read_tensor_name(value, inner));
    QCG_TRY(name, new_tensor_name(to));
    if (mutations_.changes(stored(to)) && !each_is_new)
      return to.unsupported("the graph writes to " + quote(name) +
                                ", which a region under torch.no_grad() or "
                                "torch.autocast made",
                            kExportWithoutGrad);
    define(stored(to), id);
  }
  return {};
}

}  // namespace qcg

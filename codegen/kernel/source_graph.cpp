#include "codegen/kernel/source_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace qcg {

namespace {

constexpr size_t kMostLines = 256, kMostConstants = 128;  // of one kernel
constexpr size_t kLongestLine = 1000;                     // a concatenation may have thousands of arguments

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

int64_t count_elements(const Value& value) {
  const Dim elements = product(value.shape);
  return elements.valid() && elements.is_constant() ? elements.constant() : 0;
}

// Names that exporters make up for tensors that have none.
bool is_made_up(std::string_view name) {
  return name.starts_with("lifted_tensor") || name.starts_with("_tensor_constant") ||
         name.starts_with("_frozen_param") || is_number(name);
}

std::string common_path(const std::string& a, const std::string& b) {
  size_t same = 0;
  for (size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
    const bool a_ends = i == a.size() || a[i] == '.', b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) same = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) break;
  }
  return a.substr(0, same);
}

}  // namespace

std::string short_label(std::string_view path) {
  size_t begin = path.rfind('.') + 1;  // npos + 1 == 0
  while (begin > 0 && is_number(path.substr(begin, path.find('.', begin) - begin)))
    begin = begin < 2 ? 0 : path.rfind('.', begin - 2) + 1;
  const std::string label(path.substr(begin));
  return is_number(label.substr(0, label.find('.'))) ? "layer." + label : label;
}

std::string module_of_weight(std::string_view name) {
  std::string_view path = name.substr(0, name.find(".parametrizations."));
  for (std::string_view tail : {".weight", ".qweight", ".weight_packed"})
    if (path.size() == name.size() && path.ends_with(tail)) path.remove_suffix(tail.size());
  return std::string(path);
}

SourceGraph::SourceGraph(const Graph& graph, std::map<std::string, std::string> modules)
    : graph_(graph), modules_(std::move(modules)), constant_(graph.values.size()) {
  largest_.assign(graph_.values.size(), kNoValue);
  for (ValueId id = 0; id < graph_.values.size(); ++id) {
    Value& value = graph_.value(id);
    value.data = {};
    values_.emplace(value.name, id);
    if (value.kind == ValueKind::parameter) constant_[id] = true, largest_[id] = id;
  }
  for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
    const Node& node = graph_.nodes[id];
    for (const std::string& origin : node.origins) nodes_.emplace(origin, id);
    bool constant = true;
    ValueId largest = kNoValue;
    for_each_input(node, [&](ValueId input) {
      constant = constant && constant_[input];
      if (graph_.value(input).kind == ValueKind::parameter) readers_.emplace(input, id);
      const ValueId weight = largest_[input];
      if (weight == kNoValue) return;
      if (largest == kNoValue || count_elements(graph_.value(weight)) > count_elements(graph_.value(largest)))
        largest = weight;
    });
    for (ValueId out : node.outputs) constant_[out] = constant, largest_[out] = constant ? largest : kNoValue;
  }
}

std::vector<NodeId> SourceGraph::find_nodes(const std::vector<std::string>& names) const {
  std::vector<NodeId> found;
  std::set<NodeId> seen;
  const auto add = [&](NodeId id) {
    if (seen.insert(id).second) found.push_back(id);
  };
  for (const std::string& name : names)
    if (const auto at = nodes_.find(name); at != nodes_.end()) add(at->second);
  const size_t most = found.size() + kMostConstants;
  for (size_t i = 0; i < found.size() && found.size() < most; ++i)
    for_each_input(graph_.nodes[found[i]], [&](ValueId input) {
      const Value& value = graph_.value(input);
      if (value.kind == ValueKind::node && constant_[input]) add(value.producer);
    });
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> SourceGraph::lines(const std::vector<std::string>& nodes) const {
  const std::vector<NodeId> found = find_nodes(nodes);
  std::vector<std::string> out;
  for (NodeId id : found) {
    if (out.size() == kMostLines) {
      out.push_back(fmt::format("and {} more", found.size() - out.size()));
      break;
    }
    const Node& node = graph_.nodes[id];
    std::string line = print_node(graph_, node);
    line.erase(0, line.find_first_not_of(' '));
    line.erase(line.find_last_not_of('\n') + 1);
    if (line.size() > kLongestLine) line = line.substr(0, kLongestLine) + " ...";
    out.push_back(node.source.empty() ? std::move(line) : line + "  " + node.source);
  }
  return out;
}

std::string SourceGraph::module_of(const std::vector<std::string>& nodes) const {
  std::string common;
  bool first = true;
  for (const std::string& node : nodes) {
    const auto at = modules_.find(node);
    if (at == modules_.end()) return "";
    common = first ? at->second : common_path(common, at->second);
    first = false;
  }
  return common;
}

// The weight of the source graph that `name` stands for: passes append to names, ".unpacked" or ".view_1".
std::string SourceGraph::origin_of(const std::string& name) const {
  for (std::string_view prefix = name; !prefix.empty(); prefix = prefix.substr(0, prefix.rfind('.'))) {
    const auto at = values_.find(prefix);
    if (at != values_.end() && largest_[at->second] != kNoValue) return graph_.value(largest_[at->second]).name;
    if (prefix.find('.') == std::string_view::npos) break;
  }
  return name;
}

std::string SourceGraph::weight_path(const std::string& name) const {
  const std::string weight = origin_of(name);
  std::string path = module_of_weight(weight);
  if (!is_made_up(path)) return path;
  const auto at = values_.find(weight);
  const auto reader = at == values_.end() ? readers_.end() : readers_.find(at->second);
  if (reader == readers_.end()) return path;
  const std::string module = module_of(graph_.nodes[reader->second].origins);
  return module.empty() ? path : module;
}

std::string SourceGraph::op_of(const std::string& node) const {
  const auto at = nodes_.find(node);
  if (at == nodes_.end()) return "";
  std::string_view op = graph_.nodes[at->second].op->name;
  op = op.substr(op.find('.') + 1);
  return std::string(op.substr(0, op.find('.')));
}

}  // namespace qcg

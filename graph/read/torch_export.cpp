#include "graph/read/torch_export.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "graph/ops/complex_pairs.h"
#include "graph/ops/infer.h"
#include "graph/ops/size_values.h"
#include "graph/ops/verify.h"
#include "graph/read/limits.h"
#include "graph/read/mutations.h"
#include "graph/read/torch_args.h"
#include "graph/read/torch_meta.h"
#include "graph/read/torch_operators.h"
#include "graph/read/torch_source.h"
#include "graph/read/torch_symbols.h"

namespace qcg {
namespace {

constexpr int64_t kSchemaMajor = 8;
constexpr size_t kMaxNodeItems = 4096;  // inputs or outputs of one node
constexpr const char *kExportGraphAgain = "export the graph again with torch.export",
                     *kExportWithoutGrad = "export the whole model under torch.no_grad(), without autocast";

class TorchExportReader {
 public:
  explicit TorchExportReader(const JsonDocument& document) : root_(document.root()) {}

  Result<TorchExport> read() {
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
    QCG_CHECK(check_operators(nodes));
    QCG_TRY(ranges, read_symbol_ranges(root_));
    ranges_ = ranges;
    QCG_CHECK(index_metadata(graph));
    QCG_CHECK(find_mutations(graph, signature, nodes));
    QCG_CHECK(read_inputs(graph, signature));
    QCG_CHECK(read_nodes(nodes));
    QCG_CHECK(read_outputs(graph, signature));
    declare_symbols(out_.graph, ranges);
    return std::move(out_);
  }

 private:
  Status read_versions() {
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

  Status index_metadata(const JsonCursor& graph) {
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
    return {};
  }

  Result<JsonCursor> find_meta(const JsonCursor& place, std::string_view name) const {
    auto it = metas_.find(name);
    if (it != metas_.end()) return it->second;
    return place.bad("tensor_values does not describe " + quote(name), kExportGraphAgain);
  }

  // ---- what the graph changes: declared by a signature whose nodes are functional, found in the nodes of training IR

  Status find_mutations(const JsonCursor& graph, const JsonCursor& signature, const JsonCursor& nodes) {
    QCG_TRY(specs, signature.array_at("output_specs"));
    for (JsonCursor spec_union : specs) {
      QCG_TRY(spec, read_union(spec_union));
      const bool buffer = spec.key() == "buffer_mutation";
      if (!buffer && spec.key() != "user_input_mutation") continue;
      QCG_TRY(name_at, spec.at(buffer ? "buffer_name" : "user_input_name"));
      QCG_TRY(name, name_at.name());
      QCG_TRY(argument, spec.object_at("arg"));
      QCG_TRY(value, argument.at("name"));
      if (!(buffer ? next_of_buffer_ : next_of_input_).emplace(std::move(name), value).second)
        return name_at.bad("it is changed twice", kExportGraphAgain);
    }
    QCG_TRY(inputs, graph.array_at("inputs"));
    std::unordered_set<std::string_view> placeholders;
    for (JsonCursor input : inputs) {
      QCG_TRY(argument, read_union(input));
      if (argument.key() != "as_tensor") continue;
      QCG_TRY(name, argument.string_at("name"));
      placeholders.insert(name);
    }
    return mutations_.scan(nodes, placeholders, [this](std::string_view name) {
      const auto at = metas_.find(name);
      if (at == metas_.end()) return false;
      const auto meta = read_constant_tensor_meta(at->second);
      return meta.ok() && !meta->is_contiguous();
    });
  }

  // The value that a state or an input has after the run.
  Result<ValueId> next_value(std::string_view placeholder,
                             const std::map<std::string, JsonCursor, std::less<>>& declared, std::string_view name) {
    const auto at = declared.find(name);
    if (at == declared.end()) return scope_.tensors.at(placeholder);
    QCG_TRY(value, at->second.string());
    const auto id = scope_.tensors.find(value);
    if (id == scope_.tensors.end()) return at->second.bad("there is no tensor " + quote(value), kExportGraphAgain);
    return id->second;
  }

  // ---- inputs

  Status read_inputs(const JsonCursor& graph, const JsonCursor& signature) {
    QCG_TRY(inputs, graph.array_at("inputs"));
    QCG_TRY(specs, signature.array_at("input_specs"));
    if (inputs.size() != specs.size()) {
      return specs.bad(
          "there are " + std::to_string(specs.size()) + " specs for " + std::to_string(inputs.size()) + " graph inputs",
          kExportGraphAgain);
    }
    auto input = inputs.begin();
    for (JsonCursor spec : specs) {
      QCG_CHECK(read_input(*input, spec));
      ++input;
    }
    name_values();
    return {};
  }

  Status read_input(const JsonCursor& input, const JsonCursor& spec_union) {
    QCG_TRY(spec, read_union(spec_union));
    QCG_TRY(argument, read_union(input));
    std::string_view kind = spec.key();
    if (kind == "constant_input") return {};  // baked into the graph already
    if (kind == "user_input") return read_user_input(argument);
    if (kind == "parameter") return read_parameter(argument, spec, "parameter_name");
    if (kind == "buffer") return read_parameter(argument, spec, "buffer_name");
    if (kind == "tensor_constant") return read_parameter(argument, spec, "tensor_constant_name");
    if (kind == "custom_obj") {
      return spec.unsupported("the graph takes a custom object",
                              "replace TorchScript objects (torchbind) by tensors before exporting");
    }
    if (kind == "token")
      return spec.unsupported("the graph has effect tokens", "remove operators with side effects before exporting");
    return spec.unsupported("unknown kind of input " + quote(kind), kExportGraphAgain);
  }

  Status read_user_input(const JsonCursor& argument) {
    std::string_view kind = argument.key();
    if (kind == "as_tensor") {
      QCG_TRY(name, new_tensor_name(argument));
      QCG_TRY(meta_at, find_meta(argument, name));
      QCG_TRY(meta, read_tensor_meta(meta_at));
      if (meta.is_complex)
        return argument.unsupported("the graph input " + quote(name) + " has complex numbers",
                                    "pass torch.view_as_real of it, and view it as complex numbers in the model");
      define(stored(argument), graph().add_input(name, meta.dtype, std::move(meta.sizes)));
      if (next_of_input_.contains(name) || mutations_.changes(stored(argument)))
        changed_inputs_.push_back(stored(argument));
      return {};
    }
    bool constant =
        kind == "as_none" || kind == "as_int" || kind == "as_float" || kind == "as_bool" || kind == "as_string";
    if (constant) return {};
    return argument.unsupported(
        "a graph input is not a tensor (" + quote(kind) + ")",
        "pass tensors only; sizes follow from tensor shapes, lists of tensors are flattened by torch.export");
  }

  Status read_parameter(const JsonCursor& argument, const JsonCursor& spec, std::string_view name_key) {
    if (argument.key() != "as_tensor") return argument.bad("a parameter must be a tensor", kExportGraphAgain);
    QCG_TRY(name, new_tensor_name(argument));
    QCG_TRY(spec_arg, spec.object_at("arg"));
    QCG_TRY(spec_name, spec_arg.string_at("name"));
    if (spec_name != name)
      return spec_arg.bad("the signature names " + quote(spec_name) + " where the graph has " + quote(name),
                          kExportGraphAgain);
    QCG_TRY(fqn_at, spec.at(name_key));
    QCG_TRY(fqn, fqn_at.name());
    if (out_.weights.contains(fqn))
      return fqn_at.bad("the weight " + quote(fqn) + " is declared twice", kExportGraphAgain);
    QCG_TRY(meta, find_meta(argument, name));
    QCG_TRY(tensor, read_constant_tensor_meta(meta));
    const bool buffer = name_key == "buffer_name", written = mutations_.changes(stored(argument));
    if (written && !buffer)
      return fqn_at.unsupported(
          "the graph writes to " + quote(fqn) + ", which is a parameter or a constant",
          "register it as a buffer of the model (register_buffer) before exporting: what a model changes is kept from "
          "run "
          "to run only in its buffers; of a static cache of transformers that is TorchExportableModuleWithStaticCache");
    const bool state = buffer && (written || next_of_buffer_.contains(fqn));
    const ValueId id =
        state ? graph().add_state(fqn, name, std::move(tensor)) : graph().add_parameter(name, std::move(tensor));
    if (is_complex_meta(meta)) complex_values_.insert(id);
    define(stored(argument), id);
    if (state) state_placeholders_.push_back(stored(argument));
    out_.weights.emplace(std::move(fqn), id);
    return {};
  }

  void define(std::string_view name, ValueId id) {
    scope_.tensors.emplace(name, id);
    if (regions_ == 0) mutations_.define(name);
  }

  // Value names are unique in a graph, but a file's weight names are a space of their own: inputs keep theirs first,
  // because users see them.
  void name_values() {
    for (ValueId id : graph().inputs) names_.insert(graph().value(id).name);
    for (const auto& [fqn, id] : out_.weights) {
      Value& value = graph().value(id);
      value.name = unique_name(names_.contains(fqn) ? value.name : fqn);
    }
  }

  std::string unique_name(const std::string& base) {
    std::string name = base;
    for (size_t i = 1; !names_.insert(name).second; ++i) name = base + "_" + std::to_string(i);
    return name;
  }

  // The name an {"name": ...} argument introduces: it must be new.
  Result<std::string> new_tensor_name(const JsonCursor& argument) const {
    QCG_TRY(field, argument.at("name"));
    QCG_TRY(name, field.name());
    if (scope_.tensors.contains(name))
      return field.bad("the tensor " + quote(name) + " is defined twice", kExportGraphAgain);
    return name;
  }
  static std::string_view stored(const JsonCursor& argument) { return *argument.string_at("name"); }

  // ---- nodes

  Status read_nodes(const JsonCursor& nodes) {
    std::string path = nodes.path();
    size_t position = 0;
    for (JsonCursor node : nodes) {
      std::string_view target = *node.string_at("target");  // check_operators read it before
      switch (classify_target(target)) {
        case TorchTarget::size_check: break;
        case TorchTarget::symbolic: QCG_CHECK(read_symbolic(node)); break;
        case TorchTarget::region: QCG_CHECK(read_region(node)); break;
        case TorchTarget::complex:
          QCG_CHECK(read_complex(node, nullptr, path + "[" + std::to_string(position) + "]"));
          break;
        default: QCG_CHECK(read_operator(node, *find_torch_op(target), path + "[" + std::to_string(position) + "]"));
      }
      ++position;
    }
    return {};
  }

  // A graph in the place of a node: names in it are its own. What it takes and gives are matched in order.
  Status read_region(const JsonCursor& node) {
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
    QCG_CHECK(index_metadata(region));
    QCG_CHECK(read_nodes(nodes));
    --regions_;
    std::swap(metas_, metas), std::swap(sizes_, sizes), std::swap(scope_, inner);
    return define_results(node, region, inner);
  }

  Result<TorchScope> scope_of_region(const JsonCursor& node, const JsonCursor& region) {
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
      } else if (value.key() == "as_sym_int") {
        QCG_TRY(size, read_sym_int_argument(value, scope_));
        QCG_TRY(key, inner_value.string_at("as_name"));
        inner.sym_ints.emplace(key, std::move(size));
      }
    }
    if (name != names.end()) return names.bad("the region takes more operands", kExportGraphAgain);
    return inner;
  }

  Status define_results(const JsonCursor& node, const JsonCursor& region, const TorchScope& inner) {
    QCG_TRY(given, region.array_at("outputs"));
    QCG_TRY(outputs, node.array_at("outputs"));
    std::vector<JsonCursor> names;
    for (JsonCursor output : outputs) {
      QCG_TRY(value, read_union(output));
      if (value.key() != "as_tensors") names.push_back(value);
      else
        for (JsonCursor one : value) names.push_back(one);
    }
    size_t at = 0;
    for (JsonCursor output : given) {
      QCG_TRY(value, read_union(output));
      if (at == names.size()) return outputs.bad("the region gives more results", kExportGraphAgain);
      const JsonCursor& to = names[at++];
      if (value.key() != "as_tensor") continue;
      QCG_TRY(id, read_tensor_name(value, inner));
      QCG_TRY(name, new_tensor_name(to));
      if (mutations_.changes(stored(to)))
        return to.unsupported("the graph writes to " + quote(name) +
                                  ", which a region under torch.no_grad() or "
                                  "torch.autocast made",
                              kExportWithoutGrad);
      scope_.tensors.emplace(stored(to), id);
    }
    return {};
  }

  // A node that computes a size: its value is the expression that sym_int_values holds. A comparison (as_sym_bool) only
  // feeds size checks.
  Status read_symbolic(const JsonCursor& node) {
    QCG_TRY(outputs, node.array_at("outputs"));
    for (JsonCursor output : outputs) {
      QCG_TRY(value, read_union(output));
      const std::string_view target = *node.string_at("target");
      if (target == kItem || target == kScalarOf) {
        QCG_CHECK(read_item(node, value));
      } else if (value.key() == "as_sym_float") {
        QCG_CHECK(read_sym_float(value));
      }
      if (value.key() == "as_sym_bool" || value.key() == "as_sym_float") continue;
      if (value.key() != "as_sym_int")
        return value.unsupported("this node must compute a size, it has " + quote(value.key()), kExportGraphAgain);
      QCG_TRY(name_at, value.at("as_name"));
      QCG_TRY(name, name_at.string());
      auto described = sizes_.find(name);
      if (described == sizes_.end())
        return name_at.bad("sym_int_values does not describe " + quote(name), kExportGraphAgain);
      QCG_TRY(written, read_sym_int(described->second));
      const Dim size = with_known(written, known_sizes_);
      const auto is_of_data = [&](const std::string& symbol) { return data_symbols_.contains(symbol); };
      if (target == "torch.ops.aten.sym_storage_offset.default" || std::ranges::any_of(size.symbols(), is_of_data)) {
        scope_.of_data.insert(name);
        continue;
      }
      QCG_CHECK(check_sym_size(node, size));
      if (!scope_.sym_ints.emplace(name, size).second)
        return name_at.bad("the size " + quote(name) + " is defined twice", kExportGraphAgain);
    }
    return {};
  }

  // Others than such numbers that do not depend on sizes may feed what computes sizes.
  Status read_sym_float(const JsonCursor& value) {
    QCG_TRY(name_at, value.at("as_name"));
    QCG_TRY(name, name_at.string());
    const auto described = reals_.find(name);
    const auto expr = described == reals_.end() ? std::nullopt : described->second.find("as_expr");
    if (!expr) return {};
    QCG_TRY(text, expr->string_at("expr_str"));
    if (const auto number = parse_real_expr(text); number.ok() && *number) scope_.sym_floats.emplace(name, **number);
    return {};
  }

  // A number that is computed of sizes is one of them. What data determines may feed assertions, and they are left out.
  Status read_item(const JsonCursor& node, const JsonCursor& value) {
    QCG_TRY(name, node_name(node, {}));
    if (value.key() == "as_sym_int") {
      QCG_TRY(name_at, value.at("as_name"));
      QCG_TRY(described, name_at.string());
      QCG_TRY(inputs, node.array_at("inputs"));
      if (inputs.size() != 1) return inputs.bad("a number is read out of one tensor", kExportGraphAgain);
      QCG_TRY(argument, (*inputs.begin()).at("arg"));
      QCG_TRY(tensor, read_union(argument));
      QCG_TRY(id, read_tensor_name(tensor, scope_));
      const auto meta = sizes_.find(described);
      if (meta == sizes_.end())
        return name_at.bad("sym_int_values does not describe " + quote(described), kExportGraphAgain);
      QCG_TRY(symbol, read_sym_int(meta->second));
      if (const auto size = size_held_by(out_.graph, id)) {
        if (symbol.count_terms() == 1 && symbol.symbols().size() == 1 && symbol == Dim::symbol(symbol.symbols()[0]))
          known_sizes_.emplace(symbol.symbols()[0], *size);
        return {};
      }
      for (std::string& one : symbol.symbols()) data_symbols_.insert(std::move(one));
    } else if (value.key() == "as_sym_float") {
      QCG_TRY(real_at, value.at("as_name"));
      QCG_TRY(real, real_at.string());
      scope_.of_data.insert(real);
    }
    out_.notes.push_back("the assertion that reads " + quote(name) + " is left out: it depends on the data");
    return {};
  }

  // sym_size says which axis it reads, so a file in which the two disagree lies about its shapes.
  Status check_sym_size(const JsonCursor& node, const Dim& size) const {
    if (*node.string_at("target") != "torch.ops.aten.sym_size.int") return {};
    ValueId tensor = kNoValue;
    std::optional<int64_t> axis;
    QCG_TRY(inputs, node.array_at("inputs"));
    for (JsonCursor input : inputs) {
      QCG_TRY(name, input.string_at("name"));
      QCG_TRY(argument, input.at("arg"));
      QCG_TRY(value, read_union(argument));
      if (name == "self" && value.key() == "as_tensor") {
        QCG_TRY(id, read_tensor_name(value, scope_));
        tensor = id;
      } else if (name == "dim" && value.key() == "as_int") {
        QCG_TRY(number, value.integer());
        axis = number;
      }
    }
    if (tensor == kNoValue || !axis) return inputs.bad("sym_size needs a tensor and an axis", kExportGraphAgain);
    const Shape& shape = out_.graph.value(tensor).shape;
    int64_t rank = static_cast<int64_t>(shape.size());
    if (*axis < -rank || *axis >= rank) return inputs.bad("the axis is out of range", kExportGraphAgain);
    const Dim& actual = shape[*axis < 0 ? *axis + rank : *axis];
    if (actual == size) return {};
    return inputs.bad("the axis has size " + actual.str() + ", but sym_int_values says " + size.str(),
                      kExportGraphAgain);
  }

  Status read_operator(const JsonCursor& node, const OpSchema& written, std::string where) {
    if (regions_ > 0 && writes_first_tensor(*node.string_at("target")))
      return node.unsupported("a region under torch.no_grad() or torch.autocast writes to a tensor",
                              kExportWithoutGrad);
    if (regions_ == 0) QCG_CHECK(mutations_.refresh(node));
    const bool follows = regions_ == 0 && mutations_.follows(node);
    if (follows) {
      QCG_TRY(is_alias, read_alias(node));
      if (is_alias) return {};
      if (writes_first_tensor(*node.string_at("target"))) return read_write(node, std::move(where));
    }
    if (is_fourier(written.name)) return read_complex(node, &written, std::move(where));
    if (has_complex_) {
      QCG_TRY(has_complex_operand, takes_complex(node));
      if (has_complex_operand || (is_cast(written) && gives_complex(node)))
        return read_complex(node, &written, std::move(where));
    }
    const OpSchema* reversed = reversed_op(node, written);
    const OpSchema& op = reversed ? *reversed : written;
    QCG_TRY(args, read_arguments(node, op, reversed != nullptr));
    QCG_TRY(outputs, read_results(node, op));
    find_sizes(op, args, outputs);
    std::vector<std::string_view> names = result_names_;
    NodeId id = graph().add_node(&op, std::move(args), std::move(outputs));
    QCG_CHECK(describe(node, id, std::move(where), names));
    const std::vector<ValueId> made = graph().nodes[id].outputs;
    for (size_t i = 0; i < names.size(); ++i) define(names[i], made[i]);
    if (follows && is_view_of_memory(op)) mutations_.add_views(node, id);
    return {};
  }

  // An axis whose size has a symbol of its own, as that of a slice by numbers read out of tensors: the operands say it.
  void find_sizes(const OpSchema& op, const std::vector<Arg>& args, std::vector<Value>& outputs) {
    const auto unknown = [&](const Dim& size) { return !size.is_constant() && is_unbacked(size); };
    const auto has_unknown = [&](const Value& value) { return std::ranges::any_of(value.shape, unknown); };
    if (std::ranges::none_of(outputs, has_unknown)) return;
    Node made;
    made.op = &op;
    made.args = args;
    if (!check_arguments(graph(), made).ok()) return;
    graph().symbols = ranges_;  // those that shapes use are declared when all nodes are read
    const auto types = infer_types(graph(), made);
    graph().symbols.clear();
    if (!types.ok() || types->size() != outputs.size()) return;
    for (size_t i = 0; i < outputs.size(); ++i)
      for (size_t axis = 0; axis < std::min(outputs[i].shape.size(), (*types)[i].shape.size()); ++axis) {
        const Dim &written = outputs[i].shape[axis], &found = (*types)[i].shape[axis];
        if (unknown(written) && !(written == found) && written == Dim::symbol(written.symbols()[0]))
          known_sizes_.emplace(written.symbols()[0], found);
      }
    for (Value& value : outputs)
      for (Dim& size : value.shape) size = with_known(size, known_sizes_);
  }

  // torch names symbols of inputs s0, others u0.
  static bool is_unbacked(const Dim& size) {
    const auto symbols = size.symbols();
    return std::ranges::any_of(symbols, [](const std::string& name) { return name[0] == 'u'; });
  }

  // ---- complex numbers, as pairs

  Result<bool> takes_complex(const JsonCursor& node) const {
    QCG_TRY(inputs, node.array_at("inputs"));
    const auto is_complex = [&](const JsonCursor& argument) {
      const auto name = argument.find("name");
      return name && name->is(JsonKind::string) && is_complex_name(*name->string());
    };
    for (JsonCursor input : inputs) {
      QCG_TRY(argument, input.at("arg"));
      QCG_TRY(value, read_union(argument));
      if (value.key() == "as_tensor" && is_complex(value)) return true;
      if (value.key() != "as_tensors" || !value.is(JsonKind::array)) continue;
      for (JsonCursor one : value)
        if (one.is(JsonKind::object) && is_complex(one)) return true;
    }
    return false;
  }

  bool gives_complex(const JsonCursor& node) const {
    const auto outputs = node.array_at("outputs");
    if (!outputs.ok() || outputs->size() != 1) return false;
    const auto output = read_union(*outputs->begin());
    const auto name = output.ok() && output->key() == "as_tensor" ? output->find("name") : std::nullopt;
    return name && name->is(JsonKind::string) && is_complex_name(*name->string());
  }

  static bool is_cast(const OpSchema& op) {
    return op.name.starts_with("aten.to.") || op.name == "aten._to_copy.default";
  }

  bool is_complex_name(std::string_view name) const {
    const auto meta = metas_.find(name);
    return meta != metas_.end() && is_complex_meta(meta->second);
  }

  // `op`: of the op table; nullptr: an operator that complex numbers alone have.
  Status read_complex(const JsonCursor& node, const OpSchema* op, std::string where) {
    if (mutations_.follows(node))
      return node.unsupported("complex numbers are views of a tensor that the model writes to",
                              "write to pairs of real numbers, and view a copy of them as complex numbers");
    Node like;
    like.where = std::move(where);
    QCG_TRY(origin, node_name(node, {}));
    like.origins = {origin};
    read_module(node, origin);
    std::vector<ValueId> made;
    if (op && op->role == OpRole::assertion) return {};
    if (op && is_cast(*op)) {
      QCG_TRY(result, read_complex_cast(node, like));
      made = {result};
    } else if (op) {
      QCG_TRY(args, read_arguments(node, *op, false));
      QCG_TRY(results, pairs_.compute(
                           *op, std::move(args), [&](ValueId id) { return complex_values_.contains(id); }, like));
      made = std::move(results);
    } else {
      QCG_TRY(operands, complex_operands_of(node));
      QCG_TRY(result, pairs_.compute(*node.string_at("target"), operands, like));
      made = {result};
    }
    return define_complex(node, made);
  }

  // A cast to complex numbers, whose dtype the result says.
  Result<ValueId> read_complex_cast(const JsonCursor& node, const Node& like) {
    QCG_TRY(inputs, node.array_at("inputs"));
    QCG_TRY(outputs, node.array_at("outputs"));
    if (inputs.size() == 0 || outputs.size() != 1) return node.bad("a cast has one result", kExportGraphAgain);
    QCG_TRY(argument, (*inputs.begin()).at("arg"));
    QCG_TRY(operand, read_union(argument));
    QCG_TRY(id, read_tensor_name(operand, scope_));
    QCG_TRY(output, read_union(*outputs.begin()));
    QCG_TRY(name, output.string_at("name"));
    QCG_TRY(meta_at, find_meta(output, name));
    QCG_TRY(meta, read_tensor_meta(meta_at));
    return pairs_.cast({id, complex_values_.contains(id)}, meta.dtype, like);
  }

  Result<std::vector<ComplexPairs::Operand>> complex_operands_of(const JsonCursor& node) const {
    std::vector<ComplexPairs::Operand> operands;
    size_t expected = 0;
    QCG_TRY(inputs, node.array_at("inputs"));
    for (std::string_view wanted : complex_operands(*node.string_at("target"))) {
      for (JsonCursor input : inputs) {
        QCG_TRY(name, input.string_at("name"));
        if (name != wanted) continue;
        QCG_TRY(argument, input.at("arg"));
        QCG_TRY(value, read_union(argument));
        if (value.key() != "as_tensor") return argument.bad("the operand is no tensor", kExportGraphAgain);
        QCG_TRY(id, read_tensor_name(value, scope_));
        operands.push_back({id, complex_values_.contains(id)});
        break;
      }
      if (operands.size() != ++expected)
        return inputs.bad("the operand " + quote(wanted) + " is missing", kExportGraphAgain);
    }
    return operands;
  }

  // The results of such a node, which are as the file describes them.
  Status define_complex(const JsonCursor& node, const std::vector<ValueId>& made) {
    QCG_TRY(outputs, node.array_at("outputs"));
    std::vector<JsonCursor> results;
    for (JsonCursor output : outputs) {
      QCG_TRY(value, read_union(output));
      if (value.key() == "as_tensor") results.push_back(value);
      else if (value.key() == "as_tensors" && value.is(JsonKind::array))
        for (JsonCursor one : value) results.push_back(one);
      else return value.unsupported("an output is not a tensor (" + quote(value.key()) + ")", kExportGraphAgain);
    }
    if (results.size() != made.size())
      return outputs.bad("the node has " + std::to_string(results.size()) + " results", kExportGraphAgain);
    for (size_t i = 0; i < made.size(); ++i) {
      QCG_TRY(name, new_tensor_name(results[i]));
      QCG_TRY(meta_at, find_meta(results[i], name));
      QCG_TRY(meta, read_tensor_meta(meta_at));
      const Value& value = graph().value(made[i]);
      if (meta.dtype != value.dtype || meta.sizes != value.shape)
        return meta_at.bad("the tensor is " + qcg::describe(value) + " by its operands", kExportGraphAgain);
      if (meta.is_complex) complex_values_.insert(made[i]);
      define(stored(results[i]), made[i]);
    }
    return {};
  }

  // Whether the node returns its first tensor, of memory that is written to, as it is.
  Result<bool> read_alias(const JsonCursor& node) {
    QCG_TRY(inputs, node.array_at("inputs"));
    ValueId self = kNoValue;
    for (JsonCursor input : inputs) {
      if (self != kNoValue) break;
      QCG_TRY(argument, input.at("arg"));
      QCG_TRY(value, read_union(argument));
      QCG_TRY(id, read_tensor_name(value, scope_));
      self = id;
    }
    QCG_TRY(outputs, node.array_at("outputs"));
    bool same = outputs.size() == 1;
    for (JsonCursor output : outputs) {
      QCG_TRY(value, read_union(output));
      if (value.key() != "as_tensor") return false;
      QCG_TRY(name, new_tensor_name(value));
      QCG_TRY(meta_at, find_meta(value, name));
      QCG_TRY(meta, read_tensor_meta(meta_at));
      same = same && meta.dtype == graph().value(self).dtype;
    }
    return mutations_.read_alias(node, same);
  }

  // A node that writes to its first tensor: what it computes is the tensor's next value.
  Status read_write(const JsonCursor& node, std::string where) {
    QCG_TRY(target_at, node.at("target"));
    QCG_TRY(target, target_at.string());
    const OpSchema* op = functional_torch_op(target);
    if (!op)
      return target_at.unsupported(quote(target) + " writes to a buffer or an input of the model",
                                   "export with .run_decompositions(), which makes new values of writes");
    QCG_TRY(args, read_arguments(node, *op, false));
    Node made;
    made.op = op;
    made.args = args;
    made.where = where;
    QCG_CHECK(check_arguments(graph(), made));
    QCG_TRY(types, infer_types(graph(), made));
    if (types.size() != 1)
      return target_at.unsupported(quote(target) + " writes more than one tensor", kExportGraphAgain);
    QCG_TRY(outputs, node.array_at("outputs"));
    std::vector<std::string_view> names;
    for (JsonCursor output : outputs) {
      QCG_TRY(value, read_union(output));
      if (value.key() != "as_tensor") continue;
      QCG_TRY(name, new_tensor_name(value));
      names.push_back(stored(value));
    }
    Value result;
    result.name = unique_name(names.empty() ? "written" : std::string(names[0]));
    result.dtype = types[0].dtype;
    result.shape = std::move(types[0].shape);
    const NodeId id = graph().add_node(op, std::move(args), {std::move(result)});
    QCG_CHECK(describe(node, id, std::move(where), names));
    return mutations_.write(node, graph().nodes[id].outputs[0]);
  }

  // Where a node comes from.
  Status describe(const JsonCursor& node, NodeId id, std::string where, const std::vector<std::string_view>& names) {
    Node& made = graph().nodes[id];
    made.where = std::move(where);
    if (auto metadata = node.find("metadata")) {
      if (auto trace = metadata->find("stack_trace"); trace && trace->is(JsonKind::string))
        made.source = source_from_stack_trace(*trace->string());
    }
    QCG_TRY(origin, node_name(node, names));
    read_module(node, origin);
    made.origins.push_back(std::move(origin));
    return {};
  }

  void read_module(const JsonCursor& node, const std::string& name) {
    auto metadata = node.find("metadata");
    auto stack = metadata ? metadata->find("nn_module_stack") : std::nullopt;
    if (!stack || !stack->is(JsonKind::string)) return;
    std::string module = module_from_stack(*stack->string());
    if (!module.empty()) out_.modules.emplace(name, std::move(module));
  }

  static Result<std::string> node_name(const JsonCursor& node, const std::vector<std::string_view>& outputs) {
    if (auto name = node.find("name"); name && !name->is(JsonKind::null)) return name->name();
    if (!outputs.empty()) return std::string(outputs[0]);
    return std::string("node");
  }

  // out_dtype(the op, the dtype of its result, its operands)
  Result<std::vector<Arg>> read_out_dtype(const JsonCursor& inputs) const {
    std::vector<JsonCursor> given;
    for (JsonCursor input : inputs) {
      QCG_TRY(argument, input.at("arg"));
      QCG_TRY(value, read_union(argument));
      given.push_back(value);
    }
    const auto holds = [&](size_t i, std::string_view kind) { return i < given.size() && given[i].key() == kind; };
    if (!holds(0, "as_operator") || !holds(1, "as_scalar_type"))
      return inputs.bad("out_dtype lacks its operator or its dtype", kExportGraphAgain);
    QCG_TRY(name, given[0].string());
    QCG_TRY(dtype, read_export_dtype(given[1]));
    if (name != "torch.ops.aten.mm.default" || dtype != DType::i32)
      return given[0].unsupported("out_dtype of " + quote(name) + " with results of " + std::string(dtype_name(dtype)),
                                  "out_dtype is read where it is aten.mm with results of i32, which is aten._int_mm");
    if (given.size() != 4 || !holds(2, "as_tensor") || !holds(3, "as_tensor"))
      return inputs.bad("aten.mm takes two tensors", kExportGraphAgain);
    QCG_TRY(self, read_tensor_name(given[2], scope_));
    QCG_TRY(mat2, read_tensor_name(given[3], scope_));
    return std::vector<Arg>{self, mat2};
  }

  // `swapped`: self and other changed places.
  Result<std::vector<Arg>> read_arguments(const JsonCursor& node, const OpSchema& op, bool swapped) const {
    QCG_TRY(inputs, node.array_at("inputs"));
    if (inputs.size() > kMaxNodeItems) return inputs.bad("the node has too many inputs", kExportGraphAgain);
    if (*node.string_at("target") == kOutDtype) return read_out_dtype(inputs);
    std::vector<Arg> args(op.args.size());
    std::vector<bool> given(op.args.size());
    for (JsonCursor input : inputs) {
      QCG_TRY(name, input.string_at("name"));
      if (swapped && (name == "self" || name == "other")) name = name == "self" ? "other" : "self";
      int index = op.arg_index(name);
      if (index < 0 && name == "self" && writes_first_tensor(*node.string_at("target"))) index = 0;  // dropout(input)
      if (index < 0)
        return input.bad(op.name + " has no argument " + quote(name),
                         "`qcodegen list ops` shows the arguments of each op");
      if (given[index]) return input.bad("the argument " + quote(name) + " is given twice", kExportGraphAgain);
      given[index] = true;
      QCG_TRY(value, input.at("arg"));
      QCG_TRY(arg, read_torch_arg(value, op.args[index], scope_));
      args[index] = std::move(arg);
    }
    for (size_t i = 0; i < args.size(); ++i) {
      const ArgSpec& spec = op.args[i];
      if (given[i] || spec.kind == ArgKind::ignored) continue;
      if (!spec.has_default) return inputs.bad(op.name + " lacks its argument " + quote(spec.name), kExportGraphAgain);
      args[i] = default_arg(spec);
    }
    return args;
  }

  // The values a node makes; their names go to result_names_. A list of outputs (split) counts one by one.
  Result<std::vector<Value>> read_results(const JsonCursor& node, const OpSchema& op) {
    QCG_TRY(outputs, node.array_at("outputs"));
    result_names_.clear();
    own_names_.clear();
    std::vector<Value> results;
    for (JsonCursor output : outputs) {
      QCG_TRY(value, read_union(output));
      if (value.key() == "as_none") continue;
      if (value.key() == "as_tensor") {
        QCG_CHECK(add_result(value, results));
      } else if (value.key() == "as_tensors") {
        QCG_CHECK(value.expect(JsonKind::array));
        if (value.size() > kMaxNodeItems) return value.bad("the node has too many outputs", kExportGraphAgain);
        for (JsonCursor one : value) QCG_CHECK(add_result(one, results));
      } else {
        return value.unsupported("an output is not a tensor (" + quote(value.key()) + ")", kExportGraphAgain);
      }
    }
    if (op.outputs >= 0 && results.size() != static_cast<size_t>(op.outputs)) {
      return outputs.bad(
          op.name + " has " + std::to_string(op.outputs) + " outputs, the node " + std::to_string(results.size()),
          kExportGraphAgain);
    }
    return results;
  }

  Status add_result(const JsonCursor& argument, std::vector<Value>& results) {
    QCG_TRY(name, new_tensor_name(argument));
    std::string_view key = stored(argument);
    if (!own_names_.insert(key).second) {
      return argument.bad("the tensor " + quote(name) + " is defined twice", kExportGraphAgain);
    }
    QCG_TRY(meta_at, find_meta(argument, name));
    QCG_TRY(meta, read_tensor_meta(meta_at));
    if (meta.is_complex)
      return argument.unsupported(
          "the tensor " + quote(name) + " has complex numbers, which this operator does not make",
          "make them with torch.polar, torch.complex or torch.view_as_complex");
    Value value;
    value.name = unique_name(name);
    value.dtype = meta.dtype;
    for (const Dim& size : meta.sizes) value.shape.push_back(with_known(size, known_sizes_));
    results.push_back(std::move(value));
    result_names_.push_back(key);
    return {};
  }

  // ---- outputs

  Status read_outputs(const JsonCursor& graph, const JsonCursor& signature) {
    QCG_TRY(outputs, graph.array_at("outputs"));
    QCG_TRY(specs, signature.array_at("output_specs"));
    if (outputs.size() != specs.size()) {
      return specs.bad("there are " + std::to_string(specs.size()) + " specs for " + std::to_string(outputs.size()) +
                           " graph outputs",
                       kExportGraphAgain);
    }
    auto output = outputs.begin();
    for (JsonCursor spec : specs) {
      QCG_CHECK(read_output(*output, spec));
      ++output;
    }
    for (const auto& [name, at] : next_of_buffer_)
      if (std::ranges::count(this->graph().states, name) == 0)
        return at.bad("the signature changes the buffer " + quote(name) + ", which the graph does not have",
                      kExportGraphAgain);
    for (const auto& [name, at] : next_of_input_)
      if (std::ranges::count(changed_inputs_, name) == 0)
        return at.bad("the signature changes the input " + quote(name) + ", which the graph does not have",
                      kExportGraphAgain);
    for (std::string_view input : changed_inputs_) {
      const std::string name(input);
      QCG_TRY(after, next_value(input, next_of_input_, name));
      graph_output(after, name);
      out_.notes.push_back("the model changes its input " + quote(name) +
                           " in place: the output of this name is what it becomes");
    }
    for (size_t i = 0; i < state_placeholders_.size(); ++i) {
      const std::string state = this->graph().states[i];
      QCG_TRY(after, next_value(state_placeholders_[i], next_of_buffer_, state));
      graph_output(after, state);
    }
    return {};
  }

  Status read_output(const JsonCursor& output, const JsonCursor& spec_union) {
    QCG_TRY(spec, read_union(spec_union));
    if (spec.key() == "buffer_mutation" || spec.key() == "user_input_mutation") return {};  // find_mutations read it
    if (spec.key() != "user_output") {
      return spec.unsupported("the graph has an output of kind " + quote(spec.key()),
                              "export a model that returns tensors and changes its buffers at most: no loss");
    }
    QCG_TRY(value, read_union(output));
    if (value.key() == "as_none") return {};
    if (value.key() != "as_tensor") {
      return value.unsupported("a graph output is not a tensor (" + quote(value.key()) + ")", "return tensors only");
    }
    if (auto name = value.find("name"); name && name->is(JsonKind::string))
      QCG_CHECK(mutations_.refresh(*name->string()));
    QCG_TRY(id, read_tensor_name(value, scope_));
    if (complex_values_.contains(id))
      return value.unsupported("a graph output has complex numbers", "return torch.view_as_real of it");
    graph_output(id, std::string(stored(value)));
    return {};
  }

  void graph_output(ValueId id, std::string name) {
    graph().outputs.push_back(id);
    graph().output_names.push_back(std::move(name));
  }

  Graph& graph() { return out_.graph; }

  JsonCursor root_;
  TorchExport out_;
  TorchScope scope_;
  Mutations mutations_{out_.graph, scope_, [this](const std::string& base) { return unique_name(base); }};
  std::map<std::string, JsonCursor, std::less<>> next_of_buffer_,
      next_of_input_;                                                  // declared: the names of the next values
  std::vector<std::string_view> state_placeholders_, changed_inputs_;  // in the order of states and of inputs
  std::unordered_map<std::string_view, JsonCursor> metas_;
  std::unordered_map<std::string_view, JsonCursor> sizes_, reals_;
  std::vector<Symbol> ranges_;
  KnownSizes known_sizes_;                        // of symbols that sizes of inputs determine
  std::unordered_set<std::string> data_symbols_;  // of numbers that data determines
  std::unordered_set<std::string> names_;
  std::vector<std::string_view> result_names_;  // of the node at hand
  std::unordered_set<std::string_view> own_names_;
  ComplexPairs pairs_{out_.graph, [this](const std::string& base) { return unique_name(base); }};
  std::unordered_set<ValueId> complex_values_;  // pairs that stand for complex numbers
  bool has_complex_ = false;                    // whether the graph has any
  size_t regions_ = 0;                          // in how many the node at hand lies
};

}  // namespace

Result<TorchExport> read_torch_export(const JsonDocument& document) { return TorchExportReader(document).read(); }

}  // namespace qcg

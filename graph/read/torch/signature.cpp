#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/op_table.h"
#include "graph/read/torch/export_reader.h"
#include "graph/read/torch/meta.h"

namespace qcg {
namespace {

// `what`: "inputs" or "outputs" of the graph. The signature has a spec for each of them, in their order.
template <class Read>
Status read_pairs(const JsonCursor& values, const JsonCursor& specs, const char* what, Read read) {
  if (values.size() != specs.size())
    return specs.bad(
        "there are " + std::to_string(specs.size()) + " specs for " + std::to_string(values.size()) + " graph " + what,
        kExportGraphAgain);
  auto value = values.begin();
  for (JsonCursor spec : specs) {
    QCG_CHECK(read(*value, spec));
    ++value;
  }
  return {};
}

}  // namespace

Status TorchExportReader::find_mutations(const JsonCursor& signature, const JsonCursor& nodes) {
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
  mutations_.scan(nodes, [this](std::string_view name) {
    const auto at = metas_.find(name);
    return at == metas_.end() ? MemoryOrder::unknown : memory_order(at->second);
  });
  return {};
}

Result<ValueId> TorchExportReader::next_value(std::string_view placeholder,
                                              const std::map<std::string, JsonCursor, std::less<>>& declared,
                                              std::string_view name) {
  const auto at = declared.find(name);
  if (at == declared.end()) return scope_.tensors.at(placeholder);
  QCG_TRY(value, at->second.string());
  const auto id = scope_.tensors.find(value);
  if (id == scope_.tensors.end()) return at->second.bad("there is no tensor " + quote(value), kExportGraphAgain);
  return id->second;
}

Status TorchExportReader::read_inputs(const JsonCursor& graph, const JsonCursor& signature) {
  QCG_TRY(inputs, graph.array_at("inputs"));
  QCG_TRY(specs, signature.array_at("input_specs"));
  QCG_CHECK(read_pairs(inputs, specs, "inputs",
                       [&](const JsonCursor& input, const JsonCursor& spec) { return read_input(input, spec); }));
  name_values();
  return {};
}

Status TorchExportReader::read_input(const JsonCursor& input, const JsonCursor& spec_union) {
  QCG_TRY(spec, read_union(spec_union));
  QCG_TRY(argument, read_union(input));
  std::string_view kind = spec.key();
  if (kind == "constant_input" || kind == "user_input") {
    if (kind == "user_input") QCG_CHECK(read_user_input(argument));  // a constant is baked into the graph already
    const bool is_tensor = kind == "user_input" && argument.key() == "as_tensor";
    arguments_.push_back(is_tensor ? scope_.tensors.find(stored(argument))->second : kNoValue);
    return {};
  }
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

Status TorchExportReader::read_user_input(const JsonCursor& argument) {
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
  if (kind == "as_sym_int") return read_size_input(argument);
  bool constant =
      kind == "as_none" || kind == "as_int" || kind == "as_float" || kind == "as_bool" || kind == "as_string";
  if (constant) return {};
  return argument.unsupported(
      "a graph input is not a tensor (" + quote(kind) + ")",
      "pass tensors only; sizes follow from tensor shapes, lists of tensors are flattened by torch.export");
}

Status TorchExportReader::read_size_input(const JsonCursor& argument) {
  QCG_TRY(name_at, argument.at("as_name"));
  QCG_TRY(name, name_at.name());
  const auto described = sizes_.find(name);
  if (described == sizes_.end())
    return name_at.bad("sym_int_values does not describe " + quote(name), kExportGraphAgain);
  QCG_TRY(size, read_sym_int(described->second));
  if (scope_.tensors.contains(name) || !scope_.sym_ints.emplace(stored(argument, "as_name"), size).second)
    return name_at.bad("the input " + quote(name) + " is defined twice", kExportGraphAgain);
  const ValueId id = graph().add_input(name, DType::i64, {});
  if (size.is_constant()) return {};
  if (!is_one_symbol(size))
    return argument.unsupported("the graph input " + quote(name) + " is the size " + size.str(),
                                "give the integer a size of its own (Dim.DYNAMIC), not one derived from others");
  graph().value(id).symbol = size.symbols()[0];
  return {};
}

Status TorchExportReader::read_parameter(const JsonCursor& argument, const JsonCursor& spec,
                                         std::string_view name_key) {
  if (argument.key() != "as_tensor") return argument.bad("a parameter must be a tensor", kExportGraphAgain);
  QCG_TRY(name, new_tensor_name(argument));
  QCG_TRY(spec_arg, spec.object_at("arg"));
  QCG_TRY(spec_name, spec_arg.string_at("name"));
  if (spec_name != name)
    return spec_arg.bad("the signature names " + quote(spec_name) + " where the graph has " + quote(name),
                        kExportGraphAgain);
  QCG_TRY(fqn_at, spec.at(name_key));
  QCG_TRY(fqn, fqn_at.name());
  QCG_TRY(meta, find_meta(argument, name));
  QCG_TRY(tensor, read_constant_tensor_meta(meta));
  // A strict export declares a weight once per module that has it: embedding.weight, and head.weight by its name.
  if (const auto tied = out_.weights.find(fqn); tied != out_.weights.end()) {
    const Value& first = graph().value(tied->second);
    const bool same = first.kind == ValueKind::parameter && first.dtype == tensor.dtype &&
                      first.data.shape == tensor.shape && first.data.strides == tensor.strides;
    if (!same || mutations_.changes(stored(argument)) || next_of_buffer_.contains(fqn))
      return fqn_at.bad("the weight " + quote(fqn) + " is declared twice", kExportGraphAgain);
    if (is_complex_meta(meta)) complex_values_.insert(tied->second);
    define(stored(argument), tied->second);
    return {};
  }
  // Torch 2.6 to 2.11 write the buffers of a static cache as constants, unless the export is strict.
  const bool buffer = name_key == "buffer_name", written = mutations_.changes(stored(argument));
  if (written && name_key == "parameter_name")
    return fqn_at.unsupported(
        "the graph writes to " + quote(fqn) + ", which is a parameter",
        "register it as a buffer of the model (register_buffer) before exporting: what a model changes is kept from "
        "run to run only in its buffers");
  const bool state = written || (buffer && next_of_buffer_.contains(fqn));
  const auto known = constants_.find(fqn);
  if (!state && known != constants_.end() && known->second.dtype == tensor.dtype && known->second.shape == tensor.shape)
    tensor = known->second;
  const ValueId id =
      state ? graph().add_state(fqn, name, std::move(tensor)) : graph().add_parameter(name, std::move(tensor));
  if (is_complex_meta(meta)) complex_values_.insert(id);
  define(stored(argument), id);
  if (state) state_placeholders_.push_back(stored(argument));
  out_.weights.emplace(std::move(fqn), id);
  return {};
}

Status TorchExportReader::read_outputs(const JsonCursor& graph, const JsonCursor& signature) {
  QCG_TRY(outputs, graph.array_at("outputs"));
  QCG_TRY(specs, signature.array_at("output_specs"));
  QCG_CHECK(read_pairs(outputs, specs, "outputs",
                       [&](const JsonCursor& output, const JsonCursor& spec) { return read_output(output, spec); }));
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

Status TorchExportReader::read_output(const JsonCursor& output, const JsonCursor& spec_union) {
  QCG_TRY(spec, read_union(spec_union));
  if (spec.key() == "buffer_mutation" || spec.key() == "user_input_mutation") return {};  // find_mutations read it
  if (spec.key() != "user_output") {
    return spec.unsupported("the graph has an output of kind " + quote(spec.key()),
                            "export a model that returns tensors and changes its buffers at most: no loss");
  }
  QCG_TRY(value, read_union(output));
  if (value.key() == "as_none") return {};
  if (const ValueId number = find_number(output, scope_); number != kNoValue) {
    QCG_TRY(name_at, value.at("as_name"));
    QCG_TRY(name, name_at.name());
    graph_output(number, std::move(name));
    return {};
  }
  if (value.key() == "as_sym_int") return read_size_output(output, value);
  if (value.key() == "as_int" || value.key() == "as_float" || value.key() == "as_bool")
    return read_number_output(output, value);
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

Status TorchExportReader::read_size_output(const JsonCursor& output, const JsonCursor& value) {
  QCG_TRY(size, read_sym_int_argument(value, scope_));
  QCG_TRY(name_at, value.at("as_name"));
  QCG_TRY(name, name_at.name());
  output_of_number(output, std::move(name), size, DType::i64);
  return {};
}

Status TorchExportReader::read_number_output(const JsonCursor& output, const JsonCursor& value) {
  Arg number;
  DType dtype = DType::i64;
  if (value.key() == "as_int") {
    QCG_TRY(n, value.integer());
    number = Dim(n);
  } else if (value.key() == "as_bool") {
    QCG_TRY(truth, value.boolean());
    number = Dim(truth), dtype = DType::boolean;
  } else {
    QCG_TRY(n, value.real());
    number = n, dtype = DType::f64;
  }
  output_of_number(output, unique_name(fmt::format("output_{}", graph().outputs.size())), std::move(number), dtype);
  return {};
}

void TorchExportReader::output_of_number(const JsonCursor& output, std::string name, Arg number, DType dtype) {
  Value value;
  value.name = unique_name(name);
  value.dtype = dtype;
  const NodeId node =
      graph().add_node(find_op("aten.scalar_tensor.default"), {std::move(number), Arg(dtype)}, {std::move(value)});
  graph().nodes[node].where = output.path();
  graph_output(graph().nodes[node].outputs[0], std::move(name));
}

void TorchExportReader::graph_output(ValueId id, std::string name) {
  graph().outputs.push_back(id);
  graph().output_names.push_back(std::move(name));
}

}  // namespace qcg

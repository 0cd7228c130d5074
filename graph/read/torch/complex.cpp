#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/ops/size_values.h"
#include "graph/read/torch/export_reader.h"
#include "graph/read/torch/meta.h"
#include "graph/read/torch/operators.h"
#include "graph/read/torch/symbols.h"

namespace qcg {

Result<bool> TorchExportReader::takes_complex(const JsonCursor& node) {
  QCG_TRY(inputs, node.array_at("inputs"));
  bool takes = false;
  // Memory that was written, and its views, are other values under the same names.
  const auto look_at = [&](const JsonCursor& argument) {
    const auto name = argument.find("name");
    if (!name || !name->is(JsonKind::string) || !is_complex_name(*name->string())) return;
    takes = true;
    const auto value = scope_.tensors.find(*name->string());
    if (value != scope_.tensors.end()) complex_values_.insert(value->second);
  };
  for (JsonCursor input : inputs) {
    QCG_TRY(argument, input.at("arg"));
    QCG_TRY(value, read_union(argument));
    takes = takes || value.key() == "as_complex";
    if (value.key() == "as_tensor") look_at(value);
    if (value.key() != "as_tensors" || !value.is(JsonKind::array)) continue;
    for (JsonCursor one : value)
      if (one.is(JsonKind::object)) look_at(one);
  }
  return takes;
}

bool TorchExportReader::gives_complex(const JsonCursor& node) const {
  const auto outputs = node.array_at("outputs");
  if (!outputs.ok() || outputs->size() != 1) return false;
  const auto output = read_union(*outputs->begin());
  const auto name = output.ok() && output->key() == "as_tensor" ? output->find("name") : std::nullopt;
  return name && name->is(JsonKind::string) && is_complex_name(*name->string());
}

bool is_torch_cast(const OpSchema& op) { return op.name.starts_with("aten.to.") || op.name == "aten._to_copy.default"; }

bool is_torch_fill(const OpSchema& op) {
  constexpr std::string_view kFills[] = {"aten.zeros.",     "aten.ones.",         "aten.full.",      "aten.zeros_like.",
                                         "aten.ones_like.", "aten.full_like.",    "aten.new_zeros.", "aten.new_ones.",
                                         "aten.new_full.",  "aten.scalar_tensor."};
  return std::ranges::any_of(kFills, [&](std::string_view name) { return op.name.starts_with(name); });
}

bool TorchExportReader::is_complex_name(std::string_view name) const {
  const auto meta = metas_.find(name);
  return meta != metas_.end() && is_complex_meta(meta->second);
}

Status TorchExportReader::add_complex_view(const JsonCursor& node, const std::vector<ValueId>& made) {
  const Value& value = graph().value(made[0]);
  const auto memory = scope_.tensors.find(first_tensor(node));
  if (made.size() == 1 && value.kind == ValueKind::node && memory != scope_.tensors.end()) {
    const Node& view = graph().nodes[value.producer];
    const ValueId* self = view.args.empty() ? nullptr : view.args[0].get<ValueId>();
    if (self && *self == memory->second && is_view_of_memory(*view.op)) {
      mutations_.add_views(node, value.producer);
      return {};
    }
  }
  return node.unsupported("complex numbers are views of a tensor that the model writes to",
                          "write to pairs of real numbers, and view a copy of them as complex numbers");
}

Result<ValueId> TorchExportReader::complex_written(const JsonCursor& node, const OpSchema& op, std::vector<Arg> args,
                                                   const Node& like) {
  if (op.name == "aten.fill.Scalar") return read_complex_fill(node, op, like);
  const auto is_pair = [&](ValueId id) { return complex_values_.contains(id); };
  QCG_TRY(results, pairs_.compute(op, std::move(args), is_pair, like));
  return results[0];
}

Status TorchExportReader::convert_pairs(const OpSchema& op, std::vector<Arg>& args, const std::string& where) {
  const std::vector<Arg> given = args;
  QCG_CHECK(convert_numbers(op, args, where));
  for (size_t i = 0; i < args.size(); ++i) {
    const ValueId* id = given[i].get<ValueId>();
    if (id && complex_values_.contains(*id)) complex_values_.insert(*args[i].get<ValueId>());
  }
  return {};
}

Status TorchExportReader::read_complex(const JsonCursor& node, const OpSchema* op, std::string where) {
  if (!op) {  // read_operator did so for the others
    if (regions_ == 0) QCG_CHECK(mutations_.refresh(node));
    if (const auto noted = takes_complex(node); !noted.ok()) return noted.error();
  }
  const bool follows = regions_ == 0 && mutations_.follows(node);
  Node like;
  like.where = std::move(where);
  QCG_TRY(origin, node_name(node, {}));
  like.origins = {origin};
  read_module(node, origin);
  std::vector<ValueId> made;
  if (op && op->role == OpRole::assertion) return {};
  if (op && is_torch_cast(*op)) {
    QCG_TRY(result, read_complex_cast(node, like));
    made = {result};
  } else if (op && is_torch_fill(*op)) {
    QCG_TRY(result, read_complex_fill(node, *op, like));
    made = {result};
  } else if (op) {
    QCG_TRY(args, read_arguments(node, *op, false));
    QCG_CHECK(convert_pairs(*op, args, like.where));
    QCG_TRY(results, pairs_.compute(
                         *op, std::move(args), [&](ValueId id) { return complex_values_.contains(id); }, like));
    made = std::move(results);
  } else {
    QCG_TRY(operands, complex_operands_of(node));
    QCG_TRY(result, pairs_.compute(*node.string_at("target"), operands, like));
    made = {result};
  }
  QCG_CHECK(define_checked(node, made));
  const bool is_view = op ? is_view_of_memory(*op) : is_complex_view(*node.string_at("target"));
  return follows && is_view ? add_complex_view(node, made) : Status();
}

Result<ValueId> TorchExportReader::complex_number(const JsonCursor& argument, const OpSchema& op,
                                                  const JsonCursor& node) {
  QCG_TRY(value, read_union(argument));
  if (value.key() != "as_complex") return kNoValue;
  Node like;
  like.op = &op, like.where = node.path();
  QCG_TRY(name, node_name(node, {}));
  like.origins = {name};
  QCG_TRY(real_at, value.at("real"));
  QCG_TRY(imag_at, value.at("imag"));
  QCG_TRY(real, real_at.real());
  QCG_TRY(imag, imag_at.real());
  return pair_of(real, imag, like);
}

Result<ValueId> TorchExportReader::pair_of(double real, double imag, const Node& like) {
  std::vector<ValueId> parts;
  for (const double number : {real, imag}) {
    QCG_TRY(tensor, mutations_.emit("aten.scalar_tensor.default", {Arg(number), Arg(DType::f64)}, like));
    parts.push_back(tensor);
  }
  QCG_TRY(pair, mutations_.emit("aten.stack.default", {std::move(parts), Dim(-1)}, like));
  complex_values_.insert(pair);
  numbers_.insert(pair);
  return pair;
}

Result<ValueId> TorchExportReader::read_complex_fill(const JsonCursor& node, const OpSchema& op, const Node& like) {
  QCG_TRY(inputs, node.array_at("inputs"));
  QCG_TRY(outputs, node.array_at("outputs"));
  if (outputs.size() != 1) return node.bad("what fills a tensor has one result", kExportGraphAgain);
  ValueId pair = kNoValue;
  double real = op.name.find("ones") != std::string::npos ? 1 : 0;
  for (JsonCursor input : inputs) {
    QCG_TRY(name, input.string_at("name"));
    if (name != "fill_value" && name != "value" && name != "s") continue;
    QCG_TRY(argument, input.at("arg"));
    QCG_TRY(number, complex_number(argument, op, node));
    pair = number;
    if (pair != kNoValue) continue;
    QCG_TRY(arg, read_torch_arg(argument, {.name = std::string(name), .kind = ArgKind::real}, scope_));
    if (!arg.get<double>())
      return argument.unsupported("complex numbers are filled with what is known only at run time",
                                  "multiply ones of complex numbers by it");
    real = *arg.get<double>();
  }
  if (pair == kNoValue) {
    QCG_TRY(made, pair_of(real, 0, like));
    pair = made;
  }
  QCG_TRY(output, read_union(*outputs.begin()));
  QCG_TRY(name, output.string_at("name"));
  QCG_TRY(meta_at, find_meta(output, name));
  QCG_TRY(meta, read_tensor_meta(meta_at));
  if (!meta.is_complex) {  // zeros_like(z, dtype=torch.float32)
    QCG_TRY(part, mutations_.emit("aten.select.int", {pair, Dim(0), Dim(0)}, like));
    pair = part;
  }
  QCG_TRY(converted, mutations_.converted(pair, meta.dtype, like));
  return mutations_.emit("aten.expand.default", {converted, std::vector<Dim>(meta.sizes.begin(), meta.sizes.end())},
                         like);
}

Result<ValueId> TorchExportReader::read_complex_cast(const JsonCursor& node, const Node& like) {
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

Result<std::vector<ComplexPairs::Operand>> TorchExportReader::complex_operands_of(const JsonCursor& node) const {
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

Status TorchExportReader::define_checked(const JsonCursor& node, const std::vector<ValueId>& made) {
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
    Shape sizes(meta.sizes.begin(), meta.sizes.end());
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      const Dim declared = settled_size(sizes[axis]);
      // An axis whose size depends on data may have a symbol of its own.
      if (axis < value.shape.size() && !(declared == value.shape[axis]) && is_one_symbol(declared) &&
          is_unbacked(declared.symbols()[0]))
        known_sizes_.emplace(declared.symbols()[0], value.shape[axis]);
      sizes[axis] = settled_size(declared);
    }
    if (meta.dtype != value.dtype || sizes != value.shape)
      return meta_at.bad("the tensor is " + qcg::describe(value) + " by its operands", kExportGraphAgain);
    if (meta.is_complex) complex_values_.insert(made[i]);
    define(stored(results[i]), made[i]);
  }
  return {};
}

}  // namespace qcg

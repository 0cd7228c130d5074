#include <algorithm>

#include "graph/ir/float_format.h"
#include "graph/ops/infer.h"
#include "graph/ops/verify.h"
#include "graph/read/torch/export_reader.h"
#include "graph/read/torch/meta.h"
#include "graph/read/torch/operators.h"
#include "graph/read/torch/source.h"

namespace qcg {
namespace {

constexpr size_t kMaxNodeItems = 4096;  // inputs or outputs of one node
constexpr std::string_view kChooseParameters = "torchao.choose_qparams_affine.default";

// Whether an argument that quantization had up to torchao 0.11 says what is done without it.
Result<bool> says_default(std::string_view target, std::string_view name, const JsonCursor& value) {
  if (target.find("ize_affine.") == target.npos && target.find("choose_qparams_affine.") == target.npos) return false;
  QCG_TRY(given, read_union(value));
  if (name == "min_val" || name == "max_val") return given.key() == "as_none";
  if (name == "preserve_zero" && given.key() == "as_bool") return given.boolean();
  if (name != "zero_point_domain") return false;
  if (given.key() == "as_none") return true;
  QCG_TRY(domain, given.string());
  if (domain == "INT" || domain == "NONE") return true;
  return given.unsupported("zero points of the domain " + quote(domain), "quantize with zero points that are integers");
}

}  // namespace

Status TorchExportReader::read_nodes(const JsonCursor& nodes) {
  std::string path = nodes.path();
  size_t position = 0;
  const auto where = [&] { return path + "[" + std::to_string(position) + "]"; };
  for (JsonCursor node : nodes) {
    std::string_view target = *node.string_at("target");  // check_operators read it before
    switch (classify_target(target)) {
      case TorchTarget::unsupported: break;  // and nothing reads its results
      case TorchTarget::size_check: break;
      case TorchTarget::symbolic: QCG_CHECK(read_symbolic(node)); break;
      case TorchTarget::region: QCG_CHECK(read_region(node)); break;
      case TorchTarget::encoder: QCG_CHECK(read_encoder_layer(node, where())); break;
      case TorchTarget::nonzero: QCG_CHECK(read_nonzero(node, where())); break;
      case TorchTarget::complex: QCG_CHECK(read_complex(node, nullptr, where())); break;
      default: QCG_CHECK(read_operator(node, *find_torch_op(target), where()));
    }
    ++position;
  }
  return {};
}

Status TorchExportReader::read_operator(const JsonCursor& node, const OpSchema& written, std::string where) {
  const std::string_view target = *node.string_at("target");
  const bool writes = writes_first_tensor(target);
  if (regions_ > 0 && writes)
    return node.unsupported("a region under torch.no_grad() or torch.autocast writes to a tensor", kExportWithoutGrad);
  if (regions_ == 0) QCG_CHECK(mutations_.refresh(node));
  const bool follows = regions_ == 0 && mutations_.follows(node);
  bool has_complex_operand = false;
  if (has_complex_) {
    QCG_TRY(takes, takes_complex(node));
    has_complex_operand = takes;
  }
  if (follows) {
    QCG_TRY(is_alias, read_alias(node));
    if (is_alias) return {};
    if (writes) return read_write(node, written, std::move(where));
  }
  if (writes) return node.bad("writes to what is no tensor of this graph", kExportGraphAgain);
  if (target == kAsStrided) {
    QCG_TRY(windows, read_as_strided(node, where));
    if (windows != kNoValue && follows)
      return node.unsupported("as_strided reads memory that something writes to",
                              "write it with unfold, reshape, transpose or slices");
    if (windows != kNoValue) return define_checked(node, {windows});
  }
  if (is_fourier(written.name)) return read_complex(node, &written, std::move(where));
  if (has_complex_operand ||
      (has_complex_ && (is_torch_cast(written) || is_torch_fill(written)) && gives_complex(node)))
    return read_complex(node, &written, std::move(where));
  QCG_TRY(is_filled, read_filled(node, written, where));
  QCG_TRY(is_float8_weight, read_float8(node, written, where));
  if (is_filled || is_float8_weight) return {};
  QCG_TRY(selected, read_select(node, written, where));
  if (selected != kNoValue) {
    if (follows)
      return node.unsupported("a part of memory that something writes to, at a number read out of a tensor",
                              "write it with torch.index_select, or clone the tensor before");
    return define_checked(node, {selected});
  }
  const OpSchema* reversed = reversed_op(node, written);
  const OpSchema& ordered = reversed ? *reversed : written;
  const OpSchema* of_numbers = op_of_numbers(node, ordered);
  const OpSchema& op = of_numbers ? *of_numbers : ordered;
  QCG_TRY(args, read_arguments(node, op, reversed != nullptr));
  QCG_CHECK(convert_numbers(op, args, where));
  QCG_TRY(masked, read_masked(node, op, args, where));
  if (masked != kNoValue) return define_checked(node, {masked});
  QCG_TRY(outputs, read_results(node, op));
  std::vector<std::string_view> names = result_names_;
  if (op.name == kChooseParameters && outputs.size() == 1) {
    Node choice;
    choice.op = &op, choice.args = args, choice.where = where;
    QCG_CHECK(check_arguments(graph(), choice));
    QCG_TRY(types, infer_types(graph(), choice));
    Value zero_point;
    zero_point.name = unique_name("zero_point");
    zero_point.dtype = types[1].dtype, zero_point.shape = types[1].shape;
    outputs.push_back(std::move(zero_point));
  }
  const OpSchema* made_op = &op;
  const bool is_narrow = op.name == "aten.narrow.default";
  if ((op.name == "aten.slice.Tensor" || is_narrow) && !follows) {
    Node slice;
    slice.op = &op, slice.args = args, slice.where = where;
    if (is_narrow) {
      const Dim begin = *args[2].get<Dim>(), length = *args[3].get<Dim>();
      slice.op = find_op("aten.slice.Tensor"), slice.args = {args[0], args[1], begin, begin + length, Dim(1)};
    }
    slice.origins = {outputs[0].name};
    QCG_TRY(positions, positions_of_slice(slice, outputs[0].shape));
    if (positions != kNoValue) made_op = find_op("aten.index_select.default"), args = {args[0], args[1], positions};
  }
  if (op.name == "aten.chunk.default" || op.name == "aten.split.Tensor") {
    Node parts;
    parts.op = &op, parts.args = args, parts.where = where;
    if (const auto sizes = sizes_of_parts(parts, outputs))
      made_op = find_op("aten.split_with_sizes.default"), args = {args[0], *sizes, args[2]};
  }
  NodeId id = graph().add_node(made_op, std::move(args), std::move(outputs));
  correct(graph().nodes[id]);
  find_sizes(graph().nodes[id]);
  QCG_CHECK(describe(node, id, std::move(where), names));
  const std::vector<ValueId> made = graph().nodes[id].outputs;
  for (size_t i = 0; i < names.size(); ++i) define(names[i], made[i]);
  if (follows && is_view_of_memory(op)) mutations_.add_views(node, id);
  if (changes_shape_alone(target)) scope_.tensors.erase(first_tensor(node));
  return {};
}

std::optional<std::vector<Dim>> TorchExportReader::sizes_of_parts(const Node& made, const std::vector<Value>& parts) {
  const Shape& self = graph().value(made.tensor("self")).shape;
  const auto axis = OpArgs{graph(), made}.axis("dim", self.size());
  if (!axis.ok() || self[*axis].is_constant()) return std::nullopt;
  const auto types = infer_types(graph(), made);
  if (types.ok() && types->size() == parts.size()) return std::nullopt;
  std::vector<Dim> sizes;
  for (const Value& part : parts) {
    if (part.shape.size() != self.size()) return std::nullopt;
    sizes.push_back(part.shape[*axis]);
  }
  return sizes;
}

Result<bool> TorchExportReader::read_alias(const JsonCursor& node) {
  const auto self = scope_.tensors.find(first_tensor(node));
  if (self == scope_.tensors.end()) return false;  // read_arguments names what is not defined
  QCG_TRY(outputs, node.array_at("outputs"));
  bool same = outputs.size() == 1;
  for (JsonCursor output : outputs) {
    QCG_TRY(value, read_union(output));
    if (value.key() != "as_tensor") return false;
    QCG_TRY(name, new_tensor_name(value));
    QCG_TRY(meta_at, find_meta(value, name));
    QCG_TRY(meta, read_tensor_meta(meta_at));
    Shape shape;
    for (const Dim& size : meta.sizes) shape.push_back(settled_size(size));
    same = same && meta.dtype == graph().value(self->second).dtype && shape == graph().value(self->second).shape;
  }
  return mutations_.read_alias(node, same);
}

Status TorchExportReader::read_write(const JsonCursor& node, const OpSchema& written, std::string where) {
  const OpSchema* of_numbers = op_of_numbers(node, written);
  const OpSchema& op = of_numbers ? *of_numbers : written;
  QCG_TRY(target_at, node.at("target"));
  QCG_TRY(target, target_at.string());
  QCG_TRY(args, read_arguments(node, op, false));
  QCG_CHECK(convert_pairs(op, args, where));
  Node made;
  made.op = &op;
  made.where = where;
  if (const ValueId* self = args[0].get<ValueId>(); self && complex_values_.contains(*self)) {
    QCG_TRY(origin, node_name(node, {}));
    made.origins = {origin};
    QCG_TRY(result, complex_written(node, op, std::move(args), made));
    complex_values_.insert(result);
    return mutations_.write(node, result);
  }
  // These convert what they write.
  if (op.name == "aten.copy.default" || op.name == "aten.fill.Tensor") {
    const ValueId self = *args[0].get<ValueId>(), given = *args[1].get<ValueId>();
    QCG_TRY(converted, mutations_.converted(given, graph().value(self).dtype, made));
    args[1] = converted;
  }
  QCG_TRY(masked, read_masked(node, op, args, made.where));
  if (masked != kNoValue) return mutations_.write(node, masked);
  made.args = args;
  QCG_CHECK(check_arguments(graph(), made));
  const size_t known = known_sizes_.size();
  equate_sizes(made);
  if (known_sizes_.size() != known) {
    settle_sizes();
    settle(made);
    args = made.args;
  }
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
  const NodeId id = graph().add_node(&op, std::move(args), {std::move(result)});
  QCG_CHECK(describe(node, id, std::move(where), names));
  return mutations_.write(node, graph().nodes[id].outputs[0]);
}

Status TorchExportReader::describe(const JsonCursor& node, NodeId id, std::string where,
                                   const std::vector<std::string_view>& names) {
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

void TorchExportReader::read_module(const JsonCursor& node, const std::string& name) {
  auto metadata = node.find("metadata");
  auto stack = metadata ? metadata->find("nn_module_stack") : std::nullopt;
  if (!stack || !stack->is(JsonKind::string)) return;
  std::string module = module_from_stack(*stack->string());
  if (!module.empty()) out_.modules.emplace(name, std::move(module));
}

Result<std::string> TorchExportReader::node_name(const JsonCursor& node, const std::vector<std::string_view>& outputs) {
  if (auto name = node.find("name"); name && !name->is(JsonKind::null)) return name->name();
  if (!outputs.empty()) return std::string(outputs[0]);
  return std::string("node");
}

Result<std::vector<Arg>> TorchExportReader::read_out_dtype(const JsonCursor& inputs) const {
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

Result<bool> TorchExportReader::read_float8(const JsonCursor& node, const OpSchema& op, const std::string& where) {
  const bool quantizes = *node.string_at("target") == kQuantizeFloat8;
  if (!quantizes && op.name != "torchao.dequantize_affine.default") return false;
  QCG_TRY(inputs, node.array_at("inputs"));
  ValueId tensor = kNoValue, scale = kNoValue;
  std::vector<Dim> block;
  for (JsonCursor input : inputs) {
    QCG_TRY(name, input.string_at("name"));
    QCG_TRY(argument, input.at("arg"));
    QCG_TRY(value, read_union(argument));
    if (name == "tensor" || name == "input" || name == "scale") {
      QCG_TRY(id, read_tensor_name(value, scope_));
      (name == "scale" ? scale : tensor) = id;
    } else if (name == "block_size") {
      QCG_TRY(sizes, read_torch_arg(argument, {.name = "block_size", .kind = ArgKind::integers}, scope_));
      block = *sizes.get<std::vector<Dim>>();
    } else if (name == "zero_point" && value.key() != "as_none") {
      return false;
    }
  }
  if (tensor == kNoValue || scale == kNoValue) return false;
  if (!quantizes && !is_float8(graph().value(tensor).dtype)) return false;
  QCG_TRY(results, read_results(node, op));
  if (results.size() != 1) return false;
  Node like;
  like.op = &op, like.where = where, like.origins = {std::string(result_names_[0])};
  const Shape shape = graph().value(tensor).shape;
  if (block.size() == shape.size()) {  // the scale has one element per block
    std::vector<Dim> scales;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const bool whole = block[axis] == shape[axis];
      if (!whole && !block[axis].is_constant(1))
        return inputs.unsupported("8-bit floats with scales of groups", "quantize per row or per tensor");
      scales.push_back(whole ? Dim(1) : shape[axis]);
    }
    QCG_TRY(spread, mutations_.emit("aten.reshape.default", {scale, std::move(scales)}, like));
    scale = spread;
  }
  QCG_TRY(numbers, mutations_.converted(tensor, DType::f32, like));
  QCG_TRY(scaled, mutations_.emit(quantizes ? "aten.div.Tensor" : "aten.mul.Tensor", {numbers, scale}, like));
  const auto format = quantizes ? float_format(results[0].dtype) : std::nullopt;
  if (quantizes && !format) return false;
  if (format) {
    const double most = format->max_finite();
    QCG_TRY(clamped, mutations_.emit("aten.clamp.default", {scaled, Arg(-most), Arg(most)}, like));
    scaled = clamped;
  }
  QCG_TRY(result, mutations_.converted(scaled, results[0].dtype, like));
  define(result_names_[0], result);
  return true;
}

Result<std::vector<Arg>> TorchExportReader::read_arguments(const JsonCursor& node, const OpSchema& op, bool swapped) {
  QCG_TRY(inputs, node.array_at("inputs"));
  if (inputs.size() > kMaxNodeItems) return inputs.bad("the node has too many inputs", kExportGraphAgain);
  const std::string_view target = *node.string_at("target");
  if (target == kOutDtype) return read_out_dtype(inputs);
  std::vector<Arg> args(op.args.size());
  std::vector<bool> given(op.args.size());
  for (JsonCursor input : inputs) {
    QCG_TRY(name, input.string_at("name"));
    if (swapped && (name == "self" || name == "other")) name = name == "self" ? "other" : "self";
    int index = op.arg_index(name);
    if (index < 0 && name == "self" && writes_first_tensor(target)) index = 0;  // dropout(input)
    if (index < 0 && target == kAsStrided) continue;                            // read_as_strided read the strides
    QCG_TRY(value, input.at("arg"));
    if (index < 0) {
      QCG_TRY(is_default, says_default(target, name, value));
      if (is_default) continue;
    }
    if (index < 0)
      return input.bad(op.name + " has no argument " + quote(name),
                       "`qcodegen list ops` shows the arguments of each op");
    if (given[index]) return input.bad("the argument " + quote(name) + " is given twice", kExportGraphAgain);
    given[index] = true;
    if (op.args[index].kind == ArgKind::tensor && !Op(&op).row().formula.empty()) {
      QCG_TRY(number, tensor_of_number(value, op, node));
      args[index] = number;
      if (number != kNoValue) continue;
    }
    if (has_complex_) {
      QCG_TRY(number, complex_number(value, op, node));
      args[index] = number;
      if (number != kNoValue) continue;
    }
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

Result<std::vector<Value>> TorchExportReader::read_results(const JsonCursor& node, const OpSchema& op) {
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
  // Symmetric quantization up to torchao 0.11 has no zero point: read_operator adds it.
  const bool lacks_zero_point = op.name == kChooseParameters && results.size() == 1;
  if (op.outputs >= 0 && results.size() != static_cast<size_t>(op.outputs) && !lacks_zero_point) {
    return outputs.bad(
        op.name + " has " + std::to_string(op.outputs) + " outputs, the node " + std::to_string(results.size()),
        kExportGraphAgain);
  }
  return results;
}

Status TorchExportReader::add_result(const JsonCursor& argument, std::vector<Value>& results) {
  QCG_TRY(name, new_tensor_name(argument));
  std::string_view key = stored(argument);
  if (!own_names_.insert(key).second) {
    return argument.bad("the tensor " + quote(name) + " is defined twice", kExportGraphAgain);
  }
  QCG_TRY(meta_at, find_meta(argument, name));
  QCG_TRY(meta, read_tensor_meta(meta_at));
  if (meta.is_complex)
    return argument.unsupported("the tensor " + quote(name) + " has complex numbers, which this operator does not make",
                                "make them with torch.polar, torch.complex or torch.view_as_complex");
  Value value;
  value.name = unique_name(name);
  value.dtype = meta.dtype;
  for (const Dim& size : meta.sizes) value.shape.push_back(settled_size(size));
  results.push_back(std::move(value));
  result_names_.push_back(key);
  return {};
}

}  // namespace qcg

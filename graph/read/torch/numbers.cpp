// Numbers that nodes compute of sizes, or read out of tensors: 1 / x.shape[0], scale.item().
//
// Why here: they are numbers to torch.export, but are known only at run time, so the IR holds them as tensors without
// axes, of f64 or i64, which is what Python computes with.
//
//   %truediv = _operator.truediv(1, %sym_size)   ->   %truediv = aten.div.Tensor(1, the size) : f64[]
//   aten.mul.Tensor(%x, %truediv)                ->   aten.mul.Tensor(%x, aten.to.dtype(%truediv, f32)), where %x is bf16
//   aten.full.default([3], %truediv)             ->   aten.expand.default(aten.to.dtype(%truediv, f32), [3])
#include <algorithm>

#include "graph/read/torch/export_reader.h"
#include "graph/read/torch/operators.h"

namespace qcg {
namespace {

struct NumberOp {
  std::string_view target, op;
  bool real = false;  // whether it makes real numbers of whole ones
};
constexpr NumberOp kNumberOps[] = {
    {"_operator.truediv", "aten.div.Tensor", true},
    {"_operator.mul", "aten.mul.Tensor"},
    {"_operator.add", "aten.add.Tensor"},
    {"_operator.sub", "aten.sub.Tensor"},
    {"_operator.neg", "aten.neg.default"},
    {"_operator.pow", "aten.pow.Tensor_Tensor", true},
    {"torch.sym_float", "", true},
    {"torch._sym_sqrt", "aten.sqrt.default", true},
    {"torch.sym_max", "aten.maximum.default"},
    {"torch.sym_min", "aten.minimum.default"},
};

// The operator that takes a tensor where `op` takes a number.
std::string_view tensor_form(std::string_view op) {
  constexpr std::pair<std::string_view, std::string_view> kForms[] = {
      {"aten.clamp.default", "aten.clamp.Tensor"},
      {"aten.clamp_min.default", "aten.clamp_min.Tensor"},
      {"aten.clamp_max.default", "aten.clamp_max.Tensor"},
      {"aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor"},
      {"aten.where.ScalarOther", "aten.where.self"},
      {"aten.where.ScalarSelf", "aten.where.self"},
      {"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"},
      {"aten.fill.Scalar", "aten.fill.Tensor"},
      {"aten.add.Scalar", "aten.add.Tensor"},
      {"aten.sub.Scalar", "aten.sub.Tensor"},
      {"aten.rsub.Scalar", "aten.rsub.Tensor"},
      {"aten.mul.Scalar", "aten.mul.Tensor"},
      {"aten.div.Scalar", "aten.div.Tensor"},
      {"aten.gt.Scalar", "aten.gt.Tensor"},
      {"aten.ge.Scalar", "aten.ge.Tensor"},
      {"aten.lt.Scalar", "aten.lt.Tensor"},
      {"aten.le.Scalar", "aten.le.Tensor"},
      {"aten.eq.Scalar", "aten.eq.Tensor"},
      {"aten.ne.Scalar", "aten.ne.Tensor"},
  };
  for (const auto& [number, tensor] : kForms)
    if (op == number) return tensor;
  return {};
}

}  // namespace

Status TorchExportReader::define_number(const JsonCursor& node, std::string_view name, DType dtype) {
  QCG_TRY(id, number_of(node));
  if (id == kNoValue || graph().value(id).dtype != dtype) return {};
  numbers_.insert(id);
  scope_.numbers.emplace(name, id);
  return {};
}

Result<ValueId> TorchExportReader::item_of(const JsonCursor& node) const {
  QCG_TRY(inputs, node.array_at("inputs"));
  if (inputs.size() != 1) return inputs.bad("a number is read out of one tensor", kExportGraphAgain);
  QCG_TRY(argument, (*inputs.begin()).at("arg"));
  QCG_TRY(tensor, read_union(argument));
  return read_tensor_name(tensor, scope_);
}

Result<ValueId> TorchExportReader::number_of(const JsonCursor& node) {
  const std::string_view target = *node.string_at("target");
  Node like;
  like.op = find_op("aten.scalar_tensor.default"), like.where = node.path();
  QCG_TRY(name, node_name(node, {}));
  like.origins = {name};
  const auto converted = [&](ValueId id, DType dtype) { return mutations_.converted(id, dtype, like); };
  if (target == kItem || target == kScalarOf) {
    if (regions_ == 0) QCG_CHECK(mutations_.refresh(node));
    QCG_TRY(id, item_of(node));
    const DType dtype = graph().value(id).dtype;
    if (!graph().value(id).shape.empty()) {
      QCG_TRY(flat, mutations_.emit("aten.reshape.default", {id, std::vector<Dim>()}, like));
      id = flat;
    }
    return converted(id, is_floating(dtype) ? DType::f64 : DType::i64);
  }
  const auto row = std::ranges::find(kNumberOps, target, &NumberOp::target);
  if (row == std::end(kNumberOps)) return kNoValue;
  QCG_TRY(inputs, node.array_at("inputs"));
  struct Operand {
    ValueId tensor;
    Arg constant;  // where there is no tensor
  };
  std::vector<Operand> operands;
  bool real = row->real;
  for (JsonCursor input : inputs) {
    QCG_TRY(argument, input.at("arg"));
    Operand operand{find_number(argument, scope_), {}};
    if (operand.tensor == kNoValue) {
      auto constant = read_torch_arg(argument, {.name = "number", .kind = ArgKind::scalar}, scope_);
      if (!constant.ok() || constant->get<bool>()) return kNoValue;
      operand.constant = std::move(*constant);
      real = real || operand.constant.get<double>();
    } else {
      real = real || graph().value(operand.tensor).dtype == DType::f64;
    }
    operands.push_back(std::move(operand));
  }
  const DType dtype = real ? DType::f64 : DType::i64;
  std::vector<Arg> args;
  for (Operand& operand : operands) {
    QCG_TRY(id, operand.tensor != kNoValue
                    ? converted(operand.tensor, dtype)
                    : mutations_.emit("aten.scalar_tensor.default", {std::move(operand.constant), Arg(dtype)}, like));
    args.push_back(id);
  }
  if (row->op.empty()) return args.size() == 1 ? *args[0].get<ValueId>() : kNoValue;
  if (args.empty() || args.size() > find_op(row->op)->args.size()) return kNoValue;
  return mutations_.emit(row->op, std::move(args), like);
}

Result<ValueId> TorchExportReader::tensor_of_number(const JsonCursor& argument, const OpSchema& op,
                                                    const JsonCursor& node) {
  if (!is_number(argument) || find_number(argument, scope_) != kNoValue) return kNoValue;
  QCG_TRY(number, read_torch_arg(argument, {.name = "self", .kind = ArgKind::scalar}, scope_));
  Node like;
  like.op = &op, like.where = node.path();
  QCG_TRY(name, node_name(node, {}));
  like.origins = {name};
  const DType dtype = number.get<double>() ? DType::f64 : DType::i64;
  QCG_TRY(tensor, mutations_.emit("aten.scalar_tensor.default", {number, Arg(dtype)}, like));
  numbers_.insert(tensor);
  return tensor;
}

const OpSchema* TorchExportReader::op_of_numbers(const JsonCursor& node, const OpSchema& op) const {
  const std::string_view form = tensor_form(op.name);
  const auto inputs = node.find("inputs");
  if (scope_.numbers.empty() || form.empty() || !inputs || !inputs->is(JsonKind::array)) return nullptr;
  bool any = false;
  for (JsonCursor input : *inputs) {
    const auto name = input.string_at("name");
    const auto argument = input.find("arg");
    if (!name.ok() || !argument) return nullptr;
    const bool is_number = *name != "alpha" && find_number(*argument, scope_) != kNoValue;
    any = any || is_number;
    const bool is_bound = *name == "min" || *name == "max";  // both are tensors, or both are constants
    if (is_bound && !is_number && (argument->find("as_int") || argument->find("as_float"))) return nullptr;
  }
  return any ? find_op(form) : nullptr;
}

Result<bool> TorchExportReader::read_filled(const JsonCursor& node, const OpSchema& op, const std::string& where) {
  constexpr std::string_view kFills[] = {"aten.scalar_tensor.default", "aten.full.default", "aten.full_like.default",
                                         "aten.new_full.default"};
  const auto inputs = node.find("inputs");
  if (scope_.numbers.empty() || std::ranges::find(kFills, op.name) == std::end(kFills) || !inputs) return false;
  ValueId number = kNoValue;
  for (JsonCursor input : *inputs) {
    const auto name = input.string_at("name");
    const auto argument = input.find("arg");
    if (name.ok() && (*name == "s" || *name == "fill_value") && argument) number = find_number(*argument, scope_);
  }
  if (number == kNoValue) return false;
  QCG_TRY(results, read_results(node, op));
  if (results.size() != 1) return false;
  Node like;
  like.op = &op, like.where = where;
  like.origins = {std::string(result_names_[0])};
  QCG_TRY(converted, mutations_.converted(number, results[0].dtype, like));
  const Shape& shape = results[0].shape;
  QCG_TRY(filled,
          mutations_.emit("aten.expand.default", {converted, std::vector<Dim>(shape.begin(), shape.end())}, like));
  define(result_names_[0], filled);
  return true;
}

Status TorchExportReader::convert_numbers(const OpSchema& op, std::vector<Arg>& args, const std::string& where) {
  if (numbers_.empty()) return {};
  // A number takes the dtype of the tensor that it meets, as a number of Python does.
  const Value* other = nullptr;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < args.size(); ++i) {
    const auto id = args[i].get<ValueId>();
    if (!id || *id == kNoValue) continue;
    const std::string_view name = op.args[i].name;
    if (numbers_.contains(*id)) numbers.push_back(i);
    else if (!other && name != "condition" && name != "mask") other = &graph().value(*id);
  }
  if (!other) return {};
  Node like;
  like.op = &op, like.where = where;
  const DType dtype = other->dtype;
  const bool narrow = is_floating(dtype) && dtype != DType::f64, scalar = other->shape.empty();
  for (const size_t i : numbers) {
    const ValueId id = *args[i].get<ValueId>();
    const bool whole = graph().value(id).dtype == DType::i64;
    DType wanted = dtype;
    if (dtype == DType::boolean) wanted = whole ? DType::i64 : DType::f32;
    else if (!is_floating(dtype)) wanted = whole ? dtype : DType::f32;
    else if (narrow && !scalar) wanted = DType::f32;  // elements of 16 bits meet numbers of f32
    like.origins = {graph().value(id).name};
    QCG_TRY(converted, mutations_.converted(id, wanted, like));
    args[i] = converted;
  }
  return {};
}

}  // namespace qcg

#include "graph/ops/complex_pairs.h"

#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/ops/verify.h"

namespace qcg {
namespace {

constexpr std::string_view kPrefix = "torch.ops.";
constexpr const char* kComplexHelp =
    "complex numbers are products, sums, views and parts of rotary embeddings; compute the rest with pairs of real "
    "numbers (torch.view_as_real)";

struct ComplexOperator {
  std::string_view name;
  std::vector<std::string_view> operands;
};

const std::vector<ComplexOperator>& complex_operators() {
  static const std::vector<ComplexOperator> kOperators = {
      {"aten.view_as_complex.default", {"self"}},
      {"aten.view_as_real.default", {"self"}},
      {"aten.polar.default", {"abs", "angle"}},
      {"aten.complex.default", {"real", "imag"}},
      {"aten.real.default", {"self"}},
      {"aten.angle.default", {"self"}},
      {"aten.imag.default", {"self"}},
      {"aten._conj.default", {"self"}},
      {"aten.conj.default", {"self"}},
      {"aten.conj_physical.default", {"self"}},
      {"aten._conj_physical.default", {"self"}},
      {"aten.resolve_conj.default", {"self"}},
  };
  return kOperators;
}

const ComplexOperator* find_complex_operator(std::string_view target) {
  if (!target.starts_with(kPrefix)) return nullptr;
  const auto& all = complex_operators();
  const auto it = std::ranges::find(all, target.substr(kPrefix.size()), &ComplexOperator::name);
  return it == all.end() ? nullptr : &*it;
}

// What operators on axes mean for pairs: which of their arguments count axes from the end, and which list extents.
struct AxesOperator {
  std::string_view name;
  std::string_view axes = {};   // separated by commas; a negative axis is one further from the end
  std::string_view sizes = {};  // gets the extent of the pair behind it
  int64_t of_pair = 2;
};
constexpr AxesOperator kAxesOperators[] = {
    {"aten.view.default", "", "size"},
    {"aten.reshape.default", "", "shape"},
    {"aten._unsafe_view.default", "", "size"},
    {"aten.expand.default", "", "size"},
    {"aten.repeat.default", "", "repeats", 1},
    {"aten.unsqueeze.default", "dim"},
    {"aten.squeeze.dim", "dim"},
    {"aten.squeeze.dims", "dim"},
    {"aten.flatten.using_ints", "start_dim,end_dim"},
    {"aten.unflatten.int", "dim"},
    {"aten.transpose.int", "dim0,dim1"},
    {"aten.slice.Tensor", "dim"},
    {"aten.select.int", "dim"},
    {"aten.narrow.default", "dim"},
    {"aten.index_select.default", "dim"},
    {"aten.cat.default", "dim"},
    {"aten.stack.default", "dim"},
    {"aten.split.Tensor", "dim"},
    {"aten.split_with_sizes.default", "dim"},
    {"aten.chunk.default", "dim"},
    {"aten.unbind.int", "dim"},
    {"aten.flip.default", "dims"},
    {"aten.sum.dim_IntList", "dim"},
    {"aten.mean.dim", "dim"},
    {"aten.index.Tensor"},
    {"aten.embedding.default"},
    {"aten.clone.default"},
    {"aten.contiguous.default"},
    {"aten.alias.default"},
    {"aten.detach.default"},
    {"aten.detach_.default"},
    {"aten.lift_fresh_copy.default"},
    {"aten.neg.default"},
    {"aten.mul.Scalar"},
    {"aten.div.Scalar"},
    {"aten.zeros_like.default"},
    {"aten.zero.default"},
    {"aten.copy.default"},
    {"aten.index_put.default"},
    {"aten.slice_scatter.default", "dim"},
    {"aten.select_scatter.default", "dim"},
};

Dim counted_over_pair(const Dim& axis) { return axis.is_constant() && axis.constant() < 0 ? axis - Dim(1) : axis; }

void count_over_pair(Arg& arg) {
  if (auto* one = std::get_if<Dim>(&arg.v)) *one = counted_over_pair(*one);
  else if (auto* many = std::get_if<std::vector<Dim>>(&arg.v))
    for (Dim& axis : *many) axis = counted_over_pair(axis);
}

}  // namespace

bool is_complex_operator(std::string_view target) { return find_complex_operator(target) != nullptr; }

std::vector<std::string_view> complex_operands(std::string_view target) {
  const ComplexOperator* found = find_complex_operator(target);
  return found ? found->operands : std::vector<std::string_view>{};
}

Result<std::vector<ValueId>> ComplexPairs::emit(const OpSchema& op, std::vector<Arg> args) {
  Node node;
  node.op = &op;
  node.args = args;
  node.where = like_.where;
  QCG_CHECK(check_arguments(graph_, node));
  QCG_TRY(types, infer_types(graph_, node));
  std::vector<Value> results;
  for (ValueType& type : types) {
    Value value;
    value.name = unique_name_(like_.origins.empty() ? "complex" : like_.origins[0]);
    value.dtype = type.dtype;
    value.shape = std::move(type.shape);
    results.push_back(std::move(value));
  }
  const NodeId id = graph_.add_node(&op, std::move(args), std::move(results));
  Node& made = graph_.nodes[id];
  made.where = like_.where;
  made.source = like_.source;
  made.origins = like_.origins;
  return made.outputs;
}

ValueId ComplexPairs::op(std::string_view name, std::vector<NamedArg> named) {
  if (!error_.ok()) return 0;
  const OpSchema& schema = *find_op(name);
  auto made = emit(schema, make_args(schema, std::move(named)));
  if (made.ok()) return (*made)[0];
  error_ = made.error();
  return 0;
}

ValueId ComplexPairs::binary(std::string_view name, ValueId a, ValueId b) {
  return op(name, {{"self", a}, {"other", b}});
}

ValueId ComplexPairs::part(ValueId pair, int64_t which) {
  return op("aten.select.int", {{"self", pair}, {"dim", Dim(-1)}, {"index", Dim(which)}});
}

ValueId ComplexPairs::join(ValueId real, ValueId imaginary) {
  return op("aten.stack.default", {{"tensors", std::vector<ValueId>{real, imaginary}}, {"dim", Dim(-1)}});
}

Result<ValueId> ComplexPairs::finish(ValueId value) const {
  if (!error_.ok()) return error_.error();
  return value;
}

Result<ValueId> ComplexPairs::compute(std::string_view target, const std::vector<Operand>& operands, const Node& like) {
  like_ = like;
  error_ = Status();
  const ComplexOperator* found = find_complex_operator(target);
  const std::string_view name = found->name;
  const ValueId first = operands[0].id;
  // A value is complex or real by its id: the same elements get another.
  const auto alias = [&](ValueId x) { return finish(op("aten.alias.default", {{"self", x}})); };
  if (name.starts_with("aten.view_as") || name.starts_with("aten.resolve_conj")) return alias(first);
  if (name == "aten.polar.default") return finish(of_angle(first, operands[1].id));
  if (name == "aten.complex.default") return finish(join(first, operands[1].id));
  if (name == "aten.angle.default")
    return finish(operands[0].is_pair ? angle(first) : op("aten.angle.default", {{"self", first}}));
  if (!operands[0].is_pair)  // of a real tensor
    return name == "aten.imag.default"
               ? Error::unsupported(like.where, "the imaginary part of real numbers", kComplexHelp)
               : alias(first);
  if (name == "aten.real.default") return finish(part(first, 0));
  if (name == "aten.imag.default") return finish(part(first, 1));
  return finish(conjugate(first));
}

Result<ValueId> ComplexPairs::cast(Operand x, DType part, const Node& like) {
  like_ = like;
  error_ = Status();
  const ValueId parts = op("aten.to.dtype", {{"self", x.id}, {"dtype", part}});
  return finish(x.is_pair ? parts : with_imaginary_part(parts));
}

ValueId ComplexPairs::product(ValueId x, ValueId y) {
  const ValueId a = part(x, 0), b = part(x, 1), c = part(y, 0), d = part(y, 1);
  const auto times = [&](ValueId left, ValueId right) { return binary("aten.mul.Tensor", left, right); };
  return join(binary("aten.sub.Tensor", times(a, c), times(b, d)), binary("aten.add.Tensor", times(a, d), times(b, c)));
}

ValueId ComplexPairs::conjugate(ValueId pair) {
  return join(part(pair, 0), op("aten.neg.default", {{"self", part(pair, 1)}}));
}

ValueId ComplexPairs::of_angle(ValueId size, ValueId angle) {
  const ValueId cos = op("aten.cos.default", {{"self", angle}}), sin = op("aten.sin.default", {{"self", angle}});
  return join(binary("aten.mul.Tensor", size, cos), binary("aten.mul.Tensor", size, sin));
}

ValueId ComplexPairs::squared_size(ValueId pair) {
  const auto squared = [&](ValueId x) { return binary("aten.mul.Tensor", x, x); };
  return binary("aten.add.Tensor", squared(part(pair, 0)), squared(part(pair, 1)));
}

ValueId ComplexPairs::angle(ValueId pair) { return binary("aten.atan2.default", part(pair, 1), part(pair, 0)); }

Result<std::vector<ValueId>> ComplexPairs::arithmetic(const OpSchema& schema, const std::vector<Arg>& args,
                                                      Operand self, Operand other) {
  const std::string_view name = schema.name;
  const auto spread = [&](Operand real) { return op("aten.unsqueeze.default", {{"self", real.id}, {"dim", Dim(-1)}}); };
  ValueId made = kNoValue;
  const auto as_pair = [&](Operand x) { return x.is_pair ? x.id : with_imaginary_part(x.id); };
  if (name == "aten.mul.Tensor" && self.is_pair && other.is_pair) {
    made = product(self.id, other.id);
  } else if (name == "aten.mul.Tensor") {
    made = binary(name, self.is_pair ? self.id : spread(self), other.is_pair ? other.id : spread(other));
  } else if (name == "aten.div.Tensor" && !other.is_pair) {
    made = binary(name, self.id, spread(other));
  } else if (name == "aten.div.Tensor") {  // by z: times its conjugate over its squared size
    const ValueId below = conjugate(other.id);
    const ValueId above = self.is_pair ? product(self.id, below) : binary("aten.mul.Tensor", spread(self), below);
    made = binary(name, above, spread({squared_size(other.id), false}));
  } else if (name == "aten.add.Tensor" || name == "aten.sub.Tensor") {
    made = op(name, {{"self", as_pair(self)}, {"other", as_pair(other)}, {"alpha", args[2]}});
  } else if (name.starts_with("aten.rsub.")) {
    made = op("aten.sub.Tensor", {{"self", as_pair(other)}, {"other", as_pair(self)}, {"alpha", args[2]}});
  } else {
    return Error::unsupported(like_.where, schema.name + " of complex numbers has no lowering", kComplexHelp);
  }
  QCG_TRY(result, finish(made));
  return std::vector<ValueId>{result};
}

Result<std::vector<ValueId>> ComplexPairs::products(const OpSchema& schema, std::vector<Arg> args, Operand self,
                                                    Operand other) {
  const auto of_parts = [&](ValueId a, ValueId b) -> Result<ValueId> {
    if (auto* list = std::get_if<std::vector<ValueId>>(&args[1].v)) *list = {a, b};
    else args[0] = a, args[1] = b;
    QCG_TRY(made, emit(schema, args));
    return made[0];
  };
  const auto parts_of = [&](Operand x) {
    return x.is_pair ? std::vector{part(x.id, 0), part(x.id, 1)} : std::vector{x.id};
  };
  const std::vector<ValueId> left = parts_of(self), right = parts_of(other);
  std::vector<ValueId> all;  // a c, a d, b c, b d
  for (const ValueId a : left)
    for (const ValueId b : right) {
      QCG_TRY(made, of_parts(a, b));
      all.push_back(made);
    }
  const bool both = left.size() == 2 && right.size() == 2;
  const ValueId real = both ? binary("aten.sub.Tensor", all[0], all[3]) : all[0],
                imaginary = both ? binary("aten.add.Tensor", all[1], all[2]) : all[1];
  QCG_TRY(result, finish(join(real, imaginary)));
  return std::vector<ValueId>{result};
}

Result<std::vector<ValueId>> ComplexPairs::shifted(const OpSchema& schema, const std::vector<Arg>& args) {
  const ValueId pair = *args[0].get<ValueId>();
  const ValueId real = op(schema.name, {{"self", part(pair, 0)}, {"other", args[1]}, {"alpha", args[2]}});
  ValueId imaginary = part(pair, 1);
  if (schema.name.starts_with("aten.rsub."))
    imaginary = op("aten.mul.Scalar", {{"self", op("aten.neg.default", {{"self", imaginary}})}, {"other", args[2]}});
  QCG_TRY(result, finish(join(real, imaginary)));
  return std::vector<ValueId>{result};
}

Result<std::vector<ValueId>> ComplexPairs::compute(const OpSchema& schema, std::vector<Arg> args,
                                                   const std::function<bool(ValueId)>& is_pair, const Node& like) {
  like_ = like;
  error_ = Status();
  const std::string_view name = schema.name;
  const auto* self = args.empty() ? nullptr : args[0].get<ValueId>();
  if (is_fourier(name)) {
    Node node = like;
    node.op = &schema;
    node.args = std::move(args);
    QCG_TRY(result, fourier(node, is_pair(node.tensor("self"))));
    return std::vector<ValueId>{result};
  }
  const auto one = [&](ValueId value) -> Result<std::vector<ValueId>> {
    QCG_TRY(result, finish(value));
    return std::vector<ValueId>{result};
  };
  if (name == "aten.abs.default" && self) return one(op("aten.sqrt.default", {{"self", squared_size(*self)}}));
  if (name == "aten.square.default" && self) return one(product(*self, *self));
  if (name == "aten.pow.Tensor_Scalar" && self && as_number(args[1]) == 2.0) return one(product(*self, *self));
  if (name == "aten.exp.default" && self)
    return one(of_angle(op("aten.exp.default", {{"self", part(*self, 0)}}), part(*self, 1)));
  if (name == "aten.log.default" && self) {
    const ValueId twice = op("aten.log.default", {{"self", squared_size(*self)}});
    return one(join(op("aten.mul.Scalar", {{"self", twice}, {"other", Arg(0.5)}}), angle(*self)));
  }
  if (name == "aten.reciprocal.default" && self) {
    return one(binary("aten.div.Tensor", conjugate(*self),
                      op("aten.unsqueeze.default", {{"self", squared_size(*self)}, {"dim", Dim(-1)}})));
  }
  if (name == "aten.matmul.default" || name == "aten.mm.default" || name == "aten.bmm.default") {
    const ValueId w = *args[1].get<ValueId>();
    return products(schema, args, {*self, is_pair(*self)}, {w, is_pair(w)});
  }
  if (name == "aten.einsum.default")
    if (const auto* list = args[1].get<std::vector<ValueId>>(); list && list->size() == 2) {
      const Operand left{(*list)[0], is_pair((*list)[0])}, right{(*list)[1], is_pair((*list)[1])};
      return products(schema, args, left, right);
    }
  const auto* other = args.size() > 1 ? args[1].get<ValueId>() : nullptr;
  const bool binary_op = schema.arg_index("other") == 1;
  if (self && other && binary_op) return arithmetic(schema, args, {*self, is_pair(*self)}, {*other, is_pair(*other)});
  if (binary_op && (name == "aten.mul.Tensor" || name == "aten.div.Tensor")) return emit(schema, std::move(args));
  const bool is_sum = name.starts_with("aten.add.") || name.starts_with("aten.sub.") || name.starts_with("aten.rsub.");
  if (binary_op && is_sum && self && as_number(args[1])) return shifted(schema, args);
  if (name == "aten.permute.default") {
    auto* dims = std::get_if<std::vector<Dim>>(&args[1].v);
    const auto rank = static_cast<int64_t>(graph_.value(*self).shape.size()) - 1;
    count_over_pair(args[1]);
    dims->push_back(Dim(rank));
    return emit(schema, std::move(args));
  }
  const auto known = std::ranges::find(kAxesOperators, name, &AxesOperator::name);
  if (known == std::end(kAxesOperators))
    return Error::unsupported(like.where, schema.name + " of complex numbers has no lowering", kComplexHelp);
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = schema.args[i].name;
    const ValueId* written = arg == "src" || arg == "values" ? args[i].get<ValueId>() : nullptr;
    if (written && !is_pair(*written)) {
      QCG_TRY(pair, cast({*written, false}, graph_.value(*self).dtype, like));
      args[i] = pair;
    }
    if (("," + std::string(known->axes) + ",").find("," + arg + ",") != std::string::npos) count_over_pair(args[i]);
    if (arg != known->sizes) continue;
    if (auto* sizes = std::get_if<std::vector<Dim>>(&args[i].v)) sizes->push_back(Dim(known->of_pair));
  }
  return emit(schema, std::move(args));
}

}  // namespace qcg

#include "graph/passes/size_operand.h"

#include <algorithm>
#include <array>

#include "graph/ops/op_table.h"

namespace qcg {

namespace {

// The value of a symbol: as many ones as an axis of that extent has, added up. Exact to 2^24, as all of f32.
ValueId count(OpEmitter& e, Graph& graph, const std::string& symbol) {
  const ValueId one = add_number(graph, DType::f32, 1, {}, "one");
  const ValueId ones = e.op("aten.expand.default", {{"self", one}, {"size", Shape{Dim::symbol(symbol)}}});
  return e.op("aten.sum.dim_IntList", {{"self", ones}, {"dim", std::vector<Dim>{Dim(0)}}});
}

const Dim* size_at(const Node& node, std::string_view arg) {
  if (node.op->arg_index(arg) < 0) return nullptr;
  const Dim* size = node.arg(arg).get<Dim>();
  return size && !size->is_constant() ? size : nullptr;
}

constexpr std::array kNumbers = {"other", "min", "max", "exponent", "value", "fill_value", "s"};

}  // namespace

bool computes_with_size(const Node& node) {
  return node.op->role == OpRole::pointwise &&
         std::any_of(kNumbers.begin(), kNumbers.end(), [&](std::string_view arg) { return size_at(node, arg); });
}

ValueId SizeTensors::tensor_of(OpEmitter& e, Graph& graph, const Dim& size, DType dtype) {
  ValueId sum = kNoValue;
  const Dim::Terms terms = size.terms();
  for (const auto& [symbols, coefficient] : terms) {
    if (symbols.empty()) continue;  // the constant, added at the end
    ValueId term = kNoValue;
    for (const std::string& symbol : symbols) {
      if (!counts_.contains(symbol)) counts_[symbol] = count(e, graph, symbol);
      const ValueId factor = e.to(counts_[symbol], dtype);
      term = term == kNoValue ? factor : e.binary("aten.mul.Tensor", term, factor);
    }
    if (coefficient != 1) term = e.binary("aten.mul.Tensor", term, Dim(coefficient));
    sum = sum == kNoValue ? term : e.binary("aten.add.Tensor", sum, term);
  }
  const auto constant = terms.find({});
  return constant == terms.end() ? sum : e.binary("aten.add.Tensor", sum, Dim(constant->second));
}

ValueId SizeTensors::put_into(OpEmitter& e, Graph& graph, const Node& node) {
  const std::string& name = node.op->name;
  const OpSchema* of_tensors = find_op(name.substr(0, name.rfind('.')) + ".Tensor");
  const Dim* size = size_at(node, "other");
  if (!size || !of_tensors) {
    e.fail(Error::unsupported(node.where, name + " with a number that is a size known only at run time",
                              "export with that axis static, or make the number an input"));
    return 0;
  }
  const ValueId self = node.tensor("self");
  // Neither of them changes the dtype of the result: a number of the same kind without axes, or of a lower kind.
  const bool real = is_floating(graph.value(self).dtype) && !graph.value(self).shape.empty();
  const ValueId other = tensor_of(e, graph, *size, real ? DType::f32 : DType::i64);
  std::vector<NamedArg> args = {{"self", self}, {"other", other}};
  if (node.op->arg_index("alpha") >= 0) args.push_back({"alpha", node.arg("alpha")});
  return e.op(of_tensors, std::move(args));
}

}  // namespace qcg

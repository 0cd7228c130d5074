#include "graph/rewrite/op_emitter.h"

#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"

namespace qcg {

ValueId OpEmitter::op(Op name, std::vector<NamedArg> named) {
  if (!error_.ok()) return 0;
  Node node;
  node.op = name.schema();
  node.args = make_args(*node.op, std::move(named));
  node.where = like_.where;
  auto types = infer_types(graph_, node);
  if (!types.ok()) {
    error_ = types.error();
    return 0;
  }
  const ValueId out =
      emit(graph_, name, std::move(node.args), (*types)[0], like_, graph_.value(like_.outputs[0]).name + ".part");
  graph_.nodes[graph_.value(out).producer].origins = like_.origins;
  return out;
}

ValueId OpEmitter::to(ValueId x, DType dtype) {
  return graph_.value(x).dtype == dtype ? x : op("aten.to.dtype", {{"self", x}, {"dtype", dtype}});
}

ValueId OpEmitter::widened(ValueId x) { return is_half(graph_.value(x).dtype) ? to(x, DType::f32) : x; }

ValueId OpEmitter::wide_product(ValueId a, ValueId b) {
  const bool batches = graph_.value(a).shape.size() >= 2 && graph_.value(b).shape.size() >= 2;
  if (!batches || !is_half(graph_.value(a).dtype)) return op("aten.matmul.default", {{"self", a}, {"other", b}});
  return op("qcg.matmul", {{"self", a}, {"other", b}, {"dtype", DType::f32}});
}

ValueId OpEmitter::reshape(ValueId x, const Shape& shape) {
  return graph_.value(x).shape == shape ? x : op("aten.reshape.default", {{"self", x}, {"shape", shape}});
}

ValueId OpEmitter::parameter(const std::string& name, Tensor data) {
  return graph_.add_parameter(graph_.unique_name(name), std::move(data));
}

ValueId OpEmitter::transpose(ValueId x) {
  return op("aten.permute.default", {{"self", x}, {"dims", std::vector<Dim>{Dim(1), Dim(0)}}});
}

}  // namespace qcg

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/ir/graph.h"
#include "graph/ops/op_table.h"

using namespace qcg;

TEST_CASE("the op table is sorted, unique and parsed") {
  auto table = op_table();
  CHECK(table.size() > 100);
  for (size_t i = 1; i < table.size(); ++i) CHECK(table[i - 1].name < table[i].name);
  for (const OpSchema& op : table) {
    CHECK(find_op(op.name) == &op);
    CHECK_MESSAGE(!op.args.empty(), op.name);
    for (const ArgSpec& arg : op.args) {
      CHECK_MESSAGE(!arg.name.empty(), op.name);
      if (arg.has_default) CHECK_NOTHROW(default_arg(arg));
    }
  }
  CHECK(find_op("aten.nonsense.default") == nullptr);
}

TEST_CASE("schemas carry kinds and defaults") {
  const OpSchema* gelu = find_op("aten.gelu.default");
  REQUIRE(gelu);
  CHECK(gelu->args[1].kind == ArgKind::string);
  CHECK(gelu->args[1].keyword_only);
  CHECK(default_arg(gelu->args[1]) == Arg(std::string("none")));
  const OpSchema* linear = find_op("aten.linear.default");
  CHECK(linear->args[2].kind == ArgKind::optional_tensor);
  CHECK(default_arg(linear->args[2]) == Arg(kNoValue));
  const OpSchema* qparams = find_op("torchao.choose_qparams_affine.default");
  CHECK(qparams->outputs == 2);
  CHECK(default_arg(qparams->args[qparams->arg_index("eps")]) == Arg());
  CHECK(default_arg(qparams->args[qparams->arg_index("keepdim")]) == Arg(false));
  const OpSchema* dequantize = find_op("torchao.dequantize_affine.default");
  CHECK(default_arg(dequantize->args.back()) == Arg(DType::f32));
  const OpSchema* add = find_op("aten.add.Tensor");
  CHECK(add->args[1].kind == ArgKind::tensor_or_scalar);
  CHECK(default_arg(add->args[2]) == Arg(Dim(1)));
  CHECK(find_op("aten.split.Tensor")->outputs == -1);
  CHECK(find_op("aten._assert_tensor_metadata.default")->outputs == 0);
  const OpSchema* copy = find_op("aten._to_copy.default");
  CHECK(copy->args[copy->arg_index("device")].kind == ArgKind::ignored);
  CHECK(copy->args[copy->arg_index("pin_memory")].kind == ArgKind::ignored);
}

TEST_CASE("in-place twins name their functional op") {
  CHECK(functional_name("aten.sub_.Tensor") == "aten.sub.Tensor");
  CHECK(functional_name("aten.relu_.default") == "aten.relu.default");
  CHECK(functional_name("aten.relu.default") == "aten.relu.default");
  CHECK(functional_name("aten.nope_.default") == "aten.nope_.default");
  for (const OpSchema& op : op_table()) CHECK(find_op(functional_name(op.name)) != nullptr);
}

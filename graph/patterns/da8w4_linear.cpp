// da8w4_linear: torchao's CPU kernel for int8 activations and int4 weights, operands packed for it.
//
//   %y = torchao.da8w4_linear_cpu(%q, %xs, %xz, @w, @scales, @zeros, @compensation, @bias, bf16)
//
// q is u8 with zero points or i8 without; it may come from quantize_rows or from anywhere else. The weight is unpacked
// here, once; of the two byte orders it is the one that its compensation was summed from (int4_packing.h).
#include <algorithm>
#include <array>

#include "graph/ops/int4_packing.h"
#include "graph/patterns/recognizer.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

constexpr const char* kParts[] = {"weight", "weight_scales", "weight_qzeros", "compensation"};

Pattern da8w4_linear_pattern() { return op({"torchao.da8w4_linear_cpu.default"}, {{"input", any("x")}}); }

Outcome build_da8w4_linear(Graph& graph, const Match& m) {
  const Node node = graph.nodes[m.gemm_node()];
  auto fail = [&](std::string message, std::string help) {
    return Outcome::fail(
        Error::unsupported(node.where, "torchao.da8w4_linear_cpu: " + std::move(message), std::move(help)));
  };
  std::array<ValueId, 4> parts;
  std::transform(std::begin(kParts), std::end(kParts), parts.begin(),
                 [&](const char* name) { return node.tensor(name); });
  if (!std::all_of(parts.begin(), parts.end(), [&](ValueId part) { return is_parameter(graph, part); }))
    return fail("a part of the packed weight is computed at run time", "make it a buffer of the module");
  auto data = [&](size_t i) -> const Tensor& { return graph.value(parts[i]).data; };
  auto weight = read_da8w4(data(0), data(1), data(2), data(3));
  if (!weight)
    return fail("neither byte order of the packed weight gives its compensation",
                "pack the weight again with da8w4_linear_prepack_cpu, or export the unpacked da8w4 graph");
  LinearSpec spec{.x = m.value("x"), .scheme = Scheme::da8w4, .group = weight->group};
  // Siblings merge when they read the same values, whatever shapes the exporter gave them.
  auto of_rows = [&](const char* name) {
    const ValueId given = node.tensor(name), source = under_rows(graph, given);
    return graph.value(source).dtype == graph.value(given).dtype ? source : given;
  };
  spec.x_scale = of_rows("input_scales");
  if (graph.value(spec.x).dtype == DType::u8) spec.x_zero = of_rows("input_qzeros");
  spec.weight = add_constant(graph, parts[0], std::move(weight->codes));
  spec.scale = add_constant(graph, parts[1], std::move(weight->scales));
  spec.zero = add_constant(graph, parts[2], std::move(weight->zeros));
  if (is_all_zero(graph, spec.zero)) spec.zero = kNoValue;
  if (const ValueId bias = node.tensor("bias"); bias != kNoValue) {
    const ValueId constant = constant_of(graph, bias);
    if (constant != kNoValue) {
      spec.bias = constant;
    } else {
      spec.operands = {bias};
      spec.epilogue = Expr::call("add", {std::move(spec.epilogue), Expr::in(0)});
    }
  }
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kDa8w4Linear = {"torchao.da8w4_linear_cpu", da8w4_linear_pattern, build_da8w4_linear};

}  // namespace qcg

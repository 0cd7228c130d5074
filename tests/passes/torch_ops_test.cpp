// What torch computes of an op, its decomposition, fused and lowered, computes too.
#include "graph/ops/op_table.h"
#include "graph/oracle/reference.h"
#include "tests/passes/passes_test_util.h"
#include "tests/torch_cases.h"

using namespace qcg;
using namespace qcg::test;

namespace {

bool is_close(DType dtype, double got, double want) {
  if (std::isnan(want) || std::isinf(want)) return std::isnan(want) ? std::isnan(got) : got == want;
  if (!is_floating(dtype)) return got == want;
  const double relative = dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : 4e-6;
  return std::abs(got - want) <= relative * std::max(std::abs(want), 0.25);
}

// Of floats they have kernels, though hand-packed weights are what they are for.
bool is_also_of_floats(const Node& node) {
  constexpr Op kOps[] = {"aten.exp2.default",         "aten.pow.Scalar",          "aten.erfinv.default",
                         "aten.ldexp.Tensor",         "aten.div.Tensor_mode",     "aten.div.Scalar_mode",
                         "aten.floor_divide.default", "aten.floor_divide.Scalar", "aten.fmod.Tensor",
                         "aten.remainder.Tensor",     "aten.remainder.Scalar",    "aten.fmod.Scalar"};
  return is_any_op(node, kOps);
}

bool is_bit_operation(const Node& node) {
  return node.op->name.starts_with("aten.bitwise_") || node.op->name.starts_with("aten.__");
}

// Pointwise ops, reductions and what is composed of them: the rest has tests of its own.
bool is_tried(const Graph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    if (functional_name(node.op->name) != node.op->name) return false;
    return node.op->role == OpRole::pointwise || node.op->role == OpRole::reduction ||
           node.op->name == "aten.stack.default" || node.op->name == "aten.baddbmm.default" ||
           node.op->name == "aten.expand_as.default" || node.op->name == "prims.convert_element_type.default" ||
           is_also_of_floats(node) || is_bit_operation(node);
  });
}

// Of these the first result alone has a kernel.
bool is_read_in_part(const Node& node) {
  return node.op->name.starts_with("aten._scaled_dot_product_") ||
         node.op->name == "aten._native_batch_norm_legit_no_training.default";
}

}  // namespace

TEST_CASE("lowered ops compute what torch computes") {
  int tried = 0;
  for (const TorchCase& test : read_torch_cases()) {
    Graph graph = test.graph();
    if (test.is_quantization() || !is_tried(graph)) continue;
    ++tried;
    if (is_read_in_part(graph.nodes[0])) graph.outputs.resize(1), graph.output_names.resize(1);
    const auto status = run_passes(graph, {.verify_after_each = true});
    if (!status.ok() && status.error().message.find("is evaluated when the graph is compiled") != std::string::npos)
      continue;
    if (!status.ok() && status.error().message.find("has no exact kernel") != std::string::npos) continue;
    REQUIRE_MESSAGE(status.ok(), test.title << ": " << status.error().to_string() << "\n" << test.text);
    for (const Node& node : graph.nodes) CHECK_MESSAGE(node.op->role != OpRole::pointwise, test.title);
    const auto got = evaluate_graph(graph, test.input_tensors());
    REQUIRE(got.ok());
    const std::vector<Tensor> want = test.output_tensors();
    for (size_t i = 0; i < got->size(); ++i) {
      const Tensor flat = (*got)[i].contiguous();
      const size_t step = dtype_bytes(flat.dtype);
      int wrong = 0;
      for (int64_t k = 0; k < flat.numel(); ++k)
        wrong += !is_close(flat.dtype, element_to_double(flat.dtype, flat.bytes().data() + k * step),
                           element_to_double(want[i].dtype, want[i].bytes().data() + k * step));
      CHECK_MESSAGE(wrong == 0, test.title << "\n" << test.text << print_graph(graph));
    }
  }
  CHECK(tried > 300);
}

TEST_CASE("what has no kernel is evaluated to what torch computes, and refused of inputs") {
  int tried = 0;
  for (const TorchCase& test : read_torch_cases()) {
    Graph graph = test.graph();
    if (graph.nodes.size() != 1) continue;
    const Node& node = graph.nodes[0];
    const bool looks_up = node.op->role == OpRole::look_up;
    if (node.op->role != OpRole::constant && !looks_up) continue;
    ++tried;
    constexpr Op kWrites[] = {"aten.copy.default",       "aten.slice_scatter.default", "aten.select_scatter.default",
                              "aten.index_copy.default", "aten.index_put.default",     "aten.scatter.src",
                              "aten.scatter.value",      "aten.index_add.default",     "aten.scatter_add.default"};
    const bool is_write = is_any_op(node, kWrites);
    const auto names = [&](const char* part) { return node.op->name.find(part) != std::string::npos; };
    const bool is_quotient = node.op->arg_index("other") >= 0 && (names("div") || names("remainder") || names("fmod"));
    const ValueId* divisor = is_quotient ? node.arg("other").get<ValueId>() : nullptr;
    const bool divides =
        is_quotient && (node.arg("other").get<Dim>() || (divisor && !is_floating(graph.value(*divisor).dtype) &&
                                                         !is_floating(graph.value(graph.outputs[0]).dtype)));
    const bool has_kernel = is_write || looks_up || names("view.dtype") || divides || is_bit_operation(node) ||
                            (is_also_of_floats(node) && is_floating(graph.value(graph.outputs[0]).dtype));
    if (!graph.inputs.empty() && !has_kernel) {
      Graph open = graph;
      const auto refused = run_passes(open);
      REQUIRE_MESSAGE(!refused.ok(), test.title);
      CHECK(refused.error().code == ErrorCode::Unsupported);
      CHECK_MESSAGE(refused.error().message.find("computed from the inputs") != std::string::npos, test.title);
    }
    const std::vector<Tensor> inputs = test.input_tensors(), want = test.output_tensors();
    for (size_t i = 0; i < inputs.size(); ++i) {
      Value& value = graph.value(graph.inputs[i]);
      value.kind = ValueKind::parameter;
      value.data = inputs[i];
    }
    graph.inputs.clear();
    const auto status = run_pass("unpack_constants", graph);
    REQUIRE_MESSAGE(status.ok(), test.title << ": " << status.error().to_string() << "\n" << test.text);
    if (test.title.find("ldexp") != std::string::npos) REQUIRE(run_pass("fold_constants", graph).ok());
    const Value& out = graph.value(graph.outputs[0]);
    REQUIRE_MESSAGE(out.kind == ValueKind::parameter, test.title);
    CHECK(out.dtype == want[0].dtype);
    CHECK(out.data.shape == want[0].shape);
    const Tensor got = out.data.contiguous();
    const size_t step = dtype_bytes(out.dtype);
    int wrong = 0;
    for (int64_t k = 0; k < got.numel(); ++k)
      wrong += !is_close(out.dtype, element_to_double(out.dtype, got.bytes().data() + k * step),
                         element_to_double(out.dtype, want[0].bytes().data() + k * step));
    CHECK_MESSAGE(wrong == 0, test.title << "\n" << test.text);
  }
  CHECK(tried > 60);
}

TEST_CASE("a product of halves that is added to is rounded once") {
  // 257 is between two bf16, 258 is one.
  for (const std::string_view op :
       {"aten.baddbmm.default(%self, %a, %b)", "aten.baddbmm.default(%self, %a, %b, alpha = 0.5, beta = 2)"}) {
    const bool scaled = op.find("alpha") != std::string_view::npos;
    Graph graph = parse(R"(graph(%self: bf16[1, 1, 1], %a: bf16[1, 1, 2], %b: bf16[1, 2, 1]) {
  %y = )" + std::string(op) +
                        R"( : bf16[1, 1, 1]
  return %y
}
)");
    REQUIRE(run_passes(graph).ok());
    const auto of = [](const std::vector<double>& numbers, std::vector<int64_t> shape) {
      return tensor_of(DType::bf16, std::move(shape), numbers);
    };
    const auto got =
        evaluate_graph(graph, scaled ? std::vector{of({0.5}, {1, 1, 1}), of({512, 2}, {1, 1, 2}), of({1, 1}, {1, 2, 1})}
                                     : std::vector{of({1}, {1, 1, 1}), of({256, 1}, {1, 1, 2}), of({1, 1}, {1, 2, 1})});
    REQUIRE(got.ok());
    CHECK(read_doubles((*got)[0])[0] == 258);
  }
  Graph graph = parse(R"(graph(%bias: bf16[1], %x: bf16[1, 2], %w: bf16[1, 2]) {
  %y = aten.linear.default(%x, %w, %bias) : bf16[1, 1]
  return %y
}
)");
  REQUIRE(run_passes(graph).ok());
  const auto got = evaluate_graph(graph, {tensor_of(DType::bf16, {1}, {1}), tensor_of(DType::bf16, {1, 2}, {256, 1}),
                                          tensor_of(DType::bf16, {1, 2}, {1, 1})});
  REQUIRE(got.ok());
  CHECK(read_doubles((*got)[0])[0] == 258);
}

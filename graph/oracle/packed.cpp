// The oracle's products of packed 4-bit weights: unpacked, they are a linear like any other.
#include "graph/ops/int4_packing.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

Result<Tensors> multiply_packed(const RefContext& c, LinearOperands p, Int4Weight w) {
  p.group = w.group;
  LinearSegment segment;
  segment.weight = std::move(w.codes), segment.scales = std::move(w.scales);
  segment.zeros = std::move(w.zeros), segment.offsets = std::move(w.offsets);
  if (const RefValue* bias = c.node.op->arg_index("bias") >= 0 ? c.optional_tensor("bias") : nullptr)
    segment.bias = bias->data;
  p.segments.push_back(std::move(segment));
  QCG_TRY(result, reference_linear(p, 0));
  return Tensors{make_doubles(c.sizes(0), std::move(result.y))};
}

Result<Tensors> run_int4pack(const RefContext& c) {
  LinearOperands p;
  p.scheme = Scheme::w4;
  p.xs = {c.tensor("self").data};
  return multiply_packed(
      c, std::move(p), read_int4pack(c.tensor("mat2").data, c.integer("qGroupSize"), c.tensor("qScaleAndZeros").data));
}

Result<Tensors> run_da8w4(const RefContext& c) {
  auto weight = read_da8w4(c.tensor("weight").data, c.tensor("weight_scales").data, c.tensor("weight_qzeros").data,
                           c.tensor("compensation").data);
  if (!weight)
    return Error::bad_input(c.node.where, "da8w4: the packed weight does not match its compensation",
                            "pack the weight again");
  const RefValue& x = c.tensor("input");
  LinearOperands p;
  p.scheme = Scheme::da8w4;
  p.xs = {x.data};
  p.x_scale = c.tensor("input_scales").data;
  if (x.dtype == DType::u8) p.x_zero = c.tensor("input_qzeros").data;  // an int8 activation is symmetric
  return multiply_packed(c, std::move(p), std::move(*weight));
}

constexpr RefRow kPackedRules[] = {
    {"aten._weight_int4pack_mm.default", run_int4pack},
    {"aten._weight_int4pack_mm_for_cpu.default", run_int4pack},
    {"torchao.da8w4_linear_cpu.default", run_da8w4},
};

}  // namespace

std::span<const RefRow> reference_packed() { return kPackedRules; }

}  // namespace qcg

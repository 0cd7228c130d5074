#include "graph/read/int4_order.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/ir/elements.h"
#include "graph/ops/int4_packing.h"
#include "graph/ops/op_table.h"

namespace qcg {

namespace {

constexpr Op kOp = "aten._weight_int4pack_mm_for_cpu.default";
// The most codes that are looked at, from the first weight on: as many as dozens of large weights have.
constexpr int64_t kMostCodes = int64_t{1} << 27;

const Tensor* bound_parameter(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.kind == ValueKind::parameter && value.data.bound() ? &value.data : nullptr;
}

struct PackedWeight {
  NodeId node;
  int64_t n, k;
  Int4Evidence evidence;
};

// Every packed weight whose bytes are there and would mean something else in the other order.
std::vector<PackedWeight> find_packed_weights(const Graph& graph, bool look) {
  std::vector<PackedWeight> out;
  std::map<std::tuple<ValueId, ValueId, int64_t>, Int4Evidence> seen;  // by weight, scales and group
  int64_t codes_left = kMostCodes;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (!is_op(node, kOp)) continue;
    const Tensor* packed = bound_parameter(graph, node.tensor("mat2"));
    const Dim* group = node.arg("qGroupSize").get<Dim>();
    if (!packed || !group || packed->shape[0] < kLeastOrderedRows) continue;
    PackedWeight weight = {id, packed->shape[0], packed->shape[1] * 2, Int4Evidence::none};
    const Tensor* scales = bound_parameter(graph, node.tensor("qScaleAndZeros"));
    if (look && scales) {
      const auto [it, fresh] =
          seen.try_emplace({node.tensor("mat2"), node.tensor("qScaleAndZeros"), group->constant()}, Int4Evidence::none);
      // Counted by the shape: an expanded weight has more codes than bytes.
      const int64_t codes = std::min(weight.n, kOrderRows) * weight.k * (1 + 16 / group->constant());
      if (fresh && codes <= codes_left) {
        codes_left -= codes;
        it->second = find_cpu_order(*packed, group->constant(), *scales);
      }
      weight.evidence = it->second;
    }
    out.push_back(weight);
  }
  return out;
}

// One machine packed them all: what some show holds for those that show nothing.
Int4Evidence common_evidence(const std::vector<PackedWeight>& weights) {
  Int4Evidence out = Int4Evidence::none;
  for (const PackedWeight& w : weights)
    if (w.evidence != Int4Evidence::none && (out == Int4Evidence::none || w.evidence == Int4Evidence::avx2))
      out = w.evidence;
  return out;
}

void repack(Graph& graph, const PackedWeight& weight, std::map<ValueId, ValueId>& done) {
  const ValueId old = graph.nodes[weight.node].tensor("mat2");
  auto [it, fresh] = done.try_emplace(old, kNoValue);
  if (fresh) {
    const Tensor packed = graph.value(old).data.contiguous();
    const auto codes = unpack_int4pack_cpu(packed.bytes(), weight.n, weight.k, Int4CpuOrder::avx2);
    Tensor again = Tensor::from_bytes(packed.dtype, packed.shape,
                                      pack_int4pack_cpu(codes, weight.n, weight.k, Int4CpuOrder::avx512));
    const std::string name = graph.unique_name(graph.value(old).name + ".avx512");
    it->second = graph.add_parameter(name, std::move(again));
  }
  graph.nodes[weight.node].arg("mat2") = it->second;
}

std::string describe_order(size_t count, bool avx2, std::string_view why) {
  return std::to_string(count) + (count == 1 ? " weight" : " weights") +
         " of aten._weight_int4pack_mm_for_cpu: read as packed by a torch " + (avx2 ? "without" : "with") +
         " AVX-512, " + std::string(why);
}

}  // namespace

void settle_int4_order(Graph& graph, Int4Packing packing, ReadInfo& info) {
  const auto weights = find_packed_weights(graph, packing == Int4Packing::automatic);
  if (weights.empty()) return;
  const Int4Evidence evidence = common_evidence(weights);
  const bool avx2 =
      packing == Int4Packing::avx2 || (packing == Int4Packing::automatic && evidence == Int4Evidence::avx2);
  if (packing != Int4Packing::automatic)
    info.notes.push_back(describe_order(weights.size(), avx2, "as requested by --int4-packing"));
  else if (evidence != Int4Evidence::none)
    info.notes.push_back(
        describe_order(weights.size(), avx2, "because only in that byte order the groups look like quantized weights"));
  else
    info.warnings.push_back(
        describe_order(weights.size(), avx2,
                       "which is an assumption: the file does not record the byte order, and the values "
                       "fit both; --int4-packing=avx2 or avx512 sets it"));
  std::map<ValueId, ValueId> done;
  if (avx2)
    for (const PackedWeight& weight : weights) repack(graph, weight, done);
}

}  // namespace qcg

// Tensors of single experts, of which graphs have one for all.
//
//   P.experts.3.gate_proj.weight [I, K] and P.experts.3.up_proj.weight [I, K]  ->  P.experts.gate_up_proj [E, 2 I, K]
//   P.experts.3.down_proj.weight [N, I]                                        ->  P.experts.down_proj [E, N, I]
//
// transformers joins them when it loads a checkpoint, and exports the model with what it joined.
#include <algorithm>
#include <charconv>

#include "graph/checkpoints/kinds.h"
#include "graph/read/files/json.h"

namespace qcg {

namespace {

constexpr std::string_view kExperts = ".experts.", kWeight = ".weight";

struct Joined {
  std::string_view name;
  std::array<std::string_view, 2> parts;  // rows of the one, then of the other if there is one
};
constexpr Joined kJoined[] = {{"gate_up_proj", {"gate_proj", "up_proj"}},
                              {"down_proj", {"down_proj"}},
                              {"gate_up_proj", {"w1", "w3"}},
                              {"down_proj", {"w2"}}};

// "P.experts." of "P.experts.3.up_proj.weight", and one more than its number.
std::optional<std::pair<std::string, int64_t>> expert_of(const std::string& name) {
  const size_t at = name.rfind(kExperts);
  if (at == name.npos || !name.ends_with(kWeight)) return std::nullopt;
  const size_t begin = at + kExperts.size();
  int64_t number = -1;
  const auto [end, failed] = std::from_chars(name.data() + begin, name.data() + name.size(), number);
  constexpr int64_t kMostExperts = 1 << 16;
  if (failed != std::errc() || *end != '.' || number < 0 || number >= kMostExperts) return std::nullopt;
  return std::pair(name.substr(0, begin), number + 1);
}

Error unlike(const std::vector<std::string>& names, size_t i, const std::string& what) {
  return Error::unsupported(quote(names[i]),
                            what + " than " + quote(names[0]) + ", and the graph has all experts as one",
                            "quantize all experts alike");
}

// The rows of all, one after the other. `names` are those of the weights.
Result<Tensor> join_rows(const std::vector<Tensor>& parts, const std::vector<std::string>& names) {
  std::vector<int64_t> shape = parts[0].shape;
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Tensor dense = parts[i].contiguous();
    if (dense.dtype != parts[0].dtype || dense.shape.size() != 2 || dense.shape[1] != shape[1])
      return unlike(names, i, "is " + describe(dense) + ", of another shape or dtype");
    if (i == 0) bytes.reserve(dense.bytes().size() * parts.size());
    else shape[0] += dense.shape[0];
    bytes.insert(bytes.end(), dense.bytes().begin(), dense.bytes().end());
  }
  return Tensor::from_bytes(parts[0].dtype, std::move(shape), std::move(bytes));
}

// Each expert has as many rows of each part.
Status check_rows(const std::vector<Tensor>& parts, size_t each, const std::vector<std::string>& names) {
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i].shape.size() != 2 || parts[i].shape[0] != parts[i % each].shape[0])
      return unlike(names, i, "has other rows");
  return {};
}

// [E * 2 I, …] of gates and ups in turn, from I rows of the gate and then I of the up.
Tensor alternate_rows(const Tensor& stacked, int64_t experts) {
  const int64_t each = stacked.shape[0] / experts, half = each / 2;
  std::vector<int64_t> rows;
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t i = 0; i < each; ++i) rows.push_back(e * each + i / 2 + i % 2 * half);
  return gather_rows(stacked, rows);
}

// Rows that were joined, in the order that the parameter has them.
Tensor ordered_rows(Tensor rows, size_t parts, size_t each, JoinedExperts order) {
  const bool alternate = order == JoinedExperts::alternating && each == 2;
  return alternate ? alternate_rows(rows, static_cast<int64_t>(parts / each)) : std::move(rows);
}

Result<Tensor> join_plain(const std::vector<Tensor>& parts, size_t each, const std::vector<std::string>& names,
                          JoinedExperts order) {
  QCG_CHECK(check_rows(parts, each, names));
  QCG_TRY(stacked, join_rows(parts, names));
  const Tensor rows = ordered_rows(std::move(stacked), parts.size(), each, order);
  const auto experts = static_cast<int64_t>(parts.size() / each);
  const Tensor joined = rows.reshape({experts, rows.shape[0] / experts, rows.shape[1]});
  return order == JoinedExperts::alternating ? joined.transpose(1, 2).contiguous() : joined;
}

// Biases [E, I] of gates and ups as [E, 2 I].
void alternate_biases(Checkpoint& out) {
  constexpr std::string_view kGate = ".gate_proj_bias", kUp = ".up_proj_bias";
  std::vector<std::string> bases;
  for (const auto& [name, tensor] : out.tensors)
    if (name.ends_with(kGate)) bases.push_back(name.substr(0, name.size() - kGate.size()));
  for (const std::string& base : bases) {
    const std::vector<std::string> names = {base + std::string(kGate), base + std::string(kUp)};
    const auto up = out.tensors.find(names[1]);
    if (up == out.tensors.end()) continue;
    const Tensor gate = out.tensors.find(names[0])->second;
    const std::string joined = base + ".gate_up_proj_bias";
    out.joined.emplace(joined, [gate, up = up->second, names]() -> Result<Tensor> {
      if (gate.shape != up.shape || gate.shape.size() != 2) return unlike(names, 1, "is of another shape");
      QCG_TRY(rows, join_rows({gate.transpose(0, 1), up.transpose(0, 1)}, names));  // [2 I, E]
      return alternate_rows(rows, 1).transpose(0, 1).contiguous();
    });
    for (const std::string& name : names) out.part_of.emplace(name, joined);
  }
}

Result<QuantizedWeight> join_quantized(const std::vector<WeightReader>& readers, size_t each,
                                       const std::vector<std::string>& names, JoinedExperts order) {
  std::vector<QuantizedWeight> parts;
  for (size_t i = 0; i < readers.size(); ++i) {
    QCG_TRY(part, readers[i]());
    const QuantizedWeight& first = parts.empty() ? part : parts[0];
    if (part.group != first.group || part.low != first.low || part.high != first.high || part.format != first.format ||
        part.zero.bound() != first.zero.bound() || part.offset.bound() != first.offset.bound())
      return unlike(names, i, "is quantized otherwise");
    if (!part.columns.empty() || part.global.bound() || part.activation)
      return Error::unsupported(quote(names[i]),
                                "has an order of columns, a global scale or activations of its own, and the graph has "
                                "all experts as one",
                                "quantize without activation ordering, as integers, weights alone");
    parts.push_back(std::move(part));
  }
  QuantizedWeight out = parts[0];
  for (Tensor QuantizedWeight::*member :
       {&QuantizedWeight::codes, &QuantizedWeight::scale, &QuantizedWeight::zero, &QuantizedWeight::offset}) {
    if (!(out.*member).bound()) continue;
    std::vector<Tensor> all;
    for (const QuantizedWeight& part : parts) all.push_back(part.*member);
    if (member == &QuantizedWeight::codes) QCG_CHECK(check_rows(all, each, names));
    QCG_TRY(rows, join_rows(all, names));
    out.*member = ordered_rows(std::move(rows), readers.size(), each, order);
  }
  out.matrices = static_cast<int64_t>(readers.size() / each);
  out.turned = order == JoinedExperts::alternating;
  return out;
}

// Names of the parts of all experts, expert by expert; empty unless all are in `stored`.
template <class Map>
std::vector<std::string> find_parts(const Map& stored, const std::string& base, int64_t experts, const Joined& joined) {
  std::vector<std::string> out;
  for (int64_t e = 0; e < experts; ++e)
    for (std::string_view part : joined.parts) {
      if (part.empty()) continue;
      out.push_back(base + std::to_string(e) + "." + std::string(part) + std::string(kWeight));
      if (!stored.contains(out.back())) return {};
    }
  return out;
}

}  // namespace

void join_experts(Checkpoint& out, JoinedExperts order) {
  if (order == JoinedExperts::alternating) alternate_biases(out);
  std::map<std::string, int64_t> bases;
  const auto add = [&](const std::string& name) {
    if (const auto found = expert_of(name)) {
      int64_t& experts = bases[found->first];
      experts = std::max(experts, found->second);
    }
  };
  for (const auto& [name, tensor] : out.tensors) add(name);
  for (const auto& [name, reader] : out.weights) add(name);
  for (const auto& [base, experts] : bases)
    for (const Joined& joined : kJoined) {
      const std::string name = base + std::string(joined.name);
      const size_t each = joined.parts[1].empty() ? 1 : 2;
      const std::vector<std::string> plain = find_parts(out.tensors, base, experts, joined),
                                     quantized = find_parts(out.weights, base, experts, joined);
      if (!plain.empty()) {
        std::vector<Tensor> parts;
        for (const std::string& part : plain) parts.push_back(out.tensors.find(part)->second);
        out.joined.emplace(name, [parts, each, plain, order] { return join_plain(parts, each, plain, order); });
      } else if (!quantized.empty()) {
        std::vector<WeightReader> readers;
        for (const std::string& part : quantized) readers.push_back(out.weights.find(part)->second);
        out.weights.emplace(
            name, [readers, each, quantized, order] { return join_quantized(readers, each, quantized, order); });
      } else {
        continue;
      }
      for (const std::string& part : plain.empty() ? quantized : plain) out.part_of.emplace(part, name);
    }
}

}  // namespace qcg

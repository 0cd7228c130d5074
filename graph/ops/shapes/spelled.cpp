// Shape and dtype rules of what is another spelling of products, sums, slices and look-ups: einsum, outer, roll, …
#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/einsum.h"
#include "graph/ops/infer.h"
#include "graph/ops/rows_composed.h"

namespace qcg {

namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)); }

Status need_vector(const OpArgs& a, std::string_view name) {
  if (a.tensor(name).shape.size() == 1) return {};
  return a.fail(name, "expected one axis, got " + describe(a.tensor(name)));
}

Status need_same(const OpArgs& a, std::string_view name, DType dtype) {
  if (a.tensor(name).dtype == dtype) return {};
  return a.fail(name, fmt::format("{} is not {}", describe(a.tensor(name)), dtype_name(dtype)), "cast it before");
}

// Labels of one operand, an ellipsis as labels of its own: counted from the right, so that they line up.
Result<std::string> labels_of(const OpArgs& a, std::string_view text, size_t rank, bool is_result = false) {
  std::string labels;
  const size_t dots = text.find("...");
  const size_t named = dots == text.npos ? text.size() : text.size() - 3;
  if (named > rank || (dots == text.npos && named != rank))
    return a.fail("equation", fmt::format("'{}' has labels for {} axes, its tensor {}", text, named, rank));
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == dots) {
      for (size_t k = rank - named; k > 0; --k) labels += static_cast<char>(k);
      i += 2;
    } else if (!is_letter(text[i])) return a.fail("equation", fmt::format("'{}' is no label", text[i]));
    else if (is_result && labels.find(text[i]) != labels.npos)
      return a.fail("equation", fmt::format("'{}' names an axis of the result twice", text));
    else labels += text[i];
  }
  return labels;
}

// An axis of 1 whose label is a larger axis elsewhere gets a label of its own, which is summed over.
Status name_broadcast_axes(const OpArgs& a, Einsum& einsum) {
  std::string_view unused = "[\\]^_`{|}~";
  const std::vector<ValueId>& tensors = a.tensors("tensors");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Shape& shape = a.graph.value(tensors[i]).shape;
    std::string& labels = einsum.inputs[i];
    for (size_t k = 0; k < labels.size(); ++k) {
      if (!shape[k].is_constant(1) || einsum.sizes.at(labels[k]).is_constant(1)) continue;
      if (unused.empty() || std::ranges::count(labels, labels[k]) > 1)
        return a.unsupported("equation", "a diagonal, or more than ten axes, of 1 and more with one label",
                             "expand the smaller ones before");
      labels[k] = unused.front();
      unused.remove_prefix(1);
      einsum.sizes.emplace(labels[k], Dim(1));
    }
  }
  return {};
}

}  // namespace

Result<Einsum> read_einsum(const OpArgs& a) {
  std::string text = a.string("equation");
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  const std::vector<ValueId>& tensors = a.tensors("tensors");
  Einsum out;
  for (size_t i = 0, at = 0; i < tensors.size(); ++i) {
    if (at > left.size()) return a.fail("equation", fmt::format("'{}' for {} tensors", left, tensors.size()));
    const size_t end = std::min(left.find(',', at), left.size());
    const Shape& shape = a.graph.value(tensors[i]).shape;
    QCG_TRY(labels, labels_of(a, std::string_view(left).substr(at, end - at), shape.size()));
    for (size_t k = 0; k < labels.size(); ++k) {
      const auto [it, fresh] = out.sizes.emplace(labels[k], shape[k]);
      if (fresh || it->second == shape[k] || shape[k].is_constant(1)) continue;
      if (!it->second.is_constant(1))
        return a.unsupported(
            "equation", fmt::format("an axis of {} and one of {} with one label", it->second.str(), shape[k].str()),
            "give them one size");
      it->second = shape[k];
    }
    out.inputs.push_back(std::move(labels));
    at = end + 1;
    if (i + 1 == tensors.size() && end != left.size())
      return a.fail("equation", fmt::format("'{}' for {} tensors", left, tensors.size()));
  }
  QCG_CHECK(name_broadcast_axes(a, out));
  const auto times = [&](char label) {
    std::ptrdiff_t count = 0;
    for (const std::string& in : out.inputs) count += std::ranges::count(in, label);
    return count;
  };
  size_t dotted = 0;
  for (const auto& [label, size] : out.sizes) dotted += label < 'A';
  if (arrow == text.npos) {  // what stands once, in the order of the alphabet, behind the ellipsis
    for (size_t k = dotted; k > 0; --k) out.output += static_cast<char>(k);
    for (const auto& [label, size] : out.sizes)
      if (is_letter(label) && times(label) == 1) out.output += label;
    return out;
  }
  const std::string right = text.substr(arrow + 2);
  const bool dots = right.find("...") != right.npos;
  QCG_TRY(output, labels_of(a, right, right.size() - (dots ? 3 : 0) + (dots ? dotted : 0), true));
  for (char label : output)
    if (!out.sizes.contains(label))
      return a.fail("equation", fmt::format("no tensor has the label '{}' of the result", label));
  out.output = std::move(output);
  return out;
}

// An outer product is element-wise: it promotes, as mul does.
Result<Types> infer_einsum(const OpArgs& a) {
  if (a.tensors("tensors").empty()) return a.fail("tensors", "a product of nothing");
  QCG_TRY(einsum, read_einsum(a));
  const bool sums = einsum.output.size() < einsum.sizes.size();
  const Value& first = a.graph.value(a.tensors("tensors")[0]);
  Promotion promoted;
  for (ValueId id : a.tensors("tensors")) {
    const Value& one = a.graph.value(id);
    if (sums && one.dtype != first.dtype)
      return a.fail("tensors", fmt::format("{} is not {}", describe(one), dtype_name(first.dtype)));
    promoted.add(one);
  }
  const DType dtype = promoted.result();
  if (!promoted.defined || !is_floating(dtype))
    return a.unsupported("tensors", "products of integers have no kernel here", "cast them to floats first");
  Shape shape;
  for (char label : einsum.output) shape.push_back(einsum.sizes.at(label));
  return one(dtype, std::move(shape));
}

Result<Types> infer_outer(const OpArgs& a) {
  QCG_CHECK(need_vector(a, "self"));
  QCG_CHECK(need_vector(a, "vec2"));
  QCG_TRY(p, promote_operands(a, {"self"}));
  p.dtype.add(a.tensor("vec2"));
  return one(p.dtype.result(), {a.tensor("self").shape[0], a.tensor("vec2").shape[0]});
}

// mv: a matrix; dot: a vector.
Result<Types> infer_product_of_vector(const OpArgs& a) {
  const bool matrix = a.node.op->arg_index("vec") >= 0;
  const std::string_view name = matrix ? "vec" : "tensor";
  const Value &self = a.tensor("self"), &vector = a.tensor(name);
  QCG_CHECK(need_vector(a, name));
  QCG_CHECK(need_same(a, name, self.dtype));
  if (!is_floating(self.dtype))
    return a.unsupported("self", "products of integers have no kernel here", "cast them to floats first");
  if (self.shape.size() != (matrix ? 2 : 1)) return a.fail("self", "its axes do not fit: " + describe(self));
  QCG_CHECK(same_k(a, name, self.shape.back(), vector.shape[0]));
  return one(self.dtype, matrix ? Shape{self.shape[0]} : Shape{});
}

// The size of each slice v[.., i, ..] along dim becomes g[i].
Result<Types> infer_weight_norm(const OpArgs& a) {
  const Value &v = a.tensor("v"), &g = a.tensor("g");
  if (!is_floating(v.dtype)) return a.fail("v", "expected a floating dtype, got " + describe(v));
  QCG_CHECK(need_same(a, "g", v.dtype));
  QCG_TRY(axis, a.axis("dim", v.shape.size()));
  const auto fitted = broadcast(v.shape, g.shape);
  if (!fitted || *fitted != v.shape || g.shape.size() != v.shape.size() || !(product(g.shape) == v.shape[axis]))
    return a.fail("g", fmt::format("{} has not one number per slice of {}", describe(g), describe(v)));
  return one(v.dtype, v.shape);
}

Result<Types> infer_roll(const OpArgs& a) {
  const Value& self = a.tensor("self");
  const std::vector<Dim> shifts = a.dims("shifts"), dims = a.dims("dims");
  if (shifts.size() != std::max<size_t>(dims.size(), 1))
    return a.fail("shifts", fmt::format("{} shifts of {} axes", shifts.size(), dims.size()));
  for (size_t i = 0; i < shifts.size(); ++i) {
    if (!shifts[i].is_constant())
      return a.unsupported("shifts", "a shift known only at run time", "export with a constant here");
    Dim size = product(self.shape);
    if (!dims.empty()) {
      QCG_TRY(axis, a.axis("dims", dims[i], self.shape.size()));
      size = self.shape.empty() ? Dim(1) : self.shape[axis];
    }
    const int64_t shift = shifts[i].constant();
    if (!size.is_constant() && (shift == INT64_MIN || std::abs(shift) > range_of(size, a.graph.symbols).min))
      return a.unsupported("shifts",
                           fmt::format("a shift of {}, which may be more than the axis of {}", shift, size.str()),
                           "export with a larger minimum of this size");
  }
  return one(self.dtype, self.shape);
}

// Every tensor along an axis of its own; `xy`: the first two change places.
Result<Types> infer_meshgrid(const OpArgs& a) {
  const bool named = a.node.op->arg_index("indexing") >= 0;
  if (named && a.string("indexing") != "ij" && a.string("indexing") != "xy")
    return a.fail("indexing", "expected 'ij' or 'xy'");
  Shape shape;
  for (ValueId id : a.tensors("tensors")) {
    const Value& v = a.graph.value(id);
    if (v.shape.size() > 1) return a.fail("tensors", "expected one axis, got " + describe(v));
    shape.push_back(v.shape.empty() ? Dim(1) : v.shape[0]);
  }
  if (named && a.string("indexing") == "xy" && shape.size() > 1) std::swap(shape[0], shape[1]);
  Types types;
  for (ValueId id : a.tensors("tensors")) types.push_back({a.graph.value(id).dtype, shape});
  return types;
}

Result<Types> infer_broadcast_tensors(const OpArgs& a) {
  Shape shape;
  for (ValueId id : a.tensors("tensors")) {
    const auto both = broadcast(shape, a.graph.value(id).shape);
    if (!both)
      return a.fail("tensors",
                    fmt::format("{} does not broadcast with {}", describe(a.graph.value(id)), to_string(shape)));
    shape = *both;
  }
  Types types;
  for (ValueId id : a.tensors("tensors")) types.push_back({a.graph.value(id).dtype, shape});
  return types;
}

// Where the mask is true, the next element of source.
Result<Types> infer_masked_scatter(const OpArgs& a) {
  const Value &self = a.tensor("self"), &mask = a.tensor("mask");
  if (mask.dtype != DType::boolean) return a.fail("mask", "expected bool, got " + describe(mask));
  QCG_CHECK(need_same(a, "source", self.dtype));
  const auto shape = broadcast(self.shape, mask.shape);
  if (!shape) return a.fail("mask", fmt::format("{} does not broadcast with {}", describe(mask), describe(self)));
  return one(self.dtype, *shape);
}

}  // namespace qcg

// Fourier transforms of torch.fft and torch.stft, written in _fft_r2c, _fft_c2r and _fft_c2c of pairs.
#include <algorithm>

#include "graph/ops/complex_pairs.h"
#include "graph/ops/infer.h"

namespace qcg {
namespace {

constexpr int64_t kUnscaled = 0, kByRoot = 1, kBySize = 2;

// Of the inverse transform by default, of the other one with "forward".
Result<int64_t> normalization_of(const Node& node, bool inverse) {
  const auto* norm = node.arg("norm").get<std::string>();
  if (!norm || *norm == "backward") return inverse ? kBySize : kUnscaled;
  if (*norm == "forward") return inverse ? kUnscaled : kBySize;
  if (*norm == "ortho") return kByRoot;
  return OpArgs{Graph(), node}.fail("norm", "expected 'forward', 'backward' or 'ortho'");
}

// As a list of sizes: n of one axis, s of several.
std::vector<Dim> list_of(const Node& node, std::string_view name) {
  if (const auto* many = node.arg(name).get<std::vector<Dim>>()) return *many;
  if (const Dim* one = node.arg(name).get<Dim>()) return {*one};
  return {};
}

}  // namespace

bool is_fourier(std::string_view op) {
  return op.starts_with("aten.fft_") || op.starts_with("aten._fft_") || op == "aten.stft.default";
}

// The first `size` elements of an axis, with zeros behind those that there are.
ValueId ComplexPairs::resized(ValueId x, size_t axis, const Dim& size) {
  if (!error_.ok()) return x;
  const Shape shape = graph_.value(x).shape;
  if (shape[axis] == size) return x;
  const Dim more = size - shape[axis];
  if (more.is_constant() && more.constant() < 0)
    return op("aten.slice.Tensor",
              {{"self", x}, {"dim", Dim(static_cast<int64_t>(axis))}, {"start", Dim(0)}, {"end", size}});
  std::vector<Dim> pad(2 * (shape.size() - axis), Dim(0));
  pad.back() = more;
  return op("aten.constant_pad_nd.default", {{"self", x}, {"pad", pad}, {"value", Dim(0)}});
}

ValueId ComplexPairs::with_imaginary_part(ValueId x) { return join(x, op("aten.zeros_like.default", {{"self", x}})); }

// Which axes, of which sizes, from a complex or a real tensor.
Result<ValueId> ComplexPairs::fourier(const Node& node, bool is_pair) {
  const std::string_view name = node.op->name;
  ValueId x = node.tensor("self");
  if (!is_pair && !is_floating(graph_.value(x).dtype)) x = op("aten.to.dtype", {{"self", x}, {"dtype", DType::f32}});
  if (name.starts_with("aten._fft_")) {
    Node same = node;
    same.args[0] = x;
    QCG_TRY(made, emit(*node.op, same.args));
    return made[0];
  }
  if (name == "aten.stft.default") return windowed_fourier(node, x, is_pair);
  const std::string_view kind = name.substr(std::string_view("aten.fft_").size());
  const bool to_real = kind.starts_with("irfft"), inverse = kind.starts_with("i"), from_real = kind.starts_with("rfft");
  QCG_TRY(normalization, normalization_of(node, inverse));
  const size_t rank = graph_.value(x).shape.size() - (is_pair ? 1 : 0);
  std::vector<Dim> sizes = list_of(node, node.op->arg_index("n") >= 0 ? "n" : "s"), given = list_of(node, "dim");
  if (given.empty())
    for (size_t i = sizes.empty() ? 0 : rank - std::min(sizes.size(), rank); i < rank; ++i)
      given.emplace_back(static_cast<int64_t>(i));
  const OpArgs args{graph_, node};
  std::vector<Dim> axes;
  for (const Dim& dim : given) {
    QCG_TRY(axis, args.axis("dim", dim, rank));
    if (rank == 0) return args.fail("self", "a transform of a number");
    axes.emplace_back(static_cast<int64_t>(axis));
  }
  if (axes.empty()) return args.fail("dim", "no axis is transformed");
  if (!sizes.empty() && sizes.size() != axes.size()) return args.fail("dim", "expected an axis for each size");
  if (from_real && is_pair) return args.fail("self", "expected real numbers");
  if (to_real && !is_pair) x = with_imaginary_part(x), is_pair = true;
  const auto last = static_cast<size_t>(axes.back().constant());
  Dim real_size(0);
  if (to_real) {
    const bool is_given = !sizes.empty() && !sizes.back().is_constant(-1);
    real_size = is_given ? sizes.back() : (graph_.value(x).shape[last] - Dim(1)) * Dim(2);
    if (is_given) sizes.back() = Dim::floor_divide(real_size, Dim(2)) + Dim(1);
  }
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!sizes[i].is_constant(-1)) x = resized(x, static_cast<size_t>(axes[i].constant()), sizes[i]);
  if (to_real)
    return finish(
        op("aten._fft_c2r.default",
           {{"self", x}, {"dim", axes}, {"normalization", Dim(normalization)}, {"last_dim_size", real_size}}));
  if (from_real || (!is_pair && !inverse))
    return finish(op("aten._fft_r2c.default",
                     {{"self", x}, {"dim", axes}, {"normalization", Dim(normalization)}, {"onesided", from_real}}));
  if (!is_pair) x = with_imaginary_part(x);
  return finish(op("aten._fft_c2c.default",
                   {{"self", x}, {"dim", axes}, {"normalization", Dim(normalization)}, {"forward", !inverse}}));
}

// Frames of n_fft elements, hop_length apart, times the window; frequencies come in front of frames.
Result<ValueId> ComplexPairs::windowed_fourier(const Node& node, ValueId x, bool is_pair) {
  const OpArgs args{graph_, node};
  if (is_pair) return args.unsupported("self", "stft of complex numbers", "transform the parts");
  QCG_TRY(n, args.constant("n_fft"));
  const auto number_or = [&](std::string_view name, int64_t otherwise) -> Result<int64_t> {
    if (node.arg(name).is_none()) return otherwise;
    return args.constant(name);
  };
  QCG_TRY(hop, number_or("hop_length", n / 4));
  QCG_TRY(length, number_or("win_length", n));
  const size_t rank = graph_.value(x).shape.size();
  if (n < 1 || hop < 1 || length < 1 || length > n || rank < 1 || rank > 2)
    return args.fail("n_fft", "expected signals, and windows of 1 to n_fft elements");
  ValueId frames =
      op("aten.unfold.default", {{"self", x}, {"dimension", Dim(-1)}, {"size", Dim(n)}, {"step", Dim(hop)}});
  const auto* window = node.arg("window").get<ValueId>();
  const bool has_window = window && *window != kNoValue;
  if (has_window || length < n) {
    ValueId w = has_window ? *window
                           : op("aten.ones.default", {{"size", Shape{Dim(length)}}, {"dtype", graph_.value(x).dtype}});
    const Dim before((n - length) / 2);
    if (length < n)
      w = op("aten.constant_pad_nd.default",
             {{"self", w}, {"pad", std::vector<Dim>{before, Dim(n - length) - before}}, {"value", Dim(0)}});
    frames = binary("aten.mul.Tensor", frames, w);
  }
  const bool* normalized = node.arg("normalized").get<bool>();
  const bool* onesided = node.arg("onesided").get<bool>();
  const ValueId spectra = op("aten._fft_r2c.default", {{"self", frames},
                                                       {"dim", std::vector<Dim>{Dim(static_cast<int64_t>(rank))}},
                                                       {"normalization", Dim(*normalized ? kByRoot : kUnscaled)},
                                                       {"onesided", !onesided || *onesided}});
  return finish(op("aten.transpose.int", {{"self", spectra}, {"dim0", Dim(-3)}, {"dim1", Dim(-2)}}));
}

}  // namespace qcg

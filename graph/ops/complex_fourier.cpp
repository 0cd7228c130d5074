// Fourier transforms of torch.fft and torch.stft, written in _fft_r2c, _fft_c2r and _fft_c2c of pairs.
#include <algorithm>

#include "graph/ops/complex_pairs.h"
#include "graph/ops/infer.h"

namespace qcg {
namespace {

constexpr int64_t kUnscaled = 0, kByRoot = 1, kBySize = 2;

// By default the inverse transform divides by the size; with "forward" the other one does.
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
  return op.starts_with("aten.fft_") || op.starts_with("aten._fft_") || op == "aten.stft.default" ||
         op == "aten.istft.default";
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
  if (name == "aten.istft.default") return inverse_of_windows(node, x, is_pair);
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

namespace {

// n_fft, hop_length and win_length of stft and istft.
struct Frames {
  int64_t n, hop, length;
};

Result<Frames> frames_of(const OpArgs& args) {
  QCG_TRY(n, args.constant("n_fft"));
  const auto number_or = [&](std::string_view name, int64_t otherwise) -> Result<int64_t> {
    if (args.node.arg(name).is_none()) return otherwise;
    return args.constant(name);
  };
  QCG_TRY(hop, number_or("hop_length", n / 4));
  QCG_TRY(length, number_or("win_length", n));
  if (n < 1 || hop < 1 || length < 1 || length > n)
    return args.fail("n_fft", "expected steps, and windows of 1 to n_fft elements");
  return Frames{n, hop, length};
}

}  // namespace

// The window [n] of frames, zeros around `length` elements; ones where none is given; kNoValue for ones alone.
ValueId ComplexPairs::window_of(const Node& node, DType dtype, int64_t length, int64_t n) {
  const auto* window = node.arg("window").get<ValueId>();
  const bool is_given = window && *window != kNoValue;
  if (!is_given && length == n) return kNoValue;
  const ValueId w = is_given ? *window : op("aten.ones.default", {{"size", Shape{Dim(length)}}, {"dtype", dtype}});
  if (length == n) return w;
  const Dim before((n - length) / 2);
  return op("aten.constant_pad_nd.default",
            {{"self", w}, {"pad", std::vector<Dim>{before, Dim(n - length) - before}}, {"value", Dim(0)}});
}

// Frames of n_fft elements, hop_length apart, times the window; frequencies come in front of frames.
Result<ValueId> ComplexPairs::windowed_fourier(const Node& node, ValueId x, bool is_pair) {
  const OpArgs args{graph_, node};
  if (is_pair) return args.unsupported("self", "stft of complex numbers", "transform the parts");
  QCG_TRY(of, frames_of(args));
  const size_t rank = graph_.value(x).shape.size();
  if (rank < 1 || rank > 2) return args.fail("self", "expected signals");
  ValueId frames =
      op("aten.unfold.default", {{"self", x}, {"dimension", Dim(-1)}, {"size", Dim(of.n)}, {"step", Dim(of.hop)}});
  if (const ValueId w = window_of(node, graph_.value(x).dtype, of.length, of.n); w != kNoValue)
    frames = binary("aten.mul.Tensor", frames, w);
  const bool* normalized = node.arg("normalized").get<bool>();
  const bool* onesided = node.arg("onesided").get<bool>();
  const ValueId spectra = op("aten._fft_r2c.default", {{"self", frames},
                                                       {"dim", std::vector<Dim>{Dim(static_cast<int64_t>(rank))}},
                                                       {"normalization", Dim(*normalized ? kByRoot : kUnscaled)},
                                                       {"onesided", !onesided || *onesided}});
  return finish(op("aten.transpose.int", {{"self", spectra}, {"dim0", Dim(-3)}, {"dim1", Dim(-2)}}));
}

// The sum [b, n + hop (t - 1)] of frames [b, t, n] that begin `hop` elements apart: of their parts of `hop` elements,
// each is as many parts further back as it stands behind the first one of its frame.
ValueId ComplexPairs::overlapped(ValueId frames, int64_t n, int64_t hop) {
  const int64_t parts = (n + hop - 1) / hop;
  if (parts * hop > n)
    frames = op("aten.constant_pad_nd.default",
                {{"self", frames}, {"pad", std::vector<Dim>{Dim(0), Dim(parts * hop - n)}}, {"value", Dim(0)}});
  ValueId sum = kNoValue;
  for (int64_t part = 0; part < parts && error_.ok(); ++part) {
    const ValueId own =
        op("aten.slice.Tensor",
           {{"self", frames}, {"dim", Dim(2)}, {"start", Dim(part * hop)}, {"end", Dim((part + 1) * hop)}});
    const ValueId moved =
        op("aten.constant_pad_nd.default", {{"self", own},
                                            {"pad", std::vector<Dim>{Dim(0), Dim(0), Dim(part), Dim(parts - 1 - part)}},
                                            {"value", Dim(0)}});
    sum = part == 0 ? moved : binary("aten.add.Tensor", sum, moved);
  }
  if (!error_.ok()) return frames;
  const Shape shape = graph_.value(sum).shape;
  const ValueId line = op("aten.reshape.default", {{"self", sum}, {"shape", Shape{shape[0], shape[1] * shape[2]}}});
  const Dim size = (shape[1] - Dim(parts - 1)) * Dim(hop) + Dim(n - hop);
  return op("aten.slice.Tensor", {{"self", line}, {"dim", Dim(1)}, {"start", Dim(0)}, {"end", size}});
}

// Frames of the spectra times the window, added where they overlap, over the sum of the window's squares there.
Result<ValueId> ComplexPairs::inverse_of_windows(const Node& node, ValueId x, bool is_pair) {
  constexpr int64_t kMostParts = 64;  // of a frame
  const OpArgs args{graph_, node};
  QCG_TRY(of, frames_of(args));
  const auto* onesided = node.arg("onesided").get<bool>();
  if (*node.arg("return_complex").get<bool>() || (onesided && !*onesided))
    return args.unsupported("return_complex", "signals of complex numbers", "use spectra of one side");
  if ((of.n + of.hop - 1) / of.hop > kMostParts)
    return args.unsupported("hop_length", "more than 64 frames overlap", "use a larger step");
  const size_t rank = graph_.value(x).shape.size() - (is_pair ? 1 : 0);
  if (!is_pair || rank < 2 || rank > 3) return args.fail("self", "expected spectra of complex numbers");
  if (rank == 2) x = op("aten.unsqueeze.default", {{"self", x}, {"dim", Dim(0)}});
  x = op("aten.transpose.int", {{"self", x}, {"dim0", Dim(1)}, {"dim1", Dim(2)}});
  const bool normalized = *node.arg("normalized").get<bool>();
  ValueId frames = op("aten._fft_c2r.default", {{"self", x},
                                                {"dim", std::vector<Dim>{Dim(2)}},
                                                {"normalization", Dim(normalized ? kByRoot : kBySize)},
                                                {"last_dim_size", Dim(of.n)}});
  if (!error_.ok()) return finish(frames);
  const DType dtype = graph_.value(frames).dtype;
  const Dim count = graph_.value(frames).shape[1];
  ValueId w = window_of(node, dtype, of.length, of.n);
  if (w == kNoValue) w = op("aten.ones.default", {{"size", Shape{Dim(of.n)}}, {"dtype", dtype}});
  const ValueId squares = op("aten.expand.default", {{"self", binary("aten.mul.Tensor", w, w)},
                                                     {"size", std::vector<Dim>{Dim(1), count, Dim(of.n)}}});
  const ValueId sum = overlapped(binary("aten.mul.Tensor", frames, w), of.n, of.hop),
                weight = overlapped(squares, of.n, of.hop);
  if (!error_.ok()) return finish(sum);
  const Dim all = graph_.value(sum).shape[1], cut(*node.arg("center").get<bool>() ? of.n / 2 : 0);
  Dim end = all - cut;
  const bool has_length = !node.arg("length").is_none();
  if (has_length) {
    QCG_TRY(length, args.constant("length"));
    end = Dim::smaller(cut + Dim(length), all);
  }
  const auto inner = [&](ValueId line) {
    return op("aten.slice.Tensor", {{"self", line}, {"dim", Dim(1)}, {"start", cut}, {"end", end}});
  };
  ValueId signal = binary("aten.div.Tensor", inner(sum), inner(weight));
  if (has_length && error_.ok()) signal = resized(signal, 1, args.dim("length"));
  if (rank == 2) signal = op("aten.squeeze.dim", {{"self", signal}, {"dim", Dim(0)}});
  return finish(signal);
}

}  // namespace qcg

// The oracle's rule for Fourier transforms: sums over an axis, as they are defined.
#include <complex>
#include <numbers>

#include "graph/ops/infer.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

using Complex = std::complex<double>;

// Over axis `axis` of `shape`, whose size becomes `to`; element j of a line is at(line, j) of `from` elements.
template <class Sum>
std::vector<Complex> along(const std::vector<Complex>& x, std::vector<int64_t>& shape, size_t axis, int64_t to,
                           Sum&& sum) {
  const int64_t from = shape[axis], after = count_of(std::span(shape).subspan(axis + 1)),
                before = count_of(std::span(shape).first(axis));
  std::vector<Complex> out(static_cast<size_t>(before * to * after));
  for_each_part(before * after, from * to, [&](int64_t first, int64_t last) {
    for (int64_t line = first; line < last; ++line) {
      const Complex* begin = x.data() + line / after * from * after + line % after;
      for (int64_t k = 0; k < to; ++k)
        out[static_cast<size_t>((line / after * to + k) * after + line % after)] =
            sum([&](int64_t j) { return begin[j * after]; }, from, k);
    }
  });
  shape[axis] = to;
  return out;
}

Complex turn(int64_t j, int64_t k, int64_t n, double sign) {
  return std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n));
}

Result<Tensors> run_fourier(const RefContext& c) {
  const bool from_real = c.node.op->arg_index("onesided") >= 0, to_real = c.node.op->arg_index("last_dim_size") >= 0;
  const double sign = from_real || (!to_real && *c.node.arg("forward").get<bool>()) ? -1 : 1;
  std::vector<int64_t> shape = c.tensor("self").data.shape;
  const std::vector<double> parts = read_doubles(c.tensor("self").data);
  std::vector<Complex> x;
  for (size_t i = 0; i < parts.size(); i += from_real ? 1 : 2) x.emplace_back(parts[i], from_real ? 0 : parts[i + 1]);
  if (!from_real) shape.pop_back();
  std::vector<size_t> axes;
  const auto rank = static_cast<int64_t>(shape.size());
  for (const Dim& d : OpArgs{c.graph, c.node}.dims("dim"))
    axes.push_back(static_cast<size_t>((c.evaluate(d) + rank) % rank));
  double elements = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool halves = to_real && i + 1 == axes.size();
    const int64_t n = halves ? c.integer("last_dim_size") : shape[axes[i]];
    elements *= static_cast<double>(n);
    x = along(x, shape, axes[i], n, [&](auto&& at, int64_t from, int64_t k) {
      Complex sum = 0;
      // Behind the middle are the conjugates of those in front of it, and no element on the middle has an imaginary part.
      for (int64_t j = 0; j < n; ++j) {
        const Complex v = !halves || j < from ? at(j) : 0;
        if (!halves || 2 * j < n) sum += v * turn(j, k, n, sign);
        if (halves && j > 0 && 2 * j < n) sum += std::conj(v * turn(j, k, n, sign));
        if (halves && 2 * j == n) sum += v.real() * turn(j, k, n, sign);
      }
      return sum;
    });
  }
  if (from_real && *c.node.arg("onesided").get<bool>())
    x = along(x, shape, axes.back(), shape[axes.back()] / 2 + 1, [](auto&& at, int64_t, int64_t k) { return at(k); });
  const int64_t normalization = c.integer("normalization");
  const double scale = normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(elements) : 1 / elements;
  std::vector<double> out;
  for (const Complex& v : x) {
    out.push_back(v.real() * scale);
    if (!to_real) out.push_back(v.imag() * scale);
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

// A sum of cosines, or a triangle. A periodic window is the first part of one that is an element longer.
Result<Tensors> run_window(const RefContext& c) {
  const auto is = [&](std::string_view name) { return c.node.op->name.find(name) != std::string::npos; };
  const auto given = [&](std::string_view arg, double otherwise) {
    return c.node.op->arg_index(arg) < 0 ? otherwise : c.number(arg);
  };
  const int64_t length = c.integer("window_length");
  const bool periodic = c.node.op->arg_index("periodic") < 0 || *c.node.arg("periodic").get<bool>();
  const auto period = static_cast<double>(periodic ? length : length - 1);
  const double level = is("hamming") ? given("alpha", 0.54) : is("blackman") ? 0.42 : 0.5;
  const double first = is("hamming") ? given("beta", 0.46) : 0.5, second = is("blackman") ? 0.08 : 0;
  std::vector<double> out;
  for (int64_t i = 0; i < length; ++i) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(i) / period;
    if (length == 1) out.push_back(1);
    else if (is("bartlett")) out.push_back(1 - std::abs(2 * static_cast<double>(i) / period - 1));
    else out.push_back(level - first * std::cos(turn) + second * std::cos(2 * turn));
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

// clang-format off
constexpr RefRow kFourierRules[] = {
    {"aten._fft_r2c.default", run_fourier}, {"aten._fft_c2r.default", run_fourier},
    {"aten._fft_c2c.default", run_fourier},
    {"aten.hann_window.default", run_window},
    {"aten.hann_window.periodic", run_window},
    {"aten.hamming_window.default", run_window},
    {"aten.hamming_window.periodic", run_window},
    {"aten.blackman_window.default", run_window},
    {"aten.blackman_window.periodic", run_window},
    {"aten.bartlett_window.default", run_window},
    {"aten.bartlett_window.periodic", run_window},
    {"aten.hamming_window.periodic_alpha", run_window},
    {"aten.hamming_window.periodic_alpha_beta", run_window},
};
// clang-format on

}  // namespace

std::span<const RefRow> reference_fourier() { return kFourierRules; }

}  // namespace qcg

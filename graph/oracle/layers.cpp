// The oracle's rules for convolutions, pools and recurrent layers: in double, directly from their definitions, without
// the views, pads and products that expand_layers.cpp makes of them.
#include <algorithm>
#include <array>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

// A window along one axis, sizes known. Layers of fewer than three axes have some of size 1 in front.
struct Slide {
  int64_t size = 1, count = 1, kernel = 1, stride = 1, dilation = 1, before = 0, padding = 0;

  int64_t position(int64_t place, int64_t tap) const { return place * stride + tap * dilation - before; }
  bool has(int64_t at) const { return at >= 0 && at < size; }
  // The places from which tap `tap` is an element: [first, last).
  std::pair<int64_t, int64_t> places(int64_t tap) const {
    const int64_t at = position(0, tap);
    const int64_t first = at >= 0 ? 0 : (-at + stride - 1) / stride;
    const int64_t last = at >= size ? 0 : (size - 1 - at) / stride + 1;
    return {first, std::min(last, count)};
  }
};
using Slides = std::array<Slide, 3>;

Result<Slides> slides_of(const RefContext& c) {
  QCG_TRY(axes, window_axes({c.graph, c.node}));
  Slides out;
  for (size_t i = 0; i < axes.size(); ++i) {
    const WindowAxis& a = axes[i];
    out[3 - axes.size() + i] = {c.evaluate(a.size), c.evaluate(a.count), a.kernel, a.stride, a.dilation, a.before,
                                a.padding};
  }
  return out;
}

int64_t all_of_axes(const Slides& s, int64_t Slide::*member) { return s[0].*member * s[1].*member * s[2].*member; }

// Adds `weight` times the elements under tap (d, h, w) to every place.
void add_tap(const Slides& s, std::array<int64_t, 3> tap, double weight, const double* x, double* y) {
  const auto [first, last] = s[2].places(tap[2]);
  for (int64_t d = 0; d < s[0].count; ++d) {
    const int64_t from_d = s[0].position(d, tap[0]);
    for (int64_t h = 0; h < s[1].count && s[0].has(from_d); ++h) {
      const int64_t from_h = s[1].position(h, tap[1]);
      if (!s[1].has(from_h)) continue;
      const double* row = x + (from_d * s[1].size + from_h) * s[2].size + s[2].position(0, tap[2]);
      double* out = y + (d * s[1].count + h) * s[2].count;
      for (int64_t w = first; w < last; ++w) out[w] += weight * row[w * s[2].stride];
    }
  }
}

template <class F>
void for_each_tap(const Slides& s, F&& f) {
  for (int64_t d = 0; d < s[0].kernel; ++d)
    for (int64_t h = 0; h < s[1].kernel; ++h)
      for (int64_t w = 0; w < s[2].kernel; ++w) f(std::array{d, h, w});
}

// Every element is added to where each tap of its window lies.
Result<Tensors> run_transposed(const RefContext& c) {
  QCG_TRY(axes, transposed_axes({c.graph, c.node}));
  std::array<int64_t, 3> in = {1, 1, 1}, out = {1, 1, 1}, kernel = {1, 1, 1}, step = {1, 1, 1}, gap = {1, 1, 1},
                         cut = {0, 0, 0};
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t k = 3 - axes.size() + i;
    const WindowAxis& w = axes[i].window;
    kernel[k] = w.kernel, step[k] = axes[i].stretch, gap[k] = w.dilation, cut[k] = w.reach() - 1 - w.before;
    in[k] = (c.evaluate(w.size) - 1) / step[k] + 1, out[k] = c.evaluate(w.count);
  }
  const std::vector<double> x = read_doubles(c.tensor("input").data), weight = read_doubles(c.tensor("weight").data);
  const RefValue* bias = c.optional_tensor("bias");
  const std::vector<double> added = bias ? read_doubles(bias->data) : std::vector<double>();
  const std::vector<int64_t>& of_weight = c.tensor("weight").data.shape;
  const int64_t channels = of_weight[0], each = of_weight[1], groups = c.integer("groups"), outputs = each * groups;
  const auto all = [](const std::array<int64_t, 3>& a) { return a[0] * a[1] * a[2]; };
  const auto at = [](const std::array<int64_t, 3>& a, int64_t rest) {
    return std::array{rest / (a[1] * a[2]), rest / a[2] % a[1], rest % a[2]};
  };
  const int64_t images = static_cast<int64_t>(x.size()) / (channels * all(in));
  std::vector<double> y(static_cast<size_t>(images * outputs * all(out)));
  for (int64_t i = 0; bias && i < static_cast<int64_t>(y.size()); ++i)
    y[static_cast<size_t>(i)] = added[static_cast<size_t>(i / all(out) % outputs)];
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const int64_t channel = i / all(in) % channels, image = i / all(in) / channels;
    const auto from = at(in, i % all(in));
    for (int64_t n = 0; n < each; ++n)
      for (int64_t tap = 0; tap < all(kernel); ++tap) {
        std::array<int64_t, 3> to = at(kernel, tap);
        bool inside = true;
        for (size_t k = 0; k < 3; ++k) {
          to[k] = from[k] * step[k] + to[k] * gap[k] - cut[k];
          inside = inside && to[k] >= 0 && to[k] < out[k];
        }
        if (!inside) continue;
        const int64_t plane = image * outputs + channel / (channels / groups) * each + n;
        y[static_cast<size_t>(((plane * out[0] + to[0]) * out[1] + to[1]) * out[2] + to[2])] +=
            x[static_cast<size_t>(i)] * weight[static_cast<size_t>((channel * each + n) * all(kernel) + tap)];
      }
  }
  return Tensors{make_doubles(c.sizes(0), std::move(y))};
}

Result<Tensors> run_convolution(const RefContext& c) {
  if (is_transposed({c.graph, c.node})) return run_transposed(c);
  QCG_TRY(slides, slides_of(c));
  const std::vector<double> x = read_doubles(c.tensor("input").data), weight = read_doubles(c.tensor("weight").data);
  const RefValue* bias = c.optional_tensor("bias");
  const std::vector<double> added = bias ? read_doubles(bias->data) : std::vector<double>();
  const std::vector<int64_t>& of_weight = c.tensor("weight").data.shape;
  const int64_t outputs = of_weight[0], inputs = of_weight[1], groups = c.integer("groups"), each = outputs / groups;
  const int64_t in = all_of_axes(slides, &Slide::size), out = all_of_axes(slides, &Slide::count);
  const int64_t taps = all_of_axes(slides, &Slide::kernel);
  const int64_t images = inputs * groups * in == 0 ? 0 : static_cast<int64_t>(x.size()) / (inputs * groups * in);
  std::vector<double> y(static_cast<size_t>(images * outputs * out));
  for (int64_t image = 0; image < images; ++image)
    for (int64_t n = 0; n < outputs; ++n) {
      double* plane = y.data() + (image * outputs + n) * out;
      if (bias) std::fill(plane, plane + out, added[static_cast<size_t>(n)]);
      for (int64_t k = 0; k < inputs; ++k) {
        const double* from = x.data() + (image * inputs * groups + n / each * inputs + k) * in;
        const double* tap_weight = weight.data() + (n * inputs + k) * taps;
        for_each_tap(slides,
                     [&](const std::array<int64_t, 3>& tap) { add_tap(slides, tap, *tap_weight++, from, plane); });
      }
    }
  return Tensors{make_doubles(c.sizes(0), std::move(y))};
}

// The result of a pool at one place: the largest element and where it is, or the sum of all.
struct Pooled {
  double largest = -INFINITY, sum = 0;
  int64_t at = -1;

  void add(double v, int64_t from) {
    sum += v;
    if (at < 0 || v > largest || (std::isnan(v) && !std::isnan(largest))) largest = v, at = from;
  }
};

// visit(place) for every place of every plane; the planes of the results.
template <class Visit>
Result<Tensors> pool(const RefContext& c, int64_t in, const std::array<int64_t, 3>& counts, bool largest,
                     Visit&& visit) {
  const std::vector<double> x = read_doubles(c.tensor("self").data);
  std::vector<double> values;
  std::vector<int64_t> positions;
  for (size_t plane = 0; in > 0 && plane < x.size() / static_cast<size_t>(in); ++plane)
    for (int64_t d = 0; d < counts[0]; ++d)
      for (int64_t h = 0; h < counts[1]; ++h)
        for (int64_t w = 0; w < counts[2]; ++w) {
          const double* from = x.data() + plane * static_cast<size_t>(in);
          Pooled pooled;
          const double divisor = visit(std::array{d, h, w}, from, pooled);
          values.push_back(largest ? pooled.largest : pooled.sum / divisor);
          positions.push_back(pooled.at);
        }
  Tensors out{make_doubles(c.sizes(0), std::move(values))};
  if (c.node.outputs.size() == 2) out.push_back(make_ints(c.sizes(1), std::move(positions)));
  return out;
}

bool is_of_maxima(const RefContext& c) { return c.node.op->name.find("max_pool") != std::string::npos; }

// Elements that a mean counts: with those of the padding, which in ceil_mode the last window may stick out of.
int64_t counted(const Slide& s, int64_t place, bool with_padding) {
  const int64_t begin = s.position(place, 0), end = begin + s.kernel;
  return with_padding ? std::min(end, s.size + s.padding) - begin : std::min(end, s.size) - std::max<int64_t>(begin, 0);
}

Result<Tensors> run_pool(const RefContext& c) {
  QCG_TRY(slides, slides_of(c));
  const Slides& s = slides;
  const bool largest = is_of_maxima(c), with_padding = largest || *c.node.arg("count_include_pad").get<bool>();
  const bool given = c.node.op->arg_index("divisor_override") >= 0 && c.has("divisor_override");
  return pool(c, all_of_axes(s, &Slide::size), {s[0].count, s[1].count, s[2].count}, largest,
              [&](const std::array<int64_t, 3>& at, const double* x, Pooled& pooled) {
                for_each_tap(s, [&](const std::array<int64_t, 3>& tap) {
                  std::array<int64_t, 3> from{};
                  for (size_t i = 0; i < 3; ++i) {
                    from[i] = s[i].position(at[i], tap[i]);
                    if (!s[i].has(from[i])) return;
                  }
                  const int64_t index = (from[0] * s[1].size + from[1]) * s[2].size + from[2];
                  pooled.add(x[index], index);
                });
                if (given) return static_cast<double>(c.integer("divisor_override"));
                double divisor = 1;
                for (size_t i = 0; i < 3; ++i) divisor *= static_cast<double>(counted(s[i], at[i], with_padding));
                return divisor;
              });
}

Result<Tensors> run_adaptive_pool(const RefContext& c) {
  const std::vector<int64_t>& shape = c.tensor("self").data.shape;
  const std::vector<int64_t> out = c.sizes(0);
  const size_t spatial = count_spatial({c.graph, c.node});
  std::array<int64_t, 3> size{1, 1, 1}, count{1, 1, 1};
  for (size_t i = 1; i <= spatial; ++i) size[3 - i] = shape[shape.size() - i], count[3 - i] = out[out.size() - i];
  return pool(c, size[0] * size[1] * size[2], count, is_of_maxima(c),
              [&](const std::array<int64_t, 3>& at, const double* x, Pooled& pooled) {
                std::array<std::pair<int64_t, int64_t>, 3> part;
                for (size_t i = 0; i < 3; ++i)
                  part[i] = {at[i] * size[i] / count[i], ((at[i] + 1) * size[i] + count[i] - 1) / count[i]};
                double elements = 0;
                for (int64_t d = part[0].first; d < part[0].second; ++d)
                  for (int64_t h = part[1].first; h < part[1].second; ++h)
                    for (int64_t w = part[2].first; w < part[2].second; ++w, ++elements) {
                      const int64_t index = (d * size[1] + h) * size[2] + w;
                      pooled.add(x[index], index);
                    }
                return elements;
              });
}

// qcg.windows: channels last, of one axis or two.
Result<Tensors> run_windows(const RefContext& c) {
  const std::vector<double> x = read_doubles(c.tensor("x").data);
  const RefValue* given = c.optional_tensor("weight");
  const std::vector<double> weight = given ? read_doubles(given->data) : std::vector<double>();
  const bool largest = *c.node.arg("op").get<std::string>() == "max";
  const std::vector<int64_t>&size = c.tensor("x").data.shape, out = c.sizes(0);
  const size_t spatial = c.node.arg("kernel").get<std::vector<Dim>>()->size();
  const int64_t channels = size.back(), results = out.back();
  const int64_t inputs = given ? given->data.shape[given->data.shape.size() - 2] : 1;
  const int64_t outputs = channels == 0 ? 1 : results / (channels / inputs);  // of a group
  Slides s;
  for (size_t i = 0; i < spatial; ++i) {
    const auto number = [&](std::string_view name) {
      return c.evaluate((*c.node.arg(name).get<std::vector<Dim>>())[i]);
    };
    const size_t axis = size.size() - 1 - spatial + i;
    s[3 - spatial + i] = {size[axis],       out[axis],          number("kernel"),
                          number("stride"), number("dilation"), number("before")};
  }
  const int64_t images = size.size() == spatial + 2 ? size[0] : 1;
  std::vector<double> y;
  for (int64_t place = 0; place < images * s[1].count * s[2].count; ++place)
    for (int64_t channel = 0; channel < results; ++channel) {
      const int64_t q = place % s[2].count, p = place / s[2].count % s[1].count,
                    image = place / s[2].count / s[1].count;
      double total = largest ? -INFINITY : 0;
      for_each_tap(s, [&](const std::array<int64_t, 3>& tap) {
        const int64_t h = s[1].position(p, tap[1]), w = s[2].position(q, tap[2]);
        if (!s[1].has(h) || !s[2].has(w)) return;
        for (int64_t k = 0; k < inputs; ++k) {
          const int64_t of = channel / outputs * inputs + k, at = (tap[1] * s[2].kernel + tap[2]) * inputs + k;
          const double v = x[static_cast<size_t>(((image * s[1].size + h) * s[2].size + w) * channels + of)];
          if (largest) total = max_nan(total, v);
          else total += given ? v * weight[static_cast<size_t>(at * results + channel)] : v;
        }
      });
      y.push_back(total);
    }
  for (const Expr& e : *c.node.arg("epilogue").get<std::vector<Expr>>())
    y = apply_epilogue(c, e, out, std::array{std::span<const double>(y)});
  return Tensors{make_doubles(out, std::move(y))};
}

Result<Tensors> run_group_norm(const RefContext& c) {
  std::vector<double> y = read_doubles(c.tensor("input").data), means, inverses;
  const std::vector<int64_t> shape = c.sizes(0);
  const int64_t channels = shape[1];
  const int64_t groups = c.node.op->arg_index("use_input_stats") >= 0
                             ? channels
                             : c.integer(c.node.op->outputs == 1 ? "num_groups" : "group");
  const RefValue *weight = c.optional_tensor("weight"), *bias = c.optional_tensor("bias");
  const std::vector<double> by = weight ? read_doubles(weight->data)
                                        : std::vector<double>(static_cast<size_t>(channels), 1.0),
                            plus = bias ? read_doubles(bias->data)
                                        : std::vector<double>(static_cast<size_t>(channels), 0.0);
  const int64_t rows = shape[0] * groups, size = rows == 0 ? 0 : static_cast<int64_t>(y.size()) / rows;
  const int64_t each = size * groups / std::max<int64_t>(channels, 1);  // elements of a channel
  const bool running = c.node.op->arg_index("use_input_stats") >= 0 && !*c.node.arg("use_input_stats").get<bool>();
  std::vector<double> running_mean, running_variance;
  if (running) running_mean = read_doubles(c.tensor("running_mean").data);
  if (running) running_variance = read_doubles(c.tensor("running_var").data);
  for (int64_t row = 0; row < rows; ++row) {
    double* x = y.data() + row * size;
    double mean = 0, variance = 0;
    if (running) {
      mean = running_mean[static_cast<size_t>(row % channels)];
      variance = running_variance[static_cast<size_t>(row % channels)];
    } else {
      for (int64_t i = 0; i < size; ++i) mean += x[i] / static_cast<double>(size);
      for (int64_t i = 0; i < size; ++i) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(size);
    }
    const double inverse = 1 / std::sqrt(variance + c.number("eps"));
    for (int64_t i = 0; i < size; ++i) {
      const size_t channel = static_cast<size_t>(row % groups * (channels / groups) + i / each);
      x[i] = (x[i] - mean) * inverse * by[channel] + plus[channel];
    }
    means.push_back(mean), inverses.push_back(inverse);
  }
  Tensors out{make_doubles(shape, std::move(y))};
  if (c.node.outputs.size() == 1) return out;
  out.push_back(make_doubles(c.sizes(1), std::move(means)));
  out.push_back(make_doubles(c.sizes(2), std::move(inverses)));
  return out;
}

// By channel: all elements of the batch.
Result<Tensors> run_batch_statistics(const RefContext& c) {
  std::vector<double> y = read_doubles(c.tensor("input").data), means, inverses;
  const std::vector<int64_t> shape = c.sizes(0);
  const RefValue *weight = c.optional_tensor("weight"), *bias = c.optional_tensor("bias");
  const auto channels = static_cast<size_t>(shape[1]);
  size_t inner = 1;
  for (size_t i = 2; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
  for (size_t channel = 0; channel < channels; ++channel) {
    std::vector<double*> own;
    for (size_t k = 0; k < y.size(); ++k)
      if (k / inner % channels == channel) own.push_back(&y[k]);
    const auto count = static_cast<double>(own.size());
    double mean = 0, variance = 0;
    for (const double* v : own) mean += *v / count;
    for (const double* v : own) variance += (*v - mean) * (*v - mean) / count;
    means.push_back(mean), inverses.push_back(1 / std::sqrt(variance + c.number("eps")));
    const double by = weight ? read_doubles(weight->data)[channel] : 1,
                 plus = bias ? read_doubles(bias->data)[channel] : 0;
    for (double* v : own) *v = (*v - mean) * inverses.back() * by + plus;
  }
  return Tensors{make_doubles(shape, std::move(y)), make_doubles(c.sizes(1), std::move(means)),
                 make_doubles(c.sizes(2), std::move(inverses))};
}

// Pixel (c, h * r + i, w * r + j) is element (c * r * r + i * r + j, h, w).
Result<Tensors> run_pixel_shuffle(const RefContext& c) {
  const bool back = c.node.op->arg_index("downscale_factor") >= 0;
  const int64_t r = c.integer(back ? "downscale_factor" : "upscale_factor");
  const std::vector<double> x = read_doubles(c.tensor("self").data);
  const std::vector<int64_t> from = c.tensor("self").data.shape, to = c.sizes(0);
  const std::vector<int64_t>& pixels = back ? from : to;
  const int64_t width = pixels.back(), height = pixels[pixels.size() - 2];
  std::vector<double> y(x.size());
  for (int64_t k = 0; k < static_cast<int64_t>(x.size()); ++k) {
    const int64_t w = k % width, h = k / width % height, plane = k / width / height;
    const int64_t channel = (plane * r + h % r) * r + w % r;
    const int64_t other = (channel * (height / r) + h / r) * (width / r) + w / r;
    if (back) y[static_cast<size_t>(other)] = x[static_cast<size_t>(k)];
    else y[static_cast<size_t>(k)] = x[static_cast<size_t>(other)];
  }
  return Tensors{make_doubles(to, std::move(y))};
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// One layer in one direction: `params` are its weights and biases, `h` and `c` the states of one sequence. `projection`,
// [width, hidden], makes `h` of what the gates give; empty: that is `h`.
struct Cell {
  std::vector<std::vector<double>> params;
  int64_t gates, inputs, hidden, width;
  bool rectified;
  std::vector<double> projection = {};

  // Row `row` of the weight (of the input or of the state) times v, plus its bias.
  double gate(bool of_state, int64_t gate, int64_t unit, const double* v) const {
    const int64_t row = gate * hidden + unit, columns = of_state ? width : inputs;
    double sum = params.size() == 4 ? params[of_state ? 3 : 2][static_cast<size_t>(row)] : 0;
    for (int64_t i = 0; i < columns; ++i)
      sum += params[of_state ? 1 : 0][static_cast<size_t>(row * columns + i)] * v[i];
    return sum;
  }

  void step(const double* x, std::vector<double>& h, std::vector<double>& c) const {
    const std::vector<double> before = h;
    h.resize(static_cast<size_t>(hidden));
    for (int64_t u = 0; u < hidden; ++u) {
      const auto in = [&](int64_t g) { return gate(false, g, u, x); };
      const auto of = [&](int64_t g) { return gate(true, g, u, before.data()); };
      const auto both = [&](int64_t g) { return in(g) + of(g); };
      double& unit = h[static_cast<size_t>(u)];
      if (gates == 4) {
        double& cell = c[static_cast<size_t>(u)];
        cell = logistic(both(1)) * cell + logistic(both(0)) * std::tanh(both(2));
        unit = logistic(both(3)) * std::tanh(cell);
      } else if (gates == 3) {
        const double fresh = std::tanh(in(2) + logistic(both(0)) * of(2)), kept = logistic(both(1));
        unit = (1 - kept) * fresh + kept * unit;
      } else {
        unit = rectified ? std::max(both(0), 0.0) : std::tanh(both(0));
      }
    }
    if (!projection.empty()) h = projected(h);
  }

  std::vector<double> projected(const std::vector<double>& units) const {
    std::vector<double> out(static_cast<size_t>(width));
    for (size_t row = 0; row < out.size(); ++row)
      for (size_t u = 0; u < units.size(); ++u) out[row] += projection[row * units.size() + u] * units[u];
    return out;
  }
};

Result<Tensors> run_recurrence(const RefContext& c) {
  QCG_TRY(r, read_recurrence({c.graph, c.node}));
  const std::vector<int64_t> shape = c.sizes(0), of_state = c.sizes(1);
  const int64_t batch = of_state[1], width = r.directions * r.width;
  const auto row = [&](int64_t b, int64_t t) {
    return static_cast<size_t>(r.batch_first ? b * r.steps + t : t * batch + b);
  };
  std::vector<double> x = read_doubles(c.tensor("input").data), h, cells;
  if (r.gates == 4) {
    const auto states = c.tensors("hx");
    h = read_doubles(states[0]->data), cells = read_doubles(states[1]->data);
  } else {
    h = read_doubles(c.tensor("hx").data);
    cells.resize(h.size());
  }
  const auto params = c.tensors("params");
  int64_t inputs = c.tensor("input").data.shape[2];
  for (int64_t layer = 0; layer < r.layers; ++layer) {
    std::vector<double> y(static_cast<size_t>(batch * r.steps * width));
    for (int64_t direction = 0; direction < r.directions; ++direction) {
      const int64_t index = layer * r.directions + direction;
      Cell cell{{}, r.gates, inputs, r.hidden, r.width, c.node.op->name.starts_with("aten.rnn_relu")};
      for (size_t i = 0; i < r.params_each; ++i)
        cell.params.push_back(read_doubles(params[static_cast<size_t>(index) * r.params_each + i]->data));
      if (r.projects) cell.projection = std::move(cell.params.back()), cell.params.pop_back();
      for (int64_t b = 0; b < batch; ++b) {
        const auto sequence = static_cast<std::ptrdiff_t>(index * batch + b);
        const auto of_h = h.begin() + sequence * r.width, of_c = cells.begin() + sequence * r.hidden;
        std::vector<double> unit(of_h, of_h + r.width), kept(of_c, of_c + r.hidden);
        for (int64_t s = 0; s < r.steps; ++s) {
          const size_t at = row(b, direction == 0 ? s : r.steps - 1 - s);
          cell.step(x.data() + at * static_cast<size_t>(inputs), unit, kept);
          std::ranges::copy(unit, y.begin() + static_cast<std::ptrdiff_t>(at) * width + direction * r.width);
        }
        std::ranges::copy(unit, of_h);
        std::ranges::copy(kept, of_c);
      }
    }
    x = std::move(y);
    inputs = width;
  }
  Tensors out{make_doubles(shape, std::move(x)), make_doubles(of_state, std::move(h))};
  if (r.gates == 4) out.push_back(make_doubles(c.sizes(2), std::move(cells)));
  return out;
}

Result<Tensors> run_cell(const RefContext& c) {
  const int64_t gates = gates_of(*c.node.op), inputs = c.tensor("input").data.shape[1], hidden = c.sizes(0)[1];
  Cell cell{{}, gates, inputs, hidden, hidden, c.node.op->name.starts_with("aten.rnn_relu")};
  for (std::string_view name : {"w_ih", "w_hh"}) cell.params.push_back(read_doubles(c.tensor(name).data));
  for (std::string_view name : {"b_ih", "b_hh"}) {
    const RefValue* bias = c.optional_tensor(name);
    cell.params.push_back(bias ? read_doubles(bias->data) : std::vector<double>(static_cast<size_t>(gates * hidden)));
  }
  const std::vector<double> x = read_doubles(c.tensor("input").data);
  std::vector<double> h, cells, new_h, new_cells;
  if (gates == 4) h = read_doubles(c.tensors("hx")[0]->data), cells = read_doubles(c.tensors("hx")[1]->data);
  else h = read_doubles(c.tensor("hx").data), cells.resize(h.size());
  for (int64_t b = 0; b < c.sizes(0)[0]; ++b) {
    std::vector<double> unit(h.begin() + b * hidden, h.begin() + (b + 1) * hidden),
        kept(cells.begin() + b * hidden, cells.begin() + (b + 1) * hidden);
    cell.step(x.data() + b * inputs, unit, kept);
    new_h.insert(new_h.end(), unit.begin(), unit.end());
    new_cells.insert(new_cells.end(), kept.begin(), kept.end());
  }
  Tensors out{make_doubles(c.sizes(0), std::move(new_h))};
  if (gates == 4) out.push_back(make_doubles(c.sizes(1), std::move(new_cells)));
  return out;
}

// clang-format off
constexpr RefRow kLayerRules[] = {
    {"aten.conv1d.default", run_convolution}, {"aten.conv1d.padding", run_convolution},
    {"aten.conv2d.default", run_convolution}, {"aten.conv2d.padding", run_convolution},
    {"aten.conv3d.default", run_convolution}, {"aten.conv3d.padding", run_convolution},
    {"aten.convolution.default", run_convolution},
    {"aten.conv_transpose1d.default", run_convolution}, {"aten.conv_transpose2d.input", run_convolution},
    {"aten.conv_transpose3d.input", run_convolution},
    {"aten.max_pool1d.default", run_pool},    {"aten.max_pool1d_with_indices.default", run_pool},
    {"aten.max_pool2d.default", run_pool},    {"aten.max_pool2d_with_indices.default", run_pool},
    {"aten.max_pool3d.default", run_pool},    {"aten.max_pool3d_with_indices.default", run_pool},
    {"aten.avg_pool1d.default", run_pool},    {"aten.avg_pool2d.default", run_pool},
    {"aten.avg_pool3d.default", run_pool},
    {"aten.adaptive_avg_pool1d.default", run_adaptive_pool}, {"aten.adaptive_avg_pool2d.default", run_adaptive_pool},
    {"aten._adaptive_avg_pool2d.default", run_adaptive_pool},
    {"aten.adaptive_avg_pool3d.default", run_adaptive_pool}, {"aten._adaptive_avg_pool3d.default", run_adaptive_pool},
    {"aten.adaptive_max_pool3d.default", run_adaptive_pool},
    {"aten.adaptive_max_pool1d.default", run_adaptive_pool}, {"aten.adaptive_max_pool2d.default", run_adaptive_pool},
    {"aten.lstm_cell.default", run_cell},     {"aten.gru_cell.default", run_cell},
    {"aten.rnn_tanh_cell.default", run_cell}, {"aten.rnn_relu_cell.default", run_cell},
    {"aten.instance_norm.default", run_group_norm},
    {"aten._native_batch_norm_legit.no_stats", run_batch_statistics},
    {"aten.group_norm.default", run_group_norm}, {"aten.native_group_norm.default", run_group_norm},
    {"aten.pixel_shuffle.default", run_pixel_shuffle}, {"aten.pixel_unshuffle.default", run_pixel_shuffle},
    {"qcg.windows", run_windows},
    {"aten.lstm.input", run_recurrence},      {"aten.gru.input", run_recurrence},
    {"aten.rnn_tanh.input", run_recurrence},  {"aten.rnn_relu.input", run_recurrence},
};
// clang-format on

}  // namespace

std::span<const RefRow> reference_layers() { return kLayerRules; }

}  // namespace qcg

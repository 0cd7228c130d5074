// Shape and dtype rules of upsampling and downsampling: nearest, linear and cubic, with and without antialiasing.
//
// Places follow aten/src/ATen/native/UpSample.h of torch 2.13; those of the nearest element are computed in f32 as
// there, because a rounding chooses another element.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/ops/rows_layers.h"

namespace qcg {

namespace {

constexpr int64_t kLargestSize = 1 << 20;
constexpr int64_t kLargestRepeat = 40;  // torch multiplies with 1 / factor in f32, which is exact enough up to this one

bool is_named(const Node& node, std::string_view part) { return node.op->name.find(part) < node.op->name.size(); }

std::string_view input_name(const OpArgs& a) { return has_arg(a, "input") ? "input" : "self"; }

// Where a size is known only at run time, its places have to follow from factors of few bits.
Result<Dim> scaled_size(const OpArgs& a, const Dim& size, double factor) {
  if (size.is_constant()) {
    const double count = std::floor(static_cast<double>(size.constant()) * factor);
    if (!(count >= 1 && count <= double{kLargestSize}))
      return a.fail("scale_factors", fmt::format("{} elements from {}", count, size.constant()));
    return Dim(static_cast<int64_t>(count));
  }
  const double larger = std::max(factor, 1 / factor);
  if (larger <= double{kLargestSize} && larger == std::floor(larger)) {
    const Dim whole(static_cast<int64_t>(larger));
    return factor >= 1 ? size * whole : Dim::floor_divide(size, whole);
  }
  constexpr double kParts = 0x1p20;  // the product of such a factor and a size is exact in f64
  double parts = 1;
  while (parts < kParts && factor * parts != std::floor(factor * parts)) parts *= 2;
  if (factor * parts != std::floor(factor * parts))
    return a.unsupported("scale_factors", fmt::format("{} times {}, known only at run time", factor, size.str()),
                         "use a factor of few bits as 1.5 is, or export with constant sizes of images");
  return Dim::floor_divide(size * Dim(static_cast<int64_t>(factor * parts)), Dim(static_cast<int64_t>(parts)));
}

// An axis in numbers.
struct Resized {
  int64_t size, count;
  std::optional<double> factor;  // places per element, where it is given
  bool corners;

  // Elements per place.
  double step() const {
    if (corners) return count > 1 ? static_cast<double>(size - 1) / static_cast<double>(count - 1) : 0;
    return factor ? 1 / *factor : static_cast<double>(size) / static_cast<double>(count);
  }
  // Where place `at` lies among the elements.
  double place(int64_t at) const {
    const auto i = static_cast<double>(at);
    return corners ? i * step() : step() * (i + 0.5) - 0.5;
  }
  int64_t bounded(int64_t position) const { return std::clamp<int64_t>(position, 0, size - 1); }
};

Interpolation taps(const Resized& r, size_t count) {
  return {std::vector(count, std::vector<int64_t>(static_cast<size_t>(r.count), 0)),
          std::vector(count, std::vector<double>(static_cast<size_t>(r.count), 0.0))};
}

Interpolation nearest(const Resized& r, bool exact) {
  const float step =
      r.factor ? static_cast<float>(1 / *r.factor) : static_cast<float>(r.size) / static_cast<float>(r.count);
  Interpolation out;
  out.positions.resize(1);
  for (int64_t at = 0; at < r.count; ++at) {
    const double place = exact ? (static_cast<double>(at) + 0.5) * static_cast<double>(step)
                               : static_cast<double>(static_cast<float>(at) * step);
    out.positions[0].push_back(r.bounded(static_cast<int64_t>(std::floor(static_cast<float>(place)))));
  }
  return out;
}

// Between the two elements beside a place.
Interpolation linear(const Resized& r) {
  Interpolation out = taps(r, 2);
  for (size_t at = 0; at < static_cast<size_t>(r.count); ++at) {
    const double place = std::max(r.place(static_cast<int64_t>(at)), 0.0);
    const int64_t low = r.bounded(static_cast<int64_t>(place));
    const double high = std::min(place - static_cast<double>(low), 1.0);
    out.positions[0][at] = low, out.shares[0][at] = 1 - high;
    out.positions[1][at] = r.bounded(low + 1), out.shares[1][at] = high;
  }
  return out;
}

// The share of an element at a distance, by Keys' cubic with coefficient `a`.
double cubic_share(double distance, double a) {
  const double x = std::abs(distance);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Between four; those beyond the ends are the ends.
Interpolation cubic(const Resized& r) {
  Interpolation out = taps(r, 4);
  for (size_t at = 0; at < static_cast<size_t>(r.count); ++at) {
    const double place = r.place(static_cast<int64_t>(at)), low = std::floor(place);
    for (size_t tap = 0; tap < 4; ++tap) {
      const double element = low + static_cast<double>(tap) - 1;
      out.positions[tap][at] = r.bounded(static_cast<int64_t>(element));
      out.shares[tap][at] = cubic_share(place - element, -0.75);
    }
  }
  return out;
}

// A filter as wide as a place is, where places are wider than elements; shares add up to 1.
Interpolation antialiased(const Resized& r, bool is_cubic) {
  const double step = r.step(), wide = std::max(step, 1.0), support = (is_cubic ? 2.0 : 1.0) * wide;
  Interpolation out = taps(r, static_cast<size_t>(std::ceil(support)) * 2 + 1);
  for (size_t at = 0; at < static_cast<size_t>(r.count); ++at) {
    const double centre = step * (static_cast<double>(at) + 0.5);
    const auto first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const auto last = std::min<int64_t>(static_cast<int64_t>(centre + support + 0.5), r.size);
    double total = 0;
    for (size_t tap = 0; tap < out.positions.size(); ++tap) {
      const int64_t element = first + static_cast<int64_t>(tap);
      out.positions[tap][at] = r.bounded(element);
      if (element >= last) continue;
      const double distance = std::abs((static_cast<double>(element) - centre + 0.5) / wide);
      out.shares[tap][at] = is_cubic ? cubic_share(distance, -0.5) : std::max(1 - distance, 0.0);
      total += out.shares[tap][at];
    }
    for (std::vector<double>& shares : out.shares)
      if (total != 0) shares[at] /= total;
  }
  return out;
}

}  // namespace

std::vector<int64_t> repeats_of(const std::vector<ResizedAxis>& axes) {
  std::vector<int64_t> repeats;
  for (const ResizedAxis& axis : axes) {
    const auto exact = axis.count.divide_exactly(axis.size);
    const bool whole = exact && exact->is_constant() && exact->constant() >= 1 && exact->constant() <= kLargestRepeat &&
                       (!axis.factor || *axis.factor == static_cast<double>(exact->constant()));
    if (!whole) return {};
    repeats.push_back(exact->constant());
  }
  return repeats;
}

Interpolation interpolate(const Node& node, const ResizedAxis& axis, int64_t size, int64_t count) {
  const Resized r{size, count, axis.factor, axis.corners};
  if (is_named(node, "nearest")) return nearest(r, is_named(node, "exact"));
  if (is_named(node, "_aa")) return antialiased(r, is_named(node, "cubic"));
  return is_named(node, "cubic") ? cubic(r) : linear(r);
}

Result<std::vector<ResizedAxis>> resized_axes(const OpArgs& a) {
  const size_t spatial = count_spatial(a);
  const Value& x = a.tensor(input_name(a));
  if (x.shape.size() != spatial + 2)
    return a.fail(input_name(a),
                  fmt::format("expected [batch, channels] and {} more axes, got {}", spatial, describe(x)));
  const auto* sizes = a.node.arg("output_size").get<std::vector<Dim>>();
  const auto* factors = has_arg(a, "scale_factors") ? a.node.arg("scale_factors").get<std::vector<double>>() : nullptr;
  const size_t given = sizes ? sizes->size() : factors ? factors->size() : 0;
  if (given != spatial) return a.fail("output_size", fmt::format("{} sizes for {} axes", given, spatial));
  const bool corners = has_arg(a, "align_corners") && a.boolean("align_corners");
  std::vector<ResizedAxis> out;
  for (size_t i = 0; i < spatial; ++i) {
    ResizedAxis axis{x.shape[2 + i], Dim(0), std::nullopt, corners};
    if (!sizes) axis.factor = (*factors)[i];
    constexpr std::string_view kScales[] = {"scales_d", "scales_h", "scales_w"};
    const std::string_view named = spatial == 1 ? "scales" : kScales[3 - spatial + i];
    if (has_arg(a, named)) axis.factor = as_number(a.node.arg(named));
    if (axis.factor && !(*axis.factor > 1e-3 && *axis.factor <= double{kLargestSize}))
      return a.unsupported(sizes ? named : "scale_factors", fmt::format("a factor of {}", *axis.factor),
                           "pool, or take a slice, before");
    if (sizes) axis.count = (*sizes)[i];
    else {
      QCG_TRY(count, scaled_size(a, axis.size, *axis.factor));
      axis.count = std::move(count);
    }
    const DimRange from = range_of(axis.size, a.graph.symbols), to = range_of(axis.count, a.graph.symbols);
    if (from.min < 1 || to.min < 1 || (axis.count.is_constant() && to.max > kLargestSize))
      return a.fail("output_size", fmt::format("{} elements from {}", axis.count.str(), axis.size.str()),
                    "export with a larger minimum of this size");
    const bool constant = axis.size.is_constant() && axis.count.is_constant();
    if (constant && from.max > 1000 * to.max)
      return a.unsupported("output_size", fmt::format("{} elements from {}", to.max, from.max), "pool before");
    if (!constant && is_named(a.node, "_aa"))
      return a.unsupported("output_size", "a size known only at run time", "export with constant sizes of images");
    out.push_back(std::move(axis));
  }
  return out;
}

Result<Types> infer_upsample(const OpArgs& a) {
  QCG_TRY(axes, resized_axes(a));
  const Value& x = a.tensor(input_name(a));
  const bool moves = is_named(a.node, "nearest") && x.dtype != DType::boolean;
  if (!is_floating(x.dtype) && !moves) return a.fail(input_name(a), "expected a floating dtype, got " + describe(x));
  Shape shape = x.shape;
  for (size_t i = 0; i < axes.size(); ++i) shape[2 + i] = axes[i].count;
  return one(x.dtype, std::move(shape));
}

// Whether an axis of an image is sure to have an element.
static bool has_elements(const OpArgs& a, const Dim& size) { return is_at_least_0(size - Dim(1), a.graph); }

// input [N, C, H, W] at the places grid [N, H', W', 2] of x and y, each from -1 to 1; or both with a depth and z.
Result<Types> infer_grid_sample(const OpArgs& a) {
  const Value &input = a.tensor("input"), &grid = a.tensor("grid");
  if (!is_floating(input.dtype) || grid.dtype != input.dtype)
    return a.fail("grid", fmt::format("{} and {} are not floats of one dtype", describe(input), describe(grid)));
  const size_t rank = input.shape.size();
  if ((rank != 4 && rank != 5) || grid.shape.size() != rank ||
      !grid.shape.back().is_constant(static_cast<int64_t>(rank) - 2) || grid.shape[0] != input.shape[0])
    return a.fail("grid", fmt::format("{} has no coordinates for places of {}", describe(grid), describe(input)));
  for (size_t axis = 2; axis < rank; ++axis)
    if (!has_elements(a, input.shape[axis]))
      return a.fail("input", fmt::format("an axis of {} may be empty", input.shape[axis].str()),
                    "export with a larger minimum of this size");
  QCG_TRY(mode, a.constant("interpolation_mode"));
  QCG_TRY(padding, a.constant("padding_mode"));
  if (mode < kBilinear || mode > kBicubic || (mode == kBicubic && rank != 4))
    return a.fail("interpolation_mode", "expected 0 or 1, or 2 for images of two axes");
  if (padding < kZeros || padding > kReflected) return a.fail("padding_mode", "expected 0, 1 or 2");
  Shape shape = grid.shape;
  shape.pop_back();
  shape.insert(shape.begin() + 1, input.shape[1]);
  return one(input.dtype, std::move(shape));
}

// theta [N, 2, 3]: where the places of an image of `size` lie in another one; [N, 3, 4] with a depth.
Result<Types> infer_affine_grid(const OpArgs& a) {
  const Value& theta = a.tensor("theta");
  const std::vector<Dim> size = a.dims("size");
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  if ((axes != 2 && axes != 3) || !is_floating(theta.dtype) || theta.shape.size() != 3 ||
      !theta.shape[1].is_constant(axes) || !theta.shape[2].is_constant(axes + 1) || size[0] != theta.shape[0])
    return a.fail("theta",
                  fmt::format("{} is not [N, 2, 3] for [N, C, H, W], or [N, 3, 4] with a depth", describe(theta)));
  Shape shape = {size[0]};
  for (size_t axis = 2; axis < size.size(); ++axis) {
    if (!has_elements(a, size[axis]))
      return a.fail("size", fmt::format("an axis of {} may be empty", size[axis].str()),
                    "export with a larger minimum of this size");
    shape.push_back(size[axis]);
  }
  shape.emplace_back(axes);
  return one(theta.dtype, std::move(shape));
}

}  // namespace qcg

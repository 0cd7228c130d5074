// The oracle's rules for upsampling, downsampling and sampling at computed places: in double, from their definitions.
#include <algorithm>
#include <array>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

// The weighted sum of all elements that taps of all axes meet in.
Result<Tensors> run_upsample(const RefContext& c) {
  const Tensor& x = c.values[*c.node.args[0].get<ValueId>()].data;
  const std::vector<int64_t> out = c.sizes(0);
  const size_t lead = 2;
  QCG_TRY(resized, resized_axes({c.graph, c.node}));
  std::vector<Interpolation> axes;
  for (const ResizedAxis& axis : resized)
    axes.push_back(interpolate(c.node, axis, c.evaluate(axis.size), c.evaluate(axis.count)));
  const std::vector<double> from = read_doubles(x);
  std::vector<double> y;
  for (int64_t k = 0, count = make_doubles(out, {}).numel(); k < count; ++k) {
    int64_t rest = k, base = 0, stride = 1;
    std::vector<std::pair<int64_t, double>> reached = {{0, 1}};  // offset, share
    for (size_t i = out.size(); i-- > 0; rest /= out[i], stride *= x.shape[i]) {
      const auto place = static_cast<size_t>(rest % out[i]);
      if (i < lead) {
        base += static_cast<int64_t>(place) * stride;
        continue;
      }
      const Interpolation& axis = axes[i - lead];
      std::vector<std::pair<int64_t, double>> further;
      for (const auto& [offset, share] : reached)
        for (size_t tap = 0; tap < axis.positions.size(); ++tap)
          further.emplace_back(offset + axis.positions[tap][place] * stride,
                               axis.shares.empty() ? share : share * axis.shares[tap][place]);
      reached = std::move(further);
    }
    double sum = 0;
    for (const auto& [offset, share] : reached) sum += share * from[static_cast<size_t>(base + offset)];
    y.push_back(sum);
  }
  return Tensors{make_doubles(out, std::move(y))};
}

// Where a coordinate in [-1, 1] lies among `size` elements, brought back into them as `padding` says.
double place_of(double coordinate, int64_t size, int64_t padding, bool corners) {
  const auto n = static_cast<double>(size);
  double at = corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
  if (padding == kReflected) {
    const double low = corners ? 0 : -0.5, span = corners ? n - 1 : n;
    if (span == 0) return 0;
    const double turns = std::floor(std::abs(at - low) / span), rest = std::abs(at - low) - turns * span;
    at = low + (std::fmod(turns, 2) == 0 ? rest : span - rest);
  }
  return padding == kZeros ? at : std::clamp(at, 0.0, n - 1);
}

double keys_share(double distance) {
  constexpr double a = -0.75;
  const double x = std::abs(distance);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// The elements that a coordinate takes along one axis, with their shares. Places outside are outside the image.
std::vector<std::pair<double, double>> taps_of(double coordinate, int64_t size, int64_t mode, int64_t padding,
                                               bool corners) {
  if (mode == kNearest) return {{std::nearbyint(place_of(coordinate, size, padding, corners)), 1}};
  std::vector<std::pair<double, double>> taps;
  const double place = place_of(coordinate, size, mode == kBicubic ? kZeros : padding, corners),
               low = std::floor(place);
  for (int tap = mode == kBicubic ? -1 : 0; tap <= (mode == kBicubic ? 2 : 1); ++tap) {
    const double at = low + tap;
    const double share = mode == kBicubic ? keys_share(place - at) : 1 - std::abs(place - at);
    // Whole places are brought back as others are: as the coordinate that they have.
    const auto n = static_cast<double>(size);
    const double again = corners ? (n > 1 ? 2 * at / (n - 1) - 1 : -1) : (2 * at + 1) / n - 1;
    taps.emplace_back(mode == kBicubic ? std::nearbyint(place_of(again, size, padding, corners)) : at, share);
  }
  return taps;
}

Result<Tensors> run_grid_sample(const RefContext& c) {
  const std::vector<double> x = read_doubles(c.tensor("input").data), grid = read_doubles(c.tensor("grid").data);
  const std::vector<int64_t>&size = c.tensor("input").data.shape, out = c.sizes(0);
  const int64_t mode = c.integer("interpolation_mode"), padding = c.integer("padding_mode");
  const bool corners = *c.node.arg("align_corners").get<bool>();
  const size_t axes = size.size() - 2;
  const int64_t places = count_of(std::span(out).subspan(2)), area = count_of(std::span(size).subspan(2));
  std::vector<double> y;
  for (int64_t plane = 0; plane < out[0] * out[1]; ++plane)
    for (int64_t place = 0; place < places; ++place) {
      const double* at = grid.data() + (plane / out[1] * places + place) * static_cast<int64_t>(axes);
      std::vector<std::pair<int64_t, double>> reached = {{plane * area, 1}};  // offset, share
      int64_t stride = area;
      for (size_t i = 0; i < axes; ++i) {  // x is the last axis
        const int64_t length = size[2 + i];
        stride /= length;
        std::vector<std::pair<int64_t, double>> further;
        for (const auto& [position, share] : taps_of(at[axes - 1 - i], length, mode, padding, corners)) {
          if (!(position >= 0 && position < static_cast<double>(length))) continue;
          for (const auto& [offset, so_far] : reached)
            further.emplace_back(offset + static_cast<int64_t>(position) * stride, so_far * share);
        }
        reached = std::move(further);
      }
      double sum = 0;
      for (const auto& [offset, share] : reached) sum += share * x[static_cast<size_t>(offset)];
      y.push_back(sum);
    }
  return Tensors{make_doubles(out, std::move(y))};
}

// theta times (x, y, 1) of each place, or (x, y, z, 1); these lie evenly in [-1, 1].
Result<Tensors> run_affine_grid(const RefContext& c) {
  const std::vector<double> theta = read_doubles(c.tensor("theta").data);
  const bool corners = *c.node.arg("align_corners").get<bool>();
  const std::vector<int64_t> out = c.sizes(0);
  const auto axes = static_cast<size_t>(out.back());
  const auto coordinate = [&](int64_t at, int64_t count) {
    if (count <= 1) return 0.0;
    const double even = 2 * static_cast<double>(at) / static_cast<double>(count - 1) - 1;
    return corners ? even : even * static_cast<double>(count - 1) / static_cast<double>(count);
  };
  std::vector<double> y;
  for (int64_t k = 0, count = count_of(out); k < count; ++k) {
    int64_t rest = k / out.back();
    double sum = 0;
    const auto row = [&](int64_t image, size_t column) {
      return theta[static_cast<size_t>((image * out.back() + k % out.back()) * (out.back() + 1)) + column];
    };
    const int64_t image = rest / count_of(std::span(out).subspan(1, axes));
    for (size_t i = 0; i < axes; ++i) {
      const int64_t size = out[axes - i];
      sum += row(image, i) * coordinate(rest % size, size);
      rest /= size;
    }
    y.push_back(sum + row(image, axes));
  }
  return Tensors{make_doubles(out, std::move(y))};
}

// clang-format off
constexpr RefRow kInterpolationRules[] = {
    {"aten.upsample_nearest1d.vec", run_upsample}, {"aten.upsample_nearest2d.vec", run_upsample},
    {"aten.upsample_nearest2d.default", run_upsample}, {"aten._upsample_nearest_exact1d.vec", run_upsample},
    {"aten.upsample_nearest1d.default", run_upsample},
    {"aten._upsample_nearest_exact1d.default", run_upsample},
    {"aten.upsample_linear1d.default", run_upsample},
    {"aten.upsample_nearest3d.vec", run_upsample},
    {"aten.upsample_nearest3d.default", run_upsample},
    {"aten._upsample_nearest_exact3d.vec", run_upsample},
    {"aten._upsample_nearest_exact3d.default", run_upsample},
    {"aten.upsample_trilinear3d.vec", run_upsample},
    {"aten.upsample_trilinear3d.default", run_upsample},
    {"aten._upsample_nearest_exact2d.vec", run_upsample}, {"aten._upsample_nearest_exact2d.default", run_upsample},
    {"aten.upsample_linear1d.vec", run_upsample}, {"aten.upsample_bilinear2d.vec", run_upsample},
    {"aten.upsample_bilinear2d.default", run_upsample}, {"aten.upsample_bicubic2d.vec", run_upsample},
    {"aten.upsample_bicubic2d.default", run_upsample},
    {"aten._upsample_bilinear2d_aa.vec", run_upsample}, {"aten._upsample_bilinear2d_aa.default", run_upsample},
    {"aten._upsample_bicubic2d_aa.vec", run_upsample}, {"aten._upsample_bicubic2d_aa.default", run_upsample},
    {"aten.grid_sampler.default", run_grid_sample}, {"aten.grid_sampler_2d.default", run_grid_sample},
    {"aten.grid_sampler_3d.default", run_grid_sample},
    {"aten.affine_grid_generator.default", run_affine_grid},
};
// clang-format on

}  // namespace

std::span<const RefRow> reference_interpolation() { return kInterpolationRules; }

}  // namespace qcg

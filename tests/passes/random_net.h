// Networks of convolutions as text: of random geometry, and a residual block.
//
// Why here: layers_test.cpp compares what the passes make of them, random_programs_test.cpp runs them.
//
//   Graph graph = parse(RandomNet(seed).build());
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace qcg {

// A convolution of random geometry, odd extents among them, with what usually stands around one.
class RandomNet {
 public:
  explicit RandomNet(uint64_t seed, int64_t least = 0, int64_t most = 64) : random_(seed), least_(least), most_(most) {}

  std::string build() {
    const size_t spatial = 1 + pick(2);
    std::vector<Axis> axes;
    for (size_t i = 0; i < spatial; ++i) {
      Axis a{};
      a.kernel = 1 + pick(4), a.stride = 1 + pick(3), a.dilation = 1 + pick(2), a.padding = pick(3);
      a.size = std::max<int64_t>(a.dilation * (a.kernel - 1) + 1 - 2 * a.padding, 1) + pick(6);
      axes.push_back(a);
    }
    const int64_t groups = 1 + pick(3), inputs = groups * (1 + pick(3)), outputs = groups * (1 + pick(4));
    const std::string x = shape("s0", inputs, list(axes, &Axis::size)),
                      w = shape(fmt::format("{}", outputs), inputs / groups, list(axes, &Axis::kernel));
    std::string sizes;
    for (const Axis& a : axes) sizes += fmt::format(", {}", a.places());
    const std::string y = shape("s0", outputs, sizes);
    text_ = fmt::format("symbol s0 in [{}, {}]\nparam @w: {}\n", least_, most_, w);
    for (const char* name : {"b", "scale", "shift", "mean", "var"})
      text_ += fmt::format("param @{}: f32[{}]\n", name, outputs);
    text_ += fmt::format("graph(%x: {}, %other: {}) {{\n", x, y);
    say("y",
        fmt::format("aten.conv{}d.default(%x, @w, {}, [{}], [{}], [{}], {})", spatial, pick(2) ? "@b" : "none",
                    list(axes, &Axis::stride).substr(2), list(axes, &Axis::padding).substr(2),
                    list(axes, &Axis::dilation).substr(2), groups),
        y);
    std::string last = "y";
    if (pick(2))
      say("n", "aten.batch_norm.default(%" + last + ", @scale, @shift, @mean, @var, false, 0.1, 0.001, true)", y),
          last = "n";
    if (pick(2)) say("r", "aten.hardswish.default(%" + last + ")", y), last = "r";
    if (pick(3) == 0) say("a", "aten.add.Tensor(%" + last + ", %other)", y), last = "a";
    if (pick(3) == 0) say("s", "aten.mul.Tensor(%" + last + ", 0.5)", y), last = "s";
    if (pick(2)) {
      const bool largest = pick(2);
      std::string pooled;
      for (Axis& a : axes) {
        a = {a.places(), 1 + pick(std::min<int64_t>(3, a.places())), 1 + pick(2), 0, 1};
        a.padding = pick(a.kernel / 2 + 1);
        pooled += fmt::format(", {}", a.places());
      }
      say("p",
          fmt::format("aten.{}_pool{}d.default(%{}, [{}], [{}], [{}])", largest ? "max" : "avg", spatial, last,
                      list(axes, &Axis::kernel).substr(2), list(axes, &Axis::stride).substr(2),
                      list(axes, &Axis::padding).substr(2)),
          shape("s0", outputs, pooled));
      last = "p";
    }
    return text_ + "  return %" + last + "\n}\n";
  }

 private:
  struct Axis {
    int64_t size, kernel, stride, padding, dilation;

    int64_t places() const { return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; }
  };

  int64_t pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  void say(const std::string& name, const std::string& call, const std::string& type) {
    text_ += fmt::format("  %{} = {} : {}\n", name, call, type);
  }
  static std::string shape(const std::string& first, int64_t second, const std::string& rest) {
    return fmt::format("f32[{}, {}{}]", first, second, rest);
  }
  static std::string list(const std::vector<Axis>& axes, int64_t Axis::*member) {
    std::string out;
    for (const Axis& a : axes) out += fmt::format(", {}", a.*member);
    return out;
  }

  std::mt19937_64 random_;
  int64_t least_, most_;  // images
  std::string text_;
};

// A residual block of ResNet: its stem, two convolutions, a shortcut, a pool and a classifier.
inline constexpr std::string_view kResidual = R"(symbol s0 in [1, 64]
param @stem: f32[8, 3, 7, 7]
param @one: f32[8, 8, 3, 3]
param @two: f32[8, 8, 3, 3]
param @scale: f32[8]
param @shift: f32[8]
param @mean: f32[8]
param @var: f32[8]
param @out: f32[5, 8]
graph(%x: f32[s0, 3, 20, 20]) {
  %a = aten.conv2d.default(%x, @stem, none, [2, 2], [3, 3]) : f32[s0, 8, 10, 10]
  %b = aten.batch_norm.default(%a, @scale, @shift, @mean, @var, false, 0.1, 0.001, true) : f32[s0, 8, 10, 10]
  %c = aten.relu.default(%b) : f32[s0, 8, 10, 10]
  %d = aten.max_pool2d.default(%c, [3, 3], [2, 2], [1, 1]) : f32[s0, 8, 5, 5]
  %e = aten.conv2d.default(%d, @one, none, [1, 1], [1, 1]) : f32[s0, 8, 5, 5]
  %f = aten.batch_norm.default(%e, @scale, @shift, @mean, @var, false, 0.1, 0.001, true) : f32[s0, 8, 5, 5]
  %g = aten.relu.default(%f) : f32[s0, 8, 5, 5]
  %h = aten.conv2d.default(%g, @two, none, [1, 1], [1, 1]) : f32[s0, 8, 5, 5]
  %i = aten.batch_norm.default(%h, @scale, @shift, @mean, @var, false, 0.1, 0.001, true) : f32[s0, 8, 5, 5]
  %j = aten.add.Tensor(%i, %d) : f32[s0, 8, 5, 5]
  %k = aten.relu.default(%j) : f32[s0, 8, 5, 5]
  %l = aten.adaptive_avg_pool2d.default(%k, [1, 1]) : f32[s0, 8, 1, 1]
  %m = aten.flatten.using_ints(%l, 1) : f32[s0, 8]
  %n = aten.linear.default(%m, @out) : f32[s0, 5]
  return %n
}
)";

}  // namespace qcg

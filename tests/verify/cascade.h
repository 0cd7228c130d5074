// Layers of int8 products whose activations are quantized again and again, as native JSON with weights inline.
//
// Why here: where codes cascade, a right program may be far from the oracle; what is wrong must still be found.
//
//   Cascade c(4, 7);
//   c.scale(0, "down", 3, 2);            // a wrong factor on one column
//   spit("g.json", c.text());
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace qcg::test {

class Cascade {
 public:
  static constexpr int kHidden = 32, kInner = 48;

  Cascade(int layers, uint64_t seed, int max_rows = 4) : layers_(layers), max_rows_(max_rows) {
    std::mt19937_64 rng(seed);
    for (int l = 0; l < layers; ++l)
      for (const char* name : {"gate", "up", "down"}) {
        Weight& w = weights_[name_of(l, name)];
        const bool down = name == std::string("down");
        w.k = down ? kInner : kHidden, w.n = down ? kHidden : kInner;
        for (int i = 0; i < w.k * w.n; ++i) w.values.push_back(static_cast<int>(rng() % 255) - 127);
        for (int i = 0; i < w.n; ++i) w.scales.push_back(0.0018 + 0.0001 * static_cast<double>(rng() % 10));
      }
  }

  void scale(int layer, const std::string& name, int column, double factor) {
    weights_[name_of(layer, name)].scales[static_cast<size_t>(column)] *= factor;
  }
  // Every scale moved by up to `relative` of itself.
  void disturb(double relative, uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::uniform_real_distribution<double> share(-relative, relative);
    for (auto& [name, w] : weights_)
      for (double& s : w.scales) s *= 1 + share(rng);
  }
  void swap(int layer, const std::string& a, const std::string& b) {
    std::swap(weights_[name_of(layer, a)], weights_[name_of(layer, b)]);
  }

  std::string text() const {
    using nlohmann::json;
    json parameters = json::array(), nodes = json::array();
    for (const auto& [name, w] : weights_) {
      parameters.push_back({{"name", name}, {"dtype", "i8"}, {"shape", {w.k, w.n}}, {"data", w.values}});
      parameters.push_back({{"name", name + ".s"}, {"dtype", "f32"}, {"shape", {w.n}}, {"data", w.scales}});
    }
    const auto add = [&](const std::string& op, const json& inputs, const std::vector<std::string>& outputs) {
      nodes.push_back({{"op", op}, {"inputs", inputs}, {"outputs", outputs}});
      return outputs[0];
    };
    const auto quantize = [&](const std::string& x) {
      const int width = x.ends_with("h") ? kInner : kHidden;
      add("choose_qparams_affine",
          {{"input", x},
           {"mapping_type", "SYMMETRIC"},
           {"block_size", {1, width}},
           {"target_dtype", "i8"},
           {"quant_min", -127},
           {"quant_max", 127},
           {"eps", 1e-5},
           {"scale_dtype", "f32"},
           {"zero_point_dtype", "i8"},
           {"keepdim", true}},
          {x + ".s", x + ".z"});
      add("quantize_affine",
          {{"input", x},
           {"block_size", {1, width}},
           {"scale", x + ".s"},
           {"zero_point", x + ".z"},
           {"output_dtype", "i8"},
           {"quant_min", -127},
           {"quant_max", 127}},
          {x + ".q"});
    };
    const auto multiply = [&](const std::string& x, const std::string& w) {
      const std::string y = w + ".y";
      add("_int_mm", {{"self", x + ".q"}, {"mat2", w}}, {y + "i"});
      add("to.dtype", {{"self", y + "i"}, {"dtype", "f32"}}, {y + "f"});
      add("mul.Tensor", {{"self", y + "f"}, {"other", x + ".s"}}, {y + "x"});
      return add("mul.Tensor", {{"self", y + "x"}, {"other", w + ".s"}}, {y});
    };
    std::string x = "x";
    for (int l = 0; l < layers_; ++l) {
      quantize(x);
      const std::string gate = multiply(x, name_of(l, "gate")), up = multiply(x, name_of(l, "up"));
      add("silu", {{"self", gate}}, {gate + "a"});
      const std::string h = add("add.Tensor", {{"self", gate + "a"}, {"other", up}}, {name_of(l, "h")});
      quantize(h);
      x = add("tanh", {{"self", multiply(h, name_of(l, "down"))}}, {name_of(l, "x")});
    }
    return json({{"format", "qcodegen"},
                 {"version", 1},
                 {"symbols", {{"m", {0, max_rows_}}}},
                 {"inputs", {{{"name", "x"}, {"dtype", "f32"}, {"shape", {"m", kHidden}}}}},
                 {"parameters", parameters},
                 {"nodes", nodes},
                 {"outputs", {x}}})
        .dump();
  }

 private:
  struct Weight {
    int k = 0, n = 0;
    std::vector<int> values;  // [k, n]
    std::vector<double> scales;
  };
  static std::string name_of(int layer, const std::string& name) { return "l" + std::to_string(layer) + name; }

  int layers_, max_rows_;
  std::map<std::string, Weight> weights_;
};

}  // namespace qcg::test

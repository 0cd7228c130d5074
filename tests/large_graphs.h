// Valid graphs of any number of nodes, as native JSON: chains, wide graphs, many inputs, many outputs.
//
// Why here: what costs n * n is found by doubling n, in the passes (tests/passes) and in the program (tests/cli).
//
//   for (LargeGraph graph : kLargeGraphs) spit(path, graph.json(5000));
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qcg::test {

class LargeGraphWriter {
 public:
  void input(const std::string& name, const std::string& shape = R"(["m", 64])") {
    inputs_ +=
        (inputs_.empty() ? "" : ",\n") + (R"({"name": ")" + name + R"(", "dtype": "f32", "shape": )" + shape) + "}";
  }
  void parameter(const std::string& name, const std::string& shape) {
    parameters_ +=
        (parameters_.empty() ? "" : ",\n") + (R"({"name": ")" + name + R"(", "dtype": "f32", "shape": )" + shape) + "}";
  }
  // `arguments` without braces: R"("self": "x")".
  void node(const std::string& op, const std::string& arguments, const std::vector<std::string>& outputs) {
    nodes_ += (nodes_.empty() ? "" : ",\n") + (R"({"op": ")" + op + R"(", "inputs": {)" + arguments) +
              R"(}, "outputs": )" + list(outputs) + "}";
  }
  std::string finish(const std::vector<std::string>& outputs) const {
    return R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 4096]}, "inputs": [)" + inputs_ +
           R"(], "parameters": [)" + parameters_ + R"(], "nodes": [)" + nodes_ + R"(], "outputs": )" + list(outputs) +
           "}";
  }
  static std::string list(const std::vector<std::string>& names) {
    std::string text = "[";
    for (const std::string& name : names) text += (text.size() > 1 ? ", \"" : "\"") + name + "\"";
    return text + "]";
  }
  static std::string self(const std::string& x) { return R"("self": ")" + x + "\""; }

 private:
  std::string inputs_, parameters_, nodes_;
};

struct LargeGraph {
  std::string_view name;
  std::string (*json)(int nodes);
};

namespace large {

using Writer = LargeGraphWriter;
inline std::string numbered(const char* stem, int i) { return stem + std::to_string(i); }

template <class Step>
std::string chain(int n, int nodes_per_step, Step step) {
  Writer w;
  w.input("x");
  std::string last = "x";
  for (int i = 0; i < n / nodes_per_step; ++i) last = step(w, last, i);
  return w.finish({last});
}

inline std::string relus(int n) {
  return chain(n, 1, [](Writer& w, const std::string& x, int i) {
    w.node("relu", Writer::self(x), {numbered("v", i)});
    return numbered("v", i);
  });
}
inline std::string softmaxes(int n) {
  return chain(n, 1, [](Writer& w, const std::string& x, int i) {
    w.node("softmax", Writer::self(x) + R"(, "dim": -1)", {numbered("v", i)});
    return numbered("v", i);
  });
}
inline std::string norms(int n) {
  return chain(n, 1, [](Writer& w, const std::string& x, int i) {
    w.parameter(numbered("w", i), "[64]");
    w.node("layer_norm", R"("input": ")" + x + R"(", "normalized_shape": [64], "weight": ")" + numbered("w", i) + "\"",
           {numbered("v", i)});
    return numbered("v", i);
  });
}
// x + relu(x @ t(w)), over and over.
inline std::string residuals(int n) {
  return chain(n, 4, [](Writer& w, const std::string& x, int i) {
    w.parameter(numbered("w", i), "[64, 64]");
    w.node("t", Writer::self(numbered("w", i)), {numbered("t", i)});
    w.node("mm", Writer::self(x) + R"(, "mat2": ")" + numbered("t", i) + "\"", {numbered("p", i)});
    w.node("relu", Writer::self(numbered("p", i)), {numbered("r", i)});
    w.node("add", Writer::self(numbered("r", i)) + R"(, "other": ")" + x + "\"", {numbered("v", i)});
    return numbered("v", i);
  });
}
inline std::string quantizations(int n) {
  return chain(n, 2, [](Writer& w, const std::string& x, int i) {
    const std::string how = R"(", "scale": )" + std::to_string(0.1 + i * 0.001) +
                            R"(, "zero_point": 0, "quant_min": -128, "quant_max": 127, "dtype": "i8")";
    w.node("quantized_decomposed.quantize_per_tensor.default", R"("input": ")" + x + how, {numbered("q", i)});
    w.node("quantized_decomposed.dequantize_per_tensor.default", R"("input": ")" + numbered("q", i) + how,
           {numbered("v", i)});
    return numbered("v", i);
  });
}
// A quantization moves up through concatenations of concatenations.
inline std::string quantized_cats(int n) {
  Writer w;
  w.input("x");
  std::string last = "x";
  for (int i = 0; i < n; ++i) {
    w.node("cat", R"("tensors": [")" + last + R"(", "x"], "dim": 0)", {numbered("v", i)});
    last = numbered("v", i);
  }
  w.node("quantized_decomposed.quantize_per_tensor.default",
         R"("input": ")" + last +
             R"(", "scale": 0.1, "zero_point": 0, "quant_min": -128, "quant_max": 127, "dtype": "i8")",
         {"q"});
  return w.finish({"q"});
}
inline std::string sum_of_inputs(int n) {
  return chain(n, 1, [](Writer& w, const std::string& x, int i) {
    w.input(numbered("i", i));
    w.node("add", Writer::self(x) + R"(, "other": ")" + numbered("i", i) + "\"", {numbered("v", i)});
    return numbered("v", i);
  });
}
inline std::string siblings(int n) {
  Writer w;
  w.input("x");
  std::vector<std::string> outputs;
  for (int i = 0; i < n; ++i) {
    outputs.push_back(numbered("v", i));
    w.node("mul", Writer::self("x") + R"(, "other": )" + std::to_string(i + 2), {outputs.back()});
  }
  return w.finish(outputs);
}
inline std::string sibling_linears(int n) {
  Writer w;
  w.input("x");
  std::vector<std::string> outputs;
  for (int i = 0; i < n; ++i) {
    outputs.push_back(numbered("v", i));
    w.parameter(numbered("w", i), "[64, 64]");
    w.node("linear", R"("input": "x", "weight": ")" + numbered("w", i) + "\"", {outputs.back()});
  }
  return w.finish(outputs);
}
inline std::string sibling_softmaxes(int n) {
  Writer w;
  w.input("x");
  std::vector<std::string> outputs;
  for (int i = 0; i < n; ++i) {
    outputs.push_back(numbered("v", i));
    w.node("mul", Writer::self("x") + R"(, "other": )" + std::to_string(i + 2), {numbered("u", i)});
    w.node("softmax", Writer::self(numbered("u", i)) + R"(, "dim": -1)", {outputs.back()});
  }
  return w.finish(outputs);
}
inline std::string one_output_repeated(int n) {
  Writer w;
  w.input("x");
  w.node("relu", Writer::self("x"), {"v"});
  return w.finish(std::vector<std::string>(static_cast<size_t>(n), "v"));
}
inline std::string splits(int n) {
  constexpr int kPieces = 500;
  Writer w;
  w.input("x", R"(["m", 2000])");
  std::vector<std::string> outputs;
  for (int i = 0; i < n / kPieces; ++i) {
    std::vector<std::string> pieces;
    for (int j = 0; j < kPieces; ++j) pieces.push_back(numbered("v", i * kPieces + j));
    w.node("split", Writer::self("x") + R"(, "split_size": 4, "dim": 1)", pieces);
    outputs.insert(outputs.end(), pieces.begin(), pieces.end());
  }
  return w.finish(outputs);
}
inline std::string concatenation(int n) {
  Writer w;
  std::vector<std::string> parts;
  for (int i = 0; i < n; ++i) {
    parts.push_back(numbered("i", i));
    w.input(parts.back());
  }
  w.node("cat", R"("tensors": )" + Writer::list(parts) + R"(, "dim": 1)", {"c"});
  return w.finish({"c"});
}

}  // namespace large

inline constexpr LargeGraph kLargeGraphs[] = {
    {"a chain of relu", large::relus},
    {"a chain of softmax", large::softmaxes},
    {"a chain of layer_norm", large::norms},
    {"a chain of linears with residuals", large::residuals},
    {"a chain of quantizations", large::quantizations},
    {"a quantization of nested concatenations", large::quantized_cats},
    {"a sum of many inputs", large::sum_of_inputs},
    {"many readers of one value", large::siblings},
    {"many linears of one value", large::sibling_linears},
    {"many softmaxes of one value", large::sibling_softmaxes},
    {"one value returned many times", large::one_output_repeated},
    {"many outputs of a few nodes", large::splits},
    {"a concatenation of many inputs", large::concatenation},
};

}  // namespace qcg::test

#include "tests/graph_read/generated_inputs.h"

namespace qcg::test {
namespace {

using Text = std::string;

Text number(size_t n) { return std::to_string(n); }
Text name(size_t n, size_t length) {
  Text text = "v" + number(n);
  return text + Text(length > text.size() ? length - text.size() : 0, 'x');
}

// Items separated by commas, as long as they fit.
template <class Item>
Text list_of(size_t bytes, Item item) {
  Text text;
  for (size_t i = 0; text.size() < bytes; ++i) {
    const Text next = item(i);
    if (i > 0 && text.size() + next.size() + 1 > bytes) break;
    text += (i ? "," : "") + next;
  }
  return text;
}

// "s0+s1+…": so many terms of so many factors.
Text sum_of_symbols(Random& random, size_t terms, size_t degree, size_t symbols) {
  Text text;
  for (size_t t = 0; t < terms; ++t) {
    text += t ? "+" : "";
    for (size_t d = 0; d < degree; ++d) text += (d ? "*s" : "s") + number(random.below(symbols));
  }
  return text;
}

// ---- native JSON

struct Native {
  Text symbols, inputs = R"({"name":"x","dtype":"f32","shape":[4,4]})", parameters, nodes, outputs = R"("x")";
  Text text() const {
    return R"({"format":"qcodegen","version":1,"symbols":{)" + symbols + R"(},"inputs":[)" + inputs +
           R"(],"parameters":[)" + parameters + R"(],"nodes":[)" + nodes + R"(],"outputs":[)" + outputs + "]}";
  }
  size_t left(size_t bytes) const { return bytes > text().size() + 64 ? bytes - text().size() - 64 : 0; }
};

Text native_symbols(size_t count) {
  return list_of(count * 14, [](size_t i) { return "\"s" + number(i) + "\":[1,99]"; });
}

// Nodes that each repeat the sizes of one input: sums of symbols along many axes.
template <class Node>
Text native_sizes(Random& random, size_t bytes, Node node) {
  Native g;
  const size_t symbols = 1 + random.below(std::min<size_t>(bytes / 64 + 1, 1000));
  const bool huge = bytes > 20'000 && random.below(3) == 0;
  const size_t axes = 1 + random.below(huge ? 64 : 6);
  g.symbols = native_symbols(symbols);
  g.inputs = R"({"name":"x","dtype":"f32","shape":[)";
  for (size_t i = 0; i < axes; ++i)
    g.inputs += (i ? ",\"" : "\"") +
                sum_of_symbols(random, 1 + random.below(huge ? 128 : 4), 1 + random.below(3), symbols) + "\"";
  g.inputs += "]}";
  if (g.inputs.size() > bytes / 2) g.inputs = Native().inputs;
  g.nodes = list_of(g.left(bytes), [&](size_t i) { return node(i, axes); });
  return g.text();
}
Text native_pointwise(Random& random, size_t bytes) {
  return native_sizes(random, bytes, [](size_t i, size_t) {
    return R"({"op":"relu","inputs":{"self":"x"},"outputs":["v)" + number(i) + "\"]}";
  });
}
Text native_flattened(Random& random, size_t bytes) {
  return native_sizes(random, bytes, [&](size_t i, size_t axes) {
    return R"({"op":"flatten","inputs":{"self":"x","start_dim":)" + number(random.below(axes)) + R"(},"outputs":["v)" +
           number(i) + "\"]}";
  });
}
Text native_reshaped(Random& random, size_t bytes) {
  return native_sizes(random, bytes, [&](size_t i, size_t) {
    return R"({"op":"reshape","inputs":{"self":"x","shape":[)" + Text(random.coin() ? "-1" : "\"s0\",-1") +
           R"(]},"outputs":["v)" + number(i) + "\"]}";
  });
}
Text native_slices(Random& random, size_t bytes) {
  return native_sizes(random, bytes, [&](size_t i, size_t axes) {
    return R"({"op":"slice","inputs":{"self":"x","dim":)" + number(random.below(axes)) + R"(,"end":)" +
           number(random.below(4)) + R"(},"outputs":["v)" + number(i) + "\"]}";
  });
}
Text native_chain(Random& random, size_t bytes) {
  Native g;
  const size_t length = 1 + random.below(40);
  g.nodes = list_of(g.left(bytes), [&](size_t i) {
    return R"({"op":"relu","inputs":{"self":")" + (i ? name(i - 1, length) : "x") + R"("},"outputs":[")" +
           name(i, length) + "\"]}";
  });
  return g.text();
}
Text native_outputs(Random& random, size_t bytes) {
  Native g;
  const size_t different = 1 + random.below(3);
  g.nodes =
      R"({"op":"relu","inputs":{"self":"x"},"outputs":["x_1"]},{"op":"relu","inputs":{"self":"x"},"outputs":["y"]})";
  g.outputs = list_of(g.left(bytes), [&](size_t i) {
    static const char* const kNames[] = {"\"x\"", "\"x_1\"", "\"y\""};
    return Text(kNames[i % different]);
  });
  return g.text();
}
Text native_splits(Random& random, size_t bytes) {
  Native g;
  const size_t pieces = 1 + random.below(std::min<size_t>(bytes / 16 + 1, 4096));
  g.inputs = R"({"name":"x","dtype":"f32","shape":[)" + number(pieces) + "]}";
  g.nodes = list_of(g.left(bytes), [&](size_t i) {
    Text names;
    for (size_t p = 0; p < pieces; ++p) names += (p ? ",\"w" : "\"w") + number(i * pieces + p) + "\"";
    return R"({"op":"split","inputs":{"self":"x","split_size":1},"outputs":[)" + names + "]}";
  });
  return g.text();
}
Text native_equal_names(Random& random, size_t bytes) {
  Native g;
  const size_t length = 1 + random.below(1024);
  g.nodes = R"({"op":"split","inputs":{"self":"x","split_size":1},"outputs":[)" +
            list_of(g.left(bytes), [&](size_t i) { return "\"" + name(i, length) + "\""; }) + "]}";
  return g.text();
}
Text native_cats(Random& random, size_t bytes) {
  Native g;
  const size_t parts = 1 + random.below(20'000);
  g.nodes = list_of(g.left(bytes), [&](size_t i) {
    return R"({"op":"cat","inputs":{"tensors":[)" +
           list_of(std::min(g.left(bytes), parts * 4), [](size_t) { return Text("\"x\""); }) + R"(]},"outputs":["v)" +
           number(i) + "\"]}";
  });
  return g.text();
}
Text native_doubling(Random& random, size_t bytes) {
  Native g;
  const bool wide = random.coin();
  g.nodes = list_of(g.left(bytes), [&](size_t i) {
    const Text part = i ? "\"v" + number(i - 1) + "\"" : "\"x\"";
    return R"({"op":"cat","inputs":{"tensors":[)" + part + "," + (wide ? part : "\"x\"") +
           R"(],"dim":-1},"outputs":["v)" + number(i) + "\"]}";
  });
  return g.text();
}
Text native_numbers(Random& random, size_t bytes) {
  Native g;
  Text data = list_of(g.left(bytes) - std::min<size_t>(g.left(bytes), 500), [](size_t i) { return number(i % 9); });
  const size_t depth = random.below(190);
  const size_t count = (data.size() + 1) / 2;
  g.parameters = R"({"name":"w","dtype":"f64","shape":[)" + number(count) + R"(],"data":)" + Text(depth, '[') + "[" +
                 data + "]" + Text(depth, ']') + "}";
  return g.text();
}
Text native_empty_data(Random& random, size_t bytes) {
  Native g;
  g.parameters = list_of(g.left(bytes), [&](size_t i) {
    return R"({"name":"w)" + number(i) + R"(","dtype":"f64","shape":[)" + (random.coin() ? "0" : "1000000,0") +
           R"(],"data":[]})";
  });
  return g.text();
}

// ---- torch.export JSON

Text srepr(Random& random, size_t depth) {
  if (depth == 0) return "Symbol('s" + number(random.below(20)) + "', integer=True)";
  static const char* const kFunctions[] = {"Add(", "Mul(", "Pow("};
  const size_t function = random.below(3);
  if (function == 2) return "Pow(" + srepr(random, depth - 1) + ",Integer(" + number(random.below(9)) + "))";
  Text text = kFunctions[function];
  const size_t operands = 1 + random.below(3);
  for (size_t i = 0; i < operands; ++i) text += (i ? "," : "") + srepr(random, depth - 1);
  return text + ")";
}

// small_export() with some of its text replaced.
Text export_with(const Text& what, const Text& with) {
  Text text = small_export().dump();
  const size_t at = text.find(what);
  return at == Text::npos ? text : text.replace(at, what.size(), with);
}
// Values that a weight's sizes and the inputs of the graph are; what nothing reads is not even parsed.
Text export_values(Random& random, size_t bytes) {
  const bool nested = random.coin();
  const size_t depth = 1 + random.below(6), terms = 1 + random.below(120), degree = 1 + random.below(4);
  Text inputs, specs, values;
  for (size_t i = 0; inputs.size() + specs.size() + values.size() + 12'000 < bytes; ++i) {
    const Text own = "t" + number(i), size = nested ? srepr(random, depth) : sum_of_symbols(random, terms, degree, 300);
    inputs += R"({"as_tensor":{"name":")" + own + R"("}},)";
    specs += R"({"user_input":{"arg":{"as_tensor":{"name":")" + own + R"("}}}},)";
    values += "\"" + own + R"(":{"dtype":7,"sizes":[{"as_expr":{"expr_str":")" + size.substr(0, 4000) +
              R"("}}],"strides":[{"as_int":1}]},)";
  }
  Text text = export_with(R"("inputs":[)", R"("inputs":[)" + inputs);
  const Text spec = R"("input_specs":[)", value = R"("tensor_values":{)";
  text.replace(text.find(spec), spec.size(), spec + specs);
  return text.replace(text.find(value), value.size(), value + values);
}
// Nodes that read such values: chains whose sizes are sums.
Text export_nodes(Random& random, size_t bytes) {
  const Text size = R"({"as_expr":{"expr_str":")" +
                    (random.coin() ? srepr(random, 1 + random.below(5)).substr(0, 4000)
                                   : sum_of_symbols(random, 1 + random.below(128), 1, 400)) +
                    R"("}})";
  Text sizes;
  const size_t axes = 1 + random.below(8);
  for (size_t i = 0; i < axes; ++i) sizes += (i ? "," : "") + size;
  if (sizes.size() > bytes / 4) sizes = R"({"as_int":4})";
  const Text meta = R"(":{"dtype":7,"sizes":[)" + sizes + R"(],"strides":[{"as_int":1}]})";
  Text nodes, metas;
  for (size_t i = 0; nodes.size() + metas.size() + 6000 < bytes; ++i) {
    const Text own = "n" + number(i), from = i ? "n" + number(i - 1) : Text("x");
    nodes += R"({"target":"torch.ops.aten.relu.default","inputs":[{"name":"self","arg":{"as_tensor":{"name":")" + from +
             R"("}}}],"outputs":[{"as_tensor":{"name":")" + own + R"("}}]},)";
    metas += "\"" + own + meta + ",";
  }
  Text text = export_with(R"("nodes":[)", R"("nodes":[)" + nodes);
  text.replace(text.find(R"("tensor_values":{)"), 17, R"("tensor_values":{)" + metas);
  const size_t x = text.find(R"("x":{"dtype":7,"sizes":[)");
  if (x != Text::npos) text.replace(x, text.find("]", x) - x, R"("x":{"dtype":7,"sizes":[)" + sizes);
  return text;
}
Text export_unsupported(Random& random, size_t bytes) {
  const size_t length = 1 + random.below(2000);
  return export_with(R"("nodes":[)", R"("nodes":[)" + list_of(bytes - std::min<size_t>(bytes, 5000), [&](size_t i) {
                                       return R"({"target":"torch.ops.)" + name(i, length) +
                                              R"(","metadata":{"stack_trace":"File \"a.py\", line 1"}})";
                                     }) + ",");
}
Text export_outputs(Random& random, size_t bytes) {
  const Text output =
      random.coin() ? R"({"as_tensor":{"name":"relu"}})" : R"({"as_tensors":[{"name":"relu"},{"name":"x"}]})";
  return export_with(R"("outputs":[{"as_tensor":{"name":"linear"}}])",
                     R"("outputs":[)" + list_of(bytes - std::min<size_t>(bytes, 5000), [&](size_t i) {
                       return random.coin() ? output : R"({"as_tensor":{"name":"o)" + number(i) + "\"}}";
                     }) + "]");
}
Text export_results(Random& random, size_t bytes) {
  const Text fields = random.coin() ? "as_tensor" : "as_none";
  return export_with(R"("outputs":[{"as_tensor":{"name":"relu"}}],"nodes")",
                     R"("outputs":[)" + list_of(bytes - std::min<size_t>(bytes, 5000), [&](size_t) {
                       return R"({")" + fields + R"(":{"name":"relu"}})";
                     }) + R"(],"nodes")");
}
Text export_ranges(Random& random, size_t bytes) {
  const size_t length = 1 + random.below(100);
  return export_with(R"("range_constraints":{)",
                     R"("range_constraints":{)" + list_of(bytes - std::min<size_t>(bytes, 5000), [&](size_t i) {
                       return "\"" + name(i, length) + R"(":{"min_val":1})";
                     }) + ",");
}

// ---- any JSON

Text json_nesting(Random& random, size_t bytes) {
  static const char* const kOpen[] = {"[", "{\"a\":", "[1,", "{\"graph_module\":[", "[[],"};
  const Text unit = kOpen[random.below(5)];
  Text text = "{\"graph_module\":";
  while (text.size() + unit.size() < bytes) text += unit;
  return text;
}
Text json_keys(Random& random, size_t bytes) {
  const size_t length = 1 + random.below(40);
  const bool nested = random.coin();
  return "{" +
         list_of(bytes - std::min<size_t>(bytes, 40),
                 [&](size_t i) {
                   return "\"" + name(nested ? i % 7 : i, length) + "\":" + (nested ? R"({"a":1,"b":{}})" : "0");
                 }) +
         R"(,"graph_module":{}})";
}

// ---- IR text

Text text_nodes(Random& random, size_t bytes) {
  Text text = "symbol s0 in [1, inf]\n", size;
  const size_t axes = 1 + random.below(6), terms = 1 + random.below(100);
  for (size_t i = 1; i < terms; ++i) text += "symbol s" + number(i) + " in [1, 9]\n";
  for (size_t i = 0; i < axes; ++i) size += (i ? ", " : "") + sum_of_symbols(random, terms, 1, terms);
  const Text type = " : f32[" + size + "]\n";
  text += "graph(%x: f32[" + size + "]) {\n";
  for (size_t i = 0; text.size() + type.size() + 100 < bytes; ++i)
    text += "  %v" + number(i) + " = aten.relu.default(%" + (i ? "v" + number(i - 1) : "x") + ")" + type;
  return text + "  return %x\n}\n";
}
Text text_names(Random& random, size_t bytes) {
  const size_t length = 1 + random.below(bytes);
  Text text = "graph(%x: f32[4]) {\n";
  for (size_t i = 0; text.size() + 2 * length + 80 < bytes; ++i)
    text +=
        "  # " + Text(random.below(20), '#') + "\n  %\"" + name(i, length) + "\" = aten.relu.default(%x) : f32[4]\n";
  return text + "  return %x as \"" + Text(std::min(length, bytes / 4), 'y') + "\"\n}\n";
}
Text text_returns(Random& random, size_t bytes) {
  Text text = "graph(%x: f32[4]) {\n  return %x";
  const Text next = random.coin() ? ", %x" : ", %x as \"x\"";
  while (text.size() + next.size() + 3 < bytes) text += next;
  return text + "\n}\n";
}
Text text_params(Random& random, size_t bytes) {
  Text text;
  const bool strided = random.coin();
  for (size_t i = 0; text.size() + 120 < bytes; ++i)
    text += "param @w" + number(i) + ": f32[2, 3]" + (strided ? " strides [1, 2]\n" : "\n");
  return text + "graph(%x: f32[4]) {\n  return %x\n}\n";
}
Text text_expressions(Random& random, size_t bytes) {
  const size_t depth = 1 + random.below(190);
  Text expr = "in0";
  for (size_t i = 0; i < depth; ++i) expr = "add(in" + number(i % 3) + ", " + expr + ")";
  Text text = "graph(%x: f32[4]) {\n";
  for (size_t i = 0; text.size() + expr.size() + 120 < bytes; ++i)
    text += "  %v" + number(i) + " = qcg.loop([%x, %x, %x], exprs = [" + expr + "], arithmetic = f32) : f32[4]\n";
  return text + "  return %x\n}\n";
}
Text text_tree(Random& random, size_t bytes) {
  const size_t depth = 2 + random.below(15);
  Text expr = "in0";
  for (size_t i = 0; i < depth && 2 * expr.size() + 200 < bytes; ++i) expr = "add(" + expr + ", " + expr + ")";
  for (size_t i = 0; i < 180 && expr.size() + 200 < bytes; ++i) expr = "relu(" + expr + ")";
  return "graph(%x: f32[4]) {\n  %v = qcg.loop([%x], exprs = [" + expr +
         "], arithmetic = f32) : f32[4]\n  return %v\n}\n";
}
Text text_outputs(Random& random, size_t bytes) {
  Text text = "graph(%x: f32[" + number(1 + random.below(100'000)) + "]) {\n  %a", types = "f32[1]";
  for (size_t i = 0; 2 * (text.size() + types.size()) < bytes + text.size(); ++i)
    text += ", %b" + number(i), types += ", f32[1]";
  text += " = aten.split.Tensor(%x, split_size = 1) : " + types + "\n  return %a\n}\n";
  return text.size() > bytes ? text.substr(0, bytes) : text;
}

// ---- .pt2

// A deflate stream that unpacks to zeros: 258 of them take 13 bits.
struct Zeros {
  Text data;
  size_t size = 1;  // unpacked
  uint32_t crc = 0;

  explicit Zeros(size_t wanted) {
    put(1, 1), put(1, 2);  // the last block, fixed codes
    put(0b00001100, 8);    // the literal 0: codes are packed from their first bit on
    for (; size + 258 <= wanted; size += 258) put(0b10100011, 8), put(0, 5);  // length 258, distance 1
    put(0, 7), put(0, 7);
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit) table[i] = (table[i] >> 1) ^ (0xEDB88320u & (0u - (table[i] & 1)));
    }
    crc = ~0u;
    for (size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ table[crc & 0xFF];
    crc = ~crc;
  }

 private:
  void put(uint32_t value, int width) {
    bits_ |= value << held_;
    for (held_ += width; held_ >= 8; held_ -= 8, bits_ >>= 8) data += static_cast<char>(bits_ & 0xFF);
  }
  uint32_t bits_ = 0;
  int held_ = 0;
};

// A graph with so many parameters of so many elements, in an archive that says where each lies.
SmallPt2 pt2_of(size_t weights, size_t elements) {
  SmallPt2 p;
  const Text tensor = R"({"dtype":7,"sizes":[{"as_int":)" + number(elements) +
                      R"(}],"strides":[{"as_int":1}],"storage_offset":{"as_int":0},"layout":7})";
  Json& graph = p.model["graph_module"]["graph"];
  for (size_t i = 0; i < weights; ++i) {
    const Text own = "p" + number(i);
    graph["inputs"].push_back({{"as_tensor", {{"name", own}}}});
    graph["tensor_values"][own] = Json::parse(tensor);
    p.model["graph_module"]["signature"]["input_specs"].push_back(
        {{"parameter", {{"arg", {{"name", own}}}, {"parameter_name", own}}}});
    p.weights["config"][own] = {
        {"path_name", "w" + number(i)}, {"use_pickle", false}, {"tensor_meta", Json::parse(tensor)}};
  }
  return p;
}
Text archive_bombs(Random& random, size_t bytes) {
  const size_t weights = 1 + random.below(std::min<size_t>(bytes / 1000 + 1, 100));
  const Zeros zeros((bytes - std::min(bytes, weights * 600)) / weights * 120 + 1000);
  SmallPt2 p = pt2_of(weights, zeros.size / 4);
  for (size_t i = 0; i < weights; ++i)
    p.zip.add_deflated("graph/data/weights/w" + number(i), zeros.data, zeros.size, zeros.crc);
  return p.pack();
}
Text archive_overlaps(Random& random, size_t bytes) {
  const size_t weights = 2 + random.below(std::min<size_t>(bytes / 700 + 1, 1200));
  const Zeros zeros(1000 + random.below(bytes > 100'000 ? 30'000'000 : 100'000));
  SmallPt2 p = pt2_of(weights, zeros.size / 4);
  p.zip.add_deflated("graph/data/weights/w0", zeros.data, zeros.size, zeros.crc);
  for (size_t i = 1; i < weights; ++i) p.zip.add_alias("graph/data/weights/w" + number(i));
  return p.pack();
}
Text archive_model(Random&, size_t bytes) {
  ZipBuilder zip;
  const Zeros zeros(std::min<size_t>(bytes * 500, 60'000'000));
  zip.add("graph/archive_format", "pt2");
  zip.add("graph/byteorder", "little");
  zip.add_deflated("graph/models/model.json", zeros.data, zeros.size, zeros.crc);
  return zip.finish();
}
Text archive_zeros(Random& random, size_t bytes) {
  const size_t weights = 1 + random.below(std::min<size_t>(bytes / 1000 + 1, 1000));
  SmallPt2 p = pt2_of(weights, size_t{1} << random.below(34));
  for (size_t i = 0; i < weights; ++i) p.zip.add("graph/data/weights/w" + number(i), "");
  return p.pack();
}
Text archive_entries(Random& random, size_t bytes) {
  SmallPt2 p;
  const size_t length = 1 + random.below(60);
  p.zip.zip64 = true;  // more than 65,535
  for (size_t i = 0; 120 + (i + 1) * (140 + 2 * length) < bytes - std::min<size_t>(bytes, 5000); ++i)
    p.zip.add(name(i, length), "");
  return p.pack();
}

// ---- safetensors

Text with_length(const Text& header) {
  const uint64_t length = header.size();
  Text bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header;
}
Text tensors_many(Random& random, size_t bytes) {
  const size_t length = 1 + random.below(200);
  return with_length("{" +
                     list_of(bytes - std::min<size_t>(bytes, 20),
                             [&](size_t i) {
                               return "\"" + name(i, length) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
                             }) +
                     "}");
}
// Names that are almost those that are missing.
Text tensors_near(Random& random, size_t bytes) {
  const size_t at = random.below(240);
  return with_length("{" +
                     list_of(bytes - std::min<size_t>(bytes, 20),
                             [&](size_t i) {
                               Text near(240, 'w');
                               near[at] = static_cast<char>('a' + i % 26);
                               return "\"" + near + number(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
                             }) +
                     "}");
}
Text tensors_axes(Random& random, size_t bytes) {
  const size_t axes = 1 + random.below(80);
  return with_length("{" +
                     list_of(bytes - std::min<size_t>(bytes, 20),
                             [&](size_t i) {
                               return "\"t" + number(i) + R"(":{"dtype":"F32","shape":[0,)" +
                                      list_of(2 * axes, [](size_t) { return Text("1"); }) +
                                      R"(],"data_offsets":[0,0]})";
                             }) +
                     "}");
}
Text tensors_metadata(Random& random, size_t bytes) {
  const size_t length = 1 + random.below(100);
  return with_length(
      R"({"__metadata__":{)" +
      list_of(bytes - std::min<size_t>(bytes, 40), [&](size_t i) { return "\"" + name(i, length) + R"(":"\u0041")"; }) +
      "}}");
}

}  // namespace

std::vector<Recipe> recipes() {
  return {
      {"native: pointwise on sums of symbols", native_pointwise},
      {"native: flattened sums of symbols", native_flattened},
      {"native: reshaped sums of symbols", native_reshaped},
      {"native: slices of sums of symbols", native_slices},
      {"native: a chain", native_chain},
      {"native: outputs repeated", native_outputs},
      {"native: splits", native_splits},
      {"native: outputs of one node", native_equal_names},
      {"native: long lists", native_cats},
      {"native: sizes that double", native_doubling},
      {"native: nested numbers", native_numbers},
      {"native: data of nothing", native_empty_data},
      {"export: sizes", export_values},
      {"export: nodes", export_nodes},
      {"export: unsupported operators", export_unsupported},
      {"export: outputs of one node", export_outputs},
      {"export: outputs of the graph", export_results},
      {"export: ranges", export_ranges},
      {"JSON: nesting", json_nesting},
      {"JSON: keys", json_keys},
      {"text: nodes", text_nodes},
      {"text: names", text_names},
      {"text: outputs of the graph", text_returns},
      {"text: parameters", text_params},
      {"text: expressions", text_expressions},
      {"text: an expression as a tree", text_tree},
      {"text: outputs of one node", text_outputs},
      {"pt2: deflate bombs", archive_bombs},
      {"pt2: entries that overlap", archive_overlaps},
      {"pt2: a model that unpacks", archive_model},
      {"pt2: empty payloads", archive_zeros},
      {"pt2: many entries", archive_entries},
      {"safetensors: many tensors", tensors_many, true},
      {"safetensors: names almost right", tensors_near, true},
      {"safetensors: many axes", tensors_axes, true},
      {"safetensors: metadata", tensors_metadata, true},
  };
}

std::string many_weights() {
  Native g;
  for (size_t i = 0; i < 2000; ++i)
    g.parameters += (i ? "," : "") + (R"({"name":")" + Text(240, 'w') + number(i) + R"(","dtype":"f32","shape":[0]})");
  return g.text();
}

}  // namespace qcg::test

// A small exported graph, and a .pt2 around it made by hand so that every field can be wrong.
//
// Why here: the reader tests and the fuzzers both start from it; nothing in it knows of a test framework.
//
//   SmallPt2 p;
//   p.weight_0.resize(47);
//   read_pt2(p.pack(), nullptr, "short payload");
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace qcg::test {

using Json = nlohmann::ordered_json;

// y = relu(linear(x, fc.weight, fc.bias)) with x [s0, 4], weight [3, 4]; the symbol's range is [1, 64].
inline Json small_export() {
  return Json::parse(R"json({
    "graph_module": {
      "graph": {
        "inputs": [{"as_tensor": {"name": "p_fc_weight"}}, {"as_tensor": {"name": "p_fc_bias"}}, {"as_tensor": {"name": "x"}}],
        "outputs": [{"as_tensor": {"name": "relu"}}],
        "nodes": [
          {"target": "torch.ops.aten.linear.default", "name": "linear",
           "inputs": [{"name": "input", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
                      {"name": "weight", "arg": {"as_tensor": {"name": "p_fc_weight"}}, "kind": 1},
                      {"name": "bias", "arg": {"as_tensor": {"name": "p_fc_bias"}}, "kind": 1}],
           "outputs": [{"as_tensor": {"name": "linear"}}],
           "metadata": {"stack_trace": "File \"site-packages/torch/nn/modules/module.py\", line 9, in call\nFile \"/home/me/model.py\", line 41, in forward\n    return self.fc(x)"}},
          {"target": "torch.ops.aten.relu.default", "name": "relu",
           "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "linear"}}, "kind": 1}],
           "outputs": [{"as_tensor": {"name": "relu"}}], "metadata": {}}],
        "tensor_values": {
          "p_fc_weight": {"dtype": 7, "sizes": [{"as_int": 3}, {"as_int": 4}], "strides": [{"as_int": 4}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "requires_grad": false, "device": {"type": "cpu", "index": null}, "layout": 7},
          "p_fc_bias": {"dtype": 7, "sizes": [{"as_int": 3}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7},
          "x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)", "hint": {"as_int": 7}}}, {"as_int": 4}], "strides": [{"as_int": 4}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7},
          "linear": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0"}}, {"as_int": 3}], "strides": [{"as_int": 3}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7},
          "relu": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0"}}, {"as_int": 3}], "strides": [{"as_int": 3}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}},
        "sym_int_values": {}, "sym_bool_values": {}, "is_single_tensor_return": false},
      "signature": {
        "input_specs": [{"parameter": {"arg": {"name": "p_fc_weight"}, "parameter_name": "fc.weight"}},
                        {"parameter": {"arg": {"name": "p_fc_bias"}, "parameter_name": "fc.bias"}},
                        {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
        "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "relu"}}}}]},
      "module_call_graph": []},
    "opset_version": {"aten": 10}, "range_constraints": {"s0": {"min_val": 1, "max_val": 64}},
    "schema_version": {"major": 8, "minor": 20}, "torch_version": "2.13.0", "guards_code": []})json");
}

inline uint32_t crc32_of(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (unsigned char c : bytes) {
    crc ^= c;
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1)));
  }
  return ~crc;
}

class ZipBuilder {
 public:
  bool zip64 = false;     // sizes, offsets and the end record in their wide form
  uint16_t method = 0;    // 8: deflate in stored blocks, so that no compressor is needed
  uint16_t flags = 2056;  // as PyTorch writes: names are UTF-8, sizes only in the directory

  void add(const std::string& name, const std::string& content) {
    const std::string data = method == 8 ? deflate_stored(content) : content;
    add_entry({name, crc32_of(content), data.size(), content.size(), body_.size(), method}, data);
  }
  // Of deflated data as it lies in the file.
  void add_deflated(const std::string& name, const std::string& data, uint64_t size, uint32_t crc) {
    add_entry({name, crc, data.size(), size, body_.size(), 8}, data);
  }
  // The entry before, under another name.
  void add_alias(const std::string& name) {
    Entry same = entries_.back();
    same.name = name;
    entries_.push_back(same);
  }

  std::string finish() const {
    std::string directory;
    for (const Entry& e : entries_) {
      std::string extra = zip64 ? u16(1) + u16(24) + u64(e.size) + u64(e.compressed) + u64(e.offset) : "";
      auto narrow = [&](uint64_t v) { return u32(zip64 ? UINT32_MAX : static_cast<uint32_t>(v)); };
      directory += u32(0x02014b50) + u16(45) + u16(45) + u16(flags) + u16(e.method) + u32(0) + u32(e.crc) +
                   narrow(e.compressed) + narrow(e.size) + u16(e.name.size()) + u16(extra.size()) + u16(0) + u16(0) +
                   u16(0) + u32(0) + narrow(e.offset) + e.name + extra;
    }
    std::string tail;
    if (zip64) {
      tail = u32(0x06064b50) + u64(44) + u16(45) + u16(45) + u32(0) + u32(0) + u64(entries_.size()) +
             u64(entries_.size()) + u64(directory.size()) + u64(body_.size()) + u32(0x07064b50) + u32(0) +
             u64(body_.size() + directory.size()) + u32(1);
    }
    uint16_t count = zip64 ? 0xFFFF : static_cast<uint16_t>(entries_.size());
    return body_ + directory + tail + u32(0x06054b50) + u16(0) + u16(0) + u16(count) + u16(count) +
           u32(zip64 ? UINT32_MAX : directory.size()) + u32(zip64 ? UINT32_MAX : body_.size()) + u16(0);
  }

 private:
  struct Entry {
    std::string name;
    uint32_t crc;
    uint64_t compressed, size, offset;
    uint16_t method;
  };
  void add_entry(const Entry& e, const std::string& data) {
    entries_.push_back(e);
    body_ += u32(0x04034b50) + u16(45) + u16(flags) + u16(e.method) + u32(0) + u32(0) + u32(0) + u32(0) +
             u16(e.name.size()) + u16(3) + e.name + "pad" + data;
  }
  template <class T>
  static std::string raw(T v) {
    std::string s(sizeof v, '\0');
    std::memcpy(s.data(), &v, sizeof v);
    return s;
  }
  static std::string u16(uint64_t v) { return raw(static_cast<uint16_t>(v)); }
  static std::string u32(uint64_t v) { return raw(static_cast<uint32_t>(v)); }
  static std::string u64(uint64_t v) { return raw(v); }
  static std::string deflate_stored(std::string_view content) {
    std::string out;
    do {
      size_t n = std::min<size_t>(content.size(), 65535);
      out += std::string(1, n == content.size() ? '\1' : '\0') + u16(n) + u16(~n) + std::string(content.substr(0, n));
      content.remove_prefix(n);
    } while (!content.empty());
    return out;
  }

  std::string body_;
  std::vector<Entry> entries_;
};

inline std::string floats(std::vector<float> values) {
  std::string s(values.size() * 4, '\0');
  std::memcpy(s.data(), values.data(), s.size());
  return s;
}

// The parts of a .pt2 for small_export(), to be changed before pack(). fc.weight and fc.bias share nothing.
struct SmallPt2 {
  ZipBuilder zip;
  std::string root = "graph/", format = "pt2", byte_order = "little";
  Json model = small_export();
  Json weights = Json::parse(R"({"config": {
    "fc.weight": {"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": {"dtype": 7, "sizes": [{"as_int": 3}, {"as_int": 4}], "strides": [{"as_int": 4}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}},
    "fc.bias": {"path_name": "weight_1", "is_param": true, "use_pickle": false, "tensor_meta": {"dtype": 7, "sizes": [{"as_int": 3}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}}}})");
  std::string weight_0 = floats({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), weight_1 = floats({-1, 0, 1});

  std::string pack() { return pack_with_config(weights.dump()); }
  std::string pack_with_config(const std::string& config) {
    zip.add(root + "data/weights/weight_0", weight_0);
    zip.add(root + "data/weights/weight_1", weight_1);
    zip.add(root + "data/weights/model_weights_config.json", config);
    zip.add(root + "data/constants/model_constants_config.json", R"({"config": {}})");
    zip.add(root + "models/model.json", model.dump());
    if (!format.empty()) zip.add(root + "archive_format", format);
    if (!byte_order.empty()) zip.add(root + "byteorder", byte_order);
    return zip.finish();
  }
};

}  // namespace qcg::test

// What the reader tests share: reading bytes as a file, the error that damage gives, temporary folders.
//
// Why here: hostile inputs are variations of one good input (small_export.h), so every test starts from the same.
//
//   Json j = small_export();
//   j["graph_module"]["graph"]["nodes"][1]["target"] = "torch.ops.aten.conv2d.default";
//   CHECK(error_of(j).code == ErrorCode::Unsupported);
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/ir/graph.h"
#include "graph/read/read_graph.h"
#include "tests/graph_read/small_export.h"

namespace qcg::test {

// A folder that vanishes with the test.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "qcg_read_XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

inline Result<Graph> read_bytes(const std::string& bytes, const ReadOptions& options = {}, ReadInfo* info = nullptr) {
  TempFolder folder;
  return read_graph(folder.write("graph", bytes), options, info);
}

// The error a damaged input gives; a read that succeeds fails the test.
inline Error error_of(const std::string& bytes, const ReadOptions& options = {}) {
  auto graph = read_bytes(bytes, options);
  REQUIRE_MESSAGE(!graph.ok(), "the damaged input was read");
  INFO(graph.error().to_string());
  CHECK_FALSE(graph.error().help.empty());
  CHECK_FALSE(graph.error().message.empty());
  return graph.error();
}
inline Error error_of(const Json& json) { return error_of(json.dump()); }

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

inline ValueId value_named(const Graph& graph, std::string_view name) {
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (graph.value(id).name == name) return id;
  return kNoValue;
}

inline std::vector<double> elements(const Tensor& tensor) {
  Tensor dense = tensor.contiguous();
  std::vector<double> values;
  auto bytes = dense.bytes();
  for (size_t i = 0; i < bytes.size(); i += dtype_bytes(dense.dtype))
    values.push_back(element_to_double(dense.dtype, bytes.data() + i));
  return values;
}

// Parts of an exported graph.
inline Json& graph_of(Json& j) { return j["graph_module"]["graph"]; }
inline Json& node_of(Json& j, size_t i) { return graph_of(j)["nodes"][i]; }
inline Json& meta_of(Json& j, const char* name) { return graph_of(j)["tensor_values"][name]; }
inline Json tensor(const char* name) { return {{"as_tensor", {{"name", name}}}}; }
inline Json argument(const char* name, Json arg) { return {{"name", name}, {"arg", std::move(arg)}, {"kind", 1}}; }

// ---- complex numbers, of which element type 10 has f32 parts

inline Json complex_meta(std::initializer_list<int> sizes) {
  Json list = Json::array();
  for (int size : sizes) list.push_back({{"as_int", size}});
  return {{"dtype", 10}, {"sizes", list}, {"strides", list}, {"storage_offset", {{"as_int", 0}}}, {"layout", 7}};
}
inline Json real_meta(std::initializer_list<int> sizes) {
  Json meta = complex_meta(sizes);
  meta["dtype"] = 7;
  return meta;
}
inline Json node_named(const char* name, const char* op, std::initializer_list<Json> inputs) {
  return {{"target", std::string("torch.ops.aten.") + op},
          {"name", name},
          {"inputs", Json(std::vector<Json>(inputs))},
          {"outputs", {tensor(name)}},
          {"metadata", Json::object()}};
}

}  // namespace qcg::test

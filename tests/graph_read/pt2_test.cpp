#include "graph/read/pt2.h"

#include <functional>

#include "graph/read/files/zip_archive.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

void expect_weights(const Graph& graph) {
  CHECK(elements(graph.value(value_named(graph, "fc.weight")).data) ==
        std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(elements(graph.value(value_named(graph, "fc.bias")).data) == std::vector<double>{-1, 0, 1});
}

Json& payload(SmallPt2& p, const char* fqn) { return p.weights["config"][fqn]; }

}  // namespace

TEST_CASE("pt2: stored, deflated and zip64 archives hold the same graph") {
  for (bool zip64 : {false, true}) {
    for (uint16_t method : {0, 8}) {
      INFO("zip64 " << zip64 << ", method " << method);
      SmallPt2 p;
      p.zip.zip64 = zip64;
      p.zip.method = method;
      ReadInfo info;
      auto graph = read_bytes(p.pack(), {}, &info);
      REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
      CHECK(info.format == "pt2");
      expect_weights(*graph);
    }
  }
}

TEST_CASE("pt2: stored weights are views into the file, not copies") {
  SmallPt2 p;
  std::string bytes = p.pack();
  auto exported = read_pt2(bytes, nullptr, "test.pt2");
  REQUIRE(exported.ok());
  const std::byte* data = exported->graph.value(exported->weights.at("fc.weight")).data.storage->bytes.data();
  CHECK(reinterpret_cast<const char*>(data) >= bytes.data());
  CHECK(reinterpret_cast<const char*>(data) < bytes.data() + bytes.size());
}

TEST_CASE("pt2: payloads are whole storages, rebuilt from sizes, strides and offset, and shared") {
  SmallPt2 p;
  // The weight is a transposed view of a [4, 3] storage, the bias its second row.
  payload(p, "fc.weight")["tensor_meta"]["strides"] = {{{"as_int", 1}}, {{"as_int", 3}}};
  payload(p, "fc.bias")["path_name"] = "weight_0";
  payload(p, "fc.bias")["tensor_meta"]["storage_offset"]["as_int"] = 3;
  auto graph = read_bytes(p.pack());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const Tensor& weight = graph->value(value_named(*graph, "fc.weight")).data;
  const Tensor& bias = graph->value(value_named(*graph, "fc.bias")).data;
  CHECK(elements(weight) == std::vector<double>{1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12});
  CHECK(elements(bias) == std::vector<double>{4, 5, 6});
  CHECK(weight.storage == bias.storage);
}

namespace {

constexpr const char* kSharedState = "are views of the same memory, and the graph writes to one";

// The bias is a buffer, and the last node adds 1 to it.
void write_bias(Json& model) {
  model["graph_module"]["signature"]["input_specs"][1] =
      Json::parse(R"({"buffer": {"arg": {"name": "p_fc_bias"}, "buffer_name": "fc.bias", "persistent": true}})");
  Json write = node_of(model, 0);
  write["target"] = "torch.ops.aten.add_.Tensor";
  write["inputs"] = {argument("self", tensor("p_fc_bias")), argument("other", {{"as_int", 1}})};
  write["outputs"] = Json::array({tensor("add_")});
  meta_of(model, "add_") = meta_of(model, "p_fc_bias");
  graph_of(model)["nodes"].push_back(write);
}

// relu's result plus fc.other, a parameter of the bias' shape.
void add_other(Json& model) {
  Json& specs = model["graph_module"]["signature"]["input_specs"];
  specs.insert(specs.begin(),
               Json::parse(R"({"parameter": {"arg": {"name": "p_fc_other"}, "parameter_name": "fc.other"}})"));
  Json& inputs = graph_of(model)["inputs"];
  inputs.insert(inputs.begin(), tensor("p_fc_other"));
  meta_of(model, "p_fc_other") = meta_of(model, "p_fc_bias");
  Json add = node_of(model, 1);
  add["name"] = "add";
  add["target"] = "torch.ops.aten.add.Tensor";
  add["inputs"] = {argument("self", tensor("relu")), argument("other", tensor("p_fc_other"))};
  add["outputs"] = Json::array({tensor("add")});
  meta_of(model, "add") = meta_of(model, "relu");
  graph_of(model)["nodes"].push_back(add);
  graph_of(model)["outputs"] = Json::array({tensor("add")});
  model["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"] = tensor("add");
}

}  // namespace

TEST_CASE("pt2: a buffer that is written is no view of what another tensor reads") {
  SmallPt2 p;
  write_bias(p.model);
  auto graph = read_bytes(p.pack());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->states.size() == 1);

  p.zip = {};
  payload(p, "fc.bias")["path_name"] = "weight_0";
  payload(p, "fc.bias")["tensor_meta"]["storage_offset"]["as_int"] = 3;
  graph = read_bytes(p.pack());
  REQUIRE(!graph.ok());
  CHECK_MESSAGE(contains(graph.error().message, kSharedState), graph.error().message);
}

TEST_CASE("pt2: a buffer that is written is not another tensor under a second name; what nobody writes may be") {
  for (const bool written : {false, true})
    for (const bool empty : {false, true}) {
      INFO("written: " << written << ", empty: " << empty);
      SmallPt2 p;
      if (written) write_bias(p.model);
      add_other(p.model);
      p.weights["config"]["fc.other"] = p.weights["config"]["fc.bias"];
      if (empty) p.weight_1.clear();
      const auto graph = read_bytes(p.pack());
      CHECK(graph.ok() == !written);
      if (!graph.ok()) CHECK_MESSAGE(contains(graph.error().to_string(), kSharedState), graph.error().to_string());
    }
}

TEST_CASE("pt2: an empty record stands for zeros") {
  SmallPt2 p;
  p.weight_0.clear();
  auto graph = read_bytes(p.pack());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(elements(graph->value(value_named(*graph, "fc.weight")).data) == std::vector<double>(12, 0.0));
}

TEST_CASE("pt2: what the graph does not use is not read") {
  SmallPt2 p;
  p.weights["config"]["unused"] = {{"path_name", "nowhere"}, {"use_pickle", true}};
  CHECK(read_bytes(p.pack()).ok());
}

TEST_CASE("pt2: hostile archives are refused by place and reason") {
  struct Row {
    const char* what;
    std::function<void(SmallPt2&)> damage;
    ErrorCode code;
    const char* text;  // part of where or message
  };
  const Row rows[] = {
      {"pickled weight", [](SmallPt2& p) { payload(p, "fc.weight")["use_pickle"] = true; }, ErrorCode::Unsupported,
       "pickled tensor subclass"},
      {"no weight entry", [](SmallPt2& p) { payload(p, "fc.weight")["path_name"] = "weight_9"; }, ErrorCode::BadInput,
       "no entry 'graph/data/weights/weight_9'"},
      {"path out of the archive", [](SmallPt2& p) { payload(p, "fc.weight")["path_name"] = "../../../etc/passwd"; },
       ErrorCode::BadInput, "no entry"},
      {"weight not described", [](SmallPt2& p) { p.weights["config"].erase("fc.weight"); }, ErrorCode::BadInput,
       "lacks weights of the graph 'graph': 'fc.weight'"},
      {"short payload", [](SmallPt2& p) { p.weight_0.resize(47); }, ErrorCode::BadInput,
       "needs 48 bytes, the payload has 47"},
      {"offset out of bounds",
       [](SmallPt2& p) { payload(p, "fc.weight")["tensor_meta"]["storage_offset"]["as_int"] = 1; }, ErrorCode::BadInput,
       "needs 52 bytes"},
      {"stride out of bounds",
       [](SmallPt2& p) { payload(p, "fc.weight")["tensor_meta"]["strides"][0]["as_int"] = 1000000; },
       ErrorCode::BadInput, "$.config['fc.weight'].tensor_meta"},
      {"huge stride", [](SmallPt2& p) { payload(p, "fc.weight")["tensor_meta"]["strides"][0]["as_int"] = INT64_MAX; },
       ErrorCode::BadInput, "too large"},
      {"negative stride", [](SmallPt2& p) { payload(p, "fc.weight")["tensor_meta"]["strides"][0]["as_int"] = -4; },
       ErrorCode::BadInput, "negative"},
      {"negative offset", [](SmallPt2& p) { payload(p, "fc.weight")["tensor_meta"]["storage_offset"]["as_int"] = -1; },
       ErrorCode::BadInput, "negative"},
      {"other shape", [](SmallPt2& p) { payload(p, "fc.weight")["tensor_meta"]["sizes"][0]["as_int"] = 2; },
       ErrorCode::BadInput, "payload is f32[2, 4], the graph declares f32[3, 4]"},
      {"other dtype", [](SmallPt2& p) { payload(p, "fc.weight")["tensor_meta"]["dtype"] = 4; }, ErrorCode::BadInput,
       "payload is i32[3, 4]"},
      {"no tensor_meta", [](SmallPt2& p) { payload(p, "fc.weight").erase("tensor_meta"); }, ErrorCode::BadInput,
       "model_weights_config.json: $.config['fc.weight']"},
      {"config is a list", [](SmallPt2& p) { p.weights = Json::array(); }, ErrorCode::BadInput,
       "data/weights/model_weights_config.json"},
      {"zeros beyond reason",
       [](SmallPt2& p) {
         p.weight_0.clear();
         for (Json* meta : {&payload(p, "fc.weight")["tensor_meta"],
                            &p.model["graph_module"]["graph"]["tensor_values"]["p_fc_weight"]}) {
           (*meta)["sizes"][0]["as_int"] = int64_t{1} << 40;
         }
         p.model["graph_module"]["graph"]["tensor_values"]["p_fc_bias"]["sizes"][0]["as_int"] = int64_t{1} << 40;
         p.model["graph_module"]["graph"]["tensor_values"]["linear"]["sizes"][1]["as_int"] = int64_t{1} << 40;
         p.model["graph_module"]["graph"]["tensor_values"]["relu"]["sizes"][1]["as_int"] = int64_t{1} << 40;
       },
       ErrorCode::BadInput, "an empty payload stands for"},
      {"no marker", [](SmallPt2& p) { p.format.clear(); }, ErrorCode::BadInput, "not a .pt2 archive"},
      {"other marker", [](SmallPt2& p) { p.format = "pt3"; }, ErrorCode::BadInput, "'pt3', not pt2"},
      {"big endian", [](SmallPt2& p) { p.byte_order = "big"; }, ErrorCode::Unsupported, "byte order is 'big'"},
      {"no byte order", [](SmallPt2& p) { p.byte_order.clear(); }, ErrorCode::BadInput, "byte order"},
      {"two models",
       [](SmallPt2& p) {
         p.zip.add("graph/models/a.json", "{}");
         p.zip.add("graph/models/model.json", p.model.dump());
       },
       ErrorCode::BadInput, "twice"},
      {"torch 2.8", [](SmallPt2& p) { p.zip.add("graph/data/weights/model.pt", "x"); }, ErrorCode::BadInput,
       "torch 2.7 or 2.8"},
      {"damaged model", [](SmallPt2& p) { p.model["graph_module"]["graph"]["nodes"][0]["target"] = 1; },
       ErrorCode::BadInput, "nodes[0].target"},
      {"encrypted", [](SmallPt2& p) { p.zip.flags |= 1; }, ErrorCode::BadInput, "encrypted"},
      {"strange compression", [](SmallPt2& p) { p.zip.method = 12; }, ErrorCode::Unsupported, "compression method 12"},
  };
  for (const Row& row : rows) {
    INFO(std::string(row.what));
    SmallPt2 p;
    row.damage(p);
    Error e = error_of(p.pack());
    CHECK(std::string(error_code_name(e.code)) == error_code_name(row.code));
    CHECK(contains(e.where + " " + e.message, row.text));
  }
}

TEST_CASE("pt2: the remedy for pickled weights names unwrap_tensor_subclass, for old archives export again") {
  SmallPt2 p;
  payload(p, "fc.bias")["use_pickle"] = true;
  CHECK(contains(error_of(p.pack()).help, "unwrap_tensor_subclass"));
  SmallPt2 old;
  old.zip.add("graph/data/weights/model.pt", "x");
  const Error refused = error_of(old.pack());
  CHECK(contains(refused.help, "torch.export.save"));
  CHECK(contains(refused.help, "--weights"));
}

TEST_CASE("pt2: an old archive is read where other files give its weights") {
  SmallPt2 p;
  p.zip.add("graph/data/weights/model.pt", "a pickle");
  const std::string old = p.pack();
  CHECK_FALSE(read_pt2(old, nullptr, "old").ok());
  const auto graph = read_pt2(old, nullptr, "old", MissingWeights::allow);
  CHECK_MESSAGE(graph.ok(), graph.error().to_string());

  ZipBuilder older;  // torch 2.6
  older.add("serialized_exported_program.json", small_export().dump());
  older.add("serialized_state_dict.pt", "a pickle");
  const std::string bytes = older.finish();
  const auto refused = read_pt2(bytes, nullptr, "older");
  REQUIRE_FALSE(refused.ok());
  CHECK(contains(refused.error().message, "torch 2.6 or older"));
  const auto exported = read_pt2(bytes, nullptr, "older", MissingWeights::allow);
  REQUIRE_MESSAGE(exported.ok(), exported.error().to_string());
  CHECK(exported->weights.size() == 2);
}

TEST_CASE("pt2: every truncation and every flipped byte of the directory is refused or harmless") {
  SmallPt2 p;
  std::string good = p.pack();
  for (size_t n = 4; n < good.size(); n += 13) CHECK_FALSE(read_pt2(good.substr(0, n), nullptr, "cut").ok());
  size_t directory = good.find("PK\1\2");
  REQUIRE(directory != std::string::npos);
  for (size_t i = directory; i < good.size(); ++i) {
    for (unsigned char flip : {0x01, 0x80, 0xFF}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      auto exported = read_pt2(bad, nullptr, "flipped");  // must not crash; weights stay in bounds
      if (!exported.ok()) continue;
      for (const Value& value : exported->graph.values) {
        if (value.kind == ValueKind::parameter && value.data.bound()) CHECK(value.data.in_bounds());
      }
    }
  }
}

TEST_CASE("pt2: damaged JSON in the archive is caught by its CRC") {
  SmallPt2 p;
  std::string bytes = p.pack();
  size_t at = bytes.find("torch.ops.aten.relu");
  bytes[at + 18] = 'x';
  auto exported = read_pt2(bytes, nullptr, "flipped");
  REQUIRE_FALSE(exported.ok());
  CHECK(contains(exported.error().message, "CRC"));
}

TEST_CASE("pt2: a zip that unpacks to more than reason is refused by its declared size") {
  SmallPt2 p;
  p.zip.method = 8;
  std::string bytes = p.pack();
  // The directory entry of weight_0 comes first: 24 bytes in is its unpacked size.
  size_t directory = bytes.find("PK\1\2");
  uint32_t huge = 3u << 30;
  std::memcpy(bytes.data() + directory + 24, &huge, 4);
  auto exported = read_pt2(bytes, nullptr, "bomb");
  REQUIRE_FALSE(exported.ok());
  CHECK(contains(exported.error().message, "times the size of the file"));
}

TEST_CASE("an export in memory is the graph of its file, with the tensors of the caller") {
  SmallPt2 p;
  const std::string bytes = p.pack(), json = p.model.dump();
  auto from_file = read_pt2(bytes, nullptr, "test.pt2");
  REQUIRE(from_file.ok());
  std::map<std::string, Tensor> weights;
  for (const auto& [name, id] : from_file->weights) weights[name] = from_file->graph.value(id).data;
  weights["another"] = Tensor::zeros(DType::f32, {2});  // nobody reads it
  ReadInfo info;
  auto graph = read_export(json, weights, Int4Packing::automatic, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(info.format == "torch.export");
  CHECK(info.weight_bytes == 15 * 4);
  expect_weights(*graph);
  CHECK(graph->value(value_named(*graph, "fc.bias")).data.storage == weights["fc.bias"].storage);

  weights["fc.bias"] = Tensor::zeros(DType::f32, {4});
  auto wrong = read_export(json, weights, Int4Packing::automatic);
  REQUIRE(!wrong.ok());
  CHECK(wrong.error().where == "fc.bias");
  CHECK(wrong.error().message == "the tensor is f32[4], the graph declares f32[3]");
  weights.erase("fc.bias");
  auto missing = read_export(json, weights, Int4Packing::automatic);
  REQUIRE(!missing.ok());
  CHECK(missing.error().where == "fc.bias");
}

TEST_CASE("an export in memory: a buffer that is written has memory of its own") {
  for (const bool written : {false, true}) {
    INFO("written: " << written);
    Json model = small_export();
    if (written) write_bias(model);
    add_other(model);
    Tensor rows = Tensor::zeros(DType::f32, {5, 4}), bias = Tensor::zeros(DType::f32, {3});
    std::map<std::string, Tensor> weights = {
        {"fc.weight", rows.slice(0, 0, 3)}, {"fc.bias", bias}, {"fc.other", Tensor::zeros(DType::f32, {3})}};
    CHECK(read_export(model.dump(), weights, Int4Packing::automatic).ok());
    weights["fc.bias"] = rows.select(0, 3).slice(0, 0, 3);  // behind fc.weight
    CHECK(read_export(model.dump(), weights, Int4Packing::automatic).ok());
    weights["fc.bias"] = rows.select(0, 2).slice(0, 0, 3);  // within it
    const auto part = read_export(model.dump(), weights, Int4Packing::automatic);
    weights["fc.bias"] = weights["fc.other"];
    const auto whole = read_export(model.dump(), weights, Int4Packing::automatic);
    for (const auto* shared : {&part, &whole}) {
      CHECK(shared->ok() == !written);
      if (!shared->ok()) CHECK_MESSAGE(contains(shared->error().message, kSharedState), shared->error().message);
    }
  }
}

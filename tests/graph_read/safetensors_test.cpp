#include "graph/read/safetensors.h"

#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::string file_of(const std::string& header, const std::string& data) {
  uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

Result<Safetensors> parse(const std::string& header, size_t data_bytes) {
  static std::string kept;
  kept = file_of(header, std::string(data_bytes, '\1'));
  return parse_safetensors(kept, nullptr, "test.safetensors");
}

}  // namespace

TEST_CASE("safetensors: what is written is read again, in order, and views are made dense") {
  TempFolder folder;
  std::vector<std::byte> raw(24);
  std::string values = floats({1, 2, 3, 4, 5, 6});
  std::memcpy(raw.data(), values.data(), 24);
  Tensor a = Tensor::from_bytes(DType::f32, {2, 3}, raw);
  Tensor b = Tensor::zeros(DType::i8, {0, 5}), c = Tensor::zeros(DType::i64, {});
  std::string path = folder.file("t.safetensors");
  Status written = write_safetensors(path, {{"a", a}, {"b", b}, {"a.t", a.transpose(0, 1)}, {"odd \"name\"\n", c}});
  REQUIRE_MESSAGE(written.ok(), written.error().to_string());
  auto read = read_safetensors(path);
  REQUIRE_MESSAGE(read.ok(), read.error().to_string());
  CHECK(read->tensors.size() == 4);
  CHECK(elements(read->tensors["a"]) == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(elements(read->tensors["a.t"]) == std::vector<double>{1, 4, 2, 5, 3, 6});
  CHECK(read->tensors["b"].shape == std::vector<int64_t>{0, 5});
  CHECK(read->tensors["odd \"name\"\n"].dtype == DType::i64);
  CHECK(read->files == std::vector<std::string>{path});
}

TEST_CASE("safetensors: writing reports what it cannot do") {
  TempFolder folder;
  Tensor t = Tensor::zeros(DType::f32, {1});
  CHECK_FALSE(write_safetensors(folder.file("no/such/folder"), {{"a", t}}).ok());
  CHECK_FALSE(write_safetensors(folder.file("x"), {{"a", t}, {"a", t}}).ok());
  Tensor unbound;
  unbound.shape = {1};
  unbound.strides = {1};
  CHECK_FALSE(write_safetensors(folder.file("x"), {{"a", unbound}}).ok());
  CHECK_FALSE(std::filesystem::exists(folder.file("x")));
}

TEST_CASE("safetensors: metadata, and tensors that start at odd bytes") {
  auto file = parse(R"({"__metadata__": {"format": "pt"}, "b": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
                        "f": {"dtype": "F32", "shape": [2], "data_offsets": [3, 11]}})",
                    11);
  REQUIRE_MESSAGE(file.ok(), file.error().to_string());
  CHECK(file->metadata["format"] == "pt");
  CHECK(file->tensors["f"].in_bounds());
  CHECK(elements(file->tensors["f"]).size() == 2);
}

TEST_CASE("safetensors: hostile headers are refused by place and reason") {
  struct Row {
    const char* what;
    const char* header;
    size_t data;
    const char* text;
  };
  const Row rows[] = {
      {"overlap",
       R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]}})",
       6, "'b' overlaps"},
      {"gap",
       R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "b": {"dtype": "U8", "shape": [1], "data_offsets": [5, 6]}})",
       6, "'b' leaves a gap"},
      {"file longer", R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})", 5,
       "end at byte 4, the file's data at 5"},
      {"file shorter", R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})", 3, "$.a.data_offsets"},
      {"size", R"({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 4]}})", 4,
       "needs 16 bytes, its offsets span 4"},
      {"overflow",
       R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4611686018427387904], "data_offsets": [0, 4]}})", 4,
       "overflows"},
      {"overflow behind zero",
       R"({"a": {"dtype": "F32", "shape": [0, 4611686018427387904, 4611686018427387904], "data_offsets": [0, 0]}})", 0,
       "overflows"},
      {"duplicate",
       R"({"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}, "a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}})",
       0, "'a' occurs twice"},
      {"negative", R"({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}})", 1, "$.a.shape[0]"},
      {"reversed", R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}})", 1, "0 <= begin <= end"},
      {"one offset", R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1]}})", 1, "0 <= begin <= end"},
      {"offset list", R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": {"b": 0, "e": 1}}})", 1,
       "expected a list"},
      {"dtype", R"({"a": {"dtype": "F4", "shape": [1], "data_offsets": [0, 1]}})", 1, "unknown element type 'F4'"},
      {"no dtype", R"({"a": {"shape": [1], "data_offsets": [0, 1]}})", 1, "'dtype' is missing"},
      {"not UTF-8", "{\"\xff\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0, 1]}}", 1, "not UTF-8"},
      {"deep", R"({"a": [[[[[[[[[[[[]]]]]]]]]]]]})", 0, "nested deeper"},
      {"metadata", R"({"__metadata__": {"a": 1}})", 0, "$.__metadata__.a"},
      {"a list", "[]", 0, "expected an object"},
      {"no name", R"({"": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}})", 0, "no name"},
      {"cut header", R"({"a": )", 0, "too early"},
  };
  for (const Row& row : rows) {
    INFO(std::string(row.what));
    auto file = parse(row.header, row.data);
    REQUIRE_FALSE(file.ok());
    INFO(file.error().to_string());
    CHECK(contains(file.error().to_string(), row.text));
    CHECK_FALSE(file.error().help.empty());
  }
}

TEST_CASE("safetensors: header lengths that lie") {
  for (uint64_t length : {uint64_t{0}, uint64_t{3}, uint64_t{1} << 27, UINT64_MAX, UINT64_MAX - 7}) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    INFO(length);
    CHECK_FALSE(parse_safetensors(bytes, nullptr, "x").ok());
    CHECK_FALSE(parse_safetensors(bytes + "{", nullptr, "x").ok());
  }
  CHECK_FALSE(parse_safetensors("", nullptr, "x").ok());
  CHECK_FALSE(parse_safetensors("1234567", nullptr, "x").ok());
}

TEST_CASE("safetensors: sharded checkpoints, and folders") {
  TempFolder folder;
  REQUIRE(write_safetensors(folder.file("m-1.safetensors"), {{"a", Tensor::zeros(DType::f32, {2})}}).ok());
  REQUIRE(write_safetensors(folder.file("m-2.safetensors"),
                            {{"b", Tensor::zeros(DType::i8, {3})}, {"extra", Tensor::zeros(DType::i8, {1})}})
              .ok());
  std::string index =
      folder.write("model.safetensors.index.json",
                   R"({"metadata": {}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})");
  for (const std::string& path : {index, folder.file("")}) {
    auto all = read_safetensors(path);
    REQUIRE_MESSAGE(all.ok(), all.error().to_string());
    CHECK(all->tensors.size() == 2);
    CHECK(all->files.size() == 3);
  }
  auto error = [&](const char* text) {
    return read_safetensors(folder.write("model.safetensors.index.json", text)).error().to_string();
  };
  CHECK(contains(error(R"({"weight_map": {"a": "m-2.safetensors"}})"), "holds 'a', but it does not"));
  CHECK(contains(error(R"({"weight_map": {"a": "../m-1.safetensors"}})"), "not a plain file name"));
  CHECK(contains(error(R"({"weight_map": {"a": "/etc/passwd"}})"), "not a plain file name"));
  CHECK(contains(error(R"({"weight_map": {"a": "missing.safetensors"}})"), "cannot open"));
  CHECK(contains(error(R"({"weight_map": ["a"]})"), "expected an object"));
  CHECK(contains(error(R"({})"), "'weight_map' is missing"));
}

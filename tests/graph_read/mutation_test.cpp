// Random damage to good inputs, with a seed: no reader crashes, and what still reads is a verified graph. The libFuzzer
// targets under tests/fuzz go further; this runs with every build, and with sanitizers in the development preset.
#include <cstdlib>

#include "graph/ops/verify.h"
#include "graph/read/native.h"
#include "graph/read/pt2.h"
#include "graph/read/safetensors.h"
#include "graph/read/text.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

uint64_t seed() {
  const char* given = std::getenv("QCG_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 1;
}

class Mutator {
 public:
  explicit Mutator(uint64_t state) : state_(state) {}

  std::string damage(std::string text) {
    for (size_t n = next(4) + 1; n > 0; --n) damage_once(text);
    return text;
  }

  size_t next(size_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<size_t>(state_ >> 33) % n;
  }

 private:
  void damage_once(std::string& text) {
    // clang-format off
    static const std::string words[] = {"{", "}", "[", "]", ",", "\"", ":", "0", "-1", "9223372036854775807", "1e308", "null", "true", "\"x\"", "as_int", "as_expr",
                                        "Symbol('s0')", "as_tensor", "linear", "s0", "7", "99", "%x", "@w", "\\", std::string("\0", 1), "\xff"};
    // clang-format on
    if (text.empty()) return;
    size_t at = next(text.size()), length = next(std::min<size_t>(text.size() - at, 24)) + 1;
    switch (next(6)) {
      case 0: text[at] = static_cast<char>(next(256)); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, words[next(std::size(words))]); break;
      case 3: text.insert(next(text.size()), text.substr(at, length)); break;
      case 4: replace_number(text, at); break;
      default: text.resize(at + 1);
    }
  }

  // Numbers are where bounds are checked: exchange one for another.
  void replace_number(std::string& text, size_t at) {
    // clang-format off
    static const std::string numbers[] = {"0", "1", "2", "3", "4", "5", "13", "-1", "64", "4611686018427387904", "9223372036854775807", "0.5"};
    // clang-format on
    size_t begin = text.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    text.replace(begin, end - begin, numbers[next(std::size(numbers))]);
  }

  uint64_t state_;
};

void check_graph(const Graph& graph) {
  Status verified = verify_graph(graph);
  if (!verified.ok()) return;
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::parameter && value.data.bound() && value.data.numel() < 1'000'000)
      (void)elements(value.data);
  }
  std::string text = print_graph(graph);
  auto again = parse_graph(text);
  REQUIRE_MESSAGE(again.ok(), again.error().to_string());
  CHECK(print_graph(*again) == text);
}

template <class Read>
void run(const char* what, const std::string& good, int rounds, Read&& read) {
  Mutator mutator(seed());
  int still_read = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bad = mutator.damage(good);
    INFO(std::string(what) << ", seed " << seed() << ", round " << round);
    still_read += read(bad);
  }
  MESSAGE(std::string(what) << ": " << still_read << " of " << rounds << " damaged inputs were still read");
  CHECK(read(good));
  CHECK(still_read < rounds);
}

constexpr int kRounds = 500;  // of each kind: two seconds in all; other seeds by QCG_TEST_SEED

}  // namespace

TEST_CASE("damage: torch.export") {
  run("torch.export", small_export().dump(), kRounds, [](const std::string& text) {
    auto document = JsonDocument::parse(text, "");
    if (!document.ok()) return false;
    auto exported = read_torch_export(*document);
    if (exported.ok()) check_graph(exported->graph);
    return exported.ok();
  });
}

TEST_CASE("damage: pt2") {
  SmallPt2 p;
  run("pt2", p.pack(), kRounds, [](const std::string& bytes) {
    auto exported = read_pt2(bytes, nullptr, "damaged");
    if (exported.ok()) check_graph(exported->graph);
    return exported.ok();
  });
}

TEST_CASE("damage: the JSON inside a pt2") {
  Mutator mutator(seed());
  for (int round = 0; round < kRounds; ++round) {
    INFO("seed " << seed() << ", round " << round);
    SmallPt2 p;
    auto change = [&](Json& json) {
      Json changed = Json::parse(mutator.damage(json.dump()), nullptr, false);
      if (!changed.is_discarded()) json = changed;
    };
    change(round % 2 ? p.weights : p.model);
    try {
      std::string bytes = p.pack();
      auto exported = read_pt2(bytes, nullptr, "damaged");
      if (exported.ok()) check_graph(exported->graph);
    } catch (const Json::exception&) {  // the test's own dump() of text that is not UTF-8
    }
  }
}

TEST_CASE("damage: native") {
  std::string good =
      R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 64]}, "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", 4]}],
    "parameters": [{"name": "w", "dtype": "f32", "shape": [2, 4], "data": [1, 2, 3, 4, 5, 6, 7, 8]}],
    "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w"}, "outputs": ["l"]}, {"op": "reshape", "inputs": {"self": "l", "shape": ["2*m"]}, "outputs": ["y"]}],
    "outputs": ["y"]})";
  run("native", good, kRounds, [](const std::string& text) {
    auto document = JsonDocument::parse(text, "");
    if (!document.ok() || !document->root().is(JsonKind::object)) return false;
    auto graph = read_native_graph(*document);
    if (graph.ok()) check_graph(*graph);
    return graph.ok();
  });
}

TEST_CASE("damage: safetensors") {
  std::string header =
      R"({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "b": {"dtype": "I8", "shape": [4], "data_offsets": [24, 28]}})";
  uint64_t length = header.size();
  std::string good(8, '\0');
  std::memcpy(good.data(), &length, 8);
  good += header + std::string(28, '\2');
  run("safetensors", good, kRounds, [](const std::string& bytes) {
    auto file = parse_safetensors(bytes, nullptr, "damaged");
    if (!file.ok()) return false;
    for (const auto& [name, tensor] : file->tensors) {
      CHECK(tensor.in_bounds());
      (void)elements(tensor);
    }
    return true;
  });
}

TEST_CASE("damage: the text form") {
  auto graph = read_bytes(small_export().dump());
  REQUIRE(graph.ok());
  run("text", print_graph(*graph), kRounds, [](const std::string& text) {
    auto parsed = parse_graph(text);
    if (!parsed.ok()) return false;
    check_graph(*parsed);
    return true;
  });
}

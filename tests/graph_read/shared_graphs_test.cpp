// Reads what PyTorch and torchao really wrote. Skips, and says so, where the collection is not beside the checkout.
#include <set>

#include "graph/read/safetensors.h"
#include "graph/read/text.h"
#include "tests/graph_read/read_test_util.h"
#include "tests/paths.h"

using namespace qcg;
using namespace qcg::test;
namespace fs = std::filesystem;

namespace {

const fs::path kGraphs = fs::path(source_dir()) / ".." / "shared" / "graphs";

bool absent() {
  std::error_code ignored;
  if (fs::exists(kGraphs, ignored)) return false;
  MESSAGE("skipped: there is no " << kGraphs.string());
  return true;
}

// What has no lowering, and a part of the message that says so.
const std::map<std::string, std::string> kUnsupported = {
    {"llama_mlp_int8wo_subclass", "access_subclass_inner_tensor"},
};

}  // namespace

TEST_CASE("shared graphs: every one is read, or refused by a typed error that names what is missing") {
  if (absent()) return;
  size_t count = 0;
  for (const auto& folder : fs::directory_iterator(kGraphs)) {
    for (const char* name : {"graph.json", "graph.pt2"}) {
      fs::path path = folder.path() / name;
      if (!fs::exists(path)) continue;
      INFO(path.string());
      auto graph = read_graph(path.string());
      auto unsupported = kUnsupported.find(folder.path().filename().string());
      ++count;
      if (unsupported != kUnsupported.end()) {
        REQUIRE_FALSE(graph.ok());
        CHECK(graph.error().code == ErrorCode::Unsupported);
        CHECK(contains(graph.error().message, unsupported->second));
        continue;
      }
      REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
      for (const Value& value : graph->values) {
        if (value.kind == ValueKind::parameter) CHECK(value.data.bound() == path.string().ends_with(".pt2"));
      }
      auto again = parse_graph(print_graph(*graph));
      REQUIRE_MESSAGE(again.ok(), again.error().to_string());
      CHECK(print_graph(*again) == print_graph(*graph));
    }
  }
  CHECK(count >= 40);
}

TEST_CASE("shared graphs: tensor subclasses are refused with the remedy") {
  if (absent()) return;
  for (const char* name : {"graph.json", "graph.pt2"}) {
    auto graph = read_graph((kGraphs / "llama_mlp_int8wo_subclass" / name).string());
    REQUIRE_FALSE(graph.ok());
    CHECK(contains(graph.error().help, "unwrap_tensor_subclass"));
  }
}

TEST_CASE("shared graphs: inputs and expected outputs are named as the graph names them") {
  if (absent()) return;
  for (const auto& folder : fs::directory_iterator(kGraphs)) {
    auto graph = read_graph((folder.path() / "graph.pt2").string());
    if (!graph.ok()) continue;
    INFO(folder.path().string());
    for (const auto& file : fs::directory_iterator(folder.path())) {
      std::string name = file.path().filename().string();
      if (!name.ends_with(".safetensors")) continue;
      auto tensors = read_safetensors(file.path().string());
      REQUIRE_MESSAGE(tensors.ok(), tensors.error().to_string());
      std::set<std::string> wanted, found;
      if (contains(name, ".inputs.")) {
        for (ValueId id : graph->inputs) wanted.insert(graph->value(id).name);
      } else {
        wanted.insert(graph->output_names.begin(), graph->output_names.end());
      }
      for (const auto& [key, tensor] : tensors->tensors) found.insert(key);
      CHECK(wanted == found);
    }
  }
}

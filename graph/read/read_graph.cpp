#include "graph/read/read_graph.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "graph/ops/verify.h"
#include "graph/read/files/json.h"
#include "graph/read/files/mapped_file.h"
#include "graph/read/files/zip_archive.h"
#include "graph/read/int4_order.h"
#include "graph/read/native.h"
#include "graph/read/pt2.h"
#include "graph/read/shared_memory.h"
#include "graph/read/text.h"
#include "graph/read/torch/export.h"
#include "graph/read/torch/mutations.h"
#include "graph/read/weights.h"

namespace qcg {
namespace {

constexpr const char* kFormats =
    "give a .pt2 (torch.export.save), the JSON of torch.export, qcodegen's native JSON, or the IR text form";
constexpr size_t kMaxText = JsonLimits{}.text_bytes;

UnboundGraph from_export(TorchExport exported, std::string format) {
  UnboundGraph source;
  source.info.format = std::move(format);
  source.info.torch_version = std::move(exported.torch_version);
  source.info.node_count = exported.node_count;
  source.info.modules = std::move(exported.modules);
  source.info.notes = std::move(exported.notes);
  source.graph = std::move(exported.graph);
  source.weights = std::move(exported.weights);
  return source;
}

UnboundGraph from_graph(Graph graph, std::string format) {
  UnboundGraph source;
  source.info.format = std::move(format);
  source.info.node_count = graph.nodes.size();
  source.weights = weight_names(graph);
  source.graph = std::move(graph);
  return source;
}

Result<UnboundGraph> read_json(std::string_view text, const std::string& path) {
  // Paths in the graph start at $, as every other tool prints them; what is no JSON at all has only its file to go by.
  auto parsed = JsonDocument::parse(text, "");
  if (!parsed.ok()) parsed.error().where = path + ": " + parsed.error().where;
  QCG_TRY(document, std::move(parsed));
  JsonCursor root = document.root();
  if (root.find("graph_module")) {
    QCG_TRY(exported, read_torch_export(document));
    return from_export(std::move(exported), "torch.export");
  }
  if (is_native_graph(root)) {
    QCG_TRY(graph, read_native_graph(document));
    return from_graph(std::move(graph), "native");
  }
  if (root.find("weight_map"))
    return Error::bad_input(path, "this is a safetensors index, not a graph",
                            "name a graph, and pass this file with --weights");
  return Error::bad_input(path, "this JSON is not a graph: it has neither graph_module nor \"format\": \"qcodegen\"",
                          kFormats);
}

bool holds_weights(const std::filesystem::path& folder) {
  std::error_code failed;
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"})
    if (std::filesystem::exists(folder / name, failed)) return true;
  return false;
}

bool looks_like_text(std::string_view text) {
  for (std::string_view word : {"graph", "symbol", "param", "state"})
    if (text.starts_with(word)) return true;
  return false;
}

Error unknown_format(std::string_view bytes, const std::string& path) {
  if (bytes.empty()) return Error::bad_input(path, "the file is empty", kFormats);
  if (bytes.starts_with("GGUF"))
    return Error::unsupported(path, "this is a GGUF file: weights without a graph", kFormats);
  if (bytes.starts_with("\x80")) return Error::bad_input(path, "this is a pickle, which is never loaded", kFormats);
  if (bytes.size() > 8 && bytes[8] == '{')
    return Error::bad_input(path, "this looks like safetensors: weights without a graph",
                            "name a graph, and pass this file with --weights");
  return Error::bad_input(path, "the file's format is not known", kFormats);
}

Result<UnboundGraph> read_source(const std::shared_ptr<const MappedFile>& file, const ReadOptions& options) {
  std::string_view bytes = file->text();
  if (ZipArchive::is_zip(bytes)) {
    QCG_TRY(exported, read_pt2(bytes, file, file->path(),
                               options.weights.empty() ? MissingWeights::refuse : MissingWeights::allow));
    return from_export(std::move(exported), "pt2");
  }
  size_t start = std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size());
  if (bytes.substr(start, 1) == "{") return read_json(bytes, file->path());
  if (!looks_like_text(bytes.substr(start, 16))) return unknown_format(bytes, file->path());
  if (bytes.size() > kMaxText) return Error::bad_input(file->path(), "the text is too long", "at most 64 MiB are read");
  QCG_TRY(graph, parse_graph(bytes));
  return from_graph(std::move(graph), "text");
}

// What a program's signature cannot say: tensors of many axes, and two outputs of one name (the same tensor twice).
Status settle_signature(Graph& graph) {
  for (const auto* ids : {&graph.inputs, &graph.outputs})
    for (const ValueId id : *ids)
      if (graph.value(id).shape.size() > kMaxAxes)
        return Error::unsupported(
            graph.value(id).name, "an input or output of " + std::to_string(graph.value(id).shape.size()) + " axes",
            "at most " + std::to_string(kMaxAxes) + " are supported: reshape it outside of the graph");
  std::set<std::string> taken(graph.output_names.begin(), graph.output_names.end()), seen;
  std::map<std::string, size_t> suffixes;  // by name: none that is smaller is free
  for (std::string& name : graph.output_names) {
    if (seen.insert(name).second) continue;
    size_t& suffix = suffixes[name];
    std::string next;
    do next = name + "_" + std::to_string(++suffix);
    while (!taken.insert(next).second);
    seen.insert(next);
    name = std::move(next);
  }
  return {};
}

// What the reader of a .pt2 does with its payloads.
Status bind_tensors(UnboundGraph& source, const std::map<std::string, Tensor>& weights) {
  const std::vector<uint32_t> uses = source.graph.count_uses();
  std::vector<WeightPlace> places;
  for (const auto& [name, id] : source.weights) {
    Value& value = source.graph.value(id);
    const auto given = weights.find(name);
    if (given == weights.end())
      return Error::bad_input(name, "this weight of the graph was not given", "give every parameter and buffer");
    if (given->second.dtype != value.dtype || given->second.shape != value.data.shape)
      return Error::bad_input(
          name, "the tensor is " + describe(given->second) + ", the graph declares " + describe(value.data),
          "give the weights that belong to this graph");
    value.data = given->second;
    if (value.data.bound() && (uses[id] > 0 || value.kind == ValueKind::input)) places.push_back(place_of(value, name));
  }
  return refuse_shared_states(std::move(places));
}

uint64_t weight_bytes(const Graph& graph) {
  uint64_t total = 0;
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::parameter)
      total += static_cast<uint64_t>(value.data.numel()) * dtype_bytes(value.dtype);
  }
  return total;
}

}  // namespace

Status refuse_folder(const std::string& path) {
  if (std::error_code failed; !std::filesystem::is_directory(path, failed)) return {};
  if (!holds_weights(path)) return Error::bad_input(path, "this is a folder, not a regular file", kFormats);
  return Error::bad_input(
      path, "this is a checkpoint (a Hugging Face folder): weights without a graph",
      "export the graph once, then compile it with `--weights` and this folder:\n"
      "  python3 -c \"import sys, torch, transformers\n"
      "  model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], use_cache=False).eval()\n"
      "  ids = torch.zeros(1, 8, dtype=torch.long)\n"
      "  torch.export.save(torch.export.export(model, (ids,)).run_decompositions(), 'model.pt2')\" FOLDER\n"
      "  qcodegen compile model.pt2");
}

Status accept_graph(Graph& graph) {
  QCG_CHECK(verify_graph(graph));
  QCG_CHECK(check_in_place(graph));
  return settle_signature(graph);
}

Result<UnboundGraph> read_unbound_graph(const std::string& path, const ReadOptions& options) {
  QCG_CHECK(refuse_folder(path));
  QCG_TRY(file, MappedFile::open(path));
  QCG_TRY(source, read_source(file, options));
  source.info.files.push_back(path);
  QCG_CHECK(accept_graph(source.graph));
  return source;
}

Graph settle_graph(UnboundGraph source, const ReadOptions& options, ReadInfo* info) {
  // Random numbers were packed by nobody.
  const bool random = std::any_of(options.weights.begin(), options.weights.end(),
                                  [](const std::string& w) { return w.starts_with("random:"); });
  if (!random) settle_int4_order(source.graph, options.int4_packing, source.info);
  source.info.weight_bytes = weight_bytes(source.graph);
  if (info) *info = std::move(source.info);
  return std::move(source.graph);
}

Result<Graph> read_graph(const std::string& path, const ReadOptions& options, ReadInfo* info) {
  QCG_TRY(source, read_unbound_graph(path, options));
  if (!options.weights.empty())
    QCG_CHECK(bind_weights(source.graph, source.weights, options.weights, source.info.files));
  return settle_graph(std::move(source), options, info);
}

Result<Graph> read_export(std::string_view json, const std::map<std::string, Tensor>& weights, Int4Packing int4_packing,
                          ReadInfo* info) {
  QCG_TRY(document, JsonDocument::parse(json, ""));
  QCG_TRY(exported, read_torch_export(document));
  UnboundGraph source = from_export(std::move(exported), "torch.export");
  QCG_CHECK(accept_graph(source.graph));
  QCG_CHECK(bind_tensors(source, weights));
  return settle_graph(std::move(source), {.int4_packing = int4_packing}, info);
}

}  // namespace qcg

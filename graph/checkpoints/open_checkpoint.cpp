#include <algorithm>
#include <filesystem>

#include "graph/checkpoints/gguf.h"
#include "graph/checkpoints/kinds.h"
#include "graph/read/files/mapped_file.h"

namespace qcg {

namespace {

namespace fs = std::filesystem;

constexpr CheckpointKind kCheckpointKinds[] = {
    {"gptq", take_gptq},
    {"awq", take_awq},
    {"compressed-tensors", take_compressed_tensors},
    {"fp8", take_fp8},
    {"fbgemm_fp8", take_fbgemm_fp8},
    {"mxfp4", take_mxfp4},
    {"bitsandbytes", take_bitsandbytes},
};

// Where libraries say how a checkpoint is quantized. AutoGPTQ's own file is the object itself.
constexpr const char* kConfigNames[] = {"config.json", "quantize_config.json", "quant_config.json"};

fs::path folder_of(const std::string& path) {
  std::error_code failed;
  return fs::is_directory(path, failed) ? fs::path(path) : fs::path(path).parent_path();
}

std::vector<std::string> configs_of(const std::string& path) {
  std::vector<std::string> out;
  std::error_code failed;
  for (const char* name : kConfigNames)
    if (const fs::path file = folder_of(path) / name; fs::is_regular_file(file, failed)) out.push_back(file.string());
  return out;
}

bool is_gguf_file(const std::string& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) return false;
  const auto file = MappedFile::open(path);
  return file.ok() && is_gguf((*file)->text());
}

// The object that says how, in a parsed file; nullopt where the file says nothing of it.
std::optional<JsonCursor> quantization_of(const JsonCursor& root) {
  for (const char* key : {"quantization_config", "compression_config"})
    if (const auto found = root.find(key); found && found->is(JsonKind::object)) return found;
  if (root.find("bits") && root.find("group_size")) return root;
  return std::nullopt;
}

Result<std::string> method_of(const JsonCursor& config) {
  const auto method = config.find("quant_method");
  if (!method) return std::string(config.find("config_groups") ? "compressed-tensors" : "gptq");
  QCG_TRY(name, method->string());
  return std::string(name);
}

// Moves the tensors of quantized weights from raw to `out`. Unsupported: a kind without a row.
Status take_weights(RawCheckpoint& raw, Checkpoint& out) {
  QCG_TRY(method, method_of(raw.config));
  out.kind = method;
  std::string known;
  for (const CheckpointKind& kind : kCheckpointKinds) {
    known += (known.empty() ? "" : ", ") + std::string(kind.method);
    if (kind.method == method) return kind.take(raw, out);
  }
  return raw.config.unsupported("a checkpoint quantized with " + quote(method),
                                "the kinds that are read are " + known + " and GGUF");
}

// What is wrong matters only to a graph that asks for what could not be read.
void take_or_refuse(const JsonCursor& config, const std::string& path, Safetensors& file, Checkpoint& out) {
  RawCheckpoint raw{file, config, path};
  if (const Status taken = take_weights(raw, out); !taken.ok()) {
    out.refused = taken.error();
    out.weights.clear();
    return;
  }
  for (auto& [name, tensor] : file.tensors)
    if (!raw.file.tensors.contains(name)) out.parts.emplace(name, std::move(tensor));
  file = std::move(raw.file);
}

bool says_tied(const JsonCursor& root) {
  const auto tied = root.find("tie_word_embeddings");
  return tied && tied->is(JsonKind::boolean) && *tied->boolean();
}

}  // namespace

void tie_head(Checkpoint& out) {
  constexpr std::string_view kHead = "lm_head.weight", kTable = "model.embed_tokens.weight";
  if (out.tensors.contains(kHead) || out.weights.contains(kHead)) return;
  if (const auto plain = out.tensors.find(kTable); plain != out.tensors.end())
    out.tensors.emplace(kHead, Tensor(plain->second));
  if (const auto coded = out.weights.find(kTable); coded != out.weights.end())
    out.weights.emplace(kHead, WeightReader(coded->second));
}

Result<Checkpoint> open_checkpoint(const std::string& path) {
  if (is_gguf_file(path)) return open_gguf(path);
  Checkpoint out;
  QCG_TRY(file, read_safetensors(path));
  out.files = file.files;
  bool tied = false;
  for (const std::string& name : configs_of(path)) {
    QCG_TRY(mapped, MappedFile::open(name));
    QCG_TRY(document, JsonDocument::parse(mapped->text(), name));
    out.files.push_back(name);
    const JsonCursor root = document.root();
    const auto config = quantization_of(root);
    if (config && out.kind.empty()) take_or_refuse(*config, path, file, out);
    tied = tied || says_tied(root);
  }
  out.tensors = std::move(file.tensors);
  if (tied) tie_head(out);
  join_experts(out);
  return out;
}

Result<std::vector<std::string>> checkpoint_files(const std::string& path) {
  if (is_gguf_file(path)) return gguf_files(path);
  QCG_TRY(files, safetensors_files(path));
  for (std::string& config : configs_of(path)) files.push_back(std::move(config));
  return files;
}

}  // namespace qcg

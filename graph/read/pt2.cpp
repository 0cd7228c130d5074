#include "graph/read/pt2.h"

#include <algorithm>
#include <unordered_map>

#include "graph/read/files/mapped_file.h"
#include "graph/read/files/zip_archive.h"
#include "graph/read/shared_memory.h"
#include "graph/read/torch/meta.h"
#include "graph/read/weights.h"

namespace qcg {
namespace {

constexpr size_t kMaxJsonBytes = JsonLimits{}.text_bytes;
constexpr size_t kMaxZeros = size_t{16} << 30;
constexpr const char* kReexport = "export the model again with torch 2.9 or later: torch.export.save(program, path)";
constexpr const char* kWeightsBeside =
    "export the model again with torch 2.9 or later: torch.export.save(program, path); or save its weights beside it, "
    "safetensors.torch.save_file({**program.state_dict, **program.constants}, 'w.safetensors'), and give --weights";
constexpr std::string_view kOldModel = "serialized_exported_program.json";  // up to torch 2.6

class Pt2Reader {
 public:
  Pt2Reader(ZipArchive zip, std::string name) : zip_(std::move(zip)), name_(std::move(name)) {}

  Result<TorchExport> read(MissingWeights missing) {
    QCG_CHECK(find_root(missing));
    if (old_model_) return read_model(*old_model_);
    QCG_CHECK(check_byte_order());
    QCG_TRY(model, find_model());
    if (missing == MissingWeights::refuse) QCG_CHECK(refuse_old_layout(model));
    QCG_CHECK(find_constants(model));
    QCG_TRY(exported, read_model(*zip_.find(root_ + "models/" + model + ".json")));
    unbound_.insert(exported.weights.begin(), exported.weights.end());
    QCG_CHECK(bind_payloads(exported.graph, model));
    if (missing == MissingWeights::refuse && !unbound_.empty()) return missing_weights(exported.graph);
    return exported;
  }

  Result<std::string> json() {
    QCG_CHECK(find_root(MissingWeights::refuse));
    QCG_TRY(model, find_model());
    QCG_TRY(text, zip_.checked_storage(*zip_.find(root_ + "models/" + model + ".json"), kMaxJsonBytes));
    return std::string(view(*text));
  }

 private:
  Status find_root(MissingWeights missing) {
    constexpr std::string_view kMarker = "/archive_format";
    for (const ZipEntry& entry : zip_.entries()) {
      if (!entry.name.ends_with(kMarker)) continue;
      QCG_TRY(format, zip_.checked_storage(entry, 64));
      if (trim(*format) != "pt2")
        return bad(entry.name, "the archive's format is " + quote(trim(*format)) + ", not pt2", kReexport);
      root_ = entry.name.substr(0, entry.name.size() - kMarker.size() + 1);
      return {};
    }
    for (const ZipEntry& entry : zip_.entries()) {
      if (entry.name.ends_with(kOldModel)) {
        old_model_ = &entry;
        if (missing == MissingWeights::allow) return {};
        return bad("", "the archive was written by torch 2.6 or older, its weights are pickled", kWeightsBeside);
      }
      if (entry.name.ends_with("/data.pkl"))
        return bad("", "this is a torch.save or TorchScript file, not an exported program", kReexport);
    }
    return bad("", "the zip file is not a .pt2 archive: it has no archive_format", kReexport);
  }

  Status check_byte_order() {
    const ZipEntry* entry = zip_.find(root_ + "byteorder");
    if (!entry) return bad("", "the archive does not say its byte order", kReexport);
    QCG_TRY(order, zip_.checked_storage(*entry, 64));
    if (trim(*order) == "little") return {};
    return Error::unsupported(name_, "the archive's byte order is " + quote(trim(*order)),
                              "export it on a little-endian machine");
  }

  Result<std::string> find_model() const {
    std::string prefix = root_ + "models/", suffix = ".json";
    std::vector<std::string> models;
    for (const ZipEntry& entry : zip_.entries()) {
      bool fits = entry.name.size() > prefix.size() + suffix.size() && entry.name.starts_with(prefix) &&
                  entry.name.ends_with(suffix);
      if (fits) models.push_back(entry.name.substr(prefix.size(), entry.name.size() - prefix.size() - suffix.size()));
    }
    if (models.empty()) return bad("", "the archive holds no models/*.json", kReexport);
    if (models.size() == 1 || std::find(models.begin(), models.end(), "model") == models.end()) {
      if (models.size() == 1) return models[0];
      std::string list;
      for (size_t i = 0; i < std::min<size_t>(models.size(), 10); ++i) list += (i ? ", " : "") + quote(models[i]);
      return bad("", "the archive holds several models: " + list, "save one program per file");
    }
    return std::string("model");
  }

  Result<TorchExport> read_model(const ZipEntry& entry) {
    QCG_TRY(text, zip_.checked_storage(entry, kMaxJsonBytes));
    auto parsed = JsonDocument::parse(view(*text), "");
    if (!parsed.ok())
      parsed.error().where = name_ + ":" + quote(entry.name.substr(root_.size())) + ": " + parsed.error().where;
    QCG_TRY(document, std::move(parsed));
    return read_torch_export(document, std::move(constants_));
  }

  // Payloads of one integer.
  Status find_constants(const std::string& model) {
    return for_each_payload(model, [&](const JsonCursor& payload, const std::string& folder) -> Status {
      const auto meta = payload.find("tensor_meta");
      if (!meta || !meta->is(JsonKind::object) || is_on_meta(*meta)) return {};
      const auto tensor = read_constant_tensor_meta(*meta);
      if (!tensor.ok() || tensor->numel() != 1 || (tensor->dtype != DType::i64 && tensor->dtype != DType::i32))
        return {};
      QCG_TRY(bound, payload_tensor(payload, folder));
      constants_.emplace(payload.key(), std::move(bound));
      return {};
    });
  }

  Status refuse_old_layout(const std::string& model) const {
    for (const char* kind : {"weights", "constants"}) {
      if (zip_.find(root_ + "data/" + kind + "/" + model + ".pt")) {
        return bad("", "the archive was written by torch 2.7 or 2.8, its weights are pickled", kWeightsBeside);
      }
    }
    return {};
  }

  // f(payload, its folder in the archive)
  template <class F>
  Status for_each_payload(const std::string& model, F&& f) {
    for (const std::string kind : {"weights", "constants"}) {
      const std::string folder = root_ + "data/" + kind + "/", file = model + "_" + kind + "_config.json";
      const ZipEntry* entry = zip_.find(folder + file);
      if (!entry) continue;
      QCG_TRY(text, zip_.checked_storage(*entry, kMaxJsonBytes));
      QCG_TRY(document, JsonDocument::parse(view(*text), "data/" + kind + "/" + file));
      QCG_TRY(config, document.root().object_at("config"));
      for (JsonCursor payload : config) QCG_CHECK(f(payload, folder));
    }
    return {};
  }

  Status bind_payloads(Graph& graph, const std::string& model) {
    const std::vector<uint32_t> uses = graph.count_uses();
    std::vector<WeightPlace> places;
    QCG_CHECK(for_each_payload(model, [&](const JsonCursor& payload, const std::string& folder) -> Status {
      auto it = unbound_.find(std::string(payload.key()));
      if (it == unbound_.end()) return {};  // nothing in the graph reads it
      const Value& value = graph.value(it->second);
      QCG_CHECK(bind_payload(graph.value(it->second), payload, folder));
      if (value.data.bound() && (uses[it->second] > 0 || value.kind == ValueKind::input))
        places.push_back(place_of(value, payload.path(), folder + std::string(*payload.string_at("path_name"))));
      unbound_.erase(it);
      return {};
    }));
    return refuse_shared_states(std::move(places));
  }

  Status bind_payload(Value& value, const JsonCursor& payload, const std::string& folder) {
    if (auto pickled = payload.find("use_pickle")) {
      QCG_TRY(use_pickle, pickled->boolean());
      if (use_pickle) {
        return pickled->unsupported(
            "the weight " + quote(value.name) + " is a pickled tensor subclass",
            "call torchao.utils.unwrap_tensor_subclass(model) before torch.export.export, so that quantized "
            "weights are saved as plain tensors");
      }
    }
    QCG_TRY(meta, payload.object_at("tensor_meta"));
    QCG_TRY(tensor, read_constant_tensor_meta(meta));
    if (tensor.dtype != value.dtype || tensor.shape != value.data.shape) {
      return meta.bad("the payload is " + describe(tensor) + ", the graph declares " + describe(value.data), kReexport);
    }
    if (is_on_meta(meta)) return {};  // a shape without numbers: --weights gives them
    QCG_TRY(bound, payload_tensor(payload, folder));
    value.data = std::move(bound);
    return {};
  }

  Result<Tensor> payload_tensor(const JsonCursor& payload, const std::string& folder) {
    QCG_TRY(meta, payload.object_at("tensor_meta"));
    QCG_TRY(tensor, read_constant_tensor_meta(meta));
    QCG_TRY(path_at, payload.at("path_name"));
    QCG_TRY(path, path_at.name());
    const ZipEntry* entry = zip_.find(folder + path);
    if (!entry) return path_at.bad("the archive has no entry " + quote(folder + path), kReexport);
    QCG_TRY(storage, payload_storage(*entry, tensor, meta));
    tensor.storage = std::move(storage);
    if (!tensor.in_bounds()) {
      return meta.bad("the tensor needs " + std::to_string(storage_extent(tensor)) + " bytes, the payload has " +
                          std::to_string(entry->size),
                      kReexport);
    }
    return tensor;
  }

  static bool is_on_meta(const JsonCursor& tensor_meta) {
    const auto device = tensor_meta.find("device");
    const auto type = device ? device->find("type") : std::nullopt;
    return type && type->is(JsonKind::string) && *type->string() == "meta";
  }

  Result<std::shared_ptr<const Storage>> payload_storage(const ZipEntry& entry, const Tensor& tensor,
                                                         const JsonCursor& meta) {
    if (entry.size == 0) return zeros(storage_extent(tensor), meta);
    auto& storage = storages_[&entry];
    if (!storage) {
      QCG_TRY(fresh, zip_.storage(entry));
      storage = std::move(fresh);
    }
    return storage;
  }

  // An exporter that knows a storage to be all zeros writes no bytes for it.
  static Result<std::shared_ptr<const Storage>> zeros(size_t bytes, const JsonCursor& meta) {
    auto memory = bytes <= kMaxZeros ? map_anonymous(bytes) : nullptr;
    if (!memory) return meta.bad("an empty payload stands for " + std::to_string(bytes) + " bytes of zeros", kReexport);
    return std::make_shared<const Storage>(Storage{{memory.get(), bytes}, memory});
  }

  Error missing_weights(const Graph& graph) const {
    std::vector<std::string> names;
    for (const auto& [name, id] : unbound_) names.push_back(name);
    std::sort(names.begin(), names.end());
    std::string list;
    for (size_t i = 0; i < std::min<size_t>(names.size(), 10); ++i) list += (i ? ", " : "") + quote(names[i]);
    if (names.size() > 10) list += " and " + std::to_string(names.size() - 10) + " more";
    return bad("", "the archive lacks weights of the graph " + quote(graph.name) + ": " + list,
               "export again, or give them with --weights FILE");
  }

  static std::string_view view(const Storage& storage) {
    return {reinterpret_cast<const char*>(storage.bytes.data()), storage.bytes.size()};
  }
  static std::string_view trim(const Storage& storage) {
    std::string_view text = view(storage);
    return text.substr(0, text.find_last_not_of(" \r\n\t") + 1);
  }
  Error bad(const std::string& entry, std::string message, std::string help) const {
    return Error::bad_input(entry.empty() ? name_ : name_ + ":" + quote(entry), std::move(message), std::move(help));
  }

  ZipArchive zip_;
  std::string name_;
  std::string root_;
  const ZipEntry* old_model_ = nullptr;  // of an archive up to torch 2.6
  std::unordered_map<std::string, ValueId> unbound_;
  KnownConstants constants_;
  std::unordered_map<const ZipEntry*, std::shared_ptr<const Storage>> storages_;
};

}  // namespace

Result<TorchExport> read_pt2(std::string_view bytes, std::shared_ptr<const void> owner, const std::string& name,
                             MissingWeights missing) {
  QCG_TRY(zip, ZipArchive::open(bytes, std::move(owner), name));
  return Pt2Reader(std::move(zip), name).read(missing);
}

Result<std::string> read_pt2_json(const std::string& path) {
  QCG_TRY(file, MappedFile::open(path));
  QCG_TRY(zip, ZipArchive::open(file->text(), file, path));
  return Pt2Reader(std::move(zip), path).json();
}

}  // namespace qcg

#include "graph/read/safetensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "graph/read/files/json.h"
#include "graph/read/files/limits.h"
#include "graph/read/files/mapped_file.h"
#include "graph/read/torch/meta.h"

namespace qcg {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxTensors = 100'000;  // a Tensor takes some 400 bytes: bounds the memory a header can claim
constexpr size_t kMaxMetadata = 65'536;
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kCopyAgain = "the file is damaged or was cut off: copy or save it again";

struct Range {
  uint64_t begin = 0, end = 0;
  std::string_view name;
};

class HeaderReader {
 public:
  HeaderReader(std::string_view data, std::shared_ptr<const void> owner) : data_(data) {
    storage_ = std::make_shared<const Storage>(
        Storage{{reinterpret_cast<const std::byte*>(data.data()), data.size()}, std::move(owner)});
  }

  Result<Safetensors> read(const JsonCursor& header) {
    QCG_CHECK(header.expect(JsonKind::object));
    if (header.size() > kMaxTensors) return header.bad("the file claims too many tensors", kCopyAgain);
    for (JsonCursor member : header) {
      if (member.key() == "__metadata__") {
        QCG_CHECK(read_metadata(member));
      } else {
        QCG_CHECK(read_tensor(member));
      }
    }
    QCG_CHECK(check_ranges(header));
    return std::move(out_);
  }

 private:
  Status read_metadata(const JsonCursor& metadata) {
    QCG_CHECK(metadata.expect(JsonKind::object));
    if (metadata.size() > kMaxMetadata) return metadata.bad("there is too much metadata", kCopyAgain);
    for (JsonCursor item : metadata) {
      QCG_TRY(text, item.string());
      out_.metadata.emplace(item.key(), text);
    }
    return {};
  }

  Status read_tensor(const JsonCursor& entry) {
    Tensor tensor;
    if (entry.key().empty() || entry.key().size() > JsonCursor::kMaxName)
      return entry.bad("a tensor has no name, or too long a one", kCopyAgain);
    QCG_TRY(dtype_at, entry.at("dtype"));
    QCG_TRY(dtype_text, dtype_at.string());
    auto dtype = dtype_from_safetensors(dtype_text);
    if (!dtype)
      return dtype_at.unsupported("unknown element type " + quote(dtype_text),
                                  "convert the tensor to a type that `qcodegen` knows (F32, BF16, I8, ...)");
    tensor.dtype = *dtype;
    QCG_TRY(shape, entry.array_at("shape"));
    if (shape.size() > kMaxRank) return shape.bad("the tensor has too many axes", kCopyAgain);
    for (JsonCursor size : shape) {
      QCG_TRY(value, size.integer());
      if (value < 0) return size.bad("a size is negative", kCopyAgain);
      tensor.shape.push_back(value);
    }
    // The extent is checked on the sizes alone before strides multiply them.
    tensor.strides.assign(tensor.shape.size(), 0);
    if (!has_sane_extent(tensor)) return shape.bad("the product of the sizes overflows", kCopyAgain);
    tensor.strides = Tensor::row_major_strides(tensor.shape);
    QCG_TRY(offsets, entry.array_at("data_offsets"));
    QCG_TRY(range, read_range(offsets));
    uint64_t need = static_cast<uint64_t>(tensor.numel()) * dtype_bytes(tensor.dtype);
    if (range.end - range.begin != need) {
      return offsets.bad("the tensor needs " + std::to_string(need) + " bytes, its offsets span " +
                             std::to_string(range.end - range.begin),
                         kCopyAgain);
    }
    range.name = entry.key();
    ranges_.push_back(range);
    return place(tensor, range.begin, entry);
  }

  Result<Range> read_range(const JsonCursor& offsets) const {
    std::vector<int64_t> ends;
    for (JsonCursor offset : offsets) {
      QCG_TRY(value, offset.integer());
      ends.push_back(value);
      if (ends.size() > 2) break;
    }
    if (ends.size() != 2 || ends[0] < 0 || ends[1] < ends[0])
      return offsets.bad("expected [begin, end] with 0 <= begin <= end", kCopyAgain);
    if (static_cast<uint64_t>(ends[1]) > data_.size()) {
      return offsets.bad(
          "the tensor ends at byte " + std::to_string(ends[1]) + ", the file's data at " + std::to_string(data_.size()),
          kCopyAgain);
    }
    return Range{static_cast<uint64_t>(ends[0]), static_cast<uint64_t>(ends[1]), {}};
  }

  // A Tensor counts its offset in elements, but a file may start one at any byte: then it has a Storage of its own.
  Status place(Tensor& tensor, uint64_t begin, const JsonCursor& entry) {
    if (begin % dtype_bytes(tensor.dtype) == 0) {
      tensor.offset = static_cast<int64_t>(begin / dtype_bytes(tensor.dtype));
      tensor.storage = storage_;
    } else {
      tensor.storage = std::make_shared<const Storage>(Storage{storage_->bytes.subspan(begin), storage_->owner});
    }
    out_.tensors.emplace(entry.key(), std::move(tensor));
    return {};
  }

  Status check_ranges(const JsonCursor& header) {
    std::sort(ranges_.begin(), ranges_.end(),
              [](const Range& a, const Range& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    uint64_t at = 0;
    for (const Range& range : ranges_) {
      if (range.begin != at) {
        const char* what =
            range.begin < at ? " overlaps the tensor before it" : " leaves a gap to the tensor before it";
        return header.bad("the data of " + quote(range.name) + what, kCopyAgain);
      }
      at = range.end;
    }
    if (at == data_.size()) return {};
    return header.bad(
        "the tensors end at byte " + std::to_string(at) + ", the file's data at " + std::to_string(data_.size()),
        kCopyAgain);
  }

  std::string_view data_;
  std::shared_ptr<const Storage> storage_;
  Safetensors out_;
  std::vector<Range> ranges_;
};

Status merge(Safetensors& all, Safetensors part, const std::set<std::string>& wanted, const std::string& file) {
  for (auto& [name, tensor] : part.tensors) {
    if (!wanted.contains(name)) continue;
    all.tensors.emplace(name, std::move(tensor));
  }
  for (const std::string& name : wanted) {
    if (!all.tensors.contains(name))
      return Error::bad_input(file, "the index says that this file holds " + quote(name) + ", but it does not",
                              kCopyAgain);
  }
  all.metadata.merge(part.metadata);
  all.files.push_back(file);
  return {};
}

using Shards = std::map<std::string, std::set<std::string>>;  // by path: the tensors that the index says it holds

// {"weight_map": {tensor: file}}; files lie beside the index and are named without folders.
Result<Shards> shards_of(const std::string& path, const MappedFile& index) {
  QCG_TRY(document, JsonDocument::parse(index.text(), path));
  QCG_TRY(map, document.root().object_at("weight_map"));
  Shards shards;
  for (JsonCursor entry : map) {
    QCG_TRY(shard, entry.name());
    if (shard.find('/') != std::string::npos || shard.find('\0') != std::string::npos || shard == "." ||
        shard == "..") {
      return entry.bad("the shard " + quote(shard) + " is not a plain file name",
                       "name files in the folder of the index");
    }
    shards[(std::filesystem::path(path).parent_path() / shard).string()].insert(std::string(entry.key()));
  }
  return shards;
}

Result<Safetensors> read_index(const std::string& path, const MappedFile& file) {
  QCG_TRY(shards, shards_of(path, file));
  Safetensors all;
  all.files.push_back(path);
  for (const auto& [shard, names] : shards) {
    QCG_TRY(mapped, MappedFile::open(shard));
    QCG_TRY(part, parse_safetensors(mapped->text(), mapped, shard));
    QCG_CHECK(merge(all, std::move(part), names, shard));
  }
  return all;
}

bool is_index(const std::string& path) { return path.ends_with(".json"); }

Result<std::string> file_in_folder(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::path index = std::filesystem::path(folder) / kIndexName;
  if (std::filesystem::exists(index, ignored)) return index.string();
  std::vector<std::string> found;
  for (std::filesystem::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored)) {
    if (it->path().extension() == ".safetensors") found.push_back(it->path().string());
  }
  if (found.size() == 1) return found[0];
  return Error::bad_input(folder,
                          found.empty() ? "the folder holds no .safetensors file"
                                        : "the folder holds several .safetensors files and no index",
                          std::string("name one file, or add ") + kIndexName);
}

}  // namespace

Result<Safetensors> parse_safetensors(std::string_view bytes, std::shared_ptr<const void> owner,
                                      const std::string& name) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length) return Error::bad_input(name, "the file is too short for safetensors", kCopyAgain);
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxHeader || length > bytes.size() - sizeof length) {
    return Error::bad_input(name,
                            "the header claims " + std::to_string(length) + " bytes; the file has " +
                                std::to_string(bytes.size()) + " and at most " + std::to_string(kMaxHeader) +
                                " are read",
                            "check that this is a safetensors file");
  }
  JsonLimits limits;
  limits.text_bytes = kMaxHeader;
  limits.depth = 8;
  QCG_TRY(document, JsonDocument::parse(bytes.substr(sizeof length, length), name, limits));
  return HeaderReader(bytes.substr(sizeof length + length), std::move(owner)).read(document.root());
}

Result<Safetensors> read_safetensors(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    QCG_TRY(inside, file_in_folder(path));
    return read_safetensors(inside);
  }
  QCG_TRY(file, MappedFile::open(path));
  if (is_index(path)) return read_index(path, *file);
  QCG_TRY(read, parse_safetensors(file->text(), file, path));
  read.files.push_back(path);
  return read;
}

Result<std::vector<std::string>> safetensors_files(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    QCG_TRY(inside, file_in_folder(path));
    return safetensors_files(inside);
  }
  std::vector<std::string> files = {path};
  if (!is_index(path)) return files;
  QCG_TRY(index, MappedFile::open(path));
  QCG_TRY(shards, shards_of(path, *index));
  for (const auto& [shard, names] : shards) files.push_back(shard);
  return files;
}

}  // namespace qcg

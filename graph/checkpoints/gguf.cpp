#include "graph/checkpoints/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <unordered_map>

#include "graph/checkpoints/gguf_names.h"
#include "graph/checkpoints/gguf_types.h"
#include "graph/checkpoints/kinds.h"
#include "graph/ir/elements.h"
#include "graph/read/files/mapped_file.h"

namespace qcg {

namespace {

constexpr std::string_view kMagic = "GGUF", kWeightEnd = ".weight", kNvfp4Format = "nvfp4";
constexpr uint64_t kMostTensors = 100'000, kMostValues = 65'536, kMostName = 1024;
constexpr const char* kDamaged = "the file is damaged or was cut off: copy or convert it again";

// The numbers of types of values, and the bytes of each: u8 i8 u16 i16 u32 i32 f32 bool, text, array, u64 i64 f64.
constexpr uint32_t kU16 = 2, kU32 = 4, kText = 8, kArray = 9, kValueTypes = 13;
constexpr uint64_t kValueBytes[kValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct TensorInfo {
  size_t part = 0;  // of a model that is split into several files
  std::string name;
  uint32_t type = 0;
  std::vector<int64_t> shape;  // slowest axis first
  uint64_t offset = 0;
};

struct Header {
  std::string architecture;
  uint64_t alignment = 32, heads = 0, kv_heads = 0;
  uint16_t part = 0, parts = 1;  // as llama.cpp's gguf-split counts them
  std::vector<TensorInfo> tensors;
  uint64_t data = 0;  // where the tensors begin
};

class HeaderParser {
 public:
  HeaderParser(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Result<Header> parse() {
    at_ = kMagic.size();
    QCG_TRY(version, number<uint32_t>());
    if (version != 2 && version != 3)
      return Error::unsupported(path_, "version " + std::to_string(version) + " of GGUF", "versions 2 and 3 are read");
    QCG_TRY(tensors, number<uint64_t>());
    QCG_TRY(values, number<uint64_t>());
    if (tensors > kMostTensors || values > kMostValues) return bad("claims too many tensors or values");
    for (uint64_t i = 0; i < values; ++i) QCG_CHECK(read_value());
    std::set<std::string> names;
    for (uint64_t i = 0; i < tensors; ++i) {
      QCG_CHECK(read_tensor());
      if (!names.insert(out_.tensors.back().name).second) return bad("has two tensors of one name");
    }
    out_.data = (at_ + out_.alignment - 1) / out_.alignment * out_.alignment;
    return std::move(out_);
  }

 private:
  Error bad(const std::string& what) const {
    return Error::bad_input(path_, "near byte " + std::to_string(at_) + " the file " + what, kDamaged);
  }

  template <class T>
  Result<T> number() {
    T value;
    if (bytes_.size() - at_ < sizeof value) return bad("ends");
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  Result<std::string_view> text() {
    QCG_TRY(size, number<uint64_t>());
    if (size > bytes_.size() - at_) return bad("has a text that goes beyond its end");
    const std::string_view out = bytes_.substr(at_, size);
    at_ += size;
    return out;
  }

  Status skip(uint32_t type, bool inside_array) {
    if (type == kText) {
      const auto skipped = text();
      return skipped.ok() ? Status() : Status(skipped.error());
    }
    if (type == kArray && !inside_array) {
      QCG_TRY(element, number<uint32_t>());
      QCG_TRY(count, number<uint64_t>());
      if (element == kText) {
        for (uint64_t i = 0; i < count; ++i) QCG_CHECK(skip(kText, true));  // each takes 8 bytes at least
        return {};
      }
      if (element >= kValueTypes || element == kArray) return bad("has an array of an unknown type");
      if (count > (bytes_.size() - at_) / kValueBytes[element]) return bad("has an array that goes beyond its end");
      at_ += count * kValueBytes[element];
      return {};
    }
    if (type >= kValueTypes || type == kArray) return bad("has a value of an unknown type");
    if (kValueBytes[type] > bytes_.size() - at_) return bad("ends");
    at_ += kValueBytes[type];
    return {};
  }

  Status read_value() {
    QCG_TRY(key, text());
    QCG_TRY(type, number<uint32_t>());
    if (key == "general.architecture" && type == kText) {
      QCG_TRY(name, text());
      out_.architecture = std::string(name.substr(0, kMostName));
      return {};
    }
    if (type == kU16 && (key == "split.no" || key == "split.count")) {
      QCG_TRY(value, number<uint16_t>());
      (key == "split.no" ? out_.part : out_.parts) = value;
      return {};
    }
    uint64_t* wanted = key == "general.alignment"                  ? &out_.alignment
                       : key.ends_with(".attention.head_count")    ? &out_.heads
                       : key.ends_with(".attention.head_count_kv") ? &out_.kv_heads
                                                                   : nullptr;
    if (!wanted || type != kU32) return skip(type, false);
    QCG_TRY(value, number<uint32_t>());
    *wanted = value;
    if (!std::has_single_bit(out_.alignment) || out_.alignment > 1 << 20) return bad("has no sane alignment");
    return {};
  }

  Status read_tensor() {
    TensorInfo info;
    QCG_TRY(name, text());
    if (name.empty() || name.size() > kMostName) return bad("has a tensor without a name, or with too long a one");
    info.name = name;
    QCG_TRY(axes, number<uint32_t>());
    if (axes < 1 || axes > 4) return bad("has a tensor of " + std::to_string(axes) + " axes");
    for (uint32_t i = 0; i < axes; ++i) {
      QCG_TRY(size, number<uint64_t>());
      if (size < 1 || size > uint64_t{1} << 40) return bad("has a tensor of an absurd size");
      info.shape.insert(info.shape.begin(), static_cast<int64_t>(size));
    }
    QCG_TRY(type, number<uint32_t>());
    QCG_TRY(offset, number<uint64_t>());
    info.type = type, info.offset = offset;
    out_.tensors.push_back(std::move(info));
    return {};
  }

  std::string_view bytes_;
  const std::string& path_;
  size_t at_ = 0;
  Header out_;
};

// Rows of a head lie (2 i, 2 i + 1) where Hugging Face has (i, i + half a head).
std::vector<int64_t> split_halves(int64_t rows, int64_t heads) {
  std::vector<int64_t> out;
  const int64_t head = rows / heads, half = head / 2;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t part = 0; part < 2; ++part)
      for (int64_t i = 0; i < half; ++i) out.push_back(h * head + 2 * i + part);
  return out;
}

struct Part {
  std::shared_ptr<const MappedFile> file;
  Header header;
};

Result<Part> open_part(const std::string& path) {
  QCG_TRY(file, MappedFile::open(path));
  if (!is_gguf(file->text())) return Error::bad_input(path, "is no GGUF file", kDamaged);
  QCG_TRY(header, HeaderParser(file->text(), path).parse());
  return Part{std::move(file), std::move(header)};
}

// The names of all parts: "NAME-00001-of-00003.gguf" and so on.
Result<std::vector<std::string>> names_of_parts(const std::string& path, const Header& header) {
  if (header.parts <= 1) return std::vector<std::string>{path};
  const auto ending = [&](int part) { return fmt::format("-{:05}-of-{:05}.gguf", part, header.parts); };
  const std::string own = ending(header.part + 1);
  if (!path.ends_with(own))
    return Error::bad_input(path, "is part " + std::to_string(header.part + 1) + " of " + std::to_string(header.parts),
                            "name the parts as they were: this one ends with " + own);
  std::vector<std::string> out;
  for (int part = 1; part <= header.parts; ++part)
    out.push_back(path.substr(0, path.size() - own.size()) + ending(part));
  return out;
}

class GgufReader {
 public:
  explicit GgufReader(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (size_t i = 0; i < parts_.size(); ++i)
      for (TensorInfo& info : parts_[i].header.tensors) info.part = i, tensors_.push_back(std::move(info));
    for (const TensorInfo& info : tensors_) by_name_.emplace(info.name, &info);
  }

  Result<Checkpoint> read() {
    const GgufArchitecture* architecture = find_gguf_architecture(header().architecture);
    if (!architecture)
      return Error::unsupported(parts_[0].file->path(),
                                "a GGUF file of the architecture " + quote(header().architecture),
                                "those that are read are " + known_gguf_architectures());
    Checkpoint out;
    out.kind = "gguf";
    for (const Part& part : parts_) out.files.push_back(part.file->path());
    for (const TensorInfo& info : tensors_) QCG_CHECK(add(info, *architecture, out));
    if (architecture->adds_one) subtract_one_from_norms(out);
    tie_head(out);
    join_experts(out, architecture->alternates ? JoinedExperts::alternating : JoinedExperts::stacked);
    return out;
  }

 private:
  const Header& header() const { return parts_[0].header; }  // the first part has the numbers of the model

  // A number of bf16 plus 1, rounded to f32, less 1 has no more bits than before.
  static void subtract_one_from_norms(Checkpoint& out) {
    for (auto& [name, tensor] : out.tensors) {
      if (!name.ends_with("norm.weight")) continue;
      auto weights = read_elements<float>(tensor);
      for (float& w : *weights) w -= 1;
      tensor = make_tensor(DType::f32, tensor.shape, weights);
    }
  }

  std::string where(const TensorInfo& info) const { return file_of(info)->path() + ": " + quote(info.name); }
  const std::shared_ptr<const MappedFile>& file_of(const TensorInfo& info) const { return parts_[info.part].file; }

  // Empty: as they lie.
  Result<std::vector<int64_t>> order_of_rows(const TensorInfo& info, const GgufArchitecture& architecture) const {
    const bool query = info.name.find(".attn_q.") != info.name.npos, key = info.name.find(".attn_k.") != info.name.npos;
    if (!architecture.interleaves || (!query && !key)) return std::vector<int64_t>();
    const auto heads = static_cast<int64_t>(query || header().kv_heads == 0 ? header().heads : header().kv_heads);
    const int64_t rows = info.shape[0];
    if (heads < 1 || rows % (2 * heads) != 0 || rows > int64_t{1} << 32)
      return Error::bad_input(
          where(info), std::to_string(rows) + " rows are not those of " + std::to_string(heads) + " heads", kDamaged);
    return split_halves(rows, heads);
  }

  Status add(const TensorInfo& info, const GgufArchitecture& architecture, Checkpoint& out) {
    if (is_scale_of_nvfp4(info)) {
      const std::string note = "scales of activations are not used: activations stay floating";
      if (info.name.ends_with(".input_scale") && !std::ranges::count(out.notes, note)) out.notes.push_back(note);
      return {};
    }
    const std::string name = hugging_face_name(architecture, info.name).value_or(info.name);
    const GgufType* type = find_gguf_type(info.type);
    if (!type || (!type->plain && !type->read)) {
      const std::string what = type ? std::string(type->name) : "number " + std::to_string(info.type);
      const Error refused =
          Error::unsupported(where(info), "the type " + what + " of GGUF, which no scheme holds exactly",
                             "quantize this tensor as Q4_0, Q4_1, Q8_0, Q4_K or Q6_K");
      out.weights.emplace(name, [refused]() -> Result<QuantizedWeight> { return refused; });
      return {};
    }
    QCG_TRY(bytes, bytes_of(info, *type));
    QCG_TRY(rows, order_of_rows(info, architecture));  // no more of them than there are bytes
    const size_t star = name.find('*');
    if (star == name.npos) return add_tensor(info, name, *type, bytes, shape_of(info, name), rows, out);
    if (info.shape.size() != 3)
      return Error::bad_input(
          where(info), "has " + std::to_string(info.shape.size()) + " axes, not one matrix per expert", kDamaged);
    if (static_cast<uint64_t>(info.shape[0]) > kMostTensors - experts_)
      return Error::bad_input(where(info), "claims " + std::to_string(info.shape[0]) + " experts", kDamaged);
    experts_ += static_cast<uint64_t>(info.shape[0]);
    // The matrices of all experts lie one after the other. Each is a tensor, named as Hugging Face stores it.
    const size_t each = bytes.size() / static_cast<size_t>(info.shape[0]);
    for (int64_t e = 0; e < info.shape[0]; ++e)
      QCG_CHECK(add_tensor(info, name.substr(0, star) + std::to_string(e) + name.substr(star + 1), *type,
                           bytes.subspan(static_cast<size_t>(e) * each, each), {info.shape[1], info.shape[2]}, {},
                           out));
    return {};
  }

  const TensorInfo* find_tensor(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  // "NAME.scale" of "NAME.weight" of nvfp4, by which the weight is multiplied; "NAME.input_scale", which nothing reads.
  bool is_scale_of_nvfp4(const TensorInfo& info) const {
    const size_t dot = info.name.rfind('.');
    if (dot == info.name.npos || (info.name.substr(dot) != ".scale" && info.name.substr(dot) != ".input_scale"))
      return false;
    const TensorInfo* weight = find_tensor(info.name.substr(0, dot) + std::string(kWeightEnd));
    const GgufType* type = weight ? find_gguf_type(weight->type) : nullptr;
    return type && type->format == kNvfp4Format;
  }

  // One element, or one per expert.
  Result<Tensor> global_scale_of(const TensorInfo& weight) const {
    if (!weight.name.ends_with(kWeightEnd)) return Tensor();
    const TensorInfo* found = find_tensor(weight.name.substr(0, weight.name.size() - kWeightEnd.size()) + ".scale");
    if (!found) return Tensor();
    if (found->shape != std::vector<int64_t>{1} || weight.shape.size() != 2)
      return Error::unsupported(where(*found), "scales of several experts", "quantize experts without a global scale");
    const GgufType* type = find_gguf_type(found->type);
    if (!type || type->plain != DType::f32) return Error::bad_input(where(*found), "is no number of f32", kDamaged);
    QCG_TRY(bytes, bytes_of(*found, *type));
    return tensor_of(*found, DType::f32, {1}, bytes);
  }

  Tensor tensor_of(const TensorInfo& info, DType dtype, const std::vector<int64_t>& shape,
                   std::span<const std::byte> bytes) const {
    Tensor tensor;
    tensor.dtype = dtype, tensor.shape = shape;
    tensor.strides = Tensor::row_major_strides(shape);
    tensor.storage = std::make_shared<const Storage>(Storage{bytes, file_of(info)});
    return tensor;
  }

  // A gate of one row is a vector in the file.
  static std::vector<int64_t> shape_of(const TensorInfo& info, const std::string& name) {
    if (info.shape.size() != 1 || !name.ends_with(".shared_expert_gate.weight")) return info.shape;
    return {1, info.shape[0]};
  }

  Status add_tensor(const TensorInfo& info, const std::string& name, const GgufType& type,
                    std::span<const std::byte> bytes, const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& rows, Checkpoint& out) const {
    if (type.plain) {
      const Tensor tensor = tensor_of(info, *type.plain, shape, bytes);
      out.tensors.emplace(name, rows.empty() ? tensor : gather_rows(tensor, rows));
      return {};
    }
    if (shape.size() != 2)
      return Error::unsupported(where(info), "a quantized tensor of " + std::to_string(shape.size()) + " axes",
                                "matrices are read");
    Tensor global;
    if (type.format == kNvfp4Format) {
      QCG_TRY(scale, global_scale_of(info));
      global = std::move(scale);
    }
    out.weights.emplace(name, [&type, bytes, shape, rows, global, file = file_of(info)] {
      QuantizedWeight weight = read_gguf_weight(type, bytes, shape[0], shape[1]);
      weight.global = global;
      if (rows.empty()) return Result<QuantizedWeight>(std::move(weight));
      for (Tensor* part : {&weight.codes, &weight.scale, &weight.offset})
        if (part->bound()) *part = gather_rows(*part, rows);
      return Result<QuantizedWeight>(std::move(weight));
    });
    return {};
  }

  Result<std::span<const std::byte>> bytes_of(const TensorInfo& info, const GgufType& type) const {
    uint64_t elements = 1;
    for (int64_t size : info.shape)
      if (__builtin_mul_overflow(elements, static_cast<uint64_t>(size), &elements) || elements > uint64_t{1} << 48)
        return Error::bad_input(where(info), "has too many elements", kDamaged);
    if (info.shape.back() % type.elements != 0)
      return Error::bad_input(
          where(info),
          std::to_string(info.shape.back()) + " columns are no whole blocks of " + std::to_string(type.elements),
          kDamaged);
    const uint64_t need = elements / static_cast<uint64_t>(type.elements) * static_cast<uint64_t>(type.bytes);
    const Header& header = parts_[info.part].header;
    const std::span<const std::byte> all = file_of(info)->bytes();
    if (header.data > all.size() || info.offset > all.size() - header.data ||
        need > all.size() - header.data - info.offset)
      return Error::bad_input(where(info), "its " + std::to_string(need) + " bytes go beyond the end of the file",
                              kDamaged);
    if (info.offset % header.alignment != 0)
      return Error::bad_input(where(info), "does not lie at a multiple of the alignment", kDamaged);
    return all.subspan(header.data + info.offset, need);
  }

  std::vector<Part> parts_;
  std::vector<TensorInfo> tensors_;  // of all parts
  std::unordered_map<std::string_view, const TensorInfo*> by_name_;
  uint64_t experts_ = 0;  // matrices that tensors of all experts became
};

}  // namespace

bool is_gguf(std::string_view bytes) { return bytes.starts_with(kMagic); }

Result<std::vector<std::string>> gguf_files(const std::string& path) {
  QCG_TRY(part, open_part(path));
  return names_of_parts(path, part.header);
}

Result<Checkpoint> open_gguf(const std::string& path) {
  QCG_TRY(given, open_part(path));
  QCG_TRY(names, names_of_parts(path, given.header));
  std::vector<Part> parts;
  std::set<std::string> tensors;
  for (const std::string& name : names) {
    QCG_TRY(part, name == path ? Result<Part>(std::move(given)) : open_part(name));
    if (names.size() > 1 && (part.header.parts != names.size() || part.header.part != parts.size()))
      return Error::bad_input(name, "is not part " + std::to_string(parts.size() + 1) + " of " + quote(path), kDamaged);
    for (const TensorInfo& info : part.header.tensors)
      if (!tensors.insert(info.name).second)
        return Error::bad_input(name, "has " + quote(info.name) + ", which a part before it has", kDamaged);
    parts.push_back(std::move(part));
  }
  return GgufReader(std::move(parts)).read();
}

}  // namespace qcg

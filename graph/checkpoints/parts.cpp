#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "graph/checkpoints/kinds.h"
#include "graph/ir/elements.h"
#include "graph/read/weights.h"

namespace qcg {

namespace {

constexpr const char* kHelp = "the checkpoint is damaged, or was written by a library that stores this otherwise";

bool fits_shape(const std::vector<int64_t>& have, const std::vector<int64_t>& want) {
  if (want.empty()) return true;
  if (have.size() != want.size()) return false;
  for (size_t i = 0; i < have.size(); ++i)
    if (want[i] >= 0 && have[i] != want[i]) return false;
  return true;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out;
  for (int64_t size : shape) out += (out.empty() ? "[" : ", ") + (size < 0 ? std::string("any") : std::to_string(size));
  return (out.empty() ? "[" : out) + "]";
}

}  // namespace

std::vector<int64_t> QuantizedWeight::shape() const {
  const int64_t n = codes.shape[0], k = codes.shape[1] * (format.empty() ? 1 : 2);
  if (matrices == 0) return {n, k};
  return turned ? std::vector<int64_t>{matrices, k, n / matrices} : std::vector<int64_t>{matrices, n / matrices, k};
}

Result<Tensor> LinearParts::tensor(std::string_view part, std::initializer_list<DType> dtypes,
                                   std::vector<int64_t> shape) const {
  const auto found = parts_.find(part);
  if (found == parts_.end()) return bad(part, "is missing");
  const Tensor& tensor = found->second;
  if (std::find(dtypes.begin(), dtypes.end(), tensor.dtype) == dtypes.end()) {
    std::string names;
    for (DType dtype : dtypes) names += (names.empty() ? "" : " or ") + std::string(dtype_name(dtype));
    return bad(part, "is " + describe(tensor) + ", not " + names);
  }
  if (!fits_shape(tensor.shape, shape)) return bad(part, "is " + describe(tensor) + ", not " + shape_text(shape));
  return tensor;
}

Error LinearParts::bad(std::string_view part, std::string message) const {
  return Error::bad_input(where_, std::string(part) + " " + std::move(message), kHelp);
}

Error LinearParts::unsupported(std::string message, std::string help) const {
  return Error::unsupported(where_, std::move(message), std::move(help));
}

std::map<std::string, LinearParts> take_parts(RawCheckpoint& raw, std::string_view marker,
                                              std::initializer_list<std::string_view> others) {
  auto& tensors = raw.file.tensors;
  const std::string separator = marker.starts_with("_") ? "" : ".";
  const std::string end = separator + std::string(marker);
  std::vector<std::string> bases;
  for (const auto& [name, tensor] : tensors) {
    if (name.size() > end.size() && name.ends_with(end)) bases.push_back(name.substr(0, name.size() - end.size()));
    else if (name == marker && !separator.empty()) bases.emplace_back();
  }
  std::map<std::string, LinearParts> out;
  for (const std::string& base : bases) {
    std::map<std::string, Tensor, std::less<>> parts;
    const auto take = [&](std::string_view part) {
      const std::string name = part.empty() ? base : base + (base.empty() ? "" : separator) + std::string(part);
      if (auto node = tensors.extract(name); !node.empty()) parts.emplace(part, std::move(node.mapped()));
    };
    take(marker);
    for (std::string_view part : others) take(part);
    out.emplace(base, LinearParts(base.empty() ? raw.path : raw.path + ": " + quote(base), std::move(parts)));
  }
  return out;
}

std::string weight_of(const std::string& linear) { return linear.empty() ? "weight" : linear + ".weight"; }

Result<int64_t> config_number(const JsonCursor& config, std::string_view key, int64_t missing, int64_t least,
                              int64_t most) {
  const auto found = config.find(key);
  if (!found || found->is(JsonKind::null)) return missing;
  QCG_TRY(value, found->integer());
  if (value < least || value > most)
    return found->bad(
        "is " + std::to_string(value) + ", not a number from " + std::to_string(least) + " to " + std::to_string(most),
        kHelp);
  return value;
}

Result<int64_t> check_group(const LinearParts& parts, int64_t group, int64_t k, int64_t groups) {
  if (group <= 0) group = k;
  if (k < 1 || groups < 1) return parts.bad("the weight", "has no elements");
  if (k % group != 0)
    return parts.unsupported("the group of " + std::to_string(group) + " does not divide K = " + std::to_string(k),
                             "qcodegen multiplies by whole groups: quantize with a group that divides K");
  if (k / group != groups)
    return parts.bad("the scales", "are of " + std::to_string(groups) + " groups, and K = " + std::to_string(k) +
                                       " has " + std::to_string(k / group) + " of " + std::to_string(group));
  return group;
}

Tensor unpack_words(const Tensor& words, int bits) {
  const Tensor dense = words.contiguous();
  const int64_t rows = dense.shape[0], columns = dense.shape[1] * 32 / bits;
  std::vector<std::byte> out(static_cast<size_t>(rows * columns));
  const std::byte* from = dense.bytes().data();
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  uint64_t held = 0;  // bits that were read and not written; none at the end of a row
  int count = 0;
  for (std::byte& to : out) {
    if (count < bits) {
      uint32_t word;
      std::memcpy(&word, from, 4);
      held |= uint64_t{word} << count;
      from += 4, count += 32;
    }
    to = static_cast<std::byte>(held & mask);
    held >>= bits, count -= bits;
  }
  return Tensor::from_bytes(DType::u8, {rows, columns}, std::move(out));
}

Status order_by_group(const LinearParts& parts, const Tensor& g_idx, QuantizedWeight& weight) {
  const auto groups_of = read_elements<int64_t>(g_idx);
  const int64_t n = weight.codes.shape[0], k = weight.codes.shape[1], groups = k / weight.group;
  std::vector<int64_t> sizes(static_cast<size_t>(groups));
  bool in_order = true;
  for (int64_t i = 0; i < k; ++i) {
    const int64_t group = (*groups_of)[static_cast<size_t>(i)];
    if (group < 0 || group >= groups)
      return parts.bad("g_idx", "names group " + std::to_string(group) + " for column " + std::to_string(i) + ", of " +
                                    std::to_string(groups));
    in_order = in_order && group == i / weight.group;
    ++sizes[static_cast<size_t>(group)];
  }
  if (in_order) return {};
  if (std::any_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size != weight.group; }))
    return parts.unsupported("g_idx makes groups that are not all of " + std::to_string(weight.group) + " columns",
                             "quantize again with groups of one size");
  weight.columns.resize(static_cast<size_t>(k));
  std::iota(weight.columns.begin(), weight.columns.end(), 0);
  std::stable_sort(weight.columns.begin(), weight.columns.end(), [&](int64_t a, int64_t b) {
    return (*groups_of)[static_cast<size_t>(a)] < (*groups_of)[static_cast<size_t>(b)];
  });
  const Tensor dense = weight.codes.contiguous();  // one byte per code
  std::vector<std::byte> moved(static_cast<size_t>(n * k));
  for (int64_t row = 0; row < n; ++row)
    for (int64_t i = 0; i < k; ++i)
      moved[static_cast<size_t>(row * k + i)] =
          dense.bytes()[static_cast<size_t>(row * k + weight.columns[static_cast<size_t>(i)])];
  weight.codes = Tensor::from_bytes(dense.dtype, dense.shape, std::move(moved));
  return {};
}

Tensor to_i32(const Tensor& integers, int32_t plus, int32_t mask) {
  auto values = read_elements<int32_t>(integers);
  for (int32_t& v : *values) v = (v + plus) & mask;
  return make_tensor(DType::i32, integers.shape, values);
}

Tensor gather_rows(const Tensor& tensor, const std::vector<int64_t>& rows) {
  const Tensor dense = tensor.contiguous();
  const auto from = dense.bytes();
  const size_t row_bytes = dense.shape[0] > 0 ? from.size() / static_cast<size_t>(dense.shape[0]) : 0;
  std::vector<std::byte> out;
  out.reserve(rows.size() * row_bytes);
  for (int64_t row : rows) {
    const auto bytes = from.subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  std::vector<int64_t> shape = dense.shape;
  shape[0] = static_cast<int64_t>(rows.size());
  return Tensor::from_bytes(dense.dtype, std::move(shape), std::move(out));
}

Tensor repeat_rows(const Tensor& matrix, int64_t times, int64_t n) {
  std::vector<int64_t> rows(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) rows[static_cast<size_t>(i)] = i / times;
  return gather_rows(matrix, rows);
}

}  // namespace qcg

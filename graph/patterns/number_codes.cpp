#include "graph/patterns/number_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "graph/ops/four_bit.h"
#include "graph/patterns/dequantized_weight.h"

namespace qcg {

namespace {

constexpr size_t kMostNumbers = 256;  // that different codes of a byte can stand for

// The different elements in order of appearance, and for every element which one it is; nullopt when there are too
// many.
struct Distinct {
  std::vector<double> numbers;
  std::vector<uint8_t> which;
};
std::optional<Distinct> find_distinct(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  const auto bytes = dense.bytes();
  const size_t size = dtype_bytes(tensor.dtype), count = static_cast<size_t>(tensor.numel());
  Distinct out;
  out.which.reserve(std::min(count, bytes.size()));
  std::unordered_map<uint64_t, uint8_t> seen;
  uint64_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * size, size);
    if (i > 0 && bits == last) {
      out.which.push_back(out.which.back());
      continue;
    }
    last = bits;
    auto [it, fresh] = seen.try_emplace(bits, static_cast<uint8_t>(out.numbers.size()));
    if (fresh) {
      if (out.numbers.size() == kMostNumbers) return std::nullopt;
      out.numbers.push_back(element_to_double(tensor.dtype, bytes.data() + i * size));
    }
    out.which.push_back(it->second);
  }
  return out;
}

// The weight that stands for the number, as far as `dtype` tells them apart.
std::optional<int8_t> weight_in_table(const FourBitFormat& format, double number, DType dtype) {
  const WeightInfo& weight = scheme_info(format.scheme).weight;
  for (int w = weight.low; w <= weight.high; ++w)
    if (holds(weight, w) && round_to_dtype(dtype, format.unit * value_of(weight, w)) == number)
      return static_cast<int8_t>(w);
  return std::nullopt;
}

std::optional<NumberCodes> read_whole(const std::vector<double>& numbers) {
  if (!std::all_of(numbers.begin(), numbers.end(),
                   [](double v) { return std::nearbyint(v) == v && std::abs(v) < 512; }))
    return std::nullopt;
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const auto form = form_of_range(*low, *high);
  if (!form) return std::nullopt;
  NumberCodes out{form->scheme, form->shift, 1, {}};
  for (double v : numbers) out.codes.push_back(static_cast<int8_t>(static_cast<int>(v)));
  return out;
}

std::optional<NumberCodes> read_table(const std::vector<double>& numbers, DType dtype) {
  for (const FourBitFormat& format : kFourBitFormats) {
    NumberCodes out{format.scheme, 0, format.unit, {}};
    for (double number : numbers)
      if (const auto weight = weight_in_table(format, number, dtype)) out.codes.push_back(*weight);
      else break;
    if (out.codes.size() == numbers.size()) return out;
  }
  return std::nullopt;
}

}  // namespace

std::optional<NumberCodes> codes_of_numbers(const Tensor& numbers) {
  const auto distinct = find_distinct(numbers);
  if (!distinct || distinct->numbers.empty()) return std::nullopt;
  auto out = read_whole(distinct->numbers);
  if (!out) out = read_table(distinct->numbers, numbers.dtype);
  if (!out) return std::nullopt;
  const std::vector<int8_t> code_of = std::move(out->codes);
  out->codes.clear();
  out->codes.reserve(distinct->which.size());
  for (uint8_t which : distinct->which) out->codes.push_back(code_of[which]);
  return out;
}

}  // namespace qcg

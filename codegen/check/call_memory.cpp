#include "codegen/check/call_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "graph/ir/tensor.h"

namespace qcg {

namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kFrame = 2 * kLine;  // before and after every argument
constexpr std::byte kPaint{0xcd};
constexpr int64_t kPattern = 65521;  // random elements, then the same again: a prime, so that rows differ

int64_t number_of(const Reach::Number& number, const CallSizes& sizes, size_t arg) {
  return value_of(number, sizes.params, sizes.strides[arg]);
}

int64_t product(std::span<const int64_t> numbers) {
  int64_t out = 1;
  for (const int64_t n : numbers) out *= n;
  return out;
}

std::vector<int64_t> extents_of(const Reach& reach, const CallSizes& sizes, size_t arg) {
  std::vector<int64_t> out;
  for (const Reach::Axis& axis : reach.axes) out.push_back(number_of(axis.extent, sizes, arg));
  return out;
}

std::vector<int64_t> strides_of(const Reach& reach, const CallSizes& sizes, size_t arg) {
  const std::vector<int64_t> extents = extents_of(reach, sizes, arg);
  std::vector<int64_t> out(extents.size());
  for (size_t axis = extents.size(); axis-- > 0;)
    out[axis] = reach.axes[axis].stride ? number_of(*reach.axes[axis].stride, sizes, arg)
                                        : product(std::span(extents).subspan(axis + 1));
  return out;
}

bool is_empty(std::span<const int64_t> extents) {
  return std::ranges::any_of(extents, [](int64_t n) { return n <= 0; });
}

}  // namespace

bool tells_unwritten(DType dtype) { return is_floating(dtype) && dtype_bytes(dtype) > 1; }

Result<CallLayout> CallLayout::of(std::span<const Reach> reaches, const std::vector<ArgumentKind>& kinds,
                                  CallSizes sizes, bool aligned) {
  if (kinds.size() != reaches.size() || sizes.strides.size() != reaches.size())
    return Error::internal("trial", "a kernel family describes more or fewer arguments than a step has");
  CallLayout out;
  for (size_t i = 0; i < reaches.size(); ++i) {
    Block& block = out.blocks_.emplace_back();
    block.kind = kinds[i];
    block.extents = extents_of(reaches[i], sizes, i);
    block.strides = strides_of(reaches[i], sizes, i);
    block.row_stride = sizes.strides[i];
    if (reaches[i].positions) block.positions = allowed_by(*reaches[i].positions, sizes.params, sizes.strides[i]);
    int64_t low = 0, high = 0;
    for (size_t axis = 0; axis < block.extents.size(); ++axis) {
      const int64_t last = (block.extents[axis] - 1) * block.strides[axis];
      (last < 0 ? low : high) += last;
    }
    const bool empty = is_empty(block.extents);
    block.span = empty ? 0 : (high - low + 1) * reaches[i].item;
    block.before = empty ? 0 : -low * reaches[i].item;
    block.at = (out.end_ + kLine - 1) / kLine * kLine + kFrame + (aligned ? 0 : reaches[i].item) + block.before;
    out.end_ = block.at - block.before + block.span + kFrame;
    if (!reaches[i].writes) out.first_output_ = i + 1;
  }
  out.end_ = (out.end_ + kLine - 1) / kLine * kLine;
  out.sizes_ = std::move(sizes);
  return out;
}

Result<CallMemory> CallMemory::create(std::span<const Reach> reaches, const std::vector<ArgumentKind>& kinds,
                                      CallSizes sizes, uint64_t seed) {
  QCG_TRY(layout, CallLayout::of(reaches, kinds, std::move(sizes), false));
  CallMemory out(std::move(layout));
  QCG_CHECK(out.memory_.reserve(out.end_));
  std::memset(out.memory_.data(), static_cast<int>(kPaint), static_cast<size_t>(out.end_));
  for (size_t i = 0; i < out.blocks_.size(); ++i)
    if (i < out.first_output_) out.fill_input(out.blocks_[i], seed + i);
    else out.prepare_output(out.blocks_[i], seed + i);
  out.fill_positions(out.memory_.data(), seed);
  out.args_ = out.args_at(out.memory_.data());
  return out;
}

int64_t CallLayout::elements(size_t arg) const {
  return is_empty(blocks_[arg].extents) ? 0 : product(blocks_[arg].extents);
}

std::vector<int64_t> CallLayout::index_of(size_t arg, int64_t element) const {
  const std::vector<int64_t>& extents = blocks_[arg].extents;
  std::vector<int64_t> out(extents.size());
  for (size_t axis = extents.size(); axis-- > 0; element /= extents[axis]) out[axis] = element % extents[axis];
  return out;
}

int64_t CallLayout::offset_of(size_t arg, std::span<const int64_t> index) const {
  int64_t out = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) out += index[axis] * blocks_[arg].strides[axis];
  return out;
}

double CallMemory::number(size_t arg, int64_t offset) const {
  const DType dtype = blocks_[arg].kind.dtype;
  return element_to_double(dtype, memory_.data() + blocks_[arg].at + offset * static_cast<int64_t>(dtype_bytes(dtype)));
}

int64_t CallMemory::integer(size_t arg, int64_t offset) const {
  const DType dtype = blocks_[arg].kind.dtype;
  return element_to_int(dtype, memory_.data() + blocks_[arg].at + offset * static_cast<int64_t>(dtype_bytes(dtype)));
}

void CallLayout::fill_positions(std::byte* where, uint64_t seed) const {
  std::mt19937_64 rng(seed);
  for (size_t arg = 0; arg < blocks_.size(); ++arg) {
    const Block& block = blocks_[arg];
    if (!block.positions) continue;
    const auto [least, most, ascending] = *block.positions;
    std::uniform_int_distribution<int64_t> uniform(least, std::max(least, most));
    std::vector<int64_t> numbers(static_cast<size_t>(elements(arg)));
    for (int64_t& number : numbers) number = uniform(rng);
    if (ascending && !numbers.empty()) {
      std::ranges::sort(numbers);
      numbers[0] = 0;
    }
    const int64_t size = static_cast<int64_t>(dtype_bytes(block.kind.dtype));
    for (int64_t i = 0; i < std::ssize(numbers); ++i)
      int_to_element(block.kind.dtype, numbers[static_cast<size_t>(i)],
                     where + block.at + offset_of(arg, index_of(arg, i)) * size);
  }
}

std::vector<qcg_arg> CallLayout::args_at(std::byte* where) const {
  std::vector<qcg_arg> out;
  for (const Block& block : blocks_) out.push_back({where + block.at, block.row_stride});
  return out;
}

namespace {

// f64 holds numbers of f32, since some kernels compute it in f32.
double random_element(const ArgumentKind& kind, std::mt19937_64& rng) {
  const double v = std::uniform_real_distribution<double>(kind.low, kind.high)(rng);
  if (!is_floating(kind.dtype)) return std::round(v);
  return kind.dtype == DType::f64 ? static_cast<float>(v) : v;
}

}  // namespace

// Gaps between rows are random as well: nothing may depend on them.
void CallMemory::fill_input(const Block& block, uint64_t seed) {
  std::mt19937_64 rng(seed);
  const DType dtype = block.kind.dtype;
  const int64_t size = static_cast<int64_t>(dtype_bytes(dtype)), count = block.span / size;
  std::byte* const data = memory_.data() + block.at - block.before;
  for (int64_t i = 0; i < std::min(count, kPattern); ++i)
    double_to_element(dtype, random_element(block.kind, rng), data + i * size);
  for (int64_t i = kPattern; i < count; i += kPattern)
    std::memcpy(data + i * size, data, static_cast<size_t>(std::min(kPattern, count - i) * size));
}

// f(first byte of a run along the last axis): runs are all indices of the axes before it.
template <class F>
void CallMemory::for_each_run(const Block& block, F&& f) const {
  const int64_t size = static_cast<int64_t>(dtype_bytes(block.kind.dtype));
  const size_t outer = block.extents.empty() ? 0 : block.extents.size() - 1;
  if (is_empty(block.extents)) return;
  std::vector<int64_t> index(outer, 0);
  for (int64_t offset = 0;;) {
    f(block.at + offset * size);
    size_t axis = outer;
    while (axis > 0 && ++index[axis - 1] == block.extents[axis - 1]) {
      --axis;
      offset -= (index[axis] - 1) * block.strides[axis];
      index[axis] = 0;
    }
    if (axis == 0) return;
    offset += block.strides[axis - 1];
  }
}

// Random elements of one that is updated; of any other, elements that tell whether they were written.
void CallMemory::prepare_output(const Block& block, uint64_t seed) {
  std::mt19937_64 rng(seed);
  const size_t size = dtype_bytes(block.kind.dtype);
  const int64_t count = block.extents.empty() ? 1 : block.extents.back(),
                step = (block.extents.empty() ? 1 : block.strides.back()) * static_cast<int64_t>(size);
  for_each_run(block, [&](int64_t at) {
    for (int64_t i = 0; i < count; ++i) {
      std::byte* const element = memory_.data() + at + i * step;
      if (block.kind.updated) double_to_element(block.kind.dtype, random_element(block.kind, rng), element);
      else std::memset(element, static_cast<int>(kUnwritten), size);
    }
  });
}

std::string CallMemory::find_misplaced() {
  for (size_t o = first_output_; o < blocks_.size(); ++o) {
    const Block& block = blocks_[o];
    const size_t size = dtype_bytes(block.kind.dtype);
    const std::vector<std::byte> untouched(size, kUnwritten);
    const int64_t count = block.extents.empty() ? 1 : block.extents.back(),
                  step = (block.extents.empty() ? 1 : block.strides.back()) * static_cast<int64_t>(size);
    int64_t unwritten = -1;
    for_each_run(block, [&](int64_t at) {
      for (int64_t i = 0; i < count; ++i) {
        std::byte* const element = memory_.data() + at + i * step;
        if (tells_unwritten(block.kind.dtype) && !block.kind.updated && unwritten < 0 &&
            std::memcmp(element, untouched.data(), size) == 0)
          unwritten = at + i * step - block.at;
        std::memset(element, static_cast<int>(kPaint), size);
      }
    });
    if (unwritten >= 0) return fmt::format("output {} is not written at byte {}", o - first_output_, unwritten);
  }
  for (size_t o = first_output_; o < blocks_.size(); ++o) {
    const int64_t first = blocks_[o].at - blocks_[o].before;
    for (int64_t at = first - kFrame; at < first + blocks_[o].span + kFrame; ++at)
      if (memory_.data()[at] != kPaint)
        return fmt::format("wrote outside output {} at byte {} of {}", o - first_output_, at - first, blocks_[o].span);
  }
  return {};
}

namespace {

IntegerRange range_of_integers(DType dtype) {
  if (dtype_bytes(dtype) <= 4) return integer_range(dtype);
  return {dtype == DType::u64 ? 0 : INT64_MIN, INT64_MAX};  // of u64 as much as is needed here
}

}  // namespace

bool is_held(DType dtype, double v) {
  if (dtype == DType::boolean) return true;
  const IntegerRange range = range_of_integers(dtype);
  return std::trunc(v) >= static_cast<double>(range.low) && std::trunc(v) <= static_cast<double>(range.high);
}

ArgumentKind wide_integer_argument(DType dtype) {
  if (dtype == DType::boolean) return {dtype, 0, 1};
  const IntegerRange range = range_of_integers(dtype);
  return {dtype, std::max(static_cast<double>(range.low), -0x1p62), std::min(static_cast<double>(range.high), 0x1p62)};
}

ArgumentKind integer_argument(DType dtype) {
  const ArgumentKind wide = wide_integer_argument(dtype);
  return {dtype, std::max(wide.low, -1000.0), std::min(wide.high, 1000.0)};
}

double bytes_moved(std::span<const Reach> reaches, const CallSizes& sizes) {
  return bytes_moved(reaches, sizes.params, sizes.strides);
}

}  // namespace qcg

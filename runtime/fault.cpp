#include "runtime/fault.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor_view.h"

namespace qcg {
namespace {

using BufferKind = ProgramManifest::BufferKind;

// The numbers that a step reads through one argument, in row-major order over the axes of its reach.
class Numbers {
 public:
  Numbers(const Reach& reach, const qcg_arg& arg, std::span<const int64_t> params) : reach_(reach), arg_(arg) {
    for (const Reach::Axis& axis : reach.axes) extents_.push_back(value_of(axis.extent, params, arg.stride));
    strides_.resize(extents_.size());
    if (std::ranges::any_of(extents_, [](int64_t extent) { return extent <= 0; })) return;
    count_ = 1;
    for (size_t i = extents_.size(); i-- > 0; count_ *= extents_[i])
      strides_[i] = reach.axes[i].stride ? value_of(*reach.axes[i].stride, params, arg.stride) : count_;
  }

  int64_t count() const { return count_; }
  // In elements, from the argument on.
  int64_t offset_of(int64_t number) const {
    int64_t offset = 0;
    for (size_t i = extents_.size(); i-- > 0; number /= extents_[i]) offset += number % extents_[i] * strides_[i];
    return offset;
  }
  int64_t at(int64_t number) const {
    const auto* from = static_cast<const std::byte*>(arg_.data) + offset_of(number) * reach_.item;
    int32_t narrow = 0;
    int64_t wide = 0;
    if (reach_.item == 8) std::memcpy(&wide, from, sizeof wide);
    else std::memcpy(&narrow, from, sizeof narrow), wide = narrow;
    return wide;
  }

 private:
  const Reach& reach_;
  const qcg_arg& arg_;
  std::vector<int64_t> extents_, strides_;
  int64_t count_ = 0;
};

std::optional<int64_t> find_refused(const Numbers& numbers, const PositionRange& range) {
  int64_t least = range.least;
  for (int64_t i = 0; i < numbers.count(); ++i) {
    const int64_t value = numbers.at(i);
    if (value < least || value > range.most || (range.ascending && i == 0 && value != 0)) return i;
    if (range.ascending) least = value;
  }
  return std::nullopt;
}

std::string name_of(const ProgramManifest& m, size_t step, const ProgramManifest::Buffer& buffer, int index) {
  const auto at = static_cast<size_t>(buffer.index);
  if (buffer.kind == BufferKind::input) return "input '" + m.inputs[at].name + "'";
  if (buffer.kind == BufferKind::state) return "state '" + m.states[at].name + "'";
  if (buffer.kind == BufferKind::weights) return "a constant";
  while (step-- > 0)
    for (const auto& arg : m.steps[step].args)
      if (arg.buffer == index && arg.reach && arg.reach->writes)
        return "the result of step '" + m.steps[step].name + "'";
  return "a value";
}

// Where element number `offset` of a dense tensor lies: "[0, 3]".
std::string index_text(const std::vector<SizeExpr>& shape, std::span<const int64_t> symbol_values, int64_t offset) {
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    const int64_t extent = shape[axis].evaluate(symbol_values).value_or(1);
    if (extent <= 0) return "";
    index[axis] = offset % extent;
    offset /= extent;
  }
  return shape_text(index);
}

std::string allowed_text(const PositionRange& range) {
  if (range.most < range.least) return "pass none: the axis that they are looked up in is empty";
  const std::string bounds = std::to_string(range.least) + " to " + std::to_string(range.most);
  return range.ascending ? "pass values that begin with 0 and ascend, all from " + bounds
                         : "pass values from " + bounds;
}

}  // namespace

Error describe_fault(const ProgramManifest& manifest, size_t step, std::span<const qcg_arg> args,
                     std::span<const int64_t> params, std::span<const int64_t> symbol_values, int64_t position) {
  const std::string where = "step '" + manifest.steps[step].name + "'";
  for (size_t i = 0; i < args.size(); ++i) {
    const ProgramManifest::Arg& arg = manifest.steps[step].args[i];
    if (!arg.holds_positions()) continue;
    const Numbers numbers(*arg.reach, args[i], params);
    const PositionRange range = allowed_by(*arg.reach->positions, params, args[i].stride);
    const auto refused = find_refused(numbers, range);
    if (!refused) continue;
    const auto& buffer = manifest.buffers[static_cast<size_t>(arg.buffer)];
    std::string at = "element " + std::to_string(*refused);
    if (buffer.kind == BufferKind::input) {
      const int64_t first = arg.offset.evaluate(symbol_values).value_or(0) / arg.reach->item;
      const auto& input = manifest.inputs[static_cast<size_t>(buffer.index)];
      at = index_text(input.shape, symbol_values, first + numbers.offset_of(*refused));
    }
    return Error::bad_input(where,
                            name_of(manifest, step, buffer, arg.buffer) + " is " +
                                std::to_string(numbers.at(*refused)) + " at " + at + ", which is out of range",
                            allowed_text(range));
  }
  return describe_fault(manifest, step, position);
}

Error describe_fault(const ProgramManifest& manifest, size_t step, int64_t position) {
  return Error::bad_input("step '" + manifest.steps[step].name + "'",
                          "number " + std::to_string(position) + " of the positions that it reads is out of range",
                          "pass positions that exist");
}

}  // namespace qcg

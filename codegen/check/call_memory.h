// CallMemory: one call of any kernel with memory of its own: random inputs, outputs between guards.
//
// Why here: what a kernel touches is said by its family's reaches (runtime/reach.h); where its arguments lie, how they
// are filled and which bytes must survive follows from that for every family.
//
//   QCG_TRY(call, CallMemory::create(reaches, arguments, sizes, seed));
//   run_kernel(pool, kernel, call.call(), workspace);
//   if (std::string what = call.find_misplaced(); !what.empty()) …      // "wrote outside output 0 at byte 4352"
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel/family.h"
#include "runtime/abi.h"
#include "runtime/memory.h"

namespace qcg {

// What outputs hold before a kernel runs. It tells that an element was not written where kernels never write it: all bits
// set are a NaN with its whole payload in floats of several bytes, but the negative NaN in those of one, and an integer.
inline constexpr std::byte kUnwritten{0xff};
bool tells_unwritten(DType dtype);

// Where the arguments of a call lie in one block of memory, each between two frames.
class CallLayout {
 public:
  // Arguments that are written come last. `aligned`: each begins at a cache line, else one element behind it.
  static Result<CallLayout> of(std::span<const Reach> reaches, const std::vector<ArgumentKind>& kinds, CallSizes sizes,
                               bool aligned);

  const CallSizes& sizes() const { return sizes_; }
  size_t args() const { return blocks_.size(); }
  size_t first_output() const { return first_output_; }
  size_t outputs() const { return blocks_.size() - first_output_; }
  DType dtype(size_t arg) const { return blocks_[arg].kind.dtype; }

  // An argument's elements are counted row-major over the axes of its reach.
  const std::vector<int64_t>& extents(size_t arg) const { return blocks_[arg].extents; }
  int64_t elements(size_t arg) const;
  std::vector<int64_t> index_of(size_t arg, int64_t element) const;
  int64_t offset_of(size_t arg, std::span<const int64_t> index) const;  // in elements of memory

  // What an argument spans: bytes, of which so many lie before its first element.
  int64_t span_of(size_t arg) const { return blocks_[arg].span; }
  int64_t before(size_t arg) const { return blocks_[arg].before; }

  // Random numbers that the kernel takes as positions, in the arguments that hold positions.
  void fill_positions(std::byte* where, uint64_t seed) const;
  // The arguments in memory that begins at `where`, at a cache line, and is bytes() long.
  std::vector<qcg_arg> args_at(std::byte* where) const;
  int64_t bytes() const { return end_; }

 protected:
  struct Block {
    ArgumentKind kind;
    std::vector<int64_t> extents, strides;  // of its axes, in elements
    int64_t at = 0, span = 0;               // bytes: where the first element lies, and how many there are in all
    int64_t before = 0;                     // of which so many lie before it: along axes that are walked backwards
    int64_t row_stride = 0;
    std::optional<PositionRange> positions;
  };
  CallSizes sizes_;
  std::vector<Block> blocks_;
  size_t first_output_ = 0;
  int64_t end_ = 0;
};

class CallMemory : public CallLayout {
 public:
  // Errors: there is no memory.
  static Result<CallMemory> create(std::span<const Reach> reaches, const std::vector<ArgumentKind>& kinds,
                                   CallSizes sizes, uint64_t seed);

  qcg_call call() const { return {args_.data(), sizes_.params.data(), nullptr}; }
  double number(size_t arg, int64_t offset) const;
  int64_t integer(size_t arg, int64_t offset) const;  // precondition: of an integer dtype

  // What was written outside an output, or (floats of several bytes only) not written. Once after a run: it paints
  // outputs over.
  std::string find_misplaced();

 private:
  explicit CallMemory(CallLayout layout) : CallLayout(std::move(layout)) {}
  void fill_input(const Block& block, uint64_t seed);
  template <class F>
  void for_each_run(const Block& block, F&& f) const;
  void prepare_output(const Block& block, uint64_t seed);

  AlignedBuffer memory_;
  std::vector<qcg_arg> args_;
};

// Integers that f32 holds and the dtype, too; as many as the dtype has, up to 2^62.
ArgumentKind integer_argument(DType dtype);
ArgumentKind wide_integer_argument(DType dtype);
// Whether an integer dtype holds the whole part of v.
bool is_held(DType dtype, double v);

// What is read and written once (runtime/reach.h).
double bytes_moved(std::span<const Reach> reaches, const CallSizes& sizes);

}  // namespace qcg

// The run-time tensors of one call of a Case's kernel, each between pages that trap, and a serial driver.
//
// Why here: what a kernel reads or writes outside its tensors must crash the test.
//
//   CallData data = make_call(c, 7, true);       // m = 7, buffers end at the guard page
//   run_kernel(c, data, true, 1);
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "gemm_case.h"

namespace qcg::test {

// Bytes that end (or begin) exactly at a page that cannot be touched.
class GuardedBuffer {
 public:
  GuardedBuffer(size_t bytes, bool at_end, size_t align = 1) : bytes_(bytes) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    inner_ = (bytes + page - 1) / page * page + (bytes == 0 ? page : 0);
    base_ = static_cast<std::byte*>(mmap(nullptr, inner_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    REQUIRE(mprotect(base_ + page, inner_, PROT_READ | PROT_WRITE) == 0);
    total_ = inner_ + 2 * page;
    const size_t slack = at_end ? (inner_ - bytes) / align * align : 0;
    data_ = base_ + page + slack;
    std::memset(base_ + page, 0xff, inner_);
  }
  GuardedBuffer(GuardedBuffer&& o) noexcept
      : base_(std::exchange(o.base_, nullptr)), data_(o.data_), bytes_(o.bytes_), inner_(o.inner_), total_(o.total_) {}
  ~GuardedBuffer() {
    if (base_) munmap(base_, total_);
  }
  std::byte* data() { return data_; }
  size_t size() const { return bytes_; }
  std::span<std::byte> span() { return {data_, bytes_}; }

 private:
  std::byte* base_;
  std::byte* data_;
  size_t bytes_, inner_ = 0, total_ = 0;
};

// The rows of every x in images of 2 lines of 3 columns, with gaps between all of them.
struct WindowPlaces {
  static constexpr int64_t kLines = 2, kColumns = 3;
  int64_t column, line = kColumns * column + 2, image = kLines * line + 5;
  int64_t at(int64_t row) const {
    return row / (kLines * kColumns) * image + row / kColumns % kLines * line + row % kColumns * column;
  }
  std::vector<int64_t> params(int64_t m) const {
    return {m, (m + kLines * kColumns - 1) / (kLines * kColumns), kLines, kColumns, image, line, column};
  }
};

// All run-time tensors of one call, in the order of the kernel's arguments.
struct CallData {
  std::vector<GuardedBuffer> buffers;
  std::vector<int64_t> strides, params;
  std::vector<Tensor> xs, operands;  // logical copies for the oracle
  std::vector<double> x_scale;
  std::vector<int64_t> x_zero;
  std::optional<WindowPlaces> places;  // windowed: of the rows of every x
  size_t first_output = 0;
  int64_t x_at(size_t source, int64_t row) const { return places ? places->at(row) : row * strides[source]; }
};

inline size_t strided_bytes(int64_t rows, int64_t width, int64_t stride, DType d) {
  return rows == 0 || width == 0 ? 0 : size_t((rows - 1) * stride + width) * dtype_bytes(d);
}

inline void put_rows(CallData& data, const Tensor& t, int64_t stride, bool at_end) {
  const int64_t rows = t.shape[0], width = t.shape[1];
  const size_t row_bytes = size_t(width) * dtype_bytes(t.dtype);
  GuardedBuffer buffer(strided_bytes(rows, width, stride, t.dtype), at_end, dtype_bytes(t.dtype));
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(buffer.data() + size_t(r * stride) * dtype_bytes(t.dtype),
                t.storage->bytes.data() + size_t(r) * row_bytes, row_bytes);
  data.buffers.push_back(std::move(buffer));
  data.strides.push_back(stride);
}

inline void put_windows(CallData& data, const Tensor& t, bool at_end) {
  const int64_t rows = t.shape[0], width = t.shape[1];
  const size_t bytes = dtype_bytes(t.dtype), row_bytes = size_t(width) * bytes;
  GuardedBuffer buffer(rows == 0 ? 0 : size_t(data.places->at(rows - 1) + width) * bytes, at_end, bytes);
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(buffer.data() + size_t(data.places->at(r)) * bytes, t.storage->bytes.data() + size_t(r) * row_bytes,
                row_bytes);
  data.buffers.push_back(std::move(buffer));
  data.strides.push_back(0);
}

inline CallData make_call(Case& c, int64_t m, bool at_end, int64_t clean_row = -1) {
  const Problem& p = c.problem;
  std::mt19937_64 rng(c.seed * 7919 + uint64_t(m));
  CallData d;
  const bool integer = !is_floating(p.activation);
  if (p.windowed) d.places = {*std::ranges::max_element(p.k_segments) + 1};
  d.params = p.windowed ? d.places->params(m) : std::vector{m};
  for (int64_t width : p.k_segments) {
    const double low = p.activation == DType::u8 ? 0 : -128, high = p.activation == DType::u8 ? 255 : 127,
                 most = largest(p.activation);
    const bool ends = c.numbers == Numbers::ends;
    Tensor x = integer            ? ends ? ends_tensor(p.activation, {m, width}, rng, low, high)
                                         : random_tensor(p.activation, {m, width}, rng, low, high, true)
                          : ends && most > 1 ? ends_tensor(p.activation, {m, width}, rng, -most, most)
                                  : random_tensor(p.activation, {m, width}, rng, -2, 2, c.powers);
    if (clean_row >= 0 && !integer) {
      auto* bytes = const_cast<std::byte*>(x.storage->bytes.data());
      for (int64_t i = 0; i < m * width; ++i)
        if (i / width != clean_row)
          double_to_element(p.activation, std::nan(""), bytes + size_t(i) * dtype_bytes(p.activation));
    }
    d.xs.push_back(x);
    if (p.windowed) put_windows(d, x, at_end);
    else put_rows(d, x, width + 3, at_end);
  }
  if (scheme_info(p.scheme).quantized_activation) {
    Tensor s =
        c.powers ? power_tensor(DType::f32, {m, 1}, rng) : random_tensor(DType::f32, {m, 1}, rng, 0.001, 0.05, false);
    for (int64_t r = 0; r < m; ++r) d.x_scale.push_back(element_to_double(DType::f32, s.storage->bytes.data() + r * 4));
    put_rows(d, s, 1, at_end);
  }
  if (p.x_has_zero) {
    const double low = p.activation == DType::u8 ? 0 : -128, high = p.activation == DType::u8 ? 255 : 127;
    Tensor z = c.numbers == Numbers::ends ? ends_tensor(DType::i32, {m, 1}, rng, low, high)
                                          : random_tensor(DType::i32, {m, 1}, rng, low, high, true);
    for (int64_t r = 0; r < m; ++r) d.x_zero.push_back(element_to_int(DType::i32, z.storage->bytes.data() + r * 4));
    put_rows(d, z, 1, at_end);
  }
  for (const Operand& o : p.operands) {
    const int64_t n = p.outputs[0].n;
    const bool rows = o.broadcast == Broadcast::full || o.broadcast == Broadcast::column;
    const bool columns = o.broadcast == Broadcast::full || o.broadcast == Broadcast::row;
    Tensor t = random_tensor(o.dtype, {rows ? m : 1, columns ? n : 1}, rng, -3, 3, c.powers);
    d.operands.push_back(t);
    put_rows(d, t, (columns ? n : 1) + (o.broadcast == Broadcast::full ? 5 : 0), at_end);
  }
  GuardedBuffer weights(c.packed.size(), at_end, 64);
  std::memcpy(weights.data(), c.packed.data(), c.packed.size());
  d.buffers.push_back(std::move(weights));
  d.strides.push_back(0);
  d.first_output = d.buffers.size();
  for (const Output& o : p.outputs) {
    const int64_t stride = o.n + 2;
    d.buffers.emplace_back(strided_bytes(m, o.n, stride, o.dtype), at_end, dtype_bytes(o.dtype));
    d.strides.push_back(stride);
  }
  return d;
}

// pieces: how many ranges each phase is cut into; they run last to first, each with scratch of its own.
inline void run_kernel(const Case& c, CallData& d, bool at_end, int64_t pieces) {
  std::vector<qcg_arg> args;
  for (size_t i = 0; i < d.buffers.size(); ++i) args.push_back({d.buffers[i].data(), d.strides[i]});
  qcg_call call{args.data(), d.params.data(), nullptr};
  GuardedBuffer shared(size_t((c.kernel->shared_bytes(&call) + 63) / 64 * 64), at_end, 64);
  call.shared = shared.data();
  for (uint32_t phase = 0; phase < c.kernel->phases; ++phase) {
    const int64_t items = c.kernel->items(&call, phase);
    const int64_t cut = std::max<int64_t>(1, (items + pieces - 1) / pieces);
    for (int64_t begin = (items - 1) / cut * cut; begin >= 0 && items > 0; begin -= cut) {
      GuardedBuffer scratch(size_t((c.kernel->scratch_bytes(&call) + 63) / 64 * 64), at_end, 64);
      c.kernel->run(&call, phase, begin, std::min(items, begin + cut), scratch.data());
    }
  }
}

}  // namespace qcg::test

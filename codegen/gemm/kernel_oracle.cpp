#include "codegen/gemm/kernel_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"

namespace qcg {

namespace {

constexpr int64_t kFrame = 64, kGap = 3;  // bytes before and after, elements between rows
constexpr std::byte kPaint{0xcd};
constexpr int64_t kAllColumnsLimit = int64_t{1}
                                     << 22;  // weights; larger problems are sampled, every panel at least once
constexpr int64_t kPanelSample = 32, kEdgeColumns = 33;
constexpr int64_t kMaxRows = 24, kMaxRowsSampled = 12;

Tensor random_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937_64& rng, double low, double high) {
  Tensor out = Tensor::zeros(dtype, std::move(shape));
  std::vector<std::byte> bytes(out.bytes().begin(), out.bytes().end());
  std::uniform_real_distribution<double> uniform(low, high);
  for (int64_t i = 0; i < out.numel(); ++i) {
    double v = uniform(rng);
    if (low < 0 && is_floating(dtype)) v = (v < 0 ? low : high) * 0.25 + 0.75 * v;  // every weight is to be seen
    if (!is_floating(dtype)) v = std::round(v);
    double_to_element(dtype, v, bytes.data() + static_cast<size_t>(i) * dtype_bytes(dtype));
  }
  return Tensor::from_bytes(dtype, out.shape, std::move(bytes));
}

// Every third row keeps only a few elements: there the error bound is tight.
Tensor thin_rows(const Tensor& dense, std::mt19937_64& rng) {
  const int64_t m = dense.shape[0], k = dense.shape[1];
  const size_t size = dtype_bytes(dense.dtype);
  std::vector<std::byte> bytes(dense.bytes().begin(), dense.bytes().end());
  for (int64_t row = 1; row < m; row += 3) {
    std::vector<bool> keep(static_cast<size_t>(k), false);
    for (int i = 0; i < 8; ++i) keep[rng() % static_cast<uint64_t>(k)] = true;
    for (int64_t i = 0; i < k; ++i)
      if (!keep[static_cast<size_t>(i)]) std::memset(bytes.data() + static_cast<size_t>(row * k + i) * size, 0, size);
  }
  return Tensor::from_bytes(dense.dtype, dense.shape, std::move(bytes));
}

// The chosen rows of a [m, width] tensor after those of others.
void append_rows(const Tensor& t, const std::vector<int64_t>& rows, std::vector<std::byte>& out) {
  const size_t bytes = static_cast<size_t>(t.shape[1]) * dtype_bytes(t.dtype);
  for (int64_t row : rows) {
    const std::byte* from = t.bytes().data() + static_cast<size_t>(row) * bytes;
    out.insert(out.end(), from, from + bytes);
  }
}

}  // namespace

KernelInputs::KernelInputs(const Problem& problem, int64_t m, uint64_t seed) : m_(m), params_{m} {
  std::mt19937_64 rng(seed);
  const bool integer = !is_floating(problem.activation);
  const double low = problem.activation == DType::u8 ? 0
                     : integer                       ? -128
                                                     : -1,
               high = problem.activation == DType::u8 ? 255
                      : integer                       ? 127
                                                      : 1;
  for (int64_t width : problem.k_segments) {
    Tensor x = random_tensor(problem.activation, {m, width}, rng, low, high);
    tensors_.push_back(width > 0 ? thin_rows(x, rng) : x);
  }
  if (scheme_info(problem.scheme).quantized_activation) {
    tensors_.push_back(random_tensor(DType::f32, {m, 1}, rng, 0.001, 0.02));
    if (problem.x_has_zero) tensors_.push_back(random_tensor(DType::i32, {m, 1}, rng, -60, 60));
  }
  for (size_t o = 0; o < problem.operands.size(); ++o) {
    int64_t n = 1;
    for (const Output& output : problem.outputs) n = std::max(n, output.n);
    const Broadcast b = problem.operands[o].broadcast;
    const int64_t rows = b == Broadcast::full || b == Broadcast::column ? m : 1;
    const int64_t columns = b == Broadcast::full || b == Broadcast::row ? n : 1;
    tensors_.push_back(random_tensor(problem.operands[o].dtype, {rows, columns}, rng, -2, 2));
  }
  if (problem.windowed) place_windows(problem);
}

// The rows of every x in images of 9 lines of 14 columns, with gaps behind lines and images; the last has fewer.
void KernelInputs::place_windows(const Problem& problem) {
  constexpr int64_t kLines = 9, kColumns = 14;
  const int64_t images = (m_ + kLines * kColumns - 1) / (kLines * kColumns),
                column = *std::ranges::max_element(problem.k_segments), line = kColumns * column + kGap,
                image = kLines * line + kGap;
  params_.insert(params_.end(), {images, kLines, kColumns, image, line, column});
  const auto size = static_cast<int64_t>(dtype_bytes(problem.activation));
  for (size_t s = 0; s < problem.k_segments.size(); ++s) {
    const int64_t width = problem.k_segments[s] * size;
    std::vector<std::byte>& bytes = images_.emplace_back(static_cast<size_t>(images * image * size), kUnwritten);
    for (int64_t row = 0; row < m_; ++row) {
      const int64_t at = row / (kLines * kColumns) * image + row / kColumns % kLines * line + row % kColumns * column;
      std::copy_n(tensors_[s].bytes().begin() + row * width, width, bytes.begin() + at * size);
    }
  }
}

std::vector<qcg_arg> KernelInputs::args() const {
  std::vector<qcg_arg> out;
  for (const Tensor& t : tensors_) out.push_back({const_cast<std::byte*>(t.bytes().data()), t.shape[1]});
  for (size_t s = 0; s < images_.size(); ++s) out[s] = {const_cast<std::byte*>(images_[s].data()), 0};
  return out;
}

GuardedOutputs::GuardedOutputs(const Problem& problem, int64_t m) : m_(m) {
  for (const Output& output : problem.outputs) {
    Block block{output.dtype, output.n, output.n + kGap, {}};
    const int64_t size = static_cast<int64_t>(dtype_bytes(output.dtype));
    block.bytes.assign(static_cast<size_t>(2 * kFrame + m * block.stride * size), kPaint);
    for (int64_t row = 0; row < m; ++row)
      std::fill_n(block.bytes.begin() + kFrame + row * block.stride * size, block.n * size, kUnwritten);
    blocks_.push_back(std::move(block));
  }
}

void GuardedOutputs::append_args(std::vector<qcg_arg>& args) {
  for (Block& block : blocks_) args.push_back({block.bytes.data() + kFrame, block.stride});
}

std::vector<GuardedOutputs::Memory> GuardedOutputs::memory() {
  std::vector<Memory> out;
  for (Block& block : blocks_) out.push_back({block.bytes, kFrame, block.stride});
  return out;
}

double GuardedOutputs::value(size_t output, int64_t row, int64_t column) const {
  const Block& block = blocks_[output];
  return element_to_double(
      block.dtype,
      block.bytes.data() + kFrame + static_cast<size_t>(row * block.stride + column) * dtype_bytes(block.dtype));
}

std::string GuardedOutputs::find_stray_write() const {
  for (size_t o = 0; o < blocks_.size(); ++o) {
    const Block& block = blocks_[o];
    const int64_t size = static_cast<int64_t>(dtype_bytes(block.dtype)), end = static_cast<int64_t>(block.bytes.size());
    int64_t begin = 0;  // of the paint before a row
    for (int64_t row = 0; row <= m_; ++row) {
      const int64_t stop = row < m_ ? kFrame + row * block.stride * size : end;
      for (int64_t i = begin; i < stop; ++i)
        if (block.bytes[static_cast<size_t>(i)] != kPaint)
          return fmt::format("wrote outside output {} at byte {} of {}", o, i - kFrame, m_ * block.stride * size);
      begin = stop + block.n * size;
    }
  }
  return {};
}

std::string GuardedOutputs::find_unwritten() const {
  for (size_t o = 0; o < blocks_.size(); ++o) {
    const Block& block = blocks_[o];
    const size_t size = dtype_bytes(block.dtype);
    if (!tells_unwritten(block.dtype)) continue;
    const std::vector<std::byte> untouched(size, kUnwritten);
    for (int64_t row = 0; row < m_; ++row)
      for (int64_t n = 0; n < block.n; ++n)
        if (std::memcmp(block.bytes.data() + kFrame + static_cast<size_t>(row * block.stride + n) * size,
                        untouched.data(), size) == 0)
          return fmt::format("output {} is not written at m={}, n={}", o, row, n);
  }
  return {};
}

KernelCall::KernelCall(const KernelInputs& inputs, std::span<const std::byte> packed, GuardedOutputs& outputs,
                       const VendorCall* vendor)
    : args(inputs.args()), params(inputs.params()) {
  args.push_back({const_cast<std::byte*>(packed.data()), 0});
  outputs.append_args(args);
  if (!vendor) return;
  args.push_back({const_cast<std::byte*>(vendor->weights.data()), 0});
  params.insert(params.end(), vendor->params.begin(), vendor->params.end());
}

KernelOracle::KernelOracle(const Problem& problem, const std::vector<SegmentTensors>& tensors,
                           std::span<const int64_t> ms, uint64_t seed)
    : problem_(problem) {
  std::mt19937_64 rng(seed + 1);
  size_t rows = 0;
  for (int64_t m : ms) {
    calls_.push_back({KernelInputs(problem, m, seed + static_cast<uint64_t>(m)), choose_rows(m, rng), rows});
    rows += calls_.back().rows.size();
  }
  for (const Output& output : problem_.outputs) expected_.push_back({choose_columns(output, rng), {}, {}});
  if (rows == 0) return;  // m = 0 writes nothing, which find_stray_write() checks
  if (const Status status = compute(tensors); !status.ok()) failure_ = "the reference: " + status.error().message;
}

// The first rows, the last ones (a partial tile) and some between.
std::vector<int64_t> KernelOracle::choose_rows(int64_t m, std::mt19937_64& rng) const {
  const int64_t limit = std::min(m, problem_.n_total() * problem_.k <= kAllColumnsLimit ? kMaxRows : kMaxRowsSampled);
  std::set<int64_t> rows;
  for (int64_t i = 0; i < limit / 3; ++i) rows.insert(i), rows.insert(m - 1 - i);
  while (static_cast<int64_t>(rows.size()) < limit) rows.insert(static_cast<int64_t>(rng() % static_cast<uint64_t>(m)));
  return {rows.begin(), rows.end()};
}

std::vector<int64_t> KernelOracle::choose_columns(const Output& output, std::mt19937_64& rng) const {
  std::set<int64_t> columns;
  const bool all = output.n * problem_.k <= kAllColumnsLimit;
  for (int64_t n = 0; n < output.n; ++n)
    if (all || n < kEdgeColumns || n >= output.n - kEdgeColumns) columns.insert(n);
  for (int64_t panel = 0; panel < output.n; panel += kPanelSample)
    columns.insert(std::min(output.n - 1, panel + static_cast<int64_t>(rng() % kPanelSample)));
  return {columns.begin(), columns.end()};
}

// The linear at the chosen rows of every call, one below the other.
LinearOperands KernelOracle::gather_operands(const std::vector<SegmentTensors>& tensors) const {
  LinearOperands out;
  out.scheme = problem_.scheme;
  out.group = problem_.group;
  out.zeros_apart = zeros_by_column(problem_);
  const Call& last = calls_.back();
  const int64_t rows = static_cast<int64_t>(last.first_row + last.rows.size());
  auto gather = [&](size_t index) {
    const Tensor& like = last.inputs.tensors()[index];
    std::vector<std::byte> bytes;
    for (const Call& call : calls_) append_rows(call.inputs.tensors()[index], call.rows, bytes);
    return Tensor::from_bytes(like.dtype, {rows, like.shape[1]}, std::move(bytes));
  };
  const size_t parts = problem_.k_segments.size();
  for (size_t s = 0; s < parts; ++s) out.xs.push_back(gather(s));
  if (scheme_info(problem_.scheme).quantized_activation) out.x_scale = gather(parts);
  if (out.x_scale.bound() && problem_.x_has_zero) out.x_zero = gather(parts + 1);
  for (const SegmentTensors& t : tensors) out.segments.push_back({t.weight, t.scales, t.zeros, t.bias, t.offsets});
  return out;
}

Status KernelOracle::compute(const std::vector<SegmentTensors>& tensors) {
  const LinearOperands operands = gather_operands(tensors);
  for (size_t o = 0; o < problem_.outputs.size(); ++o) {
    std::vector<LinearReference> segments(problem_.segments.size());
    for (int j : problem_.outputs[o].segments) {
      QCG_TRY(reference, reference_linear(operands, static_cast<size_t>(j), {}, expected_[o].columns));
      segments[static_cast<size_t>(j)] = std::move(reference);
    }
    add_expected(o, segments);
  }
  return {};
}

void KernelOracle::add_expected(size_t output, const std::vector<LinearReference>& segments) {
  const Output& o = problem_.outputs[output];
  Expected& out = expected_[output];
  const double k = static_cast<double>(problem_.k);
  const bool integer = !is_floating(problem_.activation), exact = problem_.scheme == Scheme::s8s8;
  const double groups = static_cast<double>(problem_.groups());
  // The integers of a group are exact, their products with scales are added up in f32.
  const double unit = exact ? 0 : integer ? 0x1p-24 * (groups + 4) : sum_unit(k);
  // f32 rounds denormals in steps of one size; dot products of bf16 take them for zero (activations here are at most
  // 1).
  const bool flushes = problem_.scheme == Scheme::dense && problem_.activation == DType::bf16;
  const double denormal = exact ? 0 : (groups + 4) * 0x1p-149 + (flushes ? 2 * k * 0x1p-126 : 0);
  std::vector<double> accs(segments.size()), errors(segments.size()), ins(problem_.operands.size());
  for (const Call& call : calls_)
    for (size_t r = 0; r < call.rows.size(); ++r)
      for (size_t c = 0; c < out.columns.size(); ++c) {
        const size_t at = (call.first_row + r) * out.columns.size() + c;
        for (int j : o.segments) {
          accs[static_cast<size_t>(j)] = segments[static_cast<size_t>(j)].y[at];
          errors[static_cast<size_t>(j)] = unit * segments[static_cast<size_t>(j)].abs_sum[at] + denormal;
        }
        for (size_t i = 0; i < ins.size(); ++i) {
          const Tensor& t = call.inputs.tensors()[call.inputs.tensors().size() - ins.size() + i];
          const int64_t index[2] = {t.shape[0] == 1 ? 0 : call.rows[r], t.shape[1] == 1 ? 0 : out.columns[c]};
          ins[i] = element_to_double(t.dtype, t.element(index));
        }
        const auto [value, tolerance] = evaluate_with_tolerance(o.expr, accs, errors, ins);
        const double rounding = exact && !is_floating(o.dtype) ? 0 : half_ulp(o.dtype, value);
        const auto [want, bound] = within_range(o.dtype, value, tolerance + rounding);
        out.want.push_back(want), out.bound.push_back(bound);
      }
}

OracleReport KernelOracle::check(const Call& call, const GuardedOutputs& outputs) const {
  OracleReport report;
  report.reason = outputs.find_stray_write();
  if (report.reason.empty()) report.reason = outputs.find_unwritten();
  if (!report.reason.empty()) {
    report.ok = false;
    return report;
  }
  double worst = 0;
  for (size_t o = 0; o < expected_.size(); ++o)
    for (size_t r = 0; r < call.rows.size(); ++r)
      for (size_t c = 0; c < expected_[o].columns.size(); ++c) {
        const size_t i = (call.first_row + r) * expected_[o].columns.size() + c;
        const int64_t column = expected_[o].columns[c];
        const qcg::Expected expected{expected_[o].want[i], expected_[o].bound[i]};
        const double got = outputs.value(o, call.rows[r], column);
        double error = 0;
        const double ratio = error_ratio(expected, got, error);
        if (ratio <= worst) continue;
        worst = ratio;
        report.max_error = error;
        report.bound = expected.bound;
        if (ratio > 1)
          report.reason =
              fmt::format("{} at output {}, m={}, n={}", describe_error(expected, got, error), o, call.rows[r], column);
      }
  report.ok = worst <= 1;
  if (!report.ok) report.reason += fmt::format(" of {} rows", call.inputs.m());
  return report;
}

OracleReport KernelOracle::run_and_check(ThreadPool& pool, const qcg_kernel& kernel, std::span<const std::byte> packed,
                                         const VendorCall* vendor) const {
  Workspace workspace;
  return run_and_check([&](const KernelInputs& inputs, GuardedOutputs& outputs) {
    const KernelCall arguments(inputs, packed, outputs, vendor);
    return run_kernel(pool, kernel, arguments.call(), workspace);
  });
}

OracleReport KernelOracle::run_and_check(const std::function<Status(const KernelInputs&, GuardedOutputs&)>& run) const {
  if (!failure_.empty()) return {false, 0, 0, failure_};
  OracleReport worst;
  for (const Call& call : calls_) {
    GuardedOutputs outputs(problem_, call.inputs.m());
    if (const Status status = run(call.inputs, outputs); !status.ok()) return {false, 0, 0, status.error().message};
    const OracleReport report = check(call, outputs);
    if (!report.ok) return report;
    if (report.max_error >= worst.max_error) worst = report;
  }
  return worst;
}

}  // namespace qcg

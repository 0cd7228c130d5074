#include "codegen/kernel_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

namespace qcg {

namespace {

constexpr int64_t kFrame = 64, kGap = 3;         // bytes before and after, elements between rows
constexpr std::byte kPaint{0xcd}, kUnwritten{0xff};  // 0xff… is a NaN in every float dtype
constexpr int64_t kAllColumnsLimit = int64_t{1} << 22;  // weights; larger problems are sampled, every panel at least once
constexpr int64_t kPanelSample = 32, kEdgeColumns = 33;
constexpr int64_t kMaxRows = 24;

Tensor random_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937_64& rng, double low, double high) {
  Tensor out = Tensor::zeros(dtype, std::move(shape));
  std::vector<std::byte> bytes(out.bytes().begin(), out.bytes().end());
  std::uniform_real_distribution<double> uniform(low, high);
  for (int64_t i = 0; i < out.numel(); ++i) {
    double v = uniform(rng);
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

double half_ulp(DType dtype, double v) {
  if (!is_floating(dtype)) return 0.5;
  const int digits = dtype == DType::f32 ? 24 : dtype == DType::bf16 ? 8 : dtype == DType::f16 ? 11 : 53;
  const int smallest = dtype == DType::f16 ? -24 : -149;
  const double exponent = v == 0 ? smallest : std::max(std::ilogb(v) - digits, smallest);
  return std::ldexp(1.001, static_cast<int>(exponent));
}

// One output column of a segment as doubles: dequantized weights over k.
void dequantize_column(const Problem& problem, const SegmentTensors& t, int64_t n, std::vector<double>& out) {
  auto at = [](const Tensor& tensor, int64_t i, int64_t j) {
    const int64_t index[2] = {i, std::min(j, tensor.shape.size() > 1 ? tensor.shape[1] - 1 : 0)};
    return element_to_double(tensor.dtype, tensor.element(std::span(index, tensor.shape.size())));
  };
  const bool scaled = scheme_info(problem.scheme).has_scales;
  for (int64_t k = 0; k < problem.k; ++k) {
    const int64_t group = problem.group ? k / problem.group : 0;
    double w = at(t.weight, n, k);
    if (t.zeros.bound()) w -= at(t.zeros, n, group);
    if (scaled) w *= at(t.scales, n, group);
    out[static_cast<size_t>(k)] = w;
  }
}

}  // namespace

KernelInputs::KernelInputs(const Problem& problem, int64_t m, uint64_t seed) : m_(m) {
  std::mt19937_64 rng(seed);
  const bool integer = !is_floating(problem.activation);
  const double low = problem.activation == DType::u8 ? 0 : integer ? -128 : -1, high = problem.activation == DType::u8 ? 255 : integer ? 127 : 1;
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
}

std::vector<qcg_arg> KernelInputs::args() const {
  std::vector<qcg_arg> out;
  for (const Tensor& t : tensors_) out.push_back({const_cast<std::byte*>(t.bytes().data()), t.shape[1]});
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

double GuardedOutputs::value(size_t output, int64_t row, int64_t column) const {
  const Block& block = blocks_[output];
  return element_to_double(block.dtype, block.bytes.data() + kFrame + static_cast<size_t>(row * block.stride + column) * dtype_bytes(block.dtype));
}

std::string GuardedOutputs::find_stray_write() const {
  for (size_t o = 0; o < blocks_.size(); ++o) {
    const Block& block = blocks_[o];
    const int64_t size = static_cast<int64_t>(dtype_bytes(block.dtype));
    for (int64_t i = 0; i < static_cast<int64_t>(block.bytes.size()); ++i) {
      const int64_t at = i - kFrame;
      const bool inside = at >= 0 && at < m_ * block.stride * size && at / size % block.stride < block.n;
      if (!inside && block.bytes[static_cast<size_t>(i)] != kPaint)
        return fmt::format("wrote outside output {} at byte {} of {}", o, at, m_ * block.stride * size);
    }
  }
  return {};
}

KernelOracle::KernelOracle(const Problem& problem, const std::vector<SegmentTensors>& tensors, int64_t m, uint64_t seed)
    : problem_(problem), inputs_(problem, m, seed) {
  choose_points(seed + 1);
  compute(tensors);
}

void KernelOracle::choose_points(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const int64_t m = inputs_.m();
  std::set<int64_t> rows;
  for (int64_t i = 0; i < std::min(m, kMaxRows / 4); ++i) rows.insert(i), rows.insert(m - 1 - i);
  while (static_cast<int64_t>(rows.size()) < std::min(m, kMaxRows)) rows.insert(static_cast<int64_t>(rng() % static_cast<uint64_t>(m)));
  rows_.assign(rows.begin(), rows.end());
  for (const Output& output : problem_.outputs) {
    std::set<int64_t> columns;
    const bool all = output.n * problem_.k <= kAllColumnsLimit;
    for (int64_t n = 0; n < output.n; ++n)
      if (all || n < kEdgeColumns || n >= output.n - kEdgeColumns) columns.insert(n);
    for (int64_t panel = 0; panel < output.n; panel += kPanelSample)
      columns.insert(std::min(output.n - 1, panel + static_cast<int64_t>(rng() % kPanelSample)));
    expected_.push_back({{columns.begin(), columns.end()}, {}, {}});
  }
}

void KernelOracle::compute(const std::vector<SegmentTensors>& tensors) {
  const size_t k_total = static_cast<size_t>(problem_.k), parts = problem_.k_segments.size();
  const bool quantized = scheme_info(problem_.scheme).quantized_activation, exact = !is_floating(problem_.activation);
  // x^ of the chosen rows, concatenated over the K segments, in double.
  std::vector<std::vector<double>> x(rows_.size());
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t s = 0; s < parts; ++s)
      for (int64_t i = 0; i < problem_.k_segments[s]; ++i) {
        const int64_t index[2] = {rows_[r], i};
        x[r].push_back(element_to_double(problem_.activation, inputs_.tensors()[s].element(index)));
      }
    if (!quantized) continue;
    const int64_t index[2] = {rows_[r], 0};
    const double scale = element_to_double(DType::f32, inputs_.tensors()[parts].element(index));
    const double zero = problem_.x_has_zero ? element_to_double(DType::i32, inputs_.tensors()[parts + 1].element(index)) : 0;
    for (double& v : x[r]) v = (v - zero) * scale;
  }
  const double k = static_cast<double>(problem_.k);
  const double unit = exact ? 0x1p-22 : 0x1p-24 * std::min(k + 2, 8 * std::sqrt(k) + 8);
  std::vector<std::vector<double>> w(problem_.segments.size(), std::vector<double>(k_total));
  for (size_t o = 0; o < problem_.outputs.size(); ++o) {
    const Output& output = problem_.outputs[o];
    Expected& expected = expected_[o];
    std::vector<double> accs(problem_.segments.size()), errors(problem_.segments.size());
    for (int64_t column : expected.columns) {
      for (int j : output.segments) dequantize_column(problem_, tensors[static_cast<size_t>(j)], column, w[static_cast<size_t>(j)]);
      for (size_t r = 0; r < rows_.size(); ++r) {
        for (int segment : output.segments) {
          const size_t j = static_cast<size_t>(segment);
          double sum = 0, magnitude = 0;
          for (size_t i = 0; i < k_total; ++i) {
            const double product = x[r][i] * w[j][i];
            sum += product;
            magnitude += std::fabs(product);
          }
          if (tensors[j].bias.bound()) {
            const Tensor& bias = tensors[j].bias;
            const double b = element_to_double(bias.dtype, bias.element(std::span(&column, 1)));
            sum += b;
            magnitude += std::fabs(b);
          }
          accs[j] = sum;
          errors[j] = problem_.scheme == Scheme::s8s8 ? 0 : unit * magnitude;
        }
        add_expected(expected, o, r, column, accs, errors);
      }
    }
  }
}

double KernelOracle::operand(size_t index, int64_t row, int64_t column) const {
  const Tensor& t = inputs_.tensors()[inputs_.tensors().size() - problem_.operands.size() + index];
  const int64_t at[2] = {t.shape[0] == 1 ? 0 : row, t.shape[1] == 1 ? 0 : column};
  return element_to_double(t.dtype, t.element(at));
}

void KernelOracle::add_expected(Expected& out, size_t output, size_t row_index, int64_t column, std::vector<double>& accs,
                                const std::vector<double>& errors) const {
  const Output& o = problem_.outputs[output];
  std::vector<double> ins;
  for (size_t i = 0; i < problem_.operands.size(); ++i) ins.push_back(operand(i, rows_[row_index], column));
  const double want = o.expr.evaluate(accs, ins);
  double bound = half_ulp(o.dtype, want);
  if (problem_.scheme == Scheme::s8s8 && !is_floating(o.dtype)) bound = 0;
  for (int segment : o.segments) {
    const size_t j = static_cast<size_t>(segment);
    const double acc = accs[j];
    double change = 0;
    for (double sign : {-1.0, 1.0}) {
      accs[j] = acc + sign * errors[j];
      change = std::max(change, std::fabs(o.expr.evaluate(accs, ins) - want));
    }
    accs[j] = acc;
    bound += change;
  }
  if (o.expr.kind != ExprKind::acc && is_floating(o.dtype)) bound += 16 * 0x1p-24 * (std::fabs(want) + 1e-6);
  out.want.push_back(want);
  out.bound.push_back(bound);
}

OracleReport KernelOracle::check(const GuardedOutputs& outputs) const {
  OracleReport report;
  if (report.reason = outputs.find_stray_write(); !report.reason.empty()) {
    report.ok = false;
    return report;
  }
  double worst = 0;
  for (size_t o = 0; o < expected_.size(); ++o) {
    size_t i = 0;
    for (int64_t column : expected_[o].columns)
      for (int64_t row : rows_) {
        const double want = expected_[o].want[i], bound = expected_[o].bound[i], got = outputs.value(o, row, column);
        ++i;
        const double error = std::isfinite(got) ? std::fabs(got - want) : HUGE_VAL;
        if (!std::isfinite(want) && (got == want || (std::isnan(got) && std::isnan(want)))) continue;
        const double ratio = error == 0 ? 0 : error / std::max(bound, 1e-300);
        if (ratio <= worst) continue;
        worst = ratio;
        report.max_error = error;
        report.bound = bound;
        if (ratio > 1) report.reason = fmt::format("error {:.3g} > {:.3g} at output {}, m={}, n={}", error, bound, o, row, column);
      }
  }
  report.ok = worst <= 1;
  return report;
}

OracleReport KernelOracle::run_and_check(ThreadPool& pool, const qcg_kernel& kernel, std::span<const std::byte> packed) const {
  GuardedOutputs outputs(problem_, inputs_.m());
  std::vector<qcg_arg> args = inputs_.args();
  args.push_back({const_cast<std::byte*>(packed.data()), 0});
  outputs.append_args(args);
  const int64_t params[] = {inputs_.m()};
  Workspace workspace;
  if (const Status status = run_kernel(pool, kernel, {args.data(), params, nullptr}, workspace); !status.ok())
    return {false, 0, 0, status.error().message};
  return check(outputs);
}

}  // namespace qcg

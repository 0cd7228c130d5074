#include "codegen/program/random_inputs.h"

#include <algorithm>
#include <random>

#include "codegen/program/state_io.h"

namespace qcg {

namespace {

// Integers of an input: in its range as far as the dtype holds it.
std::vector<int64_t> random_integers(DType dtype, int64_t count, const InputRange& range, std::mt19937_64& rng) {
  const bool is_signed = dtype_info(dtype).kind == DTypeKind::signed_int;
  int64_t low = is_signed ? -100 : 0, high = dtype == DType::boolean ? 1 : 100;
  if (range.is_known() && dtype != DType::boolean) {
    const bool narrow = dtype_bytes(dtype) <= 4;
    low = std::max(range.low, narrow ? integer_range(dtype).low : is_signed ? INT64_MIN : 0);
    high = std::max(low, std::min(range.high, narrow ? integer_range(dtype).high : INT64_MAX));
  }
  std::uniform_int_distribution<int64_t> uniform(low, high);
  std::vector<int64_t> out(static_cast<size_t>(count));
  for (int64_t& v : out) v = uniform(rng);
  // A mask of one value tests what is chosen, or what is not, and never both.
  if (dtype == DType::boolean && count > 1 && std::ranges::count(out, out[0]) == count) out[0] = 1 - out[0];
  if (range.ascending && !out.empty()) std::ranges::sort(out), out[0] = 0;
  return out;
}

}  // namespace

std::vector<Tensor> random_inputs(const Program& program, std::span<const int64_t> symbols, uint64_t seed,
                                  std::span<const InputRange> ranges) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  std::vector<Tensor> out;
  for (const auto& input : program.manifest().inputs) {
    std::vector<int64_t> shape;
    for (const SizeExpr& dim : input.shape) shape.push_back(dim.evaluate(symbols).value_or(0));
    const Tensor zeros = Tensor::zeros(input.dtype, shape);
    std::vector<std::byte> bytes(zeros.bytes().begin(), zeros.bytes().end());
    std::vector<int64_t> integers;
    if (!is_floating(input.dtype))
      integers = random_integers(input.dtype, zeros.numel(),
                                 out.size() < ranges.size() ? ranges[out.size()] : InputRange{}, rng);
    if (input.symbol >= 0) integers = {symbols[static_cast<size_t>(input.symbol)]};
    for (int64_t i = 0; i < zeros.numel(); ++i) {
      std::byte* p = bytes.data() + static_cast<size_t>(i) * dtype_bytes(input.dtype);
      if (is_floating(input.dtype)) double_to_element(input.dtype, normal(rng), p);
      else int_to_element(input.dtype, integers[static_cast<size_t>(i)], p);
    }
    out.push_back(Tensor::from_bytes(input.dtype, shape, std::move(bytes)));
  }
  return out;
}

SymbolValues named_symbols(const Program& program, std::span<const int64_t> symbols) {
  SymbolValues out;
  for (size_t i = 0; i < symbols.size(); ++i) out[program.manifest().symbols[i].name] = symbols[i];
  return out;
}

std::vector<InputRange> narrowed(std::vector<InputRange> ranges, int caution) {
  for (InputRange& range : ranges)
    if (caution >= kMostCaution || (caution == 1 && !range.is_known()))
      range = {.low = 0, .high = caution == 1 ? 1 : 0, .written = range.written};
  return ranges;
}

Result<RandomRun> run_at_random(const Program& program, Context& context, State& state,
                                std::span<const int64_t> symbols, uint64_t seed, std::vector<InputRange> ranges) {
  ranges.resize(program.manifest().inputs.size());
  for (int caution = 0;; ++caution) {
    QCG_TRY(io, ProgramIo::from_tensors(program, random_inputs(program, symbols, seed, narrowed(ranges, caution))));
    QCG_CHECK(state.reset());
    QCG_CHECK(randomize_state(program, state, seed));
    QCG_TRY(before, state_tensors(program, state));
    Status status = context.run(state, io.inputs(), io.outputs());
    if (status.ok()) return RandomRun{std::move(io), std::move(before)};
    if (status.error().code != ErrorCode::BadInput || caution == kMostCaution) return std::move(status.error());
  }
}

}  // namespace qcg

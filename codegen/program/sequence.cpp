#include "codegen/program/sequence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace qcg {

namespace {

Error usage(std::string where, std::string message, std::string help) {
  return {ErrorCode::Usage, std::move(where), std::move(message), std::move(help)};
}

template <class Named>
std::string names_of(const std::vector<Named>& named) {
  std::vector<std::string> names;
  for (const auto& one : named) names.push_back(one.name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

Tensor consecutive(const ProgramManifest::Tensor& input, const std::vector<int64_t>& shape, int64_t first) {
  const Tensor zeros = Tensor::zeros(input.dtype, shape);
  std::vector<std::byte> bytes(zeros.bytes().begin(), zeros.bytes().end());
  const int64_t row = shape.empty() ? 1 : shape.back();
  for (int64_t i = 0; i < zeros.numel(); ++i)
    int_to_element(input.dtype, first + i % row, bytes.data() + static_cast<size_t>(i) * dtype_bytes(input.dtype));
  return Tensor::from_bytes(input.dtype, shape, std::move(bytes));
}

}  // namespace

Result<std::vector<int64_t>> symbols_of(const Program& program, const std::map<std::string, int64_t>& sizes) {
  const auto& symbols = program.manifest().symbols;
  std::vector<int64_t> out;
  for (const auto& symbol : symbols) {
    const auto given = sizes.find(symbol.name);
    if (given != sizes.end() && program.manifest().is_read(out.size()))
      return usage("--sizes", fmt::format("{} is computed by each run", symbol.name), "leave it out");
    out.push_back(given != sizes.end() ? given->second : std::clamp<int64_t>(1, symbol.min, symbol.max));
    if (out.back() < symbol.min || out.back() > symbol.max)
      return usage("--sizes", fmt::format("{} = {} is out of range", symbol.name, out.back()),
                   fmt::format("{} is from {} to {}", symbol.name, symbol.min, symbol.max));
  }
  for (const auto& [name, size] : sizes)
    if (std::ranges::none_of(symbols, [&](const auto& symbol) { return symbol.name == name; }))
      return usage("--sizes", fmt::format("the program has no symbol {}", name),
                   fmt::format("its symbols: {}", names_of(symbols)));
  return out;
}

Result<Sequence> Sequence::find(const Program& program, const Graph& graph, SequenceOptions options) {
  Sequence out(program, graph, std::move(options));
  QCG_TRY(symbols, symbols_of(program, out.options_.sizes));
  out.symbols_ = std::move(symbols);
  QCG_CHECK(out.find_places());
  return out;
}

std::vector<InputRange> Sequence::ranges_at(std::span<const int64_t> symbols) const {
  return input_ranges(*graph_, named_symbols(*program_, symbols));
}

// Places have as many elements as there are tokens. So of several inputs that a graph writes at, those count whose last
// axis is the same symbol.
Status Sequence::find_places() {
  const auto& inputs = program_->manifest().inputs;
  for (const std::string& name : options_.places)
    if (std::ranges::none_of(inputs, [&](const auto& input) { return input.name == name; }))
      return usage("--positions", fmt::format("the program has no input {}", name),
                   fmt::format("its inputs: {}", names_of(inputs)));
  const std::vector<InputRange> ranges = ranges_at(symbols_);
  std::optional<TokenAxis> axis;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_named = std::ranges::find(options_.places, inputs[i].name) != options_.places.end();
    if (is_named && (is_floating(inputs[i].dtype) || inputs[i].dtype == DType::boolean))
      return usage("--positions", fmt::format("input {} has no integers", inputs[i].name), "name an input of integers");
    if (options_.places.empty() ? !ranges[i].written : !is_named) continue;
    const TokenAxis own = token_axis(inputs[i]);
    if (!axis || (own.symbol && !axis->symbol)) axis = own, places_.clear(), limit_ = INT64_MAX;
    if (own != *axis) continue;
    places_.push_back(i);
    if (ranges[i].is_known()) limit_ = std::min(limit_, ranges[i].high + 1);
  }
  return axis ? take_tokens(*axis) : find_tokens();
}

Sequence::TokenAxis Sequence::token_axis(const ProgramManifest::Tensor& input) const {
  if (input.shape.empty()) return {};
  const SizeExpr& size = input.shape.back();
  const auto& terms = size.terms;
  if (terms.size() == 1 && terms[0].coefficient == 1 && terms[0].calls.empty() && terms[0].symbols.size() == 1)
    return {static_cast<size_t>(terms[0].symbols[0]), 1};
  return {std::nullopt, std::max<int64_t>(1, size.evaluate(symbols_).value_or(1))};
}

// Without places, the one symbol that no option gives, and no run computes, is the number of tokens.
Status Sequence::find_tokens() {
  const ProgramManifest& manifest = program_->manifest();
  std::vector<size_t> open;
  for (size_t s = 0; s < manifest.symbols.size(); ++s)
    if (!manifest.is_read(s) && !options_.sizes.contains(manifest.symbols[s].name)) open.push_back(s);
  return open.size() == 1 ? take_tokens({open[0], 1}) : Status();
}

Status Sequence::take_tokens(const TokenAxis& axis) {
  symbol_ = axis.symbol, least_ = most_ = axis.fixed;
  if (!symbol_) return {};
  const auto& symbol = program_->manifest().symbols[*symbol_];
  least_ = std::max<int64_t>(1, symbol.min), most_ = symbol.max;
  if (!options_.sizes.contains(symbol.name)) return {};
  return usage("--sizes", fmt::format("{} is the number of tokens of a run", symbol.name),
               "give it as --prompt and --decode");
}

Status Sequence::check_room(int64_t tokens) const {
  if (tokens <= limit_) return {};
  return usage("--prompt", fmt::format("{} tokens in all do not fit {} places", tokens, limit_),
               "choose less of --prompt and --decode");
}

Result<std::vector<Sequence::Run>> Sequence::cut(int64_t first, int64_t tokens) const {
  if (places_.empty() && !symbol_)
    return usage("--prompt", "it is not known how this program takes tokens: no input is a place in a cache",
                 "name the inputs that are places with --positions, or give all sizes with --sizes");
  std::vector<Run> out;
  for (int64_t done = 0; done < tokens; done += out.back().tokens) {
    out.push_back({first + done, std::min(most_, tokens - done)});
    if (out.back().tokens < least_)
      return usage("--prompt",
                   fmt::format("the program takes {} to {} tokens in a run, not {}", least_, most_, out.back().tokens),
                   least_ == most_ ? fmt::format("choose multiples of {}", least_) : "choose other numbers of tokens");
  }
  return out;
}

std::vector<int64_t> Sequence::symbols_at(const Run& run) const {
  std::vector<int64_t> out = symbols_;
  if (symbol_) out[*symbol_] = run.tokens;
  return out;
}

Result<ProgramIo> Sequence::inputs(const Run& run, uint64_t seed) const {
  const std::vector<int64_t> symbols = symbols_at(run);
  std::vector<InputRange> ranges = narrowed(ranges_at(symbols), options_.caution);
  ranges.resize(program_->manifest().inputs.size());
  std::vector<Tensor> tensors = random_inputs(*program_, symbols, seed, ranges);
  for (const size_t i : places_) tensors[i] = consecutive(program_->manifest().inputs[i], tensors[i].shape, run.first);
  return ProgramIo::from_tensors(*program_, std::move(tensors));
}

double Sequence::live_bytes(int64_t tokens) const {
  double out = 0;
  for (const auto& state : program_->manifest().states) {
    if (std::ranges::find(graph_->states, state.name) == graph_->states.end()) continue;  // of another method
    const bool is_cache = std::ranges::find(state.shape, limit_) != state.shape.end();
    out +=
        static_cast<double>(state.bytes) * (is_cache ? static_cast<double>(tokens) / static_cast<double>(limit_) : 1.0);
  }
  return out;
}

}  // namespace qcg

// Symbols: what a size of them is, and those whose values a run reads (ProgramManifest::Read).
#include <algorithm>
#include <cstring>

#include "runtime/program.h"
#include "runtime/program_cuda.h"

namespace qcg {
namespace {

// The last step before which a run reads a symbol of the size; -1: inputs determine all of them. `read_before`: by symbol.
int last_read(const SizeExpr& size, const std::vector<int>& read_before) {
  int last = -1;
  for (const SizeExpr::Term& term : size.terms) {
    for (int symbol : term.symbols) last = std::max(last, read_before[static_cast<size_t>(symbol)]);
    for (const SizeCall& call : term.calls)
      for (const SizeExpr& one : call.sizes) last = std::max(last, last_read(one, read_before));
  }
  return last;
}

// Looks for symbols that a program uses before it has read them, and for those that it cannot read.
class ReadChecker {
 public:
  ReadChecker(const ProgramManifest& manifest, const std::string& path) : m_(manifest), path_(path) {
    read_before_.assign(m_.symbols.size(), -1);
    for (const auto& read : m_.reads) read_before_[static_cast<size_t>(read.symbol)] = read.step;
  }
  std::optional<Mistake> mistake() { return std::move(mistake_); }

  void check_before_run() {
    for (const auto& read : m_.reads) {
      need_inputs(read.most, [&] { return at_read(read) + ".most"; });
      if (const char* wrong = what_is_wrong(read)) fail(at_read(read) + ".buffer", wrong);
    }
    for (size_t i = 0; i < m_.conditions.size(); ++i)
      need_inputs(m_.conditions[i].size, [&] { return at("conditions", i) + ".size"; });
    check_tensors(m_.inputs, "inputs");
    check_tensors(m_.outputs, "outputs");
    for (size_t i = 0; i < m_.inputs.size(); ++i)
      if (const int symbol = m_.inputs[i].symbol; symbol >= 0 && read_before_[static_cast<size_t>(symbol)] >= 0)
        fail(at("inputs", i) + ".symbol", "is a symbol that the run reads elsewhere");
    for (size_t i = 0; i < m_.buffers.size(); ++i)
      need_inputs(m_.buffers[i].size, [&] { return at("buffers", i) + ".bytes"; });
  }

  // Returns whether the step uses a symbol that the run reads.
  bool check_step(size_t step) {
    const auto& s = m_.steps[step];
    const auto in_step = [&](const char* list, size_t i) { return at("steps", step) + list + number(i); };
    int last = -1;
    const auto look = [&](const SizeExpr& size, const auto& where) {
      const int read = last_read(size, read_before_);
      if (read > static_cast<int>(step)) fail(where(), "has a symbol that the run reads before a later step");
      last = std::max(last, read);
    };
    for (size_t i = 0; i < s.params.size(); ++i) look(s.params[i], [&] { return in_step(".params", i); });
    for (size_t i = 0; i < s.args.size(); ++i) {
      look(s.args[i].offset, [&] { return in_step(".args", i) + ".offset"; });
      if (s.args[i].stride) look(*s.args[i].stride, [&] { return in_step(".args", i) + ".stride"; });
    }
    // A size that a run reads is checked by what it lets the kernel reach.
    for (size_t i = 0; last >= 0 && i < s.args.size(); ++i)
      if (!s.args[i].reach) fail(in_step(".args", i) + ".reach", "is missing in a step whose sizes the run reads");
    return last >= 0;
  }

 private:
  static std::string number(size_t i) { return "[" + std::to_string(i) + "]"; }
  std::string at(const char* list, size_t i) const { return path_ + "." + list + number(i); }
  std::string at_read(const ProgramManifest::Read& read) const {
    return at("symbols", static_cast<size_t>(read.symbol)) + ".read";
  }
  // Of the buffer; null: nothing.
  const char* what_is_wrong(const ProgramManifest::Read& read) const {
    const auto& b = m_.buffers[static_cast<size_t>(read.buffer)];
    const auto index = static_cast<size_t>(b.index);
    switch (b.kind) {
      case ProgramManifest::BufferKind::temp:
        if (b.first >= read.step || b.last < read.step)
          return "is a temporary that is not alive before and in the step";
        if (b.size.is_constant() && b.size.evaluate({}).value_or(0) < ProgramManifest::kReadBytes)
          return "has less than 8 bytes";
        return nullptr;
      case ProgramManifest::BufferKind::input:
        return m_.inputs[index].has_one_element() && m_.inputs[index].dtype == DType::i64
                   ? nullptr
                   : "is not an input of one i64";
      case ProgramManifest::BufferKind::state:
        return m_.states[index].bytes > 0 && m_.states[index].dtype == DType::i64 ? nullptr
                                                                                  : "is not a state of one or more i64";
      default: return "is not a temporary, an input or a state";
    }
  }
  void fail(std::string path, const char* message) {
    if (!mistake_) mistake_ = {std::move(path), message};
  }
  template <class Where>
  void need_inputs(const SizeExpr& size, const Where& where) {
    if (last_read(size, read_before_) >= 0) fail(where(), "has a symbol that the run reads, and is needed before it");
  }
  void check_tensors(const std::vector<ProgramManifest::Tensor>& tensors, const char* list) {
    for (size_t i = 0; i < tensors.size(); ++i)
      for (size_t axis = 0; axis < tensors[i].shape.size(); ++axis)
        need_inputs(tensors[i].shape[axis], [&] { return at(list, i) + ".shape" + number(axis); });
  }

  const ProgramManifest& m_;
  const std::string& path_;
  std::vector<int> read_before_;
  std::optional<Mistake> mistake_;
};

}  // namespace

std::optional<Mistake> settle_reads(ProgramManifest& manifest, const std::string& path) {
  if (manifest.reads.empty()) return std::nullopt;
  ReadChecker checker(manifest, path);
  checker.check_before_run();
  for (size_t s = 0; s < manifest.steps.size(); ++s) manifest.steps[s].uses_reads = checker.check_step(s);
  return checker.mistake();
}

bool ProgramManifest::is_read(size_t symbol) const {
  return std::ranges::any_of(reads, [&](const Read& read) { return read.symbol == static_cast<int>(symbol); });
}

std::optional<int64_t> ProgramManifest::most_of(const Read& read, std::span<const int64_t> symbol_values) const {
  const auto most = read.most.evaluate(symbol_values);
  return most ? std::optional(std::min(*most, symbols[static_cast<size_t>(read.symbol)].max)) : std::nullopt;
}

// Waits for the steps before this one on a device.
Status Context::read_symbols(size_t step) {
  const ProgramManifest& m = program_->manifest();
  const auto due = std::ranges::equal_range(m.reads, static_cast<int>(step), {}, &ProgramManifest::Read::step);
  if (due.empty()) return {};
  if (device_) QCG_CHECK(run_on_device(nullptr));
  for (const auto& read : due) {
    int64_t value = 0;
    if (!device_) std::memcpy(&value, buffer_data(read.buffer), sizeof value);
    else QCG_CHECK(device_->copy_out_at(&value, device_data(read.buffer), sizeof value));
    const auto& symbol = m.symbols[static_cast<size_t>(read.symbol)];
    const int64_t most = bound().symbol_values[static_cast<size_t>(read.symbol)];
    if (value < symbol.min || value > most)
      return Error::bad_input("size " + symbol.name,
                              "is " + std::to_string(value) + " before step '" + m.steps[step].name +
                                  "', and must be from " + std::to_string(symbol.min) + " to " + std::to_string(most),
                              "pass inputs whose values give such a size");
    run_values_[static_cast<size_t>(read.symbol)] = value;
  }
  return {};
}

bool ProgramManifest::Tensor::has_one_element() const {
  return std::ranges::all_of(shape, [](const SizeExpr& size) { return size.is_constant() && size.evaluate({}) == 1; });
}

bool SizeExpr::is_constant() const {
  return std::all_of(terms.begin(), terms.end(), [](const Term& t) { return t.symbols.empty() && t.calls.empty(); });
}

std::optional<int64_t> SizeExpr::evaluate(std::span<const int64_t> symbol_values) const {
  int64_t sum = 0;
  for (const Term& term : terms) {
    int64_t product = term.coefficient;
    for (int symbol : term.symbols)
      if (__builtin_mul_overflow(product, symbol_values[static_cast<size_t>(symbol)], &product)) return std::nullopt;
    for (const SizeCall& call : term.calls) {
      const auto value = call.evaluate(symbol_values);
      if (!value || __builtin_mul_overflow(product, *value, &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

bool ProgramManifest::Condition::holds(std::span<const int64_t> symbol_values) const {
  const auto value = size.evaluate(symbol_values);
  if (!value) return false;
  switch (is) {
    case Is::zero: return *value == 0;
    case Is::not_zero: return *value != 0;
    default: return *value >= 0;
  }
}

std::optional<int64_t> SizeCall::evaluate(std::span<const int64_t> symbol_values) const {
  const auto a = sizes[0].evaluate(symbol_values), b = sizes[1].evaluate(symbol_values);
  if (!a || !b) return std::nullopt;
  if (!divides) return std::min(*a, *b);
  if (*b == 0 || (*b == -1 && *a == INT64_MIN)) return std::nullopt;
  return *a / *b - (*a % *b != 0 && (*a < 0) != (*b < 0));
}

}  // namespace qcg

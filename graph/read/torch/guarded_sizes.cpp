// What guards and assertions of an export say of its sizes, and what of it no run checks.
//
// Why here: guards.h reads one guard; what follows of all of them changes the symbols of the graph.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "graph/ops/infer.h"
#include "graph/read/torch/export_reader.h"
#include "graph/read/torch/symbols.h"

namespace qcg {
namespace {

constexpr const char* kReason = "torch checked that when it exported";

// Whether two sizes are multiplied or divided by each other.
bool multiplies_sizes(const Dim& size) {
  for (const auto& [monomial, coefficient] : size.terms()) {
    if (monomial.size() > 1) return true;
    for (const std::string& factor : monomial)
      if (const auto call = Dim::as_call(factor))
        if ((call->function == "floordiv" && !call->a.is_constant() && !call->b.is_constant()) ||
            multiplies_sizes(call->a) || multiplies_sizes(call->b))
          return true;
  }
  return false;
}

// Torch compares strides with each other, and sizes and numbers of elements with 1, to choose strides, which change no
// result. A model may compare the same, so that a note counts what no run checks.
bool is_of_strides(const SizeCondition& guard) {
  constexpr std::string_view kStride = "sym_max(1, ";
  const std::string_view text = guard.text;
  const bool is_sum = text.find(" + ") != text.npos || text.find('-') != text.npos;
  if (const size_t stride = text.find(kStride); stride != text.npos) {
    const bool several = text.find(kStride, stride + 1) != text.npos;
    if (several || text.find("==") != text.npos || text.find("!=") != text.npos || text.ends_with(" > 1")) return true;
  }
  if (guard.says == SizeCondition::Says::at_least_0) return text.ends_with(" >= 2") && !is_sum;
  if (guard.says != SizeCondition::Says::not_zero) return false;
  const bool is_remainder = text.find('%') != text.npos;
  return multiplies_sizes(guard.difference) ||
         (text.ends_with(" != 1") && guard.difference.has_calls() && !is_remainder);
}

// Broadcasting asks this of two sizes, and the shape rules check it.
//
//   s0 == s1 or s1 == 1
bool is_broadcast(std::string_view guard) {
  const size_t both = guard.find(" or ");
  if (both == guard.npos || guard.find(" or ", both + 1) != guard.npos || guard.find(" and ") != guard.npos)
    return false;
  std::string_view one = guard.substr(0, both), equal = guard.substr(both + 4);
  if (!one.ends_with(" == 1")) std::swap(one, equal);
  if (!one.ends_with(" == 1")) return false;
  const std::string size(one.substr(0, one.size() - 5));
  return equal.starts_with(size + " == ") || equal.ends_with(" == " + size);
}

// a and b: one of them each.
std::vector<std::string_view> conjuncts(std::string_view guard) {
  constexpr std::string_view kAnd = " and ";
  if (guard.find(" or ") != guard.npos || guard.find("not ") != guard.npos) return {guard};
  std::vector<std::string_view> out;
  for (size_t end; (end = guard.find(kAnd)) != guard.npos; guard.remove_prefix(end + kAnd.size()))
    out.push_back(guard.substr(0, end));
  out.push_back(guard);
  return out;
}

bool is_of_sizes(std::string_view guard) {
  return guard.find(".size()[") != guard.npos && guard.find("._base.") == guard.npos && !is_broadcast(guard);
}

// What a size was when torch exported.
std::optional<int64_t> hint_of(const JsonCursor& size) {
  const auto expr = size.find("as_expr");
  const auto hint = expr ? expr->find("hint") : std::nullopt;
  const auto written = hint && hint->is(JsonKind::object) ? hint->find("as_int") : std::nullopt;
  if (!written) return std::nullopt;
  const auto number = written->integer();
  return number.ok() ? std::optional(*number) : std::nullopt;
}

}  // namespace

ValueId TorchExportReader::guarded_input(std::string_view name) const {
  const auto find = [&](std::string_view key) {
    const auto at = scope_.tensors.find(key);
    return at == scope_.tensors.end() ? kNoValue : at->second;
  };
  if (const ValueId input = find(name); input != kNoValue) return input;
  constexpr std::string_view kNumbered = "flat_args_";
  if (name.starts_with(kNumbered)) {
    size_t place = 0;
    const std::string_view digits = name.substr(kNumbered.size());
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), place);
    return read.ec == std::errc() && place < arguments_.size() ? arguments_[place] : kNoValue;
  }
  std::string lower(name);  // as torch names an input in the graph
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return find(lower);
}

void TorchExportReader::read_guards(const JsonCursor& nodes) {
  const auto size_of = [&](std::string_view input, int64_t axis) -> std::optional<Dim> {
    if (axis == kValueOfInput) {
      const auto integer = scope_.sym_ints.find(input);
      return integer == scope_.sym_ints.end() ? std::nullopt : std::optional(integer->second);
    }
    const ValueId at = guarded_input(input);
    if (at == kNoValue) return std::nullopt;
    const Shape& shape = graph().value(at).shape;
    return axis < static_cast<int64_t>(shape.size()) ? std::optional(shape[static_cast<size_t>(axis)]) : std::nullopt;
  };
  exported_ = exported_sizes();
  const auto read = [&](std::string_view text) {
    if (auto guard = read_guard(text, size_of)) guards_.push_back(std::move(*guard));
    else if (const auto range = find_range(text, size_of, exported_)) narrow(*range);
    else if (auto fractions = read_guard_of_fractions(text, size_of)) guards_.push_back(std::move(*fractions));
    else if (is_of_sizes(text)) unread_guards_.emplace_back(text);
  };
  if (const auto guards = root_.find("guards_code"); guards && guards->is(JsonKind::array))
    for (JsonCursor written : *guards)
      if (written.is(JsonKind::string)) std::ranges::for_each(conjuncts(*written.string()), read);
  for (JsonCursor node : nodes)
    if (auto asserted = asserted_by(node)) {
      const bool of_data = std::ranges::any_of(asserted->difference.symbols(), is_unbacked);
      (of_data ? asserted_of_data_ : guards_).push_back(std::move(*asserted));
    }
  std::vector<Dim> differences;
  for (SizeCondition& guard : guards_) {
    // s <= 8 * (s // 8) says that both are equal.
    if (guard.says == SizeCondition::Says::at_least_0 && range_of(guard.difference, graph().symbols).max <= 0)
      guard.says = SizeCondition::Says::zero;
    if (guard.says == SizeCondition::Says::zero) differences.push_back(guard.difference);
  }
  for (size_t before = SIZE_MAX; before != known_sizes_.size();) {
    before = known_sizes_.size();
    use_equations(differences);
    if (known_sizes_.size() == before) use_definition(differences);
  }
  narrow_by_guards(differences);
  if (!known_sizes_.empty())
    for (Value& value : graph().values)
      for (Dim& size : value.shape) size = with_known(size, known_sizes_);
  graph().conditions = open_conditions();
}

std::optional<SizeCondition> TorchExportReader::asserted_by(const JsonCursor& node) const {
  if (*node.string_at("target") != "torch.ops.aten._assert_scalar.default") return std::nullopt;
  const auto inputs = node.find("inputs");
  if (!inputs || !inputs->is(JsonKind::array) || inputs->size() == 0) return std::nullopt;
  const auto argument = (*inputs->begin()).find("arg");
  const auto condition = argument ? argument->find("as_sym_bool") : std::nullopt;
  const auto name = condition ? condition->string_at("as_name") : Result<std::string_view>(std::string_view());
  const auto described = name.ok() ? truths_.find(*name) : truths_.end();
  const auto expr = described == truths_.end() ? std::nullopt : described->second.find("as_expr");
  const auto text = expr ? expr->string_at("expr_str") : Result<std::string_view>(std::string_view());
  auto asserted = text.ok() ? read_assertion(*text) : std::nullopt;
  return asserted;
}

void TorchExportReader::divide_sizes(const std::vector<Dim>& differences, std::string_view reason) {
  for (const auto& [symbol, divisor] : find_divisors(differences, exported_)) {
    const std::string part = part_name(symbol, divisor);
    graph().symbols.push_back({part});
    make_multiple({symbol, part, divisor}, reason);
  }
}

void TorchExportReader::use_equations(std::vector<Dim>& differences) {
  const KnownSizes calls = find_known_calls(differences);
  for (size_t i = 0, count = differences.size(); i < count; ++i) {
    Dim with = with_known(differences[i], calls);
    if (!with.is_constant() && std::ranges::find(differences, with) == differences.end())
      differences.push_back(std::move(with));
  }
  for (const SizeMultiple& m : find_multiples(differences)) {
    const Dim left = Dim::symbol(m.symbol) - Dim(m.factor) * Dim::symbol(m.of);
    for (const SizeMultiple& still : find_multiples({with_known(left, known_sizes_)})) make_multiple(still, kReason);
  }
  for (const Dim& difference : differences)
    for (const SizeMultiple& m : find_equal_sizes(with_known(difference, known_sizes_), exported_))
      make_multiple(m, kReason);
  for (Dim& difference : differences) difference = with_known(difference, known_sizes_);
  divide_sizes(differences, kReason);
  for (Dim& difference : differences) difference = with_known(difference, known_sizes_);
  std::erase_if(differences, [](const Dim& difference) { return !difference.valid() || difference.is_constant(); });
}

void TorchExportReader::use_definition(const std::vector<Dim>& differences) {
  for (const Dim& difference : differences) {
    const auto found = find_definition(with_known(difference, known_sizes_), exported_, known_sizes_);
    if (!found || is_integer_input(found->first)) continue;
    replace_symbol(found->first, found->second);
    out_.notes.push_back(fmt::format("the size {} must be {}: {}", found->first, found->second.str(), kReason));
    return;
  }
}

ExportedSizes TorchExportReader::exported_sizes() {
  ExportedSizes out;
  for (const ValueId input : graph().inputs) {
    const Value& value = graph().value(input);
    const auto meta = find_meta(root_, value.name);
    const auto sizes = meta.ok() ? meta->find("sizes") : std::nullopt;
    std::vector<std::optional<int64_t>> hints;
    if (sizes && sizes->is(JsonKind::array))
      for (JsonCursor size : *sizes) hints.push_back(hint_of(size));
    hints.resize(value.shape.size());
    for (size_t axis = 0; axis < value.shape.size(); ++axis)
      if (is_one_symbol(value.shape[axis]))
        out.emplace(value.shape[axis].symbols()[0], ExportedSize{static_cast<int64_t>(axis), hints[axis]});
  }
  return out;
}

void TorchExportReader::narrow_by_guards(const std::vector<Dim>& differences) {
  for (const Dim& difference : differences)
    if (const auto range = find_range(difference)) narrow(*range);
}

void TorchExportReader::narrow(const Symbol& range) {
  const auto symbol = std::ranges::find(graph().symbols, range.name, &Symbol::name);
  if (symbol == graph().symbols.end()) return;
  const int64_t min = std::max(symbol->min, range.min), max = std::min(symbol->max, range.max);
  if (min > max || (min == symbol->min && max == symbol->max)) return;
  symbol->min = min, symbol->max = max;
  note_range(*symbol);
}

std::vector<SizeCondition> TorchExportReader::open_conditions() {
  const std::vector<Symbol> traced = traced_symbols();
  std::vector<SizeCondition> open;
  for (const SizeCondition& guard : guards_) {
    SizeCondition condition = guard;
    condition.difference = settled_size(guard.difference);
    const Dim difference = settled(condition.difference, traced);
    const DimRange range = range_of(difference, traced);
    bool implied = false;
    switch (guard.says) {
      case SizeCondition::Says::zero: implied = range.min == 0 && range.max == 0; break;
      case SizeCondition::Says::at_least_0:
        implied = range.min >= 0 || std::ranges::any_of(checked_rooms_, [&](const Dim& room) {
                    return with_known(room, known_sizes_) == with_known(guard.difference, known_sizes_);
                  });
        break;
      default: implied = range.min > 0 || range.max < 0;
    }
    if (implied) continue;
    if (is_of_strides(guard)) {
      if (std::ranges::find(unread_guards_, guard.text) == unread_guards_.end()) unread_guards_.push_back(guard.text);
    } else if (std::ranges::find(open, condition.text, &SizeCondition::text) == open.end()) {
      open.push_back(std::move(condition));
    }
  }
  return open;
}

void TorchExportReader::note_conditions() {
  std::erase_if(graph().conditions, [&](const SizeCondition& condition) {
    const auto is_declared = [&](const std::string& name) {
      return std::ranges::find(graph().symbols, name, &Symbol::name) != graph().symbols.end();
    };
    const bool known = std::ranges::all_of(condition.difference.symbols(), is_declared);
    if (!known) unread_guards_.push_back(condition.text);
    return !known;
  });
  const auto note = [&](size_t count, const std::string& first, std::string_view what) {
    if (count > 0)
      out_.notes.push_back(fmt::format("{} condition{} of sizes that torch found when it exported {} {}, such as {}",
                                       count, count == 1 ? "" : "s", count == 1 ? "is" : "are", what,
                                       shorten(first, 120)));
  };
  const auto& checked = graph().conditions;
  note(checked.size(), checked.empty() ? "" : checked[0].text, "checked in each run");
  note(unread_guards_.size(), unread_guards_.empty() ? "" : unread_guards_[0],
       "not checked in a run: a model may branch there, and only this branch was exported");
}

}  // namespace qcg

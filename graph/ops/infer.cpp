#include "graph/ops/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/ops/op_table.h"
#include "graph/ops/size_values.h"
#include "graph/ops/verify.h"

namespace qcg {
namespace {

int float_rank(DType d) { return d == DType::f64 ? 3 : d == DType::f32 ? 2 : 1; }
int category(DType d) { return d == DType::boolean ? 0 : is_floating(d) ? 2 : 1; }

// torch.promote_types; nullopt where torch has no answer (float8, wide unsigned).
std::optional<DType> promote(DType a, DType b) {
  if (a == b) return a;
  auto is_float8 = [](DType d) { return is_floating(d) && dtype_bytes(d) == 1; };
  if (is_float8(a) || is_float8(b)) return std::nullopt;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (is_floating(a)) {
    if (float_rank(a) == float_rank(b)) return DType::f32;  // f16 with bf16
    return float_rank(a) > float_rank(b) ? a : b;
  }
  auto is_wide_unsigned = [](DType d) { return dtype_info(d).kind == DTypeKind::unsigned_int && dtype_bytes(d) > 1; };
  if (is_wide_unsigned(a) || is_wide_unsigned(b)) return std::nullopt;
  if (dtype_bytes(a) == dtype_bytes(b)) return DType::i16;  // u8 with i8
  return dtype_bytes(a) > dtype_bytes(b) ? a : b;
}

int64_t saturate(__int128 v) { return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : static_cast<int64_t>(v); }

// An in-place op writes into its first argument: dtype and shape are that one's, or torch would refuse.
Status settle_in_place(const OpArgs& a, Types& types) {
  if (!a.node.op->in_place) return {};
  const Value& self = a.graph.value(*a.node.args[0].get<ValueId>());
  if (types[0].shape != self.shape)
    return a.fail("self", fmt::format("an in-place result of shape {} does not fit into {}", to_string(types[0].shape),
                                      to_string(self.shape)));
  if (category(types[0].dtype) > category(self.dtype))
    return a.fail("self", fmt::format("an in-place result of dtype {} does not fit into {}", dtype_name(types[0].dtype),
                                      dtype_name(self.dtype)));
  types[0].dtype = self.dtype;
  return {};
}

}  // namespace

Types one(DType dtype, Shape shape) { return {ValueType{dtype, std::move(shape)}}; }

std::string describe(const Value& v) {
  return shorten(fmt::format("{}{}", dtype_name(v.dtype), to_string(v.shape)), 300);
}

Status need_float(const OpArgs& a, std::string_view arg) {
  if (is_floating(a.tensor(arg).dtype)) return {};
  return a.fail(arg, "expected a floating dtype, got " + describe(a.tensor(arg)), "cast it before");
}

Status same_k(const OpArgs& a, std::string_view arg, const Dim& x, const Dim& w) {
  if (x == w) return {};
  return a.fail(arg, fmt::format("contracts {} elements with {}", x.str(), w.str()),
                "the contracted axes must have the same size");
}

const Value* OpArgs::optional_tensor(std::string_view name) const {
  ValueId id = node.tensor(name);
  return id == kNoValue ? nullptr : &graph.value(id);
}

const std::vector<ValueId>& OpArgs::tensors(std::string_view name) const {
  return *node.arg(name).get<std::vector<ValueId>>();
}
const std::vector<Expr>& OpArgs::exprs(std::string_view name) const { return *node.arg(name).get<std::vector<Expr>>(); }
const std::string& OpArgs::string(std::string_view name) const { return *node.arg(name).get<std::string>(); }
const Dim& OpArgs::dim(std::string_view name) const { return *node.arg(name).get<Dim>(); }

std::optional<DType> OpArgs::dtype(std::string_view name) const {
  const DType* d = node.arg(name).get<DType>();
  return d ? std::optional(*d) : std::nullopt;
}

bool OpArgs::boolean(std::string_view name) const {
  const bool* b = node.arg(name).get<bool>();
  return b && *b;
}

std::vector<Dim> OpArgs::dims(std::string_view name) const {
  const Dim* one = node.arg(name).get<Dim>();
  const auto* list = node.arg(name).get<std::vector<Dim>>();
  return one ? std::vector<Dim>{*one} : list ? *list : std::vector<Dim>();
}

Result<size_t> OpArgs::axis(std::string_view name, size_t rank) const { return axis(name, dim(name), rank); }

Result<size_t> OpArgs::axis(std::string_view name, const Dim& value, size_t rank) const {
  int64_t n = static_cast<int64_t>(std::max<size_t>(rank, 1));
  if (!value.is_constant() || value.constant() < -n || value.constant() >= n)
    return fail(name, fmt::format("axis {} is outside a tensor of rank {}", value.str(), rank),
                "use an axis from -rank to rank-1");
  return static_cast<size_t>(value.constant() < 0 ? value.constant() + n : value.constant());
}

Result<std::vector<size_t>> OpArgs::axes(std::string_view name, size_t rank) const {
  std::vector<size_t> out;
  for (const Dim& d : dims(name)) {
    QCG_TRY(one, axis(name, d, rank));
    out.push_back(one);
  }
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) return fail(name, "an axis is listed twice");
  if (out.empty())
    for (size_t i = 0; i < rank; ++i) out.push_back(i);
  if (rank == 0) out.clear();
  return out;
}

Result<int64_t> OpArgs::constant(std::string_view name) const {
  const Dim& d = dim(name);
  if (!d.is_constant())
    return unsupported(name, fmt::format("{} is known only at run time", d.str()), "export with a constant here");
  return d.constant();
}

Error OpArgs::fail(std::string_view arg, std::string message, std::string help) const {
  std::string where =
      node.where.empty() && !node.outputs.empty() ? "%" + graph.value(node.outputs[0]).name : node.where;
  return Error::bad_input(
      std::move(where), fmt::format("{}, argument '{}': {}", node.op->name, arg, message),
      help.empty() ? "compare the node with the op's signature in `qcodegen list ops`" : std::move(help));
}

Error OpArgs::unsupported(std::string_view arg, std::string message, std::string help) const {
  Error e = fail(arg, std::move(message), std::move(help));
  e.code = ErrorCode::Unsupported;
  return e;
}

namespace {

constexpr int64_t kLargestDivisor = int64_t{1} << 31;

DimRange product_of(const DimRange& a, const DimRange& b) {
  const int64_t corners[] = {
      saturate(static_cast<__int128>(a.min) * b.min), saturate(static_cast<__int128>(a.min) * b.max),
      saturate(static_cast<__int128>(a.max) * b.min), saturate(static_cast<__int128>(a.max) * b.max)};
  return {*std::ranges::min_element(corners), *std::ranges::max_element(corners)};
}

DimRange range_of_call(const Dim::Call& call, std::span<const Symbol> symbols) {
  const DimRange a = range_of(call.a, symbols), b = range_of(call.b, symbols);
  if (call.function == "min") return {std::min(a.min, b.min), std::min(a.max, b.max)};
  if (b.min < 1) return {INT64_MIN, INT64_MAX};
  return {*call.apply(a.min, a.min < 0 ? b.min : b.max), *call.apply(a.max, a.max < 0 ? b.max : b.min)};
}

int64_t floor_of(__int128 a, int64_t n) { return saturate(a / n - (a % n < 0)); }

// Uses n*floordiv(a, n) = a - r with r in [0, n - 1]: n*d does not have this call, so what a shares with the rest of d
// cancels. nullopt: d has no such call.
std::optional<DimRange> range_by_remainder(const Dim& d, std::span<const Symbol> symbols) {
  if (!d.has_calls()) return std::nullopt;
  for (const auto& [monomial, coefficient] : d.terms()) {
    const auto call = monomial.size() == 1 ? Dim::as_call(monomial[0]) : std::nullopt;
    if (!call || call->function != "floordiv" || !call->b.is_constant() || call->b.constant() < 1) continue;
    if (coefficient > kLargestDivisor || coefficient < -kLargestDivisor || call->b.constant() > kLargestDivisor)
      continue;
    const int64_t n = call->b.constant(), remainders = -coefficient * (n - 1);
    const Dim others = (d - Dim::symbol(monomial[0]) * Dim(coefficient)) * Dim(n) + call->a * Dim(coefficient);
    if (!others.valid()) continue;
    const DimRange range = range_of(others, symbols);
    const __int128 low = static_cast<__int128>(range.min) + std::min<int64_t>(remainders, 0),
                   high = static_cast<__int128>(range.max) + std::max<int64_t>(remainders, 0);
    return DimRange{range.min == INT64_MIN ? INT64_MIN : saturate(-static_cast<__int128>(floor_of(-low, n))),
                    range.max == INT64_MAX ? INT64_MAX : floor_of(high, n)};
  }
  return std::nullopt;
}

// 8*floordiv(s0, 8) - 8 is a multiple of 8: if it is at least -7, it is at least 0.
DimRange narrowed_to_multiples(DimRange range, const Dim& d) {
  int64_t factor = 0, number = 0;
  for (const auto& [monomial, coefficient] : d.terms()) {
    if (monomial.empty()) number = coefficient;
    else factor = coefficient == INT64_MIN ? 1 : std::gcd(factor, coefficient);
  }
  if (factor <= 1 || range.min > range.max) return range;
  const auto fit = [&](int64_t bound, bool up) {
    const __int128 beyond = static_cast<__int128>(bound) - number, left = ((beyond % factor) + factor) % factor;
    return saturate(bound - left + (up && left > 0 ? factor : 0));
  };
  if (range.min != INT64_MIN) range.min = fit(range.min, true);
  if (range.max != INT64_MAX) range.max = fit(range.max, false);
  return range;
}

constexpr int kMostCases = 3;  // calls of min in a sum; each doubles the number of ranges to find

// Uses r + c*min(a, b) = min(r + c*a, r + c*b), or their max where c < 0: what a and r share cancels. nullopt: d has no
// such call, or too many.
std::optional<DimRange> range_by_cases(const Dim& d, std::span<const Symbol> symbols) {
  if (!d.has_calls()) return std::nullopt;
  std::optional<Dim::Call> smaller;
  Dim factor;
  int64_t coefficient = 0;
  int cases = 0;
  for (const auto& [monomial, times] : d.terms()) {
    auto call = monomial.size() == 1 ? Dim::as_call(monomial[0]) : std::nullopt;
    if (!call || call->function != "min") continue;
    ++cases, smaller = std::move(call), factor = Dim::symbol(monomial[0]), coefficient = times;
  }
  if (cases < 1 || cases > kMostCases) return std::nullopt;
  const Dim rest = d - factor * Dim(coefficient), a = rest + smaller->a * Dim(coefficient),
            b = rest + smaller->b * Dim(coefficient);
  if (!a.valid() || !b.valid()) return std::nullopt;
  const DimRange of_a = range_of(a, symbols), of_b = range_of(b, symbols);
  if (coefficient > 0) return DimRange{std::min(of_a.min, of_b.min), std::min(of_a.max, of_b.max)};
  return DimRange{std::max(of_a.min, of_b.min), std::max(of_a.max, of_b.max)};
}

// The same size without the call, where the ranges leave one: floordiv(63*s0, 64) is s0 - 1 for s0 in 1 to 64.
std::optional<Dim> without_call(const Dim::Call& call, std::span<const Symbol> symbols) {
  if (call.function == "min") {
    const DimRange difference = range_of(call.a - call.b, symbols);
    if (difference.max <= 0) return call.a;
    if (difference.min >= 0) return call.b;
    return std::nullopt;
  }
  if (!call.b.is_constant() || call.b.constant() < 1 || call.b.constant() > kLargestDivisor) return std::nullopt;
  const int64_t n = call.b.constant();
  std::vector<Dim> nearest;  // a = n*quotient + rest, with small factors of symbols in the rest
  for (const auto& [monomial, coefficient] : call.a.terms()) {
    if (monomial.empty() || coefficient > INT64_MAX - n) continue;
    Dim term = floor_of(coefficient + n / 2, n);
    for (const std::string& factor : monomial) term = term * Dim::symbol(factor);
    nearest.push_back(std::move(term));
  }
  const Dim quotient = Dim::sum(nearest), rest = call.a - quotient * Dim(n);
  if (!rest.valid()) return std::nullopt;
  const DimRange range = range_of(rest, symbols);
  if (range.min == INT64_MIN || range.max == INT64_MAX) return std::nullopt;
  const int64_t least = floor_of(range.min, n);
  if (least != floor_of(range.max, n)) return std::nullopt;
  return quotient + Dim(least);
}

}  // namespace

DimRange range_of(const Dim& d, std::span<const Symbol> symbols) {
  if (!d.valid()) return {INT64_MIN, INT64_MAX};
  if (d.is_constant()) return {d.constant(), d.constant()};
  const std::vector<std::string> names = d.symbols();
  // Sizes are not negative, whatever a file claims.
  std::vector<DimRange> ranges(names.size(), DimRange{0, INT64_MAX});
  // A graph may have a thousand symbols. Most differ from every name in length or last character: these compare no text.
  const auto bit_of = [](const std::string& name) {
    return uint64_t{1} << (name.empty() ? 0 : (name.size() * 16 + static_cast<unsigned char>(name.back())) % 64);
  };
  uint64_t bits = 0;
  for (const std::string& name : names) bits |= bit_of(name);
  for (const Symbol& s : symbols) {
    if ((bits & bit_of(s.name)) == 0) continue;
    const auto it = std::lower_bound(names.begin(), names.end(), s.name);
    if (it != names.end() && *it == s.name)
      ranges[static_cast<size_t>(it - names.begin())] = {std::max<int64_t>(s.min, 0), std::max<int64_t>(s.max, 0)};
  }
  DimRange sum{0, 0};
  for (const auto& [monomial, coefficient] : d.terms()) {
    DimRange term{1, 1};
    for (const std::string& name : monomial) {
      const auto call = Dim::as_call(name);
      const auto at = std::lower_bound(names.begin(), names.end(), name) - names.begin();
      term = product_of(term, call ? range_of_call(*call, symbols) : ranges[static_cast<size_t>(at)]);
    }
    int64_t low = coefficient > 0 ? term.min : term.max;
    int64_t high = coefficient > 0 ? term.max : term.min;
    sum.min = saturate(sum.min + static_cast<__int128>(low) * coefficient);
    sum.max = saturate(sum.max + static_cast<__int128>(high) * coefficient);
  }
  for (const auto& narrower : {range_by_remainder(d, symbols), range_by_cases(d, symbols)})
    if (narrower) sum = {std::max(sum.min, narrower->min), std::min(sum.max, narrower->max)};
  return narrowed_to_multiples(sum, d);
}

Dim settled(const Dim& d, std::span<const Symbol> symbols) {
  Dim out = d;
  for (int nested = 0; nested <= Dim::kMaxNesting && out.valid() && out.has_calls(); ++nested) {
    const DimRange range = range_of(out, symbols);
    if (range.min == range.max) return range.min;
    KnownSizes known;
    for (const auto& [monomial, coefficient] : out.terms())
      for (const std::string& factor : monomial)
        if (const auto call = Dim::as_call(factor))
          if (auto value = without_call(*call, symbols)) known.emplace(factor, std::move(*value));
    if (known.empty()) break;
    out = with_known(out, known);
  }
  return out.valid() ? out : d;
}

// Tries every value of a size's only symbol, if these are few: quotients of one symbol depend on each other, which
// their ranges do not show.
static bool is_at_least_0_for_each(const Dim& d, std::span<const Symbol> symbols) {
  constexpr int64_t kMostValues = 64;
  const std::vector<std::string> names = d.symbols();
  if (names.size() != 1 || !d.has_calls()) return false;
  const auto symbol = std::ranges::find(symbols, names[0], &Symbol::name);
  if (symbol == symbols.end() || symbol->max - symbol->min >= kMostValues) return false;
  for (int64_t value = symbol->min; value <= symbol->max; ++value) {
    const auto size = d.evaluate({{names[0], value}});
    if (!size || *size < 0) return false;
  }
  return true;
}

// d / by in the first term that both have, if that is a positive whole number; else 1.
static int64_t multiple_of(const Dim& d, const Dim& by) {
  const auto terms = d.terms();
  for (const auto& [monomial, coefficient] : by.terms()) {
    const auto same = terms.find(monomial);
    if (monomial.empty() || same == terms.end() || same->second == INT64_MIN) continue;
    const int64_t times = same->second / coefficient;
    return times > 1 && same->second % coefficient == 0 ? times : 1;
  }
  return 1;
}

bool is_at_least_0(const Dim& d, const Graph& graph) {
  if (range_of(d, graph.symbols).min >= 0 || is_at_least_0_for_each(d, graph.symbols)) return true;
  // A condition says that a difference is at least 0. So d is at least 0 if it is no less than a multiple of the
  // difference, and also if 2 d >= difference - 1, because d is an integer.
  return std::ranges::any_of(graph.conditions, [&](const SizeCondition& condition) {
    const Dim& difference = condition.difference;
    return condition.says == SizeCondition::Says::at_least_0 &&
           (range_of(d - Dim(multiple_of(d, difference)) * difference, graph.symbols).min >= 0 ||
            range_of(Dim(2) * d - difference, graph.symbols).min >= -1);
  });
}

std::optional<Dim> clamp_index(Dim index, const Dim& size, const Graph& graph) {
  if (index.is_constant(INT64_MAX)) return size;
  const bool from_end = range_of(index, graph.symbols).max < 0;
  if (from_end) index = size + index;
  else if (!is_at_least_0(index, graph)) return std::nullopt;
  if (is_at_least_0(Dim(0) - index, graph)) return Dim(0);
  if (is_at_least_0(index - size, graph)) return size;
  if (is_at_least_0(size - index, graph) && (!from_end || is_at_least_0(index, graph))) return index;
  return from_end ? Dim::larger(index, 0) : Dim::smaller(index, size);
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  for (size_t i = 0; i < shorter.size(); ++i) {
    Dim& d = out[longer.size() - shorter.size() + i];
    if (d.is_constant(1)) d = shorter[i];
    else if (!(d == shorter[i]) && !shorter[i].is_constant(1)) return std::nullopt;
  }
  return out;
}

void Promotion::add(const Value& v) {
  auto& slot = v.shape.empty() ? scalar_tensors : tensors;
  auto both = slot ? promote(*slot, v.dtype) : v.dtype;
  defined = defined && both;
  if (both) slot = both;
}

void Promotion::add(const Arg& number) {
  DType d = number.get<double>() ? DType::f32 : number.get<bool>() ? DType::boolean : DType::i64;
  numbers = numbers ? promote(*numbers, d) : d;
}

DType Promotion::result() {
  auto combine = [&](std::optional<DType> higher, std::optional<DType> lower) -> std::optional<DType> {
    if (!higher || !lower) return higher ? higher : lower;
    if (category(*lower) <= category(*higher)) return higher;
    auto both = promote(*higher, *lower);
    defined = defined && both;
    return both ? both : higher;
  };
  return combine(tensors, combine(scalar_tensors, numbers)).value_or(DType::f32);
}

double correction_of(const Node& variance) {
  const Arg& given = variance.arg(variance.op->arg_index("unbiased") >= 0 ? "unbiased" : "correction");
  return given.is_none() ? 1 : as_number(given).value_or(NAN);
}

Shape BlockShape::reduced_shape() const {
  Shape shape;
  for (size_t i = 0; i < split.size(); ++i)
    if (!std::count(reduced.begin(), reduced.end(), i)) shape.push_back(split[i]);
  return shape;
}

Dim BlockShape::count() const { return product(reduced_shape()); }

Result<BlockShape> block_shape(const OpArgs& a, const Shape& input) {
  std::vector<Dim> block = a.dims("block_size");
  if (block.size() != input.size())
    return a.fail("block_size", fmt::format("{} sizes for a tensor of rank {}", block.size(), input.size()));
  BlockShape out;
  for (size_t i = 0; i < input.size(); ++i) {
    if (block[i].is_constant(1) || block[i] == input[i]) {
      if (!block[i].is_constant(1)) out.reduced.push_back(out.split.size());
      out.split.push_back(input[i]);
      continue;
    }
    auto count = input[i].divide_exactly(block[i]);
    if (!count) return a.fail("block_size", fmt::format("{} does not divide {}", block[i].str(), input[i].str()));
    out.split.push_back(*count);
    out.reduced.push_back(out.split.size());
    out.split.push_back(block[i]);
  }
  return out;
}

Result<Types> infer_types(const Graph& graph, const Node& node) {
  QCG_CHECK(check_arguments(graph, node));
  OpArgs args{graph, node};
  QCG_TRY(types, Op(node.op).row().shape(args));
  QCG_CHECK(settle_in_place(args, types));
  for (ValueType& type : types)
    for (Dim& d : type.shape) {
      if (!d.valid())
        return args.fail(node.op->args[0].name, std::string("the size of the result ") + kInvalidSize,
                         "use smaller tensors");
      d = settled(d, graph.symbols);
    }
  return types;
}

}  // namespace qcg

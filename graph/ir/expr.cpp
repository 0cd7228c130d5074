#include "graph/ir/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "graph/ir/special.h"
#include "graph/ir/tensor.h"

namespace qcg {
namespace {

constexpr int kMaxDepth = 200;
constexpr int kMaxIndex = 4096;

const ExprFunction* find_function(std::string_view name) {
  for (const auto& f : kExprFunctions)
    if (f.name == name) return &f;
  return nullptr;
}

struct LeafName {
  std::string_view prefix;
  ExprKind kind;
};
constexpr LeafName kLeaves[] = {
    {"acc", ExprKind::acc}, {"in", ExprKind::in}, {"pos", ExprKind::pos}, {"size", ExprKind::size}};

bool is_leaf(ExprKind kind) {
  return std::ranges::any_of(kLeaves, [&](const LeafName& leaf) { return leaf.kind == kind; });
}

Expr make_leaf(ExprKind kind, int index) {
  Expr e;
  e.kind = kind;
  e.index = index;
  return e;
}

// expr := accN | inN | posN | sizeN | number | cast_DTYPE '(' expr ')' | function '(' expr (',' expr)* ')'
class ExprParser {
 public:
  explicit ExprParser(std::string_view text) : text_(text) {}

  Result<Expr> parse() {
    QCG_TRY(expr, parse_expr(0));
    skip_space();
    if (at_ != text_.size()) return fail("expected the end of the expression");
    return expr;
  }

 private:
  Result<Expr> parse_expr(int depth) {
    if (depth > kMaxDepth) return fail("the expression is nested too deeply");
    skip_space();
    std::string_view word = take_word();
    if (word.empty()) return fail("expected an expression");
    if (at_ < text_.size() && text_[at_] == '(') return parse_call(word, depth);
    if (auto leaf = parse_leaf(word)) return *leaf;
    double value;
    auto [end, ec] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (ec != std::errc() || end != word.data() + word.size())
      return fail(fmt::format("'{}' is not a number, accN, inN, posN, sizeN or a function", word.substr(0, 40)));
    return Expr::number(value);
  }

  Result<Expr> parse_call(std::string_view word, int depth) {
    std::vector<Expr> args;
    do {
      ++at_;  // ( or ,
      QCG_TRY(arg, parse_expr(depth + 1));
      args.push_back(std::move(arg));
      skip_space();
    } while (at_ < text_.size() && text_[at_] == ',');
    if (at_ >= text_.size() || text_[at_] != ')') return fail("expected , or )");
    ++at_;
    if (word.starts_with("cast_")) {
      auto dtype = dtype_from_name(word.substr(5));
      if (!dtype || args.size() != 1) return fail("expected cast_DTYPE with one argument");
      return Expr::cast(*dtype, std::move(args[0]));
    }
    const ExprFunction* f = find_function(word);
    if (!f) return fail(fmt::format("unknown function '{}'", word.substr(0, 40)));
    if (f->arity != static_cast<int>(args.size()))
      return fail(fmt::format("{} takes {} arguments, not {}", f->name, f->arity, args.size()));
    return Expr::call(f->name, std::move(args));
  }

  static std::optional<Expr> parse_leaf(std::string_view word) {
    for (const auto& [prefix, kind] : kLeaves) {
      if (!word.starts_with(prefix)) continue;
      std::string_view digits = word.substr(prefix.size());
      int index = -1;
      auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
      if (ec != std::errc() || end != digits.data() + digits.size() || index < 0 || index > kMaxIndex) continue;
      return make_leaf(kind, index);
    }
    return std::nullopt;
  }

  std::string_view take_word() {
    size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  text_[at_] == '.' || text_[at_] == '-' || text_[at_] == '+'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  Error fail(std::string message) const {
    return Error::bad_input(fmt::format("expression '{}', column {}", text_.substr(0, 80), at_ + 1), std::move(message),
                            "write calls of the functions in graph/ir/expr.h over accN, inN and numbers");
  }

  std::string_view text_;
  size_t at_ = 0;
};

// max and min pass NaN on, as torch does; fmax and fmin would hide it.
double max_nan(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double min_nan(double a, double b) { return std::isnan(a) || a < b ? a : b; }

double gelu_tanh(double x) {
  const double k = std::sqrt(2.0 / M_PI);
  return 0.5 * x * (1 + std::tanh(k * (x + 0.044715 * x * x * x)));
}

constexpr uint64_t kBits = 64;
uint64_t shift_left(uint64_t a, uint64_t b) { return b < kBits ? a << b : 0; }
uint64_t shift_right(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<int64_t>(a) >> std::min(b, kBits - 1));
}
uint64_t gcd_of_sizes(uint64_t a, uint64_t b) {
  const auto size = [](uint64_t v) { return static_cast<int64_t>(v) < 0 ? 0 - v : v; };
  return std::gcd(size(a), size(b));
}
// A function of integers, applied to doubles that hold whole numbers.
template <uint64_t (*F)(uint64_t, uint64_t)>
double of_whole(double a, double b) {
  const auto bits = [](double v) { return static_cast<uint64_t>(static_cast<int64_t>(v)); };
  return static_cast<double>(static_cast<int64_t>(F(bits(a), bits(b))));
}
uint64_t bit_and(uint64_t a, uint64_t b) { return a & b; }
uint64_t bit_or(uint64_t a, uint64_t b) { return a | b; }
uint64_t bit_xor(uint64_t a, uint64_t b) { return a ^ b; }

using Unary = double (*)(double);
using Binary = double (*)(double, double);
struct Implementation {
  std::string_view name;
  Unary unary;
  Binary binary = nullptr;
};
constexpr Implementation kImplementations[] = {
    {"add", nullptr, [](double a, double b) { return a + b; }},
    {"sub", nullptr, [](double a, double b) { return a - b; }},
    {"mul", nullptr, [](double a, double b) { return a * b; }},
    {"div", nullptr, [](double a, double b) { return a / b; }},
    {"max", nullptr, max_nan},
    {"min", nullptr, min_nan},
    {"pow", nullptr, [](double a, double b) { return std::pow(a, b); }},
    {"neg", [](double x) { return -x; }},
    {"abs", [](double x) { return std::abs(x); }},
    {"reciprocal", [](double x) { return 1 / x; }},
    {"relu", [](double x) { return max_nan(x, 0); }},
    {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
    {"gelu", [](double x) { return 0.5 * x * std::erfc(-x * M_SQRT1_2); }},  // erfc: 1 + erf cancels for negative x
    {"gelu_tanh", gelu_tanh},
    {"tanh", [](double x) { return std::tanh(x); }},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"round_even", [](double x) { return std::nearbyint(x); }},
    {"floor", [](double x) { return std::floor(x); }},
    {"clamp", nullptr},
    {"sin", [](double x) { return std::sin(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"erf", [](double x) { return std::erf(x); }},
    {"gt", nullptr, [](double a, double b) { return a > b ? 1.0 : 0.0; }},
    {"where", nullptr},
    {"ge", nullptr, [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
    {"log1p", [](double x) { return std::log1p(x); }},
    {"expm1", [](double x) { return std::expm1(x); }},
    {"log2", [](double x) { return std::log2(x); }},
    {"log10", [](double x) { return std::log10(x); }},
    {"floor_div", nullptr, [](double a, double b) { return b == 0 ? 0 : std::floor(a / b); }},
    {"trunc_div", nullptr, [](double a, double b) { return b == 0 ? 0 : std::trunc(a / b); }},
    {"mod", nullptr, [](double a, double b) { return b == 0 ? a : a - b * std::floor(a / b); }},
    {"atan", [](double x) { return std::atan(x); }},
    {"fmod", nullptr, [](double a, double b) { return std::fmod(a, b); }},
    {"lgamma", log_gamma},
    {"digamma", digamma},
    {"erfinv", inverse_erf},
    {"ndtri", inverse_normal},
    {"i0", bessel_i0},
    {"i0e", bessel_i0e},
    {"i1", bessel_i1},
    {"i1e", bessel_i1e},
    {"erfcx", scaled_erfc},
    {"log_ndtr", log_normal},
    {"trigamma", trigamma},
    {"zeta", nullptr, zeta},
    {"bit_and", nullptr, of_whole<bit_and>},
    {"bit_or", nullptr, of_whole<bit_or>},
    {"bit_xor", nullptr, of_whole<bit_xor>},
    {"shift_left", nullptr, of_whole<shift_left>},
    {"shift_right", nullptr, of_whole<shift_right>},
    {"gcd", nullptr, of_whole<gcd_of_sizes>},
};

// Both tables have the same rows in the same order, so that a name's place in one is its place in the other.
constexpr bool tables_agree() {
  if (std::size(kImplementations) != std::size(kExprFunctions)) return false;
  for (size_t i = 0; i < std::size(kExprFunctions); ++i) {
    int arity = kImplementations[i].unary ? 1 : kImplementations[i].binary ? 2 : 3;
    if (kImplementations[i].name != kExprFunctions[i].name || arity != kExprFunctions[i].arity) return false;
  }
  return true;
}
static_assert(tables_agree(), "kImplementations must follow kExprFunctions");

const Implementation& implementation_of(std::string_view function) {
  size_t i = 0;
  while (kImplementations[i].name != function) ++i;  // calls name a row of the table
  return kImplementations[i];
}

}  // namespace

Expr Expr::acc(int index) { return make_leaf(ExprKind::acc, index); }
Expr Expr::in(int index) { return make_leaf(ExprKind::in, index); }
Expr Expr::pos(int axis) { return make_leaf(ExprKind::pos, axis); }
Expr Expr::size(int index) { return make_leaf(ExprKind::size, index); }

Expr Expr::number(double value) {
  Expr e;
  e.value = value;
  return e;
}

Expr Expr::cast(DType dtype, Expr x) {
  Expr e;
  e.kind = ExprKind::cast;
  e.dtype = dtype;
  e.args.push_back(std::move(x));
  return e;
}

Expr Expr::call(std::string_view function, std::vector<Expr> args) {
  Expr e;
  e.kind = ExprKind::call;
  e.function = find_function(function)->name;  // the table's own characters: they outlive the caller's
  e.args = std::move(args);
  return e;
}

std::string Expr::str() const {
  std::string s;
  switch (kind) {
    case ExprKind::acc: return fmt::format("acc{}", index);
    case ExprKind::in: return fmt::format("in{}", index);
    case ExprKind::pos: return fmt::format("pos{}", index);
    case ExprKind::size: return fmt::format("size{}", index);
    case ExprKind::number: return fmt::format("{}", value);
    case ExprKind::cast: s = fmt::format("cast_{}(", dtype_name(dtype)); break;
    case ExprKind::call: s = fmt::format("{}(", function); break;
  }
  for (size_t i = 0; i < args.size(); ++i) s += (i ? ", " : "") + args[i].str();
  return s + ")";
}

Result<Expr> Expr::parse(std::string_view text) { return ExprParser(text).parse(); }

namespace {

// Kernels hold values in f32: what is below its range is 0 and therefore false.
double cast_value(DType dtype, double x) {
  return round_to_dtype(dtype, dtype == DType::boolean ? static_cast<double>(static_cast<float>(x)) : x);
}

double clamp(double x, double low, double high) { return min_nan(max_nan(x, low), high); }

}  // namespace

double Expr::apply(std::span<const double> args) const {
  if (kind == ExprKind::cast) return cast_value(dtype, args[0]);
  const Implementation& f = implementation_of(function);
  if (f.unary) return f.unary(args[0]);
  if (f.binary) return f.binary(args[0], args[1]);
  if (function == "where") return args[0] != 0 ? args[1] : args[2];
  return clamp(args[0], args[1], args[2]);
}

double Expr::evaluate(std::span<const double> accs, std::span<const double> ins) const {
  if (kind == ExprKind::acc) return accs[index];
  if (kind == ExprKind::in) return ins[index];
  if (kind == ExprKind::number) return value;
  std::array<double, 3> values{};
  for (size_t i = 0; i < args.size(); ++i) values[i] = args[i].evaluate(accs, ins);
  return apply(values);
}

namespace {

using Wrapping = uint64_t (*)(uint64_t, uint64_t);
struct IntegerFunction {
  std::string_view name;
  Wrapping apply;
};
int64_t as_signed(uint64_t v) { return static_cast<int64_t>(v); }
// The quotient rounded toward zero; -2^63 / -1 wraps.
uint64_t trunc_div(uint64_t a, uint64_t b) {
  if (b == 0) return 0;
  return as_signed(b) == -1 ? 0 - a : static_cast<uint64_t>(as_signed(a) / as_signed(b));
}
uint64_t floor_div(uint64_t a, uint64_t b) {
  const uint64_t quotient = trunc_div(a, b), rest = a - quotient * b;
  return rest != 0 && b != 0 && (as_signed(rest) < 0) != (as_signed(b) < 0) ? quotient - 1 : quotient;
}
constexpr IntegerFunction kIntegerFunctions[] = {
    {"add", [](uint64_t a, uint64_t b) { return a + b; }},
    {"sub", [](uint64_t a, uint64_t b) { return a - b; }},
    {"mul", [](uint64_t a, uint64_t b) { return a * b; }},
    {"max", [](uint64_t a, uint64_t b) { return as_signed(a) > as_signed(b) ? a : b; }},
    {"min", [](uint64_t a, uint64_t b) { return as_signed(a) < as_signed(b) ? a : b; }},
    {"gt", [](uint64_t a, uint64_t b) { return uint64_t{as_signed(a) > as_signed(b)}; }},
    {"ge", [](uint64_t a, uint64_t b) { return uint64_t{as_signed(a) >= as_signed(b)}; }},
    {"neg", [](uint64_t a, uint64_t) { return 0 - a; }},
    {"abs", [](uint64_t a, uint64_t) { return as_signed(a) < 0 ? 0 - a : a; }},
    {"relu", [](uint64_t a, uint64_t) { return as_signed(a) < 0 ? 0 : a; }},
    {"round_even", [](uint64_t a, uint64_t) { return a; }},
    {"floor", [](uint64_t a, uint64_t) { return a; }},
    {"floor_div", floor_div},
    {"trunc_div", trunc_div},
    {"mod", [](uint64_t a, uint64_t b) { return a - floor_div(a, b) * b; }},
    {"bit_and", bit_and},
    {"bit_or", bit_or},
    {"bit_xor", bit_xor},
    {"shift_left", shift_left},
    {"shift_right", shift_right},
    {"gcd", gcd_of_sizes},
    {"clamp", nullptr},
    {"where", nullptr},
};

const IntegerFunction* find_integer_function(std::string_view name) {
  for (const auto& f : kIntegerFunctions)
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace

bool Expr::is_integer() const {
  if (kind == ExprKind::acc) return false;
  if (kind == ExprKind::number && (value != std::trunc(value) || std::abs(value) > 0x1p53)) return false;
  if (kind == ExprKind::cast && (is_floating(dtype) || dtype == DType::u64)) return false;
  if (kind == ExprKind::call && !find_integer_function(function)) return false;
  return std::all_of(args.begin(), args.end(), [](const Expr& arg) { return arg.is_integer(); });
}

bool Expr::has_f32() const {
  if (kind == ExprKind::call && find_function(function)->in == ExprFunction::In::integers) return false;
  return std::all_of(args.begin(), args.end(), [](const Expr& arg) { return arg.has_f32(); });
}

bool Expr::has_f64() const {
  if (kind == ExprKind::acc) return false;
  if (kind == ExprKind::cast && is_floating(dtype) && dtype != DType::f64 && dtype != DType::f32) return false;
  if (kind == ExprKind::cast && dtype == DType::u64) return false;
  if (kind == ExprKind::call && find_function(function)->in != ExprFunction::In::floats) return false;
  return std::all_of(args.begin(), args.end(), [](const Expr& arg) { return arg.has_f64(); });
}

namespace {

int64_t wrap(DType dtype, int64_t v) {
  std::byte element[8];
  int_to_element(dtype, v, element);
  return element_to_int(dtype, element);
}

int64_t apply_integers(const Expr& e, const std::array<int64_t, 3>& args) {
  if (e.kind == ExprKind::cast) return wrap(e.dtype, args[0]);
  if (e.function == "where") return args[0] != 0 ? args[1] : args[2];
  if (e.function == "clamp") return std::min(std::max(args[0], args[1]), args[2]);  // torch's order, for low > high
  return as_signed(
      find_integer_function(e.function)->apply(static_cast<uint64_t>(args[0]), static_cast<uint64_t>(args[1])));
}

// A function is looked up once per block.
constexpr size_t kBlock = 512;
template <class T>
using Block = std::array<T, kBlock>;

void apply_block(const Expr& e, const std::array<Block<double>, 3>& args, size_t n, Block<double>& out) {
  const Implementation* f = e.kind == ExprKind::cast ? nullptr : &implementation_of(e.function);
  const auto each = [&](auto&& value) {
    for (size_t i = 0; i < n; ++i) out[i] = value(i);
  };
  if (!f) each([&](size_t i) { return cast_value(e.dtype, args[0][i]); });
  else if (f->unary) each([&](size_t i) { return f->unary(args[0][i]); });
  else if (f->binary) each([&](size_t i) { return f->binary(args[0][i], args[1][i]); });
  else if (e.function == "where") each([&](size_t i) { return args[0][i] != 0 ? args[1][i] : args[2][i]; });
  else each([&](size_t i) { return clamp(args[0][i], args[1][i], args[2][i]); });
}

void apply_block(const Expr& e, const std::array<Block<int64_t>, 3>& args, size_t n, Block<int64_t>& out) {
  const IntegerFunction* f = e.kind == ExprKind::call ? find_integer_function(e.function) : nullptr;
  for (size_t i = 0; i < n; ++i)
    out[i] = f && f->apply ? as_signed(f->apply(static_cast<uint64_t>(args[0][i]), static_cast<uint64_t>(args[1][i])))
                           : apply_integers(e, {args[0][i], args[1][i], args[2][i]});
}

template <class T>
void evaluate_block(const Expr& e, std::span<const std::vector<T>> ins, size_t from, size_t n, Block<T>& out) {
  if (e.kind == ExprKind::in) {
    std::copy_n(ins[static_cast<size_t>(e.index)].begin() + static_cast<std::ptrdiff_t>(from), n, out.begin());
  } else if (e.kind == ExprKind::number) {
    std::fill_n(out.begin(), n, static_cast<T>(e.value));
  } else {
    const auto args = std::make_unique<std::array<Block<T>, 3>>();
    for (size_t i = 0; i < e.args.size(); ++i) evaluate_block(e.args[i], ins, from, n, (*args)[i]);
    apply_block(e, *args, n, out);
  }
}

template <class T>
std::vector<T> evaluate_blocks(const Expr& e, std::span<const std::vector<T>> ins, size_t count) {
  std::vector<T> out(count);
  Block<T> block{};
  for (size_t from = 0; from < count; from += kBlock) {
    const size_t n = std::min(kBlock, count - from);
    evaluate_block(e, ins, from, n, block);
    std::copy_n(block.begin(), n, out.begin() + static_cast<std::ptrdiff_t>(from));
  }
  return out;
}

}  // namespace

int64_t Expr::evaluate_integers(std::span<const int64_t> ins) const {
  if (kind == ExprKind::in) return ins[index];
  if (kind == ExprKind::number) return static_cast<int64_t>(value);
  std::array<int64_t, 3> values{};
  for (size_t i = 0; i < args.size(); ++i) values[i] = args[i].evaluate_integers(ins);
  return apply_integers(*this, values);
}

std::vector<double> Expr::evaluate_all(std::span<const std::vector<double>> ins, size_t count) const {
  return evaluate_blocks(*this, ins, count);
}

std::vector<int64_t> Expr::evaluate_all_integers(std::span<const std::vector<int64_t>> ins, size_t count) const {
  return evaluate_blocks(*this, ins, count);
}

double Expr::ulps() const { return kind == ExprKind::call ? find_function(function)->ulps : 0; }

int Expr::count_nodes() const {
  int n = 1;
  for (const Expr& arg : args) n += arg.count_nodes();
  return n;
}

namespace {

void collect_leaves(const Expr& expr, ExprKind leaf, std::vector<int>& out) {
  if (expr.kind == leaf) out.push_back(expr.index);
  for (const Expr& arg : expr.args) collect_leaves(arg, leaf, out);
}

}  // namespace

std::vector<int> Expr::leaves(ExprKind leaf) const {
  std::vector<int> out;
  collect_leaves(*this, leaf, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

namespace {

void replace_leaves(Expr& expr, const std::function<Expr(const Expr&)>& f) {
  if (is_leaf(expr.kind)) expr = f(expr);
  else
    for (Expr& arg : expr.args) replace_leaves(arg, f);
}

}  // namespace

Expr Expr::map_leaves(const std::function<Expr(const Expr&)>& f) const {
  Expr out = *this;
  replace_leaves(out, f);
  return out;
}

Expr Expr::as_inputs(int first_pos, int first_size) const {
  return map_leaves([&](const Expr& leaf) {
    if (leaf.kind == ExprKind::pos) return Expr::in(first_pos + leaf.index);
    return leaf.kind == ExprKind::size ? Expr::in(first_size + leaf.index) : leaf;
  });
}

}  // namespace qcg

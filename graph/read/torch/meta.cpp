#include "graph/read/torch/meta.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/read/files/limits.h"

namespace qcg {
namespace {

constexpr size_t kMaxExprBytes = 4096;
constexpr int kMaxExprDepth = 32;
constexpr int64_t kMaxPower = 8;
constexpr int64_t kMaxExtent = int64_t{1} << 62;
constexpr const char* kExprHelp =
    "sizes must be sums, products, quotients and extremes of symbols: export with other dynamic dimensions";
// As sympy and torch name them. ModularIndexing(a, b, c) is a // b % c.
constexpr std::string_view kFunctions[] = {
    "Add",        "Mul",        "Pow",        "FloorDiv", "CleanDiv",        "Mod",
    "PythonMod",  "Min",        "Max",        "ToFloat",  "ModularIndexing", "FloatTrueDiv",
    "IntTrueDiv", "TruncToInt", "FloorToInt", "CeilToInt"};
constexpr std::string_view kRoundings[] = {"TruncToInt", "FloorToInt", "CeilToInt"};

// A whole number, or a real one as a fraction. Sizes are small: what torch computes of them in f64 is exact up to the
// first division by something else than a power of 2, which rounds to nearest. Rounding that to a whole number gives
// what rounding the fraction gives.
struct Number {
  Dim top, bottom = 1;
  bool real = false, rounded = false;
};

bool is_never_negative(const Dim& d) {  // symbols are sizes
  return std::ranges::all_of(d.terms(), [](const auto& term) { return term.second >= 0; });
}

// Recursive descent over sympy's srepr: Name(argument, ...), 'text', keyword=Word, integers.
class SreprParser {
 public:
  explicit SreprParser(std::string_view text) : text_(text) {}

  Result<Dim> parse() {
    QCG_TRY(number, parse_whole_text());
    if (number.real) return Error::bad_input("", "the size expression is no whole number", kExprHelp);
    return number.top;
  }

  // The quotient of top and bottom where no symbol is left in it.
  Result<std::optional<double>> parse_real() {
    QCG_TRY(number, parse_whole_text());
    const auto top = number.top.terms(), bottom = number.bottom.terms();
    if (top.empty() || bottom.empty()) return std::optional<double>();
    const int64_t a = top.begin()->second, b = bottom.begin()->second;
    if (!(number.top * Dim(b) == number.bottom * Dim(a))) return std::optional<double>();
    return std::optional(static_cast<double>(a) / static_cast<double>(b));
  }

 private:
  Result<Number> parse_whole_text() {
    QCG_TRY(number, parse_term(0));
    skip_space();
    if (at_ != text_.size()) return malformed();
    return number;
  }

  Result<Number> parse_term(int depth) {
    if (depth > kMaxExprDepth) return Error::bad_input("", "the size expression is nested too deeply", kExprHelp);
    skip_space();
    if (at_ < text_.size() && (text_[at_] == '-' || is_digit(text_[at_]))) return whole(parse_number());
    std::string_view name = take_word();
    if (name.empty()) return malformed();
    if (!take('(')) return whole(symbol(name));
    if (name == "Symbol") return whole(parse_symbol());
    if (name == "Integer") return whole(parse_integer());
    if (name == "Float") return parse_float();
    const bool known = std::ranges::find(kFunctions, name) != std::end(kFunctions);
    if (!known) {
      return Error::unsupported("", "the size expression uses " + quote(name), kExprHelp);
    }
    std::vector<Number> operands;
    do {
      QCG_TRY(operand, parse_term(depth + 1));
      operands.push_back(std::move(operand));
    } while (take(','));
    if (!take(')')) return malformed();
    const bool any_real = std::ranges::any_of(operands, &Number::real);
    const bool rounds = std::ranges::find(kRoundings, name) != std::end(kRoundings);
    if (rounds || any_real || name == "ToFloat" || name.ends_with("TrueDiv")) return combine_reals(name, operands);
    std::vector<Dim> dims;
    for (const Number& operand : operands) dims.push_back(operand.top);
    return whole(combine(name, dims));
  }

  static Result<Number> whole(Result<Dim> dim) {
    if (!dim.ok()) return dim.error();
    return Number{std::move(*dim)};
  }

  Result<Number> combine_reals(std::string_view name, const std::vector<Number>& operands) {
    const bool rounds = std::ranges::find(kRoundings, name) != std::end(kRoundings);
    const Number& first = operands[0];
    if (operands.size() == 1 && rounds) return rounded(name, first);
    if (operands.size() == 1 && name == "ToFloat") return Number{first.top, first.bottom, true, first.rounded};
    Number out = first;
    out.real = true;
    for (size_t i = 1; i < operands.size(); ++i) {
      const Number& next = operands[i];
      if (out.rounded || next.rounded) return unsupported("computes with a quotient that f64 rounds");
      if (name == "Add") {
        out.top = out.top * next.bottom + next.top * out.bottom;
        out.bottom = out.bottom * next.bottom;
      } else if (name == "Mul") {
        out.top = out.top * next.top;
        out.bottom = out.bottom * next.bottom;
      } else if (name.ends_with("TrueDiv") && operands.size() == 2) {
        const Dim sign = next.top.is_constant() && next.top.constant() < 0 ? -1 : 1, divisor = next.top * sign;
        out.top = out.top * next.bottom * sign;
        out.bottom = out.bottom * divisor;
        const bool exact = divisor.is_constant() && std::has_single_bit(static_cast<uint64_t>(divisor.constant()));
        out.rounded = !exact;
      } else {
        return unsupported("uses " + quote(name) + " of fractions");
      }
    }
    if (!out.top.valid() || !out.bottom.valid() || out.bottom.is_constant(0))
      return Error::bad_input("", std::string("the size expression ") + kInvalidSize, kExprHelp);
    return out;
  }

  Result<Number> rounded(std::string_view name, const Number& x) {
    if (!is_never_negative(x.bottom)) return unsupported("divides by a difference");
    const Dim floor = Dim::floor_divide(x.top, x.bottom), ceil = Dim(-1) * Dim::floor_divide(Dim(-1) * x.top, x.bottom);
    Dim out = name == "CeilToInt" ? ceil : floor;
    if (name == "TruncToInt" && !is_never_negative(x.top))
      out = Dim::larger(floor, Dim(0)) + Dim::smaller(ceil, Dim(0));
    if (!out.valid()) return Error::bad_input("", std::string("the size expression ") + kInvalidSize, kExprHelp);
    return Number{std::move(out)};
  }

  // '1.5', precision=53): of few bits, so that its product with a size is exact.
  Result<Number> parse_float() {
    constexpr double kMost = 1 << 21;
    skip_space();
    const char mark = at_ < text_.size() ? text_[at_] : '\0';
    if (mark != '\'' && mark != '"') return malformed();
    double value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_ + 1, text_.data() + text_.size(), value);
    if (error != std::errc()) return malformed();
    at_ = static_cast<size_t>(end - text_.data());
    if (at_ >= text_.size() || text_[at_++] != mark) return malformed();
    while (take(','))
      if (take_word().empty() || !take('=') || take_word().empty()) return malformed();
    if (!take(')')) return malformed();
    double bottom = 1;
    while (bottom < kMost && value * bottom != std::trunc(value * bottom)) bottom *= 2;
    if (std::fabs(value * bottom) > kMost || value * bottom != std::trunc(value * bottom))
      return unsupported("has the factor " + std::to_string(value) + ", whose products f64 rounds");
    return Number{Dim(static_cast<int64_t>(value * bottom)), Dim(static_cast<int64_t>(bottom)), true};
  }

  Error unsupported(const std::string& what) const {
    return Error::unsupported("", "the size expression " + what, kExprHelp);
  }

  Result<Dim> combine(std::string_view name, const std::vector<Dim>& operands) {
    Dim result = operands[0];
    const bool modular = name == "ModularIndexing";
    if (modular || name == "FloorDiv" || name == "CleanDiv" || name == "Mod" || name == "PythonMod") {
      if (operands.size() != (modular ? 3 : 2)) return malformed();
      if (modular) result = Dim::modulo(Dim::floor_divide(operands[0], operands[1]), operands[2]);
      else result = name.ends_with("Mod") ? Dim::modulo(result, operands[1]) : Dim::floor_divide(result, operands[1]);
    } else if (name == "Min" || name == "Max") {
      for (size_t i = 1; i < operands.size(); ++i)
        result = name == "Min" ? Dim::smaller(result, operands[i]) : Dim::larger(result, operands[i]);
    } else if (name == "Pow") {
      if (operands.size() != 2) return malformed();
      const Dim& power = operands[1];
      if (!power.is_constant() || power.constant() < 0 || power.constant() > kMaxPower) {
        return Error::unsupported("", "the size expression has a power that is not a small number", kExprHelp);
      }
      result = Dim(1);
      for (int64_t i = 0; i < power.constant(); ++i) result = result * operands[0];
    } else if (name == "Add") {
      result = Dim::sum(operands);
    } else {
      for (size_t i = 1; i < operands.size(); ++i) result = result * operands[i];
    }
    if (!result.valid()) return Error::bad_input("", std::string("the size expression ") + kInvalidSize, kExprHelp);
    return result;
  }

  // 's77', positive=True, integer=True)
  Result<Dim> parse_symbol() {
    skip_space();
    char mark = at_ < text_.size() ? text_[at_] : '\0';
    if (mark != '\'' && mark != '"') return malformed();
    ++at_;
    std::string_view name = take_word();
    if (at_ >= text_.size() || text_[at_++] != mark) return malformed();
    while (take(',')) {
      if (take_word().empty() || !take('=') || take_word().empty()) return malformed();
    }
    if (!take(')')) return malformed();
    return symbol(name);
  }

  Result<Dim> parse_integer() {
    QCG_TRY(dim, parse_number());
    if (!take(')')) return malformed();
    return dim;
  }

  Result<Dim> parse_number() {
    skip_space();
    int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return malformed();
    at_ = end - text_.data();
    return Dim(value);
  }

  Result<Dim> symbol(std::string_view name) {
    if (name.empty() || name.size() > 64 || is_digit(name[0])) return malformed();
    return Dim::symbol(std::string(name));
  }

  Error malformed() const {
    return Error::bad_input("", "the size expression " + quote(text_) + " cannot be read", kExprHelp);
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  std::string_view take_word() {
    skip_space();
    size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Whether two strides differ whatever the sizes are: of [6, s0], transposed, they are those of a row-major tensor where
// s0 is 1. The strides of a copy are written as products of its sizes, or of Max(1, size).
bool never_equal(const Dim& a, const Dim& b) {
  if (a.has_calls() || b.has_calls()) return false;
  const Dim difference = a - b;
  std::vector<Symbol> symbols;
  for (std::string& name : difference.symbols()) symbols.push_back({std::move(name), 1, INT64_MAX});
  const DimRange range = range_of(difference, symbols);
  return range.min > 0 || range.max < 0;
}

Result<std::vector<int64_t>> constants(const Shape& dims, const JsonCursor& list) {
  std::vector<int64_t> values;
  size_t i = 0;
  for (JsonCursor item : list) {
    if (!dims[i].is_constant()) return item.bad("the size of a weight is symbolic", "export with static weight shapes");
    values.push_back(dims[i++].constant());
  }
  return values;
}

// A tensor of complex numbers as one of their parts; false: its strides or its offset are too large.
bool as_pairs(Tensor& tensor) {
  bool fits = !__builtin_mul_overflow(tensor.offset, int64_t{2}, &tensor.offset);
  for (int64_t& stride : tensor.strides) fits = fits && !__builtin_mul_overflow(stride, int64_t{2}, &stride);
  tensor.shape.push_back(2);
  tensor.strides.push_back(1);
  return fits;
}

// The dtype of the parts of complex numbers, by the number of their own.
std::optional<DType> dtype_of_parts(int64_t number) {
  switch (number) {
    case 9: return DType::f16;
    case 10: return DType::f32;
    case 11: return DType::f64;
    default: return std::nullopt;
  }
}

}  // namespace

Result<std::optional<double>> parse_real_expr(std::string_view text) {
  if (text.size() > kMaxExprBytes) return Error::bad_input("", "the expression is too long", kExprHelp);
  return SreprParser(text).parse_real();
}

Result<Dim> parse_size_expr(std::string_view text) {
  if (text.size() > kMaxExprBytes) return Error::bad_input("", "the size expression is too long", kExprHelp);
  bool srepr = text.find_first_of("('") != std::string_view::npos;
  if (srepr) return SreprParser(text).parse();
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::string packed;
  bool joins_words = false;  // "s0 s1" is not the symbol s0s1
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    joins_words =
        joins_words || (i > 0 && text[i - 1] == ' ' && !packed.empty() && is_word(packed.back()) && is_word(text[i]));
    packed += text[i];
  }
  auto dim = Dim::parse(packed);
  if (!joins_words && dim.ok() && dim->valid()) return dim;
  return Error::unsupported("", "the size expression " + quote(text) + " cannot be read", kExprHelp);
}

Result<Dim> read_sym_int(const JsonCursor& sym_int) {
  QCG_CHECK(sym_int.expect(JsonKind::object));
  if (auto number = sym_int.find("as_int")) {
    QCG_TRY(value, number->integer());
    return Dim(value);
  }
  QCG_TRY(as_expr, sym_int.at("as_expr"));
  QCG_TRY(expr, as_expr.at("expr_str"));
  QCG_TRY(text, expr.string());
  auto dim = parse_size_expr(text);
  if (!dim.ok()) dim.error().where = expr.path();
  return dim;
}

Result<DType> read_export_dtype(const JsonCursor& number) {
  QCG_TRY(value, number.integer());
  if (auto dtype = dtype_from_export_number(value)) return *dtype;
  return number.unsupported("element type number " + std::to_string(value) + " is not supported",
                            "use float, bfloat16, half, float8 or integer tensors");
}

bool is_complex_meta(const JsonCursor& meta) {
  const auto dtype = meta.find("dtype");
  if (!dtype) return false;
  const auto number = dtype->integer();
  return number.ok() && dtype_of_parts(*number).has_value();
}

Result<TensorMeta> read_tensor_meta(const JsonCursor& meta) {
  constexpr int64_t kStrided = 7;
  TensorMeta out;
  QCG_TRY(dtype, meta.at("dtype"));
  QCG_TRY(number, dtype.integer());
  if (const auto part = dtype_of_parts(number)) {
    out.is_complex = true;
    out.dtype = *part;
  } else {
    QCG_TRY(element, read_export_dtype(dtype));
    out.dtype = element;
  }
  QCG_TRY(size_list, meta.array_at("sizes"));
  QCG_TRY(sizes, read_sizes(size_list));
  out.sizes = std::move(sizes);
  if (out.is_complex) out.sizes.push_back(Dim(2));
  if (auto layout = meta.find("layout")) {
    QCG_TRY(value, layout->integer());
    if (value != kStrided)
      return layout->unsupported("the tensor is not strided (sparse or mkldnn layout)",
                                 "call .to_dense() before exporting");
  }
  return out;
}

bool has_sane_extent(const Tensor& tensor) {
  int64_t numel = 1, last = tensor.offset;
  if (tensor.offset < 0 || tensor.shape.size() != tensor.strides.size()) return false;
  // An axis of 0 elements does not excuse the others: their product is what later code multiplies first.
  for (int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(numel, std::max<int64_t>(size, 1), &numel)) return false;
  }
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    int64_t reach = 0;
    if (tensor.strides[i] < 0 ||
        __builtin_mul_overflow(std::max<int64_t>(tensor.shape[i] - 1, 0), tensor.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return false;
    }
  }
  int64_t bytes = static_cast<int64_t>(dtype_bytes(tensor.dtype));
  return numel < kMaxExtent / bytes && last < kMaxExtent / bytes;
}

MemoryOrder memory_order(const JsonCursor& meta) {
  const auto size_list = meta.array_at("sizes"), stride_list = meta.array_at("strides");
  if (!size_list.ok() || !stride_list.ok()) return MemoryOrder::unknown;
  const auto sizes = read_sizes(*size_list), strides = read_sizes(*stride_list);
  if (!sizes.ok() || !strides.ok() || sizes->size() != strides->size()) return MemoryOrder::unknown;
  MemoryOrder order = MemoryOrder::row_major;
  Dim expected = 1;
  for (size_t axis = sizes->size(); axis-- > 0;) {
    const Dim &size = (*sizes)[axis], &stride = (*strides)[axis];
    if (size.is_constant(1)) continue;
    if (!(stride == expected)) {
      if (size.is_constant() && size.constant() > 1 && never_equal(stride, expected)) return MemoryOrder::other;
      order = MemoryOrder::unknown;
    }
    expected = expected * size;
  }
  return order;
}

size_t storage_extent(const Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.shape.size(); ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
  return static_cast<size_t>(last + 1) * dtype_bytes(tensor.dtype);
}

Result<Shape> read_sizes(const JsonCursor& list) {
  if (list.size() > kMaxRank) {
    return list.bad("a tensor has " + std::to_string(list.size()) + " axes",
                    "at most " + std::to_string(kMaxRank) + " are supported");
  }
  Shape sizes;
  for (JsonCursor size : list) {
    QCG_TRY(dim, read_sym_int(size));
    if (dim.is_constant() && dim.constant() < 0) {
      return size.bad("a size or stride is negative", "make the tensor contiguous before exporting");
    }
    sizes.push_back(std::move(dim));
  }
  return sizes;
}

Result<Tensor> read_constant_tensor_meta(const JsonCursor& meta) {
  QCG_TRY(described, read_tensor_meta(meta));
  Tensor tensor;
  tensor.dtype = described.dtype;
  QCG_TRY(size_list, meta.array_at("sizes"));
  Shape sizes = described.sizes;
  if (described.is_complex) sizes.pop_back();
  QCG_TRY(shape, constants(sizes, size_list));
  tensor.shape = std::move(shape);
  QCG_TRY(stride_list, meta.array_at("strides"));
  QCG_TRY(stride_dims, read_sizes(stride_list));
  QCG_TRY(strides, constants(stride_dims, stride_list));
  tensor.strides = std::move(strides);
  if (tensor.strides.size() != tensor.shape.size()) {
    return stride_list.bad("there are " + std::to_string(tensor.strides.size()) + " strides for " +
                               std::to_string(tensor.shape.size()) + " sizes",
                           "export the graph again");
  }
  if (auto offset = meta.find("storage_offset")) {
    QCG_TRY(value, read_sym_int(*offset));
    if (!value.is_constant()) return meta.bad("storage_offset is symbolic", "export with static weight shapes");
    tensor.offset = value.constant();
  }
  if (described.is_complex && !as_pairs(tensor))
    return meta.bad("strides or offset of complex numbers are too large", "export the graph again");
  if (!has_sane_extent(tensor))
    return meta.bad("sizes, strides or offset are negative or too large", "export the graph again");
  return tensor;
}

}  // namespace qcg

#include "graph/ops/formula.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "graph/ir/float_format.h"
#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"

namespace qcg {
namespace {

Expr call(std::string_view function, Expr a) { return Expr::call(function, {std::move(a)}); }
Expr call(std::string_view function, Expr a, Expr b) { return Expr::call(function, {std::move(a), std::move(b)}); }
Expr where(Expr condition, Expr yes, Expr no) {
  return Expr::call("where", {std::move(condition), std::move(yes), std::move(no)});
}
bool is_number(const Expr& e) { return e.kind == ExprKind::number; }
bool is_one(const Expr& e) { return is_number(e) && e.value == 1; }

Expr negation(Expr truth) { return call("sub", Expr::number(1), std::move(truth)); }
Expr equal(const Expr& a, const Expr& b) { return call("mul", call("ge", a, b), call("ge", b, a)); }
Expr unequal(const Expr& a, const Expr& b) { return negation(equal(a, b)); }

Expr plus(Expr a, Expr b) {
  if (is_number(a) && a.value == 0) return b;
  if (is_number(b) && b.value == 0) return a;
  return call("add", std::move(a), std::move(b));
}

Expr times(Expr a, Expr b) {
  if (is_number(a) && is_number(b)) return Expr::number(a.value * b.value);
  if (is_one(a)) return b;
  if (is_one(b)) return a;
  return call("mul", std::move(a), std::move(b));
}

// The largest number of f32, in which f16 and bf16 are computed, too.
constexpr double kLargest = std::numeric_limits<float>::max();
class Reader {
 public:
  Reader(const Graph& graph, const Node& node, const FormulaReader& reader)
      : graph_(graph), node_(node), reader_(reader), text_(Op(node.op).row().formula) {}

  std::optional<Pointwise> read() {
    Expr expr = term();
    if (absent_ || failed_) return std::nullopt;
    return Pointwise{std::move(expr), std::move(operands_), std::move(sizes_)};
  }

 private:
  // term := NAME '(' term (', ' term)* ')' | NAME | NUMBER
  Expr term() {
    const size_t end = std::min(text_.find_first_of("(,)"), text_.size());
    const std::string_view word = text_.substr(0, end);
    text_.remove_prefix(end);
    if (!text_.starts_with('(')) return leaf(word);
    std::vector<Expr> args;
    std::vector<bool> absent;
    do {
      text_.remove_prefix(text_.starts_with('(') ? 1 : 2);  // "(" or ", "
      args.push_back(term());
      absent.push_back(std::exchange(absent_, false));
    } while (text_.starts_with(','));
    text_.remove_prefix(1);
    if (word == "clamp") return clamp(std::move(args), absent);
    if (std::ranges::count(absent, true) > 0) failed_ = true;
    return apply(word, std::move(args));
  }

  Expr leaf(std::string_view word) {
    if (node_.op->arg_index(word) >= 0) return argument(word);
    if (word == "column") return position_from_last(1);
    if (word == "row") return position_from_last(2);
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) std::abort();  // the table is wrong
    return Expr::number(value);
  }

  Expr position_from_last(size_t axis) {
    const size_t rank = graph_.value(node_.outputs[0]).shape.size();
    failed_ = failed_ || rank < axis;
    return failed_ ? Expr() : Expr::pos(static_cast<int>(rank - axis));
  }

  // The number of a value among those that were met before it.
  template <class T>
  static int number_of(std::vector<T>& met, const T& value) {
    const auto it = std::ranges::find(met, value);
    const int number = static_cast<int>(it - met.begin());
    if (it == met.end()) met.push_back(value);
    return number;
  }

  Expr argument(std::string_view name) {
    const Arg& arg = node_.arg(name);
    const ValueId* id = arg.get<ValueId>();
    dtype_ = id && *id != kNoValue ? std::optional(graph_.value(*id).dtype) : std::nullopt;
    has_axes_ = dtype_ && !graph_.value(*id).shape.empty();
    if (id ? *id == kNoValue : arg.is_none()) {
      absent_ = true;
      return {};
    }
    if (id) {
      if (const auto same = reader_.uniform(*id)) return Expr::number(*same);
      return Expr::in(number_of(operands_, *id));
    }
    if (const Dim* whole = arg.get<Dim>(); whole && whole->is_constant() && is_of_integers())
      return integer(whole->constant());
    if (const auto number = reader_.number(arg)) {
      const bool is_beyond = std::abs(*number) > kLargest && is_floating(result()) && result() != DType::f64;
      return Expr::number(is_beyond ? std::copysign(HUGE_VAL, *number) : *number);
    }
    if (const Dim* size = arg.get<Dim>()) return Expr::size(number_of(sizes_, *size));
    failed_ = true;
    return {};
  }

  bool is_of_integers() const {
    bool floats = is_floating(result());
    for_each_input(node_, [&](ValueId id) { floats = floats || is_floating(graph_.value(id).dtype); });
    return !floats;
  }
  // Beyond 2^53 in two parts, each of which f64 holds.
  static Expr integer(int64_t value) {
    if (is_exact_double(value)) return Expr::number(static_cast<double>(value));
    const int64_t high = value >> 32, low = value & 0xffffffff;
    return call("add", call("mul", Expr::number(static_cast<double>(high)), Expr::number(0x1p32)),
                Expr::number(static_cast<double>(low)));
  }

  Expr apply(std::string_view word, std::vector<Expr> args) {
    Expr& a = args[0];
    if (word == "plus") return plus(std::move(a), std::move(args[1]));
    if (word == "times") return times(std::move(a), std::move(args[1]));
    if (word == "div" && is_number(a) && is_number(args[1])) return Expr::number(a.value / args[1].value);
    if (word == "lt") return call("gt", std::move(args[1]), std::move(a));
    if (word == "le") return call("ge", std::move(args[1]), std::move(a));
    if (word == "eq") return equal(a, args[1]);
    if (word == "ne") return unequal(a, args[1]);
    if (word == "not") return negation(std::move(a));
    if (word == "truth") return dtype_ == DType::boolean ? a : unequal(a, Expr::number(0));
    if (word == "quotient") return quotient(a, args[1]);
    if (word == "ten_to") return Expr::number(std::pow(10, std::max(a.value, 0.0)));
    if (word == "rest") return rest(a, args[1]);
    if (word == "remainder") return remainder(a, args[1]);
    if (word == "pow" && is_number(a) && is_number(args[1])) return Expr::number(std::pow(a.value, args[1].value));
    if (word == "polygamma") return polygamma(a, args[1]);
    if (word == "inverse") return is_truth() ? negation(std::move(a)) : call("bit_xor", std::move(a), Expr::number(-1));
    if (is_truth() && word == "bit_and") return call("mul", std::move(a), std::move(args[1]));
    if (is_truth() && word == "bit_or") return call("max", std::move(a), std::move(args[1]));
    if (is_truth() && word == "bit_xor") return unequal(a, args[1]);
    if (word == "common") return common(std::move(a));
    if (word == "held") return held(std::move(a));
    if (word == "factor") return has_axes_ ? held(std::move(a)) : std::move(a);
    if (word == "cast") return Expr::cast(result(), std::move(a));
    if (word == "gelu") return gelu(std::move(a));
    if (word == "power") return power(std::move(a), std::move(args[1]));
    if (word == "finite") return finite(a);
    return Expr::call(word, std::move(args));
  }

  DType result() const { return graph_.value(node_.outputs[0]).dtype; }
  bool is_truth() const { return result() == DType::boolean; }

  // The dtype that self and other are brought to. A write in place has the result in that of self.
  DType promoted() const {
    Promotion promotion;
    for (std::string_view name : {"self", "other"}) {
      if (const ValueId* id = node_.arg(name).get<ValueId>()) promotion.add(graph_.value(*id));
      else promotion.add(node_.arg(name));
    }
    return promotion.result();
  }

  Expr common(Expr side) {
    const DType dtype = promoted();
    return is_floating(dtype) ? brought_to(dtype, std::move(side)) : side;
  }
  // The argument just read.
  Expr brought_to(DType dtype, Expr x) const {
    if (is_number(x)) return Expr::number(round_to_dtype(dtype, x.value));
    return dtype_ == dtype ? x : Expr::cast(dtype, std::move(x));
  }

  Expr held(Expr x) {
    const DType dtype = node_.op->arg_index("other") >= 0 ? promoted() : result();
    const bool is_exact = dtype_ && dtype_bytes(*dtype_) == 1;
    return is_half(dtype) && !is_exact ? brought_to(dtype, std::move(x)) : x;
  }

  Expr clamp(std::vector<Expr> args, const std::vector<bool>& absent) {
    if (absent[1] && absent[2]) return std::move(args[0]);
    if (absent[2]) return call("max", std::move(args[0]), std::move(args[1]));
    if (absent[1]) return call("min", std::move(args[0]), std::move(args[2]));
    return Expr::call("clamp", std::move(args));
  }

  // Rounded down, or toward zero if `rounding_mode` says so. The floor of a quotient of floats is computed from the
  // exact remainder, because a / b may be rounded up to the next whole number. Toward zero, torch truncates a / b as
  // f32 has it.
  Expr quotient(const Expr& a, Expr b) const {
    const bool floors =
        node_.op->arg_index("rounding_mode") < 0 || node_.arg("rounding_mode") == Arg(std::string("floor"));
    if (!is_floating(result())) return call(floors ? "floor_div" : "trunc_div", a, std::move(b));
    const DType wide = result() == DType::f64 ? DType::f64 : DType::f32;
    if (is_number(b)) b.value = round_to_dtype(wide, b.value);
    const Expr zero = Expr::number(0), whole = call("div", a, b);
    if (!floors) {
      const Expr rounded = wide == DType::f32 ? Expr::cast(wide, whole) : whole;
      const auto negative = [&](const Expr& x) { return Expr::call("neg", {x}); };
      return where(call("gt", zero, rounded), negative(Expr::call("floor", {negative(rounded)})),
                   Expr::call("floor", {rounded}));
    }
    const Expr left = call("fmod", a, b);
    const Expr below = call("mul", unequal(left, zero), unequal(call("gt", zero, left), call("gt", zero, b)));
    const Expr down = call("sub", Expr::call("round_even", {call("div", call("sub", a, left), b)}), below);
    return where(equal(b, zero), whole, where(equal(down, zero), call("mul", zero, whole), down));
  }

  // The remainder of a quotient rounded toward zero. As in torch, a number as divisor is first rounded to the dtype of
  // the result: a small difference of the divisor may change the remainder by as much as the divisor.
  Expr rest(const Expr& a, Expr b) const {
    if (!is_floating(result())) return call("sub", a, call("mul", call("trunc_div", a, b), b));
    if (is_number(b)) b.value = round_to_dtype(result(), b.value);
    return call("fmod", a, std::move(b));
  }

  // The remainder of a quotient rounded down, which has the sign of the divisor.
  Expr remainder(const Expr& a, Expr b) const {
    if (!is_floating(result())) return call("mod", a, b);
    if (is_number(b)) b.value = round_to_dtype(result(), b.value);
    const Expr zero = Expr::number(0), left = rest(a, b);
    const Expr differs = unequal(call("gt", zero, left), call("gt", zero, b));
    return where(call("mul", unequal(left, zero), differs), call("add", left, b), left);
  }

  // (-1)^(n + 1) n! zeta(n + 1, x).
  static Expr polygamma(const Expr& n, const Expr& x) {
    if (n.value == 0) return Expr::call("digamma", {x});
    if (n.value == 1) return Expr::call("trigamma", {x});
    const double factor = std::tgamma(n.value + 1) * (std::fmod(n.value, 2) == 0 ? -1 : 1);
    return call("mul", Expr::number(factor), call("zeta", Expr::number(n.value + 1), x));
  }

  Expr gelu(Expr x) {
    if (node_.op->arg_index("approximate") < 0) return call("gelu", std::move(x));
    const auto* how = node_.arg("approximate").get<std::string>();
    if (!how || (*how != "none" && *how != "tanh")) failed_ = true;
    return call(how && *how == "tanh" ? "gelu_tanh" : "gelu", std::move(x));
  }

  Expr power(Expr x, Expr exponent) {
    if (is_number(exponent) && exponent.value == 2) return call("mul", x, x);
    constexpr double kMostFactors = 64;
    const bool is_whole = is_number(exponent) && exponent.value >= 0 && exponent.value == std::floor(exponent.value);
    if (!is_floating(result()) && is_whole && exponent.value <= kMostFactors)
      return product(x, static_cast<int>(exponent.value));
    return call("pow", std::move(x), std::move(exponent));
  }
  // x^n by squaring.
  static Expr product(const Expr& x, int n) {
    if (n == 0) return Expr::number(1);
    if (n == 1) return x;
    const Expr half = product(x, n / 2), even = call("mul", half, half);
    return n % 2 == 0 ? even : call("mul", even, x);
  }

  // Numbers in the place of NaN and infinities: 0 and the largest of the dtype unless given.
  Expr finite(const Expr& x) {
    // Kernels hold f16 and bf16 in f32, so only numbers beyond f32's largest are infinite.
    const double largest = largest_finite(result()), most = std::max(largest, kLargest);
    const auto given = [&](std::string_view name, double otherwise) {
      return Expr::number(round_to_dtype(result(), as_number(node_.arg(name)).value_or(otherwise)));
    };
    const Expr number = where(equal(x, x), x, given("nan", 0));
    return where(call("gt", x, Expr::number(most)), given("posinf", largest),
                 where(call("gt", Expr::number(-most), x), given("neginf", -largest), number));
  }

  const Graph& graph_;
  const Node& node_;
  const FormulaReader& reader_;
  std::string_view text_;  // what is left of the formula
  std::vector<ValueId> operands_;
  std::vector<Dim> sizes_;
  bool absent_ = false;         // the argument just read
  std::optional<DType> dtype_;  // its dtype, if it is a tensor
  bool has_axes_ = false;       // it is a tensor of one axis at least
  bool failed_ = false;
};

}  // namespace

double largest_finite(DType dtype) {
  const auto format = float_format(dtype);
  return format ? format->max_finite() : kLargest;
}

std::optional<Pointwise> read_formula(const Graph& graph, const Node& node, const FormulaReader& reader) {
  if (node.outputs.size() != 1 || Op(node.op).row().formula.empty()) return std::nullopt;
  return Reader(graph, node, reader).read();
}

}  // namespace qcg

// The reading half of the IR text form. The text may be hostile: every size is bounded and nothing recurses but
// Expr::parse, which counts its depth. What is well-formed but wrong (shapes, dtypes, order) is the verifier's business.
#include <fmt/format.h>

#include <charconv>
#include <unordered_map>

#include "graph/graph.h"
#include "graph/text_form.h"

namespace qcg {
namespace {

constexpr size_t kMaxRank = 64;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Graph> parse() {
    while (true) {
      std::string_view word = take_word();
      if (word == "symbol") {
        QCG_CHECK(parse_symbol());
      } else if (word == "param") {
        QCG_CHECK(parse_parameter());
      } else if (word == "graph") {
        break;
      } else {
        return fail("expected symbol, param or graph");
      }
    }
    if (peek('"')) {
      QCG_TRY(name, parse_string());
      graph_.name = name;
    }
    QCG_CHECK(parse_inputs());
    QCG_CHECK(expect('{'));
    QCG_CHECK(parse_nodes());
    QCG_CHECK(expect('}'));
    skip_space();
    if (at_ != text_.size()) return fail("expected the end of the text");
    return std::move(graph_);
  }

 private:
  // symbol s0 in [1, 4096]
  Status parse_symbol() {
    Symbol symbol;
    symbol.name = take_word();
    if (symbol.name.empty()) return fail("expected the name of the symbol");
    if (take_word() != "in") return fail("expected 'in'");
    QCG_CHECK(expect('['));
    QCG_TRY(min, parse_integer());
    QCG_CHECK(expect(','));
    symbol.min = min;
    if (take_word_if("inf")) {
      symbol.max = INT64_MAX;
    } else {
      QCG_TRY(max, parse_integer());
      symbol.max = max;
    }
    graph_.symbols.push_back(std::move(symbol));
    return expect(']');
  }

  // param @q_proj.weight: i8[704, 256] strides [1, 704]
  Status parse_parameter() {
    if (!peek('@')) return fail("expected @ and the name of the parameter");
    QCG_TRY(name, parse_name());
    QCG_CHECK(expect(':'));
    QCG_TRY(type, parse_type());
    Tensor data;
    data.dtype = type.dtype;
    QCG_TRY(sizes, constants(type.shape));
    data.shape = sizes;
    data.strides = Tensor::row_major_strides(data.shape);
    if (take_word_if("strides")) {
      QCG_TRY(dims, parse_dims());
      QCG_TRY(strides, constants(dims));
      if (strides.size() != data.shape.size()) return fail("expected one stride per axis");
      data.strides = strides;
    }
    return define("@" + name, graph_.add_parameter(name, std::move(data)));
  }

  Result<std::vector<int64_t>> constants(const Shape& dims) {
    std::vector<int64_t> sizes;
    for (const Dim& d : dims) {
      if (!d.is_constant() || d.constant() < 0) return fail("parameters have constant sizes");
      sizes.push_back(d.constant());
    }
    return sizes;
  }

  Status parse_inputs() {
    QCG_CHECK(expect('('));
    if (take(')')) return {};
    do {
      if (!peek('%')) return fail("expected % and the name of an input");
      QCG_TRY(name, parse_name());
      QCG_CHECK(expect(':'));
      QCG_TRY(type, parse_type());
      QCG_CHECK(define("%" + name, graph_.add_input(name, type.dtype, std::move(type.shape))));
    } while (take(','));
    return expect(')');
  }

  Status parse_nodes() {
    while (!take_word_if("return")) QCG_CHECK(parse_node());
    if (peek('}')) return {};
    do {
      QCG_TRY(id, parse_ref());
      std::string name = graph_.value(id).name;
      if (take_word_if("as")) {
        QCG_TRY(quoted, parse_string());
        name = quoted;
      }
      graph_.outputs.push_back(id);
      graph_.output_names.push_back(std::move(name));
    } while (take(','));
    return {};
  }

  // %a, %b = op(arguments) : f32[2], i32[2]
  Status parse_node() {
    std::vector<Value> outputs;
    size_t begin = at_;
    if (peek('%')) {
      do {
        if (!peek('%')) return fail("expected % and the name of a value");
        QCG_TRY(name, parse_name());
        outputs.emplace_back().name = name;
      } while (take(','));
      QCG_CHECK(expect('='));
    }
    std::string_view op_name = take_word();
    const OpSchema* op = find_op(op_name);
    if (!op) return fail(fmt::format("unknown op '{}'", op_name.substr(0, 80)));
    QCG_TRY(args, parse_args(*op));
    for (size_t i = 0; i < outputs.size(); ++i) {
      QCG_CHECK(expect(i ? ',' : ':'));
      QCG_TRY(type, parse_type());
      outputs[i].dtype = type.dtype;
      outputs[i].shape = std::move(type.shape);
    }
    NodeId id = graph_.add_node(op, std::move(args), std::move(outputs));
    Node& node = graph_.nodes[id];
    node.where = place(skipped(begin));
    for (ValueId output : node.outputs) {
      node.origins.push_back(graph_.value(output).name);
      QCG_CHECK(define("%" + graph_.value(output).name, output));
    }
    return {};
  }

  Result<std::vector<Arg>> parse_args(const OpSchema& op) {
    QCG_CHECK(expect('('));
    std::vector<Arg> args(op.args.size());
    std::vector<bool> given(op.args.size());
    bool positional = true;
    size_t next = 0;
    while (!take(')')) {
      if (next > 0 || !positional) QCG_CHECK(expect(','));
      size_t index = next;
      size_t word_at = at_;
      std::string_view word = take_word();
      if (!word.empty() && take('=')) {
        positional = false;
        int found = op.arg_index(word);
        if (found < 0) return fail(fmt::format("{} has no argument '{}'", op.name, word.substr(0, 40)));
        index = static_cast<size_t>(found);
      } else {
        at_ = word_at;
        if (!positional) return fail("arguments without a name come first");
        if (index >= op.args.size() || op.args[index].keyword_only) return fail(fmt::format("too many arguments for {}", op.name));
        ++next;
      }
      if (given[index]) return fail(fmt::format("argument '{}' is given twice", op.args[index].name));
      given[index] = true;
      QCG_TRY(arg, parse_arg(op.args[index]));
      args[index] = std::move(arg);
    }
    for (size_t i = 0; i < args.size(); ++i) {
      if (given[i]) continue;
      const ArgSpec& spec = op.args[i];
      if (spec.has_default) args[i] = default_arg(spec);
      else if (!may_be_absent(spec.kind)) return fail(fmt::format("{} needs argument '{}'", op.name, spec.name));
    }
    return args;
  }

  static bool may_be_absent(ArgKind kind) {
    switch (kind) {
      case ArgKind::optional_tensor: case ArgKind::optional_tensors: case ArgKind::optional_integer:
      case ArgKind::optional_integers: case ArgKind::optional_real: case ArgKind::optional_boolean:
      case ArgKind::optional_string: case ArgKind::optional_dtype: case ArgKind::optional_scalar: case ArgKind::ignored:
        return true;
      default:
        return false;
    }
  }

  Result<Arg> parse_arg(const ArgSpec& spec) {
    if (take_word_if("none")) {
      if (!may_be_absent(spec.kind)) return fail(fmt::format("argument '{}' may not be none", spec.name));
      return Arg();
    }
    switch (spec.kind) {
      case ArgKind::tensor: case ArgKind::optional_tensor: return lift(parse_ref());
      case ArgKind::tensors: case ArgKind::optional_tensors: return lift(parse_refs(spec.kind == ArgKind::optional_tensors));
      case ArgKind::tensor_or_scalar: return peek('%') || peek('@') ? lift(parse_ref()) : parse_scalar();
      case ArgKind::integer: case ArgKind::optional_integer: return lift(parse_dim());
      case ArgKind::integers: case ArgKind::optional_integers: return lift(parse_dims());
      case ArgKind::real: case ArgKind::optional_real: return lift(parse_double(take_word()));
      case ArgKind::reals: return lift(parse_doubles());
      case ArgKind::boolean: case ArgKind::optional_boolean: return lift(parse_bool());
      case ArgKind::string: case ArgKind::optional_string: return lift(parse_string());
      case ArgKind::dtype: case ArgKind::optional_dtype: return lift(parse_dtype());
      case ArgKind::scalar: case ArgKind::optional_scalar: return parse_scalar();
      case ArgKind::exprs: return lift(parse_exprs());
      case ArgKind::ignored: break;
    }
    return fail(fmt::format("argument '{}' has no meaning here; leave it out", spec.name));
  }

  template <class T>
  static Result<Arg> lift(Result<T> r) {
    if (!r.ok()) return std::move(r.error());
    return Arg(std::move(r).value());
  }

  Result<Arg> parse_scalar() {
    size_t begin = at_;
    std::string_view word = take_word();
    if (word == "true" || word == "false") return Arg(word == "true");
    bool number = !word.empty() && (word[0] == '-' || (word[0] >= '0' && word[0] <= '9'));
    bool named = word == "inf" || word == "-inf" || word == "nan" || word == "-nan";
    if (named || (number && word.find_first_of(".e") != std::string_view::npos)) return lift(parse_double(word));
    at_ = begin;
    return lift(parse_dim());
  }

  Result<ValueId> parse_ref() {
    if (!peek('%') && !peek('@')) return fail("expected %name or @name");
    std::string sigil(1, text_[at_]);
    size_t begin = at_;
    QCG_TRY(name, parse_name());
    auto it = values_.find(sigil + name);
    if (it == values_.end()) {
      at_ = begin;
      return fail(fmt::format("{}{} is not defined above", sigil, name.substr(0, 80)));
    }
    return it->second;
  }

  Result<std::vector<ValueId>> parse_refs(bool optional) {
    std::vector<ValueId> ids;
    QCG_CHECK(expect('['));
    if (take(']')) return ids;
    do {
      if (optional && take_word_if("none")) {
        ids.push_back(kNoValue);
        continue;
      }
      QCG_TRY(id, parse_ref());
      ids.push_back(id);
    } while (take(','));
    QCG_CHECK(expect(']'));
    return ids;
  }

  Result<Dim> parse_dim() {
    skip_space();
    size_t begin = at_;
    while (at_ < text_.size() && (is_bare_name_char(text_[at_]) || std::string_view("+-* ").find(text_[at_]) != std::string_view::npos))
      ++at_;
    std::string_view token = text_.substr(begin, at_ - begin);
    while (!token.empty() && token.back() == ' ') token.remove_suffix(1);
    auto dim = Dim::parse(token);
    if (!dim.ok()) {
      at_ = begin;
      return fail(dim.error().message + " in the size '" + std::string(token.substr(0, 80)) + "'");
    }
    return dim;
  }

  Result<int64_t> parse_integer() {
    QCG_TRY(dim, parse_dim());
    if (!dim.is_constant()) return fail("expected a number");
    return dim.constant();
  }

  Result<std::vector<Dim>> parse_dims() {
    std::vector<Dim> dims;
    QCG_CHECK(expect('['));
    if (take(']')) return dims;
    do {
      QCG_TRY(dim, parse_dim());
      dims.push_back(std::move(dim));
      if (dims.size() > kMaxRank) return fail(fmt::format("more than {} sizes", kMaxRank));
    } while (take(','));
    QCG_CHECK(expect(']'));
    return dims;
  }

  Result<double> parse_double(std::string_view word) {
    double value = 0;
    auto [end, ec] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (ec != std::errc() || end != word.data() + word.size()) return fail("expected a number");
    return value;
  }

  Result<std::vector<double>> parse_doubles() {
    std::vector<double> values;
    QCG_CHECK(expect('['));
    if (take(']')) return values;
    do {
      QCG_TRY(value, parse_double(take_word()));
      values.push_back(value);
    } while (take(','));
    QCG_CHECK(expect(']'));
    return values;
  }

  Result<bool> parse_bool() {
    std::string_view word = take_word();
    if (word != "true" && word != "false") return fail("expected true or false");
    return word == "true";
  }

  Result<DType> parse_dtype() {
    std::string_view word = take_word();
    auto dtype = dtype_from_name(word);
    if (!dtype) return fail(fmt::format("unknown dtype '{}'", word.substr(0, 40)));
    return *dtype;
  }

  Result<ValueType> parse_type() {
    QCG_TRY(dtype, parse_dtype());
    QCG_TRY(shape, parse_dims());
    return ValueType{dtype, std::move(shape)};
  }

  Result<std::vector<Expr>> parse_exprs() {
    std::vector<Expr> exprs;
    QCG_CHECK(expect('['));
    if (take(']')) return exprs;
    do {
      skip_space();
      size_t begin = at_;
      for (int open = 0; at_ < text_.size(); ++at_) {
        char c = text_[at_];
        if (c == '(') ++open;
        if (c == ')') --open;
        if (c == '\n' || c == ']' || (c == ',' && open <= 0)) break;
      }
      auto expr = Expr::parse(text_.substr(begin, at_ - begin));
      if (!expr.ok()) {
        at_ = begin;
        return fail(expr.error().message);
      }
      exprs.push_back(std::move(*expr));
    } while (take(','));
    QCG_CHECK(expect(']'));
    return exprs;
  }

  // %name or @name, bare or quoted
  Result<std::string> parse_name() {
    ++at_;  // the sigil
    if (at_ < text_.size() && text_[at_] == '"') return parse_string();
    size_t begin = at_;
    while (at_ < text_.size() && is_bare_name_char(text_[at_])) ++at_;
    if (at_ == begin) return fail("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<std::string> parse_string() {
    QCG_CHECK(expect('"'));
    std::string s;
    for (; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
      if (text_[at_] != '\\') {
        s += text_[at_];
        continue;
      }
      ++at_;
      if (at_ < text_.size() && text_[at_] == 'x') {
        unsigned code = 0;
        std::string_view digits = text_.substr(at_ + 1, 2);
        auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
        if (ec != std::errc() || digits.size() != 2 || end != digits.data() + 2) return fail("expected two hexadecimal digits");
        s += static_cast<char>(code);
        at_ += 2;
      } else if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\\')) {
        s += text_[at_];
      } else {
        return fail("expected \\\", \\\\ or \\xHH");
      }
    }
    QCG_CHECK(expect('"'));
    return s;
  }

  Status define(const std::string& key, ValueId id) {
    // %x and @x print differently but share one name space: names of values are unique.
    std::string other = (key[0] == '%' ? "@" : "%") + key.substr(1);
    if (values_.contains(other) || !values_.emplace(key, id).second) return fail(fmt::format("{} is defined twice", key.substr(0, 80)));
    return {};
  }

  void skip_space() { at_ = skipped(at_); }
  size_t skipped(size_t at) const {
    while (at < text_.size()) {
      char c = text_[at];
      if (c == '#') at = std::min(text_.find('\n', at), text_.size());
      else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') ++at;
      else break;
    }
    return at;
  }
  bool peek(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    ++at_;
    return true;
  }
  Status expect(char c) {
    if (take(c)) return {};
    return fail(fmt::format("expected '{}'", c));
  }
  std::string_view take_word() {
    skip_space();
    size_t begin = at_;
    while (at_ < text_.size() && (is_bare_name_char(text_[at_]) || text_[at_] == '-' || text_[at_] == '+')) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  bool take_word_if(std::string_view word) {
    size_t begin = at_;
    if (take_word() == word) return true;
    at_ = begin;
    return false;
  }

  // Nodes ask for their places in order, so that counting goes on where it stopped.
  std::string place(size_t at) {
    if (at < counted_) counted_ = line_begin_ = 0, line_ = 1;
    for (; counted_ < at && counted_ < text_.size(); ++counted_) {
      if (text_[counted_] != '\n') continue;
      ++line_;
      line_begin_ = counted_ + 1;
    }
    return fmt::format("line {}:{}", line_, at - line_begin_ + 1);
  }
  Error fail(std::string message) {
    return Error::bad_input(place(skipped(at_)), std::move(message), "see graph/graph.h for the IR text form");
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t counted_ = 0;     // place() has seen so many characters,
  size_t line_begin_ = 0;  // the last line of which begins here
  size_t line_ = 1;
  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text) { return Parser(text).parse(); }

}  // namespace qcg

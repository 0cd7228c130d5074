// Expressions of the template grammar, loosest binding first.
#include <algorithm>

#include "codegen/template_engine/filters.h"
#include "codegen/template_engine/parser.h"

namespace qcg::tpl {
namespace {

constexpr int kMaxHeight = 150;  // also of chains such as a + b + c …, which the renderer walks recursively
constexpr std::string_view kComparisons[] = {"==", "!=", "<=", ">=", "<", ">"};

template <class Range>
bool contains(const Range& range, std::string_view what) {
  return std::find(std::begin(range), std::end(range), what) != std::end(range);
}

}  // namespace

void Parser::bound_height(Expr& e) const {
  for (const auto& arg : e.args)
    if (arg) e.height = std::max(e.height, arg->height + 1);
  for (const auto& arg : e.named) e.height = std::max(e.height, arg.second->height + 1);
  if (e.height > kMaxHeight)
    fail(e.pos, "this expression chains more than " + std::to_string(kMaxHeight) + " operations",
         "split it with <% set %>");
}

ExprPtr Parser::make(Expr::Kind kind, std::size_t pos, std::vector<ExprPtr> args, std::string name) const {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->pos = pos;
  e->args = std::move(args);
  e->name = std::move(name);
  bound_height(*e);
  return e;
}

namespace {

template <class... E>
std::vector<ExprPtr> operands(E... e) {
  std::vector<ExprPtr> list;
  (list.push_back(std::move(e)), ...);
  return list;
}

}  // namespace

// One expression, or several with commas between them: then a tuple. `end` is a word that may follow a trailing comma.
ExprPtr Parser::parse_tuple(bool with_conditional, std::string_view end, bool in_parens) {
  std::size_t pos = peek().pos;
  std::vector<ExprPtr> items;
  bool tuple = false;
  while (true) {
    TokenKind kind = peek().kind;
    if (kind == TokenKind::ExprEnd || kind == TokenKind::TagEnd || is_op(")") || (!end.empty() && is_word(end))) break;
    items.push_back(parse_expression(with_conditional));
    if (!accept_op(",")) break;
    tuple = true;
  }
  if (!tuple && !items.empty()) return std::move(items[0]);
  if (!tuple && !in_parens) fail_unexpected("an expression");
  return make(Expr::Kind::Tuple, pos, std::move(items));
}

ExprPtr Parser::parse_expression(bool with_conditional) {
  Nest nest(*this);
  ExprPtr value = parse_or();
  while (with_conditional && is_word("if")) {
    std::size_t pos = next().pos;
    ExprPtr condition = parse_or();
    ExprPtr otherwise = accept_word("else") ? parse_expression() : nullptr;
    value = make(Expr::Kind::Conditional, pos, operands(std::move(condition), std::move(value), std::move(otherwise)));
  }
  return value;
}

ExprPtr Parser::parse_or() {
  std::size_t pos = peek().pos;
  std::vector<ExprPtr> args = operands(parse_and());
  while (accept_word("or")) args.push_back(parse_and());
  return args.size() == 1 ? std::move(args[0]) : make(Expr::Kind::Or, pos, std::move(args));
}

ExprPtr Parser::parse_and() {
  std::size_t pos = peek().pos;
  std::vector<ExprPtr> args = operands(parse_not());
  while (accept_word("and")) args.push_back(parse_not());
  return args.size() == 1 ? std::move(args[0]) : make(Expr::Kind::And, pos, std::move(args));
}

ExprPtr Parser::parse_not() {
  if (!is_word("not")) return parse_compare();
  Nest nest(*this);
  std::size_t pos = next().pos;
  return make(Expr::Kind::Not, pos, operands(parse_not()));
}

ExprPtr Parser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr chain;
  while (true) {
    std::size_t pos = peek().pos;
    std::string op;
    if (peek().kind == TokenKind::Operator && contains(kComparisons, peek().text)) op = next().text;
    else if (accept_word("in")) op = "in";
    else if (is_word("not") && is_word("in", 1)) op = (next(), next(), "not in");
    else break;
    if (!chain) chain = make(Expr::Kind::Compare, pos, operands(std::move(first)));
    chain->ops.push_back(std::move(op));
    chain->args.push_back(parse_sum());
    bound_height(*chain);
  }
  return chain ? std::move(chain) : std::move(first);
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (is_op("+") || is_op("-")) {
    const Token& op = next();
    ExprPtr right = parse_concat();
    left = make(Expr::Kind::Arithmetic, op.pos, operands(std::move(left), std::move(right)), op.text);
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  std::vector<ExprPtr> args = operands(parse_product());
  std::size_t pos = peek().pos;
  while (accept_op("~")) args.push_back(parse_product());
  return args.size() == 1 ? std::move(args[0]) : make(Expr::Kind::Concat, pos, std::move(args));
}

ExprPtr Parser::parse_product() {
  ExprPtr left = parse_unary();
  while (true) {
    if (is_op("/") || is_op("**"))
      fail(peek().pos, "templates do not compute: '" + peek().text + "' is not supported",
           "pass the number in, or use // for whole numbers");
    if (!is_op("*") && !is_op("//") && !is_op("%")) return left;
    const Token& op = next();
    ExprPtr right = parse_unary();
    left = make(Expr::Kind::Arithmetic, op.pos, operands(std::move(left), std::move(right)), op.text);
  }
}

ExprPtr Parser::parse_unary(bool with_filter) {
  Nest nest(*this);
  ExprPtr e;
  if (is_op("-") || is_op("+")) {
    const Token& op = next();
    auto kind = op.text == "-" ? Expr::Kind::Negate : Expr::Kind::Plus;
    e = make(kind, op.pos, operands(parse_unary(false)));
  } else {
    e = parse_primary();
  }
  e = parse_postfix(std::move(e));
  return with_filter ? parse_filters(std::move(e)) : std::move(e);
}

ExprPtr Parser::parse_primary() {
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  std::size_t pos = peek().pos;
  if (accept_op("(")) {
    ExprPtr inner = parse_tuple(true, {}, true);
    expect_op(")");
    return inner;
  }
  ExprPtr e = make(Expr::Kind::Literal, pos);
  switch (peek().kind) {
    case TokenKind::Int: e->literal = next().integer; break;
    case TokenKind::Double: e->literal = next().real; break;
    case TokenKind::String: {
      std::string text;
      while (peek().kind == TokenKind::String) text += next().text;
      e->literal = std::move(text);
      break;
    }
    case TokenKind::Name: {
      const std::string& name = next().text;
      if (name == "true" || name == "True") e->literal = true;
      else if (name == "false" || name == "False") e->literal = false;
      else if (name != "none" && name != "None") e->kind = Expr::Kind::Name, e->name = name;
      break;
    }
    default: fail_unexpected("an expression");
  }
  return e;
}

ExprPtr Parser::parse_list() {
  std::size_t pos = next().pos;
  std::vector<ExprPtr> items;
  while (!is_op("]")) {
    items.push_back(parse_expression());
    if (!accept_op(",")) break;
  }
  expect_op("]");
  return make(Expr::Kind::List, pos, std::move(items));
}

ExprPtr Parser::parse_dict() {
  std::size_t pos = next().pos;
  std::vector<ExprPtr> items;
  while (!is_op("}")) {
    items.push_back(parse_expression());
    expect_op(":");
    items.push_back(parse_expression());
    if (!accept_op(",")) break;
  }
  expect_op("}");
  return make(Expr::Kind::Dict, pos, std::move(items));
}

ExprPtr Parser::parse_postfix(ExprPtr subject) {
  while (true) {
    if (is_op(".") || is_op("[")) subject = parse_subscript(std::move(subject));
    else if (is_op("(")) subject = parse_call(std::move(subject));
    else return subject;
  }
}

ExprPtr Parser::parse_subscript(ExprPtr subject) {
  if (accept_op(".")) {
    std::size_t pos = peek().pos;
    if (peek().kind == TokenKind::Name)
      return make(Expr::Kind::Attribute, pos, operands(std::move(subject)), next().text);
    if (peek().kind != TokenKind::Int) fail_unexpected("a name or a number after '.'");
    ExprPtr index = make(Expr::Kind::Literal, pos);
    index->literal = next().integer;
    return make(Expr::Kind::Index, pos, operands(std::move(subject), std::move(index)));
  }
  std::size_t pos = next().pos;
  if (is_op(":")) fail(peek().pos, "slices are not supported", "pass the part you need");
  ExprPtr index = parse_expression();
  if (is_op(":")) fail(peek().pos, "slices are not supported", "pass the part you need");
  expect_op("]");
  return make(Expr::Kind::Index, pos, operands(std::move(subject), std::move(index)));
}

ExprPtr Parser::parse_filters(ExprPtr subject) {
  while (true) {
    if (is_op("|")) subject = parse_filter(std::move(subject));
    else if (is_word("is"))
      fail(peek().pos, "tests with 'is' are Jinja, but not in the subset that this engine speaks",
           "compare, or pass a bool");
    else if (is_op("(")) subject = parse_call(std::move(subject));
    else return subject;
  }
}

ExprPtr Parser::parse_filter(ExprPtr subject) {
  next();
  std::size_t pos = peek().pos;
  std::string name = expect_name();
  ExprPtr e = make(Expr::Kind::Filter, pos, operands(std::move(subject)), name);
  e->filter = find_filter(name);
  if (!e->filter) fail(pos, "unknown filter '" + name + "'", "the filters are: " + list_filters());
  if (is_op("(")) parse_call_args(*e);
  return e;
}

void Parser::parse_call_args(Expr& call) {
  expect_op("(");
  while (!is_op(")")) {
    if (is_op("*") || is_op("**")) fail(peek().pos, "'*' arguments are not supported", "write the arguments out");
    if (peek().kind == TokenKind::Name && is_op("=", 1)) {
      std::size_t pos = peek().pos;
      std::string name = next().text;
      next();
      for (const auto& given : call.named)
        if (given.first == name) fail(pos, "the argument '" + name + "' is given twice");
      call.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!call.named.empty()) fail(peek().pos, "a positional argument follows a named one");
      call.args.push_back(parse_expression());
    }
    if (!accept_op(",")) break;
  }
  expect_op(")");
  bound_height(call);
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  std::size_t pos = callee->pos;
  ExprPtr e = make(Expr::Kind::Call, pos, operands(std::move(callee)));
  parse_call_args(*e);
  return e;
}

}  // namespace qcg::tpl

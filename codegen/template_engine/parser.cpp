// Statements of the template grammar.
#include "codegen/template_engine/parser.h"

#include <algorithm>

namespace qcg::tpl {
namespace {

constexpr int kMaxNesting = 100;
constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
constexpr std::string_view kOtherTags[] = {"block", "extends", "call",  "filter", "with",     "autoescape",
                                           "print", "do",      "trans", "break",  "continue", "debug"};

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::Text: return "text";
    case TokenKind::ExprBegin: return "<$";
    case TokenKind::ExprEnd: return "$>";
    case TokenKind::TagBegin: return "<%";
    case TokenKind::TagEnd: return "%>";
    case TokenKind::End: return "the end of the template";
    default: return "'" + token.text.substr(0, 40) + "'";
  }
}

}  // namespace

Parser::Nest::Nest(Parser& p) : parser(p) {
  if (p.nesting_ >= kMaxNesting)
    p.fail(p.peek().pos, "this is nested deeper than " + std::to_string(kMaxNesting) + " levels", "split it");
  ++p.nesting_;
}

const Token& Parser::next() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::is_op(std::string_view op, std::size_t ahead) const {
  return peek(ahead).kind == TokenKind::Operator && peek(ahead).text == op;
}
bool Parser::is_word(std::string_view word, std::size_t ahead) const {
  return peek(ahead).kind == TokenKind::Name && peek(ahead).text == word;
}
bool Parser::accept_op(std::string_view op) { return is_op(op) && (next(), true); }
bool Parser::accept_word(std::string_view word) { return is_word(word) && (next(), true); }
void Parser::expect_op(std::string_view op) {
  if (!accept_op(op)) fail_unexpected("'" + std::string(op) + "'");
}
void Parser::expect_word(std::string_view word) {
  if (!accept_word(word)) fail_unexpected("'" + std::string(word) + "'");
}
std::string Parser::expect_name() {
  if (peek().kind != TokenKind::Name) fail_unexpected("a name");
  return next().text;
}
void Parser::expect_tag_end() {
  if (peek().kind != TokenKind::TagEnd) fail_unexpected("%>");
  next();
}

void Parser::fail(std::size_t pos, std::string message, std::string help) const {
  throw Failure("syntax", source_, pos, std::move(message), std::move(help));
}
void Parser::fail_unexpected(std::string_view wanted) const {
  fail(peek().pos, "expected " + std::string(wanted) + ", found " + describe(peek()));
}

Block Parser::parse_body() { return parse_block({}); }

// Statements up to a tag whose first word is one of `ends`, which is left as the next token; to the end where there are
// none.
Block Parser::parse_block(std::initializer_list<std::string_view> ends) {
  Nest nest(*this);
  Block block;
  while (peek().kind != TokenKind::End) {
    const Token& token = next();
    if (token.kind == TokenKind::Text) {
      block.push_back({token.pos, TextStatement{token.text}});
    } else if (token.kind == TokenKind::ExprBegin) {
      block.push_back({token.pos, OutputStatement{parse_tuple(true)}});
      if (peek().kind != TokenKind::ExprEnd) fail_unexpected("$>");
      next();
    } else {
      if (peek().kind != TokenKind::Name) fail_unexpected("a statement");
      for (auto end : ends)
        if (is_word(end)) return block;
      block.push_back(parse_statement());
      expect_tag_end();
    }
  }
  return block;
}

// The rest of an opening tag, then its body up to one of `ends`.
Block Parser::parse_tag_body(std::initializer_list<std::string_view> ends) {
  std::size_t opened = peek().pos;
  accept_op(":");
  expect_tag_end();
  Block body = parse_block(ends);
  if (peek().kind == TokenKind::End)
    fail(opened, "the block opened here is never closed", "close it with <% " + std::string(*(ends.end() - 1)) + " %>");
  return body;
}

Statement Parser::parse_statement() {
  const Token& token = next();
  const std::string& tag = token.text;
  if (tag == "for") return {token.pos, parse_for()};
  if (tag == "if") return {token.pos, parse_if()};
  if (tag == "set") return {token.pos, parse_set()};
  if (tag == "macro") return {token.pos, parse_macro()};
  if (tag == "include") return {token.pos, parse_include()};
  if (tag == "import") return {token.pos, parse_import()};
  if (tag == "from") return {token.pos, parse_from()};
  if (std::find(std::begin(kOtherTags), std::end(kOtherTags), tag) != std::end(kOtherTags))
    fail(token.pos, "'" + tag + "' is Jinja, but not in the subset that this engine speaks",
         "use for, if, set, macro, include, import, from or raw");
  if (tag.rfind("end", 0) == 0 || tag == "else" || tag == "elif")
    fail(token.pos, "'" + tag + "' closes a block that is not open here", "check the nesting of the tags before it");
  fail(token.pos, "unknown tag '" + tag + "'", "use for, if, set, macro, include, import, from or raw");
}

ForStatement Parser::parse_for() {
  ++loops_;
  ForStatement loop;
  loop.target = parse_target("in");
  expect_word("in");
  loop.sequence = parse_tuple(false, "recursive");
  if (accept_word("if")) loop.filter = parse_expression();
  if (is_word("recursive")) fail(peek().pos, "recursive loops are not supported", "use a macro that calls itself");
  loop.body = parse_tag_body({"else", "endfor"});
  --loops_;
  if (next().text == "else") {
    loop.otherwise = parse_tag_body({"endfor"});
    next();
  }
  return loop;
}

IfStatement Parser::parse_if() {
  IfStatement result;
  while (true) {
    ExprPtr condition = parse_tuple(false);
    result.branches.emplace_back(std::move(condition), parse_tag_body({"elif", "else", "endif"}));
    const std::string& word = next().text;
    if (word == "elif") continue;
    if (word == "else") {
      result.otherwise = parse_tag_body({"endif"});
      next();
    }
    return result;
  }
}

SetStatement Parser::parse_set() {
  SetStatement set;
  if (peek().kind == TokenKind::Name && is_op(".", 1)) {
    set.target.pos = peek().pos;
    set.target.name = next().text;
    next();
    set.target.attribute = expect_name();
  } else {
    set.target = parse_target("");
  }
  if (accept_op("=")) {
    set.value = parse_tuple(true);
    return set;
  }
  if (is_op("|")) fail(peek().pos, "a block set takes no filter here", "apply the filter where the name is used");
  set.body = parse_tag_body({"endset"});
  next();
  return set;
}

MacroStatement Parser::parse_macro() {
  MacroStatement macro;
  macro.name = parse_assignable_name();
  bool defaults = false;
  expect_op("(");
  while (!is_op(")")) {
    if (!macro.params.empty()) expect_op(",");
    std::size_t pos = peek().pos;
    std::string name = parse_assignable_name();
    for (const auto& param : macro.params)
      if (param.first == name) fail(pos, "the parameter '" + name + "' is declared twice");
    ExprPtr value;
    if (accept_op("=")) value = parse_expression();
    else if (defaults) fail(pos, "a parameter without default follows one with a default");
    defaults = defaults || value;
    macro.params.emplace_back(std::move(name), std::move(value));
  }
  expect_op(")");
  macro.body = parse_tag_body({"endmacro"});
  next();
  return macro;
}

// `with context` or `without context`, if it comes next.
bool Parser::parse_import_context(bool& with_context) {
  if (!(is_word("with") || is_word("without")) || !is_word("context", 1)) return false;
  with_context = next().text == "with";
  next();
  return true;
}

IncludeStatement Parser::parse_include() {
  IncludeStatement include;
  include.name = parse_expression();
  if (is_word("ignore")) fail(peek().pos, "'ignore missing' is not supported", "include only what exists");
  parse_import_context(include.with_context);
  return include;
}

ImportStatement Parser::parse_import() {
  ImportStatement import;
  import.name = parse_expression();
  expect_word("as");
  import.module = parse_assignable_name();
  parse_import_context(import.with_context);
  return import;
}

ImportStatement Parser::parse_from() {
  ImportStatement import;
  import.name = parse_expression();
  expect_word("import");
  do {
    if (!import.names.empty() && parse_import_context(import.with_context)) return import;
    std::size_t pos = peek().pos;
    std::string name = parse_assignable_name();
    if (name[0] == '_') fail(pos, "names that start with an underscore cannot be imported");
    std::string alias = accept_word("as") ? parse_assignable_name() : name;
    import.names.emplace_back(std::move(name), std::move(alias));
  } while (!parse_import_context(import.with_context) && accept_op(","));
  return import;
}

std::string Parser::parse_assignable_name() {
  std::size_t pos = peek().pos;
  std::string name = expect_name();
  if (std::find(std::begin(kConstants), std::end(kConstants), name) != std::end(kConstants))
    fail(pos, "cannot assign to the constant '" + name + "'");
  if (name == "loop" && loops_ > 0) fail(pos, "cannot assign to 'loop' inside a for loop");
  return name;
}

Target Parser::parse_one_target() {
  Nest nest(*this);
  Target target;
  target.pos = peek().pos;
  if (accept_op("(")) {
    target = parse_target(")");
    expect_op(")");
  } else {
    if (peek().kind != TokenKind::Name) fail(peek().pos, "cannot assign to " + describe(peek()));
    target.name = parse_assignable_name();
  }
  return target;
}

// One target or several with commas between them (then a tuple), up to the word or operator `end`.
Target Parser::parse_target(std::string_view end) {
  Target tuple;
  tuple.pos = peek().pos;
  tuple.parts.push_back(parse_one_target());
  while (accept_op(",")) {
    tuple.is_tuple = true;
    if (is_word(end) || is_op(end) || is_op("=") || peek().kind == TokenKind::TagEnd) break;
    tuple.parts.push_back(parse_one_target());
  }
  if (tuple.is_tuple) return tuple;
  Target single = std::move(tuple.parts[0]);
  return single;
}

Template parse_template(std::string_view name, std::string_view text) {
  Template result;
  result.source.name = name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') result.source.text += text[i];
    else if (i + 1 == text.size() || text[i + 1] != '\n') result.source.text += '\n';
  }
  Parser parser(result.source);
  for (const Token& token : parser.tokens())
    if (token.kind == TokenKind::Name || token.kind == TokenKind::String) result.words.insert(token.text);
  result.body = parser.parse_body();
  return result;
}

}  // namespace qcg::tpl

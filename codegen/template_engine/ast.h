// What the lexer and the parser of the template engine make: tokens, then a tree.
//
// Why here: shared by lexer.cpp, parser.cpp, expr_parser.cpp and the renderer, and by nothing else. Inside the engine
// errors travel as the exception Failure; template_engine.cpp turns it into an Error, so none leaves the engine.
//
//   Template t = parse_template("tile.j2", "<% for i in range(mr) %>r<$ i $><% endfor %>");
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "codegen/template_engine/value.h"

namespace qcg::tpl {

struct Source {
  std::string name;
  std::string text;  // newlines normalized to \n
};

// "name:line:column" of a byte offset, lines and columns from 1.
std::string describe_position(const Source& source, std::size_t pos);

struct Failure {
  Failure(const char* kind, const Source& source, std::size_t pos, std::string message, std::string help = {});
  Error to_error() const;
  static constexpr std::size_t kMaxTrace = 8;
  void add_trace(std::string line) {  // of an endless recursion the innermost calls tell enough
    if (trace.size() < kMaxTrace) trace.push_back(std::move(line));
  }

  std::string where, message, help;
  std::vector<std::string> trace;  // "in macro 'm' called at x.j2:3:1", innermost first
};

enum class TokenKind { Text, ExprBegin, ExprEnd, TagBegin, TagEnd, Name, String, Int, Double, Operator, End };

struct Token {
  TokenKind kind = TokenKind::End;
  std::size_t pos = 0;
  std::string text;  // as read; unescaped for String
  std::int64_t integer = 0;
  double real = 0;
};

std::vector<Token> lex_template(const Source& source);  // always ends with an End token

struct Filter;  // a row of the table in filters.cpp

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  enum class Kind {
    Literal,
    Name,
    Attribute,
    Index,
    Call,
    Filter,
    Not,
    Negate,
    Plus,
    Arithmetic,
    Concat,
    Compare,
    And,
    Or,
    Conditional,
    List,
    Tuple,
    Dict
  };
  Kind kind = Kind::Literal;
  std::size_t pos = 0;
  int height = 1;  // bounds the recursion of every walk over the tree
  TemplateValue literal;
  std::string name;           // Name, Attribute; the operator of Arithmetic
  std::vector<ExprPtr> args;  // operands; [subject, arguments...] for Attribute, Index, Call and Filter;
                              // [condition, then, else or none] for Conditional; key, value, ... for Dict
  std::vector<std::pair<std::string, ExprPtr>> named;  // keyword arguments
  std::vector<std::string> ops;                        // Compare: one per operand after the first
  const tpl::Filter* filter = nullptr;
};

// What `set` and `for` assign to: a name, or a tuple of targets where `parts` is not empty, or name.attribute.
struct Target {
  std::size_t pos = 0;
  std::string name, attribute;
  bool is_tuple = false;
  std::vector<Target> parts;
};

struct Statement;
using Block = std::vector<Statement>;

struct TextStatement {
  std::string text;
};
struct OutputStatement {
  ExprPtr value;
};
struct ForStatement {
  Target target;
  ExprPtr sequence, filter;
  Block body, otherwise;
};
struct IfStatement {
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block otherwise;
};
struct SetStatement {
  Target target;
  ExprPtr value;
  Block body;
};  // without a value: the body's text
struct MacroStatement {
  std::string name;
  std::vector<std::pair<std::string, ExprPtr>> params;
  Block body;
};
struct IncludeStatement {
  ExprPtr name;
  bool with_context = true;
};
// `import x as module` has a module; `from x import a as b` has names.
struct ImportStatement {
  ExprPtr name;
  std::string module;
  std::vector<std::pair<std::string, std::string>> names;
  bool with_context = false;
};

struct Statement {
  std::size_t pos = 0;
  std::variant<TextStatement, OutputStatement, ForStatement, IfStatement, SetStatement, MacroStatement,
               IncludeStatement, ImportStatement>
      node;
};

struct Template {
  Source source;
  Block body;
  std::set<std::string, std::less<>> words;  // names and string constants in its tags
};

// Throws Failure.
Template parse_template(std::string_view name, std::string_view text);

}  // namespace qcg::tpl

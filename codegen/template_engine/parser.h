// Recursive-descent parser of the template engine: one function per grammar rule, named as in jinja2's grammar.
//
// Why here: private to the engine; statements and expressions are two files, this is what they share.
//
//   Parser parser(source);            // lexes
//   Block body = parser.parse_body(); // throws Failure
#pragma once

#include <initializer_list>

#include "codegen/template_engine/ast.h"

namespace qcg::tpl {

class Parser {
 public:
  explicit Parser(const Source& source) : source_(source), tokens_(lex_template(source)) {}
  Block parse_body();
  const std::vector<Token>& tokens() const { return tokens_; }

 private:
  // Bounds how deep the grammar may nest, so that "((((…" is an error and not a stack overflow.
  struct Nest {
    explicit Nest(Parser& p);
    ~Nest() { --parser.nesting_; }
    Parser& parser;
  };

  // parser.cpp: tokens and statements
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next();
  bool is_op(std::string_view op, std::size_t ahead = 0) const;
  bool is_word(std::string_view word, std::size_t ahead = 0) const;
  bool accept_op(std::string_view op);
  bool accept_word(std::string_view word);
  void expect_op(std::string_view op);
  void expect_word(std::string_view word);
  std::string expect_name();
  void expect_tag_end();
  [[noreturn]] void fail(std::size_t pos, std::string message, std::string help = {}) const;
  [[noreturn]] void fail_unexpected(std::string_view wanted) const;

  Block parse_block(std::initializer_list<std::string_view> ends);
  Block parse_tag_body(std::initializer_list<std::string_view> ends);
  Statement parse_statement();
  ForStatement parse_for();
  IfStatement parse_if();
  SetStatement parse_set();
  MacroStatement parse_macro();
  IncludeStatement parse_include();
  ImportStatement parse_import();
  ImportStatement parse_from();
  bool parse_import_context(bool& with_context);
  Target parse_target(std::string_view end);
  Target parse_one_target();
  std::string parse_assignable_name();

  // expr_parser.cpp
  ExprPtr make(Expr::Kind kind, std::size_t pos, std::vector<ExprPtr> args = {}, std::string name = {}) const;
  void bound_height(Expr& e) const;
  ExprPtr parse_tuple(bool with_conditional, std::string_view end = {}, bool in_parens = false);
  ExprPtr parse_expression(bool with_conditional = true);
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr subject);
  ExprPtr parse_subscript(ExprPtr subject);
  ExprPtr parse_filters(ExprPtr subject);
  ExprPtr parse_filter(ExprPtr subject);
  void parse_call_args(Expr& call);
  ExprPtr parse_call(ExprPtr callee);

  const Source& source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // how many `for` statements are open
};

}  // namespace qcg::tpl

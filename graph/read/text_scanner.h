// TextScanner: words, names, numbers, sizes, types and expressions of the IR text form, and errors that name the line.
//
// Why here: the lower half of the parser (text_parse.cpp); what it reads may be hostile, so every size is bounded.
//
//   class Parser : private TextScanner { … };
//   QCG_CHECK(expect('='));
//   QCG_TRY(type, parse_type());         // f32[s0, 4096]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/ir/graph.h"

namespace qcg {

class TextScanner {
 public:
  explicit TextScanner(std::string_view text) : text_(text) {}

  // Space and comments before what is asked for are skipped.
  void skip_space();
  size_t skipped(size_t at) const;
  bool peek(char c);
  bool take(char c);
  Status expect(char c);
  std::string_view take_word();  // empty where none begins
  bool take_word_if(std::string_view word);

  std::string place(size_t at);  // "line 3:7"
  Error fail(std::string message);

  Result<std::string> parse_name();  // %name or @name, bare or quoted; the sigil is next
  Result<std::string> parse_string();
  Result<Dim> parse_dim();
  Result<int64_t> parse_integer();
  Result<std::vector<Dim>> parse_dims();
  Result<double> parse_double(std::string_view word);
  Result<std::vector<double>> parse_doubles();
  Result<bool> parse_bool();
  Result<DType> parse_dtype();
  Result<ValueType> parse_type();
  Result<std::vector<Expr>> parse_exprs();

 protected:
  std::string_view text_;
  size_t at_ = 0;

 private:
  size_t counted_ = 0;     // place() has seen so many characters,
  size_t line_begin_ = 0;  // the last line of which begins here
  size_t line_ = 1;
};

}  // namespace qcg

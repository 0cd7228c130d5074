#include "graph/read/text_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "graph/ir/text_form.h"
#include "graph/read/files/limits.h"

namespace qcg {

void TextScanner::skip_space() { at_ = skipped(at_); }

size_t TextScanner::skipped(size_t at) const {
  while (at < text_.size()) {
    char c = text_[at];
    if (c == '#') at = std::min(text_.find('\n', at), text_.size());
    else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') ++at;
    else break;
  }
  return at;
}

bool TextScanner::peek(char c) {
  skip_space();
  return at_ < text_.size() && text_[at_] == c;
}

bool TextScanner::take(char c) {
  if (!peek(c)) return false;
  ++at_;
  return true;
}

Status TextScanner::expect(char c) {
  if (take(c)) return {};
  return fail(fmt::format("expected '{}'", c));
}

std::string_view TextScanner::take_word() {
  skip_space();
  size_t begin = at_;
  while (at_ < text_.size() && (is_bare_name_char(text_[at_]) || text_[at_] == '-' || text_[at_] == '+')) ++at_;
  return text_.substr(begin, at_ - begin);
}

bool TextScanner::take_word_if(std::string_view word) {
  size_t begin = at_;
  if (take_word() == word) return true;
  at_ = begin;
  return false;
}

// Nodes ask for their places in order, so that counting goes on where it stopped.
std::string TextScanner::place(size_t at) {
  if (at < counted_) counted_ = line_begin_ = 0, line_ = 1;
  for (; counted_ < at && counted_ < text_.size(); ++counted_) {
    if (text_[counted_] != '\n') continue;
    ++line_;
    line_begin_ = counted_ + 1;
  }
  return fmt::format("line {}:{}", line_, at - line_begin_ + 1);
}

Error TextScanner::fail(std::string message) {
  return Error::bad_input(place(skipped(at_)), std::move(message), "see graph/ir/graph.h for the IR text form");
}

Result<std::string> TextScanner::parse_name() {
  ++at_;  // the sigil
  if (at_ < text_.size() && text_[at_] == '"') return parse_string();
  size_t begin = at_;
  while (at_ < text_.size() && is_bare_name_char(text_[at_])) ++at_;
  if (at_ == begin) return fail("expected a name");
  return std::string(text_.substr(begin, at_ - begin));
}

Result<std::string> TextScanner::parse_string() {
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
      if (ec != std::errc() || digits.size() != 2 || end != digits.data() + 2)
        return fail("expected two hexadecimal digits");
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

Result<Dim> TextScanner::parse_dim() {
  skip_space();
  size_t begin = at_;
  int depth = 0;  // of calls: floordiv(s0+1,2)
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    const bool inside = is_bare_name_char(c) || std::string_view("+-* (").find(c) != std::string_view::npos ||
                        (depth > 0 && (c == ',' || c == ')'));
    if (!inside) break;
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
  }
  std::string_view token = text_.substr(begin, at_ - begin);
  while (!token.empty() && token.back() == ' ') token.remove_suffix(1);
  auto dim = Dim::parse(token);
  if (!dim.ok()) {
    at_ = begin;
    return fail(dim.error().message + " in the size '" + std::string(token.substr(0, 80)) + "'");
  }
  return dim;
}

Result<int64_t> TextScanner::parse_integer() {
  QCG_TRY(dim, parse_dim());
  if (!dim.is_constant()) return fail("expected a number");
  return dim.constant();
}

Result<std::vector<Dim>> TextScanner::parse_dims() {
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

Result<double> TextScanner::parse_double(std::string_view word) {
  double value = 0;
  auto [end, ec] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (ec != std::errc() || end != word.data() + word.size()) return fail("expected a number");
  return value;
}

Result<std::vector<double>> TextScanner::parse_doubles() {
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

Result<bool> TextScanner::parse_bool() {
  std::string_view word = take_word();
  if (word != "true" && word != "false") return fail("expected true or false");
  return word == "true";
}

Result<DType> TextScanner::parse_dtype() {
  std::string_view word = take_word();
  auto dtype = dtype_from_name(word);
  if (!dtype) return fail(fmt::format("unknown dtype '{}'", word.substr(0, 40)));
  return *dtype;
}

Result<ValueType> TextScanner::parse_type() {
  QCG_TRY(dtype, parse_dtype());
  QCG_TRY(shape, parse_dims());
  return ValueType{dtype, std::move(shape)};
}

Result<std::vector<Expr>> TextScanner::parse_exprs() {
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

}  // namespace qcg

// Tokens of a template. The whitespace rules are jinja2's with trim_blocks and lstrip_blocks: a newline right after a
// tag goes, blanks between the start of a line and a tag go, `-` eats all whitespace on its side, `+` keeps it all.
#include <array>
#include <charconv>

#include "codegen/template_engine/ast.h"

namespace qcg::tpl {
namespace {

constexpr std::size_t kMaxTemplateBytes = 8u << 20;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_start(c) || is_digit(c); }

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

void append_utf8(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
  } else if (c < 0x10000) {
    out += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
            static_cast<char>(0x80 | (c & 63))};
  } else {
    out += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
            static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
  }
}

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), s_(source.text) {}

  std::vector<Token> run() {
    if (s_.size() > kMaxTemplateBytes) throw Failure("limit", source_, 0, "the template is larger than 8 MiB");
    while (pos_ < s_.size()) lex_text();
    push(TokenKind::End, s_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::size_t pos, std::string message, std::string help = {}) const {
    throw Failure("syntax", source_, pos, std::move(message), std::move(help));
  }
  char at(std::size_t p) const { return p < s_.size() ? s_[p] : '\0'; }
  bool matches(std::size_t p, std::string_view what) const {
    return s_.substr(std::min(p, s_.size()), what.size()) == what;
  }
  std::size_t skip_space(std::size_t p) const {
    while (p < s_.size() && is_space(s_[p])) ++p;
    return p;
  }
  void push(TokenKind kind, std::size_t pos, std::string text = {}) { tokens_.push_back({kind, pos, std::move(text)}); }

  std::size_t find_tag(std::size_t from) const {
    for (auto p = s_.find('<', from); p != s_.npos; p = s_.find('<', p + 1))
      if (char c = at(p + 1); c == '%' || c == '$' || c == '#') return p;
    return s_.npos;
  }

  // Text up to a tag, with the blanks removed that the tag asks to remove.
  void push_text(std::size_t begin, std::size_t end, char sign, bool lstrip) {
    std::size_t keep = end;
    while (keep > begin && is_space(s_[keep - 1])) --keep;
    if (sign != '-') {
      auto newline = s_.substr(begin, end - begin).rfind('\n');
      std::size_t line = newline == s_.npos ? begin : begin + newline + 1;
      bool own_line = (newline != s_.npos || line_start_) && keep <= line;
      keep = lstrip && sign != '+' && own_line ? line : end;
    }
    if (keep > begin) push(TokenKind::Text, begin, std::string(s_.substr(begin, keep - begin)));
  }

  // Moves past `%>`, `-%>` or `+%>` (with `close` = '%') at p and what it trims; false where none is there.
  bool end_tag(std::size_t p, char close) {
    char sign = at(p) == '-' || (at(p) == '+' && close != '$') ? at(p) : '\0';
    std::size_t end = sign ? p + 1 : p;
    if (at(end) != close || at(end + 1) != '>') return false;
    pos_ = end + 2;
    if (sign == '-') pos_ = skip_space(pos_);
    else if (!sign && close != '$' && at(pos_) == '\n') ++pos_;
    line_start_ = s_[pos_ - 1] == '\n';
    return true;
  }

  // `<%`, sign, `word`, with p at the first: the offset after the word, or npos.
  std::size_t match_word_tag(std::size_t p, std::string_view word) const {
    p += 2;
    if (at(p) == '-' || at(p) == '+') ++p;
    p = skip_space(p);
    return matches(p, word) ? skip_space(p + word.size()) : s_.npos;
  }

  void lex_text() {
    std::size_t p = find_tag(pos_);
    if (p == s_.npos) {
      push(TokenKind::Text, pos_, std::string(s_.substr(pos_)));
      pos_ = s_.size();
      return;
    }
    char open = at(p + 1);
    char sign = at(p + 2) == '-' || at(p + 2) == '+' ? at(p + 2) : '\0';
    push_text(pos_, p, sign, open != '$');
    pos_ = p + 2 + (sign ? 1 : 0);
    if (open == '#') return skip_comment(p);
    if (open == '%' && lex_raw(p)) return;
    push(open == '%' ? TokenKind::TagBegin : TokenKind::ExprBegin, p);
    lex_tag(open);
  }

  void skip_comment(std::size_t begin) {
    std::size_t first = pos_, p = s_.find("#>", first);
    if (p == s_.npos) fail(begin, "this comment is never closed", "close it with #>");
    if (p > first && (s_[p - 1] == '-' || s_[p - 1] == '+')) --p;
    end_tag(p, '#');
  }

  bool lex_raw(std::size_t begin) {
    std::size_t p = match_word_tag(begin, "raw");
    if (p == s_.npos) return false;
    if (matches(p, "-%>")) pos_ = skip_space(p + 3);
    else if (matches(p, "%>")) pos_ = p + 2;
    else return false;
    line_start_ = s_[pos_ - 1] == '\n';
    std::size_t text = pos_;
    for (p = s_.find("<%", pos_); p != s_.npos; p = s_.find("<%", p + 1)) {
      std::size_t end = match_word_tag(p, "endraw");
      bool line_start = line_start_;
      if (end == s_.npos || !end_tag(end, '%')) continue;
      std::swap(line_start, line_start_);
      push_text(text, p, at(p + 2) == '-' || at(p + 2) == '+' ? at(p + 2) : '\0', true);
      line_start_ = line_start;
      return true;
    }
    fail(begin, "this raw block is never closed", "close it with <% endraw %>");
  }

  void lex_tag(char close) {
    std::string expected;  // closing brackets still owed; inside brackets `%>` is an operator, as in jinja2
    while ((pos_ = skip_space(pos_)) < s_.size()) {
      std::size_t begin = pos_;
      if (expected.empty() && end_tag(pos_, close)) {
        push(close == '%' ? TokenKind::TagEnd : TokenKind::ExprEnd, begin);
        return;
      }
      char c = s_[pos_];
      if (is_digit(c)) lex_number();
      else if (is_name_start(c)) lex_name();
      else if (c == '"' || c == '\'') lex_string();
      else lex_operator(expected);
    }
  }

  void lex_name() {
    std::size_t begin = pos_;
    while (is_name(at(pos_))) ++pos_;
    push(TokenKind::Name, begin, std::string(s_.substr(begin, pos_ - begin)));
  }

  void lex_operator(std::string& expected) {
    static constexpr std::array<std::string_view, 6> kDouble = {"//", "**", "==", "!=", ">=", "<="};
    char c = s_[pos_];
    std::size_t length = 1;
    for (auto op : kDouble)
      if (matches(pos_, op)) length = 2;
    if (length == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos)
      fail(pos_, "unexpected character in a tag");
    if (c == '(') expected += ')';
    if (c == '[') expected += ']';
    if (c == '{') expected += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (expected.empty()) fail(pos_, std::string("unexpected '") + c + "'");
      if (expected.back() != c) fail(pos_, std::string("unexpected '") + c + "', expected '" + expected.back() + "'");
      expected.pop_back();
    }
    push(TokenKind::Operator, pos_, std::string(s_.substr(pos_, length)));
    pos_ += length;
  }

  // Digits with single underscores between them; p itself where there are none.
  std::size_t skip_digits(std::size_t p, int base) const {
    std::size_t end = p;
    while (digit_value(at(p)) < base) {
      end = ++p;
      if (at(p) == '_') ++p;
    }
    return end;
  }

  void lex_number() {
    std::size_t begin = pos_;
    std::size_t end = skip_digits(begin, 10);
    std::size_t whole = end;
    if (begin == 0 || s_[begin - 1] != '.') {  // in `a.0.1` the dots are subscripts
      if (at(end) == '.' && is_digit(at(end + 1))) end = skip_digits(end + 1, 10);
      if (at(end) == 'e' || at(end) == 'E') {
        std::size_t exponent = end + 1 + (at(end + 1) == '+' || at(end + 1) == '-' ? 1 : 0);
        if (is_digit(at(exponent))) end = skip_digits(exponent, 10);
      }
    }
    if (end > whole) return push_double(begin, end);
    push_integer(begin, whole);
  }

  void push_double(std::size_t begin, std::size_t end) {
    std::string digits;
    for (char c : s_.substr(begin, end - begin))
      if (c != '_') digits += c;
    Token token{TokenKind::Double, begin, digits};
    if (std::from_chars(digits.data(), digits.data() + digits.size(), token.real).ec != std::errc())
      fail(begin, "this number does not fit in a double");
    tokens_.push_back(std::move(token));
    pos_ = end;
  }

  void push_integer(std::size_t begin, std::size_t end) {
    int base = 10;
    std::size_t digits_at = begin;
    if (s_[begin] == '0') {
      char letter = static_cast<char>(at(begin + 1) | 0x20);
      int prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
      std::size_t first = begin + 2 + (at(begin + 2) == '_' ? 1 : 0);
      if (prefixed && digit_value(at(first)) < prefixed) {
        base = prefixed;
        digits_at = first;
        end = skip_digits(first, base);
      } else {
        end = skip_digits(begin, 1);  // 0123 is 0 followed by 123, which no grammar rule accepts
      }
    }
    std::string digits;
    for (char c : s_.substr(digits_at, end - digits_at))
      if (c != '_') digits += c;
    Token token{TokenKind::Int, begin, digits};
    if (std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base).ec != std::errc())
      fail(begin, "this integer does not fit in 64 bits");
    tokens_.push_back(std::move(token));
    pos_ = end;
  }

  void lex_string() {
    std::size_t begin = pos_;
    char quote = s_[begin];
    std::size_t p = begin + 1;
    while (p < s_.size() && s_[p] != quote) p += s_[p] == '\\' ? 2 : 1;
    if (p >= s_.size()) fail(begin, "this string is never closed");
    std::string text;
    pos_ = begin + 1;
    while (pos_ < p) {
      if (s_[pos_] == '\\') unescape(text);
      else text += s_[pos_++];
    }
    pos_ = p + 1;
    push(TokenKind::String, begin, std::move(text));
  }

  void unescape(std::string& out) {
    static constexpr std::string_view kFrom = "abfnrtv\\'\"", kTo = "\a\b\f\n\r\t\v\\'\"";
    char c = at(pos_ + 1);
    if (auto i = kFrom.find(c); i != kFrom.npos) {
      out += kTo[i];
      pos_ += 2;
    } else if (c == '\n') {
      pos_ += 2;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      unescape_code(out, pos_ + 2, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16);
    } else if (c >= '0' && c <= '7') {
      std::size_t n = 1;
      while (n < 3 && digit_value(at(pos_ + 1 + n)) < 8) ++n;
      unescape_code(out, pos_ + 1, n, 8);
    } else if (c == 'N') {
      fail(pos_, "named characters (\\N{...}) are not supported", "write the character itself, or \\uXXXX");
    } else {
      out += '\\';  // an unknown escape stands for itself, as in Python
      pos_ += 1;
    }
  }

  void unescape_code(std::string& out, std::size_t digits, std::size_t count, int base) {
    std::uint32_t code = 0;
    for (std::size_t i = 0; i < count; ++i) {
      int d = digit_value(at(digits + i));
      if (d >= base) fail(pos_, "this escape is cut short");
      code = code * static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(d);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail(pos_, "this escape is no Unicode character");
    append_utf8(out, code);
    pos_ = digits + count;
  }

  const Source& source_;
  std::string_view s_;
  std::size_t pos_ = 0;
  bool line_start_ = true;  // the last token ended with a newline
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex_template(const Source& source) { return Lexer(source).run(); }

}  // namespace qcg::tpl

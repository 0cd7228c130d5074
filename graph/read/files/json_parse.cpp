#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "graph/read/files/json.h"

namespace qcg {
namespace {

// Bytes of the well-formed UTF-8 sequence at p (RFC 3629: no surrogates, no overlong forms), 0 if there is none.
size_t utf8_length(const unsigned char* p, const unsigned char* end) {
  auto tail = [&](size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return p + i < end && p[i] >= low && p[i] <= high;
  };
  if (p[0] < 0x80) return 1;
  if (p[0] >= 0xC2 && p[0] <= 0xDF) return tail(1) ? 2 : 0;
  if (p[0] >= 0xE0 && p[0] <= 0xEF) {
    unsigned low = p[0] == 0xE0 ? 0xA0 : 0x80, high = p[0] == 0xED ? 0x9F : 0xBF;
    return tail(1, low, high) && tail(2) ? 3 : 0;
  }
  if (p[0] >= 0xF0 && p[0] <= 0xF4) {
    unsigned low = p[0] == 0xF0 ? 0x90 : 0x80, high = p[0] == 0xF4 ? 0x8F : 0xBF;
    return tail(1, low, high) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

constexpr const char* kWriteAgain = "write the file again with the program that made it; it may be truncated";

}  // namespace

// One pass, an explicit stack of open containers. Failures unwind through bool; the error is made once, in fail().
class JsonParser {
 public:
  JsonParser(JsonDocument& document, const JsonLimits& limits)
      : document_(document),
        limits_(limits),
        begin_(document.text_.data()),
        p_(begin_),
        end_(begin_ + document.text_.size()) {
    // Address space only: pages that stay untouched cost nothing, and growing by copy would double the peak.
    document_.values_.reserve(std::min(limits.values, document.text_.size() / 2 + 1));
  }

  Status parse() {
    if (parse_document()) return {};
    return Error::bad_input(where(), message_, help_);
  }

 private:
  using Value = JsonDocument::Value;

  bool parse_document() {
    skip_space();
    if (!parse_value()) return false;
    while (!open_.empty()) {
      if (!parse_next()) return false;
    }
    skip_space();
    return p_ == end_ || fail("there is text after the end of the document", kWriteAgain);
  }

  // The next element or member of the innermost container, or its end.
  bool parse_next() {
    Value& container = document_.values_[open_.back()];
    bool object = container.kind == JsonKind::object;
    skip_space();
    if (peek() == (object ? '}' : ']')) return close();
    if (container.size > 0) {
      if (peek() != ',') return fail(std::string("expected ',' or '") + (object ? "}'" : "]'"), kWriteAgain);
      ++p_;
      skip_space();
    }
    ++container.size;
    if (object && !parse_key()) return false;
    return parse_value();
  }

  bool parse_key() {
    if (peek() != '"') return fail("expected a key in quotes", kWriteAgain);
    if (!parse_string()) return false;
    skip_space();
    if (peek() != ':') return fail("expected ':' after a key", kWriteAgain);
    ++p_;
    skip_space();
    return true;
  }

  bool parse_value() {
    switch (peek()) {
      case '{': return open(JsonKind::object);
      case '[': return open(JsonKind::array);
      case '"': return parse_string();
      case 't': return parse_word("true", JsonKind::boolean, 1);
      case 'f': return parse_word("false", JsonKind::boolean, 0);
      case 'n': return parse_word("null", JsonKind::null, 0);
      case 'N': return parse_not_finite("NaN", std::numeric_limits<double>::quiet_NaN());
      default: return parse_number();
    }
  }

  bool add(Value value) {
    if (document_.values_.size() == limits_.values) {
      return fail("more than " + std::to_string(limits_.values) + " values",
                  "no graph or weight index needs that many");
    }
    document_.values_.push_back(value);
    return true;
  }

  bool open(JsonKind kind) {
    if (open_.size() == limits_.depth) {
      return fail("nested deeper than " + std::to_string(limits_.depth) + " levels",
                  "no graph or weight index needs that");
    }
    ++p_;
    open_.push_back(static_cast<uint32_t>(document_.values_.size()));
    return add({kind});
  }

  bool close() {
    Value& container = document_.values_[open_.back()];
    container.end = document_.values_.size();
    if (container.kind == JsonKind::object && !keys_are_unique(open_.back())) return false;
    open_.pop_back();
    ++p_;
    return true;
  }

  // Keys of the object into an open-addressed table of value indices, at most half full.
  bool keys_are_unique(uint32_t object) {
    constexpr size_t kMaxProbes = 512;  // chance makes runs of a hundred at most
    const auto& values = document_.values_;
    size_t mask = 15;
    while (mask < size_t{2} * values[object].size) mask = 2 * mask + 1;
    table_.assign(mask + 1, 0);  // 0 is the root's index, never a key's
    for (uint32_t i = object + 1; i < values[object].end; i = document_.next_sibling(i + 1)) {
      std::string_view key = document_.text_of(values[i]);
      size_t slot = std::hash<std::string_view>()(key) & mask, steps = 0;
      for (; table_[slot] != 0; slot = (slot + 1) & mask) {
        if (document_.text_of(values[table_[slot]]) == key) {
          return fail("the key " + quote(key) + " occurs twice in one object", "remove one of the two");
        }
        if (++steps == kMaxProbes)
          return fail("the keys of an object are made to collide", "no exporter writes such keys");
      }
      table_[slot] = i;
    }
    return true;
  }

  bool parse_word(std::string_view word, JsonKind kind, int64_t value) {
    if (static_cast<size_t>(end_ - p_) < word.size() || std::memcmp(p_, word.data(), word.size()) != 0) {
      return fail("expected a value", kWriteAgain);
    }
    p_ += word.size();
    Value v{kind};
    v.integer = value;
    return add(v);
  }

  // Python's json and torch up to 2.7 write numbers that JSON does not have.
  bool parse_not_finite(std::string_view word, double value) {
    if (!parse_word(word, JsonKind::real, 0)) return false;
    document_.values_.back().real = value;
    return true;
  }

  bool parse_number() {
    const char* start = p_;
    if (peek() == '-') ++p_;
    if (peek() == 'I') {
      const double sign = p_ == start ? 1 : -1;
      return parse_not_finite("Infinity", sign * std::numeric_limits<double>::infinity());
    }
    const char* digits = p_;
    skip_digits();
    if (p_ == digits) return p_ = start, fail("expected a value", kWriteAgain);
    if (*digits == '0' && p_ - digits > 1) return fail("a number starts with 0", kWriteAgain);
    bool integer = true;
    if (peek() == '.') {
      integer = false;
      const char* fraction = ++p_;
      skip_digits();
      if (p_ == fraction) return fail("a number ends with '.'", kWriteAgain);
    }
    if (peek() == 'e' || peek() == 'E') {
      integer = false;
      ++p_;
      if (peek() == '+' || peek() == '-') ++p_;
      const char* exponent = p_;
      skip_digits();
      if (p_ == exponent) return fail("a number has an empty exponent", kWriteAgain);
    }
    Value v{JsonKind::integer};
    if (integer && std::from_chars(start, p_, v.integer).ec == std::errc()) return add(v);
    v.kind = JsonKind::real;
    auto [_, error] = std::from_chars(start, p_, v.real);
    if (error != std::errc() || !std::isfinite(v.real))
      return fail("a number is out of range", "use a value that a double can hold");
    return add(v);
  }

  bool parse_string() {
    const char* start = ++p_;
    while (p_ < end_ && *p_ != '"' && *p_ != '\\') {
      if (!skip_character()) return false;
    }
    if (p_ < end_ && *p_ == '"') return add_string(false, start - begin_, p_++ - start);
    size_t offset = document_.unescaped_.size();
    document_.unescaped_.append(start, p_);
    if (!unescape_rest()) return false;
    return add_string(true, offset, document_.unescaped_.size() - offset);
  }

  bool unescape_rest() {
    while (p_ < end_ && *p_ != '"') {
      if (*p_ == '\\') {
        if (!unescape()) return false;
      } else {
        const char* from = p_;
        if (!skip_character()) return false;
        document_.unescaped_.append(from, p_);
      }
    }
    if (p_ == end_) return fail("a string has no end", kWriteAgain);
    ++p_;
    return true;
  }

  bool unescape() {
    static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    ++p_;
    size_t simple = kFrom.find(peek());
    if (p_ < end_ && simple != std::string_view::npos) {
      document_.unescaped_ += kTo[simple];
      ++p_;
      return true;
    }
    uint32_t c = 0, low = 0;
    if (peek() != 'u' || !parse_hex(c)) return fail("a string has a bad escape", kWriteAgain);
    if (c >= 0xDC00 && c <= 0xDFFF) return fail("a string has a lone surrogate", kWriteAgain);
    if (c >= 0xD800 && c <= 0xDBFF) {
      if (peek() != '\\') return fail("a string has a lone surrogate", kWriteAgain);
      ++p_;
      if (peek() != 'u' || !parse_hex(low) || low < 0xDC00 || low > 0xDFFF)
        return fail("a string has a lone surrogate", kWriteAgain);
      c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(document_.unescaped_, c);
    return true;
  }

  bool parse_hex(uint32_t& c) {
    ++p_;  // the u
    if (end_ - p_ < 4) return false;
    auto [stop, error] = std::from_chars(p_, p_ + 4, c, 16);
    if (error != std::errc() || stop != p_ + 4) return false;
    p_ += 4;
    return true;
  }

  bool skip_character() {
    unsigned char c = static_cast<unsigned char>(*p_);
    if (c < 0x20) return fail("a string has a control character", kWriteAgain);
    size_t length = c < 0x80 ? 1
                             : utf8_length(reinterpret_cast<const unsigned char*>(p_),
                                           reinterpret_cast<const unsigned char*>(end_));
    if (length == 0) return fail("a string is not UTF-8", kWriteAgain);
    p_ += length;
    return true;
  }

  bool add_string(bool escaped, size_t offset, size_t size) {
    Value v{JsonKind::string, escaped, static_cast<uint32_t>(size)};
    v.offset = offset;
    return add(v);
  }

  char peek() const { return p_ < end_ ? *p_ : '\0'; }
  void skip_digits() {
    while (p_ < end_ && *p_ >= '0' && *p_ <= '9') ++p_;
  }
  void skip_space() {
    while (p_ < end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\t' || *p_ == '\r')) ++p_;
  }

  bool fail(std::string message, std::string help) {
    message_ = p_ == end_ ? "the text ends too early: " + message : std::move(message);
    help_ = std::move(help);
    return false;
  }

  // Line and column, and the path of the container that was open. Its end is not known yet, so it is set for path_of.
  std::string where() {
    for (uint32_t i : open_) document_.values_[i].end = document_.values_.size() + 1;
    std::string path = open_.empty() ? document_.where_ + "$" : document_.path_of(open_.back());
    size_t line = 1 + std::count(begin_, p_, '\n');
    const char* line_start = p_;
    while (line_start > begin_ && line_start[-1] != '\n') --line_start;
    return path + " (line " + std::to_string(line) + ", column " + std::to_string(p_ - line_start + 1) + ")";
  }

  JsonDocument& document_;
  const JsonLimits& limits_;
  const char* begin_;
  const char* p_;
  const char* end_;
  std::vector<uint32_t> open_;
  std::vector<uint32_t> table_;
  std::string message_;
  std::string help_;
};

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string where, const JsonLimits& limits) {
  JsonDocument document;
  document.where_ = where.empty() ? "" : std::move(where) + ": ";
  if (text.size() > std::min<size_t>(limits.text_bytes, UINT32_MAX)) {
    return Error::bad_input(document.where_ + "$",
                            "the JSON is " + std::to_string(text.size()) + " bytes long, at most " +
                                std::to_string(limits.text_bytes) + " are read",
                            "check that this is the right file");
  }
  document.text_ = text;
  QCG_CHECK(JsonParser(document, limits).parse());
  return document;
}

}  // namespace qcg

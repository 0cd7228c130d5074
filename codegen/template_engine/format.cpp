#include "codegen/template_engine/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace qcg::tpl {
namespace {

std::string_view strip(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r\v\f";
  while (!text.empty() && kBlank.find(text.front()) != kBlank.npos) text.remove_prefix(1);
  while (!text.empty() && kBlank.find(text.back()) != kBlank.npos) text.remove_suffix(1);
  return text;
}

// Without the underscores between digits; nothing where one is elsewhere.
std::optional<std::string> drop_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_')
      out += text[i];
    else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_' ||
             !std::isalnum(static_cast<unsigned char>(text[i - 1])))
      return std::nullopt;
  }
  return out;
}

struct Spec {
  bool left = false, zero = false, plus = false, blank = false, alternate = false;
  int width = 0, precision = -1;
  char conversion = 0;
};

// "00 12": zeros or blanks around `sign + body` as the spec asks.
std::string pad(const Spec& spec, const std::string& sign, const std::string& body, bool number) {
  std::size_t length = sign.size() + split_characters(body).size();
  std::size_t fill = static_cast<std::size_t>(spec.width) > length ? static_cast<std::size_t>(spec.width) - length : 0;
  if (spec.left) return sign + body + std::string(fill, ' ');
  if (spec.zero && number) return sign + std::string(fill, '0') + body;
  return std::string(fill, ' ') + sign + body;
}

class Formatter {
 public:
  Formatter(Renderer& r, std::string_view format, const Bound& args) : r_(r), format_(format), args_(args) {}

  std::string run() {
    std::string out;
    while (at_ < format_.size()) {
      if (format_[at_] != '%') {
        out += format_[at_++];
        continue;
      }
      ++at_;
      Spec spec = read_spec();
      out += spec.conversion == '%' ? std::string("%") : convert(spec, next_argument());
    }
    if (used_ < args_.size()) r_.fail_type("not all arguments of format are used by its text");
    return out;
  }

 private:
  const TemplateValue& next_argument() {
    if (used_ >= args_.size()) r_.fail_type("format has fewer arguments than its text asks for");
    r_.require_defined(*args_[used_]);
    return *args_[used_++];
  }

  int read_number() {
    int n = 0;
    for (; at_ < format_.size() && format_[at_] >= '0' && format_[at_] <= '9'; ++at_) {
      n = n * 10 + (format_[at_] - '0');
      if (n > 10'000) r_.fail_type("a width or precision in format is larger than 10000");
    }
    return n;
  }

  Spec read_spec() {
    Spec spec;
    for (bool flag = true; flag && at_ < format_.size(); at_ += flag) {
      switch (format_[at_]) {
        case '-':
          spec.left = true;
          break;
        case '0':
          spec.zero = true;
          break;
        case '+':
          spec.plus = true;
          break;
        case ' ':
          spec.blank = true;
          break;
        case '#':
          spec.alternate = true;
          break;
        default:
          flag = false;
      }
    }
    spec.width = read_number();
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      spec.precision = read_number();
    }
    if (at_ >= format_.size()) r_.fail_type("the text of format ends within a conversion");
    spec.conversion = format_[at_++];
    return spec;
  }

  std::string convert(const Spec& spec, const TemplateValue& value) {
    constexpr std::string_view kIntegers = "diuxXo", kReals = "fFeEgG";
    if (spec.conversion == 's') return pad(spec, "", clip(spec, r_.to_text(value)), false);
    if (kIntegers.find(spec.conversion) != kIntegers.npos) return convert_integer(spec, value);
    if (kReals.find(spec.conversion) != kReals.npos) return convert_real(spec, value);
    r_.fail_type(std::string("format does not know the conversion '%") + spec.conversion + "'",
                 "use one of d i u x X o s f e g %");
  }

  static std::string clip(const Spec& spec, const std::string& text) {
    if (spec.precision < 0) return text;
    std::string out;
    auto characters = split_characters(text);
    for (std::size_t i = 0; i < characters.size() && i < static_cast<std::size_t>(spec.precision); ++i)
      out += characters[i];
    return out;
  }

  std::string sign_of(const Spec& spec, bool negative) const {
    return negative ? "-" : spec.plus ? "+" : spec.blank ? " " : "";
  }

  std::string convert_integer(const Spec& spec, const TemplateValue& value) {
    auto i = as_integer(value);
    bool decimal = spec.conversion == 'd' || spec.conversion == 'i' || spec.conversion == 'u';
    if (!i && decimal && value.kind() == TemplateValue::Kind::Double && std::abs(value.as_double()) < 0x1p63)
      i = static_cast<std::int64_t>(value.as_double());
    if (!i) r_.fail_type(std::string("'%") + spec.conversion + "' needs an integer, not " + type_name(value));
    int base = decimal ? 10 : spec.conversion == 'o' ? 8 : 16;
    char buffer[72];
    std::uint64_t magnitude =
        *i < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(*i) : static_cast<std::uint64_t>(*i);
    std::string digits(buffer, std::to_chars(buffer, buffer + sizeof buffer, magnitude, base).ptr);
    if (spec.precision > static_cast<int>(digits.size()))
      digits.insert(0, static_cast<std::size_t>(spec.precision) - digits.size(), '0');
    std::string sign = sign_of(spec, *i < 0);
    if (spec.alternate && !decimal) sign += spec.conversion == 'o' ? "0o" : "0x";
    if (spec.conversion == 'X')
      for (std::string* part : {&sign, &digits})
        for (char& c : *part) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    return pad(spec, sign, digits, true);
  }

  std::string convert_real(const Spec& spec, const TemplateValue& value) {
    auto real = as_number(value);
    if (!real) r_.fail_type(std::string("'%") + spec.conversion + "' needs a number, not " + type_name(value));
    char pattern[] = {'%', '.', '*', spec.conversion, '\0'};
    char alternate[] = {'%', '#', '.', '*', spec.conversion, '\0'};
    const char* chosen = spec.alternate ? alternate : pattern;
    int precision = spec.precision < 0 ? 6 : spec.precision;
    double magnitude = std::signbit(*real) ? -*real : *real;
    auto length = static_cast<std::size_t>(std::snprintf(nullptr, 0, chosen, precision, magnitude));
    std::string digits(length, '\0');
    std::snprintf(digits.data(), length + 1, chosen, precision, magnitude);
    return pad(spec, sign_of(spec, std::signbit(*real)), digits, true);
  }

  Renderer& r_;
  std::string_view format_;
  const Bound& args_;
  std::size_t at_ = 0, used_ = 0;
};

}  // namespace

ParsedInteger parse_integer(std::string_view text, int base) {
  if (base != 0 && (base < 2 || base > 36)) return {};
  text = strip(text);
  bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  char letter = text.size() > 1 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  int prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefixed && (base == 0 || base == prefixed)) {
    base = prefixed;
    text.remove_prefix(text.size() > 3 && text[2] == '_' ? 3 : 2);
  } else if (base == 0) {
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != text.npos) return {};
    base = 10;
  }
  auto digits = drop_underscores(text);
  if (!digits || digits->empty() || (*digits)[0] == '-') return {};
  if (negative) digits->insert(0, 1, '-');
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), value, base);
  if (end != digits->data() + digits->size() || error == std::errc::invalid_argument) return {};
  if (error == std::errc::result_out_of_range) return {std::nullopt, true};
  return {value, false};
}

std::optional<double> parse_double(std::string_view text) {
  auto digits = drop_underscores(strip(text));
  if (!digits) return std::nullopt;
  std::string_view rest = *digits;
  if (!rest.empty() && rest[0] == '+') rest.remove_prefix(1);
  double value = 0;
  auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc() || end != rest.data() + rest.size()) return std::nullopt;
  return value;
}

TemplateValue apply_format(Renderer& r, const TemplateValue& value, const Bound& args) {
  std::string text = Formatter(r, r.to_text(value), args).run();
  r.charge(text.size());
  return text;
}

}  // namespace qcg::tpl

#include "codegen/template_engine/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "codegen/template_engine/format.h"

namespace qcg::tpl {
namespace {

using Kind = TemplateValue::Kind;

std::int64_t integer_argument(const Renderer& r, const TemplateValue* value, std::int64_t fallback, const char* what) {
  if (!value) return fallback;
  r.require_defined(*value);
  auto i = as_integer(*value);
  if (!i) r.fail_type(std::string(what) + " must be an integer, not " + type_name(*value));
  return *i;
}

bool bool_argument(const Renderer& r, const TemplateValue* value) { return value && r.is_truthy(*value); }

// "a.b.0" of one item.
TemplateValue follow_path(Renderer& r, TemplateValue value, std::string_view path) {
  while (true) {
    std::string part(path.substr(0, path.find('.')));
    bool digits = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    value = r.get_item(value, digits ? TemplateValue(std::stoi(part)) : TemplateValue(part));
    if (path.find('.') == path.npos) return value;
    path.remove_prefix(path.find('.') + 1);
  }
}

TemplateValue apply_join(Renderer& r, const TemplateValue& value, const Bound& args) {
  std::string separator = args[0] ? r.to_text(*args[0]) : "", text;
  Sequence sequence = r.iterate(value);
  for (std::int64_t i = 0; i < sequence.size(); ++i) {
    if (i > 0) text += separator;
    TemplateValue item = sequence.at(i);
    if (args[1] && args[1]->kind() == Kind::String)
      item = follow_path(r, item, args[1]->as_string());
    else if (args[1] && !args[1]->is_none())
      item = r.get_item(item, *args[1]);
    text += r.to_text(item);
    if (text.size() > (1u << 16)) r.charge(text.size() >> 8);  // the sum may grow far beyond each part
  }
  r.charge(text.size());
  return text;
}

TemplateValue apply_length(Renderer& r, const TemplateValue& value, const Bound&) { return r.iterate(value).size(); }

TemplateValue apply_upper(Renderer& r, const TemplateValue& value, const Bound&) {
  std::string text = r.to_text(value);
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return text;
}

TemplateValue apply_lower(Renderer& r, const TemplateValue& value, const Bound&) {
  std::string text = r.to_text(value);
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text;
}

TemplateValue apply_default(Renderer& r, const TemplateValue& value, const Bound& args) {
  bool missing = is_undefined(value) || (bool_argument(r, args[1]) && !r.is_truthy(value));
  return !missing ? value : args[0] ? *args[0] : TemplateValue("");
}

TemplateValue apply_first(Renderer& r, const TemplateValue& value, const Bound&) {
  Sequence sequence = r.iterate(value);
  return sequence.size() ? sequence.at(0) : make_object(Undefined{"an empty sequence has no first item"});
}

TemplateValue apply_last(Renderer& r, const TemplateValue& value, const Bound&) {
  Sequence sequence = r.iterate(value);
  return sequence.size() ? sequence.at(sequence.size() - 1)
                         : make_object(Undefined{"an empty sequence has no last item"});
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    std::size_t end = std::min(text.find_first_of("\n\r\v\f\x1c\x1d\x1e"), text.size());
    lines.push_back(text.substr(0, end));
    if (end < text.size()) end += text.substr(end, 2) == "\r\n" ? 2 : 1;
    text.remove_prefix(end);
  }
  return lines;
}

TemplateValue apply_indent(Renderer& r, const TemplateValue& value, const Bound& args) {
  r.require_defined(value);
  if (value.kind() != Kind::String) r.fail_type("only a string can be indented, not " + type_name(value));
  std::string margin;
  if (args[0] && args[0]->kind() == Kind::String)
    margin = args[0]->as_string();
  else {
    std::int64_t width = std::max<std::int64_t>(0, integer_argument(r, args[0], 4, "the width of indent"));
    r.charge(static_cast<std::size_t>(width));
    margin.assign(static_cast<std::size_t>(width), ' ');
  }
  bool first = bool_argument(r, args[1]), blank = bool_argument(r, args[2]);
  std::string whole = value.as_string() + "\n", text = first ? margin : "";
  auto lines = split_lines(whole);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += '\n';
    if (i > 0 && (blank || !lines[i].empty())) text += margin;
    text += lines[i];
    if (text.size() > (1u << 16)) r.charge(margin.size());
  }
  r.charge(text.size());
  return text;
}

TemplateValue apply_replace(Renderer& r, const TemplateValue& value, const Bound& args) {
  std::string text = r.to_text(value), from = r.to_text(*args[0]), to = r.to_text(*args[1]), out;
  std::int64_t count = args[2] && args[2]->is_none() ? -1 : integer_argument(r, args[2], -1, "the count of replace");
  std::int64_t left = count < 0 ? INT64_MAX : count;
  auto spend = [&] { return left > 0 && (r.charge(to.size()), left-- > 0); };
  if (from.empty()) {  // Python puts `to` before every character and at the end
    for (auto c : split_characters(text)) (out += spend() ? to : "") += c;
    out += spend() ? to : "";
  } else {
    std::size_t at = 0;
    for (auto hit = text.find(from); hit != text.npos && spend(); hit = text.find(from, at)) {
      out.append(text, at, hit - at) += to;
      at = hit + from.size();
    }
    out.append(text, at);
  }
  r.charge(out.size());
  return out;
}

TemplateValue apply_trim(Renderer& r, const TemplateValue& value, const Bound& args) {
  std::string text = r.to_text(value);
  bool given = args[0] && !args[0]->is_none();
  if (given) r.require_defined(*args[0]);
  if (given && args[0]->kind() != Kind::String) r.fail_type("trim takes a string of characters");
  std::string set = given ? args[0]->as_string() : " \t\n\r\v\f\x1c\x1d\x1e\x1f";
  auto strip = split_characters(set), characters = split_characters(text);
  auto goes = [&](std::string_view c) { return std::find(strip.begin(), strip.end(), c) != strip.end(); };
  std::size_t begin = 0, end = characters.size();
  while (begin < end && goes(characters[begin])) ++begin;
  while (end > begin && goes(characters[end - 1])) --end;
  std::string out;
  for (; begin < end; ++begin) out += characters[begin];
  return out;
}

TemplateValue apply_int(Renderer& r, const TemplateValue& value, const Bound& args) {
  r.require_defined(value);
  std::int64_t base = integer_argument(r, args[1], 10, "the base of int");
  if (auto i = as_integer(value)) return *i;
  std::optional<double> real;
  if (value.kind() == Kind::Double) real = value.as_double();
  if (value.kind() == Kind::String) {
    auto parsed = parse_integer(value.as_string(), static_cast<int>(std::clamp<std::int64_t>(base, -1, 99)));
    if (parsed.overflow) r.fail("limit", "the integer does not fit in 64 bits");
    if (parsed.value) return *parsed.value;
    real = parse_double(value.as_string());
  }
  if (!real || std::isnan(*real)) return args[0] ? *args[0] : TemplateValue(0);
  if (std::isinf(*real)) r.fail_type("infinity has no integer value");
  if (std::fabs(*real) >= 0x1p63) r.fail("limit", "the integer does not fit in 64 bits");
  return static_cast<std::int64_t>(*real);
}

TemplateValue apply_string(Renderer& r, const TemplateValue& value, const Bound&) { return r.to_text(value); }

TemplateValue apply_list(Renderer& r, const TemplateValue& value, const Bound&) {
  Sequence sequence = r.iterate(value);
  r.charge(static_cast<std::size_t>(std::min<std::int64_t>(sequence.size(), 1 << 30)) * 32);
  std::vector<TemplateValue> items;
  for (std::int64_t i = 0; i < sequence.size(); ++i) items.push_back(sequence.at(i));
  return TemplateValue::from_items(std::move(items));
}

TemplateValue apply_items(Renderer& r, const TemplateValue& value, const Bound&) {
  if (is_undefined(value)) return TemplateValue::list();
  if (value.kind() != Kind::Dict) r.fail_type("items needs a dict, not " + type_name(value));
  return r.dict_pairs(value);
}

constexpr Filter kFilters[] = {
    {"join", apply_join, "d,attribute"},
    {"length", apply_length},
    {"count", apply_length},
    {"upper", apply_upper},
    {"lower", apply_lower},
    {"default", apply_default, "default_value,boolean"},
    {"d", apply_default, "default_value,boolean"},
    {"first", apply_first},
    {"last", apply_last},
    {"indent", apply_indent, "width,first,blank"},
    {"replace", apply_replace, "old,new,count", 2},
    {"trim", apply_trim, "chars"},
    {"int", apply_int, "default,base"},
    {"string", apply_string},
    {"list", apply_list},
    {"format", apply_format, "", 0, true},
    {"items", apply_items},
};

bool is_sequence(const TemplateValue& v) {
  return v.kind() == Kind::String || v.kind() == Kind::List || v.kind() == Kind::Dict || get_object<Range>(v);
}

std::int64_t remainder(Renderer& r, const TemplateValue& value, const TemplateValue& divisor) {
  r.require_defined(value);
  r.require_defined(divisor);
  auto a = as_integer(value), b = as_integer(divisor);
  if (!a || !b) r.fail_type(type_name(a ? divisor : value) + " has no remainder: integers only");
  if (*b == 0) r.fail_type("division by zero");
  return *b == -1 ? 0 : *a % *b;
}

constexpr Test kTests[] = {
    {"defined", [](Renderer&, const TemplateValue& v, const TemplateValue*) { return !is_undefined(v); }},
    {"undefined", [](Renderer&, const TemplateValue& v, const TemplateValue*) { return is_undefined(v); }},
    {"none", [](Renderer&, const TemplateValue& v, const TemplateValue*) { return v.is_none(); }},
    {"odd", [](Renderer& r, const TemplateValue& v, const TemplateValue*) { return remainder(r, v, 2) != 0; }},
    {"even", [](Renderer& r, const TemplateValue& v, const TemplateValue*) { return remainder(r, v, 2) == 0; }},
    {"divisibleby",
     [](Renderer& r, const TemplateValue& v, const TemplateValue* by) { return remainder(r, v, *by) == 0; }, true},
    {"boolean", [](Renderer&, const TemplateValue& v, const TemplateValue*) { return v.kind() == Kind::Bool; }},
    {"integer", [](Renderer&, const TemplateValue& v, const TemplateValue*) { return v.kind() == Kind::Int; }},
    {"float", [](Renderer&, const TemplateValue& v, const TemplateValue*) { return v.kind() == Kind::Double; }},
    {"number", [](Renderer&, const TemplateValue& v, const TemplateValue*) { return as_number(v).has_value(); }},
    {"string", [](Renderer&, const TemplateValue& v, const TemplateValue*) { return v.kind() == Kind::String; }},
    {"mapping", [](Renderer&, const TemplateValue& v, const TemplateValue*) { return v.kind() == Kind::Dict; }},
    {"sequence", [](Renderer&, const TemplateValue& v, const TemplateValue*) { return is_sequence(v); }},
    {"iterable",
     [](Renderer& r, const TemplateValue& v, const TemplateValue*) { return r.require_defined(v), is_sequence(v); }},
    {"true",
     [](Renderer&, const TemplateValue& v, const TemplateValue*) { return v.kind() == Kind::Bool && v.as_bool(); }},
    {"false",
     [](Renderer&, const TemplateValue& v, const TemplateValue*) { return v.kind() == Kind::Bool && !v.as_bool(); }},
    {"in", [](Renderer& r, const TemplateValue& v, const TemplateValue* in) { return r.contains(*in, v); }, true},
    {"eq", [](Renderer& r, const TemplateValue& v, const TemplateValue* other) { return r.is_equal(v, *other); }, true},
    {"ne", [](Renderer& r, const TemplateValue& v, const TemplateValue* other) { return !r.is_equal(v, *other); },
     true},
};

template <class Row, std::size_t n>
const Row* find_row(const Row (&rows)[n], std::string_view name) {
  auto row = std::find_if(rows, rows + n, [&](const Row& r) { return r.name == name; });
  return row == rows + n ? nullptr : row;
}

template <class Row, std::size_t n>
std::string list_rows(const Row (&rows)[n]) {
  std::string names;
  for (const Row& row : rows) (names += names.empty() ? "" : " ") += row.name;
  return names;
}

}  // namespace

const Filter* find_filter(std::string_view name) { return find_row(kFilters, name); }
const Test* find_test(std::string_view name) { return find_row(kTests, name); }
std::string list_filters() { return list_rows(kFilters); }
std::string list_tests() { return list_rows(kTests); }

Bound bind_arguments(const Renderer& renderer, const Filter& filter, const Arguments& args) {
  Bound bound;
  std::vector<std::string_view> params;
  for (std::string_view rest = filter.params; !rest.empty();) {
    params.push_back(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), params.back().size() + 1));
  }
  auto refuse = [&](const std::string& what) {
    renderer.fail_type("the filter '" + std::string(filter.name) + "' " + what);
  };
  for (const auto& value : args.positional) bound.push_back(&value);
  if (!filter.variadic && bound.size() > params.size())
    refuse("takes no more than " + std::to_string(params.size()) + " arguments");
  if (!filter.variadic) bound.resize(params.size());
  for (const auto& [name, value] : args.named) {
    auto at = std::find(params.begin(), params.end(), name);
    if (at == params.end()) refuse("has no argument '" + name + "'");
    const TemplateValue*& slot = bound[static_cast<std::size_t>(at - params.begin())];
    if (slot) refuse("got its argument '" + name + "' twice");
    slot = &value;
  }
  for (std::size_t i = 0; i < filter.required; ++i)
    if (!bound[i]) refuse("needs the argument '" + std::string(params[i]) + "'");
  return bound;
}

}  // namespace qcg::tpl

// What values are to a template: Python's notions of text, truth, equality, attributes and items.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "codegen/template_engine/render.h"

namespace qcg::tpl {

using Kind = TemplateValue::Kind;

namespace {

constexpr int kMaxValueNesting = 100;
constexpr std::string_view kDictMethods[] = {"items", "keys", "values", "get"};
constexpr std::string_view kOtherDictMethods[] = {"clear",   "copy",       "fromkeys", "pop",
                                                  "popitem", "setdefault", "update"};

// Shortest digits that read back as the same double, laid out as Python's repr does.
std::string format_double(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[64];
  double size = std::fabs(v);
  bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  auto end = std::to_chars(buffer, buffer + sizeof buffer, v,
                           exponent ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer, end.ptr);
  if (!exponent && text.find('.') == text.npos) text += ".0";
  return text;
}

void quote(std::string_view text, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  char q = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  out += q;
  for (char c : text) {
    auto u = static_cast<unsigned char>(c);
    if (c == q || c == '\\') (out += '\\') += c;
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c == '\t') out += "\\t";
    else if (u < 32 || u == 127) ((out += "\\x") += kHex[u >> 4]) += kHex[u & 15];
    else out += c;
  }
  out += q;
}

}  // namespace

std::string type_name(const TemplateValue& value) {
  switch (value.kind()) {
    case Kind::None: return "none";
    case Kind::Bool: return "a bool";
    case Kind::Int: return "an integer";
    case Kind::Double: return "a float";
    case Kind::String: return "a string";
    case Kind::List: return value.is_tuple() ? "a tuple" : "a list";
    case Kind::Dict: return "a dict";
    case Kind::Object: break;
  }
  if (auto* u = get_object<Undefined>(value)) return "undefined (" + u->message + ")";
  if (get_object<Range>(value)) return "a range";
  if (get_object<Loop>(value)) return "the loop variable";
  if (get_object<MacroValue>(value)) return "a macro";
  if (get_object<NamespaceValue>(value)) return "a namespace";
  return "a function";
}

std::optional<std::int64_t> as_integer(const TemplateValue& value) {
  if (value.kind() == Kind::Int) return value.as_int();
  if (value.kind() == Kind::Bool) return value.as_bool() ? 1 : 0;
  return std::nullopt;
}

std::optional<double> as_number(const TemplateValue& value) {
  if (value.kind() == Kind::Double) return value.as_double();
  if (auto i = as_integer(value)) return static_cast<double>(*i);
  return std::nullopt;
}

std::vector<std::string_view> split_characters(std::string_view utf8) {
  std::vector<std::string_view> characters;
  for (std::size_t i = 0; i < utf8.size();) {
    std::size_t end = i + 1;
    while (end < utf8.size() && (static_cast<unsigned char>(utf8[end]) & 0xC0) == 0x80) ++end;
    characters.push_back(utf8.substr(i, end - i));
    i = end;
  }
  return characters;
}

std::int64_t Range::size() const {
  // In 128 bits: stop - start may leave 64.
  __int128 span = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  if (span <= 0) return 0;
  return static_cast<std::int64_t>(std::min<__int128>((span + stride - 1) / stride, INT64_MAX));
}

Sequence::Sequence(TemplateValue owner) : owner_(std::move(owner)) {
  if (owner_.kind() == Kind::List) {
    size_ = static_cast<std::int64_t>(owner_.items().size());
  } else if (auto* range = get_object<Range>(owner_)) {
    size_ = range->size();
  } else if (owner_.kind() == Kind::String) {
    for (auto c : split_characters(owner_.as_string())) made_.emplace_back(c);
    size_ = static_cast<std::int64_t>(made_.size());
  } else if (owner_.kind() == Kind::Dict) {
    for (const auto& entry : owner_.entries()) made_.emplace_back(entry.first);
    size_ = static_cast<std::int64_t>(made_.size());
  } else {
    valid_ = false;
  }
}

TemplateValue Sequence::at(std::int64_t i) const {
  if (owner_.kind() == Kind::List) return owner_.items()[static_cast<std::size_t>(i)];
  if (auto* range = get_object<Range>(owner_))  // the item fits in 64 bits, i * step may not
    return static_cast<std::int64_t>(range->start + static_cast<__int128>(i) * range->step);
  return made_[static_cast<std::size_t>(i)];
}

void Renderer::fail(const char* kind, std::string message, std::string help) const {
  throw Failure(kind, here_->source, pos_, std::move(message), std::move(help));
}

void Renderer::require_defined(const TemplateValue& value) const {
  if (auto* u = get_object<Undefined>(value))
    fail("undefined", u->message, "pass it to the template, or give it a default");
}

void Renderer::step() {
  if (++steps_ > limits_.max_steps)
    fail("limit", "the template takes more than " + std::to_string(limits_.max_steps) + " steps", "loop less");
}

void Renderer::charge(std::size_t bytes) {
  if (bytes > limits_.max_output)
    fail("limit", "the template makes a text of more than " + std::to_string(limits_.max_output) + " bytes",
         "print less");
  steps_ += bytes / 32;
  step();
}

Sequence Renderer::iterate(const TemplateValue& value) {
  if (is_blank(value)) return Sequence(TemplateValue::list());
  require_defined(value);
  if (value.kind() == Kind::String) charge(value.as_string().size() * 32);
  Sequence sequence(value);
  if (!sequence.valid())
    fail_type(type_name(value) + " cannot be iterated over", "give a list, a range, a dict or a string");
  return sequence;
}

TemplateValue Renderer::make_list(std::vector<TemplateValue> items, bool tuple) {
  charge(items.size() * 32);
  TemplateValue list = TemplateValue::from_items(std::move(items), tuple);
  if (list.nesting() > kMaxValueNesting) fail("limit", "lists are nested deeper than 100 levels");
  return list;
}

TemplateValue Renderer::make_dict(std::vector<TemplateValue::Entry> entries) {
  charge(entries.size() * 32);
  TemplateValue dict = TemplateValue::from_entries(std::move(entries));
  if (dict.nesting() > kMaxValueNesting) fail("limit", "dicts are nested deeper than 100 levels");
  return dict;
}

const TemplateValue* Renderer::find_entry(const TemplateValue& dict, std::string_view key) {
  charge(dict.entries().size());
  return dict.find(key);
}

TemplateValue Renderer::dict_pairs(const TemplateValue& dict) {
  std::vector<TemplateValue> pairs;
  for (const auto& [key, value] : dict.entries()) pairs.push_back(make_list({key, value}, true));
  return make_list(std::move(pairs));
}

std::string Renderer::to_text(const TemplateValue& value) {
  std::string out;
  write_text(value, false, out);
  charge(out.size());
  return out;
}

// Python's str() of the value, or its repr() where quoted, as for the items of a list.
void Renderer::write_text(const TemplateValue& value, bool quoted, std::string& out) {
  if (is_blank(value)) return void(out += quoted ? "Undefined" : "");
  require_defined(value);
  step();
  if (out.size() > limits_.max_output) charge(out.size());
  auto join = [&](const auto& items, auto&& write_one) {
    bool first = true;
    for (const auto& item : items) {
      if (!first) out += ", ";
      first = false;
      write_one(item);
    }
  };
  switch (value.kind()) {
    case Kind::None: out += "None"; return;
    case Kind::Bool: out += value.as_bool() ? "True" : "False"; return;
    case Kind::Int: out += std::to_string(value.as_int()); return;
    case Kind::Double: out += format_double(value.as_double()); return;
    case Kind::String: quoted ? quote(value.as_string(), out) : void(out += value.as_string()); return;
    case Kind::List:
      out += value.is_tuple() ? '(' : '[';
      join(value.items(), [&](const TemplateValue& item) { write_text(item, true, out); });
      if (value.is_tuple() && value.items().size() == 1) out += ',';
      out += value.is_tuple() ? ')' : ']';
      return;
    case Kind::Dict:
      out += '{';
      join(value.entries(), [&](const TemplateValue::Entry& entry) {
        quote(entry.first, out);
        out += ": ";
        write_text(entry.second, true, out);
      });
      out += '}';
      return;
    case Kind::Object: break;
  }
  auto* range = get_object<Range>(value);
  if (!range) fail_type(type_name(value) + " cannot be printed", "print one of its attributes, or call it");
  out += "range(" + std::to_string(range->start) + ", " + std::to_string(range->stop);
  if (range->step != 1) out += ", " + std::to_string(range->step);
  out += ')';
}

bool Renderer::is_truthy(const TemplateValue& value) const {
  if (is_blank(value)) return false;
  require_defined(value);
  switch (value.kind()) {
    case Kind::None: return false;
    case Kind::Bool: return value.as_bool();
    case Kind::Int: return value.as_int() != 0;
    case Kind::Double: return value.as_double() != 0;
    case Kind::String: return !value.as_string().empty();
    case Kind::List: return !value.items().empty();
    case Kind::Dict: return !value.entries().empty();
    case Kind::Object: break;
  }
  auto* range = get_object<Range>(value);
  return !range || range->size() > 0;
}

bool Renderer::is_equal(const TemplateValue& a, const TemplateValue& b) {
  if (!is_blank(a)) require_defined(a);
  if (!is_blank(b)) require_defined(b);
  if (is_blank(a) || is_blank(b)) return is_blank(a) && is_blank(b);
  step();
  auto ia = as_integer(a), ib = as_integer(b);
  if (ia && ib) return *ia == *ib;
  auto na = as_number(a), nb = as_number(b);
  if (na && nb) return *na == *nb;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::None: return true;
    case Kind::String: return a.as_string() == b.as_string();
    case Kind::List: {
      const auto &x = a.items(), &y = b.items();
      if (a.is_tuple() != b.is_tuple() || x.size() != y.size()) return false;
      for (std::size_t i = 0; i < x.size(); ++i)
        if (!is_equal(x[i], y[i])) return false;
      return true;
    }
    case Kind::Dict: {
      if (a.entries().size() != b.entries().size()) return false;
      for (const auto& [key, value] : a.entries()) {
        const TemplateValue* other = find_entry(b, key);
        if (!other || !is_equal(value, *other)) return false;
      }
      return true;
    }
    default: break;
  }
  auto *x = get_object<Range>(a), *y = get_object<Range>(b);
  if (!x || !y) return &a.object() == &b.object();
  auto size = x->size();
  return size == y->size() && (size == 0 || (x->start == y->start && (size == 1 || x->step == y->step)));
}

TemplateValue Renderer::get_attribute(const TemplateValue& value, const std::string& name) {
  require_defined(value);
  if (value.kind() == Kind::Dict) {
    if (std::find(std::begin(kDictMethods), std::end(kDictMethods), name) != std::end(kDictMethods))
      return make_object(DictMethod{name, value});
    if (std::find(std::begin(kOtherDictMethods), std::end(kOtherDictMethods), name) != std::end(kOtherDictMethods))
      fail_type("'." + name + "' means a method of dict in Jinja", "write [\"" + name + "\"] to get the entry");
    if (auto* found = find_entry(value, name)) return *found;
  }
  if (auto* loop = get_object<Loop>(value)) {
    if (name == "index") return loop->index0 + 1;
    if (name == "index0") return loop->index0;
    if (name == "first") return loop->index0 == 0;
    if (name == "last") return loop->index0 + 1 == loop->length;
    if (name == "length") return loop->length;
    if (name == "revindex") return loop->length - loop->index0;
    if (name == "revindex0") return loop->length - loop->index0 - 1;
  }
  if (auto* ns = get_object<NamespaceValue>(value)) {
    charge(ns->attributes->size());
    for (const auto& [key, attribute] : *ns->attributes)
      if (key == name) return attribute;
  }
  return make_object(Undefined{type_name(value) + " has no attribute '" + name + "'"});
}

TemplateValue Renderer::get_item(const TemplateValue& value, const TemplateValue& key) {
  require_defined(value);
  require_defined(key);
  if (key.kind() == Kind::String) {
    if (value.kind() != Kind::Dict) return get_attribute(value, key.as_string());
    if (auto* found = find_entry(value, key.as_string())) return *found;
    return make_object(Undefined{"the dict has no entry '" + key.as_string() + "'"});
  }
  auto index = as_integer(key);
  bool indexable = value.kind() == Kind::List || value.kind() == Kind::String || get_object<Range>(value);
  if (!index || !indexable) return make_object(Undefined{type_name(value) + " has no item " + type_name(key)});
  Sequence sequence = iterate(value);
  std::int64_t i = *index < 0 ? *index + sequence.size() : *index;
  if (i >= 0 && i < sequence.size()) return sequence.at(i);
  return make_object(Undefined{"the index " + std::to_string(*index) + " is outside of " + type_name(value) +
                               " of length " + std::to_string(sequence.size())});
}

}  // namespace qcg::tpl

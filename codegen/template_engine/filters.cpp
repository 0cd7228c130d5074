#include "codegen/template_engine/filters.h"

#include <algorithm>

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

TemplateValue apply_join(Renderer& r, const TemplateValue& value, const Bound& args) {
  std::string separator = args[0] ? r.to_text(*args[0]) : "", text;
  Sequence sequence = r.iterate(value);
  for (std::int64_t i = 0; i < sequence.size(); ++i) {
    if (i > 0) text += separator;
    text += r.to_text(sequence.at(i));
    if (text.size() > (1u << 16)) r.charge(text.size() >> 8);  // the sum may grow far beyond each part
  }
  r.charge(text.size());
  return text;
}

TemplateValue apply_length(Renderer& r, const TemplateValue& value, const Bound&) { return r.iterate(value).size(); }

TemplateValue apply_default(Renderer&, const TemplateValue& value, const Bound& args) {
  return !is_undefined(value) ? value : args[0] ? *args[0] : TemplateValue("");
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
  if (args[0] && args[0]->kind() == Kind::String) margin = args[0]->as_string();
  else {
    std::int64_t width = std::max<std::int64_t>(0, integer_argument(r, args[0], 4, "the width of indent"));
    r.charge(static_cast<std::size_t>(width));
    margin.assign(static_cast<std::size_t>(width), ' ');
  }
  const bool first = args[1] && r.is_truthy(*args[1]);
  std::string whole = value.as_string() + "\n", text = first ? margin : "";
  auto lines = split_lines(whole);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += '\n';
    if (i > 0 && !lines[i].empty()) text += margin;
    text += lines[i];
    if (text.size() > (1u << 16)) r.charge(margin.size());
  }
  r.charge(text.size());
  return text;
}

constexpr Filter kFilters[] = {
    {"join", apply_join, "d"},
    {"length", apply_length},
    {"default", apply_default, "default_value"},
    {"indent", apply_indent, "width,first"},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto* row =
      std::find_if(std::begin(kFilters), std::end(kFilters), [&](const Filter& f) { return f.name == name; });
  return row == std::end(kFilters) ? nullptr : row;
}

std::string list_filters() {
  std::string names;
  for (const Filter& filter : kFilters) (names += names.empty() ? "" : " ") += filter.name;
  return names;
}

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
  if (bound.size() > params.size()) refuse("takes no more than " + std::to_string(params.size()) + " arguments");
  bound.resize(params.size());
  for (const auto& [name, value] : args.named) {
    auto at = std::find(params.begin(), params.end(), name);
    if (at == params.end()) refuse("has no argument '" + name + "'");
    const TemplateValue*& slot = bound[static_cast<std::size_t>(at - params.begin())];
    if (slot) refuse("got its argument '" + name + "' twice");
    slot = &value;
  }
  return bound;
}

}  // namespace qcg::tpl

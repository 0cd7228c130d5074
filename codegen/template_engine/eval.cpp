// Expressions.
#include <algorithm>

#include "codegen/template_engine/filters.h"
#include "codegen/template_engine/render.h"

namespace qcg::tpl {

using Kind = TemplateValue::Kind;

TemplateValue Renderer::eval(const Expr& e, const ScopePtr& scope) {
  Depth depth(*this, e.pos);
  switch (e.kind) {
    case Expr::Kind::Literal: return e.literal;
    case Expr::Kind::Name: return eval_name(e, *scope);
    case Expr::Kind::Call: return eval_call(e, scope);
    case Expr::Kind::Filter: return eval_filter(e, scope);
    case Expr::Kind::Not:
    case Expr::Kind::Negate:
    case Expr::Kind::Plus: return eval_unary(e, scope);
    case Expr::Kind::Arithmetic: return eval_arithmetic(e, scope);
    case Expr::Kind::Concat: return eval_concat(e, scope);
    case Expr::Kind::Compare: return eval_compare(e, scope);
    case Expr::Kind::And:
    case Expr::Kind::Or: return eval_logic(e, scope);
    case Expr::Kind::Conditional: return eval_conditional(e, scope);
    case Expr::Kind::Attribute:
    case Expr::Kind::Index:
    case Expr::Kind::List:
    case Expr::Kind::Tuple:
    case Expr::Kind::Dict: return eval_collection(e, scope);
  }
  return {};
}

TemplateValue Renderer::eval_name(const Expr& e, const Scope& scope) {
  if (auto* value = scope.find(e.name)) return *value;
  if (e.name == "range") return make_object(Builtin{Builtin::kRange});
  if (e.name == "namespace") return make_object(Builtin{Builtin::kNamespace});
  return make_object(Undefined{"'" + e.name + "' is undefined"});
}

TemplateValue Renderer::eval_unary(const Expr& e, const ScopePtr& scope) {
  TemplateValue value = eval(*e.args[0], scope);
  pos_ = e.pos;
  require_defined(value);
  if (e.kind == Expr::Kind::Not) return !is_truthy(value);
  bool negate = e.kind == Expr::Kind::Negate;
  if (value.kind() == Kind::Double) return negate ? -value.as_double() : value.as_double();
  auto i = as_integer(value);
  if (!i) fail_type("the sign of " + type_name(value) + " is not defined");
  return negate ? integer_arithmetic("-", 0, *i) : TemplateValue(*i);
}

TemplateValue Renderer::integer_arithmetic(const std::string& op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  if (op == "+") overflow = __builtin_add_overflow(a, b, &result);
  else if (op == "-") overflow = __builtin_sub_overflow(a, b, &result);
  else if (op == "*") overflow = __builtin_mul_overflow(a, b, &result);
  else if (b == 0) fail_type("division by zero");
  else if (b == -1) overflow = op == "//" && __builtin_sub_overflow(std::int64_t{0}, a, &result);
  else {
    std::int64_t quotient = a / b, rest = a % b;
    bool down = rest != 0 && (rest < 0) != (b < 0);  // Python rounds towards minus infinity
    result = op == "//" ? quotient - down : rest + (down ? b : 0);
  }
  if (overflow) fail("limit", "the result does not fit in 64 bits", "compute it before rendering and pass text");
  return result;
}

TemplateValue Renderer::eval_arithmetic(const Expr& e, const ScopePtr& scope) {
  TemplateValue a = eval(*e.args[0], scope), b = eval(*e.args[1], scope);
  pos_ = e.pos;
  require_defined(a);
  require_defined(b);
  auto ia = as_integer(a), ib = as_integer(b);
  if (ia && ib) return integer_arithmetic(e.name, *ia, *ib);
  if (e.name == "+" && a.kind() == Kind::String && b.kind() == Kind::String) {
    charge(a.as_string().size() + b.as_string().size());
    return a.as_string() + b.as_string();
  }
  if (e.name == "+" && a.kind() == Kind::List && b.kind() == Kind::List && a.is_tuple() == b.is_tuple()) {
    std::vector<TemplateValue> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return make_list(std::move(items), a.is_tuple());
  }
  if (e.name == "*" && ((a.kind() == Kind::String && ib) || (ia && b.kind() == Kind::String))) {
    const std::string& unit = ia ? b.as_string() : a.as_string();
    std::int64_t count = std::max<std::int64_t>(0, ia ? *ia : *ib);
    std::size_t size = 0;
    if (__builtin_mul_overflow(unit.size(), static_cast<std::size_t>(count), &size)) size = SIZE_MAX;
    charge(size);
    std::string text;
    if (!unit.empty())
      for (std::int64_t i = 0; i < count; ++i) text += unit;
    return text;
  }
  const char* help = "'~' joins anything as text";
  if (a.kind() == Kind::Double || b.kind() == Kind::Double)
    help = "templates compute with integers only: pass the number in";
  if (e.name == "%" && a.kind() == Kind::String) help = "templates do not format: pass the text in";
  fail_type("'" + e.name + "' is not defined between " + type_name(a) + " and " + type_name(b), help);
}

TemplateValue Renderer::eval_concat(const Expr& e, const ScopePtr& scope) {
  std::string text;
  for (const auto& arg : e.args) {
    TemplateValue value = eval(*arg, scope);
    pos_ = arg->pos;
    append(text, to_text(value));
  }
  return text;
}

// -1, 0 or 1.
int Renderer::order(const TemplateValue& a, const TemplateValue& b) {
  require_defined(a);
  require_defined(b);
  step();
  auto three_way = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  auto ia = as_integer(a), ib = as_integer(b);
  if (ia && ib) return three_way(*ia, *ib);
  auto na = as_number(a), nb = as_number(b);
  if (na && nb) return three_way(*na, *nb);
  if (a.kind() == Kind::String && b.kind() == Kind::String) return three_way(a.as_string(), b.as_string());
  if (a.kind() == Kind::List && b.kind() == Kind::List && a.is_tuple() == b.is_tuple()) {
    const auto &x = a.items(), &y = b.items();
    for (std::size_t i = 0; i < x.size() && i < y.size(); ++i)
      if (!is_equal(x[i], y[i])) return order(x[i], y[i]);
    return three_way(x.size(), y.size());
  }
  fail_type(type_name(a) + " and " + type_name(b) + " have no order");
}

bool Renderer::contains(const TemplateValue& container, const TemplateValue& item) {
  if (is_blank(container)) return false;
  require_defined(container);
  if (container.kind() == Kind::String) {
    if (item.kind() != Kind::String) fail_type("'in' a string needs a string, not " + type_name(item));
    charge(container.as_string().size());
    return container.as_string().find(item.as_string()) != std::string::npos;
  }
  if (container.kind() == Kind::Dict) {
    require_defined(item);
    return item.kind() == Kind::String && find_entry(container, item.as_string());
  }
  if (auto* range = get_object<Range>(container)) {
    require_defined(item);
    auto i = as_integer(item);
    if (!i) return false;
    bool inside = range->step > 0 ? range->start <= *i && *i < range->stop : range->stop < *i && *i <= range->start;
    return inside && (static_cast<__int128>(*i) - range->start) % range->step == 0;
  }
  if (container.kind() != Kind::List)
    fail_type(type_name(container) + " contains nothing: 'in' needs a list, dict or string");
  for (const auto& candidate : container.items())
    if (is_equal(candidate, item)) return true;
  return false;
}

bool Renderer::compare(const std::string& op, const TemplateValue& a, const TemplateValue& b) {
  if (op == "in") return contains(b, a);
  if (op == "not in") return !contains(b, a);
  if (op == "==") return is_equal(a, b);
  if (op == "!=") return !is_equal(a, b);
  if (op == "<") return order(a, b) < 0;
  if (op == "<=") return order(a, b) <= 0;
  if (op == ">") return order(a, b) > 0;
  return order(a, b) >= 0;
}

// a < b < c is (a < b) and (b < c) with b evaluated once.
TemplateValue Renderer::eval_compare(const Expr& e, const ScopePtr& scope) {
  TemplateValue left = eval(*e.args[0], scope);
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    TemplateValue right = eval(*e.args[i + 1], scope);
    pos_ = e.pos;
    if (!compare(e.ops[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

// As in Python the result is the operand that decided.
TemplateValue Renderer::eval_logic(const Expr& e, const ScopePtr& scope) {
  TemplateValue value;
  for (const auto& arg : e.args) {
    value = eval(*arg, scope);
    pos_ = arg->pos;
    if (arg != e.args.back() && is_truthy(value) == (e.kind == Expr::Kind::Or)) break;
  }
  return value;
}

TemplateValue Renderer::eval_conditional(const Expr& e, const ScopePtr& scope) {
  TemplateValue condition = eval(*e.args[0], scope);
  pos_ = e.args[0]->pos;
  if (is_truthy(condition)) return eval(*e.args[1], scope);
  if (e.args[2]) return eval(*e.args[2], scope);
  return make_object(Undefined{"the condition of this 'if' is false and there is no 'else'", true});
}

TemplateValue Renderer::eval_collection(const Expr& e, const ScopePtr& scope) {
  std::vector<TemplateValue> values;
  for (const auto& arg : e.args) values.push_back(eval(*arg, scope));
  pos_ = e.pos;
  if (e.kind == Expr::Kind::Attribute) return get_attribute(values[0], e.name);
  if (e.kind == Expr::Kind::Index) return get_item(values[0], values[1]);
  if (e.kind != Expr::Kind::Dict) return make_list(std::move(values), e.kind == Expr::Kind::Tuple);
  std::vector<TemplateValue::Entry> entries;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    require_defined(values[i]);
    if (values[i].kind() != Kind::String) fail_type("the keys of a dict are strings here, not " + type_name(values[i]));
    entries.emplace_back(values[i].as_string(), values[i + 1]);
  }
  return make_dict(std::move(entries));
}

Arguments Renderer::eval_arguments(const Expr& e, const ScopePtr& scope) {
  Arguments args;
  for (std::size_t i = 1; i < e.args.size(); ++i) args.positional.push_back(eval(*e.args[i], scope));
  for (const auto& [name, value] : e.named) args.named.emplace_back(name, eval(*value, scope));
  pos_ = e.pos;
  return args;
}

TemplateValue Renderer::eval_filter(const Expr& e, const ScopePtr& scope) {
  TemplateValue subject = eval(*e.args[0], scope);
  Arguments args = eval_arguments(e, scope);
  return e.filter->apply(*this, subject, bind_arguments(*this, *e.filter, args));
}

TemplateValue Renderer::eval_call(const Expr& e, const ScopePtr& scope) {
  TemplateValue callee = eval(*e.args[0], scope);
  Arguments args = eval_arguments(e, scope);
  require_defined(callee);
  if (auto* method = get_object<DictMethod>(callee)) return call_dict_method(*method, args);
  if (auto* builtin = get_object<Builtin>(callee))
    return builtin->which == Builtin::kRange ? call_range(args) : call_namespace(args);
  auto* macro = get_object<MacroValue>(callee);
  if (!macro) fail_type(type_name(callee) + " cannot be called");
  const Template* caller = here_;
  try {
    return call_macro(*macro, std::move(args));
  } catch (Failure& failure) {
    failure.add_trace("in the macro '" + macro->macro->name + "', called at " +
                      describe_position(caller->source, e.pos));
    throw;
  }
}

TemplateValue Renderer::call_macro(const MacroValue& m, Arguments args) {
  const auto& params = m.macro->params;
  if (args.positional.size() > params.size())
    fail_type("the macro '" + m.macro->name + "' takes no more than " + std::to_string(params.size()) + " arguments");
  for (const auto& given : args.named) {
    auto at = std::find_if(params.begin(), params.end(), [&](const auto& p) { return p.first == given.first; });
    if (at == params.end()) fail_type("the macro '" + m.macro->name + "' has no parameter '" + given.first + "'");
    if (static_cast<std::size_t>(at - params.begin()) < args.positional.size())
      fail_type("the macro '" + m.macro->name + "' got its parameter '" + given.first + "' twice");
  }
  const Template* caller = here_;
  std::size_t called_at = pos_;
  here_ = m.owner;
  auto inner = std::make_shared<Scope>(Scope{*m.scope});
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::string& name = params[i].first;
    const ExprPtr& fallback = params[i].second;
    auto at = std::find_if(args.named.begin(), args.named.end(), [&](const auto& a) { return a.first == name; });
    TemplateValue value;
    if (i < args.positional.size()) value = std::move(args.positional[i]);
    else if (at != args.named.end()) value = std::move(at->second);
    else if (fallback) value = eval(*fallback, inner);
    else value = make_object(Undefined{"the parameter '" + name + "' was not given"});
    inner->vars[name] = std::move(value);
  }
  std::string text;
  run(m.macro->body, inner, text);
  here_ = caller;
  pos_ = called_at;
  charge(text.size());
  return text;
}

TemplateValue Renderer::call_range(const Arguments& args) {
  std::size_t n = args.positional.size();
  if (!args.named.empty() || n < 1 || n > 3)
    fail_type("range() takes one to three numbers: range(stop) or range(start, stop, step)");
  std::int64_t v[3] = {0, 0, 1};
  for (std::size_t i = 0; i < n; ++i) {
    auto value = as_integer(args.positional[i]);
    if (!value) fail_type("range() takes integers, not " + type_name(args.positional[i]));
    v[n == 1 ? 1 : i] = *value;
  }
  if (v[2] == 0) fail_type("the step of range() is zero");
  return make_object(Range{v[0], v[1], v[2]});
}

TemplateValue Renderer::call_namespace(const Arguments& args) {
  std::vector<TemplateValue::Entry> attributes;
  if (args.positional.size() > 1) fail_type("namespace() takes one dict and named arguments");
  if (!args.positional.empty()) {
    if (args.positional[0].kind() != Kind::Dict)
      fail_type("namespace() takes a dict, not " + type_name(args.positional[0]));
    attributes = args.positional[0].entries();
  }
  attributes.insert(attributes.end(), args.named.begin(), args.named.end());
  namespaces_.push_back(make_dict(std::move(attributes)).entries());
  return make_object(NamespaceValue{&namespaces_.back()});
}

TemplateValue Renderer::call_dict_method(const DictMethod& m, const Arguments& args) {
  bool get = m.name == "get";
  std::size_t n = args.positional.size();
  if (!args.named.empty() || (get ? n < 1 || n > 2 : n != 0))
    fail_type(get ? "get() takes a key and optionally a default" : m.name + "() takes no arguments");
  if (m.name == "items") return dict_pairs(m.dict);
  if (get) {
    require_defined(args.positional[0]);
    const TemplateValue& key = args.positional[0];
    const TemplateValue* found = key.kind() == Kind::String ? find_entry(m.dict, key.as_string()) : nullptr;
    return found ? *found : n == 2 ? args.positional[1] : TemplateValue();
  }
  std::vector<TemplateValue> list;
  for (const auto& [key, value] : m.dict.entries()) list.push_back(m.name == "keys" ? TemplateValue(key) : value);
  return make_list(std::move(list));
}

}  // namespace qcg::tpl

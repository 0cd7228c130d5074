// Statements and scopes. As in Jinja: a loop iteration, a macro call and a block set have a scope of their own, `if`
// has not.
#include "codegen/template_engine/render.h"

namespace qcg::tpl {

const TemplateValue* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->parent.get()) {
    if (auto at = scope->vars.find(name); at != scope->vars.end()) return &at->second;
    if (scope->context)
      if (auto* value = scope->context->find(name)) return value;
  }
  return nullptr;
}

Renderer::Depth::Depth(Renderer& r, std::size_t pos) : renderer(r) {
  r.pos_ = pos;
  if (r.depth_ >= r.limits_.max_depth)
    r.fail("limit", "includes, macros and expressions are nested deeper than " + std::to_string(r.limits_.max_depth),
           "look for a macro or an include that calls itself");
  ++r.depth_;
  r.step();
}

std::string Renderer::render(const Template& root, const TemplateValue& context) {
  here_ = &root;
  auto scope = std::make_shared<Scope>(Scope{nullptr, &context});
  std::string out;
  run(root.body, scope, out);
  return out;
}

void Renderer::append(std::string& out, std::string_view text) {
  if (text.size() > limits_.max_output - out.size()) charge(limits_.max_output + 1);
  out += text;
}

void Renderer::run(const Block& block, const ScopePtr& scope, std::string& out) {
  for (const auto& statement : block) run_statement(statement, scope, out);
}

void Renderer::run_statement(const Statement& s, const ScopePtr& scope, std::string& out) {
  if (auto* text = std::get_if<TextStatement>(&s.node)) return append(out, text->text);
  Depth depth(*this, s.pos);
  if (auto* output = std::get_if<OutputStatement>(&s.node)) {
    TemplateValue value = eval(*output->value, scope);
    pos_ = output->value->pos;
    append(out, to_text(value));
  } else if (auto* loop = std::get_if<ForStatement>(&s.node)) {
    run_for(*loop, scope, out);
  } else if (auto* branch = std::get_if<IfStatement>(&s.node)) {
    run_if(*branch, scope, out);
  } else if (auto* set = std::get_if<SetStatement>(&s.node)) {
    run_set(*set, scope);
  } else if (auto* macro = std::get_if<MacroStatement>(&s.node)) {
    run_macro(*macro, scope);
  } else if (auto* include = std::get_if<IncludeStatement>(&s.node)) {
    run_include(s, *include, scope, out);
  } else {
    run_import(s, std::get<ImportStatement>(s.node), scope);
  }
}

void Renderer::run_for(const ForStatement& s, const ScopePtr& scope, std::string& out) {
  TemplateValue over = eval(*s.sequence, scope);
  pos_ = s.sequence->pos;
  Sequence sequence = iterate(over);
  if (s.filter) {
    std::vector<TemplateValue> kept;
    for (std::int64_t i = 0; i < sequence.size(); ++i) {
      auto inner = std::make_shared<Scope>(Scope{scope});
      assign(s.target, sequence.at(i), *inner);
      if (is_truthy(eval(*s.filter, inner))) kept.push_back(sequence.at(i));
    }
    sequence = Sequence(TemplateValue::from_items(std::move(kept)));
  }
  ScopePtr inner;
  for (std::int64_t i = 0; i < sequence.size(); ++i) {
    step();
    if (inner.use_count() == 1) inner->vars.clear();  // nothing kept the last iteration's scope
    else inner = std::make_shared<Scope>(Scope{scope});
    inner->vars["loop"] = make_object(Loop{i, sequence.size()});
    assign(s.target, sequence.at(i), *inner);
    run(s.body, inner, out);
  }
  if (sequence.size() == 0) run(s.otherwise, std::make_shared<Scope>(Scope{scope}), out);
}

void Renderer::run_if(const IfStatement& s, const ScopePtr& scope, std::string& out) {
  for (const auto& [condition, block] : s.branches) {
    TemplateValue value = eval(*condition, scope);
    pos_ = condition->pos;
    if (is_truthy(value)) return run(block, scope, out);
  }
  run(s.otherwise, scope, out);
}

void Renderer::run_set(const SetStatement& s, const ScopePtr& scope) {
  TemplateValue value;
  if (s.value) {
    value = eval(*s.value, scope);
  } else {
    std::string text;
    run(s.body, std::make_shared<Scope>(Scope{scope}), text);
    charge(text.size());
    value = std::move(text);
  }
  assign(s.target, std::move(value), *scope);
}

void Renderer::assign(const Target& target, TemplateValue value, Scope& scope) {
  pos_ = target.pos;
  if (!target.attribute.empty()) {
    const TemplateValue* object = scope.find(target.name);
    auto* ns = object ? get_object<NamespaceValue>(*object) : nullptr;
    if (!ns)
      fail_type("'" + target.name + "' is no namespace, so its attributes cannot be set",
                "make it with <% set " + target.name + " = namespace() %>");
    if (value.nesting() > 100) fail("limit", "values are nested deeper than 100 levels");
    charge(ns->attributes->size());
    for (auto& [key, old] : *ns->attributes)
      if (key == target.attribute) return void(old = std::move(value));
    ns->attributes->emplace_back(target.attribute, std::move(value));
    return;
  }
  if (!target.is_tuple) return void(scope.vars[target.name] = std::move(value));
  Sequence parts = iterate(value);
  if (parts.size() != static_cast<std::int64_t>(target.parts.size()))
    fail_type(std::to_string(parts.size()) + " values cannot be unpacked into " + std::to_string(target.parts.size()) +
                  " names",
              "give each item as many parts as there are names");
  for (std::size_t i = 0; i < target.parts.size(); ++i)
    assign(target.parts[i], parts.at(static_cast<std::int64_t>(i)), scope);
}

void Renderer::run_macro(const MacroStatement& s, const ScopePtr& scope) {
  // The scope outlives this call for the macro's sake; the macro only points at it, so there is no cycle of owners.
  if (macro_scopes_.empty() || macro_scopes_.back() != scope) macro_scopes_.push_back(scope);
  scope->vars[s.name] = make_object(MacroValue{&s, here_, &macro_scopes_.back()});
}

// Loads the template that `name` gives and runs it; what it defines is left in `inner`.
void Renderer::run_template(const Statement& at, const Expr& name, const ScopePtr& scope, const ScopePtr& inner,
                            std::string& out) {
  TemplateValue value = eval(name, scope);
  pos_ = name.pos;
  require_defined(value);
  if (value.kind() != TemplateValue::Kind::String) fail_type("a template name is a string, not " + type_name(value));
  std::shared_ptr<const Template> loaded;
  try {
    loaded = load_(value.as_string());
  } catch (const Error& error) {
    fail("missing", "cannot load the template '" + value.as_string() + "': " + error.message, error.help);
  }
  templates_.push_back(loaded);  // its macros may be called later
  const Template* from = here_;
  here_ = loaded.get();
  try {
    run(loaded->body, inner, out);
  } catch (Failure& failure) {
    failure.add_trace("in '" + loaded->source.name + "', used at " + describe_position(from->source, at.pos));
    throw;
  }
  here_ = from;
}

void Renderer::run_include(const Statement& at, const IncludeStatement& s, const ScopePtr& scope, std::string& out) {
  auto inner = std::make_shared<Scope>(Scope{s.with_context ? scope : nullptr});
  run_template(at, *s.name, scope, inner, out);
}

void Renderer::run_import(const Statement& at, const ImportStatement& s, const ScopePtr& scope) {
  auto module = std::make_shared<Scope>(Scope{s.with_context ? scope : nullptr});
  std::string unused;
  run_template(at, *s.name, scope, module, unused);
  pos_ = at.pos;
  if (!s.module.empty()) return void(scope->vars[s.module] = make_dict({module->vars.begin(), module->vars.end()}));
  for (const auto& [name, alias] : s.names) {
    auto at = module->vars.find(name);
    scope->vars[alias] = at != module->vars.end()
                             ? at->second
                             : make_object(Undefined{"the imported template does not define '" + name + "'"});
  }
}

}  // namespace qcg::tpl

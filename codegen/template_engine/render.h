// The renderer: walks a parsed template and prints it.
//
// Why here: private to the engine. One Renderer lives for one render and owns what a template makes (namespaces, and
// the scopes that macros were defined in), so that cycles among those cannot leak: values point into it, never own it.
//
//   Renderer renderer(load, limits);
//   std::string text = renderer.render(*parsed, context);   // throws Failure
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/template_engine/ast.h"
#include "codegen/template_engine/template_engine.h"

namespace qcg::tpl {

// Names visible at one point: a chain of these, then the context, then the built-in functions.
struct Scope {
  std::shared_ptr<Scope> parent;
  const TemplateValue* context = nullptr;  // set on the outermost scope only
  std::map<std::string, TemplateValue, std::less<>> vars = {};

  const TemplateValue* find(std::string_view name) const;
};

struct Undefined {
  std::string message;
  bool blank = false;  // of `a if c` without else: prints as nothing, is false and empty, as in jinja2 even when strict
};
struct Range {
  std::int64_t start, stop, step;
  std::int64_t size() const;
};
struct Loop {
  std::int64_t index0, length;
};
struct MacroValue {
  const MacroStatement* macro;
  const Template* owner;
  std::shared_ptr<Scope>* scope;
};
struct NamespaceValue {
  std::vector<TemplateValue::Entry>* attributes;
};
struct Builtin {
  enum { kRange, kNamespace } which;
};
struct DictMethod {
  std::string name;
  TemplateValue dict;
};

struct Object {
  std::variant<Undefined, Range, Loop, MacroValue, NamespaceValue, Builtin, DictMethod> v;
};

template <class T>
const T* get_object(const TemplateValue& value) {
  return value.kind() == TemplateValue::Kind::Object ? std::get_if<T>(&value.object().v) : nullptr;
}
template <class T>
TemplateValue make_object(T v) {
  return TemplateValue(std::make_shared<const Object>(Object{std::move(v)}));
}
inline bool is_undefined(const TemplateValue& value) { return get_object<Undefined>(value) != nullptr; }
inline bool is_blank(const TemplateValue& value) {
  auto* undefined = get_object<Undefined>(value);
  return undefined && undefined->blank;
}

struct Arguments {
  std::vector<TemplateValue> positional;
  std::vector<TemplateValue::Entry> named;
};

// What can be iterated: list, tuple, range, the characters of a string, the keys of a dict.
class Sequence {
 public:
  explicit Sequence(TemplateValue owner);
  bool valid() const { return valid_; }
  std::int64_t size() const { return size_; }
  TemplateValue at(std::int64_t i) const;

 private:
  TemplateValue owner_;
  std::vector<TemplateValue> made_;  // of strings and dicts
  std::int64_t size_ = 0;
  bool valid_ = true;
};

class Renderer {
 public:
  using Load = std::function<std::shared_ptr<const Template>(std::string_view name)>;  // throws Error or Failure
  Renderer(Load load, const TemplateLimits& limits) : load_(std::move(load)), limits_(limits) {}
  std::string render(const Template& root, const TemplateValue& context);

  // For filters; errors point at the expression being applied.
  [[noreturn]] void fail(const char* kind, std::string message, std::string help = {}) const;
  [[noreturn]] void fail_type(std::string message, std::string help = {}) const { fail("type", message, help); }
  void require_defined(const TemplateValue& value) const;
  void charge(std::size_t bytes);  // counts text or items about to be made
  Sequence iterate(const TemplateValue& value);
  std::string to_text(const TemplateValue& value);  // what printing it gives
  bool is_truthy(const TemplateValue& value) const;
  bool is_equal(const TemplateValue& a, const TemplateValue& b);
  bool contains(const TemplateValue& container, const TemplateValue& item);
  TemplateValue get_attribute(const TemplateValue& value, const std::string& name);
  TemplateValue get_item(const TemplateValue& value, const TemplateValue& key);
  TemplateValue make_list(std::vector<TemplateValue> items, bool tuple = false);
  TemplateValue make_dict(std::vector<TemplateValue::Entry> entries);
  TemplateValue dict_pairs(const TemplateValue& dict);
  const TemplateValue* find_entry(const TemplateValue& dict,
                                  std::string_view key);  // as find(), and pays for the search

 private:
  using ScopePtr = std::shared_ptr<Scope>;
  struct Depth {
    Depth(Renderer& r, std::size_t pos);
    ~Depth() { --renderer.depth_; }
    Renderer& renderer;
  };

  // render.cpp: statements
  void run(const Block& block, const ScopePtr& scope, std::string& out);
  void run_statement(const Statement& s, const ScopePtr& scope, std::string& out);
  void run_for(const ForStatement& s, const ScopePtr& scope, std::string& out);
  void run_if(const IfStatement& s, const ScopePtr& scope, std::string& out);
  void run_set(const SetStatement& s, const ScopePtr& scope);
  void run_macro(const MacroStatement& s, const ScopePtr& scope);
  void run_include(const Statement& at, const IncludeStatement& s, const ScopePtr& scope, std::string& out);
  void run_import(const Statement& at, const ImportStatement& s, const ScopePtr& scope);
  void run_template(const Statement& at, const Expr& name, const ScopePtr& scope, const ScopePtr& inner,
                    std::string& out);
  void assign(const Target& target, TemplateValue value, Scope& scope);
  void append(std::string& out, std::string_view text);

  // eval.cpp: expressions
  TemplateValue eval(const Expr& e, const ScopePtr& scope);
  TemplateValue eval_name(const Expr& e, const Scope& scope);
  TemplateValue eval_unary(const Expr& e, const ScopePtr& scope);
  TemplateValue eval_arithmetic(const Expr& e, const ScopePtr& scope);
  TemplateValue eval_concat(const Expr& e, const ScopePtr& scope);
  TemplateValue eval_compare(const Expr& e, const ScopePtr& scope);
  TemplateValue eval_logic(const Expr& e, const ScopePtr& scope);
  TemplateValue eval_conditional(const Expr& e, const ScopePtr& scope);
  TemplateValue eval_collection(const Expr& e, const ScopePtr& scope);
  TemplateValue eval_call(const Expr& e, const ScopePtr& scope);
  TemplateValue eval_filter(const Expr& e, const ScopePtr& scope);
  Arguments eval_arguments(const Expr& e, const ScopePtr& scope);
  bool compare(const std::string& op, const TemplateValue& a, const TemplateValue& b);
  int order(const TemplateValue& a, const TemplateValue& b);
  TemplateValue integer_arithmetic(const std::string& op, std::int64_t a, std::int64_t b);
  TemplateValue call_macro(const MacroValue& m, Arguments args);
  TemplateValue call_range(const Arguments& args);
  TemplateValue call_namespace(const Arguments& args);
  TemplateValue call_dict_method(const DictMethod& m, const Arguments& args);

  // values.cpp: values
  void write_text(const TemplateValue& value, bool quoted, std::string& out);
  void step();

  Load load_;
  const TemplateLimits& limits_;
  const Template* here_ = nullptr;  // the template and the offset being worked on, for errors
  std::size_t pos_ = 0;
  std::size_t steps_ = 0;
  int depth_ = 0;
  std::deque<std::vector<TemplateValue::Entry>> namespaces_;
  std::deque<ScopePtr> macro_scopes_;
  std::vector<std::shared_ptr<const Template>> templates_;  // alive as long as macros from them may be called
};

std::string type_name(const TemplateValue& value);  // as Python calls it
// The value as an integer where Python would take it as one: int or bool.
std::optional<std::int64_t> as_integer(const TemplateValue& value);
std::optional<double> as_number(const TemplateValue& value);
std::vector<std::string_view> split_characters(std::string_view utf8);

}  // namespace qcg::tpl

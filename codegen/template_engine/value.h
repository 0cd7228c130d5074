// TemplateValue: what a template can see. None, bool, integer, double, string, list, dict (ordered).
//
// Why here: the renderers of kernel families turn (problem, schedule) into one of these and nothing else, so that
// templates get numbers and never compute; the engine stays free of any JSON library. Copies are cheap (lists and dicts
// are shared and copied on write).
//
//   auto v = TemplateValue::dict({{"mr", 8}, {"isa", "avx2"}});
//   v["rows"].push_back(0);                       // None becomes a list (or a dict) at its first use as one
//   v["tile"] = TemplateValue::dict({{"nr", 16}});
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace qcg {

namespace tpl {
struct Object;  // what only a template can make: macros, namespaces, ranges, undefined
}

class TemplateValue {
 public:
  enum class Kind { None, Bool, Int, Double, String, List, Dict, Object };
  using Entry = std::pair<std::string, TemplateValue>;

  TemplateValue() = default;
  TemplateValue(std::nullptr_t) {}
  template <std::same_as<bool> T>  // not plain bool: a pointer would convert to it in silence
  TemplateValue(T v) : v_(v) {}
  // An unsigned value above the int64 range becomes its decimal text: it prints right and refuses arithmetic.
  template <std::integral T>
  requires(!std::same_as<T, bool>) TemplateValue(T v) {
    if (std::in_range<std::int64_t>(v)) v_ = static_cast<std::int64_t>(v);
    else v_ = std::to_string(v);
  }
  TemplateValue(double v) : v_(v) {}
  TemplateValue(const char* v) : v_(std::string(v)) {}
  TemplateValue(std::string_view v) : v_(std::string(v)) {}
  TemplateValue(std::string v) : v_(std::move(v)) {}
  template <class T>
  TemplateValue(const std::vector<T>& items)
      : TemplateValue(from_items(std::vector<TemplateValue>(items.begin(), items.end()))) {}
  explicit TemplateValue(std::shared_ptr<const tpl::Object> object) : v_(std::move(object)) {}

  static TemplateValue list(std::initializer_list<TemplateValue> items = {}) { return from_items(items); }
  static TemplateValue dict(std::initializer_list<Entry> entries = {}) { return from_entries(entries); }
  static TemplateValue from_items(std::vector<TemplateValue> items, bool tuple = false);
  static TemplateValue from_entries(std::vector<Entry> entries);  // the last of two equal keys wins

  // Entry of a dict, made if absent. Must be a dict or None; anything else is a programming error and becomes a dict.
  TemplateValue& operator[](std::string_view key);
  // Must be a list or None, as above.
  void push_back(TemplateValue item);

  Kind kind() const { return static_cast<Kind>(v_.index()); }
  bool is_none() const { return kind() == Kind::None; }
  bool is_tuple() const;  // a list that prints as (a, b); only templates make them

  // Each may be called only for its own kind.
  bool as_bool() const { return *std::get_if<bool>(&v_); }
  std::int64_t as_int() const { return *std::get_if<std::int64_t>(&v_); }
  double as_double() const { return *std::get_if<double>(&v_); }
  const std::string& as_string() const { return *std::get_if<std::string>(&v_); }
  const std::vector<TemplateValue>& items() const;
  const std::vector<Entry>& entries() const;
  const tpl::Object& object() const { return **std::get_if<std::shared_ptr<const tpl::Object>>(&v_); }

  const TemplateValue* find(std::string_view key) const;  // null where this is no dict or has no such key
  int nesting() const;  // levels of lists and dicts inside, as they were when each was made; bounds every recursion

 private:
  struct List;
  struct Dict;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, std::shared_ptr<List>, std::shared_ptr<Dict>,
               std::shared_ptr<const tpl::Object>>
      v_;
};

struct TemplateValue::List {
  std::vector<TemplateValue> items;
  bool tuple = false;
  int nesting = 1;
};

struct TemplateValue::Dict {
  std::vector<Entry> entries;
  int nesting = 1;
};

}  // namespace qcg

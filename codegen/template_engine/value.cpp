#include "codegen/template_engine/value.h"

#include <algorithm>
#include <map>

namespace qcg {

TemplateValue TemplateValue::from_items(std::vector<TemplateValue> items, bool tuple) {
  auto list = std::make_shared<List>();
  for (const auto& item : items) list->nesting = std::max(list->nesting, item.nesting() + 1);
  list->items = std::move(items);
  list->tuple = tuple;
  TemplateValue value;
  value.v_ = std::move(list);
  return value;
}

TemplateValue TemplateValue::from_entries(std::vector<Entry> entries) {
  auto dict = std::make_shared<Dict>();
  std::map<std::string_view, std::size_t> at;  // views into `entries`, which keeps its strings in place
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    dict->nesting = std::max(dict->nesting, entries[i].second.nesting() + 1);
    auto [it, fresh] = at.emplace(entries[i].first, i);
    if (fresh) order.push_back(i);
    else entries[it->second].second = std::move(entries[i].second);
  }
  for (std::size_t i : order) dict->entries.push_back(std::move(entries[i]));
  TemplateValue value;
  value.v_ = std::move(dict);
  return value;
}

TemplateValue& TemplateValue::operator[](std::string_view key) {
  if (kind() != Kind::Dict) *this = dict();
  auto& dict = std::get<std::shared_ptr<Dict>>(v_);
  if (dict.use_count() > 1) dict = std::make_shared<Dict>(*dict);
  for (auto& [name, value] : dict->entries)
    if (name == key) return value;
  return dict->entries.emplace_back(std::string(key), TemplateValue()).second;
}

void TemplateValue::push_back(TemplateValue item) {
  if (kind() != Kind::List) *this = list();
  auto& list = std::get<std::shared_ptr<List>>(v_);
  if (list.use_count() > 1) list = std::make_shared<List>(*list);
  list->nesting = std::max(list->nesting, item.nesting() + 1);
  list->items.push_back(std::move(item));
}

bool TemplateValue::is_tuple() const {
  auto* list = std::get_if<std::shared_ptr<List>>(&v_);
  return list && (*list)->tuple;
}

const std::vector<TemplateValue>& TemplateValue::items() const {
  return (*std::get_if<std::shared_ptr<List>>(&v_))->items;
}

const std::vector<TemplateValue::Entry>& TemplateValue::entries() const {
  return (*std::get_if<std::shared_ptr<Dict>>(&v_))->entries;
}

const TemplateValue* TemplateValue::find(std::string_view key) const {
  if (kind() != Kind::Dict) return nullptr;
  for (const auto& [name, value] : entries())
    if (name == key) return &value;
  return nullptr;
}

int TemplateValue::nesting() const {
  if (auto* list = std::get_if<std::shared_ptr<List>>(&v_)) return (*list)->nesting;
  if (auto* dict = std::get_if<std::shared_ptr<Dict>>(&v_)) return (*dict)->nesting;
  return 0;
}

}  // namespace qcg

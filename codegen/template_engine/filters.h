// Filters (`x|join(", ")`) and tests (`x is defined`): two tables.
//
// Why here: the parser refuses unknown names with the list of known ones; the renderer binds arguments by the row.
//
//   const Filter* f = find_filter("join");   // null where there is none
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/template_engine/render.h"

namespace qcg::tpl {

// Arguments bound to the parameters of the row, null where absent. With `variadic` just the positional ones.
using Bound = std::vector<const TemplateValue*>;

struct Filter {
  std::string_view name;
  TemplateValue (*apply)(Renderer&, const TemplateValue& value, const Bound& args);
  std::string_view params = "";  // comma-separated names
  std::size_t required = 0;
  bool variadic = false;
};

struct Test {
  std::string_view name;
  bool (*holds)(Renderer&, const TemplateValue& value, const TemplateValue* argument);
  bool takes_argument = false;
};

const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
std::string list_filters();
std::string list_tests();

// Points `bound` into `args`; a type failure where they do not fit the row.
Bound bind_arguments(const Renderer& renderer, const Filter& filter, const Arguments& args);

}  // namespace qcg::tpl

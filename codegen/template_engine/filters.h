// Filters, such as `x|join(", ")`: those that templates use, in one table.
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

// Arguments bound to the parameters of the row, null where absent.
using Bound = std::vector<const TemplateValue*>;

struct Filter {
  std::string_view name;
  TemplateValue (*apply)(Renderer&, const TemplateValue& value, const Bound& args);
  std::string_view params = "";  // comma-separated names
};

const Filter* find_filter(std::string_view name);
std::string list_filters();

// Points `bound` into `args`; a type failure where they do not fit the row.
Bound bind_arguments(const Renderer& renderer, const Filter& filter, const Arguments& args);

}  // namespace qcg::tpl

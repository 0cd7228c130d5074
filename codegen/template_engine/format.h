// Numbers to and from text as Python does it: the filters `int` and `format`.
//
// Why here: apart from the table of filters because the rules are Python's and long; private to the engine.
//
//   parse_integer(" 0x1F ", 16).value == 31;   "0x%02X"|format(10) == "0x0A"
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "codegen/template_engine/filters.h"

namespace qcg::tpl {

struct ParsedInteger {
  std::optional<std::int64_t> value;  // absent where the text is no integer
  bool overflow = false;              // it is one, but beyond 64 bits
};

ParsedInteger parse_integer(std::string_view text, int base);  // Python's int(text, base)
std::optional<double> parse_double(std::string_view text);     // Python's float(text)

// printf-style: %d %i %u %x %X %o %c %s %r %f %F %e %E %g %G %% with flags, width and precision.
TemplateValue apply_format(Renderer& r, const TemplateValue& value, const Bound& args);

}  // namespace qcg::tpl

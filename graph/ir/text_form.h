// The lexical rules that the printer and the parser of the IR text form share.
//
// Why here: what one side quotes the other has to unquote, so both take it from one place.
//
//   quote_text("a \"b\"") == "\"a \\\"b\\\""      names of [A-Za-z0-9_.] print bare, all others quoted: %x, @"odd name"
#pragma once

#include <string>
#include <string_view>

namespace qcg {

constexpr bool is_bare_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// In double quotes; \" and \\ and, for control characters, \xHH.
std::string quote_text(std::string_view text);

}  // namespace qcg

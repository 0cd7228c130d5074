// render_template: one engine over the embedded templates, shared by every renderer.
//
// Why here: renderers differ in what they compute, not in how text comes out of templates/.
//
//   return render_template("cpu/loop.cpp.j2", context);
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/template_engine/value.h"

namespace qcg {

// Error Internal: no template reads a key of the context, which is misspelled or dead. `shares`: other templates that get
// the same context.
Result<std::string> render_template(std::string_view name, const TemplateValue& context,
                                    std::initializer_list<std::string_view> shares = {});

// A float as C++ and CUDA source, shortest text that reads back the same: "1.5f", "1e-05f", "__builtin_inff()".
std::string float_literal(double value);
// Makes text from a file safe inside a comment: printable ASCII on one line, no "*/", no backslash at the end.
std::string sanitize_comment(std::string_view text);
// The lines of a text, each made safe for a // comment; an empty line comes before them, if there are any.
TemplateValue comment_lines(std::string_view text);

}  // namespace qcg
